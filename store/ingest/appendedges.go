package ingest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// addEdges sorts the source's edges and writes the rows that they touch, merged with what is
// there, and those of new partitions.
func (a *appender) addEdges(ctx context.Context) (err error) {
	r, rules := a.edges, a.rules()
	s, err := r.newEdgeScatter(rules, r.budget.edges*3/8)
	if err != nil {
		return err
	}
	sh := s.shards
	defer func() { err = errors.Join(err, sh.Close()) }()
	s.old = newOldRows(ctx, a.base, rules, r.budget.edges/8)
	defer func() { err = errors.Join(err, s.old.close()) }()
	if err := a.readEdges(ctx, s); err != nil {
		return err
	}
	sh.finish()
	a.rep.EdgesRead, a.rep.SelfLoops = uint64(s.read.Load()), uint64(s.loops.Load())
	a.rep.BytesSpilled = sh.spilled.Load()
	total := int64(0)
	for k := range sh.lists {
		total += sh.lists[k].records
	}
	if total == 0 && a.newNodes == 0 {
		return nil
	}
	f, names, err := r.createEdgeFiles(rules)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			for _, w := range f.all() {
				_ = w.Abort()
			}
		}
	}()
	r.phase("merge edges", "edges", total)
	counts, err := s.write(ctx, f, max(r.budget.edges/2-sh.residentBytes(), edgesMin/4), r.o.Threads, r.tick)
	if err != nil {
		return err
	}
	return a.keepEdges(f, names, counts)
}

// readEdges scatters the source's edges, with relations and columns in the store's order.
func (a *appender) readEdges(ctx context.Context, s *edgeScatter) error {
	r := a.edges
	order := make([]int, len(r.desc.EdgeColumns)) // of the source, by the store's
	for k, c := range r.desc.EdgeColumns {
		order[k] = slices.IndexFunc(a.desc.EdgeColumns, func(x ColumnSpec) bool { return x.Name == c.Name })
	}
	var numbers []uint32 // the store's relations by the source's
	for _, name := range a.desc.Relations {
		numbers = append(numbers, r.relationIndex[name])
	}
	scratch := make([]struct {
		relations []uint32
		columns   [][]byte
		_         [64]byte
	}, r.o.Threads)
	r.phase("read edges", "edges", a.desc.Edges)
	err := r.denseEdges(ctx, func(worker int, b *EdgeBatch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		w, out := &scratch[worker], *b
		if len(b.Columns) != len(order) {
			return Inputf(b.At.Of(0), "%d edge columns, expected %d", len(b.Columns), len(order))
		}
		w.columns = w.columns[:0]
		for _, k := range order {
			w.columns = append(w.columns, b.Columns[k])
		}
		out.Columns = w.columns
		if numbers != nil && r.desc.HasRelation {
			w.relations = w.relations[:0]
			for i, rel := range b.Relations {
				if int(rel) >= len(numbers) {
					return Inputf(b.At.Of(i), "relation %d, expected less than %d", rel, len(numbers))
				}
				w.relations = append(w.relations, numbers[rel])
			}
			out.Relations = w.relations
		}
		return s.add(worker, &out)
	})
	if err == nil && s.rules.selfLoops == SelfLoopsAdd {
		err = s.addLoops(ctx)
	}
	return err
}

// keepEdges closes the edge files and enters them in the manifest.
func (a *appender) keepEdges(f *edgeFiles, names []string, counts *edgeCounts) error {
	m := a.m
	for i, w := range f.all() {
		info, err := w.Close()
		if err != nil {
			return err
		}
		m.Files = append(m.Files, store.Ref(names[i], info))
	}
	m.Topology = append(m.Topology, names[0])
	for i, w := range f.all()[1:] {
		c, err := m.Column(w.Header().Name)
		if err != nil {
			return err
		}
		c.Files = append(c.Files, names[1+i])
	}
	before := m.Edges
	m.Edges = 0
	for p := range m.Partitions {
		if counts.written[p] {
			m.Partitions[p].Edges = counts.rows[p]
		}
		m.Edges += m.Partitions[p].Edges
	}
	for k := range m.Schema.Relations {
		m.Schema.Relations[k].Count += counts.relations[k]
	}
	a.rep.EdgesAdded, a.rep.Duplicates = m.Edges-before, counts.duplicates
	for p := range a.base.Manifest().Partitions {
		if counts.written[p] {
			a.rep.StripesRewritten++
		}
	}
	return nil
}

// oldStripes reads the stripes that edges are merged into, bucket by bucket.
type oldStripes struct {
	ctx        context.Context
	stripes    *store.StripeReader
	partitions int
	next       func() (*store.BucketPart, error, bool)
	stop       func()
	head       *store.BucketPart // not yet written; nil = the stripe has no more
	limit      int64             // bytes that merging a bucket may take
}

func newOldRows(ctx context.Context, s *store.Store, rules edgeRules, memory int64) *oldStripes {
	m := s.Manifest()
	var columns []*store.ColumnInfo
	if rules.relations > 0 {
		columns = append(columns, m.ColumnsOf(store.RoleRelation)[0])
	}
	for _, spec := range rules.columns {
		for i := range m.Columns {
			if m.Columns[i].Name == spec.Name {
				columns = append(columns, &m.Columns[i])
			}
		}
	}
	return &oldStripes{ctx: ctx, stripes: s.ReadStripes(columns, min(memory, 64<<20), 2*memory), partitions: len(m.Partitions), limit: 2 * memory}
}

// errStopped ends the reading of a stripe that nobody wants any more.
var errStopped = errors.New("stopped")

// begin starts reading stripe j; a new partition's has nothing.
func (o *oldStripes) begin(j int) error {
	o.end()
	if j >= o.partitions {
		return nil
	}
	o.next, o.stop = iter.Pull2(func(yield func(*store.BucketPart, error) bool) {
		err := o.stripes.Stripe(o.ctx, store.PartitionID(j), 0, o.partitions, func(b *store.BucketPart) error {
			if !yield(b, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	})
	return o.advance()
}

// advance moves to the stripe's next bucket.
func (o *oldStripes) advance() error {
	b, err, ok := o.next()
	o.head = nil
	if err != nil {
		return err
	}
	if ok {
		o.head = b
	}
	return nil
}

func (o *oldStripes) end() {
	if o.stop != nil {
		o.stop()
	}
	o.next, o.stop, o.head = nil, nil, nil
}

func (o *oldStripes) close() error {
	o.end()
	return o.stripes.Close()
}

// bucketMerge is room for a bucket of old and new edges.
type bucketMerge struct {
	old, keys []uint64
	columns   [][]byte
}

// oldKeys decodes an old bucket.
func (m *bucketMerge) oldKeys(b *store.BucketPart) []uint64 {
	m.old = slices.Grow(m.old[:0], b.Edges)
	for d, s := range b.All() {
		m.old = append(m.old, blocks.EdgeKey(d, s))
	}
	return m.old
}

// copyOld writes the open stripe's old buckets from partitions below src.
func (w *edgeWriter) copyOld(src int) error {
	o := w.s.old
	for o.head != nil && int(o.head.Src) < src {
		if err := o.fits(o.head, 0); err != nil {
			return err
		}
		if err := w.bucket(o.head.Src, w.merged.oldKeys(o.head), o.head.Columns); err != nil {
			return err
		}
		if err := o.advance(); err != nil {
			return err
		}
	}
	return nil
}

// fits checks that merging n edges into a bucket fits the memory.
func (o *oldStripes) fits(b *store.BucketPart, n int) error {
	each := int64(16)
	for _, c := range b.Columns {
		each += int64(len(c)) / int64(max(b.Edges, 1))
	}
	if need := each * int64(b.Edges+n); need > o.limit {
		return fmt.Errorf("%w: merging edge bucket (%d,%d) takes %d MiB, %d are there; use more memory, or more partitions", store.ErrBudget, b.Src, b.Dst, need>>20, o.limit>>20)
	}
	return nil
}

// mergeOld merges new edges, sorted, with what the open stripe's bucket holds; w.columns are
// theirs. Of equal edges the old ones come first. The result is valid until the next call.
func (w *edgeWriter) mergeOld(src int, keys []uint64) (_ []uint64, columns [][]byte, err error) {
	if err := w.copyOld(src); err != nil {
		return nil, nil, err
	}
	o, m := w.s.old, &w.merged
	if o.head == nil || int(o.head.Src) != src {
		w.countRelations(w.columns, len(keys))
		return keys, w.columns, nil
	}
	if err := o.fits(o.head, len(keys)); err != nil {
		return nil, nil, err
	}
	old := m.oldKeys(o.head)
	widths := make([]int, len(w.columns))
	for len(m.columns) < len(w.columns) {
		m.columns = append(m.columns, nil)
	}
	for c := range widths {
		widths[c] = len(w.columns[c]) / len(keys)
		m.columns[c] = m.columns[c][:0]
	}
	m.keys = m.keys[:0]
	take := func(from [][]byte, i int) {
		for c, n := range widths {
			m.columns[c] = append(m.columns[c], from[c][i*n:(i+1)*n]...)
		}
	}
	relation := w.s.rules.relationBytes()
	i, same := 0, 0 // old edges taken; where those with the last key begin
	for k, key := range keys {
		for i < len(old) && old[i] <= key {
			if old[i] != old[same] {
				same = i
			}
			m.keys = append(m.keys, old[i])
			take(o.head.Columns, i)
			i++
		}
		if w.s.rules.drops() && w.stored(old[same:i], key, o.head.Columns, same, k, w.s.rules.equalBytes()) {
			w.counts.duplicates++
			continue
		}
		m.keys = append(m.keys, key)
		take(w.columns, k)
		var first [][]byte
		if relation > 0 {
			first = [][]byte{w.columns[0][k*relation : (k+1)*relation]}
		}
		w.countRelations(first, 1)
	}
	for ; i < len(old); i++ {
		m.keys = append(m.keys, old[i])
		take(o.head.Columns, i)
	}
	// The head's columns are copied: the next bucket may be read.
	return m.keys, m.columns[:len(widths)], o.advance()
}

// stored reports whether new edge k, of the given key, equals one of the old edges run, the
// first of which is number at: in ends and in the relation of so many bytes.
func (w *edgeWriter) stored(run []uint64, key uint64, columns [][]byte, at, k, relation int) bool {
	for i, x := range run {
		if x != key {
			continue
		}
		if relation == 0 || relationAt(columns[0][(at+i)*relation:], relation) == relationAt(w.columns[0][k*relation:], relation) {
			return true
		}
	}
	return false
}
