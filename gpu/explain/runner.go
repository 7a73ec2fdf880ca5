package explain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/infer"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// runner runs a model over a neighbourhood.
type runner struct {
	*infer.Model
	around *eval.Around
	keep   *gpu.Arena // of what all passes read
	arena  *gpu.Arena // of one pass
	first  gpu.Tensor // states [Nodes × columns]
	sum    gpu.Tensor // of their gradients
	byNode gpu.Tensor // their products with it, [Nodes × 1]
	inputs nn.Input   // that they are made of
	class  int
}

// on runs a model.
func on(m *infer.Model) *runner {
	return &runner{Model: m, keep: gpu.NewArena(m.Device), arena: gpu.NewArena(m.Device)}
}

// close frees what the runner has, and the model.
func (r *runner) close() error { return errors.Join(r.arena.Close(), r.keep.Close(), r.Model.Close()) }

// place puts the neighbourhood's rows where the model reads them and makes its first states.
func (r *runner) place(ctx context.Context) (err error) {
	q, n := r.Queue, len(r.around.Nodes)
	if r.inputs, err = r.Input(ctx, r.keep, r.around); err != nil {
		return err
	}
	r.first = r.Net.FirstStates(&nn.Pass{Queue: q, Arena: r.keep}, n, r.inputs)
	r.sum, r.byNode = r.keep.Matrix(q, n, r.first.Cols), r.keep.Matrix(q, n, 1)
	return q.Sync(ctx)
}

// graphs are those of the layers that read the first states, with a source for each edge, in the pass's arena.
func (r *runner) graphs() *nn.Unshared {
	graphs, of := r.Graphs(r.arena, r.around, true)
	input := len(graphs) - r.Config.Layers // layers before them
	return &nn.Unshared{Types: r.around.Types, Graphs: graphs[input:], Of: of[input:]}
}

// point is a pass at one point of a path.
type point struct {
	says  float64
	d     gpu.Tensor   // gradient of the first states
	gates []gpu.Tensor // by layer, of edges
}

// at runs the model with its first states scaled and a gate on every edge; backward adds what its gradients say. The arena has them until
// its next reset.
func (r *runner) at(ctx context.Context, scale, gate float32, backward bool) (x point, logits []float32, err error) {
	if err := r.arena.Reset(); err != nil {
		return x, nil, err
	}
	q, p := r.Queue, &nn.Pass{Queue: r.Queue, Arena: r.arena, Train: true, Still: true}
	first := r.arena.Matrix(q, r.first.Rows, r.first.Cols)
	u := r.graphs()
	if q.Err() == nil {
		q.Fill(first, 0)
		q.Axpy(scale, r.first, first)
	}
	out := r.Net.ForwardUnshared(p, u, first, gate)
	logits = make([]float32, r.Config.Out)
	if q.Err() == nil {
		q.Download(blocks.Bytes(logits), out)
	}
	if err := q.Sync(ctx); err != nil || !backward {
		return x, logits, err
	}
	says, slope := r.said(logits)
	x.says = says
	grad := r.arena.Matrix(q, 1, len(slope))
	if q.Err() == nil {
		q.Upload(grad, blocks.Bytes(slope))
	}
	x.d, x.gates = r.Net.BackwardUnshared(p, u, first, grad)
	return x, logits, q.Sync(ctx)
}

// said is what logits say, the probability of the class or the number, and its gradient by them.
func (r *runner) said(logits []float32) (says float64, slope []float32) {
	slope = make([]float32, len(logits))
	switch {
	case r.Config.Numbers != nil:
		slope[0] = r.Config.Numbers.Deviation
		return float64(r.Config.Numbers.Of(logits[0])), slope
	case r.Config.MultiLabel:
		ps := slices.Clone(logits)
		eval.Sigmoid(ps)
		p := ps[r.class]
		slope[r.class] = p * (1 - p)
		return float64(p), slope
	}
	ps := slices.Clone(logits)
	eval.Softmax(ps)
	for c, p := range ps {
		slope[c] = -ps[r.class] * p
	}
	slope[r.class] += ps[r.class]
	return float64(ps[r.class]), slope
}

// says is what the model says at a point; x.Class −1 is chosen there.
func (r *runner) says(ctx context.Context, scale, gate float32, x *Explanation) (float64, error) {
	_, logits, err := r.at(ctx, scale, gate, false)
	if err != nil {
		return 0, err
	}
	if r.class = x.Class; r.class < 0 || r.Config.Numbers != nil {
		r.class = 0
		for c, v := range logits {
			if v > logits[r.class] {
				r.class = c
			}
		}
		x.Class = r.class
	}
	says, _ := r.said(logits)
	if math.IsNaN(says) || math.IsInf(says, 0) {
		return 0, fmt.Errorf("explain: %w: the model says %v", store.ErrInvalid, says)
	}
	return says, nil
}
