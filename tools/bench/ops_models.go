package bench

import (
	"math/rand/v2"

	"github.com/gstore/gstore/gpu/host/kernels"
)

// Sizes of the operations below: a block of a mini-batch, as fanouts 15,10 make it.
const (
	blockDst   = 20000
	blockSrc   = 60000
	blockEdges = 10 // a destination
	blockDim   = 128
	blockHeads = 4
	linkChunk  = 500 // queries, and shared negatives, of a chunk
	linkChunks = 10
)

// modelOperations are what attention, norms, maxima, relations and link
// prediction add to [operations]. Bytes are those that must move at least: every row of
// an edge's source read once an edge, results written once.
func modelOperations(take func(n int) []float32, r *rand.Rand) []op {
	const edges = blockDst * blockEdges
	g := kernels.CSR{Indptr: make([]int32, blockDst+1), Indices: make([]int32, edges)}
	groups := kernels.CSR{Indptr: make([]int32, edges/2+1), Indices: g.Indices} // two edges of a relation
	for d := range g.Indptr {
		g.Indptr[d] = int32(d * blockEdges)
	}
	for k := range groups.Indptr {
		groups.Indptr[k] = int32(2 * k)
	}
	for e := range g.Indices {
		g.Indices[e] = r.Int32N(blockSrc)
	}
	t := kernels.CSR{Indptr: make([]int32, blockSrc+1), Indices: make([]int32, edges)}
	places := make([]int32, edges)
	kernels.TransposeEdges(nil, g, t, places)
	matrix := func(rows, cols int) kernels.Matrix { return kernels.Dense(take(rows*cols), rows, cols) }
	src, dst, dSrc := matrix(blockSrc, blockDim), matrix(blockDst, blockDim), matrix(blockSrc, blockDim)
	half, halfDst, scores, alpha := matrix(blockSrc, blockHeads), matrix(blockDst, blockHeads), take(edges*blockHeads), take(edges*blockHeads)
	relation, sums := matrix(edges/2, blockDim), matrix(blockDst, blockHeads)
	weights := take(edges)
	arg := make([]int32, blockDst*blockDim)
	const row = 4 * blockDim
	ops := []op{
		op{name: "aggregate weighted sum 128", work: edges * (row + 8), run: func(p *kernels.Pool) {
			kernels.Aggregate(p, kernels.AggregateOptions{Weights: weights}, g, nil, src.AsRows(), dst)
		}}.moving(blockDst * row),
		op{name: "aggregate mean by relation 128", work: edges * (row + 4), run: func(p *kernels.Pool) {
			kernels.Aggregate(p, kernels.AggregateOptions{Mean: true}, groups, nil, src.AsRows(), relation)
		}}.moving(edges / 2 * row),
		op{name: "aggregate backward 128", work: edges * (row + 4), run: func(p *kernels.Pool) {
			kernels.AggregateBackward(p, true, g.Indptr, t, dst, dSrc)
		}}.moving(2 * blockSrc * row),
		op{name: "transpose edges", work: 24 * edges, run: func(p *kernels.Pool) { kernels.TransposeEdges(p, g, t, places) }}.moving(8 * blockSrc),
		op{name: "segment max 128", work: edges * (row + 4), run: func(p *kernels.Pool) {
			kernels.SegmentMax(p, kernels.MaxOptions{Arg: arg}, g, src.AsRows(), dst)
		}}.moving(2 * blockDst * row),
		op{name: "segment max backward 128", work: edges * (2*row + 8), run: func(p *kernels.Pool) {
			kernels.SegmentMaxBackward(p, t, places, dst, arg, dSrc)
		}}.moving(2 * blockSrc * row),
		op{name: "edge add 4 heads", work: edges * 4 * (2*blockHeads + 1), run: func(p *kernels.Pool) { kernels.EdgeAdd(p, g, half, halfDst, nil, .2, scores) }}.moving(0),
		op{name: "edge softmax 4 heads", work: edges * 8 * blockHeads, run: func(p *kernels.Pool) {
			copy(alpha, scores)
			kernels.EdgeSoftmax(p, g, blockHeads, alpha)
		}}.moving(edges * 8 * blockHeads),
		op{name: "edge softmax backward 4 heads", work: edges * 12 * blockHeads, run: func(p *kernels.Pool) {
			kernels.EdgeSoftmaxBackward(p, g, blockHeads, alpha, scores)
		}}.moving(0),
		op{name: "edge dot 4×32", work: edges * (row + 4 + 4*blockHeads), run: func(p *kernels.Pool) { kernels.EdgeDot(p, g, blockHeads, src, dst, scores) }}.moving(blockDst * row),
		op{name: "edge sum 4 heads", work: edges * 4 * blockHeads, run: func(p *kernels.Pool) { kernels.EdgeSum(p, g, nil, scores, sums) }}.moving(8 * blockDst * blockHeads),
		op{name: "aggregate heads 4×32", work: edges * (row + 4 + 4*blockHeads), run: func(p *kernels.Pool) {
			kernels.AggregateHeads(p, g, nil, blockHeads, alpha, src, dst)
		}}.moving(2 * blockDst * row),
		op{name: "aggregate heads backward 4×32", work: edges * (row + 8 + 4*blockHeads), run: func(p *kernels.Pool) {
			kernels.AggregateHeads(p, t, places, blockHeads, alpha, dst, dSrc)
		}}.moving(2 * blockSrc * row),
	}
	x, xhat, y := src, dSrc, matrix(blockSrc, blockDim)
	gamma, beta, mean, variance, dGamma, dBeta := take(blockDim), take(blockDim), take(blockDim), take(blockDim), take(blockDim), take(blockDim)
	rstds := take(blockSrc)
	ops = append(ops,
		op{name: "layer norm 128", work: 3 * blockSrc * row, run: func(p *kernels.Pool) { kernels.LayerNorm(p, 1e-5, x, gamma, beta, xhat, y, rstds) }}.moving(0),
		op{name: "layer norm backward 128", work: 3 * blockSrc * row, run: func(p *kernels.Pool) {
			kernels.LayerNormBackward(p, gamma, xhat, rstds, y, dGamma, dBeta)
		}}.moving(0),
		op{name: "batch norm 128", work: 3 * blockSrc * row, run: func(p *kernels.Pool) {
			kernels.BatchNorm(p, kernels.BatchNormOptions{Epsilon: 1e-5, Momentum: .1}, x, gamma, beta, mean, variance, xhat, y, rstds[:blockDim])
		}}.moving(0),
		op{name: "batch norm backward 128", work: 3 * blockSrc * row, run: func(p *kernels.Pool) {
			kernels.BatchNormBackward(p, gamma, xhat, rstds[:blockDim], y, dGamma, dBeta)
		}}.moving(0))
	const queries = linkChunk * linkChunks
	a, b, c := matrix(queries, blockDim), matrix(queries, blockDim), matrix(queries, linkChunk)
	table, grad, state := matrix(blockSrc, blockDim), matrix(blockDst, blockDim), matrix(blockSrc, blockDim)
	index := make([]uint32, blockDst)
	for i, v := range r.Perm(blockSrc)[:blockDst] {
		index[i] = uint32(v)
	}
	pairs := take(queries)
	const pair = 2. * queries * linkChunk * blockDim
	return append(ops,
		op{name: "scores of shared negatives 500×128×500", work: pair, run: func(p *kernels.Pool) {
			kernels.GemmBatch(p, kernels.GemmOptions{TransB: true}, linkChunks, a, b, c)
		}}.computing(),
		op{name: "squared distances 5000×128×500", work: pair, run: func(p *kernels.Pool) { kernels.PairwiseSquaredDistance(p, a, b.View(0, 0, linkChunk, blockDim), c) }}.computing(),
		op{name: "row dot 128", work: 2 * queries * row, run: func(p *kernels.Pool) { kernels.RowDot(p, a, b, pairs) }}.moving(4*queries),
		op{name: "complex multiply-add 2×64", work: 4 * blockDst * row, run: func(p *kernels.Pool) { kernels.ComplexMulAdd(p, true, dst, grad, dst) }}.moving(0),
		op{name: "softmax of a positive and 499 negatives", work: 8 * queries * linkChunk, run: func(p *kernels.Pool) { kernels.SoftmaxFirst(p, c, c) }}.moving(0),
		op{name: "adagrad of rows 128", work: 5 * blockDst * row, run: func(p *kernels.Pool) {
			kernels.AdagradRows(p, kernels.AdagradOptions{LR: 1e-6, Epsilon: 1e-10}, index, table, grad, state)
		}}.moving(0),
		op{name: "scatter add of rows 128", work: 3 * blockDst * row, run: func(p *kernels.Pool) { kernels.ScatterAddRows(p, table, index, grad) }}.moving(0))
}
