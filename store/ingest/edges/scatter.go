// Package edges orders edges within a memory budget. A [Layout] makes an edge one 64-bit key that orders like the store's
// topology; a [Scatter] distributes keys, with the columns of edges, over shards of the key space, in memory while it
// lasts and then in a file; and its Write sorts shard after shard, drops duplicates, merges what a store has already
// ([Old]), and writes stripes and columns. [Places] says where every node lies.
package edges

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/source"
)

// Rules say which edges are stored and how.
type Rules struct {
	Undirected bool
	Drop       bool // duplicates
	Pairs      bool // edges equal in ends are duplicates, whatever their relations
	KeepLoops  bool // edges of a node with itself that the input has
	Relations  int  // number of relations; 0 = the source has no relation column
	Wide       bool // relations take two bytes, however few there are
	Columns    []source.ColumnSpec
}

// RelationBytes is the width of the relation column, 0 without one.
func (r *Rules) RelationBytes() int {
	switch {
	case r.Relations == 0:
		return 0
	case r.Relations <= 1<<8 && !r.Wide:
		return 1
	}
	return 2
}

// equalBytes is how much of the relation must be equal, beside the ends, for edges to be duplicates.
func (r *Rules) equalBytes() int {
	if r.Pairs {
		return 0
	}
	return r.RelationBytes()
}

// PayloadBytes is what an edge carries beside its ends: relation, then columns.
func (r *Rules) PayloadBytes() int {
	n := r.RelationBytes()
	for _, c := range r.Columns {
		n += c.RowBytes()
	}
	return n
}

// PayloadBits is PayloadBytes if it could ride in a key, 0 otherwise.
func (r *Rules) PayloadBits() uint {
	if n := r.PayloadBytes(); n <= 4 {
		return uint(8 * n)
	}
	return 0
}

// Scatter is the first pass over edges: source ids → keys in shards.
type Scatter struct {
	Rules  Rules
	Layout *Layout
	Places *Places
	Shards *Shards
	Read   atomic.Int64
	Loops  atomic.Int64 // dropped
	Done   func(n int64)
	Work   []Scratch // by worker
	Old    *Old      // of the store that edges are appended to; nil
}

// Scratch is one worker's room.
type Scratch struct {
	src, dst []uint64
	payload  []byte
	_        [64]byte // workers' scratch in different cache lines
}

// Add takes a batch of edges with dense ids.
func (s *Scatter) Add(worker int, b *source.EdgeBatch) error {
	n := b.Len()
	if err := s.checkBatch(b, n); err != nil {
		return err
	}
	w := &s.Work[worker]
	if cap(w.src) < n {
		w.src, w.dst = make([]uint64, n), make([]uint64, n)
	}
	src, dst := w.src[:n], w.dst[:n]
	if bad := s.Places.lookup(b.Src.Ints, src); bad >= 0 {
		return s.rangeError(b, bad, "src", b.Src.Ints[bad])
	}
	if bad := s.Places.lookup(b.Dst.Ints, dst); bad >= 0 {
		return s.rangeError(b, bad, "dst", b.Dst.Ints[bad])
	}
	if s.Rules.Undirected {
		for i, d := range dst {
			src[i], dst[i] = min(src[i], d), max(src[i], d)
		}
	}
	out := s.Shards.Writers[worker]
	var err error
	if s.Rules.PayloadBytes() == 0 {
		err = s.scatterKeys(out, src, dst)
	} else {
		err = s.scatterRecords(out, w, src, dst, b)
	}
	s.Read.Add(int64(n))
	s.Done(int64(n))
	return err
}

func (s *Scatter) checkBatch(b *source.EdgeBatch, n int) error {
	if b.Dst.Len() != n || len(b.Src.Ints) != n || len(b.Dst.Ints) != n {
		return source.Inputf(b.At.Of(0), "%d sources and %d destinations in a batch", n, b.Dst.Len())
	}
	if s.Rules.Relations > 0 {
		if len(b.Relations) != n {
			return source.Inputf(b.At.Of(0), "%d relations for %d edges", len(b.Relations), n)
		}
		for i, r := range b.Relations {
			if int(r) >= s.Rules.Relations {
				return source.Inputf(b.At.Of(i), "relation %d, expected less than %d", r, s.Rules.Relations)
			}
		}
	}
	if len(b.Columns) != len(s.Rules.Columns) {
		return source.Inputf(b.At.Of(0), "%d edge columns, expected %d", len(b.Columns), len(s.Rules.Columns))
	}
	for c, rows := range b.Columns {
		if want := n * s.Rules.Columns[c].RowBytes(); len(rows) != want {
			return source.Inputf(b.At.Of(0), "edge column %s has %d bytes for %d edges, expected %d", s.Rules.Columns[c].Name, len(rows), n, want)
		}
		spec := &s.Rules.Columns[c]
		if i := source.NotFinite(spec.Elem, rows); i >= 0 {
			return source.Inputf(b.At.Of(i/spec.Dim), "%s is %v, expected a finite number", spec.Name, spec.Elem.Float64(rows[i*spec.Elem.Size():]))
		}
	}
	return nil
}

func (s *Scatter) rangeError(b *source.EdgeBatch, i int, end string, id uint64) error {
	if int64(id) < 0 {
		return source.Inputf(b.At.Of(i), "%s node %d is negative", end, int64(id))
	}
	return source.Inputf(b.At.Of(i), "%s node %d, expected less than %d (the number of nodes)", end, id, s.Places.nodes)
}

func (s *Scatter) scatterKeys(out *ShardWriter, src, dst []uint64) error {
	drop := !s.Rules.KeepLoops
	for i, d := range dst {
		if src[i] == d && drop {
			s.Loops.Add(1)
			continue
		}
		shard, key := s.Layout.key(src[i], d)
		if err := out.putKey(shard, key); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scatter) scatterRecords(out *ShardWriter, w *Scratch, src, dst []uint64, b *source.EdgeBatch) error {
	drop := !s.Rules.KeepLoops
	width := s.Rules.PayloadBytes()
	if cap(w.payload) < max(width, 8) {
		w.payload = make([]byte, max(width, 8))
	}
	p := w.payload[:max(width, 8)]
	inline := s.Layout.InlineBits
	for i, d := range dst {
		if src[i] == d && drop {
			s.Loops.Add(1)
			continue
		}
		s.fillPayload(p, b, i)
		shard, key := s.Layout.key(src[i], d)
		var err error
		if inline > 0 {
			// The first byte on top: keys order as the bytes of columns do, in the key or beside it.
			err = out.putKey(shard, key<<inline|binary.BigEndian.Uint64(p)>>(64-inline))
		} else {
			err = out.Put(shard, key, p[:width])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fillPayload lays edge i's relation and columns end to end.
func (s *Scatter) fillPayload(p []byte, b *source.EdgeBatch, i int) {
	at := s.Rules.RelationBytes()
	switch at {
	case 1:
		p[0] = byte(b.Relations[i])
	case 2:
		binary.LittleEndian.PutUint16(p, uint16(b.Relations[i]))
	}
	for c := range s.Rules.Columns {
		n := s.Rules.Columns[c].RowBytes()
		copy(p[at:at+n], b.Columns[c][i*n:])
		at += n
	}
}

// AddLoops gives every node its self loop, with a payload of zeros; every new one, of an append.
func (s *Scatter) AddLoops(ctx context.Context) error {
	out := s.Shards.Writers[0]
	zeros := make([]byte, s.Rules.PayloadBytes())
	for p, n := range s.Layout.Sizes {
		if s.Old != nil && p < s.Old.partitions {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for k := range uint64(n) {
			place := uint64(p)<<s.Layout.LocalBits | k
			shard, key := s.Layout.key(place, place)
			var err error
			if s.Shards.payload == 0 {
				err = out.putKey(shard, key<<s.Layout.InlineBits)
			} else {
				err = out.Put(shard, key, zeros)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Files is what the second pass writes.
type Files struct {
	Topology *blocks.Writer
	Relation *blocks.Writer // nil without relations
	Columns  []*blocks.Writer
}

// All lists the files.
func (f *Files) All() []*blocks.Writer {
	ws := []*blocks.Writer{f.Topology}
	if f.Relation != nil {
		ws = append(ws, f.Relation)
	}
	return append(ws, f.Columns...)
}

// Counts is what the second pass counted.
type Counts struct {
	Rows       []uint64 // edges stored, by dst partition
	Relations  []uint64 // by relation
	Stored     uint64
	Duplicates uint64
	Written    []bool // rows that were written: all, but for an append

	Gone          uint64   // stored edges that new ones replaced or deleted
	RelationsGone []uint64 // these, by relation
	Unmatched     uint64   // new edges that no stored one equals; of EqualStay none is looked for unless duplicates are dropped
}

// unit is a run of the key space that is sorted in memory at once: a shard, or
// some consecutive buckets of a shard that is larger than memory.
type unit struct {
	shard   int
	from    uint64 // buckets from ≤ b < to, numbered by key >> 2*LocalBits; to 0 = all
	to      uint64
	records int64
}

// planUnits splits shards that hold more than capacity records into runs of
// whole buckets.
func (s *Scatter) planUnits(capacity int64) ([]unit, error) {
	var units []unit
	for k := range s.Shards.Lists {
		n := s.Shards.Lists[k].Records
		if n <= capacity {
			if n > 0 {
				units = append(units, unit{shard: k, records: n})
			}
			continue
		}
		buckets := make([]uint64, uint64(1)<<(s.Layout.groupBits+s.Layout.partBits))
		shift := 2*s.Layout.LocalBits + s.Layout.InlineBits
		err := s.Shards.Read(k, make([]byte, s.Shards.ChunkBytes), func(keys []uint64, _ []byte) error {
			for _, key := range keys {
				buckets[key>>shift]++
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		u := unit{shard: k}
		for b, c := range buckets {
			if int64(c) > capacity {
				return nil, &BucketError{Edges: int64(c), Bytes: SortNeed(int64(c), s.Shards.payload)}
			}
			if u.records+int64(c) > capacity {
				u.to = uint64(b)
				units = append(units, u)
				u = unit{shard: k, from: uint64(b)}
			}
			u.records += int64(c)
		}
		u.to = uint64(len(buckets))
		units = append(units, u)
	}
	return units, nil
}

// BucketError says that a bucket, which is sorted at once, does not fit the budget. It is a store.ErrBudget.
type BucketError struct {
	Edges, Bytes int64 // bytes: what sorting it takes
	Enough       int64 // a budget that works, in bytes; 0 = not known
}

// Error names the budget.
func (e *BucketError) Error() string {
	s := fmt.Sprintf("%v: one edge bucket holds %d edges, which take %d MiB to sort", store.ErrBudget, e.Edges, e.Bytes>>20)
	if e.Enough > 0 {
		return fmt.Sprintf("%s; %d MiB are enough, or less with more partitions", s, (e.Enough+1<<20-1)>>20)
	}
	return s + "; use more memory or more partitions"
}

// Is reports whether target is store.ErrBudget.
func (e *BucketError) Is(target error) bool { return target == store.ErrBudget }

// SortNeed is what sorting so many records at once takes, with the chunk that is read.
func SortNeed(records int64, payload int) int64 {
	return (records+8)*sortBytes(payload) + 256<<10
}
