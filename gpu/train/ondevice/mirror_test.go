package ondevice

import (
	"bytes"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// TestMirrorSendsAhead: what of the next step's partitions has a slot crosses while the step before trains, and not again; it is counted
// by the step that uses it. Rows are where places says.
func TestMirrorSendsAhead(t *testing.T) {
	dev := gputest.NewCounting(host.New(host.Options{Threads: 1}), 0)
	defer func() { _ = dev.Close() }()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	const dim, rows = 3, 64 // a partition
	data := make([]byte, 5*rows*dim*4)
	for i := range data {
		data[i] = byte(i * 7 / 3)
	}
	mapped, err := dev.Map(data) // as of a run: what is copied of it is counted
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mapped.Free() }()
	mem, err := dev.Alloc(3 * rows * dim * 4)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mem.Free() }()
	slab := gpu.Tensor{Mem: mem, Rows: 3 * rows, Cols: dim, Stride: dim, Elem: blocks.Float32}
	var next []buffer.ResidentPartition
	slots := []mirrorSlot{{rows: rows}, {base: rows, rows: rows}, {base: 2 * rows, rows: rows}}
	m, err := newMirror(dev, slots, []gpu.Tensor{slab}, func() []buffer.ResidentPartition { return next })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.close() }()
	step := func(parts ...store.PartitionID) *buffer.MacroBatch {
		mb := &buffer.MacroBatch{Rows: 5 * rows, Features: []buffer.Column{{Dim: dim, Type: blocks.Float32, Stride: dim * 4, Data: data}}}
		for _, p := range parts {
			mb.Partitions = append(mb.Partitions, buffer.ResidentPartition{ID: p, Base: uint32(p) * rows, Nodes: rows})
		}
		return mb
	}
	for i, s := range []struct {
		mb          *buffer.MacroBatch
		next        []buffer.ResidentPartition
		sent, count int // partitions that crossed until the step, until its end; of steps
	}{
		{step(0, 1), nil, 2, 2},
		{step(0, 1), step(2, 3).Partitions, 2, 2}, // one slot is free
		{step(2, 3), step(0, 2).Partitions, 4, 4}, // partition 3 had to wait
		{step(0, 2), step(3, 4).Partitions, 5, 5}, // 0 went where 1 was
		{step(1, 2), step(1, 2).Partitions, 7, 6}, // not what was told: 3 went ahead in vain
		{step(3, 4), nil, 9, 8},
	} {
		if err := m.enter(q, s.mb); err != nil {
			t.Fatal(err)
		}
		if got := dev.RowBytes(); got != int64(s.sent)*rows*dim*4 || m.Stats.Pinned != uint64(s.count*rows) {
			t.Errorf("step %d: %d partitions crossed and %d counted, expected %d and %d", i, got/(rows*dim*4), m.Stats.Pinned/rows, s.sent, s.count)
		}
		for range 2 {
			next = s.next
			m.sendAhead(s.mb.Features)
		}
		var input []uint32
		for _, p := range s.mb.Partitions {
			input = append(input, p.Base+5, p.Base+63)
		}
		for k, place := range m.Places(input) {
			got := make([]byte, dim*4)
			q.Download(got, slab.View(int(place), 0, 1, dim))
			if want := data[input[k]*dim*4:][:dim*4]; !bytes.Equal(got, want) {
				t.Errorf("step %d, row %d: %v, expected %v", i, input[k], got, want)
			}
		}
		if _, err := m.leave(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.flying) != 0 {
		t.Errorf("%d copies were not waited for", len(m.flying))
	}
	if err := m.enter(q, step(0, 1, 2, 3)); err == nil {
		t.Error("four partitions found three slots")
	}
}
