package train

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestBegin: a run whose steps change nothing has the parameters that it began with; a model that is not there, or of another
// shape, is refused; options of the model are taken over, but what Given names.
func TestBegin(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 200, Edges: 900, Partitions: 4}))
	small := config.Config{Model: "gin", Hidden: 12, Epochs: 3, BatchSize: 50, LR: .01, Threads: 1, EvalEvery: 1, Seed: 1}
	first, err := trainNode(t.Context(), t, dir, small, Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := first.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, plan := range []string{"memory", "hanoi", "rows"} {
		c := config.Config{Epochs: 1, Threads: 1, Seed: 9, Plan: plan, LR: 1e-30, Given: []string{"lr", "plan"}}
		if plan == "hanoi" {
			c.Buffer = 2
		}
		c.BeginWith(b)
		if c.Model != "gin" || c.Hidden != 12 || c.BatchSize != 50 || c.LR != 1e-30 || c.Epochs != 1 || c.Seed != 9 {
			t.Errorf("begins as %+v", c)
		}
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(first.Params); i += 4 {
			at := func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))) }
			if math.Abs(at(cp.Params)-at(first.Params)) > 1e-20 {
				t.Fatalf("plan %s: steps of nothing changed parameter %d from %v to %v", plan, i/4, at(first.Params), at(cp.Params))
			}
		}
	}
	for _, c := range []struct {
		change func(c *config.Config)
		says   string
	}{
		{func(c *config.Config) { c.BeginWith(b); c.Hidden = 16 }, "has another shape"},
		{func(c *config.Config) { c.BeginWith(b); c.Model = "sage" }, "has another shape"},
		{func(c *config.Config) { c.From = "run 3" }, "whose model is not there"},
		{func(c *config.Config) { d := *b; d.Model.Numbers = new(nn.NumberScale); c.BeginWith(&d) }, "says numbers"},
		{func(c *config.Config) { d := *b; d.ClassNames = []string{"x"}; c.BeginWith(&d) }, ""},
	} {
		cfg := config.Config{Epochs: 1, Threads: 1}
		c.change(&cfg)
		_, err := trainNode(t.Context(), t, dir, cfg, Hooks{})
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v, expected %q", err, c.says)
		}
	}
}

// TestCarryGrows: vectors of nodes that came since are the mean of those that there are, without the first, which stands for none.
func TestCarryGrows(t *testing.T) {
	old := nn.Config{Model: "rsage", Layers: 1, In: 2, Hidden: 4, Out: 3, Relations: 2, Categories: []int{4}}
	var saved []byte
	floats := 1
	for old.CheckFloats(int64(floats)) != nil {
		if floats++; floats > 10_000 {
			t.Fatal(old.CheckFloats(100))
		}
	}
	for i := range floats {
		saved = binary.LittleEndian.AppendUint32(saved, math.Float32bits(float32(i)))
	}
	grown := old
	grown.Categories = []int{6}
	params, err := grown.Carry(&old, saved)
	if err != nil {
		t.Fatal(err)
	}
	was, err := old.Parameters(saved)
	if err != nil {
		t.Fatal(err)
	}
	is, err := grown.Parameters(params)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range is {
		if !strings.HasSuffix(p.Name, ".vectors") {
			if !bytes.Equal(p.Values, was[i].Values) {
				t.Errorf("%s has changed", p.Name)
			}
			continue
		}
		if p.Rows != 6 || !bytes.HasPrefix(p.Values, was[i].Values) {
			t.Fatalf("%s has %d rows, or the first ones have changed", p.Name, p.Rows)
		}
		for row := 4; row < 6; row++ {
			for c := range 4 {
				at := func(r int) float32 {
					return math.Float32frombits(binary.LittleEndian.Uint32(p.Values[4*(4*r+c):]))
				}
				if want := (at(1) + at(2) + at(3)) / 3; math.Abs(float64(at(row)-want)) > 1e-5 {
					t.Errorf("row %d, column %d: %v, expected %v", row, c, at(row), want)
				}
			}
		}
	}
}
