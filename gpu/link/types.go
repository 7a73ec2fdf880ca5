package link

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/sampler/negative"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// typeColumn is the column of nodes' types by which answers are told from nodes that can be none: "" where there are no types,
// or edges of several relations are predicted.
func (c *Config) typeColumn(m *store.Manifest) string {
	if len(m.Schema.NodeTypes) < 2 || c.Relation == "" && len(m.Schema.Relations) > 1 {
		return ""
	}
	if _, ok := m.Category(store.TypeColumn); !ok { // ingested by a version that made none
		return ""
	}
	return store.TypeColumn
}

// typedEdges is how many edges of a list are looked at for the types of their ends.
const typedEdges = 4096

// answerTypes says of which types answers are, of what [Config.typeColumn] names: those of the ends of edges to be ranked. nil: of any.
func (c *Config) answerTypes(ctx context.Context, st *store.Store) (_ *eval.AnswerTypes, err error) {
	m := st.Manifest()
	relation, err := c.predicted(m)
	name := c.typeColumn(m)
	if err != nil || name == "" {
		return nil, err
	}
	column, err := m.Column(name)
	if err != nil {
		return nil, err
	}
	// Both ends of some edges, by side.
	var ends [2][]store.NodeID
	for _, l := range m.EdgeLists {
		edges, err := st.EdgeList(ctx, l.Name)
		if err != nil {
			return nil, err
		}
		for n := 0; n < typedEdges && edges.Next(); {
			if e := edges.Edge(); relation == nil || e.Relation == *relation {
				ends[negative.Tail], ends[negative.Head] = append(ends[negative.Tail], e.Dst), append(ends[negative.Head], e.Src)
				n++
			}
		}
		if err := edges.Err(); err != nil {
			return nil, err
		}
	}
	if len(ends[0]) == 0 {
		return nil, nil
	}
	read := &storedFeatures{st: st, columns: []*store.ColumnInfo{column}}
	defer func() { err = errors.Join(err, read.close()) }()
	found := [2][]bool{make([]bool, len(m.Schema.NodeTypes)+1), make([]bool, len(m.Schema.NodeTypes)+1)}
	for side, nodes := range ends {
		slices.Sort(nodes)
		for p, part := range m.Partitions {
			end, _ := slices.BinarySearch(nodes, part.First+store.NodeID(part.Nodes))
			if end == 0 {
				continue
			}
			b, _, err := read.read(ctx, store.PartitionID(p), 0)
			if err != nil {
				return nil, err
			}
			for _, v := range nodes[:end] {
				if k := binary.LittleEndian.Uint32(b[4*(v-part.First):]); int(k) < len(found[side]) {
					found[side][k] = true
				}
			}
			nodes = nodes[end:]
		}
	}
	return &eval.AnswerTypes{Column: name, Tails: found[negative.Tail], Heads: found[negative.Head]}, nil
}

// typedPools are, by side, what wrong answers are drawn from: of pool those of the answers' types, the macro-batch's last column.
func typedPools(mb *buffer.MacroBatch, pool *negative.Pool, types *eval.AnswerTypes) (pools [2]*negative.Pool, err error) {
	pools = [2]*negative.Pool{pool, pool}
	if types == nil {
		return pools, nil
	}
	c := &mb.Features[len(mb.Features)-1]
	kinds, err := blocks.View[uint32](c.Data)
	if err != nil {
		return pools, err
	}
	for side, of := range [2][]bool{negative.Tail: types.Tails, negative.Head: types.Heads} {
		typed := pool.Where(func(row uint32) bool {
			k := kinds[int(row)*c.Stride/4]
			return int(k) < len(of) && of[k]
		})
		if typed != nil {
			pools[side] = typed
		}
	}
	return pools, nil
}

// typesBytes is what typedPools take with capacity partitions resident (0 = all).
func (c *Config) typesBytes(m *store.Manifest, capacity int) int64 {
	if c.typeColumn(m) == "" {
		return 0
	}
	var nodes []int64
	for _, p := range m.Partitions {
		nodes = append(nodes, int64(p.Nodes))
	}
	return 2 * 4 * largest(nodes, capacity)
}
