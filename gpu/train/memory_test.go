package train

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/gpu/train/bound"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/storetest"
)

// named is the budget that a refusal names as the smallest that works.
func named(t *testing.T, err error) int64 {
	t.Helper()
	m := regexp.MustCompile(`the smallest that works is (\d+)MiB`).FindStringSubmatch(fmt.Sprint(err))
	if !errors.Is(err, store.ErrBudget) || m == nil {
		t.Fatalf("error %v, expected ErrBudget and the smallest budget", err)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 20
}

// TestSmallestBudgetWorks: the budget that a refusal names works to the end, and so do those above it; 1 MiB less is
// refused before anything is computed. Tensors of 3 layers, of attention and of relations take more than their share.
func TestSmallestBudgetWorks(t *testing.T) {
	race.SkipArithmetic(t)
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8, Relations: 3}))
	n := 0
	for _, model := range []string{"sage", "gat", "gin", "rgcn", "rsage", "gcn"} {
		for _, layers := range []int{2, 3} {
			for _, c := range []config.Config{{}, {Plan: "hanoi", Buffer: 2}, {History: true, Plan: "hanoi"}} {
				if n++; n%race.Every(4) != 3%race.Every(4) {
					continue
				}
				c.Model, c.Layers, c.Hidden, c.BatchSize, c.Epochs, c.Split, c.Threads = model, layers, 256, 300, 1, "split", 2
				t.Run(fmt.Sprintf("%s/layers=%d/plan=%s/history=%v", model, layers, c.Plan, c.History), func(t *testing.T) {
					run := func(memory int64) error {
						st, err := store.Open(dir, store.Options{})
						if err != nil {
							t.Fatal(err)
						}
						defer func() { _ = st.Close() }()
						dev := host.New(host.Options{Threads: 2})
						defer func() { _ = dev.Close() }()
						c.MemoryBytes = memory
						_, err = Node(t.Context(), st, dev, c, Hooks{})
						if _, peak := dev.AllocatedBytes(); memory > 0 && peak > max(0, memory-budget.ProgramBytes)+rowcache.ModelBytes {
							t.Errorf("%d bytes on the device, of a budget of %d", peak, memory)
						}
						return err
					}
					least := named(t, run(1<<20))
					for _, more := range []int64{0, 1 << 20, 3 << 20} {
						if err := run(least + more); err != nil {
							t.Errorf("within %d MiB, %d MiB is named: %v", (least+more)>>20, least>>20, err)
						}
					}
					err := run(least - 1<<20)
					var bound *gpu.BoundError
					if n := named(t, err); n != least || errors.As(err, &bound) {
						t.Errorf("within %d MiB: %v, expected to be refused at the start with %d MiB", least>>20-1, err, least>>20)
					}
				})
			}
		}
	}
}

// TestWorstBatch: a run's batches fit in what the meter says, in either order of products, and not in a small part of it.
func TestWorstBatch(t *testing.T) {
	for _, undirected := range []bool{true, false} {
		g := evaltest.Random(t, 1500, 4, undirected)
		for _, c := range []config.Config{{Model: "sage"}, {Model: "sage", Aggregator: "max", Norm: "batch", Jumping: "cat"}, {Model: "gcn", Norm: "layer", Residual: true},
			{Model: "sage", EdgeWeights: true}, {Model: "gcn", EdgeWeights: true},
			{Model: "gat", Heads: 2, EdgeFeatures: []string{"edge"}},
			{Model: "gat", Heads: 2, Jumping: "max"}, {Model: "gin"}, {Model: "rgcn", Bases: 2}, {Model: "rsage"}, {Model: "rgat", Heads: 2}, {Model: "hgt", Heads: 2}, {Model: "rsage", RelationFanouts: "r1=30,20"}, {Model: "mlp"}, {Model: "gat", Heads: 2, Sampler: "dense", Fanouts: []int{10, 1}}, {Model: "gcn", Sampler: "dense"}, {Model: "sage", Fanouts: []int{-1, -1}, BatchSize: 2000}} {
			for _, order := range []string{"aggregate", "multiply"} {
				c.Hidden, c.Order, c.Features, c.Seed, c.Threads = 32, order, []string{"x"}, 1, 1
				if c.BatchSize == 0 {
					c.BatchSize = 100
				}
				if err := c.Normalize(); err != nil {
					t.Fatal(err)
				}
				dev, s := hostDevice(t), shapeOf(g)
				s.EdgeDim = 2 * len(c.EdgeFeatures)
				var err error
				if s.Sampling, err = c.RelationSampling(&g.M); err != nil {
					t.Fatal(err)
				}
				b, err := planning.NewBatchMeter(t.Context(), dev.Info(), &g.M, &c, s)
				if err != nil {
					t.Fatal(err)
				}
				worst, err := b.Worst(t.Context(), &g.M, 0)
				if err != nil {
					t.Fatal(err)
				}
				share := int64(10)
				if c.Relational() { // as the edges that nodes have allow, more closely
					e, err := eval.New(g, nil, eval.Options{Features: c.Features, Model: c.ModelConfig(s)}, c.Hidden)
					if err != nil {
						t.Fatal(err)
					}
					if b.Sampled, err = bound.Count(t.Context(), g, e, &c, s, b.Model.Config().Relations); err != nil {
						t.Fatal(err)
					}
					loose := worst
					b.Known = map[int]int64{}
					if worst, err = b.Worst(t.Context(), &g.M, 0); err != nil || worst >= loose {
						t.Errorf("%s: %d bytes by what nodes add (%v), %d without", c.Model, worst, err, loose)
					}
					share = 2
					if err := e.Close(); err != nil {
						t.Fatal(err)
					}
				}
				if err := b.Close(); err != nil || b.Dev.Bytes() != 0 {
					t.Errorf("%s: %d bytes are left on the meter, %v", c.Model, b.Dev.Bytes(), err)
				}
				run := func(bound int64) error {
					tr, err := newTrainer(t.Context(), dev, &c, s, &ondevice.Plan{})
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = tr.close() }()
					tr.pipe.Bound(bound)
					p, sum := feed.Passes{Ready: func() bool { return true }}, progress.Counts{}
					b, err := tr.enter(t.Context(), 0, g.MacroBatch(), &p, progress.Place{})
					if err != nil {
						return err
					}
					return run.Step(t.Context(), b, &sum, func(progress.Place) error { return nil })
				}
				if err := run(worst); err != nil {
					t.Errorf("%s, %s first, undirected %v: %v", c.Model, order, undirected, err)
				}
				if err := run(worst / share); !errors.Is(err, store.ErrBudget) {
					t.Errorf("%s, %s first, undirected %v: 1/%d of %d bytes is enough: %v", c.Model, order, undirected, share, worst, err)
				}
			}
		}
	}
}

// TestWorstBlocks: the largest blocks of each sampler. Dense ones have the edges of the hops before, by these hops' larger fanouts.
func TestWorstBlocks(t *testing.T) {
	g := evaltest.Random(t, 50, 4, true)
	for sampler, want := range map[string][]int{"uniform": {1100, 1000}, "dense": {2000, 1000}, "pinsage": {1100, 1000}} {
		c := config.Config{Sampler: sampler, Fanouts: []int{10, 1}, BatchSize: 100, Features: []string{"x"}}
		if err := c.Normalize(); err != nil {
			t.Fatal(err)
		}
		b, err := planning.NewBatchMeter(t.Context(), hostDevice(t).Info(), &g.M, &c, shapeOf(g))
		if err != nil {
			t.Fatal(err)
		}
		graphs, seeds, inputs := b.Graphs(1<<20, 1<<20)
		if graphs[0].Indices.Len() != want[0] || graphs[1].Indices.Len() != want[1] || seeds != 100 || inputs != graphs[0].NumSrc || inputs < graphs[0].NumDst {
			t.Errorf("%s: blocks of %d and %d edges, %d seeds, %d inputs, expected %d edges, 100 seeds", sampler, graphs[0].Indices.Len(), graphs[1].Indices.Len(), seeds, inputs, want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDeviceTensorsAreNotTheHosts: mini-batches of a device that has memory of its own take of the host's only what is on its way there, so
// that a budget that the host needs for their tensors holds partitions instead, and a smaller one does.
func TestDeviceTensorsAreNotTheHosts(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8}))
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	h := host.New(host.Options{Threads: 1})
	defer func() { _ = h.Close() }()
	own := gputest.Ahead{Device: gputest.NewCounting(h, 1<<30)}
	c := config.Config{Layers: 3, Hidden: 512, BatchSize: 300, Epochs: 1, Split: "split", Threads: 1}
	run := func(dev gpu.Device, memory int64) error {
		c.MemoryBytes = memory
		_, err := Node(t.Context(), st, dev, c, Hooks{})
		return err
	}
	onHost, onDevice := named(t, run(h, 1<<20)), named(t, run(own, 1<<20))
	if onDevice >= onHost {
		t.Errorf("a device of its own memory needs %d bytes of the host's, the host %d", onDevice, onHost)
	}
	if err := run(own, onDevice); err != nil {
		t.Errorf("within %d bytes: %v", onDevice, err)
	}
	if _, peak := h.AllocatedBytes(); peak < onHost-onDevice {
		t.Errorf("the device held %d bytes: expected what the host's budget has more, %d", peak, onHost-onDevice)
	}
}
