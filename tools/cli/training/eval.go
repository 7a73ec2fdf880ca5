package training

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/gpu/temporal"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/export"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/models"
	"github.com/gstore/gstore/tools/device"
)

// evalOptions are the flags of eval.
type evalOptions struct {
	checkpoint string
	splits     []string
	auc        bool
	confusion  string
	byClass    bool
	importance bool
	// calibration is the file for it.
	calibration string
	out         string
	write       []string
	format      string
	version     uint64
	scratch     string
	mem         command.Size
	device      string
	deviceMem   command.Size
	threads     int
	config      string

	against    string   // what they are ranked against
	targets    string   // folder of a training table
	lists      []string // of edges, where the store's task is link prediction
	table      string
	candidates int
	seed       uint64
	byRelation bool
	flags      *pflag.FlagSet
}

// Flags of one task are under its heading.
const (
	nodeFlags = "node classification"
	linkFlags = "link prediction"
)

// What eval writes of every node.
const (
	writePredictions   = "predictions"
	writeProbabilities = "probabilities"
	writeEmbeddings    = "embeddings"
)

func evalWrites() []string { return []string{writePredictions, writeProbabilities, writeEmbeddings} }

// NewEval is the command gstore eval.
func NewEval(e *command.Env) *cobra.Command {
	var o evalOptions
	cmd := &cobra.Command{
		Use:   "eval STORE",
		Short: "Compute a trained model's exact metrics, predictions and embeddings on a store",
		Long: `Compute a trained model's outputs with all neighbours of every node, layer by
layer over the whole graph, streamed from the store inside --mem, and of each
split accuracy, macro and micro F1, the area under the ROC curve and the average precision: of two
classes that of the second, of more the mean over classes of each against the
rest. All are exact. ECE is the expected calibration error: by how much the probability of the
predicted class is off in the mean. --by-class adds precision, recall and F1 of each class.

--checkpoint takes models of PyTorch too, which Python's gstore.save_model wrote.

--out writes every node's class and its probability, with --write probabilities
those of all classes, and with --write embeddings the state below the model's
last product, by external id, as gstore export writes columns.

A model of "gstore train --targets" is scored on its training table, or on that of
--targets, as it is now: after gstore append, of what came since.

Where the task is link prediction the edges of --lists are asked for, both ends
of each, against the data set's own negatives where a list has some, else (or
with --against all) against all nodes or a sample of --candidates, filtered and
raw: exactly, with embeddings streamed from the store's table inside --mem.`,
		Example: "  gstore eval papers.gstore --checkpoint papers-model --mem 8GiB   # of PyTorch's, by Python's save_model\n" +
			"  gstore eval cora.gstore                      # the best run on validation nodes\n" +
			"  gstore eval cora.gstore --checkpoint best.gsm --splits valid,test --confusion confusion.csv\n" +
			"  gstore eval papers.gstore --mem 8GiB --out papers-out --write predictions,probabilities\n" +
			"  gstore eval fb15k-237.gstore --lists test --mem 200MiB   # link prediction",
		Args: command.StoreArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.ApplyConfig(cmd, o.config); err != nil {
				return err
			}
			if err := o.validate(cmd.Flags().Changed("write") || cmd.Flags().Changed("format")); err != nil {
				return err
			}
			o.flags = cmd.Flags()
			return runEval(cmd.Context(), e, args[0], &o)
		},
	}
	fs := cmd.Flags()
	models.CheckpointFlag(fs, &o.checkpoint)
	command.Section(fs, nodeFlags, func() {
		fs.StringSliceVar(&o.splits, "splits", []string{"train", "valid", "test"}, "which nodes, or rows of a training table, to score")
		fs.StringVar(&o.targets, "targets", "", "targets of rows: folder of the training table to score (default: the one that the model was trained on, as it is now)")
		fs.BoolVar(&o.auc, "auc", true, "compute the area under the ROC curve and the average precision: 16 bytes of memory a node of the largest split, and a temporary file of 4 a node and class if need be")
		fs.StringVar(&o.confusion, "confusion", "", "CSV file for the confusion matrix: a line for each split, label and predicted class that occurs; - for standard output")
		fs.BoolVar(&o.byClass, "by-class", false, "tell precision, recall and F1 of each class or label")
		fs.StringVar(&o.calibration, "calibration", "", "CSV file for a reliability table: predictions by their probability in 15 parts, and the share of them that is right; - for standard output")
		fs.BoolVar(&o.importance, "importance", false, "measure what the model loses where nodes have each other's values of a feature, of each feature: three evaluations each")
		fs.StringVar(&o.out, "out", "", "new folder for what --write names")
		fs.StringSliceVar(&o.write, "write", []string{writePredictions}, "of every node: "+strings.Join(evalWrites(), ", "))
		fs.StringVar(&o.format, "format", string(export.Numpy), "of --out: numpy, tsv or parquet")
	})
	command.Section(fs, linkFlags, func() {
		fs.StringSliceVar(&o.lists, "lists", []string{"valid", "test"}, "which edge lists to rank; unasked, those of these that the store has")
		fs.StringVar(&o.table, "table", "embeddings", "the table of embeddings")
		fs.StringVar(&o.against, "against", eval.AgainstAuto, "what answers are ranked against: given, the data set's own negatives, of each edge (list NAME_negatives) or of all (NAME_edge_neg); all, --candidates of all nodes; auto: given ones of lists that have some, unless there are --candidates")
		fs.IntVar(&o.candidates, "candidates", 0, "nodes that answers are ranked against, drawn from --seed (default: all)")
		fs.Uint64Var(&o.seed, "seed", 0, "of the candidates")
		fs.BoolVar(&o.byRelation, "by-relation", false, "tell heads from tails, of each relation and of relations that are 1-1, 1-n, n-1 and n-n")
	})
	fs.Uint64Var(&o.version, "version", 0, "version of the store (0 = the newest)")
	fs.Var(&o.mem, "mem", "memory bound, such as 4GiB (default: three quarters of what the machine, or the cgroup, has, unless the graph is small)")
	fs.StringVar(&o.device, "device", "auto", device.Names)
	fs.Var(&o.deviceMem, "device-mem", "memory of a GPU that may be allocated (default: what is free, less a tenth)")
	fs.IntVar(&o.threads, "threads", 0, "processors to use (default: all)")
	command.ScratchFlag(fs, &o.scratch)
	command.ConfigFlag(fs, &o.config)
	command.Values(fs.Lookup("against"), eval.AgainstAuto, eval.AgainstGiven, eval.AgainstAll)
	command.Values(fs.Lookup("write"), evalWrites()...)
	command.Values(fs.Lookup("format"), string(export.Numpy), string(export.TSV), string(export.Parquet))
	command.Values(fs.Lookup("splits"), "train", "valid", "test")
	return cmd
}

// validate finds usage errors; writes says that a flag that only --out gives a meaning was set.
func (o *evalOptions) validate(writes bool) error {
	switch {
	case len(o.splits) == 0:
		return command.Usagef("--splits names none of train, valid, test")
	case len(o.lists) == 0:
		return command.Usagef("--lists names no edge list")
	case len(o.write) == 0:
		return command.Usagef("--write names none of %s", strings.Join(evalWrites(), ", "))
	}
	for _, s := range o.splits {
		if s != "train" && s != "valid" && s != "test" {
			return command.Usagef("--splits: %q is none of train, valid, test", s)
		}
	}
	for _, w := range o.write {
		if !slices.Contains(evalWrites(), w) {
			return command.Usagef("--write: %q is none of %s", w, strings.Join(evalWrites(), ", "))
		}
	}
	x := export.Options{Format: export.Format(o.format)}
	if err := x.Validate(); err != nil {
		return command.Usage(err)
	}
	if writes && o.out == "" {
		return command.Usagef("--write and --format say what --out holds: give --out FOLDER")
	}
	return nil
}

func runEval(ctx context.Context, e *command.Env, dir string, o *evalOptions) (err error) {
	defer command.LimitThreads(o.threads)()
	of := store.Options{Version: o.version, Scratch: o.scratch}
	st, err := store.Open(dir, of)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	link := st.Manifest().Task() == store.TaskLink
	task, other := nodeFlags, linkFlags
	if link {
		task, other = other, task
	}
	o.flags.Visit(func(f *pflag.Flag) {
		if err == nil && command.GroupOf(f) == other {
			err = command.Usagef("--%s is for %s; the store's task is %s", f.Name, other, task)
		}
	})
	if err != nil {
		return err
	}
	if link && o.version == 0 {
		if st, err = models.VersionOfTable(ctx, e, st, of, o.table, o.checkpoint); err != nil {
			return err
		}
	}
	unasked := e.Unasked(st.Manifest(), 0, (*int64)(&o.mem))
	if link {
		_, err = command.Within(e, unasked, (*int64)(&o.mem), func() (struct{}, error) { return struct{}{}, runEvalLink(ctx, e, st, o) })
		return err
	}
	path, which, err := models.Find(ctx, st, o.checkpoint)
	if err != nil {
		return err
	}
	if targets.IsFile(path) {
		return evalTargets(ctx, e, st, path, which, unasked, o)
	}
	if o.targets != "" {
		return command.Usagef("--targets is for models of targets of rows (train --targets), which %s is none of", path)
	}
	if temporal.IsFile(path) && o.importance {
		return command.Usagef("--importance is of features of nodes, which models of edges at moments do not read")
	}
	if temporal.IsFile(path) && (o.byClass || o.calibration != "") {
		return command.Usagef("--by-class and --calibration are for classes, and %s says where edges lead", path)
	}
	if temporal.IsFile(path) {
		return evalTemporal(ctx, e, st, path, which, o)
	}
	cp, err := models.Load(e, st.Manifest(), path)
	if err != nil {
		return err
	}
	switch {
	case cp.Model.Numbers != nil && o.confusion != "":
		return command.Usagef("--confusion is for classes, and the labels that %s was fitted to are numbers", path)
	case cp.Model.Numbers != nil && (o.byClass || o.calibration != ""):
		return command.Usagef("--by-class and --calibration are for classes, and the labels that %s was fitted to are numbers", path)
	case cp.Model.MultiLabel && o.confusion != "":
		return command.Usagef("--confusion is for classes, and nodes have several of the labels that %s was fitted to", path)
	}
	start := time.Now()
	wants := func(what string) bool { return o.out != "" && slices.Contains(o.write, what) }
	dev, err := command.OpenDevice(device.Options{Name: o.device, Threads: o.threads, MemoryBytes: int64(o.deviceMem)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	done := e.Working("computing all nodes' states")
	r, err := command.Within(e, unasked, (*int64)(&o.mem), func() (*train.Evaluation, error) {
		return cp.Evaluate(ctx, st, dev, train.EvaluateOptions{MemoryBytes: int64(o.mem), Splits: o.splits,
			Confusion: true, Calibration: true, AUC: o.auc, Predictions: wants(writePredictions), Probabilities: wants(writeProbabilities), Embeddings: wants(writeEmbeddings)})
	})
	done()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	read := r.BytesRead()
	if o.confusion != "" {
		if err := o.writeConfusion(e, st.Manifest().Schema.ClassNames, r.Metrics); err != nil {
			return err
		}
	}
	if o.calibration != "" {
		if err := o.writeCalibration(e, r.Metrics); err != nil {
			return err
		}
	}
	if o.out != "" {
		if err := o.writeNodes(ctx, st, r); err != nil {
			return err
		}
	}
	var told *importances
	if o.importance {
		if _, err := r.Trim(); err != nil { // what follows has its memory
			return err
		}
		if told, err = o.importances(ctx, e, st, dev, cp, r.Metrics); err != nil {
			return err
		}
		if e.JSON { // the summary comes last
			told.tell(e)
		}
	}
	names := cp.Classes(st.Manifest())
	if o.byClass && e.JSON {
		o.tellClasses(e, names, r.Metrics)
	}
	if e.JSON {
		f := map[string]any{"model_file": path, "model": which, "seconds": time.Since(start).Seconds(), "cpu_seconds": usage.CPUSeconds(), "peak_rss_bytes": usage.PeakRSSBytes(), "bytes_read": read}
		for i, s := range o.splits {
			m := r.Metrics[i]
			if f[s+"_nodes"] = m.Nodes; m.Nodes == 0 { // nothing was measured
				continue
			}
			if n := m.Numbers; n != nil {
				if f[s+"_loss"], f[s+"_mae"], f[s+"_rmse"] = m.Loss, n.MAE, n.RMSE; !math.IsNaN(n.R2) {
					f[s+"_r2"] = n.R2
				}
				continue
			}
			if f[s+"_loss"] = m.Loss; m.Labels != nil {
				f[s+"_f1_macro"], f[s+"_f1_micro"], f[s+"_exact_match"] = m.Labels.MacroF1, m.Labels.MicroF1, m.Labels.Exact
			} else {
				f[s+"_accuracy"] = m.Accuracy
				f[s+"_f1_macro"], f[s+"_f1_micro"] = m.Confusion.F1()
			}
			if !math.IsNaN(m.AUC) {
				f[s+"_auc"] = m.AUC
			}
			if c := m.Calibration; c != nil && !math.IsNaN(c.Error()) {
				f[s+"_calibration_error"] = c.Error()
			}
			if !math.IsNaN(m.AveragePrecision) {
				f[s+"_average_precision"] = m.AveragePrecision
			}
		}
		e.Event("summary", f)
		return nil
	}
	if cp.Model.Numbers != nil || cp.Model.MultiLabel {
		if cp.Model.MultiLabel {
			printLabels(e, o.splits, r.Metrics)
			if o.byClass {
				o.tellClasses(e, names, r.Metrics)
			}
		} else {
			printNumbers(e, o.splits, r.Metrics)
		}
		o.end(e, told, start, path, which)
		return nil
	}
	fmt.Fprintf(e.Stdout, "%-6s  %10s  %8s  %10s  %10s  %10s  %8s  %8s  %6s\n", "split", "nodes", "loss", "accuracy %", "macro F1 %", "micro F1 %", "ROC AUC", "avg prec", "ECE %")
	for i, s := range o.splits {
		m := r.Metrics[i]
		if m.Nodes == 0 {
			fmt.Fprintf(e.Stdout, "%-6s  %10d  %8s  %10s  %10s  %10s  %8s  %8s  %6s\n", s, 0, "-", "-", "-", "-", "-", "-", "-")
			continue
		}
		macro, micro := m.Confusion.F1()
		area := func(x float64) string {
			if math.IsNaN(x) {
				return "-"
			}
			return fmt.Sprintf("%.4f", x)
		}
		fmt.Fprintf(e.Stdout, "%-6s  %10d  %8.4f  %10.2f  %10.2f  %10.2f  %8s  %8s  %6s\n", s, m.Nodes, m.Loss, 100*m.Accuracy, 100*macro, 100*micro, area(m.AUC), area(m.AveragePrecision),
			calibrationError(&m))
	}
	if o.byClass {
		o.tellClasses(e, names, r.Metrics)
	}
	o.end(e, told, start, path, which)
	return nil
}

// end prints what stands below the metrics.
func (o *evalOptions) end(e *command.Env, told *importances, start time.Time, path, which string) {
	fmt.Fprintf(e.Stdout, "%.2f s; model %s (%s)\n", time.Since(start).Seconds(), path, which)
	if told != nil {
		told.tell(e)
	}
}

// writeConfusion writes the confusion matrices' entries that are not 0.
func (o *evalOptions) writeConfusion(e *command.Env, names []string, metrics []eval.Metrics) (err error) {
	to := e.Stdout
	if o.confusion == "-" && e.JSON {
		o.confusionEvents(e, names, metrics)
		return nil
	}
	if o.confusion != "-" {
		f, err := command.NewFile(o.confusion)
		if err != nil {
			return fmt.Errorf("--confusion: %w", err)
		}
		defer func() { err = f.Finish(err) }()
		to = f
	}
	w := csv.NewWriter(to)
	_ = w.Write([]string{"split", "label", "predicted", "nodes"}) // kept by the writer: see Error
	for i, m := range metrics {
		for label := range m.Confusion.Classes {
			for predicted := range m.Confusion.Classes {
				if n := m.Confusion.At(label, predicted); n > 0 {
					_ = w.Write([]string{o.splits[i], className(names, label), className(names, predicted), strconv.FormatInt(n, 10)})
				}
			}
		}
	}
	w.Flush()
	return w.Error()
}

// className is a class as the store's user knows it.
func className(names []string, class int) string {
	if class < len(names) {
		return names[class]
	}
	return strconv.Itoa(class)
}

// confusionEvents are what writeConfusion writes, where standard output is one JSON object a line.
func (o *evalOptions) confusionEvents(e *command.Env, names []string, metrics []eval.Metrics) {
	for i, m := range metrics {
		for label := range m.Confusion.Classes {
			for predicted := range m.Confusion.Classes {
				if n := m.Confusion.At(label, predicted); n > 0 {
					e.Event("confusion", map[string]any{"split": o.splits[i], "label": className(names, label), "predicted": className(names, predicted), "nodes": n})
				}
			}
		}
	}
}

// writeNodes exports what the evaluation kept of every node.
func (o *evalOptions) writeNodes(ctx context.Context, st *store.Store, r *train.Evaluation) error {
	held, err := r.Trim()
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // the evaluation's heap: export has its memory now
	x := export.Options{Format: export.Format(o.format)}
	if o.mem > 0 {
		x.MemoryBytes, x.HeldBytes = int64(o.mem), held
	}
	add := func(name string, v *eval.NodeValues) {
		if v != nil {
			x.Extra = append(x.Extra, export.NodeColumn{Name: name, Elem: v.Elem, Dim: v.Dim, Read: v.Read})
		}
	}
	classes, probability := r.Predictions()
	add("prediction", classes)
	add("probability", probability)
	add("probabilities", r.Probabilities())
	add("embedding", r.Embeddings())
	_, err = export.Run(ctx, st, o.out, x)
	return err
}
