// Package parquet reads tables of edges and nodes from Parquet files, and from folders of them as one table, row groups at
// a time by several threads.
//
// The library under it trusts a file's sizes. Here footers, page headers and the lengths of delta-encoded values are
// checked first (bounds.go, pages.go, delta.go, codec.go), so that a damaged or hostile file is an error and never an
// allocation of more than it can hold.
package parquet

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

	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// Table is a Parquet file, or a folder of them with one schema (as Spark
// and others write a table). Row groups are read one after another (edges:
// one a thread), pages one after another, so that what is in memory is a page
// of each wanted column a thread.
type Table struct {
	fs     vfs.FS
	path   string
	cols   []table.Column
	leaves []parquetLeaf // of cols
	groups []parquetGroup
	Rows   int64
	skip   int // row groups that [Table.Read] leaves out
}

// parquetGroup is a row group.
type parquetGroup struct {
	path        string
	index       int
	first, rows int64 // rows of the table
}

// Open reads the footers.
func Open(fs vfs.FS, path string) (*Table, error) {
	t := &Table{fs: fs, path: path}
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
func (t *Table) checkFooter(path string) (err error) {
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
func (t *Table) with(path string, fn func(*parquet.File) error) (err error) {
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

// Add notes a file's columns and row groups.
func (t *Table) add(path string, f *parquet.File) error {
	var cols []table.Column
	var leaves []parquetLeaf
	for _, c := range f.Root().Columns() {
		col := table.Column{Name: c.Name(), Dim: 1}
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
		col.List = c.MaxRepetitionLevel() == 1
		leaf.index, leaf.level = c.Index(), c.MaxDefinitionLevel()
		switch {
		case !c.Leaf():
			col.Strange = "nested"
		case c.MaxRepetitionLevel() > 1:
			col.Strange = "lists of lists"
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
		t.groups = append(t.groups, parquetGroup{path: path, index: k, first: t.Rows, rows: n})
		t.Rows += n
	}
	return nil
}

// listLengths finds the length of lists, by the first row that has one; a column without any is empty.
func (t *Table) listLengths() error {
	for k := range t.cols {
		col := &t.cols[k]
		if !col.List || col.Strange != "" {
			continue
		}
		col.Dim, col.Empty = 1, true
		for _, g := range t.groups {
			if g.rows == 0 || !col.Empty {
				continue
			}
			err := t.with(g.path, func(f *parquet.File) error {
				r, err := openColumn(f, g, t.leaves[k], *col)
				if err != nil {
					return err
				}
				n, err := r.listLength(g.rows)
				if err = errors.Join(err, r.close()); err != nil {
					return ingest.Inputf(g.path, "column %q: %v", col.Name, err)
				}
				if n > 0 {
					col.Dim, col.Empty = n, false
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

// Where is the table's path.
func (t *Table) Where() string { return t.path }

// Columns are those of the file, flat: a list is one.
func (t *Table) Columns() []table.Column { return t.cols }

// Use implements table.Table: a file of columns needs not know.
func (t *Table) Use([]table.Want) {}

// Read implements table.
func (t *Table) Read(ctx context.Context, _ ingest.Env, want []table.Want, emit func(*table.Batch) error) error {
	for k := t.skip; k < len(t.groups); k++ {
		if err := t.readGroup(ctx, k, want, emit); err != nil {
			return err
		}
	}
	return nil
}

// Skip implements [table.Skipper], by whole row groups.
func (t *Table) Skip(rows uint64) (skipped uint64) {
	t.skip = 0
	for _, g := range t.groups {
		if uint64(g.first+g.rows) > rows {
			break
		}
		t.skip, skipped = t.skip+1, uint64(g.first+g.rows)
	}
	return skipped
}

// readParallel is read with row groups in any order, by as many threads as env has.
func (t *Table) readParallel(ctx context.Context, env ingest.Env, want []table.Want, emit func(worker int, b *table.Batch) error) error {
	var next atomic.Int64
	g, ctx := panics.WithContext(ctx)
	for worker := range env.Threads {
		g.Go(func() error {
			for {
				k := int(next.Add(1) - 1)
				if k >= len(t.groups) {
					return nil
				}
				if err := t.readGroup(ctx, k, want, func(b *table.Batch) error { return emit(worker, b) }); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// parquetBatchBytes is about how much of a row group is handed over at once.
const parquetBatchBytes = 512 << 10

func (t *Table) readGroup(ctx context.Context, k int, want []table.Want, emit func(*table.Batch) error) error {
	g := t.groups[k]
	if g.rows == 0 { // some writers leave its pages out
		return nil
	}
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
			if readers[c], err = openColumn(f, g, t.leaves[w.At], t.cols[w.At]); err != nil {
				return err
			}
			readers[c].times = w.Time
			if held += readers[c].pageBytes; held > pagesBytesMax(f.Size()) {
				return ingest.Inputf(g.path, "row group %d: pages of %d columns take %d bytes at once, at most %d are believed of a file of %d", g.index, c+1, held, pagesBytesMax(f.Size()), f.Size())
			}
			row += int64(t.cols[w.At].Dim * 8)
		}
		per := min(max(1, parquetBatchBytes/row), 1<<13)
		b := &table.Batch{Numbers: make([][]byte, len(want)), Text: make([]ingest.IDs, len(want))}
		for done := int64(0); done < g.rows; done += int64(b.Rows) {
			if stopped = ctx.Err(); stopped != nil {
				return nil
			}
			b.Rows = int(min(per, g.rows-done))
			b.At = ingest.Position{File: g.path, Unit: "row", Index: uint64(g.first + done)}
			for c, w := range want {
				b.Text[c].Reset()
				b.Numbers[c] = b.Numbers[c][:0]
				at, err := readers[c].read(b.Rows, w.Elem, &b.Numbers[c], &b.Text[c])
				if err != nil {
					return ingest.Inputf(b.At.Of(at), "column %q: %v", t.cols[w.At].Name, err)
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

// Files are what the table's rows stand in.
func (t *Table) Files() (paths []string) {
	for _, g := range t.groups {
		paths = append(paths, g.path)
	}
	if paths == nil {
		paths = []string{t.path}
	}
	return paths
}
