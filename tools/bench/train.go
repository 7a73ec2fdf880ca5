package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// TrainOptions configures [RunTrain]. The zero value of a field is its default,
// the one that docs/benchmarks.md quotes.
type TrainOptions struct {
	Dir          string // holds the generated stores, kept for the next run
	Nodes, Edges uint64 // of the R-MAT graph; default 2,000,000 and 30,000,000
	Classes      int    // default 64
	Dims         []int  // feature columns; default 128, 768. Beyond 256 they are stored as float16
	Models       []string
	Hidden       []int // default 128, 256
	Fanouts      []int // outward from the seeds; default 15, 10, 5
	BatchSize    int   // default 1000
	Batches      int   // a round; default 8
	Repeats      int   // rounds; default 5
	Threads      []int // default 1 and GOMAXPROCS; measured by turns in every round
	// Device trains instead of the host, on batches sampled by all threads; nil: the host.
	Device  gpu.Device
	BF16    bool // the host multiplies in bfloat16, on a processor that can
	Seed    uint64
	DumpDir string       // write the batches here, for another program; "" = not
	Log     func(string) // progress; nil = nobody
}

func (o *TrainOptions) defaults() {
	number := func(n *uint64, v uint64) {
		if *n == 0 {
			*n = v
		}
	}
	number(&o.Nodes, 2_000_000)
	number(&o.Edges, 30_000_000)
	list := func(l *[]int, v ...int) {
		if len(*l) == 0 {
			*l = v
		}
	}
	list(&o.Dims, 128, 768)
	list(&o.Hidden, 128, 256)
	list(&o.Fanouts, 15, 10, 5)
	if len(o.Models) == 0 {
		o.Models = []string{"sage", "gcn", "gat"}
	}
	if o.Device != nil {
		o.Threads = []int{runtime.GOMAXPROCS(0)}
	}
	list(&o.Threads, 1, runtime.GOMAXPROCS(0))
	o.Threads = slices.Compact(o.Threads)
	for _, d := range []struct {
		n *int
		v int
	}{{&o.Classes, 64}, {&o.BatchSize, 1000}, {&o.Batches, 8}, {&o.Repeats, 5}} {
		if *d.n == 0 {
			*d.n = d.v
		}
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
}

// TrainResult is one model on one number of threads: seconds per mini-batch,
// medians over the rounds of a round's mean. Stages run one after the other, so
// that Step is their sum: nothing is hidden behind anything else.
type TrainResult struct {
	Model    string  `json:"model"`
	Dim      int     `json:"dim"`
	Elem     string  `json:"elem"` // of the stored features
	Hidden   int     `json:"hidden"`
	Threads  int     `json:"threads"`
	Device   string  `json:"device"`
	Sample   float64 `json:"sample_s"`
	Gather   float64 `json:"gather_s"`   // feature rows: copied, or aggregated straight from the macro-batch
	Forward  float64 `json:"forward_s"`  // without Gather
	Backward float64 `json:"backward_s"` // with the loss
	Optimize float64 `json:"optimize_s"`
	// Busy is the device's time from a step's first operation to its last. On a device that is Async stages are the times of issuing them,
	// and Optimize has the wait for the results of the step before.
	Busy float64 `json:"device_s"`
	Step float64 `json:"step_s"`
	CPU  float64 `json:"cpu_s"` // of the process, for a whole step
	// Speedup is the first thread count's Step over this one's, the median of the rounds' ratios;
	// TrainSpeedup likewise without sampling.
	Speedup      float64 `json:"speedup"`
	TrainSpeedup float64 `json:"train_speedup"`
	Loss         float64 `json:"loss"` // mean over all steps: the same bits for every number of threads
	// Operations is the device's share of a training step by operation, in seconds, the largest first.
	Operations []OpSeconds `json:"operations"`
	Edges      float64     `json:"sampled_edges"` // per batch
	Inputs     float64     `json:"input_rows"`    // per batch
}

// OpSeconds is one operation's time per mini-batch.
type OpSeconds struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// RunTrain measures training steps on a generated R-MAT graph that is in
// memory whole; report is called with each result as it is known.
func RunTrain(ctx context.Context, o TrainOptions, report func(TrainResult)) error {
	o.defaults()
	for _, dim := range o.Dims {
		if err := o.dim(ctx, dim, report); err != nil {
			return fmt.Errorf("bench train: %d features: %w", dim, err)
		}
	}
	return nil
}

// dim measures all models on features of one width.
func (o *TrainOptions) dim(ctx context.Context, dim int, report func(TrainResult)) (err error) {
	s, err := o.open(ctx, dim)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // read only
	o.Log(fmt.Sprintf("reading %d nodes with %d features", o.Nodes, dim))
	it, err := buffer.Open(ctx, s, buffer.Options{Features: []string{"x"}, Labels: true, Pin: o.pin()})
	if err != nil {
		return err
	}
	defer it.Close() //nolint:errcheck // memory only
	parts := len(s.Manifest().Partitions)
	policy, err := macro.New(macro.Config{Policy: macro.Memory, Partitions: parts, Capacity: parts, Seed: o.Seed})
	if err != nil {
		return err
	}
	if err := it.Start(policy.Epoch(0)); err != nil {
		return err
	}
	if !it.Next() {
		return fmt.Errorf("no macro-batch: %w", it.Err())
	}
	mb := it.MacroBatch()
	seeds := mini.NewShuffled(keyed.New(o.Seed), mb.Seeds, o.BatchSize)
	if seeds.Batches() < o.Batches+1 {
		return fmt.Errorf("%d training nodes make %d batches of %d, expected %d and one to warm up", len(mb.Seeds), seeds.Batches(), o.BatchSize, o.Batches)
	}
	batches, err := o.sample(mb, seeds)
	if err != nil {
		return err
	}
	if o.DumpDir != "" {
		if err := o.dump(mb, batches, dim); err != nil {
			return err
		}
	}
	for _, model := range o.Models {
		for _, hidden := range o.Hidden {
			o.Log(fmt.Sprintf("%s, %d features, hidden %d", model, dim, hidden))
			results, err := o.model(ctx, mb, seeds, batches, model, hidden)
			if err != nil {
				return fmt.Errorf("%s, hidden %d: %w", model, hidden, err)
			}
			for _, r := range results {
				report(r)
			}
		}
	}
	return nil
}

// sample draws the measured batches, after one to warm up.
func (o *TrainOptions) sample(mb *buffer.MacroBatch, seeds *mini.Shuffled) ([]mini.Batch, error) {
	s, err := mini.New(mini.Config{Fanouts: o.Fanouts, Seed: o.Seed})
	if err != nil {
		return nil, err
	}
	batches := make([]mini.Batch, o.Batches+1)
	for i := range batches {
		rows, err := seeds.Seeds(i, nil, &batches[i])
		if err != nil {
			return nil, err
		}
		if err := s.Sample(mini.Key{Batch: i}, mini.Graph{In: mb.In}, rows, &batches[i]); err != nil {
			return nil, err
		}
	}
	return batches, nil
}

// pin page-locks the partition buffer for the device, once.
func (o *TrainOptions) pin() func(b []byte) (func() error, error) {
	if o.Device == nil {
		return nil
	}
	return gpu.Pin(o.Device)
}

// contender is one number of threads with a model of its own.
type contender struct {
	threads int
	dev     gpu.Device
	t       *train.Trainer
	loader  *mini.Loader
	ops     map[string]time.Duration
	rounds  []TrainResult
}

// model measures one model on all numbers of threads, by turns.
func (o *TrainOptions) model(ctx context.Context, mb *buffer.MacroBatch, seeds *mini.Shuffled, batches []mini.Batch, model string, hidden int) ([]TrainResult, error) {
	var cs []*contender
	defer func() {
		for _, c := range cs {
			_ = c.t.Close() // memory only, as the next two
			_ = c.loader.Close()
			if c.dev != o.Device {
				_ = c.dev.Close()
			}
		}
	}()
	for _, threads := range o.Threads {
		c, err := o.contender(ctx, mb, model, hidden, threads)
		if err != nil {
			return nil, err
		}
		cs = append(cs, c)
	}
	for round := range o.Repeats + 1 {
		for _, c := range cs {
			if err := o.round(ctx, c, mb, seeds, batches); err != nil {
				return nil, err
			}
			if round == 0 { // warmed up
				c.rounds = c.rounds[:0]
				clear(c.ops)
			}
		}
	}
	var results []TrainResult
	for _, c := range cs {
		r := o.summary(c, cs[0])
		r.Model, r.Hidden, r.Threads, r.Dim, r.Elem = model, hidden, c.threads, mb.Features[0].Dim, mb.Features[0].Type.String()
		for i := range batches[1:] {
			r.Edges += float64(batches[1+i].SampledEdges()) / float64(o.Batches)
			r.Inputs += float64(len(batches[1+i].Input)) / float64(o.Batches)
		}
		if len(results) > 0 && r.Loss != results[0].Loss {
			return nil, fmt.Errorf("the loss is %v on %d threads and %v on %d: it must not depend on them", r.Loss, r.Threads, results[0].Loss, results[0].Threads)
		}
		results = append(results, r)
	}
	return results, nil
}

func (o *TrainOptions) contender(ctx context.Context, mb *buffer.MacroBatch, model string, hidden, threads int) (*contender, error) {
	c := &contender{threads: threads, ops: make(map[string]time.Duration)}
	if c.dev = o.Device; c.dev == nil {
		c.dev = host.New(host.Options{Threads: threads, BF16: o.BF16, Observe: func(op string, took time.Duration) { c.ops[op] += took }})
	}
	cfg := config.Config{Model: model, Hidden: hidden, Fanouts: o.Fanouts, BatchSize: o.BatchSize, Threads: threads, Seed: o.Seed}
	var err error
	if c.t, err = train.NewTrainer(ctx, c.dev, cfg, mb.Features[0].Dim, o.Classes); err != nil {
		return nil, err
	}
	c.loader, err = mini.NewLoader(mini.Config{Fanouts: o.Fanouts, Seed: o.Seed}, mini.LoaderOptions{Threads: threads})
	return c, err
}

// gatherOps are the operations that read feature rows of the macro-batch.
var gatherOps = [...]string{"gather", "gather-aggregate"}

// round samples all batches on c's threads and then trains them.
func (o *TrainOptions) round(ctx context.Context, c *contender, mb *buffer.MacroBatch, seeds *mini.Shuffled, batches []mini.Batch) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.threads))
	n := float64(o.Batches)
	cpu, start := usage.CPUSeconds(), time.Now()
	c.loader.Start(ctx, mini.Key{}, mini.Graph{In: mb.In}, firstBatches{seeds, o.Batches})
	for c.loader.Next() {
	}
	if err := c.loader.Err(); err != nil {
		return err
	}
	r := TrainResult{Sample: time.Since(start).Seconds() / n}
	steps := make([]*mini.Batch, o.Batches)
	for i := range steps {
		steps[i] = &batches[1+i]
	}
	before := c.gathered()
	was, busy := c.t.Profile(), c.t.DeviceTime()
	start = time.Now()
	if err := c.t.Step(ctx, mb, steps...); err != nil {
		return err
	}
	p := c.t.Profile()
	r.Step = r.Sample + time.Since(start).Seconds()/n
	r.CPU = (usage.CPUSeconds() - cpu) / n
	r.Gather = (c.gathered() - before).Seconds() / n
	r.Forward = (p.Forward-was.Forward).Seconds()/n - r.Gather
	r.Backward = (p.Backward - was.Backward).Seconds() / n
	r.Optimize = (p.Optimize - was.Optimize).Seconds() / n
	r.Busy = (c.t.DeviceTime() - busy).Seconds() / n
	c.rounds = append(c.rounds, r)
	return nil
}

func (c *contender) gathered() time.Duration {
	var d time.Duration
	for _, op := range gatherOps {
		d += c.ops[op]
	}
	return d
}

// firstBatches is the first n batches of a source.
type firstBatches struct {
	mini.SeedSource
	n int
}

// Batches returns n.
func (f firstBatches) Batches() int { return f.n }

// summary is c's medians, with the speed-up over base.
func (o *TrainOptions) summary(c, base *contender) TrainResult {
	of := func(f func(i int) float64) float64 {
		v := make([]float64, len(c.rounds))
		for i := range v {
			v[i] = f(i)
		}
		return median(v)
	}
	r := TrainResult{
		Sample:   of(func(i int) float64 { return c.rounds[i].Sample }),
		Gather:   of(func(i int) float64 { return c.rounds[i].Gather }),
		Forward:  of(func(i int) float64 { return c.rounds[i].Forward }),
		Backward: of(func(i int) float64 { return c.rounds[i].Backward }),
		Optimize: of(func(i int) float64 { return c.rounds[i].Optimize }),
		Busy:     of(func(i int) float64 { return c.rounds[i].Busy }),
		Device:   c.dev.Info().Name,
		Step:     of(func(i int) float64 { return c.rounds[i].Step }),
		CPU:      of(func(i int) float64 { return c.rounds[i].CPU }),
		Speedup:  of(func(i int) float64 { return base.rounds[i].Step / c.rounds[i].Step }),
		TrainSpeedup: of(func(i int) float64 {
			return (base.rounds[i].Step - base.rounds[i].Sample) / (c.rounds[i].Step - c.rounds[i].Sample)
		}),
		Loss: c.t.Loss(),
	}
	for name, d := range c.ops {
		r.Operations = append(r.Operations, OpSeconds{name, d.Seconds() / float64(o.Batches*len(c.rounds))})
	}
	slices.SortFunc(r.Operations, func(a, b OpSeconds) int {
		if a.Seconds > b.Seconds {
			return -1
		}
		return 1
	})
	return r
}
