package database

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/parquet-go/parquet-go"

	"github.com/gstore/gstore/blocks/parquets"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/postgres"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// spoolSchema names the schema of a spooled database, which is written last.
const spoolSchema = "schema.yaml"

// Spool copies the tables of a PostgreSQL database, as they are at one moment, to folder dir: a Parquet file each, and a schema of the keys
// and references that the database declares. An ingest reads them more than once, and goes on after a crash, when the moment is gone. A
// folder that is whole is taken as it is; one that is not is made anew.
func Spool(ctx context.Context, fs vfs.FS, address, dir string) (err error) {
	if _, err := fs.Stat(fs.PathJoin(dir, spoolSchema)); err == nil {
		return nil
	}
	if err := errors.Join(fs.RemoveAll(dir), fs.MkdirAll(dir, 0o777)); err != nil {
		return fmt.Errorf("spool the database: %w", err)
	}
	db, err := postgres.Open(ctx, address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tables, notes, err := db.Tables(ctx)
	if err != nil {
		return err
	}
	s := &Schema{Tables: map[string]*Table{}, Notes: notes}
	for k, t := range tables {
		if len(t.Columns) == 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("table %s is left out: it has no columns that can be read", t.Name))
			continue
		}
		said := declaredTable(&t.Declared)
		file := t.Name + ".parquet" // where a schema looks that says nothing
		if strings.ContainsAny(t.Name, "/\x00") || len(t.Name) > tableNameMax {
			file = fmt.Sprintf("table %d.parquet", k)
			said.File = file
		}
		if err := spoolTable(ctx, fs, db, t, fs.PathJoin(dir, file)); err != nil {
			return err
		}
		s.Tables[t.Name] = said
	}
	return writeFile(fs, dir, spoolSchema, s.Write)
}

// declaredTable is what a schema says of a table that a database declares.
func declaredTable(d *table.Declared) *Table {
	t := &Table{Key: d.Key}
	for _, ref := range d.References {
		t.References = append(t.References, Reference{Columns: ref.Columns, Table: ref.Table})
	}
	return t
}

// What a spooled file's row groups hold: what the library keeps in memory is in proportion to it.
const (
	spoolBytes = 8 << 20
	spoolRows  = 1 << 12 // handed to it at once
)

// spoolTable copies a table to a Parquet file.
func spoolTable(ctx context.Context, fs vfs.FS, db *postgres.DB, t *postgres.Table, path string) (err error) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("spool the database: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	nodes := map[postgres.Kind]parquet.Node{postgres.Text: parquet.String(), postgres.Integer: parquet.Int(64), postgres.Float: parquet.Leaf(parquet.DoubleType),
		postgres.Boolean: parquet.Leaf(parquet.BooleanType), postgres.Time: parquet.Timestamp(parquet.Microsecond)}
	var group parquets.Group
	for _, c := range t.Columns {
		group.Add(c.Name, parquet.Optional(nodes[c.Kind]))
	}
	w := parquet.NewGenericWriter[any](f, parquet.NewSchema("gstore", &group), parquet.Compression(&parquet.Snappy), parquet.CreatedBy("gstore", "", ""))
	rows, held := make([]parquet.Row, 0, spoolRows), 0
	flush := func() error {
		_, err := w.WriteRows(rows)
		if rows = rows[:0]; err == nil && held > spoolBytes {
			held, err = 0, w.Flush()
		}
		return err
	}
	err = db.Copy(ctx, t, func(fields [][]byte) error {
		row := make(parquet.Row, len(fields))
		for k, field := range fields {
			x, err := spoolValue(t.Columns[k].Kind, field)
			if err != nil {
				return ingest.Inputf(db.Where(), "table %s: column %q: %v", t.Name, t.Columns[k].Name, err)
			}
			if row[k] = x.Level(0, 1, k); x.IsNull() {
				row[k] = x.Level(0, 0, k)
			}
			held += len(field) + 8
		}
		if rows = append(rows, row); len(rows) == spoolRows {
			return flush()
		}
		return ctx.Err()
	})
	if err == nil {
		err = flush()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	return f.Sync()
}

// spoolValue is a field as Parquet has it.
func spoolValue(kind postgres.Kind, field []byte) (parquet.Value, error) {
	if field == nil {
		return parquet.NullValue(), nil
	}
	switch kind {
	case postgres.Integer, postgres.Time:
		x, err := strconv.ParseInt(string(field), 10, 64)
		return parquet.Int64Value(x), err
	case postgres.Float:
		x, err := strconv.ParseFloat(string(field), 64)
		if err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
			return parquet.NullValue(), nil
		}
		return parquet.DoubleValue(x), err
	case postgres.Boolean:
		return parquet.BooleanValue(string(field) == "t"), nil
	}
	return parquet.ByteArrayValue(bytes.Clone(field)), nil
}

// writeFile makes a file of a folder, whole or not at all.
func writeFile(fs vfs.FS, dir, name string, write func(w io.Writer) error) (err error) {
	part := fs.PathJoin(dir, name+".part")
	f, err := fs.Create(part, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(part, fs.PathJoin(dir, name)); err != nil {
		return err
	}
	return files.SyncDir(fs, dir)
}
