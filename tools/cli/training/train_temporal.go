package training

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gstore/gstore/gpu/temporal"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// temporalConfig is what the flags mean for temporal link prediction.
func (o *trainOptions) temporalConfig() (temporal.Config, error) {
	c := o.moments
	if err := o.bound.Check(timeTask); err != nil {
		return c, err
	}
	for _, name := range []string{"reuse", "save", "metrics", "explain", "overwrite"} {
		if o.bound.Has(name) {
			return c, command.Usagef("--%s is not for %s", name, timeTask)
		}
	}
	if c.Sampler != "" && !slices.Contains(mini.TimedSamplers(), c.Sampler) {
		return c, command.Usagef("--sampler %s is for node classification: edges at moments are drawn by %s", c.Sampler, strings.Join(mini.TimedSamplers(), " or "))
	}
	check := c
	if err := check.Normalize(); err != nil {
		return c, command.Usage(err)
	}
	return c, nil
}

// runTrainTemporal trains and tests a model of edges at moments, prints and records the run.
func runTrainTemporal(ctx context.Context, e *command.Env, st *store.Store, o *trainOptions) (err error) {
	cfg, err := o.temporalConfig()
	if err != nil {
		return err
	}
	log, err := openMetrics("", o.board, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	hooks := temporalHooks(e)
	hooks.Epoch = both(log.temporal, hooks.Epoch)
	started := time.Now()
	dev, err := device.Open(device.Options{Name: cfg.Device, Threads: cfg.Threads, MemoryBytes: cfg.DeviceMemoryBytes, MatMul: cfg.MatMul})
	if err != nil {
		return command.Usage(err)
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	s, err := temporal.Train(ctx, st, dev, cfg, hooks)
	if err != nil {
		return err
	}
	summary := command.Fields(&s)
	if _, _, err := recordTrain(ctx, st.Dir(), st.Manifest().Version, started, cfg, summary, s.EpochSeconds, false); err != nil {
		fmt.Fprintf(e.Stderr, "gstore: the run is not recorded: %v\n", err)
	}
	if e.JSON {
		e.Event("summary", summary)
		return nil
	}
	line := func(what string, r temporal.Ranks) {
		fmt.Fprintf(e.Stdout, "%-28s MRR %.4f, hits@10 %.4f against 100; MRR %.4f, hits@10 %.4f against all %d\n", what, r.MRR, r.Hits10, r.AllMRR, r.AllHits10, s.Candidates)
	}
	line(fmt.Sprintf("test, model of epoch %d:", s.BestEpoch), s.Test)
	line("test, recency rule alone:", s.TestRule)
	fmt.Fprintf(e.Told(), "%d sampled edges were strictly before what they were sampled for; %.1f s (%.1f CPU s), %s peak memory; %s, %s\n",
		s.CheckedEdges, s.TotalSeconds, s.CPUSeconds, command.FormatSize(s.PeakRSSBytes), s.Device, s.IOEngine)
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
		}
	}
	return temporal.Hooks{
		Start: func(_ temporal.Config, s temporal.Summary) {
			fmt.Fprintf(e.Told(), "%d edges train, %d from time %d on validate, %d from %d on test; %d candidates\n", s.TrainEdges, s.ValidEdges, s.ValidTime, s.TestEdges, s.TestTime, s.Candidates)
			fmt.Fprintf(e.Told(), "%5s  %8s  %9s  %7s  %8s\n", "epoch", "loss", "valid MRR", "hits@10", "seconds")
		},
		Epoch: func(r temporal.Epoch) {
			mark := " "
			if r.Best {
				mark = "*"
			}
			fmt.Fprintf(e.Told(), "%5d  %8.4f  %8.4f%s  %7.4f  %8.3f\n", r.Epoch, r.Loss, r.Valid.MRR, mark, r.Valid.Hits10, r.Seconds)
		},
	}
}
