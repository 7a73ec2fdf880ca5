package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
)

// gstoreEnv makes the test binary be gstore, so that there is a process to kill.
const gstoreEnv = "GSTORE_KILLTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(gstoreEnv) != "" {
		os.Exit(cli.Main())
	}
	os.Exit(m.Run())
}

func TestKilledIngestsAreWholeAfterwards(t *testing.T) {
	r, err := killIngests(context.Background(), options{Command: os.Args[0], Env: []string{gstoreEnv + "=1"},
		Dir: filepath.Join(t.TempDir(), "work"), Kills: 8, Nodes: 20_000, Edges: 200_000, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if r.Kills != 8 || r.Nothing+r.Resumable+r.Committed != 8 {
		t.Errorf("%+v: expected 8 kills, each of which left something", r)
	}
}

func TestKilledTrainingsEndWithTheSameBits(t *testing.T) {
	r, err := killTraining(context.Background(), options{Command: os.Args[0], Env: []string{gstoreEnv + "=1"},
		Dir: filepath.Join(t.TempDir(), "work"), Kills: 6, Nodes: 1000, Edges: 8000, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if r.Kills != 6 || r.Nothing+r.Checkpoint != 6 || r.Runs == 0 {
		t.Errorf("%+v: expected 6 kills and a run that ended", r)
	}
}

func TestKilledCommandsLeaveTheStore(t *testing.T) {
	r, err := killCommands(context.Background(), options{Command: os.Args[0], Env: []string{gstoreEnv + "=1"},
		Dir: filepath.Join(t.TempDir(), "work"), Kills: 9, Nodes: 2000, Edges: 16_000, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if r.Kills != 9 || r.Before+r.After != 9 || r.Again != r.Before {
		t.Errorf("%+v: expected 9 kills, each of which left the store as before or after", r)
	}
}

// The comparison notices a data file that differs.
func TestOtherFilesAreNoticed(t *testing.T) {
	ctx := context.Background()
	k := &killer{o: options{Command: os.Args[0], Env: []string{gstoreEnv + "=1"}, Dir: t.TempDir(), Nodes: 2000, Edges: 10_000}}
	in := &input{name: "sbm", args: []string{"--partitions", "4"}}
	if err := k.prepare(ctx, in); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(k.o.Dir, "other")
	if _, err := k.gstore(ctx, k.ingest(in, dir, "--seed", "2")...); err != nil {
		t.Fatal(err)
	}
	if err := k.check(ctx, in, dir); err == nil || !strings.Contains(err.Error(), "expected") {
		t.Errorf("a store of another seed passed: %v", err)
	}
}
