package nn_test

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
)

// TestVectorsAsParameters: vectors that come with the input give the logits that the same ones give as parameters, and their gradient
// is the rows of the parameter's.
func TestVectorsAsParameters(t *testing.T) {
	const own = 9 // categories of which each has a vector, the 0 for none counted
	base := nn.Config{Model: "rsage", Relations: 3, Layers: 1, In: 3, Hidden: 5, Out: 4, Seed: 8}
	inside, beside := base, base
	inside.Categories, beside.Categories, beside.Vectors = []int{4, own}, []int{4}, true
	f, g := newFixture(t, inside, []int{20, 12}, 1), newFixture(t, beside, []int{20, 12}, 1)
	q := f.q
	saved, err := g.model.Params().Save(t.Context(), g.q)
	if err != nil {
		t.Fatal(err)
	}
	table := make([]float32, own*base.Hidden)
	for i := range table[base.Hidden:] {
		table[base.Hidden+i] = float32(i%7) - 3
	}
	if err := f.model.Params().Load(t.Context(), q, beside.WithVectors(saved, [][]byte{blocks.Bytes(table)})); err != nil {
		t.Fatal(err)
	}
	// Some sources have none, none two.
	ids := []uint32{0, 3, 0, 1, 8, 2, 0, 5}
	n := len(ids)
	var v nn.Vectors
	for i, id := range ids {
		if id > 0 {
			v.Rows, v.At = append(v.Rows, id), append(v.At, uint32(i))
		}
	}
	v.Table = f.keep.Matrix(q, own, base.Hidden)
	upload(q, v.Table, table)
	types := f.categories([]uint32{1, 2, 3, 1, 2, 3, 1, 2})
	d := f.keep.Matrix(q, n, base.Hidden)
	upload(q, d, table[:n*base.Hidden])
	run := func(m *nn.Model, in nn.Input) (y []float32) {
		p := &nn.Pass{Queue: q, Arena: f.keep, Train: true}
		y = floats(m.Layers()[0].Forward(p, &gpu.Graph{NumDst: n, NumSrc: n}, in), q)
		m.Layers()[0].Backward(p, d, false)
		return y
	}
	want := run(f.model, nn.Input{Tables: []gpu.Tensor{f.table.Head(n), types, f.categories(ids)}})
	in := nn.Input{Tables: []gpu.Tensor{f.table.Head(n), types}, Vectors: v}
	got := run(g.model, in)
	grad, rows := floats(f.model.Params().List()[2].Grad, q), floats(g.model.VectorGradient(), q)
	part := in.Rows(3, 4).Vectors
	if err := q.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("states %v, as parameters %v", got, want)
	}
	for k, id := range v.Rows {
		if !slices.Equal(rows[k*base.Hidden:][:base.Hidden], grad[int(id)*base.Hidden:][:base.Hidden]) {
			t.Errorf("gradient of vector %d is %v, as a parameter %v", id, rows[k*base.Hidden:][:base.Hidden], grad[int(id)*base.Hidden:][:base.Hidden])
		}
	}
	if !slices.Equal(part.Rows, []uint32{1, 8, 2}) || !slices.Equal(part.At, []uint32{0, 1, 2}) {
		t.Errorf("of sources 3 to 6 rows %v are at %v, expected [1 8 2] at [0 1 2]", part.Rows, part.At)
	}
	beside.Categories = nil
	if err := beside.Validate(); err == nil {
		t.Error("vectors without an input layer were accepted")
	}
}
