package repartition

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
)

// stretch is a run of rows of a partition whose source ids follow each other.
type stretch struct {
	part  store.PartitionID
	kind  int    // node type
	first uint64 // row
	rows  uint64
	id    uint64 // source id of the first
}

// stretchesMost bounds the pieces in which a store is read type by type: one that knows no types and whose nodes were moved before has one
// for each pair of its partitions before and after.
const stretchesMost = 1 << 16

// orderByType numbers nodes type by type, if the store says of as many nodes as its schema what type they are of. It stays with internal ids if it does not,
// or if types lie in too many pieces.
func (src *storeSource) orderByType(ctx context.Context) error {
	types := src.m.Schema.NodeTypes
	if len(types) < 2 {
		return nil
	}
	var order []stretch
	counts := make([]uint64, len(types)+1) // from 1
	add := func(p store.PartitionID, kind int, first, rows uint64) {
		if kind == 0 { // appended without saying of what type: the schema counts them to the last
			kind = len(types)
		}
		counts[kind] += rows
		if k := len(order) - 1; k >= 0 && order[k].part == p && order[k].kind == kind {
			order[k].rows += rows
		} else if rows > 0 && len(order) <= stretchesMost {
			order = append(order, stretch{part: p, kind: kind, first: first, rows: rows})
		}
	}
	for p, info := range src.m.Partitions {
		first := uint64(0)
		for t, n := range info.Types {
			add(store.PartitionID(p), t+1, first, uint64(n))
			first += uint64(n)
		}
	}
	if slices.ContainsFunc(src.m.Partitions, func(p store.PartitionInfo) bool { return p.Types == nil }) {
		if _, ok := src.m.Category(store.TypeColumn); !ok {
			return nil
		}
		clear(counts)
		order = order[:0]
		err := src.pieces(ctx, 4, src.column(store.TypeColumn), func(first uint64, rows []byte) error {
			p, err := src.m.Partition(store.NodeID(first))
			row := first - uint64(src.m.Partitions[p].First)
			for ; err == nil && len(rows) > 0; rows, row = rows[4:], row+1 {
				kind := binary.LittleEndian.Uint32(rows)
				if uint64(kind) >= uint64(len(counts)) {
					return fmt.Errorf("%w: column %s says type %d of %d", store.ErrInvalid, store.TypeColumn, kind, len(types))
				}
				add(p, int(kind), row, 1)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for t := range types {
		if counts[t+1] != types[t].Count {
			return nil
		}
	}
	if len(order) > stretchesMost {
		src.notes = append(src.notes, fmt.Sprintf("nodes of the store's %d types lie in more than %d pieces: every column has a row for every node", len(types), stretchesMost))
		return nil
	}
	slices.SortStableFunc(order, func(a, b stretch) int { return cmp.Compare(a.kind, b.kind) })
	src.known, src.order = true, order
	src.number()
	return nil
}

// number gives source ids to nodes in src.order.
func (src *storeSource) number() {
	next := uint64(0)
	src.rows = make([][]stretch, len(src.m.Partitions))
	for i := range src.order {
		t := &src.order[i]
		t.id, next = next, next+t.rows
		src.rows[t.part] = append(src.rows[t.part], *t)
	}
	for _, rows := range src.rows {
		slices.SortFunc(rows, func(a, b stretch) int { return cmp.Compare(a.first, b.first) })
	}
}

// id is the source id of a row of a partition.
func (src *storeSource) id(p store.PartitionID, row uint64) uint64 {
	rows := src.rows[p]
	for len(rows) > 1 { // few: one a type, if nodes were not moved before types were known
		if half := len(rows) / 2; row < rows[half].first {
			rows = rows[:half]
		} else {
			rows = rows[half:]
		}
	}
	return rows[0].id + row - rows[0].first
}

// renumbered is an assignment of a store's nodes by source ids; that within is by internal ids.
type renumbered struct {
	partitioner.Assigner
	src *storeSource
}

// Nodes is how many have source ids.
func (a renumbered) Nodes() uint64 { return uint64(a.src.desc.Nodes) }

// Assign implements [partitioner.Assigner].
func (a renumbered) Assign(first uint64, dst []blocks.PartitionID) {
	i, _ := slices.BinarySearchFunc(a.src.order, first, func(t stretch, id uint64) int {
		if t.id+t.rows <= id {
			return -1
		}
		return 1
	})
	for ; len(dst) > 0; i++ {
		t := &a.src.order[i]
		n := min(uint64(len(dst)), t.id+t.rows-first)
		a.Assigner.Assign(uint64(a.src.m.Partitions[t.part].First)+t.first+first-t.id, dst[:n])
		first, dst = first+n, dst[n:]
	}
}
