package adjacency

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestLists: in memory and in a file, made at once or a node at a time, every node has the edges that a pass over the store finds.
func TestLists(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		g := storetest.Random(storetest.Options{Seed: seed, Undirected: seed%2 == 0, Relations: int(1 + seed/2*seed)})
		if seed > 2 {
			for i := range g.Edges {
				g.Weights, g.Times = append(g.Weights, float32(i%7)), append(g.Times, int64(i))
			}
		}
		dir := storetest.Create(t, g)
		st := storetest.Open(t, dir, store.Options{})
		m := st.Manifest()
		want := make([][]Edge, m.Nodes)
		row := make([]uint64, len(m.Partitions))
		stripes := st.ReadStripes(slices.Concat(m.ColumnsOf(store.RoleRelation), m.ColumnsOf(store.RoleWeight)), 1<<20,
			0)
		for j := range m.Partitions {
			if err := stripes.Stripe(t.Context(), store.PartitionID(j), 0, len(m.Partitions),
				func(k *store.BucketPart) error {
					e := 0
					for d, s := range k.All() {
						dst, src := m.Partitions[j].First+store.NodeID(d), m.Partitions[k.Src].First+store.NodeID(s)
						x := Edge{Node: src, Weight: 1, Partition: store.PartitionID(j), Row: row[j]}
						columns := k.Columns
						if rs := m.ColumnsOf(store.RoleRelation); len(rs) > 0 {
							x.Relation = store.RelationID(rs[0].Elem.Float64(columns[0][e*rs[0].RowBytes():]))
							columns = columns[1:]
						}
						if ws := m.ColumnsOf(store.RoleWeight); len(ws) > 0 {
							x.Weight = float32(ws[0].Elem.Float64(columns[0][4*e:]))
						}
						want[dst] = append(want[dst], x)
						if x.Node, x.Out = dst, !m.Schema.Undirected; x.Out || dst != src {
							want[src] = append(want[src], x)
						}
						e++
						row[j]++
					}
					return nil
				}); err != nil {
				t.Fatal(err)
			}
		}
		if err := stripes.Close(); err != nil {
			t.Fatal(err)
		}
		for _, each := range []int64{0, 1, 300, 5_000, 1 << 20} { // 0: in memory
			l, err := open(t.Context(), st, st.ScratchDir(), each == 0, each)
			if err != nil {
				t.Fatal(err)
			}
			if l.InMemory() != (each == 0) {
				t.Errorf("seed %d, runs of %d bytes: in memory %v", seed, each, l.InMemory())
			}
			var wg sync.WaitGroup
			for range 4 {
				of := rng.Perm(int(m.Nodes))
				wg.Go(func() {
					for _, v := range of {
						got, err := l.Edges(nil, store.NodeID(v))
						if seed > 2 && err == nil {
							err = sameTimes(t, st, got, want[v])
						}
						if err != nil || !slices.Equal(sorted(got, l.form),
							sorted(want[v], l.form)) || l.Degree(store.NodeID(v)) != int64(len(got)) {
							t.Errorf("seed %d, runs of %d bytes, node %d: %v, %+v, expected %+v", seed, each, v, err,
								got, want[v])
							return
						}
						if !slices.IsSortedFunc(got, func(a, b Edge) int {
							return cmp.Or(cmp.Compare(fmt.Sprint(a.Out), fmt.Sprint(b.Out)),
								cmp.Compare(a.Node, b.Node))
						}) {
							t.Errorf("seed %d, node %d: %+v is in no order", seed, v, got)
						}
					}
				})
			}
			wg.Wait()
			if _, err := l.Edges(nil, store.NodeID(m.Nodes)); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a node that there is not: error %v", err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(t.Context(), st, Options{MemoryBytes: 1}); !errors.Is(err, store.ErrBudget) {
			t.Errorf("1 byte of memory: error %v", err)
		}
	}
}

// sameTimes compares the times of edges, which are their numbers in the graph, with those at their places.
func sameTimes(t *testing.T, st *store.Store, got, want []Edge) error {
	times := func(edges []Edge) ([]int64, error) {
		var rows []store.EdgeRow
		for _, e := range edges {
			rows = append(rows, store.EdgeRow{Partition: e.Partition, Row: e.Row})
		}
		b, err := st.EdgeRows(t.Context(), "time", rows, nil)
		if err != nil {
			return nil, err
		}
		v, err := blocks.View[int64](b)
		slices.Sort(v)
		return v, err
	}
	a, err := times(got)
	b, other := times(want)
	if err = errors.Join(err, other); err == nil && !slices.Equal(a, b) {
		err = fmt.Errorf("times %v, expected %v", a, b)
	}
	return err
}

// sorted are edges in an order of their own, without what lists of their form leave out.
func sorted(edges []Edge, f form) []Edge {
	edges = slices.Clone(edges)
	for i := range edges {
		if f.row == 0 {
			edges[i].Row, edges[i].Partition = 0, 0
		}
	}
	slices.SortFunc(edges, func(a, b Edge) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Relation, b.Relation),
			cmp.Compare(fmt.Sprint(a.Out), fmt.Sprint(b.Out)),
			cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Row, b.Row))
	})
	return edges
}
