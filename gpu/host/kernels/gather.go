package kernels

import "fmt"

// aggregateGrain is how many elements of input a piece of work reads at least: so
// many that the last rows of a piece, behind which nothing is prefetched, do not count.
const aggregateGrain = 1 << 17

// rowGrain is how many rows of cols elements make a piece of work.
func rowGrain(cols int) int { return max(1, aggregateGrain/max(cols, 1)) }

// GatherRows sets row i of dst to row index[i] of src, converted to float32
// and multiplied by src.Scales (a float32 table without scales is copied bit by
// bit). dst is len(index)×src.Dim and overlaps nothing.
func GatherRows(p *Pool, dst Matrix, src Rows, index []uint32) {
	src.check("table")
	dst.checkShape("dst", len(index), src.Dim)
	checkIndices(p, "index", index, src.Count)
	if src.Dim == 0 {
		return
	}
	k := p.kernels()
	gather := k.gather[rowType(src.Type)]
	p.For(len(index), rowGrain(src.Dim), func(lo, hi int) {
		gather(dst.Data[lo*dst.Stride:], dst.Stride, src.Dim, index[lo:hi], src.Data, src.Stride, 1)
		if src.Scales != nil {
			for i := lo; i < hi; i++ {
				k.mul(dst.Row(i), src.Scales)
			}
		}
	})
}

// CopyRows sets row to[i] of dst to row from[i] of src, bit by bit: both hold the same columns of the same type. Rows in to
// are distinct.
func CopyRows(p *Pool, dst Rows, to []uint32, src Rows, from []uint32) {
	src.check("src")
	dst.check("dst")
	checkIndices(p, "from", from, src.Count)
	checkIndices(p, "to", to, dst.Count)
	if src.Dim == 0 {
		return
	}
	bytes := src.Dim * src.Type.Size()
	p.For(len(from), rowGrain(src.Dim), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			copy(dst.Data[int(to[i])*dst.Stride:][:bytes], src.Data[int(from[i])*src.Stride:])
		}
	})
}

// AggregateOptions configures [Aggregate].
type AggregateOptions struct {
	Mean bool // divide by the number of edges; a destination without edges gets 0
	// Accumulate begins every sum with dst's row instead of 0: the edges' messages are added to it one by one, so that
	// a destination whose edges come in several calls gets the bits that one call would give.
	Accumulate bool
	addOnce    bool // add to dst the sum of all messages
	// Weights, if any, multiplies the message of edge e by Weights[e*WeightStride]. Not with Mean.
	Weights      []float32
	WeightStride int // elements; 0 means 1
}

// Aggregate sets row d of dst to the sum or mean of the rows of table that
// belong to d's sources, in the order of the edges: source s is row index[s],
// or row s if index is nil. With an index it reads straight from a
// macro-batch's features, without a gathered copy (sample-gather-aggregate).
// dst is g.NumDst()×table.Dim and overlaps nothing. Mean does not go with Accumulate.
func Aggregate(p *Pool, o AggregateOptions, g CSR, index []uint32, table Rows, dst Matrix) {
	table.check("table")
	dst.checkShape("dst", g.NumDst(), table.Dim)
	if index != nil {
		g.check(p, len(index))
		checkIndices(p, "index", index, table.Count)
	} else {
		g.check(p, table.Count)
	}
	if o.Mean && o.Accumulate {
		panic("kernels: Mean and Accumulate exclude each other")
	}
	ldw := max(o.WeightStride, 1)
	if o.Weights != nil {
		if o.Mean {
			panic("kernels: weights and Mean exclude each other")
		}
		if n := g.NumDst(); n > 0 && g.Indptr[n] > g.Indptr[0] {
			if need := (int(g.Indptr[n])-1)*ldw + 1; len(o.Weights) < need {
				panic(fmt.Sprintf("kernels: %d weights of stride %d for %d edges", len(o.Weights), ldw, g.Indptr[n]))
			}
		}
	}
	if table.Dim == 0 || g.NumDst() == 0 {
		return
	}
	aggregate(p, o, g, index, table, dst, ldw)
}

func aggregate(p *Pool, o AggregateOptions, g CSR, index []uint32, table Rows, dst Matrix, ldw int) {
	k := p.kernels()
	n := g.NumDst()
	sum, sumWeighted := k.sum[rowType(table.Type)], k.sumWeighted[rowType(table.Type)]
	perDst := (int(g.Indptr[n]-g.Indptr[0]) + n) / n
	grain := max(1, aggregateGrain/(max(table.Dim, 1)*max(perDst, 1)))
	p.For(n, grain, func(lo, hi int) {
		first, last := int(g.Indptr[lo]), int(g.Indptr[hi])
		rows := asUint32(g.Indices[first:last])
		if index != nil {
			buf := p.uints(last - first)
			defer p.putUints(buf)
			for e, s := range rows {
				buf[e] = index[s]
			}
			rows = buf
		}
		var tmp []float32
		if o.Accumulate || o.addOnce {
			tmp = p.floats(table.Dim)
			defer p.putFloats(tmp)
		}
		for d := lo; d < hi; d++ {
			e, deg := int(g.Indptr[d]), g.Degree(d)
			out, from := dst.Row(d), []float32(nil)
			next := rows[e-first:]
			switch {
			case o.Accumulate && deg == 0:
				continue
			case o.Accumulate && table.Scales != nil:
				for i := range deg { // a message at a time, since rounding is not linear
					if o.Weights != nil {
						sumWeighted(tmp, nil, next[i:], 1, table.Data, table.Stride, 1, o.Weights[(e+i)*ldw:], ldw)
					} else {
						sum(tmp, nil, next[i:], 1, table.Data, table.Stride, 1)
					}
					k.mul(tmp, table.Scales)
					k.add(out, tmp)
				}
				continue
			case o.Accumulate:
				from = tmp
				copy(from, out)
			case o.addOnce:
				out = tmp
			}
			if o.Weights != nil {
				var w []float32
				if deg > 0 {
					w = o.Weights[e*ldw:]
				}
				sumWeighted(out, from, next, deg, table.Data, table.Stride, 1, w, ldw)
			} else {
				scale := float32(1)
				if o.Mean && deg > 0 {
					scale /= float32(deg)
				}
				sum(out, from, next, deg, table.Data, table.Stride, scale)
			}
			if table.Scales != nil { // of the sum, not of every row
				k.mul(out, table.Scales)
			}
			if o.addOnce {
				k.add(dst.Row(d), tmp)
			}
		}
	})
}

// Transpose fills t with the reverse of g: t's row s lists the destinations
// that have source s, ascending (one entry an edge). len(t.Indptr) is the number of sources+1;
// t.Indices has one element an edge of g. The result does not depend on the number of threads.
func Transpose(p *Pool, g, t CSR) { transpose(p, g, t, nil) }

// TransposeEdges is [Transpose] and also sets edges[k] to the edge of g that became edge k of t.
func TransposeEdges(p *Pool, g, t CSR, edges []int32) {
	checkLen("edges", len(edges), len(t.Indices))
	transpose(p, g, t, edges)
}

func transpose(p *Pool, g, t CSR, edges []int32) {
	if len(t.Indptr) == 0 {
		panic("kernels: the transpose's indptr is empty, expected sources+1 elements")
	}
	g.check(p, len(t.Indptr)-1)
	clear(t.Indptr)
	n := g.NumDst()
	if n == 0 {
		checkLen("the transpose's indices", len(t.Indices), 0)
		return
	}
	first := g.Indptr[0]
	checkLen("the transpose's indices", len(t.Indices), int(g.Indptr[n]-first))
	// A counting sort by source, stable in the order of the edges. Shifted by
	// one, so that filling moves each start to the next one's place.
	starts := t.Indptr[1:]
	for _, s := range g.Indices[first:g.Indptr[n]] {
		starts[s]++
	}
	at := int32(0)
	for s, c := range starts {
		starts[s] = at
		at += c
	}
	for d := range n {
		for e := g.Indptr[d]; e < g.Indptr[d+1]; e++ {
			s := g.Indices[e]
			k := starts[s]
			starts[s] = k + 1
			t.Indices[k] = int32(d)
			if edges != nil {
				edges[k] = e
			}
		}
	}
}

// AggregateBackward adds to dSrc what [Aggregate] (sum or mean, over rows
// 0 … of dSrc's shape) owes its sources: row s of dSrc += Σ dDst[d] / (mean ?
// degree of d : 1) over the destinations d of s. indptr is the graph's, t its
// [Transpose]. Each row is summed first and added once.
func AggregateBackward(p *Pool, mean bool, indptr []int32, t CSR, dDst, dSrc Matrix) {
	dDst.checkShape("dDst", max(len(indptr)-1, 0), dDst.Cols)
	dSrc.checkShape("dSrc", t.NumDst(), dDst.Cols)
	t.check(p, dDst.Rows)
	if dSrc.Rows == 0 || dSrc.Cols == 0 {
		return
	}
	o := AggregateOptions{addOnce: true}
	if mean {
		w := p.floats(len(t.Indices))
		defer p.putFloats(w)
		p.For(len(w), 1<<14, func(lo, hi int) {
			for e := lo; e < hi; e++ {
				d := t.Indices[e]
				w[e] = 1 / float32(max(indptr[d+1]-indptr[d], 1))
			}
		})
		o.Weights = w
	}
	aggregate(p, o, t, nil, dDst.AsRows(), dSrc, 1)
}
