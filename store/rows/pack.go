package rows

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
)

// packer reads the other way: where a disk's bandwidth is worth more than its requests, and mini-batches use a good part of all rows,
// the features are read through once for a window of batches, each batch's rows are written next to each other to a temporary file,
// and are read from there when it is trained (DiskGNN lays out rows so once, for batches that are sampled once; here batches are new
// ones each epoch). A row costs its bytes three times at most, and no request.
//
// A window is sampled first, then swept, then trained. Rows of a batch lie in the file in the order of nodes, as the sweep
// meets them. Where memory has room for the row numbers of two windows, the next one is sampled and swept while one is trained: an
// epoch takes what reading takes, or training, whichever is longer. What is read is the same.
type packer struct {
	windows []packWindow // one, or two that take turns
	pushing int          // windows sealed: the next one gets the batches that are pushed
	live    []*packWindow

	halves []byte // two write buffers for each batch of a window
	io     blockio.File
	spare  []byte // the second half of what is read ahead in a sweep
	slots  slotRing
}

// packWindow is some batches that are known together.
type packWindow struct {
	rows  []uint32 // of its batches, sorted batch by batch
	place []uint32 // of each row as pushed: its place among the batch's; plus the batch's first slot once it is loaded
	jobs  []packed
	used  int // rows
	state windowState
	base  int64 // of its part of the file
	end   int   // swept: how many batches are done when all of its are
}

// windowState says whose a window is.
type windowState uint8

const (
	windowOpen   windowState = iota // who pushes fills it
	windowSealed                    // the goroutine that sweeps
	windowSwept                     // the one that loads batches, until all are trained
)

// turn is the n-th window.
func (p *packer) turn(n int) *packWindow { return &p.windows[n%len(p.windows)] }

// reset forgets a window's batches.
func (w *packWindow) reset() { w.jobs, w.used, w.state = w.jobs[:0], 0, windowOpen }

// reset forgets all batches.
func (p *packer) reset() {
	for i := range p.windows {
		p.windows[i].reset()
	}
	p.pushing, p.live, p.slots.live = 0, nil, nil
}

// done frees what the oldest batch held, and its window with its last one, once so many batches are done; r.mu is held.
func (p *packer) done(batches int) {
	p.slots.free()
	if len(p.live) > 0 && p.live[0].end == batches {
		p.live[0].reset()
		p.live = p.live[1:]
	}
}

// halfBytes is the size of a write.
const halfBytes = 64 << 10

// packed is a batch of the window.
type packed struct {
	pushed
	at, n  int
	offset []int64 // in the file, by column
}

// slotRing hands out consecutive slots, which come free in the order in which they were taken.
type slotRing struct {
	slots, granule int
	live           []stretch
}

// take finds n slots, or says that some must come free first.
func (r *slotRing) take(n int) (int, bool) {
	at := 0
	if k := len(r.live); k > 0 {
		last, first := r.live[k-1], r.live[0]
		at = (last.at + last.n + r.granule - 1) / r.granule * r.granule
		if last.at < first.at { // wrapped: free up to the oldest
			if at+n > first.at {
				return 0, false
			}
		} else if at+n > r.slots {
			if at = 0; n > first.at {
				return 0, false
			}
		}
	}
	r.live = append(r.live, stretch{at, max(n, 1)})
	return at, true
}

func (r *slotRing) free() { r.live = r.live[1:] }

// slotGranule is how many rows of every column are whole pages.
func slotGranule(m *store.Manifest, features []string) int {
	g := 1
	for _, name := range features {
		if c, err := m.Column(name); err == nil {
			for (g*c.RowBytes())%blocks.Alignment != 0 {
				g *= 2 // at most 4096
			}
		}
	}
	return g
}

// openScratch makes the temporary file, which has no name once it is open.
func (p *packer) openScratch(engine blockio.Engine, dir string) error {
	f, err := os.CreateTemp(dir, "rows-*")
	if err != nil {
		return fmt.Errorf("rows: packing: %w", err)
	}
	path := f.Name()
	if err = f.Close(); err == nil {
		p.io, err = engine.Open(path, blockio.OpenOptions{Direct: true, Write: true})
	}
	return errors.Join(err, os.Remove(path))
}

// pushPacked adds a batch to the window that is open, which is sealed where it does not fit; r.mu is held.
func (r *Reader) pushPacked(epoch int, rows []uint32) bool {
	p := r.pack
	w := p.turn(p.pushing)
	if full := w.used+len(rows) > len(w.rows) || len(w.jobs) == r.size.PackBatches; full && w.state == windowOpen && len(w.jobs) > 0 {
		r.seal()
		w = p.turn(p.pushing)
	}
	if !r.wait(func() bool { return w.state == windowOpen }) {
		return false
	}
	b := packed{pushed: pushed{epoch, fingerprint(rows)}, at: w.used, n: len(rows)}
	w.used += b.n
	own, place := w.rows[b.at:w.used], w.place[b.at:w.used]
	keys := r.keys[:0]
	for i, v := range rows {
		keys = append(keys, uint64(v)<<32|uint64(i))
	}
	slices.Sort(keys)
	for k, key := range keys {
		own[k], place[uint32(key)] = uint32(key>>32), uint32(k)
	}
	w.jobs = append(w.jobs, b)
	return true
}

// seal ends the open window, if it has batches: its bytes are known, and the goroutine that sweeps gets it; r.mu is held.
func (r *Reader) seal() {
	w := r.pack.turn(r.pack.pushing)
	if w.state != windowOpen || len(w.jobs) == 0 {
		return
	}
	r.latest = w.jobs[len(w.jobs)-1].epoch
	for i := range r.columns { // the sweep is the first batch's epoch's
		c := &r.columns[i]
		f := r.planned[w.jobs[0].epoch]
		for k := range c.extents {
			f.ColumnBytes += blocks.AlignUp(c.extents[k].e.Length)
			f.Requests += int((c.extents[k].e.Length + r.sweepBytes() - 1) / r.sweepBytes())
		}
		r.planned[w.jobs[0].epoch] = f
	}
	offset := w.base
	for k := range w.jobs {
		b := &w.jobs[k]
		f := r.planned[b.epoch]
		for i := range r.columns {
			n := blocks.AlignUp(int64(b.n) * r.columns[i].stride)
			b.offset = append(b.offset, offset)
			offset += n
			f.ColumnBytes += n
			f.Requests += int((n + spanBytes - 1) / spanBytes)
		}
		f.Loads += b.n
		r.planned[b.epoch] = f
		r.used[b.epoch] += int64(b.n)
	}
	if r.o.Forecast {
		w.reset()
		return
	}
	w.state = windowSealed
	r.pack.pushing++
	r.cond.Broadcast()
}

// wait waits until ok says so; false if the Reader was stopped. r.mu is held.
func (r *Reader) wait(ok func() bool) bool {
	for !r.stopped && !ok() {
		r.cond.Wait()
	}
	return !r.stopped
}

// unlocked calls fn without r.mu, which is held before and after it; false if it failed, which ends the Reader.
func (r *Reader) unlocked(fn func() error) bool {
	r.mu.Unlock()
	err := panics.Call(fn) // a panic must not meet those who unlock r.mu on their way out
	r.mu.Lock()
	if err != nil {
		r.fail(err)
	}
	return err == nil
}

// sweepWindows is the goroutine that sweeps one window's rows after the other's into the file.
func (r *Reader) sweepWindows() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := 0; ; n++ {
		w := r.pack.turn(n)
		if !r.wait(func() bool { return w.state == windowSealed }) {
			return
		}
		m := r.stats.meter(w.jobs[0].epoch)
		for i := range r.columns {
			if !r.unlocked(func() error { return r.sweep(r.ctx, w, i, m) }) {
				return
			}
		}
		w.state = windowSwept
		r.cond.Broadcast()
	}
}

// loadWindows is the goroutine that loads the batches of windows that are swept, one after the other.
func (r *Reader) loadWindows() {
	p := r.pack
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := 0; ; n++ {
		w := p.turn(n)
		if !r.wait(func() bool { return w.state == windowSwept && (len(p.live) == 0 || p.live[0] != w) }) {
			return
		}
		w.end = r.loaded + len(w.jobs) // the places are in use until then
		p.live = append(p.live, w)
		for k := range w.jobs {
			b := &w.jobs[k]
			base := 0
			if !r.wait(func() (ok bool) { base, ok = p.slots.take(b.n); return ok }) {
				return
			}
			if !r.unlocked(func() error { return r.fetchPacked(b, base, r.stats.meter(b.epoch)) }) {
				return
			}
			place := w.place[b.at : b.at+b.n]
			for i := range place {
				place[i] += uint32(base)
			}
			r.queue = append(r.queue, job{pushed: b.pushed, decision: decision{Slots: place}})
			r.loaded++
			r.cond.Broadcast()
		}
	}
}

// fetchPacked reads a batch's rows from the file into its slots.
func (r *Reader) fetchPacked(b *packed, base int, m *meter) error {
	var batch []blockio.Request
	for i := range r.columns {
		c := &r.columns[i]
		to := c.slots[int64(base)*c.stride:]
		for n, at := blocks.AlignUp(int64(b.n)*c.stride), int64(0); at < n; at += spanBytes {
			size := min(spanBytes, n-at)
			batch = append(batch, blockio.Request{Op: blockio.Read, File: r.pack.io, Offset: b.offset[i] + at, Buf: to[at : at+size : at+size]})
		}
	}
	return r.engine.Do(r.ctx, batch, func(i int) { m.read(int64(len(batch[i].Buf))) })
}
