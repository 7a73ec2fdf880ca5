package train

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/loader"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// TestLoaderHistory: of every training node of every step, rest and divisor complete a mean over the neighbours in memory to that over
// all neighbours that have a state, whatever rows are kept as and however the pass is cut; an epoch's rows are of the states at its first
// Pull, and a history that takes states and rows over goes on with them.
func TestLoaderHistory(t *testing.T) {
	st := loaderGraph(t)
	const dim, nodes = 5, 900
	all := make([]store.NodeID, nodes)
	for v := range all {
		all[v] = store.NodeID(v)
	}
	in, err := st.Neighbors(t.Context(), all, store.NeighborOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		elem      blocks.ElemType
		memory    int64
		tolerance float64
		world     int
	}{{0, 0, 1e-5, 0}, {blocks.Float16, 1 << 10, 1e-3, 0}, {blocks.BFloat16, 0, 1e-2, 2}} {
		l := openLoader(t, st, config.Config{BatchSize: 20, Fanouts: []int{3, 2}, Seed: 5, Plan: macro.Hanoi, Buffer: 3, Reuse: 1, Threads: 2}, loader.Options{World: c.world})
		open := func() *loader.History {
			h, err := loader.OpenHistory(t.Context(), st, hostDevice(t), l, loader.HistoryOptions{Dim: dim, Elem: c.elem, MemoryBytes: c.memory})
			for errors.Is(err, store.ErrBudget) { // until about the smallest
				c.memory += 1 << 10
				h, err = loader.OpenHistory(t.Context(), st, hostDevice(t), l, loader.HistoryOptions{Dim: dim, Elem: c.elem, MemoryBytes: c.memory})
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			})
			return h
		}
		h := open()
		if c.memory > 0 && h.Eval.Tiles() < 2 {
			t.Error("the pass is not cut")
		}
		r := rand.New(rand.NewPCG(1, 2))
		states, known := make([]float32, nodes*dim), make([]bool, nodes)
		push := func(share float64) {
			for v := range all {
				if r.Float64() > share {
					continue
				}
				known[v] = true
				for j := range dim {
					states[v*dim+j] = r.Float32()*2 - 1
				}
				if err := h.Push(all[v:v+1], states[v*dim:][:dim]); err != nil {
					t.Fatal(err)
				}
			}
		}
		push(.7)
		rest, divisors := make([]float32, 20*dim), make([]float32, 20)
		absent, moved := 0, false
		for epoch := range 2 {
			if err := l.Start(epoch, progress.Place{}); err != nil {
				t.Fatal(err)
			}
			was, had := slices.Clone(states), slices.Clone(known)
			for n := 0; l.Next(); n++ {
				mb, b := l.MacroBatch(), l.Batch()
				seeds := nodesOf(mb, b.Seeds)
				if err := h.Pull(t.Context(), seeds, rest[:len(seeds)*dim], divisors[:len(seeds)]); err != nil {
					t.Fatal(err)
				}
				resident := make([]bool, nodes)
				for _, p := range mb.Partitions {
					for k := range p.Nodes {
						resident[p.First+store.NodeID(k)] = true
					}
				}
				for i, v := range seeds {
					sum, have, away := make([]float64, dim), 0, 0
					for _, u := range in.Nodes[in.Indptr[v]:in.Indptr[v+1]] {
						switch {
						case resident[u]:
							have++
						case had[u]:
							away++
							for j := range sum {
								sum[j] += float64(was[int(u)*dim+j])
							}
						}
					}
					absent += away
					divisor := float32(1)
					if have > 0 {
						divisor = float32(have+away) / float32(have)
					}
					if divisors[i] != divisor {
						t.Fatalf("node %d: divisor %v, expected %v of %d neighbours and %d away", v, divisors[i], divisor, have, away)
					}
					for j, x := range sum {
						x /= float64(max(1, have+away))
						if got := float64(rest[i*dim+j]); math.Abs(got-x) > c.tolerance {
							t.Fatalf("node %d, column %d: %v, expected %v", v, j, got, x)
						}
					}
				}
				if epoch == 1 && n == 7 { // what is pushed counts from the next epoch on, and another history goes on with all of it
					at, rows, err := h.Rows()
					if err != nil {
						t.Fatal(err)
					}
					other, pushed, some := open(), slices.Clone(states), slices.Clone(known)
					if err := errors.Join(other.SetRows(at, rows), h.States(all, states, known)); err != nil {
						t.Fatal(err)
					}
					for v := range all {
						if known[v] {
							err = errors.Join(err, other.Push(all[v:v+1], states[v*dim:][:dim]))
						}
					}
					if _, again, _ := other.Rows(); err != nil || at != 1 || !bytes.Equal(again, rows) || !slices.Equal(known, some) || !slices.Equal(states, pushed) {
						t.Fatal("another history has other rows or states", err)
					}
					h, moved = other, true
				}
				push(.02)
			}
			if l.Err() != nil {
				t.Fatal(l.Err())
			}
		}
		if absent == 0 || !moved {
			t.Errorf("%d neighbours were away; moved %v", absent, moved)
		}
		if err := h.Pull(t.Context(), nil, nil, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("no batch in hand: %v", err)
		}
		if err := l.Start(5, progress.Place{}); err != nil || !l.Next() {
			t.Fatal(err, l.Err())
		}
		i := slices.IndexFunc(l.Mb.Partitions, func(p buffer.ResidentPartition) bool { return p.First == 0 })
		if err := h.Pull(t.Context(), all[:1], rest[:dim], divisors[:1]); i < 0 && !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a node of another step: %v", err)
		}
		if err := h.Push([]store.NodeID{nodes}, rest[:dim]); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("node %d of %d: %v", nodes, nodes, err)
		}
	}
	valid := openLoader(t, st, config.Config{Plan: macro.Hanoi, Buffer: 3}, loader.Options{Seeds: "valid"})
	if _, err := loader.OpenHistory(t.Context(), st, hostDevice(t), valid, loader.HistoryOptions{Dim: dim}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a history of validation nodes: %v", err)
	}
}
