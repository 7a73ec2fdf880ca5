package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// trainResult counts what kills of training left.
type trainResult struct {
	Kills      int     `json:"kills"`
	Nothing    int     `json:"no_checkpoint"`      // killed before the first one
	Checkpoint int     `json:"checkpoint"`         // the last checkpoint verified
	Middle     int     `json:"mid_epoch"`          // of those, in the middle of an epoch
	Runs       int     `json:"runs"`               // that came to their end
	Written    int64   `json:"bytes_written_back"` // by an undisturbed run out of core
	Seconds    float64 `json:"seconds"`
}

// trainKind is how a store is trained, and what that gives undisturbed.
type trainKind struct {
	plan   string
	want   string
	normal time.Duration
}

// killTraining kills o.Kills training processes of a generated knowledge graph, resumes each,
// and compares what every run ends with, to the bit, with an undisturbed run.
func killTraining(ctx context.Context, o options) (_ *trainResult, err error) {
	if o.Kills < 1 || o.Nodes < 1 || o.Edges < 1 {
		return nil, fmt.Errorf("%d kills of training on a graph of %d nodes and %d edges: expected at least 1 each", o.Kills, o.Nodes, o.Edges)
	}
	finish, err := o.begin()
	if err != nil {
		return nil, err
	}
	defer func() { err = finish(err) }()
	k := &killer{o: o}
	graph, dir := filepath.Join(o.Dir, "kg"), filepath.Join(o.Dir, "kg.gstore")
	for _, args := range [][]string{
		{"generate", "kg", graph, "--nodes", strconv.FormatInt(o.Nodes, 10), "--edges", strconv.FormatInt(o.Edges, 10), "--quiet",
			"--relations", "8", "--valid-triples", "50", "--test-triples", "50"},
		{"ingest", graph, dir, "--partitions", "8", "--quiet"},
	} {
		if _, err := k.gstore(ctx, args...); err != nil {
			return nil, err
		}
	}
	begin := time.Now()
	r := new(trainResult)
	kinds := []*trainKind{{plan: "comet"}, {plan: "memory"}, {plan: "beta"}}
	for _, kind := range kinds {
		start := time.Now()
		if _, err := k.gstore(ctx, kind.args(dir, "whole", "--overwrite")...); err != nil {
			return nil, err
		}
		kind.normal = time.Since(start)
		state, err := stateOf(ctx, dir, "whole", true)
		if err != nil {
			return nil, err
		}
		if kind.want = state.digest; kind.plan == "comet" {
			r.Written = state.summary.BytesWritten
		}
	}
	if r.Written == 0 {
		return nil, errors.New("the undisturbed run wrote nothing back: nothing would be tested")
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	for n := 0; r.Kills < o.Kills; n++ {
		kind := kinds[n%len(kinds)]
		if err := k.killRun(ctx, kind, dir, rng, r); err != nil {
			return nil, fmt.Errorf("kill %d, plan %s (kept in %s): %w", r.Kills, kind.plan, o.Dir, err)
		}
		fmt.Fprintf(o.Log, "%d kills in %.0f s\n", r.Kills, time.Since(begin).Seconds())
	}
	r.Seconds = time.Since(begin).Seconds()
	return r, nil
}

func (t *trainKind) args(dir, table string, more ...string) []string {
	args := []string{"train", dir, "--plan", t.plan, "--encoder", "sage", "--fanouts", "5", "--dim", "32", "--epochs", "3", "--eval-every", "3",
		"--batch-size", "500", "--negatives", "20", "--x", "chunks=4", "--checkpoint-every", "15steps", "--seed", "1", "--table", table, "--json", "--quiet"}
	if t.plan != "memory" {
		args = append(args, "--buffer", "2")
	}
	return append(args, more...)
}

// killRun kills one run again and again, each time after a random part of a whole run's time, until it
// comes to its end, and compares what it ends with.
func (k *killer) killRun(ctx context.Context, kind *trainKind, dir string, rng *rand.Rand, r *trainResult) error {
	if err := table.Drop(ctx, dir, "killed", store.Options{}); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for {
		cmd := k.command(ctx, kind.args(dir, "killed", "--resume")...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			return err
		}
		if r.Kills < k.o.Kills {
			// As a rule before a process is done, so that a run is killed several times.
			timer := time.AfterFunc(time.Duration(rng.Int64N(int64(kind.normal))), func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
		}
		err := cmd.Wait()
		var exit *exec.ExitError
		if err == nil {
			break
		}
		if !errors.As(err, &exit) || exit.ExitCode() != -1 {
			return fmt.Errorf("the process to be killed failed by itself: %w: %s", err, errs.Bytes())
		}
		r.Kills++
		state, err := stateOf(ctx, dir, "killed", false)
		switch {
		case errors.Is(err, store.ErrNotFound):
			r.Nothing++
		case err != nil:
			return fmt.Errorf("what the kill left: %w", err)
		default:
			r.Checkpoint++
			if state.middle {
				r.Middle++
			}
		}
	}
	state, err := stateOf(ctx, dir, "killed", true)
	if err != nil {
		return err
	}
	r.Runs++
	if state.digest != kind.want {
		return fmt.Errorf("the run ends with %s, undisturbed with %s", state.digest, kind.want)
	}
	return nil
}

// tableState is what a table's last checkpoint holds.
type tableState struct {
	digest  string // of all rows, parameters and metrics
	middle  bool   // it lies within an epoch
	summary link.Summary
}

// stateOf reads and verifies a table, rows and all; whole also checks that its run has ended.
func stateOf(ctx context.Context, dir, name string, whole bool) (_ *tableState, err error) {
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	t, err := table.Open(ctx, s, table.Options{Name: name})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	var rows int64
	for p := range t.Partitions() {
		id := store.PartitionID(p)
		n := t.PlaneBytes(id)
		slab, err := blockio.AllocSlab(max(1, n*int64(t.Planes())), blockio.SlabOptions{Threads: 1})
		if err != nil {
			return nil, err
		}
		var planes [][]byte
		for i := range int64(t.Planes()) {
			planes = append(planes, slab.Bytes()[i*n:(i+1)*n])
		}
		if err := t.Read(ctx, id, planes...); err != nil { // checks the checksums
			return nil, errors.Join(err, slab.Free())
		}
		for _, b := range planes {
			_, _ = h.Write(b[:int64(t.Nodes(id))*int64(t.Dim())*4])
		}
		rows += int64(t.Nodes(id))
		if err := slab.Free(); err != nil {
			return nil, err
		}
	}
	run, err := link.Load(ctx, t)
	if err != nil {
		return nil, err
	}
	if whole && run.Epochs != run.Config.Epochs {
		return nil, fmt.Errorf("%d epochs are finished, expected %d", run.Epochs, run.Config.Epochs)
	}
	m := &run.Summary
	return &tableState{middle: run.Middle, summary: *m, digest: fmt.Sprintf("%d rows %08x, parameters %08x, test MRR %v, valid MRR %v, loss %v, %d batches",
		rows, h.Sum32(), crc32.Checksum(run.Model, crc32.MakeTable(crc32.Castagnoli)), m.TestMRR, m.ValidMRR, m.TrainLoss, m.Batches)}, nil
}

func (r *trainResult) print(w io.Writer) {
	fmt.Fprintf(w, "%d kills of %d runs in %.0f s: every run ended with the bits of an undisturbed one\n", r.Kills, r.Runs, r.Seconds)
	fmt.Fprintf(w, "killed before the first checkpoint: %d; the last checkpoint was whole: %d (%d of them within an epoch)\n", r.Nothing, r.Checkpoint, r.Middle)
}
