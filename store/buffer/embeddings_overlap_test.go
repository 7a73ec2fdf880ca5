package buffer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/table"
)

// hookedEngine calls before ahead of storetest.Every batch that moves the table's rows.
type hookedEngine struct {
	blockio.Engine
	path   string
	before func(ctx context.Context, op blockio.Op)
}

func (e *hookedEngine) Do(ctx context.Context, batch []blockio.Request, done func(i int)) error {
	if len(batch) > 0 && batch[0].File.Path() == e.path {
		e.before(ctx, batch[0].Op)
	}
	return e.Engine.Do(ctx, batch, done)
}

// overlapBuffer is a buffer with one slot more than its steps of two partitions use, at step 0 of three that
// exchange one partition each, whose rows are trained.
func overlapBuffer(t *testing.T, before func(ctx context.Context, op blockio.Op)) (*buffer.Buffer, mirror) {
	g := storetest.Random(storetest.Options{Seed: 1, Nodes: 800, Partitions: 4})
	s := storetest.Open(t, storetest.Create(t, g), store.Options{})
	tab, err := table.Create(ctx, s, storetest.TableOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tab.Close() })
	engine, _, err := blockio.New("pread", blockio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	it, err := buffer.Open(ctx, s, buffer.Options{Table: tab, Capacity: 2, Swap: 1, Engine: &hookedEngine{engine, tab.Path(), before}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = it.Close() })
	if err := it.Start(swaps(1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	first := g.Firsts()
	m := newMirror(int(first[len(first)-1]))
	if !it.Next() {
		t.Fatal(it.Err())
	}
	if err := m.train(it.MacroBatch(), 1); err != nil {
		t.Fatal(err)
	}
	return it, m
}

// swaps is a plan whose steps are partition 0 with each of others.
func swaps(others ...store.PartitionID) buffer.Plan {
	plan := buffer.Plan{Policy: "comet", Capacity: 2}
	for _, p := range others {
		plan.Steps = append(plan.Steps, buffer.Step{Resident: []store.PartitionID{0, p}})
	}
	return plan
}

// What a released step alone used is written back although the read for the next step goes on.
func TestEmbeddingBufferWritesWhileReading(t *testing.T) {
	wrote := make(chan struct{}, 8)
	var reads atomic.Int32
	it, m := overlapBuffer(t, func(_ context.Context, op blockio.Op) {
		switch {
		case op == blockio.Write:
			wrote <- struct{}{}
		case reads.Add(1) == 3: // partition 2, after 0 and 1
			select {
			case <-wrote:
			case <-time.After(30 * time.Second):
				t.Error("nothing is written back while partition 2 is read")
			}
		}
	})
	for it.Next() {
		if err := m.train(it.MacroBatch(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	if s := it.TableStats(); s.EvictedBytes == 0 || s.WriteAmplification() < 1 {
		t.Errorf("stats %+v", s)
	}
}

// An epoch that is broken off while rows are written back loses none of them, and the table takes checkpoints.
func TestEmbeddingBufferBrokenOffWhileWriting(t *testing.T) {
	ended := make(chan struct{})
	var reads, writes atomic.Int32
	it, m := overlapBuffer(t, func(_ context.Context, op blockio.Op) {
		switch {
		case op == blockio.Read && reads.Add(1) == 4:
			t.Error("partition 3 is read before its slot is written back")
		case op == blockio.Write && writes.Add(1) == 1:
			<-ended
		}
	})
	if !it.Next() { // step 0 is released: partition 1 is being written
		t.Fatal(it.Err())
	}
	if err := m.train(it.MacroBatch(), 1); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { reads.Store(100); close(ended) })
	if err := it.Start(swaps(1, 2)); err != nil {
		t.Fatal(err)
	}
	for it.Next() {
		if err := m.train(it.MacroBatch(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	if err := it.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
}

// Rows that an epoch changed before it was broken off are found again though their partition is read into another slot,
// while the old one still has what the table has not.
func TestEmbeddingBufferBrokenOffElsewhere(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 600, Partitions: 6})
	s := storetest.Open(t, storetest.Create(t, g), store.Options{})
	tab, err := table.Create(ctx, s, storetest.TableOptions(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	it, err := buffer.Open(ctx, s, buffer.Options{Table: tab, Capacity: 2, Swap: 1, Threads: 1}) // three slots
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	first := g.Firsts()
	m := newMirror(int(first[len(first)-1]))
	train := func(steps int, resident ...[]store.PartitionID) {
		t.Helper()
		plan := buffer.Plan{Policy: "comet", Capacity: 2}
		for _, r := range resident {
			plan.Steps = append(plan.Steps, buffer.Step{Resident: r})
		}
		if err := it.Start(plan); err != nil {
			t.Fatal(err)
		}
		for range steps {
			if !it.Next() {
				t.Fatal(it.Err())
			}
			if err := m.train(it.MacroBatch(), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	// 1 lies in the second slot and is to leave it for 5, after 4 has come for 2, which waits until 2 was trained. Nothing of that
	// happens: the three slots count as empty, and 1 is read into the first.
	type set = []store.PartitionID
	train(1, set{0, 1}, set{2}, set{3}, set{4}, set{5}, set{3}, set{1})
	train(2, set{1}, set{0})
}

// A checkpoint writes what changed since the last one.
func TestCheckpointWritesWhatChanged(t *testing.T) {
	it, m := overlapBuffer(t, func(context.Context, blockio.Op) {})
	for range 2 { // to the last step
		if !it.Next() {
			t.Fatal(it.Err())
		}
		if err := m.train(it.MacroBatch(), 1); err != nil {
			t.Fatal(err)
		}
	}
	flushed := func() int64 {
		t.Helper()
		before := it.TableStats().FlushedBytes
		if err := it.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		return it.TableStats().FlushedBytes - before
	}
	all := flushed()
	step := flushed() // what the step in hand may go on changing, and no more
	if step == 0 || all <= step {
		t.Errorf("%d bytes written, and %d by a second checkpoint, which has the step in hand only", all, step)
	}
	if again := flushed(); again != step {
		t.Errorf("a third checkpoint writes %d bytes, the second one %d", again, step)
	}
}

// A checkpoint while a partition is being written would name half of it: it is refused.
func TestCheckpointWhileWriting(t *testing.T) {
	s := storetest.Open(t, storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Partitions: 2})), store.Options{})
	engine, _, err := blockio.New("pread", blockio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	begun, goOn := make(chan struct{}), make(chan struct{})
	hooked := &hookedEngine{engine, "", func(_ context.Context, op blockio.Op) {
		if op == blockio.Write {
			close(begun)
			<-goOn
		}
	}}
	tab, err := table.Create(ctx, s, storetest.TableOptions(hooked))
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	hooked.path = tab.Path()
	bufs := storetest.Planes(t, tab, 1)
	done := make(chan error, 1)
	go func() { done <- tab.Write(ctx, 1, bufs...) }()
	<-begun
	err = tab.Checkpoint(ctx)
	close(goOn)
	if !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a checkpoint meanwhile: %v, expected ErrInvalid", err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := tab.Checkpoint(ctx); err != nil {
		t.Errorf("a checkpoint afterwards: %v", err)
	}
}
