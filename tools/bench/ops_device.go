package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// DeviceOpsOptions configures [RunDeviceOps]. The zero value is the default.
type DeviceOpsOptions struct {
	TableMiB int64  // size of the table that rows are gathered from, by which all sizes go; default 4096
	Repeats  int    // rounds; default 20
	Filter   string // only operations whose name contains this
	Seed     uint64
}

// DeviceOpResult is one operation on a device: medians over the rounds.
type DeviceOpResult struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"` // the device's, one run
	Bytes   float64 `json:"bytes"`   // that must move at least
	Flops   float64 `json:"flops,omitempty"`
	Rate    float64 `json:"gb_s"` // Bytes over Seconds, 10⁹ a second
	// Copy is the rate of a copy within the device's memory, bytes read and written, measured in the same
	// rounds; Share is the median of the ratios, above 1 where a cache holds what is read again.
	Copy   float64 `json:"copy_gb_s"`
	Share  float64 `json:"share"`
	Target float64 `json:"target,omitempty"` // of Share; 0: bound by how long a launch takes
}

// deviceOp is one operation.
type deviceOp struct {
	name                 string
	bytes, flops, target float64
	run                  func(q *gpu.Queue)
}

// deviceOps makes the operands of operations in an arena.
type deviceOps struct {
	q     *gpu.Queue
	a     *gpu.Arena
	table gpu.Tensor // float32[rows×deviceOpsDim]
	r     *rand.Rand
	noise []float32
	rows  int        // of the table
	copy  gpu.Tensor // where a part of it is copied to
	again *gpu.Arena // of a transposed graph, which every run makes anew
}

const deviceOpsDim = 128

// RunDeviceOps measures a device's operations by its own clock, beside a copy in its memory. report is told of each.
func RunDeviceOps(ctx context.Context, dev gpu.Device, o DeviceOpsOptions, report func(DeviceOpResult)) (err error) {
	if o.TableMiB <= 0 {
		o.TableMiB = 4096
	}
	if o.Repeats <= 0 {
		o.Repeats = 20
	}
	q, err := gpu.NewQueue(dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	part := min(o.TableMiB<<20/2, 256<<20) // beyond any cache, where the table is
	mem, err := dev.Alloc(o.TableMiB<<20 + part)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mem.Free()) }()
	b := &deviceOps{q: q, a: gpu.NewArena(dev), again: gpu.NewArena(dev), rows: int(o.TableMiB << 20 / (4 * deviceOpsDim)), r: rand.New(rand.NewPCG(o.Seed, 7)), noise: make([]float32, 1<<18)}
	defer func() { err = errors.Join(err, b.a.Close(), b.again.Close()) }()
	for i := range b.noise {
		b.noise[i] = b.r.Float32() - .5
	}
	b.table = gpu.MatrixOf(mem, 0, b.rows, deviceOpsDim)
	b.copy = gpu.MatrixOf(mem, o.TableMiB<<20, int(part/(4*deviceOpsDim)), deviceOpsDim)
	b.fill(b.table)
	if err := q.Sync(ctx); err != nil {
		return err
	}
	for _, family := range []func(*deviceOps) []deviceOp{(*deviceOps).gathers, (*deviceOps).products, (*deviceOps).messages, (*deviceOps).flat} {
		for _, op := range family(b) {
			if !strings.Contains(op.name, o.Filter) {
				continue
			}
			r, err := b.measure(ctx, op, o.Repeats)
			if err != nil {
				return fmt.Errorf("bench ops: %s on %s: %w", op.name, dev.Info().Name, err)
			}
			report(r)
		}
		if err := errors.Join(q.Sync(ctx), b.a.Reset()); err != nil {
			return err
		}
	}
	return nil
}

// took is the device's time of one of several runs: as many as make up some milliseconds.
func (b *deviceOps) took(ctx context.Context, run func(q *gpu.Queue)) (float64, error) {
	const least = 2 * time.Millisecond
	b.q.Mark() // what was issued before is not counted
	for n := 1; ; n *= 4 {
		for range n {
			run(b.q)
		}
		m := b.q.Mark()
		if err := m.Wait(ctx); err != nil {
			return 0, errors.Join(err, b.q.Sync(ctx))
		}
		if m.Took() >= least || n >= 1024 {
			return m.Took().Seconds() / float64(n), nil
		}
	}
}

// measure runs an operation by turns with a copy.
func (b *deviceOps) measure(ctx context.Context, op deviceOp, repeats int) (DeviceOpResult, error) {
	r := DeviceOpResult{Name: op.name, Bytes: op.bytes, Flops: op.flops, Target: op.target}
	from := b.table.Head(b.copy.Rows)
	copied := 2 * float64(from.Bytes())
	var seconds, copies, shares []float64
	for round := range repeats + 1 {
		c, err := b.took(ctx, func(q *gpu.Queue) { q.Copy(b.copy, from) })
		if err != nil {
			return r, err
		}
		s, err := b.took(ctx, op.run)
		if err != nil {
			return r, err
		}
		if round == 0 { // warmed up
			continue
		}
		c, s = math.Max(c, 1e-9), math.Max(s, 1e-9)
		seconds, copies, shares = append(seconds, s), append(copies, copied/c/1e9), append(shares, op.bytes/s/(copied/c))
	}
	r.Seconds, r.Copy, r.Share = median(seconds), median(copies), median(shares)
	r.Rate = r.Bytes / r.Seconds / 1e9
	return r, nil
}

// fill sets a contiguous tensor of float32 to numbers that no cache or compression makes cheap.
func (b *deviceOps) fill(t gpu.Tensor) {
	flat := t.Flat()
	for at := 0; at < flat.Cols; at += len(b.noise) {
		n := min(len(b.noise), flat.Cols-at)
		b.q.Upload(flat.View(0, at, 1, n), blocks.Bytes(b.noise[:n]))
	}
}

func (b *deviceOps) matrix(rows, cols int) gpu.Tensor {
	t := b.a.Matrix(b.q, rows, cols)
	b.fill(t)
	return t
}

// index is n rows of a table of so many.
func (b *deviceOps) index(n, rows int) gpu.Tensor {
	x := make([]uint32, n)
	for i := range x {
		x[i] = b.r.Uint32N(uint32(rows))
	}
	return b.a.Uint32s(b.q, x)
}

// graph has dst destinations of degree edges each, from any of src sources.
func (b *deviceOps) graph(dst, src, degree int) gpu.Graph {
	indptr, indices := make([]int32, dst+1), make([]int32, dst*degree)
	for d := range indptr {
		indptr[d] = int32(d * degree)
	}
	for e := range indices {
		indices[e] = b.r.Int32N(int32(src))
	}
	return gpu.Graph{NumDst: dst, NumSrc: src, Indptr: b.a.Int32s(b.q, indptr), Indices: b.a.Int32s(b.q, indices)}
}

// gathers read rows of the table: its memory is read as each type of element, of which every bit pattern is one.
func (b *deviceOps) gathers() (ops []deviceOp) {
	const degree = 10
	n := max(1, b.rows/8)
	edges := n * degree
	for _, e := range []blocks.ElemType{blocks.Float32, blocks.BFloat16, blocks.Int8} {
		size := e.Size()
		rows := b.rows * 4 / size
		table := gpu.Tensor{Mem: b.table.Mem, Rows: rows, Cols: deviceOpsDim, Stride: deviceOpsDim, Elem: e}
		target := .85
		if deviceOpsDim*size < 256 {
			target = .6
		}
		index, out := b.index(n, rows), b.a.Matrix(b.q, n, deviceOpsDim)
		ops = append(ops, deviceOp{name: fmt.Sprintf("gather %d %v", deviceOpsDim, e), bytes: float64(n * (deviceOpsDim*(size+4) + 4)), target: target,
			run: func(q *gpu.Queue) { q.Gather(out, table, index) }})
		g, of := b.graph(n, edges, degree), b.index(edges, rows)
		ops = append(ops, deviceOp{name: fmt.Sprintf("gather-aggregate mean %d %v", deviceOpsDim, e), bytes: float64(edges*(deviceOpsDim*size+8) + 4*n*deviceOpsDim), target: .7,
			run: func(q *gpu.Queue) { q.Aggregate(gpu.AggregateOptions{Reduce: gpu.Mean, Index: of}, g, table, out) }})
	}
	return ops
}

// products are those of a SAGE step: 100,000 rows where the table is large.
func (b *deviceOps) products() (ops []deviceOp) {
	m := min(100_000, max(1, b.rows/8))
	for _, s := range [][2]int{{128, 256}, {256, 256}, {512, 256}, {128, 512}} {
		k, n := s[0], s[1]
		x, w, y, bias := b.matrix(m, k), b.matrix(k, n), b.matrix(m, n), b.matrix(1, n)
		shape := fmt.Sprintf("%d×%d×%d", m, k, n)
		bytes, flops := 4*float64(m*k+k*n+m*n), 2*float64(m)*float64(k)*float64(n)
		for _, o := range []struct {
			name    string
			o       gpu.GemmOptions
			a, b, c gpu.Tensor
		}{{"Y=relu(XW+b)", gpu.GemmOptions{Bias: bias, ReLU: true}, x, w, y}, {"dX=dY·Wᵀ", gpu.GemmOptions{TransB: true}, y, w, x}, {"dW=Xᵀ·dY", gpu.GemmOptions{TransA: true}, x, y, w}} {
			ops = append(ops, deviceOp{name: "gemm " + o.name + " " + shape, bytes: bytes, flops: flops, target: .6, run: func(q *gpu.Queue) { q.Gemm(o.o, o.a, o.b, o.c) }})
		}
	}
	return ops
}

// messages are those of a block of a mini-batch, forward and backward.
func (b *deviceOps) messages() []deviceOp {
	const degree, heads = 10, 4
	dst := max(1, b.rows/32)
	src, edges := 3*dst, degree*dst
	g := b.graph(dst, src, degree)
	b.q.TransposeEdges(b.a, &g)
	x, out, dX := b.matrix(src, deviceOpsDim), b.matrix(dst, deviceOpsDim), b.matrix(src, deviceOpsDim)
	half, halfDst, scores, alpha := b.matrix(src, heads), b.matrix(dst, heads), b.matrix(edges, heads), b.matrix(edges, heads)
	arg := b.a.Vector(b.q, dst*deviceOpsDim, blocks.Int32)
	const row = 4 * deviceOpsDim
	bytes := func(edgeBytes, dstBytes, srcBytes int) float64 {
		return float64(edges*edgeBytes + dst*dstBytes + src*srcBytes)
	}
	return []deviceOp{
		{name: "aggregate mean 128", bytes: bytes(row+8, row, 0), target: .7, run: func(q *gpu.Queue) { q.Aggregate(gpu.AggregateOptions{Reduce: gpu.Mean}, g, x, out) }},
		{name: "aggregate backward 128", bytes: bytes(row+4, 0, 2*row), target: .7, run: func(q *gpu.Queue) { q.AggregateBackward(gpu.Mean, g, out, dX) }},
		{name: "transpose edges", bytes: bytes(24, 0, 8), target: .4, run: b.transpose(g)},
		{name: "segment max 128", bytes: bytes(row+4, 2*row, 0), target: .7, run: func(q *gpu.Queue) { q.SegmentMax(gpu.MaxOptions{}, g, x, out, arg) }},
		{name: "edge add 4 heads", bytes: bytes(4*(2*heads+1), 0, 0), target: .7, run: func(q *gpu.Queue) { q.EdgeAdd(.2, g, half, halfDst, gpu.Tensor{}, scores) }},
		{name: "edge softmax 4 heads", bytes: bytes(8*heads, 0, 0), target: .7, run: func(q *gpu.Queue) { q.EdgeSoftmax(g, alpha) }},
		{name: "edge dot 4×32", bytes: bytes(row+4+4*heads, row, 0), target: .7, run: func(q *gpu.Queue) { q.EdgeDot(heads, g, x, out, scores) }},
		{name: "aggregate heads 4×32", bytes: bytes(row+4+4*heads, 2*row, 0), target: .7, run: func(q *gpu.Queue) { q.AggregateHeads(g, alpha, x, out) }},
		{name: "aggregate heads backward 4×32", bytes: bytes(row+8+4*heads, 0, 2*row), target: .7, run: func(q *gpu.Queue) { q.AggregateHeadsBackward(g, alpha, out, dX) }},
	}
}

// transpose transposes g into the memory that it was transposed into before: operations of one queue run in order.
func (b *deviceOps) transpose(g gpu.Graph) func(q *gpu.Queue) {
	return func(q *gpu.Queue) {
		q.Fail(b.again.Reset())
		g := g
		q.TransposeEdges(b.again, &g)
	}
}

// flat are the operations over elements, the loss and the optimiser.
func (b *deviceOps) flat() []deviceOp {
	rows := max(1, b.rows/16)
	const classes = 172
	x, y, sums := b.matrix(rows, deviceOpsDim), b.matrix(rows, deviceOpsDim), b.matrix(1, deviceOpsDim)
	w, grad, m, v := b.matrix(1000, deviceOpsDim), b.matrix(1000, deviceOpsDim), b.matrix(1000, deviceOpsDim), b.matrix(1000, deviceOpsDim)
	b.q.Fill(v, .25) // of squares
	few := max(1, rows/8)
	logits, dLogits, dots := b.matrix(few, classes), b.matrix(few, classes), b.matrix(rows, 1)
	labels := make([]int32, few)
	for i := range labels {
		labels[i] = b.r.Int32N(classes)
	}
	on, stat := b.a.Int32s(b.q, labels), b.a.Vector(b.q, 2, blocks.Float64)
	to := b.index(rows, max(1, rows/4))
	dropped := b.matrix(rows, deviceOpsDim)
	n := float64(rows * deviceOpsDim)
	return []deviceOp{
		{name: "axpy", bytes: 12 * n, target: .85, run: func(q *gpu.Queue) { q.Axpy(1e-3, x, y) }},
		{name: "relu backward", bytes: 12 * n, target: .85, run: func(q *gpu.Queue) { q.ReLUBackward(1, x, y) }},
		{name: "dropout", bytes: 8 * n, target: .8, run: func(q *gpu.Queue) { q.Dropout(gpu.DropoutOptions{P: .01, Seed: 1}, dropped) }},
		{name: "column sum", bytes: 4 * n, target: .8, run: func(q *gpu.Queue) { q.ColumnSum(x, sums) }},
		{name: "row dot", bytes: 8 * n, target: .8, run: func(q *gpu.Queue) { q.RowDot(x, y, dots) }},
		{name: "scatter add", bytes: 20 * n, target: .6, run: func(q *gpu.Queue) { q.ScatterAddRows(y, to, x) }},
		{name: "softmax cross-entropy 172", bytes: 8 * float64(few*classes), target: .8, run: func(q *gpu.Queue) { q.SoftmaxCrossEntropy(logits, on, dLogits, stat) }},
		{name: "adam 128,000", bytes: 28 * 1000 * deviceOpsDim, run: func(q *gpu.Queue) {
			q.Adam(gpu.AdamOptions{LR: .001, Beta1: .9, Beta2: .999, Epsilon: 1e-8, Step: 10}, w, grad, m, v)
		}},
	}
}
