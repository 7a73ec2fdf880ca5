package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/sampler/asof"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// Epoch is what happened in one epoch.
type Epoch struct {
	Epoch        int     `json:"epoch"` // from 1
	Loss         float64 `json:"loss"`  // mean over seeds
	Valid        Score   `json:"valid"`
	Best         bool    `json:"best"`
	Seconds      float64 `json:"seconds"` // of training
	Batches      int     `json:"batches"`
	SampledEdges int64   `json:"sampled_edges"`
}

// Summary is a run's result: the keys of the summary event.
type Summary struct {
	Task     string `json:"task"`
	Kind     string `json:"kind"` // of [database.Task]
	Classes  int    `json:"classes,omitempty"`
	Protocol string `json:"protocol"` // "seed", or "frozen at" the moment after which nothing was known
	Test     Score  `json:"test"`
	Valid    Score  `json:"valid"` // of the best epoch
	// What costs nothing: a constant, and the entity's last target that was known; see [task.baselines].
	TestConstant  Score `json:"test_constant"`
	TestLast      Score `json:"test_last"`
	ValidConstant Score `json:"valid_constant"`
	ValidLast     Score `json:"valid_last"`
	BestEpoch     int   `json:"best_epoch"`
	// Share is how much of what is learned of entities and items counts in a recommendation, beside popularity and history.
	Share         float32 `json:"share,omitempty"`
	DivergedEpoch int     `json:"diverged_epoch,omitempty"`
	TrainRows     int     `json:"train_rows"`
	// CheckedRows were sampled by the whole run; none was later than the moment that it was sampled for.
	CheckedRows int64 `json:"checked_rows"`
	run.Took
}

// Hooks let a caller watch a run.
type Hooks = run.Hooks[Config, Summary, Epoch]

// placeOrder is the place of the random draws that put an epoch's seeds in order.
const placeOrder = 0x746172 // "tar"

// task trains a model on a graph in memory: an epoch is one step, whose examples are the training table's rows in an order of their own. It
// implements [run.Task], and [run.Batches] of the step.
type task struct {
	run.InMemory[Config, Summary, Epoch]
	*data
	cfg                *Config
	rule               *run.Rule
	model              *model
	kind               kind
	lists              [][]uint32 // of targets that are lists
	items              *items     // nil: nothing is recommended
	keys               []uint64   // of items with vectors
	until              int64
	window             int64 // see [database.Task].Window
	sampler            *asof.Sampler
	train, valid, test []example
	feed               *feed
	batch              batch
	next               int
}

// Train trains on the training table that cfg names and tests, by dev, and returns the best epoch's model. Store and device stay the caller's.
func Train(ctx context.Context, st *store.Store, dev gpu.Device, cfg Config, hooks Hooks) (c *Checkpoint, err error) {
	at, state, err := resume(&cfg, st.Manifest().Version)
	if err != nil {
		return nil, err
	}
	if cfg.Resume && hooks.Resume != nil {
		hooks.Resume(state != nil, at.Epoch, at.Place.Step, at.Place.Batch)
	}
	if state != nil { // a run of before these were there
		cfg.Past, cfg.Counts, cfg.Average = cmp.Or(cfg.Past, denied), cmp.Or(cfg.Counts, denied), cmp.Or(cfg.Average, denied)
	}
	watch := run.Watch()
	tables, u, err := begin(ctx, st.Manifest(), &cfg)
	if err != nil {
		return nil, err
	}
	m, k := st.Manifest(), u.kind
	o, err := open(ctx, st, dev, &cfg, u)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.it.Close()) }()
	t := &task{data: o.data, cfg: &cfg, kind: k}
	t.At, t.Hooks = &at, hooks
	if err := t.prepare(ctx, st, &tables); err != nil {
		return nil, err
	}
	at.Config = cfg
	sum := &at.Summary
	if state == nil {
		*sum = t.summary(&tables, dev)
	}
	sum.IOEngine, sum.Resumed = o.it.Stats().Engine, state != nil
	if hooks.Start != nil {
		hooks.Start(cfg, *sum)
	}
	c = &Checkpoint{Version: at.Version, Config: cfg, Table: tables.task.Table, Task: *tables.task, Encoding: encoding(m), Items: t.keys}
	if err := t.run(ctx, st, dev, o, state, c); err != nil {
		return nil, err
	}
	watch.Stop(&sum.Took, o.it.BytesRead())
	c.Summary = *sum
	return c, nil
}

// begin reads the training table, and fits a configuration to it and the store.
func begin(ctx context.Context, m *store.Manifest, cfg *Config) (tables tables, u use, err error) {
	if tables, err = readTables(ctx, cfg.Targets); err == nil {
		err = findClasses(tables.task, tables.train, tables.valid, tables.test)
	}
	if err == nil {
		err = checkTask(m, tables.task)
	}
	if err != nil {
		return tables, u, err
	}
	cfg.fit(m, tables.task, tables.rows())
	if err := cfg.checkPast(tables.task); err != nil {
		return tables, u, err
	}
	return tables, use{entity: tables.task.Table, examples: tables.rows(), train: true, kind: kindOf(m, tables.task, cfg, -1), listed: tables.words()}, nil
}

// prepare resolves the training table and makes the sampler.
func (t *task) prepare(ctx context.Context, st *store.Store, tables *tables) (err error) {
	if t.kind.recommending() {
		t.items = newItems(st.Manifest(), t.data, tables.task)
		keys, err := t.items.keys(ctx, st)
		if err != nil {
			return err
		}
		if len(keys) > vectorsMost {
			keys = nil
		}
		t.keys = keys
		t.items.match(keys, keys)
	}
	if err := t.resolve(ctx, st, tables); err != nil {
		return err
	}
	if len(t.train) == 0 || len(t.valid) == 0 {
		return fmt.Errorf("train: targets of rows: %w: %d rows train and %d validate, expected some of each with a target", store.ErrInvalid, len(t.train), len(t.valid))
	}
	if t.until, err = t.cfg.until(); err != nil {
		return err
	}
	if t.items != nil {
		t.items.setGrid(t.train, t.until)
	}
	t.kind.scale(t.train)
	t.window = tables.task.Window
	t.past = t.kind.newPast(t.window, t.lists, t.train, t.valid, t.test)
	t.sampler, err = t.newSampler(t.cfg)
	return err
}

// resolve finds the rows of all parts.
func (t *task) resolve(ctx context.Context, st *store.Store, tables *tables) (err error) {
	for _, p := range []struct {
		to   *[]example
		from *database.Targets
	}{{&t.train, tables.train}, {&t.valid, tables.valid}, {&t.test, tables.test}} {
		if *p.to, err = t.examples(ctx, st, tables.task, p.from); err != nil {
			return err
		}
	}
	return nil
}

// newSampler makes the sampler that a configuration asks for.
func (d *data) newSampler(cfg *Config) (*asof.Sampler, error) {
	return asof.New(d.graph, asof.Config{Fanouts: cfg.Fanouts, Order: cfg.Sampler, Recent: *cfg.Recent, Seed: cfg.Seed})
}

// summary is what is known before training.
func (t *task) summary(tables *tables, dev gpu.Device) Summary {
	s := Summary{Task: tables.task.Name, Kind: tables.task.Kind, Protocol: protocol(t.cfg), Classes: t.kind.classes, TrainRows: len(t.train), Took: run.TakenBy(dev, t.cfg.Seed)}
	s.ValidConstant, s.ValidLast = t.baselines(t.valid)
	s.TestConstant, s.TestLast = t.baselines(t.test)
	return s
}

func protocol(cfg *Config) string {
	if cfg.KnownUntil == "" {
		return "seed"
	}
	return "frozen at " + cfg.KnownUntil
}

// run trains from where the run stands on, goes back to the best epoch's parameters, tests them and makes them c.
func (t *task) run(ctx context.Context, st *store.Store, dev gpu.Device, o *opened, state []byte, c *Checkpoint) (err error) {
	every, err := progress.ParseInterval(t.cfg.CheckpointEvery)
	if err != nil {
		return err
	}
	if t.model, err = newModel(ctx, dev, t.cfg, t.data, t.kind, t.graph.Relations()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.model.close()) }()
	m := t.model
	if err := m.openAverage(); err != nil {
		return err
	}
	t.Keep = m.keep
	m.arena.Bound(o.batch)
	if state != nil {
		if err := m.goOn(ctx, state); err != nil {
			return err
		}
	}
	sum := &t.At.Summary
	r := run.Run{Task: t, Rule: run.Rule{Epochs: t.cfg.Epochs, Patience: t.cfg.Patience, EvalEvery: 1, Best: sum.BestEpoch}, From: t.At.Position,
		Clock: progress.NewClock(every), Where: t.cfg.CheckpointFile, Empty: "no row trains"}
	if t.rule = &r.Rule; t.items != nil {
		t.rule.Least = min(leastBatches*t.cfg.BatchSize/len(t.train), leastEpochs)
	}
	if err := r.Train(ctx); err != nil {
		return err
	}
	for _, p := range m.sets() {
		p.Restore(m.q)
	}
	sum.DivergedEpoch = r.Diverged
	if sum.Test, _, err = t.score(ctx, t.test, []float32{sum.Share}); err != nil {
		return err
	}
	if err := m.checkpoint(ctx, c); err != nil || t.past == nil {
		return err
	}
	b, err := t.past.encode(ctx, st, t.data)
	c.PastRows, c.Params = len(t.past.rows), append(c.Params, b...)
	return err
}

// What a recommendation is trained for whatever validation says: tastes that many have in common show late, and popularity at once.
const (
	leastBatches = 300
	leastEpochs  = 30
)

// Begin implements [run.Task].
func (t *task) Begin(_ context.Context, x *run.Epoch) error {
	t.Fresh(Epoch{Epoch: x.Number + 1})
	return nil
}

// Step implements [run.Task].
func (t *task) Step(_ context.Context, x *run.Epoch) (run.Batches, error) {
	if !t.Once() {
		return nil, nil
	}
	key := keyed.New(t.cfg.Seed).With(placeOrder)
	order := keyed.NewPermutation(key.With(1).With(uint64(x.Number)), uint64(len(t.train)))
	t.feed = &feed{d: t.data, sampler: t.sampler, examples: t.train, lists: t.lists, items: t.items, order: &order, size: t.cfg.BatchSize, until: t.until, key: key.With(2), hide: key.With(3), epoch: x.Number}
	t.next = x.From.Batch
	return t, nil
}

// Next implements [run.Batches].
func (t *task) Next() (bool, error) {
	if t.next >= t.feed.batches() {
		return false, nil
	}
	if err := t.feed.fill(t.next, &t.batch); err != nil {
		return false, fmt.Errorf("train: %w", err)
	}
	t.next++
	return true, nil
}

// Train implements [run.Batches].
func (t *task) Train(ctx context.Context, sum *progress.Counts) error {
	b := &t.batch
	err := t.Count(&b.Batch, b.SampledEdges(), sum, func() (float64, error) { return t.model.step(ctx, b) })
	if err == nil {
		t.At.Summary.CheckedRows += int64(b.checked)
	}
	return err
}

// Place implements [run.Batches].
func (t *task) Place() (progress.Place, bool) { return progress.Place{Batch: t.next}, true }

// Leave implements [run.Batches].
func (t *task) Leave(_ context.Context, err error) error { return err }

// Trained implements [run.Task].
func (t *task) Trained(x *run.Epoch) {
	r := &t.Record
	r.Loss, r.Seconds, r.Batches, r.SampledEdges = x.Loss(), x.Trained.Seconds, int(x.Counts.Batches), x.Counts.Edges
}

// score predicts a part and compares: of a recommendation for each of some shares, of which the first is returned, or one that is surely
// better.
func (t *task) score(ctx context.Context, part []example, shares []float32) (best Score, share float32, err error) {
	if t.items != nil {
		lists, checked, err := t.model.recommend(ctx, t.items, t.sampler, part, t.until, shares)
		if t.At.Summary.CheckedRows += checked; err != nil {
			return best, 0, err
		}
		right := t.truthOf(part).lists
		var of []float64
		for k, list := range lists { // the simplest first
			s, rows := t.kind.scoreRows(itemsOf(list), right)
			if k == 0 || t.kind.better(&s, &best) && surely(rows, of) {
				best, share, of = s, shares[k], rows
			}
		}
		return best, share, nil
	}
	predicted, checked, err := t.model.all(ctx, t.data, t.sampler, part, t.until)
	t.At.Summary.CheckedRows += checked
	if err != nil {
		return best, 0, err
	}
	return t.kind.score(predicted, t.truthOf(part)), 0, nil
}

// evalEpoch keys the draws of evaluations and predictions.
const evalEpoch = -1

// all answers examples in their order.
func (m *model) all(ctx context.Context, d *data, s *asof.Sampler, part []example, until int64) (predicted []float32, checked int64, err error) {
	f := &feed{d: d, sampler: s, examples: part, size: m.cfg.BatchSize, until: until, epoch: evalEpoch}
	b := &batch{}
	checked, err = f.each(ctx, b, func(int) error {
		answers, err := m.predict(ctx, b)
		predicted = append(predicted, answers...)
		return err
	})
	return predicted, checked, err
}

// Validate implements [run.Task]: every epoch is validated, and the one of the best score is the best.
func (t *task) Validate(ctx context.Context, _ *run.Epoch) error {
	sum, r, m := &t.At.Summary, &t.Record, t.model
	m.swapAverage()
	defer m.swapAverage() // after an error too: a checkpoint may follow
	var err error
	var share float32
	if r.Valid, share, err = t.score(ctx, t.valid, shares); err != nil {
		return err
	}
	if sum.BestEpoch == 0 || t.kind.better(&r.Valid, &sum.Valid) {
		r.Best, sum.BestEpoch, sum.Valid, sum.Share, t.rule.Best = true, r.Epoch, r.Valid, share, r.Epoch
		for _, p := range m.sets() {
			p.Keep(m.q)
		}
		if err := m.q.Sync(ctx); err != nil {
			return err
		}
	}
	sum.EpochSeconds = append(sum.EpochSeconds, r.Seconds)
	return nil
}
