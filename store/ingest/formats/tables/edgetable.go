// Package tables makes a graph of tables, in text or Parquet: one of edges, and tables of nodes beside it whose rows are
// found by id. Tables of nodes of several types each have a space of ids of their own: node 1 of type user is user:1.
package tables

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/parquet"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// OpenEdges opens edges as text or Parquet, with tables of nodes beside them.
func OpenEdges(fs vfs.FS, path, format string, o table.Options, nodes []string, columns [][]string) (ingest.Source, error) {
	info, err := fs.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	t := edgeTables{train: path} // a file, or a folder of part files
	if info.IsDir() {
		if found := findTables(fs, path); found.train != "" {
			t = found
		} else if !FindParquet(fs, path) {
			return nil, ingest.Inputf(path, "no edges.tsv, edges.csv, edges.txt or edges.parquet")
		}
	}
	t.nodes = append(t.nodes, nodes...)
	if len(columns) > 0 && len(columns) != len(t.nodes) {
		return nil, fmt.Errorf("%w: %d lists of columns for %d tables of nodes, %q", ingest.ErrOptions, len(columns), len(t.nodes), t.nodes)
	}
	named, types, err := NameTables(fs, t.nodes, columns)
	if err != nil {
		return nil, err
	}
	if types == nil && (nameByFiles(named, o.LikeTypes) || o.LikeTypes == nil && nameByEnds(fs, t.train, named, o)) {
		for _, t := range named {
			types = append(types, t.Kind)
		}
	}
	known := types // types by which columns of ends are called
	if o.LikeTypes != nil {
		known = o.LikeTypes
	}
	if o = o.OfTypes(known); types != nil {
		if o.IDs != "" && o.IDs != store.IDsStrings {
			return nil, fmt.Errorf("%w: ids of nodes of types %q are strings, TYPE:ID, not %s", ingest.ErrOptions, types, o.IDs)
		}
		o.IDs = store.IDsStrings
	}
	s := parts.New(format, path)
	var ends [2]string // columns
	if IsParquet(fs, t.train) {
		if ends, err = addParquetEdges(s, fs, t, o); err != nil {
			return nil, err
		}
	} else {
		byPlace := []string{"src", "dst"}
		if t.triples {
			byPlace = []string{"src", "relation", "dst"}
		}
		list, err := text.OpenEdges(fs, t.train, o, byPlace)
		if err != nil {
			return nil, err
		}
		if len(t.nodes) == 0 && len(t.lists) == 0 && !table.CalledByTypes(list.Ends(), o.LikeTypes) {
			list.Desc.Input = path
			nameEdgesApart(&list.Desc, o.Like)
			return list, nil
		}
		for k, p := range t.lists {
			if err := list.AddList(t.names[k], p); err != nil {
				return nil, err
			}
			s.ListStreams = append(s.ListStreams, func(ctx context.Context, env ingest.Env, emit func(*ingest.EdgeBatch) error) error {
				return list.EdgeList(ctx, env, k, emit)
			})
		}
		s.Desc = list.Desc
		s.Desc.Format, s.Desc.Input = format, path
		s.EdgeStreams = []parts.Edges{list.Edges}
		ends = list.Ends()
	}
	tables, err := openNodes(fs, named, o)
	if err == nil && types == nil && len(s.EdgeStreams) > 0 {
		err = idsByEnds(context.Background(), fs, s.EdgeStreams[0], named, tables, o)
	}
	if err != nil {
		return nil, err
	}
	if types != nil && o.LikeTypes == nil || table.CalledByTypes(ends, o.LikeTypes) {
		var found [2]string
		if o.LikeTypes == nil && len(s.EdgeStreams) > 0 {
			if found, err = endsByRows(context.Background(), s.EdgeStreams[0], ends, tables, types); err != nil {
				return nil, err
			}
		}
		if err := typeEdges(s, t.train, ends, found, types, known, o.Like); err != nil {
			return nil, err
		}
	}
	if len(t.lists) > 0 {
		s.Desc.Task = store.TaskLink
	}
	if len(t.nodes) > 0 {
		if err := addOpened(s, named, tables); err != nil {
			return nil, err
		}
	}
	nameEdgesApart(&s.Desc, o.Like)
	x, err := files.ReadExport(fs, path)
	if err != nil {
		return nil, err
	}
	if x != nil && s.Desc.ClassNames == nil && s.Desc.Task == store.TaskNode {
		s.Desc.ClassNames = x.ClassNames
	}
	return s, nil
}

// nameEdgesApart calls a feature of edges edge_NAME where nodes have a column of its name: a store's columns have names of their own. like, if not
// nil, is the store that edges are added to.
func nameEdgesApart(d *ingest.Description, like *store.Manifest) {
	columns := slices.Clone(d.EdgeColumns)
	for k := range columns {
		c := &columns[k]
		taken := slices.ContainsFunc(d.NodeColumns, func(n ingest.ColumnSpec) bool { return n.Name == c.Name })
		if like != nil {
			was, err := like.Column(c.Name)
			taken = err == nil && !was.Role.OnEdges()
		}
		if c.Role != store.RoleEdge || !taken {
			continue
		}
		for u := range d.Uses {
			if as, ok := strings.CutPrefix(d.Uses[u].As, "edge feature "+c.Name); ok && (as == "" || as[0] == ' ') {
				d.Uses[u].As = "edge feature edge_" + c.Name + as
			}
		}
		c.Name = "edge_" + c.Name
	}
	d.EdgeColumns = columns
}

// Edges adds the edges and edge lists of Parquet tables, and returns what the columns of ends are called.
func addParquetEdges(s *parts.Source, fs vfs.FS, t edgeTables, o table.Options) (ends [2]string, err error) {
	e, err := parquet.OpenEdges(fs, t.train, o)
	if err != nil {
		return ends, err
	}
	ends = e.Ends()
	s.AddFiles(e.Files()...)
	s.Desc.Uses = table.ColumnUses(t.train, table.ColumnNames(e.Columns()), e.Uses)
	s.Desc.IDs, s.Desc.HasRelation, s.Desc.EdgeColumns, s.Desc.Edges = e.IDs, e.Related, e.Specs, e.Rows
	s.EdgeStreams = []parts.Edges{e.Stream}
	o.IDs = e.IDs
	for k, path := range t.lists {
		if !IsParquet(fs, path) {
			return ends, ingest.Inputf(path, "expected Parquet like %s", t.train)
		}
		l, err := parquet.OpenEdges(fs, path, o)
		if err != nil {
			return ends, err
		}
		if l.Related != e.Related || !slices.EqualFunc(l.Specs, e.Specs, func(a, b ingest.ColumnSpec) bool { return a.Name == b.Name && a.Elem == b.Elem && a.Dim == b.Dim }) {
			return ends, ingest.Inputf(path, "its columns are not those of %s", t.train)
		}
		s.AddFiles(l.Files()...)
		s.Desc.EdgeLists, s.ListStreams = append(s.Desc.EdgeLists, t.names[k]), append(s.ListStreams, l.InOrder)
	}
	return ends, nil
}
