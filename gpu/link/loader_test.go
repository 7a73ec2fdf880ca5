package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
)

// recorder keeps of each batch what it asks, by node.
type recorder struct {
	mu   sync.Mutex
	seen map[mini.Key]string
}

// nodesOf translates rows of a macro-batch.
func nodesOf(mb *buffer.MacroBatch, rows []uint32) (ids []store.NodeID) {
	for _, row := range rows {
		i := slices.IndexFunc(mb.Partitions, func(p buffer.ResidentPartition) bool { return row-p.Base < p.Nodes })
		ids = append(ids, mb.Partitions[i].First+store.NodeID(row-mb.Partitions[i].Base))
	}
	return ids
}

func (r *recorder) finish(mb *buffer.MacroBatch, b *mini.Batch, e *Edges) error {
	text := fmt.Sprint(nodesOf(mb, b.Input), b.Blocks, *e)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[b.Key] = text
	return nil
}

// TestLoaderYieldsTrainingsBatches: seeds, neighbours, questions and wrong answers are those that a session trains on, from the
// beginning and from a place inside an epoch on; partitions' rows in memory are the table's, and what a step changes is kept.
func TestLoaderYieldsTrainingsBatches(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: 2000, Partitions: 12, Relations: 3, Seed: 3}))
	for _, c := range []Config{
		{Plan: macro.Memory},
		{Plan: macro.Memory, Group: 4},
		{Plan: macro.Comet, Buffer: 6},
		{Plan: macro.Comet, Buffer: 6, Encoder: "sage", Fanouts: []int{3}, DegreeShare: .5},
	} {
		c.Dim, c.BatchSize, c.Negatives, c.Chunks, c.Seed, c.Threads, c.EvalEvery, c.Epochs = 4, 50, 6, 3, 5, 2, -1, 2
		st := storetest.Open(t, dir, store.Options{})
		dev := host.New(host.Options{Threads: 2})
		cfg := c
		if err := cfg.Normalize(); err != nil {
			t.Fatal(err)
		}
		s, want := &session{cfg: &cfg, st: st}, recorder{seen: map[mini.Key]string{}}
		if err := errors.Join(s.prepare(t.Context(), dev, false), s.open(t.Context(), dev, nil)); err != nil {
			t.Fatal(err)
		}
		s.t.batches.finish = want.finish
		if err := errors.Join(s.train(t.Context(), dev, progress.Interval{}), s.closeRun(), s.close()); err != nil {
			t.Fatal(err)
		}
		var got recorder
		run := func(from []progress.Place) (places []progress.Place) {
			got.seen = map[mini.Key]string{}
			l, err := OpenLoader(t.Context(), st, c, LoaderOptions{Finish: got.finish, Info: dev.Info()})
			if err != nil {
				t.Fatal(err)
			}
			for e := range 2 {
				if err := l.Start(e, from[e]); err != nil {
					t.Fatal(err)
				}
				before := len(l.MacroBatch().Partitions)
				for l.Next() {
					places = append(places, l.Place())
				}
				// Whoever reads a table's rows looks here for where they are.
				if after := len(l.MacroBatch().Partitions); before+after > 0 {
					t.Errorf("%+v: %d partitions are in hand before an epoch's first batch, %d behind its last", c, before, after)
				}
			}
			if err := errors.Join(l.Err(), l.Close()); err != nil {
				t.Fatal(err)
			}
			return places
		}
		places := run(make([]progress.Place, 2))
		if len(got.seen) != len(want.seen) || len(places) != len(want.seen) {
			t.Fatalf("%+v: %d batches, %d places, training has %d", c, len(got.seen), len(places), len(want.seen))
		}
		for k, text := range want.seen {
			if got.seen[k] != text {
				t.Fatalf("batch %+v is\n%s\nexpected\n%s", k, got.seen[k], text)
			}
		}
		// From the middle of either epoch on.
		from := []progress.Place{places[len(places)/4], places[3*len(places)/4]}
		if rest := run(from); len(rest) == 0 || len(rest) >= len(places) || rest[0].Batch != from[0].Batch+1 && rest[0].Step == from[0].Step {
			t.Fatalf("%+v: %d batches from %+v, %d of all", c, len(rest), from, len(places))
		}
		for k, text := range got.seen {
			if want.seen[k] != text {
				t.Fatalf("resumed batch %+v differs", k)
			}
		}
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLoaderRanks: ranks do equally many batches of no more than the batch size, and their edges together are the epoch's of one.
func TestLoaderRanks(t *testing.T) {
	st := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: 2000, Partitions: 12, Relations: 3, Seed: 3})), store.Options{})
	for _, c := range []Config{{Plan: macro.Memory}, {Plan: macro.Comet, Buffer: 4}, {Plan: macro.Comet, Buffer: 8}} {
		c.BatchSize, c.Negatives, c.Chunks, c.Seed, c.Threads = 50, 6, 3, 5, 2
		edges := func(o LoaderOptions, epoch int) (all []string, batches int) {
			var mu sync.Mutex
			o.Finish = func(mb *buffer.MacroBatch, b *mini.Batch, e *Edges) error {
				mu.Lock()
				defer mu.Unlock()
				nodes := nodesOf(mb, b.Seeds)
				for i := range e.Heads {
					all = append(all, fmt.Sprint(nodes[e.Heads[i]], e.Relations[i], nodes[e.Tails[i]]))
				}
				if len(e.Heads) > c.BatchSize || len(e.Heads) == 0 {
					t.Errorf("a batch of %d edges", len(e.Heads))
				}
				return nil
			}
			l, err := OpenLoader(t.Context(), st, c, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Start(epoch, progress.Place{}); err != nil {
				t.Fatal(err)
			}
			for l.Next() {
				batches++
			}
			if err := errors.Join(l.Err(), l.Close()); err != nil {
				t.Fatal(err)
			}
			slices.Sort(all)
			return all, batches
		}
		for _, world := range []int{2, 3} {
			want, _ := edges(LoaderOptions{}, 1)
			got, each := edges(LoaderOptions{World: world}, 1)
			for rank := 1; rank < world; rank++ {
				more, n := edges(LoaderOptions{World: world, Rank: rank}, 1)
				if got = append(got, more...); n != each || n < 10 {
					t.Errorf("plan %s: rank %d has %d batches, rank 0 %d", c.Plan, rank, n, each)
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("plan %s, %d ranks: %d edges, expected the epoch's %d", c.Plan, world, len(got), len(want))
			}
		}
	}
	for _, o := range []LoaderOptions{{World: 2, Rank: 2}, {World: 2, Rank: -1}} {
		if _, err := OpenLoader(t.Context(), st, Config{}, o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("rank %d of %d: %v", o.Rank, o.World, err)
		}
	}
}

// TestLoaderRefuses: graphs whose edges have no direction, tables of another shape.
func TestLoaderRefuses(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 60, Partitions: 3, Undirected: true, Seed: 3}))
	if l, err := OpenLoader(context.Background(), storetest.Open(t, dir, store.Options{}), Config{}, LoaderOptions{}); err == nil {
		t.Error("opened a loader of an undirected graph", l.Close())
	}
}

// TestNegativesFromAuto: half of the negatives come from where answers may lie in graphs whose nodes have many edges, in others
// from all that is in memory; what is asked for stays.
func TestNegativesFromAuto(t *testing.T) {
	for _, c := range []struct {
		edges      int
		from, want string
	}{{2000, "", FromMixed}, {1000, "", FromResident}, {1000, FromAnswers, FromAnswers}} {
		dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: c.edges, Partitions: 12, Relations: 3, Seed: 3}))
		l, err := OpenLoader(t.Context(), storetest.Open(t, dir, store.Options{}), Config{Plan: macro.Comet, Buffer: 6, Dim: 4, NegativesFrom: c.from}, LoaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Config().NegativesFrom; got != c.want {
			t.Errorf("%d edges, asked for %q: negatives from %s, expected %s", c.edges, c.from, got, c.want)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBatchEdgesHidden: a batch's edges are hidden from an encoder; where nodes have many edges half of them are not, or out of core twice
// the share of partitions in memory.
func TestBatchEdgesHidden(t *testing.T) {
	hide := true
	for _, c := range []struct {
		edges int
		cfg   Config
		want  bool
		keep  float64
	}{
		{2000, Config{Encoder: "sage", Plan: macro.Comet, Buffer: 2, Logical: 12}, true, 1. / 3},
		{2000, Config{Encoder: "sage", Plan: macro.Comet, Buffer: 6}, true, .5},
		{2000, Config{Encoder: "sage", Plan: macro.Memory}, true, .5},
		{1000, Config{Encoder: "sage", Plan: macro.Comet, Buffer: 4}, true, 0},
		{1000, Config{Encoder: "gat", Plan: macro.Memory}, true, 0},
		{1000, Config{Encoder: "none", Plan: macro.Memory}, false, 0},
		{2000, Config{Encoder: "sage", Plan: macro.Comet, Buffer: 4, RemoveBatchEdges: &hide}, true, 0},
		{2000, Config{Encoder: "sage", Plan: macro.Memory, KeepBatchEdges: .3}, true, .3},
	} {
		dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: c.edges, Partitions: 12, Relations: 3, Seed: 3}))
		c.cfg.Dim = 4
		l, err := OpenLoader(t.Context(), storetest.Open(t, dir, store.Options{}), c.cfg, LoaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Config(); *got.RemoveBatchEdges != c.want || got.KeepBatchEdges != c.keep {
			t.Errorf("%d edges, encoder %s, plan %s: a batch's edges are hidden: %v, but for %v; expected %v, %v", c.edges, c.cfg.Encoder, c.cfg.Plan, *got.RemoveBatchEdges, got.KeepBatchEdges, c.want, c.keep)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []Config{{Encoder: "sage", KeepBatchEdges: 2}, {Encoder: "sage", KeepBatchEdges: -.5}, {KeepBatchEdges: .5}, {Encoder: "sage", RemoveBatchEdges: new(bool), KeepBatchEdges: .5}} {
		if err := c.Normalize(); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "keep_batch_edges") {
			t.Errorf("encoder %q keeps %v of a batch's edges: %v, expected a refusal", c.Encoder, c.KeepBatchEdges, err)
		}
	}
}
