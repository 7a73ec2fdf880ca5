package kernels

import "fmt"

// The steps of graph attention (Veličković et al., ICLR 2018, section 2.1).
// Values of edges are [edges × heads] without gaps, edge e's at e*heads;
// features of nodes are [nodes × heads·width], head after head.

func checkHeads(heads, cols int) int {
	if heads < 1 || cols%heads != 0 {
		panic(fmt.Sprintf("kernels: %d heads do not divide %d columns", heads, cols))
	}
	return cols / heads
}

// edgeGrain is how many destinations make a piece of work of some 4096 edge values.
func (g CSR) edgeGrain(values int) int {
	n := g.NumDst()
	if n == 0 {
		return 1
	}
	perDst := (int(g.Indptr[n]-g.Indptr[0])*max(values, 1))/n + 1
	return max(1, 4096/perDst)
}

func (g CSR) checkEdges(name string, got, heads int) {
	if n := g.NumDst(); n > 0 {
		if need := int(g.Indptr[n]) * heads; got < need {
			panic(fmt.Sprintf("kernels: %s has %d elements, expected %d edges × %d heads", name, got, g.Indptr[n], heads))
		}
	}
}

// EdgeAdd sets out[e][h] = leakyReLU(src[s][h] + dst[d][h] + edge[e][h]) for every edge
// e = (s, d): GAT's unnormalised attention from the parts of its scores. A nil edge is none; it may be out.
func EdgeAdd(p *Pool, g CSR, src, dst Matrix, edge []float32, slope float32, out []float32) {
	src.check("src")
	dst.checkShape("dst", g.NumDst(), src.Cols)
	g.check(p, src.Rows)
	g.checkEdges("out", len(out), src.Cols)
	heads := src.Cols
	if edge != nil {
		g.checkEdges("edge", len(edge), heads)
	}
	p.For(dst.Rows, g.edgeGrain(heads), func(lo, hi int) {
		for d := lo; d < hi; d++ {
			row := dst.Row(d)
			for e := int(g.Indptr[d]); e < int(g.Indptr[d+1]); e++ {
				from, to := src.Row(int(g.Indices[e])), out[e*heads:(e+1)*heads]
				for h := range to {
					v := from[h] + row[h]
					if edge != nil {
						v += edge[e*heads+h]
					}
					if v < 0 {
						v *= slope
					}
					to[h] = v
				}
			}
		}
	})
}

// EdgeDot sets out[e][h] to the dot product of head h of src[s] and dst[d] for
// every edge e = (s, d) (SDDMM): scores of dot-product attention, or the
// gradient of [AggregateHeads]'s weights.
func EdgeDot(p *Pool, g CSR, heads int, src, dst Matrix, out []float32) {
	src.check("src")
	dst.checkShape("dst", g.NumDst(), src.Cols)
	g.check(p, src.Rows)
	width := checkHeads(heads, src.Cols)
	g.checkEdges("out", len(out), heads)
	k := p.kernels()
	p.For(dst.Rows, g.edgeGrain(src.Cols/8+1), func(lo, hi int) {
		for d := lo; d < hi; d++ {
			row := dst.Row(d)
			for e := int(g.Indptr[d]); e < int(g.Indptr[d+1]); e++ {
				from := src.Row(int(g.Indices[e]))
				for h := range heads {
					out[e*heads+h] = k.dot(from[h*width:(h+1)*width], row[h*width:(h+1)*width])
				}
			}
		}
	})
}

// EdgeSoftmax replaces the values of every destination's edges by their softmax, head by head.
func EdgeSoftmax(p *Pool, g CSR, heads int, x []float32) {
	checkIndptr(g.Indptr, len(g.Indices))
	g.checkEdges("x", len(x), heads)
	k := p.kernels()
	p.For(g.NumDst(), g.edgeGrain(heads), func(lo, hi int) {
		stat := p.floats(heads)
		defer p.putFloats(stat)
		for d := lo; d < hi; d++ {
			v := x[int(g.Indptr[d])*heads : int(g.Indptr[d+1])*heads]
			if len(v) == 0 {
				continue
			}
			copy(stat, v)
			for e := heads; e < len(v); e += heads {
				for h, s := range v[e : e+heads] {
					if stat[h] == stat[h] && !(s <= stat[h]) {
						stat[h] = s
					}
				}
			}
			for e := 0; e < len(v); e += heads {
				for h := range heads {
					v[e+h] -= stat[h]
				}
			}
			k.exp(v, v)
			clear(stat)
			for e := 0; e < len(v); e += heads {
				for h := range heads {
					stat[h] += v[e+h]
				}
			}
			for h := range stat {
				stat[h] = 1 / stat[h]
			}
			for e := 0; e < len(v); e += heads {
				for h := range heads {
					v[e+h] *= stat[h]
				}
			}
		}
	})
}

// EdgeSoftmaxBackward turns the gradient d of a = [EdgeSoftmax](x) into that of
// x, in place: a·(d − Σ a·d), the sum over a destination's edges.
func EdgeSoftmaxBackward(p *Pool, g CSR, heads int, a, d []float32) {
	checkIndptr(g.Indptr, len(g.Indices))
	g.checkEdges("a", len(a), heads)
	g.checkEdges("d", len(d), heads)
	p.For(g.NumDst(), g.edgeGrain(heads), func(lo, hi int) {
		sum := p.floats(heads)
		defer p.putFloats(sum)
		for i := lo; i < hi; i++ {
			first, last := int(g.Indptr[i])*heads, int(g.Indptr[i+1])*heads
			clear(sum)
			for e := first; e < last; e += heads {
				for h := range heads {
					sum[h] += float32(a[e+h] * d[e+h])
				}
			}
			for e := first; e < last; e += heads {
				for h := range heads {
					d[e+h] = a[e+h] * (d[e+h] - sum[h])
				}
			}
		}
	})
}

// EdgeSum adds to out[d] the values x of d's edges: the gradient of one half of
// [EdgeAdd]'s scores. edges maps an edge of g to its place in x (of a
// transposed graph, [TransposeEdges]); nil is the identity. out is g.NumDst()×heads.
func EdgeSum(p *Pool, g CSR, edges []int32, x []float32, out Matrix) {
	out.checkShape("out", g.NumDst(), out.Cols)
	heads := out.Cols
	checkIndptr(g.Indptr, len(g.Indices))
	checkEdgeMap(p, g, edges, len(x), heads)
	p.For(out.Rows, g.edgeGrain(heads), func(lo, hi int) {
		for d := lo; d < hi; d++ {
			row := out.Row(d)
			for e := int(g.Indptr[d]); e < int(g.Indptr[d+1]); e++ {
				at := e
				if edges != nil {
					at = int(edges[e])
				}
				for h, v := range x[at*heads : (at+1)*heads] {
					row[h] += v
				}
			}
		}
	})
}

func checkEdgeMap(p *Pool, g CSR, edges []int32, values, heads int) {
	if edges == nil {
		g.checkEdges("x", values, heads)
		return
	}
	checkLen("edges", len(edges), len(g.Indices))
	checkIndices(p, "edges", asUint32(edges), values/max(heads, 1))
}

// AggregateHeads adds to dst[d] the rows of src that belong to d's edges, head
// h of edge e multiplied by weights[e][h]: attention's weighted sum. With the
// transposed graph and its edges (see [EdgeSum]) it is the gradient of src.
func AggregateHeads(p *Pool, g CSR, edges []int32, heads int, weights []float32, src, dst Matrix) {
	src.check("src")
	dst.checkShape("dst", g.NumDst(), src.Cols)
	g.check(p, src.Rows)
	width := checkHeads(heads, src.Cols)
	checkEdgeMap(p, g, edges, len(weights), heads)
	if dst.Rows == 0 || dst.Cols == 0 || src.Rows == 0 {
		return
	}
	k, rows := p.kernels(), src.AsRows()
	sum := k.sumWeighted[rowFloat32]
	p.For(dst.Rows, g.edgeGrain(src.Cols/8+1), func(lo, hi int) {
		first, last := int(g.Indptr[lo]), int(g.Indptr[hi])
		w := weights[first*heads : max(first, last)*heads]
		if edges != nil {
			w = p.floats((last - first) * heads)
			defer p.putFloats(w)
			for i, e := range edges[first:last] {
				copy(w[i*heads:(i+1)*heads], weights[int(e)*heads:])
			}
		}
		tmp := p.floats(src.Cols)
		defer p.putFloats(tmp)
		idx := asUint32(g.Indices[first:last])
		for d := lo; d < hi; d++ {
			e, deg := int(g.Indptr[d])-first, g.Degree(d)
			if deg == 0 {
				continue
			}
			for h := range heads {
				sum(tmp[h*width:(h+1)*width], nil, idx[e:], deg, rows.Data[4*h*width:], rows.Stride, 1, w[e*heads+h:], heads)
			}
			k.add(dst.Row(d), tmp)
		}
	})
}
