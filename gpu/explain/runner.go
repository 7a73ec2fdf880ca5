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
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
)

// runner runs a model over a neighbourhood.
type runner struct {
	st      *store.Store
	dev     gpu.Device
	c       *train.Checkpoint
	cfg     nn.Config // of the model that reads neighbours itself, without dropout
	own     []string  // feature columns
	columns []*store.ColumnInfo
	queue   *gpu.Queue
	model   *nn.Model
	vectors *eval.Vectors
	done    func() error // closes vectors

	around *eval.Around
	keep   *gpu.Arena // of what all passes read
	arena  *gpu.Arena // of one pass
	first  gpu.Tensor // states [Nodes × columns]
	sum    gpu.Tensor // of their gradients
	byNode gpu.Tensor // their products with it, [Nodes × 1]
	inputs nn.Input   // that they are made of
	class  int
}

// open makes a checkpoint's model, with hops that were precomputed taken out: it reads these neighbours itself, by the same parameters.
func open(ctx context.Context, st *store.Store, dev gpu.Device, c *train.Checkpoint) (_ *runner, err error) {
	if err := c.Check(st.Manifest()); err != nil {
		return nil, err
	}
	r := &runner{st: st, dev: dev, c: c, cfg: c.Model, own: c.Config.OwnFeatures(), done: func() error { return nil }}
	r.cfg.PrecomputedHop, r.cfg.RelationHops, r.cfg.Dropout, r.cfg.InputDropout = false, nil, 0, 0
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err := r.make(ctx); err != nil {
		return nil, err
	}
	if err := r.model.Params().Load(ctx, r.queue, c.Params); err != nil {
		return nil, err
	}
	vectors, done, err := c.Vectors(ctx, st)
	if err != nil {
		return nil, err
	}
	r.vectors, r.done = vectors, done
	return r, nil
}

// make makes the model and the arenas on the runner's device.
func (r *runner) make(ctx context.Context) (err error) {
	if r.queue, err = gpu.NewQueue(r.dev); err != nil {
		return err
	}
	r.keep, r.arena = gpu.NewArena(r.dev), gpu.NewArena(r.dev)
	r.model, err = nn.New(ctx, r.queue, r.cfg)
	return err
}

func (r *runner) close() (err error) {
	for _, a := range []*gpu.Arena{r.arena, r.keep} {
		if a != nil {
			err = errors.Join(err, a.Close())
		}
	}
	if r.model != nil {
		err = errors.Join(err, r.model.Close())
	}
	if r.queue != nil {
		err = errors.Join(err, r.queue.Close())
	}
	return errors.Join(err, r.done())
}

// place puts the neighbourhood's rows where the model reads them and makes its first states.
func (r *runner) place(ctx context.Context) error {
	q, a, n := r.queue, r.around, len(r.around.Nodes)
	for k, c := range r.columns {
		wide := make([]float32, n*c.Dim)
		if elem := nn.TableElem(c.Elem); elem != c.Elem { // a category: its bits
			copy(blocks.Bytes(wide), a.Rows[k])
		} else {
			for i := range n {
				c.Elem.Widen(wide[i*c.Dim:(i+1)*c.Dim], a.Rows[k][i*c.RowBytes():], c.Scale)
			}
		}
		t := r.keep.Matrix(q, n, c.Dim)
		if q.Err() == nil {
			q.Upload(t, blocks.Bytes(wide))
		}
		if err := q.Sync(ctx); err != nil { // wide may go
			return err
		}
		r.inputs.Tables = append(r.inputs.Tables, t)
	}
	if v := &a.Vectors; len(v.At) > 0 {
		t := r.keep.Matrix(q, len(v.At), r.cfg.Hidden)
		q.Upload(t, v.Rows)
		r.inputs.Vectors = nn.Vectors{Table: t, At: v.At}
		for i := range v.At {
			r.inputs.Vectors.Rows = append(r.inputs.Vectors.Rows, uint32(i))
		}
	}
	r.inputs.Types = a.Types
	r.first = r.model.FirstStates(&nn.Pass{Queue: q, Arena: r.keep}, n, r.inputs)
	r.sum, r.byNode = r.keep.Matrix(q, n, r.first.Cols), r.keep.Matrix(q, n, 1)
	return q.Sync(ctx)
}

// graphs are those of the layers that read the first states, with a source for each edge, in the pass's arena.
func (r *runner) graphs() *nn.Unshared {
	q, a := r.queue, r.around
	u := &nn.Unshared{Types: a.Types}
	layers := r.model.Layers()
	layers = layers[len(layers)-r.cfg.Layers:]
	above := 0
	for _, l := range layers {
		above += l.Hops()
	}
	groupers, weighers, readers := r.cfg.Groupers(len(layers)), r.cfg.EdgeWeighers(len(layers)), make([]nn.EdgeReader, len(layers))
	for i, l := range layers {
		above -= l.Hops()
		n := a.Reach[above]
		if l.Hops() == 0 {
			u.Graphs, u.Of = append(u.Graphs, gpu.Graph{NumDst: n, NumSrc: n}), append(u.Of, nil)
			continue
		}
		edges, _ := slices.BinarySearch(a.Dst, uint32(n)) // those into the first n nodes
		indptr, indices := make([]int32, n+1), make([]int32, edges)
		of, places := make([]uint32, n+edges), make([]int64, edges)
		for v := range n {
			of[v] = uint32(v)
		}
		for e := range edges {
			indptr[a.Dst[e]+1]++
			of[n+e], indices[e], places[e] = a.Src[e], int32(n+e), int64(e)
		}
		for v := range n {
			indptr[v+1] += indptr[v]
		}
		g := gpu.Graph{NumDst: n, NumSrc: n + edges}
		if r.cfg.Relations > 0 {
			groupers[i].Group(q, r.arena, &g, indptr, indices, a.Relations)
		} else {
			g.Indptr, g.Indices = r.arena.Int32s(q, indptr), r.arena.Int32s(q, indices)
		}
		if r.model.ReadsDegrees() {
			src := make([]int32, len(of))
			for s, row := range of {
				src[s] = a.Degrees[row]
			}
			g.DstDegrees, g.SrcDegrees = r.arena.Int32s(q, a.Degrees[:n]), r.arena.Int32s(q, src)
		}
		if r.cfg.EdgeWeights {
			sums := make([]float64, len(of))
			for s, row := range of {
				sums[s] = a.Sums[row]
			}
			weighers[i].Weigh(q, r.arena, &g, nn.WeighedEdges{Indptr: indptr, Indices: indices, Weights: a.Weights, Degrees: a.Degrees, Sums: sums})
		}
		if r.cfg.EdgeDim > 0 {
			readers[i].Read(q, r.arena, &g, nn.FeaturedEdges{Indptr: indptr, Places: places, Rows: a.Features, Dim: r.cfg.EdgeDim})
		}
		u.Graphs, u.Of = append(u.Graphs, g), append(u.Of, of)
	}
	return u
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
	q, p := r.queue, &nn.Pass{Queue: r.queue, Arena: r.arena, Train: true, Still: true}
	first := r.arena.Matrix(q, r.first.Rows, r.first.Cols)
	u := r.graphs()
	if q.Err() == nil {
		q.Fill(first, 0)
		q.Axpy(scale, r.first, first)
	}
	out := r.model.ForwardUnshared(p, u, first, gate)
	logits = make([]float32, r.cfg.Out)
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
	x.d, x.gates = r.model.BackwardUnshared(p, u, first, grad)
	return x, logits, q.Sync(ctx)
}

// said is what logits say, the probability of the class or the number, and its gradient by them.
func (r *runner) said(logits []float32) (says float64, slope []float32) {
	slope = make([]float32, len(logits))
	switch {
	case r.cfg.Numbers != nil:
		slope[0] = r.cfg.Numbers.Deviation
		return float64(r.cfg.Numbers.Of(logits[0])), slope
	case r.cfg.MultiLabel:
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
	if r.class = x.Class; r.class < 0 || r.cfg.Numbers != nil {
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
