package nn_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
)

// TestOrdersAgree: both orders of a convolution's products give the same loss
// and gradients up to rounding, and each is really taken.
func TestOrdersAgree(t *testing.T) {
	for _, model := range []string{"sage", "gcn"} {
		for _, dropout := range []float32{0, .4} {
			run := func(order string) (float64, []float32) {
				f := newFixture(t, nn.Config{Model: model, Layers: 3, In: 21, Hidden: 16, Out: 5, Dropout: dropout, Order: order, Seed: 3}, []int{60, 40, 25, 11}, 2)
				loss := f.step(true)
				var grads []float32
				for _, p := range f.model.Params().List() {
					grads = append(grads, floats(p.Grad, f.q)...)
				}
				for _, c := range f.choices {
					if want := map[string]string{"aggregate": "aggregate first", "multiply": "multiply first"}[order]; c.First != want || c.Why != "asked for" {
						t.Errorf("%s, order %s: layer %d is computed %q (%s)", model, order, c.Layer, c.First, c.Why)
					}
				}
				return loss, grads
			}
			loss, want := run("aggregate")
			other, got := run("multiply")
			if math.Abs(loss-other) > 1e-5 {
				t.Errorf("%s, dropout %v: loss %v and %v", model, dropout, loss, other)
			}
			same := true
			for i := range want {
				same = same && want[i] == got[i]
				if d := math.Abs(float64(want[i] - got[i])); d > 1e-5 {
					t.Fatalf("%s, dropout %v: gradient %d is %v and %v", model, dropout, i, want[i], got[i])
				}
			}
			if same {
				t.Errorf("%s, dropout %v: gradients have the same bits: is it one order?", model, dropout)
			}
		}
	}
}

// TestChooseOrders: sparse mini-batches aggregate first, a dense graph with
// wide features multiplies first, and what leaves no choice is said.
func TestChooseOrders(t *testing.T) {
	graph := func(dst, src, edges int) gpu.Graph {
		return gpu.Graph{NumDst: dst, NumSrc: src, Indices: gpu.VectorOf(nil, 0, edges, blocks.Int32)}
	}
	for _, c := range []struct {
		name   string
		cfg    nn.Config
		graphs []gpu.Graph
		want   []string
	}{
		{"sampled", nn.Config{Model: "sage"}, []gpu.Graph{graph(20000, 70000, 90000), graph(1000, 20000, 14000)}, []string{"aggregate first", "aggregate first"}},
		{"sampled", nn.Config{Model: "gcn"}, []gpu.Graph{graph(20000, 70000, 90000), graph(1000, 20000, 14000)}, []string{"aggregate first", "aggregate first"}},
		{"whole, degree 60", nn.Config{Model: "gcn"}, []gpu.Graph{graph(2700, 2700, 160000), graph(2700, 2700, 160000)}, []string{"multiply first", "multiply first"}},
		{"whole, degree 60", nn.Config{Model: "gcn", Order: "aggregate"}, []gpu.Graph{graph(2700, 2700, 160000), graph(2700, 2700, 160000)}, []string{"aggregate first", "aggregate first"}},
		{"input dropout", nn.Config{Model: "gcn", InputDropout: .1, Order: "multiply"}, []gpu.Graph{graph(2700, 2700, 160000), graph(2700, 2700, 160000)}, []string{"aggregate first", "multiply first"}},
		{"maximum", nn.Config{Model: "sage", Aggregator: "max"}, []gpu.Graph{graph(10, 10, 10), graph(10, 10, 10)}, []string{"", ""}},
		{"attention", nn.Config{Model: "gat"}, []gpu.Graph{graph(10, 10, 10), graph(10, 10, 10)}, []string{"", ""}},
	} {
		t.Run(fmt.Sprintf("%s %s %s", c.cfg.Model, c.name, c.cfg.Order), func(t *testing.T) {
			cfg := c.cfg
			cfg.Layers, cfg.In, cfg.Hidden, cfg.Out = 2, 1433, 64, 7
			f := newFixture(t, cfg, []int{30, 20, 10}, 1)
			got := f.model.ChooseOrders(c.graphs, 4)
			if len(got) != 2 {
				t.Fatalf("%d choices for 2 layers", len(got))
			}
			for i, choice := range got {
				if choice.First != c.want[i] || choice.Why == "" || choice.InputGradient != (i > 0) {
					t.Errorf("layer %d: %+v, expected %q", i, choice, c.want[i])
				}
			}
		})
	}
	if err := (&nn.Config{Layers: 1, In: 1, Out: 1, Order: "backwards"}).Validate(); err == nil {
		t.Error("an unknown order was accepted")
	}
}
