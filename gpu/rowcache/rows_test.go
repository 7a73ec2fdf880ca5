package rowcache

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/store/buffer"
)

// TestFlushInPieces: however many rows changed, all go back, and no more of them are named together than what the budget knows of.
func TestFlushInPieces(t *testing.T) {
	const rows = flushRows + 1000
	dev := gputest.NewCounting(host.New(host.Options{Threads: 1}), 1<<30)
	defer dev.Close() //nolint:errcheck // test
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close() //nolint:errcheck // test
	a := gpu.NewArena(dev)
	defer a.Close() //nolint:errcheck // test
	values := make([]float32, rows)
	m, err := dev.Map(blocks.Bytes(values))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free() //nolint:errcheck // test
	tables := []Table{{Tensor: gpu.MatrixOf(m, 0, rows, 1)}}
	r, err := New(dev, Options{Cache: cache.Options{Policy: cache.NameTracker, Places: rows, Batch: rows}, Slots: 2 * rows, Columns: []Column{{Cols: 1, Elem: blocks.Float32, Changes: true}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // test
	if err := r.Enter(&buffer.MacroBatch{Rows: rows, Partitions: []buffer.ResidentPartition{{Nodes: rows}}}); err != nil {
		t.Fatal(err)
	}
	batch := make([]uint32, rows)
	for i := range batch {
		batch[i] = uint32(i)
	}
	from, _, _ := r.Admit(q, a, tables, batch, nil)
	if sent := 4 * int64(len(r.transfer.Send)+len(r.transfer.To)+2*len(r.transfer.Send)+2*len(r.transfer.To)); sent > ListBytes(r.options.Cache) {
		t.Errorf("lists of a batch may take %d bytes, counted are %d", sent, ListBytes(r.options.Cache))
	}
	q.Fill(from[0], 7)
	if err := r.Flush(t.Context(), q, a, tables); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(values, func(v float32) bool { return v != 7 }) || dev.BackBytes() != 4*rows {
		t.Errorf("%d bytes of %d rows went back, or not all", dev.BackBytes(), rows)
	}
	if last := len(r.transfer.Back); last != rows-flushRows {
		t.Errorf("%d rows were named together last, expected %d", last, rows-flushRows)
	}
}
