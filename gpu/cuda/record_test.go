//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestRecordedSteps: on a plan in memory and out of core, by rows kept, mirrored and read where they are, parameters of recorded steps have the bits of
// steps issued operation by operation; most mini-batches are replayed, by few shapes.
func TestRecordedSteps(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 900, Edges: 3600, Partitions: 6}))
	large := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 3000, Edges: 12000, Partitions: 2}))
	base := config.Config{Hidden: 8, BatchSize: 20, Epochs: 2, EvalEvery: 2, Split: "split", Threads: 1, Fanouts: []int{3, 2}, Absent: config.AbsentIgnore}
	for name, change := range map[string]func(c *config.Config){
		"sage":                      func(c *config.Config) {},
		"sage, input dropout":       func(c *config.Config) { c.InputDropout = share(.2) },
		"sage, rows where they are": func(c *config.Config) { c.DeviceCache = "none" },
		"sage max, residual, layer norm, cat": func(c *config.Config) {
			c.Aggregator, c.Norm, c.Jumping, c.Residual = "max", "layer", "cat", true
		},
		"gcn":         func(c *config.Config) { c.Model = "gcn" },
		"gat":         func(c *config.Config) { c.Model, c.Heads = "gat", 2 },
		"gin":         func(c *config.Config) { c.Model = "gin" },
		"mlp":         func(c *config.Config) { c.Model = "mlp" },
		"sage, hanoi": func(c *config.Config) { c.Plan, c.Buffer, c.DevicePlan = "hanoi", 2, "mirror" },
		"sage, lookahead": func(c *config.Config) {
			c.Plan, c.Buffer, c.DevicePlan, c.DeviceCache = "hanoi", 2, "direct", "lookahead"
		},
		"sage, sums in pieces": func(c *config.Config) { c.BatchSize, c.Fanouts, c.Epochs, c.Order = 300, []int{4, 4}, 3, "multiply" },
		"sage dense":           func(c *config.Config) { c.Sampler = "dense" },
	} {
		t.Run(name, func(t *testing.T) {
			c := base
			change(&c)
			dir := dir
			if c.BatchSize > base.BatchSize {
				dir = large
			}
			run := func(record string) (string, []train.Epoch) {
				c.RecordSteps = record
				cp, epochs, err := trainNode(t, dir, open(t, Options{}), c)
				must(t, err)
				return fmt.Sprint(cp.Params, cp.Summary.TrainLoss), epochs
			}
			want, plain := run("off")
			got, epochs := run("auto")
			if got != want {
				t.Error("recorded steps train other parameters than steps that are not recorded")
			}
			replayed, batches, shapes := int64(0), int64(0), 0
			for i, e := range epochs {
				replayed, batches, shapes = replayed+e.ReplayedBatches, batches+e.Batches, max(shapes, e.ReplayShapes)
				if e.RecordError != "" {
					t.Errorf("epoch %d: %s", i+1, e.RecordError)
				}
				if plain[i].ReplayedBatches != 0 {
					t.Errorf("epoch %d: %d mini-batches are replayed without recordings", i+1, plain[i].ReplayedBatches)
				}
			}
			t.Logf("%d of %d mini-batches replayed, %d shapes", replayed, batches, shapes)
			if replayed < batches/2 || shapes > 16 {
				t.Errorf("%d of %d mini-batches are replayed by %d shapes", replayed, batches, shapes)
			}
		})
	}
}

// TestRecordingsAreExplained: a run says whether its steps are recorded, and why not, and does as it says.
func TestRecordingsAreExplained(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 400, Edges: 1500, Partitions: 4})
	for i := range g.Edges {
		g.Weights = append(g.Weights, float32(i%5))
	}
	dir := storetest.Create(t, g)
	for want, c := range map[string]config.Config{
		"padded to a few shapes":       {},
		"nobody asks":                  {RecordSteps: "off"},
		"features of edges have sizes": {Model: "gat", EdgeFeatures: []string{"weight"}},
		"batch norm counts rows":       {Norm: "batch"},
		"indices in the middle":        {Jumping: "max"},
		"a history has rows":           {History: true, Plan: "hanoi", Buffer: 2},
		"waits for each mini-batch":    {Plan: "rows"},
	} {
		c.Hidden, c.BatchSize, c.Epochs, c.EvalEvery, c.Split, c.Threads, c.Fanouts, c.Absent = 8, 20, 2, 2, "split", 1, []int{3, 2}, config.AbsentIgnore
		st, err := store.Open(dir, store.Options{})
		must(t, err)
		dev, why, replayed := open(t, Options{}), "", int64(0)
		_, err = train.Node(t.Context(), st, dev, c, train.Hooks{Plan: func(w []string) { why = strings.Join(w, "\n") }, Epoch: func(e train.Epoch) { replayed += e.ReplayedBatches }})
		must(t, errors.Join(err, dev.Close(), st.Close()))
		if recorded := strings.Contains(why, "steps are recorded"); !strings.Contains(why, want) || recorded != (replayed > 0) {
			t.Errorf("%q is expected, %d mini-batches are replayed: %s", want, replayed, why)
		}
	}
}

// TestRecordsOnce: replays run with the numbers and arrays of their own step, and what cannot be recorded is an error of the recording
// alone.
func TestRecordsOnce(t *testing.T) {
	b := start(t, open(t, Options{}))
	const n = 300
	mem, err := b.dev.Alloc(4 * (4096*64 + 64*64 + n))
	must(t, err)
	wide, square, out := gpu.MatrixOf(mem, 0, 4096, 64), gpu.MatrixOf(mem, 4*4096*64, 64, 64), gpu.MatrixOf(mem, 4*(4096*64+64*64), 1, n)
	drop := func(s gpu.Scalars, x gpu.Tensor) func() {
		return func() {
			b.q.Copy(out, x)
			b.q.Dropout(gpu.DropoutOptions{P: .5, Seed: 3, Base: s.Seed}, out)
		}
	}
	var program gpu.Program
	for step := range uint64(4) {
		seed, ones := math.MaxUint64-1+step, make([]float32, n) // the sum carries into the high word, and around
		for i := range ones {
			ones[i] = float32(step + 1)
		}
		a := b.a
		must(t, a.Reset())
		s := a.Scalars(b.q, seed, gpu.AdamOptions{LR: 1, Step: 1})
		x := a.Float32s(b.q, ones)
		if step == 0 {
			a.Matrix(b.q, 1, 1) // the arena is there
			program, err = b.q.Record(a, drop(s, x))
			must(t, err)
		}
		b.q.Replay(program)
		got := b.read(out)
		y := a.Matrix(b.q, 1, n)
		b.q.Copy(y, x)
		b.q.Dropout(gpu.DropoutOptions{P: .5, Seed: 3 + seed}, y)
		if want := b.read(y); !slices.Equal(got, want) || !slices.Contains(got, 2*float32(step+1)) {
			t.Errorf("step %d: replayed %v, issued %v", step, got[:8], want[:8])
		}
	}
	for what, bad := range map[string]func(){
		"upload":            func() { b.q.Upload(out, bytesOf(make([]float32, n))) },
		"download":          func() { b.q.Download(bytesOf(make([]float32, n)), out) },
		"stages":            func() { b.a.Int32s(b.q, make([]int32, 5)) },
		"grows":             func() { b.a.Matrix(b.q, 1<<12, 1<<12) },
		"scratch":           func() { b.q.Gemm(gpu.GemmOptions{TransA: true}, wide, wide, square) },
		"shapes do not fit": func() { b.q.Copy(out, b.a.Matrix(b.q, 2, 2)) },
		"a mark":            func() { b.q.Mark() },
	} {
		used := b.a.Used()
		p, err := b.q.Record(b.a, bad)
		if err == nil || p != nil {
			t.Errorf("%s: recorded", what)
		} else if what != "shapes do not fit" && !errors.Is(err, gpu.ErrNotRecorded) {
			t.Errorf("%s: %v", what, err)
		}
		if b.a.Used() != used {
			t.Errorf("%s: %d bytes of the arena are gone", what, b.a.Used()-used)
		}
		b.q.Fill(out, 7)
		if got := b.read(out); got[n-1] != 7 {
			t.Errorf("%s: after it the queue gives %v", what, got[n-1])
		}
	}
	must(t, program.Close())
	must(t, program.Close())
}

// TestEmulatorCapturesStrictly: calls that a capture may not have break it, and a graph does not run with memory that was freed.
func TestEmulatorCapturesStrictly(t *testing.T) {
	emulated(t)
	d := open(t, Options{})
	defer d.Close()
	s, err := d.newStream()
	must(t, err)
	m, err := d.alloc(64)
	must(t, err)
	for what, bad := range map[string]func() error{
		"allocating": func() error { _, err := d.ctx.Alloc(4); return err },
		"freeing":    func() error { return d.ctx.Free(m.at) },
		"pinning":    func() error { _, err := d.ctx.AllocHost(4); return err },
		"waiting":    func() error { return d.ctx.Wait(s.event, s.cu) },
		"the stream": func() error { return d.ctx.Do(func() error { return s.cu.Synchronize() }) },
	} {
		must(t, d.ctx.BeginCapture(s.cu))
		must(t, d.ctx.Fill32(m.at, 1, 1, s.cu))
		if err := bad(); err == nil {
			t.Errorf("%s in a capture is no error", what)
		}
		if err := d.ctx.Fill32(m.at, 2, 1, s.cu); err == nil {
			t.Errorf("%s: the capture goes on", what)
		}
		if _, err := d.ctx.EndCapture(s.cu); err == nil {
			t.Errorf("%s: the capture ends well", what)
		}
		must(t, d.ctx.Wait(s.event, s.cu))
	}
	other, err := d.alloc(64)
	must(t, err)
	must(t, d.ctx.BeginCapture(s.cu))
	must(t, d.ctx.Fill32(m.at, 9, 1, s.cu))
	must(t, d.ctx.Copy(other.at, m.at, 4, s.cu))
	g, err := d.ctx.EndCapture(s.cu)
	must(t, err)
	x, err := d.ctx.AllocHost(4)
	must(t, err)
	defer d.ctx.FreeHost(x)
	at := (*uint32)(unsafe.Pointer(&x[0]))
	for _, launch := range []bool{false, true} { // what is captured does not run
		if launch {
			must(t, d.ctx.LaunchGraph(g, s.cu))
		}
		must(t, d.ctx.Download(unsafe.Pointer(at), other.at, 4, s.cu))
		must(t, d.ctx.Wait(s.event, s.cu))
		if (*at == 9) != launch {
			t.Errorf("launched %v: the memory has %d", launch, *at)
		}
	}
	must(t, m.Free())
	if err := d.ctx.LaunchGraph(g, s.cu); err == nil {
		t.Error("a graph with memory that was freed is launched")
	}
	must(t, d.ctx.DestroyGraph(g))
	must(t, other.Free())
	if err := d.ctx.LaunchGraph(g, s.cu); err == nil || !strings.Contains(err.Error(), "INVALID_VALUE") {
		t.Errorf("a graph that was destroyed: %v", err)
	}
}
