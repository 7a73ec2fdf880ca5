package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
)

// places maps dense ids to places (see layout): 4 bytes a node where places
// fit, 8 otherwise, off the Go heap. It is the one array of the ingester that
// grows with the nodes, and is random-accessed for every edge.
type places struct {
	mem    []byte
	narrow []uint32
	wide   []uint64
	nodes  uint64
}

// placeBytes is the size of the map of n nodes under layout bits.
func placeBytes(n uint64, placeBits uint) int64 {
	if placeBits <= 32 {
		return int64(n) * 4
	}
	return int64(n) * 8
}

// assignBatch is how many nodes are assigned at once.
const assignBatch = 1 << 16

// partitionSizes counts the nodes of each partition.
func partitionSizes(ctx context.Context, a partitioner.Assigner) ([]uint32, error) {
	sizes := make([]uint32, a.Partitions())
	if known, ok := a.(partitioner.Sized); ok {
		for p := range sizes {
			sizes[p] = uint32(known.Size(blocks.PartitionID(p)))
		}
		return sizes, nil
	}
	err := eachAssigned(ctx, a, func(_ uint64, parts []blocks.PartitionID) {
		for _, p := range parts {
			sizes[p]++
		}
	})
	return sizes, err
}

func eachAssigned(ctx context.Context, a partitioner.Assigner, fn func(first uint64, parts []blocks.PartitionID)) error {
	buf := make([]blocks.PartitionID, assignBatch)
	for first := uint64(0); first < a.Nodes(); first += assignBatch {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(assignBatch, a.Nodes()-first)]
		a.Assign(first, b)
		fn(first, b)
	}
	return nil
}

// allocPlaces makes a map of n nodes for the places of l.
func allocPlaces(n uint64, l *layout) (*places, error) {
	m := &places{nodes: n}
	mem, err := offHeap(placeBytes(n, l.placeBits()))
	if err != nil {
		return nil, fmt.Errorf("map of %d nodes: %w", n, err)
	}
	m.mem = mem
	if l.placeBits() <= 32 {
		m.narrow, err = blocks.View[uint32](mem)
	} else {
		m.wide, err = blocks.View[uint64](mem)
	}
	return m, err
}

// newPlaces numbers the nodes of each partition by ascending dense id.
func newPlaces(ctx context.Context, a partitioner.Assigner, l *layout) (*places, error) {
	m, err := allocPlaces(a.Nodes(), l)
	if err != nil {
		return nil, err
	}
	next := make([]uint64, l.partitions())
	for p := range next {
		next[p] = uint64(p) << l.localBits
	}
	err = eachAssigned(ctx, a, func(first uint64, parts []blocks.PartitionID) {
		for i, p := range parts {
			m.set(first+uint64(i), next[p])
			next[p]++
		}
	})
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *places) set(id, place uint64) {
	if m.narrow != nil {
		m.narrow[id] = uint32(place)
	} else {
		m.wide[id] = place
	}
}

func (m *places) of(id uint64) uint64 {
	if m.narrow != nil {
		return uint64(m.narrow[id])
	}
	return m.wide[id]
}

// lookup replaces ids by places. It returns the index of the first id out of
// range, −1 if there is none.
func (m *places) lookup(ids, out []uint64) int {
	if m.narrow != nil {
		return lookupPlaces(m.narrow, ids, out)
	}
	return lookupPlaces(m.wide, ids, out)
}

func lookupPlaces[T uint32 | uint64](m []T, ids, out []uint64) int {
	out = out[:len(ids)]
	for i, id := range ids {
		if id >= uint64(len(m)) {
			return i
		}
		out[i] = uint64(m[id])
	}
	return -1
}

// Close frees the map.
func (m *places) Close() {
	freeOffHeap(m.mem)
	m.mem, m.narrow, m.wide = nil, nil, nil
}

// orderTypes finds run.typeEnds.
func (r *run) orderTypes(ctx context.Context) error {
	r.typeEnds = r.endsOfTypes()
	if !r.desc.TypesByColumn {
		return nil
	}
	total := uint64(0)
	for _, t := range r.desc.NodeTypes {
		total += uint64(max(t.Count, 0))
	}
	if total != r.state.Nodes {
		return Inputf(r.desc.Input, "node types of %d nodes (meta.json), the input has %d", total, r.state.Nodes)
	}
	column := slices.IndexFunc(r.desc.NodeColumns, func(c ColumnSpec) bool { return c.Name == store.TypeColumn })
	if follows, err := r.followsTypes(ctx, column); err != nil {
		return err
	} else if !follows {
		r.typeEnds = nil
	}
	return nil
}

// endsOfTypes are where the source ids of each type end, if they count type by type.
func (r *run) endsOfTypes() (ends []uint64) {
	resumed := len(r.state.Partitions) > 0 && r.state.Partitions[0].Types == nil // by a build that knew no types
	if len(r.desc.NodeTypes) < 2 || r.dict != nil && !r.desc.TypesByPrefix || resumed || r.kept != nil && !r.kept.typed {
		return nil
	}
	end := uint64(0)
	for _, t := range r.desc.NodeTypes {
		end += uint64(max(t.Count, 0))
		ends = append(ends, end)
	}
	if end != r.state.Nodes {
		return nil
	}
	return ends
}

// countTypes counts the nodes of each type by partition; nil for each where types are not known. Rows ascend with source ids, so in every
// partition each type is a run of them.
func (r *run) countTypes() [][]uint32 {
	counts := make([][]uint32, r.layout.partitions())
	for t := range r.typeEnds {
		for p := range counts {
			counts[p] = append(counts[p], 0)
		}
		for id, end := r.typeIDs(t); id < end; id++ {
			counts[r.places.of(id)>>r.layout.localBits][t]++
		}
	}
	return counts
}

// ofType makes the rows of a column of one node type runs of that type's, where partitions know types. The source has rows of ids first ≤ id < end.
func (r *run) ofType(of streamed, first, end uint64) streamed {
	t := slices.IndexFunc(r.desc.NodeTypes, func(t NodeType) bool { return t.Name == of.column.NodeType })
	if r.typeEnds == nil || t < 0 {
		return of
	}
	lo, hi := r.typeIDs(t)
	switch {
	case first <= lo && hi <= end: // all of the type's, and maybe others'
		of.column.Runs = true
		of.first, of.end = first, end
	case lo <= first && end <= hi:
		of.column.Runs = true
		of.first, of.end = lo, hi
	}
	return of
}

// followsTypes reports whether node column c says of every node the number of its type, so that it needs no file.
func (r *run) followsTypes(ctx context.Context, c int) (bool, error) {
	spec := &r.desc.NodeColumns[c]
	all := spec.First == 0 && (spec.Rows < 0 || uint64(spec.Rows) == r.layout.nodes)
	if r.typeEnds == nil || spec.Name != store.TypeColumn || spec.Role != store.RoleNode || spec.Elem != blocks.Uint32 || spec.Dim != 1 || spec.Keyed || !all {
		return false, nil
	}
	id, t := uint64(0), 0
	err := r.src.Rows(ctx, r.srcEnv(), c, func(rows []byte, _ Position) error {
		for ; len(rows) >= 4; rows = rows[4:] {
			for t < len(r.typeEnds) && id >= r.typeEnds[t] {
				t++
			}
			if binary.LittleEndian.Uint32(rows) != uint32(t+1) {
				return errOtherTypes
			}
			id++
		}
		return ctx.Err()
	})
	if errors.Is(err, errOtherTypes) {
		return false, nil
	}
	return err == nil && id == r.layout.nodes, err
}

// typeIDs are the source ids of a node type, which count type by type.
func (r *run) typeIDs(t int) (first, end uint64) {
	if t > 0 {
		first = r.typeEnds[t-1]
	}
	return first, r.typeEnds[t]
}

// splitType makes a split of nodes of one type, by dense id, a run of that type's rows.
func (r *run) splitType(of streamed, parts []byte) streamed {
	for t := range r.typeEnds {
		lo, hi := r.typeIDs(t)
		if bytes.Count(parts[lo:hi], []byte{store.SplitNone}) == int(hi-lo) {
			continue
		}
		if of.column.NodeType != "" { // of a second type
			of.column.NodeType = ""
			return of
		}
		of.column.NodeType = r.desc.NodeTypes[t].Name
	}
	return r.ofType(of, 0, r.layout.nodes)
}
