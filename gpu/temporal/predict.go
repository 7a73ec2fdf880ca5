package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
)

// loaded is a trained model on a store's graph.
type loaded struct {
	*opened
	model *model
	eval  *evaluation
}

// load makes c a model again, on a store that may have other edges and partitions than the one that it was trained on; of its
// configuration threads, memory, engine and the edges that are ranked may be others.
func load(ctx context.Context, st *store.Store, dev gpu.Device, c *Checkpoint, cfg *Config) (_ *loaded, err error) {
	if err := cfg.Normalize(); err != nil {
		return nil, err
	}
	l := &loaded{}
	if l.opened, err = open(ctx, st, dev, cfg, use{saved: int64(len(c.Params))}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.model, err = newModel(ctx, dev, cfg, l.data); err != nil {
		return nil, err
	}
	l.model.arena.Bound(l.batch)
	if err := l.model.restore(ctx, l.data, c); err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	l.eval, err = newEvaluation(l.data, cfg)
	return l, err
}

func (l *loaded) close() (err error) {
	if l.model != nil {
		err = l.model.close()
	}
	return errors.Join(err, l.it.Close())
}

// Evaluate ranks the edges of validation and test by a trained model; cfg is its own but for threads, memory, engine and the edges that are ranked.
func Evaluate(ctx context.Context, st *store.Store, dev gpu.Device, c *Checkpoint, cfg Config) (sum Summary, err error) {
	l, err := load(ctx, st, dev, c, &cfg)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	sum = l.summary(&cfg, dev)
	sum.BestEpoch, sum.IOEngine = c.Summary.BestEpoch, l.it.Stats().Engine
	sum.RecallWeight = c.Summary.RecallWeight
	if sum.Valid, sum.ValidRule, err = l.eval.run(ctx, l.model, l.validation(&cfg), 0, sum.RecallWeight); err == nil {
		sum.Test, sum.TestRule, err = l.eval.run(ctx, l.model, l.test(&cfg), 1, sum.RecallWeight)
	}
	sum.CheckedEdges, sum.BytesRead = l.eval.edges, l.it.BytesRead()
	return sum, err
}

// Answer is a node to which an edge may lead, and its score: a logit, to be compared with those of the same question.
type Answer struct {
	Node  store.NodeID
	Score float32
}

// epochPredict keys the draws of predictions.
const epochPredict = -3

// Predict calls fn, for each of nodes in order, with the top best answers to where its next edge leads, the best first, of equal
// ones that with the smaller external id first. What is known is all that the store has: the moment is the one after its last edge.
func Predict(ctx context.Context, st *store.Store, dev gpu.Device, c *Checkpoint, cfg Config, nodes []store.NodeID, top int, fn func(i int, answers []Answer) error) (err error) {
	l, err := load(ctx, st, dev, c, &cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	now := l.events[len(l.events)-1].time + 1
	questions := make([]event, len(nodes))
	for i, v := range nodes {
		row, err := l.row(v)
		if err != nil {
			return err
		}
		questions[i] = event{src: row, dst: l.candidates[0], time: now} // what it leads to is not looked at
	}
	order := make([]int, len(l.candidates))
	answers := make([]Answer, 0, top)
	return l.eval.each(ctx, l.model, questions, epochPredict, func(i int, e event, past *recency, scores []float32) error {
		past.enter(e.src, e.time)
		for k, u := range l.candidates {
			order[k] = k
			scores[k] += c.Summary.RecallWeight * past.recent(u)
		}
		slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
		answers = answers[:0]
		for _, k := range order[:min(top, len(order))] {
			answers = append(answers, Answer{l.node(l.candidates[k]), scores[k]})
		}
		return fn(i, answers)
	})
}

// row is a node's row of the macro-batch, node a row's node.
func (d *data) row(v store.NodeID) (uint32, error) {
	for _, p := range d.mb.Partitions {
		if v >= p.First && uint64(v-p.First) < uint64(p.Nodes) {
			return p.Base + uint32(v-p.First), nil
		}
	}
	return 0, fmt.Errorf("%w: node %d", store.ErrNotFound, v)
}

func (d *data) node(row uint32) store.NodeID {
	for _, p := range d.mb.Partitions {
		if row >= p.Base && row-p.Base < p.Nodes {
			return p.First + store.NodeID(row-p.Base)
		}
	}
	panic(fmt.Sprintf("row %d is of no partition", row))
}
