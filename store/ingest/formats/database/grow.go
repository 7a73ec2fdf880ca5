package database

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// Keyless says which rows of a table without a key, which is added to a store, are new. Those of one with a key are the ones whose key the
// store does not have.
type Keyless string

// Rules for them.
const (
	Later Keyless = "later" // those with a time after the latest that the store has
	All   Keyless = "all"   // every one
	Rest  Keyless = "rest"  // those behind as many as the store has
)

// Keylesses lists the rules.
func Keylesses() []Keyless { return []Keyless{Later, All, Rest} }

// ErrNoneNew is in the errors of databases of which a store has all rows.
var ErrNoneNew = errors.New("no row is new")

// storeSchema is the schema of the store that rows are added to, which may be in other files than those of the ingest.
func (in *input) storeSchema() (*Schema, error) {
	text := in.o.Like.Manifest().DatabaseSchema()
	if text == "" {
		return nil, ingest.Inputf(in.path, "a database, and the store at %s does not say by which schema it was ingested: --schema FILE says it", in.o.Like.Dir())
	}
	s, err := ParseSchema(in.o.Like.Dir(), []byte(text))
	if err != nil {
		return nil, err
	}
	for _, t := range s.Tables {
		t.File = ""
	}
	return s, nil
}

// takeOver makes of the schema what the input has of the store's tables: where they are, and which are not there. What it does not know is left out.
func (s *Source) takeOver() error {
	known := 0
	for _, name := range s.in.own.names() {
		t := s.schema.Tables[name]
		if t == nil {
			s.notes = append(s.notes, fmt.Sprintf("table %s is left out: the store has none of that name", name))
			continue
		}
		known++
		if t.File == "" {
			t.File = s.in.own.Tables[name].File
		}
	}
	if known == 0 {
		return ingest.Inputf(s.in.path, "its tables are %.200q, and the store's are %.200q", s.in.own.names(), s.schema.names())
	}
	return nil
}

// there reports whether the input has a table of the schema: rows are added from some of a store's tables, but ingested from all.
func (s *Source) there(name string) bool {
	return !s.schema.Tables[name].Implied && (s.in.o.Like == nil || s.in.own.Tables[name] != nil)
}

// forget leaves out of what a schema says of a table's columns those that are no features and that it does not have.
func (t *Table) forget(cols []table.Column) {
	for name, kind := range t.Columns {
		if kind == Skip && !slices.Contains(table.ColumnNames(cols), name) {
			delete(t.Columns, name)
		}
	}
}

// fresh is a table without the rows that a store has.
type fresh struct {
	table.Table
	rows    *roaring64.Bitmap // those that it does not have
	skipped uint64            // rows before these that are not read
}

// newFresh is t without the rows that are not among some.
func newFresh(t table.Table, rows *roaring64.Bitmap) *fresh {
	f := &fresh{Table: t, rows: rows}
	if s, ok := t.(table.Skipper); ok && !rows.IsEmpty() {
		f.skipped = s.Skip(rows.Minimum())
	}
	return f
}

// Read implements [table.Table].
func (t *fresh) Read(ctx context.Context, env ingest.Env, want []table.Want, emit func(*table.Batch) error) error {
	if t.rows.IsEmpty() {
		return ctx.Err()
	}
	out, at := &table.Batch{}, t.skipped
	return t.Table.Read(ctx, env, want, func(b *table.Batch) error {
		first := at
		at += uint64(b.Rows)
		switch t.below(at) - t.below(first) {
		case 0:
			return ctx.Err()
		case uint64(b.Rows):
			return emit(b)
		}
		t.only(out, b, first)
		return emit(out)
	})
}

// below counts the new rows before row k.
func (t *fresh) below(k uint64) uint64 {
	if k == 0 {
		return 0
	}
	return t.rows.Rank(k - 1)
}

// only makes out of b, whose row 0 is row first of the table, the rows that are new.
func (t *fresh) only(out, b *table.Batch, first uint64) {
	out.Rows, out.At = 0, b.At
	out.At.Lines = nil
	out.Numbers, out.Text = slices.Grow(out.Numbers[:0], len(b.Numbers))[:len(b.Numbers)], slices.Grow(out.Text[:0], len(b.Text))[:len(b.Text)]
	for c := range out.Numbers {
		if out.Numbers[c] = out.Numbers[c][:0]; b.Numbers[c] == nil {
			out.Numbers[c] = nil
		}
	}
	for c := range out.Text {
		out.Text[c].Reset()
	}
	for i := range b.Rows {
		if !t.rows.Contains(first + uint64(i)) {
			continue
		}
		out.Rows++
		out.At.Lines = append(out.At.Lines, b.At.Number(i))
		for c, x := range b.Numbers {
			if x == nil {
				out.Text[c].Append(b.Text[c].At(i))
				continue
			}
			size := len(x) / b.Rows
			out.Numbers[c] = append(out.Numbers[c], x[i*size:(i+1)*size]...)
		}
	}
}

// keepFresh leaves the rows out that the store has.
func (r *rows) keepFresh(ctx context.Context, o *Options) error {
	m := o.Like.Manifest()
	t := slices.IndexFunc(m.Schema.NodeTypes, func(t store.NodeType) bool { return t.Name == r.name })
	if t < 0 {
		return ingest.Inputf(r.Where(), "the store has no table %q", r.name)
	}
	rows, all, err := roaring64.New(), uint64(0), error(nil)
	switch {
	case len(r.key) > 0:
		all, err = r.otherKeys(ctx, o.Like, rows)
	case o.Keyless == All || o.Keyless == Rest:
		all, err = r.behind(ctx, rows, o.Keyless, m.Schema.NodeTypes[t].Count)
	case r.time < 0:
		return ingest.Inputf(r.Where(), "table %s has neither a key nor a time, and so does not say which of its rows are new: --keyless all = every one, rest = those behind the %d that the store has", r.name, m.Schema.NodeTypes[t].Count)
	default:
		all, err = r.later(ctx, o.Like, rows)
	}
	if err != nil {
		return err
	}
	r.first = m.Schema.NodeTypes[t].Count
	r.known = int64(all - rows.GetCardinality())
	r.Table = newFresh(r.Table, rows)
	return nil
}

// otherKeys adds the rows whose key the store does not have to new, and counts all.
func (r *rows) otherKeys(ctx context.Context, st *store.Store, new *roaring64.Bitmap) (all uint64, err error) {
	var names []string
	var nodes []store.NodeID
	err = r.read(ctx, oneThread, nil, func(ids *ingest.IDs, _ *table.Batch, _ int) error {
		names = names[:0]
		for i := range ids.Len() {
			names = append(names, string(ids.At(i)))
		}
		nodes = slices.Grow(nodes[:0], len(names))[:len(names)]
		if err := st.LookupStrings(ctx, names, nodes); err != nil {
			return err
		}
		for _, id := range nodes {
			if id == store.NoNode {
				new.Add(all)
			}
			all++
		}
		return ctx.Err()
	})
	return all, err
}

// behind adds the rows behind the first ones, of which the store has so many, or all, and counts them.
func (r *rows) behind(ctx context.Context, new *roaring64.Bitmap, rule Keyless, stored uint64) (all uint64, err error) {
	want := []table.Want{r.any()}
	r.Use(want)
	err = r.Read(ctx, oneThread, want, func(b *table.Batch) error {
		all += uint64(b.Rows)
		return ctx.Err()
	})
	first := uint64(0)
	if rule == Rest {
		first = min(stored, all)
	}
	new.AddRange(first, all)
	return all, err
}

// later adds the rows whose time is after the latest that the store has, and counts all.
func (r *rows) later(ctx context.Context, st *store.Store, new *roaring64.Bitmap) (all uint64, err error) {
	latest, err := latestRow(ctx, st, r.name)
	if err != nil {
		return 0, err
	}
	want := []table.Want{{At: r.time, Elem: blocks.Int64, Time: true}}
	r.Use(want)
	err = r.Read(ctx, oneThread, want, func(b *table.Batch) error {
		for i := range b.Rows {
			if x := int64(binary.LittleEndian.Uint64(b.Numbers[0][8*i:])); x > latest && x != never {
				new.Add(all)
			}
			all++
		}
		return ctx.Err()
	})
	return all, err
}

// latestRow is the latest time of a table's rows that a store has; the least there is where none has one.
func latestRow(ctx context.Context, st *store.Store, name string) (latest int64, err error) {
	m := st.Manifest()
	c := m.RowTime(name)
	if c == nil {
		return 0, fmt.Errorf("%w: the store has no times of rows of table %s", store.ErrInvalid, name)
	}
	latest = math.MinInt64
	var b []byte
	for p := range m.Partitions {
		rows := m.NodeRows(c, store.PartitionID(p))
		if rows.Rows == 0 {
			continue
		}
		if b, err = st.ReadColumn(ctx, c.Name, store.PartitionID(p), b[:0]); err != nil {
			return 0, err
		}
		for k := rows.First; k < rows.First+rows.Rows; k++ {
			if t, ok := m.TypeOf(store.PartitionID(p), k); ok && m.Schema.NodeTypes[t].Name != name {
				continue
			}
			if x := int64(binary.LittleEndian.Uint64(b[8*k:])); x != never {
				latest = max(latest, x)
			}
		}
	}
	return latest, nil
}

// like makes the table's columns those of the store that its rows are added to.
func (r *rows) like(m *store.Manifest) {
	r.stored = map[string]*store.ColumnInfo{}
	for i := range m.Columns {
		if c := &m.Columns[i]; c.NodeType == r.name {
			r.stored[c.Name] = c
		}
	}
}

// tellFresh says which rows are added to a store. It is an error where none is, which matches [ErrNoneNew].
func (s *Source) tellFresh() error {
	if s.in.o.Like == nil {
		return nil
	}
	note := func(format string, args ...any) { s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf(format, args...)) }
	all, added := int64(0), int64(0)
	for _, r := range s.tables {
		all, added = all+r.known, added+r.count
		switch {
		case r.count+r.known == 0:
		case len(r.key) > 0:
			note("table %s: %d rows are new, %d are in the store and stay as they are there", r.name, r.count, r.known)
		case s.in.o.Keyless == All || s.in.o.Keyless == Rest:
			note("table %s has no key: %d rows are taken for new, %d are not", r.name, r.count, r.known)
		default:
			note("table %s has no key: %d rows are later than the store's latest and taken for new, %d are not", r.name, r.count, r.known)
		}
		for _, k := range r.of(Category) {
			if n, such := r.unknown(k); n > 0 {
				note("table %s: %d values of column %q are none of the store's, such as %q: they count as missing", r.name, n, r.cols[k].Name, such)
			}
		}
	}
	if added == 0 {
		return fmt.Errorf("%w: the store has all %d", ErrNoneNew, all)
	}
	return nil
}

// unknown counts the values of a category that the store does not have, as far as they are known, and names the least.
func (r *rows) unknown(k int) (n int, such string) {
	known := r.values(k)
	for v := range r.stats[k].values {
		if slices.Contains(known, v) {
			continue
		}
		if n++; n == 1 || v < such {
			such = v
		}
	}
	return n, such
}

// elements are the names of the elements of the store's column that rows are added to; ok is false where they are added to none.
func (r *rows) elements(column string) (names []string, ok bool) {
	c := r.stored[r.name+column]
	if c == nil {
		return nil, r.stored != nil
	}
	return c.Elements, true
}

// inOrder are columns of the table in the order of a stored column's elements, without those that it does not have.
func (r *rows) inOrder(columns []int, column string) []int {
	names, ok := r.elements(column)
	if !ok {
		return columns
	}
	var sorted []int
	for _, name := range names {
		k := slices.IndexFunc(columns, func(k int) bool {
			return r.cols[k].Name == strings.TrimSuffix(name, isMissing) || r.cols[k].Name == name
		})
		if k >= 0 {
			sorted = append(sorted, columns[k])
		}
	}
	return sorted
}

// oneThread is what a table is looked at with.
var oneThread = ingest.Env{Threads: 1, MemoryBytes: ingest.SourceBytes}
