package formats

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// What the parts of a composed source are made of: each streams the same data
// whenever it is called, as ingest.Source demands of the method it serves.
type (
	edgesFunc func(ctx context.Context, env ingest.Env, emit func(worker int, b *ingest.EdgeBatch) error) error
	listFunc  func(ctx context.Context, env ingest.Env, emit func(b *ingest.EdgeBatch) error) error
	rowsFunc  func(ctx context.Context, env ingest.Env, emit func(rows []byte, at ingest.Position) error) error
	keyedFunc func(ctx context.Context, env ingest.Env, emit func(ids *ingest.IDs, rows []byte, at ingest.Position) error) error
	idsFunc   func(ctx context.Context, env ingest.Env, emit func(ids *ingest.IDs, at ingest.Position) error) error
)

// parts are the id streams of a split by part, store.SplitTrain and on; nil = empty.
type parts map[uint8]idsFunc

// composed is a source put together from streams that stand in different
// files and forms. Its slices parallel those of desc.
type composed struct {
	desc    ingest.Description
	edges   []edgesFunc // one after another
	columns []rowsFunc
	splits  []parts
	lists   []listFunc
	names   idsFunc
	nodeIDs []idsFunc    // of tables of nodes
	keyed   []keyedFunc  // by column; nil for those that are not keyed
	closer  func() error // nil = nothing to close
}

// newComposed makes an empty source of one type of nodes with dense ids.
func newComposed(format, input string) *composed {
	return &composed{desc: ingest.Description{Format: format, Input: input, IDs: store.IDsDense, Nodes: -1, Edges: -1,
		NodeTypes: []ingest.NodeType{{Name: "node", Count: -1}}}}
}

// Describe implements ingest.Source.
func (s *composed) Describe() *ingest.Description { return &s.desc }

// Close implements ingest.Source.
func (s *composed) Close() error {
	if s.closer == nil {
		return nil
	}
	return s.closer()
}

// Edges implements ingest.Source.
func (s *composed) Edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	for _, f := range s.edges {
		if err := f(ctx, env, emit); err != nil {
			return err
		}
	}
	return nil
}

// Rows implements ingest.Source.
func (s *composed) Rows(ctx context.Context, env ingest.Env, c int, emit func([]byte, ingest.Position) error) error {
	return s.columns[c](ctx, env, emit)
}

// Split implements ingest.Source.
func (s *composed) Split(ctx context.Context, env ingest.Env, k int, part uint8, emit func(*ingest.IDs, ingest.Position) error) error {
	if f := s.splits[k][part]; f != nil {
		return f(ctx, env, emit)
	}
	return nil
}

// EdgeList implements ingest.Source.
func (s *composed) EdgeList(ctx context.Context, env ingest.Env, l int, emit func(*ingest.EdgeBatch) error) error {
	return s.lists[l](ctx, env, emit)
}

// Names implements ingest.Source.
func (s *composed) Names(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
	if s.names == nil {
		return errNothing
	}
	return s.names(ctx, env, emit)
}

// NodeIDs implements ingest.KeyedSource.
func (s *composed) NodeIDs(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
	for _, f := range s.nodeIDs {
		if err := f(ctx, env, emit); err != nil {
			return err
		}
	}
	return nil
}

// KeyedRows implements ingest.KeyedSource.
func (s *composed) KeyedRows(ctx context.Context, env ingest.Env, c int, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
	return s.keyed[c](ctx, env, emit)
}

// file notes an input file, once.
func (s *composed) file(path string) {
	if !slices.Contains(s.desc.Files, path) {
		s.desc.Files = append(s.desc.Files, path)
	}
}

// column adds a node column.
func (s *composed) column(spec ingest.ColumnSpec, rows rowsFunc) {
	s.desc.NodeColumns = append(s.desc.NodeColumns, spec)
	s.columns = append(s.columns, rows)
	if spec.Role == store.RoleLabel {
		s.desc.Task = store.TaskNode
	}
}

// arrayColumn adds a column of a row for each node. The first one tells how many nodes there are.
func (s *composed) arrayColumn(a *array, name string, role store.Role) error {
	if s.desc.Nodes >= 0 && a.rows() != s.desc.Nodes {
		return ingest.Inputf(a.path, "shape %v, expected %d rows (the number of nodes)", a.shape, s.desc.Nodes)
	}
	if a.dim() == 0 || role == store.RoleLabel && a.dim() != 1 {
		return ingest.Inputf(a.path, "shape %v, expected [%d, D ≥ 1], of labels D = 1", a.shape, a.rows())
	}
	s.desc.Nodes = a.rows()
	s.column(ingest.ColumnSpec{Name: name, Role: role, Elem: a.elem, Dim: int(a.dim()), Rows: a.rows()}, arrayRows(a))
	return nil
}

// arrayRows streams an array's rows.
func arrayRows(a *array) rowsFunc {
	return func(ctx context.Context, env ingest.Env, emit func([]byte, ingest.Position) error) error {
		return a.stream(ctx, env, readBytes, func(first int64, b []byte) error {
			return emit(b, ingest.Position{File: a.path, Unit: "row", Index: uint64(first)})
		})
	}
}

// arrayIDs streams a list of node ids, less than count, plus offset.
func arrayIDs(a *array, offset uint64, count int64) (idsFunc, error) {
	if a.dim() != 1 || !a.integer() {
		return nil, ingest.Inputf(a.path, "%v of shape %v, expected a list of node ids", a.elem, a.shape)
	}
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		var ids ingest.IDs
		return a.stream(ctx, env, readBytes, func(first int64, b []byte) error {
			ids.Ints = widen(ids.Ints[:0], a.elem, b)
			for i, id := range ids.Ints {
				if id >= uint64(count) {
					return ingest.Inputf(a.path, "row %d: node %d, expected 0 ≤ id < %d", first+int64(i), int64(id), count)
				}
				ids.Ints[i] += offset
			}
			return emit(&ids, ingest.Position{File: a.path, Unit: "row", Index: uint64(first)})
		})
	}, nil
}

// maskIDs streams the places at which a mask of a byte for each node is not 0.
func maskIDs(a *array, nodes int64) (idsFunc, error) {
	if a.dim() != 1 || a.elem.Size() != 1 || a.rows() != nodes {
		return nil, ingest.Inputf(a.path, "%v of shape %v, expected bool of shape [%d]", a.elem, a.shape, nodes)
	}
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		var ids ingest.IDs
		return a.stream(ctx, env, readBytes/8, func(first int64, b []byte) error {
			ids.Ints = ids.Ints[:0]
			for i, x := range b {
				if x != 0 {
					ids.Ints = append(ids.Ints, uint64(first)+uint64(i))
				}
			}
			if len(ids.Ints) == 0 {
				return nil
			}
			return emit(&ids, ingest.Position{File: a.path, Unit: "row", Index: uint64(first)})
		})
	}, nil
}

// edgeForm says how an array holds edges.
type edgeForm int

const (
	formColumns edgeForm = iota // [2, E], or else [E, 2]
	formPairs                   // [E, 2]
	formTriples                 // [E, 3] of source, relation, destination
)

// arrayEdges streams edges from arrays; types may be nil.
func (s *composed) arrayEdges(ends, types *array, columns []relationColumn, form edgeForm) error {
	e := &numpyFolder{fs: ends.fs, edges: ends, triples: form == formTriples, pairs: form == formPairs}
	if err := e.checkEdges(); err != nil {
		return err
	}
	s.desc.Edges = e.desc.Edges
	if types != nil {
		if types.rows() != s.desc.Edges || types.dim() != 1 {
			return ingest.Inputf(types.path, "shape %v, expected [%d] (the number of edges)", types.shape, s.desc.Edges)
		}
		e.types = types
		if err := e.openRelations(); err != nil {
			return err
		}
		s.desc.HasRelation, s.desc.Relations = true, e.desc.Relations
	}
	for _, c := range columns {
		if c.array.rows() != s.desc.Edges || c.array.dim() == 0 {
			return ingest.Inputf(c.path, "shape %v, expected %d rows (the number of edges)", c.array.shape, s.desc.Edges)
		}
		e.edgeColumns, s.desc.EdgeColumns = append(e.edgeColumns, c.array), append(s.desc.EdgeColumns, c.spec)
	}
	s.edges = append(s.edges, e.Edges)
	return nil
}

// weightArray is the column of weights; none if a is nil.
func weightArray(a *array) ([]relationColumn, error) {
	if a == nil {
		return nil, nil
	}
	if a.elem != blocks.Float32 || a.dim() != 1 {
		return nil, ingest.Inputf(a.path, "weights of type %v and shape %v, expected float32, one an edge", a.elem, a.shape)
	}
	return []relationColumn{edgeArray("weight", a)}, nil
}

func (s *composed) weightColumn() {
	s.desc.EdgeColumns = []ingest.ColumnSpec{{Name: "weight", Role: store.RoleWeight, Elem: blocks.Float32, Dim: 1}}
}

// sortedKeys returns a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
