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
	"github.com/gstore/gstore/store"
)

// seedPlans are the plans that take nodes of the caller's.
var seedPlans = []config.Config{{Plan: macro.Memory}, {Plan: macro.Rows}, {Plan: macro.Hanoi, Buffer: 4}, {Plan: macro.Hanoi, Buffer: 3, Reuse: 1}}

// openSeeds opens a loader of small batches.
func openSeeds(t *testing.T, st *store.Store, cfg config.Config, o loader.Options) *loader.Loader {
	t.Helper()
	cfg.Fanouts, cfg.BatchSize, cfg.Seed, cfg.Threads = []int{3, 2}, 20, 5, 2
	l, err := loader.Open(t.Context(), st, cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestLoaderOfGivenNodes: an epoch has every node that is given as often as it has passes, and where these are a split's the batches
// are the split's to the bit.
func TestLoaderOfGivenNodes(t *testing.T) {
	st := loaderGraph(t)
	var thirds, train []store.NodeID
	split, err := st.Features(t.Context(), "split", everyNode(st), nil)
	if err != nil {
		t.Fatal(err)
	}
	for v := range store.NodeID(st.Manifest().Nodes) {
		if v%3 == 1 {
			thirds = append(thirds, v)
		}
		if split[v] == store.SplitTrain {
			train = append(train, v)
		}
	}
	for _, cfg := range seedPlans {
		l := openSeeds(t, st, cfg, loader.Options{Nodes: thirds})
		for epoch := range 2 {
			var seen []store.NodeID
			for _, y := range yields(t, l, epoch, progress.Place{}) {
				seen = append(seen, y.seeds...)
			}
			slices.Sort(seen)
			if want := slices.Repeat(thirds, 1+max(0, cfg.Reuse)); !slices.Equal(seen, slices.Sorted(slices.Values(want))) {
				t.Fatalf("plan %s: %d seeds, expected %d", cfg.Plan, len(seen), len(want))
			}
		}
		if n, err := l.Batches(t.Context(), 2); err != nil || n != len(yields(t, l, 2, progress.Place{})) {
			t.Errorf("plan %s: an epoch of %d batches, %v", cfg.Plan, n, err)
		}
		cfg.LabelShift, cfg.Mixture = config.ShiftOff, config.MixtureRandom // which only splits have
		want := yields(t, openSeeds(t, st, cfg, loader.Options{}), 1, progress.Place{})
		if got := yields(t, openSeeds(t, st, cfg, loader.Options{Nodes: train}), 1, progress.Place{}); !reflect.DeepEqual(got, want) {
			t.Errorf("plan %s: training nodes by name have other batches than the split's (%d, %d)", cfg.Plan, len(got), len(want))
		}
	}
	for _, bad := range [][]store.NodeID{{}, {3, 3}, {5, 4}, {store.NodeID(st.Manifest().Nodes)}} {
		if l, err := loader.Open(t.Context(), st, config.Config{Fanouts: []int{2}, BatchSize: 10, Threads: 1}, loader.Options{Nodes: bad}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("nodes %v are taken: %v, %v", bad, l, err)
		}
	}
}

// TestLoaderOfFullBatches: no batch is smaller, those that are are the others' seeds, and as many as said.
func TestLoaderOfFullBatches(t *testing.T) {
	st := loaderGraph(t)
	for _, cfg := range seedPlans {
		for _, sequential := range []bool{false, true} {
			l := openSeeds(t, st, cfg, loader.Options{Full: true, Sequential: sequential})
			all := yields(t, l, 0, progress.Place{})
			seen := map[store.NodeID]int{}
			for _, y := range all {
				if len(y.seeds) != 20 {
					t.Fatalf("plan %s: a batch of %d", cfg.Plan, len(y.seeds))
				}
				for _, v := range y.seeds {
					seen[v]++
				}
			}
			if n, err := l.Batches(t.Context(), 0); err != nil || n != len(all) || n == 0 {
				t.Errorf("plan %s: %d batches, %d were said: %v", cfg.Plan, len(all), n, err)
			}
			for v, n := range seen {
				if n > 1+cfg.Reuse {
					t.Errorf("plan %s: node %d is there %d times", cfg.Plan, v, n)
				}
			}
		}
	}
}

// TestLoaderOfLists: in plan memory batches are those that are asked for, in their order, drawn as others are; other plans refuse.
func TestLoaderOfLists(t *testing.T) {
	st := loaderGraph(t)
	l := openSeeds(t, st, config.Config{Plan: macro.Memory}, loader.Options{})
	nodes, ends := []store.NodeID{5, 899, 5, 0, 17, 4}, []int64{2, 5, 6}
	if err := l.StartLists(0, progress.Place{}, nodes, ends); err != nil {
		t.Fatal(err)
	}
	var got [][]store.NodeID
	for l.Next() {
		got = append(got, nodesOf(l.MacroBatch(), l.Batch().Seeds))
	}
	if want := [][]store.NodeID{{5, 899}, {5, 0, 17}, {4}}; l.Err() != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("batches %v, %v: expected %v", got, l.Err(), want)
	}
	if n := len(yields(t, l, 0, progress.Place{})); n == 3 { // the split's again
		t.Errorf("an epoch after lists has %d batches", n)
	}
	if err := l.StartLists(0, progress.Place{Batch: 1}, nodes, ends); err != nil || !l.Next() || len(l.Batch().Seeds) != 3 {
		t.Errorf("the second list: %v", err)
	}
	for _, bad := range []struct {
		nodes []store.NodeID
		ends  []int64
	}{{[]store.NodeID{900}, []int64{1}}, {[]store.NodeID{1}, []int64{2}}, {[]store.NodeID{1}, []int64{0}}, {[]store.NodeID{1, 2}, []int64{2, 1}}} {
		if err := l.StartLists(0, progress.Place{}, bad.nodes, bad.ends); err == nil {
			t.Errorf("%v ending at %v are taken", bad.nodes, bad.ends)
		}
	}
	if err := openSeeds(t, st, config.Config{Plan: macro.Hanoi, Buffer: 4}, loader.Options{}).StartLists(0, progress.Place{}, nodes, ends); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("plan hanoi: %v", err)
	}
}

// everyNode are the nodes of a store.
func everyNode(st *store.Store) (nodes []store.NodeID) {
	for v := range store.NodeID(st.Manifest().Nodes) {
		nodes = append(nodes, v)
	}
	return nodes
}
