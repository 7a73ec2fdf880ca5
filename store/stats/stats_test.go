package stats_test

import (
	"context"
	"math/bits"
	"reflect"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/stats"
	"github.com/gstore/gstore/store/storetest"
)

func histogram(values []uint64) stats.Histogram {
	h := stats.Histogram{Min: values[0]}
	for _, x := range values {
		h.Count++
		h.Sum += x
		h.Min, h.Max = min(h.Min, x), max(h.Max, x)
		for len(h.Bins) <= bits.Len64(x) {
			h.Bins = append(h.Bins, 0)
		}
		h.Bins[bits.Len64(x)]++
	}
	return h
}

// TestDegrees compares with counts over the plain copy, at once and in groups of partitions.
func TestDegrees(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 3000, Edges: 20_000, Partitions: 7})
	in, out := make([]uint64, g.Nodes()), make([]uint64, g.Nodes())
	for _, e := range g.Edges {
		out[e[0]]++
		in[e[1]]++
	}
	want := &stats.Degrees{In: histogram(in), Out: histogram(out)}
	s, err := store.Open(storetest.Create(t, g), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, memory := range []int64{0, 40_000, 1} {
		d, err := stats.DegreesOf(context.Background(), s, memory)
		if err != nil || !reflect.DeepEqual(d, want) {
			t.Errorf("%d bytes: %+v, %v, expected %+v", memory, d, err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := stats.DegreesOf(ctx, s, 0); err == nil {
		t.Error("a cancelled context")
	}
}

func TestUndirectedDegrees(t *testing.T) {
	// A triangle 0-1-2 with a loop at 2, over two partitions; node 3 is alone.
	g := storetest.Random(storetest.Options{Nodes: 4, Edges: 1, Partitions: 2})
	g.Sizes = []uint32{2, 2}
	g.Edges = [][2]uint64{{0, 1}, {0, 2}, {1, 2}, {2, 2}}
	w, err := store.Create(t.TempDir()+"/s", store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := g.Write(w)
	if err != nil {
		t.Fatal(err)
	}
	m.Schema.Undirected = true
	if err := w.Commit(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	dir := w.Dir()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := histogram([]uint64{2, 2, 3, 0})
	for _, memory := range []int64{0, 1} {
		d, err := stats.DegreesOf(context.Background(), s, memory)
		if err != nil || !reflect.DeepEqual(d.In, want) || !reflect.DeepEqual(d.Out, want) {
			t.Errorf("%+v, %v, expected %+v", d, err, want)
		}
	}
}

// TestMostIn compares with counts over the plain copy, of all relations at once and of some at a time.
func TestMostIn(t *testing.T) {
	for _, o := range []storetest.Options{{Nodes: 900, Edges: 9000, Partitions: 3, Relations: 5}, {Nodes: 4000, Edges: 9000, Partitions: 2, Relations: 300}} {
		g := storetest.Random(o)
		s, err := store.Open(storetest.Create(t, g), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		counts, want := map[[2]uint64]int{}, make([]int, o.Relations)
		for i, e := range g.Edges {
			r := uint64(g.Relations[i])
			counts[[2]uint64{e[1], r}]++
			want[r] = max(want[r], counts[[2]uint64{e[1], r}])
		}
		for _, memory := range []int64{0, 1} {
			if got, err := stats.MostIn(t.Context(), s, memory); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%d relations in %d bytes: %v, %v, expected %v", o.Relations, memory, got, err, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	s, err := store.Open(storetest.Create(t, storetest.Random(storetest.Options{})), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := stats.MostIn(t.Context(), s, 0); err == nil {
		t.Error("a store without relations")
	}
}

// TestBuckets: buckets hold all edges, each between the partitions of its ends, added up where there are more than cells.
func TestBuckets(t *testing.T) {
	g := storetest.Random(storetest.Options{Partitions: 5, Edges: 700})
	s, err := store.Open(storetest.Create(t, g), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := s.Manifest()
	for _, c := range []struct{ most, per int }{{9, 1}, {5, 1}, {2, 3}, {1, 5}} {
		b, err := stats.BucketsOf(t.Context(), s, c.most)
		if err != nil || b.Per != c.per || len(b.Edges) > c.most {
			t.Fatalf("%+v, %v", b, err)
		}
		want := make([][]uint64, len(b.Edges))
		for i := range want {
			want[i] = make([]uint64, len(b.Edges))
		}
		for _, e := range g.Edges {
			src, err := m.Partition(store.NodeID(e[0]))
			dst, err2 := m.Partition(store.NodeID(e[1]))
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			want[int(src)/c.per][int(dst)/c.per]++
		}
		if !reflect.DeepEqual(b.Edges, want) {
			t.Errorf("%d cells: %v, expected %v", c.most, b.Edges, want)
		}
	}
}

func TestSizes(t *testing.T) {
	g := storetest.Random(storetest.Options{Relations: 2})
	s, err := store.Open(storetest.Create(t, g), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	z, err := stats.SizesOf(s)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []uint64
	for _, n := range g.Sizes {
		nodes = append(nodes, uint64(n))
	}
	bytes := uint64(g.Nodes())*(4*8+4+1) + 2*uint64(len(g.Edges))
	if !reflect.DeepEqual(z.Nodes, histogram(nodes)) || z.Edges.Sum != uint64(len(g.Edges)) || z.Topology.Count != 4 || z.Columns.Count != 16 || z.Columns.Sum != bytes {
		t.Errorf("%+v", z)
	}
	for _, c := range []struct {
		k      int
		lo, hi uint64
	}{{0, 0, 0}, {1, 1, 1}, {2, 2, 3}, {64, 1 << 63, ^uint64(0)}} {
		if lo, hi := stats.Bin(c.k); lo != c.lo || hi != c.hi {
			t.Errorf("bin %d: %d to %d", c.k, lo, hi)
		}
	}
}
