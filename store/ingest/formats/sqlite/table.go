package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// Table streams the rows of a table or a view. A column may hold values of any type, whatever its definition says: each column is what
// all of its values are.
type Table struct {
	f     *File
	where string
	from  string // what its rows are selected from
	order []string
	cols  []table.Column
	first uint64 // row that is read first
}

// Table opens a table or a view by its name, and looks at the types of its values.
func (f *File) Table(ctx context.Context, name string) (*Table, error) {
	r := f.relation(name)
	if r == nil {
		return nil, ingest.Inputf(f.path, "there is no table %q: the tables are %s", name, table.Listed(f.names()))
	}
	t := &Table{f: f, where: f.path + ": table " + r.Name, from: quoted(r.Name), order: r.order}
	return t, t.lookAt(ctx, r.columns)
}

// Query is the answer to a statement that only reads, as a table whose rows come as the statement says. It is kept, in a temporary table,
// until the file is closed: the statement runs once. What it is called is for messages.
func (f *File) Query(ctx context.Context, called, text string) (*Table, error) {
	f.answers++
	r := &Relation{Declared: table.Declared{Name: fmt.Sprintf("answer %d", f.answers)}}
	t := &Table{f: f, where: f.path + ": query " + called, from: "temp." + quoted(r.Name)}
	if _, err := f.conn.ExecContext(ctx, "CREATE TEMP TABLE "+quoted(r.Name)+" AS "+text); err != nil {
		return nil, errors.Join(ctx.Err(), ingest.Inputf(t.where, "%v", err))
	}
	if err := f.describeColumns(ctx, r, false); err != nil {
		return nil, f.wrap(err)
	}
	t.order = r.order
	return t, t.lookAt(ctx, r.columns)
}

// lookAt finds out what the table's columns hold.
func (t *Table) lookAt(ctx context.Context, columns []declared) error {
	for first := 0; first < len(columns); first += columnsAtOnce {
		if err := t.look(ctx, columns[first:min(len(columns), first+columnsAtOnce)]); err != nil {
			return t.f.wrap(err)
		}
	}
	return nil
}

// columnsAtOnce bounds the columns that one statement asks about: SQLite allows 2,000 results.
const columnsAtOnce = 300

// What is looked at of a text column: its first values, and how long the longest is.
const (
	sampleRows = 100
	cellMax    = 16 << 20 // bytes
)

func (f *File) names() (names []string) {
	for _, r := range f.tables {
		names = append(names, r.Name)
	}
	return names
}

// look finds out what columns hold. The least and the largest name of their values' types tell it: these are, in order, blob, integer, null, real and
// text.
func (t *Table) look(ctx context.Context, columns []declared) error {
	type held struct {
		least, most sql.NullString
		others      sql.NullInt64 // of booleans: values that are none
	}
	var asked []string
	var into []any
	found := make([]held, len(columns))
	for k, c := range columns {
		q, h := quoted(c.name), &found[k]
		asked = append(asked, fmt.Sprintf("min(typeof(%[1]s)), max(typeof(%[1]s))", q))
		into = append(into, &h.least, &h.most)
		if isBool(c) {
			asked, into = append(asked, fmt.Sprintf("sum(%s NOT IN (0, 1))", q)), append(into, &h.others)
		}
	}
	if err := t.f.conn.QueryRowContext(ctx, "SELECT "+strings.Join(asked, ", ")+" FROM "+t.from).Scan(into...); err != nil {
		return err
	}
	for k, c := range columns {
		h := &found[k]
		col := table.Column{Name: c.name, Dim: 1}
		kind := strings.ToUpper(c.kind)
		dated := strings.Contains(kind, "DATE") || strings.Contains(kind, "TIME")
		switch {
		case h.least.String == "blob":
			col.Strange = "bytes (a BLOB)"
		case h.most.String == "text":
			col.Text = true
			if err := t.sample(ctx, &col); err != nil {
				return err
			}
		case h.most.String == "real":
			col.Elem, col.Date = blocks.Float64, dated
		case h.least.String != "integer": // null, or no row
			col.Empty, col.Elem = true, blocks.Int32
		case isBool(c) && h.others.Int64 == 0:
			col.Elem = blocks.Uint8
		default:
			col.Elem, col.Date = blocks.Int64, dated
		}
		t.cols = append(t.cols, col)
	}
	return nil
}

// isBool reports whether a column is declared to hold booleans.
func isBool(c declared) bool { return strings.HasPrefix(strings.ToUpper(c.kind), "BOOL") }

// sample looks whether the first texts of a column are dates, or True and False, and how long the longest is.
func (t *Table) sample(ctx context.Context, col *table.Column) error {
	col.Date, col.Boolean = true, true
	q := quoted(col.Name)
	var longest sql.NullInt64
	if err := t.f.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT max(octet_length(%s)) FROM %s", q, t.from)).Scan(&longest); err != nil {
		return err
	}
	if longest.Int64 > cellMax {
		return ingest.Inputf(t.Where(), "column %q has a text of %d bytes, at most %d are read", col.Name, longest.Int64, cellMax)
	}
	return t.f.query(ctx, func(rows *sql.Rows) error {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		_, is := table.ParseBool([]byte(text))
		col.Date, col.Boolean = col.Date && table.IsDate(text), col.Boolean && is
		return nil
	}, fmt.Sprintf("SELECT +%[1]s FROM %[2]s WHERE %[1]s <> '' LIMIT %[3]d", q, t.from, sampleRows))
}

// Where is the file and the table.
func (t *Table) Where() string { return t.where }

// Columns implements [table.Table].
func (t *Table) Columns() []table.Column { return t.cols }

// Use implements [table.Table]: a statement names the columns that it reads.
func (t *Table) Use([]table.Want) {}

// Skip implements [table.Skipper].
func (t *Table) Skip(rows uint64) uint64 {
	t.first = rows
	return rows
}

// What a batch has at most.
const (
	batchRows  = 1 << 12
	batchBytes = 512 << 10
)

// Read implements [table.Table].
func (t *Table) Read(ctx context.Context, _ ingest.Env, want []table.Want, emit func(*table.Batch) error) error {
	var names []string
	for _, w := range want {
		names = append(names, "+"+quoted(t.cols[w.At].Name)) // an expression: the driver makes times of columns that are declared so
	}
	text := "SELECT " + strings.Join(names, ", ") + " FROM " + t.from
	if len(t.order) > 0 {
		text += " ORDER BY " + strings.Join(t.order, ", ")
	}
	if t.first > 0 {
		text += fmt.Sprintf(" LIMIT -1 OFFSET %d", t.first)
	}
	cells, into := make([]any, len(want)), make([]any, len(want))
	for k := range cells {
		into[k] = &cells[k]
	}
	b := &table.Batch{Numbers: make([][]byte, len(want)), Text: make([]ingest.IDs, len(want)), At: ingest.Position{File: t.Where(), Unit: "row", Index: 1 + t.first}}
	held := 0
	clear := func() {
		b.At.Index += uint64(b.Rows)
		b.Rows, held = 0, 0
		for k := range want {
			b.Text[k].Reset()
			if b.Numbers[k] = b.Numbers[k][:0]; want[k].Elem != blocks.Invalid && b.Numbers[k] == nil {
				b.Numbers[k] = []byte{}
			}
		}
	}
	clear()
	var stopped error // what is not about the file
	flush := func() error {
		if stopped = ctx.Err(); stopped == nil && b.Rows > 0 {
			stopped = emit(b)
		}
		clear()
		return stopped
	}
	// The driver would start a goroutine for each row of a context that may end.
	err := t.f.query(context.WithoutCancel(ctx), func(rows *sql.Rows) error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for k, w := range want {
			n, err := appendCell(b, k, w, &t.cols[w.At], cells[k])
			if err != nil {
				return ingest.Inputf(b.At.Of(b.Rows), "column %q: %v", t.cols[w.At].Name, err)
			}
			held += n
		}
		if b.Rows++; b.Rows == batchRows || held > batchBytes {
			return flush()
		}
		return nil
	}, text)
	if err == nil {
		err = flush()
	}
	if stopped != nil {
		return stopped
	}
	return t.f.wrap(err)
}
