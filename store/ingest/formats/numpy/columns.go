package numpy

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
)

// What the arrays of features and labels are called: as OGB has them, or as people do.
var (
	featureFiles = []string{"node_feat", "x", "features", "feat"}
	labelFiles   = []string{"node_label", "y", "labels", "label"}
)

// arrays lists the folder's .npy files by name, without endings, in order.
func (s *folder) arrays() (names, paths []string, err error) {
	entries, err := s.fs.List(s.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", s.dir, err)
	}
	sort.Strings(entries)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(files.PlainName(e), ".npy"); ok {
			names, paths = append(names, name), append(paths, s.fs.PathJoin(s.dir, e))
		}
	}
	return names, paths, nil
}

// Uses notes what an array became.
func (s *folder) uses(a *Array, column, kind string) {
	as := kind + " " + column
	switch {
	case column == "weight" && kind == "edge feature":
		as = "weight"
	case kind == "label":
		as = kind
	case a.Dim() > 1 || kind == "feature":
		as = fmt.Sprintf("%s %s [%d]", kind, column, a.Dim())
	}
	s.desc.Uses = append(s.desc.Uses, ingest.ColumnUse{File: s.dir, Column: s.fs.PathBase(a.Path), As: as})
}

// openFurther opens the arrays whose names begin with prefix, but for those of except: in the order of the
// export that wrote them, elsewhere by name. The rest of the name is the column's, unless the export says another.
func (s *folder) openFurther(prefix string, except []string, add func(a *Array, c files.ExportColumn) error) error {
	names, paths, err := s.arrays()
	if err != nil {
		return err
	}
	open := func(k int, c files.ExportColumn) error {
		a, err := s.array(paths[k])
		if err != nil {
			return err
		}
		return add(a, c)
	}
	done := map[string]bool{}
	if s.export != nil {
		for _, c := range s.export.Columns {
			name, ok := strings.CutSuffix(c.File, ".npy")
			k := slices.Index(names, name)
			if !ok || k < 0 || !strings.HasPrefix(name, prefix) || slices.Contains(except, name) {
				continue
			}
			if done[name] = true; c.Role == "" {
				s.desc.Notes = append(s.desc.Notes, fmt.Sprintf("%s is not read: it holds %s, which is no column of a store", c.File, c.Column))
				continue
			}
			if err := open(k, c); err != nil {
				return err
			}
		}
	}
	for k, name := range names {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && !done[name] && !slices.Contains(except, name) && !strings.HasPrefix(name, "edges_") {
			if err := open(k, files.ExportColumn{Column: rest, Role: store.RoleFeature}); err != nil {
				return err
			}
		}
	}
	return nil
}

// openNodeColumns opens features and labels.
func (s *folder) openNodeColumns() error {
	add := func(a *Array, name string, role store.Role) error {
		if s.desc.Nodes >= 0 && a.Rows() != s.desc.Nodes {
			return ingest.Inputf(a.Path, "shape %v, expected %d rows like the node columns before (%s)", a.Shape, s.desc.Nodes, s.columns[0].Path)
		}
		if a.Dim() == 0 {
			return ingest.Inputf(a.Path, "shape %v: rows are empty", a.Shape)
		}
		s.desc.Nodes = a.Rows()
		s.columns = append(s.columns, a)
		s.desc.NodeColumns = append(s.desc.NodeColumns, ingest.ColumnSpec{Name: name, Role: role, Elem: a.Elem, Dim: int(a.Dim()), Rows: a.Rows()})
		kind := "feature"
		if role == store.RoleLabel {
			kind = "label"
		}
		s.uses(a, name, kind)
		return nil
	}
	first := func(names []string) string {
		for _, n := range names {
			if path := files.Find(s.fs, s.dir, n+".npy"); path != "" {
				return path
			}
		}
		return ""
	}
	name := func(path, other string) string {
		if c, ok := s.export.Column(s.fs.PathBase(path)); ok {
			return c.Column
		}
		return other
	}
	if path := first(featureFiles); path != "" {
		a, err := s.array(path)
		if err == nil {
			err = add(a, name(path, "x"), store.RoleFeature)
		}
		if err != nil {
			return err
		}
	}
	further := func() error {
		err := s.openFurther("node_", []string{"node_feat", "node_label", "node_ids"}, func(a *Array, c files.ExportColumn) error { return add(a, c.Column, c.Role) })
		s.orderAsExported()
		return err
	}
	path := first(labelFiles)
	if path == "" {
		return further()
	}
	a, err := s.array(path)
	if err != nil {
		return err
	}
	s.desc.Task = store.TaskNode
	if classes := files.Find(s.fs, s.dir, "classes.txt"); classes != "" {
		if s.desc.ClassNames, err = files.Lines(s.fs, classes); err != nil {
			return err
		}
	}
	if err := add(a, name(path, "label"), store.RoleLabel); err != nil {
		return err
	}
	return further()
}

// orderAsExported puts node columns in the order that the export says.
func (s *folder) orderAsExported() {
	if s.export == nil {
		return
	}
	place := func(k int) int {
		return slices.IndexFunc(s.export.Columns, func(c files.ExportColumn) bool { return c.Column == s.desc.NodeColumns[k].Name })
	}
	order := make([]int, len(s.columns))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return place(a) - place(b) })
	columns, specs := slices.Clone(s.columns), slices.Clone(s.desc.NodeColumns)
	for k, from := range order {
		s.columns[k], s.desc.NodeColumns[k] = columns[from], specs[from]
	}
}

// openNodeIDs finds the ids that positions stand for, in the folder of an export: node_ids.txt or node_ids.npy.
func (s *folder) openNodeIDs() error {
	if s.names = files.Find(s.fs, s.dir, "node_ids.txt"); s.names != "" {
		n := int64(0)
		err := s.Names(context.Background(), ingest.Env{}, func(ids *ingest.IDs, _ ingest.Position) error {
			n += int64(ids.Len())
			return nil
		})
		if err != nil {
			return err
		}
		return s.named(s.names, n)
	}
	path := files.Find(s.fs, s.dir, "node_ids.npy")
	if path == "" {
		return nil
	}
	a, err := s.array(path)
	if err != nil {
		return err
	}
	if a.Dim() != 1 || a.Elem != blocks.Uint64 && a.Elem != blocks.Int64 {
		return ingest.Inputf(path, "%v of shape %v, expected a 64-bit integer for each node", a.Elem, a.Shape)
	}
	s.numbers, s.desc.NamedIntegers = a, true
	return s.named(path, a.Rows())
}

// named says that n ids in a file stand for the positions.
func (s *folder) named(path string, n int64) error {
	if s.desc.Nodes >= 0 && n != s.desc.Nodes {
		return ingest.Inputf(path, "%d ids, expected %d (the number of nodes)", n, s.desc.Nodes)
	}
	s.desc.Named, s.desc.Nodes = true, n
	s.desc.Uses = append(s.desc.Uses, ingest.ColumnUse{File: s.dir, Column: s.fs.PathBase(path), As: "ids"})
	return nil
}

// openLists opens edge lists beside the graph: edges_NAME.npy of pairs, or triples where edges have types.
func (s *folder) openLists() error {
	names, paths, err := s.arrays()
	if err != nil {
		return err
	}
	for k, name := range names {
		list, ok := strings.CutPrefix(name, "edges_")
		if !ok || list == "" {
			continue
		}
		a, err := s.array(paths[k])
		if err != nil {
			return err
		}
		width := int64(2)
		if s.types != nil {
			width = 3
		}
		if len(a.Shape) != 2 || a.Shape[1] != width || !a.Integer() {
			return ingest.Inputf(paths[k], "%v of shape %v, expected integers of shape [M, %d]", a.Elem, a.Shape, width)
		}
		s.lists, s.desc.EdgeLists = append(s.lists, a), append(s.desc.EdgeLists, list)
	}
	return nil
}

// nameUnread notes the arrays of the folder that nothing is made of.
func (s *folder) nameUnread() error {
	_, paths, err := s.arrays()
	if err != nil {
		return err
	}
	for _, p := range paths {
		if !slices.Contains(s.desc.Files, p) && !slices.ContainsFunc(s.desc.Notes, func(n string) bool { return strings.HasPrefix(n, s.fs.PathBase(p)+" ") }) {
			s.desc.Notes = append(s.desc.Notes, fmt.Sprintf("%s is not read: node_NAME.npy is a feature of nodes, edge_NAME.npy of edges", s.fs.PathBase(p)))
		}
	}
	return nil
}
