package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/panics"
)

// Point reads: rows of given nodes, wherever they lie. The rows asked for are sorted by their places; places that are
// nearer to each other than a request is worth become one request, and requests are read side by side. What is read is
// whole chunks of 64 KiB, which is what a checksum covers.
const (
	pointGapBytes     = 64 << 10 // where the device was not measured
	pointRequestBytes = 1 << 20
	pointReadersMax   = 8
)

// pointRead is one request: rows of one extent.
type pointRead struct {
	file   *blocks.File
	extent blocks.Extent
	rows   []point // ascending
}

// point is a row of an extent and where in the result it goes.
type point struct {
	row uint64
	to  int
}

// Features reads the rows of a node column (a feature, labels, a split) of given nodes, in their order, into dst, which is
// grown if it is too small. The result is row-major [len(nodes)][Dim] elements of the column's type and belongs to the
// caller. A node may be asked for any number of times; one that there is not is [ErrNotFound].
func (s *Store) Features(ctx context.Context, column string, nodes []NodeID, dst []byte) ([]byte, error) {
	c, err := s.manifest.Column(column)
	if err != nil {
		return nil, err
	}
	if c.Role.OnEdges() {
		return nil, fmt.Errorf("%w: column %q lies on edges, expected one of nodes", ErrInvalid, column)
	}
	return s.readPoints(ctx, nodes, c.RowBytes(), dst, func(p PartitionID) (*blocks.File, blocks.Extent, NodeRows, error) {
		return s.Files().NodeRows(column, p)
	})
}

// EdgeRow says where a column of edges has an edge's row: in the partition of its destination, in the stripe's order.
type EdgeRow struct {
	Partition PartitionID
	Row       uint64
}

// EdgeRows is [Store.Features] of a column of edges. A row that there is not is [ErrNotFound].
func (s *Store) EdgeRows(ctx context.Context, column string, edges []EdgeRow, dst []byte) ([]byte, error) {
	c, err := s.manifest.Column(column)
	if err != nil {
		return nil, err
	}
	if !c.Role.OnEdges() {
		return nil, fmt.Errorf("%w: column %q lies on nodes, expected one of edges", ErrInvalid, column)
	}
	if err := cmp.Or(s.check(), ctx.Err()); err != nil {
		return nil, err
	}
	parts := make([][]point, len(s.manifest.Partitions))
	for i, e := range edges {
		if int(e.Partition) >= len(parts) {
			return nil, fmt.Errorf("%w: partition %d of %d", ErrNotFound, e.Partition, len(parts))
		}
		parts[e.Partition] = append(parts[e.Partition], point{row: e.Row, to: i})
	}
	sortPoints(parts)
	coded := make([][]point, len(parts)) // of extents that hold codes
	for p, rows := range parts {
		if len(rows) == 0 {
			continue
		}
		f, x, err := s.Files().Column(column, PartitionID(p))
		if err != nil {
			return nil, err
		}
		if last := rows[len(rows)-1].row; last >= x.Rows {
			return nil, fmt.Errorf("%w: edge %d of %d in partition %d", ErrNotFound, last, x.Rows, p)
		}
		if c.Coded(f) {
			coded[p], parts[p] = rows, nil
		}
	}
	where := func(p PartitionID) (*blocks.File, blocks.Extent, NodeRows, error) {
		f, e, err := s.Files().Column(column, p)
		return f, e, NodeRows{Rows: e.Rows, Nodes: e.Rows, rowBytes: c.RowBytes()}, err
	}
	if dst, err = s.readRows(ctx, parts, len(edges), c.RowBytes(), dst, where); err != nil || c.Values == nil {
		return dst, err
	}
	codes, err := s.readRows(ctx, coded, len(edges), 1, nil, where)
	for p, rows := range coded {
		if len(rows) == 0 || err != nil {
			continue
		}
		var f *blocks.File
		var e blocks.Extent
		if f, e, _, err = where(PartitionID(p)); err != nil {
			break
		}
		for _, r := range rows {
			err = cmp.Or(err, c.decode(f, e, dst[r.to*c.RowBytes():], codes[r.to:r.to+1]))
		}
	}
	return dst, err
}

// ExternalInts writes the external ids of given nodes to external, of the same length, where ids are integers.
func (s *Store) ExternalInts(ctx context.Context, nodes []NodeID, external []uint64) error {
	if len(external) != len(nodes) {
		return fmt.Errorf("%w: %d nodes, room for %d external ids", ErrInvalid, len(nodes), len(external))
	}
	if s.manifest.IDs.Kind == IDsStrings {
		return fmt.Errorf("%w: external ids of %s are %s, not integers", ErrInvalid, s.env.Dir, s.manifest.IDs.Kind)
	}
	b, err := s.readPoints(ctx, nodes, 8, blocks.Bytes(external), func(p PartitionID) (*blocks.File, blocks.Extent, NodeRows, error) {
		f, e, err := s.Files().External(p)
		return f, e, NodeRows{Rows: e.Rows, Nodes: e.Rows}, err
	})
	if err != nil || len(b) == 0 {
		return err
	}
	for i := range external { // in place: each number is decoded from its own bytes
		external[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return nil
}

// ExternalStrings returns the external ids of given nodes where ids are strings. It reads the ids of every partition that
// many of the nodes are in, and of others these alone.
func (s *Store) ExternalStrings(ctx context.Context, nodes []NodeID) ([]string, error) {
	if s.manifest.IDs.Kind != IDsStrings {
		return nil, fmt.Errorf("%w: external ids of %s are %s, not strings", ErrInvalid, s.env.Dir, s.manifest.IDs.Kind)
	}
	parts, err := s.byPartition(nodes)
	if err != nil {
		return nil, err
	}
	external := make([]string, len(nodes))
	var buf []byte
	for p, rows := range parts {
		if len(rows) == 0 {
			continue
		}
		few, err := s.fewStrings(ctx, PartitionID(p), rows, external)
		if err != nil {
			return nil, err
		}
		if few {
			continue
		}
		var x ExternalIDs
		if x, buf, err = s.ReadExternal(ctx, PartitionID(p), buf); err != nil {
			return nil, err
		}
		for _, r := range rows {
			external[r.to] = string(x.Strings.At(int(r.row)))
		}
	}
	return external, nil
}

// fewStrings reads ids one by one where these are fewer bytes than all of the partition: of each, where it begins and ends, and it.
func (s *Store) fewStrings(ctx context.Context, p PartitionID, rows []point, external []string) (bool, error) {
	f, e, err := s.Files().External(p)
	if err != nil || int64(len(rows))*2*blocks.ChunkBytes >= e.Length {
		return false, err
	}
	buf, give := pointBuffer(2 * blocks.ChunkBytes)
	defer give()
	text := 8 * int64(e.Rows+1) // where it begins
	for _, r := range rows {
		if ctx.Err() != nil {
			return true, ctx.Err()
		}
		at := 8 * int64(r.row)
		b, err := f.ReadRangeInto(e, at, at+16, buf)
		if err != nil {
			return true, err
		}
		from, to := int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
		if from < 0 || to < from || to > e.Length-text {
			return true, mismatch(f, headerOf(f).ExtentName(e.ID), "string %d is bytes %d to %d of %d", r.row, from, to, e.Length-text)
		}
		if b, err = f.ReadRangeInto(e, text+from, text+to, buf); err != nil {
			return true, err
		}
		external[r.to] = string(b)
	}
	return true, nil
}

// byPartition sorts nodes by where they lie.
func (s *Store) byPartition(nodes []NodeID) ([][]point, error) {
	parts := make([][]point, len(s.manifest.Partitions))
	for i, v := range nodes {
		p, err := s.manifest.Partition(v)
		if err != nil {
			return nil, err
		}
		parts[p] = append(parts[p], point{row: uint64(v - s.manifest.Partitions[p].First), to: i})
	}
	sortPoints(parts)
	return parts, nil
}

// sortPoints sorts the rows of each partition by where they lie.
func sortPoints(parts [][]point) {
	for _, rows := range parts {
		slices.SortFunc(rows, func(a, b point) int { return cmp.Compare(a.row, b.row) })
	}
}

// pointBuffer lends a buffer of n bytes or more; give gives it back.
func pointBuffer(n int64) (b []byte, give func()) {
	kept := pointBuffers.Get().(*[]byte)
	if int64(len(*kept)) < n {
		*kept = make([]byte, n)
	}
	return *kept, func() { pointBuffers.Put(kept) }
}

// readPoints reads rows of width bytes; where says in what extent a partition's lie.
func (s *Store) readPoints(ctx context.Context, nodes []NodeID, width int, dst []byte, where func(PartitionID) (*blocks.File, blocks.Extent, NodeRows, error)) ([]byte, error) {
	if err := cmp.Or(s.check(), ctx.Err()); err != nil {
		return nil, err
	}
	parts, err := s.byPartition(nodes)
	if err != nil {
		return nil, err
	}
	return s.readRows(ctx, parts, len(nodes), width, dst, where)
}

// readRows is readPoints of n rows that are sorted by where they lie.
func (s *Store) readRows(ctx context.Context, parts [][]point, n, width int, dst []byte, where func(PartitionID) (*blocks.File, blocks.Extent, NodeRows, error)) ([]byte, error) {
	need := n * width
	if cap(dst) < need {
		dst = make([]byte, need)
	}
	dst = dst[:need]
	gap := s.pointGap(ctx)
	var reads []pointRead
	for p, rows := range parts {
		if len(rows) == 0 {
			continue
		}
		f, e, has, err := where(PartitionID(p))
		if err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(r point) bool {
			if !has.Stored(r.row) {
				has.Fill(dst[r.to*width:][:width], r.row)
			}
			return !has.Stored(r.row)
		})
		for i := range rows {
			rows[i].row -= has.First
		}
		reads = planPoints(reads, f, e, rows, int64(width), gap)
	}
	if len(reads) <= pointsAlone { // not worth goroutines
		buf := pointBuffers.Get().(*[]byte)
		defer pointBuffers.Put(buf)
		for _, r := range reads {
			if err := r.read(dst, width, buf); err != nil {
				return nil, err
			}
		}
		return dst, nil
	}
	readers := min(runtime.GOMAXPROCS(0)*2, pointReadersMax, len(reads))
	group, ctx := panics.WithContext(ctx)
	next := make(chan pointRead)
	for range readers {
		group.Go(func() error {
			buf := pointBuffers.Get().(*[]byte)
			defer pointBuffers.Put(buf)
			for r := range next {
				if err := r.read(dst, width, buf); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(next)
		for _, r := range reads {
			select {
			case next <- r:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return dst, group.Wait()
}

// pointsAlone is how many requests are read one after another.
const pointsAlone = 2

// pointBuffers are reused by requests of any store.
var pointBuffers = sync.Pool{New: func() any { return new([]byte) }}

// read reads the request into *buf, which grows as need be, and its rows of width bytes to where they go in dst.
func (r *pointRead) read(dst []byte, width int, buf *[]byte) error {
	from, to := int64(r.rows[0].row)*int64(width), int64(r.rows[len(r.rows)-1].row+1)*int64(width)
	if n := blocks.RangeBytes(to - from); int64(len(*buf)) < n {
		*buf = make([]byte, n)
	}
	b, err := r.file.ReadRangeInto(r.extent, from, to, *buf)
	if err != nil {
		return err
	}
	for _, row := range r.rows {
		copy(dst[row.to*width:][:width], b[int64(row.row)*int64(width)-from:])
	}
	return nil
}

// planPoints appends the requests for ascending rows of an extent: rows join a request as long as the gap between their
// chunks is at most gap bytes and the request stays within pointRequestBytes, a row at least.
func planPoints(reads []pointRead, f *blocks.File, e blocks.Extent, rows []point, width, gap int64) []pointRead {
	begin := 0
	for i := 1; i <= len(rows); i++ {
		if i < len(rows) {
			from := int64(rows[i].row) * width / blocks.ChunkBytes * blocks.ChunkBytes
			end := (int64(rows[i-1].row+1)*width + blocks.ChunkBytes - 1) / blocks.ChunkBytes * blocks.ChunkBytes
			if from-end <= gap && int64(rows[i].row+1-rows[begin].row)*width <= pointRequestBytes {
				continue
			}
		}
		reads = append(reads, pointRead{file: f, extent: e, rows: rows[begin:i]})
		begin = i
	}
	return reads
}

// pointGap is how many unwanted bytes are read rather than starting another request: what the device's measurement says
// where one is kept, as it was when first asked for.
func (s *Store) pointGap(ctx context.Context) int64 {
	if g := s.reads.GapBytes; g != 0 {
		return g
	}
	if g := s.gap.Load(); g != 0 {
		return g
	}
	g := int64(pointGapBytes)
	if c, _, err := s.Files().Calibration(ctx, "", CalibrationOptions{NoWait: true}); err == nil && c.Measured {
		g = c.GapBytes()
	}
	s.gap.Store(g)
	return g
}
