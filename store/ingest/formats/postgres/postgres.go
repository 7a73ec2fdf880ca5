// Package postgres reads the tables of a PostgreSQL database, with their keys and references, in one transaction that only reads: all of
// them as they were at one moment, whoever writes meanwhile.
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// Is reports whether an input is the address of a database: postgres://USER@HOST/NAME.
func Is(input string) bool {
	return strings.HasPrefix(input, "postgres://") || strings.HasPrefix(input, "postgresql://")
}

// Public is the address of a database without what is secret in it.
func Public(input string) string {
	u, err := url.Parse(input)
	if err != nil {
		return "postgres://…"
	}
	if u.RawQuery = ""; u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}

// DB is a database in the middle of the transaction that reads it.
type DB struct {
	where string
	conn  *pgconn.PgConn
}

// Open connects to the database at an address, and what it leaves out is as in PostgreSQL's own programs: PGPASSWORD, ~/.pgpass.
func Open(ctx context.Context, address string) (_ *DB, err error) {
	db := &DB{where: Public(address)}
	if db.conn, err = pgconn.Connect(ctx, address); err != nil {
		if bad := (*pgconn.ParseConfigError)(nil); errors.As(err, &bad) {
			return nil, ingest.Inputf(db.where, "no address of a database: expected postgres://USER@HOST:PORT/NAME")
		}
		return nil, fmt.Errorf("input: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	for _, text := range []string{"SET timezone = 'UTC'", "SET synchronize_seqscans = off", "SET statement_timeout = 0", "SET idle_in_transaction_session_timeout = 0",
		"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"} {
		if _, err := db.rows(ctx, text); err != nil {
			return nil, err
		}
	}
	return db, nil
}

// Close ends the transaction.
func (db *DB) Close() error { return db.conn.Close(context.Background()) }

// Where is the address without what is secret.
func (db *DB) Where() string { return db.where }

// rows is a short answer, as text; a null is "".
func (db *DB) rows(ctx context.Context, text string) (rows [][]string, err error) {
	results, err := db.conn.Exec(ctx, text).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("input: %s: %w", db.where, err)
	}
	for _, r := range results {
		for _, values := range r.Rows {
			row := make([]string, len(values))
			for k, v := range values {
				row[k] = string(v)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Copy streams the rows of a table: a field for each of its columns, nil where it is null. Fields are the receiver's until emit returns.
func (db *DB) Copy(ctx context.Context, t *Table, emit func(fields [][]byte) error) error {
	var exprs []string
	for _, c := range t.Columns {
		exprs = append(exprs, c.expr)
	}
	lines := &lines{columns: len(exprs), emit: emit}
	_, err := db.conn.CopyTo(ctx, lines, fmt.Sprintf("COPY (SELECT %s FROM %s) TO STDOUT", strings.Join(exprs, ", "), t.quoted))
	if err == nil {
		err = lines.end()
	}
	if lines.failed != nil { // what the connection says then is only that its receiver failed
		return lines.failed
	}
	if err != nil {
		return fmt.Errorf("input: %s: table %s: %w", db.where, t.Declared.Name, err)
	}
	return nil
}

// lines takes the text of COPY apart: rows end with a newline, fields with tabs; what stands for these has a backslash before it, and \N is
// no value.
type lines struct {
	columns int
	emit    func(fields [][]byte) error
	rest    []byte // of a row that is not whole
	text    []byte // of fields with backslashes
	fields  [][]byte
	failed  error
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	for {
		k := bytes.IndexByte(b, '\n')
		if k < 0 {
			l.rest = append(l.rest, b...)
			return n, nil
		}
		line := b[:k]
		if len(l.rest) > 0 {
			l.rest = append(l.rest, line...)
			line = l.rest
		}
		if l.failed = l.row(line); l.failed != nil {
			return 0, l.failed
		}
		b, l.rest = b[k+1:], l.rest[:0]
	}
}

func (l *lines) end() error {
	if len(l.rest) > 0 {
		return fmt.Errorf("the answer ends within a row")
	}
	return nil
}

func (l *lines) row(line []byte) error {
	l.fields, l.text = l.fields[:0], l.text[:0]
	for more := l.columns > 0; more; {
		var field []byte
		field, line, more = bytes.Cut(line, []byte{'\t'})
		switch {
		case string(field) == `\N`:
			field = nil
		case bytes.IndexByte(field, '\\') >= 0:
			field = l.plain(field)
		case field == nil:
			field = []byte{}
		}
		l.fields = append(l.fields, field)
	}
	if len(l.fields) != l.columns {
		return fmt.Errorf("a row of %d fields, expected %d", len(l.fields), l.columns)
	}
	return l.emit(l.fields)
}

// plain is a field without its backslashes.
func (l *lines) plain(field []byte) []byte {
	first := len(l.text)
	for k := 0; k < len(field); k++ {
		c := field[k]
		if c == '\\' && k+1 < len(field) {
			k++
			if c = field[k]; strings.IndexByte("bfnrtv", c) >= 0 {
				c = map[byte]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}[c]
			}
		}
		l.text = append(l.text, c)
	}
	return l.text[first:]
}

// declared are what the database says of its tables.
func declared(tables []*Table) (all []*table.Declared) {
	for _, t := range tables {
		all = append(all, &t.Declared)
	}
	return all
}
