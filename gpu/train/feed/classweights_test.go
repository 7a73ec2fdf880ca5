package feed

import (
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// TestClassWeights compares weights with scikit-learn's compute_class_weight("balanced", classes=[0, 1, 3], y=[0]*6 + [1]*2 + [3]*4), and
// gradients with those of the plain mean over a mini-batch in which a node comes as often as it weighs.
func TestClassWeights(t *testing.T) {
	w := NewClassWeights([][]store.ClassNodes{{{Class: 0, Nodes: 4}, {Class: 3, Nodes: 4}}, {{Class: 0, Nodes: 2}, {Class: 1, Nodes: 2}}}, 4)
	for c, want := range []float64{2. / 3, 2, 1, 1} {
		if math.Abs(w.of[c]-want) > 1e-12 {
			t.Errorf("class %d weighs %v, expected %v", c, w.of[c], want)
		}
	}
	var none *ClassWeights
	labels := []int32{0, 1, -1, 1, 2}
	if got := none.Total(labels); got != 4 {
		t.Errorf("labels without weights weigh %v, expected 4", got)
	}
	w.of = []float64{1, 3, 2, 1}
	if got := w.Total(labels); got != 9 {
		t.Errorf("labels weigh %v, expected 9", got)
	}
	dev := host.New(host.Options{Threads: 1})
	defer func() { _ = dev.Close() }()
	x := []float32{.1, -.4, .3, .9, .2, .7, -.6, .5, .8, .3}
	gradients := func(labels []int32, rows []uint32, w *ClassWeights) []float32 {
		q, err := gpu.NewQueue(dev)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = q.Close() }()
		m, err := nn.New(t.Context(), q, nn.Config{Model: "mlp", Layers: 2, In: 2, Hidden: 5, Out: 4, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Close() }()
		a := gpu.NewArena(dev)
		defer func() { _ = a.Close() }()
		table, free, err := nn.MapTable(dev, "x", blocks.Bytes(x), 5, 2, 8, blocks.Float32, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer free()
		graphs := slices.Repeat([]gpu.Graph{{NumDst: len(rows), NumSrc: len(rows)}}, 2)
		m.Gradients(&nn.Pass{Queue: q, Arena: a, Train: true}, graphs, nn.Input{Tables: []gpu.Tensor{table}, Index: a.Uint32s(q, rows)},
			nn.Targets{Labels: a.Int32s(q, labels), Divisors: w.Tensor(q, a, labels)})
		var all []float32
		for _, p := range m.Params().List() {
			g := make([]float32, p.Grad.Len())
			q.Download(blocks.Bytes(g), p.Grad)
			all = append(all, g...)
		}
		if err := q.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		return all
	}
	weighed := gradients(labels, []uint32{0, 1, 2, 3, 4}, w)
	repeated := gradients([]int32{0, 1, 1, 1, -1, 1, 1, 1, 2, 2}, []uint32{0, 1, 1, 1, 2, 3, 3, 3, 4, 4}, nil)
	largest := float32(0)
	for i := range weighed {
		if d := math.Abs(float64(weighed[i] - repeated[i])); d > 1e-6 {
			t.Errorf("gradient %d is %v, of repeated nodes %v", i, weighed[i], repeated[i])
		}
		largest = max(largest, weighed[i])
	}
	if largest == 0 {
		t.Error("all gradients are 0")
	}
	if plain := gradients(labels, []uint32{0, 1, 2, 3, 4}, nil); slices.Equal(plain, weighed) {
		t.Error("weights change nothing")
	}
	for _, g := range gradients([]int32{-1, -1}, []uint32{0, 1}, w) {
		if g != 0 {
			t.Errorf("gradient %v without a label", g)
		}
	}
}
