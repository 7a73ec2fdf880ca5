package formats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"github.com/gstore/gstore/store/ingest"
)

// parquetTable is a Parquet file, or a folder of them with one schema (as Spark
// and others write a table). Row groups are read one after another (edges:
// one a thread), pages one after another, so that what is in memory is a page
// of each wanted column a thread.
type parquetTable struct {
	fs     vfs.FS
	path   string
	cols   []tableColumn
	leaves []parquetLeaf // of cols
	groups []parquetGroup
	rows   int64
}

// parquetGroup is a row group.
type parquetGroup struct {
	path        string
	index       int
	first, rows int64 // rows of the table
}

// openParquet reads the footers.
func openParquet(fs vfs.FS, path string) (*parquetTable, error) {
	t := &parquetTable{fs: fs, path: path}
	files := []string{path}
	if info, err := fs.Stat(path); err == nil && info.IsDir() {
		names, err := fs.List(path)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", path, err)
		}
		sort.Strings(names)
		files = nil
		for _, n := range names {
			if strings.HasSuffix(n, ".parquet") {
				files = append(files, fs.PathJoin(path, n))
			}
		}
		if len(files) == 0 {
			return nil, ingest.Inputf(path, "no .parquet files")
		}
	}
	for _, file := range files {
		if err := t.checkFooter(file); err != nil {
			return nil, err
		}
		if err := t.with(file, func(f *parquet.File) error { return t.add(file, f) }); err != nil {
			return nil, err
		}
	}
	return t, t.listLengths()
}

// checkFooter refuses a file whose metadata the decoder must not see.
func (t *parquetTable) checkFooter(path string) (err error) {
	f, err := t.fs.Open(path)
	if err != nil {
		return fmt.Errorf("open input: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open input: %w", err)
	}
	if err := checkFooter(f, info.Size()); err != nil { // the disk's own failures watchedFS tells apart
		return ingest.Inputf(path, "no Parquet file: %v", err)
	}
	return nil
}

// with calls fn with the open file. What the decoder says of damage, or panics
// with, is an error of the input; the disk's own errors are told apart by watchedFS.
func (t *parquetTable) with(path string, fn func(*parquet.File) error) (err error) {
	f, err := t.fs.Open(path)
	if err != nil {
		return fmt.Errorf("open input: %w", err)
	}
	defer func() {
		if p := recover(); p != nil {
			err = ingest.Inputf(path, "damaged Parquet: %v", p)
		}
		err = errors.Join(err, f.Close())
	}()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open input: %w", err)
	}
	// the section refuses the negative offsets that a damaged footer may hold
	p, err := parquet.OpenFile(io.NewSectionReader(f, 0, info.Size()), info.Size(),
		parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(256<<10))
	if err != nil {
		return ingest.Inputf(path, "no Parquet file: %v", err)
	}
	return fn(p)
}

// add notes a file's columns and row groups.
func (t *parquetTable) add(path string, f *parquet.File) error {
	var cols []tableColumn
	var leaves []parquetLeaf
	for _, c := range f.Root().Columns() {
		col := tableColumn{name: c.Name(), dim: 1}
		leaf, defined := parquetLeaf{}, 0
		for node := c; ; node = node.Columns()[0] {
			if c = node; c.Optional() || c.Repeated() {
				defined++
			}
			if c.Repeated() {
				leaf.listed = defined
			}
			if c.Leaf() || len(c.Columns()) != 1 {
				break
			}
		}
		col.list = c.MaxRepetitionLevel() == 1
		leaf.index, leaf.level = c.Index(), c.MaxDefinitionLevel()
		switch {
		case !c.Leaf():
			col.strange = "nested"
		case c.MaxRepetitionLevel() > 1:
			col.strange = "lists of lists"
		default:
			leaf.describe(c.Type(), &col)
		}
		cols, leaves = append(cols, col), append(leaves, leaf)
	}
	if t.cols == nil {
		t.cols, t.leaves = cols, leaves
	} else {
		same := len(cols) == len(t.cols)
		for k := 0; same && k < len(cols); k++ {
			same = cols[k] == t.cols[k] && leaves[k] == t.leaves[k]
		}
		if !same {
			return ingest.Inputf(path, "its columns differ from those of %s", t.groups[0].path)
		}
	}
	for k, g := range f.RowGroups() {
		n := g.NumRows()
		if n < 0 || n > 1<<48 {
			return ingest.Inputf(path, "row group %d has %d rows", k, n)
		}
		if len(g.ColumnChunks()) != len(f.Metadata().RowGroups[k].Columns) {
			return ingest.Inputf(path, "row group %d has %d columns", k, len(g.ColumnChunks()))
		}
		t.groups = append(t.groups, parquetGroup{path: path, index: k, first: t.rows, rows: n})
		t.rows += n
	}
	return nil
}

// listLengths finds the length of lists, by the first row that has one; a column without any is empty.
func (t *parquetTable) listLengths() error {
	for k := range t.cols {
		col := &t.cols[k]
		if !col.list || col.strange != "" {
			continue
		}
		col.dim, col.empty = 1, true
		for _, g := range t.groups {
			if g.rows == 0 || !col.empty {
				continue
			}
			err := t.with(g.path, func(f *parquet.File) error {
				r, err := openColumn(f, g, t.leaves[k], *col)
				if err != nil {
					return err
				}
				n, err := r.listLength(g.rows)
				if err = errors.Join(err, r.close()); err != nil {
					return ingest.Inputf(g.path, "column %q: %v", col.name, err)
				}
				if n > 0 {
					col.dim, col.empty = n, false
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *parquetTable) where() string          { return t.path }
func (t *parquetTable) columns() []tableColumn { return t.cols }
func (t *parquetTable) use([]wantColumn)       {}

// read implements table.
func (t *parquetTable) read(ctx context.Context, _ ingest.Env, want []wantColumn, emit func(*tableBatch) error) error {
	for k := range t.groups {
		if err := t.readGroup(ctx, k, want, emit); err != nil {
			return err
		}
	}
	return nil
}

// readParallel is read with row groups in any order, by as many threads as env has.
func (t *parquetTable) readParallel(ctx context.Context, env ingest.Env, want []wantColumn, emit func(worker int, b *tableBatch) error) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for worker := range env.Threads {
		g.Go(func() error {
			for {
				k := int(next.Add(1) - 1)
				if k >= len(t.groups) {
					return nil
				}
				if err := t.readGroup(ctx, k, want, func(b *tableBatch) error { return emit(worker, b) }); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// parquetBatchBytes is about how much of a row group is handed over at once.
const parquetBatchBytes = 512 << 10

func (t *parquetTable) readGroup(ctx context.Context, k int, want []wantColumn, emit func(*tableBatch) error) error {
	g := t.groups[k]
	var stopped error // emit's, which are not about the file
	err := t.with(g.path, func(f *parquet.File) (err error) {
		readers := make([]*columnReader, len(want))
		defer func() {
			for _, r := range readers {
				if r != nil {
					err = errors.Join(err, r.close())
				}
			}
		}()
		row, held := int64(8), int64(0)
		for c, w := range want {
			if readers[c], err = openColumn(f, g, t.leaves[w.at], t.cols[w.at]); err != nil {
				return err
			}
			if held += readers[c].pageBytes; held > pagesBytesMax(f.Size()) {
				return ingest.Inputf(g.path, "row group %d: pages of %d columns take %d bytes at once, at most %d are believed of a file of %d", g.index, c+1, held, pagesBytesMax(f.Size()), f.Size())
			}
			row += int64(t.cols[w.at].dim * 8)
		}
		per := min(max(1, parquetBatchBytes/row), 1<<13)
		b := &tableBatch{numbers: make([][]byte, len(want)), text: make([]ingest.IDs, len(want))}
		for done := int64(0); done < g.rows; done += int64(b.rows) {
			if stopped = ctx.Err(); stopped != nil {
				return nil
			}
			b.rows = int(min(per, g.rows-done))
			b.at = ingest.Position{File: g.path, Unit: "row", Index: uint64(g.first + done)}
			for c, w := range want {
				b.text[c].Reset()
				b.numbers[c] = b.numbers[c][:0]
				at, err := readers[c].read(b.rows, w.elem, &b.numbers[c], &b.text[c])
				if err != nil {
					return ingest.Inputf(b.at.Of(at), "column %q: %v", t.cols[w.at].name, err)
				}
			}
			if stopped = emit(b); stopped != nil {
				return nil
			}
		}
		return nil
	})
	if stopped != nil {
		return stopped
	}
	return err
}
