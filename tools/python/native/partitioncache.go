package native

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// partitionCache holds whole partitions of a table in memory, so many as fit, for rows that are asked for in any order.
// A partition whose rows were changed is written back when its frame is wanted for another one, or by flush. Not safe
// for concurrent use.
type partitionCache struct {
	table  *table.Table
	device gpu.Device
	bytes  int64 // of a frame: all planes of the largest partition
	most   int   // frames
	frames []*frame
	where  []*frame // by partition, nil = not in memory
	clock  uint64
	stats  cacheStats
}

// cacheStats count partitions that were moved between memory and the table.
type cacheStats struct {
	Reads  int64 `json:"reads"`
	Writes int64 `json:"writes"` // to make room and for checkpoints
}

// frame is room for a partition: a value and the optimiser's state of each of its rows.
type frame struct {
	slab   *blockio.Slab
	planes [][]byte // of the partition's PlaneBytes
	part   store.PartitionID
	held   bool // part is in it
	dirty  bool // rows may differ from the table's
	used   uint64
}

// frameBytes is what one frame of a table of so many planes takes.
func frameBytes(m *store.Manifest, dim, planes int) int64 {
	var most int64
	for _, p := range m.Partitions {
		most = max(most, int64(planes)*blocks.AlignUp(4*int64(dim)*int64(p.Nodes)))
	}
	return max(most, blocks.Alignment)
}

// framesIn is how many frames a budget of bytes holds, 0 = all partitions. One must fit.
func framesIn(m *store.Manifest, name string, frame, bytes int64) (int, error) {
	n := len(m.Partitions)
	if bytes == 0 {
		return n, nil
	}
	if bytes < frame {
		return 0, fmt.Errorf("%w: a partition of table %q takes %s with its optimiser's state, the budget is %s: the smallest that works is %d bytes; more partitions take less",
			store.ErrBudget, name, blocks.SizeText(frame), blocks.SizeText(bytes), frame)
	}
	return int(min(bytes/frame, int64(n))), nil
}

func newPartitionCache(t *table.Table, device gpu.Device, bytes int64, most int) *partitionCache {
	return &partitionCache{table: t, device: device, bytes: bytes, most: most, where: make([]*frame, t.Partitions())}
}

// hold returns the frame that partition p is in, having read it if it was in none. It stays there until the next call.
func (c *partitionCache) hold(ctx context.Context, p store.PartitionID) (*frame, error) {
	c.clock++
	if f := c.where[p]; f != nil {
		f.used = c.clock
		return f, nil
	}
	f, err := c.room(ctx)
	if err != nil {
		return nil, err
	}
	n, b := c.table.PlaneBytes(p), f.slab.Bytes()
	f.planes = f.planes[:0]
	for range c.table.Planes() {
		f.planes, b = append(f.planes, b[:n:n]), b[n:]
	}
	if err := c.table.Read(ctx, p, f.planes...); err != nil {
		return nil, err
	}
	c.stats.Reads++
	f.part, f.held, f.used = p, true, c.clock
	c.where[p] = f
	return f, nil
}

// room returns a frame that holds nothing: a new one, or that of the partition that was not used for longest.
func (c *partitionCache) room(ctx context.Context) (*frame, error) {
	var oldest *frame
	for _, f := range c.frames {
		if !f.held {
			return f, nil // a read failed
		}
		if oldest == nil || f.used < oldest.used {
			oldest = f
		}
	}
	if len(c.frames) < c.most {
		slab, err := blockio.AllocSlab(c.bytes, blockio.SlabOptions{Lazy: true})
		if err != nil {
			return nil, err
		}
		f := &frame{slab: slab}
		c.frames = append(c.frames, f)
		return f, nil
	}
	if err := c.write(ctx, oldest); err != nil {
		return nil, err
	}
	c.where[oldest.part] = nil
	oldest.held = false
	return oldest, nil
}

// write stores a frame's rows in the table if they may differ. One that is begun is finished: half of one would cost
// the partition's rows since the last checkpoint.
func (c *partitionCache) write(ctx context.Context, f *frame) error {
	if !f.dirty {
		return nil
	}
	if err := c.table.Write(context.WithoutCancel(ctx), f.part, f.planes...); err != nil {
		return err
	}
	c.stats.Writes++
	f.dirty = false
	return nil
}

// flush writes all rows that may differ from the table's.
func (c *partitionCache) flush(ctx context.Context) error {
	for _, f := range c.frames {
		if err := c.write(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// forget drops what is in memory and was not changed: the table has other rows since.
func (c *partitionCache) forget() {
	for _, f := range c.frames {
		if f.held && !f.dirty {
			c.where[f.part], f.held = nil, false
		}
	}
}

// tensors views a frame's planes, [rows × dim] each, as the device takes them; free ends them.
func (c *partitionCache) tensors(f *frame) (planes []gpu.Tensor, free func() error, err error) {
	var mems []gpu.Memory
	free = func() error {
		var errs []error
		for _, m := range mems {
			errs = append(errs, m.Free())
		}
		return errors.Join(errs...)
	}
	for _, b := range f.planes {
		m, err := c.device.Map(b)
		if err != nil {
			return nil, nil, errors.Join(err, free())
		}
		mems = append(mems, m)
		planes = append(planes, gpu.MatrixOf(m, 0, int(c.table.Nodes(f.part)), c.table.Dim()))
	}
	return planes, free, nil
}

// free gives the memory back.
func (c *partitionCache) free() error {
	var errs []error
	for _, f := range c.frames {
		errs = append(errs, f.slab.Free())
	}
	c.frames, c.where = nil, nil
	return errors.Join(errs...)
}
