package formats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"golang.org/x/sync/errgroup"

	"github.com/gstore/gstore/blocks"
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

// parquetLeaf is where a column's values are.
type parquetLeaf struct {
	index    int     // among the file's leaves
	unsigned bool    // integers
	perDay   float64 // of dates: the column's numbers a day
	level    int     // definition level of a value that is not null
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
		for !c.Leaf() && len(c.Columns()) == 1 {
			c = c.Columns()[0]
		}
		if !c.Leaf() || c.MaxRepetitionLevel() > 1 {
			return ingest.Inputf(path, "column %q is nested, expected numbers, strings and lists of numbers", col.name)
		}
		col.list = c.MaxRepetitionLevel() == 1
		leaf := parquetLeaf{index: c.Index(), level: c.MaxDefinitionLevel()}
		col.elem, col.text, leaf.unsigned = parquetElem(c.Type())
		leaf.perDay, col.empty = parquetDate(c.Type())
		if col.date = leaf.perDay > 0; col.empty {
			col.elem = blocks.Int32
		}
		if col.elem == blocks.Invalid && !col.text {
			return ingest.Inputf(path, "column %q is of type %v, expected numbers or strings", col.name, c.Type())
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

// parquetDate says how many of a date's numbers make a day, 0 where they are no dates, and whether a leaf can hold nothing but nulls.
func parquetDate(p parquet.Type) (perDay float64, empty bool) {
	l := p.LogicalType()
	if l == nil {
		return 0, false
	}
	seconds := 24.0 * 60 * 60
	switch x := l.Value.(type) {
	case *format.DateType:
		return 1, false
	case *format.TimestampType:
		switch x.Unit.Value.(type) {
		case *format.MilliSeconds:
			return seconds * 1e3, false
		case *format.NanoSeconds:
			return seconds * 1e9, false
		}
		return seconds * 1e6, false
	case *format.NullType:
		return 0, true
	}
	return 0, false
}

// parquetElem is the element type of a leaf; text is true of strings.
func parquetElem(p parquet.Type) (elem blocks.ElemType, text, unsigned bool) {
	half := false
	if l := p.LogicalType(); l != nil {
		switch x := l.Value.(type) {
		case *format.IntType:
			unsigned = !x.IsSigned
		case *format.Float16Type:
			half = true
		}
	}
	switch p.Kind() {
	case parquet.Boolean:
		return blocks.Uint8, false, false
	case parquet.Int32:
		if unsigned {
			return blocks.Uint32, false, true
		}
		return blocks.Int32, false, false
	case parquet.Int64:
		if unsigned {
			return blocks.Uint64, false, true
		}
		return blocks.Int64, false, false
	case parquet.Float:
		return blocks.Float32, false, false
	case parquet.Double:
		return blocks.Float64, false, false
	case parquet.ByteArray:
		return blocks.Invalid, true, false
	case parquet.FixedLenByteArray:
		if half && p.Length() == 2 {
			return blocks.Float16, false, false
		}
	}
	return blocks.Invalid, false, false
}

// listLengths finds the length of lists, by the first row that is there.
func (t *parquetTable) listLengths() error {
	for _, g := range t.groups {
		if g.rows == 0 {
			continue
		}
		return t.with(g.path, func(f *parquet.File) error {
			for k := range t.cols {
				if !t.cols[k].list {
					continue
				}
				r, err := openColumn(f, g, t.leaves[k], t.cols[k])
				if err != nil {
					return err
				}
				n, err := r.listLength()
				if err = errors.Join(err, r.close()); err != nil {
					return ingest.Inputf(g.path, "column %q: %v", t.cols[k].name, err)
				}
				t.cols[k].dim = n
			}
			return nil
		})
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

// columnReader reads a column of a row group front to back.
type columnReader struct {
	values parquet.ColumnChunkValueReader
	leaf   parquetLeaf
	col    tableColumn
	buf    []parquet.Value
	have   []parquet.Value // not handed out yet
	// pageBytes is what the largest page takes.
	pageBytes int64
}

func openColumn(f *parquet.File, g parquetGroup, leaf parquetLeaf, col tableColumn) (*columnReader, error) {
	page, err := checkPages(f, g.index, leaf, col.list)
	if err == nil && page > pagesBytesMax(f.Size()) {
		err = fmt.Errorf("a page takes %d bytes, at most %d are believed of a file of %d", page, pagesBytesMax(f.Size()), f.Size())
	}
	if err != nil {
		return nil, ingest.Inputf(g.path, "row group %d, column %q: %v", g.index, col.name, err)
	}
	chunk := f.RowGroups()[g.index].ColumnChunks()[leaf.index]
	return &columnReader{values: parquet.NewColumnChunkValueReader(chunk), leaf: leaf, col: col, buf: make([]parquet.Value, 1024), pageBytes: page}, nil
}

func (r *columnReader) close() error { return r.values.Close() }

// errShort says that a column has fewer values than its row group has rows.
var errShort = errors.New("the file ends before the row group does")

// fill reads more values; have is not empty afterwards.
func (r *columnReader) fill() error {
	for len(r.have) == 0 {
		n, err := r.values.ReadValues(r.buf)
		r.have = r.buf[:n]
		if n > 0 {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return errShort
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listDimMax bounds the length of a list.
const listDimMax = 1 << 20

// listLength is the length of the first row's list.
func (r *columnReader) listLength() (int, error) {
	for n := 0; ; n++ {
		if err := r.fill(); errors.Is(err, errShort) && n > 0 {
			return n, nil
		} else if err != nil {
			return 0, err
		}
		v := r.have[0]
		r.have = r.have[1:]
		switch {
		case n > 0 && v.RepetitionLevel() == 0:
			return n, nil
		case v.IsNull():
			return 0, errors.New("row 0 is an empty list or null, expected lists of one length")
		case n == listDimMax:
			return 0, fmt.Errorf("a list of more than %d", listDimMax)
		}
	}
}

// read appends the values of n rows, as elem to numbers or, where that is Invalid, to text. An
// error is about row at of the n.
func (r *columnReader) read(n int, elem blocks.ElemType, numbers *[]byte, text *ingest.IDs) (at int, err error) {
	if elem != blocks.Invalid && *numbers == nil {
		*numbers = []byte{}
	}
	for i := range n * r.col.dim {
		if len(r.have) == 0 {
			if err := r.fill(); errors.Is(err, errShort) && r.col.list {
				return i / r.col.dim, r.otherLength()
			} else if err != nil {
				return i / r.col.dim, err
			}
		}
		v := r.have[0]
		r.have = r.have[1:]
		if r.col.list && (v.RepetitionLevel() == 0) != (i%r.col.dim == 0) || r.col.list && v.IsNull() {
			return i / r.col.dim, r.otherLength()
		}
		if elem == blocks.Invalid {
			if err := r.appendText(text, v); err != nil {
				return i / r.col.dim, err
			}
			continue
		}
		if *numbers, err = r.appendNumber(*numbers, v, elem); err != nil {
			return i / r.col.dim, err
		}
	}
	return 0, nil
}

func (r *columnReader) otherLength() error {
	return fmt.Errorf("a list of another length, or with nulls, expected %d numbers as in row 0", r.col.dim)
}

func (r *columnReader) appendText(text *ingest.IDs, v parquet.Value) error {
	if len(text.Text)+len(v.Bytes()) > math.MaxUint32 {
		return errors.New("strings too long")
	}
	switch {
	case v.IsNull():
		text.Append(nil)
	case r.col.text:
		text.Append(v.ByteArray())
	case r.col.elem == blocks.Float32 || r.col.elem == blocks.Float64 || r.col.elem == blocks.Float16:
		return fmt.Errorf("%v, expected a string or an integer", v)
	case r.leaf.unsigned || r.col.elem == blocks.Uint8:
		text.Append(strconv.AppendUint(nil, uint64(r.integer(v)), 10))
	default:
		text.Append(strconv.AppendInt(nil, r.integer(v), 10))
	}
	return nil
}
