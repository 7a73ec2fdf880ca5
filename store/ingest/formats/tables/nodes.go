package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parquet"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// addNodes makes tables of nodes part of s, whose ids are of kind s.desc.IDs.
func addNodes(s *parts.Source, tables []*nodeTable) error {
	s.Desc.Keyed = true
	taken := map[string]string{}
	var divided *nodeTable // the last with a split
	labelled := slices.ContainsFunc(tables, func(n *nodeTable) bool { return len(n.label) > 0 })
	for _, n := range tables {
		idElem := blocks.Uint64
		if s.Desc.IDs == store.IDsStrings {
			idElem = blocks.Invalid
		} else if n.Columns()[n.id].Text {
			return ingest.Inputf(n.Where(), "ids of nodes are strings, those of edges integers; --ids strings takes both as strings")
		}
		id := table.Want{At: n.id, Elem: idElem}
		n.Use([]table.Want{id})
		s.IDStreams = append(s.IDStreams, func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
			var ids tableIDs
			return n.Read(ctx, env, []table.Want{id}, func(b *table.Batch) error {
				for i := range b.Rows {
					if b.Numbers[0] == nil && len(b.Text[0].At(i)) == 0 {
						return ingest.Inputf(b.At.Of(i), "null or empty node id")
					}
				}
				return emit(n.ids(b, &ids), b.At)
			})
		})
		add := func(spec ingest.ColumnSpec, f nodeFeature) error {
			if other, twice := taken[spec.Name]; twice {
				if spec.Role == store.RoleLabel && n.kind != "" {
					return ingest.Inputf(n.Where(), "labels of a second type of nodes: %s has some already; --skip %s.%s leaves these out", other, n.kind, n.Columns()[n.label[0]].Name)
				}
				return ingest.Inputf(n.Where(), "column %s is in %s too: are the tables of nodes of several types? --nodes TYPE=FILE says which of each", spec.Name, other)
			}
			taken[spec.Name] = n.Where()
			if spec.Keyed, spec.Rows = true, -1; len(s.Desc.NodeTypes) > 1 {
				spec.NodeType = n.kind
			}
			for len(s.KeyedStreams) < len(s.RowStreams) {
				s.KeyedStreams = append(s.KeyedStreams, nil)
			}
			s.AddColumn(spec, nil)
			s.KeyedStreams = append(s.KeyedStreams, n.keyedRows(id, spec, f))
			return nil
		}
		for _, f := range n.features {
			if err := add(ingest.ColumnSpec{Name: f.name, Role: store.RoleFeature, Elem: f.elem, Dim: f.dim, Indicator: f.values != nil, Measured: f.values == nil && !f.vector, Elements: n.elements(&f)}, f); err != nil {
				return err
			}
		}
		if len(n.label) > 0 {
			if err := add(n.labelSpec(), nodeFeature{from: n.label, values: n.classes}); err != nil {
				return err
			}
			s.Desc.ClassNames = n.classes
		}
		for name, split := range n.splitParts(id) {
			if n.kind != "" && len(n.label) == 0 && labelled {
				s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("%s: split %q is left out: nodes of type %s have no labels", n.Where(), name, n.kind))
				continue
			}
			if slices.Contains(s.Desc.Splits, name) {
				return ingest.Inputf(n.Where(), "a second split of name %q", name)
			}
			s.AddSplit(name, split)
			divided = n
		}
	}
	if divided != nil && s.Desc.Task == "" {
		return ingest.Inputf(divided.Where(), "a split of nodes, but no labels")
	}
	if !labelled && len(s.Desc.EdgeLists) == 0 {
		return noteLikelyLabel(s, tables)
	}
	return nil
}

// OpenTable opens a table by its name's ending.
func OpenTable(fs vfs.FS, path string, o table.Options) (table.Table, error) {
	if IsParquet(fs, path) {
		return parquet.Open(fs, path)
	}
	return text.OpenTable(fs, path, o)
}

// AddNodes opens tables of nodes; a folder stands for the Parquet files in it.
func AddNodes(s *parts.Source, fs vfs.FS, named []Named, o table.Options) error {
	tables, err := openNodes(fs, named, o)
	if err != nil {
		return err
	}
	return addOpened(s, named, tables)
}

// openNodes opens tables of nodes.
func openNodes(fs vfs.FS, named []Named, o table.Options) (tables []*nodeTable, err error) {
	for _, from := range named {
		path, o := from.Path, from.options(o)
		o.Lists = true
		t, err := OpenTable(fs, path, o)
		if err != nil {
			return nil, err
		}
		n, err := openNodeTable(context.Background(), t, from.Kind, &o)
		var unnamed *unnamedError
		if errors.As(err, &unnamed) && o.Like == nil && (len(named) > 1 || slices.Contains(unnamed.columns, "label")) {
			n, err = unnamed.open(context.Background(), fs, path, from.Kind, o)
		}
		if err != nil {
			return nil, err
		}
		tables = append(tables, n)
	}
	return tables, nil
}

// addOpened makes opened tables of nodes part of s, and tells what their columns became.
func addOpened(s *parts.Source, named []Named, tables []*nodeTable) error {
	for k, n := range tables {
		path := named[k].Path
		names := table.ColumnNames(n.Columns())
		if n.note != "" {
			s.Desc.Notes = append(s.Desc.Notes, n.note)
		}
		if n.unnamed { // what the first line has are values
			for k := range names {
				names[k] = fmt.Sprintf("field %d", k+1)
			}
		}
		s.Desc.Uses = append(s.Desc.Uses, table.ColumnUses(path, names, n.uses)...)
		if p, ok := n.Table.(*parquet.Table); ok {
			s.AddFiles(p.Files()...)
		} else {
			s.AddFiles(path)
		}
	}
	return addNodes(s, tables)
}

// OpenNodes opens tables of nodes without edges, for nodes that a store has: o.IDs is what its ids are.
func OpenNodes(fs vfs.FS, nodes []string, columns [][]string, o table.Options) (ingest.Source, error) {
	if len(columns) > 0 && len(columns) != len(nodes) {
		return nil, fmt.Errorf("%w: %d lists of columns for %d tables of nodes, %q", ingest.ErrOptions, len(columns), len(nodes), nodes)
	}
	named, types, err := NameTables(fs, nodes, columns)
	if err != nil {
		return nil, err
	}
	if types == nil {
		nameByFiles(named, o.LikeTypes)
	}
	for _, t := range types {
		if !slices.Contains(o.LikeTypes, t) {
			return nil, fmt.Errorf("%w: nodes of type %s, expected one of the store's whose ids begin with it: %q", ingest.ErrOptions, t, o.LikeTypes)
		}
	}
	s := parts.New("tables", strings.Join(nodes, ", "))
	s.Desc.IDs, s.Desc.Task = o.IDs, store.TaskNode // a split may come alone
	return s, AddNodes(s, fs, named, o)
}
