package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/generate"
)

// TestCauseErrors: a row says how far each layer's aggregates are from those of all neighbours: of the exact hop nowhere, elsewhere they are.
func TestCauseErrors(t *testing.T) {
	work := t.TempDir()
	g, err := generate.NewSBM(generate.SBMOptions{Nodes: 600, Edges: 6000, Classes: 3, Dim: 8, Signal: 1, Homophily: .7, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := generate.Write(t.Context(), filepath.Join(work, "small"), g, generate.WriteOptions{Threads: 1, Train: .3, Valid: .2, Test: .2}); err != nil {
		t.Fatal(err)
	}
	o := causes{datasets: work, epochs: 2, seeds: 2, threads: 1}
	steps, rows := 0, 0
	last := map[string]float64{} // layer's error
	for _, c := range causeRows() {
		exact := c.name == "in memory, exact hop"
		if !exact && c.name != "8 of 64, first hop sampled, neighbours absent" && c.name != "8 of 64, neighbours absent, shift" && c.name != "8 of 64, neighbours an epoch old, shift" {
			continue
		}
		rows++
		r, err := o.row(t.Context(), work, "small", c, &steps)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Errors) != 2 {
			t.Fatalf("%s: errors %v, expected those of 2 seeds", c.name, r.Errors)
		}
		hop := !strings.Contains(c.name, "sampled")
		for seed, e := range r.Errors {
			if len(e) != 2 || hop != (e[0] < 1e-3) {
				t.Fatalf("%s, seed %d: errors %v; of an exact first layer: %v", c.name, seed, e, hop)
			}
			last[c.name] += e[1]
		}
		if n := strings.Count(r.layerErrors(), ","); n != 1 {
			t.Errorf("%s: %q, expected a number a layer", c.name, r.layerErrors())
		}
	}
	if absent, old := last["8 of 64, neighbours absent, shift"], last["8 of 64, neighbours an epoch old, shift"]; rows != 4 || absent < .1 || old > absent/2 {
		t.Errorf("%d rows, errors of the last layer %v: expected 4, and that a history mends most of what is absent", rows, last)
	}
}
