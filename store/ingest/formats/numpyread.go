package formats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// Edges implements ingest.Source: ranges of edges are read at their places by
// all threads.
func (s *numpyFolder) Edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) (err error) {
	a, err := s.edges.plain(ctx, env)
	if err != nil {
		return err
	}
	f, err := openAt(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var types, weights vfs.File
	ta, wa := s.types, s.weights
	if ta != nil {
		if ta, err = ta.plain(ctx, env); err != nil {
			return err
		}
		if types, err = openAt(ta); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, types.Close()) }()
	}
	if wa != nil {
		if wa, err = wa.plain(ctx, env); err != nil {
			return err
		}
		if weights, err = openAt(wa); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, weights.Close()) }()
	}
	const per = 1 << 15
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for worker := range env.Threads {
		g.Go(func() error {
			var buf []byte
			b := &ingest.EdgeBatch{At: ingest.Position{File: s.edges.path, Unit: "edge"}}
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
					if buf, err = readAt(types, ta, first, n, buf); err != nil {
						return err
					}
					ids = widen(ids[:0], ta.elem, buf)
					b.Relations = b.Relations[:0]
					for i, id := range ids {
						if id >= ingest.RelationsMax {
							return ingest.Inputf(ta.path, "row %d: edge type %d, expected less than %d", first+int64(i), int64(id), len(s.desc.Relations))
						}
						b.Relations = append(b.Relations, uint32(id))
					}
				}
				if weights != nil {
					w, err := readAt(weights, wa, first, n, nil)
					if err != nil {
						return err
					}
					b.Columns = [][]byte{w}
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
func (s *numpyFolder) readEdges(f vfs.File, a *array, first, n int64, b *ingest.EdgeBatch, ids []uint64, buf []byte) ([]uint64, []byte, error) {
	var err error
	if !s.triples && !s.pairs { // two rows
		flat := *a
		flat.shape = []int64{a.bytes() / int64(a.elem.Size())}
		if buf, err = readAt(f, &flat, first, n, buf); err != nil {
			return ids, buf, err
		}
		b.Src.Ints = widen(b.Src.Ints[:0], a.elem, buf)
		if buf, err = readAt(f, &flat, s.desc.Edges+first, n, buf); err != nil {
			return ids, buf, err
		}
		b.Dst.Ints = widen(b.Dst.Ints[:0], a.elem, buf)
		return ids, buf, nil
	}
	if buf, err = readAt(f, a, first, n, buf); err != nil {
		return ids, buf, err
	}
	ids = widen(ids[:0], a.elem, buf)
	unzip(b, ids, s.triples, a.path)
	return ids, buf, nil
}

// unzip splits pairs or triples into columns. Relations too large for 32 bits
// become the largest, which is out of range.
func unzip(b *ingest.EdgeBatch, ids []uint64, triples bool, _ string) {
	b.Src.Ints, b.Dst.Ints, b.Relations = b.Src.Ints[:0], b.Dst.Ints[:0], b.Relations[:0]
	if !triples {
		for i := 0; i+1 < len(ids); i += 2 {
			b.Src.Ints, b.Dst.Ints = append(b.Src.Ints, ids[i]), append(b.Dst.Ints, ids[i+1])
		}
		return
	}
	for i := 0; i+2 < len(ids); i += 3 {
		b.Src.Ints, b.Dst.Ints = append(b.Src.Ints, ids[i]), append(b.Dst.Ints, ids[i+2])
		b.Relations = append(b.Relations, uint32(min(ids[i+1], 1<<31)))
	}
}

func openAt(a *array) (vfs.File, error) {
	f, err := a.fs.Open(a.file())
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	return f, nil
}

// readAt reads n rows of a from row first into buf, which it may grow.
func readAt(f vfs.File, a *array, first, n int64, buf []byte) ([]byte, error) {
	row := a.dim() * int64(a.elem.Size())
	if int64(cap(buf)) < n*row {
		buf = make([]byte, n*row)
	}
	buf = buf[:n*row]
	k, err := f.ReadAt(buf, a.offset+first*row)
	if err != nil && int64(k) < n*row {
		if errors.Is(err, io.EOF) {
			return nil, ingest.Inputf(a.path, "truncated: row %d is not there", first+int64(k)/row)
		}
		return nil, fmt.Errorf("read %s: %w", a.path, err)
	}
	return buf, nil
}

// Rows implements ingest.Source.
func (s *numpyFolder) Rows(ctx context.Context, _ ingest.Env, c int, emit func([]byte, ingest.Position) error) error {
	a := s.columns[c]
	return a.stream(ctx, readBytes, func(first int64, b []byte) error {
		return emit(b, ingest.Position{File: a.path, Unit: "row", Index: uint64(first)})
	})
}

// Split implements ingest.Source.
func (s *numpyFolder) Split(ctx context.Context, _ ingest.Env, k int, part uint8, emit func(*ingest.IDs, ingest.Position) error) error {
	path := find(s.fs, s.splits[k], store.SplitNames()[part]+".npy")
	if path == "" {
		return nil
	}
	a, err := openArray(s.fs, path)
	if err != nil {
		return err
	}
	var ids ingest.IDs
	return a.stream(ctx, readBytes, func(first int64, b []byte) error {
		ids.Ints = widen(ids.Ints[:0], a.elem, b)
		return emit(&ids, ingest.Position{File: path, Unit: "row", Index: uint64(first)})
	})
}

// EdgeList implements ingest.Source.
func (s *numpyFolder) EdgeList(ctx context.Context, _ ingest.Env, l int, emit func(*ingest.EdgeBatch) error) error {
	return listEdges(ctx, s.lists[l], true, emit)
}

// listEdges streams the rows of a, pairs or triples, in order.
func listEdges(ctx context.Context, a *array, triples bool, emit func(*ingest.EdgeBatch) error) error {
	b := &ingest.EdgeBatch{At: ingest.Position{File: a.path, Unit: "row"}}
	var ids []uint64
	return a.stream(ctx, readBytes, func(first int64, raw []byte) error {
		ids = widen(ids[:0], a.elem, raw)
		b.At.Index = uint64(first)
		unzip(b, ids, triples, a.path)
		return emit(b)
	})
}

// Names implements ingest.Source.
func (s *numpyFolder) Names(ctx context.Context, _ ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
	return streamLines(ctx, s.fs, s.names, func(ids *ingest.IDs, at ingest.Position) error { return emit(ids, at) })
}
