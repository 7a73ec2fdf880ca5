package train_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/progress/progresstest"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/storetest"
)

// killJob is a run that goes on from its last checkpoint; it saves its model as Model and its checkpoints beside it.
type killJob struct {
	Store  string
	Config config.Config
	Model  string
}

func TestMain(m *testing.M) { progresstest.Main(m, (*killJob).run) }

func (c *killJob) run() (err error) {
	st, err := store.Open(c.Store, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	c.Config.Resume, c.Config.CheckpointFile = true, c.Model+".run"
	dev := host.New(host.Options{Threads: 1})
	defer func() { err = errors.Join(err, dev.Close()) }()
	cp, err := train.Node(context.Background(), st, dev, c.Config, train.Hooks{Batch: func(int, int64) { fmt.Println("batch") }})
	if err != nil {
		return err
	}
	return cp.SaveFile(c.Model)
}

// A training process that gets SIGKILL after random mini-batches is resumed until it ends by itself, out of core with a
// history: the model is an undisturbed run's.
func TestNodeKilled(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8}))
	c := config.Config{Plan: "hanoi", Buffer: 2, History: true, Hidden: 8, BatchSize: 10, Epochs: 16, Split: "split", CheckpointEvery: "5steps", Threads: 1}
	killed(t, dir, c, c)
}

// So it is where learned vectors lie in a table, which an undisturbed run keeps beside.
func TestVectorTableKilled(t *testing.T) {
	graph, _ := storetest.Typed(t)
	dir := ingesttest.Store(t, graph, ingest.Options{Partitions: 8, Seed: 1})
	c := config.Config{Model: "rsage", Vectors: config.VectorsTable, Plan: "hanoi", Buffer: 2, Absent: config.AbsentIgnore, Hidden: 8, Fanouts: []int{4, 4}, BatchSize: 10, Epochs: 12, CheckpointEvery: "3steps", Threads: 1}
	whole := c
	whole.Table = "whole"
	killed(t, dir, whole, c)
}

// killed trains by whole, and by c with kills, and fails unless both end with the same model.
func killed(t *testing.T, dir string, undisturbed, c config.Config) {
	t.Helper()
	model := func(name string) string { return filepath.Join(t.TempDir(), name) }
	whole, broken := killJob{Store: dir, Config: undisturbed, Model: model("whole.gsm")}, killJob{Store: dir, Config: c, Model: model("killed.gsm")}
	if err := whole.run(); err != nil {
		t.Fatal(err)
	}
	if kills := progresstest.Killed(t, broken); kills < 2 {
		t.Errorf("only %d kills", kills)
	}
	st := storetest.Open(t, dir, store.Options{})
	load := func(path string) *train.Checkpoint {
		cp, err := train.LoadFile(path)
		if err == nil {
			cp, err = cp.Inline(t.Context(), st)
		}
		if err != nil {
			t.Fatal(err)
		}
		return cp
	}
	want, got := load(whole.Model), load(broken.Model)
	if !bytes.Equal(got.Params, want.Params) || got.Summary.TrainLoss != want.Summary.TrainLoss || got.Summary.BestEpoch != want.Summary.BestEpoch {
		t.Error("the resumed run ends with another model")
	}
}
