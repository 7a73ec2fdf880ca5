// Package predict holds the command gstore predict: what a trained model says of nodes and of links that are asked for.
//
// A store of labelled nodes is asked for classes, one of link prediction for the ends of links, both for the nodes most similar to
// a node. What is asked is read once and kept in a file of numbers, so that a mistake is told before anything is computed
// and memory does not grow with the questions.
package predict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/models"
	"github.com/gstore/gstore/tools/device"
)

// Values of --filter.
const (
	filterNone  = "none"
	filterKnown = "known"
)

// options are the flags of predict.
type options struct {
	only       string
	input      string
	at         string
	rows       string
	top        int
	filter     string
	nearest    string
	explain    string
	checkpoint string
	table      string
	out        string
	format     string
	version    uint64
	mem        command.Size
	device     string
	deviceMem  command.Size
	threads    int
	scratch    string
	config     string

	args    []string // behind the store
	changed []string // flags that were set
}

// New is the command gstore predict.
func New(e *command.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "predict STORE [ID…]",
		Short: "Ask a trained model: classes of nodes, the best links, the most similar nodes",
		Long: `Predict asks a trained model about nodes or links, by your own ids. Answers are exact:
they count all neighbours, and all nodes are candidates.

If the store has labelled nodes, the answer is the class of each node and the
probability of every class. Name the nodes behind STORE, or in --input, one to a line;
without either, all nodes are predicted, or those of the type that has labels, as
--only says.

If the store is for link prediction, the answers to (head, relation, ?) are the --top
best tails, and those to (?, relation, tail) the best heads. Give one question behind
STORE, or one to a line in --input or on standard input, with tabs or blanks between
the three. --filter known leaves out links that the store has already.

A model of "gstore train --task temporal" says where the next edge of each named node
leads, after all edges that the store has.

A model of "gstore train --targets" predicts targets of rows of a database as of --at:
of those whose keys are behind STORE, or in the table that --entities names. One of a
recommendation lists the --top best rows for each, with --filter known only new ones.

--nearest lists the --top nodes that are most similar to each named node: by the angle
between their vectors (cosine), or by their product (dot). The vectors are a model's
states below its last layer, or the embeddings of link prediction.

--explain says why: which features, of a named node and its neighbourhood, and which
edges moved what the model says of it, and by how much. The shares add up
(integrated gradients). --out why.svg draws it.`,
		Example: "  gstore predict cora.gstore 12 15                             # of two nodes\n" +
			"  gstore predict cora.gstore 12 --explain                       # and why\n" +
			"  gstore predict papers.gstore --mem 8GiB --out classes.parquet # of all\n" +
			"  gstore predict kg.gstore paris capital_of '?' --top 3\n" +
			"  gstore predict kg.gstore --input questions.tsv --filter known --out answers.csv\n" +
			"  gstore predict kg.gstore paris --nearest cosine\n" +
			"  gstore predict f1.gstore 12 15 --at 2026-11-01               # rows of a database, by their keys",
		Args: command.StoreFirst("STORE", "[ID…]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.ApplyConfig(cmd, o.config); err != nil {
				return err
			}
			o.args = args[1:]
			cmd.Flags().Visit(func(f *pflag.Flag) { o.changed = append(o.changed, f.Name) })
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), e, args[0])
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&o.input, "input", "", "file of ids, or of questions (head, relation, tail, with ? for what is asked), one to a line; - for standard input")
	fs.StringVar(&o.only, "only", onlyAuto, "which nodes to predict where none is named: auto (those of the type that has labels), all, unlabelled (of these, those without a label), or the name of a node type")
	fs.StringVar(&o.at, "at", "", "targets of rows: as of when to predict, a date such as 2026-11-01; nothing later is read (default: each row's own time in --entities)")
	fs.StringVar(&o.rows, "entities", "", "targets of rows: table (CSV, TSV, Parquet) with the keys of the rows to predict, and times unless --at says them")
	fs.IntVar(&o.top, "top", 10, "how many answers to give to each question (recommendations: by default as many as the task says)")
	fs.StringVar(&o.filter, "filter", filterNone, "which links to leave out: none, or known (those of the graph and its edge lists; of recommendations, rows that the entity has to do with already)")
	fs.StringVar(&o.nearest, "nearest", "", "list the most similar nodes instead, by cosine or dot")
	fs.StringVar(&o.explain, "explain", "", "say which features and edges moved what the model says of each named node; =CLASS asks about that class or label instead of the predicted one")
	fs.Lookup("explain").NoOptDefVal = explainSaid
	models.CheckpointFlag(fs, &o.checkpoint)
	fs.StringVar(&o.table, "table", "", "link prediction: the table of embeddings (default: the only one, or embeddings)")
	fs.StringVar(&o.out, "out", "", "file to write (default: standard output)")
	fs.StringVar(&o.format, "format", "", "table, csv, tsv, json (one object to a line), parquet, or of --explain svg (default: by the name of --out, else table)")
	fs.Uint64Var(&o.version, "version", 0, "version of the store (0 = the newest)")
	fs.Var(&o.mem, "mem", "memory bound, such as 4GiB (default: three quarters of what the machine, or the cgroup, has, unless the graph is small)")
	fs.StringVar(&o.device, "device", "auto", device.Names)
	fs.Var(&o.deviceMem, "device-mem", "memory of a GPU that may be allocated (default: what is free, less a tenth)")
	fs.IntVar(&o.threads, "threads", 0, "processors to use (default: all)")
	command.ScratchFlag(fs, &o.scratch)
	command.ConfigFlag(fs, &o.config)
	for name, group := range map[string]string{"input": "data", "only": "data", "at": "data", "entities": "data", "version": "data", "checkpoint": "model", "table": "model", "top": "answers", "filter": "answers", "nearest": "answers", "explain": "answers",
		"out": "input and output", "format": "input and output", "config": "input and output", "device": "input and output", "device-mem": "input and output,expert", "threads": "input and output", "mem": "out of core", "scratch": "out of core"} {
		command.Group(fs.Lookup(name), group)
	}
	command.Values(fs.Lookup("filter"), filterNone, filterKnown)
	command.Values(fs.Lookup("nearest"), eval.Cosine, eval.Dot)
	command.Values(fs.Lookup("format"), formats()...)
	return cmd
}

// validate finds usage errors that need no store.
func (o *options) validate() error {
	switch {
	case o.top < 1 || o.top > 1<<20:
		return command.Usagef("--top %d: expected 1 to %d", o.top, 1<<20)
	case o.filter != filterNone && o.filter != filterKnown:
		return command.Usagef("--filter %s: expected none or known", o.filter)
	case o.nearest != "" && o.nearest != eval.Cosine && o.nearest != eval.Dot:
		return command.Usagef("--nearest %s: expected cosine or dot", o.nearest)
	case o.explain != "" && o.nearest != "":
		return command.Usagef("--explain is for what a model says of a node, --nearest asks for similar nodes")
	case o.explain != "" && len(o.args) == 0 && o.input == "":
		return command.Usagef("--explain: name the nodes behind the store, or in --input")
	case o.nearest != "" && o.filter != filterNone:
		return command.Usagef("--filter is for links, --nearest asks for similar nodes")
	case o.only != onlyAuto && (len(o.args) > 0 || o.input != "" || o.nearest != ""):
		return command.Usagef("--only %s says which of all nodes are predicted, and nodes are named", o.only)
	case o.input != "" && len(o.args) > 0:
		return command.Usagef("%v and --input both say what is asked: expected one of them", o.args)
	}
	return o.checkFormat()
}

func (o *options) run(ctx context.Context, e *command.Env, dir string) (err error) {
	defer command.LimitThreads(o.threads)()
	of := store.Options{Version: o.version, Scratch: o.scratch}
	st, err := store.Open(dir, of)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	link := st.Manifest().Task() == store.TaskLink
	if link && o.explain != "" {
		return command.Usagef("--explain is for node classification; the store's task is link prediction")
	}
	for _, name := range o.changed {
		switch {
		case !link && name == "table":
			return command.Usagef("--%s is for link prediction; the store's task is node classification", name)
		case link && name == "only":
			return command.Usagef("--only is for node classification; the store's task is link prediction")
		}
	}
	if link && o.version == 0 {
		if st, err = models.VersionOfTable(ctx, e, st, of, o.table, o.checkpoint); err != nil {
			return err
		}
	}
	e.Unasked(st.Manifest(), 0, (*int64)(&o.mem))
	dev, err := command.OpenDevice(device.Options{Name: o.device, Threads: o.threads, MemoryBytes: int64(o.deviceMem)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	p := &prediction{options: o, env: e, st: st, dev: dev, started: time.Now()}
	if link {
		return p.link(ctx)
	}
	return p.nodes(ctx)
}

// prediction is one run.
type prediction struct {
	*options
	env     *command.Env
	st      *store.Store
	dev     gpu.Device
	started time.Time
	which   string // model
	// relation is the only one that a model of links predicts; "": all are.
	relation string
	read     int64
	// heldBytes are those of ids and the output.
	heldBytes int64
}

// finish says what was done.
func (p *prediction) finish(rows int64) {
	f := map[string]any{"model": p.which, "rows": rows, "out": p.out, "seconds": time.Since(p.started).Seconds(), "cpu_seconds": usage.CPUSeconds(),
		"peak_rss_bytes": usage.PeakRSSBytes(), "bytes_read": p.read}
	p.env.Event("summary", f)
	if !p.env.JSON && !p.env.Quiet { // beside what was asked for, which standard output may hold
		to := p.out
		if to == "" {
			to = "standard output"
		}
		fmt.Fprintf(p.env.Stderr, "%d rows to %s; %.2f s; model: %s\n", rows, to, time.Since(p.started).Seconds(), p.which)
	}
}

// formats lists the values of --format.
func formats() []string {
	return []string{formatTable, formatCSV, formatTSV, formatJSON, formatParquet, formatSVG}
}

// checkFormat finds the format.
func (o *options) checkFormat() error {
	if o.format == "" {
		if o.out != "" && !knownEnding(o.out) {
			return command.Usagef("--out %s: expected a name that ends with .csv, .json, .parquet, .txt or .tsv, or --format", o.out)
		}
		o.format = formatOf(o.out)
	}
	switch {
	case o.format == formatSVG && o.explain == "":
		return command.Usagef("--format svg is a picture of why: it is for --explain")
	case o.format == formatSVG && o.out == "":
		return command.Usagef("--format svg: name a file with --out")
	case !slices.Contains(formats(), o.format):
		return command.Usagef("--format %s: expected one of %v", o.format, formats())
	case o.format == formatParquet && o.out == "":
		return command.Usagef("--format parquet: name a file with --out")
	}
	return nil
}
