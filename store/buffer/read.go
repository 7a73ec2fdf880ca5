package buffer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
)

// readTopology is the goroutine that reads one step's buckets after the other into the staging area, as
// soon as the assembler is done with the last step's. The columns of a step before move meanwhile, so that
// its small reads never keep the disk from large ones.
func (it *Buffer) readTopology(ctx context.Context) error {
	p := it.pipe
	for seq := int64(0); ; seq++ {
		s := p.step(seq)
		if s == nil || !p.wait(func() bool { return p.assembled >= seq }) {
			return ctx.Err()
		}
		st := it.stats.step(s)
		t := planTopology(it.src, it.layout, &it.o, s)
		if t.bytes > it.buf.staging.n {
			return fmt.Errorf("%w: step %d of epoch %d stages %d bytes, the buffer has room for %d", store.ErrInvalid, s.index, s.epoch, t.bytes, it.buf.staging.n)
		}
		if err := it.transfer(ctx, t.transfers(it.buf.bytes(it.buf.staging), it.o.RequestBytes), st); err != nil {
			return err
		}
		st.topology(t.bytes)
		p.setPlan(seq, t)
		p.advance(&p.staged, seq+1)
	}
}

// readColumns is the goroutine that reads the missing partitions' columns, and a table's rows, into their
// slots, for one step after the other.
func (it *Buffer) readColumns(ctx context.Context) error {
	p := it.pipe
	var loads int64 // read so far, over all steps
	for seq := int64(0); ; seq++ {
		s := p.step(seq)
		if s == nil {
			return ctx.Err()
		}
		st := it.stats.step(s)
		// Loads are sorted by the step after which their slot is free, so what can be read is a prefix of the rest.
		for rest := s.loads; len(rest) > 0; {
			// All loads whose slots are free form one batch: the fewer, the fuller the queue.
			waiting := time.Now()
			n := 0
			// A slot is free once the last step that uses it is released; with a table, once the writer has stored its rows
			// too, which it counts over all steps as this loop does.
			if !p.wait(func() bool {
				for n < len(rest) && (it.emb == nil && rest[n].after < p.released || p.freed > loads+int64(n)) {
					n++
				}
				return n > 0
			}) {
				return ctx.Err()
			}
			st.waited(waiting)
			if err := it.loadColumns(ctx, rest[:n], st); err != nil {
				return err
			}
			rest, loads = rest[n:], loads+int64(n)
		}
		// Without loads the writer may still be behind: it goes through the steps in the same order.
		if it.emb != nil && !p.wait(func() bool { return p.cleared > seq }) {
			return ctx.Err()
		}
		p.advance(&p.loaded, seq+1)
	}
}

// writeBack is the writer goroutine of a table: for one step after the other it
// stores what lies in the slots to load into, as soon as the steps that use it are released. So it
// overlaps with training and with the reader's work for the step before.
func (it *Buffer) writeBack(ctx context.Context) error {
	p := it.pipe
	for seq := int64(0); ; seq++ {
		s := p.step(seq)
		if s == nil {
			return ctx.Err()
		}
		st := it.stats.step(s)
		for rest := s.loads; len(rest) > 0; {
			n := 0
			if !p.wait(func() bool {
				for n < len(rest) && rest[n].after < p.released {
					n++
				}
				return n > 0
			}) {
				return ctx.Err()
			}
			if err := it.emb.evict(ctx, rest[:n], st); err != nil {
				return err
			}
			p.advance(&p.freed, p.freed+int64(n))
			rest = rest[n:]
		}
		p.advance(&p.cleared, seq+1)
	}
}

// loadColumns reads partitions' columns into their slots. Labels and splits go by
// way of the slot's auxiliary area: a few bytes a node, whose rows need not begin at a page. Features of one node type
// are read to the page in which their first row will be, and moved within it, or, where the buffer has no rows of other types, by way
// of the bounce area.
func (it *Buffer) loadColumns(ctx context.Context, loads []slotLoad, st *stepMeter) error {
	var ts []transfer
	whole := func(x *extentRef, to []byte) {
		ts = appendTransfers(ts, x, 0, blocks.AlignUp(x.e.Length), to, it.o.RequestBytes)
	}
	for _, l := range loads {
		for i := range it.src.features {
			if c := &it.src.features[i]; c.runs < 0 && !c.bounced {
				rows, from := it.slotRows(i, l)
				whole(&c.extents[l.part], rows[from&^(blocks.Alignment-1):])
			}
		}
		labels, split := it.auxiliary(l.slot)
		if it.src.labels != nil {
			whole(&it.src.labels.extents[l.part], labels)
		}
		if it.src.split != nil {
			whole(&it.src.split.extents[l.part], split)
		}
	}
	// What goes by way of the bounce area takes as many rounds as that has room for, the first with everything else.
	pieces := it.pieces(loads)
	for {
		n, some := it.bounced(pieces, ts)
		sortTransfers(some)
		if err := it.transfer(ctx, some, st); err != nil {
			return err
		}
		for _, p := range pieces[:n] {
			copy(p.to, p.buf)
		}
		if ts, pieces = nil, pieces[n:]; len(pieces) == 0 {
			break
		}
	}
	if it.emb != nil {
		if err := it.emb.load(ctx, loads, st); err != nil {
			return err
		}
	}
	for _, l := range loads {
		base := int(it.layout.slots[l.slot].base)
		n := int(it.src.m.Partitions[l.part].Nodes)
		for i := range it.src.features {
			c := &it.src.features[i]
			if c.runs >= 0 {
				continue
			}
			rows, from := it.slotRows(i, l)
			if c.bounced { // what is stored is in its place
				c.rows[l.part].Fill(rows[:int(c.rows[l.part].Nodes)*c.stride], 0)
			} else {
				c.place(l.part, rows, rows[from&^(blocks.Alignment-1):])
			}
		}
		labels, split := it.auxiliary(l.slot)
		if it.src.labels != nil {
			it.src.labels.place(l.part, it.buf.bytes(it.buf.labels)[4*base:], labels)
		}
		if it.src.split != nil {
			it.src.split.place(l.part, it.buf.bytes(it.buf.split)[base:], split)
		}
		if keys := elements[uint32](it.buf, it.buf.keys); keys != nil && it.order == nil {
			first := uint32(it.src.m.Partitions[l.part].First)
			for k := range keys[base : base+n] {
				keys[base+k] = first + uint32(k)
			}
		}
	}
	return nil
}

// slotRows returns the memory of feature column i in a load's slot, and at which byte of it the rows that are stored begin.
func (it *Buffer) slotRows(i int, l slotLoad) (rows []byte, from int64) {
	c, slot := &it.src.features[i], it.layout.slots[l.slot]
	at, stride := int64(slot.base), int64(c.stride)
	return it.buf.bytes(it.buf.features[i])[at*stride : (at+int64(slot.rows))*stride], int64(c.rows[l.part].First) * stride
}

// place puts what was read of partition p's extent where rows has its nodes, and writes the rows that are not stored. read may lie
// in rows.
func (c *sourceColumn) place(p store.PartitionID, rows, read []byte) {
	stored := &c.rows[p]
	rows = rows[:int(stored.Nodes)*c.stride]
	if n := c.extents[p].e.Length; n > 0 && &rows[int(stored.First)*c.stride] != &read[0] {
		copy(rows[int(stored.First)*c.stride:], read[:n])
	}
	stored.Fill(rows, 0)
}

func (it *Buffer) auxiliary(slot int) (labels, split []byte) {
	b := it.buf.bytes(it.buf.aux)[int64(slot)*it.buf.auxSlot:][:it.buf.auxSlot]
	if it.src.labels != nil {
		n := blocks.AlignUp(4 * int64(it.layout.nodesMax))
		labels, b = b[:n], b[n:]
	}
	return labels, b
}

// transfer reads a batch and compares checksums as requests complete, on up to
// o.Threads goroutines.
func (it *Buffer) transfer(ctx context.Context, ts []transfer, st *stepMeter) error {
	if len(ts) == 0 {
		return nil
	}
	start := time.Now()
	batch := make([]blockio.Request, len(ts))
	for i := range ts {
		batch[i] = blockio.Request{Op: blockio.Read, File: ts[i].x.f.io, Offset: ts[i].x.e.Offset + ts[i].from, Buf: ts[i].buf}
	}
	check := make(chan int, len(ts))
	var wg panics.Group
	var mu sync.Mutex
	var bad error
	worst := len(ts)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if it.o.Verify != VerifyNever {
		for range min(it.o.Threads, len(ts), 8) {
			wg.Go(func() {
				for i := range check {
					if err := ts[i].x.f.file.CheckChunks(ts[i].x.e, ts[i].from, ts[i].buf); err != nil {
						mu.Lock()
						if i < worst {
							bad, worst = err, i
						}
						mu.Unlock()
						cancel()
					}
				}
			})
		}
	}
	err := it.engine.Do(ctx, batch, func(i int) {
		st.read(int64(len(ts[i].buf)))
		if it.o.Verify == VerifyAlways || it.o.Verify == VerifyFirst && !ts[i].verified() {
			check <- i
		}
	})
	close(check)
	wg.Wait()
	st.took(start)
	if bad != nil {
		return bad
	}
	if err != nil {
		return err
	}
	if it.o.Verify == VerifyFirst {
		for i := range ts {
			ts[i].markVerified()
		}
	}
	return nil
}

// chunks returns the numbers of the file's chunks that the transfer holds wholly.
func (t *transfer) chunks() (lo, hi int64) {
	lo = t.x.chunk0 + t.from/blocks.ChunkBytes
	end := min(t.x.e.Length, t.from+int64(len(t.buf)))
	hi = t.x.chunk0 + (end+blocks.ChunkBytes-1)/blocks.ChunkBytes
	return lo, hi
}

func (t *transfer) verified() bool {
	lo, hi := t.chunks()
	for c := lo; c < hi; c++ {
		if t.x.f.verified[c>>6]>>(c&63)&1 == 0 {
			return false
		}
	}
	return true
}

func (t *transfer) markVerified() {
	lo, hi := t.chunks()
	for c := lo; c < hi; c++ {
		t.x.f.verified[c>>6] |= 1 << (c & 63)
	}
}

// build is the assembler goroutine: adjacency and seeds of one step after the other.
func (it *Buffer) build(ctx context.Context) error {
	p := it.pipe
	last := 0
	for seq := int64(0); ; seq++ {
		s := p.step(seq)
		if s == nil {
			return ctx.Err()
		}
		st := it.stats.step(s)
		// The frame may still be in the caller's hands, and so may the seeds'.
		free := seq - int64(it.layout.ahead)
		if !p.wait(func() bool { return p.staged > seq && p.released >= free }) {
			return ctx.Err()
		}
		// A step with the last one's partitions has its adjacency too, in the same frame.
		t := p.takePlan(seq)
		start := time.Now()
		if !s.same {
			as, err := it.asm.assemble(ctx, s, t, it.buf.bytes(it.buf.staging), last)
			if err != nil {
				return err
			}
			if err := it.orderByExternal(ctx, s.frame); err != nil {
				return err
			}
			for dir := range it.buf.directions {
				if err := it.finishLists(ctx, it.buf.adjacency(s.frame, dir)); err != nil {
					return err
				}
			}
			st.assembled(start, as)
		}
		// From here on the staging area is the next step's: topology is read while columns still come.
		last = s.frame
		p.advance(&p.assembled, seq+1)
		if !p.wait(func() bool { return p.loaded > seq }) {
			return ctx.Err()
		}
		// Seeds are found in the split column, so only now; then the step is ready.
		n, err := it.findSeeds(s)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.seedCount[seq] = n
		p.mu.Unlock()
		st.ready()
		p.advance(&p.ready, seq+1)
	}
}

// findGiven is findSeeds of Options.Seeds.
func (it *Buffer) findGiven(s *scheduled) (int, error) {
	seeds := it.seedBuffer(s)[:0]
	for _, p := range s.resident {
		if _, ok := slices.BinarySearch(s.step.Train, p.ID); !ok {
			continue
		}
		for v := range it.o.Seeds.In(&it.src.m.Partitions[p.ID]) {
			seeds = append(seeds, p.Base+uint32(v-p.First))
		}
	}
	if it.rank != nil {
		slices.SortFunc(seeds, func(a, b uint32) int { return cmp.Compare(it.rank[a], it.rank[b]) })
	}
	return len(seeds), nil
}

// findSeeds lists the rows of the step's training nodes and returns their number.
func (it *Buffer) findSeeds(s *scheduled) (int, error) {
	if it.o.Seeds != nil {
		return it.findGiven(s)
	}
	split := elements[uint8](it.buf, it.buf.split)
	if split == nil {
		return 0, nil
	}
	seeds, n := it.seedBuffer(s), 0
	want := store.SplitValue(it.o.Split)
	keep := func(row uint32) {
		if split[row] == want {
			if n < len(seeds) {
				seeds[n] = row
			}
			n++
		}
	}
	if it.order != nil {
		trains := make([]bool, len(s.resident))
		all := len(s.step.Train) == len(s.resident)
		for i, p := range s.resident {
			_, trains[i] = slices.BinarySearch(s.step.Train, p.ID)
		}
		for _, row := range it.order {
			if all || trains[it.layout.owner(row)] {
				keep(row)
			}
		}
		return it.checkSeeds(n, len(seeds))
	}
	for _, p := range s.resident {
		if _, ok := slices.BinarySearch(s.step.Train, p.ID); !ok {
			continue
		}
		for row := p.Base; row < p.Base+p.Nodes; row++ {
			keep(row)
		}
	}
	return it.checkSeeds(n, len(seeds))
}

// checkSeeds refuses a split column with more nodes than the manifest counts, from
// which the buffer's room was computed.
func (it *Buffer) checkSeeds(n, room int) (int, error) {
	if n > room {
		x := &it.src.split.extents[0]
		return 0, x.corrupt("it marks more nodes as %q than the manifest counts (%d for %d)", it.o.Split, n, room)
	}
	return n, nil
}
