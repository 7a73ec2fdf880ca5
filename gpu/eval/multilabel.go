package eval

import (
	"context"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
)

// LabelCounts counts what a model says of nodes that have any number of labels: it says those with a logit above 0, which are likelier
// than not.
type LabelCounts struct {
	Right, Wrong, Missed []int64 // of each label: nodes that have it and of which it is said, that have it not, of which it is not said
	Nodes, Exact         int64   // all, and those of which every label is right
}

// NewLabelCounts counts nothing yet, of so many labels.
func NewLabelCounts(labels int) *LabelCounts {
	return &LabelCounts{Right: make([]int64, labels), Wrong: make([]int64, labels), Missed: make([]int64, labels)}
}

// Add counts a node with a set of labels, and returns its loss: the mean over labels of the binary cross-entropy of its logits.
func (c *LabelCounts) Add(sets *store.LabelSets, set int32, logits []float32) (loss float64) {
	exact := true
	for j, x := range logits {
		has, said := sets.Has(set, j), x > 0
		switch {
		case has && said:
			c.Right[j]++
		case said:
			c.Wrong[j]++
		case has:
			c.Missed[j]++
		}
		exact = exact && has == said
		v := float64(x)
		if loss += max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))); has {
			loss -= v
		}
	}
	if c.Nodes++; exact {
		c.Exact++
	}
	return loss / float64(max(1, len(logits)))
}

// LabelMetrics is how well a model says the labels of nodes that have any number of them; as scikit-learn has it, with zero_division=0.
type LabelMetrics struct {
	MicroF1 float64 // the harmonic mean of precision and recall over all pairs of a node and a label
	MacroF1 float64 // the mean over labels of the same
	Exact   float64 // the share of nodes all of whose labels are right
	Counts  *LabelCounts
}

// Metrics are those of what was counted; nil without nodes.
func (c *LabelCounts) Metrics() *LabelMetrics {
	if c.Nodes == 0 {
		return nil
	}
	m := &LabelMetrics{Exact: float64(c.Exact) / float64(c.Nodes), Counts: c}
	var hits, misses int64
	for j, right := range c.Right {
		off := c.Wrong[j] + c.Missed[j]
		hits, misses = hits+right, misses+off
		m.MacroF1 += harmonic(right, off) / float64(len(c.Right))
	}
	m.MicroF1 = harmonic(hits, misses)
	return m
}

// harmonic is F1 of so many hits and misses, 0 without either.
func harmonic(hits, misses int64) float64 {
	if hits == 0 {
		return 0
	}
	return 2 * float64(hits) / float64(2*hits+misses)
}

// Score is what the best of several models has the most of, from 0 to 1: the micro-averaged F1, or, while no label is likelier than not
// of any node that has it, what rises a little as the loss falls.
func (m *LabelMetrics) Score(loss float64) float64 {
	const little = 1e-6 // less than any F1 above 0 of fewer than a million labels
	if m.MicroF1 > 0 {
		return m.MicroF1
	}
	return little / (1 + loss)
}

// scoreSets is score for a model of several labels a node.
func (r *evaluation) scoreSets(ctx context.Context, logits gpu.Tensor, lo int) error {
	if len(r.splits) == 0 {
		return r.settle(ctx)
	}
	n, k := logits.Rows, logits.Cols
	values := slices.Grow(r.chunk.logits[:0], n*k)[:n*k]
	r.chunk.logits = values
	r.queue.Download(blocks.Bytes(values), logits)
	if err := r.settle(ctx); err != nil {
		return err
	}
	for i, split := range r.splits {
		for v, set := range asInt32(r.labels)[lo : lo+n] {
			if set >= 0 && r.split[lo+v] == split {
				r.metrics[i].Loss += r.saidOf[i].Add(r.sets, set, values[v*k:(v+1)*k])
				r.metrics[i].Nodes++
			}
		}
	}
	return nil
}

// Sigmoid turns logits into probabilities, each by itself.
func Sigmoid(logits []float32) {
	for i, x := range logits {
		logits[i] = float32(1 / (1 + math.Exp(-float64(x))))
	}
}
