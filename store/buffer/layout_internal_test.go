package buffer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/store"
)

// TestBounce: of small partitions the wide rows that begin at no page are read by way of the bounce area, and no others.
func TestBounce(t *testing.T) {
	for _, c := range []struct {
		name         string
		stride, runs int
		parts, nodes int
		want         bool
	}{
		{"wide rows of small partitions", 3703 * 4, -1, 103, 33, true},
		{"of large ones", 3703 * 4, -1, 2, 100_000, false},
		{"rows of one type alone", 3703 * 4, 0, 103, 33, false},
		{"rows of whole pages", 4096, -1, 103, 33, false},
		{"narrow rows", 100, -1, 103, 33, false},
	} {
		s := source{m: &store.Manifest{Partitions: make([]store.PartitionInfo, c.parts)}, features: []sourceColumn{{stride: c.stride, runs: c.runs}}}
		for p := range s.m.Partitions {
			s.m.Partitions[p].Nodes = uint64(c.nodes)
		}
		if s.bounce(); s.features[0].bounced != c.want {
			t.Errorf("%s: bounced %v, expected %v", c.name, s.features[0].bounced, c.want)
		}
	}
}

// TestPlanIs: a plan is its copy, and no other of as many steps.
func TestPlanIs(t *testing.T) {
	p, q := Plan{Steps: make([]Step, 3)}, Plan{Steps: make([]Step, 3)}
	same, shorter := p, Plan{Steps: p.Steps[:2]}
	if !p.is(&same) || p.is(&q) || p.is(&shorter) {
		t.Errorf("is a copy %v, another %v, a part %v", p.is(&same), p.is(&q), p.is(&shorter))
	}
}

// TestAdjacencyTwoPasses: an adjacency of two passes has each edge at its row, is cut to what there is, with what its edges carry,
// and has no rows before the first.
func TestAdjacencyTwoPasses(t *testing.T) {
	if n := (&Adjacency{}).Rows(); n != 0 {
		t.Errorf("an adjacency of nothing has %d rows", n)
	}
	for _, carries := range []bool{true, false} {
		a := Adjacency{Starts: []uint32{2, 0, 1, 0}, Bases: []int64{0}, Indices: make([]uint32, 9)}
		if carries {
			a.Relations, a.Weights = make([]uint16, 9), make([]float32, 9)
		}
		if err := a.Begin(); err != nil {
			t.Fatal(err)
		}
		if carries != (len(a.Relations) == 3) || carries != (len(a.Weights) == 3) || len(a.Indices) != 3 || a.Rows() != 3 {
			t.Errorf("carries %v: %d neighbours, %d relations and %d weights of 3 edges, %d rows of 3", carries, len(a.Indices), len(a.Relations), len(a.Weights), a.Rows())
		}
	}
}

// TestTopSum: the largest values are added up, however many of them are equal and in whatever order they come.
func TestTopSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n, values := r.IntN(40), 1+r.Int64N(60)
		sum, others := newTopSum(n), []int64{}
		var always int64
		for range n {
			v := r.Int64N(values)
			if r.IntN(8) == 0 {
				sum.add(v, true)
				always += v
				continue
			}
			sum.add(v, false)
			others = append(others, v)
		}
		slices.Sort(others)
		slices.Reverse(others)
		for _, largest := range []int{r.IntN(n + 1), 0, n, r.IntN(n + 1)} {
			want := always
			for _, v := range others[:min(largest, len(others))] {
				want += v
			}
			if got := sum.sum(largest); got != want {
				t.Fatalf("the %d largest of %v and %d: %d, want %d", largest, others, always, got, want)
			}
		}
	}
}
