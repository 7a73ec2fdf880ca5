package dictionary

import (
	"math/bits"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest/scratch"
)

// idIndex maps ids of a known set to their ranks in 8 to 9 bytes an id, without
// holding the ids. An id's hash has 64 bits: those at the top name a bucket of
// about eight entries, 32 at the bottom are kept beside the rank. Ids of the set
// that share both are looked up by themselves in full (of a billion ids,
// less than one pair is expected); an id that is not of the set is told
// apart only by its hash, with an error of about 2⁻²⁹.
type idIndex struct {
	mem     []byte
	starts  []uint32 // bucket k holds entries starts[k-1] ≤ i < starts[k], once built
	entries []uint64 // 32 bits of the hash, 32 of the rank
	shift   uint
	// shared has the buckets and hash bits of more than one id; exact the ranks
	// of all ids that have them.
	shared map[indexKey]bool
	exact  map[string]uint32
}

type indexKey struct {
	bucket uint64
	tag    uint32
}

// indexBuckets is the number of buckets for n ids, a power of two.
func indexBuckets(n uint64) uint64 { return 1 << bits.Len64(n/8) }

// IndexBytes is the memory of an index of n ids.
func IndexBytes(n uint64) int64 { return int64(8*n + (4*indexBuckets(n)+7)&^7) }

// newIDIndex builds an index of n ids. each streams their hashes in the order of
// ranks, and ids where the index asks for them; it is called twice, or thrice if any share a hash.
func newIDIndex(n uint64, each func(fn func(rank uint64, hash uint64, id []byte)) error) (*idIndex, error) {
	mem, err := scratch.Alloc(IndexBytes(n))
	if err != nil {
		return nil, err
	}
	x := &idIndex{mem: mem, shift: uint(64 - bits.Len64(indexBuckets(n)-1)), shared: map[indexKey]bool{}, exact: map[string]uint32{}}
	if x.entries, err = blocks.View[uint64](mem[:8*n]); err == nil {
		x.starts, err = blocks.View[uint32](mem[8*n:][:4*indexBuckets(n)])
	}
	if err == nil {
		err = x.build(each)
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

func (x *idIndex) bucket(hash uint64) uint64 {
	if x.shift == 64 {
		return 0
	}
	return hash >> x.shift
}

func (x *idIndex) build(each func(fn func(rank uint64, hash uint64, id []byte)) error) error {
	err := each(func(_, hash uint64, _ []byte) { x.starts[x.bucket(hash)]++ })
	if err != nil {
		return err
	}
	sum := uint32(0)
	for k, n := range x.starts {
		x.starts[k] = sum
		sum += n
	}
	// Placing an entry moves its bucket's start; at the end each is its bucket's end.
	err = each(func(rank, hash uint64, _ []byte) {
		b := x.bucket(hash)
		x.entries[x.starts[b]] = hash<<32 | rank
		x.starts[b]++
	})
	if err != nil {
		return err
	}
	from := uint32(0)
	for b, to := range x.starts {
		for i := from; i < to; i++ {
			for j := from; j < i; j++ {
				if x.entries[i]>>32 == x.entries[j]>>32 {
					x.shared[indexKey{uint64(b), uint32(x.entries[i] >> 32)}] = true
				}
			}
		}
		from = to
	}
	if len(x.shared) == 0 {
		return nil
	}
	return each(func(rank, hash uint64, id []byte) {
		if x.shared[indexKey{x.bucket(hash), uint32(hash)}] {
			x.exact[string(id)] = uint32(rank)
		}
	})
}

// Rank returns the rank of the id with this hash; false if there is none. id is looked at
// only where others share its hash.
func (x *idIndex) rank(hash uint64, id []byte) (uint64, bool) {
	b, tag := x.bucket(hash), uint32(hash)
	if len(x.shared) > 0 && x.shared[indexKey{b, tag}] {
		r, ok := x.exact[string(id)]
		return uint64(r), ok
	}
	from := uint32(0)
	if b > 0 {
		from = x.starts[b-1]
	}
	for _, e := range x.entries[from:x.starts[b]] {
		if uint32(e>>32) == tag {
			return e & (1<<32 - 1), true
		}
	}
	return 0, false
}

// Close frees the memory.
func (x *idIndex) Close() {
	scratch.Free(x.mem)
	x.mem, x.entries, x.starts = nil, nil, nil
}
