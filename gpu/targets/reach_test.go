package targets

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// TestFanoutsReachWhatRefers: a third hop is taken where tables refer to the entities' through two others, and not for what these refer to.
func TestFanoutsReachWhatRefers(t *testing.T) {
	names := []string{"customers", "orders", "lines", "returns", "products"}
	m := &store.Manifest{Schema: store.Schema{}}
	for _, n := range names {
		m.Schema.NodeTypes = append(m.Schema.NodeTypes, store.NodeType{Name: n})
	}
	for _, r := range []string{"orders:c:customers", "lines:o:orders", "lines:p:products", "customers:friend:customers", "returns:l:lines", "customers:o:orders"} {
		m.Schema.Relations = append(m.Schema.Relations, store.Relation{Name: r})
	}
	for _, c := range []struct {
		table string
		reach int
		want  []int
	}{{"customers", 3, []int{24, 8, 4}}, {"orders", 2, []int{24, 8}}, {"products", 2, []int{24, 8}}, {"returns", 0, []int{24, 8}}} {
		cfg := Config{}
		if cfg.fit(m, &database.Task{Table: c.table}, 10); reach(m, c.table) != c.reach || !slices.Equal(cfg.Fanouts, c.want) {
			t.Errorf("%s: reach %d, fanouts %v, expected %d and %v", c.table, reach(m, c.table), cfg.Fanouts, c.reach, c.want)
		}
		given := Config{Fanouts: []int{3}}
		if given.fit(m, &database.Task{Table: c.table}, 10); !slices.Equal(given.Fanouts, []int{3}) {
			t.Errorf("given fanouts became %v", given.Fanouts)
		}
	}
}
