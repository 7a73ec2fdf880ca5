package gpu

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks"
)

// Queue checks operations and issues them to a device's stream. See the
// package doc for order and errors. Every matrix is float32 unless said.
type Queue struct {
	dev    Device
	stream Stream
	err    error
	closed bool
}

// NewQueue makes a queue with a stream of its own.
func NewQueue(dev Device) (*Queue, error) {
	s, err := dev.NewStream()
	if err != nil {
		return nil, fmt.Errorf("gpu: new queue on %s: %w", dev.Info().Name, err)
	}
	return &Queue{dev: dev, stream: s}, nil
}

// Device returns the queue's device.
func (q *Queue) Device() Device { return q.dev }

// Err returns the first error known so far without waiting.
func (q *Queue) Err() error { return q.err }

// Fail records err as if an operation had failed: what is issued afterwards
// is skipped. Nil does nothing.
func (q *Queue) Fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// Sync waits until everything issued is done and returns the first error.
// Afterwards the queue is usable again.
func (q *Queue) Sync(ctx context.Context) error {
	if q.closed {
		return ErrClosed
	}
	err := q.stream.Sync(ctx)
	if q.err != nil {
		err, q.err = q.err, nil
	}
	return err
}

// Close waits for the stream and frees it.
func (q *Queue) Close() error {
	if q.closed {
		return nil
	}
	q.closed = true
	return q.stream.Close()
}

// ok reports whether an operation may run, recording the first check that fails.
func (q *Queue) ok(checks ...error) bool {
	if q.closed {
		q.Fail(ErrClosed)
	}
	for _, err := range checks {
		q.Fail(err)
	}
	return q.err == nil
}

// Upload copies host bytes to a contiguous tensor of the same size. src must
// stay untouched until Sync.
func (q *Queue) Upload(dst Tensor, src []byte) {
	if q.ok(dst.check("upload", "dst"), flat("upload", "dst", dst, int64(len(src)))) && dst.Len() > 0 {
		q.stream.Upload(dst, src)
	}
}

// Download copies a contiguous tensor to host bytes of the same size, which
// hold it after Sync.
func (q *Queue) Download(dst []byte, src Tensor) {
	if q.ok(src.check("download", "src"), flat("download", "src", src, int64(len(dst)))) && src.Len() > 0 {
		q.stream.Download(dst, src)
	}
}

func flat(op, name string, t Tensor, bytes int64) error {
	if !t.Contiguous() || t.Bytes() != bytes {
		return shapef(op, "%s is %v, the host side has %d bytes", name, t, bytes)
	}
	return nil
}

// Copy copies src to dst, both rows×cols of any strides.
func (q *Queue) Copy(dst, src Tensor) {
	if q.ok(matrix("copy", "src", src, -1, -1), matrix("copy", "dst", dst, src.Rows, src.Cols), disjoint("copy", dst, src)) && dst.Len() > 0 {
		q.stream.Copy(dst, src)
	}
}

// Fill sets every element.
func (q *Queue) Fill(dst Tensor, value float32) {
	if q.ok(matrix("fill", "dst", dst, -1, -1)) && dst.Len() > 0 {
		q.stream.Fill(dst, value)
	}
}

// Gather sets row k of dst [n×d] to row index[k] of table [·×d], converted to
// float32. table holds float32, float16, bfloat16 or int8; index is uint32[1×n].
func (q *Queue) Gather(dst, table, index Tensor) {
	if q.ok(checkTable("gather", table), vector("gather", "index", index, blocks.Uint32, dst.Rows),
		matrix("gather", "dst", dst, -1, table.Cols), disjoint("gather", dst, table)) && dst.Len() > 0 {
		q.stream.Gather(dst, table, index)
	}
}

// CopyRows sets row to[k] of dst [·×d] to row from[k] of src [·×d], element by element as they are: both hold the same
// type of those that Gather reads. Rows in to are distinct; to and from are uint32[1×n]. It is how rows of mapped host
// memory come to a device that is to keep them.
func (q *Queue) CopyRows(dst, to, src, from Tensor) {
	checks := []error{checkTable("copy rows", dst), checkTable("copy rows", src), vector("copy rows", "from", from, blocks.Uint32, to.Cols),
		vector("copy rows", "to", to, blocks.Uint32, from.Cols), disjoint("copy rows", dst, src)}
	if dst.Elem != src.Elem || dst.Cols != src.Cols {
		checks = append(checks, shapef("copy rows", "dst is %v, src %v: expected the same columns of the same type", dst, src))
	}
	if q.ok(checks...) && from.Len() > 0 && src.Cols > 0 {
		q.stream.CopyRows(dst, to, src, from)
	}
}

// Aggregate combines, for every destination of g, the rows of its sources:
// dst[d] = reduce over edges (s, d) of table[Index[s]]. table is [·×c] as in
// Gather, dst [NumDst×c].
func (q *Queue) Aggregate(o AggregateOptions, g Graph, table, dst Tensor) {
	checks := []error{g.check("aggregate"), checkTable("aggregate", table), matrix("aggregate", "dst", dst, g.NumDst, table.Cols), disjoint("aggregate", dst, table)}
	if o.Index.IsZero() {
		if table.Rows < g.NumSrc {
			checks = append(checks, shapef("aggregate", "the graph has %d sources, the table %d rows", g.NumSrc, table.Rows))
		}
	} else {
		checks = append(checks, vector("aggregate", "index", o.Index, blocks.Uint32, g.NumSrc))
	}
	if o.Accumulate && o.Reduce != Sum {
		checks = append(checks, shapef("aggregate", "only sums can be accumulated, not a %v", o.Reduce))
	}
	if !o.Weights.IsZero() {
		checks = append(checks, matrix("aggregate", "weights", o.Weights, g.Edges(), 1), disjoint("aggregate", dst, o.Weights))
		if o.Reduce != Sum {
			checks = append(checks, shapef("aggregate", "only sums can be weighted, not a %v", o.Reduce))
		}
	}
	if q.ok(checks...) && dst.Len() > 0 {
		q.stream.Aggregate(o, g, table, dst)
	}
}

// AggregateBackward adds to dSrc [NumSrc×c] the gradient that an Aggregate
// without Index passes on: dSrc[s] += Σ over edges (s, d) of dDst[d], divided
// by d's number of edges for Mean. g must have been transposed.
func (q *Queue) AggregateBackward(r Reduce, g Graph, dDst, dSrc Tensor) {
	if q.ok(g.check("aggregate backward"), g.checkTransposed("aggregate backward"),
		matrix("aggregate backward", "dDst", dDst, g.NumDst, -1),
		matrix("aggregate backward", "dSrc", dSrc, g.NumSrc, dDst.Cols), disjoint("aggregate backward", dSrc, dDst)) && dSrc.Len() > 0 {
		q.stream.AggregateBackward(r, g, dDst, dSrc)
	}
}

// Transpose fills the by-source half of g, whose memory is taken from a.
func (q *Queue) Transpose(a *Arena, g *Graph) {
	if !q.ok(g.check("transpose")) {
		return
	}
	g.SrcIndptr = a.Vector(q, g.NumSrc+1, blocks.Int32)
	g.DstIndices = a.Vector(q, g.Edges(), blocks.Int32)
	if q.ok() {
		q.stream.Transpose(*g)
	}
}

// DivideRows divides row i of t [n×c] by divisors[i], float32[1×n]; rows with
// a divisor of 0 are left alone.
func (q *Queue) DivideRows(t, divisors Tensor) {
	if q.ok(matrix("divide rows", "t", t, -1, -1), vector("divide rows", "divisors", divisors, blocks.Float32, t.Rows)) && t.Len() > 0 {
		q.stream.DivideRows(t, divisors)
	}
}

// Gemm computes C = op(A)·op(B), see [GemmOptions]; C is [m×n] and overlaps
// neither A nor B.
func (q *Queue) Gemm(o GemmOptions, a, b, c Tensor) {
	m, k := a.Rows, a.Cols
	if o.TransA {
		m, k = k, m
	}
	kb, n := b.Rows, b.Cols
	if o.TransB {
		kb, n = n, kb
	}
	checks := []error{matrix("gemm", "A", a, -1, -1), matrix("gemm", "B", b, -1, -1), matrix("gemm", "C", c, m, n), disjoint("gemm", c, a), disjoint("gemm", c, b)}
	if k != kb {
		checks = append(checks, shapef("gemm", "op(A) is %d×%d, op(B) is %d×%d", m, k, kb, n))
	}
	if !o.Bias.IsZero() {
		checks = append(checks, matrix("gemm", "bias", o.Bias, 1, n))
	}
	if q.ok(checks...) && c.Len() > 0 {
		q.stream.Gemm(o, a, b, c)
	}
}

// ColumnSum sets dst [1×c] to the sum of src's rows, the gradient of a bias.
func (q *Queue) ColumnSum(src, dst Tensor) {
	if q.ok(matrix("column sum", "src", src, -1, -1), matrix("column sum", "dst", dst, 1, src.Cols), disjoint("column sum", dst, src)) && dst.Len() > 0 {
		q.stream.ColumnSum(src, dst)
	}
}

// Axpy adds alpha·x to y, both of one shape and contiguous.
func (q *Queue) Axpy(alpha float32, x, y Tensor) {
	if q.ok(matrix("axpy", "x", x, -1, -1), matrix("axpy", "y", y, x.Rows, x.Cols), contiguous("axpy", x, y)) && y.Len() > 0 {
		q.stream.Axpy(alpha, x, y)
	}
}

// Dropout drops elements of t in place; P = 0 does nothing.
func (q *Queue) Dropout(o DropoutOptions, t Tensor) {
	var bad error
	if !(o.P >= 0 && o.P < 1) {
		bad = fmt.Errorf("gpu: dropout with probability %v, expected 0 ≤ p < 1", o.P)
	}
	if q.ok(q.scalar("dropout", o.Base, 1, blocks.Uint64), matrix("dropout", "t", t, -1, -1), contiguous("dropout", t), bad) && t.Len() > 0 && o.P > 0 {
		q.stream.Dropout(o, t)
	}
}

// ReLUBackward turns the gradient d of y = dropout(relu(x)) into that of x, in place:
// d *= scale where y > 0, 0 elsewhere. scale is 1/(1−P), or 1 without dropout.
func (q *Queue) ReLUBackward(scale float32, y, d Tensor) {
	if q.ok(matrix("relu backward", "y", y, -1, -1), matrix("relu backward", "d", d, y.Rows, y.Cols), contiguous("relu backward", y, d)) && d.Len() > 0 {
		q.stream.ReLUBackward(scale, y, d)
	}
}

// SoftmaxCrossEntropy computes from logits [n×classes] and labels int32[1×n]
// the gradient of the mean loss over rows (grad, the shape of logits) and stat
// float64[1×2]: the sum of the rows' losses, and how many rows have their
// largest logit at the label. Rows with label −1 count for nothing; the mean
// is over the others. Labels ≥ classes are an error at Sync. grad may be none:
// only stat is computed.
func (q *Queue) SoftmaxCrossEntropy(logits, labels, grad, stat Tensor) {
	checks := []error{matrix("softmax cross-entropy", "logits", logits, -1, -1),
		vector("softmax cross-entropy", "labels", labels, blocks.Int32, logits.Rows),
		vector("softmax cross-entropy", "stat", stat, blocks.Float64, 2)}
	if !grad.IsZero() {
		checks = append(checks, matrix("softmax cross-entropy", "grad", grad, logits.Rows, logits.Cols))
	}
	if q.ok(checks...) {
		q.stream.SoftmaxCrossEntropy(logits, labels, grad, stat)
	}
}

// NumberLossOptions say which number an output stands for: output × Deviation + Mean. Deviation > 0.
type NumberLossOptions struct{ Mean, Deviation float32 }

// NumberLoss computes from outputs [n×1] and labels int32[1×n], codes of numbers ([blocks.NumberCode]), the gradient of
// the mean over rows of Huber's loss (1964, Robust estimation of a location parameter, with k = 1) of the distance d between the
// output and (number − Mean)/Deviation: d²/2, beyond 1 |d| − 1/2. grad has the shape of outputs. stat float64[1×2] is the
// sum of the rows' losses and that of |d|. Rows with label −1 count for nothing; the mean is over the others.
func (q *Queue) NumberLoss(o NumberLossOptions, outputs, labels, grad, stat Tensor) {
	var bad error
	if !(o.Deviation > 0) {
		bad = fmt.Errorf("gpu: number loss: a deviation of %v, expected more than 0", o.Deviation)
	}
	if q.ok(matrix("number loss", "outputs", outputs, -1, 1), vector("number loss", "labels", labels, blocks.Int32, outputs.Rows),
		matrix("number loss", "grad", grad, outputs.Rows, 1), vector("number loss", "stat", stat, blocks.Float64, 2), bad) {
		q.stream.NumberLoss(o, outputs, labels, grad, stat)
	}
}

// MultiLabelLoss computes from logits [n×K] and labels int32[1×n], numbers of sets of labels, the gradient of the mean over rows of
// the mean over labels of the binary cross-entropy, −log σ(x) where the set has the label, else −log(1 − σ(x)). sets int32[1×S·⌈K/32⌉]
// are S sets, bit j%32 of word j/32 of each being label j. grad has the shape of logits. stat float64[1×2] is the sum of the rows'
// losses and that of the shares of labels that a row says right, those with a logit above 0 being said. Rows with label −1 count
// for nothing; the mean is over the others. Labels that are no set are an error at Sync.
func (q *Queue) MultiLabelLoss(sets, logits, labels, grad, stat Tensor) {
	words := (logits.Cols + 31) / 32
	var bad error
	if words == 0 || sets.Len()%words != 0 {
		bad = fmt.Errorf("gpu: multi-label loss: %v of sets for logits %v, expected a whole number of %d words", sets, logits, words)
	}
	if q.ok(matrix("multi-label loss", "logits", logits, -1, -1), vector("multi-label loss", "labels", labels, blocks.Int32, logits.Rows),
		vector("multi-label loss", "sets", sets, blocks.Int32, sets.Cols), matrix("multi-label loss", "grad", grad, logits.Rows, logits.Cols),
		vector("multi-label loss", "stat", stat, blocks.Float64, 2), bad) {
		q.stream.MultiLabelLoss(sets, logits, labels, grad, stat)
	}
}

// Adam takes one optimiser step: four contiguous tensors of one shape.
func (q *Queue) Adam(o AdamOptions, param, grad, m, v Tensor) {
	if q.ok(o.check(), q.scalar("adam", o.Rates, 2, blocks.Float32), matrix("adam", "param", param, -1, -1), matrix("adam", "grad", grad, param.Rows, param.Cols),
		matrix("adam", "m", m, param.Rows, param.Cols), matrix("adam", "v", v, param.Rows, param.Cols),
		contiguous("adam", param, grad, m, v)) && param.Len() > 0 {
		q.stream.Adam(o, param, grad, m, v)
	}
}

func contiguous(op string, ts ...Tensor) error {
	for _, t := range ts {
		if !t.Contiguous() {
			return shapef(op, "%v has gaps between rows, expected none", t)
		}
	}
	return nil
}

// disjoint rejects outputs that overlap an input, unless both are column ranges of one
// matrix, which interleave without sharing elements.
func disjoint(op string, out, in Tensor) error {
	if out.Mem == nil || out.Mem != in.Mem || out.Len() == 0 || in.Len() == 0 {
		return nil
	}
	a, b := out.Offset, in.Offset
	if a+out.Bytes() <= b || b+in.Bytes() <= a {
		return nil
	}
	rowBytes := int64(out.Stride * out.Elem.Size())
	if out.Elem == in.Elem && out.Stride == in.Stride && rowBytes > 0 {
		size := int64(out.Elem.Size())
		d := ((b-a)%rowBytes + rowBytes) % rowBytes // in's first column after out's, modulo the row
		if d >= int64(out.Cols)*size && d+int64(in.Cols)*size <= rowBytes {
			return nil
		}
	}
	return shapef(op, "the output %v overlaps the input %v", out, in)
}

// checkTable checks a table of feature rows.
func checkTable(op string, t Tensor) error {
	if err := t.check(op, "table"); err != nil {
		return err
	}
	switch t.Elem {
	case blocks.Float32, blocks.Float16, blocks.BFloat16, blocks.Int8:
		return nil
	}
	return shapef(op, "table holds %v, expected float32, float16, bfloat16 or int8", t.Elem)
}
