package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func ExampleTracker() {
	t := NewTracker(100, 4)
	var tr Transfer
	for _, rows := range [][]uint32{{7, 8, 9}, {8, 9, 10}, {20, 21, 9}} {
		if err := t.Next(rows, &tr); err != nil {
			panic(err)
		}
		fmt.Println("send", tr.Send, "to", tr.To)
	}
	fmt.Printf("%+v\n", t.Stats())
	// Output:
	// send [7 8 9] to [0 1 2]
	// send [10] to [3]
	// send [20 21] to [3 1]
	// {Hits:3 Misses:6}
}

// TestTrackerAgainstSlab replays every transfer on a real slab and checks that
// each batch finds its rows where the tracker says.
func TestTrackerAgainstSlab(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(1, 300).Draw(t, "rows")
		places := rapid.IntRange(1, 100).Draw(t, "places")
		tracker := NewTracker(rows, places)
		slab := make([]uint32, places)
		var tr Transfer
		var last []uint32
		for range rapid.IntRange(1, 30).Draw(t, "batches") {
			batch := rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(rows-1)), 0, min(rows, places), rapid.ID).Draw(t, "batch")
			if err := tracker.Next(batch, &tr); err != nil {
				t.Fatal(err)
			}
			for i, r := range tr.Send {
				slab[tr.To[i]] = r
			}
			for k, r := range batch {
				if got := slab[tr.Loc[k]]; got != r {
					t.Fatalf("row %d: place %d holds %d", r, tr.Loc[k], got)
				}
			}
			for _, r := range tr.Send {
				if slices.Contains(last, r) {
					t.Fatalf("row %d was in the last batch and was sent again", r)
				}
			}
			last = batch
		}
	})
}

func TestTrackerRefusals(t *testing.T) {
	tracker := NewTracker(10, 2)
	var tr Transfer
	if err := tracker.Next([]uint32{1, 2, 3}, &tr); !errors.Is(err, ErrCapacity) {
		t.Errorf("three rows in two places: %v", err)
	}
	if err := tracker.Next([]uint32{10}, &tr); err == nil {
		t.Error("row 10 of 10 rows was accepted")
	}
	if err := tracker.Next([]uint32{4, 4}, &tr); err == nil {
		t.Error("a repeated row was accepted")
	}
	if err := tracker.Next([]uint32{4}, &tr); err != nil || len(tr.Send) != 1 || tracker.Held() != 1 {
		t.Errorf("after refusals: %v, sent %v, %d held", err, tr.Send, tracker.Held())
	}
	tracker.Reset()
	if err := tracker.Next([]uint32{4}, &tr); err != nil || len(tr.Send) != 1 {
		t.Errorf("after Reset row 4 must be sent again: %v, sent %v", err, tr.Send)
	}
}

// TestReorderFollowsTheMatrix compares with Algorithm 1 as written: the whole
// matrix of match degrees.
func TestReorderFollowsTheMatrix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 12 {
		batches := make([][]uint32, n)
		for i := range batches {
			for r := range uint32(60) {
				if rng.IntN(4) == 0 {
					batches[i] = append(batches[i], r)
				}
			}
		}
		if got, want := Reorder(batches, 60), reorderByMatrix(batches); !slices.Equal(got, want) {
			t.Errorf("%d batches: order %v, Algorithm 1 gives %v", n, got, want)
		}
	}
}

func reorderByMatrix(batches [][]uint32) []int {
	order := []int{}
	for z := 0; len(order) < len(batches); {
		order = append(order, z)
		best := -1
		for k := range batches {
			if !slices.Contains(order, k) && (best < 0 || match(batches[z], batches[k]) > match(batches[z], batches[best])) {
				best = k
			}
		}
		z = best
	}
	return order
}

func match(a, b []uint32) (n int) {
	for _, r := range a {
		if slices.Contains(b, r) {
			n++
		}
	}
	return n
}

func TestHotness(t *testing.T) {
	h := NewHotness(6)
	for _, b := range [][]uint32{{1, 3}, {3, 5}, {3, 1, 0}} {
		h.Observe(b)
	}
	if got := h.Hottest(3); !slices.Equal(got, []uint32{3, 1, 0}) {
		t.Errorf("hottest three: %v", got)
	}
	if got := h.Hottest(99); !slices.Equal(got, []uint32{3, 1, 0, 5}) {
		t.Errorf("all visited: %v", got)
	}
}
