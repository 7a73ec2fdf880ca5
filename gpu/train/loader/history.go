package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// History is [config.Config.History] for models trained elsewhere, on a [Loader]'s batches: it keeps the states that the caller
// pushes of nodes, below the model's last layer, and says of a step's training nodes what their neighbours that are out of memory
// add to that layer's mean:
//
//	mean[v] = mean of sampled neighbours / divisor[v] + rest[v]
//
// (see [nn.History]). An epoch's rows are made of the states as they are at its first Pull, in a pass over the topology; neighbours of
// which nothing was pushed count for none of v's. It is for one goroutine, the Loader's.
type History struct {
	l      *Loader
	h      *history.Layer
	Eval   *eval.Evaluator
	queue  *gpu.Queue
	states *spill.Table // a row of float32 a node, as pushed last
	filled int          // 1 + the epoch that rows are of
	inside turn         // the step whose rows are in memory
}

// HistoryOptions configures a [History].
type HistoryOptions struct {
	Dim  int             // columns of the states
	Elem blocks.ElemType // what an epoch's rows are kept as: float32 (default), float16 or bfloat16
	// MemoryBytes bounds what a pass over the topology takes, beside the Loader's budget; default 256 MiB.
	MemoryBytes int64
}

// defaultPassBytes is HistoryOptions.MemoryBytes.
const defaultPassBytes = 256 << 20

// OpenHistory makes an empty history beside a loader of training nodes. States and rows lie in temporary files of the store's scratch
// directory; dev adds them up. Both stay the caller's.
func OpenHistory(ctx context.Context, st *store.Store, dev gpu.Device, l *Loader, o HistoryOptions) (_ *History, err error) {
	c := l.cfg
	c.Model = nn.Models(func(k *nn.Kind) bool { return k.History == nn.HistoryMean })[0]
	if o.Dim < 1 || o.MemoryBytes < 0 {
		return nil, fmt.Errorf("train: history of %d columns within %d bytes: expected one or more, and a budget: %w", o.Dim, o.MemoryBytes, store.ErrInvalid)
	}
	if l.seeds != "train" || l.cfg.Nodes != nil || l.cfg.Relational() {
		return nil, fmt.Errorf("train: history: %w: a loader of %s nodes, of nodes given %v, relations read %v: it completes training nodes' means over all relations",
			store.ErrInvalid, l.seeds, l.cfg.Nodes != nil, l.cfg.Relational())
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = defaultPassBytes
	}
	m := st.Manifest()
	x := &History{l: l}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.Close())
		}
	}()
	if x.queue, err = gpu.NewQueue(dev); err != nil {
		return nil, err
	}
	c.Hidden = o.Dim
	if x.Eval, err = eval.New(st, dev, eval.Options{Unlabelled: true, Features: c.Features, MemoryBytes: o.MemoryBytes, Model: c.ModelConfig(config.Shape{In: o.Dim, Classes: 1})}, o.Dim); err != nil {
		return nil, err
	}
	if x.h, err = history.New(ctx, st, dev, nil, history.Options{Split: c.Split, Dim: o.Dim, Elem: o.Elem, Resident: c.Resident(m)}); err != nil {
		return nil, err
	}
	if x.h.Known, err = history.NewBits(m.Nodes); err != nil {
		return nil, err
	}
	x.states, err = spill.New(m.Nodes, int64(4*o.Dim), false, st.ScratchDir())
	if err == nil { // what is never pushed is read as zeroes
		err = x.states.Write(make([]byte, x.states.RowBytes), max(m.Nodes, 1)-1)
	}
	return x, err
}

// Dim is how many columns states have.
func (x *History) Dim() int { return x.h.Dim }

// Push sets the states of nodes: float32 [len(nodes) × Dim].
func (x *History) Push(nodes []store.NodeID, states []float32) error {
	if len(states) != len(nodes)*x.h.Dim {
		return fmt.Errorf("train: history: %d numbers for %d nodes of %d columns: %w", len(states), len(nodes), x.h.Dim, store.ErrInvalid)
	}
	return x.runs(nodes, func(lo, hi int) error {
		if err := x.states.Write(blocks.Bytes(states[lo*x.h.Dim:hi*x.h.Dim]), uint64(nodes[lo])); err != nil {
			return err
		}
		for _, v := range nodes[lo:hi] {
			x.h.Known.Set(uint64(v))
		}
		return nil
	})
}

// States fills in the states of nodes, and whether there are any; those of other nodes are 0.
func (x *History) States(nodes []store.NodeID, states []float32, known []bool) error {
	if len(states) != len(nodes)*x.h.Dim || len(known) != len(nodes) {
		return fmt.Errorf("train: history: %d numbers and %d flags for %d nodes of %d columns: %w", len(states), len(known), len(nodes), x.h.Dim, store.ErrInvalid)
	}
	for i, v := range nodes {
		known[i] = uint64(v) < x.l.nodes && x.h.Known.Has(uint64(v))
	}
	return x.runs(nodes, func(lo, hi int) error {
		return x.states.Read(blocks.Bytes(states[lo*x.h.Dim:hi*x.h.Dim]), uint64(nodes[lo]))
	})
}

// runs calls fn with each run of consecutive nodes.
func (x *History) runs(nodes []store.NodeID, fn func(lo, hi int) error) error {
	for _, v := range nodes {
		if uint64(v) >= x.l.nodes {
			return fmt.Errorf("train: history: %w: node %d of %d", store.ErrNotFound, v, x.l.nodes)
		}
	}
	for lo, hi := 0, 0; lo < len(nodes); lo = hi {
		for hi = lo + 1; hi < len(nodes) && nodes[hi] == nodes[hi-1]+1; hi++ {
		}
		if err := fn(lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// Pull fills in, of training nodes of the step in hand, rest [len(nodes) × Dim] and the divisors [len(nodes)].
func (x *History) Pull(ctx context.Context, nodes []store.NodeID, rest, divisors []float32) error {
	if len(rest) != len(nodes)*x.h.Dim || len(divisors) != len(nodes) {
		return fmt.Errorf("train: history: %d and %d numbers for %d nodes of %d columns: %w", len(rest), len(divisors), len(nodes), x.h.Dim, store.ErrInvalid)
	}
	if !x.l.inside {
		return fmt.Errorf("train: history: %w: no batch is in hand", store.ErrInvalid)
	}
	if x.filled != x.l.epoch+1 {
		if err := x.fill(ctx); err != nil {
			return err
		}
	}
	mb := &x.l.Mb
	if at := (turn{epoch: x.filled, place: x.l.batches.Place()}); x.inside.epoch != at.epoch || x.inside.place.Step != at.place.Step {
		if err := x.h.Enter(mb); err != nil {
			return err
		}
		x.inside = at
	}
	for i, v := range nodes {
		p := slices.IndexFunc(mb.Partitions, func(p buffer.ResidentPartition) bool { return v >= p.First && uint64(v-p.First) < uint64(p.Nodes) })
		slot, ok := 0, false
		if p >= 0 {
			slot, ok = x.h.Window.Node(mb.Partitions[p].Base + uint32(v-mb.Partitions[p].First))
		}
		if !ok {
			return fmt.Errorf("train: history: %w: node %d is no training node of the step in hand", store.ErrInvalid, v)
		}
		x.h.Row(slot, rest[i*x.h.Dim:][:x.h.Dim])
		divisors[i] = x.h.Divisor(slot)
	}
	return nil
}

// fill makes the rows of the epoch in hand.
func (x *History) fill(ctx context.Context) error {
	x.filled, x.inside = 0, turn{}
	if err := x.h.Begin(x.l.now); err != nil {
		return err
	}
	if err := x.Eval.Stream(ctx, x.queue, x.states, x.h); err != nil {
		return err
	}
	x.filled = x.l.epoch + 1
	return nil
}

// Rows returns the epoch, from 0, that rows were made of last, −1 for none, and these: with [History.SetRows] and the states
// a training loop goes on in the middle of an epoch as if it had not ended.
func (x *History) Rows() (epoch int, rows []byte, err error) {
	if x.filled == 0 {
		return -1, nil, nil
	}
	rows = make([]byte, x.h.Len()*x.h.RowBytes())
	return x.filled - 1, rows, x.h.Rows.Read(rows, 0)
}

// SetRows sets what Rows returned.
func (x *History) SetRows(epoch int, rows []byte) error {
	want := x.h.Len() * x.h.RowBytes()
	if epoch < 0 {
		want = 0
	}
	if len(rows) != want {
		return fmt.Errorf("train: history: %w: rows of %d bytes, expected %d: they are of another loader, or another type", store.ErrInvalid, len(rows), want)
	}
	x.filled, x.inside = max(0, epoch+1), turn{}
	return x.h.Rows.Write(rows, 0)
}

// Forget makes no states known.
func (x *History) Forget() { clear(x.h.Known.Bytes()) }

// Close frees everything; loader, store and device stay.
func (x *History) Close() (err error) {
	if x.h != nil {
		err = x.h.Close()
	}
	if x.Eval != nil {
		err = errors.Join(err, x.Eval.Close())
	}
	if x.queue != nil {
		err = errors.Join(err, x.queue.Close())
	}
	x.states.Close()
	x.h, x.Eval, x.queue, x.states = nil, nil, nil, nil
	return err
}
