package train

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/loader"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
)

// TestRanks: ranks do equally many mini-batches, whose seeds together are the epoch's of one; batches that are not cut smaller
// are that epoch's; a step's partitions are trained by one rank; any place goes on to the rank's rest.
func TestRanks(t *testing.T) {
	st := loaderGraph(t)
	for name, c := range map[string]config.Config{
		"hanoi":  {BatchSize: 20, Fanouts: []int{3, 2}, Seed: 5, Plan: macro.Hanoi, Buffer: 2, Reuse: 1, Threads: 2},
		"few":    {BatchSize: 20, Fanouts: []int{3, 2}, Seed: 5, Plan: macro.Hanoi, Buffer: 8, Threads: 2}, // steps
		"memory": {BatchSize: 50, Fanouts: []int{3}, Seed: 5, Threads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			whole := openLoader(t, st, c, loader.Options{})
			for _, world := range []int{2, 3} {
				var loaders []*loader.Loader
				for rank := range world {
					loaders = append(loaders, openLoader(t, st, c, loader.Options{Rank: rank, World: world}))
				}
				for epoch := range 2 {
					want := map[mini.Key]yielded{}
					var seeds, got []store.NodeID
					for _, y := range yields(t, whole, epoch, progress.Place{}) {
						want[y.key], seeds = y, append(seeds, y.seeds...)
					}
					count, same, trained := -1, 0, map[int]int{}
					for rank, l := range loaders {
						all := yields(t, l, epoch, progress.Place{})
						if count >= 0 && len(all) != count {
							t.Fatalf("rank %d of %d does %d batches, rank 0 %d", rank, world, len(all), count)
						}
						count = len(all)
						for i, y := range all {
							got = append(got, y.seeds...)
							if w := want[y.key]; len(w.seeds) == len(y.seeds) && name == "hanoi" {
								if slices.Equal(w.seeds, y.seeds) {
									same++
									if w.next = y.next; !reflect.DeepEqual(w, y) {
										t.Fatalf("rank %d, batch %+v differs from the whole epoch's", rank, y.key)
									}
								}
							}
							if before, there := trained[y.key.Step]; there && before != rank && name == "hanoi" {
								t.Fatalf("ranks %d and %d both train step %d", before, rank, y.key.Step)
							}
							trained[y.key.Step] = rank
							if len(y.seeds) == 0 || len(y.seeds) > c.BatchSize {
								t.Fatalf("a batch of %d seeds", len(y.seeds))
							}
							if i%7 == 3 {
								if rest := yields(t, l, epoch, y.next); len(rest) != len(all)-i-1 || len(rest) > 0 && !reflect.DeepEqual(rest, all[i+1:]) {
									t.Fatalf("rank %d from %+v: %d batches, %d were left, or they differ", rank, y.next, len(rest), len(all)-i-1)
								}
							}
						}
					}
					slices.Sort(seeds)
					slices.Sort(got)
					if !slices.Equal(seeds, got) || count == 0 {
						t.Fatalf("%d ranks have %d seeds, the epoch %d, or they differ", world, len(got), len(seeds))
					}
					if name == "hanoi" && same == 0 {
						t.Error("no batch is one of the whole epoch's")
					}
				}
			}
		})
	}
	if _, err := loader.Open(t.Context(), st, config.Config{}, loader.Options{Rank: 2, World: 2}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("rank 2 of 2: %v", err)
	}
	l := openLoader(t, st, config.Config{BatchSize: 1000, Fanouts: []int{2}}, loader.Options{World: 5000})
	if err := l.Start(0, progress.Place{}); err == nil {
		t.Error("more ranks than seeds: not refused")
	}
}
