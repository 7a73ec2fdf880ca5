package eval

import (
	"context"
	"fmt"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// planned has a manifest: planning reads no more.
type planned struct {
	Source
	m *store.Manifest
}

func (p planned) Manifest() *store.Manifest { return p.m }

// Where nobody bounds an evaluation, the tiles of a large graph take no more than its rows and edges; a small one is one tile.
// What tiles would round is one up to 4 GiB. States of many nodes lie in a file.
func TestUnboundedTiles(t *testing.T) {
	dev := host.New(host.Options{Threads: 1})
	defer dev.Close()
	for _, c := range []struct {
		model  string
		ofEdge int // features
		nodes  uint64
		tiles  int
		memory bool
	}{{"sage", 0, 2_000_000, 2, true}, {"sage", 0, 100_000, 1, true}, {"gat", 0, 2_000_000, 2, true}, {"gat", 1, 2_000_000, 1, true}, {"sage", 0, 8_000_000, 2, false}} {
		m := &store.Manifest{Nodes: c.nodes, Edges: 15 * c.nodes}
		m.Columns = []store.ColumnInfo{{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 128},
			{Name: "w", Role: store.RoleWeight, Elem: blocks.Float32, Dim: 1}}
		const parts = 16
		for p := range uint64(parts) {
			m.Partitions = append(m.Partitions, store.PartitionInfo{First: store.NodeID(p * c.nodes / parts), Nodes: c.nodes / parts, Edges: m.Edges / parts})
		}
		o := Options{Unlabelled: true, Features: []string{"x"}, Model: nn.Config{Model: c.model, Layers: 2, In: 128, Hidden: 128, Out: 16, EdgeDim: c.ofEdge}}
		if c.ofEdge > 0 {
			o.EdgeFeatures = []string{"w"}
		}
		e, err := New(planned{m: m}, dev, o, 128)
		if err != nil {
			t.Fatal(err)
		}
		if e.Tiles() != c.tiles || e.memory != c.memory {
			t.Errorf("%s with %d features of edges, of %d nodes: %d tiles, states in memory: %v; expected %d, %v", c.model, c.ofEdge, c.nodes, e.Tiles(), e.memory, c.tiles, c.memory)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPiecesMakeFewerTiles: a bounded evaluation holds a tile's sums and pieces of its sources, not whole tiles of both, and less than
// any whole tile takes is enough.
func TestPiecesMakeFewerTiles(t *testing.T) {
	dev := host.New(host.Options{Threads: 1})
	defer dev.Close()
	const parts, nodes = 128, 1_000_000
	m := &store.Manifest{Nodes: nodes, Edges: 5 * nodes}
	m.Columns = []store.ColumnInfo{{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 256}}
	for p := range uint64(parts) {
		m.Partitions = append(m.Partitions, store.PartitionInfo{First: store.NodeID(p * nodes / parts), Nodes: nodes / parts, Edges: m.Edges / parts})
	}
	e, err := New(planned{m: m}, dev, Options{Unlabelled: true, Features: []string{"x"}, MemoryBytes: 272 << 20, Model: nn.Config{Model: "sage", Layers: 2, In: 256, Hidden: 128, Out: 16}}, 128)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	// 1,024 bytes of sums a node and 20 of edges, twice; 16 MiB each for a piece and for layers that finish.
	if e.Tiles() > 5 || e.pieceNodes == 0 {
		t.Errorf("%d tiles, pieces of %d nodes, expected 5 tiles in pieces: sums alone are 3.6 times the memory", e.Tiles(), e.pieceNodes)
	}
	// Another piece is read ahead where it fits, and is no reason to refuse a budget.
	if !e.aheads {
		t.Error("no piece is read ahead, for which there are 16 MiB")
	}
	// A larger piece takes what tiles leave, until there are few.
	grew := 0
	for memory := int64(272 << 20); memory < 1<<30; memory += 8 << 20 {
		if err := e.Rebound(memory); err != nil {
			t.Fatal(err)
		}
		if e.pieceNodes > e.smallPiece {
			grew++
		}
		if e.pieceNodes > 0 && e.pieceNodes >= 4*max(e.smallPiece, nodes/piecesEnough) {
			t.Errorf("within %d bytes: pieces of %d nodes are larger than they need to be", memory, e.pieceNodes)
		}
	}
	if grew < 20 {
		t.Errorf("of 94 budgets %d have room for a larger piece", grew)
	}
	if err := e.Rebound(e.LeastBytes()); err != nil || e.aheads {
		t.Errorf("within the least memory: a piece is read ahead %v, %v", e.aheads, err)
	}
	if err := e.Rebound(4 << 30); err != nil || e.Tiles() != 1 || e.pieceNodes != 0 {
		t.Errorf("within 4 GiB %d tiles, pieces of %d nodes, %v: expected one, whole", e.Tiles(), e.pieceNodes, err)
	}
}

// reading is a graph that tells before a column is read.
type reading struct {
	*evaltest.Graph
	column func(name string)
}

func (r reading) ReadColumn(ctx context.Context, name string, p store.PartitionID, dst []byte) ([]byte, error) {
	r.column(name)
	return r.Graph.ReadColumn(ctx, name, p, dst)
}

// A tile's features and its states from a file are never there together: the account counts the larger alone.
func TestFeaturesOrStates(t *testing.T) {
	g := evaltest.Random(t, 200, 4, true)
	dev, q, m := untrained(t, 1, nn.Config{Model: "sage", Layers: 2, In: g.Dim, Hidden: 8, Out: g.M.Schema.Classes})
	var e *Evaluator
	var err error
	features := 0
	if e, err = New(reading{g, func(name string) {
		if name != "x" {
			return
		}
		if features++; e.state != nil {
			t.Error("features are read while states have memory")
		}
	}}, dev, Options{Features: []string{"x"}, Model: m.Config()}, 8); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	e.tiles, e.memory = tilesOf(g.M.Partitions, 2), false
	for pass := range 2 {
		before := features
		if _, err := e.Run(t.Context(), q, m, "valid"); err != nil {
			t.Fatal(err)
		}
		if features == before || e.features != nil || e.state == nil {
			t.Errorf("pass %d: %d reads of features, whose memory is there: %v, that of states: %v", pass+1, features-before, e.features != nil, e.state != nil)
		}
	}
}

// TestSmallBudgetsOfRelations: what a small budget leaves of relations' messages at a time is a part of it, so that small budgets work, a
// tile has more than a partition in them, and the bits are those without a bound.
func TestSmallBudgetsOfRelations(t *testing.T) {
	g := evaltest.Random(t, 3000, 60, true)
	cfg := nn.Config{Model: "rsage", Layers: 2, In: g.Dim, Hidden: 64, Out: g.M.Schema.Classes, Relations: evaltest.Relations}
	dev, q, m := untrained(t, 2, cfg)
	run := func(memory int64) (*Evaluator, string) {
		t.Helper()
		e, err := New(g, dev, Options{Features: []string{"x"}, Model: cfg, MemoryBytes: memory}, cfg.Hidden)
		if err != nil {
			t.Fatal(err)
		}
		metrics, err := e.Run(t.Context(), q, m, "train", "valid", "test")
		if err != nil {
			t.Fatal(err)
		}
		return e, fmt.Sprint(metrics[0].Loss, metrics[1].Loss, metrics[2].Loss)
	}
	whole, want := run(0)
	least := whole.LeastBytes()
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	if least > 4<<20 {
		t.Errorf("the smallest budget is %d bytes, expected at most 4 MiB", least)
	}
	for _, c := range []struct {
		memory int64
		tiles  int // at most
	}{{least, 61}, {2 * least, 12}, {34 << 20, 1}} {
		e, got := run(c.memory)
		if got != want || e.Tiles() > c.tiles {
			t.Errorf("within %d bytes: %d tiles, expected at most %d; losses %s, expected %s", c.memory, e.Tiles(), c.tiles, got, want)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
