package train

import (
	"context"
	"fmt"
	"time"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/store/buffer"
)

// epoch is the epoch in hand, and how far all before it were.
type epoch struct {
	record  Epoch
	plan    buffer.Plan
	counted counted // at its beginning
}

// counted is what a trainer counts from its beginning on.
type counted struct {
	copied, drew      time.Duration
	replayed          int64
	drawnBytes, waits int64
	blockBytes        int64
}

func (t *trainer) counted() counted {
	drawn := t.draws.Stats()
	return counted{copied: t.copied, replayed: t.replay.Stats().Replayed, drew: drawn.Took, drawnBytes: drawn.Bytes, waits: drawn.Waits, blockBytes: t.blockBytes}
}

// Begin implements [run.Task].
func (s *session) Begin(ctx context.Context, x *run.Epoch) error {
	e := x.Number
	s.epoch = epoch{plan: s.plan.Epoch(e), counted: s.t.counted()}
	s.epoch.record = Epoch{Epoch: e + 1, ValidAccuracy: -1, TestAccuracy: -1}
	s.setRate(e)
	r, plan := &s.epoch.record, s.epoch.plan
	s.sum.Plan = plan.Policy
	if x.Was.Batches == 0 {
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	var err error
	if r.HistoryBytes, err = s.refreshHistory(ctx, e, plan); err != nil {
		return err
	}
	r.PlannedBytes = s.it.PredictBytes(plan)
	if err := feed.StartEpoch(s.it, &s.plan, &s.passes, e, x.From.Step, !x.Last); err != nil {
		return err
	}
	s.passes.Taken = x.Was.Passes
	x.Moved = func(t *progress.Totals) {
		t.Passes, t.BytesRead = s.passes.Taken, t.BytesRead+s.it.Stats().BytesRead
	}
	return nil
}

// Step implements [run.Task].
func (s *session) Step(ctx context.Context, x *run.Epoch) (run.Batches, error) {
	if x.Wait(s.it.Next) {
		return s.t.enter(ctx, x.Number, s.it.MacroBatch(), &s.passes, x.From)
	}
	if err := s.it.Err(); err != nil {
		return nil, fmt.Errorf("train: epoch %d: %w", x.Number+1, err)
	}
	return nil, nil
}

// Trained implements [run.Task].
func (s *session) Trained(x *run.Epoch) {
	r, t, sum := &s.epoch.record, &x.Trained, &x.Counts
	r.DeviceRows = s.t.rows.Traffic()
	if s.hooks.Macro != nil {
		s.hooks.Macro(s.it.Stats(), r.DeviceRows)
	}
	if s.t.feed != nil { // which batches read what is decided as they are sampled ahead
		r.PlannedBytes = x.Was.BytesRead + s.it.PredictBytes(s.epoch.plan)
	}
	r.RowsUsed, r.RowsRead = s.t.feed.Rows(x.Number)
	r.HistorySeconds, r.Passes, r.Steps = s.t.history.Seconds(), s.passes.Taken, x.Steps
	r.Loss, r.TrainAccuracy, r.Seconds, r.BytesRead, r.Profile = x.Loss(), x.Accuracy(), t.Seconds, t.BytesRead, sum.Profile
	if n := s.shape.Numbers; n != nil {
		mae := x.Accuracy() * float64(n.Deviation) // what was counted are distances
		r.Errors, r.TrainAccuracy = &Errors{TrainMAE: &mae}, -1
	}
	if s.shape.Sets != nil {
		r.F1, r.TrainAccuracy = &F1{}, -1 // what was counted are shares of labels
	}
	r.Batches, r.SampledEdges, r.ListedEdges, r.PrunedEdges = sum.Batches, sum.Edges, sum.Listed, sum.Pruned
	r.DeviceTimes = x.Times
	was, now, d := s.epoch.counted, s.t.counted(), &r.DeviceTimes
	if now.replayed > was.replayed {
		d.ReplayedBatches, d.ReplayShapes = now.replayed-was.replayed, s.t.replay.Stats().Shapes
	}
	if err := s.t.replay.Err(); err != nil {
		d.RecordError = err.Error()
	}
	d.DeviceSampleSeconds, d.DeviceBlockBytes = (now.drew - was.drew).Seconds(), now.blockBytes-was.blockBytes+now.drawnBytes-was.drawnBytes
	d.DeviceWaits += now.waits - was.waits
	if d.DeviceSeconds > 0 {
		d.DeviceCopySeconds = (now.copied - was.copied).Seconds()
	}
}

// refreshHistory fills the history for epoch e, counted from 0, unless the
// validation before did. It returns the bytes read for it.
func (s *session) refreshHistory(ctx context.Context, e int, plan buffer.Plan) (int64, error) {
	h := s.t.history
	if len(h) == 0 || s.known == e+1 {
		return 0, nil
	}
	start, before := time.Now(), s.eval.BytesRead()
	err := s.evaluate(ctx, func() error {
		if err := h.Begin(plan); err != nil {
			return err
		}
		_, err := s.eval.RunInto(ctx, s.t.queue, s.t.model, h)
		return err
	})
	if err != nil {
		return 0, err
	}
	h.Took(time.Since(start))
	s.known = e + 1
	bytes := s.eval.BytesRead() - before
	s.sum.HistoryBytes += bytes
	return bytes, nil
}

// Validate implements [run.Task]: where it is time, the exact accuracies are computed, and the best model by validation's is kept.
func (s *session) Validate(ctx context.Context, x *run.Epoch) error {
	if s.run.Rule.Due(x.Number + 1) {
		if err := s.validate(ctx, x); err != nil {
			return err
		}
	}
	s.sum.add(&s.epoch.record)
	return nil
}

func (s *session) validate(ctx context.Context, x *run.Epoch) error {
	start, r, h := time.Now(), &s.epoch.record, s.t.history
	if x.Last {
		h = nil
		if err := s.endTraining(ctx, x); err != nil {
			return err
		}
	}
	var m []eval.Metrics
	err := s.evaluate(ctx, func() (err error) {
		var sink eval.Sink
		if len(h) > 0 { // the states that validation computes are those of the next epoch's start
			if err := h.Begin(s.plan.Epoch(r.Epoch)); err != nil {
				return err
			}
			sink = h
		}
		m, err = s.eval.RunInto(ctx, s.t.queue, s.t.model, sink, validated...)
		return err
	})
	if err != nil {
		return err
	}
	if len(h) > 0 {
		s.known = r.Epoch + 1
	}
	finite, err := s.t.model.Params().Finite(ctx, s.t.queue)
	if err != nil {
		return err
	}
	if !finite || !isFinite(m[0].Loss) || !isFinite(m[1].Loss) {
		return s.t.diverged("after epoch %d parameters or losses are no finite numbers", r.Epoch)
	}
	s.run.Rule.Blind = m[0].Nodes == 0
	r.ValidAccuracy, r.TestAccuracy = accuracy(m[0]), accuracy(m[1])
	r.ValidBalanced, r.TestBalanced = s.balanced(m[0]), s.balanced(m[1])
	r.RarePrecision = rarePrecision(m[0])
	if r.Errors != nil {
		r.Errors.set(m)
	}
	if r.F1 != nil {
		r.F1.set(m)
	}
	if score := s.score(m[0]); score > s.best || s.run.Rule.Blind { // nothing says that an earlier epoch was better
		if err := s.keep(ctx, r, m, score); err != nil {
			return err
		}
	}
	if loss := m[0].Loss; !s.run.Rule.Blind && (s.sum.LeastLossEpoch == 0 || loss < s.sum.LeastLoss) {
		// Accuracy that stands still while the loss falls is to rise, above all where nearly all nodes are predicted to be of one class.
		s.sum.LeastLoss, s.sum.LeastLossEpoch, s.run.Rule.Fell = loss, r.Epoch, r.Epoch
	}
	if s.cfg.LRSchedule == config.SchedulePlateau && !s.run.Rule.Blind {
		s.flat.look(r.Epoch, s.run.Rule.Best)
	}
	r.ValidSeconds = time.Since(start).Seconds()
	return nil
}

// balanced is a split's balanced accuracy, of a run whose loss is weighted by class; else nil, and without nodes.
func (s *session) balanced(m eval.Metrics) *float64 {
	if s.cfg.ClassWeights != config.WeightsAuto || m.Nodes == 0 {
		return nil
	}
	b := m.Confusion.BalancedAccuracy()
	return &b
}

// keep makes an epoch's model the best one, by its score.
func (s *session) keep(ctx context.Context, r *Epoch, m []eval.Metrics, score float64) error {
	s.t.model.Params().Keep(s.t.queue)
	if err := s.t.queue.Sync(ctx); err != nil {
		return err
	}
	if err := s.vectors.keepBest(ctx); err != nil {
		return err
	}
	s.best, r.Best = score, true
	s.sum.BestEpoch, s.run.Rule.Best, s.tested = r.Epoch, r.Epoch, m
	return nil
}

// Report implements [run.Task].
func (s *session) Report(*run.Epoch) {
	if h := s.hooks.Enough; h != nil && h(s.epoch.record) {
		s.run.Rule.Enough = true
	}
	if s.hooks.Epoch != nil {
		s.hooks.Epoch(s.epoch.record)
	}
}

// Torn implements [run.Task].
func (s *session) Torn() bool { return s.t.stepping }
