package kernels

import (
	"fmt"
	"math"
)

// AddSelfLoops fills out with g and, as the first edge of every destination d,
// d → d. A g without Indptr has no edges; out has len(g.Indices) + destinations.
func AddSelfLoops(p *Pool, g, out CSR) {
	n := out.NumDst()
	if g.Indptr != nil {
		checkLen("out's destinations", n, g.NumDst())
	}
	checkIndptr(g.Indptr, len(g.Indices))
	first, edges := int32(0), 0
	if g.NumDst() > 0 {
		first, edges = g.Indptr[0], int(g.Indptr[n]-g.Indptr[0])
	}
	checkLen("out's indices", len(out.Indices), edges+n)
	p.For(n, g.edgeGrain(1), func(lo, hi int) {
		for d := lo; d < hi; d++ {
			at := int32(d)
			if g.Indptr != nil {
				at += g.Indptr[d] - first
				copy(out.Indices[at+1:], g.Indices[g.Indptr[d]:g.Indptr[d+1]])
			}
			out.Indptr[d], out.Indices[at] = at, int32(d)
		}
	})
	if len(out.Indptr) > 0 {
		out.Indptr[n] = int32(edges + n)
	}
}

// EdgeWeightOptions configures [EdgeWeights].
type EdgeWeightOptions struct {
	SelfLoops bool // the first edge of every destination is its self loop: not scaled for sampling
	Symmetric bool // divide by √((deg d + 1)(deg s + 1))
	Sampled   bool // multiply by deg d over the number of d's edges, self loop not counted
}

// EdgeWeights sets out[e] to edge e's weight in a convolution (Kipf and
// Welling, 2017, eq. 2), the nodes' full degrees given: src by source
// (Symmetric), dst by destination (Symmetric or Sampled).
func EdgeWeights(p *Pool, o EdgeWeightOptions, g CSR, src, dst []int32, out []float32) {
	checkIndptr(g.Indptr, len(g.Indices))
	g.checkEdges("out", len(out), 1)
	if o.Symmetric || o.Sampled {
		checkLen("dst", len(dst), g.NumDst())
	}
	if o.Symmetric {
		g.check(p, len(src))
	}
	p.For(g.NumDst(), g.edgeGrain(4), func(lo, hi int) {
		for d := lo; d < hi; d++ {
			begin, end := g.Indptr[d], g.Indptr[d+1]
			w, loop := 1.0, int32(0)
			if o.SelfLoops {
				loop = 1
			}
			if n := end - begin - loop; o.Sampled && n > 0 {
				w = float64(dst[d]) / float64(n)
			}
			norm := 1.0
			if o.Symmetric {
				norm = 1 / math.Sqrt(float64(dst[d])+1)
			}
			for e := begin; e < end; e++ {
				v := w * norm
				if e < begin+loop {
					v = norm
				}
				if o.Symmetric {
					v /= math.Sqrt(float64(src[g.Indices[e]]) + 1)
				}
				out[e] = float32(v)
			}
		}
	})
}

// OnlineAttention adds g's edges to the running softmax-weighted sums of its
// destinations: the score of head h of edge e = (s, d) is leakyReLU(srcScore[s][h] +
// dstScore[d][h] + edgeScore[e][h]), its value head h of src[s]; a nil edgeScore is none. peak holds the largest score so
// far, total Σ e^(score−peak) and sum Σ e^(score−peak)·value (Milakov and
// Gimelshein, 2018, Algorithm 3); a total of 0 is a destination without edges so far.
func OnlineAttention(p *Pool, g CSR, slope float32, src, srcScore, dstScore Matrix, edgeScore []float32, sum, peak, total Matrix) {
	heads, n := srcScore.Cols, g.NumDst()
	src.check("src")
	srcScore.checkShape("srcScore", src.Rows, heads)
	dstScore.checkShape("dstScore", n, heads)
	sum.checkShape("sum", n, src.Cols)
	peak.checkShape("peak", n, heads)
	total.checkShape("total", n, heads)
	g.check(p, src.Rows)
	width := checkHeads(heads, src.Cols)
	if edgeScore != nil {
		g.checkEdges("edgeScore", len(edgeScore), heads)
	}
	if n == 0 || width == 0 || src.Rows == 0 {
		return
	}
	k, rows := p.kernels(), src.AsRows()
	weigh := k.sumWeighted[rowFloat32]
	p.For(n, g.edgeGrain(src.Cols/8+1), func(lo, hi int) {
		most := 0
		for d := lo; d < hi; d++ {
			most = max(most, g.Degree(d))
		}
		w, tmp, high := p.floats(most*heads), p.floats(src.Cols), p.floats(heads)
		defer func() { p.putFloats(w); p.putFloats(tmp); p.putFloats(high) }()
		for d := lo; d < hi; d++ {
			deg := g.Degree(d)
			if deg == 0 {
				continue
			}
			idx := g.Indices[g.Indptr[d]:g.Indptr[hi]]
			to, w := dstScore.Row(d), w[:deg*heads]
			oldPeak, oldTotal, out := peak.Row(d), total.Row(d), sum.Row(d)
			for h := range high {
				high[h] = oldPeak[h]
				if oldTotal[h] == 0 {
					high[h] = float32(math.Inf(-1))
				}
			}
			for e := range deg {
				from := srcScore.Row(int(idx[e]))
				for h := range heads {
					v := from[h] + to[h]
					if edgeScore != nil {
						v += edgeScore[(int(g.Indptr[d])+e)*heads+h]
					}
					if v < 0 {
						v *= slope
					}
					w[e*heads+h] = v
					if high[h] == high[h] && !(v <= high[h]) {
						high[h] = v
					}
				}
			}
			for h, top := range high {
				// What was added so far counts less where a larger score came.
				if shrink := float32(math.Exp(float64(oldPeak[h] - top))); oldTotal[h] != 0 && shrink != 1 {
					oldTotal[h] *= shrink
					k.scale(out[h*width:(h+1)*width], shrink)
				}
				oldPeak[h] = top
				for e := range deg {
					w[e*heads+h] -= top
				}
			}
			k.exp(w, w)
			for e := range deg {
				for h := range heads {
					oldTotal[h] += w[e*heads+h]
				}
			}
			for h := range heads {
				weigh(tmp[h*width:(h+1)*width], nil, asUint32(idx), deg, rows.Data[4*h*width:], rows.Stride, 1, w[h:], heads)
			}
			k.add(out, tmp)
		}
	})
}

// AddBias adds bias to every row of x.
func AddBias(p *Pool, x Matrix, bias []float32) {
	x.check("x")
	if len(bias) != x.Cols {
		panic(fmt.Sprintf("kernels: bias has %d elements, expected %d", len(bias), x.Cols))
	}
	k := p.kernels()
	p.For(x.Rows, rowGrain(x.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			k.add(x.Row(i), bias)
		}
	})
}
