package nn

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// Pass is what one mini-batch's forward and backward pass share.
type Pass struct {
	Queue *gpu.Queue
	Arena *gpu.Arena
	// Train turns dropout on and makes layers keep what Backward needs.
	Train bool
	// Still keeps batch norms at their running statistics, and backward passes take these as constants: gradients are those of what a
	// trained model says.
	Still bool
	// DropoutSeed keys this mini-batch's masks: a function of the run's seed,
	// the epoch, the step and the batch.
	DropoutSeed uint64
	// Scalars, if there are some, have DropoutSeed on the device, for a pass that is recorded.
	Scalars gpu.Scalars
	// Histories complete the means of layers; at most one a layer.
	Histories []*History
	// Aggregated, unless it is nil, is told what each layer makes of neighbours, [NumDst × columns], before its dense product: sage's
	// mean, gcn's and gin's sum, gat's heads side by side. Other layers, and those that multiply first, tell nothing. It may issue
	// operations that read the tensor; later ones overwrite it.
	Aggregated func(layer int, of gpu.Tensor)
}

// aggregated tells p.Aggregated.
func (p *Pass) aggregated(layer int, of gpu.Tensor) {
	if p.Aggregated != nil && p.Queue.Err() == nil {
		p.Aggregated(layer, of)
	}
}

// inputMask names the mask k of the first layer's input.
func (p *Pass) inputMask(share float32, k uint64) gpu.DropoutOptions {
	if !p.Scalars.Flipped.IsZero() {
		return gpu.DropoutOptions{P: share, Seed: k, Base: p.Scalars.Flipped}
	}
	return gpu.DropoutOptions{P: share, Seed: ^p.DropoutSeed + k}
}

// mask names that of a layer's output.
func (p *Pass) mask(share float32, layer int) gpu.DropoutOptions {
	seed := p.DropoutSeed
	if !p.Scalars.Seed.IsZero() {
		seed = 0
	}
	return gpu.DropoutOptions{P: share, Seed: seed + uint64(layer)*0x9e3779b97f4a7c15, Base: p.Scalars.Seed}
}

// complete turns means over sampled neighbours into those over all, in place.
func (h *History) complete(q *gpu.Queue, means gpu.Tensor) {
	q.DivideRows(means, h.Divisors)
	q.Axpy(1, h.Rest, means)
}

// history returns what completes a layer's means, or nil.
func (p *Pass) history(layer int) *History {
	for _, h := range p.Histories {
		if h.Layer == layer {
			return h
		}
	}
	return nil
}

// History is what a layer's destinations know of neighbours outside the
// mini-batch's graph (docs/lab/findings.md, "Historical aggregates"): a mean becomes
//
//	agg[v] = mean of sampled neighbours / Divisors[v] + Rest[v]
//
// with Divisors[v] the full degree over the degree in memory, and Rest[v] the sum
// of the other neighbours' latest states over the full degree, without gradient. Likewise the sums of gcn and gin, without the node
// itself: there Rest[v] is the sum of the other neighbours' latest states, in gcn each times its weight.
//
// In a layer that tells relations apart, v is a group of edges of the block's graph: its degree is the edges of one relation into one
// destination. A group may have no sampled edge ([Grouper.Group]). A divisor of 0 divides by nothing: all are in memory.
type History struct {
	Layer    int        // whose means are completed, not counting an input layer
	Divisors gpu.Tensor // float32[1×NumDst], or float32[1×groups]
	Rest     gpu.Tensor // [NumDst × InDim], or [groups × InDim]
	// Of gat, set by [AbsentEdges.Complete], instead of Divisors: Rest[v] is the mean of the absent neighbours' latest states.
	Graph gpu.Graph  // the layer's, with one more edge into each destination that has absent neighbours, from source NumSrc + v
	Logs  gpu.Tensor // [edges, self loops' too × heads]: added to the scores
}

// Input is the states of a block's sources: source s is row Index[s] of every
// table, or row s if Index is none. A table may have an index of its own. Tables of one or several types lie side by side: together
// they are one matrix of InDim columns, of a precomputed hop two of them. The first layer reads the macro-batch's
// feature columns through the batch's input rows, the others the output of the layer below.
type Input struct {
	Tables []gpu.Tensor
	Index  gpu.Tensor // uint32[1×NumSrc] or none
	// Own are the tables' own indices, instead of Index where they are some; nil: no table has one.
	Own []gpu.Tensor
	// Sparse are the states instead of Tables, of a model of [Config].SparseInput: source s is row s.
	Sparse gpu.Sparse
	// Vectors are what an input layer of [Config].Vectors adds to some of the sources.
	Vectors Vectors
	// Types are the sources' types, of a model of [Config].NodeTypes. The slice is the caller's, until the pass is over.
	Types []uint32
}

// Vectors are learned vectors that no parameters hold: row Rows[k] of Table [·×Hidden] is that of source At[k], ascending, of an
// [Input]. The slices are the caller's, until the pass is over.
type Vectors struct {
	Table    gpu.Tensor
	Rows, At []uint32
}

// Rows returns the states of n sources from lo on, of an input without Index but that of Sparse.
func (in Input) Rows(lo, n int) (part Input) {
	for _, t := range in.Tables {
		part.Tables = append(part.Tables, t.View(lo, 0, n, t.Cols))
	}
	if in.Types != nil {
		part.Types = in.Types[lo : lo+n]
	}
	if part.Sparse = in.Sparse; !in.Sparse.IsZero() {
		part.Sparse.Index = in.Sparse.Index.View(0, lo, 1, n)
	}
	v := &in.Vectors
	from, _ := slices.BinarySearch(v.At, uint32(lo))
	to, _ := slices.BinarySearch(v.At, uint32(lo+n))
	part.Vectors = Vectors{Table: v.Table, Rows: v.Rows[from:to]}
	for _, at := range v.At[from:to] {
		part.Vectors.At = append(part.Vectors.At, at-uint32(lo))
	}
	return part
}

// index is that of table k.
func (in Input) index(k int) gpu.Tensor {
	if k < len(in.Own) && !in.Own[k].IsZero() {
		return in.Own[k]
	}
	return in.Index
}

// only is tables lo … hi−1.
func (in Input) only(lo, hi int) Input {
	own := in.Own
	if own != nil {
		own = own[lo:hi]
	}
	return Input{Tables: in.Tables[lo:hi], Index: in.Index, Own: own, Types: in.Types}
}

// width is the columns of all tables.
func (in Input) width() (n int) {
	for _, t := range in.Tables {
		n += t.Cols
	}
	return n
}

// first is the tables that make up the first cols columns.
func (in Input) first(cols int) Input {
	n := 0
	for i, t := range in.Tables {
		if n >= cols {
			return in.only(0, i)
		}
		n += t.Cols
	}
	return in
}

// aggregate is [gpu.Queue.Aggregate] of a block's sources, table by table, into dst [NumDst × width].
func aggregate(q *gpu.Queue, o gpu.AggregateOptions, g gpu.Graph, in Input, dst gpu.Tensor) {
	if in.width() != dst.Cols {
		q.Fail(fmt.Errorf("nn: input is %v, expected %d columns: %w", in.Tables, dst.Cols, gpu.ErrShape))
		return
	}
	at := 0
	for k, t := range in.Tables {
		o.Index = in.index(k)
		q.Aggregate(o, g, t, dst.View(0, at, dst.Rows, t.Cols))
		at += t.Cols
	}
}

// CheckFeature says whether a model's first layer reads a feature column of a type.
func CheckFeature(name string, elem blocks.ElemType) error {
	switch elem {
	case blocks.Float32, blocks.Float16, blocks.BFloat16, blocks.Int8:
		return nil
	}
	return fmt.Errorf("train: feature %s holds %v, expected float32, float16, bfloat16 or int8", name, elem)
}

// Dense is the input of one plain matrix.
func Dense(t gpu.Tensor) Input { return Input{Tables: []gpu.Tensor{t}} }

// Layer turns the states of a block's sources into those of its destinations.
type Layer interface {
	// Forward returns [g.NumDst × OutDim] in p's arena.
	Forward(p *Pass, g *gpu.Graph, in Input) gpu.Tensor
	// Backward takes the gradient of Forward's result, which it may overwrite,
	// sets the gradients of the parameters, and returns the gradient of in
	// [g.NumSrc × InDim] if needInput, otherwise none. It follows a Forward
	// with Train in the same pass.
	Backward(p *Pass, dOut gpu.Tensor, needInput bool) gpu.Tensor
	// InDim and OutDim are the columns of a source's and a destination's state.
	InDim() int
	OutDim() int
	// Params lists the layer's parameters.
	Params() []*Param
	// Hops is 1 for a layer that reads neighbours and 0 for one that reads a
	// node alone: such a layer's block is the identity.
	Hops() int
}

// Streamer is a layer whose exact output over a whole graph can be computed
// from edge buckets that arrive one after the other.
type Streamer interface {
	Layer
	// AccumulatorDim is the floats that a destination accumulates; 0 if none.
	AccumulatorDim() int
	// Accumulate adds the messages of g's edges, all from states src
	// [g.NumSrc × InDim], to acc [g.NumDst × AccumulatorDim], which starts at 0.
	Accumulate(p *Pass, g *gpu.Graph, src Input, acc gpu.Tensor)
	// Finish computes destinations' outputs [n × OutDim] from their own input states
	// (n rows), the accumulated messages, which it may overwrite, and their degrees, float32[1×n].
	Finish(p *Pass, self Input, acc, degrees gpu.Tensor) gpu.Tensor
}

// Preparer is a Streamer whose messages depend on the destination's own state.
type Preparer interface {
	Streamer
	// Prepare sets accumulators acc [n × AccumulatorDim], which start at 0, from
	// the destinations' own states (n rows), before anything is accumulated.
	Prepare(p *Pass, self Input, acc gpu.Tensor)
}

// Transformer is a Streamer whose messages are made of something that a source's state gives once, whatever its edges are.
type Transformer interface {
	Streamer
	// Transform returns what Accumulate takes as states of n sources, instead of src, until p's arena is reset.
	Transform(p *Pass, n int, src Input) Input
}

// DegreeReader is a layer whose graphs must have degrees: both in Forward, both in Accumulate.
type DegreeReader interface{ ReadsDegrees() bool }

// Activation is what a layer does to its output: at most one of ReLU and Tanh, then dropout.
type Activation struct {
	ReLU    bool // done by the layer itself, in the product before
	Tanh    bool // without dropout
	Dropout float32
}

// apply does in place what the layer has not done: all but the ReLU.
func (a Activation) apply(p *Pass, layer int, out gpu.Tensor) {
	if a.Tanh && p.Queue.Err() == nil {
		p.Queue.Tanh(out)
	}
	a.drop(p, layer, out)
}

// drop applies a layer's dropout in place.
func (a Activation) drop(p *Pass, layer int, out gpu.Tensor) {
	if p.Train && a.Dropout > 0 {
		p.Queue.Dropout(p.mask(a.Dropout, layer), out)
	}
}

// backward turns the gradient of the activated output into that of the
// layer's linear part, in place.
func (a Activation) backward(p *Pass, layer int, out, dOut gpu.Tensor) {
	switch {
	case a.Tanh:
		p.Queue.TanhBackward(out, dOut)
	case a.ReLU && a.Dropout > 0:
		p.Queue.ReLUBackward(1/(1-a.Dropout), out, dOut)
	case a.ReLU:
		p.Queue.ReLUBackward(1, out, dOut)
	case a.Dropout > 0:
		a.drop(p, layer, dOut) // the same mask
	}
}
