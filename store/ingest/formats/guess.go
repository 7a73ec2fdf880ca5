package formats

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/layouts"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/tables"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// otherKinds are kinds of files that are not read, by the ends of their names, and what makes of them what is.
var otherKinds = []struct {
	endings []string
	instead string
}{
	{[]string{".xlsx", ".xls", ".ods"}, "a spreadsheet is not read: save its sheets as CSV or Parquet"},
	{[]string{".gml", ".graphml", ".gexf", ".graphml.xml", ".net", ".adjlist", ".multiline_adjlist"}, "not read; in Python, gstore.ingest takes the graph that networkx or igraph reads from it"},
	{[]string{".ttl", ".rdf", ".owl", ".trig", ".jsonld"}, "RDF is read as N-Triples: riot --output=ntriples of Apache Jena, or rdflib, writes them"},
	{[]string{".pkl", ".pickle"}, "not read; in Python, gstore.ingest takes the Data or HeteroData of PyG that it holds"},
	{[]string{".zip", ".tar", ".tgz", ".tar.gz", ".7z", ".rar"}, "an archive is not read: unpack it, and ingest the folder"},
}

// openBetweenTypes opens a file of edges whose ends are called by two types, such as userId and movieId: their ids are no nodes of one
// type. nil where they are not, or where the caller says what columns or nodes are.
func openBetweenTypes(path string, o Options) (ingest.Source, error) {
	if !files.IsFile(o.FS, path) {
		return nil, nil // what opens it says so
	}
	if o.Text.Columns != nil && o.Nodes == nil && o.Store == nil && o.Text.IDs == "" {
		if ends, types, ok := table.TypesOfEnds(o.Text.Columns, &table.Options{}); ok {
			return betweenColumns(path, ends, types, o)
		}
	}
	if !o.isPlain() {
		return nil, nil
	}
	t, err := tables.OpenTable(o.FS, path, o.tableText())
	if err != nil {
		return nil, nil
	}
	names := table.ColumnNames(t.Columns())
	ends, types, ok := table.TypesOfEnds(names, &o.Text)
	if !ok {
		return nil, nil
	}
	if same, err := shareTexts(t, ends); same || err != nil { // of one type, then
		return nil, err
	}
	src, err := layouts.OpenBetween(o.FS, path, types[0], relationOf(o.FS, path), types[1], o.Text)
	if err == nil {
		d := src.Describe()
		d.Notes = append(d.Notes, fmt.Sprintf("%s and %s are taken for ids of two types of nodes: if they are of one, name the columns by --columns src,dst,…", names[ends[0]], names[ends[1]]))
	}
	return src, err
}

// openLikelyTriples opens a file whose lines are likely heads, relations and tails; nil where they are not, or where the caller says what columns or the
// format are.
func openLikelyTriples(path string, o Options) (ingest.Source, error) {
	if o.Format != "" && o.Format != "auto" || !o.isPlain() || !files.IsFile(o.FS, path) || !text.LikeTriples(o.FS, path) {
		return nil, nil
	}
	src, err := text.OpenTriples(o.FS, path, o.Text)
	if err == nil {
		d := src.Describe()
		d.Notes = append(d.Notes, "three names a line are taken for a knowledge graph, whose edges are predicted: --columns src,relation,dst has a graph whose edges have relations")
	}
	return src, err
}

// isPlain reports whether nothing is said of what edges are, and they are those of a new store.
func (o *Options) isPlain() bool {
	return o.Text.Columns == nil && o.Nodes == nil && o.Store == nil && o.Text.IDs == "" && (o.Text.Header == nil || *o.Text.Header)
}

// betweenColumns opens a file of edges whose ends --columns calls by two types, as in user_id,item_id,rating.
func betweenColumns(path string, ends [2]int, types [2]string, o Options) (ingest.Source, error) {
	o.Text.Columns = slices.Clone(o.Text.Columns)
	o.Text.Columns[ends[0]], o.Text.Columns[ends[1]] = "src", "dst"
	return layouts.OpenBetween(o.FS, path, types[0], relationOf(o.FS, path), types[1], o.Text)
}

// relationOf is what edges between two types are called: as their file is.
func relationOf(fs vfs.FS, path string) string {
	name, _, _ := strings.Cut(fs.PathBase(files.PlainName(path)), ".")
	return name
}

// sharedRows is how many rows are looked at for texts that both ends of edges have.
const sharedRows = 1000

// shareTexts reports whether the first rows have a text in one of two columns that another has in the other. Numbers, which all count from 0
// or 1, say nothing.
func shareTexts(t table.Table, columns [2]int) (bool, error) {
	seen, n, same := [2]map[string]bool{{}, {}}, 0, false
	err := table.ReadSome(context.Background(), t, []table.Want{{At: columns[0]}, {At: columns[1]}}, func(b *table.Batch) error {
		for i := range b.Rows {
			for k := range seen {
				if v := b.Text[k].At(i); !table.IsNumber(v) && !table.MissingText(v) {
					seen[k][string(v)] = true
					same = same || seen[1-k][string(v)]
				}
			}
			if n++; same || n == sharedRows {
				return table.ErrEnough
			}
		}
		return nil
	})
	return same, err
}

// likelyCommands says how the files of a folder that has no known layout might be ingested: "" where none is text or Parquet.
func likelyCommands(fs vfs.FS, dir string) string {
	if info, err := fs.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	entries, err := fs.List(dir)
	if err != nil {
		return ""
	}
	slices.Sort(entries)
	var edges, others, called []string // called are those of others with a column that is called as ids are, or whose columns have no names
	instead := ""
	for _, e := range entries {
		for _, k := range otherKinds {
			if instead == "" && ending(k.endings...)(strings.ToLower(e)) {
				instead = fmt.Sprintf("; %s: %s", fs.PathJoin(dir, e), k.instead)
			}
		}
		path := fs.PathJoin(dir, e)
		if !files.IsFile(fs, path) || strings.HasPrefix(e, ".") {
			continue
		}
		names := text.FirstFields(fs, path)
		if tables.IsParquet(fs, path) {
			if t, err := tables.OpenTable(fs, path, table.Options{}); err == nil {
				names = table.ColumnNames(t.Columns())
			}
		}
		_, ends := table.EdgeMeanings(names, &table.Options{})
		_, _, between := table.TypesOfEnds(names, &table.Options{})
		switch plain := len(names) == 2 && !slices.ContainsFunc(names, table.IsID); {
		case names == nil:
		case ends || between || plain:
			edges = append(edges, path)
		default:
			others = append(others, path)
			numbers := slices.IndexFunc(names, func(n string) bool { return !table.IsNumber([]byte(n)) }) < 0 && !ending(text.JSONSuffixes...)(files.PlainName(e))
			if numbers || slices.ContainsFunc(names, table.IsID) {
				called = append(called, path)
			}
		}
	}
	if len(others) == 1 {
		called = others
	}
	switch {
	case len(edges) == 1 && len(called) == 1:
		return fmt.Sprintf("; gstore ingest %s STORE --nodes %s takes a file of edges and one of nodes", edges[0], called[0])
	case len(edges) == 1 && len(called) > 1:
		return fmt.Sprintf("; gstore ingest %s STORE --nodes %s takes a file of edges and those of nodes", edges[0], strings.Join(called, " --nodes "))
	case len(edges) == 1:
		return fmt.Sprintf("; gstore ingest %s STORE takes a file of edges", edges[0])
	case len(edges)+len(others) > 2 || len(others) == 2:
		return fmt.Sprintf("; gstore ingest %s STORE --format database makes a node of each row of its tables", dir)
	case len(edges) == 0 && len(others) == 1:
		return fmt.Sprintf("; gstore ingest %s STORE takes a file", others[0])
	}
	return instead
}
