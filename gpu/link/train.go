package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/table"
)

// Epoch is what happened in one epoch of link prediction.
type Epoch struct {
	Epoch int     `json:"epoch"` // from 1
	Loss  float64 `json:"loss"`  // mean over queries, two an edge
	// Valid is exact and filtered, after the epoch; nil if it was not computed.
	Valid        *eval.RankMetrics `json:"valid,omitempty"`
	Seconds      float64           `json:"seconds"`       // of training, waits included
	CPUSeconds   float64           `json:"cpu_seconds"`   // of the process meanwhile
	ValidSeconds float64           `json:"valid_seconds"` // of validation
	BytesRead    int64             `json:"bytes_read"`
	BytesWritten int64             `json:"bytes_written"` // embeddings and state that left memory; checkpoints apart
	Bias         float64           `json:"bias"`          // the plan's edge permutation bias (MariusGNN section 6)
	Steps        int               `json:"steps"`         // macro-batches
	Batches      int64             `json:"batches"`
	SampledEdges int64             `json:"sampled_edges"`
	Profile      progress.Profile  `json:"profile"`
	gpu.DeviceTimes
	// DeviceRows is what embeddings and features cost between host and device; nil where the device reads and writes them where they are.
	DeviceRows *cache.Traffic `json:"device_rows,omitempty"`
}

// SharedHits are further shares of test edges among the best, of lists whose edges share their negatives ([eval.RankMetrics].Shared).
type SharedHits struct {
	Hits20  float64 `json:"hits20"`
	Hits50  float64 `json:"hits50"`
	Hits100 float64 `json:"hits100"`
}

// Summary is a run's result: the keys of the summary event.
type Summary struct {
	TestMRR         float64          `json:"test_mrr"` // filtered, after the last epoch
	TestHits1       float64          `json:"test_hits1"`
	TestHits3       float64          `json:"test_hits3"`
	TestHits10      float64          `json:"test_hits10"`
	TestRawMRR      float64          `json:"test_raw_mrr"` // known answers not left out
	ValidMRR        float64          `json:"valid_mrr"`
	TrainLoss       float64          `json:"train_loss"` // of the last epoch
	EpochSeconds    []float64        `json:"epoch_seconds"`
	EpochCPUSeconds []float64        `json:"epoch_cpu_seconds"`
	TotalSeconds    float64          `json:"total_seconds"`
	CPUSeconds      float64          `json:"cpu_seconds"`
	PeakRSSBytes    int64            `json:"peak_rss_bytes"`
	BytesRead       int64            `json:"bytes_read"`
	BytesWritten    int64            `json:"bytes_written"`    // checkpoints apart
	CheckpointBytes int64            `json:"checkpoint_bytes"` // written by checkpoints
	Checkpoints     int              `json:"checkpoints"`
	Amplification   float64          `json:"write_amplification"` // of BytesWritten: by padding
	Bias            float64          `json:"bias"`                // mean of the epochs' plans
	Given           bool             `json:"given,omitempty"`     // test ranks are among the data set's own negatives
	Shared          *SharedHits      `json:"shared,omitempty"`    // nil unless all edges share them
	Table           string           `json:"table"`
	Resumed         bool             `json:"resumed"`
	Batches         int64            `json:"batches"`
	SampledEdges    int64            `json:"sampled_edges"`
	Seed            uint64           `json:"seed"`
	Plan            string           `json:"plan"`
	Device          string           `json:"device"`
	IOEngine        string           `json:"io_engine"`
	Profile         progress.Profile `json:"profile"` // of all epochs together
	// DeviceRows is the epochs' together, as far as this process trained them.
	DeviceRows *cache.Traffic `json:"device_rows,omitempty"`
}

// Result is a finished run.
type Result struct {
	Version uint64  `json:"version"` // of the store that it was trained on
	Config  Config  `json:"config"`
	Summary Summary `json:"summary"`
}

// Hooks let a caller watch a run. Any may be nil; they are called from the training goroutine.
type Hooks struct {
	// Start is called once before the first epoch with the configuration in full and why the plan was chosen.
	Start func(c Config, why []string)
	Batch func(epoch int, batches int64) // after each mini-batch's step; epoch from 0
	Epoch func(Epoch)
	// Macro is called after each epoch with what the partition buffer measured, and Epoch.DeviceRows.
	Macro func(buffer.Stats, *cache.Traffic)
	// Resume is called once after Start in a run with [Config].Resume: what was trained before, or found false, if there is no
	// table to go on with.
	Resume func(found bool, epochs, step, batch int)
	// Checkpoint is called after each with its number and what it holds: finished epochs, and the
	// step and mini-batch of the next one that come next.
	Checkpoint func(number uint64, epochs, step, batch int)
}

// Train trains embeddings of all nodes, vectors of relations and an encoder on the edges of a
// store, in memory or out of core, and evaluates them on its edge lists valid and test:
// filtered ranks against all nodes. The last epoch's model is the result; embeddings, their optimiser state,
// parameters and summary stay in the store as the last checkpoint of table cfg.Table ([Load]).
// ctx ends the run early, with its error; it can be resumed. Store and device stay the caller's.
func Train(ctx context.Context, st *store.Store, dev gpu.Device, cfg Config, hooks Hooks) (_ *Result, err error) {
	m := st.Manifest()
	if err := checkStore(m); err != nil {
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
		why := s.plan.choice.Why
		if absent := cfg.AbsentWhy(m); absent != "" {
			why = append(why, absent)
		}
		if hidden := cfg.HiddenWhy(m, &s.plan.choice); hidden != "" {
			why = append(why, hidden)
		}
		if cfg.MemoryBytes > 0 {
			why = append(why, "memory: "+s.plan.account.String())
		}
		hooks.Start(cfg, append(why, s.device.Why...))
	}
	if hooks.Resume != nil && cfg.Resume {
		hooks.Resume(model != nil, s.from.Epoch, s.from.Place.Step, s.from.Place.Batch)
	}
	s.clock = progress.NewClock(every)
	start := time.Now()
	for e := s.from.Epoch; e < cfg.Epochs; e++ {
		if err := s.epoch(ctx, e); err != nil {
			return nil, s.interrupted(ctx, e, err)
		}
	}
	s.sum.TotalSeconds += time.Since(start).Seconds()
	s.sum.Seed, s.sum.Device, s.sum.IOEngine, s.sum.Table, s.sum.Resumed = cfg.Seed, dev.Info().String(), s.it.Stats().Engine, cfg.Table, model != nil
	s.sum.CPUSeconds += usage.CPUSeconds() - cpu
	s.sum.PeakRSSBytes = max(s.sum.PeakRSSBytes, usage.PeakRSSBytes())
	s.sum.addTable(s.it.TableStats())
	return &Result{Version: m.Version, Config: cfg, Summary: s.sum}, nil
}

// tryEngine reports whether the I/O engine works here.
func tryEngine(name string) error {
	engine, _, err := blockio.New(name, blockio.Options{Depth: 1})
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return engine.Close()
}

// addTable adds what was written by this process.
func (s *Summary) addTable(t buffer.TableStats) {
	s.CheckpointBytes += t.FlushedBytes
	s.Checkpoints += t.Checkpoints
	s.Amplification = t.WriteAmplification()
}

// session trains one set of embeddings.
type session struct {
	cfg    *Config
	hooks  Hooks
	st     *store.Store
	plan   plan
	policy macro.Policy // s.plan's
	types  *eval.AnswerTypes
	device macro.DevicePlan
	table  *table.Table
	it     *buffer.Buffer
	t      *trainer
	eval   *eval.Ranker    // nil: nothing is evaluated
	rows   *table.Reader   // what it reads out of core
	inputs *inputs         // what it computes of them and of features; nil without features
	stored *storedFeatures // those that are read for it out of core
	e      *embeddings     // mapped with the first macro-batch
	sum    Summary
	from   *position // where the run goes on
	clock  *progress.Clock
	next   *nextPlan // of the epoch after the one that trains; nil: not begun
	// Of the epoch that trains: the mini-batch that comes next, and the counts until there.
	place progress.Place
	soFar func() progress.Totals
}

// open makes what trains: at the beginning, or where a checkpoint's model and s.from say.
func (s *session) open(ctx context.Context, dev gpu.Device, model []byte) (err error) {
	m, o := s.st.Manifest(), s.plan.options
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeRun())
		}
	}()
	if s.t, err = newTrainer(ctx, dev, s.cfg, m, s.types, s.device); err != nil {
		return err
	}
	if model != nil {
		s.sum = s.from.Summary
		if err := s.t.model.Params().LoadState(ctx, s.t.queue, model); err != nil {
			return err
		}
	} else {
		s.from = &position{Config: *s.cfg}
		blobs, err := s.t.blobs(ctx, s.from)
		if err != nil {
			return err
		}
		if s.table, err = createTable(ctx, s.st, s.cfg, blobs); err != nil {
			return err
		}
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
	if a := &s.plan.account; s.cfg.MemoryBytes > 0 && !dev.Info().OwnMemory() { // with what the partition buffer leaves of its part
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
	from := s.table
	if !resumes {
		from = nil
	}
	read, err := s.t.absent.fill(ctx, m, s.cfg, from)
	s.sum.BytesRead += read + s.t.absent.topology.read
	return err
}

// prepare plans the run, and makes the evaluator if it has one. What the budget is too small for is found here: before an
// earlier run's table is replaced.
func (s *session) prepare(ctx context.Context, dev gpu.Device, evaluates bool) (err error) {
	y, err := OpenMemory(ctx, s.st, dev.Info(), *s.cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	if s.plan, err = y.planned(s.cfg.MemoryBytes); err != nil {
		return err
	}
	if s.policy, err = s.plan.apply(s.cfg, y.m); err != nil {
		return err
	}
	if s.device, err = s.cfg.PlanDevice(ctx, s.st, dev.Info(), 0); err != nil {
		return fmt.Errorf("train: plan for %s: %w", dev.Info().Name, err)
	}
	if s.types, err = y.answerTypes(ctx, s.st); err != nil {
		return err
	}
	if evaluates && s.cfg.EvalEvery >= 0 {
		s.eval, err = y.ranker(ctx, s.st, dev, s.plan.account.Of(holdsEval))
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

// epoch trains one epoch, counted from 0, or what is left of it, and evaluates.
func (s *session) epoch(ctx context.Context, epoch int) error {
	start, cpu, spent := time.Now(), usage.CPUSeconds(), s.t.pipe.Spent()
	plan, bias := s.takePlan(epoch)
	s.sum.Plan = plan.Policy
	// Only the first epoch of a resumed run begins inside; all others begin at their first step, with nothing counted.
	var from position
	if s.from.Epoch == epoch {
		from = *s.from
	}
	s.place, s.soFar = from.Place, func() progress.Totals { return from.Totals }
	if err := s.it.StartAt(plan, from.Place.Step); err != nil {
		return fmt.Errorf("train: epoch %d: %w", epoch+1, err)
	}
	// The next plan is made beside this epoch's first half and announced in its middle: it is ready by then, and the
	// buffer still has steps over which to read ahead. A plan of one step keeps what is resident: nothing to announce.
	if epoch+1 < s.cfg.Epochs && len(plan.Steps) > 1 {
		s.makePlan(epoch + 1)
	}
	was := from.Totals
	sum := was.Counts()
	r := Epoch{Epoch: epoch + 1, Steps: was.Steps, Bias: bias}
	s.soFar = func() progress.Totals {
		stats := s.it.Stats()
		t := sum.Totals(&was, start, r.Steps)
		t.BytesRead, t.BytesWritten, t.CPUSeconds = was.BytesRead+stats.BytesRead, was.BytesWritten+stats.BytesWritten, was.CPUSeconds+usage.CPUSeconds()-cpu
		return t
	}
	after := func(next progress.Place) error {
		s.place = next
		if s.hooks.Batch != nil {
			s.hooks.Batch(epoch, sum.Batches)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.clock.Batch() {
			if err := s.t.settle(ctx, s.e); err != nil {
				return err
			}
			return s.checkpoint(ctx, epoch, next, s.soFar())
		}
		return nil
	}
	place := from.Place // the mini-batch to begin with, of the first step alone
	evaluated := false
	for announced := s.next == nil; ; {
		if !announced && from.Place.Step+r.Steps-was.Steps >= len(plan.Steps)/2 {
			announced = true
			if err := s.it.Announce(s.next.wait().plan); err != nil {
				return fmt.Errorf("train: epoch %d: %w", epoch+2, err)
			}
		}
		// What Next takes is waiting for the disk and the assembler: all else of the loop computes.
		at := time.Now()
		if !s.it.Next() {
			break
		}
		sum.Profile.Wait += time.Since(at)
		mb := s.it.MacroBatch()
		// Embeddings are the buffer's memory, at one address for the whole run.
		if err := s.embed(mb); err != nil {
			return err
		}
		if err := s.t.macroBatch(ctx, epoch, mb, s.e, place, &sum, after); err != nil {
			return err
		}
		place = progress.Place{}
		r.Steps++
		if len(mb.Partitions) == len(s.st.Manifest().Partitions) && mb.StepIndex == len(plan.Steps)-1 {
			// It holds the whole graph, with rows as trained, and lives until Next: evaluated here, nothing is read again.
			trained := s.soFar()
			r.Seconds, r.CPUSeconds, r.DeviceRows, evaluated = trained.Seconds, trained.CPUSeconds, s.t.rows.Traffic(), true
			if err := s.evaluate(ctx, &r, s.inputsOf(residentRows(mb, s.cfg.TableDim()), residentFeatures(mb))); err != nil {
				return err
			}
		}
	}
	if err := s.it.Err(); err != nil {
		return fmt.Errorf("train: epoch %d: %w", epoch+1, err)
	}
	if sum.Examples == 0 {
		return fmt.Errorf("train: epoch %d: %w: the store has no edges", epoch+1, store.ErrNotFound)
	}
	// Time and bytes of training, taken before validation adds its own.
	trained := s.soFar()
	if !evaluated {
		r.Seconds, r.CPUSeconds, r.DeviceRows = trained.Seconds, trained.CPUSeconds, s.t.rows.Traffic() // evaluation may take the rows away
		if err := s.evaluateTable(ctx, &r); err != nil {
			return err
		}
	}
	if s.hooks.Macro != nil {
		s.hooks.Macro(s.it.Stats(), r.DeviceRows)
	}
	r.Loss, r.Batches, r.SampledEdges, r.Profile = sum.Loss/float64(sum.Examples), sum.Batches, sum.Edges, sum.Profile
	r.BytesRead, r.BytesWritten = trained.BytesRead, trained.BytesWritten
	r.DeviceTimes = s.t.pipe.Times(r.Seconds-was.Seconds, spent)
	s.sum.add(&r)
	// The last epoch's checkpoint is the result, whatever the interval.
	if s.clock.Epoch(epoch+1) || epoch+1 == s.cfg.Epochs {
		if err := s.checkpoint(ctx, epoch+1, progress.Place{}, progress.Totals{}); err != nil {
			return err
		}
	}
	if s.hooks.Epoch != nil {
		s.hooks.Epoch(r)
	}
	return nil
}

// add counts an epoch.
func (s *Summary) add(r *Epoch) {
	s.Bias += (r.Bias - s.Bias) / float64(len(s.EpochSeconds)+1)
	s.TrainLoss = r.Loss
	s.BytesRead += r.BytesRead
	s.BytesWritten += r.BytesWritten
	s.Batches += r.Batches
	s.SampledEdges += r.SampledEdges
	s.Profile.Add(r.Profile)
	s.EpochSeconds = append(s.EpochSeconds, r.Seconds)
	s.EpochCPUSeconds = append(s.EpochCPUSeconds, r.CPUSeconds)
	if d := r.DeviceRows; d != nil {
		if s.DeviceRows == nil {
			s.DeviceRows = &cache.Traffic{}
		}
		s.DeviceRows.Add(d)
	}
}

// embed finds the embeddings once the buffer is known.
func (s *session) embed(mb *buffer.MacroBatch) (err error) {
	if s.e == nil {
		s.e, err = mapEmbeddings(s.t.queue.Device(), mb, s.cfg.TableDim())
	}
	return err
}
