package coarse

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
	"github.com/gstore/gstore/partitioner/graphtest"
	"pgregory.net/rapid"
)

// TestCoarserGraph: groups keep their limit and their partition, and the edges between them are those of their nodes.
func TestCoarserGraph(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 300).Draw(rt, "nodes")
		g, _ := graphtest.BlockModel(t, n, rapid.IntRange(1, 8).Draw(rt, "groups"), rapid.IntRange(0, 10).Draw(rt, "degree"), 0.7, rapid.Uint64().Draw(rt, "graph"))
		part := make([]blocks.PartitionID, n)
		for v := range part {
			part[v] = blocks.PartitionID(v % rapid.IntRange(1, 3).Draw(rt, "partitions"))
		}
		c, l := NewCrew(2), &Level{Nodes: n, Fine: g}
		defer func() {
			for _, w := range c.Workers {
				w.Arena.Release()
			}
		}()
		var space Room
		space.Left.Store(math.MaxInt64)
		for range 2 { // of the input, and of a coarser graph
			k := &Clustering{Level: l, Limit: uint32(rapid.IntRange(1, 40).Draw(rt, "limit")), Part: part, Label: make([]uint32, l.Nodes), Weight: make([]uint32, l.Nodes), Active: [2][]uint64{make([]uint64, n), make([]uint64, n)}}
			groups, err := c.Cluster(context.Background(), k, 3, func(uint64) {})
			if err != nil {
				rt.Fatal(err)
			}
			l.Parent = k.Label
			up, err := c.Contract(l, groups, make([]uint32, l.Nodes), &space)
			if err != nil || up == nil {
				rt.Fatal(up, err)
			}
			want := map[[2]uint32]uint32{}
			members := make([]int, groups)
			coarse := make([]blocks.PartitionID, groups)
			for v := range uint32(l.Nodes) {
				p := l.Parent[v]
				if members[p]++; members[p] > 1 && coarse[p] != part[v] {
					rt.Fatalf("group %d has nodes of partitions %d and %d", p, coarse[p], part[v])
				}
				coarse[p] = part[v]
				add := func(u, w uint32) {
					if q := l.Parent[u]; q != p {
						want[[2]uint32{p, q}] += w
					}
				}
				if l.Fine != nil {
					for _, u := range g.Neighbours(v) {
						add(u, 1)
					}
				} else {
					for _, e := range l.neighbours(v) {
						add(e.to, e.weight)
					}
				}
			}
			total := uint32(0)
			for p := range uint32(groups) {
				total += up.weight(p)
				if members[p] > 1 && up.weight(p) > k.Limit {
					rt.Fatalf("group %d has %d nodes, the limit is %d", p, up.weight(p), k.Limit)
				}
				for _, e := range up.neighbours(p) {
					if want[[2]uint32{p, e.to}] != e.weight {
						rt.Fatalf("%d edges from group %d to %d, expected %d", e.weight, p, e.to, want[[2]uint32{p, e.to}])
					}
					delete(want, [2]uint32{p, e.to})
				}
			}
			if len(want) > 0 || int(total) != n {
				rt.Fatalf("%d pairs of groups have no edge, groups have %d of %d nodes", len(want), total, n)
			}
			l, part = up, coarse
		}
	})
}

// TestNodesWithoutNeighboursGroup: they would each be a node of every coarser graph.
func TestNodesWithoutNeighboursGroup(t *testing.T) {
	const n, limit = 1000, 50
	g, err := graph.NewCSR(make([]uint64, n+1), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close() //nolint:errcheck // test
	k := &Clustering{Level: &Level{Nodes: n, Fine: g}, Limit: limit, Label: make([]uint32, n), Weight: make([]uint32, n), Active: [2][]uint64{make([]uint64, n), make([]uint64, n)}}
	if groups, err := NewCrew(1).Cluster(context.Background(), k, 2, func(uint64) {}); err != nil || groups != n/limit {
		t.Errorf("%d groups, %v; expected %d", groups, err, n/limit)
	}
}

// TestBisect: two cliques joined by an edge fall apart there, three of them by shares.
func TestBisect(t *testing.T) {
	for _, k := range []int{2, 3} {
		const size = 90
		n := size * k
		l := &Level{Nodes: n, end: make([]uint32, n), size: slices.Repeat([]uint32{3}, n)}
		l.lists = make([][]edge, (n+listBlock-1)/listBlock)
		for v := range n {
			b := &l.lists[v/listBlock]
			for u := v / size * size; u < (v/size+1)*size; u++ {
				if u != v {
					*b = append(*b, edge{uint32(u), 2})
				}
			}
			if v%size == 0 && v > 0 {
				*b = append(*b, edge{uint32(v - 1), 1})
			}
			if v%size == size-1 && v < n-1 {
				*b = append(*b, edge{uint32(v + 1), 1})
			}
			l.end[v] = uint32(len(*b))
		}
		part := make([]blocks.PartitionID, n)
		if err := Bisect(context.Background(), l, 1<<20, k, .03, 1, part); err != nil {
			t.Fatal(err)
		}
		for v, p := range part {
			if p != part[v/size*size] {
				t.Fatalf("%d parts: node %d is in part %d, node %d of its clique in %d", k, v, p, v/size*size, part[v/size*size])
			}
		}
		if distinct := slices.Compact(slices.Sorted(slices.Values(part))); len(distinct) != k {
			t.Errorf("%d parts are used, expected %d", len(distinct), k)
		}
	}
}
