package eval

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
)

// loadTypes returns the types of a tile of a set's nodes, valid until those of another are asked for; nil of a model that
// reads none.
func (r *evaluation) loadTypes(ctx context.Context, set *nodeSet, t Tile) ([]uint32, error) {
	if r.typeColumn == "" || t.Nodes == 0 {
		return nil, nil
	}
	if r.typesOf == t && r.typesIn == set {
		return blocks.View[uint32](r.types.Bytes()[:4*t.Nodes])
	}
	r.typesOf, r.typesIn = Tile{}, nil
	parts, room := r.src.Manifest().Partitions, int64(4*t.Nodes)
	for p := t.Lo; p < t.Hi; p++ { // a partition's are read as a whole, and lie behind those before
		if set.in(p) > 0 {
			room = max(room, 4*(int64(set.first[p]-t.Base)+int64(parts[p].Nodes)))
		}
	}
	if err := spill.Grow(&r.types, room); err != nil {
		return nil, err
	}
	for p := t.Lo; p < t.Hi; p++ {
		at, size := 4*int(set.first[p]-t.Base), 4*int(parts[p].Nodes)
		if set.in(p) == 0 {
			continue
		}
		dst := r.types.Bytes()[at : at+size : at+size]
		b, err := r.src.ReadColumn(ctx, r.typeColumn, store.PartitionID(p), dst)
		if err != nil {
			return nil, err
		}
		if len(b) != size {
			return nil, fmt.Errorf("evaluation: column %s of partition %d has %d bytes, expected %d", r.typeColumn, p, len(b), size)
		}
		set.pick(dst, b, p, 4)
		stored, err := r.src.ColumnBytes(r.typeColumn, store.PartitionID(p))
		if err != nil {
			return nil, err
		}
		r.Evaluator.read += stored
	}
	r.typesOf, r.typesIn = t, set
	return blocks.View[uint32](r.types.Bytes()[:4*t.Nodes])
}
