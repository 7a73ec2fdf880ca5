package nn_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
)

// TestRelationHops: a first rsage layer that reads means of some relations, or of all that have features, has the logits and all the
// gradients of one whose block has all of a node's edges. Nodes 0 … 5 are of a type with 3 features, 6 … 8 of one with 2, the others have a
// learned vector each; the means are computed by hand, and lie in tables of their destinations' type alone.
func TestRelationHops(t *testing.T) {
	const nodes, in, relations = 12, 5, 3
	typeOf := func(v int32) int {
		switch {
		case v < 6:
			return 0
		case v < 9:
			return 1
		}
		return 2
	}
	columns := [][2]int{{0, 3}, {3, 5}, {0, 0}}
	ends := [][2]int{{0, 0}, {1, 0}, {2, 0}} // source and destination of each relation
	r := keyed.New(7).Rand(0)
	x := make([]float32, nodes*in)
	ids := [2][]uint32{make([]uint32, nodes), make([]uint32, nodes)} // types; nodes of the last one
	for v := range int32(nodes) {
		k := typeOf(v)
		for c := columns[k][0]; c < columns[k][1]; c++ {
			x[int(v)*in+c] = float32(r.Normal())
		}
		if ids[0][v] = uint32(1 + k); k == 2 {
			ids[1][v] = uint32(v - 8)
		}
	}
	type edge struct{ src, relation int32 }
	into := make([][]edge, nodes)
	for rel, e := range ends {
		for range 14 {
			s, d := int32(r.Below(nodes)), int32(r.Below(6))
			if typeOf(s) != e[0] || d == 0 { // node 0 has no neighbours
				continue
			}
			into[d] = append(into[d], edge{s, int32(rel)})
			into[s] = append(into[s], edge{d, int32(rel + relations)})
		}
	}
	plain := nn.Config{Model: "rsage", Layers: 2, In: in, Hidden: 4, Out: 3, Relations: 2 * relations, Categories: []int{4, 4}, Seed: 3}
	hop := func(relation int) nn.RelationHop {
		src := ends[relation%relations][relation/relations]
		return nn.RelationHop{Relation: relation, First: columns[src][0], Cols: columns[src][1] - columns[src][0], Vector: src + 1}
	}
	run := func(c nn.Config, featureless bool) (logits, gradients []float32) {
		dev := host.New(host.Options{Threads: 2})
		defer dev.Close() //nolint:errcheck // test
		q, err := gpu.NewQueue(dev)
		if err != nil {
			t.Fatal(err)
		}
		model, err := nn.New(t.Context(), q, c)
		if err != nil {
			t.Fatal(err)
		}
		defer model.Close() //nolint:errcheck // test
		a := gpu.NewArena(dev)
		read := map[int]bool{}
		table := a.Matrix(q, nodes, in)
		upload(q, table, x)
		input := nn.Input{Tables: []gpu.Tensor{table}, Own: []gpu.Tensor{{}, {}, {}}}
		for _, list := range ids {
			k := a.Uint32s(q, list)
			k.Elem = blocks.Float32
			k.Rows, k.Cols, k.Stride = nodes, 1, 1
			input.Tables = append(input.Tables, k)
		}
		index := make([]uint32, nodes)
		for v := range index {
			index[v] = uint32(v)
		}
		input.Index = a.Uint32s(q, index)
		for _, h := range c.RelationHops {
			read[h.Relation] = true
			dst := ends[h.Relation%relations][1-h.Relation/relations]
			rows, places := make([]float32, h.Cols+1), make([]uint32, nodes) // a row of zeros, then those of the type
			for v := range int32(nodes) {
				if typeOf(v) != dst {
					continue
				}
				row, n := make([]float32, h.Cols+1), float32(0)
				for _, e := range into[v] {
					if int(e.relation) == h.Relation {
						n++
						for j := range h.Cols {
							row[j] += x[int(e.src)*in+h.First+j]
						}
					}
				}
				if n > 0 {
					for j := range h.Cols {
						row[j] /= n
					}
					row[h.Cols] = 1
				}
				places[v] = uint32(len(rows) / (h.Cols + 1))
				rows = append(rows, row...)
			}
			m := a.Matrix(q, len(rows)/(h.Cols+1), h.Cols+1)
			upload(q, m, rows)
			input.Tables, input.Own = append(input.Tables, m), append(input.Own, a.Uint32s(q, places))
		}
		groupers := c.Groupers(2)
		graph := func(layer, dst int, skip map[int]bool) gpu.Graph {
			indptr, indices, kinds := []int32{0}, []int32{}, []uint16{}
			for v := range dst {
				for _, e := range into[v] {
					if !skip[int(e.relation)] && (featureless || e.relation%relations != 2) {
						indices, kinds = append(indices, e.src), append(kinds, uint16(e.relation))
					}
				}
				indptr = append(indptr, int32(len(indices)))
			}
			g := gpu.Graph{NumDst: dst, NumSrc: nodes}
			groupers[layer].Group(q, a, &g, indptr, indices, kinds)
			return g
		}
		graphs := []gpu.Graph{{NumDst: nodes, NumSrc: nodes}, graph(0, nodes, read), graph(1, 6, nil)}
		p := &nn.Pass{Queue: q, Arena: a, Train: true}
		out := model.Forward(p, graphs, input)
		logits = floats(out, q)
		grad := a.Matrix(q, out.Rows, out.Cols)
		q.SoftmaxCrossEntropy(out, a.Int32s(q, []int32{0, 1, 2, 0, 1, 2}), grad, model.Stat())
		model.Backward(p, grad)
		for _, w := range model.Params().List() {
			gradients = append(gradients, floats(w.Grad, q)...)
		}
		if err := q.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		return logits, gradients
	}
	for _, of := range [][]int{{0}, {0, 1, 3, 4}, {0, 1, 3, 4, 5}, nil} {
		t.Run(fmt.Sprint(of), func(t *testing.T) {
			featureless := of != nil // edges of the type without features, else blocks are empty
			if !featureless {
				of = []int{0, 1, 3, 4}
			}
			logits, gradients := run(plain, featureless)
			c := plain
			for _, relation := range of {
				c.RelationHops = append(c.RelationHops, hop(relation))
			}
			gotLogits, gotGradients := run(c, featureless)
			near(t, "logits", gotLogits, logits)
			near(t, "gradients", gotGradients, gradients)
		})
	}
	for name, spoil := range map[string]func(*nn.Config){
		"another model": func(c *nn.Config) { c.Model = "rgat" },
		"no vectors":    func(c *nn.Config) { c.Categories = nil },
		"a relation":    func(c *nn.Config) { c.RelationHops[0].Relation = 6 },
		"columns":       func(c *nn.Config) { c.RelationHops[0].First = 3 },
		"a vector":      func(c *nn.Config) { c.RelationHops[0].Vector = 4 },
	} {
		c := plain
		c.RelationHops = []nn.RelationHop{hop(0)}
		if spoil(&c); c.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// near compares numbers of which rounding differs.
func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, expected %d", what, len(got), len(want))
	}
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= 2e-5*(1+math.Abs(float64(want[i])))) {
			t.Fatalf("%s: number %d is %v, expected %v", what, i, got[i], want[i])
		}
	}
}
