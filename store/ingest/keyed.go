package ingest

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/scratch"
	"github.com/gstore/gstore/store/ingest/source"
)

// keyed is the source as one with tables of nodes; nil if it has none.
func (r *Job) keyed() source.KeyedSource {
	if !r.Desc.Keyed {
		return nil
	}
	k, ok := r.Source.(source.KeyedSource)
	if !ok {
		return nil
	}
	return k
}

// eachRow streams the rows of node column c in any order, without their nodes.
func (r *Job) eachRow(ctx context.Context, c int, fn func(rows []byte, at source.Position) error) error {
	if !r.Desc.NodeColumns[c].Keyed {
		return r.Source.Rows(ctx, r.Env(), c, fn)
	}
	k := r.keyed()
	if k == nil {
		return fmt.Errorf("ingest: column %s is keyed, its source is no KeyedSource", r.Desc.NodeColumns[c].Name)
	}
	return k.KeyedRows(ctx, r.Env(), c, func(_ *source.IDs, rows []byte, at source.Position) error { return fn(rows, at) })
}

// eachKeyed streams the rows of keyed column c with dense ids.
func (r *Job) eachKeyed(ctx context.Context, c int, fn func(ids []uint64, rows []byte, at source.Position) error) error {
	spec := &r.Desc.NodeColumns[c]
	k := r.keyed()
	if k == nil {
		return fmt.Errorf("ingest: column %s is keyed, its source is no KeyedSource", spec.Name)
	}
	var dense []uint64
	return k.KeyedRows(ctx, r.Env(), c, func(ids *source.IDs, rows []byte, at source.Position) error {
		if len(rows) != ids.Len()*spec.RowBytes() {
			return source.Inputf(at.Of(0), "%d bytes of column %s for %d nodes", len(rows), spec.Name, ids.Len())
		}
		var err error
		if dense, err = r.denseIDsOf(ids, dense, at); err != nil {
			return err
		}
		return fn(dense, rows, at)
	})
}

// denseIDsOf returns the dense ids of source ids, in out or in place.
func (r *Job) denseIDsOf(ids *source.IDs, out []uint64, at source.Position) ([]uint64, error) {
	if r.Dictionary != nil {
		return r.Dictionary.Translate(ids, out, at)
	}
	for i, id := range ids.Ints {
		if id >= r.State.Nodes {
			return nil, source.Inputf(at.Of(i), "node %d, expected 0 ≤ id < %d", int64(id), r.State.Nodes)
		}
	}
	return ids.Ints, nil
}

// keyedShare is the part of a column's memory that distributes rows; the rest
// puts them in order.
const keyedShare = 2

// keyedColumn writes keyed column c: rows are distributed over runs of
// partitions (in memory while it lasts, then in a spill file), then each run is
// put in order in windows that fit the memory. Every row is written at most
// twice, and read once for each window of its run.
//
// Where extents hold the rows of one node type alone (of.column.Runs), rows are numbered within the column, not by internal id.
func (r *Job) keyedColumn(ctx context.Context, c int, conv *Converter, of Streamed) (ref store.FileRef, err error) {
	spec := &r.Desc.NodeColumns[c]
	row := len(conv.missing)
	cut := r.cutRows(&of.Column)
	seenBytes := int64(cut.first[len(cut.first)-1]+7) / 8
	memory := (r.Budget.columns - seenBytes) / keyedShare
	chunk, shardsMax := edges.PlanChunks(memory, 1, min(r.Layout.Partitions(), 256))
	if least := (8 + row + blocks.ChunkBytes - 1) / blocks.ChunkBytes * blocks.ChunkBytes; chunk < least {
		chunk, shardsMax = least, max(1, min(shardsMax, int(memory/2/int64(least))))
	}
	per := (r.Layout.Partitions() + shardsMax - 1) / shardsMax // partitions a shard
	sh, err := edges.NewShards(r.Writer.FS(), r.Writer.FS().PathJoin(r.Writer.TempDir(), "column.spill"), edges.ShardPlan{
		Shards: (r.Layout.Partitions() + per - 1) / per, ChunkBytes: chunk, Payload: row, Writers: 1, MemoryBytes: memory})
	if err != nil {
		return ref, err
	}
	defer func() { _ = sh.Close() }()
	seen, err := scratch.Alloc(seenBytes)
	if err != nil {
		return ref, err
	}
	defer scratch.Free(seen)
	var out []byte
	var found uint64 // rows
	err = r.eachKeyed(ctx, c, func(ids []uint64, rows []byte, at source.Position) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if out, err = conv.Convert(out[:0], rows, at); err != nil {
			return err
		}
		for i, id := range ids {
			place := r.Places.Of(id)
			p := place >> r.Layout.LocalBits
			local := place & (1<<r.Layout.LocalBits - 1)
			if !cut.stored[p].Stored(local) {
				return source.Inputf(at.Of(i), "a row of column %s for a node that is not of type %s", spec.Name, of.Column.NodeType)
			}
			number := cut.first[p] + local - cut.stored[p].First
			if seen[number/8]>>(number%8)&1 != 0 {
				return source.Inputf(at.Of(i), "a second row of column %s for the same node", spec.Name)
			}
			seen[number/8] |= 1 << (number % 8)
			if err := sh.Writers[0].Put(int(p)/per, number, out[i*row:(i+1)*row]); err != nil {
				return err
			}
		}
		found += uint64(len(ids))
		r.Tick(int64(len(ids)))
		return nil
	})
	if err != nil {
		return ref, err
	}
	r.noteRowless(spec, cut.first[len(cut.first)-1]-found)
	sh.Finish()
	r.State.BytesSpilled += sh.Spilled.Load()
	return r.writeKeyed(ctx, spec, conv, sh, per, cut)
}

// noteRowless tells once of each node type how many of its nodes no table has a row for: a wrong table, or ends of edges in the wrong order,
// would show by that alone.
func (r *Job) noteRowless(spec *source.ColumnSpec, n uint64) {
	if n == 0 || r.Kept != nil || r.rowless[spec.NodeType] {
		return
	}
	if r.rowless == nil {
		r.rowless = map[string]bool{}
	}
	r.rowless[spec.NodeType] = true
	of := r.Layout.Nodes
	for k, t := range r.Manifest.Schema.NodeTypes {
		if t.Name == spec.NodeType {
			of = r.Manifest.Schema.NodeTypes[k].Count
		}
	}
	what := "nodes"
	if spec.NodeType != "" {
		what = fmt.Sprintf("nodes of type %s", spec.NodeType)
	}
	r.note("%d of %d %s have no row for %s: edges alone name them", n, of, what, spec.Name)
}

// rowCut numbers the rows of a column of nodes, those that are stored, one partition's behind another's.
type rowCut struct {
	stored []store.NodeRows // by partition
	first  []uint64         // number of each partition's first row; behind them, of all
}

// cutRows numbers the stored rows of column c.
func (r *Job) cutRows(c *store.ColumnInfo) *rowCut {
	x := &rowCut{first: []uint64{0}}
	for p, n := range r.Layout.Sizes {
		rows := store.NodeRows{Rows: uint64(n), Nodes: uint64(n)}
		if c.Runs {
			rows = r.Manifest.NodeRows(c, store.PartitionID(p))
		}
		x.stored, x.first = append(x.stored, rows), append(x.first, x.first[p]+rows.Rows)
	}
	return x
}

// Sizes are the rows of each partition.
func (x *rowCut) sizes() (rows []uint32) {
	for _, r := range x.stored {
		rows = append(rows, uint32(r.Rows))
	}
	return rows
}

// writeKeyed writes the distributed rows, and the missing ones, partition by partition.
func (r *Job) writeKeyed(ctx context.Context, spec *source.ColumnSpec, conv *Converter, sh *edges.Shards, per int, cut *rowCut) (ref store.FileRef, err error) {
	h := blocks.Header{Kind: blocks.NodeColumn, Elem: conv.Elem, Dim: uint32(conv.dim()), Name: spec.Name, Partitions: uint32(r.FirstPart + r.Layout.Partitions())}
	name, w, err := r.Writer.CreateFile(FileBase(spec.Name), h)
	if err != nil {
		return ref, err
	}
	defer func() {
		if err != nil {
			_ = w.Abort()
		}
	}()
	row := uint64(len(conv.missing))
	largest := uint64(0) // rows of a shard
	for shard := range sh.Lists {
		lo, hi := cut.first[shard*per], cut.first[min((shard+1)*per, r.Layout.Partitions())]
		largest = max(largest, hi-lo)
	}
	memory := uint64(max(r.Budget.columns-sh.ResidentBytes(), r.Budget.columns/(2*keyedShare)))
	window, err := scratch.Alloc(int64(min(max(1, memory/row), largest) * row))
	if err != nil {
		return ref, err
	}
	defer scratch.Free(window)
	spare := make([]byte, sh.ChunkBytes)
	windowRows := uint64(len(window)) / row
	out := &extentRows{w: w, sizes: cut.sizes(), base: r.FirstPart, row: int(row), part: -1}
	for shard := range sh.Lists {
		first, last := shard*per, min((shard+1)*per, r.Layout.Partitions())
		for lo, end := cut.first[first], cut.first[last]; lo < end; lo += windowRows {
			hi := min(lo+windowRows, end)
			rows := window[:(hi-lo)*row]
			for i := range hi - lo {
				copy(rows[i*row:], conv.missing)
			}
			err := sh.Read(shard, spare, func(keys []uint64, payload []byte) error {
				for i, k := range keys {
					if k >= lo && k < hi {
						copy(rows[(k-lo)*row:], payload[uint64(i)*row:uint64(i+1)*row])
					}
				}
				return ctx.Err()
			})
			if err == nil {
				err = out.write(rows)
			}
			if err != nil {
				return ref, err
			}
		}
	}
	if err := out.finish(); err != nil {
		return ref, err
	}
	info, err := w.Close()
	return store.Ref(name, info), err
}

// extentRows cuts rows that come in the order of their numbers in the column into an extent a partition.
type extentRows struct {
	w     *blocks.Writer
	sizes []uint32
	base  int // id of the first extent
	row   int
	part  int // open; −1 = none yet
	left  int // bytes of it to come
}

func (x *extentRows) next() error {
	if x.part >= 0 {
		if err := x.w.End(uint64(x.sizes[x.part])); err != nil {
			return err
		}
	}
	if x.part++; x.part == len(x.sizes) {
		return nil
	}
	x.left = int(x.sizes[x.part]) * x.row
	return x.w.Begin(uint64(x.base + x.part))
}

// Write takes the next rows.
func (x *extentRows) write(b []byte) error {
	for len(b) > 0 {
		if x.left == 0 {
			if err := x.next(); err != nil {
				return err
			}
			continue
		}
		n := min(x.left, len(b))
		if _, err := x.w.Write(b[:n]); err != nil {
			return err
		}
		x.left, b = x.left-n, b[n:]
	}
	return nil
}

// Finish ends the last extent; partitions without nodes have empty ones.
func (x *extentRows) finish() error {
	for x.part < len(x.sizes) {
		if err := x.next(); err != nil {
			return err
		}
	}
	return nil
}
