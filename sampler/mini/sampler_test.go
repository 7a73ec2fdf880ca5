package mini

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// adjacency builds an Adjacency of n rows from (row, neighbour) pairs, each
// list in the pairs' order; relation of edge k: k modulo relations, if any.
func adjacency(n int, pairs [][2]uint32, relations int) *buffer.Adjacency {
	lists := make([][]uint32, n)
	for _, p := range pairs {
		lists[p[0]] = append(lists[p[0]], p[1])
	}
	a := &buffer.Adjacency{Spans: make([]buffer.Span, n)}
	for v, l := range lists {
		a.Spans[v] = buffer.Span{Begin: int64(len(a.Indices)), End: int64(len(a.Indices) + len(l))}
		a.Indices = append(a.Indices, l...)
	}
	if relations > 0 {
		for k := range a.Indices {
			a.Relations = append(a.Relations, uint16(k%relations))
		}
	}
	return a
}

// skewed draws m pairs with a few rows of very high degree, so that all of pick's cases occur.
func skewed(seed uint64, n, m int) [][2]uint32 {
	r := keyed.New(seed).Rand(0)
	pairs := make([][2]uint32, m)
	for i := range pairs {
		hub := r.Float64()
		pairs[i] = [2]uint32{uint32(hub * hub * hub * float64(n)), uint32(r.Below(uint64(n)))}
	}
	return pairs
}

func equalBatches(t interface {
	Helper()
	Fatalf(string, ...any)
}, got, want *Batch) {
	t.Helper()
	if got.Key != want.Key || !slices.Equal(got.Seeds, want.Seeds) {
		t.Fatalf("key or seeds differ: got %v %v, want %v %v", got.Key, got.Seeds, want.Key, want.Seeds)
	}
	for i := range want.Blocks {
		g, w := &got.Blocks[i], &want.Blocks[i]
		if g.NumDst != w.NumDst || g.NumSrc != w.NumSrc {
			t.Fatalf("block %d: %d → %d nodes, want %d → %d", i, g.NumSrc, g.NumDst, w.NumSrc, w.NumDst)
		}
		if !slices.Equal(g.Indptr, w.Indptr) || !slices.Equal(g.Indices, w.Indices) || !slices.Equal(g.Relations, w.Relations) || !slices.Equal(g.Degrees, w.Degrees) {
			t.Fatalf("block %d differs:\n got %v\nwant %v", i, g, w)
		}
	}
	if !slices.Equal(got.Input, want.Input) {
		t.Fatalf("input rows differ: got %v, want %v", got.Input, want.Input)
	}
}

// The sampler agrees with the reference on any graph, fanouts and seeds, and
// whatever it sampled before.
func TestSamplerAgreesWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "nodes")
		m := rapid.IntRange(0, 20_000).Draw(t, "edges")
		relations := rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "relations")
		pairs := skewed(rapid.Uint64().Draw(t, "graph"), n, m)
		g := Graph{In: adjacency(n, pairs, relations), Relations: relations}
		fanout := rapid.SampledFrom([]int{All, 1, 2, 3, 10, 15, 64, 65, 127, 129, 200})
		cfg := Config{Seed: rapid.Uint64().Draw(t, "seed"), Fanouts: rapid.SliceOfN(fanout, 1, 3).Draw(t, "fanouts")}
		if rapid.Bool().Draw(t, "out") {
			for i := range pairs {
				pairs[i][0], pairs[i][1] = pairs[i][1], pairs[i][0]
			}
			g.Out = adjacency(n, pairs, relations)
			if rapid.Bool().Draw(t, "outFanouts") {
				cfg.OutFanouts = rapid.SliceOfN(rapid.SampledFrom([]int{All, 0, 1, 5, 20}), len(cfg.Fanouts), len(cfg.Fanouts)).Draw(t, "outFanouts")
			}
		}
		dense := cfg
		dense.Sampler = Dense
		s, err := New(cfg)
		d, err2 := New(dense)
		if err := cmp.Or(err, err2); err != nil {
			t.Fatal(err)
		}
		var b Batch
		for batch := range 4 {
			key := Key{Epoch: rapid.IntRange(0, 9).Draw(t, "epoch"), Step: 2, Pass: 1, Batch: batch}
			perm := keyed.NewPermutation(keyed.New(cfg.Seed), uint64(n))
			seeds := make([]uint32, rapid.IntRange(0, min(n, 700)).Draw(t, "seeds"))
			for i := range seeds {
				seeds[i] = uint32(perm.At(uint64(i)))
			}
			cfg, s := cfg, s
			if rapid.Bool().Draw(t, "dense") {
				cfg, s = dense, d
			}
			if err := s.Sample(key, g, seeds, &b); err != nil {
				t.Fatal(err)
			}
			want := reference(cfg, key, g, seeds)
			equalBatches(t, &b, &want)
			drawn := 0
			for i := range want.Blocks {
				if i == 0 || cfg.Sampler != Dense {
					drawn += len(want.Blocks[i].Indices)
				}
			}
			if b.SampledEdges() != drawn {
				t.Fatalf("%d edges sampled, expected %d", b.SampledEdges(), drawn)
			}
		}
	})
}

// Properties that need no oracle: DGL's prefix convention, no repeats, edges exist.
func TestBatchInvariants(t *testing.T) {
	const n = 2000
	g := Graph{In: adjacency(n, distinct(skewed(1, n, 40_000)), 0)}
	s, _ := New(Config{Fanouts: []int{15, 10, 5}})
	var b Batch
	seeds := []uint32{5, 0, 1999, 77, 3}
	if err := s.Sample(Key{}, g, seeds, &b); err != nil {
		t.Fatal(err)
	}
	nodes := map[uint32]bool{}
	for _, v := range b.Input {
		if nodes[v] {
			t.Fatalf("row %d occurs twice among the inputs", v)
		}
		nodes[v] = true
	}
	if !slices.Equal(b.Input[:len(seeds)], seeds) {
		t.Fatalf("inputs begin with %v, want the seeds %v", b.Input[:len(seeds)], seeds)
	}
	fanouts := []int{5, 10, 15}
	for i := range b.Blocks {
		blk := &b.Blocks[i]
		if i+1 < len(b.Blocks) && blk.NumDst != b.Blocks[i+1].NumSrc {
			t.Errorf("block %d has %d destinations, block %d has %d sources", i, blk.NumDst, i+1, b.Blocks[i+1].NumSrc)
		}
		for d := range blk.NumDst {
			picked := blk.Indices[blk.Indptr[d]:blk.Indptr[d+1]]
			degree := int(g.In.Degree(b.Input[d]))
			if int(blk.Degrees[d]) != degree || len(picked) != min(degree, fanouts[i]) {
				t.Errorf("block %d destination %d: %d edges, Degrees %d, of %d neighbours", i, d, len(picked), blk.Degrees[d], degree)
			}
			seen := map[int32]bool{}
			for _, p := range picked {
				if p < 0 || int(p) >= blk.NumSrc {
					t.Fatalf("block %d: source %d of %d", i, p, blk.NumSrc)
				}
				span := g.In.Spans[b.Input[d]]
				if seen[p] || !slices.Contains(g.In.Indices[span.Begin:span.End], b.Input[p]) {
					t.Errorf("block %d destination %d: source %d repeated or no neighbour", i, d, p)
				}
				seen[p] = true
			}
		}
	}
	if b.Blocks[2].NumDst != len(seeds) || b.Blocks[0].NumSrc != len(b.Input) {
		t.Errorf("ends: %d destinations for %d seeds, %d sources for %d inputs", b.Blocks[2].NumDst, len(seeds), b.Blocks[0].NumSrc, len(b.Input))
	}
}

func distinct(pairs [][2]uint32) [][2]uint32 {
	seen := map[[2]uint32]bool{}
	return slices.DeleteFunc(pairs, func(p [2]uint32) bool { was := seen[p]; seen[p] = true; return was })
}

// Every set of k neighbours is equally likely: chi-square over all sets for
// small degrees, over single neighbours and pairs for large ones.
func TestPicksAreUniform(t *testing.T) {
	tests := []struct{ degree, fanout int }{{6, 3}, {8, 2}, {9, 7}, {40, 10}, {64, 5}, {65, 15}, {300, 20}, {300, 100}, {400, 150}, {500, 300}}
	const trials = 6000
	for _, tt := range tests {
		pairs := make([][2]uint32, tt.degree)
		for i := range pairs {
			pairs[i] = [2]uint32{0, uint32(i + 1)}
		}
		g := Graph{In: adjacency(tt.degree+1, pairs, 0)}
		s, err := New(Config{Fanouts: []int{tt.fanout}, Seed: 11})
		if err != nil {
			t.Fatal(err)
		}
		single := make([]float64, tt.degree)
		pair := make([]float64, 64)
		sets := map[uint64]float64{}
		var b Batch
		for i := range trials {
			if err := s.Sample(Key{Batch: i}, g, []uint32{0}, &b); err != nil {
				t.Fatal(err)
			}
			var set uint64
			for _, p := range b.Blocks[0].Indices {
				v := int(b.Input[p]) - 1
				single[v]++
				set |= 1 << (v % 64)
			}
			if tt.degree < 10 {
				sets[set]++
			}
			if set&1 != 0 && tt.degree <= 64 { // neighbours picked together with neighbour 0
				for v := 1; v < tt.degree; v++ {
					pair[v] += float64(set >> v & 1)
				}
			}
		}
		// Counts of draws without replacement vary less than Poisson counts by (1 − k/d).
		p := float64(tt.fanout) / float64(tt.degree)
		check(t, tt, "single neighbours", single, trials*p, 1-p)
		if tt.degree < 10 {
			all := binomial(tt.degree, tt.fanout)
			counts := make([]float64, 0, all)
			for _, c := range sets {
				counts = append(counts, c)
			}
			if len(counts) != all {
				t.Errorf("%v: %d different sets drawn, want all %d", tt, len(counts), all)
			}
			check(t, tt, "sets", counts, trials/float64(all), 1)
		}
		if tt.degree <= 64 {
			q := p * float64(tt.fanout-1) / float64(tt.degree-1)
			check(t, tt, "pairs", pair[1:tt.degree], trials*q, 1-q)
		}
	}
}

func check(t *testing.T, tt any, what string, counts []float64, want, variance float64) {
	t.Helper()
	x := 0.0
	for _, c := range counts {
		x += (c - want) * (c - want) / (want * variance)
	}
	df := float64(len(counts) - 1)
	if z := (x - df) / math.Sqrt(2*df); math.Abs(z) > 5 {
		t.Errorf("%v, %s: chi-square is %.1f standard deviations off", tt, what, z)
	}
}

func binomial(n, k int) int {
	c := 1
	for i := range k {
		c = c * (n - i) / (i + 1)
	}
	return c
}

func TestKeysGiveDifferentBatches(t *testing.T) {
	g := Graph{In: adjacency(500, skewed(2, 500, 20_000), 0)}
	seeds := []uint32{0, 1, 2, 3}
	keys := []Key{{}, {Epoch: 1}, {Step: 1}, {Pass: 1}, {Batch: 1}}
	var seen [][]int32
	for _, seed := range []uint64{0, 1} {
		s, _ := New(Config{Fanouts: []int{5}, Seed: seed})
		for _, key := range keys {
			var b Batch
			if err := s.Sample(key, g, seeds, &b); err != nil {
				t.Fatal(err)
			}
			rows := make([]int32, 0, 20)
			for _, p := range b.Blocks[0].Indices {
				rows = append(rows, int32(b.Input[p]))
			}
			for _, other := range seen {
				if slices.Equal(rows, other) {
					t.Errorf("seed %d, %+v: the same neighbours as another key", seed, key)
				}
			}
			seen = append(seen, rows)
		}
	}
}

func TestSampleRefusesBadSeeds(t *testing.T) {
	g := Graph{In: adjacency(4, [][2]uint32{{0, 1}}, 0)}
	s, _ := New(Config{Fanouts: []int{2}})
	tests := []struct {
		seeds []uint32
		want  string
	}{
		{[]uint32{0, 4}, "bad seeds: seed 1 is row 4, but the macro-batch has 4 rows"},
		{[]uint32{2, 1, 2}, "bad seeds: seeds 0 and 2 are both row 2; map them through a Table first"},
	}
	for _, tt := range tests {
		var b Batch
		err := s.Sample(Key{}, g, tt.seeds, &b)
		if !errors.Is(err, ErrSeeds) || err.Error() != tt.want {
			t.Errorf("seeds %v: error %q, want %q", tt.seeds, err, tt.want)
		}
		if err := s.Sample(Key{}, g, []uint32{0, 1}, &b); err != nil {
			t.Errorf("after bad seeds %v: %v", tt.seeds, err)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	tests := []struct {
		cfg  Config
		want string
	}{
		{Config{Fanouts: []int{10, 0}}, "mini.Config: option Fanouts[1] is 0: want a positive number, or -1 for all neighbours"},
		{Config{Fanouts: []int{10, -2}}, "mini.Config: option Fanouts[1] is -2: want a positive number, or -1 for all neighbours"},
		{Config{Fanouts: []int{10, 5}, OutFanouts: []int{10}}, "mini.Config: OutFanouts has 1 entries, Fanouts 2: want one a layer in both"},
		{Config{Fanouts: []int{10}, Sampler: Labor, Together: 2}, "mini.Config: option Together is 2 with sampler labor: want 0 or more, and more than 1 with uniform alone"},
		{Config{Fanouts: []int{10}, OutFanouts: []int{-3}}, "mini.Config: OutFanouts[0] is -3: want 0 or more, or -1 for all neighbours"},
	}
	for _, tt := range tests {
		if _, err := New(tt.cfg); err == nil || err.Error() != tt.want {
			t.Errorf("New(%+v): error %v, want %s", tt.cfg, err, tt.want)
		}
	}
}

// TestTogether: batches that are drawn together have the same neighbours of a node in a hop, those of another large batch others;
// so they reach fewer nodes. Rows do not matter where nodes have names.
func TestTogether(t *testing.T) {
	const n = 3000
	g := Graph{In: adjacency(n, skewed(3, n, 60_000), 0)}
	rows := make([]uint32, n)
	for i := range rows {
		rows[i] = uint32(i)
	}
	reached := map[int]int{}
	for _, together := range []int{0, 4} {
		s, err := New(Config{Fanouts: []int{4, 3}, Together: together, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		all := map[uint32]bool{}                                  // that a large batch reaches
		lists, before := map[[2]int]string{}, map[[2]int]string{} // of a large batch and the one before, by hop and node
		differ := 0
		for i := range 8 {
			if i == 4 {
				clear(all)
				lists, before = map[[2]int]string{}, lists
			}
			var b Batch
			if err := s.Sample(Key{Batch: i}, g, rows[i%4*50:i%4*50+100], &b); err != nil {
				t.Fatal(err)
			}
			for h := range b.Blocks {
				k := &b.Blocks[len(b.Blocks)-1-h]
				for d, row := range b.Input[:k.NumDst] {
					var list []uint32
					for _, at := range k.Indices[k.Indptr[d]:k.Indptr[d+1]] {
						list = append(list, b.Input[at])
					}
					is, where := fmt.Sprint(list), [2]int{h, int(row)}
					if was, ok := lists[where]; ok && was != is && together > 0 {
						t.Fatalf("batch %d, hop %d: node %d has neighbours %v, before %s", i, h, row, list, was)
					}
					if was, ok := before[where]; ok && was != is {
						differ++
					}
					lists[where] = is
				}
			}
			for _, r := range b.Input {
				all[r] = true
			}
		}
		if differ == 0 {
			t.Errorf("%d together: no node has other neighbours in another large batch", together)
		}
		reached[together] = len(all)
	}
	if reached[4] >= reached[0] {
		t.Errorf("four batches drawn together reach %d nodes, each for itself %d", reached[4], reached[0])
	}
	// The same nodes in other rows.
	s, _ := New(Config{Fanouts: []int{4}, Together: 2})
	var a, b Batch
	for _, x := range []struct {
		b    *Batch
		keys []uint32
		row  uint32
	}{{&a, []uint32{8, 9}, 1}, {&b, []uint32{9, 8}, 0}} {
		list := make([]uint32, 20)
		g := Graph{In: &buffer.Adjacency{Spans: []buffer.Span{{End: 20}, {End: 20}}, Indices: list}, Keys: x.keys}
		for i := range list {
			list[i] = uint32(i % 2)
		}
		if err := s.Sample(Key{}, g, []uint32{x.row}, x.b); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range a.Blocks[0].Indices { // 0 is the seed, row 1 and row 0
		if (a.Input[e] == 0) != (b.Input[b.Blocks[0].Indices[i]] == 0) {
			t.Errorf("edge %d: row %d, of other rows %d: expected the same place in the list", i, a.Input[e], b.Input[b.Blocks[0].Indices[i]])
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	g := Graph{In: adjacency(3000, skewed(3, 3000, 60_000), 2)}
	g.Out, g.Relations = g.In, 2
	s, _ := New(Config{Fanouts: []int{10, 200}, OutFanouts: []int{4, All}})
	seeds := make([]uint32, 256)
	for i := range seeds {
		seeds[i] = uint32(i)
	}
	var b Batch
	sample := func() {
		if err := s.Sample(Key{}, g, seeds, &b); err != nil {
			t.Fatal(err)
		}
	}
	sample()
	if n := testing.AllocsPerRun(10, sample); n != 0 {
		t.Errorf("%v allocations a batch, want none once memory has grown", n)
	}
}

func TestTableGrowsAndShrinks(t *testing.T) {
	var tab Table
	for _, n := range []int{10, 100_000, 3, 5000} {
		tab.Reset()
		rows := make([]uint32, 2*n)
		for i := range rows { // every row twice, far apart, clashing in low bits
			rows[i] = uint32(i%n) << 12
		}
		local := make([]int32, len(rows))
		unique := tab.Map(nil, rows, local)
		if len(unique) != min(n, 1<<20) || tab.Len() != len(unique) {
			t.Fatalf("%d distinct rows, Len %d, want %d", len(unique), tab.Len(), n)
		}
		for i, l := range local {
			if unique[l] != rows[i] || int(l) != i%n {
				t.Fatalf("n=%d: entry %d is row %d, number %d", n, i, rows[i], l)
			}
		}
	}
}

// TestTableHasRoomForLikeBatches: a batch of some rows more than the one before does not move the table, whatever their number: just
// above a power of two it did, batch after batch.
func TestTableHasRoomForLikeBatches(t *testing.T) {
	var tab Table
	for _, n := range []uint32{4000, 1<<15 - 100, 1<<15 + 100, 50_000} {
		rows := make([]uint32, n+n/10)
		for i := range rows {
			rows[i] = uint32(i)
		}
		local, unique := make([]int32, len(rows)), make([]uint32, 0, 2*len(rows))
		tab.Reset()
		tab.Map(unique, rows[:n], local)
		tab.Reset()
		slots := len(tab.slots)
		tab.Map(unique, rows, local)
		if len(tab.slots) != slots {
			t.Errorf("%d rows after %d: %d slots became %d", len(rows), n, slots, len(tab.slots))
		}
	}
}

// TestNoFanouts: without hops a batch is its seeds.
func TestNoFanouts(t *testing.T) {
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	g := Graph{In: &buffer.Adjacency{Spans: make([]buffer.Span, 5)}}
	b := Batch{Input: []uint32{9}, Blocks: make([]Block, 2)}
	if err := s.Sample(Key{Batch: 3}, g, []uint32{4, 1}, &b); err != nil {
		t.Fatal(err)
	}
	if want := []uint32{4, 1}; !slices.Equal(b.Input, want) || !slices.Equal(b.Seeds, want) || len(b.Blocks) != 0 || b.Key.Batch != 3 {
		t.Errorf("batch %+v, expected seeds and input %v and no blocks", b, want)
	}
	if err := s.Sample(Key{}, g, []uint32{5}, &b); !errors.Is(err, ErrSeeds) {
		t.Errorf("a seed outside the rows: error %v, expected %v", err, ErrSeeds)
	}
}
