package ingest

import (
	"context"
	"slices"

	"github.com/gstore/gstore/store"
)

// collectIDs fills the dictionary from edges and edge lists.
func (r *run) collectIDs(ctx context.Context) error {
	r.phase("collect ids", "edges", r.desc.Edges)
	d, err := r.readDictionary(ctx)
	if err != nil {
		return err
	}
	r.dict = d
	r.state.Nodes = uint64(d.Len())
	return r.settleDictionary(ctx, r.placeBytesOf(r.state.Nodes))
}

// settleDictionary keeps the dictionary in memory if the budget has room for it
// beside places, and else moves it to disk, if its index fits.
func (r *run) settleDictionary(ctx context.Context, places int64) error {
	d := r.dict
	r.state.DictionaryBytes = d.bytes.Load()
	if d.index != nil || !d.onDisk() && r.leastBytes(places) <= r.o.MemoryBytes {
		return nil
	}
	r.state.DictionaryBytes = indexBytes(uint64(d.Len()))
	if err := r.checkBudget(places); err != nil {
		return err
	}
	if !d.onDisk() {
		if err := d.toDisk(ctx); err != nil {
			return err
		}
	}
	r.state.BytesSpilled += d.files.written
	return d.buildIndex(ctx)
}

func (r *run) readDictionary(ctx context.Context) (_ *dictionary, err error) {
	d := newDictionary(r.desc.IDs == store.IDsStrings, max(r.o.MemoryBytes-runtimeBytes-sourceBytes, 1<<20), r.o.Threads, r.idFiles("dictionary"))
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	scratch := make([]dictScratch, r.o.Threads)
	var relations relationSet
	add := func(worker int, b *EdgeBatch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		w := &scratch[worker]
		if err := d.add(&b.Src, w); err != nil {
			return err
		}
		if err := d.add(&b.Dst, w); err != nil {
			return err
		}
		if err := relations.add(b); err != nil {
			return err
		}
		r.tick(int64(b.Len()))
		return nil
	}
	env := r.srcEnv()
	env.MemoryBytes = sourceBytes
	if err := r.src.Edges(ctx, env, add); err != nil {
		return nil, err
	}
	for l := range r.desc.EdgeLists {
		if err := r.src.EdgeList(ctx, env, l, func(b *EdgeBatch) error { return add(0, b) }); err != nil {
			return nil, err
		}
	}
	if k := r.keyed(); k != nil {
		err := k.NodeIDs(ctx, env, func(ids *IDs, _ Position) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return d.add(ids, &scratch[0])
		})
		if err != nil {
			return nil, err
		}
	}
	r.state.Relations = relations.sorted()
	if err := d.freeze(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// idFiles makes scratch files of the ingest.
func (r *run) idFiles(prefix string) idFiles {
	return idFiles{fs: r.w.FS(), dir: r.w.TempDir(), prefix: prefix}
}

// denseEdges streams the source's edges with dense ids and numbered relations.
func (r *run) denseEdges(ctx context.Context, emit func(worker int, b *EdgeBatch) error) error {
	scratch := make([]denseScratch, r.o.Threads)
	return r.src.Edges(ctx, r.srcEnv(), func(worker int, b *EdgeBatch) error {
		dense, err := r.densify(b, &scratch[worker])
		if err != nil {
			return err
		}
		return emit(worker, dense)
	})
}

type denseScratch struct {
	src, dst  []uint64
	relations []uint32
	_         [64]byte
}

// densify returns b with dense ids and numbered relations; its arrays are w's, or b's.
func (r *run) densify(b *EdgeBatch, w *denseScratch) (*EdgeBatch, error) {
	out := *b
	var err error
	if r.dict != nil {
		if w.src, err = r.dict.translate(&b.Src, w.src, b.At); err != nil {
			return nil, err
		}
		if w.dst, err = r.dict.translate(&b.Dst, w.dst, b.At); err != nil {
			return nil, err
		}
		out.Src, out.Dst = IDs{Ints: w.src}, IDs{Ints: w.dst}
	}
	if n := b.RelationNames.Len(); n > 0 {
		w.relations = slices.Grow(w.relations[:0], n)[:n]
		for i := range n {
			name := b.RelationNames.At(i)
			k, ok := r.relationIndex[string(name)]
			if !ok {
				return nil, Inputf(b.At.Of(i), "relation %q occurs in no edge read before", name)
			}
			w.relations[i] = k
		}
		out.Relations = w.relations
	}
	return &out, nil
}
