// Package storegraph shows a store's topology to package partitioner: as a
// stream of edges, as a graph within a memory budget, with its training
// labels, and with the partitions it has.
//
// Node ids here are the version's internal ids, in 32 bits.
package storegraph

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/partitioner/graph"
	"github.com/gstore/gstore/store"
)

// Graph is a [partitioner.Graph] to be closed after use.
type Graph interface {
	graph.Graph
	io.Closer
}

// readBytes is what reading edges takes, unless a bucket is larger.
const readBytes = 8 << 20

// Edges streams all stored edges, stripe by stripe, checked, some buckets at a time.
func Edges(ctx context.Context, s *store.Store) graph.Edges {
	return edges(ctx, s, 0, len(s.Manifest().Partitions))
}

// EdgesOf streams the edges of some nodes as [Edges] has them, and those of all other nodes in the same partitions; of
// other partitions' stripes only these nodes' buckets are read.
func EdgesOf(ctx context.Context, s *store.Store) graph.EdgesOf {
	parts := s.Manifest().Partitions
	return func(first, last uint32) (graph.Edges, uint32) {
		lo := sort.Search(len(parts), func(p int) bool { return uint64(parts[p].First)+parts[p].Nodes > uint64(first) })
		hi := sort.Search(len(parts), func(p int) bool { return uint64(parts[p].First) > uint64(last) })
		return edges(ctx, s, lo, hi), uint32(uint64(parts[hi-1].First)+parts[hi-1].Nodes) - 1
	}
}

// edges streams those with an end in partitions lo … hi−1.
func edges(ctx context.Context, s *store.Store, lo, hi int) graph.Edges {
	return func(yield func(src, dst []uint32) error) (err error) {
		const batch = 1 << 14
		src, dst := make([]uint32, 0, batch), make([]uint32, 0, batch)
		parts := s.Manifest().Partitions
		stripes := s.ReadStripes(nil, readBytes, 0)
		defer func() { err = errors.Join(err, stripes.Close()) }()
		for j := range parts {
			firstDst := uint32(parts[j].First)
			from, to := lo, hi
			if j >= lo && j < hi {
				from, to = 0, len(parts)
			}
			err := stripes.Stripe(ctx, store.PartitionID(j), from, to, func(b *store.BucketPart) error {
				firstSrc := uint32(parts[b.Src].First)
				for d, s := range b.All() {
					src, dst = append(src, firstSrc+s), append(dst, firstDst+d)
					if len(src) == batch {
						if err := yield(src, dst); err != nil {
							return err
						}
						src, dst = src[:0], dst[:0]
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return yield(src, dst)
	}
}

// LeastBytes is the smallest Budget.Stream with which s's graph opens.
func LeastBytes(s *store.Store) (int64, error) {
	read, err := s.ReadStripes(nil, readBytes, 0).Need()
	return graph.SpilledBytes(s.Manifest().Nodes) + read, err
}

// Budget is what a graph may take: Array bytes as an array of all lists beside an algorithm
// that reads them in any order, else Stream bytes as lists in a file beside one that reads them front to
// back, which needs less. Both 0 mean no bound.
type Budget struct{ Array, Stream int64 }

// Open reads s's topology into a graph within a budget: an array of
// all lists if that fits, else lists in an unnamed file in dir.
// Too small a budget is partitioner.ErrBudget.
func Open(ctx context.Context, s *store.Store, dir string, budget Budget) (Graph, error) {
	return open(ctx, s, dir, budget, s.Manifest().Nodes, Edges(ctx, s), EdgesOf(ctx, s))
}

// OpenRest is Open of the graph that is left without training nodes, of s's internal ids; its own are counted among the others.
func OpenRest(ctx context.Context, s *store.Store, dir string, budget Budget, training *partitioner.Training) (Graph, error) {
	return open(ctx, s, dir, budget, training.Rest(), training.RestEdges(Edges(ctx, s)), nil)
}

// open reads edges, no more than s has, between so many nodes; near are those of some of them, nil if they are not told apart.
func open(ctx context.Context, s *store.Store, dir string, budget Budget, nodes uint64, edges graph.Edges, near graph.EdgesOf) (Graph, error) {
	m := s.Manifest()
	if m.Nodes > partitioner.MaxNodes {
		return nil, fmt.Errorf("%w: %d nodes, at most %d can be partitioned", partitioner.ErrOption, m.Nodes, uint64(partitioner.MaxNodes))
	}
	read, err := s.ReadStripes(nil, readBytes, 0).Need()
	if err != nil {
		return nil, err
	}
	if need := graph.CSRBytes(nodes, m.Edges) + read; budget == (Budget{}) || need <= budget.Array {
		return graph.BuildCSR(nodes, edges, false)
	}
	if need := graph.SpilledBytes(nodes) + read; need > budget.Stream {
		return nil, fmt.Errorf("%w: the graph of %d nodes takes at least %d bytes, the budget has %d", partitioner.ErrBudget, nodes, need, budget.Stream)
	}
	return graph.Spill(ctx, dir, nodes, edges, near, budget.Stream-read)
}

// Classes returns, by internal id, 0 for nodes that are no training nodes and 1+label for those
// that are: the first label column and the named split ("" = the first, or every labelled node
// where there is none). nil if the store has no labels.
func Classes(ctx context.Context, s *store.Store, split string) ([]uint16, error) {
	m := s.Manifest()
	labels := m.Labels()
	if labels == nil {
		return nil, nil
	}
	var splitColumn *store.ColumnInfo
	for _, c := range m.ColumnsOf(store.RoleSplit) {
		if split == "" || c.Name == split {
			splitColumn = c
			break
		}
	}
	if splitColumn == nil && split != "" {
		return nil, fmt.Errorf("%w: split %q", store.ErrNotFound, split)
	}
	if labels.Elem != blocks.Int32 || labels.Dim != 1 {
		return nil, fmt.Errorf("%w: label column %q is %v × %d, expected one int32", store.ErrInvalid, labels.Name, labels.Elem, labels.Dim)
	}
	classes := make([]uint16, m.Nodes)
	var labelBuf, splitBuf []byte
	for p, info := range m.Partitions {
		var err error
		if labelBuf, err = s.ReadColumn(ctx, labels.Name, store.PartitionID(p), labelBuf); err != nil {
			return nil, err
		}
		values, err := blocks.View[int32](labelBuf)
		if err != nil {
			return nil, err
		}
		if splitColumn != nil {
			if splitBuf, err = s.ReadColumn(ctx, splitColumn.Name, store.PartitionID(p), splitBuf); err != nil {
				return nil, err
			}
		}
		for i, l := range values {
			if l < 0 || splitColumn != nil && splitBuf[i] != store.SplitTrain {
				continue
			}
			if labels.Numbers || labels.Sets != nil { // as if of one class
				l = 0
			}
			if l >= math.MaxUint16 {
				return nil, fmt.Errorf("%w: label %d, at most %d can be balanced", partitioner.ErrOption, l, math.MaxUint16-1)
			}
			classes[uint64(info.First)+uint64(i)] = uint16(l + 1)
		}
	}
	return classes, nil
}

// Training returns the training nodes of a split ("" = the first), by internal id or, if external is set, by
// dense external id. No split is store.ErrNotFound; see [partitioner.NewTraining] for too few or too many.
func Training(ctx context.Context, s *store.Store, split string, external bool) (*partitioner.Training, error) {
	m := s.Manifest()
	column, err := m.SplitColumn(split)
	if err != nil {
		return nil, err
	}
	member := make([]uint64, (m.Nodes+63)/64)
	var values, idBuf []byte
	for p, info := range m.Partitions {
		if values, err = s.ReadColumn(ctx, column.Name, store.PartitionID(p), values); err != nil {
			return nil, err
		}
		var ids store.ExternalIDs
		if external {
			if ids, idBuf, err = s.ReadExternal(ctx, store.PartitionID(p), idBuf); err != nil {
				return nil, err
			}
		}
		for i, value := range values {
			v := uint64(info.First) + uint64(i)
			if external {
				v = ids.Ints[i]
			}
			if v >= m.Nodes {
				return nil, fmt.Errorf("%w: partition %d: external id %d of %d nodes", store.ErrInvalid, p, v, m.Nodes)
			}
			if value == store.SplitTrain {
				member[v/64] |= 1 << (v % 64)
			}
		}
	}
	return partitioner.NewTraining(m.Nodes, member)
}

// Current returns the partitions that the version has. Pinned ones are the last: partitions of an append, which lie
// behind them in the store, come before.
func Current(s *store.Store) (*partitioner.Assignment, error) {
	m := s.Manifest()
	part := make([]blocks.PartitionID, m.Nodes)
	loose, last := blocks.PartitionID(0), blocks.PartitionID(len(m.Partitions)-len(m.Pinned))
	var pinned []blocks.PartitionID
	for p, info := range m.Partitions {
		number := &loose
		if slices.Contains(m.Pinned, store.PartitionID(p)) {
			number = &last
			pinned = append(pinned, last)
		}
		for i := range info.Nodes {
			part[uint64(info.First)+i] = *number
		}
		*number++
	}
	return partitioner.NewAssignment(part, len(m.Partitions), pinned...)
}

// ByExternal turns an assignment of dense external ids, such as an imported one, into that of s's internal ids.
func ByExternal(ctx context.Context, s *store.Store, a partitioner.Assigner) (*partitioner.Assignment, error) {
	m := s.Manifest()
	if m.IDs.Kind != store.IDsDense || a.Nodes() != m.Nodes {
		return nil, fmt.Errorf("%w: %d nodes are assigned by dense ids, the store has %d with ids that are %s", partitioner.ErrOption, a.Nodes(), m.Nodes, m.IDs.Kind)
	}
	part, of := make([]blocks.PartitionID, m.Nodes), partitioner.Materialize(a).Part()
	var buf []byte
	for p, info := range m.Partitions {
		ids, b, err := s.ReadExternal(ctx, store.PartitionID(p), buf)
		if err != nil {
			return nil, err
		}
		buf = b
		for i, x := range ids.Ints {
			if x >= m.Nodes {
				return nil, fmt.Errorf("%w: partition %d: external id %d of %d nodes", store.ErrInvalid, p, x, m.Nodes)
			}
			part[uint64(info.First)+uint64(i)] = of[x]
		}
	}
	return partitioner.NewAssignment(part, a.Partitions(), a.Pinned()...)
}

// NodeBytes is what a node takes in its partition: features, labels and other node columns.
func NodeBytes(m *store.Manifest) int64 {
	var n int64
	for _, c := range m.Columns {
		if !c.Role.OnEdges() {
			n += int64(c.RowBytes())
		}
	}
	return n
}
