package nn

import (
	"fmt"

	"github.com/gstore/gstore/gpu"
)

// Unshared is a mini-batch in which every edge has a source of its own, so that a gradient says what comes along each edge: of layer i the
// sources of Graphs[i] are its destinations and behind them one for each edge, in the order in which the edges were given. Source s is row
// Of[i][s] of the states below, whose first rows are the destinations. Layers that read a node alone have a graph without edges, and no
// list.
type Unshared struct {
	Graphs []gpu.Graph
	Of     [][]uint32
	Types  []uint32 // of the first layer's rows, of a model of [Config.NodeTypes]

	// Of the pass between Forward and Backward.
	gate  float32
	index []gpu.Tensor // Of
	whole []gpu.Tensor // by layer: its sources' states
}

// FirstStates returns the states of n nodes that layers with neighbours read first, in p's arena: the features side by side, or what an
// input layer makes of them. They are 0 where all features are 0 and no category is named.
func (m *Model) FirstStates(p *Pass, n int, in Input) gpu.Tensor {
	if l, ok := m.layers[0].(*inputLayer); ok {
		return l.of(p, n, in)
	}
	x := p.Arena.Matrix(p.Queue, n, m.cfg.In)
	if p.Queue.Err() == nil {
		states(p, "first layer", n, in, x)
	}
	return x
}

// behindInput is the layers that read [Model.FirstStates].
func (m *Model) behindInput() []Layer {
	if _, ok := m.layers[0].(*inputLayer); ok {
		return m.layers[1:]
	}
	return m.layers
}

// ForwardUnshared returns the logits of the last layer's destinations from first states [rows × columns], where what comes along each
// edge is a source's state times gate. u has a graph for each layer behind an input layer.
func (m *Model) ForwardUnshared(p *Pass, u *Unshared, first gpu.Tensor, gate float32) gpu.Tensor {
	q, layers := p.Queue, m.behindInput()
	if len(u.Graphs) != len(layers) || len(u.Of) != len(layers) {
		q.Fail(fmt.Errorf("nn: %d graphs, %d lists of sources for %d layers: %w", len(u.Graphs), len(u.Of), len(layers), gpu.ErrShape))
		return gpu.Tensor{}
	}
	u.gate, u.index, u.whole, m.outs = gate, make([]gpu.Tensor, len(layers)), make([]gpu.Tensor, len(layers)), m.outs[:0]
	h := first
	for i, l := range layers {
		in := Dense(h)
		in.Types = u.Types
		if of := u.Of[i]; of != nil {
			u.index[i] = p.Arena.Uint32s(q, of)
			u.whole[i] = p.Arena.Matrix(q, len(of), h.Cols)
			gated := p.Arena.Matrix(q, len(of), h.Cols)
			if q.Err() != nil {
				return gpu.Tensor{}
			}
			q.Gather(u.whole[i], h, u.index[i])
			n := u.Graphs[i].NumDst
			q.Copy(gated.Head(n), u.whole[i].Head(n))
			if edges := len(of) - n; edges > 0 {
				q.Fill(gated.View(n, 0, edges, h.Cols), 0)
				q.Axpy(gate, u.whole[i].View(n, 0, edges, h.Cols), gated.View(n, 0, edges, h.Cols))
			}
			in = Dense(gated)
			if u.Types != nil {
				in.Types = make([]uint32, len(of))
				for s, row := range of {
					in.Types[s] = u.Types[row]
				}
			}
		}
		m.weighed(q, &u.Graphs[i])
		if h = l.Forward(p, &u.Graphs[i], in); q.Err() != nil {
			return gpu.Tensor{}
		}
		m.outs = append(m.outs, h)
	}
	if m.jump != nil {
		return m.jump.forward(p, m.outs, h.Rows)
	}
	return h
}

// BackwardUnshared takes the gradient of the logits and returns those of the first states [rows × columns] and, by layer, of the gates
// that each edge's source would have of its own, [edges × 1] in the order in which the edges were given; none of layers without edges.
// It follows a ForwardUnshared with Train in the same pass. Parameters' gradients are set too.
func (m *Model) BackwardUnshared(p *Pass, u *Unshared, first, dLogits gpu.Tensor) (d gpu.Tensor, gates []gpu.Tensor) {
	q, layers := p.Queue, m.behindInput()
	gates = make([]gpu.Tensor, len(layers))
	var jumps []gpu.Tensor
	if d = dLogits; m.jump != nil {
		jumps = m.jump.backward(p, dLogits)
	}
	for i := len(layers) - 1; i >= 0 && q.Err() == nil; i-- {
		if jumps != nil {
			d = m.jumped(p, jumps[i], d, i == len(layers)-1)
		}
		below := first
		if i > 0 {
			below = m.outs[i-1]
		}
		if d = layers[i].Backward(p, d, true); u.Of[i] == nil || q.Err() != nil {
			continue
		}
		n := u.Graphs[i].NumDst
		if edges := len(u.Of[i]) - n; edges > 0 {
			own, into := u.whole[i].View(n, 0, edges, d.Cols), d.View(n, 0, edges, d.Cols)
			gates[i] = p.Arena.Matrix(q, edges, 1)
			q.RowDot(own, into, gates[i])
			scaled := p.Arena.Matrix(q, edges, d.Cols) // what passes the gates
			q.Fill(scaled, 0)
			q.Axpy(u.gate, into, scaled)
			q.Copy(into, scaled)
		}
		sum := p.Arena.Matrix(q, below.Rows, below.Cols)
		q.Fill(sum, 0)
		q.ScatterAddRows(sum, u.index[i], d)
		d = sum
	}
	return d, gates
}

// FirstShares splits what a gradient of first states [n × columns] makes of n nodes' features: products [n × In] with what stands beside
// each feature, of which the product with a feature is its share, and of each table of categories, float32[n×1], the share of what it
// names. in is the input of FirstStates in the same pass; the learned vectors of [Input].Vectors have what is left over.
func (m *Model) FirstShares(p *Pass, n int, d gpu.Tensor) (features gpu.Tensor, categories []gpu.Tensor) {
	l, ok := m.layers[0].(*inputLayer)
	if !ok {
		return d, nil
	}
	q, a := p.Queue, p.Arena
	if l.project != nil {
		features = a.Matrix(q, n, l.in)
		q.Gemm(gpu.GemmOptions{TransB: true}, d, l.project.Value, features)
	}
	for k, v := range l.vectors {
		own, share := a.Matrix(q, n, l.out), a.Matrix(q, n, 1)
		if q.Err() != nil {
			break
		}
		q.Gather(own, v.Value, l.categories[k])
		q.RowDot(own, d, share)
		categories = append(categories, share)
	}
	return features, categories
}
