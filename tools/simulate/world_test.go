package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/verify"
)

// world is a store, what the model says of it, and those who use it.
type world struct {
	ctx  context.Context
	dev  gpu.Device
	temp string // folder of the operating system, made when first wanted
	disk *disk
	dir  string     // the store
	rng  *rand.Rand // of the step at hand

	now      *graph // what the newest version holds; nil = nothing was committed
	version  uint64
	past     map[uint64]*graph // what the versions held that were the newest after a step
	doubt    *doubt            // a crash may undo the last commit, which failed
	begun    *graph            // the first ingest makes this, however often it is interrupted
	input    *input
	options  ingest.Options
	readers  []reader
	training *training // a run that has not ended; nil = none
	log      []string
	counts   map[string]int
}

// reader holds a snapshot open.
type reader struct {
	s    *store.Store
	want *graph
}

// doubt is what the store held before a commit that failed and can be read all the same: what was written is there, but
// nobody knows that it was synced, so that a crash may lose it until a writer has opened the store again.
type doubt struct {
	graph   *graph
	version uint64
}

// step is a kind of step; do reports whether there was anything to do.
type step struct {
	name  string
	share int // of steps
	do    func(*world) (bool, error)
}

// live lives the steps of a seed's history, by number, and returns their log. Each step's choices depend on the seed
// and its number alone, so that a history can be lived without some of its steps.
func live(ctx context.Context, dev gpu.Device, seed uint64, numbers []int, counts map[string]int) (log []string, err error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{ctx: ctx, dev: dev, dir: "/disk/store", rng: rng, counts: counts}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		for _, r := range w.readers {
			err = errors.Join(err, r.s.Close())
		}
		if w.temp != "" {
			err = errors.Join(err, os.RemoveAll(w.temp))
		}
		log = w.log
	}()
	mem, err := newMem()
	if err != nil {
		return nil, err
	}
	w.disk = newDisk(mem)
	if rng.IntN(20) == 0 { // on files, with the engines of files
		temp, err := w.tempDir()
		if err != nil {
			return nil, err
		}
		w.disk.on(nil)
		w.dir = filepath.Join(temp, "store")
		w.note("on the operating system's files")
	}
	for _, n := range numbers {
		if err := w.step(seed, n); err != nil {
			return w.log, err
		}
	}
	return w.log, w.finish()
}

// length is how many steps a seed's history has.
func length(seed uint64) int { return 5 + rand.New(rand.NewPCG(seed, 1<<32)).IntN(11) }

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) tempDir() (string, error) {
	if w.temp == "" {
		dir, err := os.MkdirTemp("", "simulate")
		if err != nil {
			return "", err
		}
		w.temp = dir
	}
	return w.temp, nil
}

// open is how readers open the store.
func (w *world) open() store.Options {
	return store.Options{FS: w.disk.fs, LockTimeout: 2 * time.Second}
}

func (w *world) step(seed uint64, n int) error {
	w.rng = rand.New(rand.NewPCG(seed, uint64(n)+1))
	if w.now == nil {
		if err := w.ingest(); err != nil {
			return fmt.Errorf("step %d, ingest: %w", n, err)
		}
		return nil
	}
	total := 0
	for _, s := range steps {
		total += s.share
	}
	at := w.rng.IntN(total)
	for _, s := range steps {
		if at -= s.share; at >= 0 {
			continue
		}
		before := len(w.log)
		done, err := s.do(w)
		if err != nil {
			return fmt.Errorf("step %d, %s: %w", n, s.name, err)
		}
		if done {
			w.counts[s.name]++
			if len(w.log) == before {
				w.note("%s", s.name)
			}
		}
		break
	}
	return nil
}

// finish checks that all readers still see theirs, and that the store verifies.
func (w *world) finish() error {
	for i := range w.readers {
		if err := w.reread(i); err != nil {
			return err
		}
	}
	if w.now == nil {
		return nil
	}
	if w.training != nil {
		if err := w.goOn(false); err != nil {
			return fmt.Errorf("at the end: %w", err)
		}
	}
	return w.clean(w.open())
}

// clean verifies the store.
func (w *world) clean(o store.Options) error {
	r, err := verify.Store(w.ctx, w.dir, verify.Options{Open: o, Workers: 1, MemoryBytes: 1 << 20, Model: train.VerifyFile})
	if err == nil && len(r.Damage) > 0 {
		err = errors.Join(r.Damage...)
	}
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return nil
}

// change makes the store's next version, which the model calls after, on a disk that may be disturbed, and settles
// what came of it. what names the step in the log.
func (w *world) change(what string, after *graph, run func() error) error {
	w.disk.begin(w.rng)
	err := w.beside(w.now, after, run)
	fault, hit, down := w.disk.end()
	outcome := "done"
	if err != nil {
		outcome = err.Error()
	}
	w.note("%s; disk: %s; %s", what, fault, outcome)
	if err := w.excused(err, hit); err != nil {
		return err
	}
	held := w.version
	if down {
		w.counts["crashes"]++
		if err := w.restart(); err != nil {
			return err
		}
	} else if hit {
		w.counts["disk errors"]++
	}
	before, version := w.now, w.version
	allowed := []*graph{before, after}
	if before == after { // nothing new is committed
		allowed = allowed[:1]
	}
	g, openErr := w.check(allowed...)
	if openErr != nil {
		return openErr
	}
	undone := version < held // a step that had nothing to do does not write again
	if g != after && err == nil && !(down && hit) && !undone {
		return fmt.Errorf("nothing failed and the store is still at version %d", w.version)
	}
	w.now = g
	if w.past == nil {
		w.past = map[uint64]*graph{}
	}
	w.past[w.version] = g
	switch {
	case err == nil:
		w.doubt = nil
	case g != before && !down:
		w.doubt = &doubt{before, version}
	}
	if err := w.keeps(); err != nil {
		return err
	}
	if g != nil && w.rng.IntN(4) == 0 {
		return w.clean(w.open())
	}
	return nil
}

// excused returns err unless the disk was disturbed and the error says so.
func (w *world) excused(err error, hit bool) error {
	switch {
	case err == nil:
		return nil
	case !hit:
		return fmt.Errorf("nothing disturbed it: %w", err)
	case errors.Is(err, errorfs.ErrInjected), errors.Is(err, syscall.ENOSPC), errors.Is(err, store.ErrCorrupt):
		return nil
	}
	return fmt.Errorf("the error hides its cause: %w", err)
}

// restart ends all readers, as a crash of the machine does, which may also undo a commit that failed.
func (w *world) restart() error {
	for _, r := range w.readers {
		_ = r.s.Close()
	}
	w.readers = nil
	d := w.doubt
	if w.doubt = nil; d == nil {
		return nil
	}
	version := uint64(0)
	s, err := store.Open(w.dir, w.open())
	switch {
	case err == nil:
		version, err = s.Manifest().Version, s.Close()
	case errors.Is(err, store.ErrNotFound):
		err = nil
	}
	if err == nil && version == d.version {
		w.note("the crash undoes the commit that failed: the store is at version %d again", version)
		w.counts["failed commits undone"]++
		w.now, w.version, w.training = d.graph, d.version, nil
		delete(w.past, version+1)
	}
	return err
}

// reread compares what a reader sees with what it saw when it opened.
func (w *world) reread(i int) error {
	r := w.readers[i]
	l, err := read(w.ctx, r.s, true)
	if err == nil {
		err = l.same(r.want)
	}
	if err != nil {
		return fmt.Errorf("a reader that holds version %d: %w", r.s.Manifest().Version, err)
	}
	return nil
}

// shrink leaves out steps as long as the history still fails, and returns what stays.
func shrink(ctx context.Context, dev gpu.Device, seed uint64, numbers []int) ([]int, []string, error) {
	log, err := live(ctx, dev, seed, numbers, map[string]int{})
	for again := err != nil; again; {
		again = false
		for i := len(numbers) - 1; i >= 0; i-- {
			fewer := slices.Delete(slices.Clone(numbers), i, i+1)
			if l, e := live(ctx, dev, seed, fewer, map[string]int{}); e != nil {
				numbers, log, err, again = fewer, l, e, true
			}
		}
	}
	return numbers, log, err
}

func history(log []string) string { return "  " + strings.Join(log, "\n  ") }
