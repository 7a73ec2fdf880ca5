package training

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// linkFlags are the flags of train that only link prediction has.
func (o *trainOptions) linkFlags(fs *pflag.FlagSet) {
	l := &o.link
	fs.StringVar(&l.Encoder, "encoder", "", "link prediction: "+strings.Join(nn.Encoders(), ", ")+" (default none)")
	fs.IntVar(&l.Dim, "dim", 100, "link prediction: numbers of an embedding")
	fs.IntVar(&l.Negatives, "negatives", 500, "link prediction: wrong answers for each edge and side")
	fs.IntVar(&l.Chunks, "chunks", 10, "link prediction: groups of a batch's edges that share negatives")
	fs.Float64Var(&l.DegreeShare, "degree-share", 0, "link prediction: share of negatives drawn in proportion to degree, 0 to 1")
	fs.BoolVar(&o.removeBatchEdges, "remove-batch-edges", false, "link prediction: hide a batch's edges from the encoder while they are asked for (default: out of core)")
	fs.StringVar(&l.Optimizer, "optimizer", "adagrad", "link prediction: adagrad, or adam, which keeps two vectors of state a node instead of one")
	fs.StringVar(&l.Loss, "loss", "softmax", "link prediction: softmax, logistic or margin")
	fs.Float64Var(&l.LRDecay, "lr-decay", .5, "link prediction: share of the run, at its end, in which the learning rate falls linearly to 0; 0: never")
	fs.Float64Var(&o.margin, "margin", 1, "link prediction: margin of the margin loss")
	fs.IntVar(&l.Logical, "logical", 0, "link prediction: logical partitions of plan comet (default: so many that four fit in memory)")
	fs.StringVar(&l.Table, "table", "embeddings", "link prediction: the store's table of embeddings; an earlier run's is replaced")
	fs.IntVar(&l.KeepCheckpoints, "keep-checkpoints", 1, "link prediction: checkpoints that are kept, each as large as all embeddings and their state")
	fs.Uint64Var(&l.FromCheckpoint, "from-checkpoint", 0, "link prediction: with --resume, go back to the kept checkpoint of this number")
}

// unset makes the flags of linkFlags that were not given zero, which means the default, or what
// the run that is resumed began with.
func (o *trainOptions) unset(c *link.Config) {
	set := func(name string) bool { return slices.Contains(o.changed, name) }
	for name, v := range map[string]*int{"dim": &c.Dim, "negatives": &c.Negatives, "chunks": &c.Chunks, "keep-checkpoints": &c.KeepCheckpoints} {
		if !set(name) {
			*v = 0
		}
	}
	for name, v := range map[string]*string{"optimizer": &c.Optimizer, "loss": &c.Loss, "table": &c.Table} {
		if !set(name) {
			*v = ""
		}
	}
	if set("margin") {
		c.Margin = &o.margin
	}
	switch {
	case !set("lr-decay"):
		c.LRDecay = 0
	case c.LRDecay == 0:
		c.LRDecay = -1
	}
	if set("remove-batch-edges") {
		c.RemoveBatchEdges = &o.removeBatchEdges
	}
}

// linkOnly are the flags of train that mean nothing for node classification: those of linkFlags.
var linkOnly = []string{"encoder", "dim", "negatives", "chunks", "degree-share", "remove-batch-edges", "optimizer", "loss", "lr-decay", "margin", "logical", "table", "keep-checkpoints", "from-checkpoint"}

// nodeOnly are the flags of train that mean nothing for link prediction.
var nodeOnly = []string{"layers", "patience", "bases", "aggregator", "norm", "residual", "jumping", "hidden", "split", "history", "history-dtype", "label-shift", "absent", "weight-decay", "dropout", "input-dropout", "features", "precomputed-hop", "reuse", "order", "checkpoint-file"}

// linkConfig is what the flags mean for link prediction: those that both tasks
// have count if they were set, because the tasks' defaults differ.
func (o *trainOptions) linkConfig() (link.Config, error) {
	c, n := o.link, &o.Config
	set := func(name string) bool { return slices.Contains(o.changed, name) }
	for _, name := range nodeOnly {
		if set(name) {
			return c, command.Usagef("--%s is for node classification; the store's task is link prediction", name)
		}
	}
	o.unset(&c)
	if set("plan") {
		c.Plan = n.Plan
	}
	if set("model") {
		setLinkModel(&c, n.Model)
	}
	if set("fanouts") {
		c.Fanouts = n.Fanouts
	}
	if set("epochs") {
		c.Epochs = n.Epochs
	}
	if set("lr") {
		c.LR = n.LR
	}
	if set("batch-size") {
		c.BatchSize = n.BatchSize
	}
	if set("eval-every") {
		c.EvalEvery = n.EvalEvery
	}
	c.Heads, c.Buffer, c.Seed, c.MemoryBytes, c.IOEngine, c.Device, c.Threads = n.Heads, n.Buffer, n.Seed, int64(o.mem), n.IOEngine, n.Device, n.Threads
	c.DeviceMemoryBytes, c.MatMul = n.DeviceMemoryBytes, n.MatMul
	c.CheckpointEvery, c.Resume = n.CheckpointEvery, n.Resume
	if c.FromCheckpoint != 0 && !c.Resume {
		return c, command.Usagef("--from-checkpoint without --resume")
	}
	check := c
	if err := check.Normalize(); err != nil {
		return c, command.Usage(err)
	}
	switch {
	case set("margin") && check.Loss != "margin" && !c.Resume:
		return c, command.Usagef("--margin is for --loss margin, this is %s", check.Loss)
	case set("logical"):
		return c, checkLogical(check.Plan)
	}
	return c, nil
}

// checkLogical refuses --logical with a plan that has no logical partitions.
func checkLogical(plan string) error {
	if plan == macro.Memory || plan == macro.Beta {
		return command.Usagef("--logical is for plan comet, this is %s", plan)
	}
	return nil
}

// setLinkModel sets what --model means for link prediction: a decoder, or an encoder beside the default one.
func setLinkModel(c *link.Config, model string) {
	c.Model = model
	if model != "none" && slices.Contains(nn.Encoders(), model) {
		c.Model = nn.DistMult
		if c.Encoder == "" {
			c.Encoder = model
		}
	}
}

// runTrainLink trains embeddings, prints and records the run.
func runTrainLink(ctx context.Context, e *command.Env, st *store.Store, o *trainOptions) (err error) {
	cfg, err := o.linkConfig()
	if err != nil {
		return err
	}
	if o.save != "" {
		return command.Usagef("--save: embeddings stay in the store, as table %s: write them to files with gstore export --what embeddings", cmp.Or(cfg.Table, "embeddings"))
	}
	defer limitHeap(o.mem, st)()
	started := time.Now()
	hooks := linkHooks(e)
	if o.metrics != "" {
		record, done, merr := recordMetrics(o.metrics)
		if merr != nil {
			return merr
		}
		hooks.Macro = record
		defer func() { err = errors.Join(err, done()) }()
	}
	dev, err := device.Open(device.Options{Name: cfg.Device, Threads: cfg.Threads, MemoryBytes: cfg.DeviceMemoryBytes, MatMul: cfg.MatMul})
	if err != nil {
		return command.Usage(err)
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	r, err := link.Train(ctx, st, dev, cfg, hooks)
	if err != nil {
		return planError(err)
	}
	s := &r.Summary
	summary := linkSummary(r)
	n, finished, err := recordTrain(ctx, st.Dir(), r.Version, started, r.Config, summary, s.EpochSeconds, s.Resumed)
	if err != nil {
		fmt.Fprintf(e.Stderr, "gstore: the run is not recorded: %v\n", err)
	}
	if !finished {
		n = 0
	}
	if e.JSON {
		if finished {
			summary["finished_run"] = n
		}
		e.Event("summary", summary)
		return nil
	}
	printFinished(e, n, len(s.EpochSeconds))
	if r.Config.EvalEvery > 0 {
		fmt.Fprintf(e.Stdout, "test MRR %.4f, hits@1 %.4f, @3 %.4f, @10 %.4f (filtered, against all nodes); valid MRR %.4f\n", s.TestMRR, s.TestHits1, s.TestHits3, s.TestHits10, s.ValidMRR)
	}
	fmt.Fprintf(e.Stdout, "%.1f s (%.1f CPU s), %s peak memory, %s read; plan %s, %s, %s\n",
		s.TotalSeconds, s.CPUSeconds, command.FormatSize(s.PeakRSSBytes), command.FormatSize(s.BytesRead), s.Plan, s.Device, s.IOEngine)
	printProfile(e, s.Profile)
	fmt.Fprintf(e.Stdout, "embeddings: table %s of the store; %s written, %d checkpoints (%s)\n", s.Table, command.FormatSize(s.BytesWritten), s.Checkpoints, command.FormatSize(s.CheckpointBytes))
	return nil
}

// linkSummary is a run's summary, without the ranks where none were computed: 0 would be a result.
func linkSummary(r *link.Result) map[string]any {
	f := command.Fields(&r.Summary)
	if r.Config.EvalEvery < 0 {
		for name := range f {
			if strings.HasPrefix(name, "test_") || strings.HasPrefix(name, "valid_") {
				delete(f, name)
			}
		}
	}
	return f
}

// limitHeap keeps garbage out of a budget, until the returned function is called.
func limitHeap(mem command.Size, st *store.Store) func() {
	if mem == 0 {
		return func() {}
	}
	old := debug.SetMemoryLimit(link.HeapBytes(int64(mem), len(st.Manifest().Partitions)))
	return func() { debug.SetMemoryLimit(old) }
}

// linkHooks prints a line an epoch, or an event.
func linkHooks(e *command.Env) link.Hooks {
	if e.JSON {
		return link.Hooks{
			Start: func(c link.Config, why []string) { e.Event("start", map[string]any{"config": c, "why": why}) },
			Epoch: func(r link.Epoch) { e.Event("epoch", command.Fields(r)) },
			Checkpoint: func(number uint64, epochs, step, batch int) {
				e.Event("checkpoint", map[string]any{"number": number, "epochs": epochs, "step": step, "batch": batch})
			},
		}
	}
	return link.Hooks{
		Start: func(c link.Config, why []string) {
			fmt.Fprintf(e.Stdout, "plan %s: %s\n", c.Plan, strings.Join(why, "; "))
			fmt.Fprintf(e.Stdout, "%5s  %8s  %9s  %7s  %8s  %8s  %10s\n", "epoch", "loss", "valid MRR", "hits@10", "seconds", "CPU s", "read")
		},
		Epoch: func(r link.Epoch) {
			mrr, hits := "", ""
			if r.Valid != nil {
				mrr, hits = fmt.Sprintf("%.4f", r.Valid.MRR), fmt.Sprintf("%.4f", r.Valid.Hits10)
			}
			fmt.Fprintf(e.Stdout, "%5d  %8.4f  %9s  %7s  %8.3f  %8.3f  %10s\n", r.Epoch, r.Loss, mrr, hits, r.Seconds, r.CPUSeconds, command.FormatSize(r.BytesRead))
		},
	}
}
