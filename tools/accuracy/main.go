// Command accuracy reproduces the accuracy figures of docs/benchmarks.md: it
// ingests the data sets, trains every row of the table with several seeds and
// prints test accuracy (mean ± sample standard deviation), seconds and bytes per epoch.
//
//	go run ./tools/accuracy -datasets /path/to/datasets [-seeds 3] [-only debdeps] [-json]
//	go run ./tools/accuracy -table sbm -layers 2 -fractions 8 -epochs 20 [-sbm-nodes 1000000] [-sbm-signal .5]
//	go run ./tools/accuracy -datasets /path/to/datasets -table link [-seeds 3] [-only DistMult]
//	go run ./tools/accuracy -datasets /path/to/datasets -table out-of-core [-splits split] [-layers 2] [-fractions 8] [-epochs 30,100]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
)

// row is one line of the table.
type row struct {
	name       string
	data       string // folder below -datasets
	partitions int
	config     train.Config
	reference  string  // datasets/README.md
	target     float64 // %; 0: none
	seedsMin   int     // seeds at least: more where the test set is small
}

func rows() []row {
	return []row{
		{"cora SAGE 2 layers", "cora", 4, train.Config{Layers: 2, Epochs: 80, WeightDecay: 5e-4, Plan: "memory"}, "87.0 ± .1", 86.5, 10},
		{"cora SAGE 2 layers, input dropout .2", "cora", 4, train.Config{Layers: 2, Epochs: 80, WeightDecay: 5e-4, InputDropout: .2, Plan: "memory"}, "87.0 ± .1", 0, 10},
		{"debdeps SAGE 2 layers", "debdeps", 32, train.Config{Layers: 2, Epochs: 30, Plan: "memory"}, "74.1 ± .1", 73.8, 0},
		{"debdeps SAGE 3 layers", "debdeps", 32, train.Config{Layers: 3, Epochs: 30, Plan: "memory"}, "76.0 ± .3", 75.6, 0},
		{name: "cora MLP 2 layers", data: "cora", partitions: 4, config: train.Config{Model: "mlp", Layers: 2, Epochs: 80, WeightDecay: 5e-4, Plan: "memory"}, reference: "74.4 ± .8", target: 0},
		{name: "cora GCN 2 layers", data: "cora", partitions: 4, config: train.Config{Model: "gcn", Layers: 2, Epochs: 80, WeightDecay: 5e-4, Plan: "memory"}, reference: "84.2 ± .3", target: 83.9},
		{name: "cora GAT 2 layers", data: "cora", partitions: 4, config: train.Config{Model: "gat", Layers: 2, Epochs: 80, WeightDecay: 5e-4, Plan: "memory"}, reference: "84.9 ± .1", target: 84.8},
		{name: "cora GIN 2 layers", data: "cora", partitions: 4, config: train.Config{Model: "gin", Layers: 2, Epochs: 80, WeightDecay: 5e-4, Plan: "memory"}, reference: "", target: 0},
		{name: "debdeps MLP 3 layers", data: "debdeps", partitions: 32, config: train.Config{Model: "mlp", Layers: 3, Hidden: 256, Epochs: 30, Plan: "memory"}, reference: "44.3 ± .2", target: 0},
		{name: "debdeps GCN 2 layers", data: "debdeps", partitions: 32, config: train.Config{Model: "gcn", Layers: 2, Epochs: 30, Plan: "memory"}, reference: "67.2 ± .3", target: 66.9},
		{name: "debdeps GAT 2 layers", data: "debdeps", partitions: 32, config: train.Config{Model: "gat", Layers: 2, Epochs: 30, Plan: "memory"}, reference: "72.0 ± .6", target: 71.4},
		{name: "debdeps GIN 2 layers", data: "debdeps", partitions: 32, config: train.Config{Model: "gin", Layers: 2, Epochs: 30, Plan: "memory"}, reference: "", target: 0},
		{"debdeps SAGE 2 layers, hanoi 4 of 32", "debdeps", 32, train.Config{Layers: 2, Epochs: 30, Plan: "hanoi", Buffer: 4}, "62.2 ± .5", 0, 0},
	}
}

// result is what a row's runs gave.
type result struct {
	Name         string    `json:"name"`
	Accuracies   []float64 `json:"accuracies"` // %, by seed
	Mean         float64   `json:"mean"`
	SD           float64   `json:"sd"`
	Reference    string    `json:"reference"`
	Target       float64   `json:"target,omitempty"`
	EpochSeconds float64   `json:"epoch_seconds"` // median of all epochs
	BytesEpoch   int64     `json:"bytes_per_epoch"`
}

func main() {
	datasets := flag.String("datasets", "../shared/datasets", "folder of the data sets")
	seeds := flag.Int("seeds", 3, "runs a row, with seeds 0, 1, … (Cora: at least 10, its test set is small)")
	only := flag.String("only", "", "only rows whose name contains this")
	threads := flag.Int("threads", runtime.GOMAXPROCS(0), "processors to use")
	asJSON := flag.Bool("json", false, "one JSON object a line")
	table := flag.String("table", "", "link: link prediction in memory, by COMET and by BETA; out-of-core: the table of what keeps accuracy out of core, on debdeps; sbm: the same table on a block model of ≥ 1 M nodes; -only then lists methods, such as fennel+hubs+hop+history")
	splits := flag.String("splits", "split,split_sparse", "out-of-core: split columns")
	layers := flag.String("layers", "2,3", "out-of-core: layers of the model")
	fractions := flag.String("fractions", "8,16", "out-of-core: memory holds 1 of so many nodes' features")
	epochs := flag.String("epochs", "30,100", "out-of-core: counts of epochs to report; the largest is run")
	features := flag.String("features", "float32", "out-of-core: what features and the hop are stored as; float16 with the hop takes the bytes of float32 without")
	seed := flag.Uint64("seed", 0, "link, out-of-core: the first seed")
	var sbm sbmOptions
	sbm.flags()
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	runtime.GOMAXPROCS(*threads)
	if *table == "link" {
		if err := runLink(ctx, *datasets, *seed, uint64(max(0, *seeds)), *only, *threads, *asJSON); err != nil {
			fmt.Fprintln(os.Stderr, "accuracy:", err)
			os.Exit(1)
		}
		return
	}
	if *table != "" {
		if err := runTable(ctx, *table, sbm, outOfCore{data: filepath.Join(*datasets, "debdeps"), methods: methods(), splits: list(*splits), seed: *seed, seeds: *seeds, threads: *threads, only: list(*only)}, *layers, *fractions, *epochs, *features, *asJSON); err != nil {
			fmt.Fprintln(os.Stderr, "accuracy:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, *datasets, *seeds, *only, *threads, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

// runTable finishes the options of a table other than the first and runs it.
func runTable(ctx context.Context, table string, sbm sbmOptions, o outOfCore, layers, fractions, epochs, features string, asJSON bool) (err error) {
	if table != "out-of-core" && table != "sbm" {
		return fmt.Errorf("-table %q: expected link, out-of-core or sbm", table)
	}
	if o.seeds < 1 {
		return fmt.Errorf("-seeds %d: expected 1 or more", o.seeds)
	}
	if o.layers, err = numbers(layers); err != nil {
		return fmt.Errorf("-layers: %w", err)
	}
	if o.fractions, err = numbers(fractions); err != nil {
		return fmt.Errorf("-fractions: %w", err)
	}
	if o.epochs, err = numbers(epochs); err != nil {
		return fmt.Errorf("-epochs %q: %w", epochs, err)
	}
	if o.features, err = blocks.ParseElemType(features); err != nil {
		return fmt.Errorf("-features: %w", err)
	}
	if table == "sbm" {
		return runSBM(ctx, sbm, o, asJSON)
	}
	return o.run(ctx, asJSON)
}

// list splits at commas; "" is nothing.
func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// numbers reads numbers of 2 or more, separated by commas.
func numbers(s string) ([]int, error) {
	if s == "" {
		return nil, errors.New("no number given")
	}
	var ns []int
	for _, x := range list(s) {
		n, err := strconv.Atoi(x)
		if err != nil || n < 2 {
			return nil, fmt.Errorf("%q is no number of 2 or more", x)
		}
		ns = append(ns, n)
	}
	return ns, nil
}

func run(ctx context.Context, datasets string, seeds int, only string, threads int, asJSON bool) (err error) {
	work, err := os.MkdirTemp("", "gstore-accuracy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if !asJSON {
		fmt.Println("| data, model, plan | test accuracy % | reference | goal | s/epoch | read/epoch |")
		fmt.Println("|---|---|---|---|---|---|")
	}
	for _, r := range rows() {
		if !strings.Contains(r.name, only) {
			continue
		}
		res, err := r.run(ctx, datasets, work, seeds, threads)
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
			goal = fmt.Sprintf("≥ %.1f", r.target)
		}
		fmt.Printf("| %s | **%.2f ± %.2f** | %s | %s | %.2f | %.1f MiB |\n", res.Name, res.Mean, res.SD, res.Reference, goal, res.EpochSeconds, float64(res.BytesEpoch)/(1<<20))
	}
	return nil
}

// run trains the row once a seed; the partitioning has the run's seed too.
func (r row) run(ctx context.Context, datasets, work string, seeds, threads int) (*result, error) {
	res := &result{Name: r.name, Reference: r.reference, Target: r.target}
	var seconds []float64
	for seed := range uint64(max(seeds, r.seedsMin)) {
		dir := filepath.Join(work, fmt.Sprintf("%s-%d-%d.gstore", r.data, r.partitions, seed))
		if _, err := os.Stat(dir); err != nil {
			if err := makeStore(ctx, filepath.Join(datasets, r.data), dir, ingest.Options{Partitions: r.partitions, Seed: seed}); err != nil {
				return nil, err
			}
		}
		c := r.config
		c.Seed, c.Threads, c.LR = seed, threads, .005
		s, err := trainStore(ctx, dir, c, train.Hooks{})
		if err != nil {
			return nil, err
		}
		res.Accuracies = append(res.Accuracies, 100*s.TestAccuracy)
		seconds = append(seconds, s.EpochSeconds...)
		res.BytesEpoch = s.BytesRead / int64(len(s.EpochSeconds))
	}
	res.summarize(seconds)
	return res, nil
}

// summarize sets mean, deviation and the median of the epochs' seconds.
func (res *result) summarize(seconds []float64) {
	for _, a := range res.Accuracies {
		res.Mean += a / float64(len(res.Accuracies))
	}
	for _, a := range res.Accuracies {
		res.SD += (a - res.Mean) * (a - res.Mean)
	}
	if n := len(res.Accuracies); n > 1 {
		res.SD = math.Sqrt(res.SD / float64(n-1))
	}
	res.EpochSeconds = median(seconds)
}

// makeStore ingests an undirected graph.
func makeStore(ctx context.Context, input, dir string, o ingest.Options) error {
	src, err := formats.Open(input, formats.Options{})
	if err != nil {
		return err
	}
	o.Undirected = true
	_, err = ingest.Run(ctx, dir, src, o)
	return errors.Join(err, src.Close())
}

func trainStore(ctx context.Context, dir string, c train.Config, hooks train.Hooks) (*train.Summary, error) {
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return nil, err
	}
	cp, err := train.Node(ctx, st, c, hooks)
	if err = errors.Join(err, st.Close()); err != nil {
		return nil, err
	}
	return &cp.Summary, nil
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(x))
	return s[len(s)/2]
}
