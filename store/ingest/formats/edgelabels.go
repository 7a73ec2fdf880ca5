package formats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/tables"
)

// labelledEdges opens a table of edges of which a column is the label: what is learned is said of edges, such as a rating. Each edge is a node
// then, of a type that is called by the file, which refers to both its ends; these are nodes of a type that their column is called by. nil:
// the label is no column of the edges.
func labelledEdges(path string, o Options) (ingest.Source, error) {
	if len(o.Text.Label) != 1 || o.Store != nil {
		return nil, nil
	}
	info, err := o.FS.Stat(path)
	if err != nil || info.IsDir() {
		return nil, nil // what opens it says so
	}
	t, err := tables.OpenTable(o.FS, path, o.tableText())
	if err != nil {
		return nil, nil
	}
	base := o.FS.PathBase(path)
	name, _, _ := strings.Cut(base, ".")
	label := strings.TrimPrefix(o.Text.Label[0], name+".")
	names := table.ColumnNames(t.Columns())
	if !slices.Contains(names, label) {
		return nil, nil
	}
	if len(o.Nodes) > 0 {
		if o.nodesHave(label) {
			return nil, nil
		}
		return nil, fmt.Errorf("%w: --label %s is a column of the edges, and there are tables of nodes too: put all of them into a folder, each called by what its rows are, and ingest it with --label %s.%s",
			ingest.ErrOptions, o.Text.Label[0], name, label)
	}
	ends, kinds, ok := endsOf(names, label, &o.Text)
	if o.Text.Columns != nil || !ok {
		return nil, ingest.Inputf(path, "--label %s is a column of the edges: the first line must name the columns of both ends, as %s or TYPE_id of two types", o.Text.Label[0], table.KnownEnds())
	}
	rows := &database.Table{File: base, Columns: map[string]database.Kind{label: database.Label}}
	s := &database.Schema{Tables: map[string]*database.Table{name: rows}}
	for i, k := range ends {
		kind := kinds[i]
		if kind == name {
			return nil, ingest.Inputf(path, "the file is called as the type of its column %q: call it by what an edge is", names[k])
		}
		rows.References = append(rows.References, database.Reference{Columns: database.Names{names[k]}, Table: kind})
		s.Tables[kind] = &database.Table{Implied: true, Key: database.Names{"id"}}
	}
	src, err := database.Open(o.FS, o.FS.PathDir(path), database.Options{Given: s, Text: o.tableText()})
	if err != nil {
		return nil, err
	}
	src.Desc.Input = path
	src.Desc.Notes = append(src.Desc.Notes, fmt.Sprintf("edges have labels: each is a node of type %s, with an edge to either of its ends", name))
	return src, nil
}

// nodesHave reports whether a table of nodes has a column of that name.
func (o *Options) nodesHave(column string) bool {
	named, _, err := tables.NameTables(o.FS, o.Nodes, nil)
	return err == nil && slices.ContainsFunc(named, func(n tables.Named) bool {
		t, err := tables.OpenTable(o.FS, n.Path, o.tableText())
		return err == nil && slices.Contains(table.ColumnNames(t.Columns()), column)
	})
}

// endsOf are the columns of the ends, and the types of nodes that they are called by: as those of edges are called, or the two that are called
// TYPE_id or TypeId.
func endsOf(names []string, label string, o *TextOptions) (ends [2]int, types [2]string, ok bool) {
	if meaning, ok := table.EdgeMeanings(names, o); ok {
		ends = [2]int{slices.Index(meaning, "src"), slices.Index(meaning, "dst")}
		for k, end := range ends {
			types[k] = cmp.Or(table.EndType(names[end], nil), "node")
		}
		return ends, types, true
	}
	others := slices.Clone(names)
	others[slices.Index(names, label)] = ""
	return table.TypesOfEnds(others, o)
}
