package link

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/sampler/negative"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
)

// linkMacroBatch has partitions 2 and 5 of 3 and 2 nodes, 5 in the lower rows.
func linkMacroBatch(buckets ...buffer.BucketID) *buffer.MacroBatch {
	return &buffer.MacroBatch{
		Step:       buffer.Step{Buckets: buckets},
		Partitions: []buffer.ResidentPartition{{ID: 2, Base: 4, Nodes: 3, First: 20}, {ID: 5, Base: 1, Nodes: 2, First: 50}},
		Rows:       8,
		In: &buffer.Adjacency{
			Spans:     []buffer.Span{{}, {Begin: 0, End: 3}, {Begin: 5, End: 6}, {}, {Begin: 3, End: 5}, {}, {Begin: 6, End: 9}, {}},
			Indices:   []uint32{4, 5, 2, 5, 1, 2, 6, 4, 1},
			Relations: []uint16{0, 1, 2, 0, 1, 2, 0, 1, 2},
		},
	}
}

func TestExamples(t *testing.T) {
	type edge struct {
		src, dst uint32
		relation uint16
	}
	all := []edge{{5, 4, 0}, {1, 4, 1}, {6, 6, 0}, {4, 6, 1}, {1, 6, 2}, {4, 1, 0}, {5, 1, 1}, {2, 1, 2}, {2, 2, 2}}
	for _, c := range []struct {
		name    string
		buckets []buffer.BucketID
		want    []edge
	}{
		{"all", []buffer.BucketID{{Src: 2, Dst: 2}, {Src: 2, Dst: 5}, {Src: 5, Dst: 2}, {Src: 5, Dst: 5}}, all},
		{"one partition", []buffer.BucketID{{Src: 2, Dst: 2}}, []edge{{5, 4, 0}, {6, 6, 0}, {4, 6, 1}}},
		{"between", []buffer.BucketID{{Src: 5, Dst: 2}, {Src: 2, Dst: 5}}, []edge{{1, 4, 1}, {1, 6, 2}, {4, 1, 0}, {5, 1, 1}}},
		{"one way", []buffer.BucketID{{Src: 5, Dst: 2}}, []edge{{1, 4, 1}, {1, 6, 2}}},
		{"the way back", []buffer.BucketID{{Src: 2, Dst: 5}, {Src: 5, Dst: 5}}, []edge{{4, 1, 0}, {5, 1, 1}, {2, 1, 2}, {2, 2, 2}}},
		{"none", nil, nil},
	} {
		var room []place
		for k := range 12 * 4 {
			most, relation := k%12, k/12-1
			x := newExamples(linkMacroBatch(c.buckets...), relation, room, uint64(most+1))
			want := slices.Clone(c.want)
			if relation >= 0 {
				want = slices.DeleteFunc(want, func(e edge) bool { return int(e.relation) != relation })
			}
			var got []edge
			for k := range x.n {
				s, d, r := x.edge(k)
				got = append(got, edge{s, d, r})
			}
			if room = x.places; !slices.Equal(got, want) || len(room) > most+1 {
				t.Errorf("%s, relation %d: edges %v by %d places, expected %v by %d at most", c.name, relation, got, len(room), want, most+1)
			}
		}
	}
}

// TestLinkSource checks one epoch's batches: every edge once, both questions of
// each, answers masked among their negatives, rows that lead back to the same nodes.
func TestLinkSource(t *testing.T) {
	mb := linkMacroBatch(buffer.BucketID{Src: 2, Dst: 2}, buffer.BucketID{Src: 2, Dst: 5}, buffer.BucketID{Src: 5, Dst: 2}, buffer.BucketID{Src: 5, Dst: 5})
	const relations, count, chunks, size = 3, 7, 2, 4
	ns, err := negative.New(negative.Config{Count: count, Chunks: chunks, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := negative.NewPool(mb)
	if err != nil {
		t.Fatal(err)
	}
	x := newExamples(mb, -1, nil, placesMax)
	s := &source{x: x, order: keyed.NewPermutation(keyed.New(3), x.n), size: size, relations: relations, negatives: ns, perChunk: count, answers: newAnswers(x, [2]*negative.Pool{pool, pool}, chunks, FromAnswers)}
	if s.Batches() != 3 {
		t.Fatalf("%d batches of 9 edges by 4, expected 3", s.Batches())
	}
	seen := map[[3]uint32]int{}
	var b mini.Batch
	for i := range s.Batches() {
		seeds, err := s.Seeds(i, nil, &b)
		if err != nil {
			t.Fatal(err)
		}
		e := b.Extra.(*batchExtra)
		n := e.edges
		row := func(k int) uint32 { return seeds[e.rows[k]] }
		if len(e.rows) != 4*n+2*chunks*count || len(e.chunks) != 2*chunks || e.chunks[2*chunks-1] != 2*n {
			t.Fatalf("batch %d of %d edges: %d rows, chunks end at %v", i, n, len(e.rows), e.chunks)
		}
		for k := range n {
			if row(k) != row(3*n+k) || row(n+k) != row(2*n+k) {
				t.Errorf("batch %d: edge %d asks with %d and %d, the answers are %d and %d", i, k, row(k), row(n+k), row(2*n+k), row(3*n+k))
			}
			if e.relations[n+k] != e.relations[k]+relations {
				t.Errorf("batch %d: relation %d has the inverse %d", i, e.relations[k], e.relations[n+k])
			}
			src, dst, r := x.edge(s.order.At(uint64(i*size + k))) // shuffled over the whole step
			if row(k) != src || row(n+k) != dst || e.relations[k] != uint32(r) {
				t.Errorf("batch %d: edge %d is (%d, %d, %d), expected (%d, %d, %d)", i, k, row(k), e.relations[k], row(n+k), src, r, dst)
			}
			seen[[3]uint32{row(k), row(n + k), e.relations[k]}]++
		}
		masked := map[uint32]bool{}
		for _, m := range e.mask {
			masked[m] = true
		}
		lo := 0
		for c, hi := range e.chunks {
			for q := lo; q < hi; q++ {
				for k := range count {
					is := row(4*n+c*count+k) == row(2*n+q)
					if masked[uint32(q*(1+count)+1+k)] != is {
						t.Errorf("batch %d: query %d, negative %d: masked %v, is the answer: %v", i, q, k, !is, is)
					}
				}
			}
			lo = hi
		}
		if slices.Sort(seeds); len(slices.Compact(seeds)) != len(seeds) {
			t.Errorf("batch %d: seeds %v occur twice", i, seeds)
		}
	}
	if len(seen) != int(x.n) {
		t.Errorf("%d different edges were trained, expected %d", len(seen), x.n)
	}
}

// reversed is the outgoing edges of a graph whose incoming ones are in.
func reversed(in *buffer.Adjacency) *buffer.Adjacency {
	out := &buffer.Adjacency{}
	for v := range in.Spans {
		span := buffer.Span{Begin: int64(len(out.Indices))}
		for dst, s := range in.Spans {
			for at := s.Begin; at < s.End; at++ {
				if in.Indices[at] == uint32(v) {
					out.Indices, out.Relations = append(out.Indices, uint32(dst)), append(out.Relations, in.Relations[at])
				}
			}
		}
		span.End = int64(len(out.Indices))
		out.Spans = append(out.Spans, span)
	}
	return out
}

// TestHideBatchEdges: every edge of the batch, and no other, is missing from the neighbourhoods of
// its ends, both ways, and from their degrees, on every hop.
func TestHideBatchEdges(t *testing.T) {
	mb := linkMacroBatch(buffer.BucketID{Src: 2, Dst: 2}, buffer.BucketID{Src: 2, Dst: 5}, buffer.BucketID{Src: 5, Dst: 2}, buffer.BucketID{Src: 5, Dst: 5})
	mb.Out = reversed(mb.In)
	const relations, size = 3, 4
	ns, err := negative.New(negative.Config{Count: 3, Chunks: 2})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := negative.NewPool(mb)
	if err != nil {
		t.Fatal(err)
	}
	x := newExamples(mb, -1, nil, placesMax)
	type edge struct{ dst, src, relation uint32 }
	// read returns the edges of every batch's neighbourhoods, and the batches' own both ways.
	read := func(hide bool, keep float64, hops int) (blocks, own []map[edge]int) {
		loader, err := mini.NewLoader(mini.Config{Fanouts: slices.Repeat([]int{mini.All}, hops)}, mini.LoaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer loader.Close()
		s := &source{x: x, order: keyed.NewPermutation(keyed.New(3), x.n), size: size, relations: relations, negatives: ns, perChunk: 3, answers: newAnswers(x, [2]*negative.Pool{pool, pool}, 2, FromAnswers), hide: hide, keep: keep}
		loader.Start(t.Context(), mini.Key{}, mini.Graph{In: mb.In, Out: mb.Out, Relations: relations}, s)
		for loader.Next() {
			b := loader.Batch()
			e, mine := b.Extra.(*batchExtra), map[edge]int{}
			for i := range b.Blocks {
				k, block := &b.Blocks[i], map[edge]int{}
				for d := range k.NumDst {
					if int(k.Degrees[d]) != int(k.Indptr[d+1]-k.Indptr[d]) {
						t.Errorf("node %d has degree %d and %d edges", b.Input[d], k.Degrees[d], k.Indptr[d+1]-k.Indptr[d])
					}
					for at := k.Indptr[d]; at < k.Indptr[d+1]; at++ {
						block[edge{b.Input[d], b.Input[k.Indices[at]], uint32(k.Relations[at])}]++
					}
				}
				blocks = append(blocks, block)
			}
			for i := range e.edges {
				head, tail := b.Input[e.rows[i]], b.Input[e.rows[e.edges+i]]
				mine[edge{tail, head, e.relations[i]}]++
				mine[edge{head, tail, e.relations[i] + relations}]++
			}
			own = append(own, mine)
		}
		if err := loader.Err(); err != nil {
			t.Fatal(err)
		}
		return blocks, own
	}
	for _, hops := range []int{1, 2} {
		with, own := read(false, 0, hops)
		without, _ := read(true, 0, hops)
		half, _ := read(true, .5, hops)
		kept := 0
		for i := range with {
			for e := range own[i/hops] {
				if with[i][e] == 0 {
					t.Errorf("batch %d, block %d: edge %v is in no neighbourhood", i/hops, i%hops, e)
				}
				// One that stays does so whole: both ways, on every hop.
				back := edge{e.src, e.dst, (e.relation + relations) % (2 * relations)}
				if n := half[i][e]; n > 0 {
					kept++
				} else if half[i/hops*hops][back] > 0 {
					t.Errorf("batch %d, block %d: edge %v is hidden, but not the other way on the first hop", i/hops, i%hops, e)
				}
			}
			ours := func(e edge, _ int) bool { return own[i/hops][e] > 0 }
			maps.DeleteFunc(with[i], ours)
			if !maps.Equal(with[i], without[i]) {
				t.Errorf("batch %d, block %d: neighbourhoods without its edges are %v, expected %v", i/hops, i%hops, without[i], with[i])
			}
		}
		for i := range half {
			maps.DeleteFunc(half[i], func(e edge, _ int) bool { return own[i/hops][e] > 0 })
			if !maps.Equal(half[i], without[i]) {
				t.Errorf("batch %d, block %d: where half of its edges stay, the others are %v, expected %v", i/hops, i%hops, half[i], without[i])
			}
		}
		if all := 2 * hops * int(x.n); kept < all/4 || kept > all*3/4 {
			t.Errorf("%d of %d times an edge stays, expected about half", kept, all)
		}
		if len(own) != 3 || len(with) != 3*hops {
			t.Errorf("%d batches of %d blocks, expected 3 of %d", len(own), len(with), hops)
		}
	}
}

// TestLayers: an encoder has as many layers as fanouts, by default one, of embeddings alone with tanh behind, or with features two.
func TestLayers(t *testing.T) {
	x := []string{"x"}
	for _, c := range []struct {
		cfg     Config
		encoder string
		layers  int
		fanouts []int
	}{
		{Config{}, "none", 0, nil},
		{Config{Encoder: "sage"}, "sage", 0, []int{20}},
		{Config{Encoder: "gat", Fanouts: []int{7}}, "gat", 0, []int{7}},
		{Config{Encoder: "sage", Fanouts: []int{7, 5}}, "sage", 2, []int{7, 5}},
		{Config{Encoder: "sage", Layers: 3}, "sage", 3, []int{15, 10, 5}},
		{Config{Features: x}, "sage", 2, []int{15, 10}},
		{Config{Features: x, Fanouts: []int{7}}, "sage", 1, []int{7}},
		{Config{Features: x, Encoder: "gcn", Fanouts: []int{7, 5, 3}}, "gcn", 3, []int{7, 5, 3}},
		{Config{Features: x, Encoder: "none"}, "none", 0, nil},
	} {
		got := c.cfg
		if err := got.Normalize(); err != nil || got.Encoder != c.encoder || got.Layers != c.layers || !slices.Equal(got.Fanouts, c.fanouts) {
			t.Errorf("%+v: encoder %s of %d layers, fanouts %v, %v; expected %s, %d, %v", c.cfg, got.Encoder, got.Layers, got.Fanouts, err, c.encoder, c.layers, c.fanouts)
		}
	}
	if err := (&Config{Encoder: "sage", Layers: 2, Fanouts: []int{5}}).Normalize(); err == nil {
		t.Error("two layers by one fanout: no error")
	}
}

func TestReadsSources(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want bool
	}{
		{Config{}, false},
		{Config{Encoder: "none"}, false},
		{Config{Encoder: "none", DegreeShare: .5}, true},
		{Config{Encoder: "sage"}, true},
	} {
		if err := c.cfg.Normalize(); err != nil {
			t.Fatal(err)
		}
		if got := c.cfg.readsSources(); got != c.want {
			t.Errorf("encoder %s, degree share %v: %v, expected %v", c.cfg.Encoder, c.cfg.DegreeShare, got, c.want)
		}
	}
}

// A checkpoint of a version that knew no decay, hid edges only when asked and drew negatives from all in memory goes on so.
func TestDecodeProgress(t *testing.T) {
	for text, want := range map[string]Config{
		`{"config":{"encoder":"sage"}}`:                           {LRDecay: noDecay},
		`{"config":{"encoder":"sage","remove_batch_edges":true}}`: {LRDecay: noDecay, RemoveBatchEdges: ptr(true)},
		`{"config":{"lr_decay":0.25,"remove_batch_edges":false}}`: {LRDecay: .25},
		`{"config":{"lr_decay":0.5,"remove_batch_edges":true}}`:   {LRDecay: .5, RemoveBatchEdges: ptr(true)},
	} {
		p, err := decodeProgress([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if p.Config.LRDecay != want.LRDecay || p.Config.RemoveBatchEdges == nil || p.Config.hidesEdges() != want.hidesEdges() {
			t.Errorf("%s: decay %v, edges hidden %v; expected %v, %v", text, p.Config.LRDecay, p.Config.hidesEdges(), want.LRDecay, want.hidesEdges())
		}
		if p.Config.DenseRate != 1 {
			t.Errorf("%s: dense rate %v, expected 1", text, p.Config.DenseRate)
		}
		if p.Config.NegativesFrom != FromResident {
			t.Errorf("%s: negatives from %q, expected %q", text, p.Config.NegativesFrom, FromResident)
		}
	}
	if _, err := decodeProgress([]byte(`{"epoch":`)); err == nil {
		t.Error("half a text is taken")
	}
}

func ptr[T any](v T) *T { return &v }

// The learning rate falls to 0 over the last part of the run, whatever mini-batches it is cut into, and ends above 0.
func TestLinkRate(t *testing.T) {
	for _, c := range []struct {
		decay          float64
		epoch, queries int
		want           float32
	}{
		{1, 0, 0, .2},
		{1, 0, 100, .1975}, // a query is half an edge
		{1, 1, 0, .15},
		{1, 2, 1000, .075},
		{1, 3, 1998, .00005},
		{0, 1, 1998, .2}, // the default: half of the run
		{0, 3, 0, .1},
		{.25, 2, 1998, .2},
		{.25, 3, 1000, .1},
		{-1, 3, 1998, .2},
	} {
		cfg := Config{Epochs: 4, LR: .2, LRDecay: c.decay}
		if err := cfg.Normalize(); err != nil {
			t.Fatal(err)
		}
		tr := &trainer{cfg: &cfg, edges: 1000}
		if got := tr.rate(c.epoch, int64(c.queries)); math.Abs(float64(got-c.want)) > 1e-6 {
			t.Errorf("decay %v, epoch %d after %d queries: %v, expected %v", c.decay, c.epoch, c.queries, got, c.want)
		}
	}
	for _, bad := range []float64{-.5, 1.5, math.NaN()} {
		if err := (&Config{LRDecay: bad}).Normalize(); err == nil {
			t.Errorf("decay %v is taken", bad)
		}
	}
}

// Parameters are stepped at DenseRate times the rate: Adagrad's first step moves a value by the rate, whatever its gradient.
func TestDenseRate(t *testing.T) {
	for _, c := range []struct {
		edges int
		cfg   Config
		want  float64
	}{
		{2000, Config{}, 1},
		{2000, Config{Encoder: "sage"}, denseRate},
		{1000, Config{Encoder: "sage"}, 1},
		{2000, Config{Encoder: "gat", Optimizer: adam}, 1},
		{2000, Config{Encoder: "sage", DenseRate: .25}, .25},
		{2000, Config{DenseRate: 3}, 3},
	} {
		dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: c.edges, Partitions: 12, Relations: 3, Seed: 3}))
		l, err := OpenLoader(t.Context(), storetest.Open(t, dir, store.Options{}), c.cfg, LoaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := l.Config()
		if err := l.Close(); err != nil || cfg.DenseRate != c.want {
			t.Fatalf("%d edges, encoder %s, %s: dense rate %v, expected %v; %v", c.edges, cfg.Encoder, cfg.Optimizer, cfg.DenseRate, c.want, err)
		}
		dev := host.New(host.Options{Threads: 1})
		q, err := gpu.NewQueue(dev)
		if err != nil {
			t.Fatal(err)
		}
		model, err := nn.NewLink(t.Context(), q, nn.LinkConfig{Decoder: nn.DistMult, Encoder: cfg.Encoder, Dim: 4, Relations: 1})
		if err != nil {
			t.Fatal(err)
		}
		p := model.Params().List()[0]
		var before, after [4]float32
		q.Download(floatBytes(before[:]), p.Value.Head(1))
		q.Fill(p.Grad, 7)
		cfg.NoEmbeddings = true // no rows to step
		newUpdater(&cfg, model.Params()).step(q, &minibatch{lr: .01})
		q.Download(floatBytes(after[:]), p.Value.Head(1))
		if err := q.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range before {
			if moved := float64(before[i] - after[i]); math.Abs(moved-.01*c.want) > 1e-5 {
				t.Errorf("encoder %s, dense rate %v: a step of rate .01 moves a parameter by %v", cfg.Encoder, c.want, moved)
			}
		}
		if err := errors.Join(model.Close(), q.Close(), dev.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		if err := (&Config{DenseRate: bad}).Normalize(); err == nil {
			t.Errorf("dense rate %v is taken", bad)
		}
	}
}

// The degree of a source that GCN divides by is that of resident edges of both directions.
func TestLinkSourceDegrees(t *testing.T) {
	mb := linkMacroBatch(buffer.BucketID{Src: 2, Dst: 2}, buffer.BucketID{Src: 2, Dst: 5}, buffer.BucketID{Src: 5, Dst: 2}, buffer.BucketID{Src: 5, Dst: 5})
	mb.Out = reversed(mb.In)
	want := map[uint32]int32{} // by row
	for _, p := range mb.Partitions {
		for dst := p.Base; dst < p.Base+p.Nodes; dst++ {
			for _, src := range mb.In.Indices[mb.In.Spans[dst].Begin:mb.In.Spans[dst].End] {
				want[src]++
				want[dst]++
			}
		}
	}
	dev := host.New(host.Options{Threads: 1})
	defer dev.Close()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	model, err := nn.NewLink(t.Context(), q, nn.LinkConfig{Decoder: nn.DistMult, Encoder: "gcn", Dim: 4, Relations: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	tr := &trainer{cfg: &Config{}, queue: q, pipe: gpu.NewPipeline(q), model: model, batches: &batches{graph: mini.Graph{In: mb.In, Out: mb.Out}}}
	tr.choose()
	defer tr.pipe.Close()
	var rows []uint32
	for row := range want {
		rows = append(rows, row)
	}
	n := len(rows)
	k := mini.Block{NumDst: n, NumSrc: n, Indptr: make([]int32, n+1), Degrees: make([]int32, n)}
	g := tr.graphs.place(&minibatch{Batch: &mini.Batch{Input: rows, Blocks: []mini.Block{k}}})[0]
	got := make([]int32, n)
	q.Download(unsafe.Slice((*byte)(unsafe.Pointer(&got[0])), 4*n), g.SrcDegrees)
	if err := q.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		if got[i] != want[row] {
			t.Errorf("row %d has degree %d, expected %d", row, got[i], want[row])
		}
	}
}

// A budget is the evaluator's only if something is evaluated, and the heap's share grows by the plans.
func TestShares(t *testing.T) {
	const budget, most = 1 << 30, 4096
	c := Config{EvalEvery: -1}
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	if e, b := c.evalShare(budget, 8), c.batchShare(budget, 8); e != 0 || b <= 0 {
		t.Errorf("without evaluation: shares of %d and %d bytes", e, b)
	}
	c.EvalEvery = 5
	if e, b := c.evalShare(budget, 8), c.batchShare(budget, 8); e <= 0 || e+b >= leftBytes(budget, 8) {
		t.Errorf("with evaluation: shares of %d and %d bytes", e, b)
	}
	if got := HeapBytes(budget, most) - HeapBytes(budget, 0); got != 2*macro.PlanBytes(most) {
		t.Errorf("plans of %d partitions add %d bytes to the heap's share, expected two of %d", most, got, macro.PlanBytes(most))
	}
	if a, b := leftBytes(budget, 8), leftBytes(budget, most); a-b != 2*(macro.PlanBytes(most)-macro.PlanBytes(8)) {
		t.Errorf("budgets of 8 and %d partitions leave %d and %d bytes", most, a, b)
	}
}
