package export

import (
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// nodeBatch is some nodes in output order. Its slices are valid until the
// callback returns.
type nodeBatch struct {
	First uint64 // position of the first
	N     int
	Ints  []uint64 // external ids; nil for strings
	Text  store.ExternalIDs
	from  int      // node k's string is number from+k of Text
	Rows  [][]byte // of each column, as stored
}

// text returns node k's string id.
func (b *nodeBatch) text(k int) []byte { return b.Text.Strings.At(b.from + k) }

// nodeBatchRows is the most nodes of a batch.
const nodeBatchRows = 1 << 14

// nodes streams all nodes: by ascending external id where these are dense, in
// the store's order elsewhere.
func (x *exporter) nodes(ctx context.Context, columns []NodeColumn, emit func(b *nodeBatch) error) error {
	x.phase("nodes", "nodes", int64(x.m.Nodes))
	if x.m.IDs.Kind == store.IDsDense {
		return x.nodesByID(ctx, columns, emit)
	}
	width := 0
	for _, c := range columns {
		width += c.RowBytes()
	}
	step := uint64(max(1, min(nodeBatchRows, x.room/4/int64(max(1, width)))))
	slab, err := blockio.AllocSlab(int64(step)*int64(width)+8*int64(len(columns))+8, blockio.SlabOptions{Lazy: true})
	if err != nil {
		return err
	}
	defer func() { _ = slab.Free() }()
	b := &nodeBatch{Rows: make([][]byte, len(columns))}
	for p, info := range x.m.Partitions {
		id := store.PartitionID(p)
		ids, err := x.ids.of(ctx, id, srcEnd)
		if err != nil {
			return err
		}
		for at := uint64(0); at < info.Nodes; at += step {
			n := min(step, info.Nodes-at)
			b.First, b.N, b.from, b.Text = uint64(info.First)+at, int(n), int(at), ids
			if ids.Ints != nil {
				b.Ints = ids.Ints[at : at+n]
			}
			free := slab.Bytes()
			for c := range columns {
				size := int(n) * columns[c].RowBytes()
				b.Rows[c], free = free[:size:size], free[(size+7)&^7:]
				if err := columns[c].Read(ctx, id, at, b.Rows[c]); err != nil {
					return err
				}
			}
			if err := emit(b); err != nil {
				return err
			}
			x.tick(int64(n))
		}
	}
	return nil
}

// tile is a run of external ids whose rows are gathered in memory.
//
// Nodes of a partition mostly lie by ascending external id (ingest numbers
// them so), then a tile is one range of each partition and every row is read
// once. Where they do not (after a re-partition), it costs up to one reading of
// the columns a tile.
type tile struct {
	internal []uint64 // by position in the tile
	part     []uint32
	order    []uint32 // positions, by partition
	counts   []uint32 // where each partition begins in order
	columns  [][]byte
	piece    []byte // rows of one partition, as read
}

// tilePieceBytes is the most that is read of a partition at once.
const tilePieceBytes = 4 << 20

// nodesByID streams nodes by ascending dense external id.
func (x *exporter) nodesByID(ctx context.Context, columns []NodeColumn, emit func(b *nodeBatch) error) error {
	widest, width := 1, 16 // internal, part, order
	for _, c := range columns {
		width += c.RowBytes()
		widest = max(widest, c.RowBytes())
	}
	piece := int64(max(widest, int(min(tilePieceBytes, x.room/8))/widest*widest))
	rows := min(x.m.Nodes, uint64(max(0, x.room-piece-4*int64(len(x.m.Partitions)))/int64(width)), 1<<32-1)
	if rows == 0 && x.m.Nodes > 0 {
		return x.tooSmall(piece + 4*int64(len(x.m.Partitions)) + 1024*int64(width))
	}
	slab, err := blockio.AllocSlab(max(8, int64(rows)*int64(width)+piece+64*int64(len(columns)+8)), blockio.SlabOptions{Lazy: true})
	if err != nil {
		return err
	}
	defer func() { _ = slab.Free() }()
	t, err := newTile(slab.Bytes(), int(rows), columns, int(piece), len(x.m.Partitions))
	if err != nil {
		return err
	}
	ids := &mapReader{s: x.s}
	b := &nodeBatch{Rows: make([][]byte, len(columns)), Ints: make([]uint64, 0, nodeBatchRows)}
	for first := uint64(0); first < x.m.Nodes; first += rows {
		n := int(min(rows, x.m.Nodes-first))
		if err := ids.read(first, t.internal[:n]); err != nil {
			return err
		}
		if err := t.group(x.m, n); err != nil {
			return err
		}
		for c := range columns {
			if err := t.gather(ctx, x.m, c, &columns[c]); err != nil {
				return err
			}
		}
		for at := 0; at < n; at += nodeBatchRows {
			b.First, b.N, b.Ints = first+uint64(at), min(nodeBatchRows, n-at), b.Ints[:0]
			for k := range b.N {
				b.Ints = append(b.Ints, b.First+uint64(k))
			}
			for c := range columns {
				w := columns[c].RowBytes()
				b.Rows[c] = t.columns[c][at*w : (at+b.N)*w]
			}
			if err := emit(b); err != nil {
				return err
			}
			x.tick(int64(b.N))
		}
	}
	return nil
}

// newTile lays a tile of n rows out in mem.
func newTile(mem []byte, n int, columns []NodeColumn, piece, partitions int) (*tile, error) {
	take := func(size int) []byte {
		b := mem[:size:size]
		mem = mem[(size+7)&^7:]
		return b
	}
	t := &tile{counts: make([]uint32, partitions+1)}
	var err error
	if t.internal, err = blocks.View[uint64](take(8 * n)); err != nil {
		return nil, err
	}
	if t.part, err = blocks.View[uint32](take(4 * n)); err != nil {
		return nil, err
	}
	if t.order, err = blocks.View[uint32](take(4 * n)); err != nil {
		return nil, err
	}
	for _, c := range columns {
		t.columns = append(t.columns, take(n*c.RowBytes()))
	}
	t.piece = take(piece)
	return t, nil
}

// group sorts the tile's n positions by partition and, within, by internal id.
func (t *tile) group(m *store.Manifest, n int) error {
	clear(t.counts)
	for k, id := range t.internal[:n] {
		p, err := m.Partition(store.NodeID(id))
		if err != nil {
			return err
		}
		t.part[k] = uint32(p)
		t.counts[p+1]++
	}
	for p := range len(t.counts) - 1 {
		t.counts[p+1] += t.counts[p]
	}
	for k, p := range t.part[:n] {
		t.order[t.counts[p]] = uint32(k)
		t.counts[p]++
	}
	copy(t.counts[1:], t.counts) // each count has become its partition's end
	t.counts[0] = 0
	byID := func(a, b uint32) int {
		if t.internal[a] < t.internal[b] {
			return -1
		}
		return 1
	}
	for p := range len(t.counts) - 1 {
		if run := t.order[t.counts[p]:t.counts[p+1]]; !slices.IsSortedFunc(run, byID) {
			slices.SortFunc(run, byID)
		}
	}
	return nil
}

// gather reads one column's rows of the tile.
func (t *tile) gather(ctx context.Context, m *store.Manifest, c int, column *NodeColumn) error {
	width := column.RowBytes()
	per := uint64(len(t.piece) / width)
	for p := range len(t.counts) - 1 {
		run := t.order[t.counts[p]:t.counts[p+1]]
		base := uint64(m.Partitions[p].First)
		for len(run) > 0 {
			first := t.internal[run[0]]
			n := 1
			for n < len(run) && t.internal[run[n]]-first < per {
				n++
			}
			rows := t.piece[:int(t.internal[run[n-1]]-first+1)*width]
			if err := column.Read(ctx, store.PartitionID(p), first-base, rows); err != nil {
				return fmt.Errorf("column %s: %w", column.Name, err)
			}
			for _, k := range run[:n] {
				copy(t.columns[c][int(k)*width:(int(k)+1)*width], rows[int(t.internal[k]-first)*width:])
			}
			run = run[n:]
		}
	}
	return nil
}
