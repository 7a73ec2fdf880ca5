package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

var errUnaligned = errors.New("blocks: buffer does not begin at a multiple of 8 bytes")

func itoa(i int) string { return strconv.Itoa(i) }

// EdgeKey packs an edge of a bucket so that the order of keys is the order of
// the format: dst first, then src, both partition-local.
func EdgeKey(dst, src uint32) uint64 { return uint64(dst)<<32 | uint64(src) }

// StripeEncoder writes topology extents from edges sorted by (src partition, dst,
// src), one bucket after the other and bounded in memory: beside the caller's
// keys it holds one directory and a scratch buffer of 64 KiB. It is for one
// goroutine.
//
//	enc := blocks.NewStripeEncoder(w, sizes)
//	w.Begin(j)
//	enc.Begin(j)
//	for each src partition i that has edges: enc.Bucket(i, keys)
//	edges, err := enc.End()
//	w.End(edges)
type StripeEncoder struct {
	w       io.Writer
	sizes   []uint32
	dst     PartitionID
	open    bool
	next    int    // src partition of the next bucket
	offset  uint64 // bytes written in this stripe
	edges   uint64
	dir     []byte
	scratch []byte
}

// NewStripeEncoder returns an encoder that writes to w. sizes holds the number of
// nodes of every partition.
func NewStripeEncoder(w io.Writer, sizes []uint32) *StripeEncoder {
	return &StripeEncoder{w: w, sizes: sizes, scratch: make([]byte, 0, 64<<10),
		dir: make([]byte, 0, DirectoryBytes(uint32(len(sizes))))}
}

// Begin starts the stripe of dst partition j.
func (e *StripeEncoder) Begin(j PartitionID) error {
	if e.open {
		return fmt.Errorf("stripe %d begun while stripe %d is open", j, e.dst)
	}
	if int(j) >= len(e.sizes) {
		return fmt.Errorf("stripe %d of %d partitions", j, len(e.sizes))
	}
	e.dst, e.open, e.next, e.offset, e.edges, e.dir = j, true, 0, 0, 0, e.dir[:0]
	return nil
}

// Bucket writes the edges from partition i; buckets come in ascending order,
// empty ones may be left out. keys are [EdgeKey]s in ascending order, equal
// ones being parallel edges; they are only read. Keys out of order are
// [ErrUnsorted]; an id beyond its partition is an error that names it.
func (e *StripeEncoder) Bucket(i PartitionID, keys []uint64) error {
	if !e.open {
		return errors.New("bucket outside a stripe, or after an error")
	}
	if int(i) < e.next || int(i) >= len(e.sizes) {
		return e.fail(fmt.Errorf("stripe %d: bucket %d of %d after bucket %d: %w", e.dst, i, len(e.sizes), e.next-1, ErrUnsorted))
	}
	e.skipTo(int(i))
	dstNodes, srcNodes := e.sizes[e.dst], e.sizes[i]
	runs, err := e.starts(keys, dstNodes, srcNodes)
	if err == nil {
		err = e.dsts(keys, localBytes(dstNodes) == 2)
	}
	if err == nil {
		err = e.srcs(keys, localBytes(srcNodes) == 2)
	}
	if err != nil {
		return e.fail(fmt.Errorf("bucket (%d,%d): %w", i, e.dst, err))
	}
	e.entry(e.offset, e.edges, runs, srcNodes)
	e.next++
	e.edges += uint64(len(keys))
	e.offset += uint64(BucketBytes(uint64(len(keys)), runs, dstNodes, srcNodes))
	return nil
}

// End writes the directory and returns the stripe's edges.
func (e *StripeEncoder) End() (edges uint64, err error) {
	if !e.open {
		return 0, errors.New("end outside a stripe, or after an error")
	}
	e.open = false
	e.skipTo(len(e.sizes))
	e.entry(e.offset, e.edges, uint32(len(e.sizes)), e.sizes[e.dst])
	_, err = e.w.Write(e.dir)
	return e.edges, err
}

// fail gives the stripe up: what was written of it is of no use.
func (e *StripeEncoder) fail(err error) error {
	e.open = false
	return err
}

func (e *StripeEncoder) skipTo(i int) {
	for ; e.next < i; e.next++ {
		e.entry(e.offset, e.edges, 0, e.sizes[e.next])
	}
}

func (e *StripeEncoder) entry(offset, first uint64, runs, nodes uint32) {
	le := binary.LittleEndian
	e.dir = le.AppendUint64(e.dir, offset)
	e.dir = le.AppendUint64(e.dir, first)
	e.dir = le.AppendUint32(e.dir, runs)
	e.dir = le.AppendUint32(e.dir, nodes)
}

// starts writes the run-start bitmap, counts runs, and checks order and ids.
func (e *StripeEncoder) starts(keys []uint64, dstNodes, srcNodes uint32) (runs uint32, err error) {
	if len(keys) == 0 {
		return 0, nil
	}
	if d := uint32(keys[len(keys)-1] >> 32); d >= dstNodes {
		return 0, fmt.Errorf("dst %d in a partition of %d nodes", d, dstNodes)
	}
	b := e.scratch[:0]
	prev := keys[0] ^ 1<<63 // another dst than the first key's, so that bit 0 is set
	ordered := true
	var srcMax uint32
	last := uint64(0)
	for lo := 0; lo < len(keys); lo += 64 {
		var word uint64
		for k, key := range keys[lo:min(lo+64, len(keys))] {
			// 1 where the dst differs from the one before, without a branch.
			x := (prev ^ key) >> 32
			bit := (x | -x) >> 63
			word |= bit << k
			runs += uint32(bit)
			ordered = ordered && key >= last
			srcMax = max(srcMax, uint32(key))
			prev, last = key, key
		}
		b = binary.LittleEndian.AppendUint64(b, word)
		if len(b) == cap(b) {
			if _, err := e.w.Write(b); err != nil {
				return 0, err
			}
			b = b[:0]
		}
	}
	if !ordered {
		return 0, fmt.Errorf("edge keys: %w", ErrUnsorted)
	}
	if srcMax >= srcNodes {
		return 0, fmt.Errorf("src %d in a partition of %d nodes", srcMax, srcNodes)
	}
	_, err = e.w.Write(b)
	return runs, err
}

// dsts writes the dst of each run.
func (e *StripeEncoder) dsts(keys []uint64, narrow bool) error {
	width := 4
	if narrow {
		width = 2
	}
	// The write position advances only where a run begins: no branch. A block
	// of keys fills at most the scratch.
	scratch := e.scratch[:cap(e.scratch)]
	block := len(scratch)/width - 1
	prev, total := uint64(1)<<63, 0
	if len(keys) > 0 {
		prev = keys[0] ^ 1<<63
	}
	for len(keys) > 0 {
		n := min(block, len(keys))
		at := 0
		if narrow {
			for _, key := range keys[:n] {
				x := (prev ^ key) >> 32
				at += 2 * int((x|-x)>>63)
				binary.LittleEndian.PutUint16(scratch[at:], uint16(key>>32))
				prev = key
			}
		} else {
			for _, key := range keys[:n] {
				x := (prev ^ key) >> 32
				at += 4 * int((x|-x)>>63)
				binary.LittleEndian.PutUint32(scratch[at:], uint32(key>>32))
				prev = key
			}
		}
		// Slot 0 belongs to the block before: slots 1 … hold this block's runs.
		if _, err := e.w.Write(scratch[width : at+width]); err != nil {
			return err
		}
		total += at
		keys = keys[n:]
	}
	return e.pad(total)
}

// srcs writes the src of each edge.
func (e *StripeEncoder) srcs(keys []uint64, narrow bool) error {
	width := 4
	if narrow {
		width = 2
	}
	scratch := e.scratch[:cap(e.scratch)]
	total := len(keys) * width
	for len(keys) > 0 {
		n := min(len(scratch)/width, len(keys))
		if narrow {
			out := view[uint16](scratch, n)
			for k, key := range keys[:n] {
				out[k] = uint16(key)
			}
		} else {
			out := view[uint32](scratch, n)
			for k, key := range keys[:n] {
				out[k] = uint32(key)
			}
		}
		if _, err := e.w.Write(scratch[:n*width]); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return e.pad(total)
}

func (e *StripeEncoder) pad(n int) error {
	if n%8 == 0 {
		return nil
	}
	_, err := e.w.Write(zeros[:8-n%8])
	return err
}
