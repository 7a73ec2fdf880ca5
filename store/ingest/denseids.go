package ingest

import (
	"context"
	"slices"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/dictionary"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/scratch"
	"github.com/gstore/gstore/store/ingest/source"
)

// CollectIDs fills the dictionary from edges and edge lists.
func (r *Job) CollectIDs(ctx context.Context) error {
	r.Phase("collect ids", "edges", r.Desc.Edges)
	d, err := r.readDictionary(ctx)
	if err != nil {
		return err
	}
	r.Dictionary = d
	r.State.Nodes = uint64(d.Len())
	return r.settleDictionary(ctx, r.placeBytesOf(r.State.Nodes))
}

// settleDictionary keeps the dictionary in memory if the budget has room for it
// beside places, and else moves it to disk, if its index fits.
func (r *Job) settleDictionary(ctx context.Context, places int64) error {
	d := r.Dictionary
	r.State.DictionaryBytes = d.Bytes.Load()
	if d.Index != nil || !d.OnDisk() && r.LeastBytes(places) <= r.Options.MemoryBytes {
		return nil
	}
	r.State.DictionaryBytes = dictionary.IndexBytes(uint64(d.Len()))
	if err := r.checkBudget(ctx, places); err != nil {
		return err
	}
	if !d.OnDisk() {
		if err := d.ToDisk(ctx); err != nil {
			return err
		}
	}
	r.State.BytesSpilled += d.Files.Written
	return d.BuildIndex(ctx)
}

func (r *Job) readDictionary(ctx context.Context) (_ *dictionary.Dictionary, err error) {
	d := dictionary.New(r.Desc.IDs == store.IDsStrings, max(r.Options.MemoryBytes-runtimeBytes-SourceBytes, 1<<20), r.Options.Threads, r.idFiles("dictionary"))
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	scratch := make([]dictionary.Scratch, r.Options.Threads)
	var relations edges.RelationSet
	add := func(worker int, b *source.EdgeBatch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		w := &scratch[worker]
		if err := d.Add(&b.Src, w); err != nil {
			return err
		}
		if err := d.Add(&b.Dst, w); err != nil {
			return err
		}
		if err := relations.Add(b); err != nil {
			return err
		}
		r.Tick(int64(b.Len()))
		return nil
	}
	env := r.Env()
	env.MemoryBytes = SourceBytes
	if !r.Desc.NodesByRows() {
		if err := r.Source.Edges(ctx, env, add); err != nil {
			return nil, err
		}
	}
	for l := range r.Desc.EdgeLists {
		if err := r.Source.EdgeList(ctx, env, l, func(b *source.EdgeBatch) error { return add(0, b) }); err != nil {
			return nil, err
		}
	}
	rows := 0
	if k := r.keyed(); k != nil {
		err := k.NodeIDs(ctx, env, func(ids *source.IDs, _ source.Position) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if rows += ids.Len(); r.Desc.NodesByRows() {
				r.Tick(int64(ids.Len()))
			}
			return d.Add(ids, &scratch[0])
		})
		if err != nil {
			return nil, err
		}
	}
	r.State.Relations = relations.Sorted()
	if err := d.Freeze(ctx); err != nil {
		return nil, err
	}
	if r.Desc.NodesByRows() && rows > d.Len() {
		if err := r.findRepeated(ctx, d); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// findRepeated says which row is the first of an id that a row before it has.
func (r *Job) findRepeated(ctx context.Context, d *dictionary.Dictionary) error {
	if d.OnDisk() && d.Index == nil {
		return source.Inputf(r.Desc.Input, "several rows have the same key, expected one of each (with a larger --mem the first is named)")
	}
	seen, err := scratch.Alloc(int64(d.Len()+7) / 8)
	if err != nil {
		return err
	}
	defer scratch.Free(seen)
	return r.keyed().NodeIDs(ctx, r.Env(), func(ids *source.IDs, at source.Position) error {
		for i := range ids.Len() {
			k, ok := d.Rank(ids, i)
			if ok && seen[k/8]>>(k%8)&1 != 0 {
				return source.Inputf(at.Of(i), "a second row of key %s, expected one of each", d.Show(ids, i))
			}
			seen[k/8] |= 1 << (k % 8)
		}
		return ctx.Err()
	})
}

// Files makes scratch files of the ingest.
func (r *Job) idFiles(prefix string) dictionary.Files {
	return dictionary.Files{Fs: r.Writer.FS(), Dir: r.Writer.TempDir(), Prefix: prefix}
}

// DenseEdges streams the source's edges with dense ids and numbered relations, and counts those that dangle and are left out.
func (r *Job) DenseEdges(ctx context.Context, emit func(worker int, b *source.EdgeBatch) error) error {
	scratch := make([]denseScratch, r.Options.Threads)
	err := r.Source.Edges(ctx, r.Env(), func(worker int, b *source.EdgeBatch) error {
		dense, err := r.densify(b, &scratch[worker])
		if err != nil {
			return err
		}
		return emit(worker, dense)
	})
	r.State.Dangling = nil // every pass counts the same
	for k := range scratch {
		for relation, n := range scratch[k].dangling {
			if r.State.Dangling == nil {
				r.State.Dangling = map[string]uint64{}
			}
			r.State.Dangling[r.Desc.Relations[relation]] += n
		}
	}
	return err
}

type denseScratch struct {
	src, dst  []uint64
	relations []uint32
	there     source.EdgeBatch // edges that do not dangle
	dangling  map[uint32]uint64
	_         [64]byte
}

// densify returns b with dense ids and numbered relations; its arrays are w's, or b's.
func (r *Job) densify(b *source.EdgeBatch, w *denseScratch) (*source.EdgeBatch, error) {
	var err error
	if r.Desc.NodesByRows() {
		if b, err = r.withoutDangling(b, w); err != nil {
			return nil, err
		}
	}
	out := *b
	if r.Dictionary != nil {
		if w.src, err = r.Dictionary.Translate(&b.Src, w.src, b.At); err != nil {
			return nil, err
		}
		if w.dst, err = r.Dictionary.Translate(&b.Dst, w.dst, b.At); err != nil {
			return nil, err
		}
		out.Src, out.Dst = source.IDs{Ints: w.src}, source.IDs{Ints: w.dst}
	}
	if n := b.RelationNames.Len(); n > 0 {
		w.relations = slices.Grow(w.relations[:0], n)[:n]
		for i := range n {
			name := b.RelationNames.At(i)
			k, ok := r.RelationIndex[string(name)]
			if !ok {
				return nil, source.Inputf(b.At.Of(i), "relation %q occurs in no edge read before", name)
			}
			w.relations[i] = k
		}
		out.Relations = w.relations
	}
	return &out, nil
}

// withoutDangling returns those of b's edges whose ends have rows: b itself, or what w has room for.
func (r *Job) withoutDangling(b *source.EdgeBatch, w *denseScratch) (*source.EdgeBatch, error) {
	lacks := func(i int) bool {
		if _, ok := r.Dictionary.Rank(&b.Dst, i); !ok {
			return true
		}
		_, ok := r.Dictionary.Rank(&b.Src, i)
		return !ok
	}
	var err error
	there := b.Without(&w.there, func(i int) bool {
		if !lacks(i) {
			return false
		}
		if r.Desc.Dangling == source.DanglingError && err == nil {
			err = source.Inputf(b.At.Of(i), "relation %s leads to %s, which has no row; --dangling drop leaves such edges out, --dangling node makes nodes of what they name",
				r.Desc.Relations[b.Relations[i]], r.Dictionary.Show(&b.Dst, i))
		}
		if w.dangling == nil {
			w.dangling = map[uint32]uint64{}
		}
		w.dangling[b.Relations[i]]++
		return true
	})
	return there, err
}
