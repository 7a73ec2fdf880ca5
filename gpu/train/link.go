package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
)

// LinkEpoch is what happened in one epoch of link prediction.
type LinkEpoch struct {
	Epoch int     `json:"epoch"` // from 1
	Loss  float64 `json:"loss"`  // mean over queries, two an edge
	// Valid is exact and filtered, after the epoch; nil if it was not computed.
	Valid        *LinkMetrics `json:"valid,omitempty"`
	Seconds      float64      `json:"seconds"`       // of training, waits included
	CPUSeconds   float64      `json:"cpu_seconds"`   // of the process meanwhile
	ValidSeconds float64      `json:"valid_seconds"` // of validation
	BytesRead    int64        `json:"bytes_read"`
	Steps        int          `json:"steps"` // macro-batches
	Batches      int64        `json:"batches"`
	SampledEdges int64        `json:"sampled_edges"`
	Profile      Profile      `json:"profile"`
}

// LinkSummary is a run's result: the keys of the summary event (DESIGN.md section 10).
type LinkSummary struct {
	TestMRR         float64   `json:"test_mrr"` // filtered, after the last epoch
	TestHits1       float64   `json:"test_hits1"`
	TestHits3       float64   `json:"test_hits3"`
	TestHits10      float64   `json:"test_hits10"`
	ValidMRR        float64   `json:"valid_mrr"`
	TrainLoss       float64   `json:"train_loss"` // of the last epoch
	EpochSeconds    []float64 `json:"epoch_seconds"`
	EpochCPUSeconds []float64 `json:"epoch_cpu_seconds"`
	TotalSeconds    float64   `json:"total_seconds"`
	CPUSeconds      float64   `json:"cpu_seconds"`
	PeakRSSBytes    int64     `json:"peak_rss_bytes"`
	BytesRead       int64     `json:"bytes_read"`
	Batches         int64     `json:"batches"`
	SampledEdges    int64     `json:"sampled_edges"`
	Seed            uint64    `json:"seed"`
	Plan            string    `json:"plan"`
	Device          string    `json:"device"`
	IOEngine        string    `json:"io_engine"`
	Profile         Profile   `json:"profile"` // of all epochs together
}

// LinkResult is a finished run.
type LinkResult struct {
	Version uint64      `json:"version"` // of the store that it was trained on
	Config  LinkConfig  `json:"config"`
	Summary LinkSummary `json:"summary"`
}

// LinkHooks let a caller watch a run; see [Hooks].
type LinkHooks struct {
	Start func(LinkConfig)
	Epoch func(LinkEpoch)
	Macro func(store.MacroStats)
}

// Link trains embeddings of all nodes, vectors of relations and an encoder on the edges of a
// store, in memory, and evaluates them on its edge lists valid and test:
// filtered ranks against all nodes. The last epoch's model is the result. ctx ends the run early, with
// its error. The store must stay open.
func Link(ctx context.Context, st *store.Store, cfg LinkConfig, hooks LinkHooks) (_ *LinkResult, err error) {
	if err := cfg.Normalize(); err != nil {
		return nil, err
	}
	m := st.Manifest()
	if err := linkInput(m); err != nil {
		return nil, err
	}
	usage := startUsage()
	dev := host.New(host.Options{Threads: cfg.Threads})
	defer func() { err = errors.Join(err, dev.Close()) }()
	o := store.MacroOptions{EngineName: cfg.IOEngine, Both: true, Relations: len(m.Schema.Relations) > 1, Threads: cfg.Threads}
	if cfg.MemoryBytes > 0 {
		own := int64(m.Nodes)*int64(cfg.Dim)*4*3 + programBytes // embeddings, state and the evaluation's states
		if o.MemoryBytes = (cfg.MemoryBytes - own) * (batchShare - 1) / batchShare; o.MemoryBytes <= 0 {
			return nil, fmt.Errorf("train: %w: embeddings of %d nodes and the program take %d bytes of %d", store.ErrBudget, m.Nodes, own, cfg.MemoryBytes)
		}
	}
	policy, err := macro.New(macro.Config{Policy: macro.Memory, Partitions: len(m.Partitions), Link: true, Seed: cfg.Seed})
	if err != nil {
		return nil, err
	}
	it, err := st.MacroBatches(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("train: the whole graph in memory: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	t, err := newLinkTrainer(ctx, dev, &cfg, len(m.Schema.Relations))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	eval, err := newLinkEvaluator(t, int(m.Nodes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, eval.close()) }()
	if hooks.Start != nil {
		hooks.Start(cfg)
	}
	s := &linkSession{cfg: &cfg, hooks: hooks, st: st, it: it, t: t, eval: eval, plan: policy.Epoch}
	defer func() { err = errors.Join(err, s.close()) }()
	start := time.Now()
	for e := range cfg.Epochs {
		if err := s.epoch(ctx, e); err != nil {
			return nil, err
		}
	}
	s.sum.TotalSeconds = time.Since(start).Seconds()
	s.sum.Seed, s.sum.Device, s.sum.IOEngine = cfg.Seed, deviceOf(dev), it.Stats().Engine
	used := Summary{}
	usage.into(&used)
	s.sum.CPUSeconds, s.sum.PeakRSSBytes = used.CPUSeconds, used.PeakRSSBytes
	return &LinkResult{Version: m.Version, Config: cfg, Summary: s.sum}, nil
}

// linkInput checks that the store fits the task.
func linkInput(m *store.Manifest) error {
	if m.Schema.Task != store.TaskLink {
		return fmt.Errorf("train: the store's task is %q, expected %q: ingest edges with lists valid and test", m.Schema.Task, store.TaskLink)
	}
	if m.Schema.Undirected {
		return fmt.Errorf("train: link prediction needs directed edges: ingest without --undirected")
	}
	if m.Nodes > 1<<32-1 {
		return fmt.Errorf("train: %d nodes, evaluation in memory numbers them with 32 bits", m.Nodes)
	}
	for _, name := range []string{"valid", "test"} {
		if _, err := m.EdgeList(name); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	return nil
}

// linkSession trains one set of embeddings. The parts belong to its maker.
type linkSession struct {
	cfg         *LinkConfig
	hooks       LinkHooks
	st          *store.Store
	it          *store.MacroBatches
	t           *linkTrainer
	eval        *linkEvaluator
	plan        func(epoch int) store.Plan
	e           *embeddings // made with the first macro-batch
	valid, test *questions
	sum         LinkSummary
}

func (s *linkSession) close() error {
	if s.e == nil {
		return nil
	}
	return s.e.close()
}

// epoch trains one epoch, counted from 0, and evaluates.
func (s *linkSession) epoch(ctx context.Context, epoch int) error {
	start, cpu := time.Now(), cpuSeconds()
	plan := s.plan(epoch)
	s.sum.Plan = plan.Policy
	if err := s.it.Start(plan); err != nil {
		return fmt.Errorf("train: epoch %d: %w", epoch+1, err)
	}
	r := LinkEpoch{Epoch: epoch + 1}
	var sum totals
	for {
		at := time.Now()
		if !s.it.Next() {
			break
		}
		sum.profile.Wait += time.Since(at)
		mb := s.it.MacroBatch()
		if err := s.embed(ctx, mb); err != nil {
			return err
		}
		if err := s.t.macroBatch(ctx, epoch, mb, s.e, &sum); err != nil {
			return err
		}
		r.Steps++
		r.Seconds, r.CPUSeconds = time.Since(start).Seconds(), cpuSeconds()-cpu
		last := epoch == s.cfg.Epochs-1
		if last || (epoch+1)%s.cfg.EvalEvery == 0 { // the macro-batch holds the whole graph and lives until Next
			if err := s.evaluate(ctx, mb, &r, last); err != nil {
				return err
			}
		}
	}
	if err := s.it.Err(); err != nil {
		return fmt.Errorf("train: epoch %d: %w", epoch+1, err)
	}
	if sum.seeds == 0 {
		return fmt.Errorf("train: epoch %d: %w: the store has no edges", epoch+1, store.ErrNotFound)
	}
	stats := s.it.Stats()
	if s.hooks.Macro != nil {
		s.hooks.Macro(stats)
	}
	r.Loss, r.BytesRead, r.Batches, r.SampledEdges, r.Profile = sum.loss/float64(sum.seeds), stats.BytesRead, sum.batches, sum.edges, sum.profile
	s.sum.TrainLoss = r.Loss
	s.sum.BytesRead += r.BytesRead
	s.sum.Batches += r.Batches
	s.sum.SampledEdges += r.SampledEdges
	s.sum.Profile.Add(r.Profile)
	s.sum.EpochSeconds = append(s.sum.EpochSeconds, r.Seconds)
	s.sum.EpochCPUSeconds = append(s.sum.EpochCPUSeconds, r.CPUSeconds)
	if s.hooks.Epoch != nil {
		s.hooks.Epoch(r)
	}
	return nil
}

// embed makes the embeddings once it is known how many rows the buffer has.
func (s *linkSession) embed(ctx context.Context, mb *store.MacroBatch) (err error) {
	if s.e != nil {
		return nil
	}
	if s.e, err = newEmbeddings(s.t.queue.Device(), mb.Rows, s.cfg.Dim); err != nil {
		return err
	}
	for _, p := range mb.Partitions {
		if err := s.e.fill(ctx, s.t.queue, p, s.cfg.Seed); err != nil {
			return err
		}
	}
	return nil
}

// evaluate validates, and tests after the last epoch.
func (s *linkSession) evaluate(ctx context.Context, mb *store.MacroBatch, r *LinkEpoch, last bool) (err error) {
	start := time.Now()
	if s.valid == nil {
		if s.valid, err = readQuestions(ctx, s.st, mb, "valid"); err != nil {
			return err
		}
	}
	if err := s.eval.encode(ctx, mb, s.e); err != nil {
		return err
	}
	valid, err := s.eval.rank(ctx, s.valid)
	if err != nil {
		return err
	}
	r.Valid, s.sum.ValidMRR = &valid, valid.MRR
	if last {
		if s.test, err = readQuestions(ctx, s.st, mb, "test"); err != nil {
			return err
		}
		test, err := s.eval.rank(ctx, s.test)
		if err != nil {
			return err
		}
		s.sum.TestMRR, s.sum.TestHits1, s.sum.TestHits3, s.sum.TestHits10 = test.MRR, test.Hits1, test.Hits3, test.Hits10
	}
	r.ValidSeconds = time.Since(start).Seconds()
	return nil
}
