package link_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/progress/progresstest"
	"github.com/gstore/gstore/store"
)

// killJob is a run that goes on from its last checkpoint.
type killJob struct {
	Store  string
	Config link.Config
}

func TestMain(m *testing.M) { progresstest.Main(m, (*killJob).run) }

func (c *killJob) run() error {
	c.Config.Resume = true
	_, err := trainLink(context.Background(), c.Store, store.Options{}, c.Config, link.Hooks{Batch: func(int, int64) { fmt.Println("batch") }})
	return err
}

// A training process that gets SIGKILL after random mini-batches is resumed until it ends by itself: the
// embeddings are those of an undisturbed run, in memory and out of core.
func TestLinkKilled(t *testing.T) {
	for k, c := range []link.Config{smallRun("memory", "sage"), smallRun("comet", "sage"), patientRun("comet")} {
		if k%race.Every(2) != 0 {
			continue
		}
		dir, plan := tripleStore(t, 8), c.Plan
		c.Table = "whole"
		if _, err := trainLink(t.Context(), dir, store.Options{}, c, link.Hooks{}); err != nil {
			t.Fatal(err)
		}
		want := finalState(t, dir, "whole", store.Options{})
		c.Table, c.CheckpointEvery = "killed", "5steps"
		kills := progresstest.Killed(t, killJob{Store: dir, Config: c})
		if kills < 2 {
			t.Errorf("%s: only %d kills", plan, kills)
		}
		if !bytes.Equal(finalState(t, dir, "killed", store.Options{}), want) {
			t.Errorf("%s: after %d kills the embeddings are others", plan, kills)
		}
	}
}
