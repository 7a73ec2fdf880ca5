package macro

import (
	"errors"
	"slices"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// TestDeal: ranks do the same number of batches, no more than the fullest of them needs, of steps that are theirs alone, or of
// their share of all where there are fewer steps than ranks; a rank of too few seeds is refused.
func TestDeal(t *testing.T) {
	for _, c := range []struct {
		seeds       []uint64 // of each partition, which is a step
		world, size int
		batches     int // of each rank; 0: refused
	}{
		{[]uint64{8, 8, 8, 8}, 2, 4, 4},
		{[]uint64{9, 8, 8, 8}, 2, 4, 5}, // a batch of the one that is over
		{[]uint64{8, 8, 1, 8}, 2, 4, 4},
		{[]uint64{40, 3, 1, 1}, 2, 4, 0}, // 11 batches and 2 seeds
		{[]uint64{17}, 2, 4, 3},          // 5 batches, made 6
		{[]uint64{16}, 2, 4, 2},
		{[]uint64{1}, 2, 4, 0},
	} {
		plan := buffer.Plan{Policy: "test", Capacity: 1}
		all := uint64(0)
		for p, n := range c.seeds {
			part := []store.PartitionID{store.PartitionID(p)}
			plan.Steps = append(plan.Steps, buffer.Step{Resident: part, Train: part})
			all += n
		}
		var steps []int
		refused := false
		for rank := range c.world {
			d, err := (&Ranks{Rank: rank, World: c.world, Nodes: c.seeds, BatchSize: c.size}).Deal(plan)
			if err != nil {
				if refused = true; !errors.Is(err, ErrPlan) {
					t.Errorf("%v: rank %d: %v, expected ErrPlan", c.seeds, rank, err)
				}
				continue
			}
			batches := 0
			for i, s := range d.Steps {
				steps = append(steps, s)
				for k := d.First; k < d.Parts[i]; k += d.Every {
					batches++
				}
				if d.Parts[i] > 0 && c.seeds[s] < uint64(d.Parts[i]) || uint64(d.Parts[i]*c.size) < c.seeds[s] {
					t.Errorf("%v: rank %d cuts the %d seeds of step %d into %d batches", c.seeds, rank, c.seeds[s], s, d.Parts[i])
				}
				if at, there := d.At(s); at != i || !there {
					t.Errorf("%v: rank %d: step %d is at %d, %v", c.seeds, rank, s, at, there)
				}
			}
			if batches != c.batches {
				t.Errorf("%v: rank %d does %d batches, expected %d", c.seeds, rank, batches, c.batches)
			}
		}
		if slices.Sort(steps); !refused && len(c.seeds) >= c.world && (len(steps) != len(c.seeds) || len(slices.Compact(steps)) != len(c.seeds)) {
			t.Errorf("%v: steps %v of all ranks", c.seeds, steps)
		}
		if refused != (c.batches == 0) {
			t.Errorf("%v: refused %v", c.seeds, refused)
		}
	}
}
