package eval

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

var errDevice = errors.New("the device is gone")

// failingDevice is a device of which demand at, counted from 0, is refused: for memory, to map memory, for a stream.
type failingDevice struct {
	gpu.Device
	demands, at int64
	mapped      []gpu.Memory // what is not freed yet
	most        int          // of these at a time
}

// left is how much of the host's memory is mapped.
func (d *failingDevice) left() int {
	d.mapped = slices.DeleteFunc(d.mapped, func(m gpu.Memory) bool { return m.Bytes() == 0 })
	return len(d.mapped)
}

func (d *failingDevice) fail() error {
	if atomic.AddInt64(&d.demands, 1)-1 == d.at {
		return errDevice
	}
	return nil
}

func (d *failingDevice) Alloc(bytes int64) (gpu.Memory, error) {
	if err := d.fail(); err != nil {
		return nil, err
	}
	return d.Device.Alloc(bytes)
}

func (d *failingDevice) Map(b []byte) (gpu.Memory, error) {
	if err := d.fail(); err != nil {
		return nil, err
	}
	m, err := d.Device.Map(b)
	d.mapped = append(d.mapped, m)
	d.most = max(d.most, d.left())
	return m, err
}

func (d *failingDevice) NewStream() (gpu.Stream, error) {
	if err := d.fail(); err != nil {
		return nil, err
	}
	return d.Device.NewStream()
}

// TestDeviceErrors: whatever a device refuses to an evaluation, to means over neighbours, to a search for similar nodes, its error is
// returned; and where it refuses nothing no memory of the host stays mapped, which is unmapped from the process after that.
func TestDeviceErrors(t *testing.T) {
	g := evaltest.Random(t, 200, 16, true)
	st := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 60, Partitions: 3})), store.Options{})
	const dim = 4
	hop := func(ctx context.Context, dev gpu.Device, model nn.Config) error {
		q, err := gpu.NewQueue(dev)
		if err != nil {
			return err
		}
		e, err := New(g, dev, Options{Unlabelled: true, Features: []string{"x"}, Model: model}, g.Dim)
		if err != nil {
			return err
		}
		defer func() { _ = e.Close() }()
		e.tiles, e.pieceNodes = tilesOf(g.M.Partitions, 2), 1 // a partition
		if err := e.Hop(ctx, q, func(store.PartitionID, gpu.Tensor, []float32) error { return nil }); err != nil {
			return err
		}
		return q.Close()
	}
	for name, use := range map[string]func(ctx context.Context, dev gpu.Device) error{
		"run": func(ctx context.Context, dev gpu.Device) error {
			q, err := gpu.NewQueue(dev)
			if err != nil {
				return err
			}
			m, err := nn.New(ctx, q, nn.Config{Model: "sage", Layers: 2, In: g.Dim, Hidden: 8, Out: g.M.Schema.Classes})
			if err != nil {
				return err
			}
			defer func() { _ = m.Close() }()
			e, err := New(g, dev, Options{Features: []string{"x"}, Model: m.Config(), Predictions: true}, 8)
			if err != nil {
				return err
			}
			defer func() { _ = e.Close() }()
			e.tiles = tilesOf(g.M.Partitions, 2)
			_, err = e.Run(ctx, q, m, "valid")
			return err
		},
		"means": func(ctx context.Context, dev gpu.Device) error { return hop(ctx, dev, nn.Config{}) },
		"sums":  func(ctx context.Context, dev gpu.Device) error { return hop(ctx, dev, nn.Config{Model: "gcn"}) },
		"similar": func(ctx context.Context, dev gpu.Device) error {
			values := &NodeValues{Elem: blocks.Float32, Dim: dim, parts: st.Manifest().Partitions,
				table: spill.View(4*dim, func([]byte, uint64) error { return nil })}
			s, err := OpenSimilar(ctx, st, dev, values, Dot, RankerOptions{Top: 3, Threads: 1})
			if err != nil {
				return err
			}
			_, err = s.Ask(ctx, []Question{{Node: 1}})
			return errors.Join(err, s.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(at int64) (int64, error) {
				inner := host.New(host.Options{Threads: 1})
				defer func() { _ = inner.Close() }()
				dev := &failingDevice{Device: inner, at: at}
				err := use(t.Context(), dev)
				if n := dev.left(); at < 0 && (n > 0 || dev.most > 5) { // a piece's rows, its edges' two arrays and the degrees of both ends
					t.Errorf("%d of the host's arrays stay mapped and at most %d were at a time, expected none and 5", n, dev.most)
				}
				return atomic.LoadInt64(&dev.demands), err
			}
			demands, err := run(-1)
			if err != nil || demands < 3 {
				t.Fatalf("%d demands, %v", demands, err)
			}
			for at := range demands {
				if _, err := run(at); !errors.Is(err, errDevice) {
					t.Errorf("demand %d of %d is refused: error %v", at, demands, err)
				}
			}
		})
	}
}

// slow is a source whose reads of columns take a while, and that counts those that end late.
type slow struct {
	*evaltest.Graph
	over atomic.Bool // whoever reads should have ended
	late atomic.Int64
}

func (s *slow) ReadColumn(ctx context.Context, name string, p store.PartitionID, dst []byte) ([]byte, error) {
	time.Sleep(time.Millisecond)
	if s.over.Load() {
		s.late.Add(1)
	}
	return s.Graph.ReadColumn(ctx, name, p, dst)
}

// TestHopEndsReading: whatever the device refuses while a piece is read ahead, a hop that returns reads no more.
func TestHopEndsReading(t *testing.T) {
	g := evaltest.Random(t, 200, 3, true)
	run := func(at int64) (int64, error) {
		inner := host.New(host.Options{Threads: 1})
		defer func() { _ = inner.Close() }()
		dev := &failingDevice{Device: inner, at: at}
		q, err := gpu.NewQueue(dev)
		if err != nil {
			return 0, err
		}
		src := &slow{Graph: g}
		e, err := New(src, dev, Options{Unlabelled: true, Features: []string{"x"}}, g.Dim)
		if err != nil {
			return 0, err
		}
		defer func() { _ = e.Close() }()
		e.tiles, e.pieceNodes, e.aheads = tilesOf(g.M.Partitions, 1), 1, true
		err = e.Hop(t.Context(), q, func(store.PartitionID, gpu.Tensor, []float32) error { return nil })
		src.over.Store(true)
		time.Sleep(5 * time.Millisecond)
		if n := src.late.Load(); n > 0 {
			t.Errorf("demand %d is refused: %d reads ended after the hop", at, n)
		}
		return atomic.LoadInt64(&dev.demands), err
	}
	demands, err := run(-1)
	if err != nil || demands < 3 {
		t.Fatalf("%d demands, %v", demands, err)
	}
	for at := range demands {
		if _, err := run(at); !errors.Is(err, errDevice) {
			t.Errorf("demand %d of %d is refused: error %v", at, demands, err)
		}
	}
}

// endingContext has ended from its at-th look on, counted from 0.
type endingContext struct {
	context.Context
	looks, at int64
}

func (c *endingContext) Err() error {
	if n := atomic.AddInt64(&c.looks, 1) - 1; c.at >= 0 && n >= c.at {
		return context.Canceled
	}
	return c.Context.Err()
}

// TestRunEnds: at whichever look at its context an evaluation learns that it has ended, to the last class of the last split's area
// under the curve, it returns that and no metrics.
func TestRunEnds(t *testing.T) {
	g := evaltest.Random(t, 200, 3, true)
	dev, q, m := untrained(t, 1, nn.Config{Model: "sage", Layers: 2, In: g.Dim, Hidden: 8, Out: g.M.Schema.Classes})
	run := func(at int64) (int64, []Metrics, error) {
		e, err := New(g, dev, Options{Features: []string{"x"}, Model: m.Config(), AUC: true}, 8)
		if err != nil {
			return 0, nil, err
		}
		defer func() { _ = e.Close() }()
		ctx := &endingContext{Context: t.Context(), at: at}
		got, err := e.Run(ctx, q, m, "valid", "test")
		return atomic.LoadInt64(&ctx.looks), got, err
	}
	looks, got, err := run(-1)
	if err != nil || len(got) != 2 || looks < int64(2*g.M.Schema.Classes) {
		t.Fatalf("%d looks, %d metrics, %v", looks, len(got), err)
	}
	for at := range looks {
		if _, got, err := run(at); !errors.Is(err, context.Canceled) || got != nil {
			t.Errorf("ended at look %d of %d: %d metrics, %v", at, looks, len(got), err)
		}
	}
}

// elsewhere is a source whose states go to a directory of its own.
type elsewhere struct {
	*evaltest.Graph
	dir string
}

func (s elsewhere) ScratchDir() string { return s.dir }

// TestRunWithoutScratch: states and outputs that do not fit and have no directory to go to are told, whatever is asked for.
func TestRunWithoutScratch(t *testing.T) {
	g := evaltest.Random(t, 100, 2, true)
	dev := host.New(host.Options{Threads: 1})
	defer func() { _ = dev.Close() }()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"states": {}, "predictions": {Predictions: true}, "probabilities": {Probabilities: true}, "scores": {AUC: true}} {
		for _, model := range []string{"sage", "gcn"} {
			m, err := nn.New(t.Context(), q, nn.Config{Model: model, Layers: 2, In: g.Dim, Hidden: 8, Out: g.M.Schema.Classes})
			if err != nil {
				t.Fatal(err)
			}
			o.Features, o.Model = []string{"x"}, m.Config()
			dir := t.TempDir()
			for _, exists := range []bool{true, false} {
				e, err := New(elsewhere{g, map[bool]string{true: dir, false: dir + "/none"}[exists]}, dev, o, 8)
				if err != nil {
					t.Fatal(err)
				}
				e.memory = false
				if _, err := e.Run(t.Context(), q, m, "valid"); exists && err != nil || !exists && !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s of %s, directory there %v: %v", name, model, exists, err)
				}
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestRunEmptySplit: of a split without nodes accuracy and loss are 0, and the area under the curve is not defined.
func TestRunEmptySplit(t *testing.T) {
	g := evaltest.Random(t, 100, 2, true)
	for v := range g.Split {
		g.Split[v] = store.SplitTrain
	}
	dev, q, m := untrained(t, 1, nn.Config{Model: "sage", Layers: 1, In: g.Dim, Out: g.M.Schema.Classes})
	e, err := New(g, dev, Options{Features: []string{"x"}, Model: m.Config(), AUC: true}, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	got, err := e.Run(t.Context(), q, m, "test", "train")
	if err != nil {
		t.Fatal(err)
	}
	if x := got[0]; x.Nodes != 0 || x.Accuracy != 0 || x.Loss != 0 || !math.IsNaN(x.AUC) {
		t.Errorf("no nodes: %+v, area %v", x, x.AUC)
	}
	if x := got[1]; x.Nodes == 0 || !(x.Loss > 0) || math.IsNaN(x.AUC) {
		t.Errorf("all nodes: %+v, area %v", x, x.AUC)
	}
}

// splitsOnce is a graph of which the at-th reading of the split, counted from 0, fails, and that alone.
type splitsOnce struct {
	*evaltest.Graph
	at *int
}

func (s splitsOnce) ReadColumn(ctx context.Context, name string, p store.PartitionID, dst []byte) ([]byte, error) {
	if name == "split" {
		if *s.at--; *s.at == -1 {
			return nil, errDevice
		}
	}
	return s.Graph.ReadColumn(ctx, name, p, dst)
}

// TestOutputs: each of an evaluation's outputs takes its room from a chunk's rows, and a split that cannot be read once, when it is
// counted or later, ends the evaluation.
func TestOutputs(t *testing.T) {
	g := evaltest.Random(t, 100, 2, true)
	dev, q, m := untrained(t, 1, nn.Config{Model: "sage", Layers: 2, In: g.Dim, Hidden: 64, Out: g.M.Schema.Classes})
	open := func(src Source, o Options) *Evaluator {
		t.Helper()
		o.Features, o.Model = []string{"x"}, m.Config()
		e, err := New(src, dev, o, 64)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	alone := open(g, Options{}).chunkRows
	for name, o := range map[string]Options{"confusion": {Confusion: true}, "scores": {AUC: true}, "predictions": {Predictions: true},
		"probabilities": {Probabilities: true}, "states": {Embeddings: true}} {
		if n := open(g, o).chunkRows; n >= alone {
			t.Errorf("%s: chunks of %d rows, %d without", name, n, alone)
		}
	}
	for at := range 4 {
		left := at
		_, err := open(splitsOnce{g, &left}, Options{AUC: true}).Run(t.Context(), q, m, "valid")
		if failed := left < 0; failed != errors.Is(err, errDevice) || at < 2 && !failed {
			t.Errorf("reading %d of the split fails (%t): %v", at, failed, err)
		}
	}
}

// TestSimilarBudget: a search for similar nodes whose rows lie in a file works with the bytes that SimilarBytes tells and not with 4 KiB
// fewer, to which it is told, and refuses what it cannot answer.
func TestSimilarBudget(t *testing.T) {
	st := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 60, Partitions: 3})), store.Options{})
	dev := host.New(host.Options{Threads: 1})
	defer func() { _ = dev.Close() }()
	const dim, top = 256, 3 // a partition has 20 KiB of rows
	least, err := SimilarBytes(st, dim, top)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kind string
		o    RankerOptions
		ok   bool
		is   error
	}{
		"the least":    {Cosine, RankerOptions{Top: top, MemoryBytes: least}, true, nil},
		"fewer":        {Cosine, RankerOptions{Top: top, MemoryBytes: least - 4<<10}, false, store.ErrBudget},
		"another kind": {"near", RankerOptions{Top: top}, false, nil},
		"no answers":   {Dot, RankerOptions{}, false, nil},
	} {
		values := &NodeValues{Elem: blocks.Float32, Dim: dim, parts: st.Manifest().Partitions,
			table: spill.View(4*dim, func([]byte, uint64) error { return nil })}
		s, err := OpenSimilar(t.Context(), st, dev, values, c.kind, c.o)
		if (err == nil) != c.ok || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
