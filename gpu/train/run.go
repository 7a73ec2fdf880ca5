package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
)

// session trains one model. It implements [run.Task]. The parts belong to its maker.
type session struct {
	cfg     *config.Config
	hooks   Hooks
	version uint64 // of the store
	fs      vfs.FS // of the store and of the run's checkpoints
	plan    feed.Plans
	it      feed.MacroBatches
	free    func() error // closes it
	eval    *eval.Evaluator
	after   int64 // what the evaluator holds since training ended; 0: no bound
	spare   int64 // what the evaluator may hold once nothing trains any more; 0: no more than before
	t       *trainer
	vectors *vectorTable // nil: learned vectors are parameters
	shape   config.Shape // of the model
	sum     Summary
	looked  int64 // bytes read to count neighbours
	passes  feed.Passes
	known   int            // 1 + the epoch that the trainer's history was filled for
	flat    plateaus       // so far
	best    float64        // score of sum.BestEpoch, see [session.score]; −1 before
	tested  []eval.Metrics // of valid and test, by sum.BestEpoch's validation; nil if this process made none
	from    *nodeProgress
	run     run.Run
	epoch   epoch   // in hand
	began   []byte  // the epoch's first parameters, where the history depends on them and a checkpoint may come
	state   []byte  // memory of the last checkpoint's copy of the model; nil before
	cpu     float64 // seconds of the process when the run began
	start   time.Time
}

// train trains all epochs from where s.from says, returns to the best one's parameters and tests them. state is the model
// there, nil at the beginning. Checkpoints are made every so often.
func (s *session) train(ctx context.Context, state []byte, every progress.Interval) error {
	s.start = time.Now()
	s.sum, s.best, s.t.chosen = s.from.Summary, s.from.Best, s.hooks.Choices
	if p := s.from.Plateaus; p != nil {
		s.flat = *p
	}
	s.run = run.Run{Task: s, Rule: ruleOf(s.cfg), From: s.from.Position, Clock: progress.NewClock(every), Pipeline: s.t.pipe, Where: s.cfg.CheckpointFile,
		Empty: "no training nodes in the plan's partitions", Batch: s.hooks.Batch}
	s.run.Rule.Best, s.run.Rule.Blind = s.sum.BestEpoch, s.sum.BestEpoch > 0 && s.best < 0
	s.run.Rule.Fell = s.sum.LeastLossEpoch
	if !s.vectors.midEpoch() {
		s.run.Between = "a history of learned vectors in a table is of an epoch's start"
	}
	if state != nil {
		if err := s.resume(ctx, state); err != nil {
			return fmt.Errorf("train: resume: %w", err)
		}
	} else if err := s.run.Checkpoint(ctx, run.Position{}); err != nil { // an earlier run's is not gone on from
		return err
	}
	if s.hooks.Resume != nil && s.cfg.Resume {
		s.hooks.Resume(state != nil, s.from.Epoch, s.from.Place.Step, s.from.Place.Batch)
	}
	if s.hooks.Confusion != nil {
		s.eval.CountConfusion()
	}
	if s.t.feed != nil {
		s.t.feed.First, s.t.feed.Limit = s.from.Epoch, s.run.Rule.Limit()
	}
	if err := s.run.Train(ctx); err != nil {
		return err
	}
	s.sum.DivergedEpoch = s.run.Diverged
	if err := s.test(ctx); err != nil {
		return err
	}
	s.sum = s.total()
	s.sum.Resumed = state != nil
	return nil
}

// ruleOf says when a run of c ends. One that repeats an earlier run's passes has as many epochs.
func ruleOf(c *config.Config) run.Rule {
	r := run.Rule{Epochs: c.Epochs, Patience: c.Patience, EvalEvery: c.EvalEvery}
	if r.Epochs == 0 {
		r.Epochs = len(c.ReusePasses)
	}
	return r
}

// validated are the splits whose metrics a validation computes.
var validated = []string{"valid", "test"}

// test returns to the best epoch's parameters and says how good they are.
func (s *session) test(ctx context.Context) error {
	if s.sum.BestEpoch > 0 {
		s.t.model.Params().Restore(s.t.queue)
	}
	m := s.tested
	ranks, err := s.ranks(ctx)
	if err != nil {
		return err
	}
	if m == nil || ranks { // the best epoch is of an earlier process, or more is asked of it than of others
		if err := errors.Join(s.endTraining(ctx, nil), s.vectors.readBest()); err != nil {
			return err
		}
		var areas []eval.Metrics
		err := s.evaluate(ctx, func() (err error) {
			areas, err = s.eval.Run(ctx, s.t.queue, s.t.model, validated...)
			return err
		})
		if err != nil {
			return err
		}
		if m == nil {
			m = areas
		}
		s.sum.Areas = areasOf(areas)
	}
	for i, split := range validated {
		if s.hooks.Confusion != nil && m[i].Confusion != nil && m[i].Nodes > 0 {
			s.hooks.Confusion(split, m[i].Confusion)
		}
	}
	s.sum.ValidAccuracy, s.sum.TestAccuracy = accuracy(m[0]), accuracy(m[1])
	s.sum.ValidBalanced, s.sum.TestBalanced = s.balanced(m[0]), s.balanced(m[1])
	s.sum.RareClass = rarePrecision(m[0]) != nil
	if s.shape.Numbers != nil {
		s.sum.Errors = &Errors{}
		s.sum.Errors.set(m)
	}
	if s.shape.Sets != nil {
		s.sum.F1 = &F1{}
		s.sum.F1.set(m)
	}
	return nil
}

// score is what the best epoch has the most of, from 0 to 1, −1 without validation nodes: the validation accuracy, balanced with class
// weights; of two classes of which one is rare, its mean with the average precision, as a model that finds none of the rare class is accurate too;
// of numbers, what falls as the mean absolute error grows; of several labels a node, the micro-averaged F1.
func (s *session) score(m eval.Metrics) float64 {
	if n := m.Numbers; n != nil {
		return s.shape.Numbers.Score(n.MAE)
	}
	if l := m.Labels; l != nil {
		return l.Score(m.Loss)
	}
	if b := s.balanced(m); b != nil {
		return *b
	}
	if p := rarePrecision(m); p != nil {
		return (*p + m.Accuracy) / 2
	}
	return accuracy(m)
}

// rarePrecision is the average precision of a split's rare class, of two; nil where none is rare, or with class weights.
func rarePrecision(m eval.Metrics) *float64 {
	if m.Nodes == 0 || !m.Ranking.Rare() {
		return nil
	}
	p := m.Ranking.AveragePrecision()
	return &p
}

// ranks makes the evaluation that follows, the run's last, measure how well a model of two classes, or of several labels a node, ranks
// nodes, if there is room for it: where one class is rare, accuracy says little.
func (s *session) ranks(ctx context.Context) (bool, error) {
	if s.shape.Numbers != nil || s.shape.Classes != 2 && s.shape.Sets == nil {
		return false, nil
	}
	if err := s.endTraining(ctx, nil); err != nil {
		return false, err
	}
	return s.eval.MeasureAreas(ctx, s.after, validated)
}

// areasOf are the areas under curves that were measured; nil for none.
func areasOf(ms []eval.Metrics) *Areas {
	a, any := &Areas{}, false
	for i, to := range [][2]**float64{{&a.ValidAUC, &a.ValidPrecision}, {&a.TestAUC, &a.TestPrecision}} {
		for k, x := range []float64{ms[i].AUC, ms[i].AveragePrecision} {
			if !math.IsNaN(x) {
				*to[k], any = &x, true
			}
		}
	}
	if !any {
		return nil
	}
	return a
}

// accuracy is a split's, −1 without nodes.
func accuracy(m eval.Metrics) float64 {
	if m.Nodes == 0 || m.Numbers != nil || m.Labels != nil {
		return -1
	}
	return m.Accuracy
}

// endTraining gives back what only training holds of a bounded run, and lets the evaluator hold it instead. No mini-batch may follow in x,
// the epoch in hand, or in any.
func (s *session) endTraining(ctx context.Context, x *run.Epoch) (err error) {
	if s.spare == 0 {
		return nil
	}
	if err := s.vectors.flush(ctx); err != nil {
		return err
	}
	if x != nil { // what it asks is closed here
		var moved progress.Totals
		x.Moved(&moved)
		x.Moved = func(t *progress.Totals) { t.Passes, t.BytesRead = moved.Passes, t.BytesRead+moved.BytesRead }
	}
	if s.t.feed != nil {
		err = s.t.feed.Close()
	}
	bytes := s.spare
	s.spare, s.after = 0, bytes
	s.vectors.released()
	return errors.Join(err, s.free(), s.t.pipe.Arena().Close(), s.eval.Rebound(bytes))
}

// evaluate runs a pass of the evaluator. Where the device's memory does not do for it beside feature rows that are kept there, they
// are given up, for the rest of the run, and it runs again.
func (s *session) evaluate(ctx context.Context, pass func() error) error {
	if err := s.vectors.flush(ctx); err != nil {
		return err
	}
	err := pass()
	if s.t.rows == nil || !errors.Is(err, gpu.ErrMemory) {
		return err
	}
	if err := errors.Join(s.t.keepNothing(s.shape), s.t.pipe.Arena().Reset()); err != nil {
		return err
	}
	return pass()
}
