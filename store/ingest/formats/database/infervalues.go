package database

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/gstore/gstore/store/ingest/formats/table"
)

// Bounds of what is read to infer: values that are compared with one another, and rows that tell what numbers are.
const (
	uniqueMost  = 1 << 20
	momentsMost = 1000
)

// inferShared fills in, where nothing was said of keys, those of ids that tables share and none of them is called by: order_id of
// olist_orders_dataset and of olist_order_items_dataset. Such an id is the key of the table in which no value comes twice; of several of
// these, of the one that it stands first in. Where it is no table's, what it names is a type of nodes of its own, without a file, if imply says
// so: these are returned.
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
			if w := table.Words(c.Name); len(w) > 1 && w[len(w)-1] == "id" && c.Strange == "" && !c.List && !c.Date {
				shared[plain(c.Name)] = append(shared[plain(c.Name)], place{name, c.Name, k == 0 || k == 1 && isRowNumber(cols[0].Name)})
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(shared)) {
		places := shared[id]
		if known[id] || len(places) < 2 {
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
		words := table.Words(places[0].column)
		to := plain(places[0].column[:len(places[0].column)-len(words[len(words)-1])])
		switch {
		case len(homes) == 1:
			to = homes[0].table
			s.Tables[to].Key = Names{homes[0].column}
		case len(homes) > 1 || s.Tables[to] != nil || !imply:
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

// isUnique reports whether no value of a column comes twice, or is missing, among the first uniqueMost.
func isUnique(ctx context.Context, t table.Table, column string) (bool, error) {
	k := slices.IndexFunc(t.Columns(), func(c table.Column) bool { return c.Name == column })
	seed, seen, unique := maphash.MakeSeed(), map[uint64]struct{}{}, true
	err := table.ReadSome(ctx, t, []table.Want{{At: k}}, func(b *table.Batch) error {
		for i := range b.Rows {
			v := b.Text[0].At(i)
			h := maphash.Bytes(seed, v)
			if _, twice := seen[h]; twice || table.MissingText(v) {
				unique = false
				return table.ErrEnough
			}
			if seen[h] = struct{}{}; len(seen) == uniqueMost {
				return table.ErrEnough
			}
		}
		return nil
	})
	return unique && len(seen) > 0, err
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
