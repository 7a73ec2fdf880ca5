package rows

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/internal/sorting"
)

// graph is a store's topology in memory, with its labels and the nodes to train. A node's row is its internal id.
type graph struct {
	slab   *blockio.Slab
	adj    buffer.Adjacency
	out    *buffer.Adjacency // the same edges by source, with Options.Both
	labels []int32
	seeds  []uint32 // in order of external ids
	read   int64    // bytes
}

// loader holds what loading takes beside the graph.
type loader struct {
	s       *store.Store
	m       *store.Manifest
	o       *Options
	g       *graph
	scratch []byte
	order   []uint32            // nodes by external id
	columns []*store.ColumnInfo // of edges: their relations and weights, as far as they are wanted
}

// loadGraph reads it.
func loadGraph(ctx context.Context, s *store.Store, o *Options) (_ *graph, err error) {
	m := s.Manifest()
	size, err := graphBytes(m, o)
	if err != nil {
		return nil, err
	}
	g := &graph{}
	if g.slab, err = blockio.AllocSlab(max(size, 1), blockio.SlabOptions{Threads: o.Threads}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = g.slab.Free()
		}
	}()
	words := view(g.slab.Bytes(), int(size/4))
	take := func(n int) []uint32 {
		w := words[:n:n]
		words = words[n:]
		return w
	}
	n := int(m.Nodes)
	directions := []*buffer.Adjacency{&g.adj}
	if o.Both {
		g.out = &buffer.Adjacency{}
		directions = append(directions, g.out)
	}
	edges := int(storedEdges(m))
	for _, a := range directions {
		if o.Weights { // first, as they are aligned to 8 bytes
			if a.Sums, err = blocks.View[float64](blocks.Bytes(take(2 * int(sumsOf(int64(edges)))))); err != nil {
				return nil, err
			}
		}
	}
	for _, a := range directions {
		a.Starts, a.Bases = take(n+1), make([]int64, n>>16+1)
	}
	l := &loader{s: s, m: m, o: o, g: g, columns: o.edgeColumns(m)}
	// The scratch comes first, at the slab's aligned begin: external ids are viewed there, of 8 bytes each, and behind an order of
	// an odd number of nodes they would begin at a multiple of 4.
	room := scratchBytes(m)
	held, err := blockio.AllocSlab(room+4*int64(n), blockio.SlabOptions{Lazy: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Free() }()
	l.scratch, l.order = held.Bytes()[:room:room], view(held.Bytes()[room:], n)
	if m.Labels() != nil && o.Labels {
		labels := take(n)
		if err := l.readLabels(ctx, labels); err != nil {
			return nil, err
		}
	}
	if err := l.sortNodes(ctx); err != nil {
		return nil, err
	}
	seeds, err := seedsMost(m, o)
	if err != nil {
		return nil, err
	}
	if err := l.findSeeds(ctx, take(int(seeds))); err != nil {
		return nil, err
	}
	for _, a := range directions {
		a.Indices = take(edges)
		if o.Weights {
			if a.Weights, err = blocks.View[float32](blocks.Bytes(take(edges))); err != nil {
				return nil, err
			}
		}
		if o.Relations {
			if a.Relations, err = blocks.View[uint16](blocks.Bytes(take((edges + 1) / 2))); err != nil {
				return nil, err
			}
		}
		if err := l.fill(ctx, a); err != nil {
			return nil, err
		}
		if err := l.sortNeighbours(ctx, a); err != nil {
			return nil, err
		}
		if o.Weights {
			a.SumWeights(0, a.Rows())
		}
	}
	return g, nil
}

// edgeColumns are those that are read with the topology.
func (o *Options) edgeColumns(m *store.Manifest) (columns []*store.ColumnInfo) {
	if c, _ := m.RelationColumn(); o.Relations && c != nil { // [buffer.Options.Validate] has asked
		columns = append(columns, c)
	}
	if o.Weights {
		columns = append(columns, m.ColumnsOf(store.RoleWeight)[0])
	}
	return columns
}

// sumsOf is how many sums of weights so many edges have.
func sumsOf(edges int64) int64 { return (edges + buffer.SumEdges - 1) / buffer.SumEdges }

// storedEdges is how many edges a direction has: of an undirected graph both of each.
func storedEdges(m *store.Manifest) int64 {
	if m.Schema.Undirected {
		return 2 * int64(m.Edges)
	}
	return int64(m.Edges)
}

// view is the first n words of b.
func view(b []byte, n int) []uint32 {
	w, err := blocks.View[uint32](b[: 4*n : 4*n])
	if err != nil {
		panic(err) // slabs are aligned
	}
	return w
}

// column reads a partition's part of a column of one element a node.
func (l *loader) column(ctx context.Context, c *store.ColumnInfo, elem blocks.ElemType, p int) ([]byte, error) {
	if c.Elem != elem || c.Dim != 1 {
		return nil, fmt.Errorf("%w: %s column %q is %d × %v, expected 1 × %v", store.ErrInvalid, c.Role, c.Name, c.Dim, c.Elem, elem)
	}
	stored, err := l.s.ColumnBytes(c.Name, store.PartitionID(p))
	if err != nil {
		return nil, err
	}
	l.g.read += blocks.AlignUp(stored)
	b, err := l.s.ReadColumn(ctx, c.Name, store.PartitionID(p), l.scratch)
	if want := int(l.m.Partitions[p].Nodes) * c.RowBytes(); err == nil && len(b) != want {
		return nil, fmt.Errorf("%w: column %q has %d bytes of partition %d, expected %d", store.ErrCorrupt, c.Name, len(b), p, want)
	}
	return b, err
}

func (l *loader) readLabels(ctx context.Context, to []uint32) error {
	c := l.m.Labels()
	for p := range l.m.Partitions {
		b, err := l.column(ctx, c, blocks.Int32, p)
		if err != nil {
			return err
		}
		copy(blocks.Bytes(to[l.m.Partitions[p].First:]), b)
	}
	labels, err := blocks.View[int32](blocks.Bytes(to))
	l.g.labels = labels
	return err
}

// sortNodes sets l.order: integers by value, strings bytewise, as in plan "memory".
func (l *loader) sortNodes(ctx context.Context) error {
	var ids []uint64
	var names []blocks.Strings
	var free []byte
	n := int64(len(l.order))
	switch l.m.IDs.Kind {
	case store.IDsDense: // placed instead of sorted
		for i := range l.order {
			l.order[i] = uint32(n)
		}
	case store.IDsStrings:
		size := int64(0)
		for p := range l.m.Partitions {
			_, e, err := l.s.Files().External(store.PartitionID(p))
			if err != nil {
				return err
			}
			size += blocks.AlignUp(blocks.RangeBytes(e.Length))
		}
		slab, err := blockio.AllocSlab(max(1, size), blockio.SlabOptions{Lazy: true})
		if err != nil {
			return err
		}
		defer func() { _ = slab.Free() }()
		free = slab.Bytes()
	default:
		slab, err := blockio.AllocSlab(max(1, 8*n), blockio.SlabOptions{Lazy: true})
		if err != nil {
			return err
		}
		defer func() { _ = slab.Free() }()
		if ids, err = blocks.View[uint64](slab.Bytes()); err != nil {
			return err
		}
	}
	for p := range l.m.Partitions {
		first, nodes := uint32(l.m.Partitions[p].First), uint32(l.m.Partitions[p].Nodes)
		dst := l.scratch
		if l.m.IDs.Kind == store.IDsStrings {
			dst = free
		}
		x, b, err := l.s.ReadExternal(ctx, store.PartitionID(p), dst)
		if err != nil {
			return err
		}
		if x.Len() != int(nodes) {
			return fmt.Errorf("%w: partition %d has %d external ids, expected %d", store.ErrCorrupt, p, x.Len(), nodes)
		}
		switch {
		case l.m.IDs.Kind == store.IDsStrings:
			names = append(names, x.Strings)
			free = free[min(int64(len(free)), blocks.AlignUp(blocks.RangeBytes(int64(len(b))))):]
		case ids != nil:
			copy(ids[first:], x.Ints)
		default:
			for k, id := range x.Ints {
				if id >= uint64(n) || l.order[id] != uint32(n) {
					return fmt.Errorf("%w: external id %d is repeated or not below %d", store.ErrCorrupt, id, n)
				}
				l.order[id] = first + uint32(k)
			}
		}
	}
	if l.m.IDs.Kind == store.IDsDense {
		return nil
	}
	for i := range l.order {
		l.order[i] = uint32(i)
	}
	scratch := l.g.adj.Starts // which are not counted yet
	defer clear(scratch)
	if ids != nil {
		sorting.Runs(l.order, scratch, func(a, b uint32) bool { return ids[a] < ids[b] })
		return nil
	}
	at := bases(l.m)
	name := func(v uint32) []byte {
		p := partition(at, v)
		return names[p].At(int(v - at[p]))
	}
	sorting.Runs(l.order, scratch, func(a, b uint32) bool { return bytes.Compare(name(a), name(b)) < 0 })
	return nil
}

// findGiven is findSeeds of Options.Seeds.
func (l *loader) findGiven(room []uint32) error {
	slab, err := blockio.AllocSlab(max(1, int64(len(l.order))), blockio.SlabOptions{Lazy: true})
	if err != nil {
		return err
	}
	defer func() { _ = slab.Free() }()
	isSeed, n := slab.Bytes(), 0
	for v := range l.o.Seeds.All() {
		isSeed[v] = 1
	}
	for _, v := range l.order {
		if isSeed[v] == 1 {
			room[n] = v
			n++
		}
	}
	l.g.seeds = room[:n:n]
	return nil
}

// findSeeds lists the nodes to train.
func (l *loader) findSeeds(ctx context.Context, room []uint32) error {
	if l.o.Seeds != nil {
		return l.findGiven(room)
	}
	c, err := l.m.SplitColumn(l.o.SplitColumn)
	if err != nil {
		return err
	}
	slab, err := blockio.AllocSlab(max(1, int64(len(l.order))), blockio.SlabOptions{Lazy: true})
	if err != nil {
		return err
	}
	defer func() { _ = slab.Free() }()
	split := slab.Bytes()
	for p := range l.m.Partitions {
		b, err := l.column(ctx, c, blocks.Uint8, p)
		if err != nil {
			return err
		}
		copy(split[l.m.Partitions[p].First:], b)
	}
	want, n := store.SplitValue(cmp.Or(l.o.Split, "train")), 0
	for _, v := range l.order {
		if split[v] != want {
			continue
		}
		if n == len(room) {
			return fmt.Errorf("%w: column %q marks more nodes as %q than the manifest counts (%d)", store.ErrCorrupt, c.Name, cmp.Or(l.o.Split, "train"), n)
		}
		room[n] = v
		n++
	}
	l.g.seeds = room[:n:n]
	return nil
}

// fill makes the adjacency in two passes over the topology: degrees, then neighbours, which come in order of internal ids.
func (l *loader) fill(ctx context.Context, a *buffer.Adjacency) error {
	if err := l.edges(ctx, a, func(d, _ uint32, _ uint16, _ float32) { a.Starts[d]++ }); err != nil {
		return err
	}
	if err := a.Begin(); err != nil {
		return err
	}
	err := l.edges(ctx, a, a.Put)
	a.End()
	return err
}

// edges calls fn for every edge of a, with both ends, the node whose list it is in first, its relation and weight, those of an
// undirected graph in both directions, in the order in which they are stored: each node's in order of the other end.
func (l *loader) edges(ctx context.Context, a *buffer.Adjacency, fn func(node, other uint32, r uint16, w float32)) error {
	stripes := l.s.ReadStripes(l.columns, stripeLimit(l.m), 0)
	out := a == l.g.out
	defer func() { _ = stripes.Close() }()
	undirected := l.m.Schema.Undirected
	for j := range l.m.Partitions {
		_, e, err := l.s.Files().Topology(store.PartitionID(j))
		if err != nil {
			return err
		}
		l.g.read += blocks.AlignUp(e.Length)
		for _, c := range l.columns {
			_, e, err := l.s.Files().Column(c.Name, store.PartitionID(j))
			if err != nil {
				return err
			}
			l.g.read += blocks.AlignUp(e.Length)
		}
		err = stripes.Stripe(ctx, store.PartitionID(j), 0, len(l.m.Partitions), func(b *store.BucketPart) error {
			if err := b.Check(); err != nil {
				return err
			}
			to, from := uint32(l.m.Partitions[b.Dst].First), uint32(l.m.Partitions[b.Src].First)
			if uint64(b.DstNodes) != l.m.Partitions[b.Dst].Nodes || uint64(b.SrcNodes) != l.m.Partitions[b.Src].Nodes {
				return fmt.Errorf("%w: bucket (%d,%d) of %d and %d nodes, expected %d and %d", store.ErrCorrupt, b.Src, b.Dst, b.SrcNodes, b.DstNodes, l.m.Partitions[b.Src].Nodes, l.m.Partitions[b.Dst].Nodes)
			}
			relations, err := l.relations(b)
			if err != nil {
				return err
			}
			weights, err := l.weights(b)
			if err != nil {
				return err
			}
			run := -1
			for k := range b.Edges {
				run += int(b.Starts[k>>6] >> (k & 63) & 1)
				d, s := to, from
				if b.Dst16 != nil {
					d += uint32(b.Dst16[run])
				} else {
					d += b.Dst32[run]
				}
				if b.Src16 != nil {
					s += uint32(b.Src16[k])
				} else {
					s += b.Src32[k]
				}
				r := uint16(0)
				if relations != nil {
					r = relations(int(k))
				}
				w := float32(0)
				if weights != nil {
					w = weights[k]
				}
				if out {
					fn(s, d, r, w)
					continue
				}
				fn(d, s, r, w)
				if undirected && d != s {
					fn(s, d, r, w)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// relations returns what tells the relation of each edge of a bucket; nil where they are not read.
func (l *loader) relations(b *store.BucketPart) (of func(edge int) uint16, err error) {
	if !l.o.Relations || len(l.columns) == 0 || l.columns[0].Role != store.RoleRelation { // of a store of one relation
		return nil, nil
	}
	bytes, c := b.Columns[0], l.columns[0]
	if c.Dim != 1 || c.Elem != blocks.Uint8 && c.Elem != blocks.Uint16 || int64(len(bytes)) != int64(b.Edges)*int64(c.RowBytes()) {
		return nil, fmt.Errorf("%w: column %q has %d bytes of %d × %v for %d edges of bucket (%d,%d)", store.ErrCorrupt, c.Name, len(bytes), c.Dim, c.Elem, b.Edges, b.Src, b.Dst)
	}
	of = func(e int) uint16 { return uint16(bytes[e]) }
	if c.Elem == blocks.Uint16 {
		of = func(e int) uint16 { return binary.LittleEndian.Uint16(bytes[2*e:]) }
	}
	for e := range int(b.Edges) {
		if r := of(e); int(r) >= len(l.m.Schema.Relations) {
			return nil, fmt.Errorf("%w: edge %d of bucket (%d,%d) has relation %d, the store has %d", store.ErrCorrupt, e, b.Src, b.Dst, r, len(l.m.Schema.Relations))
		}
	}
	return of, nil
}

// weights are those of a bucket's edges; nil where they are not read.
func (l *loader) weights(b *store.BucketPart) ([]float32, error) {
	if !l.o.Weights {
		return nil, nil
	}
	last := len(l.columns) - 1
	bytes, c := b.Columns[last], l.columns[last]
	if c.Dim != 1 || c.Elem != blocks.Float32 || int64(len(bytes)) != 4*int64(b.Edges) {
		return nil, fmt.Errorf("%w: column %q has %d bytes of %d × %v for %d edges of bucket (%d,%d)", store.ErrCorrupt, c.Name, len(bytes), c.Dim, c.Elem, b.Edges, b.Src, b.Dst)
	}
	return blocks.View[float32](bytes)
}

// sortNeighbours puts them in the order of external ids, as plan "memory" does, so that samples are the same.
func (l *loader) sortNeighbours(ctx context.Context, a *buffer.Adjacency) error {
	if slices.IsSorted(l.order) {
		return nil // they are
	}
	slab, err := blockio.AllocSlab(4*int64(len(l.order)), blockio.SlabOptions{Lazy: true})
	if err != nil {
		return err
	}
	defer func() { _ = slab.Free() }()
	rank := view(slab.Bytes(), len(l.order))
	for i, v := range l.order {
		rank[v] = uint32(i)
	}
	const piece = 1 << 12 // rows
	var next atomic.Int64
	var wg panics.Group
	for range max(1, l.o.Threads) {
		wg.Go(func() {
			scratch := make([]uint64, 1<<15) // longer lists do without
			for ctx.Err() == nil {
				lo := int(next.Add(piece)) - piece
				if lo >= a.Rows() {
					return
				}
				for v := lo; v < min(lo+piece, a.Rows()); v++ {
					a.SortByRank(uint32(v), rank, scratch)
				}
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}
