// Package sqlite reads the tables of an SQLite file, with their keys and references, in one transaction that only reads: what others write
// meanwhile is not seen.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	driver "modernc.org/sqlite" // registers itself as "sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// magic begins every SQLite file.
const magic = "SQLite format 3\x00"

// Is reports whether there is an SQLite file at path.
func Is(fs vfs.FS, path string) bool {
	if info, err := fs.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := fs.Open(path)
	if err != nil {
		return false
	}
	b := make([]byte, len(magic))
	_, err = io.ReadFull(f, b)
	return errors.Join(err, f.Close()) == nil && string(b) == magic
}

// File is an SQLite file that is open. It may be used by one goroutine at a time.
type File struct {
	path   string
	db     *sql.DB
	conn   *sql.Conn
	tables []*Relation
	notes  []string

	answers int // to queries, so far
}

// Relation is a table or a view of the file, and what the file says of its keys.
type Relation struct {
	table.Declared
	View bool

	columns []declared
	order   []string // expressions that rows are read in the order of; none: a view's
}

// declared is a column as the table's definition has it.
type declared struct{ name, kind string }

// Open opens the file at path of the real file system.
func Open(ctx context.Context, path string) (_ *File, err error) {
	f := &File{path: path}
	defer func() {
		if err != nil {
			err = errors.Join(f.wrap(err), f.Close())
		}
	}()
	if f.db, err = f.connect(false); err != nil {
		return nil, err
	}
	if err = f.begin(ctx); code(err) == lib.SQLITE_CANTOPEN { // of a journal ahead of the file, in a folder that cannot be written
		if err = f.Close(); err != nil {
			return nil, err
		}
		if f.db, err = f.connect(true); err != nil {
			return nil, err
		}
		err = f.begin(ctx)
	}
	if err != nil {
		return nil, err
	}
	return f, f.describe(ctx)
}

// connect opens the file to be read alone. A file that nobody can write to needs neither locks nor a journal.
func (f *File) connect(immutable bool) (*sql.DB, error) {
	path, err := filepath.Abs(f.path)
	if err != nil {
		return nil, err
	}
	q := url.Values{"mode": {"ro"}, "_pragma": {"trusted_schema(0)", "cell_size_check(1)", "cache_size(-2048)", "busy_timeout(10000)"}}
	if immutable {
		q.Set("immutable", "1")
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// begin begins the transaction that everything is read in.
func (f *File) begin(ctx context.Context) (err error) {
	if f.conn, err = f.db.Conn(ctx); err != nil {
		return err
	}
	if _, err = driver.Limit(f.conn, lib.SQLITE_LIMIT_ATTACHED, 0); err != nil { // no statement opens or makes another file
		return err
	}
	if _, err = f.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	var n int64 // a transaction sees what is there when it first reads
	return f.conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n)
}

// Close closes the file.
func (f *File) Close() error {
	var errs []error
	if f.conn != nil {
		errs = append(errs, f.conn.Close())
	}
	if f.db != nil {
		errs = append(errs, f.db.Close())
	}
	f.conn, f.db = nil, nil
	return errors.Join(errs...)
}

// Files are what the tables stand in: the file, and beside it what its writers have yet to move into it.
func (f *File) Files(fs vfs.FS) []string {
	files := []string{f.path}
	if log := f.path + "-wal"; fs != nil {
		if info, err := fs.Stat(log); err == nil && info.Size() > 0 {
			files = append(files, log)
		}
	}
	return files
}

// Relations are the file's tables and views, by name.
func (f *File) Relations() []*Relation { return f.tables }

// Notes say which foreign keys are left out, and why.
func (f *File) Notes() []string { return f.notes }

// relation finds one by its name, as SQL does: in capitals or not.
func (f *File) relation(name string) *Relation {
	k := table.Find(f.names(), name)
	if k < 0 {
		return nil
	}
	return f.tables[k]
}

// query runs fn on every row of an answer.
func (f *File) query(ctx context.Context, fn func(rows *sql.Rows) error, text string, args ...any) (err error) {
	rows, err := f.conn.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// code is SQLite's result of which err tells, without its details; 0 = err is none of its errors.
func code(err error) int {
	if e := (*driver.Error)(nil); errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// wrap makes errors of the file's content those of the input; those of the disk are none.
func (f *File) wrap(err error) error {
	switch code(err) {
	case 0:
		return err
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_FORMAT, lib.SQLITE_ERROR, lib.SQLITE_TOOBIG, lib.SQLITE_AUTH:
		return ingest.Inputf(f.path, "SQLite: %v", err)
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return fmt.Errorf("input: %s: another process writes to it, for more than 10 seconds: %w", f.path, err)
	}
	return fmt.Errorf("input: %s: %w", f.path, err)
}

// quoted is a name as SQL has to write it.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
