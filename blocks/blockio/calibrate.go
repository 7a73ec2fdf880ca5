package blockio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Calibration is what a short measurement says of a device through an engine.
// Callers keep it with the device's identity ([DeviceID]) and pass Options on to New.
type Calibration struct {
	Engine string
	// Measured is false where the file was too small to measure with: then
	// Options holds the defaults and the figures are zero.
	Measured bool
	// Latency is the median of single 4 KiB reads.
	Latency time.Duration
	// RequestCost is the time that another small request adds when the queue is
	// kept full: the inverse of the rate of 4 KiB reads.
	RequestCost time.Duration
	// BytesPerSecond is the bandwidth at Options.
	BytesPerSecond float64
	// Options are the depth and transfer size with the smallest product within 5 %
	// of the best bandwidth seen.
	Options Options
}

// Validate refuses figures that no device has: those of a file that someone else wrote.
func (c *Calibration) Validate() error {
	if err := c.Options.Validate(); err != nil {
		return err
	}
	rate := c.BytesPerSecond > 0 && !math.IsInf(c.BytesPerSecond, 0)
	if c.Options.Depth == 0 || c.Options.SplitBytes == 0 || c.Measured && (c.Latency <= 0 || c.RequestCost <= 0 || !rate) {
		return fmt.Errorf("blockio: no calibration: %+v", *c)
	}
	return nil
}

// GapBytes is how many unwanted bytes between two wanted ranges cost as much
// time as making two requests of them: a planner reads through smaller gaps.
func (c *Calibration) GapBytes() int64 {
	return int64(c.RequestCost.Seconds() * c.BytesPerSecond)
}

// String is one line for people.
func (c *Calibration) String() string {
	if !c.Measured {
		return fmt.Sprintf("%s, not measured: depth %d, requests of %d KiB", c.Engine, c.Options.Depth, c.Options.SplitBytes>>10)
	}
	return fmt.Sprintf("%s: %.2f GB/s at depth %d, requests of %d KiB; latency %v, another request costs %v (%d KiB)",
		c.Engine, c.BytesPerSecond/1e9, c.Options.Depth, c.Options.SplitBytes>>10, c.Latency, c.RequestCost, c.GapBytes()>>10)
}

// CalibrateOptions bound a calibration. The zero value means the defaults.
type CalibrateOptions struct {
	Duration time.Duration // about how long it may take; default 300 ms
	Seed     uint64        // of the offsets read
}

const (
	// calibrateFileMin is the smallest file worth measuring with.
	calibrateFileMin = 16 << 20
	// calibrateSlabBytes bounds depth × transfer size, and the memory used.
	calibrateSlabBytes = 32 << 20
	// calibrateRounds measure every setting this often, by turns; the best counts,
	// since others who use the disk can only make it slower.
	calibrateRounds = 2
	// calibrateSmall is the request that latency and request cost are measured with.
	calibrateSmall = Alignment
)

// Calibrate measures the device under an existing file by direct reads of it,
// for a fraction of a second: latency, cost of a request, bandwidth over depth
// and transfer size. It changes nothing. engine is a name for [New].
func Calibrate(ctx context.Context, engine, path string, o CalibrateOptions) (c Calibration, err error) {
	if o.Duration <= 0 {
		o.Duration = 300 * time.Millisecond
	}
	probe, _, err := New(engine, Options{})
	if err != nil {
		return Calibration{}, err
	}
	c = Calibration{Engine: probe.Name(), Options: Options{}.withDefaults()}
	f, err := probe.Open(path, OpenOptions{Direct: true})
	if err != nil {
		return Calibration{}, errors.Join(err, probe.Close())
	}
	size := f.Size()
	if err := errors.Join(f.Close(), probe.Close()); err != nil || size < calibrateFileMin {
		return c, err
	}
	slab, err := AllocSlab(calibrateSlabBytes, SlabOptions{})
	if err != nil {
		return Calibration{}, err
	}
	defer func() { err = errors.Join(err, slab.Free()) }()
	m := &meter{engine: c.Engine, path: path, size: size, slab: slab.Bytes(), r: rand.New(rand.NewPCG(o.Seed, 0))}

	type setting struct{ depth, bytes int }
	var settings []setting
	for _, bytes := range []int{256 << 10, 1 << 20, 4 << 20} {
		for depth := 8; depth <= 64 && depth*bytes <= calibrateSlabBytes; depth *= 2 {
			settings = append(settings, setting{depth, bytes})
		}
	}
	slice := o.Duration / time.Duration(calibrateRounds*(len(settings)+1)+1)
	if c.Latency, err = m.latency(ctx, slice); err != nil {
		return Calibration{}, err
	}
	rates, small := make([]float64, len(settings)), 0.0
	for range calibrateRounds {
		r, err := m.rate(ctx, Options{Depth: defaultDepth}, calibrateSmall, slice)
		if err != nil {
			return Calibration{}, err
		}
		small = max(small, r)
		for i, s := range settings {
			if r, err = m.rate(ctx, Options{Depth: s.depth, SplitBytes: s.bytes}, s.bytes, slice); err != nil {
				return Calibration{}, err
			}
			rates[i] = max(rates[i], r)
		}
	}
	c.RequestCost = time.Duration(calibrateSmall / small * float64(time.Second))
	best := slices.Max(rates)
	choice := -1
	for i, s := range settings {
		if rates[i] >= 0.95*best && (choice < 0 || s.depth*s.bytes < settings[choice].depth*settings[choice].bytes) {
			choice = i
		}
	}
	c.Measured = true
	c.BytesPerSecond = rates[choice]
	c.Options = Options{Depth: settings[choice].depth, SplitBytes: settings[choice].bytes}
	return c, nil
}

// meter reads random places of one file.
type meter struct {
	engine, path string
	size         int64
	slab         []byte
	r            *rand.Rand
}

// open makes an engine and opens the file.
func (m *meter) open(o Options) (Engine, File, error) {
	e, _, err := New(m.engine, o)
	if err != nil {
		return nil, nil, err
	}
	if err = e.Register(m.slab); err == nil {
		var f File
		if f, err = e.Open(m.path, OpenOptions{Direct: true}); err == nil {
			return e, f, nil
		}
	}
	return nil, nil, errors.Join(err, e.Close())
}

// request is a read of n bytes at a random multiple of n.
func (m *meter) request(f File, n, i int) Request {
	at := i * n % (len(m.slab) - n + 1) &^ (Alignment - 1)
	return Request{File: f, Offset: m.r.Int64N(m.size/int64(n)) * int64(n), Buf: m.slab[at : at+n]}
}

func (m *meter) latency(ctx context.Context, limit time.Duration) (d time.Duration, err error) {
	e, f, err := m.open(Options{Depth: 1})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), e.Close()) }()
	var seen []time.Duration
	for begin := time.Now(); len(seen) < 5 || (len(seen) < 200 && time.Since(begin) < limit); {
		one := time.Now()
		if err := e.Do(ctx, []Request{m.request(f, calibrateSmall, len(seen))}, nil); err != nil {
			return 0, err
		}
		seen = append(seen, time.Since(one))
	}
	slices.Sort(seen)
	return seen[len(seen)/2], nil
}

// rate returns the bytes a second of reads of n bytes with the queue kept full
// for limit.
func (m *meter) rate(ctx context.Context, o Options, n int, limit time.Duration) (bytesPerSecond float64, err error) {
	e, f, err := m.open(o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), e.Close()) }()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begin := time.Now()
	// Batches long enough that the queue's running empty between them does not show.
	for total := 0; limited.Err() == nil; {
		batch := make([]Request, 4*o.withDefaults().Depth)
		for i := range batch {
			batch[i] = m.request(f, n, total+i)
		}
		total += len(batch)
		if err := e.Do(limited, batch, nil); err != nil && limited.Err() == nil {
			return 0, err
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return max(1, float64(e.Stats().BytesRead)) / time.Since(begin).Seconds(), nil
}
