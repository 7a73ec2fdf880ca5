package mini

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/sampler/keyed"
)

// SeedSource decides which batches there are and what their seeds are. Its
// methods are called from the loader's goroutines at once and must depend on
// their arguments only.
type SeedSource interface {
	// Batches returns how many batches there are.
	Batches() int
	// Seeds appends the distinct seeds of batch i, a row each, to dst[:0] and
	// returns it. batch is the Batch they are for: a source may keep what else it
	// knows of it (a link task: its triples and negatives) in batch.Extra.
	Seeds(i int, dst []uint32, batch *Batch) ([]uint32, error)
}

// TimedSource is a [SeedSource] whose seeds are looked at at moments, for the samplers of [TimedSamplers].
type TimedSource interface {
	SeedSource
	// Times appends the moment of each seed of batch i, in their order, to dst[:0] and returns it. It is called after Seeds.
	Times(i int, dst []int64, batch *Batch) ([]int64, error)
}

// Finisher is a [SeedSource] that works on batches once they are sampled, on the
// loader's goroutines: a link task takes its questions out of the neighbourhoods.
type Finisher interface {
	SeedSource
	Finish(b *Batch) error
}

// Numbered is a [SeedSource] whose batches are some of a larger whole's.
type Numbered interface {
	SeedSource
	// Number is batch i's in the whole: by it its draws are keyed, and it is its Key's.
	Number(i int) int
}

// Shuffled is a [SeedSource] for node tasks: the rows in batches, in an order
// keyed by (seed, epoch, step, pass) or as they come.
type Shuffled struct {
	rows []uint32
	size int
	perm keyed.Permutation
	keep bool
	Share
}

// Share is which batches of a number of examples there are. The zero value is all: full ones, and one of the rest.
type Share struct {
	Parts        int  // batches that the examples are cut into, whose sizes differ by at most one where full ones are more or fewer; 0: full ones
	First, Every int  // of these, those numbered First, First + Every, …; 0: every one
	Even         bool // sizes differ by at most one also where full batches and one of the rest would do
	Full         bool // full batches alone: the rest is left out; not with Parts or Even
}

// Of returns how many of the batches of n examples, size a batch, these are.
func (s Share) Of(n uint64, size int) int {
	parts := s.Parts
	switch {
	case s.Full:
		parts = int(n / uint64(size))
	case parts == 0:
		parts = full(n, size)
	}
	return max(0, (parts-s.First+s.every()-1)/s.every())
}

// Range returns which of n examples, size a batch, the i-th of the batches has.
func (s Share) Range(i int, n uint64, size int) (lo, hi uint64) {
	k := uint64(s.Number(i))
	parts := uint64(s.Parts)
	switch {
	case !s.Even && (s.Parts == 0 || s.Parts == full(n, size) && s.every() == 1):
		return k * uint64(size), min((k+1)*uint64(size), n)
	case s.Parts == 0:
		parts = uint64(full(n, size))
	}
	return k * n / parts, (k + 1) * n / parts
}

// full is ⌈n/size⌉.
func full(n uint64, size int) int { return int((n + uint64(size) - 1) / uint64(size)) }

// Number implements [Numbered].
func (s Share) Number(i int) int { return s.First + i*s.every() }

// From returns which of the batches is the first one that is numbered at least number.
func (s Share) From(number int) int { return max(0, (number-s.First+s.every()-1)/s.every()) }

func (s Share) every() int { return max(1, s.Every) }

// NewShuffled makes batches of size rows, the last one smaller, in the order
// of place's permutation. rows stays the caller's and is only read.
func NewShuffled(place keyed.Key, rows []uint32, size int) *Shuffled {
	s := NewSequential(rows, size)
	s.perm, s.keep = keyed.NewPermutation(place, uint64(len(rows))), false
	return s
}

// NewSequential makes batches of size rows in the order given: for evaluation.
func NewSequential(rows []uint32, size int) *Shuffled {
	return &Shuffled{rows: rows, size: max(1, size), keep: true}
}

// Batches returns ⌈rows/size⌉, or how many of them are its share.
func (s *Shuffled) Batches() int { return s.Of(uint64(len(s.rows)), s.size) }

// Seeds returns the rows at positions i·size … of the order, or those of the i-th of its share.
func (s *Shuffled) Seeds(i int, dst []uint32, _ *Batch) ([]uint32, error) {
	lo, hi := s.Range(i, uint64(len(s.rows)), s.size)
	if s.keep {
		return append(dst[:0], s.rows[lo:hi]...), nil
	}
	dst = dst[:0]
	for j := lo; j < hi; j++ {
		dst = append(dst, s.rows[s.perm.At(j)])
	}
	return dst, nil
}

// LoaderOptions say how far and how wide a [Loader] works ahead.
type LoaderOptions struct {
	// Threads is the number of sampling goroutines; 0 means 1.
	Threads int
	// Depth is the most batches in memory at once: being sampled, waiting, or with the
	// caller. 0 means Threads + 2. At least 2.
	Depth int
}

// Loader samples batches ahead of its consumer on goroutines of its own and
// yields them in order. Its batches, samplers and goroutines live as long as it
// does, so that steady state allocates nothing.
//
//	l, err := mini.NewLoader(cfg, mini.LoaderOptions{Threads: 2})
//	defer l.Close()
//	for each macro-batch {
//		l.Start(ctx, mini.Key{Epoch: e, Step: k}, mini.Graph{In: mb.In}, mini.NewShuffled(place, mb.Seeds, 1000))
//		for l.Next() {
//			train(l.Batch())
//		}
//		if err := l.Err(); err != nil { … }
//	}
//
// A Loader is used from one goroutine.
type Loader struct {
	slots []slot
	jobs  chan int // batch numbers to sample; batch i goes to slot i modulo len(slots)
	wg    panics.Group

	// What is being sampled: written by Start while no job is in flight.
	ctx    context.Context
	key    Key
	graph  Graph
	source SeedSource

	total   int // batches of this run
	asked   int // batches sent to jobs
	known   int // batches that are known to be sampled
	next    int // batch the coming Next returns
	current *Batch
	err     error
	closed  bool
}

type slot struct {
	batch Batch
	seeds []uint32
	times []int64
	err   error
	done  chan struct{} // one token when the slot's batch is ready
}

// NewLoader starts the loader's goroutines; Close stops them.
func NewLoader(cfg Config, o LoaderOptions) (*Loader, error) {
	threads := max(1, o.Threads)
	depth := o.Depth
	if depth == 0 {
		depth = threads + 2
	}
	l := &Loader{slots: make([]slot, max(2, depth))}
	l.jobs = make(chan int, len(l.slots))
	for i := range l.slots {
		l.slots[i].done = make(chan struct{}, 1)
	}
	samplers := make([]*Sampler, threads)
	for i := range samplers {
		var err error
		if samplers[i], err = New(cfg); err != nil {
			return nil, err
		}
	}
	for _, s := range samplers {
		l.wg.Go(func() { l.work(s) })
	}
	return l, nil
}

// work samples batches until jobs is closed.
func (l *Loader) work(s *Sampler) {
	for i := range l.jobs {
		w := &l.slots[i%len(l.slots)]
		w.err = panics.Call(func() error { return l.fill(s, i, w) })
		w.done <- struct{}{}
	}
}

func (l *Loader) fill(s *Sampler, i int, w *slot) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	key := l.key
	key.Batch = i
	if n, ok := l.source.(Numbered); ok {
		key.Batch = n.Number(i)
	}
	var err error
	if w.seeds, err = l.source.Seeds(i, w.seeds, &w.batch); err == nil {
		if t, ok := l.source.(TimedSource); !ok {
			err = s.Sample(key, l.graph, w.seeds, &w.batch)
		} else if w.times, err = t.Times(i, w.times, &w.batch); err == nil {
			err = s.SampleAt(key, l.graph, w.seeds, w.times, &w.batch)
		}
	}
	if f, ok := l.source.(Finisher); ok && err == nil {
		err = f.Finish(&w.batch)
	}
	if err != nil {
		return fmt.Errorf("epoch %d step %d pass %d batch %d: %w", key.Epoch, key.Step, key.Pass, i, err)
	}
	return nil
}

// Start begins the batches of source over g, keyed by key with Batch counting
// from key.Batch: batches before that were trained by a run that is resumed. What was left of an earlier run is abandoned. g and source are in
// use until Next has returned false, or Stop, Start or Close has returned.
func (l *Loader) Start(ctx context.Context, key Key, g Graph, source SeedSource) {
	l.Stop()
	if l.closed {
		l.err = ErrClosed
		return
	}
	l.ctx, l.key, l.graph, l.source = ctx, key, g, source
	l.err, l.next, l.known, l.asked = nil, key.Batch, key.Batch, key.Batch
	l.total = source.Batches()
	for l.asked < min(l.total, key.Batch+len(l.slots)) {
		l.ask()
	}
}

// ask sends the next batch to be sampled; its slot must be free.
func (l *Loader) ask() {
	l.jobs <- l.asked // has room: at most len(slots) jobs are ever in flight
	l.asked++
}

// Next waits for the next batch and reports whether there is one. The batch
// before it becomes invalid.
func (l *Loader) Next() bool {
	if l.err != nil || l.closed {
		return false
	}
	if l.current != nil { // its slot is free now
		l.current = nil
		if l.asked < l.total {
			l.ask()
		}
	}
	if l.next >= l.total {
		return false
	}
	w := l.wait(l.next)
	l.next++
	if w.err != nil {
		err := w.err
		l.Stop()
		l.err = err
		return false
	}
	l.current = &w.batch
	return true
}

// wait returns the slot of a batch that was asked for, once it is sampled.
func (l *Loader) wait(i int) *slot {
	for ; l.known <= i; l.known++ {
		<-l.slots[l.known%len(l.slots)].done
	}
	return &l.slots[i%len(l.slots)]
}

// Ahead waits for the batch that the n-th Next from now returns, n ≥ 1, and returns it. It is nil where there is none, where
// Depth does not reach so far (n < Depth always does), and where it could not be sampled, of which Next tells. It is the
// loader's, like [Loader.Batch].
func (l *Loader) Ahead(n int) *Batch {
	i := l.next + n - 1
	if l.err != nil || l.closed || n < 1 || i >= l.asked {
		return nil
	}
	w := l.wait(i)
	if w.err != nil {
		return nil
	}
	return &w.batch
}

// Ready returns the batch that the coming Next returns, if that is sampled already; else nil. It is the loader's, like
// [Loader.Batch].
func (l *Loader) Ready() *Batch {
	if l.next < l.asked && l.known <= l.next && len(l.slots[l.known%len(l.slots)].done) == 0 {
		return nil
	}
	return l.Ahead(1)
}

// Batch returns the batch of the last Next, valid until the coming one.
func (l *Loader) Batch() *Batch { return l.current }

// Err returns why Next returned false: nil at the end, the context's error
// when it ended, or the error of the batch that could not be sampled.
func (l *Loader) Err() error { return l.err }

// Stop abandons the rest of the run and returns when no goroutine uses its
// graph any more. Next returns false from then on.
func (l *Loader) Stop() {
	if l.asked > 0 {
		l.wait(l.asked - 1)
	}
	l.next = l.asked
	l.current, l.total = nil, 0
}

// Close stops the goroutines. It is idempotent and always returns nil.
func (l *Loader) Close() error {
	if l.closed {
		return nil
	}
	l.Stop()
	l.closed = true
	close(l.jobs)
	l.wg.Wait()
	return nil
}
