package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/tools/generate"
)

// causes is -table causes: what each part of training out of core costs, one thing switched at a time, at equal epochs
// and at equal optimiser steps (docs/lab/findings.md, "What a step holds").
type causes struct {
	datasets string   // folder of the data sets
	data     []string // names of data sets, or "sbm"
	epochs   int
	seed     uint64
	seeds    int
	threads  int
	only     string // rows whose name contains this, beside the first
}

// cause is a row: partitions of the store, and how many are trained together, with all neighbours where whole is set.
type cause struct {
	name              string
	partitions, group int
	whole             bool
	change            func(c *config.Config)
}

func causeRows() []cause {
	sampled := func(c *config.Config) { c.LabelShift = config.ShiftOff }
	hop := func(c *config.Config) { c.PrecomputedHop, c.InputDropout = true, share(0) }
	dropped := func(c *config.Config) { hop(c); c.InputDropout = share(.1) }
	off := func(c *config.Config) { dropped(c); c.LabelShift = config.ShiftOff }
	mixed := func(c *config.Config) { dropped(c); c.Mixture = config.MixtureLabels }
	history := func(change func(*config.Config)) func(*config.Config) {
		return func(c *config.Config) { change(c); c.History = true }
	}
	return []cause{
		{"in memory", 64, 0, true, func(*config.Config) {}},
		{"in memory, exact hop", 64, 0, true, hop},
		{"in memory, exact hop, input dropout .1", 64, 0, true, dropped},
		{"order of 8 of 64, all neighbours", 64, 8, true, off},
		{"order of 8 of 64, all neighbours, shift", 64, 8, true, dropped},
		{"order of 64 of 512, all neighbours", 512, 64, true, off},
		{"order of 64 of 512, all neighbours, shift", 512, 64, true, dropped},
		{"order of 64 of 512, all neighbours, shift, mixed", 512, 64, true, mixed},
		{"8 of 64, first hop sampled, neighbours absent", 64, 8, false, sampled},
		{"8 of 64, first hop sampled, neighbours an epoch old", 64, 8, false, history(sampled)},
		{"8 of 64, neighbours absent", 64, 8, false, off},
		{"8 of 64, neighbours absent, shift", 64, 8, false, dropped},
		{"8 of 64, neighbours an epoch old, shift", 64, 8, false, history(dropped)},
		{"8 of 64, neighbours an epoch old, shift, mixed", 64, 8, false, history(mixed)},
		{"64 of 512, neighbours absent, shift", 512, 64, false, dropped},
		{"64 of 512, neighbours an epoch old, shift", 512, 64, false, history(dropped)},
		{"64 of 512, neighbours an epoch old, shift, mixed", 512, 64, false, history(mixed)},
	}
}

// run trains the rows and prints each as soon as it is done.
func (o *causes) run(ctx context.Context, asJSON bool) (err error) {
	work, err := os.MkdirTemp("", "gstore-causes-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if !asJSON {
		fmt.Println("| data | what | steps an epoch | test % at equal epochs | at equal steps | valid % | error of aggregates by layer |")
		fmt.Println("|---|---|---|---|---|---|---|")
	}
	for _, data := range o.data {
		steps := 0 // of the run in memory: the first row
		for _, c := range causeRows() {
			if steps > 0 && !strings.Contains(c.name, o.only) {
				continue
			}
			r, err := o.row(ctx, work, data, c, &steps)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", data, c.name, err)
			}
			if asJSON {
				if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
					return err
				}
				continue
			}
			test, sd := meanSD(r.Test)
			equal, equalSD := meanSD(r.EqualSteps)
			valid, _ := meanSD(r.Valid)
			fmt.Printf("| %s | %s | %d | %.2f ± %.2f | %.2f ± %.2f | %.2f | %s |\n", data, r.Name, r.Steps, test, sd, equal, equalSD, valid, r.layerErrors())
		}
	}
	return nil
}

// causeResult is what a row's runs gave: % by seed.
type causeResult struct {
	Data       string    `json:"data"`
	Name       string    `json:"name"`
	Steps      int       `json:"steps_per_epoch"` // optimiser steps
	Test       []float64 `json:"test"`            // of the best validation among all epochs
	EqualSteps []float64 `json:"test_equal_steps"`
	Valid      []float64 `json:"valid"`
	// Errors are those of the layers' aggregates, by seed and layer, see [train.Checkpoint.AggregateErrors].
	Errors [][]float64 `json:"aggregate_errors"`
}

// layerErrors are the means of the seeds' errors, input first.
func (r *causeResult) layerErrors() string {
	var of []string
	for l := range r.Errors[0] {
		var seeds []float64
		for _, e := range r.Errors {
			seeds = append(seeds, e[l])
		}
		mean, _ := meanSD(seeds)
		of = append(of, fmt.Sprintf("%.3f", mean))
	}
	return strings.Join(of, ", ")
}

// row trains a row once a seed. steps are the optimiser steps of a run in memory; 0: this row's.
func (o *causes) row(ctx context.Context, work, data string, c cause, steps *int) (*causeResult, error) {
	r := &causeResult{Data: data, Name: c.name}
	for seed := o.seed; seed < o.seed+uint64(o.seeds); seed++ {
		dir, err := o.store(ctx, work, data, c.partitions, seed)
		if err != nil {
			return nil, err
		}
		cfg := config.Config{Layers: 2, Epochs: o.epochs, Seed: seed, Threads: o.threads, Plan: "memory", Absent: config.AbsentIgnore, Mixture: config.MixtureRandom}
		if c.whole {
			cfg.Group = c.group
		} else {
			cfg.Plan, cfg.Buffer = "hanoi", c.group
		}
		c.change(&cfg)
		var epochs []train.Epoch
		of, err := o.train(ctx, dir, cfg, train.Hooks{Epoch: func(e train.Epoch) { epochs = append(epochs, e) }})
		if err != nil {
			return nil, err
		}
		r.Errors = append(r.Errors, of)
		r.Steps = int(epochs[0].Batches)
		if *steps == 0 {
			*steps = r.Steps * o.epochs
		}
		r.Test = append(r.Test, 100*testOfBest(epochs))
		r.EqualSteps = append(r.EqualSteps, 100*testOfBest(epochs[:max(1, min(len(epochs), *steps/r.Steps))]))
		best := 0.
		for _, e := range epochs {
			best = max(best, e.ValidAccuracy)
		}
		r.Valid = append(r.Valid, 100*best)
	}
	return r, nil
}

// train trains on a store, and returns the errors of the best model's aggregates.
func (o *causes) train(ctx context.Context, dir string, c config.Config, hooks train.Hooks) (of []float64, err error) {
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return nil, err
	}
	dev := host.New(host.Options{Threads: c.Threads})
	defer func() { err = errors.Join(err, dev.Close(), st.Close()) }()
	cp, err := train.Node(ctx, st, dev, c, hooks)
	if err != nil {
		return nil, err
	}
	return cp.AggregateErrors(ctx, st, dev)
}

// store makes a data set's store, or returns the one made for a row before: undirected, FENNEL, with an exact hop. The block
// model is directed.
func (o *causes) store(ctx context.Context, work, data string, partitions int, seed uint64) (string, error) {
	dir := filepath.Join(work, fmt.Sprintf("%s-%d-%d.gstore", data, partitions, seed))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	input, undirected := filepath.Join(o.datasets, data), true
	if data == "sbm" {
		input, undirected = filepath.Join(work, "sbm"), false
		if _, err := os.Stat(input); err != nil {
			g, err := generate.NewSBM(generate.SBMOptions{Nodes: 200_000, Edges: 3_000_000, Classes: 32, Dim: 128, Signal: 1, Homophily: .7, Seed: 2})
			if err != nil {
				return "", err
			}
			if _, err := generate.Write(ctx, input, g, generate.WriteOptions{Threads: o.threads, Train: .1, Valid: .05, Test: .2}); err != nil {
				return "", err
			}
		}
	}
	if err := makeStore(ctx, input, dir, ingest.Options{Partitions: partitions, Partitioner: partitioner.MethodFennel, Undirected: undirected, Seed: seed}); err != nil {
		return "", err
	}
	dev := host.New(host.Options{Threads: o.threads})
	_, err := precompute.Hop(ctx, dir, dev, precompute.Options{})
	return dir, errors.Join(err, dev.Close())
}
