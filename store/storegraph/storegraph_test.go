package storegraph_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/partitioner/graph"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storegraph"
	"github.com/gstore/gstore/store/storetest"
)

func open(t *testing.T, g *storetest.Graph) *store.Store {
	t.Helper()
	s, err := store.Open(storetest.Create(t, g), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func lists(t *testing.T, g graph.Graph) [][]uint32 {
	t.Helper()
	stream, err := g.Stream(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close() //nolint:errcheck // test
	var all [][]uint32
	for stream.Next() {
		c := stream.Chunk()
		for i := range c.Len() {
			all = append(all, slices.Sorted(slices.Values(c.Neighbours(i))))
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestGraphHasTheStoresEdges(t *testing.T) {
	ctx := context.Background()
	g := storetest.Random(storetest.Options{Nodes: 500, Partitions: 6})
	s := open(t, g)
	want := make([][]uint32, g.Nodes())
	for _, e := range g.Edges {
		if e[0] != e[1] {
			want[e[0]] = append(want[e[0]], uint32(e[1]))
			want[e[1]] = append(want[e[1]], uint32(e[0]))
		}
	}
	for v := range want {
		slices.Sort(want[v])
	}
	inMemory, err := storegraph.Open(ctx, s, "", storegraph.Budget{})
	if err != nil {
		t.Fatal(err)
	}
	defer inMemory.Close() //nolint:errcheck // test
	if _, ok := inMemory.(graph.RandomAccess); !ok {
		t.Error("without a bound the graph is not in memory")
	}
	spilled, err := graph.Spill(ctx, t.TempDir(), uint64(g.Nodes()), storegraph.Edges(ctx, s), storegraph.EdgesOf(ctx, s), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer spilled.Close() //nolint:errcheck // test
	for name, view := range map[string]graph.Graph{"memory": inMemory, "spilled": spilled} {
		for v, got := range lists(t, view) {
			if !slices.Equal(got, want[v]) {
				t.Fatalf("%s: node %d has %v, expected %v", name, v, got, want[v])
			}
		}
	}
	if _, err := storegraph.Open(ctx, s, "", storegraph.Budget{Array: 1000, Stream: 1000}); !errors.Is(err, partitioner.ErrBudget) {
		t.Errorf("small budget: %v", err)
	}
}

func TestClassesAndCurrent(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 300})
	s := open(t, g)
	classes, err := storegraph.Classes(context.Background(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	for v, c := range classes {
		want := uint16(0)
		if g.Split[v] == store.SplitTrain && g.Labels[v] >= 0 {
			want = uint16(g.Labels[v] + 1)
		}
		if c != want {
			t.Fatalf("node %d: class %d, expected %d", v, c, want)
		}
	}
	if _, err := storegraph.Classes(context.Background(), s, "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown split: %v", err)
	}
	a, err := storegraph.Current(s)
	if err != nil {
		t.Fatal(err)
	}
	sizes := partitioner.Sizes(a)
	for p, n := range g.Sizes {
		if sizes[p] != uint64(n) {
			t.Errorf("partition %d: %d nodes, expected %d", p, sizes[p], n)
		}
	}
}

// TestEdgesOfSome: edges of some nodes come in the order of all edges, none is left out, and few of others come.
func TestEdgesOfSome(t *testing.T) {
	ctx := context.Background()
	s := open(t, storetest.Random(storetest.Options{Nodes: 500, Partitions: 6}))
	read := func(edges graph.Edges) (all [][2]uint32) {
		err := edges(func(src, dst []uint32) error {
			for i, u := range src {
				all = append(all, [2]uint32{u, dst[i]})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all, parts := read(storegraph.Edges(ctx, s)), s.Manifest().Partitions
	of := func(v uint32) int {
		return slices.IndexFunc(parts, func(p store.PartitionInfo) bool {
			return uint64(v) >= uint64(p.First) && uint64(v) < uint64(p.First)+p.Nodes
		})
	}
	for _, asked := range [][2]uint32{{0, 0}, {0, 499}, {499, 499}, {100, 260}, {uint32(parts[2].First), uint32(parts[3].First) - 1}} {
		lo, hi := of(asked[0]), of(asked[1])
		var want [][2]uint32
		for _, e := range all {
			if p, q := of(e[0]), of(e[1]); p >= lo && p <= hi || q >= lo && q <= hi {
				want = append(want, e)
			}
		}
		edges, through := storegraph.EdgesOf(ctx, s)(asked[0], asked[1])
		if p := parts[hi]; through != uint32(uint64(p.First)+p.Nodes)-1 {
			t.Errorf("nodes %d: edges of all nodes through %d, expected those of partition %d", asked, through, hi)
		}
		if got := read(edges); !slices.Equal(got, want) {
			t.Errorf("nodes %d: %d edges, expected the %d of partitions %d to %d in the order of all %d", asked, len(got), len(want), lo, hi, len(all))
		}
	}
}
