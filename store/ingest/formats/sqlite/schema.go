package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
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
		f.tables = append(f.tables, &Relation{Name: name, View: kind == "view"})
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
	for _, r := range f.tables {
		if err := f.describeReferences(ctx, r); err != nil {
			return err
		}
	}
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
		r.columns = append(r.columns, c)
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

// describeReferences reads a table's foreign keys. Those that do not name the primary key of a table that is there are noted, and left out.
func (f *File) describeReferences(ctx context.Context, r *Relation) error {
	type foreign struct {
		table    string
		from, to []string
	}
	var all []foreign
	last := -1
	err := f.query(ctx, func(rows *sql.Rows) error {
		var id int
		var table, from string
		var to sql.NullString
		if err := rows.Scan(&id, &table, &from, &to); err != nil {
			return err
		}
		if id != last {
			last, all = id, append(all, foreign{table: table})
		}
		k := &all[len(all)-1]
		k.from = append(k.from, from)
		if to.Valid {
			k.to = append(k.to, to.String)
		}
		return nil
	}, `SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq`, r.Name)
	if err != nil {
		return err
	}
	for _, k := range all {
		ref, why := f.resolve(r, k.table, k.from, k.to)
		if why != "" {
			f.notes = append(f.notes, fmt.Sprintf("foreign key %q of %s to %s is left out: %s", k.from, r.Name, k.table, why))
			continue
		}
		twice := func(x Reference) bool { return x.Table == ref.Table && slices.Equal(x.Columns, ref.Columns) }
		if !slices.ContainsFunc(r.References, twice) {
			r.References = append(r.References, ref)
		}
	}
	slices.SortStableFunc(r.References, func(a, b Reference) int { // as the table has its columns: SQLite tells the last foreign key first
		at := func(x Reference) int {
			return slices.IndexFunc(r.columns, func(c declared) bool { return c.name == x.Columns[0] })
		}
		return cmp.Compare(at(a), at(b))
	})
	return nil
}

// resolve finds what a foreign key names: columns from of r hold columns to of a table, none of which are its primary key.
func (f *File) resolve(r *Relation, table string, from, to []string) (_ Reference, why string) {
	t := f.relation(table)
	switch {
	case t == nil:
		return Reference{}, "there is no such table"
	case len(t.Key) == 0:
		return Reference{}, "that table has no primary key"
	case len(to) == 0:
		to = t.Key
	}
	if len(to) != len(t.Key) || len(from) != len(t.Key) {
		return Reference{}, fmt.Sprintf("the primary key there is %q", t.Key)
	}
	ref := Reference{Table: t.Name}
	for _, key := range t.Key {
		k := slices.IndexFunc(to, func(name string) bool { return strings.EqualFold(name, key) })
		if k < 0 {
			return Reference{}, fmt.Sprintf("the primary key there is %q", t.Key)
		}
		c := slices.IndexFunc(r.columns, func(c declared) bool { return strings.EqualFold(c.name, from[k]) })
		if c < 0 {
			return Reference{}, fmt.Sprintf("there is no column %q", from[k])
		}
		ref.Columns = append(ref.Columns, r.columns[c].name)
	}
	return ref, ""
}
