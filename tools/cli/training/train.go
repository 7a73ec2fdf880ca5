// Package training holds the commands that train a model, show what training would do and use what was trained: train,
// plan, eval and demo. One file a command, and one for what is particular to link prediction.
package training

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// trainOptions are the flags of train.
type trainOptions struct {
	train.Config
	link    link.Config // what only link prediction has; see linkConfig
	changed []string    // flags that were set
	dropout float64
	mem     command.Size
	// deviceMem is --device-mem.
	deviceMem command.Size
	reuse     string
	config    string
	save      string
	metrics   string
	explain   bool
	reads     readFlags

	removeBatchEdges bool
	margin           float64
}

func (o *trainOptions) flags(fs *pflag.FlagSet) {
	c := &o.Config
	fs.StringVar(&c.Task, "task", "auto", "auto (the store's), node or link")
	fs.StringVar(&c.Model, "model", "sage", "node classification: "+strings.Join(nn.Models(), ", ")+"; link prediction: "+strings.Join(nn.Decoders(), ", ")+" (there, distmult if not given)")
	fs.IntVar(&c.Heads, "heads", 0, "attention heads of gat: side by side in hidden layers, averaged in the last (default 4)")
	fs.IntVar(&c.Bases, "bases", 0, "matrices of which rgcn's relations are sums (default 4)")
	fs.StringVar(&c.Aggregator, "aggregator", "mean", "how sage combines neighbours: mean or max")
	fs.StringVar(&c.Norm, "norm", "none", "of hidden layers: none, batch or layer")
	fs.BoolVar(&c.Residual, "residual", false, "add a hidden layer's input to its output")
	fs.StringVar(&c.Jumping, "jumping", "last", "what the last product sees: last layer, or all layers by cat or max")
	fs.IntVar(&c.Layers, "layers", 0, "layers of the model (default: one a fanout, or 2)")
	fs.IntVar(&c.Hidden, "hidden", 128, "columns between layers")
	fs.IntSliceVar(&c.Fanouts, "fanouts", nil, "neighbours sampled per node and hop, outward from the targets, -1 for all (default 15,10,5; with --encoder 20)")
	fs.IntVar(&c.BatchSize, "batch-size", 1000, "target nodes or edges of a mini-batch")
	fs.Var((*epochsFlag)(&c.Epochs), "epochs", "passes over the training nodes or edges; auto: until the validation accuracy has not risen for --patience epochs (link prediction: default 8)")
	fs.IntVar(&c.Patience, "patience", 20, "with --epochs auto: how many epochs the validation accuracy may not rise")
	fs.Float64Var(&c.LR, "lr", .005, "learning rate of Adam (link prediction: of the optimiser, default .1 of adagrad, .003 of adam)")
	fs.Float64Var(&c.WeightDecay, "weight-decay", 0, "L2 penalty, added to the gradient")
	fs.Float64Var(&o.dropout, "dropout", .5, "probability with which hidden values are dropped")
	fs.Float64Var(&c.InputDropout, "input-dropout", 0, "probability with which values of the first layer's input are dropped")
	fs.Uint64Var(&c.Seed, "seed", 0, "of every random choice: the same seed gives the same losses to the bit")
	fs.StringSliceVar(&c.Features, "features", nil, "feature columns (default: those computed from no other, and with --precomputed-hop the mean of the only one)")
	fs.StringVar(&c.Split, "split", "", "split column (default: the store's first)")
	fs.StringVar(&c.Order, "order", "auto", "which product of a sage or gcn layer comes first: auto (by the first mini-batch's sizes), aggregate or multiply")
	fs.BoolVar(&c.History, "history", false, "add the last layer's means what hidden states neighbours outside memory had at the start of the epoch")
	fs.StringVar(&c.HistoryDtype, "history-dtype", "", "what --history keeps them as: float32, float16 or bfloat16 (default: float32, float16 where features take 16 bits or fewer)")
	fs.StringVar(&c.Absent, "absent", "auto", "neighbours out of memory: auto, --precomputed-hop and --history where the store and the model allow; or ignore")
	fs.StringVar(&c.LabelShift, "label-shift", "auto", "correct the loss of steps whose classes are not mixed as the graph's: auto or off")
	fs.BoolVar(&c.PrecomputedHop, "precomputed-hop", false, "read the first layer's neighbourhood mean from the column that gstore precompute made")
	fs.StringVar(&c.Plan, "plan", "auto", "auto, memory, hanoi or trainnodes, for link prediction comet or beta: which partitions are in memory when")
	fs.IntVar(&c.Buffer, "buffer", 0, "partitions in memory at once, pinned ones not counted (default: what --mem allows)")
	fs.StringVar(&o.reuse, "reuse", "0", "hanoi: extra passes over each macro-batch, 0 to 4; auto, as many as fit while the next is read, which depends on timing; or replay:FILE, those of an earlier run, from its --json")
	fs.Var(&o.mem, "mem", "memory bound of the whole run, such as 4GiB (default: none)")
	fs.StringVar(&c.IOEngine, "io-engine", "auto", "auto, io_uring, pread or mmap")
	o.reads.flags(fs)
	fs.StringVar(&c.Device, "device", "auto", device.Names)
	fs.Var(&o.deviceMem, "device-mem", "memory of a GPU that may be allocated (default: what is free, less a tenth)")
	fs.StringVar(&c.MatMul, "matmul", "", "how a GPU multiplies: exact (errors as of float32), tf32 or bf16 (faster) (default exact)")
	fs.IntVar(&c.Threads, "threads", 0, "processors to use (default: all)")
	fs.IntVar(&c.EvalEvery, "eval-every", 1, "epochs between exact validations (link prediction: -1 for none, not even of the last epoch)")
	fs.StringVar(&c.CheckpointEvery, "checkpoint-every", "", "epochs (1), mini-batches (500steps) or time (10m) between checkpoints; 0: only at the end (default 10m; link prediction: 1)")
	fs.BoolVar(&c.Resume, "resume", false, "go on from the last checkpoint with the flags that the run began with; where there is none, begin")
	fs.StringVar(&c.CheckpointFile, "checkpoint-file", "", "node classification: file of the last checkpoint (default: in the store, of its last run)")
	o.linkFlags(fs)
	command.ConfigFlag(fs, &o.config)
}

// resolve finishes the options once flags are parsed.
func (o *trainOptions) resolve(cmd *cobra.Command) error {
	if err := command.ApplyConfig(cmd, o.config); err != nil {
		return err
	}
	cmd.Flags().Visit(func(f *pflag.Flag) { o.changed = append(o.changed, f.Name) })
	if err := refuseZeros(cmd.Flags()); err != nil {
		return err
	}
	o.MemoryBytes, o.DeviceMemoryBytes = int64(o.mem), int64(o.deviceMem)
	o.Dropout = &o.dropout
	switch o.Task {
	case "auto":
		o.Task = ""
	case "", "node", "link":
	default:
		return command.Usagef("--task %s: expected auto, node or link", o.Task)
	}
	if o.Layers > 0 && len(o.Fanouts) > o.Layers {
		return command.Usagef("--fanouts %v has more entries than --layers %d", o.Fanouts, o.Layers)
	}
	return o.parseReuse()
}

// epochsFlag is a number of epochs, 0 for auto.
type epochsFlag int

func (n *epochsFlag) String() string {
	if *n == 0 {
		return "auto"
	}
	return strconv.Itoa(int(*n))
}

// Set reads a number or auto.
func (n *epochsFlag) Set(s string) error {
	if s == "auto" {
		*n = 0
		return nil
	}
	i, err := strconv.Atoi(s)
	if err != nil || i < 1 {
		return fmt.Errorf("--epochs %s: expected more, a number from 1 on, or auto", s)
	}
	*n = epochsFlag(i)
	return nil
}

// Type names what the flag takes, for the help.
func (n *epochsFlag) Type() string { return "n|auto" }

// positive are the flags whose 0 would mean the default, which nobody means who writes it.
var positive = []string{"heads", "bases", "layers", "hidden", "batch-size", "epochs", "patience", "lr", "eval-every", "dim", "negatives", "chunks", "keep-checkpoints"}

// refuseZeros refuses 0 for those of the positive flags that a command has.
func refuseZeros(fs *pflag.FlagSet) error {
	for _, name := range positive {
		if f := fs.Lookup(name); f != nil && f.Changed && f.Value.String() == "0" {
			return command.Usagef("--%s 0: expected more; leave the flag out for its default", name)
		}
	}
	return nil
}

// checkNode finishes and checks the options of node classification.
func (o *trainOptions) checkNode() error {
	for _, name := range linkOnly {
		if slices.Contains(o.changed, name) {
			return command.Usagef("--%s is for link prediction; the store's task is node classification", name)
		}
	}
	if o.Resume {
		o.unsetNode()
	}
	check := o.Config    // Normalize fills a copy in: the file's defaults are train's own
	check.Resume = false // its file may not be named yet
	if err := check.Normalize(); err != nil {
		return command.Usage(err)
	}
	return nil
}

// parseReuse reads --reuse, and the record that it names.
func (o *trainOptions) parseReuse() (err error) {
	path, replay := strings.CutPrefix(o.reuse, "replay:")
	if !replay {
		o.Reuse, err = parseReuse(o.reuse)
		return err
	}
	o.Reuse, o.ReusePasses = macro.ReuseAuto, [][]int{}
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--reuse: %w", err)
	}
	n := 0
	for line := range bytes.Lines(b) {
		n++
		var e struct {
			Event  string `json:"event"`
			Passes []int  `json:"passes"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return command.Usagef("--reuse: %s, line %d: %v", path, n, err)
		}
		if e.Event == "epoch" && e.Passes != nil {
			o.ReusePasses = append(o.ReusePasses, e.Passes)
		}
	}
	if len(o.ReusePasses) == 0 {
		return command.Usagef("--reuse: %s has no epochs of a run with --reuse auto", path)
	}
	return nil
}

// NewTrain is the command gstore train.
func NewTrain(e *command.Env) *cobra.Command {
	var o trainOptions
	cmd := &cobra.Command{
		Use:   "train STORE",
		Short: "Train a graph neural network on a store",
		Long: `Train a graph neural network on a store, in memory or out of core. The task is
the store's: node classification where nodes have labels, link prediction with
learned embeddings where there are lists of edges to predict.

After each epoch the validation accuracy is computed with all neighbours over
the whole graph; the best epoch's model is kept, tested, and saved with the
store (STORE/runs) or where --save says. Link prediction reports filtered ranks
of both ends against all nodes; its result is the last epoch's model, not the
best one's: --keep-checkpoints keeps earlier ones, which gstore eval ranks with
--checkpoint. Its embeddings and their optimiser state live in
the store, as a table: partitions of them are read, trained and written back
(plan comet).

Checkpoints make any run one that --resume goes on with after any end, in the
middle of an epoch too, to the same bits: every ten minutes for node
classification, every epoch for link prediction, or as --checkpoint-every says.`,
		Example: "  gstore train cora.gstore --layers 2 --epochs 60 --weight-decay 5e-4\n" +
			"  gstore train papers.gstore --plan hanoi --mem 16GiB --layers 3 --fanouts 15,10,5\n" +
			"  gstore train fb15k-237.gstore --model distmult --encoder sage --dim 100\n" +
			"  gstore train wikidata.gstore --plan comet --mem 16GiB --checkpoint-every 10m   # and after a crash: --resume",
		Args: command.ExactArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.resolve(cmd); err != nil {
				return err
			}
			_, err := runTrain(cmd.Context(), e, args[0], &o)
			return err
		},
	}
	o.flags(cmd.Flags())
	cmd.Flags().StringVar(&o.metrics, "metrics", "", "write measurements of every step to this file of JSON lines, for \"gstore report\"")
	cmd.Flags().BoolVar(&o.explain, "explain", false, "say why the plan was chosen, and how and why each layer is computed")
	cmd.Flags().StringVar(&o.save, "save", "", "file for the trained model (default: in the store)")
	return cmd
}

// unsetNode makes what was not asked for zero, which means what the run that is resumed began with.
func (o *trainOptions) unsetNode() {
	c := &o.Config
	set := func(name string) bool { return slices.Contains(o.changed, name) }
	for name, v := range map[string]*string{"model": &c.Model, "aggregator": &c.Aggregator, "norm": &c.Norm, "jumping": &c.Jumping} {
		if !set(name) {
			*v = ""
		}
	}
	for name, v := range map[string]*int{"hidden": &c.Hidden, "batch-size": &c.BatchSize, "epochs": &c.Epochs, "patience": &c.Patience, "eval-every": &c.EvalEvery} {
		if !set(name) {
			*v = 0
		}
	}
	if !set("lr") {
		c.LR = 0
	}
	if !set("dropout") {
		c.Dropout = nil
	}
}

// lastRun is where a store keeps the last checkpoint of its last run of node classification, below runsDir.
const lastRun = "last.gsr"

// checkpointFile names the file of the run's checkpoints and keeps other processes from it until unlock. A store
// that cannot be written to, or in which another run is under way, is trained on without, unless checkpoints were asked for.
func (o *trainOptions) checkpointFile(e *command.Env, dir string) (unlock func() error, err error) {
	asked := o.Resume || o.CheckpointFile != "" || slices.Contains(o.changed, "checkpoint-every")
	if o.CheckpointFile == "" {
		o.CheckpointFile = filepath.Join(dir, runsDir, lastRun)
		err = os.MkdirAll(filepath.Dir(o.CheckpointFile), 0o777)
	}
	var lock io.Closer
	if err == nil {
		lock, err = vfs.Default.Lock(o.CheckpointFile + ".lock")
	}
	switch {
	case err == nil:
		return lock.Close, nil
	case asked:
		return nil, fmt.Errorf("checkpoints in %s: %w: if another run is under way, name another file with --checkpoint-file", o.CheckpointFile, err)
	}
	fmt.Fprintf(e.Stderr, "gstore: this run cannot be resumed: checkpoints in %s: %v\n", o.CheckpointFile, err)
	o.CheckpointFile = ""
	return func() error { return nil }, nil
}

// recordMetrics opens a metrics file: record appends an epoch, done closes the
// file and returns the first error.
func recordMetrics(path string) (record func(buffer.Stats), done func() error, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, err
	}
	w := metrics.NewWriter(f)
	var failed error
	record = func(s buffer.Stats) {
		if failed == nil {
			failed = w.Epoch(s)
		}
	}
	return record, func() error { return errors.Join(failed, f.Close()) }, nil
}

// runTrain trains, prints, records the run and saves the model.
func runTrain(ctx context.Context, e *command.Env, dir string, o *trainOptions) (_ *train.Checkpoint, err error) {
	defer command.LimitThreads(o.Threads)()
	st, err := o.reads.open(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := st.Close(); err == nil {
			err = cerr
		}
	}()
	if task := st.Manifest().Schema.Task; o.Task == "link" || o.Task == "" && task == store.TaskLink {
		return nil, runTrainLink(ctx, e, st, o)
	}
	if err := o.checkNode(); err != nil {
		return nil, err
	}
	started := time.Now()
	unlock, err := o.checkpointFile(e, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	hooks := trainHooks(e)
	if o.explain {
		hooks.Choices = func(cs []nn.Choice) { explain(e, cs) }
		hooks.Plan = func(why []string) {
			e.Event("plan", map[string]any{"why": why})
			if !e.JSON {
				fmt.Fprintf(e.Stdout, "plan: %s\n", strings.Join(why, "\n      "))
			}
		}
	}
	if o.metrics != "" {
		record, done, merr := recordMetrics(o.metrics)
		if merr != nil {
			return nil, merr
		}
		hooks.Macro = record
		defer func() { err = errors.Join(err, done()) }()
	}
	dev, err := device.Open(device.Options{Name: o.Device, Threads: o.Threads, MemoryBytes: o.DeviceMemoryBytes, MatMul: o.MatMul})
	if err != nil {
		return nil, command.Usage(err)
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	cp, err := train.Node(ctx, st, dev, o.Config, hooks)
	if err != nil {
		return nil, planError(err)
	}
	s := &cp.Summary
	path, finished, err := saveRun(ctx, dir, o.save, started, cp)
	if err != nil { // the model is trained: a store that cannot be written to must not lose the result
		fmt.Fprintf(e.Stderr, "gstore: the run is not recorded: %v\n", err)
	}
	if e.JSON {
		e.Event("summary", summaryFields(s, path, finished))
		return cp, nil
	}
	printFinished(e, finished, len(s.EpochSeconds))
	if o.Epochs == 0 && len(s.EpochSeconds) < train.EpochsMax && s.BestEpoch < len(s.EpochSeconds) {
		fmt.Fprintf(e.Stdout, "ended after %d epochs: validation has not risen since epoch %d\n", len(s.EpochSeconds), s.BestEpoch)
	}
	fmt.Fprintf(e.Stdout, "test accuracy %.2f %%, valid %.2f %%, best epoch %d of %d\n", 100*s.TestAccuracy, 100*s.ValidAccuracy, s.BestEpoch, len(s.EpochSeconds))
	fmt.Fprintf(e.Stdout, "%.1f s (%.1f CPU s), %s peak memory, %s read; plan %s, %s, %s\n",
		s.TotalSeconds, s.CPUSeconds, command.FormatSize(s.PeakRSSBytes), command.FormatSize(s.BytesRead), s.Plan, s.Device, s.IOEngine)
	printProfile(e, s.Profile)
	if path != "" {
		fmt.Fprintf(e.Stdout, "model: %s\n", path)
	}
	return cp, nil
}

// planError makes a plan that does not exist the user's mistake.
func planError(err error) error {
	if errors.Is(err, macro.ErrPlan) {
		return command.Usage(err)
	}
	return err
}

// explain says how a model's layers are computed.
func explain(e *command.Env, cs []nn.Choice) {
	e.Event("choices", map[string]any{"layers": cs})
	if e.JSON {
		return
	}
	for _, c := range cs {
		fmt.Fprintf(e.Stdout, "layer %d: %d of %d nodes, %d edges, %d → %d columns: ", c.Layer, c.Destinations, c.Sources, c.Edges, c.In, c.Out)
		if c.First != "" {
			fmt.Fprint(e.Stdout, c.First, ", ")
		}
		fmt.Fprint(e.Stdout, c.Why)
		if c.MultiplyMicros > 0 {
			fmt.Fprintf(e.Stdout, " (aggregate first %.2f ms, multiply first %.2f ms on a core)", float64(c.AggregateMicros)/1e3, float64(c.MultiplyMicros)/1e3)
		}
		switch {
		case c.InputGradient:
			fmt.Fprintln(e.Stdout, "; backward along the transposed graph")
		case c.First == nn.AggregateFirst.String():
			fmt.Fprintln(e.Stdout, "; edges read feature rows in place; the features have no gradient")
		default:
			fmt.Fprintln(e.Stdout, "; feature rows are copied once; the features have no gradient")
		}
	}
}

// printProfile says where training's time went.
func printProfile(e *command.Env, p progress.Profile) {
	fmt.Fprintf(e.Stdout, "training time: wait for macro-batches %.2f s, for samples %.2f s, forward %.2f s, backward %.2f s, optimiser %.2f s\n",
		p.Wait.Seconds(), p.Sample.Seconds(), p.Forward.Seconds(), p.Backward.Seconds(), p.Optimize.Seconds())
}

// trainHooks prints a line an epoch, or an event.
func trainHooks(e *command.Env) train.Hooks {
	if e.JSON {
		return train.Hooks{
			Start: func(c train.Config) { e.Event("start", map[string]any{"config": c}) },
			Epoch: func(r train.Epoch) { e.Event("epoch", command.Fields(r)) },
			Checkpoint: func(epochs, step, batch int) {
				e.Event("checkpoint", map[string]any{"epochs": epochs, "step": step, "batch": batch})
			},
		}
	}
	return train.Hooks{
		Start: func(train.Config) {
			fmt.Fprintf(e.Stdout, "%5s  %8s  %7s  %7s  %6s  %8s  %10s\n", "epoch", "loss", "train %", "valid %", "test %", "seconds", "read")
		},
		Epoch: func(r train.Epoch) {
			valid, test, mark := "", "", " "
			if r.ValidAccuracy >= 0 {
				valid, test = fmt.Sprintf("%.2f", 100*r.ValidAccuracy), fmt.Sprintf("%.2f", 100*r.TestAccuracy)
			}
			if r.Best {
				mark = "*"
			}
			fmt.Fprintf(e.Stdout, "%5d  %8.4f  %7.2f  %6s%s  %6s  %8.3f  %10s\n", r.Epoch, r.Loss, 100*r.TrainAccuracy, valid, mark, test, r.Seconds, command.FormatSize(r.BytesRead))
		},
	}
}

// printFinished says that a run that was resumed had nothing left to do, if finished is its number.
func printFinished(e *command.Env, finished uint64, epochs int) {
	if finished > 0 {
		fmt.Fprintf(e.Stdout, "run %d is finished: all %d epochs were trained before; its result:\n", finished, epochs)
	}
}

func summaryFields(s *train.Summary, model string, finished uint64) map[string]any {
	f := command.Fields(s)
	if finished > 0 {
		f["finished_run"] = finished
	}
	f["model_file"] = model
	return f
}

// saveRun records the run in the store's history and saves the model, by default as [modelFile]. It returns the model's
// path, and the run's number if it had finished before.
func saveRun(ctx context.Context, dir, path string, started time.Time, cp *train.Checkpoint) (_ string, finished uint64, err error) {
	n, again, err := recordTrain(ctx, dir, cp.Version, started, cp.Config, cp.Summary, cp.Summary.EpochSeconds, cp.Summary.Resumed)
	if err == nil && path == "" {
		path = modelFile(dir, n)
		err = os.MkdirAll(filepath.Dir(path), 0o777)
	}
	if path == "" || err != nil {
		return "", 0, err
	}
	if again {
		finished = n
	}
	return path, finished, cp.SaveFile(path)
}
