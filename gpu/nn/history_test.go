package nn_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
)

// TestHistoryGradients: where neighbours outside memory complete the last layer's means, gradients of the layers below
// follow the means over the neighbours that are there, divided by all.
func TestHistoryGradients(t *testing.T) {
	for _, c := range []struct{ model, order string }{{"sage", nn.OrderAuto}, {"sage", "aggregate"}, {"sage", "multiply"}, {"gcn", "aggregate"}, {"gcn", "multiply"}, {"gin", ""}} {
		for _, layers := range []int{2, 3} {
			model, order := c.model, c.order
			t.Run(fmt.Sprintf("%s, %d layers, %s", model, layers, order), func(t *testing.T) {
				const hidden = 5
				f := newFixture(t, nn.Config{Model: model, Layers: layers, In: 4, Hidden: hidden, Out: 3, Order: order, Seed: 3}, []int{40, 25, 16, 11}[3-layers:], 2)
				r := keyed.New(5).Rand(1)
				n := f.sizes[layers]
				divisors, rest := make([]float32, n), make([]float32, n*hidden)
				for i := range divisors {
					divisors[i] = 1 + float32(r.Below(8))/2
				}
				for i := range rest {
					rest[i] = float32(r.Normal())
				}
				h := &nn.History{Layer: layers - 1, Divisors: f.keep.Vector(f.q, n, blocks.Float32), Rest: f.keep.Matrix(f.q, n, hidden)}
				f.histories = []*nn.History{h}
				upload(f.q, h.Divisors, divisors)
				upload(f.q, h.Rest, rest)
				checkGradients(t, f)
			})
		}
	}
}

// TestHistoryOfAttention: absent neighbours of one state are attended to as if they were there, once each, and gradients are of that.
func TestHistoryOfAttention(t *testing.T) {
	const hidden, heads = 6, 2
	for _, layers := range []int{2, 3} {
		f := newFixture(t, nn.Config{Model: "gat", Heads: heads, Layers: layers, In: 4, Hidden: hidden, Out: 3, Seed: 3}, []int{40, 25, 16, 11}[3-layers:], 2)
		r := keyed.New(5).Rand(1)
		n, edges := f.sizes[layers], f.edges[layers-1]
		counts, rest := make([]float32, n), make([]float32, n*hidden)
		for i := range counts {
			counts[i] = float32(r.Below(4))
		}
		for i := range rest {
			rest[i] = float32(r.Normal())
		}
		h := &nn.History{Layer: layers - 1, Rest: f.keep.Matrix(f.q, n, hidden)}
		upload(f.q, h.Rest, rest)
		var absent nn.AbsentEdges
		absent.Complete(f.q, f.keep, h, f.sizes[layers-1], edges[0], edges[1], counts, heads)
		f.histories = []*nn.History{h}
		checkGradients(t, f)

		// The last layer alone, of states of which the absent ones are the last, as many times as they count.
		last := f.model.Layers()[layers-1]
		m := f.sizes[layers-1]
		all := f.keep.Matrix(f.q, m+n, hidden)
		states := make([]float32, m*hidden)
		for i := range states {
			states[i] = float32(r.Normal())
		}
		upload(f.q, all.Head(m), states)
		f.q.Copy(all.View(m, 0, n, hidden), h.Rest)
		indptr, indices := []int32{0}, []int32{}
		for d, count := range counts {
			indices = append(indices, edges[1][edges[0][d]:edges[0][d+1]]...)
			for range int(count) {
				indices = append(indices, int32(m+d))
			}
			indptr = append(indptr, int32(len(indices)))
		}
		whole := gpu.Graph{NumDst: n, NumSrc: m + n, Indptr: f.keep.Int32s(f.q, indptr), Indices: f.keep.Int32s(f.q, indices)}
		part := gpu.Graph{NumDst: n, NumSrc: m, Indptr: f.keep.Int32s(f.q, edges[0]), Indices: f.keep.Int32s(f.q, edges[1])}
		want := floats(last.Forward(&nn.Pass{Queue: f.q, Arena: f.keep, Train: true}, &whole, nn.Dense(all)), f.q)
		got := floats(last.Forward(&nn.Pass{Queue: f.q, Arena: f.keep, Train: true, Histories: f.histories}, &part, nn.Dense(all.Head(m))), f.q)
		if err := f.q.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Abs(float64(got[i]-want[i])) > 1e-5 {
				t.Fatalf("%d layers: output %d is %v, with the neighbours there %v", layers, i, got[i], want[i])
			}
		}
	}
}

// TestHistoryGradientsOfRelations: likewise where relations are told apart, in all layers.
func TestHistoryGradientsOfRelations(t *testing.T) {
	for name, cfg := range variants() {
		if cfg.Relations == 0 || cfg.Norm == "batch" || cfg.Jumping != "" || cfg.Kind().History == nn.NoHistory { // which completes no means
			continue
		}
		t.Run(name, func(t *testing.T) {
			cfg.Layers, cfg.In, cfg.Hidden, cfg.Out, cfg.Seed = 2, 4, 5, 3, 3
			f := newFixture(t, cfg, []int{25, 16, 11}, 2)
			plain := f.step(false)
			r := keyed.New(5).Rand(1)
			for l := range cfg.Layers {
				dim := cfg.Hidden
				if l == 0 && cfg.Categories == nil {
					dim = cfg.In
				}
				// Every other destination has a group of the last relation, mostly without an edge.
				f.groupers[l].More = func(d int) []uint16 { return []uint16{uint16(cfg.Relations - 1)}[:d%2] }
				f.step(false)
				relations, _ := f.groupers[l].Groups()
				divisors, rest := make([]float32, len(relations)), make([]float32, len(relations)*dim)
				for i := range divisors {
					divisors[i] = float32(r.Below(8)) / 2
					divisors[i] += min(divisors[i], 1) // 0, or 1 and more
				}
				for i := range rest {
					rest[i] = float32(r.Normal())
				}
				h := &nn.History{Layer: l, Divisors: f.keep.Vector(f.q, len(divisors), blocks.Float32), Rest: f.keep.Matrix(f.q, len(relations), dim)}
				upload(f.q, h.Divisors, divisors)
				upload(f.q, h.Rest, rest)
				f.histories = append(f.histories, h)
				if loss := f.step(false); loss == plain {
					t.Errorf("layer %d: loss %v with and without its history", l, loss)
				}
			}
			checkGradients(t, f)
		})
	}
}
