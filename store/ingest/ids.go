package ingest

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/scratch"
	"github.com/gstore/gstore/store/ingest/source"
)

// split writes split s as a column of one byte a node; the first one is the default.
func (r *Job) split(ctx context.Context, s int) error { return r.SplitColumn(ctx, s, s == 0) }

// SplitColumn is split; counted says whether the manifest counts its nodes.
func (r *Job) SplitColumn(ctx context.Context, s int, counted bool) error {
	name := r.Desc.Splits[s]
	r.Phase("split "+name, "rows", int64(r.Layout.Nodes))
	of, err := scratch.Alloc(int64(r.Layout.Nodes))
	if err != nil {
		return err
	}
	defer scratch.Free(of)
	parts := store.SplitNames()
	var counts [store.SplitTest + 1]uint64
	file := r.Desc.Input // of the split's last nodes
	if split := r.Options.SplitRandom; split != nil {
		if split.Unasked {
			r.note("the input does not say which nodes train: of those with a label 60 %% do, 20 %% validate and 20 %% test, at random (--split-random divides them otherwise)")
		}
		if err := r.randomParts(ctx, func(id uint64, part uint8) { of[id] = part }); err != nil {
			return err
		}
	}
	for part := store.SplitTrain; part <= store.SplitTest && r.Options.SplitRandom == nil; part++ {
		var dense []uint64
		err := r.Source.Split(ctx, r.Env(), s, part, func(ids *source.IDs, at source.Position) error {
			var err error
			if r.Dictionary != nil {
				if dense, err = r.Dictionary.Translate(ids, dense, at); err != nil {
					return err
				}
			} else {
				dense = ids.Ints
			}
			for i, id := range dense {
				if id >= r.Layout.Nodes {
					return source.Inputf(at.Of(i), "node %d of split %s, expected 0 ≤ id < %d", int64(id), name, r.Layout.Nodes)
				}
				switch was := of[id]; was {
				case store.SplitNone:
				case part:
					return source.Inputf(at.Of(i), "node %d is twice in %s of split %s", id, parts[part], name)
				default:
					return source.Inputf(at.Of(i), "node %d is in %s and in %s of split %s, expected disjoint sets", id, parts[was], parts[part], name)
				}
				of[id] = part
				counts[part]++
				file = at.File
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	// Nodes that are appended to a store may all be of one part.
	if counts[store.SplitTrain] == 0 && counts[store.SplitValid]+counts[store.SplitTest] > 0 && r.Like[name] == nil {
		return source.Inputf(file, "split %s has no training nodes, but %d of valid and %d of test", name, counts[store.SplitValid], counts[store.SplitTest])
	}
	if counted {
		r.countSplit(of)
	}
	h := blocks.Header{Kind: blocks.NodeColumn, Elem: blocks.Uint8, Dim: 1, Name: name}
	rows := r.EveryNode(store.ColumnInfo{Name: name, Role: store.RoleSplit, Elem: blocks.Uint8, Dim: 1})
	if old := r.Like[name]; old != nil {
		rows.Column.NodeType, rows.Column.Runs = old.NodeType, old.Runs
	} else {
		rows = r.splitType(rows, of)
	}
	ref, err := r.NodeFile(ctx, FileBase(name), h, rows, func(ctx context.Context, emit func(uint64, []byte) error) error {
		return emitInSteps(ctx, of, 1, emit)
	})
	if err != nil {
		return err
	}
	r.Manifest.Files = append(r.Manifest.Files, ref)
	rows.Column.Files = []string{ref.Name}
	r.Manifest.Columns = append(r.Manifest.Columns, rows.Column)
	return nil
}

func emitInSteps(ctx context.Context, rows []byte, rowBytes int, emit func(uint64, []byte) error) error {
	const step = 1 << 16
	for at := 0; at < len(rows); at += step * rowBytes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := emit(uint64(at/rowBytes), rows[at:min(at+step*rowBytes, len(rows))]); err != nil {
			return err
		}
	}
	return nil
}

// countSplit counts the default split's nodes by partition.
func (r *Job) countSplit(of []byte) {
	for p := range r.Manifest.Partitions {
		info := &r.Manifest.Partitions[p]
		info.Train, info.Valid, info.Test = 0, 0, 0
	}
	for id, part := range of {
		info := &r.Manifest.Partitions[r.Places.Of(uint64(id))>>r.Layout.LocalBits]
		switch part {
		case store.SplitTrain:
			info.Train++
		case store.SplitValid:
			info.Valid++
		case store.SplitTest:
			info.Test++
		}
	}
}

// edgeListExtentRows is how many edges an extent of an edge list holds.
const edgeListExtentRows = 1 << 16

// edgeList writes edge list l with internal ids, in the order of the input.
func (r *Job) edgeList(ctx context.Context, l int) (err error) {
	name := r.Desc.EdgeLists[l]
	r.Phase("edge list "+name, "edges", -1)
	dim := 2
	if r.Desc.HasRelation {
		dim = 3
	}
	file, w, err := r.Writer.CreateFile("edges-"+FileBase(name), blocks.Header{Kind: blocks.EdgeList, Elem: blocks.Uint64, Dim: uint32(dim), Name: name, Partitions: uint32(r.Layout.Partitions())})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.Abort()
		}
	}()
	rows, flat, extent := uint64(0), []uint64(nil), uint64(0)
	flush := func() error {
		err := w.Append(extent, uint64(len(flat)/dim), blocks.Bytes(flat))
		extent++
		flat = flat[:0]
		return err
	}
	var scratch denseScratch
	relations := len(r.relationNames())
	err = r.Source.EdgeList(ctx, r.Env(), l, func(b *source.EdgeBatch) error {
		b, err := r.densify(b, &scratch)
		if err != nil {
			return err
		}
		for i, s := range b.Src.Ints {
			d := b.Dst.Ints[i]
			if s >= r.Layout.Nodes || d >= r.Layout.Nodes {
				return source.Inputf(b.At.Of(i), "edge from node %d to node %d, expected 0 ≤ id < %d", int64(s), int64(d), r.Layout.Nodes)
			}
			flat = append(flat, r.Layout.Internal(r.Places.Of(s)))
			if dim == 3 {
				if int(b.Relations[i]) >= relations {
					return source.Inputf(b.At.Of(i), "relation %d, expected less than %d", b.Relations[i], relations)
				}
				flat = append(flat, uint64(b.Relations[i]))
			}
			flat = append(flat, r.Layout.Internal(r.Places.Of(d)))
			rows++
			if len(flat) == edgeListExtentRows*dim {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		r.Tick(int64(b.Len()))
		return ctx.Err()
	})
	if err == nil && len(flat) > 0 {
		err = flush()
	}
	if err != nil {
		return err
	}
	info, err := w.Close()
	if err != nil {
		return err
	}
	r.Manifest.Files = append(r.Manifest.Files, store.Ref(file, info))
	r.Manifest.EdgeLists = append(r.Manifest.EdgeLists, store.EdgeListInfo{Name: name, Rows: rows, File: file})
	return nil
}

// ids writes external ids, internal → external and back.
func (r *Job) ids(ctx context.Context) error {
	r.Phase("ids", "ids", int64(r.Layout.Nodes))
	same := func(id uint64) uint64 { return id }
	switch {
	case r.Desc.NamedIntegers:
		return r.namedIntegers(ctx)
	case r.Desc.Named:
		return r.namedIDs(ctx)
	case r.Kept != nil:
		return r.Kept.WriteIDs(ctx, r)
	case r.Dictionary == nil:
		return r.DenseIDs(ctx, same, same)
	case r.Dictionary.Strings:
		return r.dictionaryStrings(ctx)
	}
	return r.dictionaryInts(ctx)
}

// IntegerIDs writes integer ids and their dictionary: external gives a dense id's, byRank
// the dense id of the rank-th smallest of them.
func (r *Job) IntegerIDs(ctx context.Context, external, byRank func(uint64) uint64) error {
	if err := r.integerColumn(ctx, external); err != nil {
		return err
	}
	r.Manifest.IDs.Kind = store.IDsIntegers
	d, err := r.Writer.NewDictionary()
	if err != nil {
		return err
	}
	for rank := range r.Layout.Nodes {
		id := byRank(rank)
		if err := d.AddInt(external(id), store.NodeID(r.Layout.Internal(r.Places.Of(id)))); err != nil {
			return err
		}
	}
	r.Manifest.IDs.Dictionaries = []uint64{r.Writer.Version()}
	return d.Close()
}

// namedIntegers writes the integers that the source names its nodes by.
func (r *Job) namedIntegers(ctx context.Context) error {
	mem, err := scratch.Alloc(16 * int64(r.Layout.Nodes))
	if err != nil {
		return err
	}
	defer scratch.Free(mem)
	both, err := blocks.View[uint64](mem)
	if err != nil {
		return err
	}
	external, order := both[:r.Layout.Nodes], both[r.Layout.Nodes:]
	n := uint64(0)
	where := r.Desc.Input
	err = r.Source.Names(ctx, r.Env(), func(names *source.IDs, at source.Position) error {
		where = at.File
		if n+uint64(len(names.Ints)) > r.Layout.Nodes {
			return source.Inputf(at.Of(0), "more ids than nodes (%d)", r.Layout.Nodes)
		}
		n += uint64(copy(external[n:], names.Ints))
		return ctx.Err()
	})
	if err == nil && n != r.Layout.Nodes {
		err = source.Inputf(where, "%d ids, expected %d (the number of nodes)", n, r.Layout.Nodes)
	}
	if err != nil {
		return err
	}
	SortByID(external, order)
	for k := 1; k < len(order); k++ {
		if external[order[k]] == external[order[k-1]] {
			return source.Inputf(where, "rows %d and %d have the same id, %d", order[k-1], order[k], external[order[k]])
		}
	}
	return r.IntegerIDs(ctx, func(id uint64) uint64 { return external[id] }, func(rank uint64) uint64 { return order[rank] })
}

// SortByID fills order with the places of external ids, by ascending id.
func SortByID(external, order []uint64) {
	for id := range order {
		order[id] = uint64(id)
	}
	slices.SortFunc(order, func(a, b uint64) int { return cmp.Or(cmp.Compare(external[a], external[b]), cmp.Compare(a, b)) })
}

// dictionaryInts writes the dictionary's integers.
func (r *Job) dictionaryInts(ctx context.Context) error {
	h := blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint64, Dim: 1}
	ref, err := r.NodeFile(ctx, "external", h, r.EveryNode(store.ColumnInfo{}), func(ctx context.Context, emit func(uint64, []byte) error) error {
		const step = 1 << 13
		buf := make([]byte, 0, 8*step)
		first := uint64(0)
		err := r.Dictionary.Each(ctx, func(rank uint64, id []byte) error {
			if buf = binary.LittleEndian.AppendUint64(buf, binary.BigEndian.Uint64(id)); len(buf) < 8*step {
				return nil
			}
			err := emit(first, buf)
			first, buf = rank+1, buf[:0]
			return err
		})
		if err == nil && len(buf) > 0 {
			err = emit(first, buf)
		}
		return err
	})
	if err != nil {
		return err
	}
	r.Manifest.Files = append(r.Manifest.Files, ref)
	r.Manifest.IDs.External, r.Manifest.IDs.Kind = []string{ref.Name}, store.IDsIntegers
	return r.writeDictionary(ctx, func(ctx context.Context, fn func(id []byte, dense uint64) error) error {
		return r.Dictionary.Each(ctx, func(rank uint64, id []byte) error { return fn(id, rank) })
	})
}

// integerColumn writes the external ids of all nodes as integers.
func (r *Job) integerColumn(ctx context.Context, external func(dense uint64) uint64) error {
	h := blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint64, Dim: 1}
	ref, err := r.NodeFile(ctx, "external", h, r.EveryNode(store.ColumnInfo{}), func(ctx context.Context, emit func(uint64, []byte) error) error {
		const step = 1 << 16
		buf := make([]byte, 0, 8*step)
		for first := uint64(0); first < r.Layout.Nodes; first += step {
			if err := ctx.Err(); err != nil {
				return err
			}
			buf = buf[:0]
			for id := first; id < min(first+step, r.Layout.Nodes); id++ {
				buf = binary.LittleEndian.AppendUint64(buf, external(id))
			}
			if err := emit(first, buf); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.Manifest.Files = append(r.Manifest.Files, ref)
	r.Manifest.IDs.External = []string{ref.Name}
	return nil
}

// idMapExtentRows is how many ids an extent of the id map holds: 4 MiB of 32-bit ids.
const idMapExtentRows = 1 << 20

// DenseIDs writes external ids that are 0 … nodes−1: external gives a dense id's, dense is its inverse.
func (r *Job) DenseIDs(ctx context.Context, external, dense func(uint64) uint64) (err error) {
	if err := r.integerColumn(ctx, external); err != nil {
		return err
	}
	h := blocks.Header{Kind: blocks.IDMap, Elem: blocks.Uint32, Dim: 1, ExtentRows: idMapExtentRows, Partitions: uint32(r.Layout.Partitions())}
	if r.Layout.Nodes >= math.MaxUint32 {
		h.Elem = blocks.Uint64
	}
	name, w, err := r.Writer.CreateFile("idmap", h)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.Abort()
		}
	}()
	buf := make([]byte, 0, 1<<16)
	for k := uint64(0); k*idMapExtentRows < r.Layout.Nodes; k++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.Begin(k); err != nil {
			return err
		}
		end := min((k+1)*idMapExtentRows, r.Layout.Nodes)
		for id := k * idMapExtentRows; id < end; id++ {
			in := r.Layout.Internal(r.Places.Of(dense(id)))
			if h.Elem == blocks.Uint32 {
				buf = binary.LittleEndian.AppendUint32(buf, uint32(in))
			} else {
				buf = binary.LittleEndian.AppendUint64(buf, in)
			}
			if len(buf) == cap(buf) || id == end-1 {
				if _, err := w.Write(buf); err != nil {
					return err
				}
				buf = buf[:0]
			}
		}
		if err := w.End(end - k*idMapExtentRows); err != nil {
			return err
		}
	}
	info, err := w.Close()
	if err != nil {
		return err
	}
	r.Manifest.Files = append(r.Manifest.Files, store.Ref(name, info))
	r.Manifest.IDs.Kind, r.Manifest.IDs.Map = store.IDsDense, name
	return nil
}
