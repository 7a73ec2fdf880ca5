package simulate

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
)

// readersBeside is how many readers work while a writer does.
const readersBeside = 2

// beside runs a writer. On the operating system's files, which have locks, it does so now and then with readers beside it:
// each opens the store again and again and must see it as it was before or as it is after. Their disk is not disturbed.
func (w *world) beside(before, after *graph, writer func() error) error {
	if w.disk.mem != nil || w.rng.IntN(2) == 0 {
		return writer()
	}
	w.note("with %d readers beside it:", readersBeside)
	var done atomic.Bool
	var wg sync.WaitGroup
	errs, reads := make([]error, readersBeside), make([]int, readersBeside)
	for i := range readersBeside {
		wg.Go(func() {
			for errs[i] == nil && (reads[i] == 0 || !done.Load()) {
				errs[i] = w.readBeside(before, after)
				reads[i]++
				time.Sleep(time.Millisecond)
			}
		})
	}
	err := writer()
	done.Store(true)
	wg.Wait()
	for _, n := range reads {
		w.counts["reads beside a writer"] += n
	}
	if e := errors.Join(errs...); e != nil {
		return errors.Join(fmt.Errorf("a reader beside the writer: %w", e), err)
	}
	return err
}

// readBeside reads the newest version while a writer may be replacing it.
func (w *world) readBeside(before, after *graph) error {
	s, err := store.Open(w.dir, store.Options{FS: vfs.Default})
	if errors.Is(err, store.ErrNotFound) && before == nil {
		return nil
	}
	if err != nil {
		return err
	}
	l, err := read(w.ctx, s, true)
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	want := []*graph{before, after}[min(s.Manifest().Version-w.version, 1)]
	if want == nil || s.Manifest().Version < w.version || s.Manifest().Version > w.version+1 {
		return fmt.Errorf("version %d, the writer began with %d", s.Manifest().Version, w.version)
	}
	if err := l.same(want); err != nil {
		return fmt.Errorf("version %d: %w", s.Manifest().Version, err)
	}
	return nil
}
