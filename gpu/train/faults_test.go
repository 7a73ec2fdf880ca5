package train

import (
	"errors"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestNodeErrors: whichever operation on the store fails under a run, in memory, or out of core with a history, or under the
// evaluation of what it trained, it is told and nothing stays open.
func TestNodeErrors(t *testing.T) {
	disk := storetest.NewDisk(t)
	if err := storetest.CommitOn(disk, storetest.Random(storetest.Options{Nodes: 60, Partitions: 3, Relations: 2}), true); err != nil {
		t.Fatal(err)
	}
	harmless := func(op errorfs.Op) bool { return op.Kind == errorfs.OpStat || storetest.InPebble(op) }
	for name, c := range map[string]config.Config{
		"in memory, relations":        {Plan: "memory", Model: "rgcn", Layers: 1},
		"out of core, history, shift": {Plan: "hanoi", Buffer: 1, History: true, LabelShift: config.ShiftAuto, MemoryBytes: 200 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			c.Hidden, c.BatchSize, c.Epochs, c.Split, c.Threads, c.Absent = 4, 20, 1, "split", 1, config.AbsentIgnore
			storetest.FailEach(t, disk, storetest.Every(31), harmless, func(fs vfs.FS) (err error) {
				st, err := store.Open(storetest.CrashDir, store.Options{FS: fs, Scratch: t.TempDir()})
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, st.Close()) }()
				cp, err := Node(t.Context(), st, hostDevice(t), c, Hooks{})
				if err != nil {
					return err
				}
				e, err := cp.Evaluate(t.Context(), st, hostDevice(t), EvaluateOptions{Splits: []string{"valid"}, AUC: true, Confusion: true, Predictions: true})
				if err != nil {
					return err
				}
				if !isFinite(e.Metrics[0].Loss) || math.IsNaN(e.Metrics[0].AUC) {
					t.Errorf("loss %v, area %v", e.Metrics[0].Loss, e.Metrics[0].AUC)
				}
				return e.Close()
			})
		})
	}
}
