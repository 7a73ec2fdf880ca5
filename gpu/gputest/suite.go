// Package gputest is the conformance suite of devices: every [gpu.Device]
// passes it. Results are compared with plain float64 references on odd shapes,
// empty graphs, isolated and very high-degree nodes, rows with gaps, and NaN.
//
//	func TestConformance(t *testing.T) {
//		gputest.Run(t, func() gpu.Device { return host.New(host.Options{}) })
//	}
package gputest

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/sampler/keyed"
)

// bench is a device under test with a queue and an arena.
type bench struct {
	*testing.T
	dev gpu.Device
	q   *gpu.Queue
	a   *gpu.Arena
	r   keyed.Rand
}

// Run runs the suite on devices that open makes; each is closed.
func Run(t *testing.T, open func() gpu.Device) {
	for _, c := range []struct {
		name string
		test func(*bench)
	}{
		{"gemm", gemm}, {"sparse", sparse}, {"aggregate", aggregate}, {"aggregate in pieces", pieces}, {"gather", gather}, {"copy rows", copyRows}, {"elementwise", elementwise},
		{"loss", loss}, {"number loss", numberLoss}, {"multi-label loss", multiLabelLoss}, {"adam", adam}, {"dropout", dropout}, {"errors", shapeErrors}, {"arena", arenaReuse}, {"attention", attention}, {"link rows", linkRows}, {"link scatter", linkScatter}, {"link loss", linkLoss}, {"link loss overflow", linkLossOverflow}, {"convolution", convolution}, {"layer norm", layerNorm}, {"segment max", segmentMax}, {"scaled tables", scaledTables}, {"batch norm", batchNorm}, {"marks", marks}, {"follow", follow},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev := open()
			q, err := gpu.NewQueue(dev)
			if err != nil {
				t.Fatal(err)
			}
			b := &bench{t, dev, q, gpu.NewArena(dev), keyed.New(1).Rand(0)}
			c.test(b)
			for _, err := range []error{b.a.Close(), q.Close(), dev.Close()} {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// matrix makes rows×cols random values with gap unused columns after each row.
func (b *bench) matrix(rows, cols, gap int) (gpu.Tensor, []float32) {
	whole := b.a.Matrix(b.q, rows, cols+gap)
	x := make([]float32, rows*(cols+gap))
	for i := range x {
		x[i] = float32(b.r.Normal())
	}
	if len(x) > 0 {
		b.q.Upload(whole, bytesOf(x))
	}
	t := whole.View(0, 0, rows, cols)
	v := make([]float32, 0, rows*cols)
	for i := range rows {
		v = append(v, x[i*(cols+gap):i*(cols+gap)+cols]...)
	}
	return t, v
}

// read returns a tensor's values without gaps.
func (b *bench) read(t gpu.Tensor) []float32 {
	b.Helper()
	dense := b.a.Matrix(b.q, t.Rows, t.Cols)
	b.q.Copy(dense, t)
	x := make([]float32, t.Len())
	if len(x) > 0 {
		b.q.Download(bytesOf(x), dense)
	}
	b.sync()
	return x
}

func (b *bench) sync() {
	b.Helper()
	if err := b.q.Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// near fails unless got is want within tol·(1+|want|); NaN equals NaN.
func (b *bench) near(what string, got []float32, want []float64, tol float64) {
	b.Helper()
	if len(got) != len(want) {
		b.Fatalf("%s: %d values, expected %d", what, len(got), len(want))
	}
	for i, w := range want {
		g := float64(got[i])
		if math.IsNaN(w) != math.IsNaN(g) || math.Abs(g-w) > tol*(1+math.Abs(w)) {
			b.Fatalf("%s: value %d is %v, expected %v", what, i, g, w)
		}
	}
}

func bytesOf[T any](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*int(unsafe.Sizeof(x[0])))
}

func gemm(b *bench) {
	for _, s := range [][3]int{{1, 1, 1}, {7, 5, 3}, {33, 17, 129}, {130, 53, 256}, {64, 128, 1}, {5, 0, 4}, {0, 3, 2}, {3, 4, 0}} {
		m, n, k := s[0], s[1], s[2]
		for variant := range 16 {
			o := gpu.GemmOptions{TransA: variant&1 > 0, TransB: variant&2 > 0, Accumulate: variant&4 > 0, ReLU: variant&8 > 0}
			ar, ac, br, bc := m, k, k, n
			if o.TransA {
				ar, ac = ac, ar
			}
			if o.TransB {
				br, bc = bc, br
			}
			at, av := b.matrix(ar, ac, variant%3)
			bt, bv := b.matrix(br, bc, 2)
			ct, cv := b.matrix(m, n, 1)
			bias, biasv := b.matrix(1, n, 0)
			if n > 0 {
				o.Bias = bias
			}
			want := make([]float64, m*n)
			for i := range m {
				for j := range n {
					var sum float64
					for l := range k {
						x, y := av[i*ac*btoi(!o.TransA)+l*btoi(!o.TransA)+(l*ac+i)*btoi(o.TransA)], bv[(l*bc+j)*btoi(!o.TransB)+(j*bc+l)*btoi(o.TransB)]
						sum += float64(x) * float64(y)
					}
					if o.Accumulate {
						sum += float64(cv[i*n+j])
					}
					sum += float64(biasv[j])
					if o.ReLU {
						sum = max(sum, 0)
					}
					want[i*n+j] = sum
				}
			}
			b.q.Gemm(o, at, bt, ct)
			b.near(fmt.Sprintf("gemm %d×%d×%d %+v", m, n, k, o), b.read(ct), want, 1e-4)
		}
	}
}

func btoi(v bool) int {
	if v {
		return 1
	}
	return 0
}

func elementwise(b *bench) {
	x, xv := b.matrix(19, 33, 0)
	y, yv := b.matrix(19, 33, 0)
	sum, _ := b.matrix(1, 33, 0)
	want, columns, relu := make([]float64, len(xv)), make([]float64, 33), make([]float64, len(xv))
	for i := range xv {
		columns[i%33] += float64(xv[i])
		want[i] = float64(yv[i]) + 2*float64(xv[i])
		if want[i] > 0 {
			relu[i] = 3 * float64(xv[i])
		}
	}
	b.q.ColumnSum(x, sum)
	b.near("column sum", b.read(sum), columns, 1e-5)
	b.q.Axpy(2, x, y)
	b.near("axpy", b.read(y), want, 1e-6)
	b.q.ReLUBackward(3, y, x)
	b.near("relu backward", b.read(x), relu, 1e-5)
	by := b.a.Vector(b.q, 19, blocks.Float32)
	b.q.Fill(by, 0)
	b.q.Fill(by.View(0, 3, 1, 1), 4)
	for j := range 33 {
		want[3*33+j] /= 4
	}
	b.q.DivideRows(y, by)
	b.near("divide rows", b.read(y), want, 1e-6)
	b.q.Fill(y.View(0, 0, 1, 1), float32(math.NaN()))
	b.q.ColumnSum(y, sum)
	if got := b.read(sum); !math.IsNaN(float64(got[0])) || math.IsNaN(float64(got[1])) {
		b.Errorf("NaN in column 0 gives column sums %v, %v", got[0], got[1])
	}
}

func loss(b *bench) {
	const n, classes = 70, 53
	logits, x := b.matrix(n, classes, 1)
	labels := make([]int32, n)
	var sum, labelled float64
	want := make([]float64, n*classes)
	correct := 0
	for i := range labels {
		labels[i] = int32(b.r.Below(classes+1)) - 1
		if labels[i] >= 0 {
			labelled++
		}
	}
	for i, l := range labels {
		if l < 0 {
			continue
		}
		row := x[i*classes : (i+1)*classes]
		total, top := 0.0, 0
		for j, v := range row {
			total += math.Exp(float64(v))
			if v > row[top] {
				top = j
			}
		}
		correct += btoi(top == int(l))
		sum += math.Log(total) - float64(row[l])
		for j, v := range row {
			want[i*classes+j] = (math.Exp(float64(v))/total - float64(btoi(j == int(l)))) / labelled
		}
	}
	grad, _ := b.matrix(n, classes, 2)
	stat := b.a.Vector(b.q, 2, blocks.Float64)
	b.q.SoftmaxCrossEntropy(logits, b.a.Int32s(b.q, labels), grad, stat)
	b.near("gradient", b.read(grad), want, 1e-6)
	var got [2]float64
	b.q.Download(bytesOf(got[:]), stat)
	b.sync()
	if math.Abs(got[0]-sum) > 1e-4*sum || int(got[1]) != correct {
		b.Errorf("loss %v and %v correct, expected %v and %d", got[0], got[1], sum, correct)
	}
}

func numberLoss(b *bench) {
	const n, mean, deviation = 300, 1200, 350
	outputs, x := b.matrix(n, 1, 1)
	labels, want := make([]int32, n), make([]float64, n)
	var loss, distance, labelled float64
	for i := range labels {
		labels[i] = -1
		if b.r.Below(5) == 0 {
			continue
		}
		labelled++
		labels[i] = blocks.NumberCode(mean + deviation*float32(int(b.r.Below(8001))-4000)/1000)
		d := float64(x[i]) - (float64(blocks.CodedNumber(labels[i]))-mean)/deviation
		distance += math.Abs(d)
		want[i] = max(-1, min(d, 1))
		if math.Abs(d) > 1 {
			loss += math.Abs(d) - .5
		} else {
			loss += d * d / 2
		}
	}
	for i := range want {
		want[i] /= labelled
	}
	grad, _ := b.matrix(n, 1, 2)
	stat := b.a.Vector(b.q, 2, blocks.Float64)
	b.q.NumberLoss(gpu.NumberLossOptions{Mean: mean, Deviation: deviation}, outputs, b.a.Int32s(b.q, labels), grad, stat)
	b.near("gradient", b.read(grad), want, 1e-6)
	var got [2]float64
	b.q.Download(bytesOf(got[:]), stat)
	b.sync()
	if math.Abs(got[0]-loss) > 1e-5*loss || math.Abs(got[1]-distance) > 1e-5*distance {
		b.Errorf("loss %v and distance %v, expected %v and %v", got[0], got[1], loss, distance)
	}
}

func multiLabelLoss(b *bench) {
	for _, k := range []int{1, 31, 70} {
		const n, known = 150, 40
		logits, x := b.matrix(n, k, 1)
		words := (k + 31) / 32
		sets, labels, want := make([]int32, known*words), make([]int32, n), make([]float64, n*k)
		for i := range known {
			for j := range k {
				sets[i*words+j/32] |= int32(b.r.Below(2)) << (j % 32)
			}
		}
		var loss, right, labelled float64
		for i := range labels {
			if labels[i] = int32(b.r.Below(known)); b.r.Below(5) == 0 {
				labels[i] = -1
				continue
			}
			labelled++
			for j := range k {
				y, v := float64(sets[int(labels[i])*words+j/32]>>(j%32)&1), float64(x[i*k+j])
				sigmoid := 1 / (1 + math.Exp(-v))
				loss -= (y*math.Log(sigmoid) + (1-y)*math.Log(1-sigmoid)) / float64(k)
				right += float64(btoi((v > 0) == (y == 1))) / float64(k)
				want[i*k+j] = (sigmoid - y) / float64(k)
			}
		}
		for i := range want {
			want[i] /= labelled
		}
		grad, _ := b.matrix(n, k, 2)
		stat := b.a.Vector(b.q, 2, blocks.Float64)
		b.q.MultiLabelLoss(b.a.Int32s(b.q, sets), logits, b.a.Int32s(b.q, labels), grad, stat)
		b.near("gradient", b.read(grad), want, 1e-6)
		var got [2]float64
		b.q.Download(bytesOf(got[:]), stat)
		b.sync()
		if math.Abs(got[0]-loss) > 1e-4*loss || math.Abs(got[1]-right) > 1e-9*right {
			b.Errorf("%d labels: loss %v and %v of labels right, expected %v and %v", k, got[0], got[1], loss, right)
		}
	}
}

func adam(b *bench) {
	p, pv := b.matrix(1, 37, 0)
	g, gv := b.matrix(1, 37, 0)
	m, _ := b.matrix(1, 37, 0)
	v, _ := b.matrix(1, 37, 0)
	b.q.Fill(m, 0)
	b.q.Fill(v, 0)
	o := gpu.AdamOptions{LR: .01, Beta1: .9, Beta2: .999, Epsilon: 1e-8, WeightDecay: .1}
	want, mm, vv := make([]float64, 37), make([]float64, 37), make([]float64, 37)
	for i := range want {
		want[i] = float64(pv[i])
	}
	for step := 1; step <= 5; step++ {
		o.Step = step
		b.q.Adam(o, p, g, m, v)
		for i := range want {
			d := float64(gv[i]) + .1*want[i]
			mm[i] = .9*mm[i] + .1*d
			vv[i] = .999*vv[i] + .001*d*d
			want[i] -= .01 * (mm[i] / (1 - math.Pow(.9, float64(step)))) / (math.Sqrt(vv[i]/(1-math.Pow(.999, float64(step)))) + 1e-8)
		}
	}
	b.near("adam", b.read(p), want, 1e-5)
}

func dropout(b *bench) {
	x := b.a.Matrix(b.q, 300, 101)
	b.q.Fill(x, 1)
	b.q.Dropout(gpu.DropoutOptions{P: .3, Seed: 5}, x)
	first := b.read(x)
	kept := 0
	for i, v := range first {
		if v != 0 && math.Abs(float64(v)-1/.7) > 1e-6 {
			b.Fatalf("value %d is %v, expected 0 or %v", i, v, 1/.7)
		}
		kept += btoi(v != 0)
	}
	if share := float64(kept) / float64(len(first)); math.Abs(share-.7) > .015 {
		b.Errorf("%.3f of the values are kept, expected .7", share)
	}
	for _, seed := range []uint64{5, 4, 6, 7, 5 | 1<<32, 5 | 1<<63} { // every bit of a seed counts
		b.q.Fill(x, 1)
		b.q.Dropout(gpu.DropoutOptions{P: .3, Seed: seed}, x)
		same := true
		for i, v := range b.read(x) {
			same = same && v == first[i]
		}
		if same != (seed == 5) {
			b.Errorf("seed %d: the mask is the same as seed 5's: %v", seed, same)
		}
	}
}

// shapeErrors: operations that do not fit are refused, the first is reported, and the queue goes on.
func shapeErrors(b *bench) {
	x, _ := b.matrix(4, 5, 0)
	y, _ := b.matrix(4, 5, 0)
	w, _ := b.matrix(6, 3, 0)
	for name, op := range map[string]func(){
		"gemm":     func() { b.q.Gemm(gpu.GemmOptions{}, x, w, y) },
		"overlap":  func() { b.q.Gemm(gpu.GemmOptions{TransB: true}, x, y, x.View(0, 0, 4, 4)) },
		"copy":     func() { b.q.Copy(x, w) },
		"axpy":     func() { b.q.Axpy(1, x, w) },
		"adam":     func() { b.q.Adam(gpu.AdamOptions{Step: 1}, x, w, x, x) },
		"gather":   func() { b.q.Gather(x, w, b.a.Uint32s(b.q, []uint32{0, 0, 0, 0})) },
		"download": func() { b.q.Download(make([]byte, 3), x) },
	} {
		op()
		if err := b.q.Sync(b.Context()); !errors.Is(err, gpu.ErrShape) {
			b.Errorf("%s: error %v, expected ErrShape", name, err)
		}
	}
	b.q.Axpy(1, x, y)
	b.sync()
}

// arenaReuse: an arena that was reset serves the same batch without growing.
func arenaReuse(b *bench) {
	a := gpu.NewArena(b.dev)
	use := func() int64 {
		for i := range 20 {
			t := a.Matrix(b.q, 100+i, 1000)
			b.q.Fill(t, float32(i))
		}
		b.sync()
		if err := a.Reset(); err != nil {
			b.Fatal(err)
		}
		return a.Bytes()
	}
	first := use()
	if again := use(); again != first {
		b.Errorf("the arena holds %d bytes after the second batch, %d after the first", again, first)
	}
	if err := a.Close(); err != nil {
		b.Error(err)
	}
}
