package temporal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// Epoch is what happened in one epoch.
type Epoch struct {
	Epoch        int     `json:"epoch"` // from 1
	Loss         float64 `json:"loss"`  // mean over edges
	Valid        Ranks   `json:"valid"`
	Best         bool    `json:"best"`    // the best validation MRR so far
	Seconds      float64 `json:"seconds"` // of training
	ValidSeconds float64 `json:"valid_seconds"`
	Batches      int     `json:"batches"`
	SampledEdges int64   `json:"sampled_edges"`
}

// Summary is a run's result: the keys of the summary event.
type Summary struct {
	Test      Ranks `json:"test"`
	Valid     Ranks `json:"valid"`     // of the best epoch
	TestRule  Ranks `json:"test_rule"` // of the recency rule: last met by the node, then by any
	ValidRule Ranks `json:"valid_rule"`
	BestEpoch int   `json:"best_epoch"`
	// RecallWeight is how much counts beside the model's score that a candidate was met lately, chosen by the best epoch's validation.
	RecallWeight float32 `json:"recall_weight,omitempty"`
	// DivergedEpoch is the one whose loss was no number any more, if there is one: the run ended there.
	DivergedEpoch int `json:"diverged_epoch,omitempty"`
	// Moments at which validation and test begin, and how many edges train, validate and test.
	ValidTime  int64 `json:"valid_time"`
	TestTime   int64 `json:"test_time"`
	TrainEdges int   `json:"train_edges"`
	ValidEdges int   `json:"valid_edges"`
	TestEdges  int   `json:"test_edges"`
	Candidates int   `json:"candidates"`
	// CheckedEdges were sampled by the whole run; each was seen to be strictly before what it was sampled for.
	CheckedEdges int64 `json:"checked_edges"`
	run.Took
}

// Hooks let a caller watch a run.
type Hooks = run.Hooks[Config, Summary, Epoch]

// placeOrder is the place of the random draws that put an epoch's edges in order.
const placeOrder = 0x74656d70 // "temp"

// opened is a store's graph in memory.
type opened struct {
	*data
	it    *buffer.Buffer
	batch int64 // bytes that the tensors of a batch may take; 0: no bound
}

// open reads a store's graph as cfg, which is normalized, says. A budget that is too small for it and what u does with it is
// [store.ErrBudget], before anything is read.
func open(ctx context.Context, st *store.Store, dev gpu.Device, cfg *Config, u use) (_ *opened, err error) {
	manifest := st.Manifest()
	if _, err := manifest.TimeColumn(); err != nil {
		return nil, fmt.Errorf("train: edges at moments: %w", err)
	}
	if manifest.Schema.Undirected {
		return nil, fmt.Errorf("train: %w: an undirected store keeps one of an edge's two ends as its source: ingest a directed one, whose edges lead to what is predicted", store.ErrInvalid)
	}
	untyped := slices.ContainsFunc(manifest.Partitions, func(p store.PartitionInfo) bool { return p.Types == nil })
	if untyped && manifest.IDs.Kind != store.IDsDense && len(manifest.Schema.NodeTypes) > 1 {
		return nil, fmt.Errorf("train: %w: several types of nodes with ids of kind %s, of which the store does not say which node is of which type", store.ErrInvalid, manifest.IDs.Kind)
	}
	o := buffer.Options{EngineName: cfg.IOEngine, Both: true, Times: true, Keys: true, Threads: cfg.Threads, Pin: gpu.Pin(dev)}
	step := buffer.Step{}
	for _, c := range manifest.ColumnsOf(store.RoleFeature) {
		if c.Derived == "" {
			o.Features = append(o.Features, c.Name)
		}
	}
	for p := range manifest.Partitions {
		step.Resident = append(step.Resident, store.PartitionID(p))
	}
	var account budget.Account
	if cfg.MemoryBytes > 0 {
		if account, err = forecast(ctx, st, dev.Info(), cfg, o, u); err == nil {
			err = account.Fits()
		}
		if err != nil {
			return nil, fmt.Errorf("train: edges at moments: %w", err)
		}
		o.MemoryBytes = account.Of(holdsGraph)
		budget.Begin(ctx, &account)
	}
	it, err := buffer.Open(ctx, st, o)
	if err != nil {
		return nil, fmt.Errorf("train: edges at moments: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, it.Close())
		}
	}()
	if err := it.Start(buffer.Plan{Policy: "memory", Steps: []buffer.Step{step}}); err != nil {
		return nil, err
	}
	if !it.Next() {
		return nil, it.Err()
	}
	d, err := newData(it.MacroBatch(), manifest, cfg)
	if err != nil {
		return nil, err
	}
	return &opened{d, it, account.Of(holdsBatch)}, nil
}

// summary is what the split says.
func (d *data) summary(cfg *Config, dev gpu.Device) Summary {
	return Summary{ValidTime: d.events[d.train].time, TestTime: d.events[d.valid].time, TrainEdges: d.train, ValidEdges: d.valid - d.train, TestEdges: len(d.events) - d.valid,
		Candidates: len(d.candidates), Took: run.TakenBy(dev, cfg.Seed)}
}

// Train trains and tests on a store whose edges have times ([store.Manifest.TimeColumn]), by dev, and returns the best epoch's model.
// Store and device stay the caller's.
func Train(ctx context.Context, st *store.Store, dev gpu.Device, cfg Config, hooks Hooks) (c *Checkpoint, err error) {
	at, state, err := resume(&cfg, st.Manifest().Version)
	if err != nil {
		return nil, err
	}
	if cfg.Resume && hooks.Resume != nil {
		hooks.Resume(state != nil, at.Epoch, at.Place.Step, at.Place.Batch)
	}
	watch := run.Watch()
	d, err := open(ctx, st, dev, &cfg, use{train: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.it.Close()) }()
	if state == nil {
		at.Summary = d.summary(&cfg, dev)
	}
	at.Config, at.Summary.IOEngine, at.Summary.Resumed = cfg, d.it.Stats().Engine, state != nil
	if hooks.Start != nil {
		hooks.Start(cfg, at.Summary)
	}
	c = &Checkpoint{Version: at.Version, Config: cfg}
	if err := train(ctx, dev, d, hooks, &at, state, c); err != nil {
		return nil, err
	}
	watch.Stop(&at.Summary.Took, d.it.BytesRead())
	c.Summary = at.Summary
	return c, nil
}

// validation and test are the edges of the splits that are ranked.
func (d *data) validation(cfg *Config) []event {
	return d.sample(keyed.New(cfg.Seed).With(placeOrder).With(1), d.train, d.valid, cfg.EvalEdges)
}

func (d *data) test(cfg *Config) []event {
	return d.sample(keyed.New(cfg.Seed).With(placeOrder).With(4), d.valid, len(d.events), cfg.EvalEdges)
}
