package data

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/tools/cli/command"
)

// appendOptions are the flags of gstore append.
type appendOptions struct {
	input    ingestOptions
	features string
	name     string
	dtype    string
	keep     int
	scaled   bool
	newNodes string
	dryRun   bool
	labels   string
	split    string
	byTime   string
	update   bool
	remove   bool
	keyless  string
}

// relabels reports whether labels or a split are given to nodes that the store has, rather than anything added.
func (o *appendOptions) relabels() bool {
	return o.features == "" && (len(o.input.nodes) > 0 || o.split != "" || o.byTime != "")
}

// Values of --new-nodes.
const (
	newFew = "few"
	newOK  = "ok"
)

// NewAppend is the command gstore append.
func NewAppend(e *command.Env) *cobra.Command {
	o := &appendOptions{newNodes: newFew, input: ingestOptions{partitions: "auto", partitioner: "random", selfLoops: "keep"}}
	cmd := &cobra.Command{
		Use:   "append STORE [INPUT]",
		Short: "Add, change or delete nodes' rows and edges, as a store's next version",
		Long: `Append adds the nodes and edges at INPUT to STORE, in a new version of it. INPUT names
nodes by the ids that the store knows them by. Nodes that the store does not have are
added, with their rows. (Row k of a numpy folder is that of node NODES+k.) The rules of
the ingest hold here too: whether the graph is undirected, and what happens to
duplicates and self loops. Only the parts of the graph that edges are added to are
written again.

In a store whose ids begin with their type (customer:17), ids may leave it out where only
one type has them, or columns of ends (customer_id) and files of nodes (customer.csv) are
called by it. A new node always says its type. Edges that say no relation are of the one
that their file is called by (customer-bought-item.csv), or of the only one that there is.
Lines of three fields whose second is a relation of the store are head, relation and tail.

In a store of a database (folder, SQLite file, postgres:// address) INPUT is the database as
it is now, or new rows of its tables: rows whose key the store does not have are added, by
the schema, the categories and the scales of the ingest, with what they refer to. A model
that was trained before predicts for them too. Rows that the store has stay as they are
there. Of tables without a key, rows later than the store's are new (--keyless).

With --update, edges that the store has of the same ends and relation are replaced: weights,
times and features of edges are INPUT's. With --delete they are taken out, whatever columns
INPUT has; parallel ones go together, and nodes stay. Both rewrite the parts of the graph
that the edges are in. Without INPUT, --delete takes the nodes out that --nodes names, with
their edges; that writes the whole store anew.

Without INPUT, --nodes names tables of nodes that the store has: they get the labels that
the tables say, and their parts of a split. Other nodes keep theirs. --split-random divides
the labelled nodes anew, and --split-time YEAR by a column of theirs. With --update the nodes
get the tables' features too.

With --features, append adds a column of nodes instead, which rewrites nothing. The
column is a .npy array with a row for every node, in the order of their ids, or, if ids
are not 0 to NODES−1, in the order that gstore export writes.

The version before stays readable, and readers are not disturbed. If append fails, the
store is as it was.`,
		Example: `  gstore append papers.gstore new-papers
  gstore append web.gstore today.tsv --columns src,dst
  gstore append shop.gstore week.csv --nodes customer.csv --dry-run
  gstore append shop.gstore returned.csv --delete
  gstore append shop.gstore --nodes customer=gone.csv --delete
  gstore append shop.gstore shop.sqlite
  gstore append shop.gstore --nodes customer=segments.csv --label segment
  gstore append shop.gstore --nodes customer.csv --update
  gstore append shop.gstore --split-random 80/10/10:7
  gstore append papers.gstore --split-time year:70/10/20
  gstore append cora.gstore --features pagerank.npy --name rank`,
		Args: func(_ *cobra.Command, args []string) error {
			alone := len(args) == 1 && (o.features != "" || o.relabels())
			if alone || len(args) == 2 && o.features == "" && o.split == "" && o.byTime == "" {
				return nil
			}
			if o.remove && len(args) == 1 {
				return command.Usagef("--delete takes edges, gstore append STORE INPUT --delete, or nodes, gstore append STORE --nodes TABLE --delete")
			}
			return command.Usagef("expected STORE and either INPUT, or --features FILE.npy, or --nodes TABLE of nodes that it has, or --split-random or --split-time, got %d argument(s)", len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), e, args) },
	}
	f := cmd.Flags()
	o.input.inputFlags(f)
	command.Section(f, "a column", func() {
		f.StringVar(&o.features, "features", "", "file of a column of features to add: .npy [N] or [N, D]")
		f.StringVar(&o.name, "name", "", "name of the added column")
		f.StringVar(&o.dtype, "feature-dtype", "", "store the added column as float32, float16, bfloat16, float64 or int8 (default: as it is, at most float32)")
		f.BoolVar(&o.scaled, "normalize", false, "bring the added column to mean 0 and deviation 1; the store applies both to what is appended later")
	})
	command.Section(f, "labels and splits", func() {
		f.StringVar(&o.labels, "labels", "auto", "what the labels of a store that has none are: classes, numbers or multi, as of gstore ingest")
		f.StringVar(&o.split, "split-random", "", "divide the labelled nodes anew, at random, in place of the store's first split: percentages TRAIN/VALID/TEST[:SEED], such as 60/20/20")
		f.StringVar(&o.byTime, "split-time", "", "divide the labelled nodes anew by a column of theirs, such as a year: the smallest train, the largest are tested; COLUMN[:TRAIN/VALID/TEST] (default shares 60/20/20)")
	})
	command.Section(f, "changes", func() {
		f.BoolVar(&o.update, "update", false, "replace edges that the store has; without INPUT, the features of nodes that --nodes names")
		f.BoolVar(&o.remove, "delete", false, "take INPUT's edges out of the store; without INPUT, the nodes that --nodes names, with their edges")
	})
	f.StringVar(&o.keyless, "keyless", "", "which rows of a database's tables without a key are new: later = those with a time after the latest that the store has, all, or rest = those behind as many as it has (default: later)")
	f.StringVar(&o.newNodes, "new-nodes", newFew, "ok = any number of nodes may be new; few = at most half of those that edges without rows of nodes name")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what the next version would be, and leave the store as it is")
	f.IntVar(&o.keep, "keep-versions", 2, "how many versions to keep, the new one included")
	completeValues(f)
	return cmd
}

func (o *appendOptions) run(ctx context.Context, e *command.Env, args []string) (err error) {
	dir := args[0]
	o.input.featureDtype, o.input.labels, o.input.splitRandom = o.dtype, o.labels, o.split
	in, fo, err := o.input.options(e)
	switch {
	case err != nil:
		return err
	case o.newNodes != newFew && o.newNodes != newOK:
		return command.Usagef("--new-nodes %s: expected few or ok", o.newNodes)
	case o.keyless != "" && !slices.Contains(database.Keylesses(), database.Keyless(o.keyless)):
		return command.Usagef("--keyless %s: expected one of %v", o.keyless, database.Keylesses())
	case o.update && o.remove:
		return command.Usagef("--update and --delete: give one of both")
	case o.remove && len(o.input.nodes) > 0 && len(args) == 2:
		return command.Usagef("--delete takes INPUT's edges, and --nodes names tables of nodes: give one of both")
	case o.remove && (o.split != "" || o.byTime != ""):
		return command.Usagef("--delete takes nodes out, and --split-random and --split-time divide those that stay: one after the other")
	case (o.update || o.remove) && (o.features != "" || len(args) == 1 && len(o.input.nodes) == 0):
		return command.Usagef("--update and --delete go with edges (gstore append STORE INPUT) or with tables of nodes (--nodes TABLE)")
	case o.keep < 1:
		return command.Usagef("--keep-versions %d: expected 1 or more", o.keep)
	case (o.features != "") != (o.name != ""):
		return command.Usagef("--features FILE.npy and --name NAME go together")
	case o.features == "" && o.scaled:
		return command.Usagef("--normalize goes with --features: rows of new nodes are standardised as the store's columns are")
	case o.features == "" && o.dtype != "":
		return command.Usagef("--feature-dtype goes with --features: rows of new nodes are stored as the store's columns are")
	}
	var byTime *grow.TimeSplit
	if o.byTime != "" {
		if byTime, err = grow.ParseTimeSplit(o.byTime); err != nil {
			return command.Usage(fmt.Errorf("--split-time: %w", err))
		}
	}
	defer command.LimitHeap(ingest.HeapBytes(in))()
	begin := time.Now()
	src, done, err := o.open(ctx, dir, args, &fo)
	if errors.Is(err, database.ErrNoneNew) && !o.update && !o.remove {
		return noneNew(e, dir, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if o.remove && len(args) == 1 {
		return o.deleteNodes(ctx, e, dir, src, in)
	}
	bar := ingestProgress{e: e}
	ao := grow.Options{MemoryBytes: in.MemoryBytes, Threads: in.Threads, KeepVersions: o.keep, Missing: in.Missing, Normalize: o.scaled, Note: in.Note, DryRun: o.dryRun, Progress: bar.tell}
	if o.newNodes == newFew {
		ao.NewShare = grow.FewNew
	}
	switch {
	case o.update:
		ao.Change = grow.Update
	case o.remove:
		ao.Change = grow.Delete
	}
	var r *grow.Report
	switch {
	case o.features != "":
		r, err = grow.AppendColumns(ctx, dir, src, in.FeatureElem, ao)
	case len(args) == 1:
		r, err = o.relabel(ctx, dir, src, fo, grow.RelabelOptions{Labels: in.Labels, Split: in.SplitRandom, Time: byTime}, ao)
	default:
		r, err = grow.Append(ctx, dir, src, ao)
	}
	bar.close()
	if errors.Is(err, grow.ErrNewNodes) {
		return fmt.Errorf("%w; if they are new, --new-nodes ok adds them; if not, the store writes its ids in another way (gstore inspect %s)", err, dir)
	}
	if err != nil {
		return err
	}
	m := r.Manifest
	e.Event("summary", map[string]any{"store": dir, "version": m.Version, "dry_run": o.dryRun, "nodes": m.Nodes, "edges": m.Edges, "partitions": len(m.Partitions),
		"new_nodes": r.NewNodes, "new_partitions": r.NewPartitions, "edges_read": r.EdgesRead, "edges_added": r.EdgesAdded,
		"edges_gone": r.EdgesGone, "edges_missing": r.EdgesMissing, "edges_dangling": r.EdgesDangling,
		"duplicates": r.Duplicates, "self_loops_dropped": r.SelfLoops, "rows_rewritten": r.StripesRewritten, "bytes_written": r.BytesWritten,
		"bytes_spilled": r.BytesSpilled, "new_relations": r.NewRelations, "columns_dropped": r.Dropped, "columns_filled": r.Filled, "peak_rss_bytes": r.PeakRSSBytes,
		"relabelled": r.Relabelled, "seconds": time.Since(begin).Seconds(), "cpu_seconds": usage.CPUSeconds()})
	if e.JSON || e.Quiet {
		return nil
	}
	if o.dryRun {
		fmt.Fprint(e.Stdout, "--dry-run: the store is as it was; the next version would be\n")
	}
	if src != nil && src.Describe().Schema != "" {
		for _, note := range src.Describe().Notes {
			fmt.Fprintf(e.Stdout, "%s\n", note)
		}
	}
	o.tell(e, dir, r, time.Since(begin))
	return nil
}

// tell says what the next version is.
func (o *appendOptions) tell(e *command.Env, dir string, r *grow.Report, took time.Duration) {
	if r.Relabelled != nil {
		fmt.Fprintf(e.Stdout, "%s: version %d, %s written in %.1f s, peak %d MiB\n", dir, r.Manifest.Version, command.FormatSize(r.BytesWritten), took.Seconds(), r.PeakRSSBytes>>20)
		tellRelabelled(e, r.Relabelled)
	} else {
		o.tellEdges(e, dir, r, took)
	}
	for _, name := range r.Dropped {
		fmt.Fprintf(e.Stdout, "column %s is not in this version: it was computed from the graph before (gstore precompute adds it again)\n", name)
	}
}

// tellEdges says which nodes and edges came and went.
func (o *appendOptions) tellEdges(e *command.Env, dir string, r *grow.Report, took time.Duration) {
	m := r.Manifest
	what := fmt.Sprintf("%d new", r.EdgesAdded)
	switch {
	case o.update:
		what = fmt.Sprintf("%d put in, %d taken out", r.EdgesRead-r.SelfLoops-r.Duplicates, r.EdgesGone)
	case o.remove:
		what = fmt.Sprintf("%d deleted", r.EdgesGone)
	}
	fmt.Fprintf(e.Stdout, "%s: version %d, %d nodes (%d new, in %d partitions), %d edges (%s), %d of %d stripes rewritten, %s written in %.1f s, peak %d MiB\n",
		dir, m.Version, m.Nodes, r.NewNodes, r.NewPartitions, m.Edges, what, r.StripesRewritten, len(m.Partitions)-r.NewPartitions,
		command.FormatSize(r.BytesWritten), took.Seconds(), r.PeakRSSBytes>>20)
	if r.EdgesMissing > 0 {
		e.Warn(fmt.Sprintf("%d of the %d edges are not in the store: ends and relation must be its own (gstore inspect %s)", r.EdgesMissing, r.EdgesRead, dir))
	}
	if r.EdgesDangling > 0 {
		fmt.Fprintf(e.Stdout, "%d references lead to rows that neither the store nor the input has: they are left out\n", r.EdgesDangling)
	}
	for _, name := range r.NewRelations {
		fmt.Fprintf(e.Stdout, "relation %s is new: a model of relations that was trained before has no parameters for it\n", name)
	}
	for _, f := range r.Filled {
		fmt.Fprintf(e.Stdout, "column %s: the input has no rows of the %d new nodes, which have %s\n", f.Column, r.NewNodes, f.With)
	}
}

// open opens what is appended, and what it takes: the store, and the copy of a database at an address. done closes them.
func (o *appendOptions) open(ctx context.Context, dir string, args []string, fo *formats.Options) (src ingest.Source, done func() error, err error) {
	var closing []func() error
	all := func() (err error) {
		for _, f := range slices.Backward(closing) {
			err = errors.Join(err, f())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, all())
		}
	}()
	if o.features == "" && (len(args) == 2 || len(o.input.nodes) > 0) {
		s, err := store.Open(dir, store.Options{})
		if err != nil {
			return nil, nil, err
		}
		closing = append(closing, s.Close)
		if err := fo.LikeStore(ctx, s); err != nil {
			return nil, nil, err
		}
	}
	fo.Keyless = database.Keyless(o.keyless)
	if len(args) == 2 {
		path, remove, err := fo.Beside(ctx, dir, args[1])
		if err != nil {
			return nil, nil, err
		}
		closing = append(closing, remove)
		args = []string{dir, path}
	}
	src, err = o.source(args, *fo)
	if src != nil {
		closing = append(closing, src.Close)
	}
	if (o.update || o.remove) && (errors.Is(err, database.ErrNoneNew) || src != nil && src.Describe().Schema != "") {
		return nil, nil, command.Usagef("--update and --delete are not for a database, whose rows that the store has stay as they are there: ingest it anew")
	}
	return src, all, err
}

// source opens what is appended. Text names nodes as the store does, unless --ids says otherwise.
func (o *appendOptions) source(args []string, fo formats.Options) (ingest.Source, error) {
	if o.features != "" {
		return formats.OpenColumn(nil, o.features, o.name, store.RoleFeature)
	}
	if o.relabels() && len(o.input.nodes) == 0 {
		return nil, nil
	}
	if len(args) == 1 {
		m := fo.Text.Like
		if c := m.Labels(); c != nil {
			if fo.Text.OrLabel = c.Elements; c.Sets != nil && c.Elements == nil {
				fo.Text.OrLabel = m.Schema.ClassNames // a column each
			}
		}
		fo.Text.Like, fo.Text.LabelsOnly = nil, true
		return formats.OpenNodes(fo)
	}
	return formats.Open(args[1], fo)
}

// relabel is an append of what tables say of nodes that the store has: they are opened once more for --update, as rows of the store's columns.
func (o *appendOptions) relabel(ctx context.Context, dir string, src ingest.Source, fo formats.Options, of grow.RelabelOptions, ao grow.Options) (_ *grow.Report, err error) {
	if o.update {
		rows, err := formats.OpenNodes(fo)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		of.Rows = rows
	}
	return grow.Relabel(ctx, dir, src, of, ao)
}

// noneNew says that the store has all rows of a database: that is no error of a command which is run every week.
func noneNew(e *command.Env, dir string, none error) error {
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	m := s.Manifest()
	e.Event("summary", map[string]any{"store": dir, "version": m.Version, "nodes": m.Nodes, "edges": m.Edges, "partitions": len(m.Partitions), "new_nodes": 0, "edges_added": 0})
	if !e.JSON && !e.Quiet {
		fmt.Fprintf(e.Stdout, "%s: version %d stays: %v\n", dir, m.Version, none)
	}
	return s.Close()
}

// tellRelabelled says which nodes got labels and parts of a split.
func tellRelabelled(e *command.Env, l *grow.Relabelled) {
	if l.Given > 0 {
		fmt.Fprintf(e.Stdout, "labels of %d nodes: %d had none, %d another one\n", l.Given, l.New, l.Changed)
	}
	if l.Updated > 0 {
		fmt.Fprintf(e.Stdout, "features of %d nodes\n", l.Updated)
	}
	if l.Parted > 0 {
		fmt.Fprintf(e.Stdout, "parts of splits of %d nodes\n", l.Parted)
	}
	if l.Notes != "" {
		fmt.Fprintln(e.Stdout, l.Notes)
	}
	if l.Unknown > 0 {
		e.Warn(fmt.Sprintf("%d rows are left out: the store has no nodes such as %q", l.Unknown, l.UnknownSome))
	}
	if l.Unparted > 0 {
		e.Warn(fmt.Sprintf("%d labelled nodes are in no part of the split: they do not train; a column split says their parts, or --split-random divides all anew", l.Unparted))
	}
}
