package eval

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// Around is all that a model reads to say something of some nodes: the nodes within its hops, the edges that lead from one to the next,
// and what lies beside both.
type Around struct {
	Nodes []store.NodeID // those nodes, then those one hop away in ascending order, then those two hops away, …
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

// Message is an edge as a model reads it: of an undirected store each in both directions, of a directed one, where the model reads relations,
// against its direction as an inverse relation.
type Message struct {
	Dst, Src store.NodeID
	Relation uint16
	Weight   float32   // as it counts
	Features []float32 // of a model that reads them: those of [Options].EdgeFeatures
}

// Near is where [Evaluator.Around] reads.
type Near struct {
	// Into calls fn for every message into some nodes, until that reports false.
	Into func(ctx context.Context, nodes []store.NodeID, fn func(x Message) bool) error
	// Rows reads rows of a column of given nodes, as [store.Store.Features] does.
	Rows func(ctx context.Context, column string, nodes []store.NodeID, dst []byte) ([]byte, error)
	// Degrees, if it is not nil, is how many messages lead to a node: Into is not asked for what is only counted, unless they have weights.
	Degrees func(node store.NodeID) (int64, error)
}

// Room is what may be read by [Evaluator.Around]: Bytes, of which an edge takes PerEdge and a node PerNode. The zero value has no bound.
type Room struct{ Bytes, PerEdge, PerNode int64 }

// left reports whether there is room for so many edges and nodes.
func (r *Room) left(edges, nodes int) bool {
	return r.Bytes == 0 || int64(edges)*r.PerEdge+int64(nodes)*r.PerNode <= r.Bytes
}

// Around reads what lies within so many hops of nodes, which are distinct. Degrees and sums of weights of the last hop's nodes are
// read only where a model asks for those of sources. More than there is room for is an error that wraps [store.ErrBudget].
func (e *Evaluator) Around(ctx context.Context, nodes []store.NodeID, hops int, room Room, ofSources bool, near Near) (*Around, error) {
	a := &Around{Nodes: slices.Clone(nodes), Reach: []int{len(nodes)}}
	places := map[store.NodeID]uint32{}
	for i, v := range nodes {
		places[v] = uint32(i)
	}
	frontier := a.Nodes
	for hop := range hops {
		var found []Message
		more := false
		err := near.Into(ctx, frontier, func(x Message) bool {
			if more = !room.left(len(a.Dst)+len(found)+1, len(a.Nodes)); !more {
				found = append(found, x)
			}
			return !more
		})
		if err != nil {
			return nil, err
		}
		var next []store.NodeID
		for _, x := range found {
			if _, ok := places[x.Src]; !ok {
				places[x.Src] = 0
				next = append(next, x.Src)
			}
		}
		edges := len(a.Dst) + len(found)
		if more || !room.left(edges, len(a.Nodes)+len(next)) {
			return nil, fmt.Errorf("%w: more than %d edges lead to it within %d hops: give it more", store.ErrBudget, edges, hop+1)
		}
		slices.Sort(next)
		for _, v := range next {
			places[v] = uint32(len(a.Nodes))
			a.Nodes = append(a.Nodes, v)
		}
		slices.SortStableFunc(found, func(x, y Message) int {
			return cmp.Or(cmp.Compare(places[x.Dst], places[y.Dst]), cmp.Compare(x.Src, y.Src))
		})
		a.add(e.edges.carried(), found, places)
		a.Reach = append(a.Reach, len(a.Nodes))
		frontier = next
	}
	if !ofSources {
		frontier = nil
	}
	if err := e.count(ctx, a, frontier, places, near); err != nil {
		return nil, err
	}
	return a, e.beside(ctx, a, near)
}

// add appends edges, which are in order.
func (a *Around) add(has carried, found []Message, places map[store.NodeID]uint32) {
	for _, x := range found {
		a.Dst, a.Src = append(a.Dst, places[x.Dst]), append(a.Src, places[x.Src])
		if has.hasRelations {
			a.Relations = append(a.Relations, x.Relation)
		}
		if has.hasWeights {
			a.Weights = append(a.Weights, x.Weight)
		}
		a.Features = append(a.Features, x.Features...)
	}
}

// ByPasses reads messages by passes over the partitions that they lead to, of an undirected store over all.
func (e *Evaluator) ByPasses(st *store.Store) Near { return Near{Into: e.intoNodes, Rows: st.Features} }

func (e *Evaluator) intoNodes(ctx context.Context, nodes []store.NodeID, fn func(x Message) bool) error {
	m := e.src.Manifest()
	for _, v := range nodes {
		if uint64(v) >= m.Nodes {
			return fmt.Errorf("evaluation: node %d of %d: %w", v, m.Nodes, store.ErrNotFound)
		}
	}
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
	columns, ended := e.edges.featureColumns(), false
	return e.edges.some(ctx, everything, everything, selection{to: to}, func(d, s uint32, x about) {
		if ended {
			return
		}
		own := Message{Dst: store.NodeID(d), Src: store.NodeID(s), Relation: x.relation, Weight: x.weight}
		if columns > 0 {
			own.Features = make([]float32, columns)
			e.edges.featuresOf(x.edge, own.Features)
		}
		ended = !fn(own)
	})
}

// count sets how many edges lead into each node; those of last are read for it.
func (e *Evaluator) count(ctx context.Context, a *Around, last []store.NodeID, places map[store.NodeID]uint32, near Near) error {
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
	if near.Degrees != nil && !weighs {
		for _, v := range last {
			n, err := near.Degrees(v)
			if err != nil {
				return err
			}
			a.Degrees[places[v]] = int32(min(n, math.MaxInt32))
		}
		return nil
	}
	return near.Into(ctx, last, func(x Message) bool {
		at := places[x.Dst]
		a.Degrees[at]++
		if weighs {
			a.Sums[at] += float64(x.Weight)
		}
		return true
	})
}

// beside reads what lies beside the nodes.
func (e *Evaluator) beside(ctx context.Context, a *Around, near Near) error {
	for k, c := range e.columns {
		rows, err := near.Rows(ctx, c.Name, a.Nodes, nil)
		if err != nil {
			return err
		}
		e.forget(k, rows)
		a.Rows = append(a.Rows, rows)
	}
	if e.typeColumn != "" {
		a.Types = make([]uint32, len(a.Nodes))
		if _, err := near.Rows(ctx, e.typeColumn, a.Nodes, blocks.Bytes(a.Types)); err != nil {
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
		if uint64(v) >= m.Nodes { // one that is not of the store
			continue
		}
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
