package kernels

// SegmentMax sets out[d][j] to the greatest x[s][j] over the sources s of d,
// and arg[d*x.Cols+j] to the edge it came from: the first of equals, the first NaN if
// there is one. A destination without edges gets 0 and edge −1. out is
// g.NumDst()×x.Cols.
func SegmentMax(p *Pool, g CSR, x, out Matrix, arg []int32) {
	x.check("x")
	out.checkShape("out", g.NumDst(), x.Cols)
	checkLen("arg", len(arg), out.Rows*out.Cols)
	g.check(p, x.Rows)
	k, dim := p.kernels(), x.Cols
	p.For(out.Rows, max(1, rowGrain(dim)/8), func(lo, hi int) {
		for d := lo; d < hi; d++ {
			best, from := out.Row(d), arg[d*dim:(d+1)*dim]
			e, end := g.Indptr[d], g.Indptr[d+1]
			if e == end {
				clear(best)
				for j := range from {
					from[j] = -1
				}
				continue
			}
			copy(best, x.Row(int(g.Indices[e])))
			for j := range from {
				from[j] = e
			}
			for e++; e < end; e++ {
				k.maxInto(best, x.Row(int(g.Indices[e])), from, e)
			}
		}
	})
}

// SegmentMaxBackward adds to dx what [SegmentMax] owes it: out's gradient goes
// to the sources that arg names. t and edges are the graph's [TransposeEdges].
func SegmentMaxBackward(p *Pool, t CSR, edges []int32, dOut Matrix, arg []int32, dx Matrix) {
	dOut.check("dOut")
	dx.checkShape("dx", t.NumDst(), dOut.Cols)
	checkLen("arg", len(arg), dOut.Rows*dOut.Cols)
	checkLen("edges", len(edges), len(t.Indices))
	t.check(p, dOut.Rows)
	k, dim := p.kernels(), dx.Cols
	p.For(dx.Rows, max(1, rowGrain(dim)/8), func(lo, hi int) {
		for s := lo; s < hi; s++ {
			row := dx.Row(s)
			for e := t.Indptr[s]; e < t.Indptr[s+1]; e++ {
				d := int(t.Indices[e])
				k.addWhere(row, dOut.Row(d), arg[d*dim:(d+1)*dim], edges[e])
			}
		}
	})
}

// maxIntoGeneric replaces best by x where x is greater or the first NaN, and
// notes the edge there.
func maxIntoGeneric(best, x []float32, from []int32, edge int32) {
	for j, v := range x {
		if b := best[j]; b == b && !(v <= b) {
			best[j], from[j] = v, edge
		}
	}
}

// addWhereGeneric adds x to dst where from is edge.
func addWhereGeneric(dst, x []float32, from []int32, edge int32) {
	for j, f := range from {
		if f == edge {
			dst[j] += x[j]
		}
	}
}
