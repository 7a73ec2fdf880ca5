package database

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/gstore/gstore/store/ingest/formats/table"
)

// Bounds of what is read to infer: values that are compared with one another, and rows that tell what numbers are.
const (
	uniqueMost  = 1 << 20
	momentsMost = 1000
)

// What an id of one table alone must have to be that of nodes without a table: values, and rows a value, on average. Fewer are a category.
const (
	impliedLeast = 100
	impliedRows  = 2
)

// inferShared fills in, where nothing was said of keys, those of ids that tables share and none of them is called by: order_id of
// olist_orders_dataset and of olist_order_items_dataset. Such an id is the key of the table in which no value comes twice; of several of
// these, of the one that it stands first in, and of several of these, of the one that has all of the others' values. Where it is no table's, what
// it names is a type of nodes of its own, without a file, if imply says so: these are returned, and with them those that one table alone has
// ids of, of many that come again, such as user_id of orders.
func inferShared(ctx context.Context, s *Schema, open map[string]table.Table, imply bool) (implied []string, err error) {
	type place struct {
		table, column string
		first         bool
	}
	shared, known := map[string][]place{}, map[string]bool{} // by plain name
	for _, name := range s.names() {
		t := s.Tables[name]
		for _, k := range t.Key {
			known[plain(k)] = true
		}
		for _, r := range t.References {
			for _, c := range r.Columns {
				known[plain(c)] = true
			}
		}
		if open[name] == nil {
			continue
		}
		cols := open[name].Columns()
		for k, c := range cols {
			if isID(c.Name) && c.Strange == "" && !c.List && !c.Date {
				shared[plain(c.Name)] = append(shared[plain(c.Name)], place{name, c.Name, k == 0 || k == 1 && isRowNumber(cols[0].Name)})
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(shared)) {
		places := shared[id]
		to := called(places[0].column)
		if known[id] || len(places) < 2 {
			p := places[0]
			if known[id] || !imply || s.Tables[to] != nil || lastWord(p.column) != "id" {
				continue
			}
			if v, err := valuesOf(ctx, maphash.MakeSeed(), open[p.table], p.column, false); err != nil {
				return nil, err
			} else if len(v.seen) < impliedLeast || v.rows < impliedRows*len(v.seen) {
				continue
			}
			implied = append(implied, to)
			s.Tables[to] = &Table{Implied: true, Key: Names{"id"}}
			t := s.Tables[p.table]
			t.References = append(t.References, Reference{Names{p.column}, to})
			continue
		}
		var homes []place
		for _, p := range places {
			if len(s.Tables[p.table].Key) > 0 {
				continue
			}
			unique, err := isUnique(ctx, open[p.table], p.column)
			if err != nil {
				return nil, err
			}
			if unique {
				homes = append(homes, p)
			}
		}
		if len(homes) > 1 {
			homes = slices.DeleteFunc(homes, func(p place) bool { return !p.first })
		}
		if len(homes) > 1 {
			seed, all := maphash.MakeSeed(), []values{}
			for _, p := range homes {
				v, err := valuesOf(ctx, seed, open[p.table], p.column, true)
				if err != nil {
					return nil, err
				}
				all = append(all, v)
			}
			if k := slices.IndexFunc(all, func(v values) bool { return v.have(all) }); k >= 0 {
				homes = homes[k : k+1]
			}
		}
		switch {
		case len(homes) == 1:
			to = homes[0].table
			s.Tables[to].Key = Names{homes[0].column}
		case s.Tables[to] != nil || !imply:
			continue
		default:
			implied = append(implied, to)
			s.Tables[to] = &Table{Implied: true, Key: Names{"id"}}
		}
		for _, p := range places {
			if p.table != to {
				t := s.Tables[p.table]
				t.References = append(t.References, Reference{Names{p.column}, to})
			}
		}
	}
	return implied, nil
}

// called is what the rows are called that a column has ids of: its name without the word id.
func called(column string) string {
	w := table.Words(column)
	at := len(w) - 1
	for at > 0 && w[at] != "id" {
		at--
	}
	return strings.Join(slices.Delete(w, at, at+1), "_")
}

// isUnique reports whether no value of a column comes twice, or is missing, among the first uniqueMost.
func isUnique(ctx context.Context, t table.Table, column string) (bool, error) {
	v, err := valuesOf(ctx, maphash.MakeSeed(), t, column, true)
	return v.unique(), err
}

// values are the first uniqueMost of a column.
type values struct {
	seen    map[uint64]struct{} // hashes
	rows    int                 // that have them
	missing bool                // a row has none
}

func (v *values) unique() bool { return !v.missing && v.rows > 0 && v.rows == len(v.seen) }

// valuesOf reads the values of a column, and where they are to be unique no further than they are.
func valuesOf(ctx context.Context, seed maphash.Seed, t table.Table, column string, unique bool) (values, error) {
	k := slices.IndexFunc(t.Columns(), func(c table.Column) bool { return c.Name == column })
	v := values{seen: map[uint64]struct{}{}}
	err := table.ReadSome(ctx, t, []table.Want{{At: k}}, func(b *table.Batch) error {
		for i := range b.Rows {
			x := b.Text[0].At(i)
			if v.missing = v.missing || table.MissingText(x); !table.MissingText(x) {
				v.seen[maphash.Bytes(seed, x)] = struct{}{}
				v.rows++
			}
			if v.rows == uniqueMost || unique && !v.unique() {
				return table.ErrEnough
			}
		}
		return nil
	})
	return v, err
}

// have reports whether all values of others are among these.
func (v values) have(others []values) bool {
	for _, o := range others {
		for h := range o.seen {
			if _, ok := v.seen[h]; !ok {
				return false
			}
		}
	}
	return true
}

// inferMoments is the first column called by one of timeNames whose numbers look like seconds since 1970; "" = none is.
func inferMoments(ctx context.Context, t table.Table) (string, error) {
	for _, want := range timeNames {
		cols := t.Columns()
		k := slices.IndexFunc(cols, func(c table.Column) bool {
			return !c.Date && !c.Text && !c.List && c.Strange == "" && plain(c.Name) == want
		})
		if k < 0 {
			continue
		}
		if are, err := areMoments(ctx, t, k); are || err != nil {
			return cols[k].Name, err
		}
	}
	return "", nil
}

// areMoments reports whether the first numbers of a column look like seconds since 1970: of 1980 and later.
func areMoments(ctx context.Context, t table.Table, k int) (bool, error) {
	n, all := 0, true
	err := table.ReadSome(ctx, t, []table.Want{{At: k}}, func(b *table.Batch) error {
		for i := range b.Rows {
			if v := b.Text[0].At(i); !table.MissingText(v) {
				x, err := table.ParseFloat(v, 64)
				if n++; err != nil || !table.IsMoment(x) {
					all = false
				}
			}
			if !all || n == momentsMost {
				return table.ErrEnough
			}
		}
		return nil
	})
	return all && n > 0, err
}
