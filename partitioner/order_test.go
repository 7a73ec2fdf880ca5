package partitioner

import (
	"context"
	"slices"
	"testing"

	"github.com/gstore/gstore/partitioner/graph"
	"pgregory.net/rapid"
)

// TestBreadthFirst: nodes come as a plain queue takes them, with their lists, each once; and FENNEL's first pass, which goes
// breadth-first as it places, places as one that is told the order.
func TestBreadthFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 300).Draw(t, "nodes")
		ends := rapid.SliceOfN(rapid.Uint32Range(0, uint32(nodes-1)), 0, 4*nodes).Draw(t, "ends")
		ends = ends[:len(ends)&^1]
		half := len(ends) / 2
		g, err := graph.BuildCSR(uint64(nodes), func(yield func(src, dst []uint32) error) error { return yield(ends[:half], ends[half:]) }, false)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close() //nolint:errcheck // test
		var want []uint32
		met := make([]bool, nodes)
		for root := range nodes {
			queue := []uint32{}
			if !met[root] {
				met[root], queue = true, []uint32{uint32(root)}
			}
			for len(queue) > 0 {
				v := queue[0]
				queue, want = queue[1:], append(want, v)
				for _, u := range g.Neighbours(v) {
					if !met[u] {
						met[u], queue = true, append(queue, u)
					}
				}
			}
		}
		var got []uint32
		order, scratch := make([]uint32, nodes), slices.Repeat([]uint32{^uint32(0)}, bitWords(nodes))
		err = breadthFirst(context.Background(), g, order, scratch, func(some []uint32, l *graph.Lists) {
			for i, v := range some {
				if !slices.Equal(l.Of(i), g.Neighbours(v)) {
					t.Fatalf("node %d came with another list", v)
				}
			}
			got = append(got, some...)
		})
		if err != nil || !slices.Equal(got, want) || !slices.Equal(order, want) {
			t.Fatalf("visited %v, stored %v, expected %v (%v)", got, order, want, err)
		}
		o := Options{Method: MethodFennel, Partitions: min(4, nodes), Passes: 1}
		a, err := Partition(context.Background(), g, o)
		if err != nil {
			t.Fatal(err)
		}
		if o, err = o.resolve(g); err != nil {
			t.Fatal(err)
		}
		s := newStreamer(newPart(uint64(nodes), &o), o.Partitions, nil, []uint64{uint64(nodes)}, o.limit(uint64(nodes)), o.LabelShare)
		s.setWeight(max(0.75*float64(g.Entries())/float64(nodes), weightMin))
		for _, v := range want {
			s.place(v, g.Neighbours(v))
		}
		if !slices.Equal(Materialize(a).Part(), s.part) {
			t.Fatalf("placed %v, expected %v", Materialize(a).Part(), s.part)
		}
	})
}
