package data

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/export"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/table"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/models"
)

// Parts that are no part of a version.
const (
	embeddingsPart = "embeddings" // embedding tables
	modelPart      = "model"
)

// exportOptions are the flags of gstore export.
type exportOptions struct {
	format  string
	what    []string
	columns []string
	tables  []string
	version uint64
	at      string // checkpoint of the table, run or file of the model
	mem     command.Size
}

// NewExport is the command gstore export.
func NewExport(e *command.Env) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export STORE OUT",
		Short: "Write a store's graph, columns, embeddings and models as NumPy, TSV, Parquet and safetensors files",
		Long: `Export writes a version of STORE to files in the new folder OUT. It streams, so that
the graph need not fit in memory, and gstore ingest can read the files again.

Text and Parquet files hold your own ids. NumPy arrays are ordered by them if they are
0 to NODES−1. Otherwise rows are in an order of their own, and node_ids.npy or
node_ids.txt says which node each is (entities.txt in a knowledge graph). Each edge of
an undirected graph is written once.

--what model writes a trained model as model.safetensors, beside model.json, which
describes its layers. docs/models.md says how to compute with them.`,
		Example: `  gstore export cora.gstore cora-npy
  gstore export fb.gstore fb-tsv --format tsv --what graph
  gstore export papers.gstore papers-emb --what embeddings --mem 8GiB
  gstore export cora.gstore cora-model --what model             # of the best run
  gstore export fb.gstore fb-model --what model,embeddings`,
		Args: command.StoreArgs("STORE", "OUT"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), e, args[0], args[1]) },
	}
	f := cmd.Flags()
	command.Section(f, "what is written", func() {
		f.StringSliceVar(&o.what, "what", []string{"graph", "features", "labels", "splits"}, "parts to write: graph, features, labels, splits, embeddings, model, ids (internal ids), or all")
		f.StringSliceVar(&o.columns, "columns", nil, "feature columns to write (default: all)")
		f.StringSliceVar(&o.tables, "tables", nil, "embedding tables to write (default: all)")
		f.StringVar(&o.at, "checkpoint", "", "kept checkpoint of the one table that is written, by its number (default: the last); of node classification the model's file or its run's number (default: the best on validation nodes)")
		f.Uint64Var(&o.version, "version", 0, "version to export (0 = the newest)")
		f.StringVar(&o.format, "format", string(export.Numpy), "numpy, tsv or parquet")
	})
	f.Var(&o.mem, "mem", "bound on memory, such as 4GiB (default: half of what the machine, or the cgroup, has)")
	command.Values(f.Lookup("what"), "graph", "features", "labels", "splits", embeddingsPart, modelPart, "ids", "all")
	command.Values(f.Lookup("format"), string(export.Numpy), string(export.TSV), string(export.Parquet))
	return cmd
}

// options turns flags into those of the package; errors are usage errors.
func (o *exportOptions) options() (x export.Options, embeddings, model bool, err error) {
	x = export.Options{Format: export.Format(o.format), Columns: o.columns, MemoryBytes: int64(o.mem), What: []export.What{}}
	if len(o.what) == 0 {
		return x, false, false, command.Usagef("--what names nothing to write")
	}
	for _, w := range o.what {
		switch w {
		case embeddingsPart:
			embeddings = true
		case modelPart:
			model = true
		case "all":
			x.What, embeddings, model = export.Parts(), true, true
		default:
			if !slices.Contains(export.Parts(), export.What(w)) {
				return x, false, false, command.Usagef("--what %s: expected some of %v, %s, %s, or all", w, export.Parts(), embeddingsPart, modelPart)
			}
			x.What = append(x.What, export.What(w))
		}
	}
	if x.MemoryBytes == 0 {
		x.MemoryBytes = ingest.DefaultMemoryBytes()
	}
	if err := x.Validate(); err != nil {
		return x, false, false, command.Usage(err)
	}
	if (len(o.tables) > 0 || o.at != "") && !embeddings && !model {
		return x, false, false, command.Usagef("--tables and --checkpoint without --what %s or %s", embeddingsPart, modelPart)
	}
	return x, embeddings, model, nil
}

func (o *exportOptions) run(ctx context.Context, e *command.Env, dir, out string) (err error) {
	x, embeddings, model, err := o.options()
	if err != nil {
		return err
	}
	begin := time.Now()
	s, err := store.Open(dir, store.Options{Version: o.version})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if embeddings {
		columns, done, err := o.embeddings(ctx, e, s)
		defer done()
		if err != nil {
			return err
		}
		x.Extra = append(x.Extra, columns...)
	}
	which := ""
	if model {
		d, err := o.model(ctx, e, s)
		if err != nil {
			return err
		}
		if d != nil {
			x.Attached, x.HeldBytes, which = d.Files, d.HeldBytes, d.Which
		}
	}
	bar := exportProgress{e: e}
	x.Progress = bar.tell
	r, err := export.Run(ctx, s, out, x)
	bar.close()
	if err != nil {
		return err
	}
	for _, f := range r.Files {
		e.Event("file", map[string]any{"name": f.Name, "rows": f.Rows, "bytes": f.Bytes})
	}
	e.Event("summary", map[string]any{"model": which, "store": dir, "version": s.Manifest().Version, "out": out, "format": o.format, "files": len(r.Files),
		"bytes": r.Bytes, "seconds": time.Since(begin).Seconds(), "cpu_seconds": usage.CPUSeconds(), "peak_rss_bytes": usage.PeakRSSBytes()})
	if !e.JSON && !e.Quiet {
		for _, f := range r.Files {
			fmt.Fprintf(e.Stdout, "%s/%s\t%d rows\t%s\n", out, f.Name, f.Rows, command.FormatSize(f.Bytes))
		}
		if which != "" {
			fmt.Fprintf(e.Stdout, "model: %s\n", which)
		}
	}
	return nil
}

// model describes the model of the store's task. With --what all a store need not have one.
func (o *exportOptions) model(ctx context.Context, e *command.Env, s *store.Store) (d *models.Described, err error) {
	if s.Manifest().Task() == store.TaskLink {
		if len(o.tables) > 1 {
			return nil, command.Usagef("--what %s of one table: name it with --tables (%s are named)", modelPart, strings.Join(o.tables, ", "))
		}
		d, err = models.Link(ctx, s, strings.Join(o.tables, ""), o.at)
	} else {
		d, err = models.Node(ctx, e, s, o.at)
	}
	var other *table.VersionError
	if (errors.Is(err, store.ErrNotFound) || errors.As(err, &other)) && o.at == "" && !slices.Contains(o.what, modelPart) {
		return nil, nil
	}
	return d, err
}

// embeddings opens the tables that are asked for; done closes them.
func (o *exportOptions) embeddings(ctx context.Context, e *command.Env, s *store.Store) (columns []export.NodeColumn, done func(), err error) {
	var open []*table.Table
	done = func() {
		for _, t := range open {
			_ = t.Close()
		}
	}
	names, err := o.tableNames(ctx, e, s)
	if err != nil {
		return nil, done, err
	}
	var at uint64
	if o.at != "" {
		if at, err = strconv.ParseUint(o.at, 10, 64); err != nil {
			return nil, done, command.Usagef("--checkpoint %q: expected the number of a checkpoint that the table keeps", o.at)
		}
	}
	if at > 0 && len(names) > 1 {
		return nil, done, command.Usagef("--checkpoint %s of one table: name it with --tables (there are: %s)", o.at, strings.Join(names, ", "))
	}
	for _, name := range names {
		t, err := table.Open(ctx, s, table.Options{Name: name, Checkpoint: at, ReadOnly: true, Beside: true})
		if err != nil {
			return nil, done, err
		}
		open = append(open, t)
		if run, err := link.Load(ctx, t); err == nil && run.Config.NoEmbeddings { // Python's tables are of no run
			if len(o.tables) > 0 || slices.Contains(o.what, embeddingsPart) {
				return nil, done, fmt.Errorf("%w: embeddings in table %s: its run is without (--no-embeddings); --what %s writes the model", store.ErrNotFound, name, modelPart)
			}
			continue
		}
		column := "embedding"
		if len(names) > 1 {
			column += "_" + name
		}
		c, err := export.Table(ctx, t, column)
		if err != nil {
			return nil, done, err
		}
		columns = append(columns, c)
	}
	return columns, done, nil
}

// tableNames returns the tables that are asked for, by default those that belong to the version.
func (o *exportOptions) tableNames(ctx context.Context, e *command.Env, s *store.Store) ([]string, error) {
	infos, err := table.Describe(ctx, s.Dir(), store.Options{})
	if err != nil {
		return nil, err
	}
	version := s.Manifest().Version
	var all, fit, others []string
	for _, t := range infos {
		if t.Some { // they leave the store with their model
			continue
		}
		all = append(all, t.Name)
		if t.Version == version {
			fit = append(fit, t.Name)
		} else {
			others = append(others, fmt.Sprintf("%s (of version %d)", t.Name, t.Version))
		}
	}
	if len(o.tables) > 0 {
		for _, name := range o.tables {
			if !slices.Contains(all, name) {
				return nil, fmt.Errorf("%w: table %q (the store has: %s)", store.ErrNotFound, name, strings.Join(all, ", "))
			}
		}
		return o.tables, nil
	}
	missing := "the store has no embedding tables: train first"
	if s.Manifest().Labels() != nil {
		missing = fmt.Sprintf("the store has no embedding tables, which are of link prediction; gstore eval %s --out FOLDER --write embeddings writes the states of nodes", s.Dir())
	}
	if len(others) > 0 {
		missing = fmt.Sprintf("tables of other versions are not written: %s: name that version with --version", strings.Join(others, ", "))
	}
	switch {
	case len(fit) == 0 && slices.Contains(o.what, embeddingsPart):
		return nil, fmt.Errorf("%w: %s", store.ErrNotFound, missing)
	case len(others) > 0:
		fmt.Fprintf(e.Stderr, "gstore: %s\n", missing)
	}
	return fit, nil
}

// exportProgress shows one bar a phase.
type exportProgress struct {
	e     *command.Env
	phase string
	bar   *progressbar.ProgressBar
}

func (p *exportProgress) tell(x export.Progress) {
	if x.Phase != p.phase {
		p.close()
		p.phase, p.bar = x.Phase, p.e.Progress(x.Total, x.Phase+" ("+x.Unit+")")
	}
	_ = p.bar.Set64(x.Done)
}

func (p *exportProgress) close() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
