package numpy

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// folder is a folder of .npy files: edge_index.npy int [2][E] (or [E][2]; or raw pairs, edges.bin),
// and, each optional, edge_type.npy int [E] with edge_types.txt,
// edge_weight.npy [E], node_feat.npy [N][D], node_label.npy [N] with
// classes.txt, and split*/{train,valid,test}.npy. Each may be packed (.gz, .zst).
// A folder of train.npy int [M][3] (head, relation, tail) is a knowledge graph;
// entities.txt and relations.txt name its ids.
type folder struct {
	fs          vfs.FS
	dir         string
	desc        ingest.Description
	edges       *Array
	triples     bool          // edges is [M][3]
	pairs       bool          // edges is [E][2]
	types       *Array        // nil if edges have none
	edgeColumns []*Array      // of desc.EdgeColumns
	wide        *Array        // the weights if they are no float32, which they become; nil
	columns     []*Array      // of desc.NodeColumns
	export      *files.Export // nil if no export wrote the folder
	splits      []string      // folders
	lists       []*Array
	names       string
	numbers     *Array // node_ids.npy; nil
}

// Describe implements ingest.Source.
func (s *folder) Describe() *ingest.Description { return &s.desc }

// Close implements ingest.Source.
func (s *folder) Close() error { return nil }

// OpenFolder opens a numpy folder.
func OpenFolder(fs vfs.FS, dir string) (ingest.Source, error) {
	export, err := files.ReadExport(fs, dir)
	if err != nil {
		return nil, err
	}
	s := &folder{fs: fs, dir: dir, export: export}
	s.desc = ingest.Description{Format: "numpy", Input: dir, IDs: store.IDsDense, Nodes: -1, NodeTypes: []ingest.NodeType{{Name: "node", Count: -1}}}
	if path := files.Find(fs, dir, "edge_index.npy", "edges.npy"); path != "" {
		s.edges, err = s.array(path)
	} else if path := files.Find(fs, dir, RawNames...); path != "" {
		s.pairs = true
		s.edges, err = openRaw(fs, path, false)
		s.desc.Files = append(s.desc.Files, path)
	} else if path := files.Find(fs, dir, "train.npy"); path != "" {
		s.triples = true
		s.edges, err = s.array(path)
	} else {
		err = ingest.Inputf(dir, "no edge_index.npy (nor edges.npy, edges.bin, nor train.npy of triples)")
	}
	if err != nil {
		return nil, err
	}
	if err := s.checkEdges(); err != nil {
		return nil, err
	}
	if s.triples {
		err = s.openTriples()
	} else {
		err = errors.Join(s.openEdgeColumns(), s.openNodeColumns(), s.openSplits(), s.openNodeIDs(), s.openLists())
	}
	if err == nil {
		err = s.nameUnread()
	}
	return s, err
}

func (s *folder) array(path string) (*Array, error) {
	a, err := OpenArray(s.fs, path)
	if err == nil {
		s.desc.Files = append(s.desc.Files, path)
	}
	return a, err
}

func (s *folder) checkEdges() error {
	a := s.edges
	shape, want := a.Shape, "[2, E]"
	ok := len(shape) == 2 && shape[0] == 2
	s.desc.Edges = a.Dim()
	switch {
	case s.pairs: // raw: the shape is as it must be, even of two edges
		ok, s.desc.Edges = true, a.Rows()
	case s.triples:
		ok, want = len(shape) == 2 && shape[1] == 3, "[M, 3]"
		s.desc.Edges = a.Rows()
	case !ok && len(shape) == 2 && shape[1] == 2:
		ok, s.pairs, s.desc.Edges = true, true, a.Rows()
	}
	if !ok || !a.Integer() {
		return ingest.Inputf(a.Path, "%v of shape %v, expected integers of 32 or 64 bits of shape %s", a.Elem, shape, want)
	}
	return nil
}

func (s *folder) openTriples() error {
	s.desc.Format, s.desc.Task, s.desc.HasRelation = "triples", store.TaskLink, true
	for _, name := range []string{"valid", "test"} {
		path := files.Find(s.fs, s.dir, name+".npy")
		if path == "" {
			continue
		}
		a, err := s.array(path)
		if err != nil {
			return err
		}
		if len(a.Shape) != 2 || a.Shape[1] != 3 || !a.Integer() {
			return ingest.Inputf(path, "%v of shape %v, expected integers of shape [M, 3]", a.Elem, a.Shape)
		}
		s.lists = append(s.lists, a)
		s.desc.EdgeLists = append(s.desc.EdgeLists, name)
	}
	if path := files.Find(s.fs, s.dir, "relations.txt"); path != "" {
		names, err := files.Lines(s.fs, path)
		if err != nil {
			return err
		}
		s.desc.Relations = names
	} else {
		n, err := s.countRelations()
		if err != nil {
			return err
		}
		for k := range n {
			s.desc.Relations = append(s.desc.Relations, fmt.Sprint(k))
		}
	}
	if s.names = files.Find(s.fs, s.dir, "entities.txt"); s.names != "" {
		n := int64(0)
		err := s.Names(context.Background(), ingest.Env{}, func(ids *ingest.IDs, _ ingest.Position) error {
			n += int64(ids.Len())
			return nil
		})
		if err != nil {
			return err
		}
		s.desc.Named, s.desc.Nodes = true, n
	}
	return nil
}

// countRelations is one more than the largest relation of all triples.
func (s *folder) countRelations() (uint64, error) {
	n := uint64(0)
	for _, a := range append([]*Array{s.edges}, s.lists...) {
		var ids []uint64
		err := a.Elements(context.Background(), func(first int64, b []byte) error {
			ids = parts.Widen(ids[:0], a.Elem, b)
			for i, id := range ids {
				// column 1 of 3, whichever way they stand
				row, column := (first+int64(i))/3, (first+int64(i))%3
				if a.Columns {
					row, column = (first+int64(i))%a.Rows(), (first+int64(i))/a.Rows()
				}
				if column != 1 {
					continue
				}
				if id >= ingest.RelationsMax {
					return ingest.Inputf(a.Path, "row %d: relation %d, expected 0 ≤ id < %d", row, int64(id), ingest.RelationsMax)
				}
				n = max(n, id+1)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

func (s *folder) openEdgeColumns() error {
	column := func(name string) (*Array, error) {
		path := files.Find(s.fs, s.dir, name)
		if path == "" {
			return nil, nil
		}
		a, err := s.array(path)
		if err != nil {
			return nil, err
		}
		if a.Rows() != s.desc.Edges || a.Dim() != 1 {
			return nil, ingest.Inputf(path, "shape %v, expected [%d] (the number of edges)", a.Shape, s.desc.Edges)
		}
		return a, nil
	}
	var err error
	if s.types, err = column("edge_type.npy"); err != nil {
		return err
	}
	if s.types != nil {
		if err := s.openRelations(); err != nil {
			return err
		}
	}
	return s.openFurther("edge_", []string{"edge_index", "edge_type"}, func(a *Array, c files.ExportColumn) error {
		if a.Rows() != s.desc.Edges || a.Dim() == 0 || a.Columns && a.Dim() > 1 {
			return ingest.Inputf(a.Path, "shape %v, expected [%d] or in C order [%d, D ≥ 1] (the number of edges)", a.Shape, s.desc.Edges, s.desc.Edges)
		}
		spec := ingest.ColumnSpec{Name: c.Column, Role: store.RoleEdge, Elem: a.Elem, Dim: int(a.Dim())}
		if c.Column == "weight" {
			weights, err := Weights(a)
			if err != nil {
				return err
			}
			if spec = weights[0].Spec; a.Elem != spec.Elem {
				s.wide = a
			}
		}
		s.edgeColumns, s.desc.EdgeColumns = append(s.edgeColumns, a), append(s.desc.EdgeColumns, spec)
		s.uses(a, spec.Name, "edge feature")
		return nil
	})
}

func (s *folder) openRelations() error {
	s.desc.HasRelation = true
	if s.types.Elem == blocks.Float32 || s.types.Elem == blocks.Float64 || s.types.Elem == blocks.Float16 {
		return ingest.Inputf(s.types.Path, "edge types of type %v, expected integers", s.types.Elem)
	}
	if path := files.Find(s.fs, s.dir, "edge_types.txt"); path != "" {
		var err error
		s.desc.Relations, err = files.Lines(s.fs, path)
		return err
	}
	n := uint64(0)
	var ids []uint64
	err := s.types.Elements(context.Background(), func(first int64, b []byte) error {
		ids = parts.Widen(ids[:0], s.types.Elem, b)
		for i, id := range ids {
			if id >= ingest.RelationsMax {
				return ingest.Inputf(s.types.Path, "row %d: edge type %d, expected 0 ≤ type < %d", first+int64(i), int64(id), ingest.RelationsMax)
			}
			n = max(n, id+1)
		}
		return nil
	})
	for k := range n {
		s.desc.Relations = append(s.desc.Relations, fmt.Sprint(k))
	}
	return err
}

func (s *folder) openSplits() error {
	entries, err := s.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", s.dir, err)
	}
	sort.Strings(entries) // "split" before "split_…": the default first
	for _, name := range entries {
		dir := s.fs.PathJoin(s.dir, name)
		if info, err := s.fs.Stat(dir); err != nil || !info.IsDir() || !strings.HasPrefix(name, "split") {
			continue
		}
		train := files.Find(s.fs, dir, "train.npy")
		if train == "" {
			return ingest.Inputf(dir, "a split without train.npy")
		}
		if s.desc.Task == "" {
			return ingest.Inputf(dir, "a split of nodes, but no node_label.npy in %s", s.dir)
		}
		for _, part := range []string{"train.npy", "valid.npy", "test.npy"} {
			path := files.Find(s.fs, dir, part)
			if path == "" {
				continue
			}
			a, err := s.array(path)
			if err != nil {
				return err
			}
			if a.Dim() != 1 || !a.Integer() {
				return ingest.Inputf(path, "%v of shape %v, expected a list of node ids", a.Elem, a.Shape)
			}
		}
		s.splits = append(s.splits, dir)
		s.desc.Splits = append(s.desc.Splits, name)
	}
	return nil
}
