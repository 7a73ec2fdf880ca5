package ingest

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// split writes split s as a column of one byte a node; the first one is the default.
func (r *run) split(ctx context.Context, s int) error { return r.splitColumn(ctx, s, s == 0) }

// splitColumn is split; counted says whether the manifest counts its nodes.
func (r *run) splitColumn(ctx context.Context, s int, counted bool) error {
	name := r.desc.Splits[s]
	r.phase("split "+name, "rows", int64(r.layout.nodes))
	of, err := offHeap(int64(r.layout.nodes))
	if err != nil {
		return err
	}
	defer freeOffHeap(of)
	parts := store.SplitNames()
	if r.o.SplitRandom != nil {
		if err := r.randomParts(ctx, func(id uint64, part uint8) { of[id] = part }); err != nil {
			return err
		}
	}
	for part := store.SplitTrain; part <= store.SplitTest && r.o.SplitRandom == nil; part++ {
		var dense []uint64
		err := r.src.Split(ctx, r.srcEnv(), s, part, func(ids *IDs, at Position) error {
			var err error
			if r.dict != nil {
				if dense, err = r.dict.translate(ids, dense, at); err != nil {
					return err
				}
			} else {
				dense = ids.Ints
			}
			for i, id := range dense {
				if id >= r.layout.nodes {
					return Inputf(at.Of(i), "node %d of split %s, expected 0 ≤ id < %d", int64(id), name, r.layout.nodes)
				}
				if was := of[id]; was != store.SplitNone && was != part {
					return Inputf(at.Of(i), "node %d is in %s and in %s of split %s, expected disjoint sets", id, parts[was], parts[part], name)
				}
				of[id] = part
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	if counted {
		r.countSplit(of)
	}
	h := blocks.Header{Kind: blocks.NodeColumn, Elem: blocks.Uint8, Dim: 1, Name: name}
	rows := r.everyNode(store.ColumnInfo{Name: name, Role: store.RoleSplit, Elem: blocks.Uint8, Dim: 1})
	if old := r.like[name]; old != nil {
		rows.column.NodeType, rows.column.Runs = old.NodeType, old.Runs
	} else {
		rows = r.splitType(rows, of)
	}
	ref, err := r.nodeFile(ctx, fileBase(name), h, rows, func(ctx context.Context, emit func(uint64, []byte) error) error {
		return emitInSteps(ctx, of, 1, emit)
	})
	if err != nil {
		return err
	}
	r.m.Files = append(r.m.Files, ref)
	rows.column.Files = []string{ref.Name}
	r.m.Columns = append(r.m.Columns, rows.column)
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
func (r *run) countSplit(of []byte) {
	for p := range r.m.Partitions {
		info := &r.m.Partitions[p]
		info.Train, info.Valid, info.Test = 0, 0, 0
	}
	for id, part := range of {
		info := &r.m.Partitions[r.places.of(uint64(id))>>r.layout.localBits]
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
func (r *run) edgeList(ctx context.Context, l int) (err error) {
	name := r.desc.EdgeLists[l]
	r.phase("edge list "+name, "edges", -1)
	dim := 2
	if r.desc.HasRelation {
		dim = 3
	}
	file, w, err := r.w.CreateFile("edges-"+fileBase(name), blocks.Header{Kind: blocks.EdgeList, Elem: blocks.Uint64, Dim: uint32(dim), Name: name, Partitions: uint32(r.layout.partitions())})
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
	err = r.src.EdgeList(ctx, r.srcEnv(), l, func(b *EdgeBatch) error {
		b, err := r.densify(b, &scratch)
		if err != nil {
			return err
		}
		for i, s := range b.Src.Ints {
			d := b.Dst.Ints[i]
			if s >= r.layout.nodes || d >= r.layout.nodes {
				return Inputf(b.At.Of(i), "edge from node %d to node %d, expected 0 ≤ id < %d", int64(s), int64(d), r.layout.nodes)
			}
			flat = append(flat, r.layout.internal(r.places.of(s)))
			if dim == 3 {
				if int(b.Relations[i]) >= relations {
					return Inputf(b.At.Of(i), "relation %d, expected less than %d", b.Relations[i], relations)
				}
				flat = append(flat, uint64(b.Relations[i]))
			}
			flat = append(flat, r.layout.internal(r.places.of(d)))
			rows++
			if len(flat) == edgeListExtentRows*dim {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		r.tick(int64(b.Len()))
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
	r.m.Files = append(r.m.Files, store.Ref(file, info))
	r.m.EdgeLists = append(r.m.EdgeLists, store.EdgeListInfo{Name: name, Rows: rows, File: file})
	return nil
}

// ids writes external ids, internal → external and back.
func (r *run) ids(ctx context.Context) error {
	r.phase("ids", "ids", int64(r.layout.nodes))
	same := func(id uint64) uint64 { return id }
	switch {
	case r.desc.NamedIntegers:
		return r.namedIntegers(ctx)
	case r.desc.Named:
		return r.namedIDs(ctx)
	case r.kept != nil:
		return r.keptIDs(ctx, r.kept)
	case r.dict == nil:
		return r.denseIDs(ctx, same, same)
	case r.dict.strings:
		return r.dictionaryStrings(ctx)
	}
	return r.dictionaryInts(ctx)
}

// integerIDs writes integer ids and their dictionary: external gives a dense id's, byRank
// the dense id of the rank-th smallest of them.
func (r *run) integerIDs(ctx context.Context, external, byRank func(uint64) uint64) error {
	if err := r.integerColumn(ctx, external); err != nil {
		return err
	}
	r.m.IDs.Kind = store.IDsIntegers
	d, err := r.w.NewDictionary()
	if err != nil {
		return err
	}
	for rank := range r.layout.nodes {
		id := byRank(rank)
		if err := d.AddInt(external(id), store.NodeID(r.layout.internal(r.places.of(id)))); err != nil {
			return err
		}
	}
	r.m.IDs.Dictionaries = []uint64{r.w.Version()}
	return d.Close()
}

// namedIntegers writes the integers that the source names its nodes by.
func (r *run) namedIntegers(ctx context.Context) error {
	mem, err := offHeap(16 * int64(r.layout.nodes))
	if err != nil {
		return err
	}
	defer freeOffHeap(mem)
	both, err := blocks.View[uint64](mem)
	if err != nil {
		return err
	}
	external, order := both[:r.layout.nodes], both[r.layout.nodes:]
	n := uint64(0)
	where := r.desc.Input
	err = r.src.Names(ctx, r.srcEnv(), func(names *IDs, at Position) error {
		where = at.File
		if n+uint64(len(names.Ints)) > r.layout.nodes {
			return Inputf(at.Of(0), "more ids than nodes (%d)", r.layout.nodes)
		}
		n += uint64(copy(external[n:], names.Ints))
		return ctx.Err()
	})
	if err == nil && n != r.layout.nodes {
		err = Inputf(where, "%d ids, expected %d (the number of nodes)", n, r.layout.nodes)
	}
	if err != nil {
		return err
	}
	sortByID(external, order)
	for k := 1; k < len(order); k++ {
		if external[order[k]] == external[order[k-1]] {
			return Inputf(where, "rows %d and %d have the same id, %d", order[k-1], order[k], external[order[k]])
		}
	}
	return r.integerIDs(ctx, func(id uint64) uint64 { return external[id] }, func(rank uint64) uint64 { return order[rank] })
}

// sortByID fills order with the places of external ids, by ascending id.
func sortByID(external, order []uint64) {
	for id := range order {
		order[id] = uint64(id)
	}
	slices.SortFunc(order, func(a, b uint64) int { return cmp.Or(cmp.Compare(external[a], external[b]), cmp.Compare(a, b)) })
}

// dictionaryInts writes the dictionary's integers.
func (r *run) dictionaryInts(ctx context.Context) error {
	h := blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint64, Dim: 1}
	ref, err := r.nodeFile(ctx, "external", h, r.everyNode(store.ColumnInfo{}), func(ctx context.Context, emit func(uint64, []byte) error) error {
		const step = 1 << 13
		buf := make([]byte, 0, 8*step)
		first := uint64(0)
		err := r.dict.each(ctx, func(rank uint64, id []byte) error {
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
	r.m.Files = append(r.m.Files, ref)
	r.m.IDs.External, r.m.IDs.Kind = []string{ref.Name}, store.IDsIntegers
	return r.writeDictionary(ctx, func(ctx context.Context, fn func(id []byte, dense uint64) error) error {
		return r.dict.each(ctx, func(rank uint64, id []byte) error { return fn(id, rank) })
	})
}

// integerColumn writes the external ids of all nodes as integers.
func (r *run) integerColumn(ctx context.Context, external func(dense uint64) uint64) error {
	h := blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint64, Dim: 1}
	ref, err := r.nodeFile(ctx, "external", h, r.everyNode(store.ColumnInfo{}), func(ctx context.Context, emit func(uint64, []byte) error) error {
		const step = 1 << 16
		buf := make([]byte, 0, 8*step)
		for first := uint64(0); first < r.layout.nodes; first += step {
			if err := ctx.Err(); err != nil {
				return err
			}
			buf = buf[:0]
			for id := first; id < min(first+step, r.layout.nodes); id++ {
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
	r.m.Files = append(r.m.Files, ref)
	r.m.IDs.External = []string{ref.Name}
	return nil
}

// idMapExtentRows is how many ids an extent of the id map holds: 4 MiB of 32-bit ids.
const idMapExtentRows = 1 << 20

// denseIDs writes external ids that are 0 … nodes−1: external gives a dense id's, dense is its inverse.
func (r *run) denseIDs(ctx context.Context, external, dense func(uint64) uint64) (err error) {
	if err := r.integerColumn(ctx, external); err != nil {
		return err
	}
	h := blocks.Header{Kind: blocks.IDMap, Elem: blocks.Uint32, Dim: 1, ExtentRows: idMapExtentRows, Partitions: uint32(r.layout.partitions())}
	if r.layout.nodes >= math.MaxUint32 {
		h.Elem = blocks.Uint64
	}
	name, w, err := r.w.CreateFile("idmap", h)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.Abort()
		}
	}()
	buf := make([]byte, 0, 1<<16)
	for k := uint64(0); k*idMapExtentRows < r.layout.nodes; k++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.Begin(k); err != nil {
			return err
		}
		end := min((k+1)*idMapExtentRows, r.layout.nodes)
		for id := k * idMapExtentRows; id < end; id++ {
			in := r.layout.internal(r.places.of(dense(id)))
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
	r.m.Files = append(r.m.Files, store.Ref(name, info))
	r.m.IDs.Kind, r.m.IDs.Map = store.IDsDense, name
	return nil
}
