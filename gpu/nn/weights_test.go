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
	if got := f.described(); !got.EdgeWeights || got.Model != "gcn" {
		t.Errorf("the layers describe %+v", got)
	}
	for _, c := range []nn.Config{{Model: "gat"}, {Model: "mlp"}, {Model: "rgcn", Relations: 1}, {Aggregator: "max"}} {
		c.EdgeWeights, c.Layers, c.In, c.Hidden, c.Out = true, 2, 3, 4, 2
		if c.Validate() == nil {
			t.Errorf("edge weights of %s %s were accepted", c.Model, c.Aggregator)
		}
	}
}

// TestEdgeReader: features come by their places, behind the mean of a destination's edges, which is 0 without any.
func TestEdgeReader(t *testing.T) {
	dev := host.New(host.Options{})
	t.Cleanup(func() { _ = dev.Close() })
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	a := gpu.NewArena(dev)
	defer func() { _ = a.Close() }()
	var g gpu.Graph
	new(nn.EdgeReader).Read(q, a, &g, nn.FeaturedEdges{Indptr: []int32{0, 2, 2, 3}, Places: []int64{2, 0, 1}, Rows: []float32{1, 2, 3, 4, 5, 8}, Dim: 2})
	want := []float32{3, 5, 5, 8, 1, 2, 0, 0, 3, 4, 3, 4}
	if got := floats(g.EdgeFeatures, q); g.EdgeFeatures.Rows != 6 || g.EdgeFeatures.Cols != 2 || !slices.Equal(got, want) {
		t.Errorf("features %v, %v, expected %v", g.EdgeFeatures, got, want)
	}
}

// TestEdgeFeatures: the scores that a layer adds up are those of the formula, W applied to an edge's features and multiplied by the
// attention vector; features of 0 give what a model without gives; graphs without any, or of another width, are refused; a
// description brings the width back.
func TestEdgeFeatures(t *testing.T) {
	cfg := nn.Config{Model: "gat", Heads: 1, Layers: 1, In: 4, Out: 2, EdgeDim: 2, Seed: 5}
	f := newFixture(t, cfg, []int{3, 1}, 1)
	f.edges[0] = [2][]int32{{0, 2}, {1, 2}}
	f.features[0] = []float32{1, -2, .5, 3}
	a := gpu.NewArena(f.dev)
	defer func() { _ = a.Close() }()
	g := gpu.Graph{NumDst: 1, NumSrc: 3, Indptr: a.Int32s(f.q, []int32{0, 2}), Indices: a.Int32s(f.q, []int32{1, 2})}
	f.readEdges(&g, a, 0)
	got := floats(f.model.Forward(&nn.Pass{Queue: f.q, Arena: a}, []gpu.Graph{g}, nn.Dense(f.table)), f.q)
	w := map[string][]float32{}
	for _, p := range f.model.Params().List() {
		w[p.Name] = floats(p.Value, f.q)
	}
	times := func(x, w []float32) (y [2]float64) { // [len(x)] × [len(x) × 2]
		for i, v := range x {
			for j := range y {
				y[j] += float64(v) * float64(w[2*i+j])
			}
		}
		return y
	}
	dot := func(x [2]float64, v []float32) float64 { return x[0]*float64(v[0]) + x[1]*float64(v[1]) }
	x := floats(f.table, f.q)
	features := [][]float32{{.75, .5}, {1, -2}, {.5, 3}} // of the self loop the mean
	var sum [2]float64
	total := 0.
	for v, own := range features {
		send := times(x[4*v:4*v+4], w["0.weight"])
		score := dot(send, w["0.src"]) + dot(times(x[:4], w["0.weight"]), w["0.dst"]) + dot(times(own, w["0.edge_weight"]), w["0.edge"])
		if score < 0 {
			score *= .2
		}
		total += math.Exp(score)
		for j := range sum {
			sum[j] += math.Exp(score) * send[j]
		}
	}
	for j := range sum {
		if want := sum[j]/total + float64(w["0.bias"][j]); math.Abs(want-float64(got[j])) > 1e-5 {
			t.Errorf("output %d is %v, expected %v", j, got[j], want)
		}
	}
	cfg = nn.Config{Model: "gat", Heads: 2, Layers: 1, In: 9, Out: 5, Seed: 3}
	plain := newFixture(t, cfg, []int{40, 25}, 1).step(false)
	cfg.EdgeDim = 2
	zero := newFixture(t, cfg, []int{40, 25}, 1)
	if with := zero.step(false); with == plain {
		t.Error("features of edges change nothing")
	}
	clear(zero.features[0])
	if without := zero.step(false); math.Abs(without-plain) > 1e-6 {
		t.Errorf("loss %v with features of 0, %v without features", without, plain)
	}
	for _, dim := range []int{0, 3} {
		g.EdgeFeatures = gpu.Tensor{}
		if dim > 0 {
			g.EdgeFeatures = nn.FeatureRows(a.Float32s(f.q, make([]float32, 3*dim)), dim)
		}
		f.model.Forward(&nn.Pass{Queue: f.q, Arena: a}, []gpu.Graph{g}, nn.Dense(f.table))
		if err := f.q.Sync(t.Context()); !errors.Is(err, gpu.ErrShape) {
			t.Errorf("features of %d columns give %v", dim, err)
		}
	}
	if got := f.described(); got.EdgeDim != 2 {
		t.Errorf("the layers describe %+v", got)
	}
	for _, c := range []nn.Config{{Model: "sage", EdgeDim: 1}, {Model: "gat", EdgeDim: -1}} {
		c.Layers, c.In, c.Hidden, c.Out = 1, 3, 4, 2
		if c.Validate() == nil {
			t.Errorf("%d columns of edges' features for %s were accepted", c.EdgeDim, c.Model)
		}
	}
}
