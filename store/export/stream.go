package export

import (
	"context"
	"errors"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// NodeRows is some nodes with their rows, valid during the call.
type NodeRows struct {
	N    int
	Ints []uint64           // external ids; nil for strings
	Text func(i int) []byte // node i's string id
	Rows [][]byte           // of each column
}

// Nodes calls emit with all nodes and their rows of columns, in the order in which [Run] writes them: by external id where these are
// 0 … nodes−1, in the store's order elsewhere. A column without Read is the store's of that name, as it is stored. Memory is as of [Options].
func Nodes(ctx context.Context, s *store.Store, columns []NodeColumn, o Options, emit func(r *NodeRows) error) (err error) {
	x := &exporter{s: s, m: s.Manifest()}
	for i := range columns {
		if columns[i].Read != nil {
			continue
		}
		c, err := x.m.Column(columns[i].Name)
		if err != nil {
			return err
		}
		columns[i].Elem, columns[i].Dim, columns[i].Read = c.Elem, c.Dim, x.storeRows(c)
	}
	o.Extra, o.What = columns, []What{}
	if err := o.Validate(); err != nil {
		return err
	}
	x.o = o.withDefaults()
	if x.room = (x.o.MemoryBytes - x.fixedBytes()) / 2; x.room < 4<<20 {
		return x.tooSmall(4 << 20)
	}
	x.ids = newIDCache(s, x.room)
	defer x.ids.Close()
	if x.slab, err = blockio.AllocSlab(blocks.RangeBytes(4<<20), blockio.SlabOptions{Lazy: true}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.slab.Free()) }()
	x.scratch = x.slab.Bytes()
	return x.nodes(ctx, columns, func(b *nodeBatch) error { return emit(&NodeRows{N: b.N, Ints: b.Ints, Text: b.text, Rows: b.Rows}) })
}

// Names finds the external ids of nodes, of many at a time. It is for one goroutine.
type Names struct {
	cache *idCache
}

// OpenNames finds ids within roomBytes beside [NamesBytes]: what room there is keeps ids in memory.
func OpenNames(s *store.Store, roomBytes int64) *Names {
	return &Names{cache: newIDCache(s, roomBytes)}
}

// NamesBytes is the least that finding ids takes: those of the largest partition.
func NamesBytes(s *store.Store) (most int64, err error) {
	for p := range s.Manifest().Partitions {
		_, e, err := s.Files().External(store.PartitionID(p))
		if err != nil {
			return 0, err
		}
		most = max(most, e.Length)
	}
	return most, nil
}

// Of returns the external ids of nodes: integers, or text where the store's ids are strings.
func (x *Names) Of(ctx context.Context, nodes []store.NodeID) (ints []uint64, text [][]byte, err error) {
	if x.cache.s.Manifest().IDs.Kind == store.IDsStrings {
		text = make([][]byte, len(nodes))
	} else {
		ints = make([]uint64, len(nodes))
	}
	return ints, text, x.cache.resolve(ctx, nodes, ints, text)
}

// Close frees memory.
func (x *Names) Close() { x.cache.Close() }
