package export

import (
	"errors"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
	"github.com/gstore/gstore/store"
)

// numpySink writes a folder that `gstore ingest` reads as numpy or triples:
//
//	edge_index.npy int64 [2, E], edge_type.npy, edge_types.txt, edge_weight.npy, edge_NAME.npy
//	train.npy int64 [E, 3], NAME.npy [M, 3], relations.txt, entities.txt   (knowledge graphs)
//	edges_NAME.npy int64 [M, 2]                                            (edge lists of others)
//	node_feat.npy [N, D], node_label.npy int64 [N], classes.txt, split*/{train,valid,test}.npy
//	node_NAME.npy [N, D]                                                   (all other columns)
//	node_ids.npy or node_ids.txt                                           (ids that are not dense)
type numpySink struct{ x *exporter }

// npyFile is an array whose length is known when it is closed.
type npyFile struct {
	*file
	c    *cursor
	elem blocks.ElemType
	dim  int // 0: one-dimensional
}

// write appends n rows.
func (a *npyFile) write(n uint64, rows []byte) error {
	a.rows += n
	_, err := a.c.Write(rows)
	return err
}

func (a *npyFile) close() error {
	shape := []uint64{a.rows}
	if a.dim > 0 {
		shape = append(shape, uint64(a.dim))
	}
	_, err := a.f.WriteAt(npy.Append(nil, a.elem, true, shape...), 0)
	return errors.Join(err, a.file.close())
}

// npySet is the arrays of one sink: close closes all that were made.
type npySet struct {
	out   *folder
	files []*npyFile
}

func (n *npySet) create(name string, elem blocks.ElemType, dim int) (*npyFile, error) {
	o, err := n.out.create(name)
	if err != nil {
		return nil, err
	}
	a := &npyFile{file: o, c: o.cursor(npy.HeaderBytes), elem: elem, dim: dim}
	n.files = append(n.files, a)
	return a, nil
}

func (n *npySet) close() error {
	var errs []error
	for _, a := range n.files {
		errs = append(errs, a.close())
	}
	return errors.Join(errs...)
}

// numpyEdges writes edges as [2, E] with columns, or as rows of 2 or 3.
type numpyEdges struct {
	npySet
	index    *file    // [2, E]
	src, dst *cursor  // in it
	rows     *npyFile // [E, 2 or 3]
	types    *npyFile // nil without relations
	columns  []*npyFile
	flat     []uint64
	expected uint64
}

func (s *numpySink) edges(name string, rows uint64) (_ edgeSink, err error) {
	x := s.x
	e := &numpyEdges{npySet: npySet{out: x.out}, expected: rows}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.npySet.close())
		}
	}()
	columns, relation := x.edgeColumns()
	dim := 2
	if relation != nil {
		dim = 3
	}
	if name != "" { // an edge list has no columns but the relation
		file := "edges_" + fileName(name)
		if x.triples() {
			file = fileName(name)
		}
		e.rows, err = e.create(x.out.free(file, ".npy"), blocks.Int64, dim)
		return e, err
	}
	if relation != nil {
		names := "edge_types.txt"
		if x.triples() {
			names = "relations.txt"
		}
		if err := x.out.text(names, x.relationNames()); err != nil {
			return nil, err
		}
	}
	for _, c := range columns {
		dim := c.Dim
		if dim == 1 {
			dim = 0
		}
		name := x.out.free("edge_"+fileName(c.Name), ".npy")
		a, err := e.create(name, c.Elem, dim)
		if err != nil {
			return nil, err
		}
		x.out.columns = append(x.out.columns, exportedFile{name, c.Name, c.Role})
		e.columns = append(e.columns, a)
	}
	if x.triples() {
		e.rows, err = e.create("train.npy", blocks.Int64, dim)
		return e, err
	}
	if relation != nil {
		if e.types, err = e.create("edge_type.npy", blocks.Int32, 0); err != nil {
			return nil, err
		}
	}
	if e.index, err = x.out.create("edge_index.npy"); err != nil {
		return nil, err
	}
	e.src, e.dst = e.index.cursor(npy.HeaderBytes), e.index.cursor(npy.HeaderBytes+8*int64(rows))
	return e, nil
}

func (e *numpyEdges) add(b *edgeBatch) error {
	n := uint64(b.len())
	if e.index != nil {
		if _, err := e.src.Write(blocks.Bytes(b.Src)); err != nil {
			return err
		}
		if _, err := e.dst.Write(blocks.Bytes(b.Dst)); err != nil {
			return err
		}
		e.index.rows += n
	} else {
		e.flat = e.flat[:0]
		for i, src := range b.Src {
			e.flat = append(e.flat, src)
			if e.rows.dim == 3 {
				e.flat = append(e.flat, uint64(b.Relations[i]))
			}
			e.flat = append(e.flat, b.Dst[i])
		}
		if err := e.rows.write(n, blocks.Bytes(e.flat)); err != nil {
			return err
		}
	}
	if e.types != nil {
		if err := e.types.write(n, blocks.Bytes(b.Relations)); err != nil {
			return err
		}
	}
	for c, a := range e.columns {
		if err := a.write(n, b.Columns[c]); err != nil {
			return err
		}
	}
	return nil
}

func (e *numpyEdges) close() error {
	var errs []error
	if e.index != nil {
		_, err := e.index.f.WriteAt(npy.Append(nil, blocks.Int64, true, 2, e.expected), 0)
		errs = append(errs, err, e.index.close())
	}
	return errors.Join(append(errs, e.npySet.close())...)
}

// numpyNodes writes each column to its file.
type numpyNodes struct {
	npySet
	columns []numpyColumn
	ids     *npyFile // integer ids that are not dense
	text    *file    // string ids
	lines   *cursor
}

type numpyColumn struct {
	conv  converter
	array *npyFile    // nil for a split
	parts [3]*npyFile // train, valid, test
	list  [3][]uint64
}

func (s *numpySink) nodes(columns []NodeColumn) (_ nodeSink, err error) {
	n := &numpyNodes{npySet: npySet{out: s.x.out}}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	seen := map[store.Role]bool{}
	for i := range columns {
		k, err := s.column(n, &columns[i], !seen[columns[i].Role])
		if err != nil {
			return nil, err
		}
		seen[columns[i].Role] = true
		n.columns = append(n.columns, k)
	}
	if !s.x.internal {
		return n, nil
	}
	if s.x.m.IDs.Kind == store.IDsIntegers {
		n.ids, err = n.create("node_ids.npy", blocks.Uint64, 0)
		return n, err
	}
	name := "node_ids.txt"
	if s.x.triples() {
		name = "entities.txt"
	}
	if n.text, err = s.x.out.create(name); err == nil {
		n.lines = n.text.cursor(0)
	}
	return n, err
}

// column makes the files of a column, the first of its role or another.
func (s *numpySink) column(n *numpyNodes, c *NodeColumn, first bool) (k numpyColumn, err error) {
	k.conv = converter{c: c, to: c.output(true)}
	name, dim := "node_"+fileName(c.Name), c.Dim
	if dim == 1 && c.Role != store.RoleFeature {
		dim = 0
	}
	switch {
	case c.Role == store.RoleSplit:
		dir := fileName(c.Name)
		if !strings.HasPrefix(dir, "split") {
			dir = "split_" + dir
		}
		dir = s.x.out.free(dir, "")
		s.x.out.columns = append(s.x.out.columns, exportedFile{dir, c.Name, c.Role})
		for part := range k.parts {
			if k.parts[part], err = n.create(dir+"/"+store.SplitNames()[part+1]+".npy", blocks.Int64, 0); err != nil {
				return k, err
			}
		}
		return k, nil
	case c.Role == store.RoleLabel && first:
		name = "node_label"
		if names := s.x.m.Schema.ClassNames; names != nil {
			if err := s.x.out.text("classes.txt", names); err != nil {
				return k, err
			}
		}
	case c.Role == store.RoleFeature && first:
		name = "node_feat"
	}
	file := name + ".npy"
	if !first || name != "node_label" && name != "node_feat" {
		file = s.x.out.free(name, ".npy")
	}
	s.x.out.columns = append(s.x.out.columns, exportedFile{file, c.Name, c.Role})
	k.array, err = n.create(file, k.conv.to, dim)
	return k, err
}

func (n *numpyNodes) add(b *nodeBatch) error {
	for i := range n.columns {
		k := &n.columns[i]
		var err error
		if k.array != nil {
			err = k.array.write(uint64(b.N), k.conv.rows(b.Rows[i]))
		} else {
			err = k.split(b, b.Rows[i])
		}
		if err != nil {
			return err
		}
	}
	if n.ids != nil {
		if err := n.ids.write(uint64(b.N), blocks.Bytes(b.Ints)); err != nil {
			return err
		}
	}
	if n.text != nil {
		return n.names(b)
	}
	return nil
}

// split sorts positions by part.
func (k *numpyColumn) split(b *nodeBatch, rows []byte) error {
	for part := range k.list {
		k.list[part] = k.list[part][:0]
	}
	for i, x := range rows {
		if x >= store.SplitTrain && x <= store.SplitTest {
			k.list[x-1] = append(k.list[x-1], b.First+uint64(i))
		}
	}
	for part, a := range k.parts {
		if err := a.write(uint64(len(k.list[part])), blocks.Bytes(k.list[part])); err != nil {
			return err
		}
	}
	return nil
}

// names writes string ids, a line each.
func (n *numpyNodes) names(b *nodeBatch) error {
	for i := range b.N {
		id := b.text(i)
		if err := plainText(id, "\n\r"); err != nil {
			return err
		}
		if _, err := n.lines.Write(id); err != nil {
			return err
		}
		if _, err := n.lines.Write([]byte{'\n'}); err != nil {
			return err
		}
	}
	n.text.rows += uint64(b.N)
	return nil
}

func (n *numpyNodes) close() error {
	err := n.npySet.close()
	if n.text != nil {
		err = errors.Join(err, n.text.close())
	}
	return err
}
