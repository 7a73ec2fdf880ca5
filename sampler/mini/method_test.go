package mini

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// setProbabilities returns, by the set of positions as bits, the probability that a successive sample of k of the weights is
// that set: the sum over its orders of the product of each one's weight over what is left. Weights of 0 stand for the
// limit of small equal ones.
func setProbabilities(weights []float64, k int) map[uint64]float64 {
	out := map[uint64]float64{}
	var walk func(set uint64, p float64, left int)
	walk = func(set uint64, p float64, left int) {
		if left == 0 {
			out[set] += p
			return
		}
		total, zeros := 0., 0
		for i, w := range weights {
			if set>>i&1 == 0 {
				if total += w; w == 0 {
					zeros++
				}
			}
		}
		for i, w := range weights {
			if set>>i&1 != 0 {
				continue
			}
			switch {
			case total > 0 && w > 0:
				walk(set|1<<i, p*w/total, left-1)
			case total == 0:
				walk(set|1<<i, p/float64(zeros), left-1)
			}
		}
	}
	walk(0, 1, k)
	return out
}

// chiSquare fails if counts of trials differ from their probabilities by more than 5 standard deviations of the statistic.
func chiSquare(t *testing.T, what string, counts []float64, p map[uint64]float64, trials float64) {
	t.Helper()
	x := 0.
	for set, n := range counts {
		if n > 0 && p[uint64(set)] == 0 {
			t.Errorf("%s: set %b was drawn %v times, its probability is 0", what, set, n)
		}
	}
	for set, q := range p {
		x += (counts[set] - trials*q) * (counts[set] - trials*q) / (trials * q)
	}
	df := float64(len(p) - 1)
	if z := (x - df) / math.Sqrt(2*max(df, 1)); df > 0 && math.Abs(z) > 5 {
		t.Errorf("%s: chi-square of %v over %v sets is %.1f standard deviations off", what, x, len(p), z)
	}
}

// shared is a graph of rows whose list of edges is one and the same, from rows that follow.
func shared(rows int, weights []float32, times []int64) Graph {
	n := max(len(weights), len(times))
	a := &buffer.Adjacency{Spans: make([]buffer.Span, rows+n), Weights: weights, Times: times, Sums: make([]float64, (n+buffer.SumEdges-1)/buffer.SumEdges)}
	for k := range n {
		a.Indices = append(a.Indices, uint32(rows+k))
	}
	for v := range rows {
		a.Spans[v].End = int64(n)
	}
	if len(weights) > 0 {
		a.SumWeights(0, rows)
	}
	return Graph{In: a, Keys: numbers(rows + n)}
}

func numbers(n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i)
	}
	return out
}

// setsOf adds to counts the sets of neighbours of each seed, as bits from row first on.
func setsOf(b *Batch, first int, counts []float64) {
	k := &b.Blocks[0]
	for d := range k.NumDst {
		var set uint64
		for _, i := range k.Indices[k.Indptr[d]:k.Indptr[d+1]] {
			set |= 1 << (int(b.Input[i]) - first)
		}
		counts[set]++
	}
}

// TestDrawsAreExact: over a million draws of each sampler every set comes up as often as its probability, computed by hand
// from the definition, says; for weights of every kind, by attempts and by taking edges out.
func TestDrawsAreExact(t *testing.T) {
	const rows = 1000
	type draws struct {
		sampler string
		weights []float32
		fanout  int
		short   int64 // removeUpTo of the weighted sampler; −1: its own
		trials  int
	}
	const million, less = 1_000_000, 100_000
	common := []float32{4, 2, 1, 1, .5}
	tests := []draws{{Weighted, common, 2, -1, million}, {Weighted, common, 2, 0, million}, {Uniform, make([]float32, 6), 2, -1, million}, {Labor, make([]float32, 6), 2, -1, million}}
	for _, weights := range [][]float32{{1, 1, 1, 1}, common, {1000, 1, 1, 1, 1}, {0, 3, 0, 1, 2}, {1e-30, 2e-30, 4e30, 1e30}, {0, 0, 0, 0}} {
		for _, fanout := range []int{1, 2, 3} {
			tests = append(tests, draws{Weighted, weights, fanout, -1, less}, draws{Weighted, weights, fanout, 0, less})
		}
	}
	for _, fanout := range []int{1, 4} {
		tests = append(tests, draws{Uniform, make([]float32, 6), fanout, -1, less}, draws{Labor, make([]float32, 6), fanout, -1, less})
	}
	for i, tt := range tests {
		t.Run(fmt.Sprint(i, tt), func(t *testing.T) {
			t.Parallel()
			g, n := shared(rows, tt.weights, nil), rows
			if tt.sampler == Labor { // one seed: others would draw the same, which is the point
				n = 1
			}
			s, err := New(Config{Fanouts: []int{tt.fanout}, Sampler: tt.sampler, Seed: uint64(i)})
			if err != nil {
				t.Fatal(err)
			}
			if w, ok := s.drawer.(*weighted); ok && tt.short >= 0 {
				w.removeUpTo = tt.short
			}
			p := make([]float64, len(tt.weights))
			for k, w := range tt.weights {
				p[k] = float64(w)
				if tt.sampler != Weighted {
					p[k] = 1
				}
			}
			seeds, counts := numbers(n), make([]float64, 64)
			var b Batch
			trials := tt.trials / race.Every(20)
			for batch := range trials / n {
				if err := s.Sample(Key{Batch: batch}, g, seeds, &b); err != nil {
					t.Fatal(err)
				}
				setsOf(&b, rows, counts)
			}
			chiSquare(t, fmt.Sprint(tt), counts, setProbabilities(p, tt.fanout), float64(trials))
		})
	}
}

// TestTemporalDrawsAreExact: the same of the edges before a moment, with ties at it left out.
func TestTemporalDrawsAreExact(t *testing.T) {
	const rows = 1000
	times := []int64{-5, 1, 1, 3, 7, 7, 9}
	g := shared(rows, nil, times)
	for moment, past := range map[int64]int{-5: 0, 1: 1, 2: 3, 7: 4, 8: 6, 100: 7} {
		s, err := New(Config{Fanouts: []int{2}, Sampler: Temporal, Seed: uint64(moment)})
		if err != nil {
			t.Fatal(err)
		}
		at := make([]int64, rows)
		for i := range at {
			at[i] = moment
		}
		var b Batch
		counts, batches := make([]float64, 128), 100
		if moment == 8 {
			batches = 1000
		}
		batches /= race.Every(20)
		for batch := range batches {
			if err := s.SampleAt(Key{Batch: batch}, g, numbers(rows), at, &b); err != nil {
				t.Fatal(err)
			}
			setsOf(&b, rows, counts)
		}
		equal := make([]float64, past)
		for i := range equal {
			equal[i] = 1
		}
		chiSquare(t, fmt.Sprint("moment ", moment), counts, setProbabilities(equal, min(2, past)), float64(rows*batches))
	}
}

// timed makes g's lists lists in order of time, with many ties.
func timed(g *Graph, seed uint64) {
	r := keyed.New(seed).Rand(0)
	for _, a := range g.adjacencies() {
		a.Times = make([]int64, len(a.Indices))
		for i := range a.Times {
			a.Times[i] = int64(r.Below(50))
		}
		for _, s := range a.Spans {
			slices.Sort(a.Times[s.Begin:s.End])
		}
	}
}

// TestSampleAtKeepsTheRule: whatever the graph, no edge is at or after the moment that it is drawn for, at any hop; each block's
// sources follow its edges; as many edges are drawn as there are, and Latest takes the last ones.
func TestSampleAtKeepsTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(t, "nodes")
		m := rapid.IntRange(0, 1000).Draw(t, "edges")
		g := Graph{In: adjacency(n, skewed(rapid.Uint64().Draw(t, "graph"), n, m), 0)}
		if rapid.Bool().Draw(t, "both") {
			g.Out = adjacency(n, skewed(rapid.Uint64().Draw(t, "out"), n, m), 0)
		}
		timed(&g, 7)
		cfg := Config{Sampler: rapid.SampledFrom(TimedSamplers()).Draw(t, "sampler"), Seed: 3,
			Fanouts: rapid.SliceOfN(rapid.SampledFrom([]int{All, 1, 3, 10}), 1, 2).Draw(t, "fanouts")}
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := keyed.New(5).Rand(1)
		seeds, at := make([]uint32, rapid.IntRange(0, 8).Draw(t, "seeds")), []int64{}
		for i := range seeds {
			seeds[i] = uint32(r.Below(uint64(n)))
			at = append(at, int64(r.Below(60))-5)
		}
		var b Batch
		if err := s.SampleAt(Key{}, g, seeds, at, &b); err != nil {
			t.Fatal(err)
		}
		for h := range cfg.Fanouts {
			k := &b.Blocks[len(cfg.Fanouts)-1-h]
			for d := range k.NumDst {
				row, moment := b.Input[d], b.Times[d]
				want, degree := []int64{}, 0
				for _, a := range g.adjacencies() {
					var past []int64
					for e := a.Spans[row].Begin; e < a.Spans[row].End && a.Times[e] < moment; e++ {
						past = append(past, a.Times[e])
					}
					degree += len(past)
					slices.Reverse(past)
					want = append(want, past[:taken(int64(len(past)), cfg.Fanouts[h])]...)
				}
				lo, hi := k.Indptr[d], k.Indptr[d+1]
				if int(hi-lo) != len(want) || int(k.Degrees[d]) != degree {
					t.Fatalf("row %d at %d: %d edges of degree %d, expected %d of %d", row, moment, hi-lo, k.Degrees[d], len(want), degree)
				}
				if cfg.Sampler == Latest && !slices.Equal(k.Times[lo:hi], want) {
					t.Fatalf("row %d at %d: edges at %v, expected the last ones %v", row, moment, k.Times[lo:hi], want)
				}
				for e := lo; e < hi; e++ {
					src := int(k.Indices[e])
					if k.Times[e] >= moment || src != k.NumDst+int(e) || b.Times[src] != k.Times[e] {
						t.Fatalf("row %d at %d: edge %d at %d leads to source %d at %d", row, moment, e, k.Times[e], src, b.Times[src])
					}
					found := false
					for _, a := range g.adjacencies() {
						for q := a.Spans[row].Begin; q < a.Spans[row].End && !found; q++ {
							found = a.Indices[q] == b.Input[src] && a.Times[q] == k.Times[e]
						}
					}
					if !found {
						t.Fatalf("row %d has no edge to %d at %d", row, b.Input[src], k.Times[e])
					}
				}
			}
			if k.NumSrc != k.NumDst+len(k.Indices) {
				t.Fatalf("%d sources of %d destinations and %d edges", k.NumSrc, k.NumDst, len(k.Indices))
			}
		}
	})
}

// TestSamplersDrawWhatIsThere: batches of every sampler have the edges of the lists, no position twice, as many as the fanout allows, in both
// directions; and nothing is left of the batch before.
func TestSamplersDrawWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 500).Draw(t, "nodes")
		r := keyed.New(rapid.Uint64().Draw(t, "weights")).Rand(0)
		pairs := distinct(skewed(rapid.Uint64().Draw(t, "graph"), n, rapid.IntRange(0, 20_000).Draw(t, "edges")))
		g := Graph{In: adjacency(n, pairs, 2), Relations: 2, Keys: numbers(n)}
		if rapid.Bool().Draw(t, "both") {
			g.Out = adjacency(n, pairs, 2)
		}
		for _, a := range g.adjacencies() {
			for range a.Indices {
				a.Weights = append(a.Weights, float32(math.Pow(r.Float64(), 9))-1e-6)
			}
			a.Sums = make([]float64, (len(a.Indices)+buffer.SumEdges-1)/buffer.SumEdges)
			a.SumWeights(0, n)
		}
		cfg := Config{Sampler: rapid.SampledFrom([]string{Uniform, Weighted, Labor, Dense}).Draw(t, "sampler"), Weights: rapid.Bool().Draw(t, "weigh"), Places: rapid.Bool().Draw(t, "places"), Fanouts: []int{rapid.SampledFrom([]int{All, 1, 7, 130}).Draw(t, "fanout")}}
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var b Batch
		for batch := range 2 {
			if err := s.Sample(Key{Batch: batch}, g, numbers(min(n, 60)), &b); err != nil {
				t.Fatal(err)
			}
			k := &b.Blocks[0]
			for d := range k.NumDst {
				at := k.Indptr[d]
				for dir, a := range g.adjacencies() {
					list := a.Indices[a.Spans[d].Begin:a.Spans[d].End]
					end := at + int32(taken(int64(len(list)), cfg.Fanouts[0]))
					seen := map[int32]bool{}
					for ; at < end; at++ {
						i := slices.Index(list, b.Input[k.Indices[at]])
						if i < 0 || seen[int32(i)] || k.Relations[at] != a.Relations[a.Spans[d].Begin+int64(i)]+uint16(2*dir) {
							t.Fatalf("row %d: edge %d is not in the list or there twice", d, at)
						}
						if w := float32(buffer.Weight(a.Weights[a.Spans[d].Begin+int64(i)])); cfg.Weights && k.Weights[at] != w {
							t.Fatalf("row %d: edge %d weighs %v, expected %v", d, at, k.Weights[at], w)
						}
						if p := a.Spans[d].Begin + int64(i); cfg.Places && k.Places[at] != p && k.Places[at] != ^p || cfg.Places && (k.Places[at] < 0) != (dir == 1) {
							t.Fatalf("row %d: edge %d of direction %d lies at %d, expected %d", d, at, dir, k.Places[at], p)
						}
						seen[int32(i)] = true
					}
				}
				if cfg.Places != (len(k.Places) > 0) && len(k.Indices) > 0 {
					t.Fatalf("%d places, asked for: %v", len(k.Places), cfg.Places)
				}
				if cfg.Weights != (len(k.Weights) > 0) && len(k.Indices) > 0 {
					t.Fatalf("%d weights, asked for: %v", len(k.Weights), cfg.Weights)
				}
				if at != k.Indptr[d+1] {
					t.Fatalf("row %d has %d edges, expected %d", d, k.Indptr[d+1]-k.Indptr[d], at-k.Indptr[d])
				}
			}
		}
	})
}

// TestLaborMeetsFewerNodes: seeds with overlapping lists choose the same neighbours, those of one hop and batch, and choices
// follow the nodes' keys and not their rows.
func TestLaborMeetsFewerNodes(t *testing.T) {
	const n = 3000
	g := Graph{In: adjacency(n, skewed(5, n, 90_000), 0), Keys: numbers(n)}
	seeds := numbers(300)
	inputs := map[string]int{}
	for _, name := range []string{Uniform, Labor} {
		s, err := New(Config{Fanouts: []int{10}, Sampler: name})
		if err != nil {
			t.Fatal(err)
		}
		var b Batch
		if err := s.Sample(Key{}, g, seeds, &b); err != nil {
			t.Fatal(err)
		}
		inputs[name] = len(b.Input)
	}
	if inputs[Labor] > inputs[Uniform]*3/4 {
		t.Errorf("labor meets %d nodes, uniform %d", inputs[Labor], inputs[Uniform])
	}
	// The same graph with its rows in another order.
	move := keyed.NewPermutation(keyed.New(1), n)
	moved := Graph{In: &buffer.Adjacency{Spans: make([]buffer.Span, n)}, Keys: make([]uint32, n)}
	for v := range n {
		w := move.At(uint64(v))
		moved.In.Spans[w], moved.Keys[w] = g.In.Spans[v], g.Keys[v]
	}
	for _, u := range g.In.Indices {
		moved.In.Indices = append(moved.In.Indices, uint32(move.At(uint64(u))))
	}
	there := slices.Clone(seeds)
	for i := range there {
		there[i] = uint32(move.At(uint64(there[i])))
	}
	var a, b Batch
	s, _ := New(Config{Fanouts: []int{10, 5}, Sampler: Labor})
	if err := s.Sample(Key{}, g, seeds, &a); err != nil {
		t.Fatal(err)
	}
	if err := s.Sample(Key{}, moved, there, &b); err != nil {
		t.Fatal(err)
	}
	for i := range a.Input {
		if uint32(move.At(uint64(a.Input[i]))) != b.Input[i] {
			t.Fatalf("input %d is row %d, expected %d", i, b.Input[i], move.At(uint64(a.Input[i])))
		}
	}
}

// TestLaborDrawsTheSmallest: whether a list is searched by marks, by numbers or by numbers after too few marks, its neighbours with
// the smallest numbers are drawn; both directions draw by numbers of their own.
func TestLaborDrawsTheSmallest(t *testing.T) {
	const n = 2501
	g := Graph{In: adjacency(n, skewed(5, n, 90_000), 0), Out: adjacency(n, skewed(6, n, 120_001), 0), Keys: numbers(n)}
	slices.Reverse(g.Keys)
	s, err := New(Config{Fanouts: []int{7}, OutFanouts: []int{3}, Sampler: Labor, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	seeds := numbers(n)
	marked := false
	for batch := range 4 {
		var b Batch
		key := Key{Batch: batch}
		if err := s.Sample(key, g, seeds, &b); err != nil {
			t.Fatal(err)
		}
		d := s.drawer.(*labor)
		marked = marked || d.marks[0].made && d.marks[1].made
		place := s.cfg.Place(key, 0)
		for v := range n {
			want := append(smallestOf(place, &g, g.In, v, 7), smallestOf(place.With(1), &g, g.Out, v, 3)...)
			var got []uint32
			for _, u := range b.Blocks[0].Indices[b.Blocks[0].Indptr[v]:b.Blocks[0].Indptr[v+1]] {
				got = append(got, b.Input[u])
			}
			slices.Sort(got) // edges from one node are alike
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("batch %d, row %d: drew %v, expected %v", batch, v, got, want)
			}
		}
	}
	if !marked {
		t.Error("no list was searched by marks")
	}
}

// smallestOf are the k neighbours of row v in a whose nodes have the smallest numbers.
func smallestOf(place keyed.Key, g *Graph, a *buffer.Adjacency, v, k int) (rows []uint32) {
	list := a.Indices[a.Spans[v].Begin:a.Spans[v].End]
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(lot(place, g.Keys[list[x]]), lot(place, g.Keys[list[y]]))
	})
	for _, i := range order[:min(k, len(order))] {
		rows = append(rows, list[i])
	}
	return rows
}

// timedSeeds is a TimedSource of all rows at one moment each.
type timedSeeds struct{ *Shuffled }

func (timedSeeds) Times(_ int, dst []int64, b *Batch) ([]int64, error) {
	for range 10 {
		dst = append(dst, 30)
	}
	return dst[:10], nil
}

func TestSamplersRefuse(t *testing.T) {
	g := Graph{In: adjacency(20, skewed(1, 20, 100), 0)}
	for name, want := range map[string]string{Weighted: "no weights", Labor: "no keys", Temporal: "needs a time", Latest: "needs a time", "fair": "known are uniform, weighted, labor, dense, pinsage, temporal, latest"} {
		s, err := New(Config{Fanouts: []int{2}, Sampler: name})
		var b Batch
		if err == nil {
			err = s.Sample(Key{}, g, []uint32{1}, &b)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, expected one of %q", name, err, want)
		}
	}
	s, err := New(Config{Fanouts: []int{2}, Sampler: Latest})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		seeds []uint32
		times []int64
		want  string
	}{{[]uint32{1}, nil, "1 seeds with 0 times"}, {[]uint32{1}, []int64{1}, "no times"}, {[]uint32{20}, []int64{1}, "20 rows"}} {
		var b Batch
		if c.want != "no times" {
			timed(&g, 1)
		} else {
			g.In.Times = nil
		}
		if err := s.SampleAt(Key{}, g, c.seeds, c.times, &b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v at %v: error %v, expected one of %q", c.seeds, c.times, err, c.want)
		}
	}
	weighed, _ := New(Config{Fanouts: []int{2}, Weights: true})
	var b Batch
	if err := weighed.Sample(Key{}, g, []uint32{1}, &b); err == nil || !strings.Contains(err.Error(), "no weights") {
		t.Errorf("weights of edges without any: %v", err)
	}
	for _, c := range []Config{{Weights: true, Sampler: Latest}, {Places: true, Sampler: Latest}, {Places: true, Sampler: Pinsage}} {
		if c.Fanouts = []int{2}; c.Validate() == nil {
			t.Errorf("weights or places were accepted with sampler %s", c.Sampler)
		}
	}
	u, _ := New(Config{Fanouts: []int{2}})
	if err := u.SampleAt(Key{}, g, nil, nil, &b); err == nil {
		t.Error("uniform draws for seeds with times")
	}
}

// TestLoaderSamplesAtMoments: batches do not depend on threads, and are SampleAt's.
func TestLoaderSamplesAtMoments(t *testing.T) {
	g := Graph{In: adjacency(200, skewed(1, 200, 4000), 0)}
	timed(&g, 2)
	cfg := Config{Fanouts: []int{3, 2}, Sampler: Temporal}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, threads := range []int{1, 3} {
		l, err := NewLoader(cfg, LoaderOptions{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		source := timedSeeds{NewSequential(numbers(200), 10)}
		n := 0
		for l.Start(context.Background(), Key{Epoch: 2}, g, source); l.Next(); n++ {
			var want Batch
			seeds, _ := source.Seeds(n, nil, nil)
			times, _ := source.Times(n, nil, nil)
			if err := s.SampleAt(Key{Epoch: 2, Batch: n}, g, seeds, times, &want); err != nil {
				t.Fatal(err)
			}
			equalBatches(t, l.Batch(), &want)
			if !slices.Equal(l.Batch().Times, want.Times) || !slices.Equal(l.Batch().Blocks[0].Times, want.Blocks[0].Times) {
				t.Fatalf("batch %d: other times", n)
			}
		}
		if err := cmp.Or(l.Err(), l.Close()); err != nil || n != 20 {
			t.Errorf("%d batches, %v", n, err)
		}
	}
}
