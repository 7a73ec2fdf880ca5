package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store/ingest"
)

// linkCauses is -table causes on triples: what each part of training links out of core costs, one thing switched at a time, at
// equal epochs (docs/accuracy.md, "Link prediction").
type linkCauses struct {
	datasets string
	data     string      // folder of the data set
	config   link.Config // the model
	epochs   int
	seed     uint64
	seeds    int
	threads  int
	only     string
}

// linkData are the data sets of triples.
var linkData = []string{"fb15k-237", "wn18rr"}

// linkCause is a row; the first one is what others are compared with.
type linkCause struct {
	name    string
	encoder bool // only with an encoder
	change  func(c *link.Config)
}

func linkCauseRows() []linkCause {
	group := func(c *link.Config) { c.Group, c.NegativesFrom = linkPartitions/4, link.FromResident } // all nodes are
	comet := func(share int) func(*link.Config) {
		return func(c *link.Config) { c.Plan, c.Buffer = macro.Comet, linkPartitions/share }
	}
	small := func(change func(*link.Config)) func(*link.Config) {
		return func(c *link.Config) { change(c); c.BatchSize, c.Chunks = 250, 3 }
	}
	none := func(*link.Config) {}
	hide := true
	return []linkCause{
		{"in memory", false, none},
		{"in memory, batches of 925: as many steps as COMET", false, func(c *link.Config) { c.BatchSize = 925 }},
		{"in memory, batches of 250", false, small(none)},
		{"in memory, batches of 4000: a node's share as by COMET", false, func(c *link.Config) { c.BatchSize, c.Chunks = 4000, 40 }},
		{"in memory, a batch's edges all hidden", true, func(c *link.Config) { c.RemoveBatchEdges = &hide }},
		{"in memory, a batch's edges not hidden", true, func(c *link.Config) { c.RemoveBatchEdges = new(bool) }},
		{"order of 8 of 32, all neighbours, negatives from all nodes", false, group},
		{"8 of 32", false, comet(4)},
		{"8 of 32, negatives from all in memory", false, func(c *link.Config) { comet(4)(c); c.NegativesFrom = link.FromResident }},
		{"8 of 32, negatives from where answers may lie", false, func(c *link.Config) { comet(4)(c); c.NegativesFrom = link.FromAnswers }},
		{"8 of 32, batches of 250", false, small(comet(4))},
		{"8 of 32, a batch's edges all hidden", true, func(c *link.Config) { comet(4)(c); c.RemoveBatchEdges = &hide }},
		{"8 of 32, a batch's edges not hidden", true, func(c *link.Config) { comet(4)(c); c.RemoveBatchEdges = new(bool) }},
		{"8 of 32, encoder and relations at the embeddings' rate", true, func(c *link.Config) { comet(4)(c); c.DenseRate = 1 }},
		{"8 of 32, twice the negatives in half the chunks", true, func(c *link.Config) {
			comet(4)(c)
			c.Negatives, c.Chunks = 2*cmp.Or(c.Negatives, 500), 5
		}},
		{"8 of 32, shadow", true, func(c *link.Config) { comet(4)(c); c.Absent = link.AbsentShadow }},
		{"4 of 32", false, comet(8)},
	}
}

// linkCauseResult is what a row's runs gave: MRR by seed.
type linkCauseResult struct {
	Data       string    `json:"data"`
	Name       string    `json:"name"`
	Steps      int64     `json:"steps_per_epoch"` // optimiser steps
	Test       []float64 `json:"test"`            // after the last epoch
	Valid      []float64 `json:"valid"`
	CPUSeconds float64   `json:"epoch_cpu_seconds"` // median
	BytesEpoch int64     `json:"read_per_epoch"`
}

// run trains the rows whose names contain only and prints each as soon as it is done, with the difference by seed to the first.
func (o *linkCauses) run(ctx context.Context, asJSON bool) (err error) {
	work, err := os.MkdirTemp("", "gstore-causes-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if !asJSON {
		fmt.Println("| data | what | steps an epoch | test MRR | valid MRR | test against memory, by seed | CPU s/epoch | read/epoch |")
		fmt.Println("|---|---|---|---|---|---|---|---|")
	}
	var memory *linkCauseResult
	for _, c := range linkCauseRows() {
		if c.encoder && o.config.Encoder == "" || memory != nil && !strings.Contains(c.name, o.only) {
			continue
		}
		r, err := o.row(ctx, work, c)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", o.data, c.name, err)
		}
		if memory == nil {
			memory = r
		}
		if asJSON {
			if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
				return err
			}
			continue
		}
		var against []float64
		for i, v := range r.Test {
			against = append(against, v-memory.Test[i])
		}
		test, sd := meanSD(r.Test)
		valid, _ := meanSD(r.Valid)
		diff, diffSD := meanSD(against)
		fmt.Printf("| %s | %s | %d | %.4f ± %.4f | %.4f | %+.4f ± %.4f | %.2f | %.1f MiB |\n", r.Data, r.Name, r.Steps, test, sd, valid, diff, diffSD,
			r.CPUSeconds, float64(r.BytesEpoch)/(1<<20))
	}
	return nil
}

// row trains a row once a seed; the partitioning has the run's seed too.
func (o *linkCauses) row(ctx context.Context, work string, c linkCause) (*linkCauseResult, error) {
	r := &linkCauseResult{Data: o.data, Name: c.name}
	var cpu []float64
	for seed := o.seed; seed < o.seed+uint64(o.seeds); seed++ {
		dir := filepath.Join(work, fmt.Sprintf("%s-%d.gstore", o.data, seed))
		if _, err := os.Stat(dir); err != nil {
			if err := makeStore(ctx, filepath.Join(o.datasets, o.data), dir, ingest.Options{Partitions: linkPartitions, Seed: seed}); err != nil {
				return nil, err
			}
		}
		cfg := o.config
		cfg.Plan, cfg.Epochs, cfg.EvalEvery, cfg.CheckpointEvery, cfg.Seed, cfg.Threads = macro.Memory, o.epochs, o.epochs, "0", seed, o.threads
		c.change(&cfg)
		s, err := trainTriples(ctx, dir, cfg)
		if err != nil {
			return nil, err
		}
		r.Steps = s.Batches / int64(o.epochs)
		r.Test, r.Valid = append(r.Test, s.TestMRR), append(r.Valid, s.ValidMRR)
		cpu = append(cpu, s.EpochCPUSeconds...)
		r.BytesEpoch = s.BytesRead / int64(o.epochs)
	}
	r.CPUSeconds = median(cpu)
	return r, nil
}
