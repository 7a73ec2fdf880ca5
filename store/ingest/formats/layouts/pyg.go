package layouts

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// pyg is a graph of PyTorch Geometric in a file of torch.save: a Data, a HeteroData, a dictionary such as their to_dict makes, or what a
// data set of one graph keeps as processed/data.pt. Features, labels and edges are read where they lie in the file, so that it may be
// larger than memory.
//
// Attributes are those of the library: edge_index [2, E], x [N, D], y [N], edge_attr [E, D], edge_weight, edge_type [E], num_nodes, and masks
// [N] or, of S splits, [N, S]. Tensors of another name that have a row for each node or edge become columns that are no features.
type pyg struct {
	*typedGraph
	file   *numpy.Torch
	parts  pygParts
	opened map[pygName]pygTensor
	left   []string // attributes that are left out
}

// pygName is an attribute of a part.
type pygName struct {
	of   *numpy.Dict
	name string
}

// pygTensor is an attribute that was opened, or why it was not.
type pygTensor struct {
	array *numpy.Array
	err   error
}

// pygNames are where data sets of PyTorch Geometric keep what they have processed.
var pygNames = []string{"data.pt", "geometric_data_processed.pt"}

// pygFile is the file of a data set's folder; "" = it has none. Some data sets name it after how they were processed (OGB_MAG's
// data_metapath2vec.pt, WikiCS's data_undirected.pt): then it is the only one in processed.
func pygFile(fs vfs.FS, dir string) string {
	processed := fs.PathJoin(dir, "processed")
	for _, folder := range []string{processed, dir} {
		for _, name := range pygNames {
			if path := fs.PathJoin(folder, name); files.IsFile(fs, path) {
				return path
			}
		}
	}
	names, err := fs.List(processed)
	if err != nil {
		return ""
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".pt") || strings.HasPrefix(name, "pre_") })
	if len(names) != 1 {
		return ""
	}
	return fs.PathJoin(processed, names[0])
}

// IsPyG reports whether dir is the folder of a data set that PyTorch Geometric has processed.
func IsPyG(fs vfs.FS, dir string) bool { return pygFile(fs, dir) != "" }

// OpenPyG opens a file of a graph, or the folder of a data set.
func OpenPyG(fs vfs.FS, path string) (ingest.Source, error) {
	if !files.IsFile(fs, path) {
		at := pygFile(fs, path)
		if at == "" {
			return nil, ingest.Inputf(path, "no %s, nor in a folder processed, nor a single .pt in that", strings.Join(pygNames, " or "))
		}
		path = at
	}
	file, err := numpy.OpenTorch(fs, path)
	if err != nil {
		return nil, err
	}
	s := &pyg{typedGraph: newTypedGraph("pyg", fs, path), file: file, opened: map[pygName]pygTensor{}}
	s.AddFiles(path)
	if err := s.parts.find(path, file.Top, 0); err != nil {
		return nil, err
	}
	for _, step := range []func() error{s.openNodes, s.openEdges, s.openColumns, s.addCategories} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if len(s.left) > 0 {
		s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("%s left out: no numbers of a row for each node or edge", strings.Join(s.left, ", ")))
	}
	return s, nil
}

// tensor opens an attribute; nil if there is none.
func (s *pyg) tensor(of *pygPart, name string) (*numpy.Array, error) {
	v := of.attributes.Get(name)
	if v == nil {
		return nil, nil
	}
	if !numpy.IsTensor(v) {
		return nil, ingest.Inputf(s.dir, "%s is no dense tensor (.to_dense() makes one of a sparse one)", of.called(name))
	}
	key := pygName{of.attributes, name}
	t, ok := s.opened[key]
	if !ok {
		t.array, t.err = s.file.Tensor(of.called(name), v)
		s.opened[key] = t
	}
	return t.array, t.err
}

// openNodes counts each type's nodes: by num_nodes, else by their features, labels and masks, else by the largest id of edges.
func (s *pyg) openNodes() error {
	for k := range s.parts.nodes {
		of := &s.parts.nodes[k]
		n, known := of.attributes.Get("num_nodes").(int64)
		for _, name := range []string{"x", "y", "train_mask"} {
			if known || of.attributes.Get(name) == nil {
				continue
			}
			a, err := s.tensor(of, name)
			if err != nil {
				return err
			}
			n, known = a.Rows(), true
		}
		if !known {
			var err error
			if n, err = s.largest(of.name); err != nil {
				return err
			}
		}
		if err := s.addType(s.dir, of.name, n); err != nil {
			return err
		}
	}
	return nil
}

// largest is one more than the largest id of a node type's edges.
func (s *pyg) largest(node string) (n int64, err error) {
	for k := range s.parts.edges {
		of := &s.parts.edges[k]
		ends, err := s.ends(of)
		if err != nil {
			return 0, err
		}
		half := ends.Rows() * ends.Dim() / 2 // elements of sources, then as many of destinations
		var ids []uint64
		err = ends.Elements(context.Background(), func(first int64, b []byte) error {
			ids = parts.Widen(ids[:0], ends.Elem, b)
			for i, id := range ids {
				at := first + int64(i)
				source := at < half
				if ends.Columns { // the ends of an edge stand side by side
					source = at%2 == 0
				}
				if of.src == node && source || of.dst == node && !source {
					if id >= math.MaxInt64 {
						return ingest.Inputf(ends.Path, "node %d, expected an id from 0 on", int64(id))
					}
					n = max(n, int64(id)+1)
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// ends are the edges of a type, [2, E].
func (s *pyg) ends(of *pygPart) (*numpy.Array, error) {
	a, err := s.tensor(of, "edge_index")
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, ingest.Inputf(s.dir, "no %s; there are %s (of a sparse adj_t it is torch.stack(adj_t.t().coo()[:2]))", of.called("edge_index"), of.list())
	}
	if len(a.Shape) != 2 || a.Shape[0] != 2 || !a.Integer() {
		return nil, ingest.Inputf(a.Path, "%v of shape %v, expected integers of shape [2, E]", a.Elem, a.Shape)
	}
	return a, nil
}

// openEdges opens the edges of all types and what they have.
func (s *pyg) openEdges() error {
	var relations []relationEdges
	for k := range s.parts.edges {
		of := &s.parts.edges[k]
		ends, err := s.ends(of)
		if err != nil {
			return err
		}
		r := relationEdges{where: s.dir, name: of.name, src: of.src, dst: of.dst, ends: ends, form: numpy.FormColumns, edges: ends.Shape[1]}
		for _, name := range of.names() {
			if !s.ofEdges(of, name) {
				if of.name != "" && name != "edge_index" { // openColumns tells it of a graph of one type
					s.left = append(s.left, of.called(name))
				}
				continue
			}
			a, err := s.tensor(of, name)
			if err != nil {
				return err
			}
			r.columns = append(r.columns, edgeColumn(name, a))
		}
		if kinds := of.attributes.Get("edge_type"); kinds != nil && of.name == "" {
			return s.openTyped(&r, of)
		}
		relations = append(relations, r)
	}
	return s.addEdges(relations)
}

// edgeColumn is a column of edges by the attribute's name.
func edgeColumn(name string, a *numpy.Array) numpy.EdgeColumn {
	if plain, ok := strings.CutPrefix(name, "edge_"); ok && slices.Contains(parts.TimeNames, plain) && a.Elem == blocks.Int64 && a.Dim() == 1 {
		name = plain
	}
	return numpy.ColumnOf(name, a)
}

// openTyped opens edges of one type of nodes whose relations are an attribute.
func (s *pyg) openTyped(r *relationEdges, of *pygPart) error {
	kinds, err := s.tensor(of, "edge_type")
	if err != nil {
		return err
	}
	var columns []numpy.EdgeColumn
	for _, c := range r.columns {
		if c.Array.Columns && c.Array.Dim() > 1 {
			s.left = append(s.left, c.Spec.Name)
			continue
		}
		columns = append(columns, c)
	}
	slices.SortStableFunc(columns, func(a, b numpy.EdgeColumn) int { // weights first
		return strings.Compare(string(b.Spec.Role), string(a.Spec.Role))
	})
	return numpy.AddEdges(s.Source, r.ends, kinds, columns, r.form)
}

// rows is how many rows an attribute has; −1 of what is no tensor that is read.
func (s *pyg) rows(of *pygPart, name string) int64 {
	a, err := s.tensor(of, name)
	if err != nil || a == nil || a.Dim() == 0 {
		return -1
	}
	return a.Rows()
}

// ofEdges reports whether an attribute becomes a column of edges. Where nodes have the same attributes, it is one of edges by its name, or
// where only they are so many.
func (s *pyg) ofEdges(of *pygPart, name string) bool {
	edges, ok := numpy.Width(of.attributes.Get("edge_index"))
	if !ok || s.rows(of, name) != edges || name == "edge_index" || name == "edge_type" || maskPart(name) != 0 {
		return false
	}
	if of.name != "" {
		return true
	}
	return name != "x" && name != "y" && (strings.HasPrefix(name, "edge_") || strings.HasPrefix(name, "e_") || edges != s.count[""])
}

// isStructure reports whether an attribute of nodes is no column of theirs: it counts them, or belongs to edges.
func (s *pyg) isStructure(of *pygPart, name string) bool {
	return name == "num_nodes" || of.name == "" && (name == "edge_index" || name == "edge_type" || s.ofEdges(of, name))
}

// openColumns opens what nodes have: features, labels of one type and the splits of its nodes, and what else has a row for each.
func (s *pyg) openColumns() error {
	labelled := s.labelledType()
	for k := range s.parts.nodes {
		of := &s.parts.nodes[k]
		masks := false
		for _, name := range of.names() {
			role, as := store.RoleNode, of.called(name)
			switch {
			case name == "x":
				role = store.RoleFeature
			case name == "y" && of.name == labelled:
				role, as = store.RoleLabel, "label"
			case maskPart(name) != 0:
				masks = true
				continue
			case s.isStructure(of, name):
				continue
			case s.rows(of, name) != s.count[of.name]:
				s.left = append(s.left, of.called(name))
				continue
			}
			a, err := s.tensor(of, name)
			if err != nil {
				return err
			}
			if a.Rows() != s.count[of.name] || a.Dim() == 0 {
				return ingest.Inputf(a.Path, "shape %v, expected a row for each of %d nodes", a.Shape, s.count[of.name])
			}
			s.typeColumn(of.name, as, role, a.Elem, a.Dim(), a.Path, numpy.Rows(a))
		}
		if masks && of.name == labelled && of.attributes.Get("y") != nil {
			if err := s.openMasks(of); err != nil {
				return err
			}
		}
	}
	return nil
}

// labelledType is the type of nodes whose labels are learned: of several the first that has masks, else the first.
func (s *pyg) labelledType() (of string) {
	var labelled []string
	best := -1
	for k := range s.parts.nodes {
		a := s.parts.nodes[k].attributes
		if a.Get("y") == nil {
			continue
		}
		labelled = append(labelled, s.parts.nodes[k].name)
		if best < 0 || s.parts.nodes[best].attributes.Get("train_mask") == nil && a.Get("train_mask") != nil {
			best = k
		}
	}
	if best < 0 {
		return ""
	}
	if of = s.parts.nodes[best].name; len(labelled) > 1 {
		s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("nodes of types %s have labels: those of %s are learned, the others are columns", strings.Join(labelled, ", "), of))
	}
	return of
}

// maskPart is the part of a split that a mask is of; 0 = it is no mask of one.
func maskPart(name string) uint8 {
	return map[string]uint8{"train_mask": store.SplitTrain, "val_mask": store.SplitValid, "valid_mask": store.SplitValid, "test_mask": store.SplitTest}[name]
}

// openMasks opens the splits of a type's nodes.
func (s *pyg) openMasks(of *pygPart) error {
	found := map[uint8][]parts.IDs{}
	for _, name := range of.names() {
		part := maskPart(name)
		if part == 0 {
			continue
		}
		a, err := s.tensor(of, name)
		if err != nil {
			return err
		}
		ids, err := numpy.MaskIDs(a, s.first[of.name], s.count[of.name])
		if err != nil {
			return err
		}
		found[part] = append(found[part], ids...)
	}
	return numpy.AddSplits(s.Source, s.dir, found)
}
