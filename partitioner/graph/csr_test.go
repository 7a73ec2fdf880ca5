package graph

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPackedLists: what goes into a CSR comes out of it, by list, by entry and as a stream, at every
// width of an id; closing it twice is harmless.
func TestPackedLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(0, 18).Draw(t, "width")
		nodes := rapid.IntRange(1<<width>>1+1, 1<<width).Draw(t, "nodes")
		filled := rapid.IntRange(0, min(nodes, 40)).Draw(t, "filled")
		want := make([][]uint32, nodes)
		indptr, indices := make([]uint64, nodes+1), []uint32(nil)
		for v := range nodes {
			if v < filled || v == nodes-1 {
				want[v] = rapid.SliceOfN(rapid.Uint32Range(0, uint32(nodes-1)), 0, 30).Draw(t, "list")
			}
			indices = append(indices, want[v]...)
			indptr[v+1] = uint64(len(indices))
		}
		g, err := NewCSR(indptr, indices)
		if err != nil {
			t.Fatal(err)
		}
		if g.bits != uint(max(1, width)) || g.Entries() != uint64(len(indices)) {
			t.Fatalf("%d nodes: %d bits an id and %d entries, expected %d and %d", nodes, g.bits, g.Entries(), max(1, width), len(indices))
		}
		for v, list := range want {
			if !slices.Equal(g.Neighbours(uint32(v)), list) || g.Degree(uint32(v)) != len(list) {
				t.Fatalf("node %d of %d: %v, expected %v", v, nodes, g.Neighbours(uint32(v)), list)
			}
			for i, u := range list {
				if got := g.Neighbour(uint32(v), i); got != u {
					t.Fatalf("node %d, neighbour %d: %d, expected %d", v, i, got, u)
				}
			}
		}
		var l Lists
		for v := 0; v < nodes; {
			some := []uint32{uint32(v), uint32(nodes - 1), uint32(v / 2)}
			if n := g.ReadLists(&l, some); n != len(some) {
				t.Fatalf("%d of %d short lists came", n, len(some))
			}
			for i, u := range some {
				if !slices.Equal(l.Of(i), want[u]) {
					t.Fatalf("node %d, read with others: %v, expected %v", u, l.Of(i), want[u])
				}
			}
			v += 1 + nodes/50
		}
		stream, err := g.Stream(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for stream.Next() {
			c := stream.Chunk()
			for i := range c.Len() {
				if int(c.First)+i != seen || !slices.Equal(c.Neighbours(i), want[seen]) {
					t.Fatalf("streamed node %d: %v, expected %v", seen, c.Neighbours(i), want[seen])
				}
				seen++
			}
		}
		if seen != nodes || stream.Err() != nil {
			t.Fatalf("%d of %d nodes streamed, %v", seen, nodes, stream.Err())
		}
		// Over what is there, neighbours at both sides stay.
		if n := g.Entries(); n > 2 {
			g.replace(1, 0)
			if g.at(0) != indices[0] || g.at(1) != 0 || g.at(2) != indices[2] {
				t.Fatalf("replaced entry 1 of %v by 0: %d, %d, %d", indices[:3], g.at(0), g.at(1), g.at(2))
			}
		}
		for range 2 { // the second one does nothing
			if err := g.Close(); err != nil || g.Nodes() != 0 {
				t.Fatalf("a closed graph has %d nodes, error %v", g.Nodes(), err)
			}
		}
	})
}

// TestReadListsBound: lists that are read together are few and short, but one of any length comes.
func TestReadListsBound(t *testing.T) {
	const long = listsEntriesMax + 1
	degrees := []int{long, 3, listsEntriesMax - 3, 1, long, 0}
	indptr, indices := []uint64{0}, []uint32(nil)
	for v, d := range degrees {
		for i := range d {
			indices = append(indices, uint32((v+i)%len(degrees)))
		}
		indptr = append(indptr, uint64(len(indices)))
	}
	g, err := NewCSR(indptr, indices)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close() //nolint:errcheck // test
	var l Lists
	nodes, got := []uint32{0, 1, 2, 3, 4, 5}, []int(nil)
	for len(nodes) > 0 {
		n := g.ReadLists(&l, nodes)
		for i, v := range nodes[:n] {
			if !slices.Equal(l.Of(i), g.Neighbours(v)) {
				t.Errorf("node %d has another list", v)
			}
		}
		got, nodes = append(got, n), nodes[n:]
	}
	if want := []int{1, 2, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("readings of %v lists, expected %v", got, want)
	}
	if n := g.ReadLists(&l, make([]uint32, 4*listsMax)); n != 1 {
		t.Errorf("%d lists of %d entries came at once", n, long)
	}
	if n := g.ReadLists(&l, slices.Repeat([]uint32{5}, 4*listsMax)); n != listsMax {
		t.Errorf("%d empty lists came at once, expected %d", n, listsMax)
	}
}
