// Package baseline computes what a result stands beside: the most frequent class, and the same model without edges, a perceptron on the
// nodes' own features. It costs at most about a tenth of the run's work, by counts and not by the clock, so that it is the same for the
// same run: the perceptron is trained on a sample of the training nodes and tested on a sample of the nodes that the run was tested on.
package baseline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// Result is what a run's result stands beside.
type Result struct {
	Split string `json:"split"` // whose nodes it is of: "test", or "valid" where no node is for testing
	// Majority is the most frequent class of the training nodes, the smallest of several, and MajorityAccuracy the share of the
	// split's nodes that have it.
	Majority         int     `json:"majority"`
	MajorityAccuracy float64 `json:"majority_accuracy"`
	// Mean is that of the training nodes' labels, where they are numbers, and MeanMAE how far it is from those of the split's nodes,
	// FeaturesMAE how far the model without edges is; accuracies are 0 then. nil: labels are classes.
	Mean        *float64 `json:"mean,omitempty"`
	MeanMAE     *float64 `json:"mean_mae,omitempty"`
	FeaturesMAE *float64 `json:"features_mae,omitempty"`
	// Constant are the labels that are best said of every node, where a node has several: by the micro-averaged F1 on the training nodes;
	// ConstantF1 is what they come to on the split's, and FeaturesF1 what the model without edges does; accuracies are 0 then.
	Constant   []int    `json:"constant,omitempty"`
	ConstantF1 *float64 `json:"constant_micro_f1,omitempty"`
	FeaturesF1 *float64 `json:"features_micro_f1,omitempty"`
	// FeaturesAccuracy is that of the model without edges on a sample of the split's nodes; nil: Skipped says why there is none.
	FeaturesAccuracy *float64 `json:"features_accuracy,omitempty"`
	Trained          int      `json:"features_trained,omitempty"` // nodes of the sample that it was trained on
	Tested           int      `json:"features_tested,omitempty"`  // nodes of the sample that it was tested on
	Epochs           int      `json:"features_epochs,omitempty"`
	Skipped          string   `json:"features_skipped,omitempty"`
}

// Options says beside what a result is to stand.
type Options struct {
	Split    string    // column
	Model    nn.Config // the run's, of which layers, width, dropout, norm and seed are taken
	Features []string  // columns of numbers that a node's own row has; none: no model is trained
	Adam     gpu.AdamOptions
	Batch    int // nodes of a mini-batch
	Patience int // epochs without a better one that end it
	// Examples bounds the work: a node that is trained once is one, a node that is looked at a third.
	Examples int64
	// MemoryBytes bounds what is held beside the program; 0: [MemoryMost].
	MemoryBytes int64
}

// What a sample holds at most and at least, and how often it is trained.
const (
	trainMost  = 20_000
	testMost   = 10_000
	trainLeast = 200 // or all training nodes
	epochsMost = 200
	epochsMin  = 10
	MemoryMost = 256 << 20   // bytes of a sample and its model, where nothing else bounds them
	freeFlops  = 500_000_000 // of a sample that is trained whatever the run took: hundredths of a second
)

// Compute computes what o says of a store's labels. dev stays the caller's.
func Compute(ctx context.Context, st *store.Store, dev gpu.Device, o Options) (_ *Result, err error) {
	s, err := newSampler(st, &o)
	if err != nil {
		return nil, fmt.Errorf("train: baselines: %w", err)
	}
	r := &Result{Split: s.testing}
	if err := s.counts(ctx, r); err != nil {
		return nil, fmt.Errorf("train: baselines: %w", err)
	}
	plan, why := o.plan(st.Manifest(), s)
	if r.Skipped = why; why != "" {
		return r, nil
	}
	if err := alone(ctx, st, dev, &o, s, plan, r); err != nil {
		return nil, fmt.Errorf("train: baselines: the model without edges: %w", err)
	}
	return r, nil
}

// work is how much of what is trained.
type work struct {
	train, valid, test int // nodes
	epochs             int
}

// plan says how much is trained, or why nothing is.
func (o *Options) plan(m *store.Manifest, s *sampler) (w work, skipped string) {
	if len(o.Features) == 0 {
		return w, "the nodes have no features of their own"
	}
	width := int64(0)
	for _, name := range o.Features {
		c, err := m.Column(name)
		if err != nil {
			return w, err.Error()
		}
		width += int64(c.RowBytes())
	}
	memory := o.MemoryBytes
	if memory == 0 {
		memory = MemoryMost
	}
	// An example's tensors of all layers, forward and backward, beside parameters with their moments.
	config := o.model()
	tensors := 4 * int64(config.In+4*config.Layers*max(config.Hidden, config.Out))
	rows := (memory - 5*config.SavedBytes() - int64(o.Batch)*tensors) / (width + 4)
	most := int64(trainMost)
	// Of each epoch's work a sixth is what looks at the validation nodes, half as many as train.
	examples := max(o.Examples, freeFlops/(6*int64(config.In+config.Hidden)*int64(max(config.Hidden, config.Out)))) * 6 / 7
	most = min(most, rows/2, examples/epochsMin)
	if w.train = int(min(most, int64(s.nodes[store.SplitTrain]))); w.train < trainLeast && uint64(w.train) < s.nodes[store.SplitTrain] || w.train < 1 {
		if rows/2 < trainLeast {
			return w, "there is no memory for a sample"
		}
		return w, "the run was too short to train one in a tenth of its time"
	}
	w.valid = min(w.train/2, int(s.nodes[store.SplitValid]))
	w.test = int(min(testMost, rows/4, s.nodes64(s.value)))
	w.epochs = int(min(epochsMost, examples/int64(w.train)))
	return w, ""
}

// model is the run's without edges.
func (o *Options) model() nn.Config {
	c := &o.Model
	return nn.Config{Model: "mlp", Layers: c.Layers, In: c.In, Hidden: c.Hidden, Out: c.Out, Dropout: c.Dropout, Norm: c.Norm, Residual: c.Residual, Seed: c.Seed, Numbers: c.Numbers, MultiLabel: c.MultiLabel}
}

// alone trains the model without edges and tests it.
func alone(ctx context.Context, st *store.Store, dev gpu.Device, o *Options, s *sampler, w work, r *Result) (err error) {
	d, err := s.draw(ctx, dev, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	t := &trained{ctx: ctx, q: q, arena: gpu.NewArena(dev), data: d, o: o, known: s.m.LabelSets()}
	defer func() { err = errors.Join(err, t.arena.Close()) }()
	if t.model, err = nn.New(ctx, q, o.model()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.model.Close()) }()
	if t.sets, err = nn.OpenLabelSets(ctx, q, t.known.Words()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.sets.Close()) }()
	if err := t.fit(w.epochs); err != nil {
		return err
	}
	tested, err := t.score(d.test)
	if err != nil {
		return err
	}
	switch {
	case o.Model.Numbers != nil:
		r.FeaturesMAE = &tested.mae
	case o.Model.MultiLabel:
		r.FeaturesF1 = &tested.f1
	default:
		r.FeaturesAccuracy = &tested.best
	}
	r.Trained, r.Tested, r.Epochs = len(d.train), len(d.test), t.epochs
	return nil
}

// places are rows of a sample.
type places []uint32

func (p places) batches(size int) []places { return slices.Collect(slices.Chunk(p, max(1, size))) }
