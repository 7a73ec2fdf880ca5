package bound

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
)

// TestDrawsOfKinds: of two types of nodes, papers that cite each other and authors that write papers, a paper adds as many papers and
// authors as its lists and the fanouts allow, and seeds are papers.
func TestDrawsOfKinds(t *testing.T) {
	m := &store.Manifest{Partitions: []store.PartitionInfo{{Types: []uint32{9, 4}}},
		Schema: store.Schema{NodeTypes: []store.NodeType{{Name: "paper", Count: 9}, {Name: "author", Count: 4}}, Relations: []store.Relation{{Name: "paper:cites:paper"}, {Name: "author:writes:paper"}}}}
	d := &counter{Sampled: Sampled{nodes: 13, seeds: make([]Seeds, 1)}, stored: 2, fanouts: []int{3, mini.All}}
	d.openKinds(m, endsOf(m, 4))
	d.addKind([]int32{5, 2, 1, 0}, 0, &d.seeds[0]) // cites in, written by; cites out
	d.addKind([]int32{0, 1, 0, 0}, 0, nil)
	d.addKind([]int32{0, 0, 0, 7}, 1, nil) // writes
	for _, c := range []struct {
		hop, own, kind int
		want           int64 // of two nodes
	}{{0, 0, 0, 4}, {0, 0, 1, 3}, {0, 1, 0, 3}, {0, 1, 1, 0}, {1, 0, 0, 6}, {1, 0, 1, 3}, {1, 1, 0, 7}} {
		if got := d.kinds[c.own].from[c.hop][c.kind].Most(2); got != c.want {
			t.Errorf("hop %d: nodes of type %d draw %d of type %d, expected %d", c.hop, c.own, got, c.kind, c.want)
		}
	}
	if have := d.KindsOf(5); !slices.Equal(have, []int64{1, 0}) {
		t.Errorf("5 seeds are %v of each type, expected the one training paper", have)
	}
	if next, edges := d.Reach([]int64{1, 1}, 1, 2, 13); !slices.Equal(next, []int64{9, 3}) || edges != 6+7+2 {
		t.Errorf("a paper and an author reach %v by %d edges, expected all 9 papers, and 3 authors, by 15", next, edges)
	}
	d.AnySeeds()
	if have := d.KindsOf(5); !slices.Equal(have, []int64{5, 4}) {
		t.Errorf("5 seeds of any type are %v of each", have)
	}
	if undirected := endsOf(m, 2); undirected.other(0, 1) != 1 || undirected.other(1, 1) != 0 {
		t.Error("an edge without direction leads to one end alone")
	}
}
