package nn

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
)

// oracleCase is a case of testdata/hgt.json, which testdata/hgt.py made with PyG.
type oracleCase struct {
	In, Out, Heads, Relations int
	Types                     []uint32
	Edges                     [][3]int       // source, destination, relation
	X                         [][]float32    // a row a node
	Y, Upstream               [][]float64    // the output, empty of nodes that PyG has none for, and its gradient
	Parameters                map[string]any // of gstore's layout
	Gradients                 map[string]any
}

func flat(v any) (out []float64) {
	switch v := v.(type) {
	case float64:
		return []float64{v}
	case []any:
		for _, x := range v {
			out = append(out, flat(x)...)
		}
	}
	return out
}

// TestHGTConv: a layer's output and all parameters' gradients are those of PyG's HGTConv, from as many columns as it has
// and from fewer, on edges of a destination that lie in the order of their sources, whatever their relations; and so is
// the output where sources arrive in two parts.
func TestHGTConv(t *testing.T) {
	raw, err := os.ReadFile("testdata/hgt.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []oracleCase
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		dev := host.New(host.Options{Threads: 2})
		q, err := gpu.NewQueue(dev)
		if err != nil {
			t.Fatal(err)
		}
		a, n := gpu.NewArena(dev), len(c.X)
		params := NewParams(dev)
		l := newHGT(params, slot{in: c.In, out: c.Out}, hgtShape{types: 3, relations: c.Relations, heads: c.Heads, width: c.Out, out: c.Out})
		if err := params.Allocate(t.Context(), q, 1); err != nil {
			t.Fatal(err)
		}
		if len(c.Parameters) != len(l.Params()) {
			t.Fatalf("%d parameters, PyG's are %d", len(l.Params()), len(c.Parameters))
		}
		for _, p := range l.Params() {
			values := flat(c.Parameters[p.Name[2:]])
			if len(values) != p.Value.Len() {
				t.Fatalf("%s has %d numbers, PyG's %d", p.Name, p.Value.Len(), len(values))
			}
			q.Upload(p.Value, bytesOf(values))
		}
		x, dy := a.Matrix(q, n, c.In), a.Matrix(q, n, c.Out)
		var rows, up []float64
		for v := range n {
			for _, e := range c.X[v] {
				rows = append(rows, float64(e))
			}
			up = append(up, c.Upstream[v]...)
			up = append(up, make([]float64, c.Out-len(c.Upstream[v]))...)
		}
		q.Upload(x, bytesOf(rows))
		q.Upload(dy, bytesOf(up))
		in := Dense(x)
		in.Types = c.Types
		pass := &Pass{Queue: q, Arena: a, Train: true}
		y := l.Forward(pass, c.graph(q, a, func(int) bool { return true }), in)
		c.compare(t, q, y)
		l.Backward(pass, dy, true)
		for _, p := range l.Params() {
			got, want := read(q, p.Grad), flat(c.Gradients[p.Name[2:]])
			for i := range want {
				if math.Abs(float64(got[i])-want[i]) > 1e-4*(1+math.Abs(want[i])) {
					t.Errorf("%d to %d columns: gradient %d of %s is %v, PyG's %v", c.In, c.Out, i, p.Name, got[i], want[i])
					break
				}
			}
		}

		acc := a.Matrix(q, n, l.AccumulatorDim())
		q.Fill(acc, 0)
		l.Prepare(pass, in, acc)
		from := l.Transform(pass, n, in)
		for part := range 2 {
			l.Accumulate(pass, c.graph(q, a, func(src int) bool { return src%2 == part }), from, acc)
		}
		c.compare(t, q, l.Finish(pass, in, acc, gpu.Tensor{}))
		if err := q.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// graph has the edges of some sources.
func (c *oracleCase) graph(q *gpu.Queue, a *gpu.Arena, of func(src int) bool) *gpu.Graph {
	g := &gpu.Graph{NumDst: len(c.X), NumSrc: len(c.X)}
	indptr, indices, relations := []int32{0}, []int32{}, []uint16{}
	for d := range c.X {
		for _, e := range c.Edges {
			if e[1] == d && of(e[0]) {
				indices, relations = append(indices, int32(e[0])), append(relations, uint16(e[2]))
			}
		}
		indptr = append(indptr, int32(len(indices)))
	}
	k := &Grouper{ByRelation: true, Single: true}
	k.Group(q, a, g, indptr, indices, relations)
	return g
}

func (c *oracleCase) compare(t *testing.T, q *gpu.Queue, y gpu.Tensor) {
	t.Helper()
	got, compared := read(q, y), 0
	for v, row := range c.Y {
		for k, want := range row {
			compared++
			if x := float64(got[v*c.Out+k]); math.Abs(x-want) > 1e-4*(1+math.Abs(want)) {
				t.Fatalf("%d to %d columns: node %d of type %d has %v in column %d, PyG's %v", c.In, c.Out, v, c.Types[v], x, k, want)
			}
		}
	}
	if compared < 16*c.Out {
		t.Fatalf("%d numbers compared, expected those of 16 nodes or more", compared)
	}
}

func read(q *gpu.Queue, x gpu.Tensor) []float32 {
	out := make([]float32, x.Len())
	q.Download(blocks.Bytes(out), x)
	return out
}

func bytesOf(x []float64) (b []byte) {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	return b
}
