package grow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/source"
)

// updateRows writes the features that the tables have of nodes, in place of what these had. The extents of partitions with such a node are
// written again.
func (l *relabeller) updateRows(ctx context.Context) error {
	src := l.of.Rows
	if l.o.Missing != ingest.MissingError {
		var err error
		if src, err = source.WithMasks(src, func(name string) bool { _, err := l.m.Column(name + source.MaskSuffix); return err == nil }); err != nil {
			return err
		}
	}
	var sizes []uint32
	for _, p := range l.m.Partitions {
		sizes = append(sizes, uint32(p.Nodes))
	}
	layout, err := edges.NewLayout(sizes, 0, 1)
	if err != nil {
		return err
	}
	desc := src.Describe()
	job := &ingest.Job{Options: l.edges.Options, Source: src, Desc: desc, Writer: l.w, Manifest: &store.Manifest{}, State: &ingest.State{}, Layout: layout,
		Like: map[string]*store.ColumnInfo{}}
	columns := 0
	for c, spec := range desc.NodeColumns {
		if spec.Role != store.RoleFeature {
			continue
		}
		columns++
		old, err := l.m.Column(spec.Name)
		if err != nil || old.Role != store.RoleFeature || old.Derived != "" {
			return source.Inputf(desc.Input, "the store has no feature column %s", spec.Name)
		}
		like, at := partOf(old, spec.Elements)
		job.Like[spec.Name] = like
		given, err := l.featureRows(ctx, job, c, like)
		if err == nil && len(given.ids) > 0 {
			err = l.replaceRows(ctx, job, old, given, at)
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", spec.Name, err)
		}
		l.rep.Updated = max(l.rep.Updated, uint64(len(given.ids)))
	}
	switch {
	case columns == 0 && l.label == nil && l.parts == nil:
		return source.Inputf(desc.Input, "no column of features, of labels or of a split")
	case l.rep.Unknown > 0 && l.rep.Updated == 0 && l.label == nil && l.parts == nil:
		return source.Inputf(desc.Input, "none of its %d rows names a node of the store, such as %q", l.rep.Unknown, l.rep.UnknownSome)
	}
	if l.rep.Updated > 0 {
		l.dropDerived()
	}
	return nil
}

// partOf is a column of some of the elements of c, such as those that one column of a table makes, and where they stand in it. Other
// elements than c has, or none that are named, are c's own to refuse.
func partOf(c *store.ColumnInfo, elements []string) (part *store.ColumnInfo, at []int) {
	for _, e := range elements {
		at = append(at, slices.Index(c.Elements, e))
	}
	if c.Elements == nil || elements == nil || slices.Contains(at, -1) || c.Dim != len(c.Elements) {
		at = nil
		for k := range c.Dim {
			at = append(at, k)
		}
		return c, at
	}
	some := *c
	some.Elements, some.Dim, some.Scale, some.Standard = elements, len(elements), nil, nil
	if s := c.Standard; s != nil {
		some.Standard = &store.Standard{}
		for _, k := range at {
			some.Standard.Mean, some.Standard.Deviation = append(some.Standard.Mean, s.Mean[k]), append(some.Standard.Deviation, s.Deviation[k])
		}
	}
	if c.Scale != nil {
		for _, k := range at {
			some.Scale = append(some.Scale, c.Scale[k])
		}
	}
	return &some, at
}

// featureRows reads the rows of a column, as column like of the store has them.
func (l *relabeller) featureRows(ctx context.Context, job *ingest.Job, c int, like *store.ColumnInfo) (*rowsGiven, error) {
	keyed, ok := job.Source.(source.KeyedSource)
	if !ok || !job.Desc.NodeColumns[c].Keyed {
		return nil, source.Inputf(job.Desc.Input, "its rows do not name their nodes")
	}
	conv, err := job.Converter(ctx, c)
	if err != nil {
		return nil, err
	}
	g := &rowsGiven{size: like.RowBytes()}
	var out []byte
	err = keyed.KeyedRows(ctx, job.Env(), c, func(ids *source.IDs, rows []byte, at source.Position) error {
		var err error
		if out, err = conv.Convert(out[:0], rows, at); err != nil {
			return err
		}
		return l.take(ctx, g, ids, func(i int) []byte { return out[i*g.size : (i+1)*g.size] })
	})
	l.counted = true
	if err == nil {
		err = g.sort(job.Desc.Input)
	}
	return g, err
}

// rowsBytes of a column are copied at a time.
const rowsBytes = 4 << 20

// replaceRows writes the extents of a column in which there are rows to replace: their elements at.
func (l *relabeller) replaceRows(ctx context.Context, job *ingest.Job, c *store.ColumnInfo, g *rowsGiven, at []int) (err error) {
	name, w, err := l.w.CreateFile(ingest.FileBase(c.Name), blocks.Header{Kind: blocks.NodeColumn, Elem: c.Elem, Dim: uint32(c.Dim), Name: c.Name, Partitions: uint32(len(l.m.Partitions))})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Abort())
		}
	}()
	job.Phase("column "+c.Name, "rows", int64(len(g.ids)))
	var buf []byte
	size, element := c.RowBytes(), c.Elem.Size()
	nodes := make([]store.NodeID, 0, max(rowsBytes/size, 1))
	next := 0 // of the rows that replace
	for p, info := range l.m.Partitions {
		end := uint64(info.First) + info.Nodes
		if next == len(g.ids) || g.ids[next] >= end {
			continue
		}
		stored := l.m.NodeRows(c, store.PartitionID(p))
		if err := w.Begin(uint64(p)); err != nil {
			return err
		}
		for lo := uint64(0); lo < stored.Rows; lo += uint64(len(nodes)) {
			first := uint64(info.First) + stored.First + lo
			nodes = nodes[:0]
			for k := range min(stored.Rows-lo, uint64(cap(nodes))) {
				nodes = append(nodes, store.NodeID(first+k))
			}
			if buf, err = l.base.Features(ctx, c.Name, nodes, buf); err != nil {
				return err
			}
			for ; next < len(g.ids) && g.ids[next] < first+uint64(len(nodes)); next++ {
				if g.ids[next] < first {
					return l.otherType(c, g.ids[next])
				}
				row := buf[int(g.ids[next]-first)*size:]
				for k, to := range at {
					copy(row[to*element:(to+1)*element], g.rows[next*g.size+k*element:])
				}
				job.Tick(1)
			}
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
		if next < len(g.ids) && g.ids[next] < end {
			return l.otherType(c, g.ids[next])
		}
		if err := w.End(stored.Rows); err != nil {
			return err
		}
	}
	info, err := w.Close()
	if err != nil {
		return err
	}
	c.Files = append(c.Files, name)
	l.m.Files = append(l.m.Files, store.Ref(name, info))
	return nil
}

// otherType refuses a row of a node whose type the column is not of.
func (l *relabeller) otherType(c *store.ColumnInfo, node uint64) error {
	id, err := l.base.External(context.Background(), store.NodeID(node))
	if err != nil {
		return err
	}
	return source.Inputf(l.of.Rows.Describe().Input, "node %q has a row of %s, which only nodes of type %s have", id, c.Name, c.NodeType)
}
