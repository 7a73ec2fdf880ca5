package walk

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// all are a store's walks.
func all(t *testing.T, dir string, o Options, change func(*Walks)) []int64 {
	t.Helper()
	st := storetest.Open(t, dir, store.Options{})
	w, err := Open(t.Context(), st, o)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(w)
	}
	out := make([]int64, w.Len()*uint64(w.Length()))
	if err := errors.Join(w.Read(t.Context(), 0, out), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out
}

// out are the ends of each node's edges, by external ids; an undirected edge is one of both ends, a loop one.
func out(g *storetest.Graph) map[int64][]int64 {
	name := func(v uint64) int64 {
		id, _ := strconv.ParseInt(g.External[v], 10, 64)
		return id
	}
	lists := map[int64][]int64{}
	for _, e := range g.Edges {
		lists[name(e[0])] = append(lists[name(e[0])], name(e[1]))
		if g.Undirected && e[0] != e[1] {
			lists[name(e[1])] = append(lists[name(e[1])], name(e[0]))
		}
	}
	return lists
}

// TestWalksAreExact: over a million steps, each pair of steps comes up as often as node2vec's definition says, with edges chosen by
// rejection and by their law.
func TestWalksAreExact(t *testing.T) {
	for _, undirected := range []bool{true, false} {
		g := storetest.Random(storetest.Options{Nodes: 9, Edges: 22, Partitions: 3, Undirected: undirected, Seed: 4})
		dir, lists := storetest.Create(t, g), out(g)
		for i, o := range []Options{{P: .25, Q: 4}, {P: 5, Q: .5}, {}} {
			for _, tries := range []int{tries, 0} {
				o.Length, o.PerNode, o.Seed = 3, 60_000/race.Every(20), uint64(i)
				walks := all(t, dir, o, func(w *Walks) { w.tries = tries })
				counts := map[[3]int64]float64{}
				for k := 0; k < len(walks); k += 3 {
					counts[[3]int64(walks[k:k+3])]++
				}
				x, df := 0., 0
				for v := range int64(g.Nodes()) {
					law := map[[3]int64]float64{}
					for _, second := range lists[v] {
						one := 1 / float64(len(lists[v]))
						if len(lists[second]) == 0 {
							law[[3]int64{v, second, None}] += one
						}
						sum, weights := 0., []float64{}
						for _, third := range lists[second] {
							weight := reciprocal(o.Q)
							if third == v {
								weight = reciprocal(o.P)
							} else if slices.Contains(lists[v], third) {
								weight = 1
							}
							weights, sum = append(weights, weight), sum+weight
						}
						for k, third := range lists[second] {
							law[[3]int64{v, second, third}] += one * weights[k] / sum
						}
					}
					if len(lists[v]) == 0 {
						law[[3]int64{v, None, None}] = 1
					}
					for walk, p := range law {
						want := p * float64(o.PerNode)
						x += (counts[walk] - want) * (counts[walk] - want) / want
						delete(counts, walk)
					}
					df += len(law) - 1
				}
				if len(counts) > 0 {
					t.Errorf("%+v: walks %v cannot be", o, counts)
				}
				if z := (x - float64(df)) / math.Sqrt(2*float64(df)); math.Abs(z) > 5 {
					t.Errorf("%+v, undirected %v, %d tries: chi-square of %v over %d is %.1f standard deviations off", o, undirected, tries, x, df, z)
				}
			}
		}
	}
}

// TestWalksAreTheSame with any number of threads and partitions, read from anywhere, and by the ids of the store.
func TestWalksAreTheSame(t *testing.T) {
	for _, kind := range []store.IDKind{store.IDsDense, store.IDsIntegers} {
		g := storetest.Random(storetest.Options{Nodes: 300, Edges: 20_000, Partitions: 5, IDs: kind, Seed: 7})
		dir, lists := storetest.Create(t, g), out(g)
		o := Options{Length: 6, PerNode: 3, Q: .3, P: 2, Threads: 1}
		want := all(t, dir, o, nil)
		seen := map[int64]int{}
		for k := 0; k < len(want); k += 6 {
			seen[want[k]]++
			for i := k + 1; i < k+6; i++ {
				if want[i] != None && !slices.Contains(lists[want[i-1]], want[i]) || want[i] == None && want[i-1] != None && len(lists[want[i-1]]) > 0 {
					t.Fatalf("walk %v: no edge from %d to %d", want[k:k+6], want[i-1], want[i])
				}
			}
		}
		for id, n := range seen {
			if n != 3 {
				t.Errorf("%d walks from %d, expected 3", n, id)
			}
		}
		if !slices.IsSorted([]int64{want[0], want[6], want[12], want[18]}) || len(seen) != 300 {
			t.Errorf("walks from %d nodes, from %d, %d, … in order of ids, expected 300", len(seen), want[0], want[6])
		}
		o.Threads = 3
		if got := all(t, dir, o, nil); !slices.Equal(got, want) {
			t.Error("walks depend on threads")
		}
		w, err := Open(t.Context(), storetest.Open(t, dir, store.Options{}), o)
		if err != nil {
			t.Fatal(err)
		}
		part := make([]int64, 500*6)
		if err := w.Read(t.Context(), 77, part); err != nil || !slices.Equal(part, want[77*6:577*6]) {
			t.Errorf("walks 77 to 576 are others when read alone, %v", err)
		}
		if err := w.Read(t.Context(), w.Len()-10, part); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("beyond the last walk: %v", err)
		}
		var file bytes.Buffer
		if err := w.WriteNPY(t.Context(), &file, nil); err != nil {
			t.Fatal(err)
		}
		h, err := npy.Read(&file)
		if err != nil || h.Elem != blocks.Int64 || !slices.Equal(h.Shape, []int64{900, 6}) || !bytes.Equal(file.Bytes(), blocks.Bytes(want)) {
			t.Errorf("the file has %+v and %d bytes, %v", h, file.Len(), err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	g := storetest.Random(storetest.Options{Nodes: 300, Edges: 3000, Partitions: 1, Seed: 7})
	one := all(t, storetest.Create(t, g), Options{Length: 5, PerNode: 1, Q: .3}, nil)
	g.Sizes = []uint32{100, 120, 80} // the same nodes, cut otherwise
	slices.SortStableFunc(g.Edges, func(a, b [2]uint64) int { return at(g, a) - at(g, b) })
	if three := all(t, storetest.Create(t, g), Options{Length: 5, PerNode: 1, Q: .3}, nil); !slices.Equal(one, three) {
		t.Error("walks depend on partitions")
	}
}

// at is the bucket of an edge.
func at(g *storetest.Graph, e [2]uint64) int {
	part := func(v uint64) (p int) {
		for first := g.Firsts(); first[p+1] <= v; p++ {
		}
		return p
	}
	return part(e[1])*len(g.Sizes) + part(e[0])
}

func TestWalksRefuse(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{IDs: store.IDsStrings}))
	st := storetest.Open(t, dir, store.Options{})
	for i, o := range []Options{{Length: -1}, {PerNode: -1}, {P: -1}, {Q: math.NaN()}, {P: math.Inf(1)}, {Q: 5e-324}, {MemoryBytes: -1}, {}, {Length: 1 << 40}} {
		if w, err := Open(t.Context(), st, o); err == nil {
			t.Errorf("%d: %+v is taken, %v", i, o, w.Close())
		}
	}
	_, err := Open(t.Context(), st, Options{Internal: true, MemoryBytes: 1 << 20})
	if !errors.Is(err, store.ErrBudget) {
		t.Fatalf("within 1 MiB: %v", err)
	}
	_, named, _ := strings.Cut(err.Error(), "the smallest that works is ")
	named, _, _ = strings.Cut(named, "MiB")
	mib, _ := strconv.ParseInt(named, 10, 64)
	least := mib << 20
	if _, err := Open(t.Context(), st, Options{Internal: true, MemoryBytes: least - 1<<20}); !errors.Is(err, store.ErrBudget) {
		t.Errorf("within 1 MiB less than the %q that are named: %v", named, err)
	}
	w, err := Open(t.Context(), st, Options{Internal: true, MemoryBytes: least, Length: 2, PerNode: 1})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]int64, 2*w.Len())
	if err := errors.Join(w.Read(t.Context(), 0, dst), w.Close()); err != nil || slices.Max(dst) >= 200 || slices.Min(dst) < None {
		t.Errorf("nodes by gstore's numbers: %d to %d of 200, %v", slices.Min(dst), slices.Max(dst), err)
	}
}
