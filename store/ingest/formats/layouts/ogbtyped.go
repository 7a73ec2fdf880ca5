package layouts

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// ogbTyped is OGB's raw layout of a graph of several types (ogbn-mag), as text or as archives, with splits in split/NAME/TYPE:
//
//	raw/num-node-dict.csv.gz        a line of types, a line of their numbers of nodes
//	raw/triplet-type-list.csv.gz    a line "source,relation,destination" for each type of edges
//	raw/relations/S___R___D/        edge.csv.gz, num-edge-list.csv.gz, optional edge-feat.csv.gz
//	raw/node-feat/TYPE/node-feat.csv.gz, raw/node-label/TYPE/node-label.csv.gz
//
//	raw/num_nodes_dict.npz, node_feat_dict.npz, node-label.npz           an array for each type, by its name
//	raw/num_edges_dict.npz, edge_index_dict.npz, edge_feat_dict.npz      an array for each S___R___D
type ogbTyped struct {
	*typedGraph
	raw string
}

// ogbSeparator stands between the parts of an edge type's name.
const ogbSeparator = "___"

// isOGBTyped reports whether dir is laid out so.
func isOGBTyped(fs vfs.FS, dir string) bool {
	return files.Find(fs, fs.PathJoin(dir, "raw"), "triplet-type-list.csv", "edge_index_dict.npz") != ""
}

// openOGBTyped opens the folder. Types of nodes and of edges are in the order of the alphabet, as OGB has them.
func openOGBTyped(fs vfs.FS, dir string) (ingest.Source, error) {
	s := &ogbTyped{typedGraph: newTypedGraph("ogb", fs, dir), raw: fs.PathJoin(dir, "raw")}
	steps := []func() error{s.openTextTypes, s.openTextEdges, s.openTextColumns, s.addCategories, s.openSplits}
	if files.IsFile(fs, fs.PathJoin(s.raw, "edge_index_dict.npz")) {
		steps = []func() error{s.openArchives, s.addCategories, s.openSplits}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// must finds a file of the raw folder, or of one in it.
func (s *ogbTyped) must(name string, folders ...string) (string, error) {
	dir := s.fs.PathJoin(append([]string{s.raw}, folders...)...)
	path := files.Find(s.fs, dir, name)
	if path == "" {
		return "", ingest.Inputf(dir, "no %s.gz", name)
	}
	s.AddFiles(path)
	return path, nil
}

// csvFields reads a small file of comma-separated fields.
func csvFields(fs vfs.FS, path string) (rows [][]string, err error) {
	ls, err := files.Lines(fs, path)
	for _, l := range ls {
		fields := strings.Split(l, ",")
		for k := range fields {
			fields[k] = strings.TrimSpace(fields[k])
		}
		rows = append(rows, fields)
	}
	return rows, err
}

func (s *ogbTyped) openTextTypes() error {
	path, err := s.must("num-node-dict.csv")
	if err != nil {
		return err
	}
	rows, err := csvFields(s.fs, path)
	if err != nil {
		return err
	}
	if len(rows) != 2 || len(rows[0]) != len(rows[1]) {
		return ingest.Inputf(path, "%d lines, expected one of types and, of one graph, one of as many numbers of nodes", len(rows))
	}
	counts := map[string]int64{}
	for k, t := range rows[0] {
		n, err := strconv.ParseInt(rows[1][k], 10, 64)
		if err != nil {
			return ingest.Inputf(path+": line 2", "%.40q is no number of nodes", rows[1][k])
		}
		if _, twice := counts[t]; twice {
			return ingest.Inputf(path, "node type %q stands there twice", t)
		}
		counts[t] = n
	}
	return s.addTypes(path, counts)
}

// addTypes adds node types in order.
func (s *ogbTyped) addTypes(where string, counts map[string]int64) error {
	for _, t := range slices.Sorted(maps.Keys(counts)) {
		if err := errors.Join(folderName(where, t), s.addType(where, t, counts[t])); err != nil {
			return err
		}
	}
	return nil
}

// ogbRelation is a type of edges by its name, S___R___D.
func ogbRelation(where, name string) (r relationEdges, err error) {
	parts := strings.Split(name, ogbSeparator)
	if len(parts) != 3 {
		return r, ingest.Inputf(where, "edge type %q, expected source%srelation%sdestination", name, ogbSeparator, ogbSeparator)
	}
	return relationEdges{where: where, name: strings.Join(parts, ":"), src: parts[0], dst: parts[2], edges: -1}, folderName(where, name)
}

func (s *ogbTyped) openTextEdges() error {
	path, err := s.must("triplet-type-list.csv")
	if err != nil {
		return err
	}
	rows, err := csvFields(s.fs, path)
	if err != nil {
		return err
	}
	sort.Slice(rows, func(a, b int) bool { return slices.Compare(rows[a], rows[b]) < 0 })
	var relations []relationEdges
	for _, fields := range rows {
		folder := strings.Join(fields, ogbSeparator)
		r, err := ogbRelation(path, folder)
		if err != nil {
			return err
		}
		if r.text, err = s.must("edge.csv", "relations", folder); err != nil {
			return err
		}
		counts, err := s.must("num-edge-list.csv", "relations", folder)
		if err != nil {
			return err
		}
		if r.edges, err = oneCount(s.fs, counts); err != nil {
			return err
		}
		s.use(r.text, "relation "+r.name)
		if feat := files.Find(s.fs, s.fs.PathDir(r.text), "edge-feat.csv"); feat != "" {
			dim, err := firstRowFields(s.fs, feat)
			if err != nil {
				return err
			}
			s.AddFiles(feat)
			spec := ingest.ColumnSpec{Name: "feat", Role: store.RoleEdge, Elem: blocks.Float32, Dim: dim}
			r.columns = append(r.columns, numpy.EdgeColumn{Spec: spec, Path: feat, Rows: csvRows(s.fs, feat, spec)})
		}
		if err := noteUnread(s.fs, &s.Desc, s.fs.PathDir(r.text), "edge_", "edge-feat of edges"); err != nil {
			return err
		}
		relations = append(relations, r)
	}
	if len(relations) == 0 {
		return ingest.Inputf(path, "no types of edges")
	}
	return s.addEdges(relations)
}

// openTextColumns opens each type's features, and the labels of one.
func (s *ogbTyped) openTextColumns() error {
	for _, t := range slices.Sorted(maps.Keys(s.count)) {
		dir := s.fs.PathJoin(s.raw, "node-feat", t)
		if path := files.Find(s.fs, dir, "node-feat.csv"); path != "" {
			dim, err := firstRowFields(s.fs, path)
			if err != nil {
				return err
			}
			s.AddFiles(path)
			s.typeColumn(t, t+".feat", store.RoleFeature, blocks.Float32, int64(dim), path, csvRows(s.fs, path, ingest.ColumnSpec{Elem: blocks.Float32, Dim: dim}))
		}
		if err := noteUnread(s.fs, &s.Desc, dir, "node_", "node-feat of nodes"); err != nil {
			return err
		}
		path := files.Find(s.fs, s.fs.PathJoin(s.raw, "node-label", t), "node-label.csv")
		if path == "" {
			continue
		}
		if err := s.onlyLabels(path); err != nil {
			return err
		}
		s.AddFiles(path)
		s.typeColumn(t, "label", store.RoleLabel, blocks.Float64, 1, path, csvRows(s.fs, path, ingest.ColumnSpec{Elem: blocks.Float64, Dim: 1}))
	}
	return nil
}

// onlyLabels refuses labels of a second type of nodes.
func (s *ogbTyped) onlyLabels(path string) error {
	if have := s.labelled(); have != nil {
		return ingest.Inputf(path, "labels of a second type of nodes: %s has some already", have.NodeType)
	}
	return nil
}

// noteUnread tells people of the files of a folder that begin with prefix, once by name: only others are read.
func noteUnread(fs vfs.FS, d *ingest.Description, dir, prefix, read string) error {
	names, err := fs.List(dir)
	if err != nil {
		return nil // there is none
	}
	sort.Strings(names)
	for _, n := range names {
		note := fmt.Sprintf("%s is not read: only %s is", n, read)
		if strings.HasPrefix(n, prefix) && !slices.Contains(d.Files, fs.PathJoin(dir, n)) && !slices.Contains(d.Notes, note) {
			d.Notes = append(d.Notes, note)
		}
	}
	return nil
}

// openArchives opens types, edges and columns of the layout of archives.
func (s *ogbTyped) openArchives() error {
	nodes, err := s.dictionary("num_nodes_dict.npz")
	if err != nil {
		return err
	}
	counts, err := nodes.Counts()
	if err != nil {
		return err
	}
	if err := s.addTypes(nodes.Path, counts); err != nil {
		return err
	}
	edges, err := s.dictionary("edge_index_dict.npz")
	if err != nil {
		return err
	}
	edgeCounts, err := s.dictionary("num_edges_dict.npz")
	if err != nil {
		return err
	}
	numbers, err := edgeCounts.Counts()
	if err != nil {
		return err
	}
	features, err := s.optional("edge_feat_dict.npz")
	if err != nil {
		return err
	}
	var relations []relationEdges
	for _, key := range slices.Sorted(maps.Keys(edges.Keys)) {
		r, err := ogbRelation(edges.Path, key)
		if err != nil {
			return err
		}
		if n, ok := numbers[key]; ok {
			r.edges = n
		}
		if r.ends, err = edges.Array(key); err != nil {
			return err
		}
		if features != nil && features.Has(key) {
			a, err := features.Array(key)
			if err != nil {
				return err
			}
			r.columns = append(r.columns, numpy.ColumnOf("feat", a))
		}
		s.use(r.ends.Path, "relation "+r.name)
		relations = append(relations, r)
	}
	if len(relations) == 0 {
		return ingest.Inputf(edges.Path, "no types of edges")
	}
	if err := s.addEdges(relations); err != nil {
		return err
	}
	if err := s.archiveColumns("node_feat_dict.npz", ".feat", store.RoleFeature); err != nil {
		return err
	}
	if err := s.archiveColumns("node-label.npz", "label", store.RoleLabel); err != nil {
		return err
	}
	return errors.Join(noteUnread(s.fs, &s.Desc, s.raw, "node_", "node_feat_dict of nodes"), noteUnread(s.fs, &s.Desc, s.raw, "edge_", "edge_feat_dict of edges"))
}

// dictionary opens an archive of an array for each type.
func (s *ogbTyped) dictionary(name string) (*numpy.Archive, error) {
	path := s.fs.PathJoin(s.raw, name)
	if !files.IsFile(s.fs, path) {
		return nil, ingest.Inputf(s.raw, "no %s", name)
	}
	s.AddFiles(path)
	return numpy.OpenArchive(s.fs, path)
}

// optional is dictionary; nil if there is none.
func (s *ogbTyped) optional(name string) (*numpy.Archive, error) {
	if !files.IsFile(s.fs, s.fs.PathJoin(s.raw, name)) {
		return nil, nil
	}
	return s.dictionary(name)
}

// archiveColumns adds the columns of an archive of features or labels.
func (s *ogbTyped) archiveColumns(file, name string, role store.Role) error {
	a, err := s.optional(file)
	if err != nil || a == nil {
		return err
	}
	for _, t := range slices.Sorted(maps.Keys(a.Keys)) {
		if _, _, err := s.nodeType(a.Path, t); err != nil {
			return err
		}
		x, err := a.Array(t)
		if err != nil {
			return err
		}
		called := t + name
		if role == store.RoleLabel {
			if called, err = name, s.onlyLabels(x.Path); err != nil {
				return err
			}
		}
		if x.Rows() != s.count[t] || x.Dim() == 0 {
			return ingest.Inputf(x.Path, "shape %v, expected %d rows (the number of nodes) of 1 or more elements", x.Shape, s.count[t])
		}
		s.typeColumn(t, called, role, x.Elem, x.Dim(), x.Path, numpy.Rows(x))
	}
	return nil
}

// openSplits opens the splits of the nodes that have labels.
func (s *ogbTyped) openSplits() error {
	dir := s.fs.PathJoin(s.dir, "split")
	names, err := s.fs.List(dir)
	if err != nil {
		return nil // there are none
	}
	sort.Strings(names)
	labelled := s.labelled()
	for _, name := range names {
		if path := s.fs.PathJoin(dir, name, "split_dict.pt"); files.IsFile(s.fs, path) {
			s.Desc.Notes = append(s.Desc.Notes, path+" is not read: the torch object; {train,valid,test}.csv in a folder of the type of nodes beside it are")
		}
		for _, t := range slices.Sorted(maps.Keys(s.count)) {
			of := s.fs.PathJoin(dir, name, t)
			if files.Find(s.fs, of, "train.csv") == "" {
				continue
			}
			if labelled == nil || labelled.NodeType != t {
				return ingest.Inputf(of, "a split of nodes without labels")
			}
			split := parts.Split{}
			for part, file := range store.SplitNames() {
				if path := files.Find(s.fs, of, file+".csv"); part > 0 && path != "" {
					s.AddFiles(path)
					split[uint8(part)] = csvIDs(s.fs, path, labelled.First, labelled.Rows)
				}
			}
			s.AddSplit(name, split)
		}
	}
	return nil
}
