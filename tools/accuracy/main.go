// Command accuracy reproduces the accuracy figures of docs/accuracy.md: it
// ingests the data sets, trains every row of the table with several seeds and
// prints test accuracy (mean ± sample standard deviation), seconds and bytes per epoch.
//
//	go run ./tools/accuracy -datasets /path/to/datasets [-seeds 3] [-only debdeps] [-json]
//	go run ./tools/accuracy -datasets /path/to/datasets -table default [-only facebook-pages,fresh] [-runs default] [-dir /path/to/keep]
//	go run ./tools/accuracy -table sbm -layers 2 -fractions 8 -epochs 20 [-sbm-nodes 1000000] [-sbm-signal .5]
//	go run ./tools/accuracy -datasets /path/to/datasets -table link [-seeds 3] [-only DistMult]
//	go run ./tools/accuracy -datasets /path/to/datasets -table link-patience [-seeds 3] [-only cora]
//	go run ./tools/accuracy -datasets /path/to/datasets -table link-rates [-seeds 3] [-only cora]
//	go run ./tools/accuracy -datasets /path/to/datasets -table link-from [-seeds 3] [-only cora]
//	go run ./tools/accuracy -datasets /path/to/datasets -table out-of-core [-splits split] [-layers 2] [-fractions 8] [-epochs 30,100]
//	go run ./tools/accuracy -datasets /path/to/datasets -table causes -data fb15k-237 [-model sage] [-epochs 5] [-dim 32 -negatives 150]
//	go run ./tools/accuracy -datasets /path/to/datasets -table bias -o bias.svg [-partitions 8,16,32,64] [-model sage] [-epochs 8] [-seeds 3]
package main

import (
	"cmp"
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
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
)

// row is one line of the table.
type row struct {
	name       string
	data       string // folder below -datasets
	partitions int
	directed   bool          // otherwise the reverse of every edge is added
	config     config.Config // with a learning rate of .005 unless it says another
	reference  string        // datasets/README.md
	target     float64       // %; 0: none
	seedsMin   int           // seeds at least: more where the test set is small
}

// coraRow is a row of Cora's standard split, publicRow one of its public split.
func coraRow(name, model, reference string, target float64, seedsMin int) row {
	return row{name: "cora " + name + " 2 layers", data: "cora", partitions: 4, reference: reference, target: target, seedsMin: seedsMin,
		config: config.Config{Model: model, Layers: 2, Epochs: 80, WeightDecay: share(5e-4), Plan: "memory"}}
}

func publicRow(name, model, reference string, target float64) row {
	return row{name: "cora public split " + name + " 2 layers", data: "cora", partitions: 4, reference: reference, target: target,
		config: config.Config{Model: model, Layers: 2, Epochs: 200, LR: .01, WeightDecay: share(5e-4), InputDropout: share(.5), Split: "split_public", Plan: "memory"}}
}

// debdepsRow is a row of debdeps in memory.
func debdepsRow(name string, c config.Config, reference string, target float64) row {
	if c.Layers == 0 {
		c.Layers = 2
	}
	c.Epochs, c.Plan = 30, "memory"
	return row{name: fmt.Sprintf("debdeps %s %d layers", name, c.Layers), data: "debdeps", partitions: 32, config: c, reference: reference, target: target}
}

func rows() []row {
	inputDropout := coraRow("SAGE", "sage", "87.0 ± .1", 0, 10)
	inputDropout.name, inputDropout.config.InputDropout = inputDropout.name+", input dropout .2", share(.2)
	rgcn := debdepsRow("R-GCN, edges and inverse edges by type,", config.Config{Model: "rgcn"}, "", 0)
	rgcn.directed = true
	hanoi := debdepsRow("SAGE", config.Config{}, "62.2 ± .5", 0)
	hanoi.name, hanoi.config.Plan, hanoi.config.Buffer, hanoi.config.Absent = hanoi.name+", hanoi 4 of 32", "hanoi", 4, config.AbsentIgnore
	hanoi.config.LabelShift, hanoi.config.Mixture = config.ShiftOff, config.MixtureRandom
	return []row{
		coraRow("SAGE", "sage", "87.0 ± .1", 86.5, 10),
		inputDropout,
		debdepsRow("SAGE", config.Config{}, "74.1 ± .1", 73.8),
		debdepsRow("SAGE", config.Config{Layers: 3}, "76.0 ± .3", 75.6),
		coraRow("MLP", "mlp", "74.4 ± .8", 0, 0),
		coraRow("GCN", "gcn", "84.2 ± .3", 83.9, 0),
		coraRow("GAT", "gat", "84.9 ± .1", 84.8, 0),
		coraRow("GIN", "gin", "", 0, 0),
		publicRow("MLP", "mlp", "56.7", 0),
		publicRow("SAGE", "sage", "75.6 ± .6", 75.0),
		publicRow("GCN", "gcn", "77.3 ± .9", 76.4),
		publicRow("GAT", "gat", "75.1 ± .4", 74.7),
		debdepsRow("MLP", config.Config{Model: "mlp", Layers: 3, Hidden: 256}, "44.3 ± .2", 0),
		debdepsRow("GCN", config.Config{Model: "gcn"}, "67.2 ± .3", 66.9),
		debdepsRow("GAT", config.Config{Model: "gat"}, "72.0 ± .6", 71.4),
		debdepsRow("GIN", config.Config{Model: "gin"}, "", 0),
		rgcn,
		debdepsRow("SAGE max", config.Config{Aggregator: "max"}, "", 0),
		hanoi,
	}
}

// share is a pointer to x, for options whose zero is not their default.
func share(x float64) *float64 { return &x }

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
	// ResidentBytes is the most that a step of any seed held of features and history; 0: not counted.
	ResidentBytes int64 `json:"resident_bytes,omitempty"`
}

func main() {
	datasets := flag.String("datasets", "../shared/datasets", "folder of the data sets")
	seeds := flag.Int("seeds", 3, "runs a row, with seeds 0, 1, … (Cora: at least 10, its test set is small)")
	only := flag.String("only", "", "only rows whose name contains this; default: graphs whose name contains one of these")
	threads := flag.Int("threads", runtime.GOMAXPROCS(0), "processors to use")
	asJSON := flag.Bool("json", false, "one JSON object a line")
	table := flag.String("table", "", "default: what ingest and train do with --mem and no other flag, beside tuned runs in memory; link: link prediction in memory, by COMET and by BETA, and decoders as they are by default; link-search: validation MRR of decoders by settings, one at a time, of lines that have -only in \"DATA MODEL CHANGE\", with -dim, -negatives, -epochs N or the defaults; link-patience: what a run of links without a number of epochs gives beside one that trains all; link-rates: the learning rate that such a run chooses beside those that it tries; link-from: what a run gives that begins with the embeddings of one on nine tenths of the edges, beside a new one; bias: MRR against the bias of the order of examples, with a plot; out-of-core: the table of what keeps accuracy out of core, on debdeps; sbm: the same table on a block model of ≥ 1 M nodes; -only then lists methods, such as fennel+hubs+hop+history; causes: what the order of examples and absent neighbours cost, one at a time")
	splits := flag.String("splits", "split,split_sparse", "out-of-core: split columns")
	layers := flag.String("layers", "2,3", "out-of-core: layers of the model")
	fractions := flag.String("fractions", "8,16", "out-of-core: memory holds 1 of so many nodes' features")
	epochs := flag.String("epochs", "30,100", "out-of-core: counts of epochs to report; the largest is run (bias: one count, default 8)")
	features := flag.String("features", "float32", "out-of-core: what features and the hop are stored as; float16 with the hop takes the bytes of float32 without")
	partitions := flag.String("partitions", "8,16,32,64", "bias: numbers of partitions")
	model := flag.String("model", "distmult", "bias, causes of links: distmult, or an encoder before it: sage, gcn, gat")
	data := flag.String("data", "facebook-pages,debdeps,cora,sbm", "causes: data sets; sbm is a block model of 200 k nodes and 32 classes; fb15k-237 and wn18rr are of links")
	output := flag.String("o", "", "bias: file for the plot: .svg, .png or .pdf")
	dim := flag.Int("dim", 0, "causes of links, link-search: numbers of an embedding; 0: the default of train, as of -negatives")
	negatives := flag.Int("negatives", 0, "causes of links, link-search: wrong answers for each edge and side")
	from := flag.String("negatives-from", "", "link, bias, causes of links: --negatives-from of train; default its own")
	seed := flag.Uint64("seed", 0, "link, bias, out-of-core, causes: the first seed")
	runs := flag.String("runs", "", "default: only these rows, such as memory+hop,default")
	work := flag.String("dir", "", "default: folder in which graphs and stores are kept for the next time (default: a temporary one)")
	var sbm sbmOptions
	sbm.flags()
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	runtime.GOMAXPROCS(*threads)
	if *table == "bias" {
		if err := runBias(ctx, biasOptions{data: filepath.Join(*datasets, "fb15k-237"), first: *seed, seeds: uint64(max(0, *seeds)), threads: *threads, output: *output}, *partitions, *epochs, *model, *from, *asJSON); err != nil {
			fmt.Fprintln(os.Stderr, "accuracy:", err)
			os.Exit(1)
		}
		return
	}
	if *table == "causes" {
		o := causes{datasets: *datasets, data: list(*data), seed: *seed, seeds: max(1, *seeds), threads: *threads, only: *only}
		links := linkCauses{datasets: *datasets, seed: *seed, seeds: o.seeds, threads: *threads, only: *only}
		if err := runCauses(ctx, o, links, *epochs, *model, link.Config{Preset: link.PresetMarius, Dim: *dim, Negatives: *negatives, NegativesFrom: *from}, *asJSON); err != nil {
			fmt.Fprintln(os.Stderr, "accuracy:", err)
			os.Exit(1)
		}
		return
	}
	if *table == "link-search" {
		o := linkSearch{datasets: *datasets, data: []string{"fb15k-237", "wn18rr"}, threads: *threads, seed: *seed, only: *only, dim: *dim, wrong: *negatives}
		if n, err := strconv.Atoi(*epochs); err == nil {
			o.epochs = n
		}
		if err := o.run(ctx, *asJSON); err != nil {
			fmt.Fprintln(os.Stderr, "accuracy:", err)
			os.Exit(1)
		}
		return
	}
	if *table == "default" {
		o := defaults{datasets: *datasets, work: *work, graphs: list(*only), rows: list(*runs), seed: *seed, seeds: max(1, *seeds), threads: *threads}
		if err := runDefaults(ctx, o, *epochs, *asJSON); err != nil {
			fmt.Fprintln(os.Stderr, "accuracy:", err)
			os.Exit(1)
		}
		return
	}
	if run := map[string]func(context.Context, string, uint64, uint64, string, int) error{"link-patience": runPatience, "link-rates": runRates, "link-from": runFrom}[*table]; run != nil {
		if err := run(ctx, *datasets, *seed, uint64(max(1, *seeds)), *only, *threads); err != nil {
			fmt.Fprintln(os.Stderr, "accuracy:", err)
			os.Exit(1)
		}
		return
	}
	if *table == "link" {
		if err := runLink(ctx, *datasets, *seed, uint64(max(0, *seeds)), *only, *from, *threads, *asJSON); err != nil {
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
		return fmt.Errorf("-table %q: expected default, link, bias, causes, out-of-core or sbm", table)
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

// runBias finishes the options of the bias table and runs it.
func runBias(ctx context.Context, o biasOptions, partitions, epochs, model, negativesFrom string, asJSON bool) (err error) {
	if o.partitions, err = numbers(partitions); err != nil {
		return fmt.Errorf("-partitions: %w", err)
	}
	if o.model, err = biasModel(model); err != nil {
		return err
	}
	o.model.NegativesFrom = negativesFrom
	o.epochs = 8
	if given := flag.Lookup("epochs"); epochs != given.DefValue {
		if o.epochs, err = strconv.Atoi(epochs); err != nil {
			return fmt.Errorf("-epochs %q: expected one number", epochs)
		}
	}
	return o.run(ctx, asJSON)
}

// runCauses finishes the options of the tables of causes, of one count of epochs, and runs that of nodes and, for each data set of
// triples, that of links with the sizes of a model.
func runCauses(ctx context.Context, o causes, l linkCauses, epochs, model string, sizes link.Config, asJSON bool) (err error) {
	given := 0
	if epochs != flag.Lookup("epochs").DefValue {
		if given, err = strconv.Atoi(epochs); err != nil || given < 1 {
			return fmt.Errorf("-epochs %q: expected one number", epochs)
		}
	}
	l.epochs = cmp.Or(given, 8)
	if l.config, err = biasModel(model); err != nil {
		return err
	}
	l.config.Dim, l.config.Negatives, l.config.NegativesFrom = sizes.Dim, sizes.Negatives, sizes.NegativesFrom
	all := o.data
	o.data = nil
	for _, data := range all {
		if !slices.Contains(linkData, data) {
			o.data = append(o.data, data)
			continue
		}
		l.data = data
		if err := l.run(ctx, asJSON); err != nil {
			return err
		}
	}
	if o.epochs = cmp.Or(given, 60); len(o.data) == 0 {
		return nil
	}
	return o.run(ctx, asJSON)
}

// runDefaults finishes the options of the table of defaults, which has one count of epochs if any, and runs it.
func runDefaults(ctx context.Context, o defaults, epochs string, asJSON bool) (err error) {
	if epochs != flag.Lookup("epochs").DefValue {
		if o.epochs, err = strconv.Atoi(epochs); err != nil || o.epochs < 1 {
			return fmt.Errorf("-epochs %q: expected one number", epochs)
		}
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
		dir := filepath.Join(work, fmt.Sprintf("%s-%d-%v-%d.gstore", r.data, r.partitions, r.directed, seed))
		if _, err := os.Stat(dir); err != nil {
			if err := makeStore(ctx, filepath.Join(datasets, r.data), dir, ingest.Options{Partitions: r.partitions, Undirected: !r.directed, Seed: seed}); err != nil {
				return nil, err
			}
		}
		c := r.config
		c.Seed, c.Threads = seed, threads
		if c.LR == 0 {
			c.LR = .005
		}
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
	res.Mean, res.SD = meanSD(res.Accuracies)
	res.EpochSeconds = median(seconds)
}

// makeStore ingests a data set.
func makeStore(ctx context.Context, input, dir string, o ingest.Options) error {
	src, err := formats.Open(input, formats.Options{})
	if err != nil {
		return err
	}
	_, err = ingest.Run(ctx, dir, src, o)
	return errors.Join(err, src.Close())
}

func trainStore(ctx context.Context, dir string, c config.Config, hooks train.Hooks) (*train.Summary, error) {
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return nil, err
	}
	dev := host.New(host.Options{Threads: c.Threads})
	cp, err := train.Node(ctx, st, dev, c, hooks)
	if err = errors.Join(err, dev.Close(), st.Close()); err != nil {
		return nil, err
	}
	return &cp.Summary, nil
}

// meanSD returns the mean and the sample deviation, 0 of one.
func meanSD(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean)
	}
	if n := len(x); n > 1 {
		sd = math.Sqrt(sd / float64(n-1))
	}
	return mean, sd
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(x))
	return s[len(s)/2]
}
