// Package training holds the commands that train a model, show what training would do and use what was trained: train,
// plan, eval and demo. One file a command, and one for what is particular to link prediction.
package training

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/gpu/temporal"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/baseline"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// trainOptions are the flags of train: the configurations of both tasks, whose fields say what flags they are, and what is
// train's alone.
type trainOptions struct {
	node    config.Config
	link    link.Config
	moments temporal.Config
	targets targets.Config
	bound   *command.Options // nil where no flags were parsed

	task    string
	reuse   string
	config  string
	save    string
	metrics string
	board   string
	explain bool
	reads   readFlags
	// overwrite lets a run replace an earlier one's table.
	overwrite bool
	baselines bool
	seeds     int
	enough    func(train.Epoch) bool // of a sweep: whether a run is given up; nil: none is
}

// Tasks, as messages name them.
const (
	nodeTask = "node classification"
	linkTask = "link prediction"
	timeTask = "temporal link prediction"

	targetsTask = "targets of rows"
)

// bindTasks makes the flags that follow from the tasks' tables of options; m and x may be nil. reuse is what --x reuse says, which may be
// the name of a file.
func bindTasks(fs *pflag.FlagSet, n *config.Config, reuse *string, l *link.Config, m *temporal.Config, x *targets.Config) *command.Options {
	node := config.Options().Bind(n)
	for i := range node.Fields {
		if f := &node.Fields[i]; f.Flag == "reuse" {
			f.Value = reflect.ValueOf(reuse).Elem()
		}
	}
	tasks := []options.Bound{node, link.Options().Bind(l)}
	if m != nil {
		tasks = append(tasks, temporal.Options().Bind(m))
	}
	if x != nil {
		tasks = append(tasks, targets.Options().Bind(x))
	}
	return command.Bind(fs, tasks...)
}

func (o *trainOptions) flags(fs *pflag.FlagSet) {
	fs.StringVar(&o.task, "task", "auto", "auto (the store's), node, link, temporal: the edges that come next, of a store whose edges have times (auto where it has nothing else to learn); or targets: of rows of a database, as --targets has them")
	o.bound = bindTasks(fs, &o.node, &o.reuse, &o.link, &o.moments, &o.targets)
	o.reads.flags(fs)
	command.ScratchFlag(fs, &o.reads.scratch)
	command.ConfigFlag(fs, &o.config)
	fs.StringVar(&o.metrics, "metrics", "", "write what every epoch came to and measurements of every step, which the store keeps (STORE/runs), to this file of JSON lines too")
	fs.StringVar(&o.board, "tensorboard", "", "write the settings, and of every epoch loss, accuracy or ranks and times, to an event file in this folder")
	fs.BoolVar(&o.explain, "explain", false, "before training say why the plan was chosen, and how and why each layer is computed; gstore plan says the first without training")
	fs.BoolVar(&o.baselines, "baselines", true, "compute beside a result of nodes what the most frequent class and the same model without edges come to, in a tenth of the run's work")
	fs.StringVar(&o.save, "save", "", "file for the trained model (default: in the store)")
	fs.BoolVar(&o.overwrite, "overwrite", false, "replace an earlier run's table: of link prediction's embeddings, or of vectors learned of nodes without features")
	for name, group := range map[string]string{"task": "data", "version": "data,expert", "metrics": "input and output", "tensorboard": "input and output,expert", "scratch": "out of core,expert", "save": "input and output", "overwrite": "checkpoints",
		"baselines": "data,expert", "explain": "out of core", "config": "input and output", "io-gap": "input and output,expert", "io-request": "input and output,expert", "io-depth": "input and output,expert"} {
		command.Group(fs.Lookup(name), group)
	}
	command.Values(fs.Lookup("task"), "auto", "node", "link", "temporal", "targets")
	command.Alias(fs, "order", "product-order")
}

// resolve finishes the options once flags are parsed.
func (o *trainOptions) resolve(cmd *cobra.Command) error {
	if err := command.ApplyConfig(cmd, o.config); err != nil {
		return err
	}
	if err := o.bound.Validate(); err != nil {
		return err
	}
	o.node.Given, o.link.Given, o.moments.Given, o.targets.Given = o.bound.Given(), o.bound.Given(), o.bound.Given(), o.bound.Given()
	o.node.Model = cmp.Or(o.node.Model, config.ModelAuto)
	if !slices.Contains([]string{"auto", "node", "link", "temporal", "targets"}, o.task) {
		return command.Usagef("--task %s: expected auto, node, link, temporal or targets", o.task)
	}
	if o.task == "auto" && o.targets.Targets != "" {
		o.task = "targets"
	}
	return o.parseReuse()
}

// checkNode checks the options of node classification.
func (o *trainOptions) checkNode(m *store.Manifest) error {
	if err := o.bound.Check(nodeTask); err != nil {
		return err
	}
	if err := checkColumns(m, o.node.Features, o.node.Split); err != nil {
		return err
	}
	check := o.node      // Normalize fills a copy in: the file's defaults are train's own
	check.Resume = false // its file may not be named yet
	check.Fit(m)
	if err := check.Normalize(); err != nil {
		return command.Usage(err)
	}
	return nil
}

// learnsMoments reports whether edges that come next are all that can be learned of a store.
func learnsMoments(m *store.Manifest) bool {
	_, err := m.TimeColumn()
	return err == nil && m.Labels() == nil && len(m.EdgeLists) == 0 && m.Task() == ""
}

// checkLabels refuses a store that has nothing to learn, with what to ingest.
func checkLabels(m *store.Manifest, dir string) error {
	var labels, splits bool
	for _, c := range m.Columns {
		labels, splits = labels || c.Role == store.RoleLabel, splits || c.Role == store.RoleSplit
	}
	switch {
	case !labels && len(m.EdgeLists) == 0:
		return command.Usagef("%s has no labels, and no lists of edges to predict: there is nothing to learn; gstore append %[1]s --nodes TABLE --label COLUMN gives its nodes labels, and an ingest with --split-random 90/5/5 keeps some of its edges to predict", dir)
	case !labels:
		return command.Usagef("%s has no labels to learn: gstore append %[1]s --nodes TABLE --label COLUMN gives its nodes some; or predict its edges with --task link", dir)
	case !splits:
		return command.Usagef("%s has labels, but no split that says which nodes train: gstore append %[1]s --split-random 60/20/20 divides them, or --nodes TABLE with a column split", dir)
	}
	return nil
}

// parseReuse reads --x reuse, and the record that it names.
func (o *trainOptions) parseReuse() (err error) {
	path, replay := strings.CutPrefix(o.reuse, "replay:")
	if !replay {
		o.node.Reuse, err = parseReuse(o.reuse)
		return err
	}
	o.node.Reuse, o.node.ReusePasses = macro.ReuseAuto, [][]int{}
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--x reuse: %w", err)
	}
	n := 0
	for line := range bytes.Lines(b) {
		n++
		var e struct {
			Event  string `json:"event"`
			Passes []int  `json:"passes"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return command.Usagef("--x reuse: %s, line %d: %v", path, n, err)
		}
		if e.Event == "epoch" && e.Passes != nil {
			o.node.ReusePasses = append(o.node.ReusePasses, e.Passes)
		}
	}
	if len(o.node.ReusePasses) == 0 {
		return command.Usagef("--x reuse: %s has no epochs of a run with --x reuse=auto", path)
	}
	return nil
}

// NewTrain is the command gstore train.
func NewTrain(e *command.Env) *cobra.Command { return newTrain(e, &trainOptions{}) }

func newTrain(e *command.Env, o *trainOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "train STORE",
		Short: "Train a graph neural network on a store",
		Long: `Train a graph neural network on a store, in memory or out of core. The task is
the store's: node classification where nodes have labels, link prediction with
learned embeddings where there are lists of edges to predict, and else, where
edges have times, the edges that come next.

After each epoch the validation accuracy is computed with all neighbours over
the whole graph; the best epoch's model is kept, tested, and saved with the
store (STORE/runs) or where --save says. Link prediction reports filtered ranks
of both ends against all nodes; the last epoch's model is the result. A run that is
given no --epochs, and has more than 8 or a --patience, goes back to the best epoch
once validation has not improved for so many, and on with a falling learning rate;
given no --lr either, it tries .1 and .3 for a few epochs first, and takes the better.
Link prediction's embeddings and their optimiser state live in the
store, as a table: partitions of them are read, trained and written back (plan
comet). With --features an encoder reads nodes' features, projected and added to
their embeddings, or with --no-embeddings alone: then nodes that were appended
after training are predicted as well. --task temporal, of a store whose edges have times, predicts where a
node's next edge leads from edges strictly before it, in memory: the first edges
train, the last ones test, the model is saved likewise. --targets FOLDER, of the
store of a database, predicts targets of rows at moments from what was known
then, as the folder's training table has them: yes or no, or a number.

Checkpoints make any run one that --resume goes on with after any end, in the
middle of an epoch too, to the same bits: every ten minutes for node
classification, every epoch for link prediction, or as --checkpoint-every says,
and where Ctrl-C or SIGTERM ends it.`,
		Example: "  gstore train cora.gstore --layers 2 --epochs 60 --weight-decay 5e-4\n" +
			"  gstore train papers.gstore --plan hanoi --mem 16GiB --layers 3 --fanouts 15,10,5\n" +
			"  gstore train fb15k-237.gstore --model distmult --encoder sage --dim 100\n" +
			"  gstore train friends.gstore --features x --encoder sage --layers 2 --fanouts 15,10 --no-embeddings\n" +
			"  gstore train wikidata.gstore --plan comet --mem 16GiB --checkpoint-every 10m   # and after a crash: --resume\n" +
			"  gstore train edits.gstore --task temporal --sampler latest --fanouts 10\n" +
			"  gstore train f1.gstore --targets rel-f1/tasks/driver-dnf",
		Args: command.StoreArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.resolve(cmd); err != nil {
				return err
			}
			if o.seeds != 1 {
				return runSeeds(cmd.Context(), e, args[0], o)
			}
			_, err := runTrain(cmd.Context(), e, args[0], o)
			return err
		},
	}
	o.flags(cmd.Flags())
	f := cmd.Flags()
	f.IntVar(&o.seeds, "seeds", 1, "of nodes: train so many times, with --seed and those that follow it, and print mean and deviation of the results")
	command.Group(f.Lookup("seeds"), command.GroupOf(f.Lookup("seed")))
	return cmd
}

// Where a store keeps the last checkpoint of its last run of node classification and of edges at moments, below runsDir.
const (
	lastRun         = "last.gsr"
	lastTemporalRun = "last-temporal.gsr"
	lastTargetsRun  = "last-targets.gsr"
)

// checkpointFile names the file of the run's checkpoints, in the store's folder of runs where file is empty, and keeps other processes from it until unlock. A store
// that cannot be written to, or in which another run is under way, is trained on without, unless checkpoints were asked for.
func checkpointFile(e *command.Env, dir, name string, file *string, asked bool) (unlock func() error, err error) {
	asked = asked || *file != ""
	if *file == "" {
		*file = filepath.Join(dir, runsDir, name)
		err = makeRuns(dir)
	}
	var lock io.Closer
	if err == nil {
		lock, err = vfs.Default.Lock(*file + ".lock")
	}
	switch {
	case err == nil:
		return lock.Close, nil
	case asked:
		return nil, fmt.Errorf("checkpoints in %s: %w: if another run is under way, name another file with --checkpoint-file", *file, err)
	}
	fmt.Fprintf(e.Stderr, "gstore: this run cannot be resumed: checkpoints in %s: %v\n", *file, err)
	*file = ""
	return func() error { return nil }, nil
}

// runTrain trains, prints, records the run and saves the model.
func runTrain(ctx context.Context, e *command.Env, dir string, o *trainOptions) (_ *train.Checkpoint, err error) {
	defer command.LimitThreads(o.node.Threads)()
	st, err := o.reads.open(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := st.Close(); err == nil {
			err = cerr
		}
	}()
	if o.task == "auto" && learnsMoments(st.Manifest()) {
		o.task = "temporal"
		if !e.JSON && !e.Quiet {
			fmt.Fprintln(e.Stderr, "the store has no labels, and no lists of edges to predict, but its edges have times: what is learned is where a node's next edge leads (--task temporal)")
		}
	}
	switch o.task {
	case "temporal":
		return nil, runTrainTemporal(ctx, e, st, dir, o)
	case "targets":
		return nil, runTrainTargets(ctx, e, st, dir, o)
	}
	if task := st.Manifest().Task(); o.task == "link" || o.task != "node" && task == store.TaskLink {
		return nil, runTrainLink(ctx, e, st, o)
	}
	if err := beginWith(ctx, e, st, &o.node); err != nil {
		return nil, err
	}
	if err := o.checkNode(st.Manifest()); err != nil {
		return nil, err
	}
	if err := checkLabels(st.Manifest(), dir); err != nil {
		return nil, err
	}
	if o.overwrite && len(st.Manifest().Categories()) == 0 {
		return nil, command.Usagef("--overwrite is for tables in the store, of link prediction and of vectors learned of nodes without features; this one's models of node classification have numbers")
	}
	o.node.Overwrite = o.overwrite
	unasked := unaskedNode(e, st.Manifest(), &o.node)
	started := time.Now()
	unlock, err := checkpointFile(e, dir, lastRun, &o.node.CheckpointFile, o.node.Resume || o.bound.Has("checkpoint-every"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := checkSave(dir, o.save); err != nil {
		return nil, err
	}
	hooks := trainHooks(e, st.Manifest())
	if o.explain {
		hooks.Choices = func(cs []nn.Choice) { explain(e, cs) }
		hooks.Plan = func(why []string) {
			e.Event("plan", map[string]any{"why": why})
			if !e.JSON {
				fmt.Fprintf(e.Told(), "plan: %s\n", strings.Join(why, "\n      "))
			}
		}
	}
	hooks.Outlook = func(o planning.Outlook) { tellOutlook(e, &o) }
	if o.baselines {
		hooks.Baselines = func(*baseline.Result) {} // they are told with the summary
	}
	hooks.Neighbours = o.tellNeighbours(e, st.Manifest(), o.explain)
	hooks.Fitted = func(why string) {
		e.Event("model", map[string]any{"why": why})
		if !e.JSON {
			fmt.Fprintf(e.Told(), "%s (--model chooses another)\n", why)
		}
	}
	log, err := openMetrics(metricsTo{o.metrics, o.board, keptFile(dir, lastRun, o.node.CheckpointFile)}, o.node.Resume)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	hooks.Macro = log.epochRows
	hooks.Epoch = both(log.node, hooks.Epoch)
	hooks.Enough = o.enough
	hooks.Resume = func(found bool, epochs, step, batch int) {
		log.goOn(found, epochs)
		printResume(e, o.node.CheckpointFile, found, epochs, step, batch)
	}
	start := hooks.Start
	hooks.Start = func(c config.Config) {
		if !o.node.Resume {
			keepUnfinished(e, c.CheckpointFile)
		}
		log.begin(dir, c)
		log.parameters(c)
		start(c)
	}
	defer showNode(e, st.Manifest(), &hooks)()
	dev, err := command.OpenDevice(device.Options{Name: o.node.Device, Threads: o.node.Threads, MemoryBytes: o.node.DeviceMemoryBytes, MatMul: o.node.MatMul})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	hooks.Confusion = log.confusion(&st.Manifest().Schema, dev.Info())
	cp, err := command.Within(e, unasked, &o.node.MemoryBytes, func() (*train.Checkpoint, error) { return train.Node(ctx, st, dev, o.node, hooks) })
	if err != nil {
		return nil, planError(err)
	}
	s := &cp.Summary
	end := metrics.End{BestEpoch: s.BestEpoch, ValidAccuracy: metrics.Number(s.ValidAccuracy), TestAccuracy: metrics.Number(s.TestAccuracy)}
	if x := s.Errors; x != nil {
		end.ValidMAE, end.TestMAE, end.TestR2 = x.ValidMAE, x.TestMAE, x.TestR2
	}
	if x := s.F1; x != nil {
		end.ValidMicroF1, end.TestMicroF1 = x.ValidMicro, x.TestMicro
	}
	log.end(end)
	saved, err := saveRun(ctx, dir, o.save, started, trained{cp.Version, cp.Config, s, s.EpochSeconds, s.Resumed, cp})
	log.keep(dir, saved)
	if err != nil {
		if saved.Path == "" {
			return nil, err
		}
		fmt.Fprintf(e.Stderr, "gstore: %v\n", err)
	}
	if e.JSON {
		warnBaselines(e, s, st.Manifest().Schema.ClassNames)
		e.Event("summary", summaryFields(s, saved))
	} else {
		printSummary(e, s, st.Manifest().Schema.ClassNames, saved, o.node.Epochs == 0)
		warnBaselines(e, s, st.Manifest().Schema.ClassNames)
	}
	if s.DivergedEpoch > 0 {
		return nil, fmt.Errorf("the run diverged in epoch %d: the model is that of epoch %d (%s): use a smaller learning rate than %v", s.DivergedEpoch, s.BestEpoch, saved.Path, cp.Config.LR)
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

// tellOutlook says what steps are expected to cost, before the first epoch.
func tellOutlook(e *command.Env, o *planning.Outlook) {
	e.Event("outlook", map[string]any{"outlook": o, "warning": o.Warn()})
	if e.JSON {
		return
	}
	fmt.Fprintf(e.Told(), "out of core: %v\n", o)
	warnOutlook(e, o)
}

// warnOutlook warns where much is expected to be lost.
func warnOutlook(e *command.Env, o *planning.Outlook) {
	if o != nil && o.Warn() {
		fmt.Fprintf(e.Stderr, "%s a loss of about %.1f points of accuracy is expected: %s\n", e.WarnHead(), o.LossPoints, o.Advice)
	}
}

// explain says how a model's layers are computed.
func explain(e *command.Env, cs []nn.Choice) {
	e.Event("choices", map[string]any{"layers": cs})
	if e.JSON || e.Quiet {
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
	if !slices.ContainsFunc(cs, func(c nn.Choice) bool { return c.Edges > 0 }) {
		fmt.Fprintln(e.Stdout, "the first mini-batch has no edges: all layers read nodes alone there")
	}
}

// printProfile says where training's time went.
func printProfile(e *command.Env, p progress.Profile) {
	e.TellBeside("training time: wait for macro-batches %.2f s, for samples %.2f s, forward %.2f s, backward %.2f s, optimiser %.2f s",
		p.Wait.Seconds(), p.Sample.Seconds(), p.Forward.Seconds(), p.Backward.Seconds(), p.Optimize.Seconds())
}

// both calls two hooks.
func both[T any](first, then func(T)) func(T) {
	return func(x T) {
		first(x)
		then(x)
	}
}

// trainHooks prints a line an epoch, or an event.
func trainHooks(e *command.Env, m *store.Manifest) train.Hooks {
	if e.JSON {
		return train.Hooks{
			Start: func(c config.Config) { e.Event("start", map[string]any{"config": c}) },
			Epoch: func(r train.Epoch) { e.Event("epoch", command.Fields(r)) },
			Checkpoint: func(epochs, step, batch int) {
				e.Event("checkpoint", map[string]any{"epochs": epochs, "step": step, "batch": batch})
			},
		}
	}
	header, line := accuracyHeader, accuracyLine
	switch {
	case m.NumberLabels():
		header, line = numbersHeader, numbersLine
	case m.LabelSets() != nil:
		header, line = labelsHeader, labelsLine
	}
	begin := sync.OnceFunc(func() { header(e) }) // behind what is said of the run
	return train.Hooks{
		Start: func(config.Config) {},
		Epoch: func(r train.Epoch) {
			begin()
			line(e, r)
		},
	}
}

func accuracyHeader(e *command.Env) {
	e.TellBeside("%5s  %8s  %7s  %7s  %6s  %8s  %10s", "epoch", "loss", "train %", "valid %", "test %", "seconds", "read")
}

func accuracyLine(e *command.Env, r train.Epoch) {
	valid, test, mark := "", "", " "
	if r.ValidAccuracy >= 0 {
		valid = fmt.Sprintf("%.2f", 100*r.ValidAccuracy)
	}
	if r.TestAccuracy >= 0 {
		test = fmt.Sprintf("%.2f", 100*r.TestAccuracy)
	}
	if r.Best {
		mark = "*"
	}
	fmt.Fprintf(e.Told(), "%5d  %8.4f  %7.2f  %s  %6s  %8.3f  %10s\n", r.Epoch, r.Loss, 100*r.TrainAccuracy, e.Best(fmt.Sprintf("%6s%s", valid, mark), r.Best), test, r.Seconds, command.FormatSize(r.BytesRead))
}

// printFinished says that a run that was resumed had nothing left to do, if finished is its number.
func printFinished(e *command.Env, finished uint64, epochs int) {
	if finished > 0 {
		fmt.Fprintf(e.Told(), "run %d is finished: all %d epochs were trained before; its result:\n", finished, epochs)
	}
}
