package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Epoch is what happened in one epoch. Accuracies are in [0, 1].
type Epoch struct {
	Epoch         int     `json:"epoch"` // from 1
	Loss          float64 `json:"loss"`  // mean over training examples, dropout on
	TrainAccuracy float64 `json:"train_accuracy"`
	// ValidAccuracy is exact, after the epoch; −1 if it was not computed.
	ValidAccuracy float64 `json:"valid_accuracy"`
	// TestAccuracy comes with ValidAccuracy, for the reader: nothing is chosen by it.
	TestAccuracy float64 `json:"test_accuracy"`
	Best         bool    `json:"best"`          // the best validation accuracy so far; of a split without validation nodes, the last epoch
	Seconds      float64 `json:"seconds"`       // of training, waits included
	ValidSeconds float64 `json:"valid_seconds"` // of validation
	BytesRead    int64   `json:"bytes_read"`    // by training
	// What the history cost before this epoch: seconds are part of Seconds, or of the
	// ValidSeconds of the epoch before if a validation computed the states anyway; then nothing is read for it.
	HistorySeconds float64 `json:"history_seconds,omitempty"`
	HistoryBytes   int64   `json:"history_bytes,omitempty"`
	PlannedBytes   int64   `json:"planned_bytes"` // what the plan predicted that training reads
	Steps          int     `json:"steps"`         // macro-batches
	// Of plan rows: input rows of all mini-batches, and those that were read because the cache had them not.
	RowsUsed int64 `json:"rows_used,omitempty"`
	RowsRead int64 `json:"rows_read,omitempty"`
	// Passes over each step's macro-batch where timing decided (or Config.ReusePasses repeated) them.
	Passes       []int `json:"passes,omitempty"`
	Batches      int64 `json:"batches"`
	SampledEdges int64 `json:"sampled_edges"`
	// Of a run with Prune: edges of the lists that were drawn from, and those of them that it left out.
	ListedEdges int64            `json:"listed_edges,omitempty"`
	PrunedEdges int64            `json:"pruned_edges,omitempty"`
	Profile     progress.Profile `json:"profile"`
	gpu.DeviceTimes
	// DeviceRows is what feature rows cost between host and device; nil where the device reads them where they are.
	DeviceRows *cache.Traffic `json:"device_rows,omitempty"`
}

// Summary is a run's result: the keys of the summary event.
type Summary struct {
	TestAccuracy         float64   `json:"test_accuracy"`            // of the best epoch's model; −1: the split has no test nodes
	ValidAccuracy        float64   `json:"valid_accuracy"`           // likewise
	TrainLoss            float64   `json:"train_loss"`               // of the last epoch
	BestEpoch            int       `json:"best_epoch"`               // of the best validation accuracy, the last one where the split has no validation nodes
	DivergedEpoch        int       `json:"diverged_epoch,omitempty"` // whose loss or parameters were no numbers any more: the run ended there
	EpochSeconds         []float64 `json:"epoch_seconds"`
	TotalSeconds         float64   `json:"total_seconds"`
	CPUSeconds           float64   `json:"cpu_seconds"`
	PeakRSSBytes         int64     `json:"peak_rss_bytes"`
	BytesRead            int64     `json:"bytes_read"`
	EvalBytesRead        int64     `json:"eval_bytes_read"`                  // by validations, the test and passes for the history
	HistoryBytes         int64     `json:"history_bytes,omitempty"`          // by passes for the history alone
	FeatureResidentBytes int64     `json:"feature_resident_bytes"`           // the most that feature rows of a step's partitions took
	HistoryResidentBytes int64     `json:"history_resident_bytes,omitempty"` // what the history holds in memory for the whole run
	HistoryRowBytes      int64     `json:"history_row_bytes,omitempty"`      // read by steps from the history's temporary file
	BytesWritten         int64     `json:"bytes_written"`                    // of learned vectors to their table, checkpoints apart
	CheckpointBytes      int64     `json:"checkpoint_bytes,omitempty"`       // of learned vectors, by checkpoints and for evaluation
	Table                string    `json:"table,omitempty"`                  // of learned vectors
	Batches              int64     `json:"batches"`
	SampledEdges         int64     `json:"sampled_edges"`
	ListedEdges          int64     `json:"listed_edges,omitempty"` // of a run with Prune: of the lists that were drawn from
	PrunedEdges          int64     `json:"pruned_edges,omitempty"` // those of them that it left out
	Seed                 uint64    `json:"seed"`
	Resumed              bool      `json:"resumed,omitempty"`
	// Choices is how layers were computed, which decides the results' last bits.
	Choices  []nn.Choice      `json:"choices,omitempty"`
	Plan     string           `json:"plan"`
	Device   string           `json:"device"`
	IOEngine string           `json:"io_engine"`
	Profile  progress.Profile `json:"profile"` // of all epochs together
	// DeviceRows is the epochs' together, as far as this process trained them.
	DeviceRows *cache.Traffic `json:"device_rows,omitempty"`
}

// Hooks let a caller watch a run. Any may be nil; they are called from the
// training goroutine and should return soon.
type Hooks struct {
	// Start is called once before the first epoch with the configuration in full.
	Start func(Config)
	// Plan is called once after Start with why the plan was chosen, in sentences.
	Plan func(why []string)
	// Outlook is called once after Start with what a plan of several steps is expected to cost.
	Outlook func(Outlook)
	Batch   func(epoch int, batches int64) // after each mini-batch's step
	Epoch   func(Epoch)
	// Choices is called once, when the first mini-batch has decided how layers are computed.
	Choices func([]nn.Choice)
	// Resume is called once after Start in a run with [Config].Resume: what was trained before, or found false, if there is no
	// checkpoint to go on from.
	Resume func(found bool, epochs, step, batch int)
	// Checkpoint is called after each with what it holds: finished epochs, and the step and mini-batch of the
	// next one that come next.
	Checkpoint func(epochs, step, batch int)
	// Macro is called after each epoch's training with what the partition buffer measured, and what feature rows cost between host
	// and device; nil where the device reads them where they are.
	Macro func(buffer.Stats, *cache.Traffic)
	// Confusion is called at the end with what the resulting model makes of the nodes of valid and test.
	Confusion func(split string, c *eval.Confusion)
}

// session trains one model. The parts belong to its maker.
type session struct {
	cfg     *Config
	hooks   Hooks
	version uint64 // of the store
	fs      vfs.FS // of the store and of the run's checkpoints
	plan    planner
	it      macroBatches
	free    func() error // closes it
	eval    *eval.Evaluator
	spare   int64 // what the evaluator may hold once nothing trains any more; 0: no more than before
	t       *trainer
	vectors *vectorTable // nil: learned vectors are parameters
	shape   shape        // of the model
	sum     Summary
	passes  passes
	blind   bool           // no node is for validation
	known   int            // 1 + the epoch that the trainer's history was filled for
	best    float64        // validation accuracy of sum.BestEpoch, −1 before
	tested  []eval.Metrics // of valid and test, by sum.BestEpoch's validation; nil if this process made none
	from    *nodeProgress
	clock   *progress.Clock
	began   []byte  // the epoch's first parameters, where the history depends on them and a checkpoint may come
	cpu     float64 // seconds of the process when the run began
	start   time.Time
	soFar   func() progress.Totals // of the epoch that trains, up to next
	next    progress.Place         // the mini-batch that comes next in it
}

// run trains all epochs from where s.from says, returns to the best one's parameters and tests them. state is the model
// there, nil at the beginning.
func (s *session) run(ctx context.Context, state []byte) error {
	s.start = time.Now()
	s.sum, s.best, s.t.chosen = s.from.Summary, s.from.Best, s.hooks.Choices
	if state != nil {
		if err := s.resume(ctx, state); err != nil {
			return fmt.Errorf("train: resume: %w", err)
		}
	} else if err := s.checkpoint(ctx, 0, progress.Place{}, progress.Totals{}); err != nil { // an earlier run's is not gone on from
		return err
	}
	s.blind = s.sum.BestEpoch > 0 && s.best < 0
	if s.hooks.Resume != nil && s.cfg.Resume {
		s.hooks.Resume(state != nil, s.from.Epoch, s.from.Place.Step, s.from.Place.Batch)
	}
	if s.hooks.Confusion != nil {
		s.eval.CountConfusion()
	}
	if s.t.feed != nil {
		s.t.feed.first, s.t.feed.limit = s.from.Epoch, s.limit()
	}
	for e := s.from.Epoch; s.more(e); e++ {
		r, err := s.epoch(ctx, e)
		if err == nil && ((e+1)%s.cfg.EvalEvery == 0 || e+1 == s.limit()) {
			err = s.validate(ctx, &r)
		}
		if errors.Is(err, errDiverged) && s.sum.BestEpoch > 0 { // what was good before is the result
			s.sum.DivergedEpoch = e + 1
			break
		}
		if err != nil {
			return s.interrupted(ctx, e, err)
		}
		s.sum.add(&r)
		if s.clock.Epoch(e+1) || !s.more(e+1) {
			if err := s.checkpoint(ctx, e+1, progress.Place{}, progress.Totals{}); err != nil {
				return err
			}
		}
		if s.hooks.Epoch != nil {
			s.hooks.Epoch(r)
		}
	}
	params := s.t.model.Params()
	if s.sum.BestEpoch > 0 {
		params.Restore(s.t.queue)
	}
	m := s.tested
	if m == nil { // the best epoch is of an earlier process
		if err := errors.Join(s.endTraining(ctx), s.vectors.readBest()); err != nil {
			return err
		}
		err := s.evaluate(ctx, func() (err error) {
			m, err = s.eval.Run(ctx, s.t.queue, s.t.model, validated...)
			return err
		})
		if err != nil {
			return err
		}
	}
	for i, split := range validated {
		if s.hooks.Confusion != nil && m[i].Nodes > 0 {
			s.hooks.Confusion(split, m[i].Confusion)
		}
	}
	s.sum.ValidAccuracy, s.sum.TestAccuracy = accuracy(m[0]), accuracy(m[1])
	s.sum = s.total()
	s.sum.Resumed = state != nil
	return nil
}

// validated are the splits whose metrics a validation computes.
var validated = []string{"valid", "test"}

// endTraining gives back what only training holds of a bounded run, and lets the evaluator hold it instead. No mini-batch may follow.
func (s *session) endTraining(ctx context.Context) (err error) {
	if s.spare == 0 {
		return nil
	}
	if err := s.vectors.flush(ctx); err != nil {
		return err
	}
	if s.soFar != nil { // it asks what is closed here
		at := s.soFar()
		s.soFar = func() progress.Totals { return at }
	}
	if s.t.feed != nil {
		err = s.t.feed.close()
	}
	bytes := s.spare
	s.spare = 0
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
	if err := errors.Join(s.t.drawOnHost(s.shape), s.t.rows.close(), s.t.pipe.Arena().Reset()); err != nil {
		return err
	}
	s.t.rows = nil
	return pass()
}

// accuracy is a split's, −1 without nodes.
func accuracy(m eval.Metrics) float64 {
	if m.Nodes == 0 {
		return -1
	}
	return m.Accuracy
}

// add counts an epoch.
func (s *Summary) add(r *Epoch) {
	s.EpochSeconds = append(s.EpochSeconds, r.Seconds)
	s.Profile.Add(r.Profile)
	s.TrainLoss = r.Loss
	s.Batches += r.Batches
	s.SampledEdges += r.SampledEdges
	s.ListedEdges += r.ListedEdges
	s.PrunedEdges += r.PrunedEdges
	s.BytesRead += r.BytesRead
	if d := r.DeviceRows; d != nil {
		if s.DeviceRows == nil {
			s.DeviceRows = &cache.Traffic{}
		}
		s.DeviceRows.Add(d)
	}
}

// epoch trains one epoch, counted from 0, or what is left of it.
func (s *session) epoch(ctx context.Context, e int) (Epoch, error) {
	start, spent, copied, replayed := time.Now(), s.t.pipe.Spent(), s.t.copied, s.t.replay.Stats().Replayed
	drawn, blockBytes := s.t.draws.Stats(), s.t.blockBytes
	plan := s.plan.epoch(e)
	s.sum.Plan = plan.Policy
	var place progress.Place
	var was progress.Totals
	if s.from.Epoch == e {
		place, was = s.from.Place, s.from.Totals
	}
	s.next, s.soFar = place, func() progress.Totals { return was }
	if was.Batches == 0 {
		if err := s.begin(ctx); err != nil {
			return Epoch{}, err
		}
	}
	historyBytes, err := s.refreshHistory(ctx, e, plan)
	if err != nil {
		return Epoch{}, err
	}
	planned := s.it.PredictBytes(plan)
	if err := startEpoch(s.it, &s.plan, &s.passes, e, place.Step, e+1 < s.limit()); err != nil {
		return Epoch{}, err
	}
	s.passes.taken = was.Passes
	sum, steps := was.Counts(), was.Steps
	s.soFar = func() progress.Totals {
		t := sum.Totals(&was, start, steps)
		t.Passes, t.BytesRead = s.passes.taken, was.BytesRead+s.it.Stats().BytesRead
		return t
	}
	after := func(next progress.Place) error {
		s.next = next
		if s.hooks.Batch != nil {
			s.hooks.Batch(e, sum.Batches)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.clock.Batch() && s.vectors.midEpoch() {
			if err := s.t.pipe.Drain(ctx); err != nil {
				return err
			}
			return s.checkpoint(ctx, e, next, s.soFar())
		}
		return nil
	}
	for {
		at := time.Now()
		if !s.it.Next() {
			break
		}
		sum.Profile.Wait += time.Since(at)
		if err := s.t.macroBatch(ctx, e, s.it.MacroBatch(), &s.passes, place, &sum, after); err != nil {
			return Epoch{}, err
		}
		place = progress.Place{}
		steps++
	}
	if err := s.it.Err(); err != nil {
		return Epoch{}, fmt.Errorf("train: epoch %d: %w", e+1, err)
	}
	if sum.Examples == 0 {
		return Epoch{}, fmt.Errorf("train: epoch %d: %w: no training nodes in the plan's partitions", e+1, store.ErrNotFound)
	}
	rows := s.t.rows.traffic()
	if s.hooks.Macro != nil {
		s.hooks.Macro(s.it.Stats(), rows)
	}
	if s.t.feed != nil { // which batches read what is decided as they are sampled ahead
		planned = was.BytesRead + s.it.PredictBytes(plan)
	}
	trained := s.soFar()
	used, read := s.t.feed.rows(e)
	times := s.t.pipe.Times(trained.Seconds-was.Seconds, spent)
	if r := s.t.replay.Stats(); r.Replayed > replayed {
		times.ReplayedBatches, times.ReplayShapes = r.Replayed-replayed, r.Shapes
	}
	if err := s.t.replay.Err(); err != nil {
		times.RecordError = err.Error()
	}
	drawn = s.t.draws.Stats().Sub(drawn)
	times.DeviceSampleSeconds, times.DeviceBlockBytes = drawn.Took.Seconds(), s.t.blockBytes-blockBytes+drawn.Bytes
	times.DeviceWaits += drawn.Waits
	if times.DeviceSeconds > 0 {
		times.DeviceCopySeconds = (s.t.copied - copied).Seconds()
	}
	return Epoch{
		RowsUsed: used, RowsRead: read,
		HistorySeconds: s.t.history.seconds(), HistoryBytes: historyBytes,
		Epoch: e + 1, Passes: s.passes.taken, Loss: sum.Loss / float64(sum.Examples), TrainAccuracy: sum.Correct / float64(sum.Examples), ValidAccuracy: -1, TestAccuracy: -1,
		Seconds: trained.Seconds, BytesRead: trained.BytesRead, PlannedBytes: planned, Steps: steps,
		Batches: sum.Batches, SampledEdges: sum.Edges, ListedEdges: sum.Listed, PrunedEdges: sum.Pruned, Profile: sum.Profile, DeviceRows: rows, DeviceTimes: times,
	}, nil
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
		if err := h.begin(plan); err != nil {
			return err
		}
		_, err := s.eval.RunInto(ctx, s.t.queue, s.t.model, h)
		return err
	})
	if err != nil {
		return 0, err
	}
	h.took(time.Since(start))
	s.known = e + 1
	bytes := s.eval.BytesRead() - before
	s.sum.HistoryBytes += bytes
	return bytes, nil
}

// validate computes the exact validation accuracy and keeps the best model.
func (s *session) validate(ctx context.Context, r *Epoch) error {
	start := time.Now()
	h := s.t.history
	if r.Epoch == s.limit() { // no epoch follows
		h = nil
		if err := s.endTraining(ctx); err != nil {
			return err
		}
	}
	var m []eval.Metrics
	err := s.evaluate(ctx, func() (err error) {
		var sink eval.Sink
		if len(h) > 0 { // the states that validation computes are those of the next epoch's start
			if err := h.begin(s.plan.epoch(r.Epoch)); err != nil {
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
	params := s.t.model.Params()
	finite, err := params.Finite(ctx, s.t.queue)
	if err != nil {
		return err
	}
	if !finite || !isFinite(m[0].Loss) || !isFinite(m[1].Loss) {
		return s.t.diverged("after epoch %d parameters or losses are no finite numbers", r.Epoch)
	}
	s.blind = m[0].Nodes == 0
	r.ValidAccuracy, r.TestAccuracy = accuracy(m[0]), accuracy(m[1])
	if r.ValidAccuracy > s.best || s.blind { // nothing says that an earlier epoch was better
		params.Keep(s.t.queue)
		if err := s.t.queue.Sync(ctx); err != nil {
			return err
		}
		if err := s.vectors.keepBest(ctx); err != nil {
			return err
		}
		s.best, r.Best = r.ValidAccuracy, true
		s.sum.BestEpoch, s.tested = r.Epoch, m
	}
	r.ValidSeconds = time.Since(start).Seconds()
	return nil
}
