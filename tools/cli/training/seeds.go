package training

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// checkSeeds refuses what does not go with several seeds, and finds the model that they begin with.
func (o *trainOptions) checkSeeds(ctx context.Context, e *command.Env, dir string) (err error) {
	if o.seeds < 1 {
		return command.Usagef("--seeds %d: expected 1 or more", o.seeds)
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"resume", o.node.Resume}, {"save", o.save != ""}, {"metrics", o.metrics != ""}, {"tensorboard", o.board != ""}, {"checkpoint-file", o.node.CheckpointFile != ""}} {
		if f.set {
			return command.Usagef("--seeds %d with --%s, which is of one run: train them one by one with --seed", o.seeds, f.name)
		}
	}
	st, err := o.reads.open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if o.task != "auto" && o.task != "node" || st.Manifest().Task() != store.TaskNode {
		return command.Usagef("--seeds is for %s: train the seeds one by one with --seed", nodeTask)
	}
	return beginWith(ctx, e, st, &o.node) // all with one model, which may be the best before them
}

// seeded is what the run of a seed came to: names and values of its results.
type seeded struct {
	seed    uint64
	results []float64
}

// runSeeds trains with several seeds, the one that was given and those that follow it, and tells of their results and what they vary by.
func runSeeds(ctx context.Context, e *command.Env, dir string, o *trainOptions) error {
	if err := o.checkSeeds(ctx, e, dir); err != nil {
		return err
	}
	var runs []seeded
	var names []string
	numbers := false
	for k := range o.seeds {
		one := *o
		one.node.Seed = o.node.Seed + uint64(k)
		if !e.JSON {
			fmt.Fprintf(e.Told(), "seed %d, %d of %d\n", one.node.Seed, k+1, o.seeds)
		}
		cp, err := runTrain(ctx, e, dir, &one)
		if err != nil {
			return err
		}
		numbers = cp.Model.Numbers != nil
		r := seeded{seed: one.node.Seed}
		names, r.results = results(&cp.Summary)
		runs = append(runs, r)
	}
	tellSeeds(e, names, runs, numbers)
	return nil
}

// results are those of a run by which seeds are compared, NaN for what there is none of.
func results(s *train.Summary) (names []string, values []float64) {
	number := func(x *float64) float64 {
		if x == nil {
			return math.NaN()
		}
		return *x
	}
	share := func(x float64) float64 {
		if x < 0 {
			return math.NaN()
		}
		return x
	}
	if x := s.Errors; x != nil {
		return []string{"test_mae", "valid_mae", "test_r2"}, []float64{number(x.TestMAE), number(x.ValidMAE), number(x.TestR2)}
	}
	names, values = []string{"test_accuracy", "valid_accuracy"}, []float64{share(s.TestAccuracy), share(s.ValidAccuracy)}
	if x := s.F1; x != nil {
		names, values = []string{"test_micro_f1", "valid_micro_f1", "test_macro_f1"}, []float64{number(x.TestMicro), number(x.ValidMicro), number(x.TestMacro)}
	}
	if s.TestBalanced != nil {
		names, values = append(names, "test_balanced_accuracy"), append(values, *s.TestBalanced)
	}
	if s.Areas != nil {
		names, values = append(names, "test_auc"), append(values, number(s.TestAUC))
	}
	return names, values
}

// spread is the mean of numbers and their standard deviation, of n − 1; NaN of fewer than two.
func spread(xs []float64) (mean, deviation float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		deviation += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(xs)-1))
}

func tellSeeds(e *command.Env, names []string, runs []seeded, numbers bool) {
	fields := map[string]any{"seeds": len(runs)}
	columns := make([][]float64, len(names))
	for k, name := range names {
		for _, r := range runs {
			columns[k] = append(columns[k], r.results[k])
		}
		mean, deviation := spread(columns[k])
		if !math.IsNaN(mean) {
			fields[name] = mean
		}
		if !math.IsNaN(deviation) {
			fields[name+"_deviation"] = deviation
		}
	}
	e.Event("seeds", fields)
	if e.JSON {
		return
	}
	text := func(name string, x float64) string {
		switch {
		case math.IsNaN(x):
			return "-"
		case numbers && name != "test_r2":
			return number(&x)
		case name == "test_r2" || name == "test_auc":
			return strconv.FormatFloat(x, 'f', 4, 64)
		}
		return command.FormatPercent(x)
	}
	titles := map[string]string{"test_accuracy": "test", "valid_accuracy": "valid", "test_balanced_accuracy": "test balanced", "test_auc": "test ROC AUC",
		"test_mae": "test MAE", "valid_mae": "valid MAE", "test_r2": "test R²", "test_micro_f1": "test micro F1", "valid_micro_f1": "valid micro F1", "test_macro_f1": "test macro F1"}
	line := func(first string, cell func(k int) string) {
		fmt.Fprintf(e.Stdout, "%-6s", first)
		for k := range names {
			fmt.Fprintf(e.Stdout, "  %14s", cell(k))
		}
		fmt.Fprintln(e.Stdout)
	}
	line("seed", func(k int) string { return titles[names[k]] })
	for _, r := range runs {
		line(strconv.FormatUint(r.seed, 10), func(k int) string { return text(names[k], r.results[k]) })
	}
	line("mean", func(k int) string { m, _ := spread(columns[k]); return text(names[k], m) })
	line("± sd", func(k int) string { _, d := spread(columns[k]); return text(names[k], d) })
}
