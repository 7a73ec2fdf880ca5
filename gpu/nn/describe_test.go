package nn_test

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/nn"
)

// saved are numbers 0, 1, 2, … for all parameters of a model of sage or mlp, or as many as fit c.
func saved(t *testing.T, c nn.Config) []byte {
	t.Helper()
	var b []byte
	for n := range 1 << 16 {
		if c.CheckFloats(int64(n)) == nil {
			return b
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	t.Fatalf("%+v: too many parameters", c)
	return nil
}

// TestFromLayers: a model's layers and parameters, in any order, make the same model again.
func TestFromLayers(t *testing.T) {
	for _, c := range []nn.Config{
		{Model: "sage", Layers: 2, Hidden: 4}, {Model: "sage", Layers: 1}, {Model: "sage", Layers: 3, Hidden: 4, Aggregator: "max", Norm: nn.LayerNorm},
		{Layers: 2, Hidden: 4, Norm: nn.BatchNorm, Residual: true, Jumping: nn.JumpCat}, {Model: "gcn", Layers: 2, Hidden: 4, Jumping: nn.JumpMax},
		{Model: "gat", Layers: 2, Hidden: 4, Heads: 2}, {Model: "gat", Layers: 1}, {Model: "gin", Layers: 2, Hidden: 4}, {Model: "gin", Layers: 1, Hidden: 5},
		{Model: "rgcn", Layers: 2, Hidden: 4, Relations: 3, Bases: 2}, {Model: "rsage", Layers: 2, Hidden: 4, Relations: 3},
		{Model: "rsage", Layers: 1, Hidden: 4, Relations: 2, Categories: []int{3, 5}}, {Model: "mlp", Layers: 2, Hidden: 4},
		{Model: "hgt", Layers: 1, Hidden: 4, Relations: 2, Heads: 2}, {Model: "hgt", Layers: 2, Hidden: 4, Relations: 2, Heads: 2, Jumping: nn.JumpMax},
		{Model: "hgt", Layers: 2, Hidden: 4, Relations: 3, Heads: 2, Categories: []int{5, 3}, NodeTypes: 2, Norm: nn.LayerNorm},
		{Model: "sage", Layers: 2, Hidden: 4, PrecomputedHop: true},
	} {
		c.In, c.Out = 3, 2
		want := saved(t, c)
		parameters, err := c.Parameters(want)
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(parameters)
		got, params, err := nn.FromLayers(c.LayerInfos(), c.Jumping, parameters)
		if err != nil || !bytes.Equal(params, want) || !reflect.DeepEqual(got.LayerInfos(), c.LayerInfos()) || got.Jumps() != c.Jumps() || got.Out != c.Out || got.Relations != c.Relations {
			t.Errorf("%+v: %v, %+v", c, err, got)
		}
	}
}

// TestFromLayersRefused: what is no model of the package's is told by layer or parameter.
func TestFromLayersRefused(t *testing.T) {
	c := nn.Config{Model: "gat", Layers: 2, In: 3, Hidden: 4, Out: 2, Heads: 2}
	for text, change := range map[string]func(l *[]nn.LayerInfo, p *[]nn.Parameter){
		"0 layers":                         func(l *[]nn.LayerInfo, _ *[]nn.Parameter) { *l = nil },
		`model "x" is not known`:           func(l *[]nn.LayerInfo, _ *[]nn.Parameter) { (*l)[0].Kind = "x" },
		"layer 1 is {Kind:gcn":             func(l *[]nn.LayerInfo, _ *[]nn.Parameter) { (*l)[1].Kind = "gcn" },
		"layer 0 is {Kind:gat In:3 Out:4":  func(l *[]nn.LayerInfo, _ *[]nn.Parameter) { (*l)[0].Activation = "tanh" },
		"0.src is missing":                 func(_ *[]nn.LayerInfo, p *[]nn.Parameter) { *p = slices.Delete(*p, 1, 2) },
		"0.src is [2 2], expected [4 1]":   func(_ *[]nn.LayerInfo, p *[]nn.Parameter) { (*p)[1].Rows, (*p)[1].Cols = 2, 2 },
		"2.weight is of none of the model": func(_ *[]nn.LayerInfo, p *[]nn.Parameter) { *p = append(*p, nn.Parameter{Name: "2.weight"}) },
		"expected at most 1000":            func(l *[]nn.LayerInfo, _ *[]nn.Parameter) { (*l)[0].Out = 1 << 40 },
	} {
		layers := c.LayerInfos()
		parameters, err := c.Parameters(saved(t, c))
		if err != nil {
			t.Fatal(err)
		}
		change(&layers, &parameters)
		if _, _, err := nn.FromLayers(layers, "", parameters); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, expected %q in it", err, text)
		}
	}
}
