package database

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/parquet"
	"github.com/gstore/gstore/store/ingest/formats/sqlite"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// Options say how a database is read. The zero value takes what the input says of itself.
type Options struct {
	// Schema is the path of a file with the schema; "" = the input's own, or what is inferred.
	Schema string
	// Dangling says what becomes of references to rows that are not there; "" = they are left out and counted.
	Dangling ingest.Dangling
	Text     table.Options // how text is read
	// Like, if not nil, is the store that the rows which it does not have are added to: the schema is the one that it was ingested by.
	Like *store.Store
	// Keyless says which rows of tables without a key are new; "" = [Later].
	Keyless Keyless
	// Label names the column of labels, as TABLE.COLUMN, or COLUMN where one table alone has it; "" = as the schema says.
	Label string
	// Given, if not nil, is the schema, of tables in path's folder.
	Given *Schema
	// Draft says that only the schema is wanted, which may still have to be edited: tables none of which refers to another are no error.
	Draft bool
}

// schemaFiles are the names by which a folder's schema is known, the first that is there.
var schemaFiles = []string{"schema.yaml", "manifest.yaml"}

// tableSuffixes end the names of tables' files: Parquet, and text plain or packed.
var tableSuffixes = func() []string {
	all := []string{".parquet"}
	for _, packing := range files.Packings {
		for _, s := range append([]string{".csv", ".tsv"}, text.JSONSuffixes...) {
			all = append(all, s+packing)
		}
	}
	return all
}()

// IsFolder reports whether a folder says of itself that it is a database: it has a file of that name that speaks of tables.
func IsFolder(fs vfs.FS, dir string) bool {
	for _, name := range schemaFiles {
		if b, err := readFile(fs, fs.PathJoin(dir, name)); err == nil {
			return bytes.Contains(b, []byte("tables"))
		}
	}
	return false
}

// tableOf is the name of the table that a file is called by; "" = the file is none of a table.
func tableOf(fs vfs.FS, path string) string {
	base := fs.PathBase(path)
	for _, s := range tableSuffixes {
		name, ok := strings.CutSuffix(base, s)
		if ok && files.PlainName(s) == ".json" && !text.HoldsJSONRows(fs, path) {
			return "" // what describes the others
		}
		if ok {
			return name
		}
	}
	return ""
}

// HoldsTable reports whether a folder has a file that a table is called by.
func HoldsTable(fs vfs.FS, dir, name string) bool {
	return slices.ContainsFunc(tableSuffixes, func(s string) bool { return files.IsFile(fs, fs.PathJoin(dir, name+s)) })
}

// HasTable reports whether a schema in YAML has a table that the file at path is called by.
func HasTable(schema string, fs vfs.FS, path string) bool {
	s, err := ParseSchema("", []byte(schema))
	return err == nil && s.Tables[tableOf(fs, path)] != nil
}

func readFile(fs vfs.FS, path string) (b []byte, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, schemaBytesMax+1))
}

// input is where tables are read from.
type input struct {
	fs    vfs.FS
	path  string
	o     *Options
	files []string     // read so far
	own   *Schema      // that the input has; nil: none
	lite  *sqlite.File // nil: a folder
}

func openInput(ctx context.Context, fs vfs.FS, path string, o *Options) (*input, error) {
	in := &input{fs: fs, path: path, o: o}
	info, err := fs.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	switch {
	case o.Given != nil:
		in.own = o.Given
		return in, nil
	case info.IsDir():
		return in, in.folder()
	case sqlite.Is(fs, path):
		return in, in.file(ctx)
	}
	if name := tableOf(fs, path); name != "" && o.Like != nil { // new rows of one table
		in.path, in.own = fs.PathDir(path), &Schema{Tables: map[string]*Table{name: {File: fs.PathBase(path)}}}
		return in, nil
	}
	return nil, ingest.Inputf(path, "a file, expected a folder of a database's tables or an SQLite file")
}

// file opens an SQLite file, which has a schema of its own.
func (in *input) file(ctx context.Context) (err error) {
	if in.lite, err = sqlite.Open(ctx, in.path); err != nil {
		return err
	}
	in.files = append(in.files, in.lite.Files(in.fs)...)
	in.own = &Schema{Tables: map[string]*Table{}, Notes: in.lite.Notes()}
	for _, r := range in.lite.Relations() {
		if r.View { // a schema may name it
			continue
		}
		in.own.Tables[r.Name] = declaredTable(&r.Declared)
	}
	if len(in.own.Tables) == 0 {
		return ingest.Inputf(in.path, "no tables")
	}
	return nil
}

// close closes what is open between reads.
func (in *input) close() error {
	if in.lite == nil {
		return nil
	}
	return in.lite.Close()
}

// folder finds a folder's schema, or its tables.
func (in *input) folder() error {
	for _, name := range schemaFiles {
		path := in.fs.PathJoin(in.path, name)
		if in.o.Schema != "" || !files.IsFile(in.fs, path) {
			continue
		}
		in.files = append(in.files, path)
		b, err := readFile(in.fs, path)
		if err != nil {
			return err
		}
		in.own, err = ParseSchema(path, b)
		return err
	}
	in.own = &Schema{Tables: map[string]*Table{}}
	dir := in.dir()
	names, err := in.fs.List(dir)
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	slices.Sort(names)
	for _, file := range names {
		name := tableOf(in.fs, in.fs.PathJoin(dir, file))
		if name == "" || strings.HasPrefix(file, ".") || strings.HasPrefix(file, "_") {
			continue
		}
		if other := in.own.Tables[name]; other != nil {
			return ingest.Inputf(dir, "table %q has two files, %s and %s: a schema says which (--schema)", name, other.File, file)
		}
		in.own.Tables[name] = &Table{File: file}
	}
	if len(in.own.Tables) == 0 {
		return ingest.Inputf(in.path, "no tables: expected TABLE.parquet, .csv or .tsv, or a schema.yaml that says where they are")
	}
	return nil
}

// dir is where a folder's tables are: in its db/, as RelBench has them, or in itself.
func (in *input) dir() string {
	db := in.fs.PathJoin(in.path, "db")
	if info, err := in.fs.Stat(db); err == nil && info.IsDir() {
		return db
	}
	return in.path
}

// schema is what is said of the tables: by the user, or else by the input.
func (in *input) schema() (*Schema, error) {
	if in.o.Given != nil {
		return in.o.Given, nil
	}
	if in.o.Schema == "" {
		if in.o.Like != nil {
			return in.storeSchema()
		}
		return in.own, nil
	}
	b, err := readFile(in.fs, in.o.Schema)
	if err != nil {
		return nil, err
	}
	in.files = append(in.files, in.o.Schema)
	return ParseSchema(in.o.Schema, b)
}

// table opens a table of the schema.
func (in *input) table(ctx context.Context, name string, t *Table) (table.Table, error) {
	if in.lite != nil {
		if t.File != "" {
			return nil, ingest.Inputf(in.path, "table %q is to be in file %s: an SQLite file has its tables in itself", name, t.File)
		}
		return in.lite.Table(ctx, name)
	}
	path := ""
	if t.File != "" {
		if path = in.fs.PathJoin(in.path, t.File); !files.IsFile(in.fs, path) {
			path = in.fs.PathJoin(in.dir(), t.File)
		}
	}
	for _, suffix := range tableSuffixes {
		if at := in.fs.PathJoin(in.dir(), name+suffix); path == "" && files.IsFile(in.fs, at) {
			path = at
		}
	}
	if path == "" || !files.IsFile(in.fs, path) {
		return nil, ingest.Inputf(in.path, "table %q has no file %s, expected %s.parquet, .csv or .tsv in %s, or file: in the schema", name, t.File, name, in.dir())
	}
	if strings.HasSuffix(path, ".parquet") {
		p, err := parquet.Open(in.fs, path)
		if err != nil {
			return nil, err
		}
		in.files = append(in.files, p.Files()...)
		return p, nil
	}
	in.files = append(in.files, path)
	return text.OpenTable(in.fs, path, in.o.Text)
}
