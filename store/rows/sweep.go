package rows

import (
	"context"
	"errors"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
)

// sweepBytes is the size of a sweep's requests: whole chunks.
func (r *Reader) sweepBytes() int64 {
	n := min(spanBytes, r.o.stage(r.m, &r.size))
	return n - n%blocks.ChunkBytes
}

// sweeper is the state of a sweep: how far each batch of the window is, and what of it is to be written.
type sweeper struct {
	r      *Reader
	w      *packWindow
	c      *column
	column int
	m      *meter
	next   []int   // by batch: its next row
	row    []byte  // one that is not stored
	filled []int64 // bytes of it so far

	writes  []blockio.Request // full halves that are not submitted
	busy    []bool            // by half, two a batch: it is full and not written yet
	flying  []blockio.Request // those that are submitted
	running panics.Group
	failed  error // of what ran
}

// sweep reads a column from its beginning to its end and writes the rows of a window's batches to their places in the file.
func (r *Reader) sweep(ctx context.Context, w *packWindow, i int, m *meter) error {
	p := r.pack
	s := &sweeper{r: r, w: w, c: &r.columns[i], column: i, m: m, next: make([]int, len(w.jobs)), filled: make([]int64, len(w.jobs)), busy: make([]bool, 2*len(w.jobs))}
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
		for k := range s.w.jobs {
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
	j, stride, n := &s.w.jobs[k], s.c.stride, int64(len(b))
	rows := s.w.rows[j.at : j.at+j.n]
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
	j := &s.w.jobs[k]
	for rows := s.w.rows[j.at : j.at+j.n]; s.next[k] < len(rows) && rows[s.next[k]] < node; s.next[k]++ {
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
	s.writes = append(s.writes, blockio.Request{Op: blockio.Write, File: s.r.pack.io, Offset: s.w.jobs[k].offset[s.column] + begin, Buf: buf[:n]})
}
