package eval

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

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
	return d.Device.Map(b)
}

func (d *failingDevice) NewStream() (gpu.Stream, error) {
	if err := d.fail(); err != nil {
		return nil, err
	}
	return d.Device.NewStream()
}

// TestDeviceErrors: whatever a device refuses to an evaluation, to means over neighbours, to a search for similar nodes, its error is
// returned.
func TestDeviceErrors(t *testing.T) {
	g := evaltest.Random(t, 200, 3, true)
	st := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 60, Partitions: 3})), store.Options{})
	const dim = 4
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
		"means": func(ctx context.Context, dev gpu.Device) error {
			q, err := gpu.NewQueue(dev)
			if err != nil {
				return err
			}
			e, err := New(g, dev, Options{Unlabelled: true, Features: []string{"x"}}, g.Dim)
			if err != nil {
				return err
			}
			defer func() { _ = e.Close() }()
			e.tiles = tilesOf(g.M.Partitions, 3)
			if err := e.Means(ctx, q, func(store.PartitionID, gpu.Tensor) error { return nil }); err != nil {
				return err
			}
			return q.Close()
		},
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
	dev := host.New(host.Options{Threads: 1})
	defer func() { _ = dev.Close() }()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	m, err := nn.New(t.Context(), q, nn.Config{Model: "sage", Layers: 2, In: g.Dim, Hidden: 8, Out: g.M.Schema.Classes})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
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
