package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/source"
)

// orderTypes finds run.typeEnds.
func (r *Job) orderTypes(ctx context.Context) error {
	r.typeEnds = r.endsOfTypes()
	if !r.Desc.TypesByColumn {
		return nil
	}
	total := uint64(0)
	for _, t := range r.Desc.NodeTypes {
		total += uint64(max(t.Count, 0))
	}
	if total != r.State.Nodes {
		return source.Inputf(r.Desc.Input, "node types of %d nodes (meta.json), the input has %d", total, r.State.Nodes)
	}
	column := slices.IndexFunc(r.Desc.NodeColumns, func(c source.ColumnSpec) bool { return c.Name == store.TypeColumn })
	if follows, err := r.followsTypes(ctx, column); err != nil {
		return err
	} else if !follows {
		r.typeEnds = nil
	}
	return nil
}

// endsOfTypes are where the source ids of each type end, if they count type by type.
func (r *Job) endsOfTypes() (ends []uint64) {
	resumed := len(r.State.Partitions) > 0 && r.State.Partitions[0].Types == nil // by a build that knew no types
	if len(r.Desc.NodeTypes) < 2 || r.Dictionary != nil && !r.Desc.TypesByPrefix || resumed || r.Kept != nil && !r.Kept.Typed() {
		return nil
	}
	end := uint64(0)
	for _, t := range r.Desc.NodeTypes {
		end += uint64(max(t.Count, 0))
		ends = append(ends, end)
	}
	if end != r.State.Nodes {
		return nil
	}
	return ends
}

// CountTypes counts the nodes of each type by partition; nil for each where types are not known. Rows ascend with source ids, so in every
// partition each type is a run of them.
func (r *Job) countTypes() [][]uint32 {
	counts := make([][]uint32, r.Layout.Partitions())
	for t := range r.typeEnds {
		for p := range counts {
			counts[p] = append(counts[p], 0)
		}
		for id, end := r.typeIDs(t); id < end; id++ {
			counts[r.Places.Of(id)>>r.Layout.LocalBits][t]++
		}
	}
	return counts
}

// ofType makes the rows of a column of one node type runs of that type's, where partitions know types. The source has rows of ids first ≤ id < end.
func (r *Job) ofType(of Streamed, first, end uint64) Streamed {
	t := slices.IndexFunc(r.Desc.NodeTypes, func(t source.NodeType) bool { return t.Name == of.Column.NodeType })
	if r.typeEnds == nil || t < 0 {
		return of
	}
	lo, hi := r.typeIDs(t)
	switch {
	case first <= lo && hi <= end: // all of the type's, and maybe others'
		of.Column.Runs = true
		of.first, of.end = first, end
	case lo <= first && end <= hi:
		of.Column.Runs = true
		of.first, of.end = lo, hi
	}
	return of
}

// followsTypes reports whether node column c says of every node the number of its type, so that it needs no file.
func (r *Job) followsTypes(ctx context.Context, c int) (bool, error) {
	spec := &r.Desc.NodeColumns[c]
	all := spec.First == 0 && (spec.Rows < 0 || uint64(spec.Rows) == r.Layout.Nodes)
	if r.typeEnds == nil || spec.Name != store.TypeColumn || spec.Role != store.RoleNode || spec.Elem != blocks.Uint32 || spec.Dim != 1 || spec.Keyed || !all {
		return false, nil
	}
	id, t := uint64(0), 0
	err := r.Source.Rows(ctx, r.Env(), c, func(rows []byte, _ source.Position) error {
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
	return err == nil && id == r.Layout.Nodes, err
}

// typeIDs are the source ids of a node type, which count type by type.
func (r *Job) typeIDs(t int) (first, end uint64) {
	if t > 0 {
		first = r.typeEnds[t-1]
	}
	return first, r.typeEnds[t]
}

// splitType makes a split of nodes of one type, by dense id, a run of that type's rows.
func (r *Job) splitType(of Streamed, parts []byte) Streamed {
	for t := range r.typeEnds {
		lo, hi := r.typeIDs(t)
		if bytes.Count(parts[lo:hi], []byte{store.SplitNone}) == int(hi-lo) {
			continue
		}
		if of.Column.NodeType != "" { // of a second type
			of.Column.NodeType = ""
			return of
		}
		of.Column.NodeType = r.Desc.NodeTypes[t].Name
	}
	return r.ofType(of, 0, r.Layout.Nodes)
}
