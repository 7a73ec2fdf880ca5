package planning

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Names of [config.Config.Mixture].
const ()

// mixtureWorth is the divergence of random steps from which on MixtureAuto mixes them. Steps of 1400 training nodes of 4 classes,
// as facebook-pages has at an eighth, would diverge by .02 if nodes were drawn one by one.
const mixtureWorth = .02

// Outlook is what is known before training of what a plan of several steps will cost in accuracy.
type Outlook struct {
	// Mixture is MixtureLabels or MixtureRandom.
	Mixture string `json:"mixture"`
	// Kept is the share of the training nodes' neighbours that are in memory when they train, of groups (plan pbs) in the group; in
	// [0, 1], in the first epoch.
	Kept float64 `json:"neighbours_kept"`
	// Divergence is macro.Divergence of the first epoch; Random of one whose partitions are drawn at random.
	Divergence float64 `json:"label_divergence"`
	Random     float64 `json:"label_divergence_random"`
	// LossPoints estimates how many points of test accuracy the run loses against one in memory, see expectedLoss.
	LossPoints float64 `json:"expected_loss_points"`
	// NoClasses says that labels are numbers, or several a node: there are no classes to be mixed, and accuracy stands for what is measured.
	NoClasses bool `json:"no_classes,omitempty"`
	// Advice is what can be done where that is much.
	Advice string `json:"-"`
}

// warnPoints is the expected loss from which on a run is warned of.
const warnPoints = 1

// presentPoints is the expected loss from which on a plan is looked for that has all neighbours: what a run without flags may lose.
const presentPoints = .2

// Of graphs with fewer than smallNodes nodes, whose rows are soon read, a fourth of that is enough: the estimate is of larger ones, and one of
// 3,327 nodes and 3,703 columns lost three points where .2 were expected (tools/budgetsweep).
const smallNodes = 20_000

// lossLooked is the expected loss from which on a plan is looked for that has all neighbours of a graph of so many nodes.
func lossLooked(nodes uint64) float64 {
	if nodes < smallNodes {
		return presentPoints / 4
	}
	return presentPoints
}

// Warn reports whether the expected loss is large.
func (o *Outlook) Warn() bool { return o.LossPoints >= warnPoints }

func (o *Outlook) String() string {
	how := fmt.Sprintf("partitions of a step are drawn at random, its classes diverge from the graph's by %.3f", o.Divergence)
	if o.Mixture == config.MixtureLabels {
		how = fmt.Sprintf("partitions of a step are chosen so that its classes are mixed as the graph's: they diverge by %.3f, at random by %.3f", o.Divergence, o.Random)
	}
	if o.NoClasses {
		return fmt.Sprintf("%.0f %% of training nodes' neighbours are within reach when they train; what that costs is known of classes: about %.1f points of accuracy (a rough estimate, docs/lab/findings.md)", 100*o.Kept, o.LossPoints)
	}
	return fmt.Sprintf("%.0f %% of training nodes' neighbours are within reach when they train; %s; expected loss against memory: about %.1f points of accuracy (a rough estimate, docs/lab/findings.md)",
		100*o.Kept, how, o.LossPoints)
}

// Mix decides which partitions the steps of a chosen plan have, where the configuration leaves it open: so that their
// classes are mixed as the graph's, where nodes have classes and random steps diverge by mixtureWorth or more. It
// returns the training nodes by partition and class, nil where neither the steps nor the loss ask for them, and what is to be
// expected; nil where everything is trained in one step.
func (y *Memory) Mix(ctx context.Context, choice *macro.Choice) (labels [][]store.ClassNodes, o *Outlook, err error) {
	c := &y.Cfg
	whole := choice.Policy == macro.Memory || choice.Policy == macro.Rows || choice.Capacity == 0 || choice.Capacity >= choice.Partitions-len(choice.Pinned)
	mixable := choice.Policy == macro.Hanoi && !whole || choice.Policy == macro.Memory && choice.Group > 0
	if whole && !mixable && c.LabelShift == config.ShiftOff {
		return nil, nil, nil
	}
	labels, err = y.store.TrainingClasses(ctx, c.Split)
	none := errors.Is(err, store.ErrNotFound) && c.Mixture != config.MixtureLabels // but numbers, or several labels a node
	switch {
	case none && y.M.Labels() == nil:
		return nil, nil, nil
	case err != nil && !none:
		return nil, nil, fmt.Errorf("train: classes of the training nodes: %w", err)
	case whole && !mixable:
		return labels, nil, nil
	}
	o = &Outlook{Mixture: config.MixtureRandom, NoClasses: none}
	plan, err := firstEpoch(choice.Config)
	if err != nil {
		return nil, nil, err
	}
	if none {
		o.Kept = macro.Kept(plan, y.sizes())
		o.LossPoints, o.Advice = expectedLoss(c, o), LossAdvice(c)
		choice.Why = append(choice.Why, o.String())
		return nil, o, nil
	}
	o.Random = macro.Divergence(plan, labels)
	if mixable && (c.Mixture == config.MixtureLabels || c.Mixture == config.MixtureAuto && o.Random >= mixtureWorth) {
		o.Mixture, choice.Labels = config.MixtureLabels, labels
		if plan, err = firstEpoch(choice.Config); err != nil {
			return nil, nil, err
		}
	}
	o.Divergence = macro.Divergence(plan, labels)
	o.Kept = macro.Kept(plan, y.sizes())
	o.LossPoints, o.Advice = expectedLoss(c, o), LossAdvice(c)
	choice.Why = append(choice.Why, o.String())
	return labels, o, nil
}

// LossAdvice is what can be done about a large expected loss.
func LossAdvice(c *config.Config) string {
	hop := ", an exact first hop (" + c.PrecomputeCommand() + ")"
	rows := ", or --plan rows where the graph fits without its features"
	reads := c.Kind().Hop
	if c.PrecomputedHop || reads != nn.HopMean && reads != nn.HopSum || c.Aggregator == "max" {
		hop = "" // it is read, or not for this model
	}
	room := "more --mem"
	if c.DevicePlan == macro.DevicePBS {
		room = "larger groups (--x device-macro)"
	}
	if !held(c) {
		rows = "" // it is refused
	}
	return room + ", neighbours kept together (gstore partition --partitioner fennel --hubs auto)" + hop + rows
}

// sizes are what [macro.Kept] asks of the store.
func (y *Memory) sizes() macro.Shape {
	s := macro.Shape{Undirected: y.M.Schema.Undirected, Edges: y.forecast.BucketEdges, Training: make([]float64, len(y.M.Partitions))}
	for p := range y.trained {
		s.Training[p] = float64(y.trained[p]) / float64(max(1, y.M.Partitions[p].Nodes))
	}
	return s
}

func firstEpoch(c macro.Config) (buffer.Plan, error) {
	p, err := macro.New(c)
	if err != nil {
		return buffer.Plan{}, fmt.Errorf("train: %w", err)
	}
	return p.Epoch(0), nil
}

// lossCurve is what absent neighbours cost: points where all are absent, which fall with a power of the share that is.
type lossCurve struct{ points, power float64 }

// What [config.Config.expectedLoss] is made of: fitted to the runs of docs/lab/findings.md, "What to expect", rounded.
var (
	lossPlain      = lossCurve{15, 1.7}
	lossHop        = lossCurve{5, 2.2}   // the first hop is exact
	lossHistory    = lossCurve{6, 1.7}   // a history completes the last layer
	lossHopHistory = lossCurve{3, 3}     // both
	lossRelations  = lossCurve{1.8, 1.7} // a history of relations, which completes the first layer too, or what hops leave of it
)

const (
	lossMixture = 1. // points where classes diverge by 1
	lossShift   = .5 // of it is left where the loss is corrected for it
)

// expectedLoss estimates how many points of test accuracy a run loses against one in memory, near convergence: for neighbours
// that are absent, less what hop and history give back, and for steps whose classes diverge. It is fitted to the graphs of docs/lab/findings.md, and no bound.
func expectedLoss(c *config.Config, o *Outlook) float64 {
	curve := lossPlain
	switch {
	case c.History && c.Relational():
		curve = lossRelations
	case c.PrecomputedHop && c.History:
		curve = lossHopHistory
	case c.PrecomputedHop:
		curve = lossHop
	case c.History:
		curve = lossHistory
	}
	absent := curve.points * math.Pow(1-o.Kept, curve.power)
	mixture := lossMixture * o.Divergence
	if c.LabelShift == config.ShiftAuto {
		mixture *= lossShift
	}
	return absent + mixture
}
