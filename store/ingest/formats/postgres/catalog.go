package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// Table is a table of the database that can be read.
type Table struct {
	table.Declared
	Columns []Column

	quoted string // its name as SQL has to write it
}

// Column is a column of a table.
type Column struct {
	Name string
	Kind Kind
	expr string // what is selected for it
}

// Kind is what a column's fields are.
type Kind int

// Kinds of columns.
const (
	Text Kind = iota
	Integer
	Float
	Boolean // t or f
	Time    // microseconds since 1970
)

// Tables are those that the search path of the connection finds, by name, but for parts of partitioned ones, which their whole has. Notes
// say which tables, columns and references are left out, and why.
func (db *DB) Tables(ctx context.Context) (tables []*Table, notes []string, err error) {
	found, err := db.rows(ctx, `SELECT c.oid, c.relname, c.oid::regclass, has_table_privilege(c.oid, 'SELECT')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND pg_table_is_visible(c.oid) AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
		ORDER BY c.relname COLLATE "C"`)
	if err != nil {
		return nil, nil, err
	}
	oids := map[string]*Table{}
	for _, row := range found {
		t := &Table{Declared: table.Declared{Name: row[1]}, quoted: row[2]}
		if row[3] != "t" {
			notes = append(notes, fmt.Sprintf("table %s is left out: the user may not read it", row[1]))
			continue
		}
		tables, oids[row[0]] = append(tables, t), t
	}
	if len(tables) == 0 {
		return nil, nil, ingest.Inputf(db.where, "no tables that the user may read and the search path finds (…?search_path=SCHEMA names another schema)")
	}
	if notes, err = db.columns(ctx, oids, notes); err != nil {
		return nil, nil, err
	}
	keys, err := db.rows(ctx, `SELECT k.conrelid, k.contype, f.relname, a.attname, b.attname, k.oid
		FROM pg_constraint k CROSS JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY AS u(here, there, place)
		JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.here
		LEFT JOIN pg_class f ON f.oid = k.confrelid LEFT JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = u.there
		WHERE k.contype IN ('p', 'f') AND k.conparentid = 0 ORDER BY k.oid, u.place`)
	if err != nil {
		return nil, nil, err
	}
	last := ""
	for _, row := range keys {
		t := oids[row[0]]
		if t == nil {
			continue
		}
		if row[1] == "p" {
			t.Key = append(t.Key, row[3])
			continue
		}
		if row[5] != last {
			last = row[5]
			t.Foreign = append(t.Foreign, table.Foreign{Table: row[2]})
		}
		f := &t.Foreign[len(t.Foreign)-1]
		f.From, f.To = append(f.From, row[3]), append(f.To, row[4])
	}
	return tables, append(notes, table.Resolve(declared(tables))...), nil
}

// columns finds the tables' columns.
func (db *DB) columns(ctx context.Context, oids map[string]*Table, notes []string) ([]string, error) {
	found, err := db.rows(ctx, `SELECT a.attrelid, a.attname, quote_ident(a.attname), coalesce(bt.typname, t.typname), coalesce(bt.typcategory, t.typcategory), format_type(a.atttypid, a.atttypmod)
		FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type bt ON bt.oid = t.typbasetype
		WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid IN (SELECT oid FROM pg_class WHERE relkind IN ('r', 'p')) ORDER BY a.attrelid, a.attnum`)
	if err != nil {
		return nil, err
	}
	for _, row := range found {
		t := oids[row[0]]
		if t == nil {
			continue
		}
		c, ok := columnOf(row[1], row[2], row[3], row[4])
		if !ok {
			notes = append(notes, fmt.Sprintf("column %q of %s is left out: it is of type %s", row[1], t.Name, row[5]))
			continue
		}
		t.Columns, t.Declared.Columns = append(t.Columns, c), append(t.Declared.Columns, c.Name)
	}
	return notes, nil
}

// Query is the answer to a statement, as a table; what it is called is for messages.
func (db *DB) Query(ctx context.Context, called, text string) (*Table, error) {
	where := db.where + ": query " + called
	text = strings.TrimRight(text, "; \t\r\n")
	d, err := db.conn.Prepare(ctx, "", text, nil)
	if err != nil {
		return nil, errors.Join(ctx.Err(), ingest.Inputf(where, "%v", err))
	}
	t := &Table{Declared: table.Declared{Name: called}, quoted: "(" + text + "\n) AS answer"}
	for _, f := range d.Fields {
		found, err := db.rows(ctx, fmt.Sprintf(`SELECT quote_ident('%s'), coalesce(bt.typname, t.typname), coalesce(bt.typcategory, t.typcategory), format_type(t.oid, NULL)
			FROM pg_type t LEFT JOIN pg_type bt ON bt.oid = t.typbasetype WHERE t.oid = %d`, strings.ReplaceAll(f.Name, "'", "''"), f.DataTypeOID))
		if err != nil {
			return nil, err
		}
		if len(found) != 1 {
			return nil, ingest.Inputf(where, "column %q is of an unknown type", f.Name)
		}
		c, ok := columnOf(f.Name, found[0][0], found[0][1], found[0][2])
		if !ok {
			return nil, ingest.Inputf(where, "column %q is of type %s, expected numbers, text or times", f.Name, found[0][3])
		}
		t.Columns = append(t.Columns, c)
	}
	if len(t.Columns) == 0 {
		return nil, ingest.Inputf(where, "it answers with no columns, expected a SELECT")
	}
	return t, nil
}

// columnOf is a column of a type, if it can be read; quoted is its name as SQL has to write it.
func columnOf(name, quoted, kind, category string) (Column, bool) {
	c := Column{Name: name, expr: quoted}
	switch kind {
	case "int2", "int4", "int8", "oid":
		c.Kind = Integer
	case "float4", "float8", "numeric", "money":
		c.Kind, c.expr = Float, quoted+"::numeric::float8"
		if strings.HasPrefix(kind, "float") {
			c.expr = quoted + "::float8"
		}
	case "bool":
		c.Kind = Boolean
	case "date", "timestamp", "timestamptz": // infinity is no moment
		c.Kind = Time
		c.expr = fmt.Sprintf("CASE WHEN isfinite(%[1]s) THEN (extract(epoch FROM %[1]s) * 1000000)::int8 END", quoted)
	case "bytea", "json", "jsonb", "jsonpath", "xml", "tsvector", "tsquery":
		return c, false
	default:
		if category == "A" || category == "C" || category == "G" || category == "R" { // arrays, rows, shapes, ranges
			return c, false
		}
		c.expr = quoted + "::text"
	}
	return c, true
}
