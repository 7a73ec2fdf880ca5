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
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// linkRow is one line of the table of link prediction.
type linkRow struct {
	name       string
	data       string // folder below -datasets
	partitions int
	config     link.Config
	reference  string  // datasets/README.md, or the paper's Table 8
	target     float64 // MRR; 0: none
}

// linkPartitions is how fine the stores are cut; out of core a quarter of them is resident, or an eighth.
const linkPartitions = 32

// lastEpoch as EvalEvery validates behind the last epoch alone.
const lastEpoch = 1 << 30

// linkRows are plans memory, comet and beta for each model of a data set, comet with an eighth resident, and for encoders with a shadow
// of absent neighbours, and other models and losses in memory.
func linkRows() []linkRow {
	var rows []linkRow
	// references and targets are those in memory, of comet and of beta.
	add := func(data, name string, c link.Config, references [3]string, targets [3]float64) {
		row := func(plan string, share int, absent, suffix, reference string, target float64) {
			c := c
			c.Plan, c.Absent, c.Preset = plan, absent, link.PresetMarius
			if plan != "memory" {
				c.Buffer = linkPartitions / share
			}
			rows = append(rows, linkRow{fmt.Sprintf("%s %s, %s%s", data, name, plan, suffix), data, linkPartitions, c, reference, target})
		}
		row("memory", 1, "", "", references[0], targets[0])
		row("comet", 4, "", "", references[1], targets[1])
		if c.Encoder != "" {
			row("comet", 4, link.AbsentShadow, " with a shadow", "", 0)
		}
		row("comet", 8, "", " at an eighth", "", 0)
		row("beta", 4, "", "", references[2], targets[2])
	}
	add("fb15k-237", "DistMult", link.Config{Epochs: 8}, [3]string{".267; paper .2533", "paper .2659", "paper .2431"}, [3]float64{.265, .262, 0})
	add("fb15k-237", "SAGE + DistMult", link.Config{Epochs: 8, Encoder: "sage"}, [3]string{".2857; paper .2825", "paper .2736", "paper .2369"}, [3]float64{.285, .280, 0})
	add("fb15k-237", "GAT + DistMult", link.Config{Epochs: 8, Encoder: "gat"}, [3]string{"paper .2869", "paper .2341", "paper .2076"}, [3]float64{.287, .26, 0})
	add("fb15k-237", "ComplEx", link.Config{Epochs: 8, Model: "complex"}, [3]string{}, [3]float64{})
	// Once each: what else there is, in memory.
	one := func(name string, c link.Config) {
		c.Epochs, c.Plan, c.Preset = 8, "memory", link.PresetMarius
		rows = append(rows, linkRow{name: "fb15k-237 " + name + ", memory", data: "fb15k-237", partitions: linkPartitions, config: c})
	}
	hide := true
	one("SAGE hiding a batch's edges", link.Config{Encoder: "sage", RemoveBatchEdges: &hide})
	one("GCN", link.Config{Encoder: "gcn"})
	one("TransE", link.Config{Model: "transe"})
	one("dot", link.Config{Model: "dot"})
	one("logistic loss", link.Config{Loss: "logistic"})
	one("margin loss", link.Config{Loss: "margin"})
	add("wn18rr", "DistMult", link.Config{Epochs: 20}, [3]string{".387"}, [3]float64{.38})
	add("wn18rr", "ComplEx", link.Config{Epochs: 20, Model: "complex"}, [3]string{}, [3]float64{})
	add("wn18rr", "SAGE + DistMult", link.Config{Epochs: 20, Encoder: "sage"}, [3]string{}, [3]float64{})
	add("wn18rr", "GAT + DistMult", link.Config{Epochs: 20, Encoder: "gat"}, [3]string{}, [3]float64{})
	return append(rows, defaultLinkRows()...)
}

// defaultLinkRows are the decoders as a run has them by default. References are LibKGE's (Ruffinelli et al., ICLR 2020).
func defaultLinkRows() (rows []linkRow) {
	for _, d := range []struct {
		data, model, reference string
		target                 float64
	}{
		{"fb15k-237", "distmult", "LibKGE .343", .335}, {"fb15k-237", "complex", "LibKGE .348", .345},
		{"fb15k-237", "rotate", "LibKGE .333", .33}, {"fb15k-237", "transe", "LibKGE .313", .31},
		{"wn18rr", "distmult", "LibKGE .452", 0}, {"wn18rr", "complex", "LibKGE .475", .47},
		{"wn18rr", "rotate", "LibKGE .478", .47}, {"wn18rr", "transe", "LibKGE .228", 0},
	} {
		for _, plan := range []string{"memory", "comet"} {
			r := linkRow{name: fmt.Sprintf("%s %s by default, %s", d.data, d.model, plan), data: d.data, partitions: linkPartitions,
				config: link.Config{Model: d.model, Plan: plan}, reference: d.reference}
			if plan == "memory" {
				r.target = d.target
			} else {
				r.config.Buffer = linkPartitions / 4
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// linkResult is what a row's runs gave.
type linkResult struct {
	Name       string    `json:"name"`
	MRR        []float64 `json:"mrr"` // filtered, test, by seed
	Mean       float64   `json:"mean"`
	SD         float64   `json:"sd"`
	Hits10     float64   `json:"hits10"` // mean
	Reference  string    `json:"reference"`
	Target     float64   `json:"target,omitempty"`
	Bias       float64   `json:"bias"`                // of the plans, mean
	CPUSeconds float64   `json:"epoch_cpu_seconds"`   // median of all epochs
	BytesEpoch int64     `json:"read_per_epoch"`      //
	Written    int64     `json:"written_per_epoch"`   // checkpoints apart
	Amplified  float64   `json:"write_amplification"` // largest
}

// runLink trains the rows whose names contain only.
func runLink(ctx context.Context, datasets string, first, seeds uint64, only, negativesFrom string, threads int, asJSON bool) (err error) {
	if seeds < 1 {
		return errors.New("-seeds: expected 1 or more")
	}
	work, err := os.MkdirTemp("", "gstore-accuracy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if !asJSON {
		fmt.Println("| data, model, plan | test MRR | hits@10 | reference | goal | bias | CPU s/epoch | read/epoch | written/epoch |")
		fmt.Println("|---|---|---|---|---|---|---|---|---|")
	}
	for _, r := range linkRows() {
		if !strings.Contains(r.name, only) {
			continue
		}
		r.config.NegativesFrom = negativesFrom
		res, err := r.run(ctx, datasets, work, first, seeds, threads)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		if asJSON {
			if err := json.NewEncoder(os.Stdout).Encode(res); err != nil {
				return err
			}
			continue
		}
		goal := ""
		if r.target > 0 {
			goal = fmt.Sprintf("≥ %.3f", r.target)
		}
		fmt.Printf("| %s | **%.4f ± %.4f** | %.3f | %s | %s | %.2f | %.2f | %.1f MiB | %.1f MiB |\n", res.Name, res.Mean, res.SD, res.Hits10, res.Reference, goal,
			res.Bias, res.CPUSeconds, float64(res.BytesEpoch)/(1<<20), float64(res.Written)/(1<<20))
	}
	return nil
}

// run trains the row once a seed; the partitioning has the run's seed too.
func (r linkRow) run(ctx context.Context, datasets, work string, first, seeds uint64, threads int) (*linkResult, error) {
	res := &linkResult{Name: r.name, Reference: r.reference, Target: r.target}
	var cpu []float64
	for seed := first; seed < first+seeds; seed++ {
		dir := filepath.Join(work, fmt.Sprintf("%s-%d-%d.gstore", r.data, r.partitions, seed))
		if _, err := os.Stat(dir); err != nil {
			if err := makeStore(ctx, filepath.Join(datasets, r.data), dir, ingest.Options{Partitions: r.partitions, Seed: seed}); err != nil {
				return nil, err
			}
		}
		c := r.config
		c.Seed, c.Threads, c.EvalEvery, c.CheckpointEvery = seed, threads, lastEpoch, "0"
		s, err := trainTriples(ctx, dir, c)
		if err != nil {
			return nil, err
		}
		res.MRR = append(res.MRR, s.TestMRR)
		res.Hits10 += s.TestHits10 / float64(seeds)
		res.Bias += s.Bias / float64(seeds)
		cpu = append(cpu, s.EpochCPUSeconds...)
		res.BytesEpoch = s.BytesRead / int64(len(s.EpochSeconds))
		res.Written = s.BytesWritten / int64(len(s.EpochSeconds))
		res.Amplified = max(res.Amplified, s.Amplification)
	}
	res.Mean, res.SD = meanSD(res.MRR)
	res.CPUSeconds = median(cpu)
	return res, nil
}

func trainTriples(ctx context.Context, dir string, c link.Config) (_ *link.Summary, err error) {
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	dev := host.New(host.Options{Threads: c.Threads})
	defer func() { err = errors.Join(err, dev.Close()) }()
	if c.From != "" {
		var b *link.Begin
		if b, err = link.OpenBegin(ctx, st, c.From); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, b.Close()) }()
		c.BeginWith(b)
	}
	r, err := link.Train(ctx, st, dev, c, link.Hooks{})
	if err != nil {
		return nil, err
	}
	return &r.Summary, nil
}
