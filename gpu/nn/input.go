package nn

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/sampler/keyed"
)

// CategoryElem is the type of columns that name a learned vector for each node.
const CategoryElem = blocks.Uint32

// TableElem is the type as which a device holds a column's elements: categories move as floats of the same bits.
func TableElem(elem blocks.ElemType) blocks.ElemType {
	if elem == CategoryElem {
		return blocks.Float32
	}
	return elem
}

// MapTable makes rows of a column, stride bytes apart, a table of dev; scale is that of int8 columns. The bytes stay the caller's, and
// must be there until release. name is for messages.
func MapTable(dev gpu.Device, name string, b []byte, rows, cols, stride int, elem blocks.ElemType, scale []float32) (t gpu.Tensor, release func(), err error) {
	size := elem.Size()
	if size == 0 || stride%size != 0 {
		return t, nil, fmt.Errorf("train: feature %s has rows of %d bytes of %v: %w", name, stride, elem, gpu.ErrShape)
	}
	t = gpu.Tensor{Rows: rows, Cols: cols, Stride: stride / size, Elem: TableElem(elem)}
	release = func() { // borrowed memory: nothing is freed, nothing can fail
		for _, m := range []gpu.Memory{t.Mem, t.Scale} {
			if m != nil {
				_ = m.Free()
			}
		}
	}
	if t.Mem, err = dev.Map(b); err == nil && scale != nil {
		t.Scale, err = dev.Map(blocks.Bytes(scale))
	}
	if err != nil {
		release()
		return t, nil, err
	}
	return t, release, nil
}

// inputLayer brings nodes of all types to states of one width, before the layers that read neighbours:
//
//	out[v] = P·x[v] + Σ_k V_k[c_k(v)]
//
// with x all feature columns side by side and c_k(v) a category of v, of which 0 means none: V_k[0] is 0. Where each type has
// columns of its own, of which rows of other types are 0, P is a projection for each type; where the categories are the types,
// V is its bias, and where they are the nodes of a type without features, a learned vector for each. Vectors that are more than memory
// holds are rows of a table instead, which come with the input ([Input].Vectors); what trains them is the gradient.
//
// The last of the input's tables are the categories, [rows × 1] of [CategoryElem], one table each.
type inputLayer struct {
	in, out      int
	inputDropout float32
	project      *Param // nil: nodes have no features
	vectors      []*Param
	hops         *relationHops // that a layer reads means of its states from; nil: none

	// Of the pass between Forward and Backward.
	x          gpu.Tensor   // [n × in]
	categories []gpu.Tensor // uint32[1×n]
	at         gpu.Tensor   // uint32[1×m]: the sources that have a row of [Input].Vectors
	gradient   gpu.Tensor   // of these rows [m × out]
}

var _ Streamer = (*inputLayer)(nil)

// newInput declares the layer's parameters in p: "input.weight" [in × out], unless in is 0, and "input.k.vectors" [categories[k] × out].
func newInput(p *Params, in, out int, categories []int, inputDropout float32) *inputLayer {
	l := &inputLayer{in: in, out: out, inputDropout: inputDropout}
	if in > 0 {
		l.project = p.Add("input.weight", in, out, fanIn(in))
	}
	for k, rows := range categories {
		n, value := 0, fanIn(out)
		l.vectors = append(l.vectors, p.Add(fmt.Sprintf("input.%d.vectors", k), rows, out, func(r *keyed.Rand) float32 {
			if n++; n <= out { // of category 0
				return 0
			}
			return value(r)
		}))
	}
	return l
}

// InDim returns the columns of all features.
func (l *inputLayer) InDim() int { return l.in }

// OutDim returns the columns of a node's state.
func (l *inputLayer) OutDim() int { return l.out }

// Params lists the projection and the vectors.
func (l *inputLayer) Params() []*Param {
	if l.project == nil {
		return l.vectors
	}
	return append([]*Param{l.project}, l.vectors...)
}

// Hops returns 0.
func (l *inputLayer) Hops() int { return 0 }

// Forward implements [Layer]. g has as many destinations as sources.
func (l *inputLayer) Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor {
	return l.of(p, g.NumDst, in)
}

// of returns the states of n nodes.
func (l *inputLayer) of(p *Pass, n int, in Input) gpu.Tensor {
	q, a := p.Queue, p.Arena
	features := len(in.Tables) - len(l.vectors)
	if features < 0 {
		q.Fail(fmt.Errorf("nn: input layer: input is %v, expected features and %d tables of categories: %w", in.Tables, len(l.vectors), gpu.ErrShape))
		return gpu.Tensor{}
	}
	l.x, l.categories, l.at, l.gradient = gpu.Tensor{}, l.categories[:0], gpu.Tensor{}, gpu.Tensor{}
	if l.project != nil {
		l.x = a.Matrix(q, n, l.in)
		if !states(p, "input layer", n, in.only(0, features), l.x) {
			return gpu.Tensor{}
		}
		if p.Train && l.inputDropout > 0 {
			q.Dropout(p.inputMask(l.inputDropout, 0), l.x)
		}
	}
	y, own := a.Matrix(q, n, l.out), a.Matrix(q, n, l.out)
	if q.Err() != nil {
		return y
	}
	if l.project != nil {
		q.Gemm(gpu.GemmOptions{}, l.x, l.project.Value, y)
	} else {
		q.Fill(y, 0)
	}
	for k, v := range l.vectors {
		ids := a.Matrix(q, n, 1)
		if !states(p, "input layer", n, in.only(features+k, features+k+1), ids) {
			return y
		}
		l.categories = append(l.categories, gpu.VectorOf(ids.Mem, ids.Offset, n, blocks.Uint32))
		q.Gather(own, v.Value, l.categories[k])
		q.Axpy(1, own, y)
	}
	if v := &in.Vectors; len(v.At) > 0 {
		l.at = a.Uint32s(q, v.At)
		own = a.Matrix(q, len(v.At), l.out)
		q.Gather(own, v.Table, a.Uint32s(q, v.Rows))
		q.ScatterAddRows(y, l.at, own)
	}
	return y
}

// Backward implements [Layer]; the features have no gradient.
func (l *inputLayer) Backward(p *Pass, dOut gpu.Tensor, _ bool) gpu.Tensor {
	q := p.Queue
	if l.project != nil {
		q.Gemm(gpu.GemmOptions{TransA: true}, l.x, dOut, l.project.Grad)
	}
	for k, v := range l.vectors {
		q.Fill(v.Grad, 0)
		q.ScatterAddRows(v.Grad, l.categories[k], dOut)
		q.Fill(v.Grad.Head(1), 0)
	}
	if !l.at.IsZero() {
		l.gradient = p.Arena.Matrix(q, l.at.Cols, l.out)
		q.Gather(l.gradient, dOut, l.at)
	}
	l.hops.inputBackward(p)
	return gpu.Tensor{}
}

// AccumulatorDim returns 0: nothing arrives from neighbours.
func (l *inputLayer) AccumulatorDim() int { return 0 }

// Accumulate does nothing.
func (l *inputLayer) Accumulate(*Pass, *gpu.Graph, Input, gpu.Tensor) {}

// Finish implements [Streamer].
func (l *inputLayer) Finish(p *Pass, self Input, _, degrees gpu.Tensor) gpu.Tensor {
	return l.of(p, degrees.Cols, self)
}
