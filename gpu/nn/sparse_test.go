package nn_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
)

// sparsen makes most elements of the input 0, and with apart has it read without these.
func (f *fixture) sparsen(apart bool) {
	rows, cols := f.table.Rows, f.table.Cols
	x := floats(f.table, f.q)
	if err := f.q.Sync(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	for i := range x {
		if i%7 != 3 {
			x[i] = 0
		}
	}
	upload(f.q, f.table, x)
	if !apart {
		return
	}
	indptr, columns, values := []int32{0}, []int32(nil), []float32(nil)
	for row := range rows {
		for j, v := range x[row*cols : (row+1)*cols] {
			if v != 0 {
				columns, values = append(columns, int32(j)), append(values, v)
			}
		}
		indptr = append(indptr, int32(len(columns)))
	}
	f.table = gpu.Tensor{Rows: rows, Cols: cols} // nobody reads it
	f.sparse = gpu.Sparse{Cols: cols, Index: f.index, Indptr: f.keep.Int32s(f.q, indptr), Columns: f.keep.Int32s(f.q, columns), Values: f.keep.Float32s(f.q, values)}
}

// A sparse input gives the loss and the gradients of the same rows with their zeros, to the bit.
func TestSparseInput(t *testing.T) {
	for _, model := range nn.Models(func(k *nn.Kind) bool { return k.Sparse }) {
		for _, weights := range []bool{false, true} {
			cfg := nn.Config{Model: model, Layers: 2, In: 65, Hidden: 16, Out: 5, Dropout: .4, Norm: nn.LayerNorm, EdgeWeights: weights && model != "gat", Seed: 3}
			if !cfg.TakesSparse() {
				t.Fatalf("%s takes no sparse input", model)
			}
			cfg.SparseInput = true
			run := func(apart bool) (float64, []float32) {
				f := newFixture(t, cfg, []int{60, 40, 11}, 2)
				f.sparsen(apart)
				loss := f.step(true)
				var grads []float32
				for _, p := range f.model.Params().List() {
					grads = append(grads, floats(p.Grad, f.q)...)
				}
				if err := f.q.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				if model != "gat" && f.choices[0].First != nn.MultiplyFirst.String() {
					t.Errorf("%s: %+v", model, f.choices[0])
				}
				return loss, grads
			}
			loss, want := run(false)
			other, got := run(true)
			if loss != other || !slices.Equal(want, got) || slices.Max(want) <= 0 {
				t.Errorf("%s, weights %v: loss %v and %v, or gradients differ", model, weights, loss, other)
			}
		}
	}
}

// What reads its input otherwise than by a product says that it takes no sparse one.
func TestTakesSparse(t *testing.T) {
	for _, c := range []nn.Config{{Model: "gin"}, {Model: "mlp"}, {Model: "rgcn"}, {Aggregator: "max"}, {InputDropout: .1}, {PrecomputedHop: true}, {Residual: true}, {Order: nn.OrderAggregate}} {
		if c.TakesSparse() {
			t.Errorf("%+v takes a sparse input", c)
		}
	}
	f := newFixture(t, nn.Config{Model: "gcn", Layers: 1, In: 9, Out: 5, SparseInput: true}, []int{30, 10}, 1)
	f.sparsen(true)
	f.sparse.Cols++
	a := gpu.NewArena(f.dev)
	defer func() { _ = a.Close() }()
	graphs := f.graphs(a)
	f.model.ChooseOrders(graphs, 4)
	f.model.Forward(&nn.Pass{Queue: f.q, Arena: a}, graphs, nn.Input{Sparse: f.sparse})
	if err := f.q.Sync(t.Context()); !errors.Is(err, gpu.ErrShape) {
		t.Errorf("a sparse input of another width: %v", err)
	}
}
