package simulate

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// input is an [ingest.Source] of slices: nodes and edges as a user has them, before any rule.
type input struct {
	desc      ingest.Description
	names     []string // of nodes with rows
	nodes     []*node
	edges     []edge
	lists     map[string][]edge
	relations int
	weighted  bool
	extra     []column // instead of x, label and split
	batch     int      // edges or rows of a batch
}

// newInput describes nodes and edges for g's kind of store. Without rows the store fills them in.
func newInput(g *graph, names []string, nodes []*node, edges []edge, batch int) *input {
	in := &input{names: names, nodes: nodes, edges: edges, relations: g.relations, weighted: g.weighted, batch: batch}
	in.desc = ingest.Description{Format: "simulated", Input: "simulated", NodeTypes: []ingest.NodeType{{Name: "node", Count: -1}},
		Nodes: -1, IDs: g.ids, Edges: -1, Keyed: g.ids != store.IDsDense}
	for k := range g.relations {
		in.desc.Relations = append(in.desc.Relations, "r"+strconv.Itoa(k))
	}
	in.desc.HasRelation = g.relations > 1
	if g.weighted {
		in.desc.EdgeColumns = []ingest.ColumnSpec{{Name: "weight", Role: store.RoleWeight, Elem: blocks.Float32, Dim: 1}}
	}
	if len(nodes) > 0 && g.typed {
		in.describeTypes()
	} else if nodes != nil && !g.typed {
		rows := int64(-1)
		if !in.desc.Keyed {
			rows = int64(len(nodes))
		}
		in.desc.NodeColumns = []ingest.ColumnSpec{
			{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: dim, Rows: rows, Keyed: in.desc.Keyed},
			{Name: "label", Role: store.RoleLabel, Elem: blocks.Int32, Dim: 1, Rows: rows, Keyed: in.desc.Keyed}}
		in.desc.Splits = []string{"split"}
	}
	return in
}

// describeTypes describes nodes that stand type by type: all types of a store that begins, or nodes of one that are appended.
func (in *input) describeTypes() {
	appended := in.nodes[len(in.nodes)-1].kind == in.nodes[0].kind
	of := func(kind int, name string, role store.Role, elem blocks.ElemType, dim int) {
		has := func(n *node) bool { return n.has(name) }
		c := ingest.ColumnSpec{Name: name, Role: role, Elem: elem, Dim: dim, NodeType: kinds[kind]}
		if c.First = uint64(slices.IndexFunc(in.nodes, has)); slices.ContainsFunc(in.nodes, has) {
			for _, n := range in.nodes {
				if has(n) {
					c.Rows++
				}
			}
			in.desc.NodeColumns = append(in.desc.NodeColumns, c)
		}
	}
	of(0, "x", store.RoleFeature, blocks.Float32, dim)
	of(0, "label", store.RoleLabel, blocks.Int32, 1)
	of(1, "y", store.RoleFeature, blocks.Float32, 1)
	if in.nodes[0].has("x") {
		in.desc.Splits = []string{"split"}
	}
	if appended {
		return
	}
	of(2, "c.node", store.RoleNode, blocks.Uint32, 1)
	in.desc.NodeColumns = append(in.desc.NodeColumns, ingest.ColumnSpec{Name: store.TypeColumn, Role: store.RoleNode, Elem: blocks.Uint32, Dim: 1, Rows: int64(len(in.nodes))})
	in.desc.NodeTypes = nil
	for k, name := range kinds {
		t := ingest.NodeType{Name: name}
		for _, n := range in.nodes {
			if n.kind == k {
				t.Count++
			}
		}
		in.desc.NodeTypes = append(in.desc.NodeTypes, t)
	}
}

func (in *input) Describe() *ingest.Description { return &in.desc }
func (in *input) Close() error                  { return nil }

// add appends an external id.
func (in *input) add(ids *ingest.IDs, name string) {
	if in.desc.IDs == store.IDsStrings {
		ids.Append([]byte(name))
		return
	}
	n, _ := strconv.ParseUint(name, 10, 64)
	ids.Ints = append(ids.Ints, n)
}

func (in *input) stream(ctx context.Context, edges []edge, columns bool, emit func(*ingest.EdgeBatch) error) error {
	for lo := 0; lo < len(edges); lo += in.batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := &ingest.EdgeBatch{At: ingest.Position{File: "edges", Unit: "edge", Index: uint64(lo)}}
		var weights []float32
		for _, e := range edges[lo:min(lo+in.batch, len(edges))] {
			in.add(&b.Src, e.src)
			in.add(&b.Dst, e.dst)
			if in.desc.HasRelation {
				b.Relations = append(b.Relations, uint32(e.relation))
			}
			weights = append(weights, e.weight)
		}
		if in.weighted && columns {
			b.Columns = [][]byte{blocks.Bytes(weights)}
		}
		if err := emit(b); err != nil {
			return err
		}
	}
	return nil
}

// Edges implements [ingest.Source].
func (in *input) Edges(ctx context.Context, _ ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	return in.stream(ctx, in.edges, true, func(b *ingest.EdgeBatch) error { return emit(0, b) })
}

// EdgeList implements [ingest.Source].
func (in *input) EdgeList(ctx context.Context, _ ingest.Env, l int, emit func(*ingest.EdgeBatch) error) error {
	return in.stream(ctx, in.lists[in.desc.EdgeLists[l]], false, emit)
}

// row is the bytes of a node's row of column c.
func (in *input) row(n *node, c int) []byte {
	switch name := in.desc.NodeColumns[c].Name; {
	case in.extra != nil:
		return blocks.Bytes(n.more[name])
	case name == "x":
		return blocks.Bytes(n.x[:])
	case name == "y":
		return blocks.Bytes([]float32{n.y})
	case name == "c.node":
		return blocks.Bytes([]uint32{n.number})
	case name == store.TypeColumn:
		return blocks.Bytes([]uint32{n.nodeType()})
	}
	return blocks.Bytes([]int32{n.label})
}

// rows streams the rows of column c with their ids; c < 0: the ids alone.
func (in *input) rows(ctx context.Context, c int, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
	for lo := 0; lo < len(in.nodes); lo += in.batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		var ids ingest.IDs
		var rows []byte
		for i := lo; i < min(lo+in.batch, len(in.nodes)); i++ {
			if c >= 0 && in.desc.NodeColumns[c].NodeType != "" && !in.nodes[i].has(in.desc.NodeColumns[c].Name) {
				continue
			}
			in.add(&ids, in.names[i])
			if c >= 0 {
				rows = append(rows, in.row(in.nodes[i], c)...)
			}
		}
		aligned := blocks.Bytes(make([]uint64, (len(rows)+7)/8))[:len(rows)]
		copy(aligned, rows)
		if err := emit(&ids, aligned, ingest.Position{File: "rows", Unit: "row", Index: uint64(lo)}); err != nil {
			return err
		}
	}
	return nil
}

// Rows implements [ingest.Source].
func (in *input) Rows(ctx context.Context, _ ingest.Env, c int, emit func([]byte, ingest.Position) error) error {
	return in.rows(ctx, c, func(_ *ingest.IDs, rows []byte, at ingest.Position) error { return emit(rows, at) })
}

// KeyedRows implements [ingest.KeyedSource].
func (in *input) KeyedRows(ctx context.Context, _ ingest.Env, c int, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
	return in.rows(ctx, c, emit)
}

// NodeIDs implements [ingest.KeyedSource].
func (in *input) NodeIDs(ctx context.Context, _ ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
	return in.rows(ctx, -1, func(ids *ingest.IDs, _ []byte, at ingest.Position) error { return emit(ids, at) })
}

// Split implements [ingest.Source].
func (in *input) Split(_ context.Context, _ ingest.Env, _ int, part uint8, emit func(*ingest.IDs, ingest.Position) error) error {
	var ids ingest.IDs
	for i, n := range in.nodes {
		if n.split == part {
			in.add(&ids, in.names[i])
		}
	}
	return emit(&ids, ingest.Position{File: "split", Unit: "row"})
}

// Names implements [ingest.Source].
func (in *input) Names(context.Context, ingest.Env, func(*ingest.IDs, ingest.Position) error) error {
	return fmt.Errorf("simulate: names of a source without names")
}
