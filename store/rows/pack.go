package rows

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// packer reads the other way: where a disk's bandwidth is worth more than its requests, and mini-batches use a good part of all rows,
// the features are read through once for a window of batches, each batch's rows are written next to each other to a temporary file,
// and are read from there when it is trained (DiskGNN lays out rows so once, for batches that are sampled once; here batches are new
// ones each epoch). A row costs its bytes three times at most, and no request.
//
// The window is sampled first, then swept, then trained. Rows of a batch lie in the file in the order of nodes, as the sweep
// meets them.
type packer struct {
	rows   []uint32 // of the window's batches, sorted batch by batch
	place  []uint32 // of each row as pushed: its place among the batch's; plus the batch's first slot once it is loaded
	jobs   []packed
	used   int  // rows
	sealed bool // sampled: the window is the reading goroutine's

	halves []byte // two write buffers for each batch of the window
	io     blockio.File
	spare  []byte // the second half of what is read ahead in a sweep
	slots  slotRing
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

// push adds a batch to the window, which is sealed where it does not fit; r.mu is held.
func (r *Reader) pushPacked(epoch int, rows []uint32) bool {
	p := r.pack
	if full := p.used+len(rows) > len(p.rows) || len(p.jobs) == r.size.PackBatches; full && !p.sealed && len(p.jobs) > 0 {
		r.seal()
	}
	for !r.stopped && p.sealed {
		r.cond.Wait()
	}
	if r.stopped {
		return false
	}
	b := packed{pushed: pushed{epoch, fingerprint(rows)}, at: p.used, n: len(rows)}
	p.used += b.n
	own, place := p.rows[b.at:p.used], p.place[b.at:p.used]
	keys := r.keys[:0]
	for i, v := range rows {
		keys = append(keys, uint64(v)<<32|uint64(i))
	}
	slices.Sort(keys)
	for k, key := range keys {
		own[k], place[uint32(key)] = uint32(key>>32), uint32(k)
	}
	p.jobs = append(p.jobs, b)
	return true
}

// seal ends a window: its bytes are known, and the goroutine that reads gets it; r.mu is held.
func (r *Reader) seal() {
	p := r.pack
	if len(p.jobs) == 0 {
		return
	}
	r.latest = p.jobs[len(p.jobs)-1].epoch
	for i := range r.columns { // the sweep is the first batch's epoch's
		c := &r.columns[i]
		f := r.planned[p.jobs[0].epoch]
		for k := range c.extents {
			f.ColumnBytes += blocks.AlignUp(c.extents[k].e.Length)
			f.Requests += int((c.extents[k].e.Length + r.sweepBytes() - 1) / r.sweepBytes())
		}
		r.planned[p.jobs[0].epoch] = f
	}
	offset := int64(0)
	for k := range p.jobs {
		b := &p.jobs[k]
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
		p.jobs, p.used = p.jobs[:0], 0
		return
	}
	p.sealed = true
	r.cond.Broadcast()
}

// readPacked is the goroutine that sweeps a window's rows into the file and then loads its batches, one after the other.
func (r *Reader) readPacked() {
	for r.packedWindow() {
	}
}

// packedWindow does one window; false ends.
func (r *Reader) packedWindow() bool {
	p := r.pack
	wait := func(ok func() bool) bool { // r.mu is held
		for !r.stopped && !ok() {
			r.cond.Wait()
		}
		return !r.stopped
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !wait(func() bool { return p.sealed }) {
		return false
	}
	unlocked := func(fn func() error) bool {
		r.mu.Unlock()
		err := fn()
		r.mu.Lock()
		if err != nil {
			r.fail(err)
		}
		return err == nil
	}
	m := r.stats.meter(p.jobs[0].epoch)
	for i := range r.columns {
		if !unlocked(func() error { return r.sweep(r.ctx, i, m) }) {
			return false
		}
	}
	for k := range p.jobs {
		b := &p.jobs[k]
		base := 0
		if !wait(func() (ok bool) { base, ok = p.slots.take(b.n); return ok }) {
			return false
		}
		place := p.place[b.at : b.at+b.n]
		if !unlocked(func() error { return r.fetchPacked(b, base, r.stats.meter(b.epoch)) }) {
			return false
		}
		for i := range place {
			place[i] += uint32(base)
		}
		r.queue = append(r.queue, job{pushed: b.pushed, decision: decision{Slots: place}})
		r.loaded++
		r.cond.Broadcast()
	}
	if !wait(func() bool { return r.done == r.loaded }) { // places are in use until then
		return false
	}
	p.jobs, p.used, p.sealed = p.jobs[:0], 0, false
	r.cond.Broadcast()
	return true
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

// sweepBytes is the size of a sweep's requests: whole chunks.
func (r *Reader) sweepBytes() int64 {
	n := min(spanBytes, r.o.stage(r.m, &r.size))
	return n - n%blocks.ChunkBytes
}

// sweeper is the state of a sweep: how far each batch of the window is, and what of it is to be written.
type sweeper struct {
	r      *Reader
	c      *column
	column int
	m      *meter
	next   []int   // by batch: its next row
	row    []byte  // one that is not stored
	filled []int64 // bytes of it so far

	writes  []blockio.Request // full halves that are not submitted
	busy    []bool            // by half, two a batch: it is full and not written yet
	flying  []blockio.Request // those that are submitted
	running sync.WaitGroup
	failed  error // of what ran
}

// sweep reads a column from its beginning to its end and writes the rows of the window's batches to their places in the file.
func (r *Reader) sweep(ctx context.Context, i int, m *meter) error {
	p := r.pack
	s := &sweeper{r: r, c: &r.columns[i], column: i, m: m, next: make([]int, len(p.jobs)), filled: make([]int64, len(p.jobs)), busy: make([]bool, 2*len(p.jobs))}
	s.row = make([]byte, s.c.stride)
	defer s.running.Wait()
	// While one half of the staging area is distributed, the other one is read, and full buffers are written.
	stage, spare := r.stage, p.spare
	var ahead, group []span
	step := func(now []span) error {
		s.start(ctx, now, spare)
		err := s.distribute(ctx, ahead, stage)
		ahead, stage, spare = now, spare, stage
		return errors.Join(err, s.wait())
	}
	used := int64(0)
	for k := range s.c.extents {
		x := &s.c.extents[k]
		for from := int64(0); from < x.e.Length; from += r.sweepBytes() {
			sp := span{x: x, first: r.bases[k] + uint32(x.stored.First), from: from, to: min(from+r.sweepBytes(), blocks.AlignUp(x.e.Length))}
			if sp.check = r.unchecked(x, from, min(sp.to, x.e.Length)); sp.check {
				x.check(from, sp.to)
			}
			if used+sp.to-sp.from > int64(len(spare)) {
				if err := step(group); err != nil {
					return err
				}
				group, used = nil, 0
			}
			group, used = append(group, sp), used+sp.to-sp.from
		}
	}
	// The last group is read, then distributed; then what is left in the buffers is written.
	for _, now := range [][]span{group, nil} {
		if err := step(now); err != nil {
			return err
		}
	}
	for b := range s.filled {
		if err := s.fillTo(ctx, b, r.bases[len(r.bases)-1]); err != nil {
			return err
		}
		if rest := s.filled[b] % halfBytes; rest > 0 {
			s.flush(b, blocks.AlignUp(rest))
		}
	}
	s.start(ctx, nil, nil)
	return s.wait()
}

// start reads requests into buf and writes the full halves, until wait.
func (s *sweeper) start(ctx context.Context, now []span, buf []byte) {
	s.flying, s.writes = s.writes, s.flying[:0]
	batch, writes := s.flying, len(s.flying)
	for _, x := range now {
		n := x.to - x.from
		batch = append(batch, blockio.Request{Op: blockio.Read, File: x.x.io, Offset: x.x.e.Offset + x.from, Buf: buf[:n:n]})
		buf = buf[n:]
	}
	if len(batch) == 0 {
		return
	}
	s.running.Go(func() {
		s.failed = s.r.engine.Do(ctx, batch, func(i int) {
			if n := int64(len(batch[i].Buf)); i < writes {
				s.m.wrote(n)
			} else {
				s.m.read(n)
			}
		})
	})
}

// wait waits for what start began: its halves may be filled again.
func (s *sweeper) wait() error {
	s.running.Wait()
	for i := range s.flying {
		s.busy[s.index(s.flying[i].Buf)] = false
	}
	s.flying = s.flying[:0]
	return s.failed
}

// index is the number of the half that b begins.
func (s *sweeper) index(b []byte) int {
	return (cap(s.r.pack.halves) - cap(b[:0:cap(b)])) / halfBytes
}

// distribute copies the rows that batches want of what was read. A row that begins in one request may end in the next: rows
// are copied by their bytes.
func (s *sweeper) distribute(ctx context.Context, spans []span, b []byte) error {
	for _, x := range spans {
		n := x.to - x.from
		if x.check {
			if err := x.x.file.CheckChunks(x.x.e, x.from, b[:n]); err != nil {
				return err
			}
		}
		for k := range s.r.pack.jobs {
			if err := s.deal(ctx, k, x, b[:n]); err != nil {
				return err
			}
		}
		b = b[n:]
	}
	return nil
}

// deal gives batch k its rows of a request.
func (s *sweeper) deal(ctx context.Context, k int, x span, b []byte) error {
	j, stride, n := &s.r.pack.jobs[k], s.c.stride, int64(len(b))
	rows := s.r.pack.rows[j.at : j.at+j.n]
	if err := s.fillTo(ctx, k, x.first); err != nil {
		return err
	}
	for s.next[k] < len(rows) && rows[s.next[k]] < x.first+uint32(x.x.e.Rows) {
		lo := int64(rows[s.next[k]]-x.first)*stride - x.from // of the row, in b
		if lo >= n {
			break
		}
		if err := s.put(ctx, k, b[max(lo, 0):min(lo+stride, n)]); err != nil {
			return err
		}
		if lo+stride > n {
			break // the rest comes with the next request
		}
		s.next[k]++
	}
	return nil
}

// fillTo gives batch k its rows below a node of which nothing is left to come: they are not stored.
func (s *sweeper) fillTo(ctx context.Context, k int, node uint32) error {
	j := &s.r.pack.jobs[k]
	for rows := s.r.pack.rows[j.at : j.at+j.n]; s.next[k] < len(rows) && rows[s.next[k]] < node; s.next[k]++ {
		v := rows[s.next[k]]
		part := partition(s.r.bases, v)
		s.c.extents[part].stored.Fill(s.row, uint64(v-s.r.bases[part]))
		if err := s.put(ctx, k, s.row); err != nil {
			return err
		}
	}
	return nil
}

// put appends bytes to what is written of batch k.
func (s *sweeper) put(ctx context.Context, k int, row []byte) error {
	for len(row) > 0 {
		at := s.filled[k] % (2 * halfBytes)
		if at%halfBytes == 0 && s.busy[2*k+int(at/halfBytes)] {
			// The half was full before: what is under way is waited for, and if it is not among that, written now.
			if err := s.wait(); err != nil {
				return err
			}
			if s.busy[2*k+int(at/halfBytes)] {
				s.start(ctx, nil, nil)
				if err := s.wait(); err != nil {
					return err
				}
			}
		}
		n := copy(s.r.pack.halves[int64(k)*2*halfBytes+at:][:halfBytes-at%halfBytes], row)
		row = row[n:]
		if s.filled[k] += int64(n); s.filled[k]%halfBytes == 0 {
			s.flush(k, halfBytes)
		}
	}
	return nil
}

// flush has n bytes of the half that ends at what is filled of batch k written.
func (s *sweeper) flush(k int, n int64) {
	begin := (s.filled[k] - 1) / halfBytes * halfBytes
	half := 2*k + int(begin/halfBytes)%2
	s.busy[half] = true
	buf := s.r.pack.halves[int64(half)*halfBytes:]
	s.writes = append(s.writes, blockio.Request{Op: blockio.Write, File: s.r.pack.io, Offset: s.r.pack.jobs[k].offset[s.column] + begin, Buf: buf[:n]})
}
