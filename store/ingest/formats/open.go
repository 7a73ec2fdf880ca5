package formats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/layouts"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/sqlite"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/tables"
	"github.com/gstore/gstore/store/ingest/formats/text"
	"github.com/gstore/gstore/store/internal/meta"
)

// TextOptions say how text and tables are to be read. The zero value detects everything.
type TextOptions = table.Options

// Options say how an input is to be read. The zero value detects everything.
type Options struct {
	// Format is one of Names; "" or "auto" = by what the path holds.
	Format string
	Text   TextOptions // edge lists, triples and tables
	// Nodes are further tables of nodes (text or Parquet) of an edge list or a
	// table of edges: PATH, or TYPE=PATH where ids of each type are a space of their own.
	Nodes []string
	// NodeColumns says of each of Nodes what its columns are, as Text.NodeColumns does of all; nil = as that says.
	NodeColumns [][]string
	// AllowOutside lets a GraphBolt data set name files outside its folder.
	AllowOutside bool
	// Schema is the path of a database's schema; "" = its own, or what names and values suggest. Dangling says what becomes of its references
	// to rows that are not there; "" = they are left out.
	Schema   string
	Dangling ingest.Dangling
	// Store, if not nil, is the store that rows are added to. Keyless says which of a database's rows without a key are new; "" = those later
	// than the store's.
	Store   *store.Store
	Keyless database.Keyless
	FS      vfs.FS // where the input is; nil = the real file system
	// Input is what the source is called in the store, such as "-"; "" = its path.
	Input string
}

// LikeStore has the input read as that of rows which are added to a store: by its ids, types, columns and, of a database, its schema. The store
// must stay open while the source is.
func (o *Options) LikeStore(ctx context.Context, s *store.Store) (err error) {
	o.Store, o.Text.Like = s, s.Manifest()
	if o.Text.IDs == "" {
		o.Text.IDs = o.Text.Like.IDs.Kind
	}
	o.Text.LikeTypes, err = s.TypesOfIDs(ctx)
	return err
}

// Open opens the graph at path. Bad input is an ingest.ErrInput; a disk that
// fails, now or while the source is read, is not.
func Open(path string, o Options) (ingest.Source, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	watched := &watchedFS{FS: o.FS}
	o.FS = watched
	src, err := openAs(path, o)
	if err == nil {
		if err = o.checkNamed(src.Describe()); err != nil {
			_ = src.Close()
		}
	}
	if err == nil {
		var x *files.Export
		if x, err = files.ReadExport(o.FS, path); err != nil {
			_ = src.Close()
		} else if x != nil {
			x.Describe(src.Describe())
		}
	}
	if err == nil {
		if o.Input != "" {
			src.Describe().Input = o.Input
		}
		src = &watchedSource{src, watched}
	}
	if bad := watched.verdict(err); bad != nil {
		if err == nil {
			_ = src.Close()
		}
		return nil, bad
	}
	return src, nil
}

// checkNamed refuses names of columns to use or to leave out that no table has.
func (o *Options) checkNamed(d *ingest.Description) error {
	var names []string
	for _, u := range d.Uses {
		names = append(names, u.Names...)
	}
	for _, flag := range []struct {
		name   string
		wanted []string
	}{{"--skip", o.Text.Skip}, {"--use", o.Text.Use}, {"--label", o.Text.Label}} {
		for _, want := range flag.wanted {
			_, plain, typed := strings.Cut(want, ".") // TYPE.NAME is a column of one type's table
			if slices.Contains(names, want) || typed && slices.Contains(names, plain) {
				continue
			}
			if len(names) == 0 {
				return ingest.Inputf(d.Input, "%s %s: it has no tables with named columns", flag.name, want)
			}
			if k := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, want) }); k >= 0 {
				return ingest.Inputf(d.Input, "%s %s: no column is called so; did you mean %s?", flag.name, want, names[k])
			}
			return ingest.Inputf(d.Input, "%s %s: no column is called so; there are %s", flag.name, want, table.Listed(names))
		}
	}
	if len(o.Text.Label) > 0 && !slices.ContainsFunc(d.NodeColumns, func(c ingest.ColumnSpec) bool { return c.Role == store.RoleLabel }) {
		return ingest.Inputf(d.Input, "--label %s is no column of nodes; where it is one of edges, ingest their file alone, or all tables as a database, a folder with --label TABLE.COLUMN: each edge is a node then, which has the label",
			strings.Join(o.Text.Label, ","))
	}
	return nil
}

// label is the first of the labels that were named; "" = none was.
func (o *Options) label() string { return strings.Join(o.Text.Label[:min(1, len(o.Text.Label))], "") }

// Names of formats that are chosen by more than a file's name.
const (
	databaseFormat = "database"
	edgelistFormat = "edgelist"
)

func openDatabase(path string, o Options, draft bool) (*database.Source, error) {
	if len(o.Text.Skip)+len(o.Text.Use) > 0 {
		return nil, fmt.Errorf("%w: --skip and --use are for tables without a schema: in a database's (--dry-run writes it) the kind of a column says what becomes of it, such as skip", ingest.ErrOptions)
	}
	if len(o.Text.Label) > 1 {
		return nil, fmt.Errorf("%w: --label %s: one column of a database's is learned", ingest.ErrOptions, strings.Join(o.Text.Label, ","))
	}
	of := database.Options{Schema: o.Schema, Dangling: o.Dangling, Like: o.Store, Keyless: o.Keyless, Text: o.tableText(), Draft: draft}
	if len(o.Text.Label) == 1 {
		of.Label = o.Text.Label[0]
	}
	return database.Open(o.FS, path, of)
}

// tableText is how the text of a database's tables is read.
func (o *Options) tableText() TextOptions {
	text := o.Text
	text.Like, text.LikeTypes, text.Label = nil, nil, nil
	return text
}

// Schema opens the database at path and returns what its tables are taken for, and what would become of their columns. Errors are those of Open.
func Schema(path string, o Options) (_ *database.Schema, uses []ingest.ColumnUse, notes []string, err error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Format != "" && o.Format != "auto" && o.Format != databaseFormat {
		return nil, nil, nil, fmt.Errorf("%w: only format %s has a schema, not %s", ingest.ErrOptions, databaseFormat, o.Format)
	}
	watched := &watchedFS{FS: o.FS}
	o.FS = watched
	src, err := openDatabase(path, o, true)
	if bad := watched.verdict(err); bad != nil {
		return nil, nil, nil, bad
	}
	return src.Schema(), src.Desc.Uses, src.Desc.Notes, src.Close()
}

// openAs opens path in the format that o names, or the one it detects.
func openAs(path string, o Options) (ingest.Source, error) {
	if IsAddress(path) {
		return nil, fmt.Errorf("%w: %s: a database at an address is for gstore ingest, which copies it first", ingest.ErrOptions, PublicAddress(path))
	}
	f, err := formatOf(path, &o)
	if err != nil {
		return nil, err
	}
	if len(o.Nodes) > 0 && !f.nodes {
		return nil, fmt.Errorf("%w: tables of nodes go with formats edgelist, parquet and tables, not %s",
			ingest.ErrOptions, f.name)
	}
	if f.name != databaseFormat && (o.Schema != "" || o.Dangling != "" || o.Keyless != "") {
		return nil, fmt.Errorf("%w: a schema, and rules for references that dangle and rows without a key, go with format %s, not %s", ingest.ErrOptions, databaseFormat, f.name)
	}
	if f.export != nil {
		x, err := files.ReadExport(o.FS, path)
		if err != nil {
			return nil, err
		}
		if x != nil {
			f.export(&o.Text, x)
		}
	}
	return f.open(path, o)
}

// formatOf is the format that o names, or the one it detects.
func formatOf(path string, o *Options) (*form, error) {
	if (o.Schema != "" || o.growsDatabase(path)) && (o.Format == "" || o.Format == "auto") { // tables that nothing else is known of
		o.Format = databaseFormat
	}
	if o.Format != "" && o.Format != "auto" {
		if k := slices.Index(Names(), o.Format); k >= 0 {
			return &known[k], nil
		}
		return nil, fmt.Errorf("%w: format %q (known: auto, %s)", ingest.ErrOptions, o.Format, strings.Join(Names(), ", "))
	}
	f, err := detect(o.FS, path)
	if err != nil && o.labelsTable(path) { // of a folder that no layout is known of
		return &known[slices.Index(Names(), databaseFormat)], nil
	}
	return f, err
}

// labelsTable reports whether the label is TABLE.COLUMN of a table in a folder: the tables are a database's then.
func (o *Options) labelsTable(path string) bool {
	if len(o.Text.Label) != 1 {
		return false
	}
	of, _, typed := strings.Cut(o.Text.Label[0], ".")
	return typed && database.HoldsTable(o.FS, path, of)
}

// growsDatabase reports whether tables at path are those of a database whose rows the store has.
func (o *Options) growsDatabase(path string) bool {
	if o.Store == nil || o.Store.Manifest().DatabaseSchema() == "" {
		return false
	}
	info, err := o.FS.Stat(path)
	return err == nil && (info.IsDir() || database.HasTable(o.Store.Manifest().DatabaseSchema(), o.FS, path))
}

// detect is the format of what is at path.
func detect(fs vfs.FS, path string) (*form, error) {
	info, err := fs.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	base := fs.PathBase(files.PlainName(path))
	for k := range known {
		f := &known[k]
		if info.IsDir() && f.folder != nil && f.folder(fs, path) || !info.IsDir() && f.file != nil && f.file(base) {
			return f, nil
		}
	}
	if sqlite.Is(fs, path) {
		return &known[slices.Index(Names(), databaseFormat)], nil
	}
	for _, other := range otherKinds {
		if !info.IsDir() && ending(other.endings...)(strings.ToLower(base)) {
			return nil, ingest.Inputf(path, "%s", other.instead)
		}
	}
	if !info.IsDir() {
		if text.FirstFields(fs, path) != nil {
			return &known[slices.Index(Names(), edgelistFormat)], nil
		}
		return nil, ingest.Inputf(path, "unknown kind of file; name its format (%s)", strings.Join(Names(), ", "))
	}
	if _, err := fs.Stat(fs.PathJoin(path, meta.MetaName)); err == nil {
		if _, err := fs.Stat(fs.PathJoin(path, meta.DataName)); err == nil {
			return nil, ingest.Inputf(path, "it is a store already: gstore partition lays it out anew, gstore export writes it as files")
		}
	}
	return nil, ingest.Inputf(path, "no known layout: expected edge_index.npy, raw/edge.csv.gz, processed, edges.csv, edges.parquet, "+
		"edges/SOURCE-NAME-DESTINATION.csv, train.npy or train.tsv of triples, or manifest.yaml or schema.yaml of a database's tables (of tables without, --format database)%s", likelyCommands(fs, path))
}

// named recognises a file by its name, ending by the end of it.
func named(name string) func(string) bool { return func(base string) bool { return base == name } }

func ending(suffixes ...string) func(string) bool {
	return func(base string) bool {
		return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(base, s) })
	}
}

// has recognises a folder by a file in it, plain or packed.
func has(names ...string) func(vfs.FS, string) bool {
	return func(fs vfs.FS, dir string) bool { return files.Find(fs, dir, names...) != "" }
}

func holdsNPZ(fs vfs.FS, dir string) bool { return files.FindSuffix(fs, dir, ".npz") != "" }

func openNPZ(path string, o Options) (ingest.Source, error) {
	if info, err := o.FS.Stat(path); err == nil && info.IsDir() {
		if f := files.FindSuffix(o.FS, path, ".npz"); f != "" {
			path = f
		}
	}
	return numpy.OpenNPZ(o.FS, path)
}

func openNumpy(path string, o Options) (ingest.Source, error) {
	if files.IsFile(o.FS, path) {
		return numpy.OpenEdges(o.FS, path)
	}
	return numpy.OpenFolder(o.FS, path)
}

// openLINQS opens a graph of LINQS; one of its files alone, or of which more is said, is a file of edges as any other.
func openLINQS(path string, o Options) (ingest.Source, error) {
	if files.IsFile(o.FS, path) && (!o.isPlain() || !layouts.IsLINQSFile(o.FS, path)) {
		return openEdges(edgelistFormat)(path, o)
	}
	return layouts.OpenLINQS(o.FS, path, o.Text)
}

// openTriples opens a folder of triples: names in text, or numbers in arrays.
func openTriples(path string, o Options) (ingest.Source, error) {
	if !text.HoldsTriples(o.FS, path) && files.Find(o.FS, path, "train.npy") != "" {
		return openNumpy(path, o)
	}
	return text.OpenTriples(o.FS, path, o.Text)
}

func openEdges(name string) func(string, Options) (ingest.Source, error) {
	return func(path string, o Options) (ingest.Source, error) {
		if src, err := labelledEdges(path, o); src != nil || err != nil {
			return src, err
		}
		if src, err := openBetweenTypes(path, o); src != nil || err != nil {
			return src, err
		}
		if name == edgelistFormat {
			if src, err := openLikelyTriples(path, o); src != nil || err != nil {
				return src, err
			}
		}
		src, err := tables.OpenEdges(o.FS, path, name, o.Text, o.Nodes, o.NodeColumns)
		if errors.Is(err, ingest.ErrInput) && o.Nodes == nil { // a folder of several tables is no table's parts
			err = fmt.Errorf("%w%s", err, likelyCommands(o.FS, path))
		}
		return src, err
	}
}

func openPairs(wide bool) func(string, Options) (ingest.Source, error) {
	return func(path string, o Options) (ingest.Source, error) { return numpy.OpenBinary(o.FS, path, wide) }
}

// exportedTable takes over what the export says of its tables, where o says nothing.
func exportedTable(o *TextOptions, x *files.Export) {
	if o.Columns == nil && o.Header == nil {
		if o.Columns = x.EdgeColumns; o.Columns != nil {
			yes := true
			o.Header = &yes
		}
	}
	exportedIDs(o, x)
}

// exportedTriples is exportedTable of triples, which have no header.
func exportedTriples(o *TextOptions, x *files.Export) {
	if o.Header == nil {
		o.Header = new(bool)
	}
	exportedIDs(o, x)
}

func exportedIDs(o *TextOptions, x *files.Export) {
	if o.IDs == "" {
		o.IDs = x.IDs
	}
	if o.NodeColumns == nil {
		o.NodeColumns = x.NodeColumns
	}
}
