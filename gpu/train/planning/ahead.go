package planning

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// Ahead is the account of a run by plan memory on a store that is not made yet, of which the manifest is known: an ingest asks by
// it whether training will have the graph in memory, and so lays out no store that training then refuses.
type Ahead struct {
	evalBytes, batchBytes, besideBytes int64
}

// OpenAhead works out what a run of c on a device that info describes takes with all of m in memory. Where m does not fit the task
// it is an error. Of relations, whose draws are counted in the graph itself, it is as much as fanouts allow.
func OpenAhead(ctx context.Context, info gpu.Info, m *store.Manifest, c config.Config) (a *Ahead, err error) {
	c.FillFeatures(m)
	y := &Memory{M: m, Cfg: c, info: info}
	if y.Shape, err = config.ShapeOf(m, &y.Cfg); err != nil {
		return nil, err
	}
	o := eval.Options{Features: y.Cfg.Features, MemoryBytes: 1 << 50, Model: y.Cfg.ModelConfig(y.Shape), Unlabelled: true}
	e, err := eval.New(manifestOnly{m}, nil, o, max(y.Cfg.Hidden, y.Shape.Classes))
	if err != nil {
		return nil, err
	}
	y.eval = e.LeastBytes()
	if err := e.Close(); err != nil {
		return nil, err
	}
	if y.batch, err = NewBatchMeter(ctx, info, m, &y.Cfg, y.Shape); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, y.batch.Close()) }()
	table, sorted := y.sparseBytes()
	a = &Ahead{evalBytes: y.eval, batchBytes: y.batchBytes(0, 0), besideBytes: table + sorted + y.copyBytes() + y.sampledBytes(0)}
	return a, y.failed
}

// BesideBytes is what such a run within so many bytes holds beside the graph and its rows: program, evaluation, mini-batches and
// copies of the model.
func (a *Ahead) BesideBytes(memory int64) int64 {
	share := func(n int64) int64 { return budget.Share(memory, budget.ProgramBytes, n) }
	return budget.ProgramBytes + max(a.evalBytes, share(budget.EvalShare)) + max(a.batchBytes, share(budget.BatchShare)) + a.besideBytes
}

// manifestOnly is a store without files.
type manifestOnly struct{ m *store.Manifest }

var errNotMade = fmt.Errorf("%w: the store is not made yet", store.ErrInvalid)

func (s manifestOnly) Manifest() *store.Manifest { return s.m }

func (s manifestOnly) ReadColumn(context.Context, string, store.PartitionID, []byte) ([]byte, error) {
	return nil, errNotMade
}

func (s manifestOnly) ColumnBytes(string, store.PartitionID) (int64, error) { return 0, errNotMade }

func (s manifestOnly) ReadStripe(context.Context, store.PartitionID, []byte) (blocks.Stripe, []byte, error) {
	return blocks.Stripe{}, nil, errNotMade
}

func (s manifestOnly) ScratchDir() string { return "" }
