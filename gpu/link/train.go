package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/table"
)

// Train trains embeddings of all nodes, vectors of relations and an encoder on the edges of a
// store, in memory or out of core, and evaluates them on its edge lists valid and test:
// filtered ranks against all nodes. The last epoch's model is the result, of a run whose epochs are not given the last one of as many as
// validation says ([Config].Patience); embeddings, their optimiser state, parameters and summary stay in the store as the last
// checkpoint of table cfg.Table ([Load]).
// ctx ends the run early, with its error; it can be resumed. Store and device stay the caller's.
func Train(ctx context.Context, st *store.Store, dev gpu.Device, cfg Config, hooks Hooks) (_ *Result, err error) {
	m := st.Manifest()
	if err := checkStore(m, cfg.EvalEvery >= 0); err != nil {
		return nil, err
	}
	if r, err := cfg.predicted(m); err == nil && r != nil {
		cfg.Relation = m.Schema.Relations[*r].Name // kept and compared in full
	}
	s := &session{cfg: &cfg, hooks: hooks, st: st}
	var model []byte
	if cfg.Resume {
		if s.table, s.from, model, err = resumeTable(ctx, st, &cfg); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := cfg.Normalize(); err != nil {
		return nil, err
	}
	every, err := progress.ParseInterval(cfg.CheckpointEvery)
	if err != nil {
		return nil, err
	}
	cpu := usage.CPUSeconds()
	if s.table == nil && cfg.From != "" {
		if err := cfg.Begin.check(&cfg, m); err != nil {
			return nil, fmt.Errorf("train: begin with table %s: %w", cfg.From, err)
		}
	}
	if err := s.prepare(ctx, dev, true); err != nil {
		return nil, err
	}
	if err := tryEngine(cfg.IOEngine); err != nil {
		return nil, err
	}
	if err := s.open(ctx, dev, model); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.closeRun()) }()
	if hooks.Start != nil {
		hooks.Start(cfg, s.why())
	}
	if hooks.Resume != nil && cfg.Resume {
		hooks.Resume(model != nil, s.from.Epoch, s.from.Place.Step, s.from.Place.Batch)
	}
	start := time.Now()
	if err := s.train(ctx, dev, every); err != nil {
		return nil, err
	}
	s.sum.TotalSeconds += time.Since(start).Seconds()
	s.sum.Seed, s.sum.Device, s.sum.IOEngine, s.sum.Table, s.sum.Resumed = cfg.Seed, dev.Info().String(), s.it.Stats().Engine, cfg.Table, model != nil
	s.sum.CPUSeconds += usage.CPUSeconds() - cpu
	s.sum.PeakRSSBytes = max(s.sum.PeakRSSBytes, usage.PeakRSSBytes())
	s.sum.addTable(s.it.TableStats())
	return &Result{Version: m.Version, Config: cfg, Summary: s.sum}, nil
}

// train trains from where s.from says on, with checkpoints every so often: until the run ends, or goes back to its best epoch, and then
// to its end.
func (s *session) train(ctx context.Context, dev gpu.Device, every progress.Interval) error {
	if err := s.chooseRate(ctx, dev, every); err != nil {
		return err
	}
	if back := !s.from.Within() && s.enough(s.from.Epoch); !back { // as it was to when its process ended
		diverged, err := s.trainFrom(ctx, every, s.cfg.Epochs)
		if err != nil || !diverged && !s.rule.Enough {
			return err
		}
	}
	if err := s.goBack(ctx, dev); err != nil {
		return err
	}
	if s.from.Epoch == s.cfg.Epochs { // it was the last one
		if err := s.evaluateTable(ctx, &Epoch{Epoch: s.from.Epoch}); err != nil {
			return err
		}
		return s.Checkpoint(ctx, s.from.Position)
	}
	_, err := s.trainFrom(ctx, every, s.cfg.Epochs)
	return err
}

// trainFrom trains from where s.from says on until so many epochs are finished. It reports whether the run diverged behind a best epoch
// that is kept.
func (s *session) trainFrom(ctx context.Context, every progress.Interval, epochs int) (diverged bool, err error) {
	looks := s.looks() && !s.tries()
	r := run.Run{Task: s, From: s.from.Position, Rule: run.Rule{Epochs: epochs}, Clock: progress.NewClock(every), Pipeline: s.t.pipe,
		Where: "table " + s.cfg.Table, Empty: "the store has no edges", KeepBest: looks, Batch: s.hooks.Batch}
	if s.rule = &r.Rule; looks {
		s.rule.Best = s.patient.Best
	}
	err = r.Train(ctx)
	return r.Diverged > 0, err
}

// why says in sentences why the run is planned as it is.
func (s *session) why() []string {
	return append(s.plan.Why, s.device.Why...)
}

// tryEngine reports whether the I/O engine works here.
func tryEngine(name string) error {
	engine, _, err := blockio.New(name, blockio.Options{Depth: 1})
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return engine.Close()
}

// session trains one set of embeddings.
type session struct {
	cfg     *Config
	hooks   Hooks
	st      *store.Store
	plan    *Decision
	types   *eval.AnswerTypes
	device  macro.DevicePlan
	table   *table.Table
	it      *buffer.Buffer
	t       *trainer
	eval    *eval.Ranker    // nil: nothing is evaluated
	rows    *table.Reader   // what it reads out of core
	inputs  *inputs         // what it computes of them and of features; nil without features
	stored  *storedFeatures // those that are read for it out of core
	e       *embeddings     // mapped with the first macro-batch
	sum     Summary
	from    *position // where the run goes on
	patient patient
	trial   int // epochs for which a learning rate is tried, in a run that does
	rule    *run.Rule
	next    *nextPlan // of the epoch after the one that trains; nil: not begun
	epoch   epoch     // in hand
}

// open makes what trains: at the beginning, or where a checkpoint's model and s.from say.
func (s *session) open(ctx context.Context, dev gpu.Device, model []byte) (err error) {
	m, o := s.st.Manifest(), s.plan.Options
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeRun())
		}
	}()
	if s.t, err = newTrainer(ctx, dev, s.cfg, m, s.types, s.device); err != nil {
		return err
	}
	if model != nil {
		s.sum, s.patient = s.from.Summary, s.from.patient
		if err := s.t.model.Params().LoadState(ctx, s.t.queue, model); err != nil {
			return err
		}
	} else {
		s.from = &position{Config: *s.cfg}
		if err := s.begin(ctx, m); err != nil {
			return err
		}
		blobs, err := s.t.blobs(ctx, s.from)
		if err != nil {
			return err
		}
		if s.table, err = createTable(ctx, s.st, s.cfg, blobs); err != nil {
			return err
		}
	}
	if err := s.spareBest(ctx); err != nil {
		return err
	}
	if s.cfg.Absent == AbsentShadow {
		if err := s.openAbsent(ctx, m, model != nil); err != nil {
			return err
		}
	}
	o.Table, o.Pin = s.table, gpu.Pin(dev)
	// Its rows are written to the table when ctx has ended, too: see interrupted.
	if s.it, err = buffer.Open(context.WithoutCancel(ctx), s.st, o); err != nil {
		return fmt.Errorf("train: plan %s with %d of %d partitions in memory: %w", s.cfg.Plan, s.cfg.Buffer, len(m.Partitions), err)
	}
	if a := &s.plan.Account; s.cfg.MemoryBytes > 0 && !dev.Info().OwnMemory() { // with what the partition buffer leaves of its part
		s.t.pipe.Bound(max(a.Of(holdsBatch)+a.Of(holdsBuffer)-s.it.MemoryBytes(), 1))
	}
	if s.eval != nil {
		s.rows = table.NewReader(s.table)
		return s.openInputs(m)
	}
	return nil
}

// openAbsent makes what the encoder sees of absent neighbours: new rows, or those of the checkpoint that the run goes on from.
func (s *session) openAbsent(ctx context.Context, m *store.Manifest, resumes bool) (err error) {
	if s.t.absent, err = openAbsent(ctx, s.st, s.cfg); err != nil {
		return err
	}
	s.t.choose()
	from := s.table
	if !resumes && s.cfg.Begin == nil {
		from = nil
	}
	read, err := s.t.absent.fill(ctx, m, s.cfg, from)
	s.sum.BytesRead += read + s.t.absent.topology.read
	return err
}

// prepare plans the run, and makes the evaluator if it has one. What the budget is too small for is found here: before an
// earlier run's table is replaced.
func (s *session) prepare(ctx context.Context, dev gpu.Device, evaluates bool) (err error) {
	if s.plan, err = Decide(ctx, s.st, dev.Info(), *s.cfg); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.plan.Close()) }()
	budget.Begin(ctx, &s.plan.Account)
	*s.cfg = s.plan.Config
	s.trial = s.cfg.trial(s.plan.examples)
	if s.device, err = s.cfg.PlanDevice(ctx, s.st, dev.Info(), 0); err != nil {
		return fmt.Errorf("train: plan for %s: %w", dev.Info().Name, err)
	}
	y := s.plan.memory
	if s.types, err = y.answerTypes(ctx, s.st); err != nil {
		return err
	}
	if evaluates && s.cfg.EvalEvery >= 0 {
		s.eval, err = y.ranker(ctx, s.st, dev, s.plan.Account.Of(holdsEval))
	}
	return err
}

// closeRun closes what open made but the table.
func (s *session) closeRun() error {
	var errs []error
	if s.rows != nil {
		errs = append(errs, s.rows.Close())
	}
	if s.inputs != nil {
		errs = append(errs, s.inputs.close(), s.stored.close())
	}
	if s.eval != nil {
		errs = append(errs, s.eval.Close())
	}
	if s.e != nil {
		errs = append(errs, s.e.close())
	}
	if s.it != nil {
		errs = append(errs, s.it.Close())
	}
	if s.t != nil {
		errs = append(errs, s.t.close())
	}
	s.rows, s.inputs, s.stored, s.eval, s.e, s.it, s.t = nil, nil, nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

func (s *session) close() error {
	if s.table == nil {
		return nil
	}
	return s.table.Close()
}
