package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// NeighborOptions say which neighbours are read. The zero value: the sources of the edges into a node.
type NeighborOptions struct {
	// Out reads the destinations of the edges from a node instead. Of an undirected graph both are the same.
	Out bool
	// Relations reads each edge's relation too, where the store has a column of them.
	Relations bool
	// MemoryBytes bounds what is read of the topology at a time, a bucket at least; default 16 MiB. The result is beside it.
	MemoryBytes int64
}

// Neighbors are the neighbours of a list of nodes: those of node i are Nodes[Indptr[i]:Indptr[i+1]], ascending.
type Neighbors struct {
	Indptr    []int64
	Nodes     []NodeID
	Relations []RelationID // parallel to Nodes; nil if not asked for or the store has none
}

const neighborReadBytes = 16 << 20

// hit is an edge of one of the nodes asked for.
type hit struct {
	node      int32 // its position among the distinct nodes
	relation  RelationID
	neighbour NodeID
}

// Neighbors reads the neighbours of given nodes. A node may be asked for any number of times; one that there is not is
// [ErrNotFound]. Parallel edges are neighbours as often; an undirected edge from a node to itself is one.
//
// What is read are edge buckets: of a node's partition those with edges into it, and for the other direction
// one of every partition, so that many nodes at a time cost little more than one.
func (s *Store) Neighbors(ctx context.Context, nodes []NodeID, o NeighborOptions) (_ *Neighbors, err error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	distinct := slices.Clone(nodes)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	r := &neighbourReader{s: s, wanted: make([]map[uint32]int32, len(s.manifest.Partitions))}
	for i, v := range distinct {
		p, err := s.manifest.Partition(v)
		if err != nil {
			return nil, err
		}
		if r.wanted[p] == nil {
			r.wanted[p] = map[uint32]int32{}
		}
		r.wanted[p][uint32(v-s.manifest.Partitions[p].First)] = int32(i)
	}
	var columns []*ColumnInfo
	if o.Relations {
		columns = s.manifest.ColumnsOf(RoleRelation)
	}
	r.relation = len(columns) > 0
	if o.MemoryBytes == 0 {
		o.MemoryBytes = neighborReadBytes
	}
	stripes := s.ReadStripes(columns, o.MemoryBytes, 0)
	defer func() { err = errors.Join(err, stripes.Close()) }()
	undirected := s.manifest.Schema.Undirected
	if undirected || !o.Out {
		if err := r.into(ctx, stripes); err != nil {
			return nil, err
		}
	}
	if undirected || o.Out {
		if err := r.outOf(ctx, stripes, undirected); err != nil {
			return nil, err
		}
	}
	return r.list(nodes, distinct), nil
}

type neighbourReader struct {
	s        *Store
	relation bool
	wanted   []map[uint32]int32 // by partition: position among the distinct nodes by local id
	hits     []hit
}

// into reads the edges into the nodes: of each one's partition the whole stripe.
func (r *neighbourReader) into(ctx context.Context, stripes *StripeReader) error {
	parts := r.s.manifest.Partitions
	for j, wanted := range r.wanted {
		if wanted == nil {
			continue
		}
		err := stripes.Stripe(ctx, PartitionID(j), 0, len(parts), func(b *BucketPart) error {
			e, first := 0, parts[b.Src].First
			for dst, src := range b.All() {
				if i, ok := wanted[dst]; ok {
					if err := r.add(b, i, e, first+NodeID(src)); err != nil {
						return err
					}
				}
				e++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// outOf reads the edges from the nodes: of every stripe the buckets from their partitions. noLoops leaves out those from a
// node to itself, which into has.
func (r *neighbourReader) outOf(ctx context.Context, stripes *StripeReader, noLoops bool) error {
	parts := r.s.manifest.Partitions
	for j := range parts {
		for lo := 0; lo < len(parts); lo++ {
			if r.wanted[lo] == nil {
				continue
			}
			hi := lo + 1 // a run of partitions is read at once
			for hi < len(parts) && r.wanted[hi] != nil {
				hi++
			}
			err := stripes.Stripe(ctx, PartitionID(j), lo, hi, func(b *BucketPart) error {
				e, wanted := 0, r.wanted[b.Src]
				for dst, src := range b.All() {
					if i, ok := wanted[src]; ok && !(noLoops && b.Src == b.Dst && src == dst) {
						if err := r.add(b, i, e, parts[j].First+NodeID(dst)); err != nil {
							return err
						}
					}
					e++
				}
				return nil
			})
			if err != nil {
				return err
			}
			lo = hi
		}
	}
	return nil
}

// add notes that edge e of a bucket leads from or to the distinct node i.
func (r *neighbourReader) add(b *BucketPart, i int32, e int, neighbour NodeID) error {
	h := hit{node: i, neighbour: neighbour}
	if r.relation {
		c := r.s.manifest.ColumnsOf(RoleRelation)[0]
		h.relation = RelationID(c.Elem.Float64(b.Columns[0][e*c.RowBytes():]))
		if int(h.relation) >= len(r.s.manifest.Schema.Relations) {
			return fmt.Errorf("%w: edge bucket (%d,%d): relation %d of %d", ErrInvalid, b.Src, b.Dst, h.relation, len(r.s.manifest.Schema.Relations))
		}
	}
	r.hits = append(r.hits, h)
	return nil
}

// list sorts what was found by node and neighbour, and gives every node asked for its own.
func (r *neighbourReader) list(nodes, distinct []NodeID) *Neighbors {
	slices.SortStableFunc(r.hits, func(a, b hit) int {
		if a.node != b.node {
			return int(a.node) - int(b.node)
		}
		if a.neighbour < b.neighbour {
			return -1
		}
		if a.neighbour > b.neighbour {
			return 1
		}
		return 0
	})
	begin := make([]int, len(distinct)+1)
	for _, h := range r.hits {
		begin[h.node+1]++
	}
	for i := range distinct {
		begin[i+1] += begin[i]
	}
	n := &Neighbors{Indptr: make([]int64, 1, len(nodes)+1)}
	if r.relation {
		n.Relations = []RelationID{}
	}
	for _, v := range nodes {
		i, _ := slices.BinarySearch(distinct, v)
		for _, h := range r.hits[begin[i]:begin[i+1]] {
			n.Nodes = append(n.Nodes, h.neighbour)
			if r.relation {
				n.Relations = append(n.Relations, h.relation)
			}
		}
		n.Indptr = append(n.Indptr, int64(len(n.Nodes)))
	}
	return n
}
