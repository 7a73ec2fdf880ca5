package table

import (
	"fmt"
	"slices"
	"strings"
)

// Declared is what a database's own definition of a table says of it.
type Declared struct {
	Name       string
	Columns    []string
	Key        []string // columns of the primary key, in its order; none: it has none
	Foreign    []Foreign
	References []Reference // what [Resolve] makes of Foreign
}

// Foreign is a foreign key: columns From hold columns To of a row of Table; no To: its primary key.
type Foreign struct {
	Table    string
	From, To []string
}

// Reference is a foreign key that holds the primary key of a row of a table: Columns are in that key's order.
type Reference struct {
	Columns []string
	Table   string
}

// Resolve makes references of the tables' foreign keys, in the order of the columns that they begin with. Notes say which are left out,
// and why.
func Resolve(tables []*Declared) (notes []string) {
	names := make([]string, len(tables))
	for k, t := range tables {
		names[k] = t.Name
	}
	for _, t := range tables {
		for _, f := range t.Foreign {
			ref, why := f.resolve(t, tables, Find(names, f.Table))
			if why != "" {
				notes = append(notes, fmt.Sprintf("foreign key %q of %s to %s is left out: %s", f.From, t.Name, f.Table, why))
				continue
			}
			twice := func(x Reference) bool { return x.Table == ref.Table && slices.Equal(x.Columns, ref.Columns) }
			if !slices.ContainsFunc(t.References, twice) {
				t.References = append(t.References, ref)
			}
		}
		slices.SortStableFunc(t.References, func(a, b Reference) int {
			return slices.Index(t.Columns, a.Columns[0]) - slices.Index(t.Columns, b.Columns[0])
		})
	}
	return notes
}

// resolve makes a reference of a foreign key of t to the table at a place.
func (f *Foreign) resolve(t *Declared, tables []*Declared, place int) (_ Reference, why string) {
	if place < 0 {
		return Reference{}, "there is no such table"
	}
	named := tables[place]
	to := f.To
	if len(to) == 0 {
		to = named.Key
	}
	switch {
	case len(named.Key) == 0:
		return Reference{}, "that table has no primary key"
	case len(to) != len(named.Key) || len(f.From) != len(to):
		return Reference{}, fmt.Sprintf("the primary key there is %q", named.Key)
	}
	ref := Reference{Table: named.Name}
	for _, key := range named.Key {
		k := Find(to, key)
		if k < 0 {
			return Reference{}, fmt.Sprintf("the primary key there is %q", named.Key)
		}
		c := Find(t.Columns, f.From[k])
		if c < 0 {
			return Reference{}, fmt.Sprintf("column %q is not read", f.From[k])
		}
		ref.Columns = append(ref.Columns, t.Columns[c])
	}
	return ref, ""
}

// Find is the place of a name among some, as SQL finds it: in capitals or not, if none is the very name; −1 = it is not there.
func Find(names []string, name string) int {
	if k := slices.Index(names, name); k >= 0 {
		return k
	}
	return slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}
