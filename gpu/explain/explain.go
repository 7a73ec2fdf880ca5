package explain

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/infer"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// Options says what is explained, and what may be used for it.
type Options struct {
	// Class is the class or label whose probability is explained; −1: the one that the model says. It is ignored for numbers.
	Class int
	// MemoryBytes bounds the run's memory, of which the caller takes HeldBytes. 0: no bound.
	MemoryBytes, HeldBytes int64
	// Near is where the neighbourhood is read; nil: by passes over the store.
	Near func(e *eval.Evaluator) eval.Near
}

// Explanation is why a model says something of a node.
type Explanation struct {
	Class int     // that is explained; 0 of numbers
	Says  float64 // its probability, or the number
	// Silent is what the model would say if all features of all nodes were 0, Alone if nothing came along any edge.
	Silent, Alone float64

	Nodes    []store.NodeID // the node, then its neighbourhood by distance
	Features []Feature      // in the model's order: they add up to Says − Silent
	ByNode   []float64      // shares of the features of each of Nodes
	Edges    []Edge         // by destination: they add up to Says − Alone
	// Steps are those of the finer path, and FeatureGap and EdgeGap by how much its shares miss the sum.
	Steps               int
	FeatureGap, EdgeGap float64
}

// Feature is the share of one feature of all nodes, of which Own is the explained node's.
type Feature struct {
	Column  string
	Element int // of the column's row; −1: of a column that names a learned vector
	Value   float64
	Own     float64
	Others  float64
}

// Share is the feature's, of all nodes.
func (f *Feature) Share() float64 { return f.Own + f.Others }

// Edge is the share of what comes along an edge.
type Edge struct {
	Src, Dst int // places in Nodes
	Relation int // of models of relations, those against their direction behind the store's; else −1
	Share    float64
}

// A path is cut into stepsLeast steps or, until its shares add up to within gapShare of the change and gapLeast, into twice as many,
// at most stepsMost.
const (
	stepsLeast = 32
	stepsMost  = 512
	gapShare   = .01
	gapLeast   = 1e-4
)

// Explain explains what a checkpoint's model says of a node of a store, by dev. A neighbourhood too large for the memory is
// [store.ErrBudget].
func Explain(ctx context.Context, st *store.Store, dev gpu.Device, c *train.Checkpoint, node store.NodeID, o Options) (_ *Explanation, err error) {
	if o.Class >= c.Model.Out && c.Model.Numbers == nil {
		return nil, fmt.Errorf("explain: %w: class %d of %d", store.ErrInvalid, o.Class, c.Model.Out)
	}
	m, err := infer.Open(ctx, st, dev, c)
	if err != nil {
		return nil, err
	}
	r := on(m)
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.read(ctx, node, o); err != nil {
		return nil, err
	}
	x := &Explanation{Class: o.Class, Nodes: r.around.Nodes}
	if x.Says, err = r.says(ctx, 1, 1, x); err != nil {
		return nil, err
	}
	if err := r.features(ctx, x); err != nil {
		return nil, fmt.Errorf("explain: features: %w", err)
	}
	if err := r.edges(ctx, x); err != nil {
		return nil, fmt.Errorf("explain: edges: %w", err)
	}
	return x, nil
}

// read reads the node's neighbourhood.
func (r *runner) read(ctx context.Context, node store.NodeID, o Options) error {
	limit, err := r.limit(r.Evaluator, o)
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	near := r.Evaluator.ByPasses(r.Store)
	if o.Near != nil {
		near = o.Near(r.Evaluator)
	}
	if r.around, err = r.Around(ctx, []store.NodeID{node}, eval.Room{Bytes: limit, PerEdge: 1}, near); err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	if o.MemoryBytes > 0 {
		a, err := r.account(ctx, r.Evaluator, o)
		if err != nil {
			return fmt.Errorf("explain: %w", err)
		}
		budget.Begin(ctx, &a)
	}
	if err := r.EndReading(); err != nil {
		return err
	}
	return r.place(ctx)
}
