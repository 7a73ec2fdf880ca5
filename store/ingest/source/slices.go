package source

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
)

// Slices is a graph that a program has in memory; [FromSlices] makes a source of it. Nodes are 0 … Nodes−1: edges, rows and
// splits name them by number, and IDs or Names say what else they are called.
//
//	src, err := ingest.FromSlices(&ingest.Slices{
//		Src: []uint64{0, 1}, Dst: []uint64{1, 2},
//		NodeColumns: []ingest.SliceColumn{
//			{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 2, Data: blocks.Bytes(x)},
//			{Name: "label", Role: store.RoleLabel, Elem: blocks.Int64, Dim: 1, Data: blocks.Bytes(labels)},
//		},
//		Splits: []ingest.SliceSplit{{Name: "split", Train: []uint64{0}, Test: []uint64{2}}},
//	})
//	rep, err := ingest.Run(ctx, "small.gstore", src, ingest.Options{Undirected: true})
type Slices struct {
	Input    string   // what the graph is called in messages and in the store's record; "" = "slices"
	Src, Dst []uint64 // the edges: parallel
	// Nodes is the number of nodes; 0 = as many as NodeTypes say, columns have rows, or one more than the largest of Src and Dst.
	Nodes uint64
	// NodeTypes are the types of the nodes, one after the other; nil: all are of one type.
	NodeTypes []NodeType
	// IDs or Names are the nodes' external ids, one each; neither: their numbers.
	IDs   []uint64
	Names []string
	// Relations holds each edge's relation, an index into RelationNames; nil: all are of one relation.
	Relations     []uint32
	RelationNames []string
	EdgeColumns   []SliceColumn // rows are edges
	NodeColumns   []SliceColumn // rows are nodes; the first of [store.RoleLabel] makes it a node task
	Splits        []SliceSplit  // the default first
	ClassNames    []string
}

// SliceColumn is a column of [Slices].
type SliceColumn struct {
	Name string
	Role store.Role
	Elem blocks.ElemType
	Dim  int    // elements a row
	Data []byte // row-major
	// NodeType limits a column of nodes to those of one of [Slices].NodeTypes: rows are these alone, of others there is nothing.
	NodeType string
	// Measured says that the elements are columns of a table, as in [ColumnSpec].
	Measured bool
}

// SliceSplit lists the nodes of a split.
type SliceSplit struct {
	Name               string
	Train, Valid, Test []uint64
}

// limit makes a column of n rows one of the nodes of a type.
func (s *Slices) limit(spec *ColumnSpec, of string, n int) error {
	first := int64(0)
	for _, t := range s.NodeTypes {
		if t.Name == of {
			if int64(n) != t.Count {
				return Inputf(s.Input, "column %q of %d nodes, there are %d of type %s", spec.Name, n, t.Count, of)
			}
			spec.NodeType, spec.First = of, uint64(first)
			return nil
		}
		first += t.Count
	}
	return Inputf(s.Input, "column %q of nodes of type %q, which is none of the graph's", spec.Name, of)
}

// FromSlices makes a [Source] of a graph in memory, which must not change until the source is done with. Nothing of it is
// copied as a whole.
func FromSlices(s *Slices) (Source, error) {
	f := &slicesSource{s: s}
	d := &f.desc
	*d = Description{Format: "slices", Input: s.Input, IDs: store.IDsDense, Nodes: -1, Edges: int64(len(s.Src)), Relations: s.RelationNames,
		HasRelation: s.Relations != nil, ClassNames: s.ClassNames, Named: s.IDs != nil || s.Names != nil, NamedIntegers: s.IDs != nil}
	if d.Input == "" {
		d.Input = "slices"
	}
	if len(s.Src) != len(s.Dst) || s.Relations != nil && len(s.Relations) != len(s.Src) {
		return nil, Inputf(d.Input, "%d sources, %d destinations and %d relations of edges, expected equal numbers", len(s.Src), len(s.Dst), len(s.Relations))
	}
	if s.Nodes > 0 {
		d.Nodes = int64(s.Nodes)
	} else if s.NodeTypes != nil {
		d.Nodes = 0
		for _, t := range s.NodeTypes {
			d.Nodes += t.Count
		}
	}
	rows := func(what string, n int) error {
		if d.Nodes < 0 {
			d.Nodes = int64(n)
		}
		if int64(n) != d.Nodes {
			return Inputf(d.Input, "%s of %d nodes, others of %d", what, n, d.Nodes)
		}
		return nil
	}
	column := func(c *SliceColumn) (ColumnSpec, int, error) {
		spec := ColumnSpec{Name: c.Name, Role: c.Role, Elem: c.Elem, Dim: c.Dim, Rows: -1, Measured: c.Measured}
		if w := spec.RowBytes(); c.Dim < 1 || w == 0 || len(c.Data)%w != 0 {
			return spec, 0, Inputf(d.Input, "column %q: %d bytes are no rows of %d elements of %v", c.Name, len(c.Data), c.Dim, c.Elem)
		}
		return spec, len(c.Data) / spec.RowBytes(), nil
	}
	for i := range s.NodeColumns {
		spec, n, err := column(&s.NodeColumns[i])
		switch of := s.NodeColumns[i].NodeType; {
		case err != nil:
		case of != "":
			err = s.limit(&spec, of, n)
		default:
			err = rows(fmt.Sprintf("column %q", spec.Name), n)
		}
		if err != nil {
			return nil, err
		}
		spec.Rows = int64(n)
		if d.NodeColumns = append(d.NodeColumns, spec); spec.Role == store.RoleLabel {
			d.Task = store.TaskNode
		}
	}
	for i := range s.EdgeColumns {
		spec, n, err := column(&s.EdgeColumns[i])
		if err != nil {
			return nil, err
		}
		if n != len(s.Src) {
			return nil, Inputf(d.Input, "column %q of %d edges, expected %d", spec.Name, n, len(s.Src))
		}
		d.EdgeColumns = append(d.EdgeColumns, spec)
	}
	if s.IDs != nil {
		if err := rows("ids", len(s.IDs)); err != nil {
			return nil, err
		}
	}
	if s.Names != nil {
		if err := rows("names", len(s.Names)); err != nil {
			return nil, err
		}
	}
	for _, p := range s.Splits {
		d.Splits = append(d.Splits, p.Name)
	}
	d.NodeTypes = []NodeType{{Name: "node", Count: d.Nodes}}
	if s.NodeTypes != nil {
		d.NodeTypes = s.NodeTypes
		total := int64(0)
		for _, t := range s.NodeTypes {
			total += t.Count
		}
		if total != d.Nodes {
			return nil, Inputf(d.Input, "types of %d nodes, expected %d", total, d.Nodes)
		}
		f.number(NumberColumns(d))
	}
	return f, nil
}

type slicesSource struct {
	s       *Slices
	desc    Description
	numbers []NumberColumn // behind the slices' own columns of nodes
}

// number adds columns that number nodes, but for those that the slices have, and where all types have a feature those of types without.
func (f *slicesSource) number(columns []NumberColumn) {
	has := func(of func(*ColumnSpec) bool) bool {
		return slices.ContainsFunc(f.desc.NodeColumns, func(c ColumnSpec) bool { return of(&c) })
	}
	common := has(func(c *ColumnSpec) bool { return c.Role == store.RoleFeature && c.NodeType == "" })
	for _, n := range columns {
		if n.Spec.Name != store.TypeColumn && common || has(func(c *ColumnSpec) bool { return c.Name == n.Spec.Name }) {
			continue
		}
		f.numbers = append(f.numbers, n)
		f.desc.NodeColumns = append(f.desc.NodeColumns, n.Spec)
	}
}

// sliceItems is how many edges or ids are handed over at a time, sliceBytes how many bytes of rows.
const (
	sliceItems = 1 << 15
	sliceBytes = 1 << 20
)

// Describe implements [Source].
func (f *slicesSource) Describe() *Description { return &f.desc }

// Close implements [Source]; the slices stay the caller's.
func (f *slicesSource) Close() error { return nil }

func (f *slicesSource) at(unit string, first int) Position {
	return Position{File: f.desc.Input, Unit: unit, Index: uint64(first)}
}

// Edges implements [Source]: every thread takes pieces, in place.
func (f *slicesSource) Edges(ctx context.Context, env Env, emit func(int, *EdgeBatch) error) error {
	var next atomic.Int64
	group, ctx := panics.WithContext(ctx)
	for worker := range max(1, env.Threads) {
		group.Go(func() error {
			for {
				lo := int(next.Add(1)-1) * sliceItems
				if lo >= len(f.s.Src) {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				hi := min(lo+sliceItems, len(f.s.Src))
				b := EdgeBatch{Src: IDs{Ints: f.s.Src[lo:hi:hi]}, Dst: IDs{Ints: f.s.Dst[lo:hi:hi]}, At: f.at("edge", lo)}
				if f.s.Relations != nil {
					b.Relations = f.s.Relations[lo:hi:hi]
				}
				for i := range f.s.EdgeColumns {
					w := f.desc.EdgeColumns[i].RowBytes()
					b.Columns = append(b.Columns, aligned(f.s.EdgeColumns[i].Data[lo*w:hi*w]))
				}
				if err := emit(worker, &b); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// Rows implements [Source].
func (f *slicesSource) Rows(ctx context.Context, _ Env, c int, emit func([]byte, Position) error) error {
	if own := len(f.s.NodeColumns); c >= own {
		return f.numbers[c-own].Rows(ctx, emit)
	}
	data, w := f.s.NodeColumns[c].Data, f.desc.NodeColumns[c].RowBytes()
	step := max(8, sliceBytes/w/8*8) // pieces begin at multiples of 8 bytes if the column does
	for lo := 0; lo*w < len(data); lo += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := emit(aligned(data[lo*w:min((lo+step)*w, len(data))]), f.at("row", lo)); err != nil {
			return err
		}
	}
	return nil
}

// aligned is b at a multiple of 8 bytes: itself, or a copy.
func aligned(b []byte) []byte {
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 == 0 {
		return b
	}
	to := blocks.Bytes(make([]uint64, (len(b)+7)/8))[:len(b)]
	copy(to, b)
	return to
}

// Split implements [Source].
func (f *slicesSource) Split(_ context.Context, _ Env, s int, part uint8, emit func(*IDs, Position) error) error {
	p := &f.s.Splits[s]
	ids := map[uint8][]uint64{store.SplitTrain: p.Train, store.SplitValid: p.Valid, store.SplitTest: p.Test}[part]
	return emit(&IDs{Ints: ids}, Position{File: f.desc.Input, Unit: p.Name + " " + store.SplitNames()[part]})
}

// EdgeList implements [Source]: there are none.
func (f *slicesSource) EdgeList(context.Context, Env, int, func(*EdgeBatch) error) error { return nil }

// Names implements [Source].
func (f *slicesSource) Names(ctx context.Context, _ Env, emit func(*IDs, Position) error) error {
	if f.s.IDs != nil {
		return emit(&IDs{Ints: f.s.IDs}, f.at("id", 0))
	}
	var ids IDs
	for i, name := range f.s.Names {
		if ids.Append([]byte(name)); ids.Len() < sliceItems && i < len(f.s.Names)-1 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := emit(&ids, f.at("name", i+1-ids.Len())); err != nil {
			return err
		}
		ids.Reset()
	}
	return nil
}
