package buffer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gstore/gstore/store"
)

// TestSwaps swaps partitions under rows of every kind, short ones and hubs, with new neighbours before, between and
// behind those that are copied from the last step.
func TestSwaps(t *testing.T) {
	resident := [][]store.PartitionID{
		{0, 1, 2, 3}, {0, 1, 2, 4}, {0, 2, 4, 5}, {1, 2, 4, 6}, // one or two swaps
		{0, 1, 2, 3, 4, 5, 6, 7, 8}, {0, 2, 4, 6, 8}, {0, 1, 2, 3, 4, 6, 8}, {0, 1, 2, 3, 4, 5, 6, 7, 8}, // holes in the middle: 2, then 2
		{1, 3, 5, 7}, {0, 1, 2, 3, 4, 5, 6, 7, 8}, // five holes
		{4}, {3, 4, 5}, {4}, nil, {4}, // partitions only leave, come on both sides, all leave
	}
	for _, relations := range []int{1, 3, 300} {
		for _, both := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d relations, both %v", relations, both), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(relations), 9))
				g := newToyGraph(rng, []int{50, 700, 40, 0, 64, 300, 1, 90, 200}, 9000, relations, false)
				for _, hub := range []struct{ node, edges int }{{3, 4000}, {800, 1024}, {801, 1025}, {802, 1023}, {1444, 3000}} {
					for range hub.edges {
						g.edges = append(g.edges, toyEdge{src: uint64(rng.IntN(1445)), dst: uint64(hub.node), rel: uint16(rng.IntN(relations))})
					}
				}
				s, err := g.write(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				defer s.close()
				o := Options{Capacity: 9, Features: []string{"x"}, Labels: true, Both: both, Relations: true, Threads: 2}
				it, err := newBuffer(context.Background(), s.m, s, o)
				if err != nil {
					t.Fatal(err)
				}
				defer it.Close()
				plan := Plan{Capacity: 9}
				for _, r := range resident {
					plan.Steps = append(plan.Steps, Step{Resident: r, Train: r})
				}
				if err := it.Start(plan); err != nil {
					t.Fatal(err)
				}
				for it.Next() {
					if err := g.check(it.MacroBatch(), &o); err != nil {
						t.Fatalf("step %d: %v", it.MacroBatch().StepIndex, err)
					}
				}
				if err := it.Err(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
