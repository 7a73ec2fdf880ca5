// Package infer says what a model of nodes says of few nodes at a time, by reading all that lies within its hops of them: exactly, as an
// evaluation says it of all nodes (package eval), in time that depends on their neighbourhoods alone.
//
//	m, err := infer.Open(ctx, st, dev, checkpoint)
//	around, err := m.Around(ctx, nodes, eval.Room{}, m.Evaluator.ByLists(st, lists))
//	answers, err := m.Says(ctx, around)
//
// A node that is not of the store, with edges of its own, is answered as if it had been appended ([eval.Added]).
//
// A Model is for one goroutine.
package infer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/meter"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
)

// Model is a checkpoint's model on a device.
type Model struct {
	Store      *store.Store
	Device     gpu.Device
	Checkpoint *train.Checkpoint
	// Config is the model's, without dropout, with hops that were precomputed taken out: it reads these neighbours itself, by the same parameters.
	Config    nn.Config
	Evaluator *eval.Evaluator // that reads for it
	Columns   []*store.ColumnInfo
	Queue     *gpu.Queue
	Net       *nn.Model

	dry     bool       // the device counts alone
	arena   *gpu.Arena // of a pass
	vectors func() error
}

// Open makes a checkpoint's model. A store that does not fit it is an error, as in an evaluation.
func Open(ctx context.Context, st *store.Store, dev gpu.Device, c *train.Checkpoint) (_ *Model, err error) {
	if err := c.Check(st.Manifest()); err != nil {
		return nil, err
	}
	m := &Model{Store: st, Checkpoint: c, Config: c.Model}
	m.Config.PrecomputedHop, m.Config.RelationHops, m.Config.Dropout, m.Config.InputDropout = false, nil, 0, 0
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if err := m.make(ctx, dev); err != nil {
		return nil, err
	}
	if err := m.Net.Params().Load(ctx, m.Queue, c.Params); err != nil {
		return nil, err
	}
	vectors, done, err := c.Vectors(ctx, st)
	if err != nil {
		return nil, err
	}
	m.vectors = done
	m.Evaluator, err = eval.New(st, dev, eval.Options{Features: c.Config.OwnFeatures(),
		EdgeFeatures: c.Config.EdgeFeatures, Model: m.Config, Vectors: vectors, Unlabelled: true},
		max(m.Config.Hidden, m.Config.Out))
	if err != nil {
		return nil, err
	}
	m.Columns = m.Evaluator.Columns()
	return m, nil
}

// make makes the model on a device.
func (m *Model) make(ctx context.Context, dev gpu.Device) (err error) {
	m.Device = dev
	if m.Queue, err = gpu.NewQueue(dev); err != nil {
		return err
	}
	m.arena = gpu.NewArena(dev)
	m.Net, err = nn.New(ctx, m.Queue, m.Config)
	return err
}

// Dry is the model on a device that counts alone ([meter.New]): nothing is put into tensors. What it reads stays m's, which is closed after it.
func (m *Model) Dry(ctx context.Context) (*Model, error) {
	d := &Model{dry: true, Store: m.Store, Checkpoint: m.Checkpoint, Config: m.Config, Columns: m.Columns}
	if err := d.make(ctx, meter.New(m.Device.Info())); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// EndReading frees what reading takes: [Model.Around] is called no more.
func (m *Model) EndReading() (err error) {
	if m.Evaluator != nil {
		err = m.Evaluator.Close()
	}
	m.Evaluator = nil
	return err
}

// Close frees what the model has. The store and the device stay the caller's.
func (m *Model) Close() (err error) {
	if m.arena != nil {
		err = m.arena.Close()
	}
	if m.Net != nil {
		err = errors.Join(err, m.Net.Close())
	}
	if m.Queue != nil {
		err = errors.Join(err, m.Queue.Close())
	}
	err = errors.Join(err, m.EndReading())
	if m.vectors != nil {
		err = errors.Join(err, m.vectors())
	}
	return err
}

// Around reads all that lies within the model's hops of distinct nodes ([eval.Evaluator.Around]).
func (m *Model) Around(ctx context.Context, nodes []store.NodeID, room eval.Room,
	near eval.Near) (*eval.Around, error) {
	ofSources := m.Net.ReadsDegrees() || m.Config.SymmetricWeights()
	return m.Evaluator.Around(ctx, nodes, m.Net.Hops(), room, ofSources, near)
}

// Says is what the model says of the nodes that a neighbourhood was read for, [nodes × Out]: probabilities of its classes or labels, or its
// number.
func (m *Model) Says(ctx context.Context, a *eval.Around) ([]float32, error) {
	says, err := m.logits(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("infer: %w", err)
	}
	for row := says; len(row) > 0; row = row[m.Config.Out:] {
		switch own := row[:m.Config.Out]; {
		case m.Config.Numbers != nil:
			own[0] = m.Config.Numbers.Of(own[0])
		case m.Config.MultiLabel:
			eval.Sigmoid(own)
		default:
			eval.Softmax(own)
		}
	}
	for _, x := range says {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return nil, fmt.Errorf("infer: %w: the model says %v", store.ErrInvalid, x)
		}
	}
	return says, nil
}

func (m *Model) logits(ctx context.Context, a *eval.Around) ([]float32, error) {
	if err := m.arena.Reset(); err != nil {
		return nil, err
	}
	p := &nn.Pass{Queue: m.Queue, Arena: m.arena}
	in, err := m.Input(ctx, m.arena, a)
	if err != nil {
		return nil, err
	}
	graphs, _ := m.Graphs(m.arena, a, false)
	out := m.Net.Forward(p, graphs, in)
	logits := make([]float32, a.Reach[0]*m.Config.Out)
	if m.Queue.Err() == nil {
		m.Queue.Download(blocks.Bytes(logits), out)
	}
	return logits, m.Queue.Sync(ctx)
}

// PassBytes is the device memory that [Model.Says] takes for a neighbourhood, by a dry run.
func (m *Model) PassBytes(ctx context.Context, a *eval.Around) (n int64, err error) {
	d, err := m.Dry(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	d.arena.Bound(math.MaxInt64 / 2) // one chunk: tensors are counted, not chunks
	if _, err := d.logits(ctx, a); err != nil {
		return 0, err
	}
	err = d.arena.Reset()
	return d.arena.Peak(), err
}
