package mini

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gstore/gstore/sampler/keyed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func loaderGraph() (Graph, []uint32) {
	const n = 2000
	seeds := make([]uint32, 1501)
	for i := range seeds {
		seeds[i] = uint32(i + 100)
	}
	return Graph{In: adjacency(n, skewed(4, n, 30_000), 0)}, seeds
}

// TestLoaderAhead: batches ahead are those that come, as far as the depth reaches and the pass goes, and looking at them changes
// nothing; what is left after Stop is none.
func TestLoaderAhead(t *testing.T) {
	g, rows := loaderGraph()
	for _, o := range []LoaderOptions{{Threads: 1, Depth: 2}, {Threads: 3, Depth: 6}} {
		l, err := NewLoader(Config{Fanouts: []int{3}, Seed: 9}, o)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		source := NewShuffled(keyed.New(9), rows, 100)
		for range 2 {
			l.Start(t.Context(), Key{Batch: 2}, g, source)
			var told [][]uint32
			for n := 2; l.Next(); n++ {
				if b, known := l.Ready(), l.Ahead(1); b != nil && b != known || l.Ready() != known {
					t.Fatalf("%+v: batch %d is ready that is not the one ahead, or is not once it was waited for", o, n+1)
				}
				for i := len(told) - (n - 2); i < o.Depth; i++ { // batch n is told[n−2]
					b := l.Batch()
					if i > 0 {
						b = l.Ahead(i)
					}
					if b == nil {
						if n+i < source.Batches() {
							t.Fatalf("%+v: batch %d, %d ahead: none", o, n, i)
						}
						break
					}
					told = append(told, slices.Clone(b.Input))
				}
				if b := l.Batch(); b.Key.Batch != n || !slices.Equal(b.Input, told[n-2]) {
					t.Fatalf("%+v: batch %d is not what was told ahead", o, n)
				}
			}
			if l.Err() != nil || len(told) != source.Batches()-2 || l.Ahead(1) != nil || l.Ahead(0) != nil || l.Ready() != nil {
				t.Errorf("%+v: %v, %d batches were told of %d", o, l.Err(), len(told), source.Batches()-2)
			}
		}
		l.Start(t.Context(), Key{}, g, source)
		if b := l.Ahead(1); b == nil || b.Key.Batch != 0 {
			t.Errorf("%+v: before the first batch %v is ahead", o, b)
		}
		l.Stop()
		if l.Ahead(1) != nil || l.Next() {
			t.Errorf("%+v: batches after Stop", o)
		}
	}
}

// Whatever the threads and the depth: the reference's batches, in order.
func TestLoaderIsDeterministic(t *testing.T) {
	g, rows := loaderGraph()
	cfg := Config{Fanouts: []int{7, 4}, Seed: 9}
	for _, o := range []LoaderOptions{{}, {Threads: 1, Depth: 1}, {Threads: 4, Depth: 3}, {Threads: 3, Depth: 40}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			l, err := NewLoader(cfg, o)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for step := range 2 {
				source := NewShuffled(keyed.New(9).With(uint64(step)), rows, 100)
				l.Start(t.Context(), Key{Epoch: 1, Step: step}, g, source)
				n := 0
				var all []uint32
				for ; l.Next(); n++ {
					seeds, _ := source.Seeds(n, nil, nil)
					want := reference(cfg, Key{Epoch: 1, Step: step, Batch: n}, g, seeds)
					equalBatches(t, l.Batch(), &want)
					all = append(all, seeds...)
				}
				if err := l.Err(); err != nil {
					t.Fatal(err)
				}
				if slices.Equal(all, rows) {
					t.Error("seeds were not shuffled")
				}
				slices.Sort(all)
				if n != 16 || !slices.Equal(all, rows) {
					t.Errorf("%d batches with %d seeds, want 16 with every row once", n, len(all))
				}
			}
		})
	}
}

func TestLoaderStopsEarlyAndStartsAgain(t *testing.T) {
	g, rows := loaderGraph()
	l, _ := NewLoader(Config{Fanouts: []int{5}}, LoaderOptions{Threads: 2})
	defer l.Close()
	for range 3 {
		l.Start(t.Context(), Key{}, g, NewSequential(rows, 10))
		for range 4 {
			if !l.Next() {
				t.Fatal(l.Err())
			}
		}
		if got := l.Batch().Seeds; !slices.Equal(got, rows[30:40]) {
			t.Fatalf("fourth batch's seeds are %v, want rows 30 to 39", got)
		}
	}
	l.Stop()
	if l.Next() || l.Err() != nil {
		t.Errorf("after Stop: Next true or error %v", l.Err())
	}
}

func TestLoaderReportsErrorsInOrder(t *testing.T) {
	g, rows := loaderGraph()
	l, _ := NewLoader(Config{Fanouts: []int{5}}, LoaderOptions{Threads: 3})
	defer l.Close()
	bad := slices.Clone(rows)
	bad[55] = 1 << 30
	l.Start(t.Context(), Key{Epoch: 2}, g, NewSequential(bad, 10))
	n := 0
	for l.Next() {
		n++
	}
	want := "epoch 2 step 0 pass 0 batch 5: bad seeds: seed 5 is row 1073741824, but the macro-batch has 2000 rows"
	if err := l.Err(); n != 5 || !errors.Is(err, ErrSeeds) || err.Error() != want {
		t.Errorf("%d batches, then %v; want 5, then %s", n, err, want)
	}

	ctx, cancel := context.WithCancel(t.Context())
	l.Start(ctx, Key{}, g, NewSequential(rows, 10))
	l.Next()
	cancel()
	for l.Next() {
	}
	if err := l.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancelling: %v", err)
	}
	l.Close()
	l.Start(t.Context(), Key{}, g, NewSequential(rows, 10))
	if l.Next() || !errors.Is(l.Err(), ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", l.Err())
	}
}

func TestLoaderAllocatesNothing(t *testing.T) {
	g, rows := loaderGraph()
	l, _ := NewLoader(Config{Fanouts: []int{5, 5}}, LoaderOptions{Threads: 2})
	defer l.Close()
	source := NewSequential(rows, 100)
	ctx := t.Context()
	run := func() {
		l.Start(ctx, Key{}, g, source)
		for l.Next() {
		}
	}
	for range 5 {
		run()
	}
	if n := testing.AllocsPerRun(20, run); n > 1 { // a slot may still meet its largest batch
		t.Errorf("%v allocations a run of 16 batches", n)
	}
}

// TestShareOfRanks: batches that ranks share have sizes that differ by one at most, and are full ones where one process has them
// all and they are as many.
func TestShareOfRanks(t *testing.T) {
	for _, c := range []struct {
		parts, every int
		want         []uint64
	}{{3, 1, []uint64{4, 4, 2}}, {0, 1, []uint64{4, 4, 2}}, {4, 1, []uint64{2, 3, 2, 3}}, {3, 3, []uint64{3, 3, 4}}, {4, 2, []uint64{2, 3, 2, 3}}} {
		for first := range c.every {
			s, want := Share{Parts: c.parts, First: first, Every: c.every}, []uint64(nil)
			for k := first; k < len(c.want); k += c.every {
				want = append(want, c.want[k])
			}
			var got []uint64
			for i := range s.Of(10, 4) {
				lo, hi := s.Range(i, 10, 4)
				got = append(got, hi-lo)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v of 10 examples: batches of %v, expected %v", s, got, want)
			}
		}
	}
}

// TestCompact: of a block all is taken out that belongs to a removed edge, and nothing else.
func TestCompact(t *testing.T) {
	indices := []int32{3, Removed, 4, Removed, Removed, 5}
	seq := func(keep ...int32) []int32 { return keep }
	for _, carries := range []bool{true, false} {
		k := Block{NumDst: 3, Indptr: []int32{0, 3, 5, 6}, Indices: slices.Clone(indices), Degrees: []int32{3, 2, 1}}
		if carries {
			k.Relations, k.Weights, k.Places = []uint16{0, 1, 2, 3, 4, 5}, []float32{0, 1, 2, 3, 4, 5}, []int64{0, 1, 2, 3, 4, 5}
			k.Times, k.Visits = []int64{0, 1, 2, 3, 4, 5}, []int32{0, 1, 2, 3, 4, 5}
		}
		k.Compact()
		if !slices.Equal(k.Indices, seq(3, 4, 5)) || !slices.Equal(k.Indptr, seq(0, 2, 2, 3)) || !slices.Equal(k.Degrees, seq(2, 0, 1)) {
			t.Errorf("sources %v, lists %v, degrees %v", k.Indices, k.Indptr, k.Degrees)
		}
		if want := fmt.Sprint([]int{0, 2, 5}); carries && fmt.Sprint(k.Relations, k.Weights, k.Places, k.Times, k.Visits) != strings.TrimSpace(strings.Repeat(want+" ", 5)) {
			t.Errorf("relations %v, weights %v, places %v, times %v, visits %v, expected %s each", k.Relations, k.Weights, k.Places, k.Times, k.Visits, want)
		} else if !carries && (k.Relations != nil || len(k.Weights)+len(k.Places)+len(k.Times)+len(k.Visits) > 0) {
			t.Errorf("%+v carries what it did not", k)
		}
	}
}

// TestShareEven: batches of one size are as many as full ones, have every example once, and none has a rest of a few.
func TestShareEven(t *testing.T) {
	for _, n := range []uint64{1, 20, 21, 39, 40, 3010} {
		s, next := Share{Even: true}, uint64(0)
		parts := s.Of(n, 20)
		if want := (Share{}).Of(n, 20); parts != want {
			t.Errorf("%d examples: %d batches, full ones are %d", n, parts, want)
		}
		for i := range parts {
			lo, hi := s.Range(i, n, 20)
			if size := hi - lo; lo != next || size > 20 || size < n/uint64(parts) {
				t.Errorf("%d examples: batch %d of %d is %d … %d, after %d", n, i, parts, lo, hi, next)
			}
			next = hi
		}
		if next != n {
			t.Errorf("batches have %d of %d examples", next, n)
		}
	}
}
