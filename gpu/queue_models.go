package gpu

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
)

// ModelStream is the part of a [Stream] that options of models need.
type ModelStream interface {
	SegmentMax(o MaxOptions, g Graph, table, out, arg Tensor)
	SegmentMaxBackward(g Graph, dOut, arg, dSrc Tensor)
	BatchNorm(o BatchNormOptions, x, xhat, y, rstd Tensor)
	BatchNormBackward(gamma, xhat, rstd, d, dGamma, dBeta Tensor)
}

// MaxOptions configures [Queue.SegmentMax].
type MaxOptions struct {
	// Index maps the graph's sources to rows of the table: source s is row
	// Index[s]. None: source s is row s. Uint32[1×NumSrc].
	Index Tensor
	// Seen counts the edges that out's rows hold already, float32[NumDst×1], and is
	// increased by g's: a maximum over edges that arrive in pieces. A row that has seen none
	// is overwritten. None: all rows are.
	Seen Tensor
}

// SegmentMax sets, for every destination of g, each column of out [NumDst×c] to the
// greatest value among its sources' rows of table [·×c], of any type that
// Gather reads; 0 where there is no source. arg, int32[1×NumDst·c] or none,
// becomes the edge that each value came from: the first of equals, the first
// NaN if there is one, −1 where out was not overwritten.
func (q *Queue) SegmentMax(o MaxOptions, g Graph, table, out, arg Tensor) {
	const op = "segment max"
	checks := []error{g.check(op), checkTable(op, table), matrix(op, "out", out, g.NumDst, table.Cols), disjoint(op, out, table)}
	if o.Index.IsZero() {
		if table.Rows < g.NumSrc {
			checks = append(checks, shapef(op, "the graph has %d sources, the table %d rows", g.NumSrc, table.Rows))
		}
	} else {
		checks = append(checks, vector(op, "index", o.Index, blocks.Uint32, g.NumSrc))
	}
	if !o.Seen.IsZero() {
		checks = append(checks, matrix(op, "seen", o.Seen, g.NumDst, 1), disjoint(op, out, o.Seen))
	}
	if !arg.IsZero() {
		checks = append(checks, vector(op, "arg", arg, blocks.Int32, out.Len()))
	}
	if q.ok(checks...) && out.Len() > 0 {
		q.stream.SegmentMax(o, g, table, out, arg)
	}
}

// SegmentMaxBackward adds to dSrc [NumSrc×c] the gradient that a SegmentMax without Index
// passes on to its sources. g must have been transposed with its edges.
func (q *Queue) SegmentMaxBackward(g Graph, dOut, arg, dSrc Tensor) {
	const op = "segment max backward"
	if q.ok(g.check(op), g.checkTransposedEdges(op), matrix(op, "dOut", dOut, g.NumDst, -1), vector(op, "arg", arg, blocks.Int32, dOut.Len()),
		matrix(op, "dSrc", dSrc, g.NumSrc, dOut.Cols), disjoint(op, dSrc, dOut)) && dSrc.Len() > 0 && dOut.Len() > 0 {
		q.stream.SegmentMaxBackward(g, dOut, arg, dSrc)
	}
}

// BatchNormOptions configures [Queue.BatchNorm].
type BatchNormOptions struct {
	Gamma, Beta Tensor  // [1×c]
	Epsilon     float32 // added to the variance
	// Mean and Variance are the running statistics [1×c]. Training moves them by
	// Momentum towards the batch's (its variance the unbiased one); inference normalises by them.
	Mean, Variance Tensor
	Momentum       float32
	Inference      bool
}

// BatchNorm sets y = xhat·gamma + beta with xhat the columns of x [n×c], shifted and
// scaled to mean 0 and variance 1 over the rows (Ioffe and Szegedy, 2015, Algorithm
// 1; inference: Algorithm 2, step 11). xhat and rstd (float32[1×c]) are what the backward pass needs; xhat may be x.
func (q *Queue) BatchNorm(o BatchNormOptions, x, xhat, y, rstd Tensor) {
	const op = "batch norm"
	checks := []error{matrix(op, "x", x, -1, -1), matrix(op, "xhat", xhat, x.Rows, x.Cols), matrix(op, "y", y, x.Rows, x.Cols), disjoint(op, y, x), disjoint(op, y, xhat)}
	for _, v := range []struct {
		name string
		t    Tensor
	}{{"gamma", o.Gamma}, {"beta", o.Beta}, {"mean", o.Mean}, {"variance", o.Variance}, {"rstd", rstd}} {
		checks = append(checks, matrix(op, v.name, v.t, 1, x.Cols), disjoint(op, y, v.t))
	}
	if !o.Inference && !(o.Momentum >= 0 && o.Momentum <= 1) {
		checks = append(checks, fmt.Errorf("gpu: batch norm with momentum %v, expected 0 ≤ m ≤ 1", o.Momentum))
	}
	if q.ok(checks...) && x.Len() > 0 {
		q.stream.BatchNorm(o, x, xhat, y, rstd)
	}
}

// BatchNormBackward turns the gradient d of y, normalised by the batch's own statistics,
// into that of x, in place, and adds those of gamma and beta to dGamma and dBeta [1×c].
func (q *Queue) BatchNormBackward(gamma, xhat, rstd, d, dGamma, dBeta Tensor) {
	const op = "batch norm backward"
	if q.ok(matrix(op, "d", d, -1, -1), matrix(op, "xhat", xhat, d.Rows, d.Cols), matrix(op, "rstd", rstd, 1, d.Cols),
		matrix(op, "gamma", gamma, 1, d.Cols), matrix(op, "dGamma", dGamma, 1, d.Cols), matrix(op, "dBeta", dBeta, 1, d.Cols),
		disjoint(op, d, xhat), disjoint(op, d, gamma), disjoint(op, dGamma, d), disjoint(op, dBeta, d)) && d.Len() > 0 {
		q.stream.BatchNormBackward(gamma, xhat, rstd, d, dGamma, dBeta)
	}
}
