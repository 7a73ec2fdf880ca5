package nn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
)

// TestAsk: what is asked on the host is what the device computes, and its answer is the mean of several queries, or has their direction and
// the length that it is given.
func TestAsk(t *testing.T) {
	a, r := []float32{1, 2, 3, 4}, []float32{.5, -1, 2, 1}
	dev := host.New(host.Options{})
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	arena := gpu.NewArena(dev)
	row := func(x []float32) gpu.Tensor {
		m := arena.Matrix(q, 1, len(x))
		upload(q, m, x)
		return m
	}
	for _, name := range nn.Decoders() {
		d, err := nn.NewDecoder(name, 4)
		if err != nil {
			t.Fatal(err)
		}
		want := floats(d.Query(&nn.Pass{Queue: q, Arena: arena}, row(a), row(r)), q)
		if err := q.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 4)
		d.Ask(got, a, r)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, the device has %v", name, got, want)
		}
		d.Ask(got, a, r)
		d.Answer(got, 2, 9)
		by, length := 1., 0.
		for _, x := range want {
			length += float64(x) * float64(x)
		}
		if name != nn.TransE && name != nn.RotatE {
			by = 3 / math.Sqrt(length)
		}
		for i, x := range want {
			if math.Abs(float64(got[i])-by*float64(x)) > 1e-5 {
				t.Errorf("%s: the answer is %v, expected %v times %v", name, got, by, want)
			}
		}
		none := make([]float32, 4)
		if d.Answer(none, 1, 9); !slices.Equal(none, make([]float32, 4)) && name != nn.TransE && name != nn.RotatE {
			t.Errorf("%s: the answer to nothing is %v", name, none)
		}
	}
}

// TestLinkCarry: a model goes on with the values of one of fewer relations; those that came since are new, and the optimiser's state is, unless
// that goes on too.
func TestLinkCarry(t *testing.T) {
	q, err := gpu.NewQueue(host.New(host.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	state := func(c nn.LinkConfig) []byte {
		m, err := nn.NewLink(t.Context(), q, c)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close() //nolint:errcheck // test
		p := m.Params()
		for _, x := range p.List() {
			q.Fill(x.Grad, .5)
		}
		for range c.Seed { // some steps, each seed's own
			p.Adagrad(q, gpu.AdagradOptions{LR: .1})
		}
		b, err := p.SaveState(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const dim = 4
	from := nn.LinkConfig{Decoder: nn.DistMult, Encoder: "sage", Dim: dim, Relations: 3, Seed: 5}
	to := from
	to.Relations, to.Seed = 5, 1
	saved, fresh := state(from), state(to)
	got, err := to.Carry(&from, saved, fresh, false)
	if err != nil {
		t.Fatal(err)
	}
	if values := (len(fresh) - 16) / 4; !slices.Equal(got[16+values:], fresh[16+values:]) || slices.Equal(got[16:16+values], fresh[16:16+values]) {
		t.Error("the optimiser's state is not new")
	}
	was, err := from.Parameters(saved)
	if err != nil {
		t.Fatal(err)
	}
	is, err := to.Parameters(got)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range is {
		if p.Name != "relations" {
			if !slices.Equal(p.Values, was[i].Values) {
				t.Errorf("%s has changed", p.Name)
			}
			continue
		}
		vectors, err := to.RelationVectors(got)
		if err != nil {
			t.Fatal(err)
		}
		old, err := from.RelationVectors(saved)
		if err != nil {
			t.Fatal(err)
		}
		first, err := to.RelationVectors(fresh)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Concat(old[:3*dim], first[3*dim:5*dim], old[3*dim:], first[8*dim:])
		if !slices.Equal(vectors, want) {
			t.Errorf("relations are %v, expected %v", vectors, want)
		}
	}
	same := from
	same.Seed = 2
	if got, err = same.Carry(&from, saved, state(same), true); err != nil || !slices.Equal(got, saved) {
		t.Errorf("with its steps the same model is another one (%v)", err)
	}
	if got, err = to.Carry(&from, saved, fresh, true); err != nil || slices.Equal(got[16+(len(got)-16)/4:], fresh[16+(len(got)-16)/4:]) {
		t.Errorf("of more relations the steps are new (%v)", err)
	}
	for _, other := range []nn.LinkConfig{
		{Decoder: nn.DistMult, Encoder: "sage", Dim: 2, Relations: 5}, {Decoder: nn.DistMult, Encoder: "none", Dim: dim, Relations: 5},
		{Decoder: nn.DistMult, Encoder: "sage", Dim: dim, Relations: 2}, {Decoder: nn.DistMult, Encoder: "gat", Dim: dim, Relations: 5},
	} {
		if _, err := other.Carry(&from, saved, state(other), true); err == nil {
			t.Errorf("%+v goes on with another model", other)
		}
	}
}
