package parquet

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// columnReader reads a column of a row group front to back.
type columnReader struct {
	values parquet.ColumnChunkValueReader
	leaf   parquetLeaf
	col    table.Column
	buf    []parquet.Value
	have   []parquet.Value // not handed out yet
	times  bool            // values are wanted as times of rows
	// pageBytes is what the largest page takes.
	pageBytes int64
}

func openColumn(f *parquet.File, g parquetGroup, leaf parquetLeaf, col table.Column) (*columnReader, error) {
	page, err := checkPages(f, g.index, leaf, col.List)
	if err == nil && page > pagesBytesMax(f.Size()) {
		err = fmt.Errorf("a page takes %d bytes, at most %d are believed of a file of %d", page, pagesBytesMax(f.Size()), f.Size())
	}
	if err != nil {
		return nil, ingest.Inputf(g.path, "row group %d, column %q: %v", g.index, col.Name, err)
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

// next takes the next value.
func (r *columnReader) next() (parquet.Value, error) {
	if len(r.have) == 0 {
		if err := r.fill(); err != nil {
			return parquet.Value{}, err
		}
	}
	v := r.have[0]
	r.have = r.have[1:]
	return v, nil
}

// noList reports whether v stands for a row without a list, or with an empty one.
func (r *columnReader) noList(v parquet.Value) bool { return v.DefinitionLevel() < r.leaf.listed }

// listLength is the length of the first list among n rows; 0 = there is none.
func (r *columnReader) listLength(rows int64) (int, error) {
	for range rows {
		v, err := r.next()
		if err != nil {
			return 0, err
		}
		if r.noList(v) {
			continue
		}
		n := 1
		for ; ; n++ {
			v, err := r.next()
			switch {
			case errors.Is(err, errShort) || err == nil && v.RepetitionLevel() == 0:
				return n, nil
			case err != nil:
				return 0, err
			case n == listDimMax:
				return 0, fmt.Errorf("a list of more than %d", listDimMax)
			}
		}
	}
	return 0, nil
}

// Read appends the values of n rows, as elem to numbers or, where that is Invalid, to text. A row without a list has
// elements without a value. An error is about row at of the n.
func (r *columnReader) read(n int, elem blocks.ElemType, numbers *[]byte, text *ingest.IDs) (at int, err error) {
	if elem != blocks.Invalid && *numbers == nil {
		*numbers = []byte{}
	}
	if elem == blocks.Invalid && r.col.List {
		return r.readLists(n, text)
	}
	for i := range n {
		none := false
		for d := range r.col.Dim {
			var v parquet.Value // null
			if !none {
				if v, err = r.next(); errors.Is(err, errShort) && r.col.List && d > 0 {
					return i, r.otherLength()
				} else if err != nil {
					return i, err
				}
				if none = r.col.List && d == 0 && r.noList(v); r.col.List && (v.RepetitionLevel() == 0) != (d == 0) {
					if d == 0 { // one more of the row before
						i = max(0, i-1)
					}
					return i, r.otherLength()
				}
			}
			if r.times {
				*numbers, err = r.appendTime(*numbers, v)
			} else if elem == blocks.Invalid {
				err = r.appendText(text, v)
			} else {
				*numbers, err = r.appendNumber(*numbers, v, elem)
			}
			if err != nil {
				return i, err
			}
		}
	}
	return 0, nil
}

// readLists appends the lists of n rows, of any lengths, as text: [table.ListMark] before each element, alone for a list without any, and nothing for
// a row without a list.
func (r *columnReader) readLists(n int, text *ingest.IDs) (at int, err error) {
	var list []byte
	var one ingest.IDs
	for i := range n {
		v, err := r.next()
		if err != nil {
			return i, err
		}
		list = list[:0]
		switch level := v.DefinitionLevel(); {
		case level < r.leaf.listed-1:
			text.Append(nil)
			continue
		case level < r.leaf.listed:
			text.Append([]byte{table.ListMark})
			continue
		}
		for k := 0; ; k++ {
			one.Reset()
			if err := r.appendText(&one, v); err != nil {
				return i, err
			}
			list = append(append(list, table.ListMark), one.At(0)...)
			if k == listDimMax {
				return i, fmt.Errorf("a list of more than %d", listDimMax)
			}
			if len(r.have) == 0 {
				if err := r.fill(); errors.Is(err, errShort) { // the last row's
					break
				} else if err != nil {
					return i, err
				}
			}
			if v = r.have[0]; v.RepetitionLevel() == 0 {
				break
			}
			r.have = r.have[1:]
		}
		text.Append(list)
	}
	return 0, nil
}

func (r *columnReader) otherLength() error {
	return fmt.Errorf("a list of another length, expected %d numbers as in the first one", r.col.Dim)
}

func (r *columnReader) appendText(text *ingest.IDs, v parquet.Value) error {
	if len(text.Text)+len(v.Bytes()) > math.MaxUint32 {
		return errors.New("strings too long")
	}
	switch {
	case v.IsNull():
		text.Append(nil)
	case r.col.Text:
		text.Append(v.ByteArray())
	case r.leaf.decimal || r.col.Elem == blocks.Float32 || r.col.Elem == blocks.Float64 || r.col.Elem == blocks.Float16:
		x := r.float(v)
		if r.col.Elem == blocks.Float16 || x != math.Trunc(x) || math.Abs(x) >= 1<<53 {
			return fmt.Errorf("%v, expected a string or an integer", v)
		}
		text.Append(strconv.AppendInt(nil, int64(x), 10)) // as pandas writes integers of which some are missing
	case r.leaf.unsigned || r.col.Elem == blocks.Uint8:
		text.Append(strconv.AppendUint(nil, uint64(r.integer(v)), 10))
	default:
		text.Append(strconv.AppendInt(nil, r.integer(v), 10))
	}
	return nil
}
