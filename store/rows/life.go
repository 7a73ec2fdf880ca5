package rows

import (
	"context"
	"errors"

	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// run starts the goroutine that reads.
func (r *Reader) run() {
	switch {
	case r.o.Forecast:
	case r.pack != nil:
		r.goOn(r.sweepWindows)
		r.goOn(r.loadWindows)
	default:
		r.goOn(r.read)
	}
}

// goOn calls f in a goroutine, whose panic is the Reader's error.
func (r *Reader) goOn(f func()) {
	r.running.Go(func() {
		if err := panics.Call(func() error { f(); return nil }); err != nil {
			r.Fail(err)
		}
	})
}

// forget makes what decides anew: nothing is known of batches, and of rows only that all lie in the cache if it has room for them.
func (r *Reader) forget() (err error) {
	r.planned, r.used, r.latest = map[int]buffer.StepForecast{}, map[int]int64{}, -1
	if r.pack != nil {
		r.pack.reset()
		return nil
	}
	clear(r.known)
	if r.look, err = newWindow(r.size.window(r.m, min(r.o.BatchRows, max(1, int(r.m.Nodes)))), r.known); err != nil {
		return err
	}
	if r.look.kind != nil {
		fillKinds(r.m, r.look.kind)
	}
	if !r.whole() {
		return nil
	}
	if r.look.fill(); !r.filled {
		r.planned[0] = buffer.StepForecast{Loads: int(r.m.Nodes)}
	}
	return nil
}

// Restart forgets all batches that were pushed, so that others can be, and begins again with epoch 0; the graph stays, and so do all
// rows where the cache has room for them. It is for a Reader whose Stop made Push and Take return: none of them may be under way.
func (r *Reader) Restart() error {
	r.Stop()
	r.running.Wait()
	r.mu.Lock()
	if r.err != nil {
		r.mu.Unlock()
		return r.err
	}
	for i := range r.columns {
		for k := range r.columns[i].extents {
			clear(r.columns[i].extents[k].checked) // of chunks whose requests were given up, too
		}
	}
	err := r.forget()
	r.pushed, r.queue = nil, nil
	r.decided, r.loaded, r.done = 0, 0, 0
	r.epoch, r.finished = -1, false
	r.graph.read = 0 // that was an epoch's before
	r.stats.restart()
	r.ctx, r.cancel = context.WithCancel(r.life)
	r.stopped = false
	r.mu.Unlock()
	if err == nil {
		err = r.life.Err()
	}
	if err != nil {
		r.Stop()
		return err
	}
	r.run()
	return nil
}

func (r *Reader) failure() error {
	if r.err != nil {
		return r.err
	}
	if r.stopped {
		return errors.Join(store.ErrClosed, r.ctx.Err())
	}
	return nil
}

// Fail stops the Reader with the error of who pushes.
func (r *Reader) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail(err)
}

// Stop makes all that wait return, and what comes after fail.
func (r *Reader) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopLocked()
}

func (r *Reader) stopLocked() {
	r.stopped = true
	r.cancel()
	r.cond.Broadcast()
}

// Close stops reading and frees everything; a second call does nothing.
func (r *Reader) Close() error {
	r.Stop()
	if r.unwatch != nil {
		r.unwatch()
	}
	r.running.Wait()
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.Close())
	}
	r.files = nil
	if r.own {
		errs = append(errs, r.engine.Close())
		r.own = false
	}
	if r.unpin != nil {
		errs = append(errs, r.unpin())
		r.unpin = nil
	}
	if r.slab != nil {
		errs = append(errs, r.slab.Free())
		r.slab = nil
	}
	if r.graph != nil {
		errs = append(errs, r.graph.slab.Free())
		r.graph = nil
	}
	r.batch = buffer.MacroBatch{}
	return errors.Join(errs...)
}
