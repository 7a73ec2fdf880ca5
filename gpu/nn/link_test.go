package nn_test

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"testing"
	"unsafe"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
)

// linkFixture is a small batch of link prediction over embeddings of its own.
type linkFixture struct {
	t           *testing.T
	q           *gpu.Queue
	model       *nn.LinkModel
	table       gpu.Tensor
	features    []gpu.Tensor
	x           []float32 // table's values
	index       []uint32
	indptr      []int32
	indices     []int32
	degrees     []int32 // of index
	rows        []uint32
	relations   []uint32
	mask        []uint32
	corrections []float32
	dirty       bool // what the pass allocates held other values before
}

const linkNegatives = 3

var linkChunks = []int{2, 2, 4} // one is empty

func newLinkFixture(t *testing.T, cfg nn.LinkConfig) *linkFixture {
	t.Helper()
	dev := host.New(host.Options{Threads: 2})
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	f := &linkFixture{t: t, q: q, index: []uint32{3, 0, 6, 1, 7, 2}, indptr: []int32{0, 0, 2, 3, 5}, indices: []int32{1, 4, 5, 0, 0}, degrees: []int32{0, 3, 1, 2, 5, 1}}
	if f.model, err = nn.NewLink(t.Context(), q, cfg); err != nil {
		t.Fatal(err)
	}
	keep := gpu.NewArena(dev)
	f.table = keep.Matrix(q, 8, cfg.Dim)
	r := keyed.New(5).Rand(0)
	for _, cols := range cfg.Features {
		x := make([]float32, 8*cols)
		for i := range x {
			x[i] = float32(r.Normal())
		}
		f.features = append(f.features, keep.Matrix(q, 8, cols))
		upload(q, f.features[len(f.features)-1], x)
	}
	f.x = make([]float32, f.table.Len())
	for i := range f.x {
		f.x[i] = float32(r.Normal())
	}
	states := uint64(4)
	for range 2*4 + len(linkChunks)*linkNegatives {
		f.rows = append(f.rows, uint32(r.Below(states)))
	}
	for range 4 {
		f.relations = append(f.relations, uint32(r.Below(uint64(2*cfg.Relations))))
	}
	f.mask = []uint32{2, 2*4 + 1}
	t.Cleanup(func() {
		for _, err := range []error{keep.Close(), f.model.Close(), q.Close(), dev.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return f
}

// pass returns the loss, the embeddings' gradient (by table row) and the parameters'.
func (f *linkFixture) pass() (loss float64, table, params []float32) {
	f.t.Helper()
	q, a := f.q, gpu.NewArena(f.q.Device())
	if f.dirty {
		q.Fill(a.Matrix(q, 1<<12, 1<<6), float32(math.NaN()))
		if err := errors.Join(q.Sync(f.t.Context()), a.Reset()); err != nil {
			f.t.Fatal(err)
		}
	}
	upload(q, f.table, f.x)
	p := &nn.Pass{Queue: q, Arena: a, Train: true}
	n := 4
	index := f.index[:n]
	var graphs []gpu.Graph
	for i := range f.model.Hops() {
		g := gpu.Graph{NumDst: n, NumSrc: len(f.index), Indptr: a.Int32s(q, f.indptr), Indices: a.Int32s(q, f.indices)}
		if i > 0 { // among the destinations of the block below
			g.NumSrc, g.Indices = n, a.Int32s(q, []int32{1, 3, 2, 0, 0})
		}
		if f.model.ReadsDegrees() {
			g.SrcDegrees, g.DstDegrees = a.Int32s(q, f.degrees[:g.NumSrc]), a.Int32s(q, f.degrees[:n])
		}
		index, graphs = f.index, append(graphs, g)
	}
	in := nn.Input{Tables: f.features, Index: a.Uint32s(q, index)}
	if !f.model.Config().NoEmbeddings {
		in.Tables = append([]gpu.Tensor{f.table}, f.features...)
	}
	states := f.model.Encode(p, graphs, in)
	d := f.model.Loss(p, nn.LinkBatch{Rows: a.Uint32s(q, f.rows), Relations: a.Uint32s(q, f.relations), Chunks: linkChunks, Negatives: linkNegatives, Mask: a.Uint32s(q, f.mask), Corrections: f.corrections}, states)
	d = f.model.EncodeBackward(p, d)
	var stat [2]float64
	q.Download(unsafe.Slice((*byte)(unsafe.Pointer(&stat)), 16), f.model.Stat())
	by := floats(d, q)
	for _, p := range f.model.Params().List() {
		params = append(params, floats(p.Grad, q)...)
	}
	if err := q.Sync(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	table = make([]float32, len(f.x))
	for i, row := range index {
		for j := range f.table.Cols {
			table[int(row)*f.table.Cols+j] += by[i*f.table.Cols+j]
		}
	}
	if err := a.Close(); err != nil {
		f.t.Fatal(err)
	}
	return stat[0], table, params
}

// A batch's gradients are its own: nothing is left in them of the batch before, whose memory they have.
func TestLinkLossAgain(t *testing.T) {
	for _, decoder := range nn.Decoders() {
		for _, encoder := range nn.Encoders() {
			f := newLinkFixture(t, nn.LinkConfig{Decoder: decoder, Encoder: encoder, Dim: 8, Relations: 3, Seed: 2})
			loss, table, params := f.pass()
			f.dirty = true
			for range 2 {
				loss2, table2, params2 := f.pass()
				if loss2 != loss || !slices.Equal(table2, table) || !slices.Equal(params2, params) {
					t.Errorf("%s, %s: the same batch again has loss %v after %v, or other gradients", decoder, encoder, loss2, loss)
				}
			}
		}
	}
}

// Negatives that are masked count for nothing: which nodes they are changes neither loss nor gradients.
func TestLinkLossMask(t *testing.T) {
	for loss := gpu.SoftmaxLoss; loss <= gpu.MarginLoss; loss++ {
		f := newLinkFixture(t, nn.LinkConfig{Decoder: nn.DistMult, Encoder: "none", Dim: 8, Relations: 3, Loss: gpu.LinkLossOptions{Loss: loss, Margin: 5}, Seed: 2})
		others := func() (loss float64, same bool) {
			loss, table, params := f.pass()
			was := slices.Clone(f.rows)
			for i := range f.rows[2*4:] {
				f.rows[2*4+i] = (f.rows[2*4+i] + 1) % 4
			}
			loss2, table2, params2 := f.pass()
			f.rows = was
			return loss, loss == loss2 && slices.Equal(table, table2) && slices.Equal(params, params2)
		}
		f.mask = f.mask[:1]
		if _, same := others(); same {
			t.Errorf("%v: other negatives change nothing", loss)
		}
		f.mask = nil
		for query := range uint32(4) {
			for k := range uint32(linkNegatives) {
				f.mask = append(f.mask, query*(1+linkNegatives)+1+k)
			}
		}
		if l, same := others(); !same || loss != gpu.LogisticLoss && l != 0 {
			t.Errorf("%v: masked negatives count: loss %v", loss, l)
		}
	}
}

// TestLinkN3: what the regulariser adds to gradients is 3λ·x·|x| for each time that a row is an end or a relation.
func TestLinkN3(t *testing.T) {
	const lambda = .3
	for _, decoder := range nn.Decoders() {
		cfg := nn.LinkConfig{Decoder: decoder, Encoder: "none", Dim: 6, Relations: 3, Seed: 2}
		plain := newLinkFixture(t, cfg)
		_, table, params := plain.pass()
		cfg.N3 = lambda
		f := newLinkFixture(t, cfg)
		_, table3, params3 := f.pass()
		check := func(what string, rows []uint32, x, grad, grad3 []float32) {
			want := make([]float64, len(x))
			for i := range want {
				want[i] = float64(grad[i])
			}
			for _, row := range rows {
				for j := range cfg.Dim {
					v := float64(x[int(row)*cfg.Dim+j])
					want[int(row)*cfg.Dim+j] += 3 * lambda * v * math.Abs(v)
				}
			}
			for i, v := range want {
				if math.Abs(v-float64(grad3[i])) > 1e-4*(1+math.Abs(v)) {
					t.Fatalf("%s: gradient %d of %s is %v, expected %v", decoder, i, what, grad3[i], v)
				}
			}
		}
		var ends []uint32
		for _, row := range f.rows[:2*4] { // as the fixture has them, places in its index
			ends = append(ends, f.index[row])
		}
		check("embeddings", ends, f.x, table, table3)
		if len(params) > 0 {
			relations := floats(f.model.Params().List()[0].Value, f.q)
			if err := f.q.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			rows := f.relations
			if decoder == nn.RotatE { // whose relations are not regularised
				rows = nil
			}
			check("relations", rows, relations, params, params3)
		}
	}
}

// TestLinkCorrection: three times the same negative, each counted as a third, is that negative once.
func TestLinkCorrection(t *testing.T) {
	for _, decoder := range nn.Decoders() {
		f := newLinkFixture(t, nn.LinkConfig{Decoder: decoder, Encoder: "none", Dim: 4, Relations: 3, Seed: 2})
		for i := range f.rows[2*4:] {
			f.rows[2*4+i] = 1
		}
		f.mask = nil
		for query := range uint32(4) {
			f.mask = append(f.mask, query*(1+linkNegatives)+1, query*(1+linkNegatives)+3)
		}
		once, table, params := f.pass()
		third := float32(-math.Log(linkNegatives))
		f.mask, f.corrections = nil, []float32{third, 0, third} // the chunk between has no question
		loss, table3, params3 := f.pass()
		if math.Abs(loss-once) > 1e-5*(1+once) {
			t.Errorf("%s: loss %v, expected %v", decoder, loss, once)
		}
		for i, v := range append(table3, params3...) {
			if want := append(table, params...)[i]; math.Abs(float64(v-want)) > 1e-5*(1+math.Abs(float64(want))) {
				t.Fatalf("%s: gradient %d is %v, expected %v", decoder, i, v, want)
			}
		}
	}
}

// TestRotatEUnit: relations of rotate have modulus 1 from the beginning and after steps that moved them.
func TestRotatEUnit(t *testing.T) {
	const dim = 6
	f := newLinkFixture(t, nn.LinkConfig{Decoder: nn.RotatE, Encoder: "none", Dim: dim, Relations: 3, Seed: 2})
	value := f.model.Params().List()[0].Value
	check := func(when string, most float64) {
		x := floats(value, f.q)
		if err := f.q.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		phases := map[float64]bool{}
		for i := 0; i < len(x); i += dim {
			for j := range dim / 2 {
				re, im := float64(x[i+j]), float64(x[i+j+dim/2])
				if off := math.Abs(math.Hypot(re, im) - 1); off > most {
					t.Fatalf("%s: a number of relation %d is %v away from modulus 1", when, i/dim, off)
				}
				phases[math.Round(100*math.Atan2(im, re))] = true
			}
		}
		if len(phases) < 10 {
			t.Errorf("%s: only %d different phases", when, len(phases))
		}
	}
	check("new", 1e-6)
	x := floats(value, f.q)
	if err := f.q.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range x { // a step of Adagrad's first, at rate .1
		x[i] += .1 * float32(1-2*(i*7%3%2))
	}
	upload(f.q, value, x)
	arena := gpu.NewArena(f.q.Device())
	defer arena.Close()
	f.model.Constrain(&nn.Pass{Queue: f.q, Arena: arena})
	check("after a step", 1e-6)
}

// TestLinkGradients compares the gradients of embeddings and parameters with
// finite differences of the loss, for every decoder, encoder and loss.
func TestLinkGradients(t *testing.T) {
	for _, decoder := range nn.Decoders() {
		for _, encoder := range nn.Encoders() {
			for loss := gpu.SoftmaxLoss; loss <= gpu.MarginLoss; loss++ {
				t.Run(decoder+"/"+encoder+"/"+loss.String(), func(t *testing.T) {
					checkLinkGradients(t, nn.LinkConfig{Decoder: decoder, Encoder: encoder, Dim: 4, Relations: 3, Loss: gpu.LinkLossOptions{Loss: loss, Margin: .7}, Seed: 2})
				})
			}
		}
	}
	for _, decoder := range []string{nn.DistMult, nn.ComplEx, nn.RotatE, nn.Dot} {
		t.Run(decoder+"/corrected", func(t *testing.T) {
			f := newLinkFixture(t, nn.LinkConfig{Decoder: decoder, Encoder: "none", Dim: 4, Relations: 3, Seed: 2})
			f.corrections = []float32{1.5, 7, -.5}
			f.checkGradients(t)
		})
	}
	for _, decoder := range nn.Decoders() {
		t.Run(decoder+"/dropout", func(t *testing.T) {
			c := nn.LinkConfig{Decoder: decoder, Encoder: "none", Dim: 4, Relations: 3, Seed: 2}
			loss, _, _ := newLinkFixture(t, c).pass()
			c.Dropout = .4
			if dropped, _, _ := newLinkFixture(t, c).pass(); dropped == loss {
				t.Error("nothing is dropped")
			}
			checkLinkGradients(t, c)
			c.Encoder = "sage"
			checkLinkGradients(t, c)
		})
	}
	for _, c := range []nn.LinkConfig{
		{Encoder: "none", Features: []int{3}}, {Encoder: "none", Features: []int{3, 2}, NoEmbeddings: true}, {Encoder: "sage", Features: []int{5}},
		{Encoder: "sage", Layers: 2, Features: []int{3, 2}}, {Encoder: "sage", Layers: 1}, {Encoder: "sage", Layers: 2, Features: []int{3}, NoEmbeddings: true},
		{Encoder: "gcn", Layers: 2, Features: []int{3}}, {Encoder: "gat", Layers: 2, Features: []int{3}, NoEmbeddings: true},
	} {
		t.Run(fmt.Sprintf("%s/%d layers/features %v/no embeddings %v", c.Encoder, c.Layers, c.Features, c.NoEmbeddings), func(t *testing.T) {
			c.Decoder, c.Dim, c.Relations, c.Seed = nn.DistMult, 4, 3, 5
			checkLinkGradients(t, c)
		})
	}
}

func checkLinkGradients(t *testing.T, cfg nn.LinkConfig) { newLinkFixture(t, cfg).checkGradients(t) }

func (f *linkFixture) checkGradients(t *testing.T) {
	cfg := f.model.Config()
	_, table, params := f.pass()
	moved := 0
	check := func(name string, i int, got float32, at func() *float32, done func()) {
		const h = 1e-2
		v := at()
		was := *v
		side := func(d float32) float64 {
			*at() = was + d
			done()
			l, _, _ := f.pass()
			return l
		}
		want := (side(h) - side(-h)) / (2 * h)
		*at() = was
		done()
		if want != 0 {
			moved++
		}
		if math.Abs(float64(got)-want) > .02*(1+math.Abs(want)) {
			t.Errorf("%s %d: gradient %v, finite difference %v", name, i, got, want)
		}
	}
	for i := 0; i < len(f.x) && !cfg.NoEmbeddings; i += race.Every(5) {
		check("embedding", i, table[i], func() *float32 { return &f.x[i] }, func() {})
	}
	saved, err := f.model.Params().Save(t.Context(), f.q)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(saved)/4; i += race.Every(5) {
		at := (*float32)(unsafe.Pointer(&saved[4*i]))
		check("parameter", i, params[i], func() *float32 { return at }, func() {
			if err := f.model.Params().Load(t.Context(), f.q, saved); err != nil {
				t.Fatal(err)
			}
		})
	}
	if moved < 8/race.Every(5) {
		t.Errorf("only %d of the gradients are not 0", moved)
	}
}

// TestDecoderScores compares one score of each decoder with its formula, and Pairs with Scores.
func TestDecoderScores(t *testing.T) {
	a, r, b := []float32{1, 2, 3, 4}, []float32{.5, -1, 2, 1}, []float32{2, 1, -1, .5}
	// complex: a = (1+3i, 2+4i), r = (.5+2i, −1+i), conj(b) = (2+i, 1−.5i); Re Σ a·r·b̄.
	ra, rr, rb := []complex128{1 + 3i, 2 + 4i}, []complex128{.5 + 2i, -1 + 1i}, []complex128{2 + 1i, 1 - .5i}
	sum, distance := 0.0, 0.0 // rotate: |a·r − b|², PyKEEN's score squared, whose r are of modulus 1
	for i := range ra {
		sum += real(ra[i] * rr[i] * rb[i])
		distance += math.Pow(cmplx.Abs(ra[i]*rr[i]-cmplx.Conj(rb[i])), 2)
	}
	want := map[string]float64{nn.DistMult: 1 - 2 - 6 + 2, nn.ComplEx: sum, nn.TransE: -(.25 + 0 + 36 + 20.25), nn.RotatE: -distance, nn.Dot: 2 + 2 - 3 + 2}
	dev := host.New(host.Options{})
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	arena := gpu.NewArena(dev)
	p := &nn.Pass{Queue: q, Arena: arena}
	row := func(x []float32) gpu.Tensor {
		m := arena.Matrix(q, 1, len(x))
		upload(q, m, x)
		return m
	}
	for _, name := range nn.Decoders() {
		d, err := nn.NewDecoder(name, 4)
		if err != nil {
			t.Fatal(err)
		}
		pair, score := arena.Matrix(q, 1, 1), arena.Matrix(q, 1, 1)
		query := d.Query(p, row(a), row(r))
		d.Pairs(p, query, row(b), pair)
		d.Scores(p, query, row(b), score)
		got, all := floats(pair, q), floats(score, q)
		if err := q.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if math.Abs(float64(got[0])-want[name]) > 1e-5 || math.Abs(float64(all[0])-want[name]) > 1e-4 {
			t.Errorf("%s: pair %v, score %v, expected %v", name, got[0], all[0], want[name])
		}
	}
	for _, bad := range []struct {
		name string
		dim  int
	}{{"rescal", 4}, {nn.ComplEx, 3}, {nn.RotatE, 5}, {nn.Dot, 0}} {
		if _, err := nn.NewDecoder(bad.name, bad.dim); err == nil {
			t.Errorf("decoder %s of %d dimensions: no error", bad.name, bad.dim)
		}
	}
}

// TestLossBytes: a batch whose nodes are all different needs what LossBytes says and no more, with every decoder.
func TestLossBytes(t *testing.T) {
	const queries, perChunk, chunks, dim = 12, 5, 3, 16
	for i, decoder := range append(nn.Decoders(), nn.Decoders()...) {
		cfg := nn.LinkConfig{Decoder: decoder, Encoder: "none", Dim: dim, Relations: 2}
		var corrections []float32
		if i >= len(nn.Decoders()) {
			cfg.N3, corrections = .1, []float32{1, 1, 1}
		}
		f := newLinkFixture(t, cfg)
		config := f.model.Config()
		bytes := config.LossBytes(queries, chunks, perChunk)
		run := func(bound int64) error {
			a := gpu.NewArena(f.q.Device())
			defer a.Close()
			a.Bound(bound)
			nodes := 2*queries + chunks*perChunk
			keep := gpu.NewArena(f.q.Device())
			defer keep.Close()
			all := keep.Matrix(f.q, nodes, dim)
			f.q.Fill(all, .5)
			rows, relations := make([]uint32, nodes), make([]uint32, queries)
			for i := range rows {
				rows[i] = uint32(i)
			}
			p := &nn.Pass{Queue: f.q, Arena: a, Train: true}
			states := f.model.Encode(p, nil, nn.Input{Tables: []gpu.Tensor{all}, Index: a.Uint32s(f.q, rows)})
			d := f.model.Loss(p, nn.LinkBatch{Rows: a.Uint32s(f.q, rows), Relations: a.Uint32s(f.q, relations), Chunks: []int{4, 8, 12}, Negatives: perChunk, Corrections: corrections}, states)
			f.model.EncodeBackward(p, d)
			f.model.Constrain(p)
			return f.q.Sync(t.Context())
		}
		if err := run(bytes); err != nil {
			t.Errorf("%s: within %d bytes: %v", decoder, bytes, err)
		}
		var bound *gpu.BoundError
		if err := run(bytes * 9 / 10); !errors.As(err, &bound) {
			t.Errorf("%s: within nine tenths of %d bytes: %v, expected a bound that is met", decoder, bytes, err)
		}
	}
}
