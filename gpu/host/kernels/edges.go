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
// dstScore[d][h] + edgeScore[e][h]), its value head h of src[s]; a nil edgeScore is none. peak holds the exponent of two of the
// largest e^score so far, total Σ e^score/2^peak and sum Σ e^score/2^peak·value (after Milakov and Gimelshein, 2018, Algorithm 3,
// who take the largest score itself); a total of 0 is a destination without edges so far.
//
// Sums that are scaled by powers of two keep all their digits, and edges are added one after the other to what there is, so that
// a list that comes in pieces gives the bits of one that comes whole, but for what 2^-126 of the largest does not reach.
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
		w, exponents, from, high := p.floats(most*heads), p.floats(most*heads), p.floats(src.Cols), p.floats(heads)
		defer func() { p.putFloats(w); p.putFloats(exponents); p.putFloats(from); p.putFloats(high) }()
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
				score := srcScore.Row(int(idx[e]))
				for h := range heads {
					v := score[h] + to[h]
					if edgeScore != nil {
						v += edgeScore[(int(g.Indptr[d])+e)*heads+h]
					}
					if v < 0 {
						v *= slope
					}
					// e^v is e^rest·2^exponent, the rest at most half of ln 2.
					exponent := math.RoundToEven(float64(v) * math.Log2E)
					w[e*heads+h] = float32(float64(v) - float64(exponent*math.Ln2))
					top := float32(exponent)
					exponents[e*heads+h] = top
					if high[h] == high[h] && !(top <= high[h]) {
						high[h] = top
					}
				}
			}
			for h, top := range high {
				// What was added so far counts less where a larger score came.
				if oldTotal[h] != 0 && oldPeak[h] != top {
					shrink := powerOfTwo(oldPeak[h] - top)
					oldTotal[h] *= shrink
					k.scale(out[h*width:(h+1)*width], shrink)
				}
				oldPeak[h] = top
			}
			k.exp(w, w)
			for e := range deg {
				for h := range heads {
					w[e*heads+h] *= powerOfTwo(exponents[e*heads+h] - high[h])
					oldTotal[h] += w[e*heads+h]
				}
			}
			copy(from, out)
			for h := range heads {
				at, end := h*width, (h+1)*width
				weigh(out[at:end], from[at:end], asUint32(idx), deg, rows.Data[4*at:], rows.Stride, 1, w[h:], heads)
			}
		}
	})
}

// powerOfTwo is 2^x of a whole number x up to 0, and 0 where that is below the smallest normal float32.
func powerOfTwo(x float32) float32 {
	switch {
	case x >= -126:
		return math.Float32frombits(uint32(int32(x)+127) << 23)
	case x < -126:
		return 0
	}
	return x // NaN
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
