package store

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
)

// StripeReader streams edge buckets and the edge columns beside them in bounded
// memory, checked, through the store's files: for passes over a graph that need no engine. It is for one
// goroutine; Close frees its memory.
type StripeReader struct {
	s       *Store
	columns []*ColumnInfo
	limit   int64
	max     int64
	slab    *blockio.Slab
}

// BucketPart is one bucket as a StripeReader reads it.
type BucketPart struct {
	blocks.Bucket
	Src, Dst PartitionID
	First    uint64 // number of its first edge in the stripe
	// Columns holds the bucket's rows of each column asked for.
	Columns [][]byte
}

// ReadStripes returns a reader of topology stripes with the given edge columns. It reads as
// many buckets at a time as fit memoryBytes; a single bucket may take up to maxBytes (0 =
// no bound), or it is an ErrBudget.
func (s *Store) ReadStripes(columns []*ColumnInfo, memoryBytes, maxBytes int64) *StripeReader {
	if maxBytes > 0 {
		maxBytes = max(maxBytes, memoryBytes)
	}
	return &StripeReader{s: s, columns: columns, limit: memoryBytes, max: maxBytes}
}

// Need returns the most memory that reading all stripes takes: what the reader was given, or its largest bucket
// with columns. It reads the directories of stripes that are larger than that.
func (r *StripeReader) Need() (int64, error) {
	need := r.limit
	for j := range r.s.manifest.Partitions {
		f, e, err := r.s.Files().Topology(PartitionID(j))
		if err != nil {
			return 0, err
		}
		bytes := blocks.RangeBytes(e.Length)
		for _, c := range r.columns {
			_, ce, err := r.s.Files().Column(c.Name, PartitionID(j))
			if err != nil {
				return 0, err
			}
			bytes += blocks.AlignUp(blocks.RangeBytes(int64(ce.Rows) * int64(c.RowBytes())))
		}
		if bytes <= need {
			continue
		}
		dir, err := directory(f, e)
		if err != nil {
			return 0, err
		}
		for i := range dir.Partitions() {
			need = max(need, r.runBytes(&dir, i, i+1))
		}
	}
	return need, nil
}

// directory reads the end of a stripe.
func directory(f *blocks.File, e blocks.Extent) (blocks.Directory, error) {
	h := f.Header()
	n := blocks.DirectoryBytes(h.Partitions)
	if e.Length < n {
		return blocks.Directory{}, mismatch(f, h.ExtentName(e.ID), "%d bytes, its directory alone has %d", e.Length, n)
	}
	b, err := f.ReadRange(e, e.Length-n, e.Length)
	if err != nil {
		return blocks.Directory{}, err
	}
	dir, err := blocks.OpenDirectory(b, h.Partitions, e.Length)
	return dir, inExtent(f, e, err)
}

// BucketEdges is how many edges lead from each partition to partition p, [partitions]. It reads the directory of p's stripe alone.
func (s *Store) BucketEdges(p PartitionID) ([]uint64, error) {
	f, e, err := s.Files().Topology(p)
	if err != nil {
		return nil, err
	}
	dir, err := directory(f, e)
	if err != nil {
		return nil, err
	}
	edges := make([]uint64, len(s.manifest.Partitions))
	for i := range edges {
		edges[i] = dir.BucketEdges(i)
	}
	return edges, nil
}

// Close frees the reader's memory.
func (r *StripeReader) Close() error {
	if r.slab == nil {
		return nil
	}
	err := r.slab.Free()
	r.slab = nil
	return err
}

// Stripe calls fn with the buckets lo ≤ i < hi of stripe j that have edges, ascending. What
// fn gets is valid until it returns.
func (r *StripeReader) Stripe(ctx context.Context, j PartitionID, lo, hi int, fn func(b *BucketPart) error) error {
	f, e, err := r.s.Files().Topology(j)
	if err != nil {
		return err
	}
	dir, err := directory(f, e)
	if err != nil {
		return err
	}
	hi = min(hi, dir.Partitions())
	for lo < hi {
		if dir.BucketEdges(lo) == 0 {
			lo++
			continue
		}
		to := lo + 1
		for to < hi && r.runBytes(&dir, lo, to+1) <= r.limit {
			to++
		}
		if err := r.run(ctx, f, e, &dir, j, lo, to, fn); err != nil {
			return err
		}
		lo = to
	}
	return nil
}

// runBytes is the memory that buckets lo … hi−1 of a stripe take.
func (r *StripeReader) runBytes(dir *blocks.Directory, lo, hi int) int64 {
	from, to := dir.Range(lo, hi)
	n := blocks.RangeBytes(to - from)
	for _, c := range r.columns {
		n += blocks.AlignUp(blocks.RangeBytes(int64(dir.FirstEdge(hi)-dir.FirstEdge(lo)) * int64(c.RowBytes())))
	}
	return n
}

// run reads buckets lo … hi−1 of stripe j at once.
func (r *StripeReader) run(ctx context.Context, f *blocks.File, e blocks.Extent, dir *blocks.Directory, j PartitionID, lo, hi int, fn func(b *BucketPart) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	need := r.runBytes(dir, lo, hi)
	if need > r.max && r.max > 0 {
		return fmt.Errorf("%w: edge bucket (%d,%d) takes %d bytes with its columns, %d are there", ErrBudget, lo, j, need, r.max)
	}
	if r.slab == nil || int64(len(r.slab.Bytes())) < need {
		if err := r.Close(); err != nil {
			return err
		}
		var err error
		if r.slab, err = blockio.AllocSlab(max(need, r.limit), blockio.SlabOptions{Lazy: true}); err != nil {
			return err
		}
	}
	free := r.slab.Bytes()
	first := dir.FirstEdge(lo)
	columns := make([][]byte, len(r.columns))
	for c, info := range r.columns {
		cf, ce, err := r.s.Files().Column(info.Name, j)
		if err != nil {
			return err
		}
		from, to := int64(first)*int64(info.RowBytes()), int64(dir.FirstEdge(hi))*int64(info.RowBytes())
		n := blocks.RangeBytes(to - from)
		if info.Coded(cf) { // codes are read behind three quarters of the room that their values take, and give way to them
			rows := int64(dir.FirstEdge(hi) - first)
			codes, err := cf.ReadRangeInto(ce, int64(first), int64(first)+rows, free[3*rows:n:n])
			if err != nil {
				return err
			}
			columns[c] = free[: 4*rows : 4*rows]
			err = info.decode(cf, ce, columns[c], codes)
			if err != nil {
				return err
			}
		} else if columns[c], err = cf.ReadRangeInto(ce, from, to, free[:n:n]); err != nil {
			return err
		}
		free = free[blocks.AlignUp(n):]
	}
	from, to := dir.Range(lo, hi)
	raw, err := f.ReadRangeInto(e, from, to, free)
	if err != nil {
		return err
	}
	part := BucketPart{Dst: j, Columns: make([][]byte, len(columns))}
	for i := lo; i < hi; i++ {
		if dir.BucketEdges(i) == 0 {
			continue
		}
		a, z := dir.Range(i, i+1)
		k, err := dir.Bucket(i, raw[a-from:z-from:z-from])
		if err == nil {
			err = k.Check()
		}
		if err != nil {
			return inExtent(f, e, err)
		}
		part.Bucket, part.Src, part.First = k, PartitionID(i), dir.FirstEdge(i)
		for c, info := range r.columns {
			w := uint64(info.RowBytes())
			part.Columns[c] = columns[c][(dir.FirstEdge(i)-first)*w : (dir.FirstEdge(i+1)-first)*w]
		}
		if err := fn(&part); err != nil {
			return err
		}
	}
	return nil
}
