package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sizes are those of one run of all checks.
type sizes struct {
	tests                  string    // of cuda.test, "": all
	sanitized              string    // those that run under compute-sanitizer
	tableMiB, repeats      int       // of operations
	nodes, edges           string    // of the graph of steps
	lists                  [2]string // likewise of the one that mini-batches are drawn from
	batch, batches, rounds int
	fanouts                string
	features, mem          string // of the epoch out of core; "": it is left out
	sbm, kg                string // nodes, and entities of a knowledge graph, that are trained on host and device
	tight                  string // memory in which the SBM does not fit
	epochs                 int
	peers                  string        // device of PyTorch
	limit                  time.Duration // of a check
}

// full are for a card of 16 GB or more.
var full = sizes{sanitized: "Conformance|BadIndices", tableMiB: 4096, repeats: 20, nodes: "4M", edges: "40M", lists: [2]string{"2000000", "30000000"}, batch: 1000, batches: 20, rounds: 3, fanouts: "15,10,5",
	features: "12GiB", mem: "3GiB", sbm: "1M", kg: "20000", tight: "600MiB", epochs: 3, peers: "cuda", limit: 15 * time.Minute}

// small are those of a dry run: the smallest epoch out of core would take the emulated driver minutes.
var small = sizes{tests: "Dropout|Maps", sanitized: "Dropout", tableMiB: 1, repeats: 1, nodes: "5k", edges: "25k", lists: [2]string{"5000", "25000"}, batch: 20, batches: 2, rounds: 1, fanouts: "3,2",
	sbm: "600", kg: "300", tight: "200MiB", epochs: 1, peers: "auto", limit: 10 * time.Minute}

// check is one command and what is made of its output.
type check struct {
	name  string
	what  string // in a sentence
	args  []string
	needs string // a program without which it is left out: the first of args if ""
	limit time.Duration
	// read takes what the report shows from the lines of JSON that the command printed; nil: nothing.
	read func(events []event, r *result) error
}

// event is a line of JSON.
type event map[string]any

func (e event) number(key string) float64 { x, _ := e[key].(float64); return x }
func (e event) text(key string) string    { x, _ := e[key].(string); return x }

// result is a check's part of the report.
type result struct {
	Name    string     `json:"name"`
	What    string     `json:"what"`
	Command string     `json:"command"`
	Outcome string     `json:"outcome"` // passed, failed, or left out
	Why     string     `json:"why,omitempty"`
	Seconds float64    `json:"seconds"`
	Events  []event    `json:"events,omitempty"`
	Columns []string   `json:"-"` // of the table in the text
	Rows    [][]string `json:"-"`
}

// checks lists everything in order: what is right first, then how fast. Each compares what the ones before left in work.
func checks(dir, work string, z sizes) []check {
	at := func(name string) string { return filepath.Join(work, name) }
	gstore, test := filepath.Join(dir, "gstore"), filepath.Join(dir, "cuda.test")
	losses := map[string][]float64{}
	sanitizer := func(tool string) check {
		return check{name: tool, what: "compute-sanitizer's " + tool + " finds nothing in " + z.sanitized, limit: z.limit,
			args: []string{"compute-sanitizer", "--tool", tool, "--error-exitcode", "9", test, "-test.run", z.sanitized}}
	}
	train := func(name, device string, read func([]event, *result) error, more ...string) check {
		return check{name: name, what: strings.Join(append([]string{"2 layers on", z.sbm, "nodes of an SBM, device", device}, more...), " "), limit: z.limit, read: read,
			args: slices.Concat([]string{gstore, "--json", "train", at("sbm.gstore"), "--device", device, "--layers", "2", "--fanouts", "10,5", "--batch-size", fmt.Sprint(z.batch),
				"--epochs", fmt.Sprint(z.epochs), "--seed", "7"}, more, []string{"--save", at(name + ".gsm")})}
	}
	graph := []string{"--dir", at("train"), "--nodes", z.nodes, "--edges", z.edges, "--models", "sage", "--dims", "128", "--hidden", "256", "--fanouts", z.fanouts,
		"--batch-size", fmt.Sprint(z.batch), "--batches", fmt.Sprint(z.batches), "--repeats", fmt.Sprint(z.rounds)}
	all := []check{
		{name: "devices", what: "what there is", args: []string{gstore, "--json", "devices"}, limit: time.Minute, read: readDevices},
		{name: "tests", what: "the tests of gpu/cuda: every operation and the training of models against the host's", limit: z.limit,
			args: []string{test, "-test.run", z.tests, "-test.timeout", z.limit.String()}},
		sanitizer("memcheck"), sanitizer("racecheck"),
		{name: "operations", what: "each beside a copy in the device's memory", limit: z.limit, read: readOperations,
			args: []string{gstore, "--json", "bench", "ops", "--device", "cuda:0", "--table-mib", fmt.Sprint(z.tableMiB), "--repeats", fmt.Sprint(z.repeats)}},
		{name: "operations of PyTorch", what: "index_select, sparse products of cuSPARSE, products of cuBLAS in the same sizes", limit: z.limit, needs: "torch", read: readOperations,
			args: []string{"python3", filepath.Join(dir, "peers.py"), "ops", "--device", z.peers, "--table-mib", fmt.Sprint(z.tableMiB), "--repeats", fmt.Sprint(z.repeats)}},
		{name: "sampling", what: "mini-batches drawn on the GPU: blocks equal to the host's, entry for entry, and how fast", limit: z.limit, read: readSampling,
			args: []string{gstore, "--json", "bench", "sample", "--device", "cuda:0", "--nodes", z.lists[0], "--edges", z.lists[1], "--fanouts", z.fanouts,
				"--batch-size", fmt.Sprint(z.batch), "--batches", fmt.Sprint(z.batches), "--rounds", fmt.Sprint(z.rounds)}},
		{name: "steps", what: "training steps of SAGE, hidden 256, feature rows read across the bus", limit: z.limit, read: readSteps,
			args: slices.Concat([]string{gstore, "--json", "bench", "train", "--device", "cuda:0", "--dump-batches", at("batches")}, graph)},
		{name: "steps of PyTorch", what: "the same blocks with SAGEConv, feature rows in the GPU's memory", limit: z.limit, needs: "torch", read: readSteps,
			args: []string{"python3", filepath.Join(dir, "peers.py"), "steps", filepath.Join(at("batches"), "128"), "--hidden", "256", "--device", z.peers, "--repeats", fmt.Sprint(z.rounds)}},
		{name: "steps of the host", what: "the same steps on this machine's processors", limit: z.limit, read: readSteps,
			args: slices.Concat([]string{gstore, "--json", "bench", "train"}, graph)},
		{name: "graph", what: "an SBM for the next ones", limit: z.limit, args: []string{gstore, "generate", "sbm", at("sbm.gstore"), "--format", "store", "--nodes", z.sbm, "--features", "128", "--partitions", "8"}},
		train("training", "cuda:0", readTraining(losses, "", false)),
		train("training again", "cuda:0", readTraining(losses, "training", true)),
		train("training without recordings", "cuda:0", readTraining(losses, "training", true), "--x", "record-steps=off"),
		train("training on the host", "host", readTraining(losses, "training", false)),
		train("rows by the mini-batch", "cuda:0", readTraining(losses, "", false), "--plan", "hanoi", "--buffer", "2", "--absent", "ignore", "--device-plan", "direct", "--device-cache", "none"),
		train("rows by the partition", "cuda:0", readTraining(losses, "rows by the mini-batch", true), "--plan", "hanoi", "--buffer", "2", "--absent", "ignore", "--device-plan", "mirror", "--sample-on", "host"),
		train("mini-batches drawn there", "cuda:0", readTraining(losses, "rows by the mini-batch", true), "--plan", "hanoi", "--buffer", "2", "--absent", "ignore", "--device-plan", "mirror", "--sample-on", "device"),
	}
	links := func(name, device string, read func([]event, *result) error) check {
		return check{name: name, what: strings.Join([]string{"DistMult on", z.kg, "entities, device", device}, " "), limit: z.limit, read: read,
			args: []string{gstore, "--json", "train", at("kg.gstore"), "--device", device, "--model", "distmult", "--dim", "64", "--epochs", fmt.Sprint(z.epochs), "--seed", "7", "--table", strings.ReplaceAll(device, ":", "")}}
	}
	all = append(all,
		train("within memory", "cuda:0", readTraining(losses, "", false), "--mem", z.tight),
		train("within memory again", "cuda:0", readTraining(losses, "within memory", true), "--mem", z.tight),
		check{name: "triples", what: "a knowledge graph for the next ones", limit: z.limit, args: []string{gstore, "generate", "kg", at("kg"), "--nodes", z.kg}},
		check{name: "store of triples", what: "its store", limit: z.limit, args: []string{gstore, "ingest", at("kg"), at("kg.gstore")}},
		links("links", "cuda:0", readTraining(losses, "", false)),
		links("links on the host", "host", readTraining(losses, "links", false)))
	if z.features != "" {
		all = append(all, check{name: "feeding", what: "an epoch with " + z.features + " of features on disk within " + z.mem + " of memory: the share of it in which the GPU is at work", limit: z.limit, read: readFeeding,
			args: []string{gstore, "--json", "bench", "epoch", "--device", "cuda:0", "--dir", at("epoch"), "--features", z.features, "--dim", "128", "--mem", z.mem, "--batches", "0"}})
	}
	return all
}

// choose keeps the checks that names, comma-separated, say.
func choose(all []check, names string) ([]check, error) {
	if names == "" {
		return all, nil
	}
	var some []check
	for _, name := range strings.Split(names, ",") {
		i := slices.IndexFunc(all, func(c check) bool { return c.name == name })
		if i < 0 {
			var known []string
			for _, c := range all {
				known = append(known, c.name)
			}
			return nil, fmt.Errorf("no check %q: there are %s", name, strings.Join(known, ", "))
		}
		some = append(some, all[i])
	}
	return some, nil
}

// missing says what a check lacks, "" if nothing.
func (c *check) missing(ctx context.Context) string {
	if _, err := exec.LookPath(c.args[0]); err != nil {
		return c.args[0] + " is not there"
	}
	if c.needs == "" {
		return ""
	}
	if out, err := exec.CommandContext(ctx, c.args[0], "-c", "import "+c.needs).CombinedOutput(); err != nil {
		return fmt.Sprintf("%s cannot be imported: %s", c.needs, lastLine(out))
	}
	return ""
}

// run runs the command, and reads its output if it succeeded.
func (c *check) run(ctx context.Context) *result {
	r := &result{Name: c.name, What: c.what, Command: strings.Join(c.args, " ")}
	if r.Why = c.missing(ctx); r.Why != "" {
		r.Outcome = leftOut
		if strings.Contains(c.args[0], string(filepath.Separator)) { // part of the archive
			r.Outcome = failed
		}
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	err := cmd.Run()
	r.Seconds = time.Since(start).Seconds()
	for line := range bytes.Lines(out.Bytes()) {
		var e event
		if json.Unmarshal(line, &e) == nil {
			r.Events = append(r.Events, e)
		}
	}
	r.Outcome = passed
	switch {
	case ctx.Err() != nil:
		r.Outcome, r.Why = failed, fmt.Sprintf("it took longer than %v", c.limit)
	case err != nil:
		r.Outcome, r.Why = failed, fmt.Sprintf("%v: %s", err, tail(append(out.Bytes(), errs.Bytes()...)))
	case c.read != nil:
		if err := c.read(r.Events, r); err != nil {
			r.Outcome, r.Why = failed, err.Error()
		}
	}
	return r
}

// Outcomes of a check.
const (
	passed  = "passed"
	failed  = "failed"
	leftOut = "left out"
)

// tail is the end of a command's output.
func tail(b []byte) string {
	const most = 2000
	b = bytes.TrimSpace(b)
	return string(b[max(0, len(b)-most):])
}

func lastLine(b []byte) string {
	b = bytes.TrimSpace(b)
	return string(b[bytes.LastIndexByte(b, '\n')+1:])
}
