package rows

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Policy is the name of the plan.
const Policy = "rows"

// Options are the partition buffer's, as far as they matter where all topology is resident: Capacity, Pinned, Swap and AheadMax
// do not, and Table is not for rows.
type Options struct {
	buffer.Options
	// BatchRows is the most input rows of a mini-batch: the cache holds at least those of one.
	BatchRows int
	// KindRows are, by node type, the most input rows of that type, where columns have rows of one type alone; nil: BatchRows of each.
	KindRows []int
	// Packed reads all features once for a window of batches, whose rows are written to a temporary file in their order, instead
	// of single rows. EpochBatches and EpochRows are about how many batches an epoch has, and rows these have: the window's
	// size where memory allows.
	Packed                  bool
	EpochBatches, EpochRows int
	// Forecast reads the graph alone, and no row: what would be read is counted.
	Forecast bool
}

// Reader holds a store's graph and reads rows of features for batches that are pushed ahead of training.
// Its iterator's methods (StartAt … Stats) are those of [buffer.Buffer] that training uses, of epochs of one step.
type Reader struct {
	o      Options
	size   Sizes
	gap    int64
	m      *store.Manifest
	bases  []uint32
	graph  *graph
	engine blockio.Engine // nil in a forecast
	own    bool           // the engine is the Reader's
	unpin  func() error
	files  []blockio.File
	slab   *blockio.Slab // the cache
	tuning store.ReadTuning

	columns []column
	stage   []byte
	keys    []uint64 // scratch of the goroutine that reads, or decides in a forecast
	look    *window
	known   []byte  // look's memory
	pack    *packer // with Options.Packed, instead of look
	filled  bool    // all rows were read, where the cache has room for them; the reading goroutine's
	batch   buffer.MacroBatch

	life    context.Context // the caller's
	ctx     context.Context // of it, until Stop
	cancel  context.CancelFunc
	unwatch func() bool
	running panics.Group
	stats   stats

	mu       sync.Mutex
	cond     *sync.Cond
	pushed   []pushed // not decided yet
	queue    []job    // decided, not done
	decided  int      // batches
	loaded   int
	done     int
	planned  map[int]buffer.StepForecast // by epoch: what its batches were decided to read
	used     map[int]int64               // likewise: its batches' rows
	latest   int                         // epoch of the last one decided
	stopped  bool
	err      error
	epoch    int  // of the iterator, −1 before the first
	finished bool // the epoch's macro-batch was returned
}

// pushed is what is remembered of a batch that waits for its decision.
type pushed struct {
	epoch int
	mark  uint64
}

// job is a decided batch.
type job struct {
	pushed
	decision
}

// Open reads the graph of a store into memory and allocates the cache. ctx bounds the Reader's life. A budget that is
// too small is a [*buffer.BudgetError] with the smallest that would do. The store must stay open until Close.
func Open(ctx context.Context, s *store.Store, o Options) (_ *Reader, err error) {
	r := &Reader{o: o, m: s.Manifest(), bases: bases(s.Manifest()), epoch: -1}
	r.cond = sync.NewCond(&r.mu)
	r.life = ctx
	r.ctx, r.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.tuning, err = buffer.Tuning(ctx, s, o.Options); err != nil {
		return nil, err
	}
	r.o.RequestBytes, r.gap = r.tuning.RequestBytes, max(0, r.tuning.GapBytes)
	if r.o.Threads == 0 {
		r.o.Threads = 1
	}
	if r.size, err = Measure(s, r.o); err != nil {
		return nil, err
	}
	why := "nothing is read"
	if !o.Forecast {
		if why, err = r.openEngine(s); err != nil {
			return nil, err
		}
	}
	if err := r.openColumns(s); err != nil {
		return nil, err
	}
	start := time.Now()
	if r.graph, err = loadGraph(r.ctx, s, &r.o); err != nil {
		return nil, err
	}
	r.stats.init(buffer.Stats{Engine: r.engineName(), EngineReason: why, MemoryBytes: r.size.MemoryBytes(), Tuning: r.tuning, Policy: Policy}, r.graph, start, len(r.m.Partitions))
	if err := r.allocate(); err != nil {
		return nil, err
	}
	r.batch = buffer.MacroBatch{Rows: int(r.m.Nodes), In: &r.graph.adj, Out: r.graph.out, Labels: r.graph.labels, Seeds: r.graph.seeds}
	for i := range r.m.Partitions {
		p := &r.m.Partitions[i]
		r.batch.Partitions = append(r.batch.Partitions, buffer.ResidentPartition{ID: store.PartitionID(i), Base: uint32(p.First), Nodes: uint32(p.Nodes), First: p.First})
	}
	r.unwatch = context.AfterFunc(ctx, r.Stop)
	if r.pack != nil && !o.Forecast {
		if err := r.pack.openScratch(r.engine, s.ScratchDir()); err != nil {
			return nil, err
		}
		r.files = append(r.files, r.pack.io)
	}
	r.run()
	return r, nil
}

func (r *Reader) openEngine(s *store.Store) (why string, err error) {
	if r.engine = r.o.Engine; r.engine != nil {
		return "given", nil
	}
	if r.engine = buffer.EngineOf(s); r.engine == nil {
		r.engine, why, err = blockio.New(r.o.EngineName, blockio.Options{Depth: r.tuning.Depth, SplitBytes: int(r.tuning.RequestBytes)})
	}
	r.own = err == nil
	return why, err
}

func (r *Reader) engineName() string {
	if r.engine == nil {
		return "none"
	}
	return r.engine.Name()
}

// allocate makes the cache, in one slab: what decides, what sorts, the staging area, the columns' rows.
func (r *Reader) allocate() (err error) {
	z := &r.size
	batch := min(r.o.BatchRows, max(1, int(r.m.Nodes)))
	free := z.CacheBytes
	if r.o.Forecast {
		free -= z.SlotBytes()
	}
	if r.slab, err = blockio.AllocSlab(free+int64(len(r.columns))*blocks.Alignment, blockio.SlabOptions{Threads: r.o.Threads, Lazy: r.o.Forecast}); err != nil {
		return err
	}
	rest := r.slab.Bytes()
	take := func(n int64) []byte {
		b := rest[:n:n]
		rest = rest[min(int64(len(rest)), blocks.AlignUp(n)):]
		return b
	}
	if r.keys, err = blocks.View[uint64](take(8 * int64(batch))); err != nil {
		return err
	}
	if r.o.Packed {
		r.pack = &packer{windows: make([]packWindow, z.PackWindows), slots: slotRing{slots: z.Slots, granule: slotGranule(r.m, r.o.Features)}}
		for i := range r.pack.windows {
			w := &r.pack.windows[i]
			w.rows, w.place = view(take(4*int64(z.WindowRows)), z.WindowRows), view(take(4*int64(z.WindowRows)), z.WindowRows)
			w.base = int64(i) * z.fileBytes(len(r.columns))
		}
	} else {
		o := z.window(r.m, batch)
		r.known = take(o.Bytes())
	}
	if err := r.forget(); err != nil {
		return err
	}
	if r.o.Forecast {
		if r.whole() {
			f := planned{StepForecast: buffer.StepForecast{Loads: int(r.m.Nodes)}}
			_ = r.everything(func(keys []uint64) error {
				for i := range r.columns {
					r.spans(&r.columns[i], keys, func(s span) { f.add([]span{s}) })
				}
				return nil
			})
			r.planned[0] = f.StepForecast
		}
		return nil
	}
	stage := r.o.stage(r.m, z)
	r.stage = take(stage)
	if r.pack != nil {
		r.pack.spare = take(stage)
		r.pack.halves = take(2 * halfBytes * int64(z.PackBatches))
	}
	runs := make([]*buffer.Runs, len(z.KindSlots))
	for i := range r.columns {
		c := &r.columns[i]
		if c.kind >= 0 {
			p := &r.look.pools[c.kind]
			if runs[c.kind] == nil {
				runs[c.kind] = buffer.NewRuns(uint32(p.first), uint32(p.slots))
			}
			c.runs = runs[c.kind]
			c.slots = take(int64(p.slots+1) * c.stride)
			continue
		}
		c.slots = take(int64(z.Slots) * c.stride)
	}
	if r.o.Pin != nil {
		if r.unpin, err = r.o.Pin(r.slab.Bytes()); err != nil {
			return fmt.Errorf("store: pin the cache: %w", err)
		}
	}
	if r.own {
		return r.engine.Register(r.slab.Bytes())
	}
	return nil
}

// whole reports that the cache has room for all rows, which then are read at once.
func (r *Reader) whole() bool { return !r.o.Packed && r.size.Slots == int(r.m.Nodes) }

// Sizes says what is held.
func (r *Reader) Sizes() Sizes { return r.size }

// MemoryBytes returns how much memory is held outside the Go heap from now on.
func (r *Reader) MemoryBytes() int64 { return r.size.MemoryBytes() }

// Features returns the columns in the cache, which Take numbers. The bytes are the Reader's, and those of
// a batch's slots are valid until its Done.
func (r *Reader) Features() []buffer.Column {
	var out []buffer.Column
	for i := range r.columns {
		c := &r.columns[i]
		out = append(out, buffer.Column{Name: c.info.Name, Type: c.info.Elem, Dim: c.info.Dim, Stride: int(c.stride), Data: c.slots, Scale: c.info.Scale, Runs: c.runs})
	}
	return out
}

// Push makes the next batch's input rows known, in the order in which Take will be asked for them; rows stay the caller's. It
// waits while batches in use leave no room, and returns false once the Reader was stopped.
func (r *Reader) Push(epoch int, rows []uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(rows) > r.o.BatchRows && r.err == nil {
		r.err = fmt.Errorf("%w: a mini-batch of %d rows, expected at most %d", store.ErrInvalid, len(rows), r.o.BatchRows)
		r.stopLocked()
	}
	if r.pack != nil {
		return r.pushPacked(epoch, rows)
	}
	if err := r.checkKinds(rows); err != nil {
		r.fail(err)
	}
	for !r.stopped && !r.look.Fits(len(rows)) {
		r.decide()
	}
	if r.stopped {
		return false
	}
	r.look.Push(rows)
	r.pushed = append(r.pushed, pushed{epoch, fingerprint(rows)})
	return true
}

// checkKinds refuses a batch that has more rows of a node type than the cache was made for.
func (r *Reader) checkKinds(rows []uint32) error {
	if r.look.kind == nil || r.o.KindRows == nil {
		return nil
	}
	var counts [256]int
	for _, row := range rows {
		counts[r.look.kind[row]]++
	}
	for t, most := range r.o.KindRows {
		if counts[t] > most {
			return fmt.Errorf("%w: a mini-batch of %d rows of nodes of type %s, expected at most %d", store.ErrInvalid, counts[t], r.m.Schema.NodeTypes[t].Name, most)
		}
	}
	return nil
}

// End says that no more batches come. It returns when all are decided.
func (r *Reader) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pack != nil {
		r.seal()
		return
	}
	for !r.stopped && r.look.Pending() > 0 {
		r.decide()
	}
}

// decide decides the oldest batch, once no more than held batches are under way; r.mu is held.
func (r *Reader) decide() {
	for !r.stopped && !r.o.Forecast && r.decided-r.done > held {
		r.cond.Wait()
	}
	if r.stopped {
		return
	}
	j := job{pushed: r.pushed[0]}
	r.pushed = r.pushed[1:]
	r.look.Decide(&j.decision)
	r.decided++
	r.latest = j.epoch
	f := planned{r.planned[j.epoch]}
	f.Loads += len(j.Loads)
	r.planned[j.epoch] = f.StepForecast
	r.used[j.epoch] += int64(len(j.Rows))
	if r.o.Forecast {
		keys := r.keysOf(&j)
		for i := range r.columns {
			r.spans(&r.columns[i], keys, func(s span) { f.add([]span{s}) })
		}
		r.planned[j.epoch] = f.StepForecast
		r.done = r.decided
		return
	}
	r.queue = append(r.queue, j)
	r.cond.Broadcast()
}

// fail ends the Reader with an error, if it has not ended; r.mu is held.
func (r *Reader) fail(err error) {
	if r.err == nil && !r.stopped {
		r.err = err
	}
	r.stopLocked()
}

// read is the goroutine that loads one decided batch after the other.
func (r *Reader) read() {
	if r.whole() && !r.filled {
		m, start := r.stats.meter(0), time.Now()
		err := r.everything(func(keys []uint64) error { return r.load(r.ctx, keys, 0, m) })
		m.loaded(start, start)
		if err != nil {
			r.Fail(err)
			return
		}
		r.filled = true
	}
	for n := 0; ; n++ {
		r.mu.Lock()
		for !r.stopped && r.decided <= n {
			r.cond.Wait()
		}
		if r.stopped {
			r.mu.Unlock()
			return
		}
		j := r.queue[n-r.done]
		waiting := time.Now()
		for !r.stopped && r.done <= j.After {
			r.cond.Wait()
		}
		stopped := r.stopped
		r.mu.Unlock()
		if stopped {
			return
		}
		start, m := time.Now(), r.stats.meter(j.epoch)
		err := r.load(r.ctx, r.keysOf(&j), j.epoch, m)
		m.loaded(waiting, start)
		r.mu.Lock()
		if err != nil {
			r.fail(err)
			r.mu.Unlock()
			return
		}
		r.loaded = n + 1
		r.cond.Broadcast()
		r.mu.Unlock()
	}
}

// Take waits until the next batch's rows are in the cache, and returns the slot of each. They are rows, as pushed: another
// batch is an error. The slots are valid until Done.
func (r *Reader) Take(rows []uint32) ([]uint32, error) {
	start := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.stopped && r.loaded <= r.done {
		r.cond.Wait()
	}
	if err := r.failure(); err != nil {
		return nil, err
	}
	j := &r.queue[0]
	if j.mark != fingerprint(rows) || len(j.Slots) != len(rows) {
		return nil, fmt.Errorf("%w: batch %d was sampled ahead with %d rows, and now with %d others", store.ErrInvalid, j.Batch, len(j.Slots), len(rows))
	}
	r.stats.meter(j.epoch).take(start)
	return j.Slots, nil
}

// Done says that the batch of the last Take is trained: its rows may be evicted.
func (r *Reader) Done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.meter(r.queue[0].epoch).done()
	r.queue = r.queue[1:]
	r.done++
	if r.pack != nil {
		r.pack.done(r.done)
	}
	r.cond.Broadcast()
}

// planned is what an epoch's batches were decided to read so far.
type planned struct{ buffer.StepForecast }

// add counts requests before they are made.
func (f *planned) add(group []span) {
	for i := range group {
		f.ColumnBytes += group[i].to - group[i].from
		f.Requests++
	}
}

// Forecast returns what the batches of an epoch that are decided so far read, and the graph with the first epoch: Loads are rows. A
// Reader with [Options].Forecast says to the byte what one that reads is going to.
func (r *Reader) Forecast(epoch int) buffer.StepForecast {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.planned[epoch]
	if epoch == 0 {
		f.TopologyBytes, f.NeededBytes = r.graph.read, r.graph.read
	}
	return f
}

// Used returns how many rows those batches have.
func (r *Reader) Used(epoch int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used[epoch]
}

// Decided returns the epoch of the last batch that was decided, −1 before the first.
func (r *Reader) Decided() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}

// fingerprint is of a batch's row numbers, by which Take knows the batch that was pushed.
func fingerprint(rows []uint32) (h uint64) {
	for _, v := range rows {
		h = bits.RotateLeft64((h^uint64(v))*0x9E3779B97F4A7C15, 29)
	}
	return h
}
