package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// edgeRules say which edges are stored and how.
type edgeRules struct {
	undirected bool
	dedup      Dedup
	selfLoops  SelfLoops
	relations  int  // number of relations; 0 = the source has no relation column
	wide       bool // relations take two bytes, however few there are
	columns    []ColumnSpec
}

// relationBytes is the width of the relation column, 0 without one.
func (r *edgeRules) relationBytes() int {
	switch {
	case r.relations == 0:
		return 0
	case r.relations <= 1<<8 && !r.wide:
		return 1
	}
	return 2
}

// drops reports whether duplicates are dropped.
func (r *edgeRules) drops() bool { return r.dedup == DedupRelation || r.dedup == DedupPair }

// equalBytes is how much of the relation must be equal, beside the ends, for edges to be duplicates.
func (r *edgeRules) equalBytes() int {
	if r.dedup == DedupPair {
		return 0
	}
	return r.relationBytes()
}

// RelationsMax is the most relations of a store: the column is at most 16 bits wide.
const RelationsMax = 1 << 16

// payloadBytes is what an edge carries beside its ends: relation, then columns.
func (r *edgeRules) payloadBytes() int {
	n := r.relationBytes()
	for _, c := range r.columns {
		n += c.RowBytes()
	}
	return n
}

// payloadBits is payloadBytes if it could ride in a key, 0 otherwise.
func (r *edgeRules) payloadBits() uint {
	if n := r.payloadBytes(); n <= 4 {
		return uint(8 * n)
	}
	return 0
}

// edgeScatter is the first pass over edges: source ids → keys in shards.
type edgeScatter struct {
	rules  edgeRules
	layout *layout
	places *places
	shards *shards
	read   atomic.Int64
	loops  atomic.Int64 // dropped
	done   func(n int64)
	work   []scatterScratch // by worker
	old    *oldStripes      // of the store that edges are appended to; nil
}

type scatterScratch struct {
	src, dst []uint64
	payload  []byte
	_        [64]byte // workers' scratch in different cache lines
}

// add takes a batch of edges with dense ids.
func (s *edgeScatter) add(worker int, b *EdgeBatch) error {
	n := b.Len()
	if err := s.checkBatch(b, n); err != nil {
		return err
	}
	w := &s.work[worker]
	if cap(w.src) < n {
		w.src, w.dst = make([]uint64, n), make([]uint64, n)
	}
	src, dst := w.src[:n], w.dst[:n]
	if bad := s.places.lookup(b.Src.Ints, src); bad >= 0 {
		return s.rangeError(b, bad, "src", b.Src.Ints[bad])
	}
	if bad := s.places.lookup(b.Dst.Ints, dst); bad >= 0 {
		return s.rangeError(b, bad, "dst", b.Dst.Ints[bad])
	}
	if s.rules.undirected {
		for i, d := range dst {
			src[i], dst[i] = min(src[i], d), max(src[i], d)
		}
	}
	out := s.shards.writers[worker]
	var err error
	if s.rules.payloadBytes() == 0 {
		err = s.scatterKeys(out, src, dst)
	} else {
		err = s.scatterRecords(out, w, src, dst, b)
	}
	s.read.Add(int64(n))
	s.done(int64(n))
	return err
}

func (s *edgeScatter) checkBatch(b *EdgeBatch, n int) error {
	if b.Dst.Len() != n || len(b.Src.Ints) != n || len(b.Dst.Ints) != n {
		return Inputf(b.At.Of(0), "%d sources and %d destinations in a batch", n, b.Dst.Len())
	}
	if s.rules.relations > 0 {
		if len(b.Relations) != n {
			return Inputf(b.At.Of(0), "%d relations for %d edges", len(b.Relations), n)
		}
		for i, r := range b.Relations {
			if int(r) >= s.rules.relations {
				return Inputf(b.At.Of(i), "relation %d, expected less than %d", r, s.rules.relations)
			}
		}
	}
	if len(b.Columns) != len(s.rules.columns) {
		return Inputf(b.At.Of(0), "%d edge columns, expected %d", len(b.Columns), len(s.rules.columns))
	}
	for c, rows := range b.Columns {
		if want := n * s.rules.columns[c].RowBytes(); len(rows) != want {
			return Inputf(b.At.Of(0), "edge column %s has %d bytes for %d edges, expected %d", s.rules.columns[c].Name, len(rows), n, want)
		}
		spec := &s.rules.columns[c]
		if i := notFinite(spec.Elem, rows); i >= 0 {
			return Inputf(b.At.Of(i/spec.Dim), "%s is %v, expected a finite number", spec.Name, spec.Elem.Float64(rows[i*spec.Elem.Size():]))
		}
	}
	return nil
}

func (s *edgeScatter) rangeError(b *EdgeBatch, i int, end string, id uint64) error {
	if int64(id) < 0 {
		return Inputf(b.At.Of(i), "%s node %d is negative", end, int64(id))
	}
	return Inputf(b.At.Of(i), "%s node %d, expected less than %d (the number of nodes)", end, id, s.places.nodes)
}

func (s *edgeScatter) scatterKeys(out *scatter, src, dst []uint64) error {
	drop := s.rules.selfLoops != SelfLoopsKeep
	for i, d := range dst {
		if src[i] == d && drop {
			s.loops.Add(1)
			continue
		}
		shard, key := s.layout.key(src[i], d)
		if err := out.putKey(shard, key); err != nil {
			return err
		}
	}
	return nil
}

func (s *edgeScatter) scatterRecords(out *scatter, w *scatterScratch, src, dst []uint64, b *EdgeBatch) error {
	drop := s.rules.selfLoops != SelfLoopsKeep
	width := s.rules.payloadBytes()
	if cap(w.payload) < max(width, 8) {
		w.payload = make([]byte, max(width, 8))
	}
	p := w.payload[:max(width, 8)]
	inline := s.layout.inlineBits
	for i, d := range dst {
		if src[i] == d && drop {
			s.loops.Add(1)
			continue
		}
		s.fillPayload(p, b, i)
		shard, key := s.layout.key(src[i], d)
		var err error
		if inline > 0 {
			// The first byte on top: keys order as the bytes of columns do, in the key or beside it.
			err = out.putKey(shard, key<<inline|binary.BigEndian.Uint64(p)>>(64-inline))
		} else {
			err = out.put(shard, key, p[:width])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fillPayload lays edge i's relation and columns end to end.
func (s *edgeScatter) fillPayload(p []byte, b *EdgeBatch, i int) {
	at := s.rules.relationBytes()
	switch at {
	case 1:
		p[0] = byte(b.Relations[i])
	case 2:
		binary.LittleEndian.PutUint16(p, uint16(b.Relations[i]))
	}
	for c := range s.rules.columns {
		n := s.rules.columns[c].RowBytes()
		copy(p[at:at+n], b.Columns[c][i*n:])
		at += n
	}
}

// addLoops gives every node its self loop, with a payload of zeros; every new one, of an append.
func (s *edgeScatter) addLoops(ctx context.Context) error {
	out := s.shards.writers[0]
	zeros := make([]byte, s.rules.payloadBytes())
	for p, n := range s.layout.sizes {
		if s.old != nil && p < s.old.partitions {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for k := range uint64(n) {
			place := uint64(p)<<s.layout.localBits | k
			shard, key := s.layout.key(place, place)
			var err error
			if s.shards.payload == 0 {
				err = out.putKey(shard, key<<s.layout.inlineBits)
			} else {
				err = out.put(shard, key, zeros)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// edgeFiles is what the second pass writes.
type edgeFiles struct {
	topology *blocks.Writer
	relation *blocks.Writer // nil without relations
	columns  []*blocks.Writer
}

func (f *edgeFiles) all() []*blocks.Writer {
	ws := []*blocks.Writer{f.topology}
	if f.relation != nil {
		ws = append(ws, f.relation)
	}
	return append(ws, f.columns...)
}

// edgeCounts is what the second pass counted.
type edgeCounts struct {
	rows       []uint64 // edges stored, by dst partition
	relations  []uint64 // by relation
	stored     uint64
	duplicates uint64
	written    []bool // rows that were written: all, but for an append
}

// unit is a run of the key space that is sorted in memory at once: a shard, or
// some consecutive buckets of a shard that is larger than memory.
type unit struct {
	shard   int
	from    uint64 // buckets from ≤ b < to, numbered by key >> 2*localBits; to 0 = all
	to      uint64
	records int64
}

// planUnits splits shards that hold more than capacity records into runs of
// whole buckets.
func (s *edgeScatter) planUnits(capacity int64) ([]unit, error) {
	var units []unit
	for k := range s.shards.lists {
		n := s.shards.lists[k].records
		if n <= capacity {
			if n > 0 {
				units = append(units, unit{shard: k, records: n})
			}
			continue
		}
		buckets := make([]uint64, uint64(1)<<(s.layout.groupBits+s.layout.partBits))
		shift := 2*s.layout.localBits + s.layout.inlineBits
		err := s.shards.read(k, make([]byte, s.shards.chunkBytes), func(keys []uint64, _ []byte) error {
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
				return nil, &bucketError{edges: int64(c), bytes: sortNeed(int64(c), s.shards.payload)}
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

// bucketError says that a bucket, which is sorted at once, does not fit the budget. It is a store.ErrBudget.
type bucketError struct {
	edges, bytes int64 // bytes: what sorting it takes
	enough       int64 // a budget that works, in bytes; 0 = not known
}

// Error names the budget.
func (e *bucketError) Error() string {
	s := fmt.Sprintf("%v: one edge bucket holds %d edges, which take %d MiB to sort", store.ErrBudget, e.edges, e.bytes>>20)
	if e.enough > 0 {
		return fmt.Sprintf("%s; %d MiB are enough, or less with more partitions", s, (e.enough+1<<20-1)>>20)
	}
	return s + "; use more memory or more partitions"
}

// Is reports whether target is store.ErrBudget.
func (e *bucketError) Is(target error) bool { return target == store.ErrBudget }

// sortNeed is what sorting so many records at once takes, with the chunk that is read.
func sortNeed(records int64, payload int) int64 {
	return (records+8)*sortBytes(payload) + 256<<10
}

// bucketBudget fills in a budget with which the bucket is sorted: a quarter of what edges have is left for
// sorting, however much of the rest unsorted chunks take.
func (r *run) bucketBudget(err error) error {
	var b *bucketError
	if errors.As(err, &b) {
		b.enough = r.o.MemoryBytes - r.budget.edges + 4*b.bytes
	}
	return err
}

// checkBuckets refuses, before edges are read, a budget in which not even a bucket of average size can be sorted.
func (r *run) checkBuckets() error {
	if r.desc.Edges <= 0 || r.kept != nil || r.o.SelfLoops == SelfLoopsDrop {
		return nil
	}
	p := int64(r.layout.partitions())
	rules := r.rules()
	payload := rules.payloadBytes()
	if r.layout.inlineBits > 0 {
		payload = 0
	}
	average := r.desc.Edges / p / p
	if need := sortNeed(average, payload); need > r.budget.edges {
		return r.bucketBudget(&bucketError{edges: average, bytes: need})
	}
	return nil
}
