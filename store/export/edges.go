package export

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// edgeBatch is some edges in output order. Its slices are valid until the
// callback returns.
type edgeBatch struct {
	// Src and Dst hold positions or integer external ids, SrcText and DstText
	// string ids; one of both is nil.
	Src, Dst         []uint64
	SrcText, DstText [][]byte
	Relations        []uint32 // nil if edges have none
	Columns          [][]byte // rows of each edge column but the relation
}

func (b *edgeBatch) len() int { return max(len(b.Src), len(b.SrcText)) }

// edgeBatchEdges is the most edges of a batch.
const edgeBatchEdges = 1 << 14

// edgeColumns lists the edge columns but the relation, and the relation, nil if there is none.
func (x *exporter) edgeColumns() (columns []*store.ColumnInfo, relation *store.ColumnInfo) {
	for i := range x.m.Columns {
		c := &x.m.Columns[i]
		switch {
		case c.Role == store.RoleRelation:
			relation = c
		case c.Role.OnEdges():
			columns = append(columns, c)
		}
	}
	return columns, relation
}

// edgeReader reads a row's buckets and their part of the edge columns, as many
// at a time as fit.
type edgeReader struct {
	x        *exporter
	columns  []*store.ColumnInfo // the relation, if there is one, comes last
	relation bool
	limit    int64 // bytes for one run of buckets
	slab     *blockio.Slab
	batch    edgeBatch
	out      edgeBatch
}

// edges streams the graph's edges, in the store's order. Ends are external ids, or
// positions where x.positions.
func (x *exporter) edges(ctx context.Context, emit func(b *edgeBatch) error) (err error) {
	x.phase("graph", "edges", int64(x.m.Edges))
	columns, relation := x.edgeColumns()
	r := &edgeReader{x: x, columns: columns, limit: min(64<<20, x.room/4)}
	if relation != nil {
		r.columns, r.relation = append(r.columns, relation), true
	}
	defer func() {
		if r.slab != nil {
			_ = r.slab.Free()
		}
	}()
	for j := range x.m.Partitions {
		if err := r.row(ctx, store.PartitionID(j), emit); err != nil {
			return err
		}
	}
	return nil
}

// row streams the edges into partition j.
func (r *edgeReader) row(ctx context.Context, j store.PartitionID, emit func(b *edgeBatch) error) error {
	f, e, err := r.x.s.TopologyExtent(j)
	if err != nil {
		return err
	}
	h := f.Header()
	n := blocks.DirectoryBytes(h.Partitions)
	if e.Length < n {
		return &blocks.CorruptError{Path: f.Path(), Extent: h.ExtentName(e.ID), Offset: e.Offset, Reason: fmt.Sprintf("%d bytes, its directory alone has %d", e.Length, n)}
	}
	b, err := f.ReadRange(e, e.Length-n, e.Length)
	if err != nil {
		return err
	}
	dir, err := blocks.OpenDirectory(b, h.Partitions, e.Length)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", f.Path(), h.ExtentName(e.ID), err)
	}
	for lo := 0; lo < dir.Partitions(); {
		if dir.BucketEdges(lo) == 0 {
			lo++
			continue
		}
		hi := lo + 1
		for hi < dir.Partitions() && r.runBytes(&dir, lo, hi+1) <= r.limit {
			hi++
		}
		if err := r.buckets(ctx, f, e, &dir, j, lo, hi, emit); err != nil {
			return err
		}
		lo = hi
	}
	return nil
}

// runBytes is the memory that buckets lo … hi−1 of a row take while they are read.
func (r *edgeReader) runBytes(dir *blocks.Directory, lo, hi int) int64 {
	from, to := dir.Range(lo, hi)
	n := blocks.RangeBytes(to - from)
	for _, c := range r.columns {
		n += blocks.AlignUp(blocks.RangeBytes(int64(dir.FirstEdge(hi)-dir.FirstEdge(lo)) * int64(c.RowBytes())))
	}
	return n + blocks.Alignment
}

// buckets streams buckets lo … hi−1 of row j.
func (r *edgeReader) buckets(ctx context.Context, f *blocks.File, e blocks.Extent, dir *blocks.Directory, j store.PartitionID, lo, hi int, emit func(b *edgeBatch) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	need := r.runBytes(dir, lo, hi)
	if need > max(r.limit, r.x.room/2) {
		return r.x.tooSmall(2 * need)
	}
	if r.slab == nil || int64(len(r.slab.Bytes())) < need {
		if r.slab != nil {
			if err := r.slab.Free(); err != nil {
				return err
			}
		}
		var err error
		if r.slab, err = blockio.AllocSlab(max(need, r.limit), blockio.SlabOptions{Lazy: true}); err != nil {
			return err
		}
	}
	free := r.slab.Bytes()
	take := func(n int64) []byte {
		b := free[:n:n]
		free = free[blocks.AlignUp(n):]
		return b
	}
	firstEdge := dir.FirstEdge(lo)
	columns := make([][]byte, len(r.columns))
	for c, info := range r.columns {
		cf, ce, err := r.x.s.ColumnExtent(info.Name, j)
		if err != nil {
			return err
		}
		from, to := int64(firstEdge)*int64(info.RowBytes()), int64(dir.FirstEdge(hi))*int64(info.RowBytes())
		if columns[c], err = cf.ReadRangeInto(ce, from, to, take(blocks.RangeBytes(to-from))); err != nil {
			return err
		}
	}
	from, to := dir.Range(lo, hi)
	raw, err := f.ReadRangeInto(e, from, to, free)
	if err != nil {
		return err
	}
	for i := lo; i < hi; i++ {
		a, z := dir.Range(i, i+1)
		k, err := dir.Bucket(i, raw[a-from:z-from:z-from])
		if err == nil {
			err = k.Check()
		}
		if err != nil {
			h := f.Header()
			return fmt.Errorf("%s: %s: %w", f.Path(), h.ExtentName(e.ID), err)
		}
		if err := r.bucket(ctx, &k, store.PartitionID(i), j, columns, int(dir.FirstEdge(i)-firstEdge), emit); err != nil {
			return err
		}
	}
	return nil
}

// bucket streams one bucket's edges; the first is number at of what columns hold.
func (r *edgeReader) bucket(ctx context.Context, k *blocks.Bucket, i, j store.PartitionID, columns [][]byte, at int, emit func(b *edgeBatch) error) error {
	var src, dst store.ExternalIDs
	if !r.x.internal {
		var err error
		if src, err = r.x.ids.of(ctx, i, srcEnd); err != nil {
			return err
		}
		if dst, err = r.x.ids.of(ctx, j, dstEnd); err != nil {
			return err
		}
	}
	firstSrc, firstDst := uint64(r.x.m.Partitions[i].First), uint64(r.x.m.Partitions[j].First)
	b := &r.batch
	b.Src, b.Dst, b.SrcText, b.DstText = b.Src[:0], b.Dst[:0], b.SrcText[:0], b.DstText[:0]
	flush := func() error {
		n := b.len()
		if n == 0 {
			return nil
		}
		if err := r.send(b, columns, at, n, emit); err != nil {
			return err
		}
		at += n
		b.Src, b.Dst, b.SrcText, b.DstText = b.Src[:0], b.Dst[:0], b.SrcText[:0], b.DstText[:0]
		return nil
	}
	for d, s := range k.All() {
		switch {
		case r.x.internal:
			b.Src, b.Dst = append(b.Src, firstSrc+uint64(s)), append(b.Dst, firstDst+uint64(d))
		case src.Ints != nil:
			b.Src, b.Dst = append(b.Src, src.Ints[s]), append(b.Dst, dst.Ints[d])
		default:
			b.SrcText, b.DstText = append(b.SrcText, src.Strings.At(int(s))), append(b.DstText, dst.Strings.At(int(d)))
		}
		if b.len() == edgeBatchEdges {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// send completes a batch by its columns and emits it.
func (r *edgeReader) send(b *edgeBatch, columns [][]byte, at, n int, emit func(b *edgeBatch) error) error {
	out := &r.out
	out.Src, out.Dst, out.SrcText, out.DstText = b.Src, b.Dst, b.SrcText, b.DstText
	out.Columns, out.Relations = out.Columns[:0], out.Relations[:0]
	for c, info := range r.columns {
		w := info.RowBytes()
		rows := columns[c][at*w : (at+n)*w]
		if !r.relation || c < len(r.columns)-1 {
			out.Columns = append(out.Columns, rows)
			continue
		}
		for k := range n {
			id := uint32(info.Elem.Float64(rows[k*w:]))
			if int(id) >= len(r.x.m.Schema.Relations) {
				return fmt.Errorf("%w: relation %d of %d", store.ErrInvalid, id, len(r.x.m.Schema.Relations))
			}
			out.Relations = append(out.Relations, id)
		}
	}
	if err := emit(out); err != nil {
		return err
	}
	r.x.tick(int64(n))
	return nil
}

// edgeListBlock is how many edges of a list are resolved at once.
const edgeListBlock = 1 << 17

// edgeList streams an edge list in its order.
func (x *exporter) edgeList(ctx context.Context, name string, emit func(b *edgeBatch) error) error {
	l, err := x.m.EdgeList(name)
	if err != nil {
		return err
	}
	x.phase("edge list "+name, "edges", int64(l.Rows))
	r, err := x.s.EdgeList(ctx, name)
	if err != nil {
		return err
	}
	var nodes []store.NodeID
	var relations []uint32
	_, relation := x.edgeColumns()
	flush := func() error {
		if len(nodes) == 0 {
			return nil
		}
		ints, text := make([]uint64, len(nodes)), [][]byte(nil)
		if x.internal {
			for i, id := range nodes {
				ints[i] = uint64(id)
			}
		} else {
			if x.m.IDs.Kind == store.IDsStrings {
				text = make([][]byte, len(nodes))
			}
			if err := x.ids.resolve(ctx, nodes, ints, text); err != nil {
				return err
			}
		}
		b := &edgeBatch{}
		for i := 0; i < len(nodes); i += 2 {
			if text != nil {
				b.SrcText, b.DstText = append(b.SrcText, text[i]), append(b.DstText, text[i+1])
			} else {
				b.Src, b.Dst = append(b.Src, ints[i]), append(b.Dst, ints[i+1])
			}
		}
		if relation != nil {
			b.Relations = relations
		}
		n := b.len()
		nodes = nodes[:0]
		err := emit(b)
		relations = relations[:0]
		x.tick(int64(n))
		return err
	}
	for r.Next() {
		e := r.Edge()
		nodes = append(nodes, e.Src, e.Dst)
		relations = append(relations, uint32(e.Relation))
		if len(nodes) == 2*edgeListBlock {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := r.Err(); err != nil {
		return err
	}
	return flush()
}
