// Package dictionary numbers ids, integers or strings, by their rank. A [Dictionary] keeps the ids of a graph in memory
// while they fit, and in sorted runs on disk when they do not; a [Sorter] orders ids with the numbers that they have.
package dictionary

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"

	"github.com/gstore/gstore/store/ingest/scratch"
	"github.com/gstore/gstore/store/ingest/source"
	"github.com/gstore/gstore/store/internal/sorting"
)

// Dictionary maps sparse integer or string ids to dense ones: their rank in
// ascending order, which depends on the set of ids only, not on threads,
// memory or the order of edges. It is filled by many goroutines, then frozen,
// then only read.
//
// Ids are spread over shards by hash, each an open-addressing table off the Go
// heap with a lock, which a batch takes once. When the tables reach the limit
// they go, sorted, to a run on disk and begin anew. A dictionary that fits
// stays in these tables. Any other, in the end, is one sorted file and an
// [idIndex] of 8 to 9 bytes an id: what ids are long, or often seen again, costs disk.
type Dictionary struct {
	Strings bool
	seed    maphash.Seed // of strings; placement only, no result depends on it
	limit   int64        // bytes
	threads int
	Bytes   atomic.Int64
	shards  [dictShards]dictShard
	count   int      // ids, once frozen
	refs    []byte   // frozen, in memory: the ids in ascending order
	order   []uint64 // view of refs: integers, or shard<<40 | offset of strings

	gate   sync.RWMutex // held by add for reading, by spill for writing
	spills int
	Files  Files
	runs   []idRun
	sorted idRun    // frozen, on disk: the ids in ascending order
	Index  *idIndex // nil = in memory
}

const (
	dictShards    = 64
	dictShardBits = 6
)

// dictShard is one table: integers as id+1 in slots, their ranks beside them
// once frozen; strings as records in text, their offsets in slots.
type dictShard struct {
	mu    sync.Mutex
	mem   []byte
	slots []uint64
	ranks []byte // u32 a slot, integers only
	used  int
	text  []byte // records: u32 rank, u32 length, bytes, padded to 4
	end   int
	_     [64]byte
}

const stringRecordBytes = 8

// New makes an empty one that takes at most limit bytes of memory.
func New(isString bool, limit int64, threads int, files Files) *Dictionary {
	return &Dictionary{Strings: isString, seed: maphash.MakeSeed(), limit: limit, threads: max(1, threads), Files: files}
}

// Close frees the tables.
func (d *Dictionary) Close() {
	d.freeTables()
	if d.Index != nil {
		d.Index.Close()
	}
}

func (d *Dictionary) freeTables() {
	for i := range d.shards {
		s := &d.shards[i]
		d.free(s.mem)
		d.free(s.ranks)
		d.free(s.text)
		s.mem, s.slots, s.ranks, s.used, s.text, s.end = nil, nil, nil, 0, nil, 0
	}
	d.free(d.refs)
	d.refs, d.order = nil, nil
}

func hashInt(x uint64) uint64 {
	hi, lo := bits.Mul64(x^0xa0761d6478bd642f, 0xe7037ed1a0b428db)
	return hi ^ lo
}

// Scratch is a worker's room for a batch.
type Scratch struct {
	hashes []uint64
	byPart [dictShards][]uint32
}

// Add enters the ids of a batch.
func (d *Dictionary) Add(ids *source.IDs, w *Scratch) error {
	n := ids.Len()
	w.hashes = slices.Grow(w.hashes[:0], n)[:n]
	for k := range w.byPart {
		w.byPart[k] = w.byPart[k][:0]
	}
	for i := range n {
		var h uint64
		if d.Strings {
			id := ids.At(i)
			if len(id) > IdBytesMax {
				return source.Inputf("ids", "an id of %d bytes (%.40q…), at most %d are possible", len(id), id, IdBytesMax)
			}
			h = maphash.Bytes(d.seed, id)
		} else {
			if ids.Ints[i] == math.MaxUint64 {
				return source.Inputf("ids", "id %d, expected less", ids.Ints[i])
			}
			h = hashInt(ids.Ints[i])
		}
		w.hashes[i] = h
		k := h >> (64 - dictShardBits)
		w.byPart[k] = append(w.byPart[k], uint32(i))
	}
	for k := range w.byPart {
		for list := w.byPart[k]; len(list) > 0; {
			d.gate.RLock()
			spills := d.spills
			n, err := d.addShard(&d.shards[k], ids, list, w.hashes)
			d.gate.RUnlock()
			if list = list[n:]; errors.Is(err, errTablesFull) {
				err = d.spillAfter(spills)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// addShard enters those of ids that which lists, and returns how many it did before an error.
func (d *Dictionary) addShard(s *dictShard, ids *source.IDs, which []uint32, hashes []uint64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, i := range which {
		if 2*(s.used+1) > len(s.slots) {
			if err := d.grow(s); err != nil {
				return n, err
			}
		}
		mask := uint64(len(s.slots) - 1)
		at := hashes[i] & mask
		if !d.Strings {
			key := ids.Ints[i] + 1
			for s.slots[at] != key {
				if s.slots[at] == 0 {
					s.slots[at] = key
					s.used++
					break
				}
				at = (at + 1) & mask
			}
			continue
		}
		id := ids.At(int(i))
		for {
			slot := s.slots[at]
			if slot == 0 {
				off, err := d.record(s, id)
				if err != nil {
					return n, err
				}
				s.slots[at] = hashes[i]&^offsetMask | uint64(off+1)
				s.used++
				break
			}
			if slot&^offsetMask == hashes[i]&^offsetMask && bytes.Equal(s.at(int(slot&offsetMask)-1), id) {
				break
			}
			at = (at + 1) & mask
		}
	}
	return len(which), nil
}

// A string's slot: 24 bits of its hash, 40 of its record's offset plus one.
const offsetMask = 1<<40 - 1

func (s *dictShard) at(off int) []byte {
	n := int(binary.LittleEndian.Uint32(s.text[off+4:]))
	return s.text[off+stringRecordBytes : off+stringRecordBytes+n]
}

// record stores a string and returns its offset.
func (d *Dictionary) record(s *dictShard, id []byte) (int, error) {
	size := (stringRecordBytes + len(id) + 3) &^ 3
	if s.end+size > len(s.text) {
		text, err := d.alloc(int64(max(2*len(s.text), s.end+size, 4096)))
		if err != nil {
			return 0, err
		}
		copy(text, s.text[:s.end])
		d.free(s.text)
		s.text = text
	}
	off := s.end
	binary.LittleEndian.PutUint32(s.text[off+4:], uint32(len(id)))
	copy(s.text[off+stringRecordBytes:], id)
	s.end += size
	return off, nil
}

// errTablesFull says that the tables have reached the limit.
var errTablesFull = errors.New("ingest: the dictionary's tables are full")

func (d *Dictionary) alloc(n int64) ([]byte, error) {
	if d.Bytes.Add(n) > d.limit {
		d.Bytes.Add(-n)
		return nil, errTablesFull
	}
	return scratch.Alloc(n)
}

func (d *Dictionary) free(b []byte) {
	d.Bytes.Add(-int64(len(b)))
	scratch.Free(b)
}

func (d *Dictionary) grow(s *dictShard) error {
	mem, err := d.alloc(max(4096, 2*int64(len(s.mem))))
	if err != nil {
		return err
	}
	slots, err := blocks.View[uint64](mem)
	if err != nil {
		return err
	}
	mask := uint64(len(slots) - 1)
	for _, slot := range s.slots {
		if slot == 0 {
			continue
		}
		h := slot - 1
		if d.Strings {
			h = maphash.Bytes(d.seed, s.at(int(slot&offsetMask)-1))
		} else {
			h = hashInt(h)
		}
		at := h & mask
		for slots[at] != 0 {
			at = (at + 1) & mask
		}
		slots[at] = slot
	}
	d.free(s.mem)
	s.mem, s.slots = mem, slots
	return nil
}

// Freeze ranks the ids. No add may follow.
func (d *Dictionary) Freeze(ctx context.Context) error {
	n, slots := 0, 0
	for k := range d.shards {
		n, slots = n+d.shards[k].used, slots+len(d.shards[k].slots)
	}
	need := 8 * int64(n)
	if !d.Strings { // room to sort, ranks beside the slots
		need += 8*int64(n) + 4*int64(slots)
	}
	if len(d.runs) > 0 || d.Bytes.Load()+need > d.limit {
		return d.ToDisk(ctx)
	}
	if d.count = n; n > partitioner.MaxNodes-1 {
		return tooManyIDs(uint64(n))
	}
	var err error
	if d.refs, err = d.alloc(8 * int64(n)); err != nil {
		return err
	}
	if d.order, err = blocks.View[uint64](d.refs); err != nil {
		return err
	}
	at := 0
	for k := range d.shards {
		for _, slot := range d.shards[k].slots {
			if slot != 0 {
				d.order[at] = slot - 1
				if d.Strings {
					d.order[at] = uint64(k)<<40 | (slot&offsetMask - 1)
				}
				at++
			}
		}
	}
	if d.Strings {
		slices.SortFunc(d.order, func(a, b uint64) int { return bytes.Compare(d.text(a), d.text(b)) })
		for rank, ref := range d.order {
			binary.LittleEndian.PutUint32(d.shards[ref>>40].text[ref&offsetMask:], uint32(rank))
		}
		return nil
	}
	return d.rankInts()
}

func tooManyIDs(n uint64) error {
	return source.Inputf("ids", "%d distinct ids, at most %d are possible", n, uint64(partitioner.MaxNodes-1))
}

func (d *Dictionary) rankInts() error {
	scratch, err := d.alloc(int64(len(d.refs)))
	if err != nil {
		return err
	}
	s, err := blocks.View[uint64](scratch)
	if err != nil {
		return err
	}
	sorted := sorting.Radix(d.order, s, 0, 64)
	copy(d.order, sorted)
	d.free(scratch)
	for k := range d.shards {
		t := &d.shards[k]
		if t.ranks, err = d.alloc(4 * int64(len(t.slots))); err != nil {
			return err
		}
	}
	for rank, id := range d.order {
		t, at := d.find(id)
		binary.LittleEndian.PutUint32(t.ranks[4*at:], uint32(rank))
	}
	return nil
}

// find returns where integer id stands; at is −1 if it is not there.
func (d *Dictionary) find(id uint64) (*dictShard, int) {
	h := hashInt(id)
	t := &d.shards[h>>(64-dictShardBits)]
	if len(t.slots) == 0 {
		return t, -1
	}
	mask := uint64(len(t.slots) - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		switch t.slots[at] {
		case id + 1:
			return t, int(at)
		case 0:
			return t, -1
		}
	}
}

func (d *Dictionary) text(ref uint64) []byte { return d.shards[ref>>40].at(int(ref & offsetMask)) }

// Len is the number of ids, once frozen.
func (d *Dictionary) Len() int { return d.count }

// Rank returns the dense id of item i of ids; false if it is not there.
func (d *Dictionary) Rank(ids *source.IDs, i int) (uint64, bool) {
	switch {
	case d.Index != nil && d.Strings:
		return d.Index.rank(maphash.Bytes(d.seed, ids.At(i)), ids.At(i))
	case d.Index != nil:
		var id [8]byte
		binary.BigEndian.PutUint64(id[:], ids.Ints[i])
		return d.Index.rank(hashInt(ids.Ints[i]), id[:])
	case !d.Strings:
		t, at := d.find(ids.Ints[i])
		if at < 0 {
			return 0, false
		}
		return uint64(binary.LittleEndian.Uint32(t.ranks[4*at:])), true
	}
	id := ids.At(i)
	h := maphash.Bytes(d.seed, id)
	t := &d.shards[h>>(64-dictShardBits)]
	if len(t.slots) == 0 {
		return 0, false
	}
	mask := uint64(len(t.slots) - 1)
	for at := h & mask; t.slots[at] != 0; at = (at + 1) & mask {
		slot := t.slots[at]
		if slot&^offsetMask == h&^offsetMask && bytes.Equal(t.at(int(slot&offsetMask)-1), id) {
			return uint64(binary.LittleEndian.Uint32(t.text[slot&offsetMask-1:])), true
		}
	}
	return 0, false
}

// Translate turns source ids into dense ones.
func (d *Dictionary) Translate(ids *source.IDs, out []uint64, at source.Position) ([]uint64, error) {
	n := ids.Len()
	out = slices.Grow(out[:0], n)[:n]
	for i := range n {
		id, ok := d.Rank(ids, i)
		if !ok {
			return nil, source.Inputf(at.Of(i), "node %s occurs in no edge", d.Show(ids, i))
		}
		out[i] = id
	}
	return out, nil
}

// Show is an id as people write it, for messages.
func (d *Dictionary) Show(ids *source.IDs, i int) string {
	if d.Strings {
		return fmt.Sprintf("%q", ids.At(i))
	}
	return fmt.Sprint(ids.Ints[i])
}
