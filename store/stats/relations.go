package stats

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// mostBytes bounds what edges are counted in at a time, and the stripes that are read beside it.
const mostBytes = 64 << 20

// MostIn is how many edges of each relation lead to a node at most, [relations]. It streams the topology once if 4 bytes of each node and
// relation of the largest partition fit half of memoryBytes (0: 128 MiB, which is the most that is used), and else once for as many
// relations as do.
func MostIn(ctx context.Context, s *store.Store, memoryBytes int64) (most []int, err error) {
	half := int64(mostBytes)
	if memoryBytes > 0 {
		half = min(half, max(1<<20, memoryBytes/2))
	}
	m := s.Manifest()
	c, err := m.RelationColumn()
	switch {
	case err != nil:
		return nil, err
	case c == nil || m.Schema.Undirected:
		return nil, fmt.Errorf("%w: edges of relations are counted of a directed graph that has some", store.ErrInvalid)
	}
	largest := uint64(1)
	for _, p := range m.Partitions {
		largest = max(largest, p.Nodes)
	}
	relations := len(m.Schema.Relations)
	at := min(relations, max(1, int(half/(4*int64(largest))))) // a time
	most, counts := make([]int, relations), make([]uint32, int(largest)*at)
	stripes := s.ReadStripes([]*store.ColumnInfo{c}, half, 0)
	defer func() { err = errors.Join(err, stripes.Close()) }()
	for lo := 0; lo < relations; lo += at {
		for j := range m.Partitions {
			clear(counts)
			err := stripes.Stripe(ctx, store.PartitionID(j), 0, len(m.Partitions), func(b *store.BucketPart) error {
				k := 0
				for dst := range b.All() {
					r := int(c.Elem.Float64(b.Columns[0][k*c.Elem.Size():]))
					if r >= relations {
						return fmt.Errorf("%w: edge bucket (%d,%d): relation %d of %d", blocks.ErrCorrupt, b.Src, b.Dst, r, relations)
					}
					if k++; r >= lo && r < lo+at {
						n := &counts[int(dst)*at+r-lo]
						*n++
						most[r] = max(most[r], int(*n))
					}
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return most, nil
}
