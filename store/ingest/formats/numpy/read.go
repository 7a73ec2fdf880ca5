package numpy

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// Edges implements ingest.Source: ranges of edges are read at their places by
// all threads.
func (s *folder) Edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) (err error) {
	a, err := s.edges.plain(ctx, env)
	if err != nil {
		return err
	}
	f, err := openAt(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var types vfs.File
	ta := s.types
	if ta != nil {
		if ta, err = ta.plain(ctx, env); err != nil {
			return err
		}
		if types, err = openAt(ta); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, types.Close()) }()
	}
	read := []*Array{a, ta} // what is
	columns, files := make([]*Array, len(s.edgeColumns)), make([]vfs.File, len(s.edgeColumns))
	for c := range columns {
		if columns[c], err = s.edgeColumns[c].plain(ctx, env); err != nil {
			return err
		}
		if files[c], err = openAt(columns[c]); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, files[c].Close()) }()
		read = append(read, columns[c])
	}
	const per = 1 << 15
	var next atomic.Int64
	g, ctx := panics.WithContext(ctx)
	g.Go(func() error { // beside the readers, who read at many places
		for _, x := range read {
			if x == nil {
				continue
			}
			if err := x.check(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	for worker := range env.Threads {
		g.Go(func() error {
			var buf []byte
			b := &ingest.EdgeBatch{At: ingest.Position{File: s.edges.Path, Unit: "edge"}}
			var ids []uint64
			for {
				first := next.Add(per) - per
				if first >= s.desc.Edges {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				n := min(per, s.desc.Edges-first)
				b.At.Index = uint64(first)
				var err error
				if ids, buf, err = s.readEdges(f, a, first, n, b, ids, buf); err != nil {
					return err
				}
				if types != nil {
					if buf, err = ta.readElements(types, first, n, buf); err != nil {
						return err
					}
					ids = parts.Widen(ids[:0], ta.Elem, buf)
					b.Relations = b.Relations[:0]
					for i, id := range ids {
						if id >= ingest.RelationsMax {
							return ingest.Inputf(ta.Path, "row %d: edge type %d, expected less than %d", first+int64(i), int64(id), len(s.desc.Relations))
						}
						b.Relations = append(b.Relations, uint32(id))
					}
				}
				if b.Columns == nil {
					b.Columns = make([][]byte, len(columns))
				}
				for c, x := range columns {
					if b.Columns[c], err = x.readElements(files[c], first*x.Dim(), n*x.Dim(), b.Columns[c]); err != nil {
						return err
					}
					if s.wide != nil && s.wide == s.edgeColumns[c] {
						b.Columns[c] = x.narrow(b.Columns[c])
					}
				}
				if err := emit(worker, b); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// readEdges fills the ends of edges first ≤ k < first+n (and relations of triples).
func (s *folder) readEdges(f vfs.File, a *Array, first, n int64, b *ingest.EdgeBatch, ids []uint64, buf []byte) ([]uint64, []byte, error) {
	var err error
	if !s.apart() {
		width := int64(2)
		if s.triples {
			width = 3
		}
		if buf, err = a.readElements(f, first*width, n*width, buf); err != nil {
			return ids, buf, err
		}
		ids = parts.Widen(ids[:0], a.Elem, buf)
		unzip(b, ids, s.triples)
		return ids, buf, nil
	}
	// a list each of sources, of relations if they are triples, of destinations
	lists := []*[]uint64{&b.Src.Ints, &b.Dst.Ints}
	if s.triples {
		lists = []*[]uint64{&b.Src.Ints, &ids, &b.Dst.Ints}
	}
	for k, list := range lists {
		if buf, err = a.readElements(f, int64(k)*s.desc.Edges+first, n, buf); err != nil {
			return ids, buf, err
		}
		*list = parts.Widen((*list)[:0], a.Elem, buf)
	}
	if s.triples {
		b.Relations = b.Relations[:0]
		for _, r := range ids {
			b.Relations = append(b.Relations, relationID(r))
		}
	}
	return ids, buf, nil
}

// apart reports whether the file has all sources, then all destinations; else edge after edge.
func (s *folder) apart() bool {
	if s.triples || s.pairs {
		return s.edges.Columns
	}
	return !s.edges.Columns
}

// relationID narrows a relation; ones too large for 32 bits become the largest, which is out of range.
func relationID(r uint64) uint32 { return uint32(min(r, 1<<31)) }

// unzip splits pairs or triples into columns.
func unzip(b *ingest.EdgeBatch, ids []uint64, triples bool) {
	b.Src.Ints, b.Dst.Ints, b.Relations = b.Src.Ints[:0], b.Dst.Ints[:0], b.Relations[:0]
	if !triples {
		for i := 0; i+1 < len(ids); i += 2 {
			b.Src.Ints, b.Dst.Ints = append(b.Src.Ints, ids[i]), append(b.Dst.Ints, ids[i+1])
		}
		return
	}
	for i := 0; i+2 < len(ids); i += 3 {
		b.Src.Ints, b.Dst.Ints = append(b.Src.Ints, ids[i]), append(b.Dst.Ints, ids[i+2])
		b.Relations = append(b.Relations, relationID(ids[i+1]))
	}
}

// Rows implements ingest.Source.
func (s *folder) Rows(ctx context.Context, env ingest.Env, c int, emit func([]byte, ingest.Position) error) error {
	a := s.columns[c]
	return a.Stream(ctx, env, files.ReadBytes, func(first int64, b []byte) error {
		return emit(b, ingest.Position{File: a.Path, Unit: "row", Index: uint64(first)})
	})
}

// Split implements ingest.Source.
func (s *folder) Split(ctx context.Context, env ingest.Env, k int, part uint8, emit func(*ingest.IDs, ingest.Position) error) error {
	path := files.Find(s.fs, s.splits[k], store.SplitNames()[part]+".npy")
	if path == "" {
		return nil
	}
	a, err := OpenArray(s.fs, path)
	if err != nil {
		return err
	}
	var ids ingest.IDs
	return a.Stream(ctx, env, files.ReadBytes, func(first int64, b []byte) error {
		ids.Ints = parts.Widen(ids.Ints[:0], a.Elem, b)
		return emit(&ids, ingest.Position{File: path, Unit: "row", Index: uint64(first)})
	})
}

// EdgeList implements ingest.Source.
func (s *folder) EdgeList(ctx context.Context, env ingest.Env, l int, emit func(*ingest.EdgeBatch) error) error {
	return ListEdges(ctx, env, s.lists[l], s.lists[l].Shape[1] == 3, emit)
}

// ListEdges streams the rows of a, pairs or triples, in order.
func ListEdges(ctx context.Context, env ingest.Env, a *Array, triples bool, emit func(*ingest.EdgeBatch) error) error {
	b := &ingest.EdgeBatch{At: ingest.Position{File: a.Path, Unit: "row"}}
	var ids []uint64
	return a.Stream(ctx, env, files.ReadBytes, func(first int64, raw []byte) error {
		ids = parts.Widen(ids[:0], a.Elem, raw)
		b.At.Index = uint64(first)
		unzip(b, ids, triples)
		return emit(b)
	})
}

// Names implements ingest.Source.
func (s *folder) Names(ctx context.Context, _ ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
	if s.numbers != nil {
		var ids ingest.IDs
		return s.numbers.Elements(ctx, func(first int64, b []byte) error {
			ids.Ints = parts.Widen(ids.Ints[:0], s.numbers.Elem, b)
			return emit(&ids, ingest.Position{File: s.numbers.Path, Unit: "row", Index: uint64(first)})
		})
	}
	return text.StreamLines(ctx, s.fs, s.names, func(ids *ingest.IDs, at ingest.Position) error { return emit(ids, at) })
}
