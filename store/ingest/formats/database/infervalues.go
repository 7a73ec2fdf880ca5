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
	seed := maphash.MakeSeed()
	for _, id := range slices.Sorted(maps.Keys(shared)) {
		places := shared[id]
		if known[id] {
			continue
		}
		to := called(places[0].column)
		var homes []place
		if len(places) == 1 {
			if !imply || s.Tables[to] != nil {
				continue
			}
			if again, err := comesAgain(ctx, seed, open[places[0].table], places[0].column); err != nil {
				return nil, err
			} else if !again {
				continue
			}
		} else {
			var all []values // of homes
			for _, p := range places {
				if len(s.Tables[p.table].Key) > 0 {
					continue
				}
				v, err := valuesOf(ctx, seed, open[p.table], p.column, true)
				if err != nil {
					return nil, err
				}
				if v.unique() {
					homes, all = append(homes, p), append(all, v)
				}
			}
			homes = home(homes, all, func(p place) bool { return p.first })
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

// home is the one of several places, with their values, whose key an id is: the only one, or else the only one of those that are first, or else of
// these the one that has all of the others' values. Where none is, the places that are left are returned.
func home[P any](places []P, all []values, first func(P) bool) []P {
	if len(places) <= 1 {
		return places
	}
	var front []P
	var have []values
	for k, p := range places {
		if first(p) {
			front, have = append(front, p), append(have, all[k])
		}
	}
	if len(front) > 1 {
		if k := slices.IndexFunc(have, func(v values) bool { return v.have(have) }); k >= 0 {
			return front[k : k+1]
		}
	}
	return front
}

// comesAgain reports whether a column that ends with id, of one table alone, has as many values, and each of them as often, as ids of nodes without
// a table do.
func comesAgain(ctx context.Context, seed maphash.Seed, t table.Table, column string) (bool, error) {
	if lastWord(column) != "id" {
		return false, nil
	}
	v, err := valuesOf(ctx, seed, t, column, false)
	return len(v.seen) >= impliedLeast && v.rows >= impliedRows*len(v.seen), err
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
