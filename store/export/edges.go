package export

import (
	"context"
	"errors"
	"fmt"

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

// edgeReader turns buckets into batches.
type edgeReader struct {
	x        *exporter
	columns  []*store.ColumnInfo // the relation, if there is one, comes last
	relation bool
	batch    edgeBatch
	out      edgeBatch
}

// edges streams the graph's edges, in the store's order. Ends are external ids, or
// positions where x.internal.
func (x *exporter) edges(ctx context.Context, emit func(b *edgeBatch) error) (err error) {
	x.phase("graph", "edges", int64(x.m.Edges))
	columns, relation := x.edgeColumns()
	r := &edgeReader{x: x, columns: columns}
	if relation != nil {
		r.columns, r.relation = append(r.columns, relation), true
	}
	stripes := x.s.ReadStripes(r.columns, min(64<<20, x.room/4), x.room)
	defer func() { err = errors.Join(err, stripes.Close()) }()
	for j := range x.m.Partitions {
		err := stripes.Stripe(ctx, store.PartitionID(j), 0, len(x.m.Partitions), func(b *store.BucketPart) error {
			return r.bucket(ctx, b, emit)
		})
		if errors.Is(err, store.ErrBudget) {
			return fmt.Errorf("%w; more --mem, or more partitions, would do", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket streams one bucket's edges.
func (r *edgeReader) bucket(ctx context.Context, k *store.BucketPart, emit func(b *edgeBatch) error) error {
	var src, dst store.ExternalIDs
	if !r.x.internal {
		var err error
		if src, err = r.x.ids.of(ctx, k.Src, srcEnd); err != nil {
			return err
		}
		if dst, err = r.x.ids.of(ctx, k.Dst, dstEnd); err != nil {
			return err
		}
	}
	firstSrc, firstDst := uint64(r.x.m.Partitions[k.Src].First), uint64(r.x.m.Partitions[k.Dst].First)
	b := &r.batch
	b.Src, b.Dst, b.SrcText, b.DstText = b.Src[:0], b.Dst[:0], b.SrcText[:0], b.DstText[:0]
	at := 0
	flush := func() error {
		n := b.len()
		if n == 0 {
			return nil
		}
		if err := r.send(b, k.Columns, at, n, emit); err != nil {
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

// send completes a batch by its columns, whose first edge is number at, and emits it.
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
