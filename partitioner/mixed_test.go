package partitioner

import (
	"context"
	"testing"
)

// TestGAPMovesGroups: on communities whose labels repeat, gap's groups balance labels at a smaller cut than single
// nodes do, the same refinement of the same partitions; and what the streamer counts agrees with the assignment.
func TestGAPMovesGroups(t *testing.T) {
	const n, k = 12000, 8
	g, classes := blockModel(t, n, 240, 16, .8, 7) // communities of 50 nodes
	for v := range classes {
		if classes[v] > 0 {
			classes[v] = (classes[v]-1)/30 + 1 // of 8 labels, each of communities that lie anywhere
		}
	}
	quality := func(a Assigner) *Quality {
		t.Helper()
		q, err := Measure(context.Background(), g, a, QualityOptions{Classes: classes})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	o, err := Options{Method: MethodGAP, Partitions: k, Seed: 3, Classes: classes}.resolve(g)
	if err != nil {
		t.Fatal(err)
	}
	refined := func(by func(r *restreamer) error) *Quality {
		t.Helper()
		fennel, err := Partition(context.Background(), g, Options{Method: MethodFennel, Partitions: k, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		part := Materialize(fennel).part
		r := &restreamer{ctx: context.Background(), g: g, o: o, full: .75 * float64(g.Entries()) / n}
		r.s = newStreamer(part, k, classes, classCounts(classes), o.limit(n), 1)
		if err := by(r); err != nil {
			t.Fatal(err)
		}
		fresh := newStreamer(part, k, classes, classCounts(classes), o.limit(n), 1)
		for p := range k {
			if r.s.size[p] != fresh.size[p] || r.s.near[p] != 0 || fresh.size[p] > o.limit(n) {
				t.Fatalf("partition %d: the streamer counts %d nodes and %d near ones, it has %d of at most %d", p, r.s.size[p], r.s.near[p], fresh.size[p], o.limit(n))
			}
			for l := range fresh.fewest {
				if r.s.fewest[l].count[p] != fresh.fewest[l].count[p] {
					t.Fatalf("partition %d: the streamer counts %d nodes of class %d, it has %d", p, r.s.fewest[l].count[p], l, fresh.fewest[l].count[p])
				}
			}
		}
		for l, c := range r.s.group.count {
			if c != 0 {
				t.Fatalf("%d nodes of class %d are left of a group that was placed", c, l)
			}
		}
		return quality(&Assignment{part: part, partitions: k})
	}
	single := refined(func(r *restreamer) error { return r.flat(g) })
	groups := refined(func(r *restreamer) error { return r.leveledLabels(g, 0) }) // as much balance as groups give
	if groups.CutRate > single.CutRate || groups.PartitionLabels.Mean > .6*single.PartitionLabels.Mean {
		t.Errorf("groups: cut %.3f, labels diverge by %.3f; single nodes: %.3f, %.3f", groups.CutRate, groups.PartitionLabels.Mean, single.CutRate, single.PartitionLabels.Mean)
	}
}
