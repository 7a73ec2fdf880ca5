package nn_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
)

// TestEdgeWeigher holds the weights of messages against the formulas, written out: of three destinations, one with two of four
// neighbours sampled, one with edges of weight 0 alone, one without.
func TestEdgeWeigher(t *testing.T) {
	dev := host.New(host.Options{})
	t.Cleanup(func() { _ = dev.Close() })
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	k := nn.WeighedEdges{Indptr: []int32{0, 2, 3, 3}, Indices: []int32{3, 1, 0}, Weights: []float32{1, 3, 0}, Degrees: []int32{4, 1, 0}, Sums: []float64{8, 0, 0, 5}}
	root := math.Sqrt
	for _, c := range []struct {
		model string
		want  []float64
	}{
		{"sage", []float64{.25, .75, 0}},
		// A self loop, then the edges: of the first one half was sampled.
		{"gcn", []float64{1. / 9, 2 * 1 / root(9*6), 2 * 3 / root(9*1), 1, 0, 1}},
	} {
		cfg := nn.Config{Model: c.model, EdgeWeights: true}
		a := gpu.NewArena(dev)
		var g gpu.Graph
		cfg.EdgeWeighers(1)[0].Weigh(q, a, &g, k)
		if g.Weights.Rows != len(c.want) || g.Weights.Cols != 1 {
			t.Fatalf("%s: weights are %v, expected [%d×1]", c.model, g.Weights, len(c.want))
		}
		for i, w := range floats(g.Weights, q) {
			if math.Abs(float64(w)-c.want[i]) > 1e-7 {
				t.Errorf("%s: weight %d is %v, expected %v", c.model, i, w, c.want[i])
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEqualWeights: neighbours that all weigh 1 give what a model without weights gives; graphs without weights are refused.
func TestEqualWeights(t *testing.T) {
	for _, model := range []string{"sage", "gcn"} {
		cfg := nn.Config{Model: model, Layers: 1, In: 9, Hidden: 8, Out: 5, Seed: 3}
		sizes := []int{40, 25}
		want := newFixture(t, cfg, sizes, 1).step(false)
		cfg.EdgeWeights = true
		f := newFixture(t, cfg, sizes, 1)
		for l := range f.weights {
			f.weights[l] = slices.Repeat([]float32{1}, len(f.weights[l]))
		}
		f.degreeSums = true
		if got := f.step(false); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: loss %v with weights of 1, %v without weights", model, got, want)
		}
		a := gpu.NewArena(f.dev)
		g := gpu.Graph{NumDst: 1, NumSrc: 2, Indptr: a.Int32s(f.q, []int32{0, 1}), Indices: a.Int32s(f.q, []int32{1})}
		f.model.Forward(&nn.Pass{Queue: f.q, Arena: a}, []gpu.Graph{g}, nn.Dense(f.table))
		if err := f.q.Sync(t.Context()); !errors.Is(err, gpu.ErrShape) {
			t.Errorf("%s: a graph without weights gives %v", model, err)
		}
		_ = a.Close()
	}
}

// TestEdgeWeightsDescribed: what a model is weighted by comes back from its description.
func TestEdgeWeightsDescribed(t *testing.T) {
	cfg := nn.Config{Model: "gcn", EdgeWeights: true, Layers: 2, In: 3, Hidden: 4, Out: 2}
	f := newFixture(t, cfg, []int{9, 5, 3}, 1)
	saved, err := f.model.Params().Save(t.Context(), f.q)
	if err != nil {
		t.Fatal(err)
	}
	ps, err := cfg.Parameters(saved)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := nn.FromLayers(cfg.LayerInfos(), "", ps); err != nil || !got.EdgeWeights || got.Model != "gcn" {
		t.Errorf("the layers describe %+v, %v", got, err)
	}
	for _, c := range []nn.Config{{Model: "gat"}, {Model: "mlp"}, {Model: "rgcn", Relations: 1}, {Aggregator: "max"}} {
		c.EdgeWeights, c.Layers, c.In, c.Hidden, c.Out = true, 2, 3, 4, 2
		if c.Validate() == nil {
			t.Errorf("edge weights of %s %s were accepted", c.Model, c.Aggregator)
		}
	}
}
