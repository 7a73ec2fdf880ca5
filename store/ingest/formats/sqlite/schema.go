package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/gstore/gstore/store/ingest/formats/table"
)

// describe reads what tables and views the file has.
func (f *File) describe(ctx context.Context) error {
	rowless := map[string]bool{}
	err := f.query(ctx, func(rows *sql.Rows) error {
		var schema, name, kind string
		var columns, without, strict int
		if err := rows.Scan(&schema, &name, &kind, &columns, &without, &strict); err != nil {
			return err
		}
		if strings.HasPrefix(name, "sqlite_") || kind != "table" && kind != "view" { // others belong to virtual tables
			return nil
		}
		f.tables = append(f.tables, &Relation{Declared: table.Declared{Name: name}, View: kind == "view"})
		rowless[name] = without != 0
		return nil
	}, "SELECT schema, name, type, ncol, wr, strict FROM pragma_table_list WHERE schema = 'main' ORDER BY name")
	if err != nil {
		return err
	}
	for _, r := range f.tables {
		if err := f.describeColumns(ctx, r, rowless[r.Name]); err != nil {
			return err
		}
	}
	var tables []*table.Declared
	for _, r := range f.tables {
		if err := f.describeReferences(ctx, r); err != nil {
			return err
		}
		tables = append(tables, &r.Declared)
	}
	f.notes = table.Resolve(tables)
	return nil
}

// describeColumns reads a table's columns, its key, and the order that its rows have.
func (f *File) describeColumns(ctx context.Context, r *Relation, rowless bool) error {
	type part struct {
		name  string
		place int
	}
	var key []part
	err := f.query(ctx, func(rows *sql.Rows) error {
		var c declared
		var place int
		if err := rows.Scan(&c.name, &c.kind, &place); err != nil {
			return err
		}
		r.columns, r.Columns = append(r.columns, c), append(r.Columns, c.name)
		if place > 0 {
			key = append(key, part{c.name, place})
		}
		return nil
	}, "SELECT name, type, pk FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid", r.Name)
	if err != nil || r.View {
		return err
	}
	slices.SortFunc(key, func(a, b part) int { return cmp.Compare(a.place, b.place) })
	for _, k := range key {
		r.Key = append(r.Key, k.name)
	}
	if rowless {
		for _, k := range r.Key {
			r.order = append(r.order, quoted(k))
		}
		return nil
	}
	for _, name := range []string{"rowid", "_rowid_", "oid"} {
		if !slices.ContainsFunc(r.columns, func(c declared) bool { return strings.EqualFold(c.name, name) }) {
			r.order = []string{name}
			break
		}
	}
	return nil
}

// describeReferences reads a table's foreign keys.
func (f *File) describeReferences(ctx context.Context, r *Relation) error {
	last := -1
	return f.query(ctx, func(rows *sql.Rows) error {
		var id int
		var to, from string
		var column sql.NullString
		if err := rows.Scan(&id, &to, &from, &column); err != nil {
			return err
		}
		if id != last {
			last = id
			r.Foreign = append(r.Foreign, table.Foreign{Table: to})
		}
		k := &r.Foreign[len(r.Foreign)-1]
		k.From = append(k.From, from)
		if column.Valid {
			k.To = append(k.To, column.String)
		}
		return nil
	}, `SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq`, r.Name)
}
