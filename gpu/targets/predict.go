package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/sampler/asof"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// Question is a row of the entities' table, by its key, and a moment.
type Question struct {
	Node   store.NodeID
	Moment int64
}

// Predict answers questions in their order, each by so many numbers as the task has classes, or one: probabilities, or what a regression's
// targets are. Rows that came after training are answered as others are. cfg is the model's own but for threads, memory and device.
func Predict(ctx context.Context, st *store.Store, dev gpu.Device, c *Checkpoint, cfg Config, questions []Question) (answers []float32, err error) {
	a, err := OpenAnswerer(ctx, st, dev, c, cfg, len(questions))
	if err != nil {
		return nil, err
	}
	answers, err = a.Predict(ctx, questions)
	return answers, errors.Join(err, a.Close())
}

// Recommended is a row that is recommended.
type Recommended struct {
	Node  store.NodeID
	Score float32
}

// Recommend answers questions of a recommendation in their order: by at most k rows each, the best first; with others, by those alone that the entity
// has nothing to do with.
func Recommend(ctx context.Context, st *store.Store, dev gpu.Device, c *Checkpoint, cfg Config, questions []Question, k int, others bool) (answers [][]Recommended, err error) {
	a, err := OpenAnswerer(ctx, st, dev, c, cfg, len(questions))
	if err != nil {
		return nil, err
	}
	answers, err = a.Recommend(ctx, questions, k, others)
	return answers, errors.Join(err, a.Close())
}

// trainedItems are the items of a store with the vectors that a model has of them.
func trainedItems(ctx context.Context, st *store.Store, d *data, c *Checkpoint) (*items, error) {
	x := newItems(st.Manifest(), d, &c.Task)
	keys, err := x.keys(ctx, st)
	if err == nil {
		x.match(keys, c.Items)
	}
	return x, err
}

// asked are questions as examples.
func (d *data) asked(questions []Question) ([]example, error) {
	part := make([]example, len(questions))
	for i, q := range questions {
		row, err := d.row(q.Node)
		if err != nil {
			return nil, err
		}
		part[i] = example{row: row, moment: q.Moment}
	}
	return part, nil
}

// Tested is how good a model is on a part of a training table, beside what costs nothing.
type Tested struct {
	Part           string // train, valid or test
	Score          Score
	Constant, Last Score
}

// Test scores a model on parts of the training table in folder dir, "" for the one that it was trained on, as the store has it now: of rows that came
// after training, too. The table asks what the model was trained to answer.
func Test(ctx context.Context, st *store.Store, dev gpu.Device, c *Checkpoint, cfg Config, dir string, parts []string) (list []Tested, err error) {
	tables, err := readTables(ctx, cmp.Or(dir, c.Config.Targets))
	if err != nil {
		return nil, err
	}
	asks := tables.task
	if asks.Kind != c.Task.Kind || asks.Table != c.Task.Table || asks.Items != c.Task.Items {
		return nil, fmt.Errorf("eval: %w: the training table is of %s of rows of %s, the model's of %s of rows of %s", store.ErrInvalid, asks.Kind, asks.Table, c.Task.Kind, c.Task.Table)
	}
	for _, part := range []*database.Targets{tables.train, tables.valid, tables.test} {
		for _, w := range slices.Concat(part.Words...) {
			if asks.Items == "" && !slices.Contains(c.Task.Classes, w) {
				return nil, fmt.Errorf("eval: %w: the training table has %q in column %q, which the model was not trained on", store.ErrInvalid, w, asks.Target)
			}
		}
	}
	asks.Classes = c.Task.Classes
	err = answer(ctx, st, dev, c, cfg, tables.rows(), func(m *model, o *opened, s *asof.Sampler) (err error) {
		t := &task{data: o.data, cfg: &cfg, kind: m.kind, model: m, sampler: s}
		if m.items != nil {
			if t.items, err = trainedItems(ctx, st, o.data, c); err != nil {
				return err
			}
		}
		t.At = &unfinished{} // where rows are counted
		if t.until, err = cfg.until(); err != nil {
			return err
		}
		if err := t.resolve(ctx, st, &tables); err != nil {
			return err
		}
		t.window = cmp.Or(asks.Window, c.Task.Window)
		t.past = t.kind.newPast(t.window, t.lists, t.train, t.valid, t.test)
		for _, part := range parts {
			of := map[string][]example{"train": t.train, "valid": t.valid, "test": t.test}[part]
			if len(of) == 0 {
				continue
			}
			x := Tested{Part: part}
			if x.Score, _, err = t.score(ctx, of, []float32{c.Summary.Share}); err != nil {
				return err
			}
			x.Constant, x.Last = t.baselines(of)
			list = append(list, x)
		}
		return nil
	})
	return list, err
}

// answer opens what answers so many questions, for one use.
func answer(ctx context.Context, st *store.Store, dev gpu.Device, c *Checkpoint, cfg Config, questions int, by func(*model, *opened, *asof.Sampler) error) (err error) {
	a, err := OpenAnswerer(ctx, st, dev, c, cfg, questions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return by(a.model, a.opened, a.sampler)
}

// Answerer is a model that stays open to be asked, with the store's rows in memory. It is for one goroutine.
type Answerer struct {
	st      *store.Store
	c       *Checkpoint
	opened  *opened
	model   *model
	sampler *asof.Sampler
	items   *items // of a recommendation, once it was asked
}

// OpenAnswerer opens a model for at most so many questions at a time. A budget too small is [store.ErrBudget].
func OpenAnswerer(ctx context.Context, st *store.Store, dev gpu.Device, c *Checkpoint, cfg Config, questions int) (_ *Answerer, err error) {
	if err := cfg.Normalize(); err != nil {
		return nil, err
	}
	if now := encoding(st.Manifest()); c.Encoding != "" && c.Encoding != now {
		return nil, fmt.Errorf("predict: %w: the columns of %s have other scales or categories than those that the model was trained on: rows that are added by gstore append keep them, a database that is ingested anew does not; train again",
			store.ErrInvalid, st.Dir())
	}
	a := &Answerer{st: st, c: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	k := kindOf(st.Manifest(), &c.Task, &cfg, len(c.Items))
	if a.opened, err = open(ctx, st, dev, &cfg, use{entity: c.Table, examples: questions, saved: int64(len(c.Params)), kind: k, past: c.PastRows}); err != nil {
		return nil, err
	}
	if a.model, err = newModel(ctx, dev, &cfg, a.opened.data, k, a.opened.graph.Relations()); err != nil {
		return nil, err
	}
	a.model.arena.Bound(a.opened.batch)
	behind, err := a.model.restore(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	if a.opened.past, err = c.readPast(ctx, st, a.opened.data, &a.model.kind, behind); err != nil {
		return nil, fmt.Errorf("predict: %w", err)
	}
	a.sampler, err = a.opened.newSampler(&cfg)
	return a, err
}

// Close frees what the answerer has. Store and device stay its caller's.
func (a *Answerer) Close() (err error) {
	if a.model != nil {
		err = a.model.close()
	}
	if a.opened != nil {
		err = errors.Join(err, a.opened.it.Close())
	}
	return err
}

// Predict is the function Predict.
func (a *Answerer) Predict(ctx context.Context, questions []Question) ([]float32, error) {
	part, err := a.opened.asked(questions)
	if err != nil {
		return nil, err
	}
	answers, _, err := a.model.all(ctx, a.opened.data, a.sampler, part, math.MaxInt64)
	return answers, err
}

// Recommend is the function Recommend.
func (a *Answerer) Recommend(ctx context.Context, questions []Question, k int, others bool) (answers [][]Recommended, err error) {
	part, err := a.opened.asked(questions)
	if err != nil {
		return nil, err
	}
	if a.items == nil {
		if a.items, err = trainedItems(ctx, a.st, a.opened.data, a.c); err != nil {
			a.items = nil
			return nil, err
		}
	}
	a.model.kind.top, a.items.others = k, others
	best, _, err := a.model.recommend(ctx, a.items, a.sampler, part, math.MaxInt64, []float32{a.c.Summary.Share})
	for _, list := range slices.Concat(best...) {
		var rows []Recommended
		for _, s := range list {
			rows = append(rows, Recommended{a.opened.node(a.items.rows[s.item]), s.score})
		}
		answers = append(answers, rows)
	}
	return answers, err
}

// Orders lists how neighbours may be drawn.
func Orders() []string { return []string{asof.Latest, asof.Uniform} }
