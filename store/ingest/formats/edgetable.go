package formats

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// parquetEdges is a Parquet table of edges and what its columns mean.
type parquetEdges struct {
	*parquetTable
	ids     store.IDKind
	want    []wantColumn // src, dst, the relation if there is one, then those of specs
	related bool
	uses    []string // of cols
	specs   []ingest.ColumnSpec
}

// openParquetEdges works out what the columns of the table at path mean: by
// o.Columns, one for each in order, or else by name, others being features.
func openParquetEdges(fs vfs.FS, path string, o TextOptions) (*parquetEdges, error) {
	t, err := openParquet(fs, path)
	if err != nil {
		return nil, err
	}
	e := &parquetEdges{parquetTable: t, ids: o.IDs}
	fields, err := e.fields(&o)
	if err != nil {
		return nil, err
	}
	place := map[string]int{}
	var values []field
	for _, f := range fields {
		switch f.name {
		case "src", "dst", "relation":
			place[f.name] = f.at
		default:
			values = append(values, f)
		}
	}
	src, hasSrc := place["src"]
	dst, hasDst := place["dst"]
	if !hasSrc || !hasDst {
		return nil, ingest.Inputf(path, "no columns of sources and destinations (%s) among %q; --columns names the columns in order", knownEnds(), columnNames(e.cols))
	}
	id, err := e.idColumn(src, dst)
	if err != nil {
		return nil, err
	}
	e.want = []wantColumn{{at: src, elem: id}, {at: dst, elem: id}}
	if rel, ok := place["relation"]; ok {
		e.related, e.want = true, append(e.want, wantColumn{at: rel})
	}
	for _, f := range values {
		e.want = append(e.want, wantColumn{at: f.at, elem: f.elem})
		e.specs = append(e.specs, f.edgeColumn())
	}
	return e, nil
}

// fields resolves names to columns; nil if sources or destinations have none.
func (e *parquetEdges) fields(o *TextOptions) (fields []field, err error) {
	cols := e.columns()
	if o.Columns == nil {
		fields, uses, _, err := edgesByName(e, o)
		e.uses = uses
		return fields, err
	}
	fields, _, width, err := parseFields(o.Columns, edgeFields)
	if err != nil {
		return nil, err
	}
	if width != anyWidth && width != len(cols) {
		return nil, ingest.Inputf(e.where(), "%d columns, %q; --columns says what %d are (- skips one, -* at the end all that follow)", len(cols), columnNames(cols), width)
	}
	for k := range fields {
		f := &fields[k]
		if f.at+f.dim > len(cols) {
			return nil, ingest.Inputf(e.where(), "%d columns, %q, expected %d (--columns)", len(cols), columnNames(cols), f.at+f.dim)
		}
		if c := cols[f.at]; c.strange != "" {
			return nil, ingest.Inputf(e.where(), "column %q, the %s, is %s, expected numbers or strings", c.name, f.name, c.strange)
		}
		if f.dim > 1 {
			return nil, fmt.Errorf("%w: field %s: a column of Parquet is one field; a list has its own length", ingest.ErrOptions, f.name)
		}
	}
	e.uses = fieldUses(fields, len(cols))
	for k := range fields {
		if f := &fields[k]; !slices.Contains(edgeFields[:3], f.name) {
			f.dim = cols[f.at].dim
		}
	}
	return fields, nil
}

// idColumn settles the kind of ids and returns the type in which they are read.
func (e *parquetEdges) idColumn(src, dst int) (blocks.ElemType, error) {
	cols := e.columns()
	for _, k := range []int{src, dst} {
		if cols[k].dim != 1 || cols[k].list {
			return 0, ingest.Inputf(e.where(), "column %q holds lists, expected node ids", cols[k].name)
		}
	}
	if e.ids == "" {
		e.ids = store.IDsIntegers
		if cols[src].text || cols[dst].text {
			e.ids = store.IDsStrings
		}
	}
	if e.ids == store.IDsStrings {
		return blocks.Invalid, nil
	}
	for _, k := range []int{src, dst} {
		if cols[k].text {
			return 0, ingest.Inputf(e.where(), "column %q holds strings, expected integers (--ids %s)", cols[k].name, e.ids)
		}
	}
	return blocks.Uint64, nil
}

// edges streams the rows of all threads.
func (e *parquetEdges) edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	batches := make([]ingest.EdgeBatch, env.Threads)
	return e.readParallel(ctx, env, e.want, func(worker int, b *tableBatch) error {
		if err := e.batch(b, &batches[worker]); err != nil {
			return err
		}
		return emit(worker, &batches[worker])
	})
}

// inOrder streams the rows in order.
func (e *parquetEdges) inOrder(ctx context.Context, env ingest.Env, emit func(*ingest.EdgeBatch) error) error {
	var batch ingest.EdgeBatch
	return e.read(ctx, env, e.want, func(b *tableBatch) error {
		if err := e.batch(b, &batch); err != nil {
			return err
		}
		return emit(&batch)
	})
}

// batch makes rows edges.
func (e *parquetEdges) batch(b *tableBatch, out *ingest.EdgeBatch) error {
	out.At = b.at
	out.Src, out.Dst = *b.ids(0, &out.Src), *b.ids(1, &out.Dst)
	if e.ids == store.IDsStrings {
		for i := range b.rows {
			if len(out.Src.At(i)) == 0 || len(out.Dst.At(i)) == 0 {
				return ingest.Inputf(b.at.Of(i), "null or empty node id")
			}
		}
	}
	at := 2
	if e.related {
		out.RelationNames = b.text[2]
		at = 3
	}
	if out.Columns == nil {
		out.Columns = make([][]byte, len(e.specs))
	}
	for c := range e.specs {
		out.Columns[c] = b.numbers[at+c]
	}
	return nil
}

// edgeTables are the files of a folder, or the one file, that hold edges.
type edgeTables struct {
	train string
	lists []string // paths of further edge lists
	names []string // "valid", "test"
	nodes []string // tables of nodes
	// triples says that the edges are called train, as those of a knowledge graph are.
	triples bool
}

// textSuffixes are the endings of text files of edges and nodes, plain or packed.
var textSuffixes = []string{".tsv", ".csv", ".txt"}

// findTables looks for edges and tables of nodes in a folder: files or, of
// Parquet, folders called edges (or train, valid, test) and nodes.
func findTables(fs vfs.FS, dir string) edgeTables {
	look := func(base string) string {
		if path := fs.PathJoin(dir, base+".parquet"); isFile(fs, path) {
			return path
		}
		for _, s := range textSuffixes {
			if path := find(fs, dir, base+s); path != "" {
				return path
			}
		}
		if path := fs.PathJoin(dir, base); findParquet(fs, path) {
			return path
		}
		return ""
	}
	var t edgeTables
	if t.train = look("edges"); t.train == "" {
		if t.train = look("train"); t.train == "" {
			return t
		}
		t.triples = true
		for _, part := range []string{"valid", "test"} {
			if path := look(part); path != "" {
				t.lists, t.names = append(t.lists, path), append(t.names, part)
			}
		}
	}
	if path := look("nodes"); path != "" {
		t.nodes = append(t.nodes, path)
	}
	return t
}

// findParquet reports whether dir is a folder with Parquet files.
func findParquet(fs vfs.FS, dir string) bool {
	if info, err := fs.Stat(dir); err != nil || !info.IsDir() {
		return false
	}
	names, err := fs.List(dir)
	return err == nil && slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".parquet") })
}

// isParquet reports whether path is, or holds, Parquet.
func isParquet(fs vfs.FS, path string) bool {
	return strings.HasSuffix(path, ".parquet") || findParquet(fs, path)
}

// openEdgeTables opens edges as text or Parquet, with tables of nodes beside them.
func openEdgeTables(fs vfs.FS, path, format string, o TextOptions, nodes []string, columns [][]string) (ingest.Source, error) {
	info, err := fs.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	t := edgeTables{train: path} // a file, or a folder of part files
	if info.IsDir() {
		if found := findTables(fs, path); found.train != "" {
			t = found
		} else if !findParquet(fs, path) {
			return nil, ingest.Inputf(path, "no edges.tsv, edges.csv, edges.txt or edges.parquet")
		}
	}
	t.nodes = append(t.nodes, nodes...)
	if len(columns) > 0 && len(columns) != len(t.nodes) {
		return nil, fmt.Errorf("%w: %d lists of columns for %d tables of nodes, %q", ingest.ErrOptions, len(columns), len(t.nodes), t.nodes)
	}
	named, types, err := namedTables(fs, t.nodes, columns)
	if err != nil {
		return nil, err
	}
	if o.types = types; types != nil {
		if o.IDs != "" && o.IDs != store.IDsStrings {
			return nil, fmt.Errorf("%w: ids of nodes of types %q are strings, TYPE:ID, not %s", ingest.ErrOptions, types, o.IDs)
		}
		o.IDs = store.IDsStrings
	}
	s := newComposed(format, path)
	var ends [2]string // columns
	if isParquet(fs, t.train) {
		if ends, err = s.parquetEdges(fs, t, o); err != nil {
			return nil, err
		}
	} else {
		byPlace := []string{"src", "dst"}
		if t.triples {
			byPlace = []string{"src", "relation", "dst"}
		}
		list, err := openEdgeText(fs, t.train, o, byPlace)
		if err != nil {
			return nil, err
		}
		if len(t.nodes) == 0 && len(t.lists) == 0 {
			list.desc.Input = path
			return list, nil
		}
		for k, p := range t.lists {
			if err := list.addList(t.names[k], p); err != nil {
				return nil, err
			}
			s.lists = append(s.lists, func(ctx context.Context, env ingest.Env, emit func(*ingest.EdgeBatch) error) error {
				return list.EdgeList(ctx, env, k, emit)
			})
		}
		s.desc = list.desc
		s.desc.Format, s.desc.Input = format, path
		s.edges = []edgesFunc{list.Edges}
		if len(list.first) > max(list.src, list.dst) {
			ends = [2]string{list.first[list.src], list.first[list.dst]}
		}
	}
	if types != nil {
		if err := s.typeEdges(t.train, ends[0], ends[1], types, o.Like); err != nil {
			return nil, err
		}
	}
	if len(t.lists) > 0 {
		s.desc.Task = store.TaskLink
	}
	if len(t.nodes) > 0 {
		if err := s.openTables(fs, named, o); err != nil {
			return nil, err
		}
	}
	if x := readExported(fs, path); x != nil && s.desc.ClassNames == nil && s.desc.Task == store.TaskNode {
		s.desc.ClassNames = x.ClassNames
	}
	return s, nil
}

// parquetEdges adds the edges and edge lists of Parquet tables, and returns what the columns of ends are called.
func (s *composed) parquetEdges(fs vfs.FS, t edgeTables, o TextOptions) (ends [2]string, err error) {
	e, err := openParquetEdges(fs, t.train, o)
	if err != nil {
		return ends, err
	}
	ends = [2]string{e.cols[e.want[0].at].name, e.cols[e.want[1].at].name}
	s.tableFiles(e.parquetTable)
	s.desc.Uses = columnUses(t.train, columnNames(e.cols), e.uses)
	s.desc.IDs, s.desc.HasRelation, s.desc.EdgeColumns, s.desc.Edges = e.ids, e.related, e.specs, e.rows
	s.edges = []edgesFunc{e.edges}
	o.IDs = e.ids
	for k, path := range t.lists {
		if !isParquet(fs, path) {
			return ends, ingest.Inputf(path, "expected Parquet like %s", t.train)
		}
		l, err := openParquetEdges(fs, path, o)
		if err != nil {
			return ends, err
		}
		if l.related != e.related || !slices.EqualFunc(l.specs, e.specs, func(a, b ingest.ColumnSpec) bool { return a.Name == b.Name && a.Elem == b.Elem && a.Dim == b.Dim }) {
			return ends, ingest.Inputf(path, "its columns are not those of %s", t.train)
		}
		s.tableFiles(l.parquetTable)
		s.desc.EdgeLists, s.lists = append(s.desc.EdgeLists, t.names[k]), append(s.lists, l.inOrder)
	}
	return ends, nil
}

// tableFiles notes the files of a table.
func (s *composed) tableFiles(t *parquetTable) {
	if len(t.groups) == 0 {
		s.file(t.path)
	}
	for _, g := range t.groups {
		s.file(g.path)
	}
}
