package layouts

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// idsWithin turns ids within types into source ids.
type idsWithin struct {
	srcFirst, dstFirst uint64
	srcCount, dstCount int64
	relation           int // −1 = the graph has none
}

// wrap makes a stream of edges of one type one of the graph's.
func (r *idsWithin) wrap(edges parts.Edges) parts.Edges {
	return func(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
		relations := make([][]uint32, env.Threads)
		return edges(ctx, env, func(worker int, b *ingest.EdgeBatch) error {
			var err error
			if relations[worker], err = r.apply(b, relations[worker]); err != nil {
				return err
			}
			return emit(worker, b)
		})
	}
}

// apply makes the edges of a batch the graph's; relations is room for theirs, which is returned.
func (r *idsWithin) apply(b *ingest.EdgeBatch, relations []uint32) ([]uint32, error) {
	for i, src := range b.Src.Ints {
		dst := b.Dst.Ints[i]
		if src >= uint64(r.srcCount) {
			return relations, ingest.Inputf(b.At.Of(i), "source %d, expected 0 ≤ id < %d", int64(src), r.srcCount)
		}
		if dst >= uint64(r.dstCount) {
			return relations, ingest.Inputf(b.At.Of(i), "destination %d, expected 0 ≤ id < %d", int64(dst), r.dstCount)
		}
		b.Src.Ints[i], b.Dst.Ints[i] = src+r.srcFirst, dst+r.dstFirst
	}
	if r.relation >= 0 {
		for len(relations) < b.Len() {
			relations = append(relations, uint32(r.relation))
		}
		b.Relations = relations[:b.Len()]
	}
	return relations, nil
}

// completed gives edges the columns of all: column c is their own column from[c], or, where that is −1, one that their type lacks, every
// row of it absent[c].
func completed(edges parts.Edges, from []int, absent [][]byte) parts.Edges {
	same := true
	for c, own := range from {
		same = same && own == c
	}
	if same {
		return edges
	}
	return func(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
		rows := make([][][]byte, env.Threads) // by worker and column
		return edges(ctx, env, func(worker int, b *ingest.EdgeBatch) error {
			if rows[worker] == nil {
				rows[worker] = make([][]byte, len(absent))
			}
			whole := *b
			whole.Columns = make([][]byte, len(absent))
			for c, value := range absent {
				if from[c] >= 0 {
					whole.Columns[c] = b.Columns[from[c]]
					continue
				}
				for len(rows[worker][c]) < b.Len()*len(value) {
					rows[worker][c] = append(rows[worker][c], value...)
				}
				whole.Columns[c] = rows[worker][c][:b.Len()*len(value)]
			}
			return emit(worker, &whole)
		})
	}
}

// counted expects a number of edges of a stream; −1 = any.
func counted(edges parts.Edges, want int64, path string) parts.Edges {
	return func(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
		var total atomic.Int64
		err := edges(ctx, env, func(worker int, b *ingest.EdgeBatch) error {
			total.Add(int64(b.Len()))
			return emit(worker, b)
		})
		if err == nil && want >= 0 && total.Load() != want {
			return ingest.Inputf(path, "%d edges, expected %d (num-edge-list)", total.Load(), want)
		}
		return err
	}
}

// zipped gives edges, which have no columns, the rows of columns that stand in the same order in files of their own. Both are read front
// to back, and so by one thread.
func zipped(edges parts.Edges, columns []numpy.EdgeColumn) parts.Edges {
	return func(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
		env.Threads = 1
		readers := make([]*rowReader, len(columns))
		for c := range columns {
			readers[c] = pullRows(ctx, env, &columns[c])
			defer readers[c].stop()
		}
		rows, total := make([][]byte, len(columns)), int64(0)
		err := edges(ctx, env, func(worker int, b *ingest.EdgeBatch) error {
			whole := *b
			for c, r := range readers {
				var err error
				if rows[c], err = r.take(b.Len(), rows[c][:0]); err != nil {
					return err
				}
			}
			whole.Columns = rows
			total += int64(b.Len())
			return emit(worker, &whole)
		})
		for _, r := range readers {
			if err == nil {
				err = r.end(total)
			}
		}
		return err
	}
}

// rowReader hands out the rows of a column as many at a time as are asked for.
type rowReader struct {
	column *numpy.EdgeColumn
	pull   func() ([]byte, error, bool)
	stop   func()
	rest   []byte // rows that were read and not taken
	taken  int64
}

// pullRows starts to read a column. The reader must be stopped.
func pullRows(ctx context.Context, env ingest.Env, c *numpy.EdgeColumn) *rowReader {
	enough := errors.New("enough")
	pull, stop := iter.Pull2(func(yield func([]byte, error) bool) {
		err := c.Rows(ctx, env, func(rows []byte, _ ingest.Position) error {
			if !yield(rows, nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(nil, err)
		}
	})
	return &rowReader{column: c, pull: pull, stop: stop}
}

// take appends the next n rows to out.
func (r *rowReader) take(n int, out []byte) ([]byte, error) {
	for need := n * r.column.Spec.RowBytes(); need > 0; {
		if len(r.rest) == 0 {
			rows, err, ok := r.pull()
			if err != nil {
				return out, err
			}
			if !ok {
				return out, ingest.Inputf(r.column.Path, "%d rows, expected one for each edge", r.taken+int64(len(out)/r.column.Spec.RowBytes()))
			}
			r.rest = rows
			continue
		}
		k := min(need, len(r.rest))
		out, r.rest, need = append(out, r.rest[:k]...), r.rest[k:], need-k
	}
	r.taken += int64(n)
	return out, nil
}

// end expects no row after those of all edges.
func (r *rowReader) end(edges int64) error {
	for len(r.rest) == 0 {
		rows, err, ok := r.pull()
		if err != nil || !ok {
			return err
		}
		r.rest = rows
	}
	return ingest.Inputf(r.column.Path, "more than %d rows, expected one for each edge", edges)
}
