package formats

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
)

// numpyFolder is a folder of .npy files: edge_index.npy int [2][E] (or [E][2]; or raw pairs, edges.bin),
// and, each optional, edge_type.npy int [E] with edge_types.txt,
// edge_weight.npy [E], node_feat.npy [N][D], node_label.npy [N] with
// classes.txt, and split*/{train,valid,test}.npy. Each may be packed (.gz, .zst).
// A folder of train.npy int [M][3] (head, relation, tail) is a knowledge graph;
// entities.txt and relations.txt name its ids.
type numpyFolder struct {
	fs          vfs.FS
	dir         string
	desc        ingest.Description
	edges       *array
	triples     bool      // edges is [M][3]
	pairs       bool      // edges is [E][2]
	types       *array    // nil if edges have none
	edgeColumns []*array  // of desc.EdgeColumns
	columns     []*array  // of desc.NodeColumns
	export      *exported // nil if no export wrote the folder
	splits      []string  // folders
	lists       []*array
	names       string
	numbers     *array // node_ids.npy; nil
}

func (s *numpyFolder) Describe() *ingest.Description { return &s.desc }

// Close implements ingest.Source.
func (s *numpyFolder) Close() error { return nil }

// openNumpy opens a numpy folder.
func openNumpy(fs vfs.FS, dir string) (ingest.Source, error) {
	s := &numpyFolder{fs: fs, dir: dir, export: readExported(fs, dir)}
	s.desc = ingest.Description{Format: "numpy", Input: dir, IDs: store.IDsDense, Nodes: -1, NodeTypes: []ingest.NodeType{{Name: "node", Count: -1}}}
	var err error
	if path := find(fs, dir, "edge_index.npy", "edges.npy"); path != "" {
		s.edges, err = s.array(path)
	} else if path := find(fs, dir, rawNames...); path != "" {
		s.pairs = true
		s.edges, err = openRaw(fs, path, false)
		s.desc.Files = append(s.desc.Files, path)
	} else if path := find(fs, dir, "train.npy"); path != "" {
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

func (s *numpyFolder) array(path string) (*array, error) {
	a, err := openArray(s.fs, path)
	if err == nil {
		s.desc.Files = append(s.desc.Files, path)
	}
	return a, err
}

func (s *numpyFolder) checkEdges() error {
	a := s.edges
	shape, want := a.shape, "[2, E]"
	ok := len(shape) == 2 && shape[0] == 2
	s.desc.Edges = a.dim()
	switch {
	case s.pairs: // raw: the shape is as it must be, even of two edges
		ok, s.desc.Edges = true, a.rows()
	case s.triples:
		ok, want = len(shape) == 2 && shape[1] == 3, "[M, 3]"
		s.desc.Edges = a.rows()
	case !ok && len(shape) == 2 && shape[1] == 2:
		ok, s.pairs, s.desc.Edges = true, true, a.rows()
	}
	if !ok || !a.integer() {
		return ingest.Inputf(a.path, "%v of shape %v, expected integers of 32 or 64 bits of shape %s", a.elem, shape, want)
	}
	return nil
}

func (s *numpyFolder) openTriples() error {
	s.desc.Format, s.desc.Task, s.desc.HasRelation = "triples", store.TaskLink, true
	for _, name := range []string{"valid", "test"} {
		path := find(s.fs, s.dir, name+".npy")
		if path == "" {
			continue
		}
		a, err := s.array(path)
		if err != nil {
			return err
		}
		if len(a.shape) != 2 || a.shape[1] != 3 || !a.integer() {
			return ingest.Inputf(path, "%v of shape %v, expected integers of shape [M, 3]", a.elem, a.shape)
		}
		s.lists = append(s.lists, a)
		s.desc.EdgeLists = append(s.desc.EdgeLists, name)
	}
	if path := find(s.fs, s.dir, "relations.txt"); path != "" {
		names, err := lines(s.fs, path)
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
	if s.names = find(s.fs, s.dir, "entities.txt"); s.names != "" {
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
func (s *numpyFolder) countRelations() (uint64, error) {
	n := uint64(0)
	for _, a := range append([]*array{s.edges}, s.lists...) {
		var ids []uint64
		err := a.elements(context.Background(), func(first int64, b []byte) error {
			ids = widen(ids[:0], a.elem, b)
			for i, id := range ids {
				// column 1 of 3, whichever way they stand
				row, column := (first+int64(i))/3, (first+int64(i))%3
				if a.columns {
					row, column = (first+int64(i))%a.rows(), (first+int64(i))/a.rows()
				}
				if column != 1 {
					continue
				}
				if id >= ingest.RelationsMax {
					return ingest.Inputf(a.path, "row %d: relation %d, expected 0 ≤ id < %d", row, int64(id), ingest.RelationsMax)
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

func (s *numpyFolder) openEdgeColumns() error {
	column := func(name string) (*array, error) {
		path := find(s.fs, s.dir, name)
		if path == "" {
			return nil, nil
		}
		a, err := s.array(path)
		if err != nil {
			return nil, err
		}
		if a.rows() != s.desc.Edges || a.dim() != 1 {
			return nil, ingest.Inputf(path, "shape %v, expected [%d] (the number of edges)", a.shape, s.desc.Edges)
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
	return s.openFurther("edge_", []string{"edge_index", "edge_type"}, func(a *array, c exportedColumn) error {
		if a.rows() != s.desc.Edges || a.dim() == 0 || a.columns && a.dim() > 1 {
			return ingest.Inputf(a.path, "shape %v, expected [%d] or in C order [%d, D ≥ 1] (the number of edges)", a.shape, s.desc.Edges, s.desc.Edges)
		}
		spec := ingest.ColumnSpec{Name: c.Column, Role: store.RoleEdge, Elem: a.elem, Dim: int(a.dim())}
		if c.Column == "weight" {
			if spec.Role = store.RoleWeight; a.elem != blocks.Float32 || a.dim() != 1 {
				return ingest.Inputf(a.path, "weights of type %v and shape %v, expected float32 of shape [%d]", a.elem, a.shape, s.desc.Edges)
			}
		}
		s.edgeColumns, s.desc.EdgeColumns = append(s.edgeColumns, a), append(s.desc.EdgeColumns, spec)
		s.uses(a, spec.Name, "edge feature")
		return nil
	})
}

func (s *numpyFolder) openRelations() error {
	s.desc.HasRelation = true
	if s.types.elem == blocks.Float32 || s.types.elem == blocks.Float64 || s.types.elem == blocks.Float16 {
		return ingest.Inputf(s.types.path, "edge types of type %v, expected integers", s.types.elem)
	}
	if path := find(s.fs, s.dir, "edge_types.txt"); path != "" {
		var err error
		s.desc.Relations, err = lines(s.fs, path)
		return err
	}
	n := uint64(0)
	var ids []uint64
	err := s.types.elements(context.Background(), func(first int64, b []byte) error {
		ids = widen(ids[:0], s.types.elem, b)
		for i, id := range ids {
			if id >= ingest.RelationsMax {
				return ingest.Inputf(s.types.path, "row %d: edge type %d, expected 0 ≤ type < %d", first+int64(i), int64(id), ingest.RelationsMax)
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

func (s *numpyFolder) openSplits() error {
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
		train := find(s.fs, dir, "train.npy")
		if train == "" {
			return ingest.Inputf(dir, "a split without train.npy")
		}
		if s.desc.Task == "" {
			return ingest.Inputf(dir, "a split of nodes, but no node_label.npy in %s", s.dir)
		}
		for _, part := range []string{"train.npy", "valid.npy", "test.npy"} {
			path := find(s.fs, dir, part)
			if path == "" {
				continue
			}
			a, err := s.array(path)
			if err != nil {
				return err
			}
			if a.dim() != 1 || !a.integer() {
				return ingest.Inputf(path, "%v of shape %v, expected a list of node ids", a.elem, a.shape)
			}
		}
		s.splits = append(s.splits, dir)
		s.desc.Splits = append(s.desc.Splits, name)
	}
	return nil
}
