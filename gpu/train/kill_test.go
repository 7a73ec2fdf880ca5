package train_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// trainChildEnv makes the test binary a training process, so that there is one to kill: it holds a childRun as JSON.
const trainChildEnv = "GSTORE_TRAIN_CHILD"

// childRun is a run that goes on from its last checkpoint: of node classification, which saves its model as Model and
// its checkpoints beside it, or of link prediction.
type childRun struct {
	Store string
	Node  *train.Config
	Link  *train.LinkConfig
	Model string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(trainChildEnv); text != "" {
		var c childRun
		err := json.Unmarshal([]byte(text), &c)
		if err == nil {
			err = c.run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func (c *childRun) run() (err error) {
	ctx, batch := context.Background(), func(int, int64) { fmt.Println("batch") }
	if c.Link != nil {
		c.Link.Resume = true
		_, err = trainLink(ctx, c.Store, store.Options{}, *c.Link, train.LinkHooks{Batch: batch})
		return err
	}
	st, err := store.Open(c.Store, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	c.Node.Resume, c.Node.CheckpointFile = true, c.Model+".run"
	cp, err := train.Node(ctx, st, *c.Node, train.Hooks{Batch: batch})
	if err != nil {
		return err
	}
	return cp.SaveFile(c.Model)
}

// killed runs c in processes that get SIGKILL after random mini-batches, until one ends by itself, and returns how many did not.
func killed(t *testing.T, c childRun) int {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(9, 1))
	for kills := range 200 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), trainChildEnv+"="+string(text))
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(out)
		for range rng.IntN(60) {
			if _, err := in.ReadString('\n'); err != nil {
				break
			}
		}
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		_ = cmd.Process.Kill()
		_, _ = in.WriteTo(new(bytes.Buffer))
		err = cmd.Wait()
		var exit *exec.ExitError
		if err == nil {
			return kills
		}
		if !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("the process to be killed failed by itself: %v: %s", err, errs.Bytes())
		}
	}
	t.Fatal("no end")
	return 0
}

// A training process that gets SIGKILL after random mini-batches is resumed until it ends by itself: the
// embeddings are those of an undisturbed run, in memory and out of core.
func TestLinkKilled(t *testing.T) {
	for _, plan := range []string{"memory", "comet"} {
		dir := tripleStore(t, 8)
		c := smallRun(plan, "sage")
		c.Table = "whole"
		if _, err := trainLink(t.Context(), dir, store.Options{}, c, train.LinkHooks{}); err != nil {
			t.Fatal(err)
		}
		want := finalState(t, dir, "whole", store.Options{})
		c.Table, c.CheckpointEvery = "killed", "5steps"
		kills := killed(t, childRun{Store: dir, Link: &c})
		if kills < 2 {
			t.Errorf("%s: only %d kills", plan, kills)
		}
		if !bytes.Equal(finalState(t, dir, "killed", store.Options{}), want) {
			t.Errorf("%s: after %d kills the embeddings are others", plan, kills)
		}
	}
}

// The same for node classification, out of core with a history: the model is the undisturbed run's.
func TestNodeKilled(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 600, Edges: 5000, Partitions: 8}))
	c := train.Config{Plan: "hanoi", Buffer: 2, History: true, Hidden: 8, BatchSize: 10, Epochs: 6, Split: "split", CheckpointEvery: "5steps", Threads: 1}
	model := func(name string) string { return filepath.Join(t.TempDir(), name) }
	whole, broken := childRun{Store: dir, Node: &c, Model: model("whole.gsm")}, childRun{Store: dir, Node: &c, Model: model("killed.gsm")}
	if err := whole.run(); err != nil {
		t.Fatal(err)
	}
	if kills := killed(t, broken); kills < 2 {
		t.Errorf("only %d kills", kills)
	}
	want, err := train.LoadFile(whole.Model)
	if err != nil {
		t.Fatal(err)
	}
	got, err := train.LoadFile(broken.Model)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Params, want.Params) || got.Summary.TrainLoss != want.Summary.TrainLoss || got.Summary.BestEpoch != want.Summary.BestEpoch {
		t.Error("the resumed run ends with another model")
	}
}
