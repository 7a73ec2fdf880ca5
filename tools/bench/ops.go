package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu/host/kernels"
)

// OpsOptions configures [RunOps]. The zero value is the default.
type OpsOptions struct {
	Threads  []int  // numbers of threads to measure; default 1 and GOMAXPROCS
	Repeats  int    // rounds; default 7
	TableMiB int64  // size of the table that rows are gathered from; default 1024, far beyond any cache
	Filter   string // only operations whose name contains this
	BF16     bool   // products of bfloat16, where the processor has them
	Seed     uint64
	OpenBLAS []string // command of tools/bench/openblas_gemm.py, to compare products with; none: not compared
}

// OpResult is one operation on one number of threads.
type OpResult struct {
	Name    string
	Unit    string // "GFLOP/s" or "GB/s"
	Threads int
	// Rate and Ceiling are medians over the rounds; the ceiling (fused multiply-adds in
	// registers, or a copy of memory as in STREAM, bytes read and written) is measured right
	// before the operation in every round. Share is the median of their ratio.
	Rate, Ceiling, Share float64
	CPURate              float64 // per CPU second of the process
	Reference            float64 // the portable Go loop's rate on one thread; 0 for products beyond 4 GFLOP
	// ReadShare is Rate over a read of memory in sequence; 0 for GFLOP/s. Copy, the ceiling, and
	// read bound operations from both sides: these neither only read nor read as much as they write.
	ReadShare float64
	// BLAS is OpenBLAS's rate, measured by turns in the same rounds, and OfBLAS the median of the
	// rounds' ratios; 0 where it was not asked.
	BLAS, OfBLAS float64
}

// op is one operation: work bytes or operations a run.
type op struct {
	name  string
	work  float64
	run   func(p *kernels.Pool)
	flops bool
	gemm  *gemmShape // to ask the reference for; nil: no product of one
}

// gemmShape is a product as tools/bench/openblas_gemm.py names it: Y=XW, dX or dW of
// X [m×k] and W [k×n].
type gemmShape struct {
	kind    string
	m, k, n int
}

// moving counts bytes more that an operation moves.
func (o op) moving(bytes float64) op {
	o.work += bytes
	return o
}

// computing makes an operation's work floating-point operations.
func (o op) computing() op {
	o.flops = true
	return o
}

// referenceWorkMax is the most work that the portable loop is given: some 2 s of a product.
const referenceWorkMax = 4e9

// workBytes is the memory of operations' own operands.
const workBytes = 1536 << 20

// RunOps measures the host's operations beside what the processor and its memory can do.
func RunOps(ctx context.Context, o OpsOptions) ([]OpResult, error) {
	if o.Repeats <= 0 {
		o.Repeats = 7
	}
	if o.TableMiB <= 0 {
		o.TableMiB = 1024
	}
	if len(o.Threads) == 0 {
		o.Threads = []int{1}
		if n := runtime.GOMAXPROCS(0); n > 1 {
			o.Threads = append(o.Threads, n)
		}
	}
	arena, err := blockio.AllocSlab(o.TableMiB<<20+workBytes, blockio.SlabOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = arena.Free() }()
	table := arena.Bytes()[:o.TableMiB<<20]
	var results []OpResult
	for _, op := range operations(table, arena.Bytes()[o.TableMiB<<20:], o.Seed) {
		if !strings.Contains(op.name, o.Filter) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return results, err
		}
		reference := 0.
		if op.work <= referenceWorkMax {
			reference = op.rate(kernels.NewPool(kernels.Options{Threads: 1, ISA: kernels.ISAGeneric}), 1)
		}
		for _, threads := range o.Threads {
			p := kernels.NewPool(kernels.Options{Threads: threads, BF16: o.BF16})
			var blas *blasServer
			if op.gemm != nil && len(o.OpenBLAS) > 0 {
				if blas, err = startBLAS(ctx, o.OpenBLAS, threads); err != nil {
					return results, err
				}
			}
			r := OpResult{Name: op.name, Unit: "GB/s", Threads: threads, Reference: reference}
			if op.flops {
				r.Unit = "GFLOP/s"
			}
			var rates, ceilings, shares, reads, cpu, others, ofOthers []float64
			op.run(p) // warm up
			for range o.Repeats {
				c := ceiling(p, op.flops, table)
				read := 0.
				if !op.flops {
					read = readRate(p, table)
				}
				before := usage.CPUSeconds()
				runs := 0
				v := op.rateCounted(p, 3, &runs)
				cpu = append(cpu, op.work*float64(runs)/max(usage.CPUSeconds()-before, 1e-9)/1e9)
				rates, ceilings, shares = append(rates, v), append(ceilings, c), append(shares, v/c)
				if read > 0 {
					reads = append(reads, v/read)
				}
				if blas != nil {
					other, err := blas.rate(*op.gemm)
					if err != nil {
						return results, errors.Join(err, blas.close())
					}
					others, ofOthers = append(others, other), append(ofOthers, v/other)
				}
			}
			if blas != nil {
				if err := blas.close(); err != nil {
					return results, err
				}
			}
			r.Rate, r.Ceiling, r.Share, r.CPURate, r.ReadShare = median(rates), median(ceilings), median(shares), median(cpu), median(reads)
			r.BLAS, r.OfBLAS = median(others), median(ofOthers)
			results = append(results, r)
		}
	}
	return results, nil
}

// rate runs the operation for at least some milliseconds and returns 10⁹ units a second.
func (o op) rate(p *kernels.Pool, atLeast int) float64 {
	n := 0
	return o.rateCounted(p, atLeast, &n)
}

func (o op) rateCounted(p *kernels.Pool, atLeast int, runs *int) float64 {
	start := time.Now()
	for *runs < atLeast || time.Since(start) < 30*time.Millisecond {
		o.run(p)
		*runs++
	}
	return o.work * float64(*runs) / time.Since(start).Seconds() / 1e9
}

// ceiling is the peak of the processor in GFLOP/s, or of its memory in GB/s: a
// copy of 256 MiB, bytes read and written.
func ceiling(p *kernels.Pool, flops bool, table []byte) float64 {
	start := time.Now()
	if flops {
		n := kernels.PeakFMA(p, 1<<20)
		return n / time.Since(start).Seconds() / 1e9
	}
	n := min(len(table)/2, 256<<20)
	to, from := table[:n], table[len(table)/2:][:n]
	p.For(n, 1<<20, func(lo, hi int) { copy(to[lo:hi], from[lo:hi]) })
	return float64(2*n) / time.Since(start).Seconds() / 1e9
}

// readRate is the memory's GB/s in a read of 256 MiB in sequence.
func readRate(p *kernels.Pool, table []byte) float64 {
	words := asWords(table[:min(len(table), 256<<20)])
	start := time.Now()
	kernels.MaxUint32(p, words)
	return float64(4*len(words)) / time.Since(start).Seconds() / 1e9
}

func asWords(b []byte) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// operations are the shapes of a training step: batches that exceed the cache,
// rows from a table that exceeds it many times. Bytes are those that must
// move: rows read once and results written once.
func operations(table, work []byte, seed uint64) []op {
	r := rand.New(rand.NewPCG(seed, 7))
	take := func(n int) []float32 {
		out := unsafe.Slice((*float32)(unsafe.Pointer(&work[0])), n)
		work = work[4*n:]
		for i := range out[:min(n, 17)] {
			out[i] = float32(i) * .125
		}
		for done := 17; done < n; done *= 2 { // the same over and over
			copy(out[done:], out[:done])
		}
		return out
	}
	var ops []op
	// The two, and a training step's: SAGE's first layer on 128 and 768
	// features, and GAT's.
	for _, s := range []struct{ m, n, k int }{{100000, 256, 128}, {10000, 256, 256}, {24000, 128, 256}, {24000, 256, 1536}, {72000, 128, 128}} {
		x, w, y := kernels.Dense(take(s.m*s.k), s.m, s.k), kernels.Dense(take(s.k*s.n), s.k, s.n), kernels.Dense(take(s.m*s.n), s.m, s.n)
		bias := take(s.n)
		work := 2 * float64(s.m) * float64(s.n) * float64(s.k)
		shape := fmt.Sprintf("%d×%d×%d", s.m, s.k, s.n)
		ops = append(ops,
			op{name: "gemm Y=relu(XW+b) " + shape, flops: true, work: work, gemm: &gemmShape{"Y", s.m, s.k, s.n}, run: func(p *kernels.Pool) {
				kernels.Gemm(p, kernels.GemmOptions{Bias: bias, ReLU: true}, x, w, y)
			}},
			op{name: "gemm dX=dY·Wᵀ " + shape, flops: true, work: work, gemm: &gemmShape{"dX", s.m, s.k, s.n}, run: func(p *kernels.Pool) {
				kernels.Gemm(p, kernels.GemmOptions{TransB: true}, y, w, x)
			}},
			op{name: "gemm dW=Xᵀ·dY " + shape, flops: true, work: work, gemm: &gemmShape{"dW", s.m, s.k, s.n}, run: func(p *kernels.Pool) {
				kernels.Gemm(p, kernels.GemmOptions{TransA: true}, x, y, w)
			}})
	}
	const dst, deg = 20000, 15
	for _, c := range []struct {
		dim  int
		elem blocks.ElemType
	}{{128, blocks.Float32}, {256, blocks.Float32}, {768, blocks.Float32}, {128, blocks.Float16}, {128, blocks.BFloat16}, {128, blocks.Int8}} {
		stride := c.dim * c.elem.Size()
		rows := kernels.Rows{Data: table, Count: len(table) / stride, Dim: c.dim, Stride: stride, Type: c.elem}
		g := kernels.CSR{Indptr: []int32{0}}
		index := make([]uint32, dst*deg)
		for i := range index {
			index[i] = r.Uint32N(uint32(rows.Count))
			g.Indices = append(g.Indices, int32(i))
		}
		for d := range dst {
			g.Indptr = append(g.Indptr, int32((d+1)*deg))
		}
		out := kernels.Dense(take(dst*c.dim), dst, c.dim)
		bytes := float64(len(index)*(stride+8) + 4*dst*c.dim)
		ops = append(ops, op{name: fmt.Sprintf("gather-aggregate mean %d %v", c.dim, c.elem), work: bytes, run: func(p *kernels.Pool) {
			kernels.Aggregate(p, kernels.AggregateOptions{Mean: true}, g, index, rows, out)
		}})
		if c.dim <= 128 {
			gathered, some := kernels.Dense(take(2*dst*c.dim), 2*dst, c.dim), index[:2*dst]
			ops = append(ops, op{name: fmt.Sprintf("gather %d %v", c.dim, c.elem), work: float64(2 * dst * (stride + 4*c.dim)), run: func(p *kernels.Pool) {
				kernels.GatherRows(p, gathered, rows, some)
			}})
		}
	}
	const n = 8 << 20
	x, y := take(n), take(n)
	m := kernels.Dense(x, n/256, 256)
	sum := take(256)
	ops = append(ops,
		op{name: "add", work: 12 * n, run: func(p *kernels.Pool) { kernels.Add(p, y, x) }},
		op{name: "relu backward", work: 12 * n, run: func(p *kernels.Pool) { kernels.ReLUBackward(p, 1, x, y) }},
		op{name: "dropout", work: 8 * n, run: func(p *kernels.Pool) { kernels.Dropout(p, .5, seed, x) }},
		op{name: "column sum", work: 4 * n, run: func(p *kernels.Pool) { kernels.ColumnSum(p, m, sum) }},
		op{name: "tanh", work: 8 * n, run: func(p *kernels.Pool) { kernels.Tanh(p, y, x) }})
	w, g, v, s := take(n/4), take(n/4), take(n/4), take(n/4)
	ops = append(ops, op{name: "adam", work: 28 * n / 4, run: func(p *kernels.Pool) {
		kernels.Adam(p, kernels.AdamOptions{LR: .001, Beta1: .9, Beta2: .999, Epsilon: 1e-8, Step: 10}, w, g, v, s)
	}})
	const classes = 172
	logits, grad := kernels.Dense(take(20000*classes), 20000, classes), kernels.Dense(take(20000*classes), 20000, classes)
	labels := make([]int32, 20000)
	for i := range labels {
		labels[i] = int32(i % classes)
	}
	ops = append(ops, op{name: "softmax cross-entropy 172", work: 8 * 20000 * classes, run: func(p *kernels.Pool) {
		kernels.SoftmaxCrossEntropy(p, logits, labels, grad)
	}})
	return append(ops, modelOperations(take, r)...)
}
