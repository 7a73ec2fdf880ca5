package ondevice

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// mirror is plan mirror: slots on the device for the feature rows of resident partitions. Each partition crosses once as long as it stays, a
// long copy a column, on a queue beside the one that trains. Those of the step that comes cross while the step before
// trains, as far as there are slots that this one does not use.
//
// Two waits, of the device and not of the host, keep copies and training apart:
//
//	copies of a step's time   follow what was issued to train before that step began: slots that it does not use are free
//	training of a step        follows the copies that were issued before it began: its rows are there
//
// The host waits for a step's copies where the step ends, for then the memory that they read is released.
type mirror struct {
	slots    []mirrorSlot
	slabs    []gpu.Tensor // by column
	copies   *gpu.Queue
	upcoming func() []buffer.ResidentPartition // whose columns are in memory and belong to the next step; nil: not yet
	ahead    bool                              // they were sent, as far as there were slots
	Shifts   []uint32                          // what to add to a row of the partition buffer for its place, by row >> mirrorShift
	index    []uint32                          // of a batch's rows, until its Sync
	flying   []gpu.Mark                        // behind copies that were not waited for
	zeros    []byte                            // rows of other types
	due      int                               // of them, those that the step in hand needs
	Stats    cache.Stats
}

// mirrorSlot is room for a partition on the device.
type mirrorSlot struct {
	base, rows uint32
	own        bool // it is partition id's alone
	taken      bool // by partition id
	used       bool // by a step that has begun: it is counted
	id         store.PartitionID
}

// blankRows are copied at a time.
const blankRows = 1 << 10

// mirrorShift: partitions begin at multiples of so many rows of the partition buffer, as a power of two.
const mirrorShift = sampling.Shift

// mirrorSlots are the slots of plan mirror: a partition that is always resident has its own, the others of a step and so many spare
// ones have any, of the largest one's size.
func mirrorSlots(c *config.Config, m *store.Manifest, spare int) (slots []mirrorSlot) {
	capacity := c.Capacity(m)
	at := uint32(0)
	for id, p := range m.Partitions {
		if id := store.PartitionID(id); capacity == 0 || slices.Contains(m.Pinned, id) {
			slots = append(slots, mirrorSlot{base: at, rows: uint32(p.Nodes), own: true, id: id})
			at += uint32(p.Nodes)
		}
	}
	most := largestUnpinned(m)
	for range capacity + spare {
		slots = append(slots, mirrorSlot{base: at, rows: most})
		at += most
	}
	return slots
}

// MirrorRows is how many feature rows plan mirror wants places for, with c's plan and partitions in memory.
func MirrorRows(c *config.Config, m *store.Manifest) int64 { return mirrorRows(mirrorSlots(c, m, 0)) }

// mirrorSpare is how many spare slots there are in a room of so many rows: at most those of the step that comes, all of whose
// partitions cross while the step before trains then.
func mirrorSpare(c *config.Config, m *store.Manifest, rows int64) int {
	capacity := c.Capacity(m)
	if capacity == 0 {
		return 0
	}
	others := len(m.Partitions) - len(m.Pinned) - capacity
	return int(min(int64(min(capacity, others)), rows/int64(max(1, largestUnpinned(m)))))
}

// largestUnpinned is the rows of the largest partition that comes and goes.
func largestUnpinned(m *store.Manifest) (rows uint32) {
	for id, p := range m.Partitions {
		if !slices.Contains(m.Pinned, store.PartitionID(id)) {
			rows = max(rows, uint32(p.Nodes))
		}
	}
	return rows
}

// mirrorRows is what slots take.
func mirrorRows(slots []mirrorSlot) (n int64) {
	for _, s := range slots {
		n += int64(s.rows)
	}
	return n
}

func newMirror(dev gpu.Device, slots []mirrorSlot, slabs []gpu.Tensor, upcoming func() []buffer.ResidentPartition) (*mirror, error) {
	q, err := gpu.NewQueue(dev)
	width := 0
	for _, t := range slabs {
		width = max(width, t.Stride*t.Elem.Size())
	}
	return &mirror{slots: slots, slabs: slabs, copies: q, upcoming: upcoming, zeros: make([]byte, width*blankRows)}, err
}

// enter begins a step: what it lacks is copied, and what is issued to q from here on finds it.
func (m *mirror) enter(q *gpu.Queue, mb *buffer.MacroBatch) error {
	for i := range m.slots {
		s := &m.slots[i]
		s.taken = s.taken && slices.ContainsFunc(mb.Partitions, func(p buffer.ResidentPartition) bool { return p.ID == s.id })
		s.used = s.used && s.taken
	}
	m.copies.Follow(q) // slots that nobody has now were read by what was issued so far
	m.Shifts = feed.Resized(m.Shifts, mb.Rows>>mirrorShift+1)
	sent := false
	for _, p := range mb.Partitions {
		s := m.slot(p)
		if s == nil || p.Base%(1<<mirrorShift) != 0 {
			return fmt.Errorf("train: plan mirror: no slot for partition %d of %d rows, at row %d of the partition buffer", p.ID, p.Nodes, p.Base)
		}
		for g := p.Base >> mirrorShift; g<<mirrorShift < p.Base+p.Nodes; g++ {
			m.Shifts[g] = s.base - p.Base
		}
		sent = m.send(s, p, mb.Features) || sent
		if !s.used {
			s.used = true
			m.Stats.Pinned += uint64(p.Nodes)
		}
	}
	q.Follow(m.copies)
	m.issued(sent)
	m.due, m.ahead = len(m.flying), false
	return nil
}

// slot is that of a partition, or a free one for it; nil: there is none.
func (m *mirror) slot(p buffer.ResidentPartition) *mirrorSlot {
	at := slices.IndexFunc(m.slots, func(s mirrorSlot) bool { return s.id == p.ID && (s.own || s.taken) })
	if at < 0 {
		at = slices.IndexFunc(m.slots, func(s mirrorSlot) bool { return !s.own && !s.taken && s.rows >= p.Nodes })
	}
	if at < 0 {
		return nil
	}
	return &m.slots[at]
}

// send issues the copy of a partition to its slot and reports true, or false where it is there.
func (m *mirror) send(s *mirrorSlot, p buffer.ResidentPartition, columns []buffer.Column) bool {
	if s.taken {
		return false
	}
	s.id, s.taken, s.used = p.ID, true, false
	for i := range columns {
		c, first, rows, place := &columns[i], p.Base, p.Nodes, p.Base
		if c.Runs != nil {
			first, rows, place = c.Runs.Of(p)
			m.blank(m.slabs[i], s.base, first-p.Base)
			m.blank(m.slabs[i], s.base+first-p.Base+rows, p.Nodes-(first-p.Base)-rows)
		}
		if rows > 0 {
			m.copies.Upload(m.slabs[i].View(int(s.base+first-p.Base), 0, int(rows), c.Dim), c.Data[int(place)*c.Stride:int(place+rows)*c.Stride])
		}
	}
	return true
}

// blank issues rows of zeros, which a column of one node type has for nodes of others.
func (m *mirror) blank(slab gpu.Tensor, from, rows uint32) {
	width := uint32(slab.Stride * slab.Elem.Size())
	for end := from + rows; from < end; from += blankRows {
		n := min(blankRows, end-from)
		m.copies.Upload(slab.View(int(from), 0, int(n), slab.Cols), m.zeros[:n*width])
	}
}

// issued notes the place behind copies.
func (m *mirror) issued(any bool) {
	if any {
		m.flying = append(m.flying, m.copies.Mark())
	}
}

// SendAhead issues the copies of the next step's partitions once the partition buffer has read them. columns are those of the step in
// hand: of every step the same memory.
func (m *mirror) sendAhead(columns []buffer.Column) {
	if m == nil || m.ahead {
		return
	}
	next := m.upcoming()
	if next == nil {
		return
	}
	m.ahead = true
	sent := false
	for _, p := range next {
		if s := m.slot(p); s != nil {
			sent = m.send(s, p, columns) || sent
		}
	}
	m.issued(sent)
}

// leave ends a step, all of which is done, and returns how long its copies took the device.
func (m *mirror) leave(ctx context.Context) (took time.Duration, err error) {
	if m == nil {
		return 0, nil
	}
	for _, c := range m.flying[:m.due] {
		if err := c.Wait(context.WithoutCancel(ctx)); err != nil {
			return took, fmt.Errorf("train: plan mirror: copy partitions: %w", err)
		}
		took += c.Took()
	}
	m.flying, m.due = slices.Delete(m.flying, 0, m.due), 0
	return took, nil
}

// Places are the places of rows, until the next call.
func (m *mirror) Places(input []uint32) []uint32 {
	m.index = m.index[:0]
	for _, row := range input {
		m.index = append(m.index, row+m.Shifts[row>>mirrorShift])
	}
	return m.index
}

// close waits for the copies.
func (m *mirror) close() error {
	if m == nil || m.copies == nil {
		return nil
	}
	return m.copies.Close()
}
