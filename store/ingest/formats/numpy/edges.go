package numpy

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// AddColumn adds a column of a row for each node. The first one tells how many nodes there are.
func AddColumn(s *parts.Source, a *Array, name string, role store.Role) error {
	if s.Desc.Nodes >= 0 && a.Rows() != s.Desc.Nodes {
		return ingest.Inputf(a.Path, "shape %v, expected %d rows (the number of nodes)", a.Shape, s.Desc.Nodes)
	}
	if a.Dim() == 0 {
		return ingest.Inputf(a.Path, "shape %v, expected [%d, D ≥ 1]", a.Shape, a.Rows())
	}
	s.Desc.Nodes = a.Rows()
	s.AddColumn(ingest.ColumnSpec{Name: name, Role: role, Elem: a.Elem, Dim: int(a.Dim()), Rows: a.Rows()}, Rows(a))
	return nil
}

// Rows streams an array's rows.
func Rows(a *Array) parts.Rows {
	return func(ctx context.Context, env ingest.Env, emit func([]byte, ingest.Position) error) error {
		return a.Stream(ctx, env, files.ReadBytes, func(first int64, b []byte) error {
			return emit(b, ingest.Position{File: a.Path, Unit: "row", Index: uint64(first)})
		})
	}
}

// OpenEdges opens one array of edges, of nodes that count from 0.
func OpenEdges(fs vfs.FS, path string) (ingest.Source, error) {
	a, err := OpenArray(fs, path)
	if err != nil {
		return nil, err
	}
	s := parts.New("numpy", path)
	s.AddFiles(path)
	if dir := fs.PathDir(path); files.Find(fs, dir, "edge_index.npy", "edges.npy") == path {
		if all, err := OpenFolder(fs, dir); err == nil && len(all.Describe().Files) > 1 {
			s.Desc.Notes = append(s.Desc.Notes, "the edges alone are read: gstore ingest "+dir+" takes the arrays beside them too")
		}
	}
	return s, AddEdges(s, a, nil, nil, FormColumns)
}

// IDs streams a list of node ids, less than count, plus offset.
func IDs(a *Array, offset uint64, count int64) (parts.IDs, error) {
	if a.Dim() != 1 || !a.Integer() {
		return nil, ingest.Inputf(a.Path, "%v of shape %v, expected a list of node ids", a.Elem, a.Shape)
	}
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		var ids ingest.IDs
		return a.Stream(ctx, env, files.ReadBytes, func(first int64, b []byte) error {
			ids.Ints = parts.Widen(ids.Ints[:0], a.Elem, b)
			for i, id := range ids.Ints {
				if id >= uint64(count) {
					return ingest.Inputf(a.Path, "row %d: node %d, expected 0 ≤ id < %d", first+int64(i), int64(id), count)
				}
				ids.Ints[i] += offset
			}
			return emit(&ids, ingest.Position{File: a.Path, Unit: "row", Index: uint64(first)})
		})
	}, nil
}

// EdgeForm says how an array holds edges.
type EdgeForm int

const (
	FormColumns EdgeForm = iota // [2, E], or else [E, 2]
	FormPairs                   // [E, 2]
	FormTriples                 // [E, 3] of source, relation, destination
)

// AddEdges streams edges from arrays; types may be nil.
func AddEdges(s *parts.Source, ends, types *Array, columns []EdgeColumn, form EdgeForm) error {
	e := &folder{fs: ends.FS, edges: ends, triples: form == FormTriples, pairs: form == FormPairs}
	if err := e.checkEdges(); err != nil {
		return err
	}
	s.Desc.Edges = e.desc.Edges
	if types != nil {
		if types.Rows() != s.Desc.Edges || types.Dim() != 1 {
			return ingest.Inputf(types.Path, "shape %v, expected [%d] (the number of edges)", types.Shape, s.Desc.Edges)
		}
		e.types = types
		if err := e.openRelations(); err != nil {
			return err
		}
		s.Desc.HasRelation, s.Desc.Relations = true, e.desc.Relations
	}
	for _, c := range columns {
		if c.Array.Rows() != s.Desc.Edges || c.Array.Dim() == 0 {
			return ingest.Inputf(c.Path, "shape %v, expected %d rows (the number of edges)", c.Array.Shape, s.Desc.Edges)
		}
		if c.Spec.Role == store.RoleWeight && c.Array.Elem != blocks.Float32 {
			e.wide = c.Array
		}
		e.edgeColumns, s.Desc.EdgeColumns = append(e.edgeColumns, c.Array), append(s.Desc.EdgeColumns, c.Spec)
	}
	s.EdgeStreams = append(s.EdgeStreams, e.Edges)
	return nil
}

// Weights is the column of weights, which become float32; none if a is nil.
func Weights(a *Array) ([]EdgeColumn, error) {
	if a == nil {
		return nil, nil
	}
	if !a.weighs() {
		return nil, ingest.Inputf(a.Path, "weights of type %v and shape %v, expected float32, float64 or integers of 32 or 64 bits, one an edge", a.Elem, a.Shape)
	}
	c := ColumnOf("weight", a)
	c.Spec.Role, c.Spec.Elem = store.RoleWeight, blocks.Float32
	return []EdgeColumn{c}, nil
}

// weighs reports whether an array may be that of edges' weights.
func (a *Array) weighs() bool {
	return a.Dim() == 1 && (a.Elem == blocks.Float32 || a.Elem == blocks.Float64 || a.Integer())
}

// narrow makes float32 of numbers of at least as many bytes, in their place.
func (a *Array) narrow(b []byte) []byte {
	size := a.Elem.Size()
	n := len(b) / size
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(a.Elem.Float64(b[i*size:]))))
	}
	return b[:4*n]
}

// EdgeColumn is a column of a type of edges.
type EdgeColumn struct {
	Spec  ingest.ColumnSpec
	Path  string
	Array *Array // nil = rows can only be read front to back
	Rows  parts.Rows
}

// ColumnOf is a column of an array. Its name says whether it is a weight, of one float32.
func ColumnOf(name string, a *Array) EdgeColumn {
	c := EdgeColumn{Spec: ingest.ColumnSpec{Name: name, Role: store.RoleEdge, Elem: a.Elem, Dim: int(a.Dim())}, Path: a.Path, Array: a, Rows: Rows(a)}
	if slices.Contains(parts.WeightNames, name) && a.Elem == blocks.Float32 && a.Dim() == 1 {
		c.Spec.Name, c.Spec.Role = "weight", store.RoleWeight
	}
	return c
}

// EdgesBetween streams the edges between ends, of FormColumns or FormPairs, with columns that are arrays, and counts them.
func EdgesBetween(ends *Array, columns []EdgeColumn, form EdgeForm) (edges parts.Edges, n int64, err error) {
	e := &folder{fs: ends.FS, edges: ends, pairs: form == FormPairs}
	if err := e.checkEdges(); err != nil {
		return nil, 0, err
	}
	for _, c := range columns {
		e.edgeColumns = append(e.edgeColumns, c.Array)
	}
	return e.Edges, e.desc.Edges, nil
}

// answersMax bounds how many edges a list of questions has.
const answersMax = 1 << 26

// Answered streams, in order, edges of which asked has the source and the relation, [M, 2], and answers the destination, [M].
func Answered(asked, answers *Array) (parts.List, error) {
	switch {
	case len(asked.Shape) != 2 || asked.Shape[1] != 2 || !asked.Integer() || asked.Columns:
		return nil, ingest.Inputf(asked.Path, "%v of shape %v, expected integers of shape [M, 2], in C order", asked.Elem, asked.Shape)
	case answers.Dim() != 1 || !answers.Integer() || answers.Rows() != asked.Rows():
		return nil, ingest.Inputf(answers.Path, "%v of shape %v, expected integers of shape [%d]", answers.Elem, answers.Shape, asked.Rows())
	}
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.EdgeBatch) error) error {
		to, err := answers.small(answersMax)
		if err != nil {
			return err
		}
		b := &ingest.EdgeBatch{At: ingest.Position{File: asked.Path, Unit: "row"}}
		var ids []uint64
		return asked.Stream(ctx, env, files.ReadBytes, func(first int64, raw []byte) error {
			ids = parts.Widen(ids[:0], asked.Elem, raw)
			b.At.Index = uint64(first)
			b.Src.Ints, b.Relations = b.Src.Ints[:0], b.Relations[:0]
			for i := 0; i < len(ids); i += 2 {
				if ids[i+1] > math.MaxUint32 {
					return ingest.Inputf(asked.Path, "row %d: relation %d", first+int64(i/2), int64(ids[i+1]))
				}
				b.Src.Ints, b.Relations = append(b.Src.Ints, ids[i]), append(b.Relations, uint32(ids[i+1]))
			}
			b.Dst.Ints = to[first : first+int64(len(ids)/2)]
			return emit(b)
		})
	}, nil
}
