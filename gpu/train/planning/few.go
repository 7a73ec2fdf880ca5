package planning

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/sparse"
	"github.com/gstore/gstore/store"
)

const (
	// A run without a number of epochs waits for patienceEpochs, or for a multiple of them of about patienceSteps mini-batches: Adam
	// gets nowhere in twenty.
	patienceEpochs, patienceSteps = 20, 100
	// fewNodes train with a weight decay. With 1,462 of Cora one changes nothing (docs/lab/findings.md, "Few labels").
	fewNodes = 1000
	// meanNorm is the squared norm that the mean of a node's neighbours' rows has, were they independent, from which on the weights'
	// prior has variance 1. Smaller rows need larger weights.
	meanNorm = 4
)

// settle fills in what the configuration leaves open and what goes by the number of training nodes, and says why.
func (d *Decision) settle(ctx context.Context, st *store.Store, once *Counted) (why []string, err error) {
	c := &d.Config
	if c.Patience == 0 {
		every, err := d.stride()
		if err != nil {
			return nil, err
		}
		c.Patience = every * patienceEpochs
		if every > 1 {
			c.EvalEvery = every
			why = append(why, fmt.Sprintf("an epoch is few mini-batches: one in %d is validated, and training stops %d after the best one (--eval-every, --patience)",
				every, c.Patience))
		}
	}
	c.EvalEvery = max(1, c.EvalEvery)
	if c.WeightDecay == nil {
		decay, err := priorDecay(ctx, c, st, d.Nodes, once)
		if err != nil {
			return nil, err
		}
		if c.WeightDecay = &decay; decay > 0 {
			why = append(why, fmt.Sprintf("few training nodes, %d: weight decay %.2g (--weight-decay)", d.Nodes, decay))
		}
	}
	return why, nil
}

// stride is how many epochs lie between validations of a run that ends by them, so that patienceEpochs validations, which are as many
// as where epochs are longer, have up to patienceSteps mini-batches between them.
func (d *Decision) stride() (int, error) {
	c := &d.Config
	if c.Epochs > 0 || c.EvalEvery > 0 || c.LRSchedule == config.SchedulePlateau || len(c.ReusePasses) > 0 || d.Nodes == 0 {
		return 1, nil
	}
	plan, err := firstEpoch(d.Choice.Config)
	if err != nil {
		return 0, err
	}
	batch := uint64(c.BatchSize * c.Accumulate)
	steps := max(int((d.Nodes+batch-1)/batch), len(plan.Steps))
	return max(1, patienceSteps/patienceEpochs/steps), nil
}

// priorDecay is the weight decay of a run of few nodes whose classes a model learns from features that are mostly 0, as bags of words,
// most of whose words no training node has: beside a mean loss of N nodes 1/N is a normal prior of variance 1 on parameters. It is
// less where rows, averaged over neighbours, are small. Of other features one gives nothing, or takes some.
func priorDecay(ctx context.Context, c *config.Config, st *store.Store, nodes uint64, once *Counted) (float64, error) {
	m := st.Manifest()
	if nodes == 0 || nodes >= fewNodes || c.Relational() || len(c.Features) != 1 || m.NumberLabels() || m.LabelSets() != nil {
		return 0, nil
	}
	column, err := m.Column(c.Features[0])
	if err != nil || !sparse.Fits(column) {
		return 0, err
	}
	some, err := once.sample(ctx, st, column)
	if err != nil || !some.Few() {
		return 0, err
	}
	return min(1, some.SquaredNorm()/meanNorm/max(1, c.MeanDegree(m))) / float64(nodes), nil
}
