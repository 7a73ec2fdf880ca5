package link

import (
	"context"
	"errors"
	"math"
	"unsafe"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/sampler/negative"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Places of a run's random draws, see [placeShuffle].
const (
	placeEdges = 0x65646765 // "edge"
	placeEmbed = 0x656d6264 // "embd"
	placeKept  = 0x6b657074 // "kept"
	placeDrop  = 0x64726f70 // "drop"
)

// embeddingScale is the standard deviation of new embeddings.
const embeddingScale = .001

func floatBytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// trainer trains embeddings and a model on macro-batches. It owns the
// queue, the model, the batches and the arenas of its mini-batches; the embeddings are its caller's.
type trainer struct {
	cfg     *Config
	queue   *gpu.Queue
	pipe    *gpu.Pipeline
	model   *nn.LinkModel
	batches *batches
	edges   uint64 // of an epoch
	// corrections are those of negatives' scores, see [nn.LinkBatch].
	corrections []float32
	input       input // the stages of a mini-batch, see [minibatch]
	graphs      encoded
	updater     updater
	tables      []gpu.Tensor // features of the macro-batch
	absent      *absent      // nil: absent neighbours are left out
	// rows are those that the device keeps, nil where it reads and writes them in place.
	rows *rowcache.Rows
	// stepping is true while, and after an error in, a mini-batch's step: parameters and rows may be half of one, or ahead of the
	// epoch's counts.
	stepping bool
}

// newTrainer makes the trainer of a run whose answers are of such types and whose device keeps rows as plan says.
func newTrainer(ctx context.Context, dev gpu.Device, cfg *Config, m *store.Manifest, types *eval.AnswerTypes, plan macro.DevicePlan) (_ *trainer, err error) {
	t := &trainer{cfg: cfg}
	if t.edges, err = cfg.examplesOf(m); err != nil {
		return nil, err
	}
	t.corrections = cfg.corrections(m, types)
	if t.queue, err = gpu.NewQueue(dev); err != nil {
		return nil, err
	}
	t.pipe = gpu.NewPipeline(t.queue)
	defer func() {
		if err != nil {
			_ = t.close()
		}
	}()
	model, err := cfg.LinkModel(m)
	if err != nil {
		return nil, err
	}
	if t.model, err = nn.NewLink(ctx, t.queue, model); err != nil {
		return nil, err
	}
	if t.rows, err = newDeviceRows(dev, m, cfg, plan); err != nil {
		return nil, err
	}
	if t.batches, err = newBatches(cfg, m, types, max(1, cfg.Threads-1), plan.Cache.Window); err != nil {
		return nil, err
	}
	t.choose()
	return t, nil
}

// corrections are those of negatives' scores, by chunk, in a run whose answers are of such types (nil: of any): the log of how many
// nodes a negative stands for. nil: none.
func (c *Config) corrections(m *store.Manifest, types *eval.AnswerTypes) (by []float32) {
	if c.NegativesFor != ForAll {
		return nil
	}
	tails, heads := m.Nodes, m.Nodes
	if types != nil {
		tails, heads = types.Sizes(m)
	}
	for _, nodes := range []uint64{negative.Tail: tails, negative.Head: heads} {
		for range c.Chunks {
			by = append(by, float32(math.Log(float64(max(1, nodes))/float64(c.Negatives))))
		}
	}
	return by
}

// choose chooses the implementation of each stage, once a run is planned.
func (t *trainer) choose() {
	t.input, t.graphs, t.updater = &learned{t}, encoded{t: t}, newUpdater(t.cfg, t.model.Params())
	switch {
	case t.cfg.NoEmbeddings:
		t.input = &featured{t}
	case t.absent != nil:
		t.input = &shadowed{learned{t}, t.absent}
	}
	if t.model.ReadsDegrees() {
		t.graphs.degrees = &degrees{}
	}
}

func (t *trainer) close() error {
	var err error
	if t.batches != nil {
		err = t.batches.close()
	}
	if t.absent != nil {
		err = errors.Join(err, t.absent.close())
	}
	if t.model != nil {
		err = errors.Join(err, t.model.Close())
	}
	return errors.Join(err, t.rows.Close(), t.pipe.Close(), t.queue.Close())
}

// step is the mini-batches of a macro-batch. It implements [run.Batches].
type step struct {
	*trainer
	epoch   int
	mb      *buffer.MacroBatch
	e       *embeddings // of the macro-batch
	queries int64       // of the epoch's mini-batches that were issued
	release func()      // the features
	entered bool        // the batches; false where the step has no edges
}

// enter begins a step of an epoch, counted from 0, at a place in it. The ends of its edges have their embeddings in e, and so many queries,
// two an edge, were trained in the epoch so far.
func (t *trainer) enter(ctx context.Context, epoch int, mb *buffer.MacroBatch, e *embeddings, from progress.Place, queries int64) (*step, error) {
	s := &step{trainer: t, epoch: epoch, mb: mb, e: e, queries: queries, release: func() {}}
	t.batches.absent = t.absent
	if err := t.batches.enter(ctx, epoch, mb, from); err != nil || t.batches.x.n == 0 {
		return s, err
	}
	s.entered = true
	var err error
	if s.release, err = t.mapFeatures(mb); err == nil {
		err = t.rows.Enter(mb)
	}
	if err != nil {
		return nil, s.Leave(ctx, err)
	}
	return s, nil
}

// Next implements [run.Batches].
func (s *step) Next() (bool, error) {
	if !s.entered {
		return false, nil
	}
	if !s.batches.next() {
		return false, s.batches.loader.Err()
	}
	return true, s.rows.Announce(s.batches.loader, func(b *mini.Batch) []uint32 { return b.Input })
}

// Train implements [run.Batches].
func (s *step) Train(ctx context.Context, sum *progress.Counts) error {
	b := s.batches.loader.Batch()
	if err := s.batch(ctx, b, s.e, s.rate(s.epoch, s.queries), sum); err != nil {
		return err
	}
	s.queries += int64(2 * b.Extra.(*batchExtra).edges)
	return nil
}

// Place implements [run.Batches].
func (s *step) Place() (progress.Place, bool) { return s.batches.place(), true }

// Settle implements [run.Batches].
func (s *step) Settle(ctx context.Context) error { return s.settle(ctx, s.e) }

// Leave implements [run.Batches].
func (s *step) Leave(ctx context.Context, err error) error {
	if !s.entered {
		return err
	}
	// What is in flight reads the macro-batch and writes its rows; and a run that ctx ends goes on after the last mini-batch that was issued.
	if failed := s.settle(ctx, s.e); failed != nil {
		err = failed
	}
	if err == nil && s.absent != nil {
		s.absent.leave(s.mb)
	}
	s.release()
	s.batches.leave()
	return err
}

// settle waits for all mini-batches; the rows of e are as they left them then.
func (t *trainer) settle(ctx context.Context, e *embeddings) error {
	if t.rows == nil {
		return t.pipe.Drain(ctx)
	}
	err := t.pipe.Drain(ctx)
	return errors.Join(err, t.rows.Flush(context.WithoutCancel(ctx), t.queue, t.pipe.Arena(), t.all(e)))
}

// all are the tables of a node's rows: what is learned, then its features.
func (t *trainer) all(e *embeddings) (tables []rowcache.Table) {
	var all []gpu.Tensor
	if !t.cfg.NoEmbeddings {
		all = append(append(all, e.value), e.state...)
	}
	for _, x := range append(all, t.tables...) {
		tables = append(tables, rowcache.Table{Tensor: x})
	}
	return tables
}

// rate returns the learning rate of the mini-batch that comes after so many queries of an epoch. It is a function of
// the place in the run, so that a resumed run needs no state of it.
func (t *trainer) rate(epoch int, queries int64) float32 {
	if t.cfg.LRDecay == noDecay {
		return float32(t.cfg.LR)
	}
	epochs := float64(t.cfg.Epochs)
	left := epochs - float64(epoch) - float64(queries/2)/float64(t.edges)
	return float32(t.cfg.LR * min(1, left/(epochs*t.cfg.LRDecay)))
}

// dropoutSeed keys a mini-batch's masks.
func (t *trainer) dropoutSeed(k mini.Key) uint64 {
	return k.Number(keyed.New(t.cfg.Seed).With(placeDrop))
}

// mapFeatures makes the macro-batch's features tables, until release.
func (t *trainer) mapFeatures(mb *buffer.MacroBatch) (release func(), err error) {
	var mapped []func()
	t.tables = t.tables[:0]
	release = func() {
		for _, free := range mapped {
			free()
		}
	}
	for i := range t.cfg.Features { // types of nodes may follow
		c := &mb.Features[i]
		table, free, err := nn.MapTable(t.queue.Device(), c.Name, c.Data, mb.Rows, c.Dim, c.Stride, c.Type, c.Scale)
		if err != nil {
			release()
			return nil, err
		}
		t.tables, mapped = append(t.tables, table), append(mapped, free)
	}
	return release, nil
}
