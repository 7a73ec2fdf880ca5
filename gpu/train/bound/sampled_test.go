package bound

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
)

// TestDrawsOfNodes: a node of two relations, read in both directions, adds what its lists and the fanouts allow.
func TestDrawsOfNodes(t *testing.T) {
	d := &counter{Sampled: Sampled{Relations: tally{}, Unread: tally{}, Edges: []tally{{}, {}}, Groups: []tally{{}, {}}}, stored: 2, fanouts: []int{3, -1}}
	var seeds Seeds
	d.add([]int32{9, 1, 0, 2}, &seeds) // 10 edges in of 2 relations, 2 out of one
	d.add([]int32{0, 0, 0, 1}, nil)
	d.add([]int32{0, 0, 0, 0}, nil)
	for name, c := range map[string]struct {
		got  tally
		want []int64 // of 1, 2, 3 and 9 nodes
	}{
		"3 drawn": {d.Edges[0], []int64{5, 6, 6, 6}}, "all drawn": {d.Edges[1], []int64{12, 13, 13, 13}},
		"groups of 3": {d.Groups[0], []int64{3, 4, 4, 4}}, "relations": {d.Relations, []int64{3, 4, 4, 4}},
	} {
		for i, n := range []int64{1, 2, 3, 9} {
			if got := c.got.Most(n); got != c.want[i] {
				t.Errorf("%s: %d of %d nodes, expected %d", name, got, n, c.want[i])
			}
		}
	}
	if seeds.Edges != (Spread{1, 5, 25, 5}) || seeds.Relations != (Spread{1, 3, 9, 3}) {
		t.Errorf("seeds %+v", seeds)
	}
	of := &counter{Sampled: Sampled{Relations: tally{}, Unread: tally{}, Edges: []tally{{}}, Groups: []tally{{}}}, stored: 2, fanouts: []int{3}, of: config.RelationSampling{Fanouts: [][]int{{2, -1}}}}
	of.add([]int32{9, 7, 5, 0}, nil)
	if of.Edges[0].Most(1) != 2+7+2 || of.Groups[0].Most(1) != 3 {
		t.Errorf("fanouts of relations: %v edges, %v groups, expected 11 and 3", of.Edges, of.Groups)
	}
	of = &counter{Sampled: Sampled{Relations: tally{}, Unread: tally{}, Edges: []tally{{}}, Groups: []tally{{}}}, stored: 2, fanouts: []int{3},
		of: config.RelationSampling{Fanouts: [][]int{{2, -1}}, Without: [][]bool{{false, true, true, false}}}}
	of.add([]int32{9, 7, 5, 4}, nil)
	if of.Edges[0].Most(1) != 2+4 || of.Groups[0].Most(1) != 2 || of.Unread.Most(1) != 2 || of.Relations.Most(1) != 4 {
		t.Errorf("relations that are read from hops: %v edges, %v groups, %v and %v relations, expected 6, 2, 2 and 4", of.Edges, of.Groups, of.Unread, of.Relations)
	}
}

// TestDrawnMost: the sum of numbers drawn at random is within the bound, which is little above what they are on average; seeds of one
// partition are bounded by what its own nodes have.
func TestDrawnMost(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := make([]Spread, 2)
	var numbers [2][]int64
	for range 20000 {
		x := r.Int64N(10)
		if r.IntN(50) == 0 {
			x = 30
		}
		p := r.IntN(2)
		x += int64(5 * p)
		parts[p].add(x)
		numbers[p] = append(numbers[p], x)
	}
	all := slices.Concat(numbers[0], numbers[1])
	bounds := map[int]int64{}
	const n = 1000
	for p, of := range [][]int64{numbers[0], numbers[1], all} {
		bound := mostDrawn(n, parts)
		if p == 2 {
			bound = mostDrawn(n, []Spread{united(parts)})
		}
		bounds[p] = bound
		largest := int64(0)
		for range 200 {
			sum := int64(0)
			for _, i := range r.Perm(len(of))[:n] {
				sum += of[i]
			}
			largest = max(largest, sum)
		}
		if largest > bound || p > 0 && float64(bound) > 1.5*float64(largest) {
			t.Errorf("%d: %d numbers sum to %d at most in 200 draws, the bound is %d", p, n, largest, bound)
		}
	}
	if bounds[2] >= bounds[0] || bounds[0] != bounds[1] {
		t.Errorf("bounds %v: expected those of steps alike, that of all together less", bounds)
	}
	if mostDrawn(5, []Spread{{}, {n: 3}}) != 0 {
		t.Error("a bound above 0 of numbers that are 0")
	}
}
