package targets

import (
	"cmp"
	"context"
	"hash/fnv"
	"math"
	"slices"
	"sort"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// items are the rows that can be recommended, all those of a table, and what is known of them at a moment.
type items struct {
	d         *data
	kind      int      // their type
	rows      []uint32 // of the buffer, by item: in order of external ids, which no partitioning changes
	ascending []uint32 // these in order
	at        []uint32 // of each of those its item
	relations []int    // that lead to them
	ways      [][]step // the shortest ones from an entity to items
	vector    []uint32 // by item: its learned vector, from 1; 0: it came after training
	grid      []int64  // moments at which popularity is looked at while training
	others    bool     // what an entity has to do with is not recommended
}

// Popularity of an item is, of each relation that leads to it, how many rows did within some days, and the age of the latest.
const (
	popularColumns = len(popularDays) + 1 + ageColumns
	gridMost       = 32   // moments of a batch at which popularity is looked at
	candidatesMost = 4096 // items of a batch that are told apart
)

var popularDays = [...]float64{30, 365, 1825}

// historyColumns say of an item that an entity had to do with how often it had, how often within days that count ever less, and the age of the latest.
const historyColumns = 1 + len(decays) + ageColumns

// vectorsMost bounds the items of which a vector is learned: of more, what their columns say is all.
const vectorsMost = 1 << 17

// recommends fills in what a recommendation's kind hangs on: the store's tables, and the width of states. trained is how many items there were in
// training.
func (k *kind) recommends(m *store.Manifest, t *database.Task, hidden, trained int) {
	k.top, k.wide = t.K, hidden
	k.popular = len(relationsTo(m, t.Items))
	for i, n := range m.Schema.NodeTypes {
		if n.Name == t.Items {
			k.items, k.itemType = int(n.Count), i
		}
	}
	if k.vectors = trained; trained < 0 {
		k.vectors = k.items
	}
	if k.vectors > vectorsMost {
		k.vectors = 0
	}
}

// relationsTo are the relations that lead to rows of a table.
func relationsTo(m *store.Manifest, name string) (relations []int) {
	for r := range m.Schema.Relations {
		if _, dst, ok := m.Schema.Ends(store.RelationID(r)); ok && m.Schema.NodeTypes[dst].Name == name {
			relations = append(relations, r)
		}
	}
	return relations
}

// newItems finds the rows of a table.
func newItems(m *store.Manifest, d *data, t *database.Task) *items {
	x := &items{d: d, kind: slices.Index(d.names, t.Items), relations: relationsTo(m, t.Items), ways: ways(m, t.Table, t.Items)}
	for _, p := range d.mb.Partitions { // there may be rows between them
		for row := p.Base; row < p.Base+uint32(p.Nodes); row++ {
			if int(d.types[row]) == x.kind {
				x.rows = append(x.rows, row)
			}
		}
	}
	x.vector = make([]uint32, len(x.rows))
	return x
}

// sort puts items in order of their external ids.
func (x *items) sort(ids []string) {
	order := counting(len(ids))
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(ids[a], ids[b]) })
	rows := slices.Clone(x.rows)
	for i, k := range order {
		x.rows[i] = rows[k]
	}
	x.at = counting(len(ids))
	slices.SortFunc(x.at, func(a, b uint32) int { return cmp.Compare(x.rows[a], x.rows[b]) })
	x.ascending = nil
	for _, item := range x.at {
		x.ascending = append(x.ascending, x.rows[item])
	}
	slices.Sort(ids)
}

// keys puts the items in order and returns what tells those of stores of the same database apart, whatever their rows: hashes of external ids.
func (x *items) keys(ctx context.Context, st *store.Store) (keys []uint64, err error) {
	nodes := make([]store.NodeID, len(x.rows))
	for i, row := range x.rows {
		nodes[i] = x.d.node(row)
	}
	ids, err := st.ExternalStrings(ctx, nodes)
	if err != nil {
		return nil, err
	}
	x.sort(ids)
	for _, id := range ids {
		h := fnv.New64a()
		_, _ = h.Write([]byte(id))
		keys = append(keys, h.Sum64())
	}
	return keys, nil
}

// match takes learned vectors for the items of a store, of which trained has those that there were in training.
func (x *items) match(keys, trained []uint64) {
	of := make(map[uint64]uint32, len(trained))
	for i, k := range trained {
		of[k] = uint32(i + 1)
	}
	for i, k := range keys {
		x.vector[i] = of[k]
	}
	if len(trained) > 0 {
		x.d.items = x
	}
}

// vectorOf is the number of the vector of a row, which is an item; 0 where only memory is counted.
func (x *items) vectorOf(row uint32) uint32 {
	if item, ok := x.of(row); ok {
		return x.vector[item]
	}
	return 0
}

// of is the item that is a row.
func (x *items) of(row uint32) (item uint32, ok bool) {
	k, ok := slices.BinarySearch(x.ascending, row)
	if !ok {
		return 0, false
	}
	return x.at[k], true
}

// known reports whether an item was there at a moment, as all are where only memory is counted.
func (x *items) known(item uint32, moment int64) bool {
	return !x.d.timed[x.kind] || x.d.graph == nil || x.d.graph.Time(x.rows[item]) <= moment
}

// readItems finds what the model reads of a batch's items, behind its rows. What hangs on the seed's moment is not
// among it.
func (x *items) readItems(b *batch) {
	c := &b.choice
	c.baseRows = len(b.Input)
	p := &b.parts[x.kind]
	for k, item := range c.items {
		x.d.readRow(p, x.kind, uint32(c.baseRows+k), x.rows[item])
		p.moving = append(p.moving, make([]float32, x.d.movingColumns(x.kind))...)
	}
}

// setGrid takes moments, as evenly as there are examples, at which popularity is looked at while training.
func (x *items) setGrid(train []example, until int64) {
	var moments []int64
	for _, e := range train {
		moments = append(moments, min(e.moment, until))
	}
	slices.Sort(moments)
	x.grid = nil
	if distinct := slices.Compact(slices.Clone(moments)); len(distinct) <= gridMost {
		x.grid = distinct
		return
	}
	for k := range gridMost {
		x.grid = append(x.grid, moments[k*len(moments)/gridMost])
	}
	x.grid = slices.Compact(x.grid)
}

// placeOf is which of the grid's moments is the latest that is not after a moment.
func (x *items) placeOf(moment int64) int {
	return max(sort.Search(len(x.grid), func(i int) bool { return x.grid[i] > moment })-1, 0)
}

// appendPopularity appends what is known of an item's popularity at a moment.
func (x *items) appendPopularity(out []float32, item uint32, moment int64) []float32 {
	if len(x.relations) == 0 { // nothing says it
		return append(out, make([]float32, popularColumns)...)
	}
	g := x.d.graph
	for _, r := range x.relations {
		rows := g.Known(x.rows[item], r, moment)
		for _, days := range popularDays {
			since := moment - int64(days*86400)
			n := len(rows) - sort.Search(len(rows), func(i int) bool { return g.Time(rows[i]) > since })
			out = append(out, float32(math.Log1p(float64(n))))
		}
		out = append(out, float32(math.Log1p(float64(len(rows)))))
		if n := len(rows); n > 0 && x.d.timed[x.d.types[rows[n-1]]] {
			out = appendAge(out, float64(moment)-float64(g.Time(rows[n-1])))
		} else {
			out = append(out, make([]float32, ageColumns)...)
		}
	}
	return out
}

// candidates are the items that a batch tells apart, in order: all where there are few, else those that are right, those that seeds have to do with,
// and others at random.
func (x *items) candidates(lists [][]uint32, pairs []pair, key keyed.Key) []uint32 {
	if len(x.rows) <= candidatesMost {
		return counting(len(x.rows))
	}
	var list []uint32
	taken := map[uint32]bool{}
	add := func(item uint32, most int) {
		if len(list) < most && !taken[item] {
			taken[item] = true
			list = append(list, item)
		}
	}
	for _, right := range lists {
		for _, item := range right {
			add(item, candidatesMost/2)
		}
	}
	for _, p := range pairs {
		add(p.item, candidatesMost*3/4)
	}
	for r := key.Rand(0); len(list) < candidatesMost; {
		add(uint32(r.Below(uint64(len(x.rows)))), candidatesMost)
	}
	slices.Sort(list)
	return list
}
