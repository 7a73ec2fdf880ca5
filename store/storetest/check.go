package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// Check compares everything a reader sees with the plain copy.
func Check(t *testing.T, s *store.Store, g *Graph) {
	t.Helper()
	first := g.Firsts()
	var edges [][2]uint64
	for p := range g.Sizes {
		stripe, _, err := s.ReadStripe(context.Background(), store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range stripe.Partitions() {
			b, err := stripe.Bucket(i)
			if err != nil {
				t.Fatal(err)
			}
			for dst, src := range b.All() {
				edges = append(edges, [2]uint64{first[i] + uint64(src), first[p] + uint64(dst)})
			}
		}
		x, err := s.ReadColumn(context.Background(), "x", store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := blocks.Bytes(g.Features[first[p]*uint64(g.Dim) : first[p+1]*uint64(g.Dim)]); string(x) != string(want) {
			t.Fatalf("features of partition %d differ", p)
		}
		ext, _, err := s.ReadExternal(context.Background(), store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		if ext.Len() != int(g.Sizes[p]) {
			t.Fatalf("partition %d has %d external ids, expected %d", p, ext.Len(), g.Sizes[p])
		}
		for k := range ext.Len() {
			if got, want := string(ext.Append(nil, k)), g.External[first[p]+uint64(k)]; got != want {
				t.Fatalf("node %d of partition %d is %q, expected %q", k, p, got, want)
			}
		}
	}
	if !slices.Equal(edges, g.Edges) {
		t.Fatalf("edges differ: %d, expected %d", len(edges), len(g.Edges))
	}
	for v, name := range g.External {
		id, err := s.Lookup(context.Background(), name)
		if err != nil || id != store.NodeID(v) {
			t.Fatalf("Lookup(%q) = %d, %v, expected %d", name, id, err, v)
		}
		back, err := s.External(context.Background(), id)
		if err != nil || back != name {
			t.Fatalf("External(%d) = %q, %v, expected %q", id, back, err, name)
		}
		if g.IDs != store.IDsDense && v > 10 {
			break // each opens the dictionary
		}
	}
	var valid [][3]uint64
	list, err := s.EdgeList(context.Background(), "valid")
	if err != nil {
		t.Fatal(err)
	}
	for list.Next() {
		e := list.Edge()
		valid = append(valid, [3]uint64{uint64(e.Src), uint64(e.Relation), uint64(e.Dst)})
	}
	if list.Err() != nil || !slices.Equal(valid, g.Valid) {
		t.Fatalf("edge list: %v, %v, expected %v", valid, list.Err(), g.Valid)
	}
}
