package nn

import (
	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// Ways in which a model's last product sees the states of its layers.
const (
	JumpLast = "last" // the last layer makes the logits
	JumpCat  = "cat"  // all layers' states side by side
	JumpMax  = "max"  // their elementwise maximum
)

// jumping combines all layers' states into logits by one product (Xu et al., "Representation
// Learning on Graphs with Jumping Knowledge Networks", ICML 2018, section 4: concatenation and
// max-pooling): logits[v] = W·combine(h_1[v], …, h_L[v]) + b.
type jumping struct {
	mode          string
	layers, width int
	lin           linear

	indptr, indices []int32 // of the graph of a maximum: state l of node v to node v

	// Of the pass between forward and backward.
	g      gpu.Graph
	z, arg gpu.Tensor
}

// newJumping declares "jump.weight" and "jump.bias".
func newJumping(p *Params, mode string, layers, width, out int) *jumping {
	in := width
	if mode == JumpCat {
		in = layers * width
	}
	return &jumping{mode: mode, layers: layers, width: width, lin: newLinear(p, "jump", in, out)}
}

// combine returns what the product is applied to, [n × width] or [n × layers·width], from
// each layer's states of n nodes or more, the first n of which count.
func (j *jumping) combine(p *Pass, states []gpu.Tensor, n int) gpu.Tensor {
	q, a := p.Queue, p.Arena
	if j.mode == JumpCat {
		z := a.Matrix(q, n, j.layers*j.width)
		for l, h := range states {
			q.Copy(z.View(0, l*j.width, n, j.width), h.Head(n))
		}
		return z
	}
	all := a.Matrix(q, j.layers*n, j.width)
	j.indptr, j.indices = append(j.indptr[:0], 0), j.indices[:0]
	for l, h := range states {
		q.Copy(all.View(l*n, 0, n, j.width), h.Head(n))
	}
	for v := range n {
		for l := range states {
			j.indices = append(j.indices, int32(l*n+v))
		}
		j.indptr = append(j.indptr, int32(len(j.indices)))
	}
	j.g = gpu.Graph{NumDst: n, NumSrc: all.Rows, Indptr: a.Int32s(q, j.indptr), Indices: a.Int32s(q, j.indices)}
	j.arg = a.Vector(q, n*j.width, blocks.Int32)
	z := a.Matrix(q, n, j.width)
	q.SegmentMax(gpu.MaxOptions{}, j.g, all, z, j.arg)
	return z
}

// forward returns logits [n × out].
func (j *jumping) forward(p *Pass, states []gpu.Tensor, n int) gpu.Tensor {
	if p.Queue.Err() != nil {
		return gpu.Tensor{}
	}
	j.z = j.combine(p, states, n)
	return j.lin.forward(p, j.z, false)
}

// backward sets the product's gradients and returns, for each layer, the gradient of its states' first rows.
func (j *jumping) backward(p *Pass, dLogits gpu.Tensor) []gpu.Tensor {
	q, n := p.Queue, dLogits.Rows
	dz := j.lin.backward(p, j.z, dLogits, true)
	if q.Err() != nil {
		return nil
	}
	out := make([]gpu.Tensor, j.layers)
	if j.mode == JumpCat {
		for l := range out {
			out[l] = dz.View(0, l*j.width, n, j.width)
		}
		return out
	}
	all := p.Arena.Matrix(q, j.layers*n, j.width)
	q.Fill(all, 0)
	q.TransposeEdges(p.Arena, &j.g)
	q.SegmentMaxBackward(j.g, dz, j.arg, all)
	for l := range out {
		out[l] = all.View(l*n, 0, n, j.width)
	}
	return out
}
