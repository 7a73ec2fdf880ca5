package train

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestDrawsOfKinds: of two types of nodes, papers that cite each other and authors that write papers, a paper adds as many papers and
// authors as its lists and the fanouts allow, and seeds are papers.
func TestDrawsOfKinds(t *testing.T) {
	m := &store.Manifest{Partitions: []store.PartitionInfo{{Types: []uint32{9, 4}}},
		Schema: store.Schema{NodeTypes: []store.NodeType{{Name: "paper", Count: 9}, {Name: "author", Count: 4}}, Relations: []store.Relation{{Name: "paper:cites:paper"}, {Name: "author:writes:paper"}}}}
	d := &drawCounter{draws: draws{nodes: 13, seeds: make([]seedDraws, 1)}, stored: 2, fanouts: []int{3, mini.All}}
	d.openKinds(m, endsOf(m, 4))
	d.addKind([]int32{5, 2, 1, 0}, 0, &d.seeds[0]) // cites in, written by; cites out
	d.addKind([]int32{0, 1, 0, 0}, 0, nil)
	d.addKind([]int32{0, 0, 0, 7}, 1, nil) // writes
	for _, c := range []struct {
		hop, own, kind int
		want           int64 // of two nodes
	}{{0, 0, 0, 4}, {0, 0, 1, 3}, {0, 1, 0, 3}, {0, 1, 1, 0}, {1, 0, 0, 6}, {1, 0, 1, 3}, {1, 1, 0, 7}} {
		if got := d.kinds[c.own].from[c.hop][c.kind].most(2); got != c.want {
			t.Errorf("hop %d: nodes of type %d draw %d of type %d, expected %d", c.hop, c.own, got, c.kind, c.want)
		}
	}
	if have := d.kindsOf(5); !slices.Equal(have, []int64{1, 0}) {
		t.Errorf("5 seeds are %v of each type, expected the one training paper", have)
	}
	if next, edges := d.reach([]int64{1, 1}, 1, 2, 13); !slices.Equal(next, []int64{9, 3}) || edges != 6+7+2 {
		t.Errorf("a paper and an author reach %v by %d edges, expected all 9 papers, and 3 authors, by 15", next, edges)
	}
	d.anySeeds()
	if have := d.kindsOf(5); !slices.Equal(have, []int64{5, 4}) {
		t.Errorf("5 seeds of any type are %v of each", have)
	}
	if undirected := endsOf(m, 2); undirected.other(0, 1) != 1 || undirected.other(1, 1) != 0 {
		t.Error("an edge without direction leads to one end alone")
	}
}

// TestRowsOfKinds: no mini-batch of a run by plan rows has more rows of a type of nodes than was counted, which is less than there are, and
// losses in the least memory are plan memory's to the bit, by each sampler and with hops of relations.
func TestRowsOfKinds(t *testing.T) {
	dir := storeOfTypes(t, true)
	st := storetest.Open(t, dir, store.Options{})
	for name, c := range map[string]Config{
		"vectors": {Model: "rsage", Fanouts: []int{2, 1}}, "rgat": {Model: "rgat", Heads: 2, Fanouts: []int{2, 2}},
		"hops": {Model: "rsage", PrecomputedHop: true, Fanouts: []int{2, 2}}, "dense": {Model: "rgcn", Sampler: mini.Dense, Fanouts: []int{2, 1}},
		"own fanouts": {Model: "rsage", Fanouts: []int{1, 1}, RelationFanouts: "cites=2,1"}, "summed": {Model: "rsage", Fanouts: []int{2, 2}, Accumulate: 2},
	} {
		c.Hidden, c.BatchSize, c.Epochs, c.Seed, c.Threads = 8, 10, 2, 7, 1
		want, _, _ := lossesRead(t, dir, c)
		c.Plan, c.RowReads, c.MemoryBytes = macro.Rows, RowsCached, 1<<30
		d := c
		if err := d.Normalize(); err != nil {
			t.Fatal(err)
		}
		d.FillFeatures(st.Manifest())
		y, err := OpenMemory(t.Context(), st, hostDevice(t).Info(), d)
		if err != nil {
			t.Fatal(err)
		}
		tuning, err := y.RowsTuning(1 << 30)
		if err != nil || tuning.BatchRows == 0 || len(tuning.KindRows) != len(st.Manifest().Schema.NodeTypes) {
			t.Fatalf("%s: %+v, %v", name, tuning, err)
		}
		fewer := 0
		for k, n := range tuning.KindRows {
			if nodes := int(st.Manifest().Schema.NodeTypes[k].Count); n < nodes {
				fewer++
			}
		}
		o := d.MacroOptions(st.Manifest())
		o.MemoryBytes = tuning.LeastBytes
		f, err := d.ForecastRows(t.Context(), st, o, tuning, 2, 2)
		if err != nil || fewer == 0 || f.KindSlots == nil {
			t.Errorf("%s: %v; batches of %v rows of each type, slots %+v", name, err, tuning.KindRows, f)
		}
		if err := y.Close(); err != nil {
			t.Fatal(err)
		}
		c.MemoryBytes = 1 << 20
		_, err = trainNode(t.Context(), t, dir, c, Hooks{})
		c.MemoryBytes = named(t, err)
		if got, _, _ := lossesRead(t, dir, c); !slices.Equal(got, want) {
			t.Errorf("%s: losses and accuracies %v, in memory %v", name, got, want)
		}
	}
}
