package nn_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
)

// variants are models with every option that they have.
func variants() map[string]nn.Config {
	return map[string]nn.Config{
		"sage": {Model: "sage"}, "gcn": {Model: "gcn"}, "gat": {Model: "gat", Heads: 2}, "gin": {Model: "gin"}, "mlp": {Model: "mlp"},
		"sage, multiply first":        {Model: "sage", Order: "multiply"},
		"gcn, multiply first":         {Model: "gcn", Order: "multiply"},
		"gcn, multiply first, norm":   {Model: "gcn", Order: "multiply", Norm: "layer", Residual: true},
		"sage, edge weights":          {Model: "sage", EdgeWeights: true},
		"sage, weights multiplied":    {Model: "sage", EdgeWeights: true, Order: "multiply", Norm: "layer"},
		"gcn, edge weights":           {Model: "gcn", EdgeWeights: true},
		"gcn, weights multiplied":     {Model: "gcn", EdgeWeights: true, Order: "multiply", Residual: true},
		"sage max":                    {Model: "sage", Aggregator: "max"},
		"rgcn":                        {Model: "rgcn", Relations: 3, Bases: 2},
		"rgat":                        {Model: "rgat", Relations: 3, Heads: 2},
		"rgat, layer norm, residual":  {Model: "rgat", Relations: 4, Heads: 2, Norm: "layer", Residual: true},
		"rgat, categories":            {Model: "rgat", Relations: 2, Heads: 2, Categories: []int{4, 9}},
		"hgt":                         {Model: "hgt", Relations: 3, Heads: 2},
		"hgt, types":                  {Model: "hgt", Relations: 3, Heads: 2, Categories: []int{7, 3}, NodeTypes: 2},
		"hgt, layer norm, jumping":    {Model: "hgt", Relations: 2, Heads: 2, Norm: "layer", Jumping: "cat"},
		"rsage":                       {Model: "rsage", Relations: 3},
		"rsage, layer norm, jumping":  {Model: "rsage", Relations: 5, Norm: "layer", Jumping: "cat"},
		"rsage, categories":           {Model: "rsage", Relations: 3, Categories: []int{4, 9}},
		"rgcn, categories, residual":  {Model: "rgcn", Relations: 2, Bases: 2, Residual: true, Categories: []int{3}},
		"rgcn, batch norm, residual":  {Model: "rgcn", Relations: 5, Bases: 3, Norm: "batch", Residual: true},
		"sage, batch norm":            {Model: "sage", Norm: "batch"},
		"sage, layer norm, cat":       {Model: "sage", Norm: "layer", Jumping: "cat"},
		"sage max, residual":          {Model: "sage", Aggregator: "max", Residual: true},
		"gcn, residual, jumping max":  {Model: "gcn", Residual: true, Jumping: "max"},
		"gat, layer norm, residual":   {Model: "gat", Heads: 2, Norm: "layer", Residual: true},
		"gat, features of edges":      {Model: "gat", Heads: 2, EdgeDim: 3},
		"gat, scalars of edges, cat":  {Model: "gat", Heads: 2, EdgeDim: 1, Norm: "layer", Jumping: "cat"},
		"gat, batch norm, cat":        {Model: "gat", Heads: 2, Norm: "batch", Jumping: "cat"},
		"gin, jumping cat, residual":  {Model: "gin", Jumping: "cat", Residual: true},
		"mlp, batch norm, everything": {Model: "mlp", Norm: "batch", Residual: true, Jumping: "max"},
	}
}

// TestVariants: the gradient checks and the streaming tests cover every model.
func TestVariants(t *testing.T) {
	all := variants()
	for _, m := range nn.Models(nil) {
		if _, ok := all[m]; !ok {
			t.Errorf("no variant is model %s alone", m)
		}
	}
}

// TestGradients compares every parameter's analytic gradient with central
// differences of the loss, dropout included (its mask is fixed by its seed).
func TestGradients(t *testing.T) {
	race.SkipArithmetic(t)
	for name, cfg := range variants() {
		for _, layers := range []int{1, 2, 3} {
			for _, dropout := range []float32{0, .3} {
				t.Run(fmt.Sprintf("%s/layers=%d/dropout=%v", name, layers, dropout), func(t *testing.T) {
					cfg := cfg
					cfg.Layers, cfg.In, cfg.Hidden, cfg.Out, cfg.Dropout, cfg.InputDropout, cfg.Seed = layers, 9, 8, 5, dropout, dropout/2, 3
					if (cfg.Norm != "" || cfg.Residual) && cfg.Jumping == "" && layers == 1 {
						if err := cfg.Validate(); err == nil {
							t.Fatal("a norm or a residual without a hidden layer was accepted")
						}
						return
					}
					sizes := []int{40, 25, 16, 11}[3-layers:]
					if cfg.Model == "mlp" {
						sizes = []int{30, 30, 30, 30}[3-layers:]
					}
					checkGradients(t, newFixture(t, cfg, sizes, 2))
				})
			}
		}
	}
}

func checkGradients(t *testing.T, f *fixture) {
	t.Helper()
	r := keyed.New(77).Rand(0)
	for _, p := range f.model.Params().List() {
		if strings.HasSuffix(p.Name, ".bias") || strings.HasSuffix(p.Name, ".beta") { // at 0, a state that dropout cleared would sit on the ReLU's kink
			b := make([]float32, p.Value.Len())
			for i := range b {
				b[i] = .3 * float32(r.Normal())
			}
			upload(f.q, p.Value, b)
		} else if f.model.Config().Model == "hgt" && !strings.HasPrefix(p.Name, "input") { // scores as it begins are almost equal
			b := floats(p.Value, f.q)
			for i := range b {
				b[i] *= 1.7
			}
			upload(f.q, p.Value, b)
		}
	}
	f.step(true)
	type gradient struct {
		p *nn.Param
		g []float32
	}
	var grads []gradient
	for _, p := range f.model.Params().List() {
		if p.State {
			continue
		}
		grads = append(grads, gradient{p, floats(p.Grad, f.q)})
	}
	const h = 5e-4 // small, so that few ReLUs switch within it
	checked, nonzero, all := 0, 0, 0
	for _, g := range grads {
		all += len(g.g)
	}
	for _, g := range grads {
		value := floats(g.p.Value, f.q)
		for i := 0; i < len(value); i += race.Sample(3, 5) * (1 + all/1000) {
			at := func(v float32) float64 {
				w := append([]float32(nil), value...)
				w[i] = v
				upload(f.q, g.p.Value, w)
				return f.step(false)
			}
			analytic := float64(g.g[i])
			// Every element is right by one of two steps: a ReLU may switch between two points, rarely with both. Where it does,
			// the slopes on both sides differ, and the gradient is one of them or between.
			var slopes [2]float64
			tolerance := 1e-3 + 1e-2*math.Abs(analytic)
			right, here := false, at(value[i])
			for _, h := range []float32{h, h / 4, h / 16} {
				if right {
					break
				}
				up, down := value[i]+h, value[i]-h
				slopes = [2]float64{(here - at(down)) / float64(value[i]-down), (at(up) - here) / float64(up-value[i])}
				right = math.Abs((slopes[0]+slopes[1])/2-analytic) <= tolerance ||
					math.Abs(slopes[0]-slopes[1]) > 2*tolerance && analytic >= min(slopes[0], slopes[1])-2*tolerance && analytic <= max(slopes[0], slopes[1])+2*tolerance
			}
			if !right {
				t.Errorf("%s[%d]: analytic gradient %.6f, differences %.6f below and %.6f above", g.p.Name, i, analytic, slopes[0], slopes[1])
			}
			checked++
			if math.Abs(analytic) > 1e-3 {
				nonzero++
			}
		}
		upload(f.q, g.p.Value, value)
	}
	few := checked / 4
	if f.model.Config().Model == "hgt" { // of each type and relation, of which a mini-batch has few nodes and edges
		few = checked / 12
	}
	if nonzero < few {
		t.Errorf("only %d of %d gradients are above 1e-3: the check sees too little", nonzero, checked)
	}
}

// TestTrainingLearns fits a small random problem: the loss falls far below
// chance, and is the same bit for bit for any number of threads.
func TestTrainingLearns(t *testing.T) {
	race.SkipArithmetic(t)
	for name, cfg := range variants() {
		if cfg.Model != "mlp" {
			t.Run(name, func(t *testing.T) { trainingLearns(t, cfg) })
		}
	}
}

func trainingLearns(t *testing.T, cfg nn.Config) {
	cfg.Layers, cfg.In, cfg.Hidden, cfg.Out, cfg.Dropout, cfg.Seed = 2, 16, 64, 4, .1, 1
	var first []float64
	for _, threads := range []int{1, 4} {
		f := newFixture(t, cfg, []int{90, 70, 50}, threads)
		var losses []float64
		for range 200 {
			losses = append(losses, f.step(true))
			f.model.Params().Adam(f.q, f.model.Params().Step(gpu.AdamOptions{LR: .01, Beta1: .9, Beta2: .999, Epsilon: 1e-8}))
		}
		most := .2
		if cfg.Model == "hgt" && cfg.Jumping != "" { // a fifth of the nodes have no neighbours, and the first layer no skip
			most = .3
		}
		if last := losses[len(losses)-1]; last > most*losses[0] {
			t.Errorf("%d threads: loss went from %.3f to %.3f, expected below %v of that", threads, losses[0], last, most)
		}
		if first == nil {
			first = losses
		}
		for i := range losses {
			if losses[i] != first[i] {
				t.Fatalf("step %d: loss %v with %d threads, %v with 1", i, losses[i], threads, first[i])
			}
		}
	}
}

// TestNoCategory: category 0 adds nothing to a node's state and its vector stays 0; others have the columns of their own row.
func TestNoCategory(t *testing.T) {
	cfg := nn.Config{Model: "rsage", Relations: 2, Categories: []int{4}, Layers: 1, In: 3, Hidden: 5, Out: 2, Seed: 8}
	f := newFixture(t, cfg, []int{20, 12}, 1)
	l := f.model.Layers()[0].(nn.Streamer)
	deg := f.keep.Vector(f.q, 4, blocks.Float32)
	states := func(ids ...uint32) []float32 {
		in := nn.Input{Tables: []gpu.Tensor{f.table.Head(4), f.categories(ids)}}
		return floats(l.Finish(&nn.Pass{Queue: f.q, Arena: f.keep}, in, gpu.Tensor{}, deg), f.q)
	}
	none, some, vectors := states(0, 0, 0, 0), states(0, 3, 1, 3), floats(f.model.Params().List()[1].Value, f.q)
	product := f.keep.Matrix(f.q, 4, cfg.Hidden)
	f.q.Gemm(gpu.GemmOptions{}, f.table.Head(4), f.model.Params().List()[0].Value, product)
	x := floats(product, f.q)
	f.ids[0] = f.categories(make([]uint32, f.table.Rows))
	f.step(true)
	grad := floats(f.model.Params().List()[1].Grad, f.q)
	if err := f.q.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range none {
		id := []int{0, 3, 1, 3}[i/cfg.Hidden]
		if want := x[i] + vectors[id*cfg.Hidden+i%cfg.Hidden]; none[i] != x[i] || some[i] != want {
			t.Errorf("element %d: %v without category, expected %v; %v with category %d, expected %v", i, none[i], x[i], some[i], id, want)
		}
	}
	if !slices.Equal(vectors[:cfg.Hidden], make([]float32, cfg.Hidden)) || slices.ContainsFunc(grad, func(v float32) bool { return v != 0 }) {
		t.Errorf("vector 0 is %v, gradients %v: expected 0", vectors[:cfg.Hidden], grad)
	}
}

// TestSaveLoad: a loaded model is the saved one, and other shapes are refused.
func TestSaveLoad(t *testing.T) {
	cfg := nn.Config{Layers: 2, In: 6, Hidden: 5, Out: 3, Seed: 8}
	f := newFixture(t, cfg, []int{20, 12, 7}, 1)
	b, err := f.model.Params().Save(t.Context(), f.q)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Seed = 9
	g := newFixture(t, cfg, []int{20, 12, 7}, 1)
	if f.step(false) == g.step(false) {
		t.Fatal("models of different seeds give the same loss")
	}
	if err := g.model.Params().Load(t.Context(), g.q, b); err != nil {
		t.Fatal(err)
	}
	if a, b := f.step(false), g.step(false); a != b {
		t.Errorf("loss %v after loading, expected %v", b, a)
	}
	if err := g.model.Params().Load(t.Context(), g.q, b[:len(b)-4]); err == nil {
		t.Error("a parameter blob that is too short was accepted")
	}
}

// TestStreamed: accumulating a block's edges in two pieces and finishing
// gives what Forward gives without dropout.
func TestStreamed(t *testing.T) {
	for name, cfg := range variants() {
		for _, elem := range []blocks.ElemType{blocks.Float32, blocks.Float16} {
			for _, in := range []int{9, 23} { // of which wide ones add up products
				t.Run(fmt.Sprintf("%s/%v/%d", name, elem, in), func(t *testing.T) { streamed(t, cfg, elem, in) })
			}
		}
	}
}

func streamed(t *testing.T, cfg nn.Config, elem blocks.ElemType, width int) {
	sizes := []int{40, 25}
	if cfg.Model == "mlp" || cfg.Categories != nil { // the input layer reads a node alone
		sizes[1] = 40
	}
	cfg.Layers, cfg.In, cfg.Hidden, cfg.Out, cfg.Seed = 1, width, 6, 5, 3
	if cfg.Categories != nil {
		cfg.Residual = false
	} else if cfg.Jumping != "" || cfg.Norm != "" || cfg.Residual { // hidden layers only: the first of what jumps
		cfg.Jumping = "max"
	}
	f := newFixture(t, cfg, sizes, 2)
	f.step(true) // moves running statistics
	l := f.model.Layers()[0].(nn.Streamer)
	if cfg.StreamsProducts() != (width == 23 && cfg.Kind().Products && cfg.Aggregator == "") || cfg.StreamsProducts() && l.AccumulatorDim() > 6 {
		t.Errorf("streams products: %v, sums of %d columns", cfg.StreamsProducts(), l.AccumulatorDim())
	}
	p := &nn.Pass{Queue: f.q, Arena: f.keep}
	n, indptr, indices := sizes[1], f.edges[0][0], f.edges[0][1]
	full := make([]int32, n) // nothing was sampled
	sources := append([]int32(nil), f.full[0]...)
	degrees := make([]float32, n)
	for d := range n {
		full[d] = indptr[d+1] - indptr[d]
		degrees[d] = float32(full[d])
	}
	copy(sources, full)                    // the destinations are the first sources
	table := f.keep.Matrix(f.q, 40, width) // as an evaluation reads it: without an index
	f.q.Gather(table, f.table, f.index)
	if elem == blocks.Float16 {
		bits := make([]uint16, 40*width)
		r := keyed.New(4).Rand(0)
		for i := range bits {
			bits[i] = uint16(r.Below(0x4000)) | uint16(r.Below(2))<<15
		}
		raw := f.keep.Vector(f.q, len(bits), blocks.Float16)
		f.q.Upload(raw, unsafe.Slice((*byte)(unsafe.Pointer(&bits[0])), 2*len(bits)))
		table = raw
		table.Rows, table.Cols, table.Stride = 40, width, width
	}
	in, self := nn.Dense(table), nn.Dense(table.Head(n))
	for _, t := range f.ids {
		ids := f.keep.Matrix(f.q, 40, 1)
		f.q.Gather(ids, t, f.index)
		in.Tables, self.Tables = append(in.Tables, ids), append(self.Tables, ids.Head(n))
	}
	in.Types = f.types
	if f.types != nil {
		self.Types = f.types[:n]
	}
	groupers := cfg.Groupers(3)
	at := 0
	graph := func(indptr, indices []int32, relations []uint16) *gpu.Graph {
		g := &gpu.Graph{NumDst: n, NumSrc: 40, Indptr: f.keep.Int32s(f.q, indptr), Indices: f.keep.Int32s(f.q, indices),
			SrcDegrees: f.keep.Int32s(f.q, sources), DstDegrees: f.keep.Int32s(f.q, full)}
		if cfg.Relations > 0 {
			groupers[at].Group(f.q, f.keep, g, indptr, indices, relations)
			at++
		}
		return g
	}
	relations := f.relations[0]
	whole := graph(indptr, indices, relations)
	sums := make([]float32, len(sources))
	if cfg.EdgeWeights {
		all := make([]float64, len(sources))
		for s := range all {
			all[s] = .3 * float64(s%5)
		}
		for d := range n { // nothing was sampled
			all[d] = 0
			for e := indptr[d]; e < indptr[d+1]; e++ {
				all[d] += float64(f.weights[0][e])
			}
			degrees[d] = float32(all[d])
		}
		for s := range all {
			sums[s] = float32(all[s])
		}
		f.weighers[0].Weigh(f.q, f.keep, whole, nn.WeighedEdges{Indptr: indptr, Indices: indices, Weights: f.weights[0], Degrees: full, Sums: all})
	}
	if cfg.EdgeDim > 0 {
		f.readEdges(whole, f.keep, 0)
	}
	want := floats(l.Forward(p, whole, in), f.q)
	ofRelation := map[[2]int]float32{} // edges of each destination and relation
	for d := range n {
		for e := indptr[d]; e < indptr[d+1]; e++ {
			ofRelation[[2]int{d, int(relations[e])}]++
		}
	}

	acc := f.keep.Matrix(f.q, n, l.AccumulatorDim())
	f.q.Fill(acc, 0)
	if prep, ok := l.(nn.Preparer); ok {
		prep.Prepare(p, self, acc)
	}
	from := in
	if made, ok := l.(nn.Transformer); ok {
		from = made.Transform(p, 40, in)
	}
	for part := range 2 { // sources below and above 20
		ptr, idx, rel, weights, features := []int32{0}, []int32{}, []uint16{}, []float32{}, []float32{}
		for d := range n {
			for e := indptr[d]; e < indptr[d+1]; e++ {
				if s := indices[e]; int(s)/20 == part {
					idx, rel, weights = append(idx, s), append(rel, relations[e]), append(weights, f.weights[0][e])
					features = append(features, f.features[0][int(e)*cfg.EdgeDim:(int(e)+1)*cfg.EdgeDim]...)
				}
			}
			ptr = append(ptr, int32(len(idx)))
		}
		g := graph(ptr, idx, rel)
		if cfg.EdgeWeights {
			if cfg.SymmetricWeights() {
				nn.NormalizeWeights(ptr, idx, weights, sums, sums)
			}
			g.Weights = nn.WeightColumn(f.keep.Float32s(f.q, weights))
		}
		if cfg.EdgeDim > 0 {
			g.EdgeFeatures = nn.FeatureRows(f.keep.Float32s(f.q, features), cfg.EdgeDim)
		}
		if g.Groups != nil {
			var sizes []float32
			rs, ds := groupers[at-1].Groups()
			for i, r := range rs {
				sizes = append(sizes, ofRelation[[2]int{int(ds[i]), int(r)}])
			}
			g.Groups.Sizes = f.keep.Vector(f.q, len(sizes), blocks.Float32)
			upload(f.q, g.Groups.Sizes, sizes)
		}
		if !cfg.Kind().EachRelation {
			l.Accumulate(p, g, from, acc)
			continue
		}
		for r := range cfg.Relations {
			of := []int32{0}
			var own []int32
			for d := range n {
				for e := ptr[d]; e < ptr[d+1]; e++ {
					if int(rel[e]) == r {
						own = append(own, idx[e])
					}
				}
				of = append(of, int32(len(own)))
			}
			l.Accumulate(p, &gpu.Graph{NumDst: n, NumSrc: 40, Relation: r, Indptr: f.keep.Int32s(f.q, of), Indices: f.keep.Int32s(f.q, own)}, in, acc)
		}
	}
	deg := f.keep.Vector(f.q, n, blocks.Float32)
	upload(f.q, deg, degrees)
	got := floats(l.Finish(p, self, acc, deg), f.q)
	if err := f.q.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(got) != n*l.OutDim() {
		t.Fatalf("%d outputs, expected %d", len(got), n*l.OutDim())
	}
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 2e-5*(1+math.Abs(float64(want[i]))) {
			t.Fatalf("output %d: %v streamed, %v at once", i, got[i], want[i])
		}
	}
}
