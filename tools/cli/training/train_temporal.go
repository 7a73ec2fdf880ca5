package training

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gstore/gstore/gpu/temporal"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// temporalConfig is what the flags mean for temporal link prediction.
func (o *trainOptions) temporalConfig() (temporal.Config, error) {
	c := o.moments
	if err := o.bound.Check(timeTask); err != nil {
		return c, err
	}
	for _, name := range []string{"explain", "overwrite"} {
		if o.bound.Has(name) {
			return c, command.Usagef("--%s is not for %s", name, timeTask)
		}
	}
	if c.Sampler != "" && !slices.Contains(mini.TimedSamplers(), c.Sampler) {
		return c, command.Usagef("--sampler %s is for node classification: edges at moments are drawn by %s", c.Sampler, strings.Join(mini.TimedSamplers(), " or "))
	}
	check := c
	check.Resume = false // its file may not be named yet
	if err := check.Normalize(); err != nil {
		return c, command.Usage(err)
	}
	return c, nil
}

// runTrainTemporal trains and tests a model of edges at moments, prints and records the run.
func runTrainTemporal(ctx context.Context, e *command.Env, st *store.Store, dir string, o *trainOptions) (err error) {
	cfg, err := o.temporalConfig()
	if err != nil {
		return err
	}
	unlock, err := checkpointFile(e, dir, lastTemporalRun, &cfg.CheckpointFile, cfg.Resume)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := checkSave(dir, o.save); err != nil {
		return err
	}
	log, err := openMetrics(metricsTo{o.metrics, o.board, keptFile(dir, lastTemporalRun, cfg.CheckpointFile)}, cfg.Resume)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	hooks := temporalHooks(e)
	hooks.Epoch = both(log.temporal, hooks.Epoch)
	start := hooks.Start
	hooks.Start = func(c temporal.Config, s temporal.Summary) {
		log.begin(dir, c)
		start(c, s)
	}
	hooks.Resume = func(found bool, epochs, step, batch int) {
		log.goOn(found, epochs)
		printResume(e, cfg.CheckpointFile, found, epochs, step, batch)
	}
	unasked := e.Unasked(st.Manifest(), 0, &cfg.MemoryBytes)
	started := time.Now()
	dev, err := command.OpenDevice(device.Options{Name: cfg.Device, Threads: cfg.Threads, MemoryBytes: cfg.DeviceMemoryBytes, MatMul: cfg.MatMul})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	cp, err := command.Within(e, unasked, &cfg.MemoryBytes, func() (*temporal.Checkpoint, error) { return temporal.Train(ctx, st, dev, cfg, hooks) })
	if err != nil {
		return err
	}
	s := &cp.Summary
	log.end(metrics.End{BestEpoch: s.BestEpoch, ValidMRR: metrics.Number(s.Valid.MRR), TestMRR: metrics.Number(s.Test.MRR), TestHits10: metrics.Number(s.Test.Hits10)})
	saved, err := saveRun(ctx, dir, o.save, started, trained{cp.Version, cp.Config, s, s.EpochSeconds, s.Resumed, cp})
	log.keep(dir, saved)
	if err != nil {
		if saved.Path == "" {
			return err
		}
		fmt.Fprintf(e.Stderr, "gstore: %v\n", err)
	}
	if s.DivergedEpoch > 0 {
		return fmt.Errorf("the run diverged in epoch %d: the model is that of epoch %d (%s): use a smaller learning rate than %v", s.DivergedEpoch, s.BestEpoch, saved.Path, cp.Config.LR)
	}
	if e.JSON {
		summary := command.Fields(s)
		summary["model_file"] = saved.Path
		e.Event("summary", summary)
		return nil
	}
	printFinished(e, saved.Finished, len(s.EpochSeconds))
	printRanks(e, "test", s, s.Test, s.TestRule)
	fmt.Fprintf(e.Told(), "model: %s\n", saved.Path)
	fmt.Fprintf(e.Told(), "%d sampled edges were strictly before what they were sampled for; %.1f s (%.1f CPU s), %s peak memory; %s, %s\n",
		s.CheckedEdges, s.TotalSeconds, s.CPUSeconds, command.FormatSize(s.PeakRSSBytes), s.Device, s.IOEngine)
	return nil
}

// printRanks prints those of a split, by the model and by the recency rule.
func printRanks(e *command.Env, split string, s *temporal.Summary, model, rule temporal.Ranks) {
	line := func(what string, r temporal.Ranks) {
		fmt.Fprintf(e.Stdout, "%-28s MRR %.4f, hits@10 %.4f against 100; MRR %.4f, hits@10 %.4f against all %d\n", what, r.MRR, r.Hits10, r.AllMRR, r.AllHits10, s.Candidates)
	}
	line(fmt.Sprintf("%s, model of epoch %d:", split, s.BestEpoch), model)
	line(split+", recency rule alone:", rule)
}

// evalTemporal ranks a saved model's edges of validation and test again.
func evalTemporal(ctx context.Context, e *command.Env, st *store.Store, path, which string, o *evalOptions) (err error) {
	o.flags.Visit(func(f *pflag.Flag) {
		if g := command.GroupOf(f); err == nil && (g == nodeFlags || g == linkFlags) {
			err = command.Usagef("--%s is not for %s, which %s is of", f.Name, timeTask, path)
		}
	})
	if err != nil {
		return err
	}
	cp, err := temporal.LoadFile(path)
	if err != nil {
		return err
	}
	cfg := cp.Config
	cfg.Threads, cfg.MemoryBytes = o.threads, int64(o.mem)
	dev, err := device.Open(device.Options{Name: o.device, Threads: o.threads, MemoryBytes: int64(o.deviceMem)})
	if err != nil {
		return command.Usage(err)
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	done := e.Working("ranking edges")
	s, err := temporal.Evaluate(ctx, st, dev, cp, cfg)
	done()
	if err != nil {
		return err
	}
	if e.JSON {
		e.Event("summary", map[string]any{"model_file": path, "model": which, "test": s.Test, "valid": s.Valid, "test_rule": s.TestRule, "valid_rule": s.ValidRule,
			"checked_edges": s.CheckedEdges, "bytes_read": s.BytesRead, "candidates": s.Candidates})
		return nil
	}
	printRanks(e, "valid", &s, s.Valid, s.ValidRule)
	printRanks(e, "test", &s, s.Test, s.TestRule)
	fmt.Fprintf(e.Told(), "%d sampled edges were strictly before what they were sampled for; model %s (%s)\n", s.CheckedEdges, path, which)
	return nil
}

// temporalHooks prints a line an epoch, or an event.
func temporalHooks(e *command.Env) temporal.Hooks {
	if e.JSON {
		return temporal.Hooks{
			Start: func(c temporal.Config, s temporal.Summary) {
				e.Event("start", map[string]any{"config": c, "train_edges": s.TrainEdges, "valid_edges": s.ValidEdges, "test_edges": s.TestEdges})
			},
			Epoch: func(r temporal.Epoch) { e.Event("epoch", command.Fields(r)) },
			Checkpoint: func(epochs, step, batch int) {
				e.Event("checkpoint", map[string]any{"epochs": epochs, "step": step, "batch": batch})
			},
		}
	}
	return temporal.Hooks{
		Start: func(_ temporal.Config, s temporal.Summary) {
			fmt.Fprintf(e.Told(), "%d edges train, %d from time %d on validate, %d from %d on test; %d candidates\n", s.TrainEdges, s.ValidEdges, s.ValidTime, s.TestEdges, s.TestTime, s.Candidates)
			e.TellBeside("%5s  %8s  %9s  %7s  %8s", "epoch", "loss", "valid MRR", "hits@10", "seconds")
		},
		Epoch: func(r temporal.Epoch) {
			mark := " "
			if r.Best {
				mark = "*"
			}
			fmt.Fprintf(e.Told(), "%5d  %8.4f  %s  %7.4f  %8.3f\n", r.Epoch, r.Loss, e.Best(fmt.Sprintf("%8.4f%s", r.Valid.MRR, mark), r.Best), r.Valid.Hits10, r.Seconds)
		},
	}
}
