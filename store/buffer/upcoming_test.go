package buffer

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestUpcoming: while a step is in hand, the partitions of the next one, of the next epoch's first if that is announced, are
// told once they are in memory, and where they lie then they are when that step comes.
func TestUpcoming(t *testing.T) {
	g := newToyGraph(rand.New(rand.NewPCG(1, 2)), []int{50, 70, 40, 64, 30, 90}, 900, 1, false)
	s, err := g.write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	it, err := newBuffer(t.Context(), s.m, s, Options{Capacity: 2, Features: []string{"x"}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	told := 0
	for epoch, plans := 0, []Plan{hanoiPlan(6, 2), hanoiPlan(6, 2)}; epoch < 2; epoch++ {
		if err := it.Start(plans[epoch]); err != nil {
			t.Fatal(err)
		}
		if epoch == 0 {
			if err := it.Announce(plans[1]); err != nil {
				t.Fatal(err)
			}
		}
		if it.Upcoming() != nil {
			t.Error("told without a step in hand")
		}
		var was []ResidentPartition
		var rows []byte
		for it.Next() {
			mb := it.MacroBatch()
			x := &mb.Features[0]
			of := func(ps []ResidentPartition) (b []byte) {
				for _, p := range ps {
					b = append(b, x.Data[int(p.Base)*x.Stride:int(p.Base+p.Nodes)*x.Stride]...)
				}
				return b
			}
			if was != nil && (!slices.Equal(was, mb.Partitions) || !bytes.Equal(rows, of(mb.Partitions))) {
				t.Fatalf("epoch %d, step %d: %v, told were %v", epoch, mb.StepIndex, mb.Partitions, was)
			}
			was = nil
			for last := epoch == 1 && mb.StepIndex == 2; was == nil && !last && it.Err() == nil; {
				was = it.Upcoming()
			}
			if rows = of(was); len(was) == 2 {
				told++
			}
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if told != 5 {
		t.Errorf("%d of 5 steps were told", told)
	}
}
