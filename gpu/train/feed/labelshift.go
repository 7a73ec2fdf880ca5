package feed

import (
	"math"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Names of [config.Config.LabelShift].
const ()

// shiftMix is the share of the graph's own mixture in what a step's is taken for: a class that a
// step lacks keeps this share of its odds, so that the model still learns that its nodes are not of it.
const shiftMix = .1

// LabelShift corrects the loss for steps whose classes are not mixed as the graph's are. A step holds whole
// communities, hence few classes; a model that follows it learns the step's mixture, and forgets it in the next
// one. In the loss alone, the logit of class c gets log(π_s(c)/π(c)), π_s and π being the shares of c among the training nodes of the
// step and of the graph: what is learnt then is the posterior under the graph's mixture, whatever the steps' are
// (Saerens, Latinne and Decaestecker 2002, section 2; Menon et al. 2021, "Long-tail learning via logit adjustment", section 4).
// Where a step has all training nodes the correction is nothing, and no operation is issued.
type LabelShift struct {
	Graph  []float64 // log π by class, smoothed by half a node
	Nodes  int       // training nodes of the graph
	counts []float64 // of the step, by class
	Logits []float32 // what the step's logits get; empty: nothing
}

// NewLabelShift takes the training nodes of each partition by class, and how many there are, those without a class too.
func NewLabelShift(labels [][]store.ClassNodes, nodes uint64, classes int) *LabelShift {
	l := &LabelShift{Graph: make([]float64, classes), counts: make([]float64, classes), Nodes: int(nodes)}
	labelled := 0.
	for _, part := range labels {
		for _, x := range part {
			l.Graph[x.Class] += float64(x.Nodes)
			labelled += float64(x.Nodes)
		}
	}
	for c, n := range l.Graph {
		l.Graph[c] = math.Log((n + .5) / (labelled + .5*float64(classes)))
	}
	return l
}

// Enter prepares the correction of a step; nil corrects nothing.
func (l *LabelShift) Enter(mb *buffer.MacroBatch) {
	if l == nil {
		return
	}
	l.Logits = l.Logits[:0]
	if len(mb.Seeds) >= l.Nodes {
		return
	}
	clear(l.counts)
	known := 0.
	for _, row := range mb.Seeds {
		if c := mb.Labels[row]; c >= 0 && int(c) < len(l.counts) {
			l.counts[c]++
			known++
		}
	}
	if known == 0 {
		return
	}
	for c, logGraph := range l.Graph {
		share := (1-shiftMix)*l.counts[c]/known + shiftMix*math.Exp(logGraph)
		l.Logits = append(l.Logits, float32(math.Log(share)-logGraph))
	}
}

// Tensor is what a batch's logits [seeds × classes] get, none where that is nothing.
func (l *LabelShift) Tensor(q *gpu.Queue, a *gpu.Arena) gpu.Tensor {
	if l == nil || len(l.Logits) == 0 {
		return gpu.Tensor{}
	}
	return a.Float32s(q, l.Logits)
}
