//go:build cuda

package cuda

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/host"
)

// recorder is a device that hashes all that comes down from it.
type recorder struct {
	*Device
	hash.Hash
}

type recorded struct {
	gpu.Stream
	r    recorder
	back [][]byte
}

func (r recorder) NewStream() (gpu.Stream, error) {
	s, err := r.Device.NewStream()
	return &recorded{Stream: s, r: r}, err
}

func (s *recorded) Download(dst []byte, src gpu.Tensor) {
	s.Stream.Download(dst, src)
	s.back = append(s.back, dst)
}

func (s *recorded) Sync(ctx context.Context) error {
	err := s.Stream.Sync(ctx)
	for _, b := range s.back {
		if err == nil {
			s.r.Write(b)
		}
	}
	s.back = nil
	return err
}

func (s *recorded) Follow(before gpu.Stream) {
	s.Stream.(gpu.Follower).Follow(before.(*recorded).Stream)
}

// TestSameBits runs every operation of the conformance suite with threads, blocks and streams in other orders.
func TestSameBits(t *testing.T) {
	var first string
	for _, schedule := range []string{"lazy", "random:1", "random:2"} {
		emulated(t, "GS_EMU_SCHEDULE", schedule)
		h := sha256.New()
		gputest.Run(t, func() gpu.Device { return recorder{open(t, Options{}), h} })
		if got := string(h.Sum(nil)); first == "" {
			first = got
		} else if got != first {
			t.Errorf("%s: other bits than under lazy", schedule)
		}
	}
}

// bench is a device with what tests need.
type bench struct {
	*testing.T
	dev gpu.Device
	q   *gpu.Queue
	a   *gpu.Arena
}

func start(t *testing.T, dev gpu.Device) *bench {
	q, err := gpu.NewQueue(dev)
	must(t, err)
	b := &bench{t, dev, q, gpu.NewArena(dev)}
	t.Cleanup(func() {
		for _, err := range []error{b.a.Close(), q.Close(), dev.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return b
}

func bytesOf[T any](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0])))
}

func (b *bench) values(rows, cols int, f func(i int) float32) gpu.Tensor {
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = f(i)
	}
	t := b.a.Matrix(b.q, rows, cols)
	b.q.Upload(t, bytesOf(x))
	must(b, b.q.Sync(b.Context()))
	return t
}

func (b *bench) read(t gpu.Tensor) []float32 {
	x := make([]float32, t.Len())
	b.q.Download(bytesOf(x), t)
	must(b, b.q.Sync(b.Context()))
	return x
}

// TestDropoutDrawsTheHostsMask compares bit by bit.
func TestDropoutDrawsTheHostsMask(t *testing.T) {
	for _, n := range []int{1, 16, 127, 128, 129, 5000} {
		var masks [2][]float32
		for i, dev := range []gpu.Device{open(t, Options{}), host.New(host.Options{Threads: 1})} {
			q, err := gpu.NewQueue(dev)
			must(t, err)
			b := &bench{t, dev, q, gpu.NewArena(dev)}
			x := b.values(1, n, func(i int) float32 { return float32(i + 1) })
			q.Dropout(gpu.DropoutOptions{P: .37, Seed: 0x123456789abcdef}, x)
			masks[i] = b.read(x)
			must(t, b.a.Close())
			must(t, q.Close())
			must(t, dev.Close())
		}
		for i, v := range masks[0] {
			if v != masks[1][i] {
				t.Fatalf("%d elements: element %d is %v, the host's %v", n, i, v, masks[1][i])
			}
		}
	}
}

// TestProductsKeepTheirAccuracy: against float64, on shapes with large tiles, cut inner dimensions and views that are
// not aligned.
func TestProductsKeepTheirAccuracy(t *testing.T) {
	for _, c := range []struct {
		how     MatMul
		tol     float64 // of Σ|a·b|
		atLeast float64 // some error this large shows that products are what they are said to be
	}{{Exact, 1e-6, 0}, {TF32, 2e-3, 1e-6}, {BF16, 2e-2, 1e-4}} {
		b := start(t, open(t, Options{MatMul: c.how}))
		worst := 0.
		for _, s := range [][3]int{{65, 130, 33}, {200, 100, 64}, {1500, 1500, 8}, {20, 30, 3000}} {
			for _, trans := range [][2]bool{{false, false}, {false, true}, {true, false}} {
				m, n, k := s[0], s[1], s[2]
				ar, ac, br, bc := m, k, k, n
				if trans[0] {
					ar, ac = ac, ar
				}
				if trans[1] {
					br, bc = bc, br
				}
				value := func(i int) float32 { return float32(math.Sin(float64(i)*1.7) + .01) }
				x, y := b.values(ar, ac, value), b.values(br, bc, func(i int) float32 { return value(3*i + 1) })
				z := b.a.Matrix(b.q, m, n)
				b.q.Gemm(gpu.GemmOptions{TransA: trans[0], TransB: trans[1]}, x, y, z)
				got, xv, yv := b.read(z), b.read(x), b.read(y)
				for _, at := range [][2]int{{0, 0}, {m - 1, n - 1}, {m / 2, n / 3}, {m / 3, n - 1}, {m - 1, n / 2}} {
					var sum, size float64
					for l := range k {
						i, j := at[0]*ac+l, l*bc+at[1]
						if trans[0] {
							i = l*ac + at[0]
						}
						if trans[1] {
							j = at[1]*bc + l
						}
						sum += float64(xv[i]) * float64(yv[j])
						size += math.Abs(float64(xv[i]) * float64(yv[j]))
					}
					off := math.Abs(float64(got[at[0]*n+at[1]])-sum) / size
					worst = max(worst, off)
					if !(off <= c.tol) {
						t.Fatalf("%v product %v, transposed %v: element %v is off by %g of its terms", c.how, s, trans, at, off)
					}
				}
				must(t, b.a.Reset())
			}
		}
		if worst < c.atLeast {
			t.Errorf("%v products are off by %g at most, expected an error of rounding", c.how, worst)
		}
	}
}

// TestBadIndices: every operation that reads indices names itself, the place and the value, and the
// stream goes on afterwards.
func TestBadIndices(t *testing.T) {
	b := start(t, open(t, Options{}))
	q, a := b.q, b.a
	x, y := b.values(3, 4, func(i int) float32 { return 1 }), b.values(3, 4, func(i int) float32 { return 2 })
	edge := func(cols int) gpu.Tensor { return b.values(3, cols, func(int) float32 { return 1 }) }
	one := b.values(3, 1, func(int) float32 { return 1 })
	g := gpu.Graph{NumDst: 3, NumSrc: 3, Indptr: a.Int32s(q, []int32{0, 1, 2, 3}), Indices: a.Int32s(q, []int32{2, 7, 0})}
	fine := g
	fine.Indices = a.Int32s(q, []int32{2, 1, 0})
	q.TransposeEdges(a, &fine)
	g.SrcDegrees, g.DstDegrees = a.Int32s(q, []int32{1, 1, 1}), a.Int32s(q, []int32{1, 1, 1})
	back := fine
	back.DstIndices = a.Int32s(q, []int32{2, 7, 0})
	falls := fine
	falls.Indptr = a.Int32s(q, []int32{0, 2, 1, 3})
	index := a.Uint32s(q, []uint32{2, 7, 0})
	stat := a.Vector(q, 2, blocks.Float64)
	arg := a.Vector(q, 12, blocks.Int32)
	sums := gpu.AttentionSums{Sum: b.values(3, 4, func(int) float32 { return 0 }), Max: b.values(3, 1, func(int) float32 { return 0 }), Total: b.values(3, 1, func(int) float32 { return 0 })}
	for name, op := range map[string]func(){
		"gather":                   func() { q.Gather(y, x, index) },
		"aggregate":                func() { q.Aggregate(gpu.AggregateOptions{}, g, x, y) },
		"gather-aggregate":         func() { q.Aggregate(gpu.AggregateOptions{Index: index}, fine, x, y) },
		"aggregate backward":       func() { q.AggregateBackward(gpu.Sum, back, x, y) },
		"transpose":                func() { h := g; q.Transpose(a, &h) },
		"transpose edges":          func() { h := falls; q.TransposeEdges(a, &h) },
		"self loops":               func() { q.SelfLoops(a, falls) },
		"edge weights":             func() { q.EdgeWeights(gpu.EdgeWeightOptions{Symmetric: true}, g, edge(1)) },
		"edge add":                 func() { q.EdgeAdd(.2, g, x, y, gpu.Tensor{}, edge(4)) },
		"edge dot":                 func() { q.EdgeDot(2, g, x, y, edge(2)) },
		"edge softmax":             func() { q.EdgeSoftmax(falls, edge(1)) },
		"edge softmax backward":    func() { q.EdgeSoftmaxBackward(falls, edge(1), edge(1)) },
		"edge sum":                 func() { q.EdgeSum(false, falls, edge(1), one) },
		"aggregate heads":          func() { q.AggregateHeads(g, edge(2), x, y) },
		"aggregate heads backward": func() { q.AggregateHeadsBackward(back, edge(2), x, y) },
		"online attention":         func() { q.OnlineAttention(.2, g, x, edge(1), edge(1), gpu.Tensor{}, sums) },
		"segment max":              func() { q.SegmentMax(gpu.MaxOptions{}, g, x, y, arg) },
		"segment max backward":     func() { q.SegmentMaxBackward(back, x, arg, y) },
		"set elements":             func() { q.SetElements(y, a.Uint32s(q, []uint32{0, 12}), 1) },
		"scatter add":              func() { q.ScatterAddRows(y, index, x) },
		"adagrad rows":             func() { q.AdagradRows(gpu.AdagradOptions{LR: 1}, y, index, x, edge(4)) },
		"adam rows":                func() { q.AdamRows(gpu.AdamOptions{LR: 1, Step: 1}, y, index, x, edge(4), edge(4)) },
		"softmax cross-entropy":    func() { q.SoftmaxCrossEntropy(x, a.Int32s(q, []int32{0, 4, -1}), y, stat) },
	} {
		op()
		err := q.Sync(b.Context())
		var bad *IndexError
		if !errors.As(err, &bad) || bad.Op != name || bad.Place > 2 || bad.Limit == 0 {
			t.Errorf("%s: error %v", name, err)
		}
		q.Fill(y, 1)
		must(t, q.Sync(b.Context()))
	}
}

// TestParametersOutliveABadIndex: what optimisers change stays as it was before the operation that failed.
func TestParametersOutliveABadIndex(t *testing.T) {
	b := start(t, open(t, Options{}))
	w, g := b.values(1, 9, func(i int) float32 { return float32(i) }), b.values(1, 9, func(int) float32 { return 1 })
	m, v := b.values(1, 9, func(int) float32 { return 0 }), b.values(1, 9, func(int) float32 { return 0 })
	before := b.read(w)
	table := b.values(2, 2, func(int) float32 { return 0 })
	b.q.Gather(b.a.Matrix(b.q, 1, 2), table, b.a.Uint32s(b.q, []uint32{2}))
	b.q.Adam(gpu.AdamOptions{LR: 1, Beta1: .9, Beta2: .9, Epsilon: 1e-3, Step: 1}, w, g, m, v)
	b.q.Adagrad(gpu.AdagradOptions{LR: 1}, w, g, v)
	if err := b.q.Sync(b.Context()); err == nil {
		t.Fatal("no error")
	}
	for i, x := range b.read(w) {
		if x != before[i] {
			t.Fatalf("parameter %d went from %v to %v", i, before[i], x)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	d := open(t, Options{MemoryBytes: 1 << 20})
	defer d.Close()
	m, err := d.Alloc(1 << 19)
	must(t, err)
	_, err = d.Alloc(1 << 20)
	var e *MemoryError
	if !errors.As(err, &e) || !errors.Is(err, gpu.ErrMemory) || e.AskedBytes != 1<<20 || e.UsedBytes != 1<<19 || !strings.Contains(err.Error(), "--device-mem") {
		t.Errorf("error %v", err)
	}
	must(t, m.Free())
	must(t, m.Free())
	if n := d.AllocatedBytes(); n != 0 {
		t.Errorf("%d bytes are allocated after all was freed", n)
	}
}

// TestMapsShareMemory: what is mapped is read and written in place, ranges may overlap and be freed in any order.
func TestMapsShareMemory(t *testing.T) {
	b := start(t, open(t, Options{}))
	x := make([]float32, 20000)
	whole, err := b.dev.Map(bytesOf(x))
	must(t, err)
	var parts []gpu.Memory
	for i := range 5 {
		m, err := b.dev.Map(bytesOf(x[3000*i : 3000*i+5000]))
		must(t, err)
		parts = append(parts, m)
	}
	x[0], x[19999] = 5, 7
	t2 := gpu.MatrixOf(whole, 0, 1, len(x))
	b.q.Axpy(1, t2, t2)
	must(t, b.q.Sync(t.Context()))
	if x[0] != 10 || x[19999] != 14 {
		t.Errorf("the host sees %v, %v", x[0], x[19999])
	}
	must(t, whole.Free())
	for i, m := range parts {
		b.q.Fill(gpu.MatrixOf(m, 0, 1, 5000), float32(i))
		must(t, b.q.Sync(t.Context()))
		if got := x[3000*i+4999]; got != float32(i) {
			t.Errorf("part %d: the host sees %v", i, got)
		}
		must(t, m.Free())
	}
	if n := len(b.dev.(*Device).pins.regions); n != 0 {
		t.Errorf("%d regions are page-locked after all was freed", n)
	}
}

// TestPinnedMapsCostNothing: what lies in pinned memory is mapped without a call of the driver.
func TestPinnedMapsCostNothing(t *testing.T) {
	d := open(t, Options{})
	x := make([]float32, 10000)
	unpin, err := d.Pin(bytesOf(x))
	must(t, err)
	m, err := d.Map(bytesOf(x[100:9000]))
	must(t, err)
	if r := d.pins.regions; len(r) != 1 || r[0].users != 2 {
		t.Errorf("regions %+v, expected one of two users", r)
	}
	must(t, unpin())
	must(t, m.Free())
	if n := len(d.pins.regions); n != 0 {
		t.Errorf("%d regions are left", n)
	}
	must(t, d.Close())
}

// TestArenasUploadTogether: arrays that follow one another go up in one copy, before what reads them and whatever comes between.
func TestArenasUploadTogether(t *testing.T) {
	b := start(t, open(t, Options{}))
	s, err := b.dev.(*Device).newStream()
	must(t, err)
	a := b.a.Vector(b.q, 100, blocks.Uint32)
	must(t, b.q.Sync(t.Context()))
	var parts [3]gpu.Tensor
	var values [3][]uint32
	for i := range parts {
		parts[i] = b.a.Vector(b.q, 10*i+3, blocks.Uint32)
		for j := range 10*i + 3 {
			values[i] = append(values[i], uint32(100*i+j))
		}
		s.Stage(parts[i], bytesOf(values[i]))
	}
	if n := len(s.batch.from); n != 64+64+4*23 {
		t.Errorf("%d bytes wait to be copied, expected all three arrays and their gaps", n)
	}
	s.Stage(a, bytesOf(make([]uint32, 100))) // lies elsewhere
	if n := len(s.batch.from); n != 400 {
		t.Errorf("%d bytes wait to be copied, expected 400", n)
	}
	for i := range parts {
		got := make([]uint32, parts[i].Cols)
		s.Download(bytesOf(got), parts[i])
		must(t, s.Sync(t.Context()))
		for j, v := range got {
			if v != values[i][j] {
				t.Fatalf("array %d: element %d is %d", i, j, v)
			}
		}
	}
}

// TestLargeCopiesStage: more than fits the staging memory, up and down, in one go.
func TestLargeCopiesStage(t *testing.T) {
	b := start(t, open(t, Options{}))
	const n = 30 << 20 / 4
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i)
	}
	up := b.a.Matrix(b.q, 1, n)
	down := make([]float32, n)
	for range 3 {
		b.q.Upload(up, bytesOf(x))
		b.q.Axpy(1, up, up)
		b.q.Download(bytesOf(down), up)
	}
	must(t, b.q.Sync(t.Context()))
	for i, v := range down {
		if v != 2*x[i] {
			t.Fatalf("element %d is %v, expected %v", i, v, 2*x[i])
		}
	}
}

// TestCancelledSync: the cause is returned, after the work was waited for.
func TestCancelledSync(t *testing.T) {
	b := start(t, open(t, Options{}))
	x := b.values(1, 100, func(int) float32 { return 1 })
	out := make([]float32, 100)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	b.q.Axpy(1, x, x)
	b.q.Download(bytesOf(out), x)
	if err := b.q.Sync(ctx); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
	if out[99] != 2 {
		t.Errorf("the download has %v", out[99])
	}
	must(t, b.q.Sync(t.Context()))
}

// TestLostDevice: after a fault every call fails with the same error, and closing is clean.
func TestLostDevice(t *testing.T) {
	emulated(t, "GS_EMU_FAIL", "launch:3", "GS_EMU_STRICT", "1")
	d := open(t, Options{})
	q, err := gpu.NewQueue(d)
	must(t, err)
	a := gpu.NewArena(d)
	x := a.Matrix(q, 10, 10)
	for range 5 {
		q.Axpy(1, x, x)
	}
	for range 2 {
		err = q.Sync(t.Context())
		var e *LostError
		if !errors.As(err, &e) || !errors.Is(err, gpu.ErrLost) || !strings.Contains(err.Error(), "axpy") {
			t.Errorf("error %v", err)
		}
		q.Fill(x, 1)
	}
	if _, err := d.Alloc(10); !errors.Is(err, gpu.ErrLost) {
		t.Errorf("allocation after the fault: %v", err)
	}
	for _, err := range []error{a.Close(), q.Close(), d.Close()} {
		must(t, err)
	}
	t.Setenv("GS_EMU_FAIL", "")
	must(t, open(t, Options{}).Close())
}

func TestMatMulNames(t *testing.T) {
	for _, m := range []MatMul{Exact, TF32, BF16} {
		if got, err := ParseMatMul(m.String()); got != m || err != nil {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := ParseMatMul("fp8"); err == nil {
		t.Error("fp8 is no error")
	}
}
