package rows

import (
	"context"
	"slices"
	"sync"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// column is a feature column on disk and its rows in the cache.
type column struct {
	info    *store.ColumnInfo
	stride  int64
	extents []extent // by partition
	most    int64    // bytes of a request
	kind    int      // node type whose rows alone it has in the cache; −1: it has all nodes'
	runs    *buffer.Runs
	slots   []byte // rows of the cache, by slot, or where runs says; nil in a forecast
}

// slot is where a slot's row lies.
func (c *column) slot(s uint32) []byte {
	if c.runs != nil {
		s = c.runs.Place(s)
	}
	return c.slots[int64(s)*c.stride:][:c.stride]
}

// extent is a partition's part of a column.
type extent struct {
	file    *blocks.File
	io      blockio.File // nil in a forecast
	e       blocks.Extent
	stored  store.NodeRows // which of the partition's rows it holds
	checked []uint64       // a bit for each of its chunks whose checksum is, or by then will have been, compared; nil: never compared
}

// openColumns finds the columns, and opens their files to read them with engine if it is not nil.
func (r *Reader) openColumns(s *store.Store) error {
	for _, name := range r.o.Features {
		info, err := s.Manifest().Column(name)
		if err != nil {
			return err
		}
		open := map[string]blockio.File{} // by path
		for _, file := range info.Files {
			if r.engine == nil {
				break
			}
			f, err := s.Files().File(file)
			if err != nil {
				return err
			}
			io, err := s.Files().Open(r.engine, file, blockio.OpenOptions{Direct: !r.o.Buffered})
			if err != nil {
				return err
			}
			open[f.Path()] = io
			r.files = append(r.files, io)
		}
		c := column{info: info, stride: int64(info.RowBytes()), most: r.o.spanMost(info.RowBytes()), kind: -1}
		if r.size.KindSlots != nil {
			c.kind = kindOf(r.m, info)
		}
		for p := range s.Manifest().Partitions {
			f, e, stored, err := s.Files().NodeRows(name, store.PartitionID(p))
			if err != nil {
				return err
			}
			x := extent{file: f, e: e, stored: stored}
			if f != nil {
				x.io = open[f.Path()]
			}
			if e.Rows != stored.Rows || e.Length != int64(stored.Rows)*c.stride {
				h := f.Header()
				return &blocks.CorruptError{Path: f.Path(), Extent: h.ExtentName(e.ID), Offset: e.Offset, Reason: "rows or bytes are not those of its partition"}
			}
			if r.o.Verify == buffer.VerifyFirst {
				x.checked = make([]uint64, (e.Length/blocks.ChunkBytes+64)/64)
			}
			c.extents = append(c.extents, x)
		}
		r.columns = append(r.columns, c)
	}
	return nil
}

// span is a request: bytes [from, to) of an extent, which hold the rows of keys [lo, hi).
type span struct {
	x        *extent
	first    uint32 // node of the extent's first row
	from, to int64
	lo, hi   int
	check    bool // whole chunks, whose checksums are compared
}

// spans cuts what a batch's missing rows need of a column into requests and calls fn with each. keys are node<<32|slot,
// ascending. Rows that are not stored need none. A row of a chunk that was not checked brings the whole chunk; rows that lie within gap of each other come together,
// up to the column's largest request.
func (r *Reader) spans(c *column, keys []uint64, fn func(span)) {
	var cur span
	flush := func() {
		if cur.hi > cur.lo {
			if cur.check {
				cur.x.check(cur.from, cur.to)
			}
			fn(cur)
		}
	}
	part := -1
	for i, key := range keys {
		node := uint32(key >> 32)
		if part < 0 || node >= r.bases[part+1] {
			flush()
			cur, part = span{}, partition(r.bases, node)
		}
		x := &c.extents[part]
		if !x.stored.Stored(uint64(node - r.bases[part])) {
			continue // those of a partition that are follow each other
		}
		first := r.bases[part] + uint32(x.stored.First)
		lo := int64(node-first) * c.stride
		s := span{x: x, first: first, from: lo, to: lo + c.stride, lo: i, hi: i + 1, check: r.unchecked(x, lo, lo+c.stride)}
		s.round()
		if cur.hi > 0 && s.from-cur.to <= r.gap {
			joined := cur
			joined.from, joined.to, joined.hi, joined.check = min(cur.from, s.from), max(cur.to, s.to), s.hi, cur.check || s.check
			joined.round()
			if joined.to-joined.from <= c.most {
				cur = joined
				continue
			}
		}
		flush()
		cur = s
	}
	flush()
}

// check notes that the chunks in [from, to) are.
func (x *extent) check(from, to int64) {
	for k := from / blocks.ChunkBytes; x.checked != nil && k*blocks.ChunkBytes < to; k++ {
		x.checked[k>>6] |= 1 << (k & 63)
	}
}

// round widens a request to what is read and checked at a time: chunks, else pages.
func (s *span) round() {
	unit := int64(blocks.Alignment)
	if s.check {
		unit = blocks.ChunkBytes
	}
	s.from -= s.from % unit
	s.to = min((s.to+unit-1)/unit*unit, blocks.AlignUp(s.x.e.Length))
}

// unchecked reports whether bytes [from, to) have a chunk whose checksum must be compared.
func (r *Reader) unchecked(x *extent, from, to int64) bool {
	if r.o.Verify != buffer.VerifyFirst {
		return r.o.Verify == buffer.VerifyAlways
	}
	for k := from / blocks.ChunkBytes; k*blocks.ChunkBytes < to; k++ {
		if x.checked[k>>6]>>(k&63)&1 == 0 {
			return true
		}
	}
	return false
}

// keysOf sorts what is to be loaded by place.
func (r *Reader) keysOf(j *job) []uint64 {
	keys := r.keys[:0]
	for _, i := range j.Loads {
		keys = append(keys, uint64(j.Rows[i])<<32|uint64(j.Slots[i]))
	}
	slices.Sort(keys)
	return keys
}

// everything calls fn with the keys of all rows, a batch's at a time: where the cache has room for all, they are read from beginning to
// end before the first batch, instead of again and again what lies between those that it lacks.
func (r *Reader) everything(fn func(keys []uint64) error) error {
	for lo := 0; lo < int(r.m.Nodes); lo += len(r.keys) {
		keys := r.keys[:min(len(r.keys), int(r.m.Nodes)-lo)]
		for i := range keys {
			keys[i] = uint64(lo+i)<<32 | uint64(r.look.slot[lo+i]-1)
		}
		if err := fn(keys); err != nil {
			return err
		}
	}
	return nil
}

// load reads missing rows of an epoch's batch into their slots, as many requests at a time as the staging area holds.
func (r *Reader) load(ctx context.Context, keys []uint64, epoch int, m *meter) error {
	for i := range r.columns {
		c := &r.columns[i]
		r.fill(c, keys)
		var group []span
		var failed error
		used := int64(0)
		run := func() {
			if failed == nil && len(group) > 0 {
				r.mu.Lock()
				f := planned{r.planned[epoch]}
				f.add(group)
				r.planned[epoch] = f.StepForecast
				r.mu.Unlock()
				failed = r.fetch(ctx, c, keys, group, m)
			}
			group, used = group[:0], 0
		}
		r.spans(c, keys, func(s span) {
			if used+s.to-s.from > int64(len(r.stage)) {
				run()
			}
			group, used = append(group, s), used+s.to-s.from
		})
		if run(); failed != nil {
			return failed
		}
	}
	return nil
}

// fill writes the rows of keys that are not stored into their slots. A column of one type's rows alone has none for them.
func (r *Reader) fill(c *column, keys []uint64) {
	if c.kind >= 0 {
		return
	}
	part := 0
	for _, key := range keys {
		node := uint32(key >> 32)
		if node >= r.bases[part+1] {
			part = partition(r.bases, node)
		}
		stored, row := &c.extents[part].stored, uint64(node-r.bases[part])
		if !stored.Stored(row) {
			stored.Fill(c.slot(uint32(key)), row)
		}
	}
}

// fetch reads requests into the staging area and copies rows as they come.
func (r *Reader) fetch(ctx context.Context, c *column, keys []uint64, group []span, m *meter) error {
	batch := make([]blockio.Request, len(group))
	at := int64(0)
	for i, s := range group {
		n := s.to - s.from
		batch[i] = blockio.Request{Op: blockio.Read, File: s.x.io, Offset: s.x.e.Offset + s.from, Buf: r.stage[at : at+n : at+n]}
		at += n
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg panics.Group
	var mu sync.Mutex
	var bad error
	worst := len(group)
	come := make(chan int, len(group))
	for range min(r.o.Threads, len(group), 4) {
		wg.Go(func() {
			for i := range come {
				if err := c.take(&group[i], keys, batch[i].Buf); err != nil {
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
	err := r.engine.Do(ctx, batch, func(i int) {
		m.read(int64(len(batch[i].Buf)))
		come <- i
	})
	close(come)
	wg.Wait()
	if bad != nil {
		return bad
	}
	return err
}

// take checks what a request read and copies its rows into their slots.
func (c *column) take(s *span, keys []uint64, b []byte) error {
	if s.check {
		if err := s.x.file.CheckChunks(s.x.e, s.from, b); err != nil {
			return err
		}
	}
	for _, key := range keys[s.lo:s.hi] {
		from := int64(uint32(key>>32)-s.first)*c.stride - s.from
		copy(c.slot(uint32(key)), b[from:])
	}
	return nil
}
