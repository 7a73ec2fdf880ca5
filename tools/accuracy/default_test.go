package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/generate"
)

// TestDefaultsStores: a graph and its stores are made once, and what was broken off is made anew, not taken for whole.
func TestDefaultsStores(t *testing.T) {
	o := defaults{work: t.TempDir(), seeds: 1, threads: 1}
	g := defaultGraph{name: "small graph", layers: 2, memory: 256 << 20, shares: generate.WriteOptions{Train: .3, Valid: .2, Test: .2},
		model: generate.SBMOptions{Nodes: 600, Edges: 6000, Classes: 3, Dim: 8, Signal: 1, Homophily: .7, Seed: 1}}
	broken, stop := context.WithCancel(t.Context())
	stop()
	if _, err := o.store(broken, &g, true, 0); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, expected that of a run that was broken off", err)
	}
	hops := func(laid bool) (n int) {
		t.Helper()
		for range 2 { // made, and found
			dir, err := o.store(t.Context(), &g, laid, 0)
			if err != nil {
				t.Fatal(err)
			}
			m, err := manifest(dir)
			if err != nil {
				t.Fatal(err)
			}
			if n = 0; m.Nodes != 600 {
				t.Errorf("%d nodes, expected 600", m.Nodes)
			}
			for _, c := range m.ColumnsOf(store.RoleFeature) {
				if c.Derived != "" {
					n++
				}
			}
		}
		return n
	}
	if with, without := hops(true), hops(false); with != 1 || without != 0 {
		t.Errorf("%d hops in a store that is laid out for training out of core, %d in one that fits: expected 1 and none", with, without)
	}
	if err := os.Remove(filepath.Join(o.work, "small-graph", "edge_index.npy")); err != nil {
		t.Fatal(err)
	}
	if _, err := o.store(t.Context(), &g, true, 1); err == nil {
		t.Error("a graph that is there is made again")
	}
}

// TestDefaultsNames: rows and graphs that the table has not are refused before anything is made.
func TestDefaultsNames(t *testing.T) {
	for _, c := range []struct {
		o    defaults
		want string
	}{
		{defaults{rows: []string{"memory", "hanoi/3"}}, `"hanoi/3" is no row`},
		{defaults{graphs: []string{"nothing"}}, "no graph"},
	} {
		c.o.work = filepath.Join(t.TempDir(), "work")
		if err := c.o.run(t.Context(), false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, expected %s", err, c.want)
		}
		if _, err := os.Stat(c.o.work); err == nil {
			t.Errorf("%v: %s was made", c.want, c.o.work)
		}
	}
}

// TestDefaultsBudget: a plan that is asked for and does not fit is left out, what users get unasked is not.
func TestDefaultsBudget(t *testing.T) {
	for row, ok := range map[string]bool{"rows": true, "default": false} {
		o := defaults{work: t.TempDir(), rows: []string{row}, epochs: 1, seeds: 1, threads: 1}
		g := defaultGraph{name: "small", layers: 2, memory: 60 << 20, shares: generate.WriteOptions{Train: .3, Valid: .2, Test: .2},
			model: generate.SBMOptions{Nodes: 600, Edges: 6000, Classes: 3, Dim: 8, Signal: 1, Homophily: .7, Seed: 1}}
		if err := o.graph(t.Context(), &g, true); ok != (err == nil) || !ok && !errors.Is(err, store.ErrBudget) {
			t.Errorf("row %s: error %v", row, err)
		}
	}
}
