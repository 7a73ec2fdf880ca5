package negative

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// macroBatch has three partitions in slots that are not in order, one of them
// empty; node k of the first has k edges out, the others none.
func macroBatch() *buffer.MacroBatch {
	mb := &buffer.MacroBatch{
		Partitions: []buffer.ResidentPartition{{ID: 1, Base: 100, Nodes: 10}, {ID: 4, Base: 50, Nodes: 0}, {ID: 7, Base: 0, Nodes: 30}},
		Rows:       110,
		In:         &buffer.Adjacency{Spans: make([]buffer.Span, 110)},
	}
	for k := range uint32(10) {
		for range k {
			mb.In.Indices = append(mb.In.Indices, 100+k)
		}
	}
	mb.In.Spans[3] = buffer.Span{End: int64(len(mb.In.Indices))}
	mb.In.Indices = append(mb.In.Indices, 99, 99, 99) // left by a larger step
	return mb
}

// all draws a batch's negatives, of all chunks.
func all(s *Sampler, dst []uint32, pool *Pool, key mini.Key, side Side) []uint32 {
	dst = dst[:0]
	for c := range s.cfg.Chunks {
		dst = s.Sample(dst, pool, pool, key, side, c)
	}
	return dst
}

func TestDistributions(t *testing.T) {
	pool, err := NewPool(macroBatch())
	if err != nil {
		t.Fatal(err)
	}
	const batches, count = 400, 250
	for _, share := range []float64{0, 1, .4} {
		s, err := New(Config{Count: count, Chunks: 4, DegreeShare: share, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[uint32]float64{}
		var rows []uint32
		for b := range batches {
			rows = all(s, rows, pool, mini.Key{Batch: b}, Tail)
			if len(rows) != s.Len() {
				t.Fatalf("%d rows, want %d", len(rows), s.Len())
			}
			for _, r := range rows {
				seen[r]++
			}
		}
		total := float64(batches * s.Len())
		for row := range uint32(110) {
			want := 0.
			if row < 30 || row >= 100 {
				want += (1 - share) / 40
			}
			if row >= 100 {
				want += share * float64(row-100) / 45
			}
			want *= total
			if got := seen[row]; math.Abs(got-want) > 5*math.Sqrt(want)+1e-9 {
				t.Errorf("share %v by degree: row %d drawn %v times, want about %.0f", share, row, got, want)
			}
		}
	}
}

// Of some partitions negatives are drawn as from a macro-batch that has only those, uniformly and by degree; where no edge
// leads there, uniformly.
func TestOnlySomePartitions(t *testing.T) {
	mb := macroBatch()
	mb.Partitions[2].ID, mb.Partitions[2].Nodes = 9, 5
	mb.Partitions[1].Nodes = 4 // rows 50 to 53, which no edge has
	whole, err := NewPool(mb)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := New(Config{Count: 1000, Chunks: 50, DegreeShare: .5, Seed: 2})
	for _, c := range []struct {
		in   []bool
		want func(row uint32) float64 // probability
	}{
		{[]bool{true, true, false}, func(row uint32) (p float64) {
			if row >= 100 {
				p = .5 * float64(row-100) / 45
			}
			if row >= 50 && row < 54 || row >= 100 {
				p += .5 / 14
			}
			return p
		}},
		{[]bool{false, true, false}, func(row uint32) float64 {
			if row >= 50 && row < 54 {
				return .25
			}
			return 0
		}},
	} {
		seen := map[uint32]float64{}
		for _, row := range all(s, nil, whole.Only(c.in), mini.Key{}, Tail) {
			seen[row]++
		}
		for row := range uint32(110) {
			want := c.want(row) * float64(s.Len())
			if got := seen[row]; math.Abs(got-want) > 5*math.Sqrt(want)+1e-9 {
				t.Errorf("%v: row %d drawn %v times, want about %.0f", c.in, row, got, want)
			}
		}
	}
	mb.Partitions[1].Nodes = 0
	if whole, err = NewPool(mb); err != nil || whole.Only([]bool{false, true, false}) != nil {
		t.Errorf("a pool of an empty partition, %v", err)
	}
}

// Of some nodes negatives are drawn as from a macro-batch that has only those, by degree too, and of some partitions of theirs.
func TestOnlySomeNodes(t *testing.T) {
	mb := macroBatch()
	whole, err := NewPool(mb)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := New(Config{Count: 1000, Chunks: 50, DegreeShare: .5, Seed: 2})
	odd := whole.Where(func(row uint32) bool { return row%2 == 1 })
	for _, c := range []struct {
		pool  *Pool
		first uint32 // of the rows that may be drawn
		nodes float64
	}{{odd, 0, 20}, {odd.Only([]bool{true, false, false}), 100, 5}} {
		seen := map[uint32]float64{}
		for _, row := range all(s, nil, c.pool, mini.Key{}, Tail) {
			seen[row]++
		}
		for row := range uint32(110) {
			want := 0.
			if row%2 == 1 && row >= c.first && (row < 30 || row >= 100) {
				want = .5 / c.nodes
				if row >= 100 {
					want += .5 * float64(row-100) / 25 // the odd ones' edges
				}
			}
			want *= float64(s.Len())
			if got := seen[row]; math.Abs(got-want) > 5*math.Sqrt(want)+1e-9 {
				t.Errorf("row %d drawn %v times, want about %.0f", row, got, want)
			}
		}
	}
	if whole.Where(func(uint32) bool { return false }) != nil {
		t.Error("a pool of no nodes")
	}
	for _, p := range whole.partitions {
		only := whole.Where(func(row uint32) bool { return row >= p.Base && row < p.Base+p.Nodes })
		if p.Nodes == 0 && only != nil || p.Nodes > 0 && (only == nil || only.before[len(only.before)-1] != uint64(p.Nodes)) {
			t.Errorf("a pool of the partition at %d alone: %+v, expected %d nodes", p.Base, only, p.Nodes)
		}
	}
}

// By degree means edges of both directions where both are in memory.
func TestDegreeCountsBothWays(t *testing.T) {
	mb := macroBatch()
	mb.Out = &buffer.Adjacency{Spans: make([]buffer.Span, 110)}
	edges := mb.In.Spans[3].End
	for k := range edges { // they lead to five nodes
		mb.Out.Indices = append(mb.Out.Indices, uint32(k%5))
	}
	mb.Out.Spans[105] = buffer.Span{End: edges}
	pool, err := NewPool(mb)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Count: 1000, Chunks: 100, DegreeShare: 1, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint32]float64{}
	for _, r := range all(s, nil, pool, mini.Key{}, Head) {
		seen[r]++
	}
	for row := range uint32(110) {
		degree := 0.
		switch {
		case row < 5:
			degree = float64(edges) / 5
		case row >= 100:
			degree = float64(row - 100)
		}
		want := float64(s.Len()) * degree / float64(2*edges)
		if got := seen[row]; math.Abs(got-want) > 5*math.Sqrt(want)+1e-9 {
			t.Errorf("row %d of degree %v drawn %v times, want about %.0f", row, degree, got, want)
		}
	}
}

// Moving partitions to other slots moves rows and nothing else.
func TestDrawsDoNotDependOnSlots(t *testing.T) {
	a, b := macroBatch(), macroBatch()
	b.Partitions[0].Base, b.Partitions[2].Base = 0, 40
	b.In.Spans[43], b.In.Spans[3] = b.In.Spans[3], buffer.Span{}
	for i := range b.In.Indices {
		b.In.Indices[i] -= 100
	}
	move := func(row uint32) uint32 {
		if row >= 100 {
			return row - 100
		}
		return row + 40
	}
	s, _ := New(Config{Count: 100, Chunks: 3, DegreeShare: .5})
	pa, _ := NewPool(a)
	pb, _ := NewPool(b)
	ra, rb := all(s, nil, pa, mini.Key{Epoch: 2}, Head), all(s, nil, pb, mini.Key{Epoch: 2}, Head)
	for i := range ra {
		if move(ra[i]) != rb[i] {
			t.Fatalf("draw %d is row %d in one layout and row %d in the other", i, ra[i], rb[i])
		}
	}
}

func TestKeysAndSidesDiffer(t *testing.T) {
	pool, _ := NewPool(macroBatch())
	var seen [][]uint32
	for _, seed := range []uint64{0, 1} {
		s, _ := New(Config{Count: 50, Chunks: 2, Seed: seed})
		for _, key := range []mini.Key{{}, {Epoch: 1}, {Step: 1}, {Pass: 1}, {Batch: 1}} {
			for _, side := range []Side{Tail, Head} {
				rows := all(s, nil, pool, key, side)
				if again := all(s, nil, pool, key, side); !slices.Equal(rows, again) {
					t.Fatal("the same key drew other rows")
				}
				seen = append(seen, rows[:50], rows[50:])
			}
		}
	}
	for i := range seen {
		for j := range i {
			if slices.Equal(seen[i], seen[j]) {
				t.Errorf("chunks %d and %d of different keys have the same negatives", i, j)
			}
		}
	}
}

func TestMask(t *testing.T) {
	ends := []uint32{5, 6, 7, 8}
	negatives := []uint32{5, 1, 5, 2, 6, 6, 8, 7, 0, 1, 2, 8}
	var hits [][2]int
	for c := range 4 {
		Mask(ends[c:c+1], negatives[3*c:][:3], func(e, n int) { hits = append(hits, [2]int{c + e, n}) })
	}
	want := [][2]int{{0, 0}, {0, 2}, {1, 1}, {1, 2}, {2, 1}, {3, 2}}
	if !slices.Equal(hits, want) {
		t.Errorf("hits %v, want %v", hits, want)
	}
}

func TestRefuses(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "Count 0 in 1 Chunks"},
		{Config{Count: 1, Chunks: -1}, "in -1 Chunks"},
		{Config{Count: 1 << 20, Chunks: 1 << 20}, "fewer than 2^31"},
		{Config{Count: 1, DegreeShare: 1.5}, "DegreeShare 1.5"},
		{Config{Count: 1, DegreeShare: math.NaN()}, "DegreeShare NaN"},
	} {
		if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New(%+v): %v, want an error about %q", tt.cfg, err, tt.want)
		}
	}
	if _, err := NewPool(&buffer.MacroBatch{}); !errors.Is(err, ErrNoNodes) {
		t.Errorf("an empty macro-batch: %v", err)
	}
}

func TestNoEdges(t *testing.T) {
	mb := macroBatch()
	mb.In.Spans[3] = buffer.Span{}
	pool, _ := NewPool(mb)
	s, _ := New(Config{Count: 10, DegreeShare: 1})
	if rows := all(s, nil, pool, mini.Key{}, Tail); len(rows) != 10 {
		t.Errorf("%d rows from a graph without edges, want 10 drawn uniformly", len(rows))
	}
}

func TestSampleAllocatesNothing(t *testing.T) {
	pool, _ := NewPool(macroBatch())
	s, _ := New(Config{Count: 500, Chunks: 10, DegreeShare: .5})
	rows := all(s, nil, pool, mini.Key{}, Tail)
	if n := testing.AllocsPerRun(10, func() { rows = all(s, rows, pool, mini.Key{}, Tail) }); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

// TestCountBound: as many negatives as an int32 counts, and not one more.
func TestCountBound(t *testing.T) {
	for _, c := range []struct {
		count, chunks int
		ok            bool
	}{{math.MaxInt32, 1, true}, {math.MaxInt32/2 + 1, 2, false}, {math.MaxInt32 / 2, 2, true}, {1, 0, true}, {0, 1, false}, {1, -1, false}} {
		if _, err := New(Config{Count: c.count, Chunks: c.chunks}); (err == nil) != c.ok {
			t.Errorf("%d negatives in %d chunks: %v", c.count, c.chunks, err)
		}
	}
}
