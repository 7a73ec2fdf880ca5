package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/tools/generate"
	"github.com/gstore/gstore/tools/recipe"
)

// defaults is -table default: what "gstore ingest X S --mem M" and "gstore train S --mem M" give without another flag, beside
// training in memory, tuned, and beside partitions of an eighth and a sixteenth of the nodes at a time.
type defaults struct {
	datasets string // folder of the data sets
	work     string // where graphs and stores are kept between runs; "": a temporary folder
	graphs   []string
	rows     []string // names of those of each graph; none: all
	epochs   int      // 0: until validation rises no more
	seed     uint64   // the first
	seeds    int
	threads  int
}

// defaultGraph is a graph, and the memory that its user gives.
type defaultGraph struct {
	name     string
	data     string // folder below defaults.datasets; "": model is generated
	model    generate.SBMOptions
	shares   generate.WriteOptions // of training, validation and test nodes
	directed bool
	split    string
	layers   int
	memory   int64 // bytes
}

// defaultGraphs are those of the table. Nothing of gstore was tuned on those that are named fresh.
func defaultGraphs() []defaultGraph {
	fresh := func(name string, memory int64, directed bool, o generate.SBMOptions, share float64) defaultGraph {
		return defaultGraph{name: "fresh " + name, model: o, shares: generate.WriteOptions{Train: share, Valid: .05, Test: .2}, directed: directed, layers: 2, memory: memory << 20}
	}
	given := func(data, split string, layers int, memory int64) defaultGraph {
		return defaultGraph{name: strings.TrimSpace(fmt.Sprintf("%s %s", data, split)) + fmt.Sprintf(" %d layers", layers), data: data, split: split, layers: layers, memory: memory << 20}
	}
	return []defaultGraph{
		given("facebook-pages", "", 2, 97),
		fresh("a", 112, false, generate.SBMOptions{Nodes: 60_000, Edges: 500_000, Classes: 12, Dim: 128, Homophily: .6, Signal: .6, Skew: 3, Seed: 101}, .08),
		fresh("b", 128, false, generate.SBMOptions{Nodes: 80_000, Edges: 800_000, Classes: 24, Dim: 64, Homophily: .5, Signal: .8, Skew: 1, Seed: 202}, .05),
		fresh("c", 128, true, generate.SBMOptions{Nodes: 100_000, Edges: 1_200_000, Classes: 8, Dim: 64, Homophily: .75, Signal: .4, Skew: 2, Seed: 303}, .1),
		given("debdeps", "split", 2, 128),
		given("debdeps", "split_sparse", 2, 128),
		given("debdeps", "split", 3, 160),
		{name: "block model 1M", layers: 2, memory: 256 << 20, shares: generate.WriteOptions{Train: .05, Valid: .1, Test: .85},
			model: generate.SBMOptions{Nodes: 1_000_000, Edges: 10_000_000, Classes: 16, Dim: 32, Homophily: .7, Signal: .5, Seed: 1}},
		{name: "block model 200k", layers: 2, memory: 192 << 20, directed: true, shares: generate.WriteOptions{Train: .1, Valid: .05, Test: .2},
			model: generate.SBMOptions{Nodes: 200_000, Edges: 3_000_000, Classes: 32, Dim: 128, Homophily: .7, Signal: 1, Seed: 2}},
		given("cora", "", 2, 162),
	}
}

// defaultRow is a way to train a graph. Rows in memory come first: the best of them by validation is what the others are held against.
type defaultRow struct {
	name   string
	laid   bool // on a store that is laid out to be learnt out of core
	memory bool // nothing is absent
	change func(c *config.Config, g *defaultGraph, partitions int)
}

func defaultRows() []defaultRow {
	fraction := func(n int) func(*config.Config, *defaultGraph, int) {
		return func(c *config.Config, _ *defaultGraph, partitions int) {
			c.Plan, c.Buffer = "hanoi", max(1, partitions/n)
		}
	}
	return []defaultRow{
		{"memory", false, true, func(c *config.Config, _ *defaultGraph, _ int) { c.Plan, c.Absent = "memory", config.AbsentIgnore }},
		{"memory+dropout", false, true, func(c *config.Config, _ *defaultGraph, _ int) {
			c.Plan, c.Absent, c.InputDropout = "memory", config.AbsentIgnore, share(.1)
		}},
		{"memory+hop", true, true, func(c *config.Config, _ *defaultGraph, _ int) { c.Plan, c.PrecomputedHop = "memory", true }},
		{"default", false, false, func(c *config.Config, g *defaultGraph, _ int) { c.MemoryBytes = g.memory }},
		{"hanoi/8", true, false, fraction(8)},
		{"hanoi/16", true, false, fraction(16)},
		{"rows", true, false, func(c *config.Config, g *defaultGraph, _ int) {
			c.Plan, c.PrecomputedHop, c.MemoryBytes = "rows", true, g.memory
		}},
	}
}

// defaultResult is what a row's runs gave, by seed where it is a list.
type defaultResult struct {
	Graph string    `json:"graph"`
	Row   string    `json:"row"`
	Mem   int64     `json:"mem_bytes,omitempty"`
	Plan  string    `json:"plan"`  // of the last seed, as is what follows but for lists
	Test  []float64 `json:"test"`  // %
	Valid []float64 `json:"valid"` // %
	// Behind is Test less the baseline's, of the same seed; nil before the baseline is known.
	Behind     []float64         `json:"behind,omitempty"`
	Epochs     []int             `json:"epochs"`
	Steps      []int64           `json:"optimiser_steps"`
	CPU        []float64         `json:"cpu_seconds"` // of training and validation
	BatchSize  int               `json:"batch_size"`
	BytesEpoch int64             `json:"bytes_per_epoch"` // read by training
	Held       float64           `json:"features_held"`   // the most that a step held of the features, hops included, over the features without
	Outlook    *planning.Outlook `json:"outlook,omitempty"`
}

const defaultLine = "| %s | %s | %s | %.2f ± %.2f | %.2f | %s | %s | %s | %s | %.0f | %.1f MiB | %s |\n"

// run trains the rows of each graph and prints each as soon as it is done.
func (o *defaults) run(ctx context.Context, asJSON bool) (err error) {
	for _, name := range o.rows {
		if !slices.ContainsFunc(defaultRows(), func(r defaultRow) bool { return r.name == name }) {
			return fmt.Errorf("-runs: %q is no row of the table", name)
		}
	}
	graphs := slices.DeleteFunc(defaultGraphs(), func(g defaultGraph) bool { return !matches(o.graphs, g.name) })
	if len(graphs) == 0 {
		return fmt.Errorf("-only %q: no graph of the table", strings.Join(o.graphs, ","))
	}
	if o.work == "" {
		if o.work, err = os.MkdirTemp("", "gstore-default-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.work)) }()
	} else if err := os.MkdirAll(o.work, 0o755); err != nil {
		return err
	}
	if !asJSON {
		fmt.Println("| graph | run | plan | test % | valid % | to the best in memory | expected loss | epochs | steps | CPU s | read/epoch | features held |")
		fmt.Println("|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	}
	for _, g := range graphs {
		if err := o.graph(ctx, &g, asJSON); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return nil
}

// matches reports whether a name holds one of some, all where there are none.
func matches(some []string, name string) bool {
	for _, s := range some {
		if strings.Contains(name, s) {
			return true
		}
	}
	return len(some) == 0
}

// graph trains a graph's rows.
func (o *defaults) graph(ctx context.Context, g *defaultGraph, asJSON bool) error {
	var best *defaultResult
	for _, row := range defaultRows() {
		if len(o.rows) > 0 && !slices.Contains(o.rows, row.name) {
			continue
		}
		r, err := o.row(ctx, g, row)
		if row.laid && errors.Is(err, store.ErrBudget) { // a plan that is asked for: the table goes on without it
			fmt.Fprintf(os.Stderr, "accuracy: %s: no row %s: %v\n", g.name, row.name, err)
			continue
		} else if err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		valid, _ := meanSD(r.Valid)
		if row.memory {
			if best == nil || valid > mean(best.Valid) {
				best = r
			}
		} else if best != nil {
			for i := range r.Test {
				r.Behind = append(r.Behind, r.Test[i]-best.Test[i])
			}
		}
		if asJSON {
			if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
				return err
			}
			continue
		}
		r.print()
	}
	return nil
}

func mean(x []float64) float64 { m, _ := meanSD(x); return m }

// print writes the row's line.
func (r *defaultResult) print() {
	behind, expected := "", ""
	if r.Behind != nil {
		m, sd := meanSD(r.Behind)
		behind = fmt.Sprintf("**%+.2f** ± %.2f", m, sd)
	}
	if r.Outlook != nil {
		expected = fmt.Sprintf("%.1f, kept %.2f, diverge %.3f", r.Outlook.LossPoints, r.Outlook.Kept, r.Outlook.Divergence)
	}
	name := r.Row
	if r.Mem > 0 {
		name += " --mem " + blocks.SizeText(r.Mem)
	}
	test, sd := meanSD(r.Test)
	fmt.Printf(defaultLine, r.Graph, name, r.Plan, test, sd, mean(r.Valid), behind, expected, texts(r.Epochs), texts(r.Steps), mean(r.CPU), float64(r.BytesEpoch)/(1<<20), fmt.Sprintf("%.2f", r.Held))
}

// texts lists numbers.
func texts[T int | int64](ns []T) string { return strings.Trim(fmt.Sprint(ns), "[]") }

// row trains one row once a seed, which is also that of its store.
func (o *defaults) row(ctx context.Context, g *defaultGraph, row defaultRow) (*defaultResult, error) {
	r := &defaultResult{Graph: g.name, Row: row.name}
	for seed := o.seed; seed < o.seed+uint64(o.seeds); seed++ {
		dir, err := o.store(ctx, g, row.laid, seed)
		if err != nil {
			return nil, err
		}
		m, err := manifest(dir)
		if err != nil {
			return nil, err
		}
		c := config.Config{Layers: g.layers, Split: g.split, Seed: seed, Threads: o.threads, Epochs: o.epochs}
		row.change(&c, g, len(m.Partitions)-len(m.Pinned))
		hooks := train.Hooks{
			Start:   func(full config.Config) { c = full },
			Outlook: func(expected planning.Outlook) { r.Outlook = &expected },
		}
		s, err := trainStore(ctx, dir, c, hooks)
		if err != nil {
			return nil, err
		}
		epochs := len(s.EpochSeconds)
		batches := int(s.Batches) / epochs
		r.Mem, r.Plan, r.BatchSize = c.MemoryBytes, s.Plan, c.BatchSize*c.Accumulate
		r.Test, r.Valid = append(r.Test, 100*s.TestAccuracy), append(r.Valid, 100*s.ValidAccuracy)
		r.Epochs, r.CPU = append(r.Epochs, epochs), append(r.CPU, s.CPUSeconds)
		r.Steps = append(r.Steps, int64(epochs*((batches+c.Accumulate-1)/c.Accumulate)))
		r.BytesEpoch = (s.BytesRead + s.HistoryRowBytes) / int64(epochs)
		r.Held = float64(s.FeatureResidentBytes) / float64(featureBytes(m))
	}
	return r, nil
}

// manifest is that of a store's newest version.
func manifest(dir string) (*store.Manifest, error) {
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return nil, err
	}
	return st.Manifest(), st.Close()
}

// featureBytes are those of all nodes' features, hops apart.
func featureBytes(m *store.Manifest) (n int64) {
	for _, c := range m.ColumnsOf(store.RoleFeature) {
		if c.Derived == "" {
			n += int64(m.Nodes) * int64(c.Dim*c.Elem.Size())
		}
	}
	return max(n, 1)
}

// store makes a graph's store as "gstore ingest" does by default with the graph's memory, or returns the one that is there. laid asks
// for one that is laid out to be learnt out of core, which the default is where it will not fit.
func (o *defaults) store(ctx context.Context, g *defaultGraph, laid bool, seed uint64) (dir string, err error) {
	input, err := o.input(ctx, g)
	if err != nil {
		return "", err
	}
	src, err := formats.Open(input, formats.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	in := ingest.Options{Undirected: !g.directed, MemoryBytes: g.memory, Split: g.split, Threads: o.threads, Seed: seed}
	hop := laid
	in.Decide = func(ctx context.Context, p *ingest.Prospect, in *ingest.Options) (func(), error) {
		choice, err := recipe.Choose(ctx, p, in, recipe.Given{Memory: g.memory > 0})
		if laid && !choice.Hop {
			if err := recipe.LayOut(ctx, p, in); err != nil {
				return nil, err
			}
		}
		return func() { hop = laid || choice.Hop }, err
	}
	in.Heap = func(bytes int64) { debug.SetMemoryLimit(bytes) }
	name := fmt.Sprintf("%s-%d-%t-%d.gstore", strings.ReplaceAll(cmp.Or(g.data, g.name)+g.split, " ", "-"), in.MemoryBytes>>20, laid, seed)
	return o.kept(name, func(dir string) error {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(ingest.HeapBytes(in)))
		if _, err := ingest.Run(ctx, dir, src, in); err != nil || !hop {
			return err
		}
		dev := host.New(host.Options{Threads: o.threads})
		_, err := precompute.Hop(ctx, dir, dev, precompute.Options{MemoryBytes: in.MemoryBytes})
		return errors.Join(err, dev.Close())
	})
}

// kept is a folder below o.work: the one that is there, else what fill writes. One that was broken off is not taken for it later.
func (o *defaults) kept(name string, fill func(dir string) error) (dir string, err error) {
	dir = filepath.Join(o.work, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return "", err
	}
	if err := fill(part); err != nil {
		return "", err
	}
	return dir, os.Rename(part, dir)
}

// input is the folder that a graph's stores are ingested from.
func (o *defaults) input(ctx context.Context, g *defaultGraph) (string, error) {
	if g.data != "" {
		return filepath.Join(o.datasets, g.data), nil
	}
	return o.kept(strings.ReplaceAll(g.name, " ", "-"), func(dir string) error {
		m, err := generate.NewSBM(g.model)
		if err != nil {
			return err
		}
		shares := g.shares
		shares.Threads = o.threads
		_, err = generate.Write(ctx, dir, m, shares)
		return err
	})
}
