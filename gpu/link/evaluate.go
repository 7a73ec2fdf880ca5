package link

import (
	"context"
	"errors"
	"time"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/table"
)

// Evaluate ranks the edges of lists by the model of t's checkpoint, of the run c. o's Model is c's; its
// MemoryBytes bound the whole process.
func Evaluate(ctx context.Context, st *store.Store, dev gpu.Device, t *table.Table, c *Checkpointed, o eval.RankerOptions, lists ...string) (_ []eval.RankMetrics, read int64, err error) {
	m, err := Open(ctx, st, dev, t, c, o)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	metrics, err := m.ranker.Run(ctx, m.queue, m.model, m.states, lists...)
	return metrics, m.BytesRead(), err
}

// Model is the model behind a table of embeddings, open to be asked. Close frees it; store, device and table stay its caller's.
type Model struct {
	queue  *gpu.Queue
	model  *nn.LinkModel
	rows   *table.Reader
	stored *storedFeatures // nil without features
	inputs *inputs
	states eval.Embeddings // what ranker reads
	ranker *eval.Ranker
}

// Open opens the model of t's checkpoint, of the run c. o's Model is c's; its MemoryBytes bound the whole process, of which the
// caller holds what held says. A budget too small is [store.ErrBudget] and names the smallest that works.
func Open(ctx context.Context, st *store.Store, dev gpu.Device, t *table.Table, c *Checkpointed, o eval.RankerOptions, held ...budget.Holder) (_ *Model, err error) {
	parts := len(st.Manifest().Partitions)
	if o.Model, err = c.Config.LinkModel(st.Manifest()); err != nil {
		return nil, err
	}
	if o.Relation, err = c.Config.predicted(st.Manifest()); err != nil {
		return nil, err
	}
	if o.Types, err = c.Config.answerTypes(ctx, st); err != nil {
		return nil, err
	}
	m := &Model{rows: table.NewReader(t)}
	m.states = m.rows.Read
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	open := func(memory int64) (*eval.Ranker, budget.Account, error) {
		o, a := o, budget.Account{TotalBytes: memory}
		if memory > 0 {
			a.Hold(budget.Program, programBytes(memory, parts), true)
			a.Hold("a partition's inputs", c.Config.rowsBytes(st.Manifest()), false)
			for _, h := range held {
				a.Hold(h.Name, h.Bytes, h.Elastic)
			}
			o.MemoryBytes = max(a.LeftBytes(), 1)
			a.Hold("evaluation", max(a.LeftBytes(), 0), true)
		}
		v, err := eval.NewRanker(st, dev, o)
		return v, a, err
	}
	var account budget.Account
	if m.ranker, account, err = open(o.MemoryBytes); err != nil {
		return nil, budget.Smallest(err, o.MemoryBytes, func(memory int64) (budget.Account, error) {
			v, a, err := open(memory)
			if err == nil {
				err = v.Close()
			}
			return a, err
		})
	}
	budget.Begin(ctx, &account)
	if m.queue, err = gpu.NewQueue(dev); err != nil {
		return nil, err
	}
	if m.model, err = nn.NewLink(ctx, m.queue, o.Model); err != nil {
		return nil, err
	}
	if err := m.openInputs(st, &c.Config); err != nil {
		return nil, err
	}
	return m, m.model.Params().LoadState(ctx, m.queue, c.Model)
}

// openInputs makes what the ranker reads of a model with features.
func (m *Model) openInputs(st *store.Store, c *Config) error {
	columns, err := c.columns(st.Manifest())
	if err != nil || len(columns) == 0 {
		return err
	}
	m.stored = &storedFeatures{st: st, columns: columns}
	m.inputs = newInputs(m.queue, m.model, st.Manifest(), columns)
	embeddings := m.states
	if c.NoEmbeddings {
		embeddings = nil
	}
	m.states = m.inputs.of(embeddings, m.stored.read)
	return nil
}

// Find opens a finder of answers; it is closed before m.
func (m *Model) Find(ctx context.Context, o eval.FinderOptions) (*eval.Finder, error) {
	return m.ranker.Find(ctx, m.queue, m.model, m.states, o)
}

// BytesRead returns the bytes read from store and table so far.
func (m *Model) BytesRead() int64 { return m.ranker.BytesRead() }

// Close frees the model.
func (m *Model) Close() error {
	var errs []error
	if m.ranker != nil {
		errs = append(errs, m.ranker.Close())
	}
	errs = append(errs, m.rows.Close())
	if m.inputs != nil {
		errs = append(errs, m.inputs.close(), m.stored.close())
	}
	if m.model != nil {
		errs = append(errs, m.model.Close())
	}
	if m.queue != nil {
		errs = append(errs, m.queue.Close())
	}
	*m = Model{rows: table.NewReader(m.rows.Table())}
	return errors.Join(errs...)
}

// due reports whether an epoch, counted from 1, is validated, and whether it is the last one.
func (s *session) due(epoch int) (valid, last bool) {
	last = epoch == s.cfg.Epochs
	return s.cfg.EvalEvery > 0 && (last || epoch%s.cfg.EvalEvery == 0 || s.tries() && epoch == s.trial), last
}

// evaluateTable is evaluate for a run of which no macro-batch holds the whole graph.
func (s *session) evaluateTable(ctx context.Context, r *Epoch) error {
	if valid, _ := s.due(r.Epoch); !valid {
		return nil
	}
	if err := s.it.Flush(context.WithoutCancel(ctx)); err != nil { // as a checkpoint is
		return err
	}
	if s.stored == nil {
		return s.evaluate(ctx, r, s.rows.Read)
	}
	return s.evaluate(ctx, r, s.inputsOf(s.rows.Read, s.stored.read))
}

// evaluate validates if it is time, and tests after the last epoch where the store has a list for that.
func (s *session) evaluate(ctx context.Context, r *Epoch, embeddings eval.Embeddings) error {
	due, last := s.due(r.Epoch)
	if !due {
		return nil
	}
	start := time.Now()
	lists := []string{"valid"}
	if last && s.st.Manifest().Lists("test") {
		lists = append(lists, "test")
	}
	metrics, err := s.eval.Run(ctx, s.t.queue, s.t.model, embeddings, lists...)
	if s.t.rows != nil && errors.Is(err, gpu.ErrMemory) { // rows that the device keeps, all flushed, give way for the rest of the run
		if err := errors.Join(s.t.rows.Close(), s.t.pipe.Arena().Reset()); err != nil {
			return err
		}
		s.t.rows = nil
		metrics, err = s.eval.Run(ctx, s.t.queue, s.t.model, embeddings, lists...)
	}
	if err != nil {
		return err
	}
	r.Valid, s.sum.ValidMRR = &metrics[0], metrics[0].MRR
	if len(lists) > 1 {
		test := metrics[1]
		if s.sum.Given = test.Given; test.Shared {
			s.sum.Shared = &SharedHits{Hits20: test.Hits20, Hits50: test.Hits50, Hits100: test.Hits100}
		}
		s.sum.TestMRR, s.sum.TestHits1, s.sum.TestHits3, s.sum.TestHits10, s.sum.TestRawMRR = test.MRR, test.Hits1, test.Hits3, test.Hits10, test.RawMRR
	}
	r.ValidSeconds = time.Since(start).Seconds()
	return nil
}
