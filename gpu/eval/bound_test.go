package eval

import (
	"testing"

	"github.com/gstore/gstore/blocks"
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

// Where nobody bounds an evaluation, the tiles of a large graph take no more than its rows and edges; a small one is one tile,
// and so is what tiles would round.
func TestUnboundedTiles(t *testing.T) {
	dev := host.New(host.Options{Threads: 1})
	defer dev.Close()
	for _, c := range []struct {
		model string
		nodes uint64
		tiles int
	}{{"sage", 2_000_000, 2}, {"sage", 100_000, 1}, {"gat", 2_000_000, 1}} {
		m := &store.Manifest{Nodes: c.nodes, Edges: 15 * c.nodes}
		m.Columns = []store.ColumnInfo{{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 128}}
		const parts = 16
		for p := range uint64(parts) {
			m.Partitions = append(m.Partitions, store.PartitionInfo{First: store.NodeID(p * c.nodes / parts), Nodes: c.nodes / parts, Edges: m.Edges / parts})
		}
		e, err := New(planned{m: m}, dev, Options{Unlabelled: true, Features: []string{"x"}, Model: nn.Config{Model: c.model, Layers: 2, In: 128, Hidden: 128, Out: 16}}, 128)
		if err != nil {
			t.Fatal(err)
		}
		if e.Tiles() != c.tiles || !e.memory {
			t.Errorf("%s of %d nodes: %d tiles, states in memory: %v; expected %d, in memory", c.model, c.nodes, e.Tiles(), e.memory, c.tiles)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
