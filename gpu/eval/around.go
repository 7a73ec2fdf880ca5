package eval

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// Around is all that a model reads to say something of one node: the nodes within its hops, the edges that lead from one to the next,
// and what lies beside both.
type Around struct {
	Nodes []store.NodeID // that node, then those one hop away in ascending order, then those two hops away, …
	Reach []int          // how many of Nodes lie within each number of hops, from 0 on
	// Dst and Src are the ends of each edge, as places in Nodes, in ascending order: of all edges into nodes that lie nearer than the last
	// hop. Parallel ones are all there.
	Dst, Src  []uint32
	Relations []uint16    // of edges, where the model reads them
	Weights   []float32   // likewise, as they count
	Features  []float32   // likewise, a row an edge
	Degrees   []int32     // of Nodes: edges into each
	Sums      []float64   // of their weights, where the model reads them
	Rows      [][]byte    // by column of Options.Features: a row for each of Nodes
	Types     []uint32    // of Nodes, of a model that reads them
	Vectors   AroundTable // of a model of [nn.Config].Vectors
}

// AroundTable are learned vectors of some of the nodes.
type AroundTable struct {
	At   []uint32 // whose they are: places in Nodes, ascending
	Rows []byte   // little-endian float32s
}

// Columns are the features that the evaluator reads, in its order.
func (e *Evaluator) Columns() []*store.ColumnInfo { return e.columns }

// edgeAround is an edge as it is found.
type edgeAround struct {
	dst, src store.NodeID
	about
	row int // of features
}

// RowsOf reads rows of a column of given nodes, as [store.Store.Features] does.
type RowsOf func(ctx context.Context, column string, nodes []store.NodeID, dst []byte) ([]byte, error)

// Around reads what lies within so many hops of a node, rows by rowsOf. Degrees and sums of weights of the last hop's nodes, which are one more
// pass over the edges, are read only where a model asks for those of sources. More than limit edges are an error that wraps [store.ErrBudget].
func (e *Evaluator) Around(ctx context.Context, node store.NodeID, hops int, limit int64, ofSources bool, rowsOf RowsOf) (*Around, error) {
	m := e.src.Manifest()
	if uint64(node) >= m.Nodes {
		return nil, fmt.Errorf("evaluation: node %d of %d: %w", node, m.Nodes, store.ErrNotFound)
	}
	a := &Around{Nodes: []store.NodeID{node}, Reach: []int{1}}
	places := map[store.NodeID]uint32{node: 0}
	frontier, columns := a.Nodes, e.edges.featureColumns()
	for hop := range hops {
		var found []edgeAround
		var rows []float32
		var more error
		err := e.edgesIntoNodes(ctx, frontier, func(d, s uint32, x about) {
			if int64(len(a.Dst)+len(found)) >= limit {
				more = fmt.Errorf("%w: more than %d edges lead to it within %d hops: give it more", store.ErrBudget, limit, hop+1)
				return
			}
			found = append(found, edgeAround{store.NodeID(d), store.NodeID(s), x, len(rows)})
			rows = append(rows, make([]float32, columns)...)
			e.edges.featuresOf(x.edge, rows[len(rows)-columns:])
		})
		if err = cmp.Or(err, more); err != nil {
			return nil, err
		}
		var next []store.NodeID
		for _, x := range found {
			if _, ok := places[x.src]; !ok {
				places[x.src] = 0
				next = append(next, x.src)
			}
		}
		slices.Sort(next)
		for _, v := range next {
			places[v] = uint32(len(a.Nodes))
			a.Nodes = append(a.Nodes, v)
		}
		slices.SortStableFunc(found, func(x, y edgeAround) int {
			return cmp.Or(cmp.Compare(places[x.dst], places[y.dst]), cmp.Compare(x.src, y.src))
		})
		a.add(e, found, rows, places)
		a.Reach = append(a.Reach, len(a.Nodes))
		frontier = next
	}
	if !ofSources {
		frontier = nil
	}
	if err := e.count(ctx, a, frontier, places); err != nil {
		return nil, err
	}
	return a, e.beside(ctx, a, rowsOf)
}

// add appends edges, which are in order.
func (a *Around) add(e *Evaluator, found []edgeAround, rows []float32, places map[store.NodeID]uint32) {
	columns, has := e.edges.featureColumns(), e.edges.carried()
	for _, x := range found {
		a.Dst, a.Src = append(a.Dst, places[x.dst]), append(a.Src, places[x.src])
		if has.hasRelations {
			a.Relations = append(a.Relations, x.relation)
		}
		if has.hasWeights {
			a.Weights = append(a.Weights, x.weight)
		}
		a.Features = append(a.Features, rows[x.row:x.row+columns]...)
	}
}

// edgesIntoNodes calls fn for every edge into some nodes, with its ends' numbers in the store.
func (e *Evaluator) edgesIntoNodes(ctx context.Context, nodes []store.NodeID, fn func(d, s uint32, x about)) error {
	m := e.src.Manifest()
	to, err := newNodeSet(m.Partitions, m.Nodes)
	if err != nil {
		return err
	}
	defer to.free()
	for _, v := range nodes {
		to.add(uint64(v))
	}
	to.seal()
	everything := Tile{Hi: len(m.Partitions), Nodes: int(m.Nodes)}
	return e.edges.some(ctx, everything, everything, selection{to: to}, fn)
}

// count sets how many edges lead into each node; those of last are read for it.
func (e *Evaluator) count(ctx context.Context, a *Around, last []store.NodeID, places map[store.NodeID]uint32) error {
	a.Degrees = make([]int32, len(a.Nodes))
	weighs := e.edges.carried().hasWeights
	if weighs {
		a.Sums = make([]float64, len(a.Nodes))
	}
	for i, d := range a.Dst {
		a.Degrees[d]++
		if weighs {
			a.Sums[d] += float64(a.Weights[i])
		}
	}
	if len(last) == 0 {
		return nil
	}
	return e.edgesIntoNodes(ctx, last, func(d, _ uint32, x about) {
		at := places[store.NodeID(d)]
		a.Degrees[at]++
		if weighs {
			a.Sums[at] += float64(x.weight)
		}
	})
}

// beside reads what lies beside the nodes.
func (e *Evaluator) beside(ctx context.Context, a *Around, rowsOf RowsOf) error {
	for k, c := range e.columns {
		rows, err := rowsOf(ctx, c.Name, a.Nodes, nil)
		if err != nil {
			return err
		}
		e.forget(k, rows)
		a.Rows = append(a.Rows, rows)
	}
	if e.typeColumn != "" {
		a.Types = make([]uint32, len(a.Nodes))
		if _, err := rowsOf(ctx, e.typeColumn, a.Nodes, blocks.Bytes(a.Types)); err != nil {
			return err
		}
	}
	return e.vectorsBeside(ctx, a)
}

// vectorsBeside reads the learned vectors of nodes that lie in a table.
func (e *Evaluator) vectorsBeside(ctx context.Context, a *Around) error {
	x, m := e.o.Vectors, e.src.Manifest()
	if x == nil {
		return nil
	}
	byPartition := make([][]uint32, len(m.Partitions)) // places of its nodes
	for i, v := range a.Nodes {
		p, err := m.Partition(v)
		if err != nil {
			return err
		}
		byPartition[p] = append(byPartition[p], uint32(i))
	}
	row := 4 * e.o.Model.Hidden
	of := map[uint32][]byte{} // by place
	for p, places := range byPartition {
		if len(places) == 0 || x.Of.Rows[p] == 0 {
			continue
		}
		types, err := e.src.ReadColumn(ctx, store.TypeColumn, store.PartitionID(p), nil)
		if err != nil {
			return err
		}
		table, err := x.Read(ctx, store.PartitionID(p))
		if err != nil {
			return err
		}
		at := x.Of.Places(nil, types)
		for _, i := range places {
			if k, ok := slices.BinarySearch(at, uint32(a.Nodes[i]-m.Partitions[p].First)); ok {
				of[i] = slices.Clone(table[k*row : (k+1)*row])
			}
		}
	}
	for i := range a.Nodes {
		if b, ok := of[uint32(i)]; ok {
			a.Vectors.At, a.Vectors.Rows = append(a.Vectors.At, uint32(i)), append(a.Vectors.Rows, b...)
		}
	}
	return nil
}
