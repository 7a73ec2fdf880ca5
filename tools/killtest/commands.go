package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/verify"
)

// commandsResult counts what kills of commands on a store left.
type commandsResult struct {
	Kills   int            `json:"kills"`
	Before  int            `json:"as_before"`  // the store was as before the command, and no output there
	After   int            `json:"as_after"`   // it was as the command leaves it: the kill came after the commit
	Again   int            `json:"run_again"`  // to the same end
	Resumed int            `json:"resumed"`    // of those, trainings that had a checkpoint
	Of      map[string]int `json:"kills_of"`   // by command
	Late    int            `json:"came_late"`  // the command had ended: no kill
	Leaving int            `json:"with_rests"` // left files that the next run removed or did not mind
	Seconds float64        `json:"seconds"`
}

// commandKind is a command on a copy of a store, and what it leaves undisturbed.
type commandKind struct {
	name   string
	args   func(dir, out string) []string
	after  state
	normal time.Duration
}

// state is what a store holds for its readers, a folder that was written, and a model that was trained.
type state struct {
	version uint64
	files   map[string]string // of the version, with size and checksum
	out     string
	model   string
}

// same reports whether the stores read the same.
func (s state) same(o state) bool {
	if s.version != o.version || len(s.files) != len(o.files) {
		return false
	}
	for name, sum := range s.files {
		if o.files[name] != sum {
			return false
		}
	}
	return true
}

// killCommands kills o.Kills processes that work on a store, by turns of commands.
func killCommands(ctx context.Context, o options) (_ *commandsResult, err error) {
	if o.Kills < 1 || o.Nodes < 8 || o.Edges < 1 {
		return nil, fmt.Errorf("%d kills of commands on a graph of %d nodes and %d edges: expected at least 1, 8 and 1", o.Kills, o.Nodes, o.Edges)
	}
	finish, err := o.begin()
	if err != nil {
		return nil, err
	}
	defer func() { err = finish(err) }()
	begin := time.Now()
	k := &killer{o: o}
	base, before, err := k.commandStore(ctx)
	if err != nil {
		return nil, err
	}
	kinds, err := k.commandKinds(base)
	if err != nil {
		return nil, err
	}
	dir, out := filepath.Join(o.Dir, "work"), filepath.Join(o.Dir, "work-out")
	for _, kind := range kinds {
		if err := renew(base, dir, out); err != nil {
			return nil, err
		}
		start := time.Now()
		if _, err := k.gstore(ctx, kind.args(dir, out)...); err != nil {
			return nil, err
		}
		kind.normal = time.Since(start)
		if kind.after, err = stateOfStore(ctx, dir, out); err != nil {
			return nil, fmt.Errorf("%s, undisturbed: %w", kind.name, err)
		}
	}
	r := &commandsResult{Of: map[string]int{}}
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	for n := 0; r.Kills < o.Kills; n++ {
		kind := kinds[n%len(kinds)]
		if err := renew(base, dir, out); err != nil {
			return nil, err
		}
		if err := k.killCommand(ctx, kind, before, dir, out, rng, r); err != nil {
			return nil, fmt.Errorf("kill %d, %s (kept in %s): %w", r.Kills, kind.name, o.Dir, err)
		}
		if n%25 == 24 {
			fmt.Fprintf(o.Log, "%d kills in %.0f s\n", r.Kills, time.Since(begin).Seconds())
		}
	}
	r.Seconds = time.Since(begin).Seconds()
	return r, nil
}

// commandStore makes the store that commands begin with: with features, labels, a split and a trained model.
func (k *killer) commandStore(ctx context.Context) (base string, before state, err error) {
	in, base := filepath.Join(k.o.Dir, "in"), filepath.Join(k.o.Dir, "base")
	for _, args := range [][]string{
		{"generate", "sbm", in, "--nodes", strconv.FormatInt(k.o.Nodes, 10), "--edges", strconv.FormatInt(k.o.Edges, 10), "--classes", "4", "--features", "16", "--quiet"},
		{"ingest", in, base, "--partitioner", "random", "--partitions", "8", "--quiet"},
		{"train", base, "--epochs", "1", "--hidden", "8", "--quiet"},
	} {
		if _, err := k.gstore(ctx, args...); err != nil {
			return "", before, err
		}
	}
	// Where every run begins: none before it is to be resumed.
	if err := os.Remove(filepath.Join(base, store.RunsDir, "last"+store.RunExtension)); err != nil {
		return "", before, err
	}
	before, err = stateOfStore(ctx, base, "")
	return base, before, err
}

// commandKinds are the commands that are killed: all that write a store or beside it, and verify.
func (k *killer) commandKinds(base string) ([]*commandKind, error) {
	edges, in := filepath.Join(k.o.Dir, "edges.tsv"), filepath.Join(k.o.Dir, "in")
	var b bytes.Buffer
	for i := range k.o.Edges / 4 {
		fmt.Fprintf(&b, "%d\t%d\n", i*7919%k.o.Nodes, i*104729%k.o.Nodes)
	}
	if err := os.WriteFile(edges, b.Bytes(), 0o666); err != nil {
		return nil, err
	}
	on := func(name string, more ...string) *commandKind {
		return &commandKind{name: name, args: func(dir, out string) []string {
			args := []string{strings.Fields(name)[0], dir}
			for _, a := range more {
				args = append(args, strings.ReplaceAll(a, "OUT", out))
			}
			return append(args, "--quiet")
		}}
	}
	return []*commandKind{
		on("append edges", edges, "--columns", "src,dst", "--ids", "dense"),
		on("append features", "--features", filepath.Join(in, "node_feat.npy"), "--name", "again"),
		on("partition", "--partitioner", "fennel"),
		on("precompute"),
		on("train nodes", "--resume", "--epochs", "3", "--hidden", "8", "--batch-size", "200", "--plan", "hanoi", "--buffer", "3", "--checkpoint-every", "3steps"),
		on("export parquet", "OUT", "--format", "parquet", "--what", "all"),
		on("export numpy", "OUT"),
		on("eval", "--out", "OUT", "--write", "predictions,embeddings"),
		on("verify"),
	}, nil
}

// renew makes dir a copy of the store and removes out.
func renew(base, dir, out string) error {
	if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(out)); err != nil {
		return err
	}
	return os.CopyFS(dir, os.DirFS(base))
}

// killCommand kills one command after a random part of its time, looks at what it left, and runs it again unless it had
// committed. A command that ended before does not count.
func (k *killer) killCommand(ctx context.Context, kind *commandKind, before state, dir, out string, rng *rand.Rand, r *commandsResult) error {
	cmd := k.command(ctx, kind.args(dir, out)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		return err
	}
	time.Sleep(time.Duration((.15 + 1.2*rng.Float64()) * float64(kind.normal))) // a process takes some of it to begin
	_ = cmd.Process.Kill()
	var exit *exec.ExitError
	switch err := cmd.Wait(); {
	case err == nil:
		r.Late++
		return nil
	case !errors.As(err, &exit) || exit.ExitCode() != -1: // −1: by a signal
		return fmt.Errorf("the command to be killed failed by itself: %w: %s", err, errs.Bytes())
	}
	r.Kills++
	r.Of[kind.name]++
	left, err := stateOfStore(ctx, dir, out)
	if err != nil {
		return fmt.Errorf("what the kill left: %w", err)
	}
	done := kind.after.version != before.version && left.same(kind.after)
	switch {
	case done:
		r.After++
		return nil
	case !left.same(before):
		return fmt.Errorf("the kill left version %d with files %v, expected the store as before or after the command", left.version, left.files)
	case left.out != "" && left.out != kind.after.out:
		return fmt.Errorf("the kill left a part of the output: %s, expected %s or nothing", left.out, kind.after.out)
	case left.out != "":
		r.After++
		return nil
	}
	r.Before++
	if _, err := os.Stat(filepath.Join(dir, store.RunsDir, "last"+store.RunExtension)); err == nil {
		r.Resumed++
	}
	if rests(dir, left) {
		r.Leaving++
	}
	if _, err := k.gstore(ctx, kind.args(dir, out)...); err != nil {
		return fmt.Errorf("again: %w", err)
	}
	r.Again++
	got, err := stateOfStore(ctx, dir, out)
	if err != nil {
		return fmt.Errorf("again: %w", err)
	}
	if !got.same(kind.after) || got.out != kind.after.out || got.model != kind.after.model {
		return fmt.Errorf("again it leaves version %d, files %v, output %s, model %s, expected %+v", got.version, got.files, got.out, got.model, kind.after)
	}
	if kind.after.version != before.version && rests(dir, got) {
		return errors.New("again: files of the killed process are still there after a commit")
	}
	return nil
}

// rests reports whether the store's folder has data files that its versions do not name, or temporary ones.
func rests(dir string, s state) bool {
	temporary, _ := os.ReadDir(filepath.Join(dir, "tmp"))
	data, _ := os.ReadDir(filepath.Join(dir, "data"))
	kept := map[string]bool{}
	for v := s.version; v > 0; v-- {
		o, err := store.Open(dir, store.Options{Version: v})
		if err != nil {
			break
		}
		for _, f := range o.Manifest().Files {
			kept[f.Name] = true
		}
		_ = o.Close()
	}
	return len(temporary) > 0 || slices.ContainsFunc(data, func(e os.DirEntry) bool { return !kept[e.Name()] })
}

// stateOfStore verifies the store in dir and reads what it and the folder out hold.
func stateOfStore(ctx context.Context, dir, out string) (s state, err error) {
	r, err := verify.Store(ctx, dir, verify.Options{Workers: 2, Model: train.VerifyFile})
	if err != nil {
		return s, err
	}
	if len(r.Damage) > 0 {
		return s, fmt.Errorf("%d damaged: %w", len(r.Damage), errors.Join(r.Damage...))
	}
	o, err := store.Open(dir, store.Options{})
	if err != nil {
		return s, err
	}
	m := o.Manifest()
	s.version, s.files = m.Version, map[string]string{}
	for _, f := range m.Files {
		if s.files[f.Name], err = sumOf(filepath.Join(dir, "data", f.Name)); err != nil {
			return s, errors.Join(err, o.Close())
		}
	}
	if err := o.Close(); err != nil {
		return s, err
	}
	if s.out, err = sumOfFolder(out); err != nil {
		return s, err
	}
	s.model, err = lastModel(filepath.Join(dir, store.RunsDir))
	return s, err
}

// sumOf is size and checksum of a file.
func sumOf(path string) (_ string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.Copy(h, f)
	return fmt.Sprintf("%d bytes, %08x", n, h.Sum32()), err
}

// sumOfFolder names the files of a folder with their checksums; meta.json, which has the time, with its name alone. "" = there is none.
func sumOfFolder(dir string) (string, error) {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		sum := ""
		if e.Name() != "meta.json" {
			sum, err = sumOf(path)
		}
		fmt.Fprintf(&b, "%s %s; ", e.Name(), sum)
		return err
	})
	if dir == "" || errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return b.String(), err
}

// lastModel is what the newest saved model holds; "" = there is none.
func lastModel(dir string) (string, error) {
	for n := uint64(9); n > 0; n-- {
		c, err := train.LoadFile(filepath.Join(dir, store.ModelFile(n)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d parameters %08x, loss %v, accuracy %v, best epoch %d", len(c.Params)/4, crc32.ChecksumIEEE(c.Params), c.Summary.TrainLoss, c.Summary.TestAccuracy, c.Summary.BestEpoch), nil
	}
	return "", nil
}

func (r *commandsResult) print(w io.Writer) {
	fmt.Fprintf(w, "%d kills of commands in %.0f s: %v\n", r.Kills, r.Seconds, r.Of)
	fmt.Fprintf(w, "the store was as before: %d (%d with files left over), as after the command: %d; run again to the same end: %d, of them resumed: %d\n", r.Before, r.Leaving, r.After, r.Again, r.Resumed)
}
