package kernels

// MaxOptions configures [SegmentMax].
type MaxOptions struct {
	Index []uint32 // source s is row Index[s] of the table; nil: row s
	// Seen counts the edges that each row of out holds already [n×1] and is increased
	// by the graph's; a row that has seen none is overwritten. Zero: all rows are.
	Seen Matrix
	// Arg[d*out.Cols+j], if any, becomes the edge that out[d][j] came from, −1 where it was not overwritten.
	Arg []int32
}

// SegmentMax sets out[d][j] to the greatest element j of the table's rows of d's
// sources: the first of equals, the first NaN if there is one. A destination without
// edges gets 0. out is g.NumDst()×table.Dim and overlaps nothing.
func SegmentMax(p *Pool, o MaxOptions, g CSR, table Rows, out Matrix) {
	table.check("table")
	out.checkShape("out", g.NumDst(), table.Dim)
	if o.Arg != nil {
		checkLen("arg", len(o.Arg), out.Rows*out.Cols)
	}
	more := o.Seen.Cols > 0
	if more {
		o.Seen.checkShape("seen", out.Rows, 1)
	}
	if o.Index != nil {
		g.check(p, len(o.Index))
		checkIndices(p, "index", o.Index, table.Count)
	} else {
		g.check(p, table.Count)
	}
	if out.Rows == 0 || out.Cols == 0 {
		return
	}
	k, dim := p.kernels(), table.Dim
	read := k.gather[rowType(table.Type)]
	p.For(out.Rows, g.edgeGrain(dim/8+1), func(lo, hi int) {
		first, last := int(g.Indptr[lo]), int(g.Indptr[hi])
		rows := asUint32(g.Indices[first:last])
		if o.Index != nil {
			buf := p.uints(last - first)
			defer p.putUints(buf)
			for e, s := range rows {
				buf[e] = o.Index[s]
			}
			rows = buf
		}
		row, unused := p.floats(dim), p.uints(dim)
		defer func() { p.putFloats(row); p.putUints(unused) }()
		from := asInt32(unused)
		for d := lo; d < hi; d++ {
			best, next := out.Row(d), rows[int(g.Indptr[d])-first:int(g.Indptr[d+1])-first]
			if o.Arg != nil {
				from = o.Arg[d*dim : (d+1)*dim]
			}
			fill(from, -1)
			fresh := true
			if more {
				seen := o.Seen.Row(d)
				fresh = seen[0] == 0
				seen[0] += float32(len(next))
			}
			if fresh && len(next) == 0 {
				clear(best)
			}
			for i := range next {
				to := row
				if fresh {
					to = best
				}
				read(to, dim, dim, next[i:i+1], table.Data, table.Stride, 1)
				if table.Scales != nil {
					k.mul(to, table.Scales)
				}
				if fresh {
					fill(from, g.Indptr[d])
					fresh = false
					continue
				}
				k.maxInto(best, row, from, g.Indptr[d]+int32(i))
			}
		}
	})
}

func fill(x []int32, v int32) {
	for i := range x {
		x[i] = v
	}
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
