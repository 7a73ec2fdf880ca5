package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/verify"
)

// options say what is killed.
type options struct {
	Command string   // the gstore binary
	Env     []string // added to its environment
	Dir     string
	Kills   int
	Nodes   int64
	Edges   int64
	Seed    uint64
	Log     io.Writer // nil = none
}

// ingestResult counts what kills of ingests left and what followed.
type ingestResult struct {
	Kills     int     `json:"kills"`
	Nothing   int     `json:"nothing_finished"`
	Resumable int     `json:"resumable"`
	Committed int     `json:"committed"`
	Due       int     `json:"hop_due"` // of those: committed without the hop that followed
	Resumed   int     `json:"resumed"`
	TookUp    int     `json:"took_up_phases"`
	Fresh     int     `json:"fresh"`
	Seconds   float64 `json:"seconds"`
}

// input is a graph, how it is ingested, and what that gives.
type input struct {
	name   string
	args   []string // of gstore ingest, without INPUT and STORE
	path   string
	want   map[string]string
	normal time.Duration
}

type killer struct {
	o options
	r ingestResult
}

// begin fills in defaults and makes the directory; finish removes it unless there
// was an error: what went wrong is kept to be looked at.
func (o *options) begin() (finish func(error) error, err error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "killtest-"); err != nil {
			return nil, err
		}
	}
	finish = func(err error) error {
		if err == nil {
			err = os.RemoveAll(o.Dir)
		}
		return err
	}
	return finish, os.MkdirAll(o.Dir, 0o777)
}

// killIngests kills o.Kills ingests; the first store that is not what it must be is its error.
func killIngests(ctx context.Context, o options) (_ *ingestResult, err error) {
	if o.Kills < 1 || o.Nodes < 1 || o.Edges < 1 {
		return nil, fmt.Errorf("%d kills of graphs of %d nodes and %d edges: expected at least 1 each", o.Kills, o.Nodes, o.Edges)
	}
	finish, err := o.begin()
	if err != nil {
		return nil, err
	}
	defer func() { err = finish(err) }()
	k := &killer{o: o}
	inputs := []*input{
		{name: "sbm", args: []string{"--partitions", "16", "--mem", "160MiB"}},
		{name: "rmat", args: []string{"--partitions", "16", "--mem", "160MiB", "--ids", "integers", "--undirected"}},
	}
	begin := time.Now()
	for _, in := range inputs {
		if err := k.prepare(ctx, in); err != nil {
			return nil, fmt.Errorf("%s: %w", in.name, err)
		}
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	dir := filepath.Join(o.Dir, "store")
	for k.r.Kills < o.Kills {
		n := k.r.Kills
		in := inputs[n%len(inputs)]
		if err := k.one(ctx, in, dir, rng, n/len(inputs)%2 == 0); err != nil {
			return nil, fmt.Errorf("kill %d, %s (kept in %s): %w", n, in.name, o.Dir, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
		if n%25 == 24 {
			fmt.Fprintf(o.Log, "%d kills in %.0f s\n", n+1, time.Since(begin).Seconds())
		}
	}
	k.r.Seconds = time.Since(begin).Seconds()
	return &k.r, nil
}

// prepare generates an input and ingests it undisturbed.
func (k *killer) prepare(ctx context.Context, in *input) error {
	dir := filepath.Join(k.o.Dir, in.name)
	args := []string{"generate", in.name, dir, "--nodes", strconv.FormatInt(k.o.Nodes, 10), "--edges", strconv.FormatInt(k.o.Edges, 10), "--quiet"}
	in.path = dir
	if in.name == "rmat" {
		args = append(args, "--format", "tsv")
		in.path = filepath.Join(dir, "edges.tsv")
	}
	if _, err := k.gstore(ctx, args...); err != nil {
		return err
	}
	whole := filepath.Join(k.o.Dir, in.name+".gstore")
	begin := time.Now()
	if _, err := k.gstore(ctx, k.ingest(in, whole)...); err != nil {
		return err
	}
	in.normal = time.Since(begin)
	var err error
	if in.want, err = whatIs(ctx, whole); err != nil {
		return err
	}
	return os.RemoveAll(whole)
}

func (k *killer) ingest(in *input, dir string, more ...string) []string {
	return append(append([]string{"ingest", in.path, dir, "--json", "--quiet"}, in.args...), more...)
}

func (k *killer) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.o.Command, args...)
	cmd.Env = append(os.Environ(), k.o.Env...)
	return cmd
}

func (k *killer) gstore(ctx context.Context, args ...string) ([]byte, error) {
	cmd := k.command(ctx, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("gstore %v: %w: %s", args, err, errs.Bytes())
	}
	return out, nil
}

// one kills one ingest of in into dir, and goes on from there. An ingest that ended
// before its moment came does not count.
func (k *killer) one(ctx context.Context, in *input, dir string, rng *rand.Rand, resume bool) error {
	cmd := k.command(ctx, k.ingest(in, dir)...)
	if err := cmd.Start(); err != nil {
		return err
	}
	time.Sleep(time.Duration(rng.Int64N(int64(in.normal) + 1)))
	_ = cmd.Process.Kill()
	var exit *exec.ExitError
	if err := cmd.Wait(); err == nil {
		return nil
	} else if !errors.As(err, &exit) || exit.ExitCode() != -1 { // −1: by a signal
		return fmt.Errorf("the ingest to be killed failed by itself: %w", err)
	}
	k.r.Kills++
	s, err := store.Open(dir, store.Options{})
	switch {
	case err == nil:
		k.r.Committed++
		due := ingest.Due(s.Manifest()) != ""
		if err := s.Close(); err != nil {
			return err
		}
		if due {
			k.r.Due++
			if _, err := k.gstore(ctx, k.ingest(in, dir, "--resume")...); err != nil {
				return err
			}
		}
		return k.check(ctx, in, dir)
	case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrNoVersion):
		return fmt.Errorf("what the kill left: %w (expected ErrNotFound or ErrNoVersion)", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tmp", "ingest.json")); err == nil {
		k.r.Resumable++
	} else {
		k.r.Nothing++
	}
	var args []string
	if resume {
		args = append(args, "--resume")
	}
	out, err := k.gstore(ctx, k.ingest(in, dir, args...)...)
	if err != nil {
		return err
	}
	if !resume {
		k.r.Fresh++
		return k.check(ctx, in, dir)
	}
	k.r.Resumed++
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var summary struct {
		Resumed []string `json:"resumed"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &summary); err != nil {
		return fmt.Errorf("the ingest's summary: %w", err)
	}
	if len(summary.Resumed) > 0 {
		k.r.TookUp++
	}
	return k.check(ctx, in, dir)
}

// check compares the store in dir with the undisturbed one.
func (k *killer) check(ctx context.Context, in *input, dir string) error {
	got, err := whatIs(ctx, dir)
	if err != nil {
		return err
	}
	if len(got) != len(in.want) {
		return fmt.Errorf("%d data files, expected %d", len(got), len(in.want))
	}
	for name, sum := range in.want {
		if got[name] != sum {
			return fmt.Errorf("data file %s is %q, expected %q (size and checksum)", name, got[name], sum)
		}
	}
	return nil
}

// whatIs verifies the store in dir, data files and id look-ups, and returns size and
// checksum of each data file.
func whatIs(ctx context.Context, dir string) (map[string]string, error) {
	r, err := verify.Store(ctx, dir, verify.Options{Workers: 2})
	if err != nil {
		return nil, err
	}
	if len(r.Damage) > 0 {
		return nil, fmt.Errorf("%d damaged: %w", len(r.Damage), errors.Join(r.Damage...))
	}
	entries, err := os.ReadDir(filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, e := range entries {
		if files[e.Name()], err = sumOf(filepath.Join(dir, "data", e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}
