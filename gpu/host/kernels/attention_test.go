package kernels

import (
	"math"
	"testing"
)

// numericGradient checks d, the gradient of Σ weight·f(x) with respect to x, by central differences at some places.
func numericGradient(t *testing.T, what string, x, d, weight []float32, f func() []float32) {
	t.Helper()
	loss := func() float64 {
		s := 0.0
		for i, v := range f() {
			s += float64(v) * float64(weight[i])
		}
		return s
	}
	for i := 0; i < len(x); i += 1 + len(x)/23 {
		const h = 1e-2
		old := x[i]
		x[i] = old + h
		up := loss()
		x[i] = old - h
		down := loss()
		x[i] = old
		if got, want := float64(d[i]), (up-down)/(2*h); math.Abs(got-want) > 2e-2*(1+math.Abs(want)) {
			t.Fatalf("%s: gradient %d is %v, differences give %v", what, i, got, want)
		}
	}
}

func TestAttention(t *testing.T) {
	for _, c := range []struct{ heads, width int }{{1, 5}, {4, 16}, {3, 20}} {
		const dst, src = 30, 45
		r := newRand(uint64(c.heads))
		g := randomGraph(r, dst, src, 7)
		edges := len(g.Indices)
		rev, back := CSR{Indptr: make([]int32, src+1), Indices: make([]int32, edges)}, make([]int32, edges)
		TransposeEdges(nil, g, rev, back)
		dim := c.heads * c.width
		h, el, er := strided(r, src, dim, 1), strided(r, src, c.heads, 0), strided(r, dst, c.heads, 0)
		for i, v := range el.Data { // their sums stay away from leaky ReLU's kink
			el.Data[i] = float32(math.Round(float64(4*v))) / 4
		}
		for i, v := range er.Data {
			er.Data[i] = float32(math.Round(float64(4*v)))/4 + .125
		}
		weight := randoms(r, dst*dim)
		forward := func(p *Pool) (raw, a []float32, out Matrix) {
			raw = make([]float32, edges*c.heads)
			EdgeAdd(p, g, el, er, nil, .2, raw)
			a = append([]float32(nil), raw...)
			EdgeSoftmax(p, g, c.heads, a)
			out = Dense(make([]float32, dst*dim), dst, dim)
			AggregateHeads(p, g, nil, c.heads, a, h, out)
			return raw, a, out
		}
		grads := agree(t, []Matrix{strided(r, src, dim, 2), strided(r, src, c.heads, 0), strided(r, dst, c.heads, 0), Dense(make([]float32, dst*dim), dst, dim)}, func(p *Pool, o []Matrix) {
			raw, a, out := forward(p)
			copy(o[3].Data, out.Data)
			dOut := Dense(weight, dst, dim)
			for i := range o[0].Rows {
				clear(o[0].Row(i))
			}
			clear(o[1].Data)
			clear(o[2].Data)
			AggregateHeads(p, rev, back, c.heads, a, dOut, o[0])
			d := make([]float32, edges*c.heads)
			EdgeDot(p, g, c.heads, h, dOut, d)
			EdgeSoftmaxBackward(p, g, c.heads, a, d)
			LeakyReLUBackward(p, .2, raw, d)
			EdgeSum(p, rev, back, d, o[1])
			EdgeSum(p, g, nil, d, o[2])
		})
		for d := range dst { // the weights of a destination sum to one
			_, a, _ := forward(nil)
			for head := range c.heads {
				s := 0.0
				for e := g.Indptr[d]; e < g.Indptr[d+1]; e++ {
					s += float64(a[int(e)*c.heads+head])
				}
				if g.Degree(d) > 0 && math.Abs(s-1) > 1e-5 {
					t.Fatalf("weights of destination %d sum to %v", d, s)
				}
			}
		}
		f := func() []float32 { _, _, out := forward(nil); return out.Data }
		numericGradient(t, "scores of sources", el.Data, grads[1].Data, weight, f)
		numericGradient(t, "scores of destinations", er.Data, grads[2].Data, weight, f)
		flat := Dense(compact(h), src, dim)
		h = flat
		numericGradient(t, "features", flat.Data, compact(grads[0]), weight, f)
	}
}
