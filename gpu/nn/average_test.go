package nn_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
)

// TestAverage: averages over steps are those of the values, weighed by polynomial decay; values train on as they were, and a state of both
// goes on from where it was.
func TestAverage(t *testing.T) {
	q, err := gpu.NewQueue(host.New(host.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*nn.Params, *nn.Param) {
		p := nn.NewParams(q.Device())
		t.Cleanup(func() { _ = p.Close() })
		x := p.Add("x", 2, 3, func(*keyed.Rand) float32 { return 0 })
		if err := p.Allocate(t.Context(), q, 1); err != nil {
			t.Fatal(err)
		}
		if err := p.OpenAverage(); err != nil {
			t.Fatal(err)
		}
		return p, x
	}
	read := func(x *nn.Param) float64 {
		host := make([]float32, 6)
		q.Download(blocks.Bytes(host), x.Value)
		if err := q.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		return float64(host[5])
	}
	p, x := open()
	var values []float64
	for s := range 40 {
		q.Fill(x.Grad, float32(s%7)-2)
		p.Adam(q, p.Step(gpu.AdamOptions{LR: .1, Beta1: .9, Beta2: .999, Epsilon: 1e-8}))
		p.Average(q)
		values = append(values, read(x))
	}
	want := 0.
	for i, v := range values {
		w := 10 / float64(i+10)
		want += w * (v - want)
	}
	state, err := p.SaveState(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	last := values[len(values)-1]
	p.SwapAverage(q)
	if got := read(x); math.Abs(got-want) > 1e-5 || math.Abs(want-last) < .01 {
		t.Errorf("the average is %v, expected %v; the last value is %v", got, want, last)
	}
	p.SwapAverage(q)
	if got := read(x); got != last {
		t.Errorf("after an average was used the value is %v, expected %v", got, last)
	}
	other, y := open()
	if err := other.LoadState(t.Context(), q, state); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*nn.Params{p, other} {
		q.Fill(p.List()[0].Grad, 3)
		p.Adam(q, p.Step(gpu.AdamOptions{LR: .1, Beta1: .9, Beta2: .999, Epsilon: 1e-8}))
		p.Average(q)
	}
	one, err := p.SaveState(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	two, err := other.SaveState(t.Context(), q)
	if err != nil || !bytes.Equal(one, two) {
		t.Errorf("a state that was loaded goes on otherwise (%v): %v and %v", err, read(x), read(y))
	}
}
