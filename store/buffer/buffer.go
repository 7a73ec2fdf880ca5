package buffer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/vfsengine"
)

// Buffer iterates over the macro-batches of one epoch after the other.
// It owns the partition buffer: all memory for the run, allocated when it is
// made. While the caller trains on step k, two goroutines read the topology and the
// columns of the steps after it and an assembler makes their adjacency, as far ahead as
// the buffer has room. Another one writes a table's rows back as soon as the step that
// last uses a slot is released.
//
//	it, err := buffer.Open(ctx, s, buffer.Options{Capacity: 4, Features: []string{"x"}, Labels: true})
//	defer it.Close()
//	for epoch := range epochs {
//		it.Start(policy.Epoch(epoch))
//		for it.Next() {
//			train(it.MacroBatch())
//		}
//		if err := it.Err(); err != nil { … }
//	}
//
// Partitions stay resident from step to step and from epoch to epoch; what was
// resident is not read again. With [Buffer.Announce] the next epoch's
// first steps are read while this epoch's last ones train. The methods are
// for one goroutine; Stats may be called from any.
type Buffer struct {
	ctx       context.Context
	cancel    context.CancelFunc
	o         Options
	src       *source
	layout    *layout
	buf       *memory
	emb       *embeddingBuffer // nil without a table
	engine    blockio.Engine
	ownEngine bool
	unpin     func() error // nil: nothing is pinned
	asm       *assembler
	order     []uint32 // rows by external id; nil unless everything is resident
	rank      []uint32 // by row its place in order; nil where that is all rows in order

	// Schedule, the caller's alone.
	resident  *residency
	epoch     int
	announced *Plan
	current   []*scheduled // the epoch's steps
	at        int          // of the macro-batch in hand, −1 before the first
	batch     MacroBatch
	running   panics.Group
	started   bool
	closed    bool

	pipe  *pipeline // of this run of the goroutines; halt starts another
	stats metrics
}

// Open makes an iterator over macro-batches. ctx bounds its whole
// life: when it ends, Next returns false and Err tells why. A budget that is too
// small for the capacity is [store.ErrBudget], whose message names the smallest that
// would do. The store must stay open until Close.
func Open(ctx context.Context, s *store.Store, o Options) (*Buffer, error) {
	if o.Engine == nil {
		o.Engine = vfsengine.For(s.Files().FS())
	}
	if err := o.Validate(s.Manifest()); err != nil {
		return nil, err
	}
	t, err := Tuning(ctx, s, o)
	if err != nil {
		return nil, err
	}
	o.apply(t)
	return newBuffer(ctx, s.Manifest(), s.Files(), o)
}

func newBuffer(ctx context.Context, m *store.Manifest, opener fileOpener, o Options) (_ *Buffer, err error) {
	if err := o.Validate(m); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	it := &Buffer{o: o, at: -1, epoch: -1, pipe: newPipeline()}
	it.ctx, it.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, it.Close())
		}
	}()
	why := "given"
	if it.engine = o.Engine; it.engine == nil {
		if it.engine, why, err = blockio.New(o.EngineName, blockio.Options{Depth: o.Depth, SplitBytes: int(o.RequestBytes)}); err != nil {
			return nil, err
		}
		it.ownEngine = true
	}
	if it.src, err = newSource(ctx, m, opener, it.engine, &o); err != nil {
		return nil, err
	}
	if it.layout, err = newLayout(it.src, &o); err != nil {
		return nil, err
	}
	if it.buf, err = newMemory(it.layout, it.src, &o); err != nil {
		return nil, err
	}
	if o.Pin != nil {
		if it.unpin, err = o.Pin(it.buf.b); err != nil {
			return nil, fmt.Errorf("store: pin the buffer: %w", err)
		}
	}
	if it.ownEngine {
		if err := it.engine.Register(it.buf.b); err != nil {
			return nil, err
		}
	}
	if o.Table != nil {
		if err := o.Table.Use(it.engine); err != nil {
			return nil, err
		}
		it.emb = newEmbeddingBuffer(it.buf, it.layout, &o, len(m.Partitions))
	}
	if it.layout.memory {
		keys := elements[uint32](it.buf, it.buf.keys)
		if it.order, err = externalOrder(ctx, it.src, it.layout, it.buf, keys); err != nil {
			return nil, err
		}
		for place, row := range it.order {
			keys[row] = uint32(place)
		}
		if !slices.IsSorted(it.order) { // else lists come in this order
			it.rank = keys
		}
	}
	it.asm = &assembler{src: it.src, buf: it.buf, layout: it.layout, threads: o.Threads, buckets: make([][]newBucket, max(o.Threads, 1)),
		table: make([]int32, it.layout.rows>>it.layout.shift)}
	it.resident = newResidency(it.layout, len(m.Partitions))
	it.stats.init(Stats{Engine: it.engine.Name(), EngineReason: why, MemoryBytes: it.layout.total,
		Tuning: o.readTuning()})
	return it, nil
}

// Start begins an epoch: Next then goes through plan's steps. A plan that the
// buffer cannot hold is refused with [store.ErrInvalid] before anything is read. If another plan
// was announced, or the last epoch was not gone through to its end, what was
// read ahead for it is dropped.
func (it *Buffer) Start(plan Plan) error { return it.StartAt(plan, 0) }

// StartAt is Start for an epoch of which the steps before number first were
// trained already, by a run that is resumed: they are left out.
func (it *Buffer) StartAt(plan Plan, first int) error {
	switch {
	case it.closed:
		return store.ErrClosed
	case first < 0 || first > len(plan.Steps):
		return fmt.Errorf("%w: start at step %d of %d", store.ErrInvalid, first, len(plan.Steps))
	}
	if err := it.Err(); err != nil {
		return err
	}
	// What is in hand belongs to the last epoch: from here on its slots may be read into.
	it.releaseCurrent()
	finished := it.at >= len(it.current) || len(it.current) == 0
	// Only an epoch that begins at its first step with the very plan that was announced goes on with what was read ahead.
	expected := it.announced != nil && first == 0 && it.announced.is(&plan)
	dropped := it.announced != nil && !expected
	it.announced = nil
	var steps []*scheduled
	if finished && expected {
		// Announce scheduled and submitted these: some may be in memory already.
		steps = it.pipe.epochSteps(it.epoch + 1)
	} else {
		// Steps of an epoch that was broken off, or of another plan, are under way: stop, and forget them, before the
		// schedule goes on from what the slots hold.
		if !finished || dropped {
			it.halt()
		}
		var err error
		if steps, err = it.schedule(it.epoch+1, &plan, first); err != nil {
			it.current, it.at = nil, -1
			return err
		}
	}
	it.epoch++
	it.current, it.at = steps, -1
	it.stats.startEpoch(it.epoch, plan.Policy)
	// An announced epoch was submitted then; all others begin to be read now.
	if !expected || !finished {
		it.submit(steps)
	}
	return nil
}

// Announce tells the plan of the next epoch, so that its first steps are read
// while the last ones of this epoch train. The next Start must be given this very
// plan, the same Steps and not an equal copy of them; another one is allowed and
// costs what was read in vain.
func (it *Buffer) Announce(plan Plan) error {
	switch {
	case it.closed:
		return store.ErrClosed
	case it.epoch < 0:
		return fmt.Errorf("%w: Announce before the first Start", store.ErrInvalid)
	case it.announced != nil:
		return fmt.Errorf("%w: a plan is announced already", store.ErrInvalid)
	}
	steps, err := it.schedule(it.epoch+1, &plan, 0)
	if err != nil {
		return err
	}
	it.announced = &plan
	it.submit(steps)
	return nil
}

// PredictBytes returns how many bytes Start(plan) would read until its last
// step is ready, given what the buffer holds at the end of what was started and
// announced: exactly what Stats reports afterwards, unless the epoch before is
// broken off. For a plan that the buffer
// cannot hold it returns −1.
func (it *Buffer) PredictBytes(plan Plan) int64 {
	if it.announced != nil && it.announced.is(&plan) {
		return sumBytes(it.src, it.layout, &it.o, it.pipe.epochSteps(it.epoch+1))
	}
	steps, err := it.resident.clone().schedule(it.layout, it.src, &it.o, it.epoch+1, &plan, 0)
	if err != nil {
		return -1
	}
	return sumBytes(it.src, it.layout, &it.o, steps)
}

func sumBytes(src *source, l *layout, o *Options, steps []*scheduled) int64 {
	var n int64
	for _, s := range steps {
		n += planTopology(src, l, o, s).bytes
		for _, load := range s.loads {
			n += columnBytes(src, load.part)
		}
	}
	return n
}

func (it *Buffer) schedule(epoch int, plan *Plan, first int) ([]*scheduled, error) {
	r := it.resident.clone()
	steps, err := r.schedule(it.layout, it.src, &it.o, epoch, plan, first)
	if err != nil {
		return nil, err
	}
	it.resident = r
	return steps, nil
}

// submit hands steps to the reader and the assembler, which start with the first.
func (it *Buffer) submit(steps []*scheduled) {
	it.pipe.push(steps)
	if it.started || len(steps) == 0 {
		return
	}
	it.started = true
	ctx, stop := context.WithCancel(it.ctx)
	it.pipe.open(ctx, stop)
	it.running.Go(func() { it.pipe.finish(panics.Call(func() error { return it.readTopology(ctx) })) })
	it.running.Go(func() { it.pipe.finish(panics.Call(func() error { return it.readColumns(ctx) })) })
	it.running.Go(func() { it.pipe.finish(panics.Call(func() error { return it.build(ctx) })) })
	if it.emb != nil {
		it.running.Go(func() { it.pipe.finish(panics.Call(func() error { return it.writeBack(ctx) })) })
	}
	if most := it.src.aheadBytes(); most > 0 {
		it.running.Go(func() { it.pipe.finish(panics.Call(func() error { return it.fetchAhead(ctx, most) })) })
	}
}

// halt stops the goroutines and forgets what was scheduled beyond the steps
// that were released: slots count as empty unless their partition was wholly read.
func (it *Buffer) halt() {
	it.pipe.stop()
	it.running.Wait()
	it.started = false
	dropped := it.pipe.drop()
	for _, s := range dropped {
		for _, l := range s.loads {
			for i := range it.resident.slots {
				if st := &it.resident.slots[i]; i == l.slot && st.part >= 0 {
					it.resident.where[st.part] = -1
					st.part = -1
				}
			}
		}
	}
	for i := range it.resident.slots {
		it.resident.slots[i].lastUse = -1
	}
	it.resident.prev, it.resident.first, it.resident.seq, it.resident.frame = nil, true, 0, 0
	it.pipe = newPipeline()
}

// Next releases the macro-batch in hand and waits for the next one. It returns
// false at the end of the epoch and after an error, which Err returns.
func (it *Buffer) Next() bool {
	if it.closed {
		return false
	}
	it.releaseCurrent()
	if it.at+1 >= len(it.current) {
		it.at = len(it.current)
		return false
	}
	s := it.current[it.at+1]
	asked := time.Now()
	if !it.pipe.waitReady(s.seq) {
		return false
	}
	it.at++
	it.stats.begin(s, asked)
	it.fillBatch(s)
	return true
}

// NextReady reports whether Next would return without waiting: what a trainer
// asks that reuses a macro-batch while the next one is read ([Step.WhilePending]).
// At the end of an epoch it is true.
func (it *Buffer) NextReady() bool {
	if it.closed || it.at+1 >= len(it.current) {
		return true
	}
	p := it.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready > it.current[it.at+1].seq || p.stopped || p.err != nil
}

// Upcoming returns the partitions of the step after the one in hand, of the next epoch's first one if that is announced, once the
// columns of all of them are in memory, and nil before. Where they lie in the columns of [Buffer.MacroBatch] they stay until
// that step, too, is released, or an epoch begins with another plan. It waits for nothing.
func (it *Buffer) Upcoming() []ResidentPartition {
	if it.closed || it.at < 0 || it.at >= len(it.current) {
		return nil
	}
	p := it.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	seq := it.current[it.at].seq + 1
	if p.loaded <= seq || len(p.queue) == 0 {
		return nil
	}
	return p.queue[seq-p.queue[0].seq].resident
}

// releaseCurrent gives the slots and the adjacency of the macro-batch in hand back to the reader.
func (it *Buffer) releaseCurrent() {
	if it.at >= 0 && it.at < len(it.current) {
		it.stats.end(it.current[it.at])
		it.pipe.release(it.current[it.at].seq)
		it.batch = MacroBatch{}
		if it.at == len(it.current)-1 {
			it.at = len(it.current)
		}
	}
}

func (it *Buffer) fillBatch(s *scheduled) {
	b := MacroBatch{StepIndex: s.index, Step: s.step, Partitions: s.resident, Rows: it.layout.rows}
	b.In = it.buf.adjacency(s.frame, 0)
	if it.o.Both {
		b.Out = b.In
		if it.buf.directions == 2 {
			b.Out = it.buf.adjacency(s.frame, 1)
		}
	}
	runs := it.runs(s)
	for i := range it.src.features {
		c := &it.src.features[i]
		b.Features = append(b.Features, Column{Name: c.info.Name, Type: c.info.Elem, Dim: c.info.Dim, Stride: c.stride,
			Data: it.buf.bytes(it.buf.features[i]), Scale: c.info.Scale})
		if c.runs >= 0 {
			b.Features[i].Runs = runs[c.runs]
		}
	}
	for _, p := range it.buf.planes {
		b.Planes = append(b.Planes, elements[float32](it.buf, p))
	}
	if it.emb != nil {
		it.emb.changed(s.slot)
	}
	b.Labels = elements[int32](it.buf, it.buf.labels)
	b.Split = elements[uint8](it.buf, it.buf.split)
	if it.o.Keys {
		b.Keys = elements[uint32](it.buf, it.buf.keys)
	}
	b.Seeds = it.seedBuffer(s)[:it.pipe.seeds(s.seq)]
	it.batch = b
}

func (it *Buffer) seedBuffer(s *scheduled) []uint32 {
	return elements[uint32](it.buf, it.buf.seeds[int(s.seq%int64(len(it.buf.seeds)))])
}

// MacroBatch returns the macro-batch in hand after Next returned true. It is
// the iterator's, and valid until the next call of Next, Start or Close.
func (it *Buffer) MacroBatch() *MacroBatch { return &it.batch }

// Err returns what ended the iteration early: a read error or damage that
// names file and offset, or the context's error; nil at the end of an epoch.
func (it *Buffer) Err() error {
	if err := it.pipe.failure(); err != nil {
		return err
	}
	if !it.closed {
		return it.ctx.Err()
	}
	return nil
}

// MemoryBytes returns how much memory the iterator holds outside the Go heap.
func (it *Buffer) MemoryBytes() int64 { return it.layout.total }

// Ahead returns how many steps are read ahead of the one in hand.
func (it *Buffer) Ahead() int { return it.layout.ahead }

// Stats returns counts and times of the current epoch's steps and the bandwidth
// over the run. It may be called at any time, from any goroutine.
func (it *Buffer) Stats() Stats { return it.stats.snapshot(it.engine.Stats()) }

// BytesRead returns what was read over all epochs, in bytes: for the caller
// that wants no more than that.
func (it *Buffer) BytesRead() int64 {
	it.stats.mu.Lock()
	defer it.stats.mu.Unlock()
	return it.stats.total
}

// Close stops reading, waits for what is in flight, and frees the buffer: no
// macro-batch may be used afterwards. A second call does nothing.
func (it *Buffer) Close() error {
	if it.closed {
		return nil
	}
	it.closed = true
	it.cancel()
	it.pipe.stop()
	it.running.Wait()
	it.batch = MacroBatch{}
	var errs []error
	if it.src != nil {
		errs = append(errs, it.src.Close())
	}
	if it.emb != nil {
		errs = append(errs, it.o.Table.Use(nil))
	}
	if it.ownEngine {
		errs = append(errs, it.engine.Close())
	}
	if it.unpin != nil {
		errs = append(errs, it.unpin())
	}
	if it.buf != nil {
		errs = append(errs, it.buf.slab.Free())
	}
	return errors.Join(errs...)
}
