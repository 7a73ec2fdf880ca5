package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/table"
)

// EvaluateOptions says what [Checkpoint.Evaluate] computes and may use.
type EvaluateOptions struct {
	MemoryBytes int64    // of the whole run; 0: no bound
	Splits      []string // whose metrics: "train", "valid", "test"
	// Held is what of MemoryBytes the caller takes, then or afterwards.
	Held []budget.Holder

	Confusion, Calibration, AUC, Predictions, Probabilities, Embeddings bool // see [eval.Options]
	Nodes                                                               []store.NodeID
	// Permute, if not nil, has nodes exchange values of a feature; its source is the store.
	Permute *eval.Permuted
}

// Evaluation is a model's exact outputs on a store: metrics of the splits asked for, in their order,
// and what the options keep of every node. Close frees it.
type Evaluation struct {
	*eval.Evaluator
	Metrics []eval.Metrics
}

// Evaluate computes the exact outputs of a checkpoint's model on a store by dev; both stay open
// as long as the result.
func (c *Checkpoint) Evaluate(ctx context.Context, st *store.Store, dev gpu.Device, o EvaluateOptions) (_ *Evaluation, err error) {
	m := st.Manifest()
	if err := c.checkLabels(m, len(o.Splits) > 0); err != nil {
		return nil, err
	}
	o.AUC = o.AUC && c.Model.Numbers == nil
	if err := c.checkFeatures(m); err != nil {
		return nil, err
	}
	q, err := gpu.NewQueue(dev)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	model, err := nn.New(ctx, q, c.Model)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	if err := model.Params().Load(ctx, q, c.Params); err != nil {
		return nil, err
	}
	vectors, done, err := c.Vectors(ctx, st)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	var auc int64
	if o.AUC && len(o.Splits) > 0 {
		if auc, err = eval.AUCBytes(ctx, st, c.Config.Split, o.Splits); err != nil {
			return nil, err
		}
	}
	src := eval.Source(st)
	if o.Permute != nil {
		o.Permute.Source = st
		src = o.Permute
		o.Held = append(slices.Clone(o.Held), budget.Holder{Name: "a permuted column", Bytes: o.Permute.Bytes(m)})
	}
	open := func(memory int64) (*eval.Evaluator, budget.Account, error) {
		a := budget.Account{TotalBytes: memory}
		if memory > 0 {
			a.Hold(budget.Program, budget.ProgramBytes, false)
			for _, h := range o.Held {
				a.Hold(h.Name, h.Bytes, h.Elastic)
			}
			a.Hold("model", c.Model.SavedBytes(), false) // gradients and moments are not touched
			a.HoldHeap("copy of the model", int64(len(c.Params)))
			a.Hold("area under the ROC curve", auc, false)
			memory = max(a.LeftBytes(), 1)
			a.Hold("tiles", max(a.LeftBytes(), 0), true)
		}
		e, err := eval.New(src, dev, eval.Options{Features: c.Config.Features, EdgeFeatures: c.Config.EdgeFeatures, Split: c.Config.Split, MemoryBytes: memory, Model: c.Model, Vectors: vectors,
			Confusion: o.Confusion, Calibration: o.Calibration, AUC: o.AUC, Predictions: o.Predictions, Probabilities: o.Probabilities, Embeddings: o.Embeddings, Nodes: o.Nodes, Unlabelled: len(o.Splits) == 0}, max(c.Model.Hidden, c.Model.Out))
		return e, a, err
	}
	e, account, err := open(o.MemoryBytes)
	if err != nil {
		return nil, budget.Smallest(err, o.MemoryBytes, func(memory int64) (budget.Account, error) {
			_, a, err := open(memory) // holds nothing yet
			return a, err
		})
	}
	budget.Begin(ctx, &account)
	e.KeepOnDevice(dev.Info().MemoryBytes/4*3 - c.Model.ParamBytes()) // a layer's tensors take the rest
	metrics, err := e.Run(ctx, q, model, o.Splits...)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &Evaluation{Evaluator: e, Metrics: metrics}, nil
}

// Vectors are the learned vectors of the model that lie in a table of st, until done; nil without.
func (c *Checkpoint) Vectors(ctx context.Context, st *store.Store) (_ *eval.Vectors, done func() error, err error) {
	if c.VectorTable == nil {
		return nil, func() error { return nil }, nil
	}
	cfg := c.Config
	if err := cfg.CountVectors(ctx, st); err != nil {
		return nil, nil, fmt.Errorf("evaluation: %w", err)
	}
	t, err := c.VectorTable.open(ctx, st)
	if err != nil {
		return nil, nil, fmt.Errorf("evaluation: %w", err)
	}
	v, rows := cfg.EvalVectors(), table.NewReader(t)
	v.Read = rows.Read
	return v, func() error { return errors.Join(rows.Close(), t.Close()) }, nil
}

// Check refuses a store of which the model can say nothing.
func (c *Checkpoint) Check(m *store.Manifest) error {
	if err := c.checkLabels(m, false); err != nil {
		return err
	}
	return c.checkFeatures(m)
}

// checkLabels refuses a store whose labels are of another kind, which need not have any to predict them for.
func (c *Checkpoint) checkLabels(m *store.Manifest, asked bool) error {
	labels := m.Labels()
	switch numbers := c.Model.Numbers != nil; {
	case labels == nil && !asked || !asked && m.Schema.Classes == 0 && !m.NumberLabels():
		return nil
	case numbers && !m.NumberLabels():
		return fmt.Errorf("evaluation: the model says numbers, the store's labels are %d classes", m.Schema.Classes)
	case c.Model.MultiLabel && m.LabelSets() == nil:
		return fmt.Errorf("evaluation: the model says any number of %d labels of a node, the store's nodes have one each", c.Model.Out)
	case !c.Model.MultiLabel && m.LabelSets() != nil:
		return fmt.Errorf("evaluation: the model says one of %d classes of a node, the store's nodes have any number of %d labels", c.Model.Out, m.Schema.Classes)
	case !numbers && m.NumberLabels():
		return fmt.Errorf("evaluation: the model has %d classes, the store's labels are numbers", c.Model.Out)
	case !numbers && m.Schema.Classes != c.Model.Out:
		return fmt.Errorf("evaluation: the model has %d classes, the store %d", c.Model.Out, m.Schema.Classes)
	}
	return nil
}

// checkFeatures refuses a store that has not the features that the model reads: it need not be the one that it was trained on.
func (c *Checkpoint) checkFeatures(m *store.Manifest) error {
	names, in, categories := c.Config.OwnFeatures(), 0, 0
	for _, name := range names {
		f, err := m.Column(name)
		if k, ok := m.Category(name); ok && categories < len(c.Model.Categories) {
			if int(k.Nodes)+1 < c.Model.Categories[categories] { // of nodes that were appended it has none
				return fmt.Errorf("evaluation: the model has %d vectors for column %s, the store %d", c.Model.Categories[categories]-1, name, k.Nodes)
			}
			categories++
			continue
		}
		if err != nil || f.Role != store.RoleFeature {
			return fmt.Errorf("evaluation: %w: feature %q, which the model reads (the store's features are %q)", store.ErrNotFound, name, m.ColumnNames(store.RoleFeature))
		}
		in += f.Dim
	}
	if categories != len(c.Model.Categories) {
		return fmt.Errorf("evaluation: the model reads %d columns of categories of nodes, the store has %d of them", len(c.Model.Categories), categories)
	}
	if in != c.Model.In {
		return fmt.Errorf("evaluation: the model reads %d columns of features %q, the store's have %d", c.Model.In, names, in)
	}
	return nil
}
