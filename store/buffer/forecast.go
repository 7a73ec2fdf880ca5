package buffer

import (
	"context"
	"errors"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/vfsengine"
)

// Forecaster tells what plans would read and hold, exactly, without allocating
// a buffer or reading more than topology directories. It is for one goroutine.
type Forecaster struct {
	src    *source
	o      Options
	engine blockio.Engine

	least  map[int]int64    // by capacity: a layout looks at p² buckets
	double map[[2]int]int64 // by capacity and swap
}

// EpochForecast is what one epoch of a plan reads.
type EpochForecast struct {
	Steps []StepForecast
	Total StepForecast // their sums; Loads too
}

// StepForecast is what is read for one step.
type StepForecast struct {
	Loads         int   // partitions whose columns are read
	ColumnBytes   int64 // features, labels, splits
	TopologyBytes int64 // buckets, with the gaps that are read through
	NeededBytes   int64 // of TopologyBytes: the buckets themselves
	Requests      int   // reads of at most [store.ReadTuning].RequestBytes
}

// Bytes is all that is read.
func (s *StepForecast) Bytes() int64 { return s.ColumnBytes + s.TopologyBytes }

func (s *StepForecast) add(t StepForecast) {
	s.Loads += t.Loads
	s.ColumnBytes += t.ColumnBytes
	s.TopologyBytes += t.TopologyBytes
	s.NeededBytes += t.NeededBytes
	s.Requests += t.Requests
}

// OpenForecaster makes a forecaster for macro-batches of options o, of which
// Capacity and MemoryBytes do not matter and the engine does only as far as its device's
// figures decide what is read ([Tuning]). The store must stay open until Close.
func OpenForecaster(ctx context.Context, s *store.Store, o Options) (*Forecaster, error) {
	engine := vfsengine.For(s.Files().FS()) // nil: of the operating system's file system
	if o.Engine == nil {
		o.Engine = engine
	}
	if err := o.Validate(s.Manifest()); err != nil {
		return nil, err
	}
	t, err := Tuning(ctx, s, o)
	if err != nil {
		return nil, err
	}
	o.apply(t)
	return newForecaster(ctx, s.Manifest(), s.Files(), engine, o)
}

// newForecaster reads with engine, which it owns then; nil: with one of its own.
func newForecaster(ctx context.Context, m *store.Manifest, opener fileOpener, engine blockio.Engine, o Options) (_ *Forecaster, err error) {
	if engine == nil {
		if engine, _, err = blockio.New("pread", blockio.Options{}); err != nil {
			return nil, err
		}
	}
	f := &Forecaster{least: map[int]int64{}, double: map[[2]int]int64{}, o: o.withDefaults(), engine: engine}
	f.o.Buffered = true // only directories are read
	if f.src, err = newSource(ctx, m, opener, engine, &f.o); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return f, nil
}

// Tuning is what the forecast goes by.
func (f *Forecaster) Tuning() store.ReadTuning { return f.o.readTuning() }

// Close releases the files.
func (f *Forecaster) Close() error { return errors.Join(f.src.Close(), f.engine.Close()) }

// LeastBytes is the smallest Options.MemoryBytes with which capacity
// partitions can be resident (0 = all, for the whole run).
func (f *Forecaster) LeastBytes(capacity int) (n int64, err error) {
	if n, ok := f.least[capacity]; ok {
		return n, nil
	}
	defer func() {
		if err == nil {
			f.least[capacity] = n
		}
	}()
	o := f.o
	o.Capacity, o.MemoryBytes = capacity, 1
	_, err = newLayout(f.src, &o)
	var budget *BudgetError
	if errors.As(err, &budget) {
		return budget.NeedBytes, nil
	}
	return 1, err
}

// DoubleBytes is the smallest Options.MemoryBytes with which the next
// step's partitions, at most swap new ones (0 = capacity), are read while capacity others train (0 = all,
// for the whole run: nothing is read ahead).
func (f *Forecaster) DoubleBytes(capacity, swap int) (int64, error) {
	key := [2]int{capacity, swap}
	if n, ok := f.double[key]; ok {
		return n, nil
	}
	o := f.o
	o.Capacity, o.MemoryBytes, o.Swap = capacity, 0, swap
	l, err := newLayout(f.src, &o)
	if err != nil {
		return 0, err
	}
	f.double[key] = l.total
	return l.total, nil
}

// Epochs forecasts consecutive epochs, beginning with an empty buffer of
// capacity partitions at a time, at most swap new ones a step (0 = capacity), within memoryBytes (0 = what
// double buffering takes), and returns the bytes the buffer takes.
func (f *Forecaster) Epochs(capacity, swap int, memoryBytes int64, plans ...Plan) (bufferBytes int64, epochs []EpochForecast, err error) {
	o := f.o
	o.Capacity, o.Swap, o.MemoryBytes = capacity, swap, memoryBytes
	l, err := newLayout(f.src, &o)
	if err != nil {
		return 0, nil, err
	}
	r := newResidency(l, len(f.src.m.Partitions))
	for k := range plans {
		steps, err := r.schedule(l, f.src, &o, k, &plans[k], 0)
		if err != nil {
			return 0, nil, err
		}
		var e EpochForecast
		for _, s := range steps {
			t := f.step(l, &o, s)
			e.Steps = append(e.Steps, t)
			e.Total.add(t)
		}
		epochs = append(epochs, e)
	}
	return l.total, epochs, nil
}

// step adds up what the reader would be asked for.
func (f *Forecaster) step(l *layout, o *Options, s *scheduled) StepForecast {
	topology := planTopology(f.src, l, o, s)
	t := StepForecast{Loads: len(s.loads), TopologyBytes: topology.bytes}
	for _, staged := range topology.staged() {
		for i := range staged {
			for _, sp := range staged[i].spans {
				t.Requests += o.requests(sp.to - sp.from)
			}
		}
	}
	for _, load := range s.loads {
		t.ColumnBytes += columnBytes(f.src, load.part)
		for _, x := range f.src.columnExtents(load.part) {
			t.Requests += o.requests(x.e.Length)
		}
		t.Requests += f.src.tablePlanes
	}
	if s.same {
		return t
	}
	for b, j := range s.resident {
		for a, i := range s.resident {
			if !s.kept[a] || !s.kept[b] {
				t.NeededBytes += f.BucketBytes(i.ID, j.ID)
			}
		}
	}
	return t
}

// requests is how many requests n bytes take.
func (o *Options) requests(n int64) int { return int((n + o.RequestBytes - 1) / o.RequestBytes) }

// NodeBytes is what loading a partition's columns reads.
func (f *Forecaster) NodeBytes(p store.PartitionID) int64 { return columnBytes(f.src, p) }

// BucketEdges is the number of stored edges from partition src to partition dst.
func (f *Forecaster) BucketEdges(src, dst store.PartitionID) uint64 {
	return uint64(f.src.dirs[dst].BucketEdges(int(src)))
}

// BucketBytes is the size of that bucket on disk, the columns that its edges carry included.
func (f *Forecaster) BucketBytes(src, dst store.PartitionID) int64 {
	from, to := f.src.dirs[dst].Range(int(src), int(src)+1)
	for _, c := range f.src.carried {
		to += int64(f.BucketEdges(src, dst)) * c.rowBytes(int(dst))
	}
	return to - from
}
