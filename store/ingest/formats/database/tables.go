package database

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parquet"
	"github.com/gstore/gstore/store/ingest/formats/sqlite"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// rows is a table that is open, and what its columns mean.
type rows struct {
	table.Table
	name  string
	said  *Table
	cols  []table.Column
	key   []int // columns; none: rows are numbered
	time  int   // column; −1: none
	refs  []reference
	kinds []Kind // by column
	stats []stats
	count int64
	// words says that the words which pandas takes for missing are so, as in text; elsewhere nulls alone are.
	words bool
	// Of rows that are added to a store: its columns of the table by name, nil elsewhere; how many of the rows it has; and the number of the
	// first of those that it has not, in a table without a key.
	stored map[string]*store.ColumnInfo
	known  int64
	first  uint64
}

// wordy reports whether a table has text alone, in which words say that nothing is there.
func wordy(t table.Table) bool {
	switch t.(type) {
	case *parquet.Table, *sqlite.Table:
		return false
	}
	return true
}

// reference is a foreign key of a table.
type reference struct {
	columns  []int
	to       string
	relation string
	nulls    int64 // rows without
}

// openRows resolves what the schema says of a table's columns.
func openRows(t table.Table, name string, said *Table, cols []table.Column) (*rows, error) {
	r := &rows{Table: t, name: name, said: said, cols: cols, time: -1, words: wordy(t)}
	if twice := twiceIn(table.ColumnNames(cols)); twice != "" {
		return nil, ingest.Inputf(t.Where(), "two columns are called %q", twice)
	}
	at := func(column, what string, plain bool) (int, error) {
		k := slices.IndexFunc(cols, func(c table.Column) bool { return c.Name == column })
		switch {
		case k < 0:
			return 0, ingest.Inputf(t.Where(), "%s is column %q, which is not there: the columns are %q", what, column, table.ColumnNames(cols))
		case plain && (cols[k].Strange != "" || cols[k].List):
			return 0, ingest.Inputf(t.Where(), "%s is column %q, which holds lists or is %s, expected numbers or text", what, column, cols[k].Strange)
		}
		return k, nil
	}
	for _, c := range said.Key {
		k, err := at(c, "the key", true)
		if err != nil {
			return nil, err
		}
		r.key = append(r.key, k)
	}
	if said.Time != "" {
		k, err := at(said.Time, "the time", true)
		if err != nil {
			return nil, err
		}
		r.time = k
	}
	for _, f := range said.References {
		ref := reference{to: f.Table, relation: f.relation(name)}
		for _, c := range f.Columns {
			k, err := at(c, "a reference to "+f.Table, true)
			if err != nil {
				return nil, err
			}
			ref.columns = append(ref.columns, k)
		}
		r.refs = append(r.refs, ref)
	}
	for _, c := range slices.Sorted(maps.Keys(said.Columns)) {
		if _, err := at(c, fmt.Sprintf("of kind %s", said.Columns[c]), false); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// survey reads the table for the kinds of its columns. Of one whose rows are added to a store the kinds are known.
func (r *rows) survey(ctx context.Context) error {
	r.stats = make([]stats, len(r.cols))
	var want []table.Want
	for k := range r.cols {
		c := &r.cols[k]
		r.stats[k] = stats{integers: true, values: map[string]bool{}}
		switch {
		case c.Strange != "" || c.List:
		case surveyed(c):
			want = append(want, table.Want{At: k})
		default:
			want = append(want, table.Want{At: k, Elem: blocks.Float64})
		}
	}
	if len(want) == 0 {
		return ingest.Inputf(r.Where(), "none of its columns %q can be read", table.ColumnNames(r.cols))
	}
	r.Use(want)
	err := r.Read(ctx, oneThread, want, func(b *table.Batch) error {
		r.count += int64(b.Rows)
		for w, x := range want {
			s := &r.stats[x.At]
			for i := range b.Rows {
				if x.Elem == blocks.Invalid {
					v := b.Text[w].At(i)
					s.add(v, r.absent(v), r.cols[x.At].Boolean)
				} else if math.IsNaN(math.Float64frombits(binary.LittleEndian.Uint64(b.Numbers[w][8*i:]))) {
					s.missing++
				}
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	for k := range r.cols {
		kind := r.said.Columns[r.cols[k].Name]
		switch {
		case kind != "":
		case r.stored != nil:
			kind = Skip
		case r.isKey(k) || k == r.time || k == 0 && isRowNumber(r.cols[k].Name):
			kind = Skip
		default:
			kind = kindOf(&r.cols[k], &r.stats[k], r.count)
		}
		r.kinds = append(r.kinds, kind)
		if err := r.checkKind(k); err != nil {
			return err
		}
	}
	for i := range r.refs { // a reference of several columns is null where one of them is: at least so many are
		for _, k := range r.refs[i].columns {
			r.refs[i].nulls = max(r.refs[i].nulls, r.stats[k].missing)
		}
	}
	return nil
}

// checkKind says whether a column can be of its kind.
func (r *rows) checkKind(k int) error {
	c, s := &r.cols[k], &r.stats[k]
	bad := func(found string) error {
		return ingest.Inputf(r.Where(), "column %q is to be of kind %s, and %s", c.Name, r.kinds[k], found)
	}
	switch kind := r.kinds[k]; {
	case kind == Skip:
	case c.Strange != "":
		return bad("is " + c.Strange)
	case kind == Label && (c.List || r.isKey(k) || k == r.time):
		return bad("is a list, a time or part of a key: expected text or numbers")
	case kind == Label && s.words && s.values == nil && r.stored == nil:
		return bad(fmt.Sprintf("has more than %d values of text, which are too many classes", categoriesMax))
	case c.List != (kind == Vector) || c.List && c.Text:
		return bad("only lists of numbers are vectors, and nothing else")
	case kind == Category && s.values == nil && r.stored == nil:
		return bad(fmt.Sprintf("has more than %d values: make it text or skip", categoriesMax))
	case kind == Set && r.stored == nil && (s.values == nil || len(partsOf(s.values)) == 0):
		return bad(fmt.Sprintf("has more than %d values, or none", categoriesMax))
	case kind == Category && !surveyed(c):
		return bad("holds no text and no integers")
	case kind == Text && !c.Text && !s.words && !surveyed(c):
		return bad("holds numbers")
	}
	return nil
}

// isKey reports whether column k is part of the key or of a reference.
func (r *rows) isKey(k int) bool {
	return slices.Contains(r.key, k) || slices.ContainsFunc(r.refs, func(f reference) bool { return slices.Contains(f.columns, k) })
}

// absent reports whether a value, as text, is none.
func (r *rows) absent(v []byte) bool {
	if r.words {
		return table.MissingText(v)
	}
	return len(v) == 0
}

// texts asks for columns as text.
func texts(columns []int) (want []table.Want) {
	for _, k := range columns {
		want = append(want, table.Want{At: k})
	}
	return want
}

// appendKey appends the id TABLE:KEY of a row of table to, whose key stands in columns as r has them, wanted from first on. ok is false where a
// part of it is missing.
func (r *rows) appendKey(id []byte, to string, columns []int, b *table.Batch, first, i int) (out []byte, ok bool) {
	id = append(append(id, to...), ':')
	for k, c := range columns {
		v := b.Text[first+k].At(i)
		if r.absent(v) {
			return id, false
		}
		if k > 0 {
			id = append(id, '|')
		}
		for _, x := range r.plainKey(c, v) {
			if len(columns) > 1 && (x == '|' || x == '\\') {
				id = append(id, '\\')
			}
			id = append(id, x)
		}
	}
	return id, true
}

// plainKey is a key, in column c, as ids have it: 12.0 is the integer 12, as WithType has it.
func (r *rows) plainKey(c int, v []byte) []byte {
	if !r.cols[c].Text && bytes.IndexByte(v, '.') >= 0 {
		if x, ok := table.ParseID(v); ok {
			return fmt.Append(nil, x)
		}
	}
	return v
}

// reader makes the ids of the rows of batches, which come in order from the first row on.
type reader struct {
	r    *rows
	next uint64 // number of the next row
	id   []byte
	ids  ingest.IDs
}

// of returns the ids of a batch's rows, whose first wanted columns are the key.
func (x *reader) of(b *table.Batch) (*ingest.IDs, error) {
	r := x.r
	x.ids.Reset()
	for i := range b.Rows {
		if len(r.key) == 0 {
			x.id = fmt.Appendf(x.id[:0], "%s:%d", r.name, x.next)
		} else {
			var ok bool
			if x.id, ok = r.appendKey(x.id[:0], r.name, r.key, b, 0, i); !ok {
				return nil, ingest.Inputf(b.At.Of(i), "a row without a key: column %q is empty", []string(r.said.Key))
			}
		}
		x.next++
		x.ids.Append(x.id)
	}
	return &x.ids, nil
}

// read streams columns with the ids of their rows, behind the key's in each batch.
func (r *rows) read(ctx context.Context, env ingest.Env, want []table.Want, emit func(ids *ingest.IDs, b *table.Batch, first int) error) error {
	all := append(texts(r.key), want...)
	x := &reader{r: r, next: r.first}
	if len(all) == 0 { // rows are counted by any column
		all = append(all, r.any())
	}
	return r.Read(ctx, env, all, func(b *table.Batch) error {
		ids, err := x.of(b)
		if err != nil {
			return err
		}
		return emit(ids, b, len(r.key))
	})
}

// any is a column that can be read.
func (r *rows) any() table.Want {
	for k := range r.cols {
		if c := &r.cols[k]; c.Strange == "" && !c.List && surveyed(c) {
			return table.Want{At: k}
		}
	}
	k := slices.IndexFunc(r.cols, func(c table.Column) bool { return c.Strange == "" && !c.List })
	return table.Want{At: max(k, 0), Elem: blocks.Float64}
}
