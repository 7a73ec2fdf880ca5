// Package data holds the commands that make a store of a graph or a graph of a store: ingest, append, partition,
// precompute, export and generate. One file a command: its options, their flags and what it does.
package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/remote"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
	"github.com/gstore/gstore/tools/recipe"
)

// ingestOptions are the flags of gstore ingest.
type ingestOptions struct {
	format       string
	partitions   string
	partitioner  string
	given        func(flag string) bool // whether the user set it
	hubs         hubsFlag
	hubHops      int
	split        string
	order        string
	passes       int
	labelShare   float64
	numNodes     command.Count
	undirected   bool
	dedup        string
	missing      string
	missingMask  bool
	normalize    string
	splitRandom  string
	label        []string
	labels       string
	selfLoops    string
	mem          string
	featureDtype string
	seed         uint64
	resume       bool
	threads      int
	columns      string
	nodes        []string
	nodeColumns  []string
	delimiter    string
	header       string
	ids          string
	quotes       string
	skip, use    []string
	badLines     string
	note         string
	allowOutside bool
	schema       string
	dangling     string
	dryRun       bool
	hops         int
	hopFeatures  []string
	hopDtype     string
	hopElem      blocks.ElemType
	hopRelations bool
}

// NewIngest is the command gstore ingest.
func NewIngest(e *command.Env) *cobra.Command {
	o := &ingestOptions{}
	cmd := &cobra.Command{
		Use:   "ingest INPUT STORE",
		Short: "Turn a graph into a store, within a memory budget",
		Long: `Ingest reads the graph at INPUT and writes it as a store to the new folder STORE.
It finds out which format INPUT has, and prints what became of each column.

INPUT may be a file, a folder, - for standard input, or the address of a PostgreSQL
database. Standard input, a pipe and what is at an address are first copied to files
beside the store, because a graph is read more than once.

The store appears when it is complete. After a crash, --resume goes on where the
ingest stopped; without it, the ingest begins anew. Malformed input is refused with
file and position.

Of a database, in PostgreSQL, an SQLite file or a folder of tables with a schema,
rows become nodes and foreign keys edges. --dry-run writes the schema that INPUT is
taken for as YAML to standard output; edited, it is what --schema reads.

With --mem, a graph that training will not hold in memory is laid out so that it can
be trained a part at a time.`,
		Example: `  gstore ingest cora cora.gstore --undirected
  gstore ingest papers papers.gstore --undirected --partitioner fennel --hubs auto --mem 16GiB
  gstore ingest edges.tsv.gz web.gstore --columns src,dst --mem 4GiB --partitions 64
  gstore ingest postgres://me@host/shop shop.gstore --mem 4GiB
  gstore ingest shop --dry-run > shop.yaml
  gstore ingest shop shop.gstore --schema shop.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.dryRun && len(args) == 1 {
				return nil
			}
			if err := command.ExactArgs("INPUT", "STORE")(cmd, args); err != nil {
				return err
			}
			if remote.IsAddress(args[1]) {
				return command.Usagef("%s is an address, and stores are made on disk: gstore push STORE %s copies one there", args[1], args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.dryRun {
				return o.writeSchema(cmd.Context(), e, args[0])
			}
			o.given = cmd.Flags().Changed
			if err := checkPartitioner(cmd.Flags(), strings.Replace(o.partitioner, recipe.Auto, "random", 1), o.labelShare); err != nil {
				return err
			}
			if o.hubHops < 1 {
				return command.Usagef("--hops %d: expected the layers of a model, 1 or more", o.hubHops)
			}
			for _, name := range []string{"precompute-feature", "precompute-dtype", "precompute-each-relation"} {
				if cmd.Flags().Changed(name) && o.hops == 0 {
					return command.Usagef("--%s says nothing without --precompute-hops 1", name)
				}
			}
			err := o.run(cmd.Context(), e, args[0], args[1])
			if errors.Is(err, partitioner.ErrOption) || errors.Is(err, ingest.ErrOptions) {
				return command.Usage(err) // what the graph had to be read for
			}
			return err
		},
	}
	f := cmd.Flags()
	o.inputFlags(f)
	command.Section(f, "graph", func() {
		f.Var(&o.numNodes, "num-nodes", "number of nodes, if the input has only edges and ids count from 0 (default: one more than the largest id, which takes a pass over the edges to find)")
		f.BoolVar(&o.undirected, "undirected", false, "edges lead both ways: store each once, and drop duplicates (default: as the meta.json of an export says)")
		f.StringVar(&o.dedup, "dedup", "", "which edges between the same two nodes to keep: one (pair), one of each relation (relation), or all (no) (default: no; relation with --undirected)")
		f.StringVar(&o.selfLoops, "self-loops", "keep", "edges from a node to itself: keep, drop, or add (every node gets exactly one)")
	})
	command.Section(f, "features and labels", func() {
		f.BoolVar(&o.missingMask, "missing-mask", false, "add a feature NAME_missing for each feature, which is 1 if the value is missing")
		f.StringVar(&o.normalize, "normalize", string(ingest.NormalizeTables), "features that get mean 0 and deviation 1: tables (columns of numbers and dates of tables, not vectors), all (as --normalize alone says) or none; the store applies them to what is appended later")
		f.Lookup("normalize").NoOptDefVal = string(ingest.NormalizeAll)
		f.StringVar(&o.featureDtype, "feature-dtype", "", "store features as float32, float16, bfloat16, float64 or int8 (default: as they are, at most float32)")
		f.StringVar(&o.labels, "labels", "auto", "what labels are: classes (ids from 0, or text); numbers, which models are fitted to by regression; or multi, any number of labels a node, in columns of 0 and 1 or as text with | or ; between them (auto: numbers where they cannot be ids, or where more than 50 different ones have fewer than 20 nodes each and are no ids without gaps; multi where rows of 0 and 1 do not all have one 1, or where | or ; parts texts into labels that are in several of them)")
		f.StringVar(&o.splitRandom, "split-random", recipe.Auto, "divide the labelled nodes, or the edges if there are no labels, at random: percentages TRAIN/VALID/TEST[:SEED], such as 60/20/20; none: no split (auto: 60/20/20 of labelled nodes, 90/5/5 of triples, where the input has no split)")
	})
	command.Section(f, "partitions", func() {
		f.StringVar(&o.partitions, "partitions", "auto", "number of partitions, hubs' not counted (auto: by size, or as many as file:PATH names)")
		f.StringVar(&o.partitioner, "partitioner", recipe.Auto, "how nodes are assigned to partitions: random, range, fennel, gap, hdr or file:PATH (auto: fennel, with --hubs auto and --precompute-hops 1, for nodes with classes that training will not have in memory, by --mem or the machine's; else random)")
		f.Var(&o.hubs, "hubs", hubsUsage)
		f.IntVar(&o.hubHops, "hops", 2, "layers of the model that will be trained: how far the influence of hubs reaches")
		f.StringVar(&o.split, "split", "", "split whose training nodes count for hubs and gap (default: the input's first)")
		f.StringVar(&o.order, "visit-order", "", orderUsage)
		command.Alias(f, "order", "visit-order")
		f.IntVar(&o.passes, "passes", 0, passesUsage())
		f.Float64Var(&o.labelShare, "label-share", 1, labelShareUsage)
	})
	command.Section(f, "precomputed hop", func() {
		f.IntVar(&o.hops, "precompute-hops", 0, "1 adds the exact neighbourhood mean of features as columns, as gstore precompute does")
		f.StringSliceVar(&o.hopFeatures, "precompute-feature", nil, "features whose mean is computed (default: all)")
		f.BoolVar(&o.hopRelations, "precompute-each-relation", false, "a mean over neighbours by each relation, of several node types, as gstore precompute --each-relation")
		f.StringVar(&o.hopDtype, "precompute-dtype", "", "type in which the means are stored: float32, float16 or bfloat16 (default: as of gstore precompute)")
	})
	f.Uint64Var(&o.seed, "seed", 0, "seed of all random choices")
	f.BoolVar(&o.resume, "resume", false, "continue an interrupted ingest after its last finished phase")
	f.BoolVar(&o.dryRun, "dry-run", false, "write the schema that a database is taken for, as YAML, and what its columns would become as comments; STORE is not needed")
	completeValues(f, recipe.Auto)
	return cmd
}

// inputFlags are those that say how an input is read, and by what means.
func (o *ingestOptions) inputFlags(f *pflag.FlagSet) {
	command.Section(f, "input", func() {
		f.StringVar(&o.format, "format", "auto", "format of the input: auto, "+strings.Join(formats.Names(), ", "))
		f.StringVar(&o.columns, "columns", "", "names of an edge list's fields, in order: src, dst, relation, weight, timestamp, - (skip it), or a feature as NAME[:TYPE][*N]")
		f.StringSliceVar(&o.nodes, "nodes", nil, "tables of nodes (CSV, TSV, Parquet) that go with the edges, with columns id, label, split and features; TYPE=FILE if each type of node has ids of its own, which become TYPE:ID, or without TYPE= where files and the columns of both ends are called by types (customers.csv, customer_id)")
		f.StringArrayVar(&o.nodeColumns, "node-columns", nil, "names of the columns of the tables of nodes, in order: id, label, split, train_mask, valid_mask, test_mask, - (skip it), or a feature as in --columns; given once for all tables, or once for each (default: by their names)")
		f.StringVar(&o.delimiter, "delimiter", "", "what separates the fields of an edge list: one character, or tab (default: found out)")
		f.StringVar(&o.header, "header", "auto", "whether the first line of an edge list names its fields: auto (if it names both ends), yes, no")
		f.StringVar(&o.quotes, "quotes", "auto", "whether fields may be in double quotes: auto (not if tabs or blanks separate them), yes, no")
		f.StringVar(&o.ids, "ids", "auto", "ids of nodes in an edge list: auto, dense (from 0, without large gaps), integers, strings")
		f.StringVar(&o.badLines, "bad-lines", "fail", "what to do with malformed lines of an edge list: fail, or skip=N of them at most")
		f.StringVar(&o.schema, "schema", "", "file with the schema of a database, as --dry-run writes it (default: of append the store's, else what INPUT says of itself, or what names and values suggest)")
		f.StringVar(&o.dangling, "dangling", "", "what to do with references of a database to rows that are not there: drop them, error, or node (make nodes of what they name) (default: drop)")
		f.BoolVar(&o.allowOutside, "allow-outside", false, "read files outside the folder of a GraphBolt metadata.yaml that names them")
	})
	command.Section(f, "features and labels", func() {
		f.StringVar(&o.missing, "missing", "auto", "what to do with features without a value (NaN, null, empty): error, or take zero, or the mean of the column (auto: the mean where columns of tables are standardised, else error)")
		f.StringSliceVar(&o.label, "label", nil, "column to learn, of a table of nodes: NAME, or TYPE.NAME of one node type; several are labels of their names, 1 where a node has them (default: the one called label, y, class, labels or node_label). Of a database TABLE.COLUMN; of an edge list NAME: each edge is a node then")
		f.StringSliceVar(&o.skip, "skip", nil, "columns of tables to leave out: NAME, or TYPE.NAME of one node type")
		f.StringSliceVar(&o.use, "use", nil, "columns of tables to take as features although they hold dates (taken as days since 1970), text (taken as one feature for each value) or ids")
	})
	f.StringVar(&o.mem, "mem", "", "bound on memory, such as 4GiB (default: half of what the machine, or the cgroup, has)")
	f.IntVar(&o.threads, "threads", 0, "processors to use (default: all)")
	f.StringVar(&o.note, "note", "", "text kept with the store's version")
}

// options turns flags into those of the packages; errors are usage errors.
func (o *ingestOptions) options(e *command.Env) (in ingest.Options, fo formats.Options, err error) {
	in = ingest.Options{Nodes: int64(o.numNodes), Undirected: o.undirected, Dedup: ingest.Dedup(o.dedup), Missing: ingest.Missing(strings.Replace(o.missing, recipe.Auto, "", 1)), MissingMask: o.missingMask, Normalize: ingest.Normalize(o.normalize), SelfLoops: ingest.SelfLoops(o.selfLoops), Seed: o.seed,
		Hubs: o.hubs.share, HubBytes: o.hubs.bytes, HubsAuto: o.hubs.auto, HubsTrain: o.hubs.train, HubHops: o.hubHops, Split: o.split, Order: partitioner.Order(o.order), Passes: o.passes, LabelShare: o.labelShare, Resume: o.resume, Threads: o.threads, Note: o.note}
	if o.hops != 0 && o.hops != 1 {
		return in, fo, command.Usagef("--precompute-hops %d: expected 0 or 1", o.hops)
	}
	if o.hopElem, err = parseHopDtype("precompute-dtype", o.hopDtype); err != nil {
		return in, fo, err
	}
	switch in.Labels = ingest.Labels(o.labels); in.Labels {
	case "", ingest.LabelsAuto:
		in.Labels = ""
	case ingest.LabelsClasses, ingest.LabelsNumbers, ingest.LabelsMulti:
	default:
		return in, fo, command.Usagef("--labels %q: expected auto, classes, numbers or multi", o.labels)
	}
	if len(o.label) > 0 && len(o.nodeColumns) > 0 {
		return in, fo, command.Usagef("--label and --node-columns both name columns: have --node-columns call one label")
	}
	switch o.splitRandom {
	case "", recipe.Auto, "none":
	default:
		if in.SplitRandom, err = ingest.ParseRandomSplit(o.splitRandom); err != nil {
			return in, fo, command.Usage(err)
		}
	}
	if o.partitions != "auto" {
		if in.Partitions, err = strconv.Atoi(o.partitions); err != nil || in.Partitions < 1 {
			return in, fo, command.Usagef("--partitions %q: expected auto or a number ≥ 1", o.partitions)
		}
	}
	if o.partitioner != recipe.Auto {
		if in.Partitioner, err = partitioner.ParseMethod(o.partitioner); err != nil {
			return in, fo, command.Usage(err)
		}
	}
	if o.mem != "" {
		if in.MemoryBytes, err = command.ParseSize(o.mem); err != nil {
			return in, fo, command.Usagef("--mem: %v", err)
		}
	}
	if o.featureDtype != "" {
		if in.FeatureElem, err = blocks.ParseElemType(o.featureDtype); err != nil {
			return in, fo, command.Usagef("--feature-dtype: %v", err)
		}
	}
	if err := in.Validate(); err != nil {
		return in, fo, command.Usage(err)
	}
	fo.Format, fo.AllowOutside, fo.Schema, fo.Dangling = o.format, o.allowOutside, o.schema, ingest.Dangling(o.dangling)
	if o.columns != "" {
		fo.Text.Columns = strings.Split(o.columns, ",")
	}
	switch {
	case len(o.nodeColumns) == 1:
		fo.Text.NodeColumns = strings.Split(o.nodeColumns[0], ",")
	case len(o.nodeColumns) > 1:
		for _, list := range o.nodeColumns {
			fo.NodeColumns = append(fo.NodeColumns, strings.Split(list, ","))
		}
	}
	fo.Nodes = o.nodes
	switch {
	case o.delimiter == "tab" || o.delimiter == `\t`:
		fo.Text.Delimiter = '\t'
	case len(o.delimiter) == 1:
		fo.Text.Delimiter = o.delimiter[0]
	case o.delimiter != "":
		return in, fo, command.Usagef("--delimiter %q: expected one character, or tab", o.delimiter)
	}
	switch o.header {
	case "auto":
	case "yes", "no":
		yes := o.header == "yes"
		fo.Text.Header = &yes
	default:
		return in, fo, command.Usagef("--header %q: expected auto, yes or no", o.header)
	}
	fo.Text.Skip, fo.Text.Use, fo.Text.Label = o.skip, o.use, o.label
	switch o.quotes {
	case "auto":
	case "yes", "no":
		yes := o.quotes == "yes"
		fo.Text.Quotes = &yes
	default:
		return in, fo, command.Usagef("--quotes %q: expected auto, yes or no", o.quotes)
	}
	switch o.ids {
	case "auto":
	case "dense", "integers", "strings":
		fo.Text.IDs = store.IDKind(o.ids)
	default:
		return in, fo, command.Usagef("--ids %q: expected auto, dense, integers or strings", o.ids)
	}
	if n, ok := strings.CutPrefix(o.badLines, "skip="); ok {
		if fo.Text.SkipBadMax, err = strconv.ParseInt(n, 10, 64); err != nil || fo.Text.SkipBadMax < 0 {
			return in, fo, command.Usagef("--bad-lines %q: expected fail or skip=N", o.badLines)
		}
	} else if o.badLines != "fail" {
		return in, fo, command.Usagef("--bad-lines %q: expected fail or skip=N", o.badLines)
	}
	var mu sync.Mutex
	fo.Text.OnBad = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(e.Stderr, "gstore: skipped: %v\n", err)
	}
	return in, fo, nil
}

func (o *ingestOptions) run(ctx context.Context, e *command.Env, input, dir string) (err error) {
	in, fo, err := o.options(e)
	if err != nil {
		return err
	}
	defer command.LimitHeap(ingest.HeapBytes(in))()
	begin := time.Now()
	rep, err := o.ingest(ctx, e, input, dir, in, fo)
	if errors.Is(err, store.ErrExists) {
		rep, err = o.finished(dir, err)
	}
	if err != nil {
		return err
	}
	if rep.NotText > 0 {
		fmt.Fprintf(e.Stderr, "%s %d node id(s) are no UTF-8 text, such as %q, and are kept byte by byte: convert the file if other tables name them otherwise (iconv -f latin1 -t utf-8)\n", e.WarnHead(), rep.NotText, rep.NotTextSuch)
	}
	m := rep.Manifest
	if o.hops > 0 {
		// The graph is whole and committed: after a failure here --resume, or gstore precompute, makes the hop alone.
		dev, err := device.Open(device.Options{Name: "host", Threads: o.threads})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dev.Close()) }()
		if _, err := precompute.Hop(ctx, dir, dev, o.hop(in.MemoryBytes)); err != nil {
			return fmt.Errorf("%s is made, its hop is not (gstore precompute %s does that alone): %w", dir, dir, hopError(err))
		}
	}
	if o.mem != "" { // better known now than after a layout that does not do
		if err := recipe.Refused(ctx, dir, in.MemoryBytes); err != nil {
			e.Warn(fmt.Sprintf("the store is made, and training it within --mem %s is refused: %s", o.mem, strings.TrimPrefix(err.Error(), "store: ")))
		}
	}
	e.Event("summary", map[string]any{
		"nodes": rep.Nodes, "edges": rep.EdgesStored, "edges_read": rep.EdgesRead, "duplicates": rep.Duplicates, "self_loops_dropped": rep.SelfLoops,
		"partitions": len(m.Partitions), "pinned": len(m.Pinned), "bytes_stored": rep.BytesStored, "bytes_spilled": rep.BytesSpilled, "peak_rss_bytes": rep.PeakRSSBytes,
		"seconds": time.Since(begin).Seconds(), "cpu_seconds": usage.CPUSeconds(), "seed": in.Seed, "resumed": rep.Resumed, "hubs": rep.Hubs, "version": m.Version, "store": dir,
	})
	if !e.JSON && !e.Quiet {
		fmt.Fprintf(e.Stdout, "%s: %d nodes, %d edges in %s, %.1f MiB (%d edges read, %d duplicates and %d self loops dropped) in %.1f s, peak %d MiB\n",
			dir, rep.Nodes, rep.EdgesStored, partitionsText(len(m.Partitions), len(m.Pinned)), float64(rep.BytesStored)/(1<<20), rep.EdgesRead, rep.Duplicates, rep.SelfLoops,
			time.Since(begin).Seconds(), rep.PeakRSSBytes>>20)
		if rep.Hubs != nil {
			fmt.Fprintln(e.Stdout, rep.Hubs)
		}
		command.PrintUses(e.Stdout, m)
	}
	return nil
}

// writeSchema writes what a database is taken for.
func (o *ingestOptions) writeSchema(ctx context.Context, e *command.Env, input string) (err error) {
	_, fo, err := o.options(e)
	if err != nil {
		return err
	}
	if formats.IsAddress(input) {
		dir, terr := os.MkdirTemp("", "gstore-schema-")
		if terr != nil {
			return terr
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		if input, err = formats.SpoolDatabase(ctx, nil, filepath.Join(dir, "database"), input, false); err != nil {
			return err
		}
	}
	schema, uses, notes, err := formats.Schema(input, fo)
	if errors.Is(err, ingest.ErrOptions) {
		return command.Usage(err)
	}
	if err != nil {
		return err
	}
	file := ""
	for _, u := range uses {
		if u.File != file {
			file = u.File
			fmt.Fprintf(e.Stdout, "# %s\n", file)
		}
		fmt.Fprintf(e.Stdout, "#   %s: %s\n", u.Column, u.As)
	}
	for _, n := range notes {
		fmt.Fprintf(e.Stdout, "# %s\n", n)
	}
	return schema.Write(e.Stdout)
}

// hop is what is precomputed of the store's features.
func (o *ingestOptions) hop(memory int64) precompute.Options {
	return precompute.Options{Features: o.hopFeatures, Elem: o.hopElem, EachRelation: o.hopRelations, MemoryBytes: memory}
}

// finished reports the store of an ingest that was interrupted after its commit, where what is left of it is the hop: the one that is
// asked for, which says itself if it is there, or that the recipe chose. Else it returns exists, and what is left.
func (o *ingestOptions) finished(dir string, exists error) (*ingest.Report, error) {
	s, err := store.Open(dir, store.Options{})
	if err != nil { // something else is there
		return nil, exists
	}
	m := s.Manifest()
	due := ingest.Due(m) == recipe.HopLater
	if due && !o.given("precompute-hops") {
		o.hops = 1
	}
	if !o.resume || o.hops == 0 {
		if due {
			exists = fmt.Errorf("%w; its hop is not made, which this command does with --resume, and gstore precompute %s", exists, dir)
		}
		return nil, errors.Join(exists, s.Close())
	}
	return &ingest.Report{Manifest: m, Nodes: m.Nodes, EdgesStored: m.Edges, BytesStored: m.Bytes(), PeakRSSBytes: usage.PeakRSSBytes(), Resumed: []string{"commit"}}, s.Close()
}

// ingest opens the input and runs the ingest. Standard input, and the database at an address, is spooled to files beside the
// store, STORE.stdin.*, which an interrupted ingest leaves for --resume and any other removes.
func (o *ingestOptions) ingest(ctx context.Context, e *command.Env, input, dir string, in ingest.Options, fo formats.Options) (rep *ingest.Report, err error) {
	path := input
	stream, address := formats.IsStream(input), formats.IsAddress(input)
	if input == "-" || stream || address {
		if s, err := store.Open(dir, store.Options{}); err == nil { // known before hours of spooling
			return nil, errors.Join(fmt.Errorf("%s: %w", dir, store.ErrExists), s.Close())
		}
		base := formats.StreamBase(dir)
		from := e.Stdin
		if stream {
			from = &formats.Stream{Path: input}
		}
		if fo.Input = input; address {
			fo.Input = formats.PublicAddress(input)
			path, err = formats.SpoolDatabase(ctx, nil, base, input, in.Resume)
		} else {
			path, err = formats.Spool(ctx, nil, base, from, fo.Format, in.Resume)
		}
		if err != nil {
			return nil, err
		}
		defer func() {
			if err == nil || ingest.Refused(err) {
				err = errors.Join(err, formats.RemoveSpool(nil, base))
			}
		}()
	}
	src, err := formats.Open(path, fo)
	if err != nil {
		return nil, err
	}
	defer func() { _ = src.Close() }()
	if o.splitRandom == recipe.Auto {
		in.SplitRandom = ingest.UnaskedSplit(src.Describe())
	}
	if d := src.Describe(); in.Undirected && d.Task == store.TaskLink {
		fmt.Fprintln(e.Stderr, e.WarnHead(), "link prediction needs directed edges: train will refuse this store, which --undirected makes")
	}
	if o.hops > 0 {
		if err := recipe.CheckHop(src.Describe(), &in, o.hopFeatures); err != nil {
			return nil, err
		}
		if n := len(src.Describe().NodeTypes); o.hopRelations && n < 2 {
			return nil, command.Usagef("--precompute-each-relation: the input has %d node type, expected several", n)
		}
	}
	if o.hops > 0 {
		in.Later = recipe.Hop(o.hop(in.MemoryBytes))
	}
	if o.partitioner == recipe.Auto {
		given := recipe.Given{Hubs: o.given("hubs"), Hop: o.given("precompute-hops"), Memory: in.MemoryBytes > 0}
		in.Decide = recipe.Decide(given, func(c recipe.Choice) { o.chosen(e, c) })
	}
	in.Heap = func(bytes int64) { command.LimitHeap(bytes) }
	bar := ingestProgress{e: e}
	in.Progress, in.Passed = bar.tell, bar.passed
	defer bar.close()
	rep, err = ingest.Run(ctx, dir, src, in)
	if err != nil && !ingest.Refused(err) && !errors.Is(err, ingest.ErrResume) && !errors.Is(err, store.ErrExists) {
		if _, serr := os.Stat(filepath.Join(dir, "tmp")); serr != nil { // nothing was begun
			return nil, err
		}
		what := "failed"
		if errors.Is(err, context.Canceled) {
			what = "interrupted"
		}
		return nil, fmt.Errorf("%s; the same command with --resume goes on after the last phase that was finished: %w", what, err)
	}
	return rep, err
}

// ingestProgress shows one bar a phase.
type ingestProgress struct {
	e     *command.Env
	mu    sync.Mutex
	phase string
	bar   *progressbar.ProgressBar
	// passes are of the phase that partitions.
	passes passReport
}

func (p *ingestProgress) tell(x ingest.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.Phase != p.phase {
		if p.bar != nil {
			_ = p.bar.Finish()
		}
		p.phase, p.bar = x.Phase, p.e.Progress(x.Total, x.Phase+" ("+x.Unit+")")
		p.passes = passReport{e: p.e, last: time.Now()}
		p.e.Event("phase", map[string]any{"phase": x.Phase})
	}
	_ = p.bar.Set64(x.Done)
}

// passed says on the phase's bar what a pass of the partitioner did.
func (p *ingestProgress) passed(x partitioner.Pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bar.Describe(p.passes.tell(x))
}

func (p *ingestProgress) close() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
