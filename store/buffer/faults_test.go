package buffer_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
)

// harmless is what is asked beforehand, for files or for room, and Pebble's own.
func harmless(op errorfs.Op) bool {
	return op.Kind == errorfs.OpStat || op.Kind == errorfs.OpGetDiskUsage || storetest.InPebble(op)
}

// withBuffer opens a buffer over the newest version of a store, for as long as use runs.
func withBuffer(fs vfs.FS, o buffer.Options, use func(it *buffer.Buffer) error) (err error) {
	s, err := store.Open(storetest.CrashDir, store.Options{FS: fs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	it, err := buffer.Open(ctx, s, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	return use(it)
}

// TestBufferErrors: whichever operation fails under a buffer, of features, labels, relations and edges or of embeddings that are
// written back, it is told and nothing stays open.
func TestBufferErrors(t *testing.T) {
	t.Run("embeddings", func(t *testing.T) {
		disk, nodes := bufferDisk(t)
		storetest.FailEach(t, disk, storetest.Every(23), harmless, func(fs vfs.FS) error { return bufferRun(fs, newMirror(nodes)) })
	})
	t.Run("features", func(t *testing.T) {
		disk := storetest.NewDisk(t)
		g := storetest.Random(storetest.Options{Nodes: 60, Partitions: 3, Dim: 3, Relations: 2})
		if err := storetest.CommitOn(disk, g, true); err != nil {
			t.Fatal(err)
		}
		storetest.FailEach(t, disk, storetest.Every(23), harmless, func(fs vfs.FS) error {
			o := buffer.Options{Capacity: 1, Features: []string{"x"}, Labels: true, Relations: true, Both: true}
			return withBuffer(fs, o, func(it *buffer.Buffer) error {
				plan := buffer.Plan{Policy: "test", Capacity: 1}
				for p := range store.PartitionID(3) {
					plan.Steps = append(plan.Steps, buffer.Step{Resident: []store.PartitionID{p}, Train: []store.PartitionID{p}})
				}
				for range 2 {
					if err := it.Start(plan); err != nil {
						return err
					}
					for it.Next() {
						_ = it.MacroBatch()
					}
					if err := it.Err(); err != nil {
						return err
					}
				}
				return nil
			})
		})
	})
	// All partitions at once, whose nodes are put in the order of their ids.
	for _, kind := range []store.IDKind{store.IDsIntegers, store.IDsStrings} {
		t.Run("in memory, "+string(kind), func(t *testing.T) {
			disk := storetest.NewDisk(t)
			if err := storetest.CommitOn(disk, storetest.Random(storetest.Options{Nodes: 60, Partitions: 3, Dim: 3, IDs: kind}), true); err != nil {
				t.Fatal(err)
			}
			storetest.FailEach(t, disk, storetest.Every(23), harmless, func(fs vfs.FS) error {
				return withBuffer(fs, buffer.Options{Features: []string{"x"}}, func(*buffer.Buffer) error { return nil })
			})
		})
	}
}
