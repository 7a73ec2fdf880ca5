package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"
	"unsafe"

	"github.com/edsrzf/mmap-go"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/buffer/metrics"
	devices "github.com/gstore/gstore/tools/device"
)

// EpochRun is what one trainer measured of itself.
type EpochRun struct {
	Trainer      string  `json:"trainer"`        // "hanoi" or "mmap"
	Seconds      float64 `json:"seconds"`        // of an epoch
	InMemory     float64 `json:"in_memory_s"`    // training the same batches with nothing being read
	Stall        float64 `json:"stall_s"`        // trainer waiting for the disk
	Assemble     float64 `json:"assemble_s"`     // in the background
	BytesRead    int64   `json:"bytes_read"`     // of the epoch
	Predicted    int64   `json:"predicted"`      // what the plan said
	Batches      int64   `json:"batches"`        // of the epoch
	Measured     int64   `json:"measured"`       // batches that were timed
	Steps        int     `json:"steps"`          //
	Capacity     int     `json:"capacity"`       // partitions a step
	BufferBytes  int64   `json:"buffer_bytes"`   //
	Engine       string  `json:"engine"`         //
	GCShare      float64 `json:"gc_share"`       // of the process's CPU time in the epoch
	PeakRSSBytes int64   `json:"peak_rss_bytes"` // filled in by the parent
	CPUSeconds   float64 `json:"cpu_s"`          // of the epoch
	Device       string  `json:"device"`         //
	// DeviceSeconds is the device's time for the epoch's mini-batches, from each one's first operation to its last.
	DeviceSeconds float64 `json:"device_s"`
	// Losses are the mean loss up to each macro-batch: the bits of a float64.
	Losses []uint64 `json:"losses,omitempty"`
}

// runtimeReserve is what the process needs beside the partition buffer:
// binary, Go heap, model, activations of two mini-batches.
const runtimeReserve = 320 << 20

// ChildOptions configure a trainer process.
type ChildOptions struct {
	Dir         string
	MemoryBytes int64
	Threads     int
	Device      string // "": the host
	Metrics     string // write the hanoi trainer's metrics here
	Batches     int    // the mmap trainer's timed batches
	CacheDir    string // store.Options.CacheDir
}

// device opens the trainer's device.
func (o *ChildOptions) device() (gpu.Device, error) {
	return devices.Open(devices.Options{Name: cmp.Or(o.Device, "host"), Threads: o.Threads})
}

func trainConfig(threads int) config.Config {
	return config.Config{Fanouts: []int{15, 10}, Hidden: 128, Threads: threads, Seed: 1}
}

// RunHanoiChild trains one epoch to warm up and one that is measured, out of
// core, and then the measured one's batches again with nothing being read.
func RunHanoiChild(ctx context.Context, o ChildOptions) (run EpochRun, err error) {
	debug.SetMemoryLimit(runtimeReserve)
	s, err := store.Open(filepath.Join(o.Dir, "store"), store.Options{CacheDir: o.CacheDir})
	if err != nil {
		return run, err
	}
	defer s.Close()
	m := s.Manifest()
	options := buffer.Options{Features: []string{"x"}, Labels: true, MemoryBytes: o.MemoryBytes - runtimeReserve, AheadMax: 1, Threads: o.Threads}
	if options.Capacity, err = buffer.MaxCapacity(ctx, s, options); err != nil {
		return run, err
	}
	dev, err := o.device()
	if err != nil {
		return run, err
	}
	defer dev.Close()
	options.Pin = gpu.Pin(dev)
	it, err := buffer.Open(ctx, s, options)
	if err != nil {
		return run, err
	}
	defer it.Close()
	policy, err := macro.New(macro.Config{Policy: macro.Hanoi, Partitions: len(m.Partitions), Capacity: options.Capacity, Seed: 1})
	if err != nil {
		return run, err
	}
	x, err := m.Column("x")
	if err != nil {
		return run, err
	}
	t, err := train.NewTrainer(ctx, dev, trainConfig(o.Threads), x.Dim, m.Schema.Classes)
	if err != nil {
		return run, err
	}
	defer t.Close()
	// Made once: the iterator knows an announced plan by its steps.
	plans := []buffer.Plan{policy.Epoch(0), policy.Epoch(1), policy.Epoch(2)}
	epoch := func(e int, announce bool) error {
		if announce {
			if err := it.Announce(plans[e+1]); err != nil {
				return err
			}
		}
		for it.Next() {
			if err := t.MacroBatch(ctx, e, it.MacroBatch()); err != nil {
				return err
			}
		}
		return it.Err()
	}
	if err := it.Start(plans[0]); err != nil {
		return run, err
	}
	run.Predicted = it.PredictBytes(plans[1])
	if err := epoch(0, true); err != nil {
		return run, err
	}
	cpu, gc, busy := usage.CPUSeconds(), gcSeconds(), t.DeviceTime()
	batches, start := t.Batches(), time.Now()
	if err := it.Start(plans[1]); err != nil {
		return run, err
	}
	// The epoch after is announced, as in a long run: its first step is read
	// in this epoch's time, as this epoch's first one was in the last's.
	if err := epoch(1, true); err != nil {
		return run, err
	}
	run.Seconds = time.Since(start).Seconds()
	run.CPUSeconds = usage.CPUSeconds() - cpu
	run.GCShare = (gcSeconds() - gc) / run.CPUSeconds
	run.Batches = t.Batches() - batches
	run.Measured = run.Batches
	run.Device, run.DeviceSeconds = dev.Info().Name, (t.DeviceTime() - busy).Seconds()
	st := it.Stats()
	run.Trainer, run.Engine, run.Capacity, run.Steps = "hanoi", st.Engine, options.Capacity, len(st.Steps)
	run.Stall, run.Assemble = st.Stall.Seconds(), st.Assemble.Seconds()
	run.BytesRead, run.BufferBytes = st.BytesRead, st.MemoryBytes
	if o.Metrics != "" {
		if err := writeMetrics(o.Metrics, st); err != nil {
			return run, err
		}
	}
	// The same batches with the disk at rest: a plan of one step reads nothing ahead.
	plan := plans[1]
	for k, step := range plan.Steps {
		single := plan
		single.Steps = []buffer.Step{step}
		if err := it.Start(single); err != nil {
			return run, err
		}
		if !it.Next() {
			return run, it.Err()
		}
		mb := *it.MacroBatch()
		mb.StepIndex = k
		start := time.Now()
		if err := t.MacroBatch(ctx, 1, &mb); err != nil {
			return run, err
		}
		run.InMemory += time.Since(start).Seconds()
	}
	return run, nil
}

func writeMetrics(path string, st buffer.Stats) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(metrics.NewWriter(f).Epoch(st), f.Close())
}

// RunMmapChild is the naive trainer: features and topology are mapped files,
// mini-batches are drawn from the whole graph, and the kernel pages. It times
// o.Batches mini-batches after a few and extrapolates to the epoch.
func RunMmapChild(ctx context.Context, o ChildOptions) (run EpochRun, err error) {
	debug.SetMemoryLimit(runtimeReserve)
	s, err := store.Open(filepath.Join(o.Dir, "store"), store.Options{})
	if err != nil {
		return run, err
	}
	defer s.Close()
	m := s.Manifest()
	x, err := m.Column("x")
	if err != nil {
		return run, err
	}
	file, extent, err := s.Files().Column("x", 0)
	if err != nil {
		return run, err
	}
	var maps [3]mmap.MMap
	for i, path := range []string{filepath.Join(o.Dir, naiveSpans), filepath.Join(o.Dir, naiveIndices), file.Path()} {
		f, err := os.Open(path)
		if err != nil {
			return run, err
		}
		defer f.Close()
		if maps[i], err = mmap.Map(f, mmap.RDONLY, 0); err != nil {
			return run, fmt.Errorf("map %s: %w", path, err)
		}
		defer maps[i].Unmap()
	}
	spans, err := spansOf(maps[0])
	if err != nil {
		return run, err
	}
	indices, err := blocks.View[uint32](maps[1])
	if err != nil {
		return run, err
	}
	mb := &buffer.MacroBatch{Rows: int(m.Nodes), In: &buffer.Adjacency{Spans: spans, Indices: indices}}
	// Partitions of 64 Ki rows of a multiple of 4 KiB lie without gaps: one array.
	mb.Features = []buffer.Column{{Name: "x", Type: x.Elem, Dim: x.Dim, Stride: x.RowBytes(), Data: maps[2][extent.Offset:][:int64(m.Nodes)*int64(x.RowBytes())]}}
	mb.Labels = make([]int32, m.Nodes)
	var seeds []uint32
	for v := range mb.Labels {
		mb.Labels[v] = int32((v/epochPartitionNodes + v%epochPartitionNodes) % epochClasses)
		if v%epochPartitionNodes%epochTrainEvery == 0 {
			seeds = append(seeds, uint32(v))
		}
	}
	dev, err := o.device()
	if err != nil {
		return run, err
	}
	defer dev.Close()
	t, err := train.NewTrainer(ctx, dev, trainConfig(o.Threads), x.Dim, m.Schema.Classes)
	if err != nil {
		return run, err
	}
	defer t.Close()
	// Every n-th seed: as spread over the graph as a shuffled epoch's.
	const warm, size = 1, 1000
	stride := max(1, len(seeds)/((o.Batches+warm)*size))
	var spread []uint32
	for i := 0; i < len(seeds) && len(spread) < (o.Batches+warm)*size; i += stride {
		spread = append(spread, seeds[i])
	}
	mb.Seeds = spread[:min(len(spread), warm*size)]
	if err := t.MacroBatch(ctx, 0, mb); err != nil {
		return run, err
	}
	mb.Seeds = spread[len(mb.Seeds):]
	batches, start, cpu := t.Batches(), time.Now(), usage.CPUSeconds()
	if err := t.MacroBatch(ctx, 1, mb); err != nil {
		return run, err
	}
	run.Trainer, run.Engine = "mmap", "mmap"
	run.Measured = t.Batches() - batches
	run.Batches = int64((len(seeds) + size - 1) / size)
	scale := float64(run.Batches) / float64(max(1, run.Measured))
	run.Seconds = time.Since(start).Seconds() * scale
	run.CPUSeconds = (usage.CPUSeconds() - cpu) * scale
	return run, nil
}

func spansOf(b []byte) ([]buffer.Span, error) {
	flat, err := blocks.View[int64](b)
	if err != nil {
		return nil, err
	}
	if len(flat) == 0 {
		return nil, nil
	}
	return unsafe.Slice((*buffer.Span)(unsafe.Pointer(unsafe.SliceData(flat))), len(flat)/2), nil
}

// gcSeconds is the CPU time that the garbage collector took so far.
func gcSeconds() float64 {
	s := []runtimemetrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	runtime.GC() // the estimate is brought up to date by a collection
	runtimemetrics.Read(s)
	return s[0].Value.Float64()
}
