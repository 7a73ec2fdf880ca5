package nn_test

import (
	"context"
	"math"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
)

// unshared is f's mini-batch with a source of its own for every edge; that of edge lone of the first block, unless it is −1, is the row
// behind all others.
func (f *fixture) unshared(a *gpu.Arena, lone int) *nn.Unshared {
	cfg := f.model.Config()
	u := &nn.Unshared{}
	if f.types != nil {
		u.Types = f.types
		if lone >= 0 {
			u.Types = append(u.Types[:len(u.Types):len(u.Types)], f.types[f.edges[0][1][lone]])
		}
	}
	for l, e := range f.edges {
		n, edges := f.sizes[l+1], len(e[1])
		g := gpu.Graph{NumDst: n, NumSrc: n + edges}
		if f.model.Hops() == 0 {
			g.NumSrc = n
			u.Graphs, u.Of = append(u.Graphs, g), append(u.Of, nil)
			continue
		}
		var of []uint32
		var indices, degrees []int32
		var sums []float64
		own := f.sums(l)
		add := func(row int32) {
			of, degrees = append(of, uint32(row)), append(degrees, f.full[l][row])
			if own != nil {
				sums = append(sums, own[row])
			}
		}
		for v := range n {
			add(int32(v))
		}
		for i, s := range e[1] {
			add(s)
			indices = append(indices, int32(n+i))
		}
		if l == 0 && lone >= 0 {
			of[n+lone] = uint32(f.sizes[0])
		}
		g.Indptr, g.Indices = a.Int32s(f.q, e[0]), a.Int32s(f.q, indices)
		g.SrcDegrees, g.DstDegrees = a.Int32s(f.q, degrees), a.Int32s(f.q, f.full[l+1])
		if cfg.EdgeWeights {
			f.weighers[l].Weigh(f.q, a, &g, nn.WeighedEdges{Indptr: e[0], Indices: indices, Weights: f.weights[l], Degrees: f.full[l+1], Sums: sums})
		}
		if cfg.EdgeDim > 0 {
			f.readEdges(&g, a, l)
		}
		if cfg.Relations > 0 {
			f.groupers[l].Group(f.q, a, &g, e[0], indices, f.relations[l])
		}
		u.Graphs, u.Of = append(u.Graphs, g), append(u.Of, of)
	}
	return u
}

// slopes are the derivatives of the mean loss by a factor of all first states and by the gate of all edges, and by layer those of each
// edge's gate.
type slopes struct {
	loss, states, gate float64
	gates              [][]float32
	logits             []float32
}

// pull runs f's mini-batch with scaled first states and a gate; alone scales the source of edge lone of the first block besides.
func (f *fixture) pull(scale, gate float32, lone int, alone float32) (s slopes) {
	f.t.Helper()
	a := gpu.NewArena(f.dev)
	defer func() { _ = a.Close() }()
	p := &nn.Pass{Queue: f.q, Arena: a, Train: true, Still: true}
	in := nn.Input{Tables: append([]gpu.Tensor{f.table}, f.ids...), Index: f.index, Types: f.types}
	x := f.model.FirstStates(p, f.sizes[0], in)
	rows := x.Rows
	if lone >= 0 {
		rows++
	}
	first := a.Matrix(f.q, rows, x.Cols)
	f.q.Fill(first, 0)
	f.q.Axpy(scale, x, first.Head(x.Rows))
	if lone >= 0 {
		s := int(f.edges[0][1][lone])
		f.q.Axpy(scale*alone, x.View(s, 0, 1, x.Cols), first.View(x.Rows, 0, 1, x.Cols))
	}
	u := f.unshared(a, lone)
	logits := f.model.ForwardUnshared(p, u, first, gate)
	grad := a.Matrix(f.q, logits.Rows, logits.Cols)
	f.q.SoftmaxCrossEntropy(logits, f.labels, grad, f.model.Stat())
	s.logits = floats(logits, f.q)
	d, gates := f.model.BackwardUnshared(p, u, first, grad)
	dot := a.Matrix(f.q, d.Rows, 1)
	f.q.RowDot(first, d, dot)
	states := floats(dot, f.q)
	s.gates = make([][]float32, len(gates))
	for l, g := range gates {
		if !g.IsZero() {
			s.gates[l] = floats(g, f.q)
		}
	}
	var stat [2]float64
	f.q.Download(blocks.Bytes(stat[:]), f.model.Stat())
	if err := f.q.Sync(context.Background()); err != nil {
		f.t.Fatal(err)
	}
	s.loss = stat[0] / float64(len(f.full[len(f.full)-1]))
	for _, v := range states {
		s.states += float64(v) / float64(scale)
	}
	for _, l := range s.gates {
		for _, v := range l {
			s.gate += float64(v)
		}
	}
	return s
}

// TestUnshared: a mini-batch whose edges have sources of their own says the same as one that shares them, and its gradients by all first
// states, by all gates and by one edge's are those of differences.
func TestUnshared(t *testing.T) {
	race.SkipArithmetic(t)
	for name, cfg := range variants() {
		for _, layers := range []int{1, 2, 3} {
			if (cfg.Norm != "" || cfg.Residual) && cfg.Jumping == "" && layers == 1 {
				continue
			}
			t.Run(name, func(t *testing.T) {
				cfg := cfg
				cfg.Layers, cfg.In, cfg.Hidden, cfg.Out, cfg.Seed = layers, 9, 8, 5, 3
				sizes := []int{40, 25, 16, 11}[3-layers:]
				if cfg.Model == "mlp" {
					sizes = []int{30, 30, 30, 30}[3-layers:]
				}
				f := newFixture(t, cfg, sizes, 2)
				f.unsettle()
				f.checkUnshared()
			})
		}
	}
}

// unsettle moves what a model begins with at 0 and 1: biases and what norms hold.
func (f *fixture) unsettle() {
	r := keyed.New(78).Rand(0)
	for _, p := range f.model.Params().List() {
		x := floats(p.Value, f.q)
		if err := f.q.Sync(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
		for i := range x {
			switch {
			case p.State:
				x[i] += float32(r.Float64())
			case p.Value.Rows == 1:
				x[i] += .3 * float32(r.Normal())
			}
		}
		upload(f.q, p.Value, x)
	}
	if err := f.q.Sync(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) checkUnshared() {
	f.t.Helper()
	want := f.evaluated()
	s := f.pull(1, 1, -1, 1)
	for i := range want {
		if math.Abs(float64(want[i]-s.logits[i])) > 1e-4*(1+math.Abs(float64(want[i]))) {
			f.t.Fatalf("logit %d is %v with sources of their own, %v with shared ones", i, s.logits[i], want[i])
		}
	}
	check := func(what string, at func(x float32) float64, analytic float64) {
		f.t.Helper()
		here, tolerance := at(1), 1e-3+2e-2*math.Abs(analytic)
		var below, above float64
		for _, h := range []float32{.01, .003, .001} { // a ReLU may switch between two points: the gradient is then a slope of one side, or between
			below, above = (here-at(1-h))/float64(1-(1-h)), (at(1+h)-here)/float64((1+h)-1)
			if math.Abs((below+above)/2-analytic) <= tolerance ||
				math.Abs(below-above) > 2*tolerance && analytic >= min(below, above)-tolerance && analytic <= max(below, above)+tolerance {
				return
			}
		}
		f.t.Errorf("%s: gradient %.5f, differences %.5f below and %.5f above", what, analytic, below, above)
	}
	check("first states", func(x float32) float64 { return f.pull(.8*x, .7, -1, 1).loss }, .8*f.pull(.8, .7, -1, 1).states)
	check("gates", func(x float32) float64 { return f.pull(1, .7*x, -1, 1).loss }, .7*f.pull(1, .7, -1, 1).gate)
	if f.model.Hops() == 0 {
		return
	}
	lone, most := 0, float32(-1)
	for e, v := range s.gates[0] {
		if v = float32(math.Abs(float64(v))); v > most {
			lone, most = e, v
		}
	}
	check("an edge", func(x float32) float64 { return f.pull(1, 1, lone, x).loss }, float64(s.gates[0][lone]))
	if most == 0 {
		f.t.Error("no edge of the first block has a gradient: the check sees nothing")
	}
}

// evaluated are the logits of the mini-batch as a trained model says them.
func (f *fixture) evaluated() []float32 {
	f.t.Helper()
	a := gpu.NewArena(f.dev)
	defer func() { _ = a.Close() }()
	graphs := f.graphs(a)
	p := &nn.Pass{Queue: f.q, Arena: a}
	out := floats(f.model.Forward(p, graphs, nn.Input{Tables: append([]gpu.Tensor{f.table}, f.ids...), Index: f.index, Types: f.types}), f.q)
	if err := f.q.Sync(context.Background()); err != nil {
		f.t.Fatal(err)
	}
	return out
}
