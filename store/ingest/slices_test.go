package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// Example: a graph of three nodes that a program has in memory.
func ExampleFromSlices() {
	dir, err := os.MkdirTemp("", "gstore-example-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	x := []float32{0, 1, 2, 3, 4, 5}
	src, err := ingest.FromSlices(&ingest.Slices{
		Src: []uint64{0, 1}, Dst: []uint64{1, 2}, Names: []string{"ann", "bob", "cid"},
		NodeColumns: []ingest.SliceColumn{{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 2, Data: blocks.Bytes(x)}},
	})
	if err != nil {
		panic(err)
	}
	rep, err := ingest.Run(context.Background(), filepath.Join(dir, "small"), src, ingest.Options{})
	fmt.Println(rep.Nodes, "nodes,", rep.EdgesStored, "edges", err)
	// Output: 3 nodes, 2 edges <nil>
}

// TestFromSlices: every part of a graph in memory is in the store, by the ids that it was given.
func TestFromSlices(t *testing.T) {
	const nodes, dim = 500, 3
	g := &ingest.Slices{RelationNames: []string{"likes", "knows"}, ClassNames: []string{"a", "b"}}
	x, labels, weights := make([]float32, nodes*dim), make([]int64, nodes), []float32{}
	for v := range nodes {
		labels[v] = int64(v%3) - 1
		g.IDs = append(g.IDs, uint64(v)*1000+7)
		for k := range 3 {
			x[v*dim+k] = float32(v*dim + k)
			g.Src, g.Dst = append(g.Src, uint64(v)), append(g.Dst, uint64((v*7+k)%nodes))
			g.Relations, weights = append(g.Relations, uint32(k%2)), append(weights, float32(v+k))
		}
	}
	odd := append([]byte{0}, blocks.Bytes(x)...)[1:] // features need not lie at a multiple of anything
	g.NodeColumns = []ingest.SliceColumn{{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: dim, Data: odd},
		{Name: "label", Role: store.RoleLabel, Elem: blocks.Int64, Dim: 1, Data: blocks.Bytes(labels)}}
	g.EdgeColumns = []ingest.SliceColumn{{Name: "weight", Role: store.RoleWeight, Elem: blocks.Float32, Dim: 1, Data: blocks.Bytes(weights)}}
	g.Splits = []ingest.SliceSplit{{Name: "split", Train: []uint64{1, 4}, Valid: []uint64{7}, Test: []uint64{2}}}
	src, err := ingest.FromSlices(g)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "s")
	if _, err := ingest.Run(t.Context(), dir, src, ingest.Options{Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ids := make([]store.NodeID, nodes)
	if err := s.LookupInts(t.Context(), g.IDs, ids); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Features(t.Context(), "x", ids, nil)
	if err != nil || !slices.Equal(rows, odd) {
		t.Errorf("features differ: %v", err)
	}
	split, err := s.Features(t.Context(), "split", []store.NodeID{ids[1], ids[4], ids[7], ids[2], ids[0]}, nil)
	if err != nil || !slices.Equal(split, []byte{store.SplitTrain, store.SplitTrain, store.SplitValid, store.SplitTest, store.SplitNone}) {
		t.Errorf("splits %v: %v", split, err)
	}
	near, err := s.Neighbors(t.Context(), ids, store.NeighborOptions{Out: true, Relations: true})
	if err != nil || len(near.Nodes) != len(g.Src) {
		t.Fatalf("%d edges of %d: %v", len(near.Nodes), len(g.Src), err)
	}
	for v := range nodes {
		var got, want []string
		for k := near.Indptr[v]; k < near.Indptr[v+1]; k++ {
			got = append(got, fmt.Sprint(near.Nodes[k], near.Relations[k]))
		}
		for k := 3 * v; k < 3*v+3; k++ {
			want = append(want, fmt.Sprint(ids[g.Dst[k]], g.Relations[k]))
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("edges of %d lead to %v, expected %v", v, got, want)
		}
	}
	if m := s.Manifest(); m.Schema.Task != store.TaskNode || m.Schema.Classes != 2 || m.Schema.Relations[1].Name != "knows" {
		t.Errorf("schema %+v", m.Schema)
	}
}

// TestFromSlicesRefused: parts that contradict each other are told.
func TestFromSlicesRefused(t *testing.T) {
	column := func(n int) []ingest.SliceColumn {
		return []ingest.SliceColumn{{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 2, Data: make([]byte, n)}}
	}
	for name, g := range map[string]*ingest.Slices{
		"ends":      {Src: []uint64{1}},
		"relations": {Src: []uint64{1}, Dst: []uint64{1}, Relations: []uint32{0, 1}},
		"rows":      {Nodes: 3, NodeColumns: column(16)},
		"half rows": {NodeColumns: column(12)},
		"edge rows": {Src: []uint64{1}, Dst: []uint64{1}, EdgeColumns: column(16)},
		"names":     {Names: []string{"a"}, Nodes: 2},
	} {
		if _, err := ingest.FromSlices(g); !errors.Is(err, ingest.ErrInput) {
			t.Errorf("%s: error %v, expected ErrInput", name, err)
		}
	}
	src, err := ingest.FromSlices(&ingest.Slices{Nodes: 2, Src: []uint64{2}, Dst: []uint64{0}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.Run(t.Context(), filepath.Join(t.TempDir(), "s"), src, ingest.Options{}); !errors.Is(err, ingest.ErrInput) {
		t.Errorf("an end beyond the nodes: error %v, expected ErrInput", err)
	}
}

// TestSlicesOfTypes: a column of one type of nodes has its rows alone, kept as they are; types are numbered, and nodes of types without
// features, unless all types have some.
func TestSlicesOfTypes(t *testing.T) {
	made := func(columns ...ingest.SliceColumn) (*store.Store, error) {
		src, err := ingest.FromSlices(&ingest.Slices{Src: []uint64{0, 4}, Dst: []uint64{3, 1}, NodeColumns: columns,
			NodeTypes: []ingest.NodeType{{Name: "a", Count: 3}, {Name: "b", Count: 2}}})
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(t.TempDir(), "s")
		if _, err := ingest.Run(t.Context(), dir, src, ingest.Options{Partitions: 2}); err != nil {
			return nil, err
		}
		s, err := store.Open(dir, store.Options{})
		if err == nil {
			t.Cleanup(func() { _ = s.Close() })
		}
		return s, err
	}
	of := func(kind string, n int) ingest.SliceColumn {
		return ingest.SliceColumn{Name: kind + ".x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 1, Data: blocks.Bytes(make([]float32, n)), NodeType: kind}
	}
	when := []int64{1 << 40, 2}
	s, err := made(of("a", 3), ingest.SliceColumn{Name: "when", Role: store.RoleNode, Elem: blocks.Int64, Dim: 1, Data: blocks.Bytes(when), NodeType: "b"})
	if err != nil {
		t.Fatal(err)
	}
	nodes := make([]store.NodeID, 5)
	if err := s.LookupInts(t.Context(), []uint64{0, 1, 2, 3, 4}, nodes); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{
		store.TypeColumn: blocks.Bytes([]uint32{1, 1, 1, 2, 2}), "b" + store.NodeSuffix: blocks.Bytes([]uint32{0, 0, 0, 1, 2}),
		"when": blocks.Bytes([]int64{0, 0, 0, 1 << 40, 2}),
	} {
		if got, err := s.Features(t.Context(), name, nodes, nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("column %s is %v, %v: expected %v", name, got, err, want)
		}
	}
	all := of("a", 5)
	all.Name, all.NodeType = "x", ""
	if s, err = made(all); err != nil {
		t.Fatal(err)
	}
	if k := s.Manifest().Categories(); len(k) != 1 || k[0].Column != store.TypeColumn {
		t.Errorf("all types have features, and nodes are numbered by %v", k)
	}
	for _, bad := range []ingest.SliceColumn{of("a", 2), of("c", 3)} {
		if _, err := made(bad); !errors.Is(err, ingest.ErrInput) {
			t.Errorf("a column of %d bytes of type %s: %v", len(bad.Data), bad.NodeType, err)
		}
	}
}
