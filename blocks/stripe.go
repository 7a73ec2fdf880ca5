package blocks

import (
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"unsafe"
)

// A topology extent is one stripe of edge buckets: all edges into dst partition
// j. It holds the buckets of src partitions 0, 1, … p−1 one after the other and
// then a directory, so that it is written in one pass and a reader finds the
// directory from the extent's length:
//
//	bucket 0 │ bucket 1 │ … │ bucket p−1 │ directory: (p+1) × 24 bytes
//
//	directory entry i < p: offset u64, first edge u64, runs u32, src nodes u32
//	directory entry p:     end offset u64, edges u64, partitions u32, dst nodes u32
//
// A bucket is a doubly compressed sparse column block of its edges in order
// (dst, src). A run is the edges of one dst:
//
//	starts: one bit an edge, set where a run begins   ⌈edges/64⌉ × u64
//	dst:    local id of each run, ascending           runs × u16|u32, zeros to 8
//	src:    local id of each edge, ascending in a run edges × u16|u32, zeros to 8
//
// Local ids count from their partition's first node. They take 16 bits where
// that partition has at most [NarrowNodesMax] nodes and else 32. The size of a bucket
// follows from its directory entry alone.

// NarrowNodesMax is the size of the largest partition whose local ids take 16
// bits. Part of the format.
const NarrowNodesMax = 1 << 16

// directoryEntryBytes is the size of one entry of a stripe's directory.
const directoryEntryBytes = 24

// DirectoryBytes returns the size of the directory at the end of each topology
// extent of a store of the given number of partitions.
func DirectoryBytes(partitions uint32) int64 { return directoryEntryBytes * (int64(partitions) + 1) }

// localBytes returns the width of a local id of a partition.
func localBytes(nodes uint32) int64 {
	if nodes <= NarrowNodesMax {
		return 2
	}
	return 4
}

func pad8(n int64) int64 { return (n + 7) &^ 7 }

// BucketBytes returns the size of a bucket.
func BucketBytes(edges uint64, runs, dstNodes, srcNodes uint32) int64 {
	if edges == 0 {
		return 0
	}
	return int64((edges+63)/64)*8 + pad8(int64(runs)*localBytes(dstNodes)) + pad8(int64(edges)*localBytes(srcNodes))
}

// Directory locates the buckets of one topology extent. It is decoded from the
// extent's last [DirectoryBytes] bytes, so a reader that wants few buckets reads
// those first.
type Directory struct {
	b          []byte
	partitions int
	dstNodes   uint32
}

// OpenDirectory checks and decodes a directory: b is the last DirectoryBytes of
// a topology extent of length bytes. The Directory refers to b.
func OpenDirectory(b []byte, partitions uint32, length int64) (Directory, error) {
	at := length - DirectoryBytes(partitions)
	fail := func(format string, args ...any) (Directory, error) {
		return Directory{}, corruptf("directory", max(at, 0), format, args...)
	}
	if at < 0 || int64(len(b)) != DirectoryBytes(partitions) {
		return fail("%d of %d bytes, expected %d for %d partitions", len(b), length, DirectoryBytes(partitions), partitions)
	}
	d := Directory{b: b, partitions: int(partitions)}
	end := d.entry(d.partitions)
	if end.offset != uint64(at) || end.runs != partitions {
		return fail("%d buckets end at %d, expected %d and %d", end.runs, end.offset, partitions, at)
	}
	d.dstNodes = end.nodes
	cur := d.entry(0)
	if cur.offset != 0 || cur.first != 0 {
		return fail("bucket 0 begins at byte %d, edge %d, expected 0 and 0", cur.offset, cur.first)
	}
	for i := range d.partitions {
		next := d.entry(i + 1)
		edges := next.first - cur.first
		// Every edge takes at least two bytes, so a count beyond the length is a
		// lie; the bound also keeps BucketBytes from overflowing.
		if next.first < cur.first || edges > uint64(length) {
			return fail("bucket %d has edges %d to %d", i, cur.first, next.first)
		}
		if uint64(cur.runs) > edges || (edges > 0) != (cur.runs > 0) || cur.runs > d.dstNodes {
			return fail("bucket %d has %d runs of %d edges into %d nodes", i, cur.runs, edges, d.dstNodes)
		}
		if size := next.offset - cur.offset; size != uint64(BucketBytes(edges, cur.runs, d.dstNodes, cur.nodes)) {
			return fail("bucket %d has %d bytes, expected %d for %d edges in %d runs", i, size,
				BucketBytes(edges, cur.runs, d.dstNodes, cur.nodes), edges, cur.runs)
		}
		if edges > 0 && cur.nodes == 0 {
			return fail("bucket %d has %d edges from a partition without nodes", i, edges)
		}
		cur = next
	}
	return d, nil
}

// dirEntry is one decoded directory entry; in the last one first counts all
// edges, runs is the number of partitions and nodes those of the dst partition.
type dirEntry struct {
	offset, first uint64
	runs, nodes   uint32
}

func (d *Directory) entry(i int) dirEntry {
	q := d.b[i*directoryEntryBytes : (i+1)*directoryEntryBytes]
	le := binary.LittleEndian
	return dirEntry{offset: le.Uint64(q), first: le.Uint64(q[8:]), runs: le.Uint32(q[16:]), nodes: le.Uint32(q[20:])}
}

// Partitions returns the number of buckets. A stripe that was written when the
// store had fewer partitions has fewer: the other methods take any bucket, and
// those beyond are empty.
func (d *Directory) Partitions() int { return d.partitions }

// bucket is entry for any bucket: those beyond the last are empty, at the end.
func (d *Directory) bucket(i int) dirEntry {
	if i < d.partitions {
		return d.entry(i)
	}
	e := d.entry(d.partitions)
	e.runs, e.nodes = 0, 0
	return e
}

// DstNodes returns the number of nodes of the stripe's partition.
func (d *Directory) DstNodes() uint32 { return d.dstNodes }

// SrcNodes returns the number of nodes of src partition i, 0 of one that came later.
func (d *Directory) SrcNodes(i int) uint32 { return d.bucket(i).nodes }

// Edges returns the number of edges of the stripe.
func (d *Directory) Edges() uint64 { return d.entry(d.partitions).first }

// FirstEdge returns the position in the stripe's edge order of bucket i's first
// edge, 0 ≤ i ≤ Partitions: edge columns are indexed by it.
func (d *Directory) FirstEdge(i int) uint64 { return d.bucket(i).first }

// BucketEdges returns the number of edges of bucket i.
func (d *Directory) BucketEdges(i int) uint64 { return d.bucket(i+1).first - d.bucket(i).first }

// BucketRuns returns the number of distinct dst nodes of bucket i.
func (d *Directory) BucketRuns(i int) uint32 { return d.bucket(i).runs }

// Range returns where buckets lo … hi−1 lie in the extent's payload.
func (d *Directory) Range(lo, hi int) (from, to int64) {
	return int64(d.bucket(lo).offset), int64(d.bucket(hi).offset)
}

// Bucket decodes bucket i from its bytes (Range(i, i+1) of the extent), which
// it refers to and which must begin at a multiple of 8 in memory. Lengths are
// checked here; that ids and bits are consistent is checked by [Bucket.Check].
func (d *Directory) Bucket(i int, b []byte) (Bucket, error) {
	e, next := d.bucket(i), d.bucket(i+1)
	edges := next.first - e.first
	if uint64(len(b)) != next.offset-e.offset {
		return Bucket{}, corruptf("bucket", int64(e.offset), "bucket %d has %d bytes, expected %d", i, len(b), next.offset-e.offset)
	}
	k := Bucket{Edges: int(edges), Runs: int(e.runs), SrcNodes: e.nodes, DstNodes: d.dstNodes, index: i, offset: int64(e.offset)}
	if edges == 0 {
		return k, nil
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 {
		return Bucket{}, errUnaligned
	}
	words := int(edges+63) / 64
	k.Starts = view[uint64](b, words)
	b = b[8*words:]
	if localBytes(d.dstNodes) == 2 {
		k.Dst16 = view[uint16](b, k.Runs)
		b = b[pad8(2*int64(k.Runs)):]
	} else {
		k.Dst32 = view[uint32](b, k.Runs)
		b = b[pad8(4*int64(k.Runs)):]
	}
	if localBytes(e.nodes) == 2 {
		k.Src16 = view[uint16](b, k.Edges)
	} else {
		k.Src32 = view[uint32](b, k.Edges)
	}
	return k, nil
}

// view returns the first n elements of b in place; the caller has checked
// alignment and length.
func view[T uint16 | uint32 | uint64](b []byte, n int) []T {
	if n == 0 {
		return nil
	}
	_ = b[n*int(unsafe.Sizeof(*new(T)))-1]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// Stripe is a whole decoded topology extent; it refers to the extent's bytes.
type Stripe struct {
	Directory
	b []byte
}

// OpenStripe decodes a topology extent: b is its payload, without padding, at an
// address that is a multiple of 8. Lengths are checked here, checksums before
// ([File.CheckChunks]) and contents by [Stripe.Check].
func OpenStripe(b []byte, partitions uint32) (Stripe, error) {
	at := int64(len(b)) - DirectoryBytes(partitions)
	if at < 0 {
		return Stripe{}, corruptf("directory", 0, "the stripe has %d bytes, its directory alone %d", len(b), DirectoryBytes(partitions))
	}
	d, err := OpenDirectory(b[at:], partitions, int64(len(b)))
	if err != nil {
		return Stripe{}, err
	}
	return Stripe{Directory: d, b: b}, nil
}

// Bucket decodes bucket i: the edges from partition i.
func (r *Stripe) Bucket(i int) (Bucket, error) {
	from, to := r.Range(i, i+1)
	return r.Directory.Bucket(i, r.b[from:to:to])
}

// Check decodes every bucket and checks its contents.
func (r *Stripe) Check() error {
	for i := range r.partitions {
		k, err := r.Bucket(i)
		if err != nil {
			return err
		}
		if err := k.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Bucket is the edges from one partition to another, viewed in place. Edge e
// belongs to the run with index (number of set bits in Starts up to and
// including bit e) − 1. Exactly one of Dst16 and Dst32 and one of Src16 and
// Src32 is set when Edges > 0.
type Bucket struct {
	Edges, Runs        int
	SrcNodes, DstNodes uint32 // sizes of the partitions; local ids are below them

	Starts []uint64 // bit e%64 of word e/64: edge e begins a run
	Dst16  []uint16 // len Runs, ascending
	Dst32  []uint32
	Src16  []uint16 // len Edges, ascending within a run
	Src32  []uint32

	index  int
	offset int64
}

// All yields (dst, src) of every edge, in order of dst, then src. Both are local to their partitions, not ids of nodes:
// node dst is the dst-th of the partition that the edges lead into, src the src-th of the one that they come from. To get
// internal ids, add each partition's first (store.PartitionInfo.First). It is the reference for faster loops.
func (k *Bucket) All() iter.Seq2[uint32, uint32] {
	return func(yield func(uint32, uint32) bool) {
		run := -1
		for e := range k.Edges {
			run += int(k.Starts[e/64] >> (e % 64) & 1)
			if !yield(k.dst(run), k.src(e)) {
				return
			}
		}
	}
}

func (k *Bucket) dst(run int) uint32 {
	if k.Dst16 != nil {
		return uint32(k.Dst16[run])
	}
	return k.Dst32[run]
}

func (k *Bucket) src(e int) uint32 {
	if k.Src16 != nil {
		return uint32(k.Src16[e])
	}
	return k.Src32[e]
}

// Check checks everything that a loop over the bucket relies on, so that it
// needs no bounds of its own: the first edge begins a run, there are as many
// starts as runs, none after the last edge, dst ids ascend strictly, and all
// ids are below their partition's size. It costs about a quarter of a
// nanosecond an edge. That src ids ascend within a run is checked by verify only.
func (k *Bucket) Check() error {
	if k.Edges == 0 {
		return nil
	}
	if k.Starts[0]&1 == 0 {
		return k.corruptf("its first edge does not begin a run")
	}
	n := 0
	for _, w := range k.Starts {
		n += bits.OnesCount64(w)
	}
	if n != k.Runs {
		return k.corruptf("%d run starts for %d runs", n, k.Runs)
	}
	if tail := k.Edges % 64; tail != 0 && k.Starts[len(k.Starts)-1]>>tail != 0 {
		return k.corruptf("a run starts after the last edge")
	}
	if i := descent(k.Dst16); i > 0 {
		return k.corruptf("dst of run %d is %d, after %d", i, k.Dst16[i], k.Dst16[i-1])
	}
	if i := descent(k.Dst32); i > 0 {
		return k.corruptf("dst of run %d is %d, after %d", i, k.Dst32[i], k.Dst32[i-1])
	}
	if d := k.dst(k.Runs - 1); d >= k.DstNodes {
		return k.corruptf("dst %d in a partition of %d nodes", d, k.DstNodes)
	}
	if m := maxOf(k.Src16, k.Src32, k.SrcNodes); m >= k.SrcNodes {
		return k.corruptf("src %d in a partition of %d nodes", m, k.SrcNodes)
	}
	return nil
}

func (k *Bucket) corruptf(format string, args ...any) error {
	err := corruptf("bucket", k.offset, format, args...)
	err.Extent = "bucket " + itoa(k.index)
	return err
}

// descent returns the first index whose id is not above the one before it, or
// 0 if there is none.
func descent[T uint16 | uint32](ids []T) int {
	for i := 1; i < len(ids); i++ {
		if ids[i] <= ids[i-1] {
			return i
		}
	}
	return 0
}

// maxOf returns the largest id of the list that is set. nodes is the bound that
// the caller will check: where no id of the width can reach it, nothing is read.
func maxOf(narrow []uint16, wide []uint32, nodes uint32) uint32 {
	if narrow != nil {
		if nodes > math.MaxUint16 {
			return 0
		}
		return uint32(maxID(narrow))
	}
	return maxID(wide)
}

// maxID returns the largest id; four independent maxima let the loads and
// compares overlap.
func maxID[T uint16 | uint32](ids []T) T {
	var a, b, c, d T
	for len(ids) >= 4 {
		a, b, c, d = max(a, ids[0]), max(b, ids[1]), max(c, ids[2]), max(d, ids[3])
		ids = ids[4:]
	}
	for _, id := range ids {
		a = max(a, id)
	}
	return max(a, b, c, d)
}
