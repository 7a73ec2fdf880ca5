package adjacency

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// Options say where lists lie.
type Options struct {
	// MemoryBytes is what lists may take; where edges do not fit, they lie in a file. 0: no bound.
	MemoryBytes int64
	Dir         string // for that file ([store.Store.ScratchDir])
}

// readBytes is what reading takes, unless a bucket is larger.
const readBytes = 8 << 20

// PassBytes is what making lists takes at least, beside them.
const PassBytes = readBytes + runBytesLeast

// runBytesLeast is what the edges that are made at a time take at least.
const runBytesLeast = 4 << 20

// builder makes lists by passes over a store's edges.
type builder struct {
	*Lists
	s        *store.Store
	stripes  *store.StripeReader
	weights  int // of the columns that are read, which one weights are; −1: none
	relation int
	elem     blocks.ElemType // of relations

	// The nodes whose edges are made now, the number of the first edge, and their words. Meanwhile begin says where each one's next edge goes.
	lo, hi, first uint64
	words         []uint32
}

// Open makes the lists of a store's version. It reads the store's edges twice, or more often where they lie in a file. Too little memory
// for 8 bytes a node is [store.ErrBudget].
func Open(ctx context.Context, s *store.Store, o Options) (*Lists, error) {
	m := s.Manifest()
	if m.Nodes > math.MaxUint32 {
		return nil, fmt.Errorf("adjacency: %w: %d nodes, at most %d have numbers of 32 bits", store.ErrInvalid,
			m.Nodes, uint32(math.MaxUint32))
	}
	least, whole := Bytes(m)
	if o.MemoryBytes > 0 && o.MemoryBytes < least+PassBytes {
		return nil, fmt.Errorf("adjacency: %w: where the edges of %d nodes begin takes %d bytes, %d are there",
			store.ErrBudget, m.Nodes, least+PassBytes, o.MemoryBytes)
	}
	return open(ctx, s, o.Dir, o.MemoryBytes == 0 || whole+readBytes <= o.MemoryBytes, o.MemoryBytes-least-readBytes)
}

// open makes lists, in a file those of so many bytes at a time.
func open(ctx context.Context, s *store.Store, dir string, inMemory bool, each int64) (_ *Lists, err error) {
	m := s.Manifest()
	least, _ := Bytes(m)
	l := &Lists{m: m, form: formOf(m)}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.held[0], err = blockio.AllocSlab(least, blockio.SlabOptions{}); err != nil {
		return nil, err
	}
	if l.begin, err = blocks.View[uint64](l.held[0].Bytes()); err != nil {
		return nil, err
	}
	b := &builder{Lists: l, s: s, weights: -1, relation: -1}
	if err := b.read(ctx); err != nil {
		return nil, err
	}
	if !inMemory {
		if l.file, err = blocks.Unnamed(dir, "gstore-adjacency-"); err != nil {
			return nil, fmt.Errorf("adjacency: temporary file: %w", err)
		}
	}
	return l, b.make(ctx, inMemory, each)
}

// read counts edges: where those of each node begin.
func (b *builder) read(ctx context.Context) (err error) {
	b.stripes = b.s.ReadStripes(nil, readBytes, 0)
	count := b.begin[1:]
	err = b.pass(ctx, 0, len(b.m.Partitions), func(k *store.BucketPart, _, _ uint64, dst, src uint64) error {
		count[dst]++
		if b.m.Schema.Undirected && dst == src {
			return nil
		}
		count[src]++
		return nil
	})
	for v := range b.m.Nodes {
		b.begin[v+1] += b.begin[v]
	}
	return errors.Join(err, b.stripes.Close())
}

// pass calls fn for every edge with an end in partitions lo … hi−1: its bucket, its number there and in the stripe, and its ends.
func (b *builder) pass(ctx context.Context, lo, hi int,
	fn func(k *store.BucketPart, e, row, dst, src uint64) error) error {
	parts := b.m.Partitions
	for j := range parts {
		from, to := lo, hi
		if lo <= j && j < hi {
			from, to = 0, len(parts)
		}
		err := b.stripes.Stripe(ctx, store.PartitionID(j), from, to, func(k *store.BucketPart) error {
			firstDst, firstSrc, e := uint64(parts[j].First), uint64(parts[k.Src].First), uint64(0)
			for d, s := range k.All() {
				if err := fn(k, e, k.First+e, firstDst+uint64(d), firstSrc+uint64(s)); err != nil {
					return err
				}
				e++
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("adjacency: %w", err)
		}
	}
	return nil
}

// make lists the edges, all at once or as many nodes' at a time as fit each bytes, one node's at least.
func (b *builder) make(ctx context.Context, inMemory bool, each int64) (err error) {
	var columns []*store.ColumnInfo
	if rs := b.m.ColumnsOf(store.RoleRelation); b.form.relation > 0 && len(rs) > 0 {
		b.relation, columns = len(columns), append(columns, rs[0])
		b.elem = rs[0].Elem
	}
	if ws := b.m.ColumnsOf(store.RoleWeight); len(ws) > 0 {
		b.weights, columns = len(columns), append(columns, ws[0])
	}
	b.stripes = b.s.ReadStripes(columns, readBytes, 0)
	defer func() { err = errors.Join(err, b.stripes.Close()) }()
	total := b.begin[b.m.Nodes] * uint64(b.form.words)
	if inMemory {
		if b.held[1], err = blockio.AllocSlab(max(4, 4*int64(total)), blockio.SlabOptions{}); err != nil {
			return err
		}
		if b.edges, err = blocks.View[uint32](b.held[1].Bytes()); err != nil {
			return err
		}
		return b.run(ctx, 0, b.m.Nodes, b.edges)
	}
	for lo := uint64(0); lo < b.m.Nodes; {
		n := sort.Search(int(b.m.Nodes-lo), func(n int) bool {
			hi := lo + uint64(n) + 1
			return 4*uint64(b.form.words)*(b.begin[hi]-b.begin[lo]) > uint64(each)
		})
		hi := lo + uint64(max(n, 1))
		size := 4 * int64(b.form.words) * int64(b.begin[hi]-b.begin[lo])
		slab, err := blockio.AllocSlab(max(4, size), blockio.SlabOptions{})
		if err != nil {
			return err
		}
		words, err := blocks.View[uint32](slab.Bytes())
		if err == nil {
			err = b.run(ctx, lo, hi, words)
		}
		if err == nil && size > 0 {
			_, err = b.file.WriteAt(slab.Bytes()[:size], int64(b.begin[lo])*4*int64(b.form.words))
		}
		if err = errors.Join(err, slab.Free()); err != nil {
			return fmt.Errorf("adjacency: edges of nodes %d to %d: %w", lo, hi-1, err)
		}
		lo = hi
	}
	return nil
}

// run lists the edges of nodes lo … hi−1 to words.
func (b *builder) run(ctx context.Context, lo, hi uint64, words []uint32) error {
	if lo == hi {
		return nil
	}
	parts := b.m.Partitions
	b.lo, b.hi, b.first, b.words = lo, hi, b.begin[lo], words
	first := sort.Search(len(parts), func(p int) bool { return uint64(parts[p].First)+parts[p].Nodes > lo })
	last := sort.Search(len(parts), func(p int) bool { return uint64(parts[p].First) >= hi })
	err := b.pass(ctx, first, last, func(k *store.BucketPart, e, row, dst, src uint64) error {
		if b.form.row > 0 && row > math.MaxInt32 {
			return fmt.Errorf("%w: edge %d of stripe %d, at most %d have numbers of 31 bits: give the store more partitions", store.ErrInvalid, row, k.Dst, math.MaxInt32)
		}
		x := Edge{Row: row}
		if b.relation >= 0 {
			at := k.Columns[b.relation]
			x.Relation = store.RelationID(b.elem.Float64(at[e*uint64(b.elem.Size()):]))
			if int(x.Relation) >= len(b.m.Schema.Relations) {
				return fmt.Errorf("%w: edge bucket (%d,%d): relation %d of %d", blocks.ErrCorrupt, k.Src, k.Dst,
					x.Relation, len(b.m.Schema.Relations))
			}
		}
		if b.weights >= 0 {
			x.Weight = float32(blocks.Float32.Float64(k.Columns[b.weights][4*e:]))
		}
		x.Node = store.NodeID(src)
		b.put(dst, x, false)
		if b.m.Schema.Undirected && dst == src {
			return nil
		}
		x.Node, x.Out = store.NodeID(dst), !b.m.Schema.Undirected
		b.put(src, x, true)
		return nil
	})
	// Each begins where the one before has ended.
	copy(b.begin[lo+1:hi], b.begin[lo:hi-1])
	b.begin[lo] = b.first
	return err
}

// put lists an edge of node v, if it is one of those that are made now. Its columns lie with its destination: elsewhere, of those at their source.
func (b *builder) put(v uint64, e Edge, elsewhere bool) {
	if v < b.lo || v >= b.hi {
		return
	}
	at := (b.begin[v] - b.first) * uint64(b.form.words)
	b.begin[v]++
	w := b.words[at : at+uint64(b.form.words)]
	w[0] = uint32(e.Node)
	if k := b.form.relation; k > 0 {
		w[k] = uint32(e.Relation)<<1 | bit(e.Out)
	}
	if k := b.form.row; k > 0 {
		w[k] = uint32(e.Row)<<1 | bit(elsewhere)
	}
	if k := b.form.weights; k > 0 {
		w[k] = math.Float32bits(e.Weight)
	}
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
