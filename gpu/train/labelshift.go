package train

import (
	"math"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Names of [Config.LabelShift].
const (
	ShiftAuto = "auto"
	ShiftOff  = "off"
)

// shiftMix is the share of the graph's own mixture in what a step's is taken for: a class that a
// step lacks keeps this share of its odds, so that the model still learns that its nodes are not of it.
const shiftMix = .1

// labelShift corrects the loss for steps whose classes are not mixed as the graph's are. A step holds whole
// communities, hence few classes; a model that follows it learns the step's mixture, and forgets it in the next
// one. In the loss alone, the logit of class c gets log(π_s(c)/π(c)), π_s and π being the shares of c among the training nodes of the
// step and of the graph: what is learnt then is the posterior under the graph's mixture, whatever the steps' are
// (Saerens, Latinne and Decaestecker 2002, section 2; Menon et al. 2021, "Long-tail learning via logit adjustment", section 4).
// Where a step has all training nodes the correction is nothing, and no operation is issued.
type labelShift struct {
	graph  []float64 // log π by class, smoothed by half a node
	nodes  int       // training nodes of the graph
	counts []float64 // of the step, by class
	logits []float32 // what the step's logits get; empty: nothing
}

// newLabelShift takes the training nodes of each partition by class, and how many there are, those without a class too.
func newLabelShift(labels [][]store.ClassNodes, nodes uint64, classes int) *labelShift {
	l := &labelShift{graph: make([]float64, classes), counts: make([]float64, classes), nodes: int(nodes)}
	labelled := 0.
	for _, part := range labels {
		for _, x := range part {
			l.graph[x.Class] += float64(x.Nodes)
			labelled += float64(x.Nodes)
		}
	}
	for c, n := range l.graph {
		l.graph[c] = math.Log((n + .5) / (labelled + .5*float64(classes)))
	}
	return l
}

// enter prepares the correction of a step.
func (l *labelShift) enter(mb *buffer.MacroBatch) {
	l.logits = l.logits[:0]
	if len(mb.Seeds) >= l.nodes {
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
	for c, logGraph := range l.graph {
		share := (1-shiftMix)*l.counts[c]/known + shiftMix*math.Exp(logGraph)
		l.logits = append(l.logits, float32(math.Log(share)-logGraph))
	}
}

// tensor is what a batch's logits [seeds × classes] get, none where that is nothing.
func (l *labelShift) tensor(q *gpu.Queue, a *gpu.Arena) gpu.Tensor {
	if l == nil || len(l.logits) == 0 {
		return gpu.Tensor{}
	}
	return a.Float32s(q, l.logits)
}
