package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store/ingest"
)

// linkSearch looks for defaults of decoders by validation MRR alone, in memory, one setting changed at a time. What a run has
// without flags is judged by other tables, and on other graphs.
type linkSearch struct {
	datasets   string
	data       []string
	threads    int
	seed       uint64
	epochs     int // 0: the default
	only       string
	dim, wrong int // 0: the defaults
}

// linkChange is a setting that a search tries.
type linkChange struct {
	name   string
	change func(c *link.Config)
}

func linkChanges() []linkChange {
	changes := []linkChange{{"default", func(*link.Config) {}}, {"preset marius", func(c *link.Config) { c.Preset = link.PresetMarius }}}
	for _, n3 := range []float64{0, .01, .03, .05, .1, .2} {
		changes = append(changes, linkChange{fmt.Sprintf("n3 %g", n3), func(c *link.Config) { c.N3 = share(n3) }})
	}
	for _, lr := range []float64{.03, .05, .2, .4} {
		changes = append(changes, linkChange{fmt.Sprintf("lr %g", lr), func(c *link.Config) { c.LR = lr }})
	}
	for _, n := range []int{250, 500, 2000, 4000} {
		changes = append(changes, linkChange{fmt.Sprintf("negatives %d", n), func(c *link.Config) { c.Negatives = n }})
	}
	for _, dim := range []int{100, 200, 400} {
		changes = append(changes, linkChange{fmt.Sprintf("dim %d", dim), func(c *link.Config) { c.Dim = dim }})
	}
	return append(changes,
		linkChange{"negatives for themselves", func(c *link.Config) { c.NegativesFor = link.ForThemselves }},
		linkChange{"10 chunks", func(c *link.Config) { c.Chunks = 10 }},
		linkChange{"batches of 500", func(c *link.Config) { c.BatchSize = 500 }},
		linkChange{"adam", func(c *link.Config) { c.Optimizer = "adam" }})
}

// linkFound is a line of the search.
type linkFound struct {
	Data       string  `json:"data"`
	Model      string  `json:"model"`
	Change     string  `json:"change"`
	ValidMRR   float64 `json:"valid_mrr"`
	CPUSeconds float64 `json:"cpu_seconds"` // of training
}

// run prints a line for each data set, model and change of which "DATA MODEL CHANGE" has o.only in it.
func (o linkSearch) run(ctx context.Context, asJSON bool) error {
	work, err := os.MkdirTemp("", "gstore-accuracy-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // temporary: nothing is lost
	if !asJSON {
		fmt.Println("| data | model | changed | validation MRR | CPU s |\n|---|---|---|---:|---:|")
	}
	for _, data := range o.data {
		dir := filepath.Join(work, data+".gstore")
		if err := makeStore(ctx, filepath.Join(o.datasets, data), dir, ingest.Options{Partitions: 1, Seed: o.seed}); err != nil {
			return fmt.Errorf("%s: %w", data, err)
		}
		for _, model := range []string{"distmult", "complex", "rotate", "transe"} {
			for _, change := range linkChanges() {
				f := linkFound{Data: data, Model: model, Change: change.name}
				if !strings.Contains(data+" "+model+" "+change.name, o.only) {
					continue
				}
				if err := o.train(ctx, dir, change, &f); err != nil {
					return fmt.Errorf("%s, %s, %s: %w", data, model, change.name, err)
				}
				if asJSON {
					if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
						return err
					}
					continue
				}
				fmt.Printf("| %s | %s | %s | %.4f | %.0f |\n", f.Data, f.Model, f.Change, f.ValidMRR, f.CPUSeconds)
			}
		}
	}
	return nil
}

// train fills in a line.
func (o linkSearch) train(ctx context.Context, dir string, change linkChange, f *linkFound) error {
	c := link.Config{Model: f.Model, Plan: macro.Memory, Dim: o.dim, Negatives: o.wrong, Epochs: o.epochs, Seed: o.seed, Threads: o.threads,
		EvalEvery: lastEpoch, CheckpointEvery: "0"}
	change.change(&c)
	s, err := trainTriples(ctx, dir, c)
	if err != nil {
		return err
	}
	f.ValidMRR = s.ValidMRR
	for _, seconds := range s.EpochCPUSeconds {
		f.CPUSeconds += seconds
	}
	return nil
}
