// Package repartition moves a store's nodes to other partitions: the store's newest version is the source of an ingest with
// a new assignment, whose result is its next version, with the same graph, columns and external ids.
package repartition

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/source"
)

// Run moves s's nodes to the partitions of a, which is by s's internal
// ids, and commits the result as the store's next version: the same graph,
// columns and external ids. Columns of one node type are stored for that type alone, if every node's type is known. s must be the newest version; it stays readable. Of o only
// MemoryBytes, Threads, FS, Progress, Note and, for the record, Partitioner, HubsTrain and HubChoice count.
//
// After a failure the store is as it was.
func Run(ctx context.Context, s *store.Store, a partitioner.Assigner, o ingest.Options) (*ingest.Report, error) {
	if n := s.Manifest().Nodes; a.Nodes() != n {
		return nil, fmt.Errorf("%w: %d nodes are assigned, the store has %d", source.ErrOptions, a.Nodes(), n)
	}
	return run(ctx, s, a, nil, 0, o)
}

// run is Run without the nodes that are gone; nil: with all.
func run(ctx context.Context, s *store.Store, a partitioner.Assigner, gone *roaring64.Bitmap, keepVersions int, o ingest.Options) (*ingest.Report, error) {
	m := s.Manifest()
	o.Undirected, o.Dedup, o.SelfLoops = m.Schema.Undirected, ingest.DedupNo, ingest.SelfLoopsKeep
	o.FeatureElem, o.Resume, o.Hubs, o.HubBytes, o.HubsAuto, o.Partitions = blocks.Invalid, false, 0, 0, false, a.Partitions()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	src, err := newStoreSource(s)
	if err != nil {
		return nil, err
	}
	if err := src.orderByType(ctx); err != nil {
		return nil, err
	}
	if gone != nil {
		if err := src.leaveOut(gone); err != nil {
			return nil, err
		}
	}
	w, err := store.OpenWriter(s.Dir(), store.WriterOptions{FS: o.FS, KeepVersions: keepVersions})
	if err != nil {
		return nil, err
	}
	r := &ingest.Job{Options: o, Source: src, Desc: src.Describe(), Writer: w, Kept: src, Assigner: renumbered{a, src}, Report: ingest.Report{Hubs: o.HubChoice}}
	if base := w.Base(); base == nil || base.Version != m.Version {
		return nil, errors.Join(fmt.Errorf("%w: version %d is not the store's newest", source.ErrOptions, m.Version), w.Close())
	}
	err = r.Run(ctx)
	if r.Places != nil {
		r.Places.Close()
	}
	if err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	r.Report.Notes = src.notes
	return &r.Report, w.Close()
}

// storeSource is a version of a store as a source. Source ids are its internal ids or, where the type of every node is known, count type by
// type as those of other sources do.
type storeSource struct {
	s     *store.Store
	m     *store.Manifest
	desc  source.Description
	known bool        // types are
	notes []string    // for people
	order []stretch   // ascending source ids
	rows  [][]stretch // by partition, ascending rows
	// gone are the nodes that are taken out, by internal ids; nil: none.
	gone *roaring64.Bitmap
	// relation is the relation column, nil if there is none.
	relation *store.ColumnInfo
	// memory is what reading takes: SourceBytes, or its largest bucket with columns, or the names of a partition.
	memory int64
}

func newStoreSource(s *store.Store) (*storeSource, error) {
	m := s.Manifest()
	src := &storeSource{s: s, m: m, desc: source.Description{
		Format: m.Ingest["format"], Input: m.Ingest["input"], Nodes: int64(m.Nodes), IDs: store.IDsDense,
		Named: m.IDs.Kind == store.IDsStrings, Edges: int64(m.Edges), ClassNames: m.Schema.ClassNames, Task: m.Schema.Task,
	}}
	d := &src.desc
	for _, t := range m.Schema.NodeTypes {
		d.NodeTypes = append(d.NodeTypes, source.NodeType{Name: t.Name, Count: int64(t.Count)})
	}
	for _, r := range m.Schema.Relations {
		d.Relations = append(d.Relations, r.Name)
	}
	for i := range m.Columns {
		c := &m.Columns[i]
		spec := source.ColumnSpec{Name: c.Name, Role: c.Role, Elem: c.Elem, Dim: c.Dim, Rows: -1, NodeType: c.NodeType, Coded: c.Numbers || c.Sets != nil}
		switch {
		case c.Role == store.RoleRelation:
			src.relation, d.HasRelation = c, true
		case c.Role == store.RoleSplit:
			d.Splits = append(d.Splits, c.Name)
		case c.Role.OnEdges():
			d.EdgeColumns = append(d.EdgeColumns, spec)
		default:
			if c.Role == store.RoleFeature {
				spec.Role = store.RoleNode // bytes are carried over; keep restores the role
			}
			d.NodeColumns = append(d.NodeColumns, spec)
		}
	}
	for _, l := range m.EdgeLists {
		d.EdgeLists = append(d.EdgeLists, l.Name)
	}
	for p, info := range m.Partitions {
		src.order = append(src.order, stretch{part: store.PartitionID(p), rows: info.Nodes})
	}
	src.number()
	var err error
	if src.memory, err = src.stripes().Need(); err != nil {
		return nil, err
	}
	for p := range m.Partitions {
		if _, e, err := s.Files().External(store.PartitionID(p)); err != nil {
			return nil, err
		} else if d.Named {
			src.memory = max(src.memory, e.Length)
		}
	}
	src.memory = max(src.memory, ingest.SourceBytes)
	return src, nil
}

// Bytes is the smallest budget with which [Repartition] moves s to so many partitions, the largest of
// so many nodes, unless an edge bucket is larger than it sorts at a time.
func Bytes(s *store.Store, partitions int, largest uint64) (int64, error) {
	src, err := newStoreSource(s)
	if err != nil {
		return 0, err
	}
	r := ingest.Job{Kept: src, State: &ingest.State{Nodes: s.Manifest().Nodes}}
	return r.LeastBytes(edges.PlaceBytes(r.State.Nodes, edges.PlaceBits(partitions, largest))), nil
}

// Need implements ingest.Kept.
func (src *storeSource) Need() int64 { return src.memory }

// Typed implements ingest.Kept.
func (src *storeSource) Typed() bool { return src.known }

// Keep restores in m what the store says and rows do not: roles, scales, node types, what a column was computed from, classes.
func (src *storeSource) Keep(m *store.Manifest) {
	for i := range m.Columns {
		c := &m.Columns[i]
		if old, err := src.m.Column(c.Name); err == nil {
			made := *c
			*c = *old
			c.Elem, c.Files, c.Runs, c.Values = made.Elem, made.Files, made.Runs, made.Values // relations may be narrower than they were
			if made.Runs {
				c.NodeType = made.NodeType // of splits
			}
			src.keepNumbers(c)
		}
	}
	rank := map[string]int{} // columns keep their order: the first feature, split, … is the default
	for i, c := range src.m.Columns {
		rank[c.Name] = i
	}
	slices.SortStableFunc(m.Columns, func(a, b store.ColumnInfo) int { return rank[a.Name] - rank[b.Name] })
	m.Schema.Classes, m.Schema.ClassNames = src.m.Schema.Classes, src.m.Schema.ClassNames
	facts := map[string]string{}
	for k, v := range src.m.Ingest {
		facts[k] = v
	}
	delete(facts, "hubs_why")
	for _, k := range []string{"partitioner", "partitions", "seed", "hubs", "hubs_why"} {
		if v, ok := m.Ingest[k]; ok {
			facts[k] = v
		}
	}
	m.Ingest = facts
}

// Describe implements [Source].
func (src *storeSource) Describe() *source.Description { return &src.desc }

// Close implements [Source]; the store is its caller's.
func (src *storeSource) Close() error { return nil }

// Edges implements [Source], a few buckets at a time.
func (src *storeSource) Edges(ctx context.Context, _ source.Env, emit func(worker int, b *source.EdgeBatch) error) (err error) {
	stripes := src.stripes()
	defer func() { err = errors.Join(err, stripes.Close()) }()
	b := &source.EdgeBatch{Columns: make([][]byte, len(src.desc.EdgeColumns))}
	for j := range src.m.Partitions {
		from := 0
		err := stripes.Stripe(ctx, store.PartitionID(j), 0, len(src.m.Partitions), func(k *store.BucketPart) error {
			at, sources, dests := 0, src.m.Partitions[k.Src].First, src.m.Partitions[k.Dst].First
			flush := func() (err error) {
				n := b.Src.Len()
				if n == 0 {
					return nil
				}
				b.At = source.Position{File: fmt.Sprintf("topology stripe %d", j), Unit: "edge", Index: uint64(from)}
				for c, spec := range src.desc.EdgeColumns {
					size := spec.RowBytes()
					b.Columns[c] = k.Columns[c][at*size : (at+n)*size]
				}
				if src.relation != nil {
					if b.Relations, err = relations(b.Relations[:0], src.relation.Elem, k.Columns[len(b.Columns)], at, n); err != nil {
						return err
					}
				}
				at, from = at+n, from+n
				err = emit(0, b)
				b.Src.Reset()
				b.Dst.Reset()
				return err
			}
			for d, s := range k.All() {
				if src.without(sources+store.NodeID(s), dests+store.NodeID(d)) {
					if err := flush(); err != nil { // columns are those of edges that follow each other
						return err
					}
					at, from = at+1, from+1
					continue
				}
				b.Src.Ints, b.Dst.Ints = append(b.Src.Ints, src.id(k.Src, uint64(s))), append(b.Dst.Ints, src.id(k.Dst, uint64(d)))
				if len(b.Src.Ints) == edgeBatch {
					if err := flush(); err != nil {
						return err
					}
				}
			}
			return flush()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stripes reads the graph with its edge columns, the relation last.
func (src *storeSource) stripes() *store.StripeReader {
	var columns []*store.ColumnInfo
	for _, spec := range src.desc.EdgeColumns {
		if c, err := src.m.Column(spec.Name); err == nil { // it is one of the manifest's
			columns = append(columns, c)
		}
	}
	if src.relation != nil {
		columns = append(columns, src.relation)
	}
	return src.s.ReadStripes(columns, ingest.SourceBytes/2, 0)
}

// edgeBatch is the most edges that are emitted at once.
const edgeBatch = 1 << 14

func relations(dst []uint32, elem blocks.ElemType, b []byte, from, n int) ([]uint32, error) {
	switch elem {
	case blocks.Uint8:
		for _, r := range b[from : from+n] {
			dst = append(dst, uint32(r))
		}
	case blocks.Uint16:
		all, err := blocks.View[uint16](b)
		if err != nil {
			return nil, err
		}
		for _, r := range all[from : from+n] {
			dst = append(dst, uint32(r))
		}
	default:
		return nil, fmt.Errorf("%w: relations of type %v", store.ErrInvalid, elem)
	}
	return dst, nil
}

// extentOf says where rows of partition p's nodes lie, and which of them.
type extentOf func(p store.PartitionID) (*blocks.File, blocks.Extent, store.NodeRows, error)

// pieces calls fn with rows of so many bytes, of one extent a partition, a few MiB at a time, by source ids, and the source id of the first.
func (src *storeSource) pieces(ctx context.Context, rowBytes int, extent extentOf, fn func(first uint64, rows []byte) error) error {
	const piece = 4 << 20
	buf := make([]byte, blocks.RangeBytes(piece))
	for _, t := range src.order {
		f, e, stored, err := extent(t.part)
		if err != nil {
			return err
		}
		size := uint64(rowBytes)
		step := max(piece/size&^7, 8)
		for row, end := t.first, uint64(0); row < t.first+t.rows; row = end {
			if err := ctx.Err(); err != nil {
				return err
			}
			end = min(row+step, t.first+t.rows)
			var rows []byte
			if stored.Stored(row) {
				end = min(end, stored.First+stored.Rows)
				rows, err = f.ReadRangeInto(e, int64((row-stored.First)*size), int64((end-stored.First)*size), buf)
				if err != nil {
					return err
				}
			} else { // of another type, up to those that are stored
				if row < stored.First {
					end = min(end, stored.First)
				}
				buf = slices.Grow(buf[:0], int((end-row)*size))
				buf = buf[:cap(buf)]
				rows = buf[:(end-row)*size]
				stored.Fill(rows, row)
			}
			if err := fn(t.id+row-t.first, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// Column is the extents of a column of nodes.
func (src *storeSource) column(name string) extentOf {
	return func(p store.PartitionID) (*blocks.File, blocks.Extent, store.NodeRows, error) {
		return src.s.Files().NodeRows(name, p)
	}
}

// external is the extents of external ids.
func (src *storeSource) external(p store.PartitionID) (*blocks.File, blocks.Extent, store.NodeRows, error) {
	f, e, err := src.s.Files().External(p)
	return f, e, store.NodeRows{Rows: e.Rows, Nodes: e.Rows}, err
}

// Rows implements [Source].
func (src *storeSource) Rows(ctx context.Context, _ source.Env, c int, emit func(rows []byte, at source.Position) error) error {
	name := src.desc.NodeColumns[c].Name
	return src.pieces(ctx, src.desc.NodeColumns[c].RowBytes(), src.column(name), func(first uint64, rows []byte) error {
		return emit(rows, source.Position{File: name, Unit: "row", Index: first})
	})
}

// Split implements [Source].
func (src *storeSource) Split(ctx context.Context, _ source.Env, s int, part uint8, emit func(ids *source.IDs, at source.Position) error) error {
	var ids source.IDs
	name := src.desc.Splits[s]
	return src.pieces(ctx, 1, src.column(name), func(first uint64, rows []byte) error {
		ids.Reset()
		for i, x := range rows {
			if x == part {
				ids.Ints = append(ids.Ints, first+uint64(i))
			}
		}
		return emit(&ids, source.Position{File: name, Unit: "row", Index: first})
	})
}

// EdgeList implements [Source].
func (src *storeSource) EdgeList(ctx context.Context, _ source.Env, l int, emit func(b *source.EdgeBatch) error) error {
	r, err := src.s.EdgeList(ctx, src.desc.EdgeLists[l])
	if err != nil {
		return err
	}
	b := &source.EdgeBatch{At: source.Position{File: src.desc.EdgeLists[l], Unit: "edge"}}
	flush := func() error {
		err := emit(b)
		b.At.Index += uint64(b.Len())
		b.Src.Reset()
		b.Dst.Reset()
		b.Relations = b.Relations[:0]
		return err
	}
	for r.Next() {
		e := r.Edge()
		if src.without(e.Src, e.Dst) {
			continue
		}
		s, err := src.m.Partition(e.Src)
		if err != nil {
			return err
		}
		d, err := src.m.Partition(e.Dst)
		if err != nil {
			return err
		}
		b.Src.Ints = append(b.Src.Ints, src.id(s, uint64(e.Src-src.m.Partitions[s].First)))
		b.Dst.Ints = append(b.Dst.Ints, src.id(d, uint64(e.Dst-src.m.Partitions[d].First)))
		b.Relations = append(b.Relations, uint32(e.Relation))
		if b.Len() == 1<<14 {
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

// Names implements [Source]: string ids.
func (src *storeSource) Names(ctx context.Context, _ source.Env, emit func(names *source.IDs, at source.Position) error) error {
	var buf []byte
	var ids store.ExternalIDs
	read := -1 // the partition that ids are of: pieces of one follow each other
	for _, t := range src.order {
		if read != int(t.part) {
			var err error
			if ids, buf, err = src.s.ReadExternal(ctx, t.part, buf); err != nil {
				return err
			}
			read = int(t.part)
		}
		names := source.IDs{Ends: []uint32{}}
		for row := t.first; row < t.first+t.rows && row < uint64(ids.Len()); row++ {
			names.Append(ids.Strings.At(int(row)))
		}
		if err := emit(&names, source.Position{File: "external ids", Unit: "node", Index: t.id}); err != nil {
			return err
		}
	}
	return nil
}
