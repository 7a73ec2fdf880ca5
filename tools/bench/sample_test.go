package bench

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/sampler/mini"
)

// TestRunSample: all samplers are measured on a small graph, uniform and dense with pruning too, and what is counted of batches holds
// together: dense draws fewer edges and reaches fewer nodes than uniform, and a sampler's ratios are to uniform.
func TestRunSample(t *testing.T) {
	results, err := RunSample(t.Context(), SampleOptions{Nodes: 2000, Edges: 30_000, BatchSize: 50, Rounds: 1, Batches: 3, Prune: mini.Prune{Alpha: .1, Beta: 1}})
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]SampleResult{}
	var names []string
	for _, r := range results {
		of[r.Sampler] = r
		names = append(names, r.Sampler)
	}
	want := slices.Insert(slices.Concat(mini.Samplers(), mini.TimedSamplers()), 1, "uniform, pruned")
	want = slices.Insert(want, slices.Index(want, mini.Dense)+1, "dense, pruned")
	if !slices.Equal(names, want) {
		t.Errorf("measured %q, expected %q", names, want)
	}
	if u, d := of[mini.Uniform], of[mini.Dense]; d.Edges >= u.Edges || d.Inputs >= u.Inputs || u.OfUniform != 1 || u.BatchesOfUniform != 1 || d.BatchesPerSecond <= 0 {
		t.Errorf("dense %+v, uniform %+v", d, u)
	}
}
