package native

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	nodes "github.com/gstore/gstore/gpu/train/loader"
	"github.com/gstore/gstore/store"
)

// history is a handle of states beside a loader of nodes, which it shares the lock of.
type history struct {
	by     *loader
	device gpu.Device
	*nodes.History
	closed bool
}

// openHistory makes a history beside the call's loader.
func openHistory(ctx context.Context, c *call) (err error) {
	q := struct {
		Dim         int    `json:"dim"`
		Dtype       string `json:"dtype"`
		MemoryBytes int64  `json:"memory_bytes"`
		Threads     int    `json:"threads"`
	}{Dtype: "float32"}
	o, err := objectOf[*loader](c, "a loader")
	if err == nil {
		err = c.decode(&q)
	}
	if err != nil {
		return err
	}
	elem, err := blocks.ParseElemType(q.Dtype)
	if err != nil || elem != blocks.Float32 && elem != blocks.Float16 && elem != blocks.BFloat16 {
		return fmt.Errorf("%w: a history of %s: expected float32, float16 or bfloat16", store.ErrInvalid, q.Dtype)
	}
	if q.Threads == 0 {
		q.Threads = runtime.GOMAXPROCS(0)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	l, ok := o.l.(*nodes.Loader)
	if !ok || o.closed {
		return fmt.Errorf("%w: a history beside a loader of %T, closed %v: expected an open one of nodes", store.ErrInvalid, o.l, o.closed)
	}
	h := &history{by: o, device: host.New(host.Options{Threads: q.Threads})}
	if h.History, err = nodes.OpenHistory(ctx, o.of, h.device, l, nodes.HistoryOptions{Dim: q.Dim, Elem: elem, MemoryBytes: q.MemoryBytes}); err != nil {
		return errors.Join(err, h.device.Close())
	}
	c.reply.Handle = all.add(h)
	return nil
}

func (h *history) close() error {
	h.by.mu.Lock()
	defer h.by.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	return errors.Join(h.History.Close(), h.device.Close())
}

// free has nothing left to do: no memory of the history's is ever handed out.
func (h *history) free() {}

// history returns the call's history, locked, and the nodes that its first array names; done unlocks it.
func (c *call) history() (h *history, nodes []store.NodeID, done func(), err error) {
	if h, err = objectOf[*history](c, "a history"); err != nil {
		return nil, nil, nil, err
	}
	if len(c.arrays) > 0 {
		if nodes, err = blocks.View[store.NodeID](c.arrays[0]); err != nil {
			return nil, nil, nil, err
		}
	}
	h.by.mu.Lock()
	if h.closed || h.by.closed {
		h.by.mu.Unlock()
		return nil, nil, nil, fmt.Errorf("%w: history, or its loader", store.ErrClosed)
	}
	return h, nodes, h.by.mu.Unlock, nil
}

// pushStates sets states: arrays are the nodes, uint64, and float32 [nodes × dim].
func pushStates(_ context.Context, c *call) error {
	h, nodes, done, err := c.history()
	if err != nil {
		return err
	}
	defer done()
	states, err := blocks.View[float32](c.arrays[1])
	if err != nil {
		return err
	}
	return h.Push(nodes, states)
}

// pullHistory fills in what completes means: arrays are the nodes, uint64, and float32 [nodes × dim] and [nodes].
func pullHistory(ctx context.Context, c *call) error {
	h, nodes, done, err := c.history()
	if err != nil {
		return err
	}
	defer done()
	rest, err := blocks.View[float32](c.arrays[1])
	if err != nil {
		return err
	}
	divisors, err := blocks.View[float32](c.arrays[2])
	if err != nil {
		return err
	}
	return h.Pull(ctx, nodes, rest, divisors)
}

// historyStates fills in states: arrays are the nodes, uint64, float32 [nodes × dim] and whether there are any, a byte a node.
func historyStates(_ context.Context, c *call) error {
	h, nodes, done, err := c.history()
	if err != nil {
		return err
	}
	defer done()
	states, err := blocks.View[float32](c.arrays[1])
	if err != nil {
		return err
	}
	return h.States(nodes, states, unsafe.Slice((*bool)(unsafe.Pointer(unsafe.SliceData(c.arrays[2]))), len(c.arrays[2])))
}

// historyRows tells the epoch whose rows there are, which are the reply's array.
func historyRows(_ context.Context, c *call) error {
	h, _, done, err := c.history()
	if err != nil {
		return err
	}
	defer done()
	epoch, rows, err := h.Rows()
	if err == nil {
		err = c.alloc(int64(len(rows)))
	}
	if err != nil {
		return err
	}
	copy(c.reply.Arrays[0], rows)
	return c.answer(map[string]int{"epoch": epoch})
}

// restoreHistory forgets all states and sets an epoch's rows, the array.
func restoreHistory(_ context.Context, c *call) error {
	var q struct {
		Epoch int `json:"epoch"`
	}
	h, _, done, err := (&call{object: c.object}).history()
	if err != nil {
		return err
	}
	defer done()
	if err := c.decode(&q); err != nil {
		return err
	}
	h.Forget()
	return h.SetRows(q.Epoch, c.arrays[0])
}
