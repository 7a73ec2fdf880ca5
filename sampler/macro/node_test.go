package macro

import (
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Every partition meets every other in a step about equally often over many epochs.
func TestHanoiShufflesUniformly(t *testing.T) {
	const n, epochs = 12, 4000
	p, _ := New(Config{Policy: Hanoi, Partitions: n, Capacity: 3})
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
	want := float64(epochs) * 2 / 11 // 4 steps of 3: a pair shares one of them with probability 2/11
	for i := range n {
		for j := range i {
			if got := float64(together[i*n+j]); math.Abs(got-want) > 5*math.Sqrt(want) {
				t.Errorf("partitions %d and %d met %v times, want about %.0f", i, j, got, want)
			}
		}
	}
}

// TestHanoiReuse: passes are the first one and those asked for, or while reads are pending at most ReuseMax more.
func TestHanoiReuse(t *testing.T) {
	for _, c := range []struct {
		reuse, passes int
		pending       bool
	}{{0, 0, false}, {2, 3, false}, {ReuseMax, 1 + ReuseMax, false}, {ReuseAuto, 1 + ReuseMax, true}} {
		p, err := New(Config{Policy: Hanoi, Partitions: 6, Capacity: 2, Reuse: c.reuse})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Epoch(0).Steps {
			if s.Passes != c.passes || s.WhilePending != c.pending {
				t.Errorf("reuse %d: %d passes, while pending %v; expected %d, %v", c.reuse, s.Passes, s.WhilePending, c.passes, c.pending)
			}
		}
	}
}

// TestRotationEvictsAny: trainnodes without pinned partitions makes room by any logical partition, not always by the same place's.
func TestRotationEvictsAny(t *testing.T) {
	p, err := New(Config{Policy: TrainNodes, Partitions: 12, Capacity: 3, Logical: 12, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for epoch := range 20 {
		steps := p.Epoch(epoch).Steps
		stays := 0
		for _, part := range steps[0].Resident {
			if !slices.ContainsFunc(steps, func(s buffer.Step) bool { return !slices.Contains(s.Resident, part) }) {
				stays++
			}
		}
		if stays == 0 {
			return
		}
	}
	t.Error("some of the first step's partitions stay until the end in each of 20 epochs")
}

// TestRotationTrainsAnywhere: a partition is trained in any step where it is resident, the last as often as the first.
func TestRotationTrainsAnywhere(t *testing.T) {
	p, err := New(Config{Policy: TrainNodes, Partitions: 8, Capacity: 4, Logical: 8, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	first, later, chance := 0., 0., 0.
	for epoch := range 400 {
		steps := p.Epoch(epoch).Steps
		for part := range store.PartitionID(8) {
			var in []int
			trained := -1
			for i, s := range steps {
				if slices.Contains(s.Resident, part) {
					in = append(in, i)
				}
				if slices.Contains(s.Train, part) {
					trained = i
				}
			}
			if len(in) < 2 {
				continue
			}
			chance += 1 / float64(len(in))
			switch trained {
			case in[0]:
				first++
			case in[len(in)-1]:
				later++
			}
		}
	}
	// Binomial: 400 epochs of some partitions each, so that 4 standard deviations are less than 4 √chance.
	if limit := 4 * math.Sqrt(chance); math.Abs(first-chance) > limit || math.Abs(later-chance) > limit {
		t.Errorf("trained %v times in the first of several steps, %v in the last, expected %.0f each", first, later, chance)
	}
}

// Whatever does not divide: every step full, shares even, nothing read twice.
func TestHanoiStepsAreFullAndEven(t *testing.T) {
	for _, tt := range []struct{ loose, capacity int }{{10, 4}, {32, 5}, {33, 10}, {7, 7}, {8, 3}, {3, 5}} {
		p, err := New(Config{Policy: Hanoi, Partitions: tt.loose + 1, Capacity: tt.capacity, Pinned: []store.PartitionID{0}})
		if err != nil {
			t.Fatal(err)
		}
		plan := p.Epoch(3)
		full := 1 + min(tt.loose, tt.capacity)
		low, high := tt.loose, 0
		for k, s := range plan.Steps {
			if len(s.Resident) != full {
				t.Errorf("%+v: step %d has %d partitions resident, want %d", tt, k, len(s.Resident), full)
			}
			own := len(s.Train)
			if slices.Contains(s.Train, 0) { // the hub's
				own--
			}
			if k > 0 {
				low, high = min(low, own), max(high, own)
			}
		}
		if len(plan.Steps) > 1 && high-low > 1 {
			t.Errorf("%+v: steps train %d to %d partitions", tt, low, high)
		}
		if c := Cost(plan, tt.loose+1, uniform(tt.loose+1, false)); c.Loads != tt.loose+1 {
			t.Errorf("%+v: %d partitions read, want every one once", tt, c.Loads)
		}
	}
}
