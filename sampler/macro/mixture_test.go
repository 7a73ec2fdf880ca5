package macro

import (
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// oneClass has n partitions of which each has training nodes of one class, by turns.
func oneClass(n, classes int) [][]store.ClassNodes {
	labels := make([][]store.ClassNodes, n)
	for p := range labels {
		labels[p] = []store.ClassNodes{{Class: uint32(p * classes / n), Nodes: 10}}
	}
	return labels
}

// TestMixedSteps: with Labels, steps of whole communities have the graph's classes, every epoch anew, full and even as before.
func TestMixedSteps(t *testing.T) {
	for _, tt := range []struct {
		loose, capacity, pinned, classes int
		most                             float64 // divergence
	}{{64, 8, 0, 8, .02}, {64, 8, 1, 8, .1}, {65, 8, 0, 4, .1}, {512, 64, 0, 32, .03}, {33, 10, 1, 3, .1}} {
		c := Config{Policy: Hanoi, Partitions: tt.loose + tt.pinned, Capacity: tt.capacity, Seed: 7}
		for i := range tt.pinned {
			c.Pinned = append(c.Pinned, store.PartitionID(tt.loose+i))
		}
		random, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		labels := oneClass(tt.loose, tt.classes)
		for range tt.pinned { // hubs of all classes
			labels = append(labels, []store.ClassNodes{{Class: 0, Nodes: 5}, {Class: uint32(tt.classes - 1), Nodes: 5}})
		}
		c.Labels = labels
		mixed, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		for e := range 3 {
			plan, before := mixed.Epoch(e), random.Epoch(e)
			if got, was := Divergence(plan, labels), Divergence(before, labels); got > tt.most || got > .7*was {
				t.Errorf("%+v: classes diverge by %.3f, at random by %.3f, want at most %v", tt, got, was, tt.most)
			}
			if len(plan.Steps) != len(before.Steps) {
				t.Fatalf("%+v: %d steps, at random %d", tt, len(plan.Steps), len(before.Steps))
			}
			trained := make([]int, c.Partitions)
			for k, s := range plan.Steps {
				if len(s.Resident) != len(before.Steps[k].Resident) {
					t.Errorf("%+v: step %d has %d partitions, at random %d", tt, k, len(s.Resident), len(before.Steps[k].Resident))
				}
				for _, p := range s.Train {
					trained[p]++
					if !slices.Contains(s.Resident, p) {
						t.Errorf("%+v: partition %d trains where it is not resident", tt, p)
					}
				}
			}
			if slices.Min(trained) != 1 || slices.Max(trained) != 1 {
				t.Errorf("%+v: partitions train %v times, want once each", tt, trained)
			}
		}
	}
}

// TestMixedStepsAreRandom: what the mixture leaves open is drawn: partitions of one class meet each other of another
// about equally often.
func TestMixedStepsAreRandom(t *testing.T) {
	const n, classes, epochs = 12, 3, 3000
	p, err := New(Config{Policy: Hanoi, Partitions: n, Capacity: 3, Labels: oneClass(n, classes)})
	if err != nil {
		t.Fatal(err)
	}
	together := make([]int, n*n)
	for e := range epochs {
		for _, s := range p.Epoch(e).Steps {
			for _, i := range s.Resident {
				for _, j := range s.Resident {
					together[int(i)*n+int(j)]++
				}
			}
		}
	}
	for i := range n {
		for j := range i {
			want := float64(epochs) / 4 // one of each class a step: any of the other class' four
			if i*classes/n == j*classes/n {
				want = 0
			}
			if got := float64(together[i*n+j]); math.Abs(got-want) > 5*math.Sqrt(want) {
				t.Errorf("partitions %d and %d met %v times, want about %.0f", i, j, got, want)
			}
		}
	}
}

// TestMixedGroups: groups of plan memory are composed likewise.
func TestMixedGroups(t *testing.T) {
	labels := oneClass(64, 8)
	c := Config{Policy: Memory, Partitions: 64, Group: 8, Labels: labels}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if d := Divergence(p.Epoch(0), labels); d > .02 {
		t.Errorf("classes of groups diverge by %.3f", d)
	}
	if c.Labels = labels[1:]; true {
		if _, err := New(c); err == nil {
			t.Error("classes of 63 of 64 partitions are accepted")
		}
	}
}

// TestGroupsOfADevice: mini-batches of a group reach its partitions and the pinned ones, which are trained once like all others, and
// whether classes are mixed or not.
func TestGroupsOfADevice(t *testing.T) {
	hubs := []store.PartitionID{16, 17}
	for _, labels := range [][][]store.ClassNodes{nil, oneClass(18, 4)} {
		p, err := New(Config{Policy: Memory, Partitions: 18, Pinned: hubs, Group: 4, Alone: true, Labels: labels, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		plan, trained := p.Epoch(1), map[store.PartitionID]int{}
		for _, s := range plan.Steps {
			var own []store.PartitionID
			for _, q := range s.Train {
				trained[q]++
				if q < hubs[0] {
					own = append(own, q)
				}
			}
			if len(own) != 4 || !slices.Equal(s.Reached(), append(own, hubs...)) || len(s.Resident) != 18 {
				t.Errorf("partitions %v train, mini-batches reach %v of %v", s.Train, s.Reached(), s.Resident)
			}
		}
		if len(plan.Steps) != 4 || len(trained) != 18 {
			t.Errorf("%d groups train %v, expected 4 of all 18 partitions", len(plan.Steps), trained)
		}
		for q, n := range trained {
			if n != 1 {
				t.Errorf("partition %d is trained %d times", q, n)
			}
		}
	}
}

// TestDivergenceAndKept by hand: of 30 training nodes 20 are of class 0. The first step trains 10 of class 0, the second
// 10 of either: they diverge by 1/3 and 1/6 of its nodes.
func TestDivergenceAndKept(t *testing.T) {
	plan := buffer.Plan{Steps: []buffer.Step{
		{Resident: []store.PartitionID{0, 2}, Train: []store.PartitionID{0}},
		{Resident: []store.PartitionID{1, 2}, Train: []store.PartitionID{1, 2}},
	}}
	var alone buffer.Plan
	labels := [][]store.ClassNodes{{{Class: 0, Nodes: 10}}, {{Class: 1, Nodes: 10}}, {{Class: 0, Nodes: 10}}}
	if got, want := Divergence(plan, labels), (10./3+20./6)/30; math.Abs(got-want) > 1e-12 {
		t.Errorf("divergence %v, want %v", got, want)
	}
	if got := Divergence(plan, make([][]store.ClassNodes, 3)); got != 0 {
		t.Errorf("divergence %v without classes", got)
	}
	edges := [3][3]uint64{{4, 2, 6}, {1, 3, 5}, {0, 0, 7}} // [src][dst]
	z := Shape{Edges: func(src, dst store.PartitionID) uint64 { return edges[src][dst] }, Training: []float64{1, .5, 0}}
	// Into 0: 4 of 5, as (1,0) is absent. Into 1, half a node's worth: 3 of 5, as (0,1) is absent. None of 2 trains.
	if got, want := Kept(plan, z), (4+.5*3)/(5+.5*5); math.Abs(got-want) > 1e-12 {
		t.Errorf("kept %v directed, want %v", got, want)
	}
	for i := range plan.Steps { // all are in memory, but mini-batches reach those that train
		alone.Steps = append(alone.Steps, buffer.Step{Resident: []store.PartitionID{0, 1, 2}, Train: plan.Steps[i].Train, Reach: plan.Steps[i].Resident})
	}
	if got, want := Kept(alone, z), Kept(plan, z); got != want {
		t.Errorf("kept %v within groups, want %v", got, want)
	}
	edges = [3][3]uint64{{4, 2, 6}, {0, 3, 5}, {0, 0, 7}}
	z.Undirected = true
	// Into 0: 8 + 6 of 16; into 1: half of 6 + 5 of 13.
	if got, want := Kept(plan, z), (14+.5*11)/(16+.5*13); math.Abs(got-want) > 1e-12 {
		t.Errorf("kept %v undirected, want %v", got, want)
	}
	z.Edges = func(_, _ store.PartitionID) uint64 { return 0 }
	if got := Kept(plan, z); got != 1 {
		t.Errorf("kept %v without edges, want 1", got)
	}
}
