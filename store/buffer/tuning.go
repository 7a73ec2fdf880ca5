package buffer

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/vfsengine"
)

const (
	// tuneBytesMin is the smallest store whose device is measured unasked: below,
	// a measurement takes as long as reading everything.
	tuneBytesMin = 1 << 30

	gapBytesLeast = 4 << 10
	gapBytesMost  = 1 << 20
)

// Tuning returns how iterators with options o read the store: o's own figures,
// else the device's, which are measured first if need be, else the defaults.
func Tuning(ctx context.Context, s *store.Store, o Options) (store.ReadTuning, error) {
	return tuning(ctx, s, o, store.CalibrationOptions{})
}

// TuningKnown is Tuning that measures nothing.
func TuningKnown(ctx context.Context, s *store.Store, o Options) (store.ReadTuning, error) {
	return tuning(ctx, s, o, store.CalibrationOptions{NoWait: true})
}

func tuning(ctx context.Context, s *store.Store, o Options, co store.CalibrationOptions) (store.ReadTuning, error) {
	reads := s.Files().Reads()
	for _, f := range []struct{ own, given *int64 }{{&o.GapBytes, &reads.GapBytes}, {&o.RequestBytes, &reads.RequestBytes}} {
		if *f.own == 0 {
			*f.own = *f.given
		}
	}
	if o.Depth == 0 {
		o.Depth = reads.Depth
	}
	given := o.GapBytes != 0 && o.RequestBytes != 0 && (o.Depth != 0 || o.Engine != nil)
	engine := o.EngineName
	if o.Engine != nil {
		engine = o.Engine.Name()
	}
	t := o.defaultTuning()
	switch {
	case given:
		t.Why = "given"
		return t, nil
	case o.Buffered || engine == "mmap":
		t.Why = "defaults: the page cache has no device's figures"
		return t, nil
	case s.Manifest().Bytes() < tuneBytesMin:
		t.Why = fmt.Sprintf("defaults: a store under %s is not worth a measurement", blocks.SizeText(tuneBytesMin))
		return t, nil
	}
	c, at, err := s.Files().Calibration(ctx, engine, co)
	if ctx.Err() != nil {
		return t, ctx.Err()
	}
	switch {
	case err != nil:
		t.Why = fmt.Sprintf("defaults: the device cannot be measured: %v", err)
	case !c.Measured:
		t.Why = "defaults: the device is not measured yet"
	default:
		t = o.tune(&c)
		t.Why = fmt.Sprintf("%s measured %s", c.Engine, at.Format(time.DateOnly))
	}
	return t, nil
}

// defaultTuning is o's figures with defaults where it has none.
func (o *Options) defaultTuning() store.ReadTuning {
	return o.tuneFrom(defaultGapBytes, defaultRequestBytes, 0)
}

// tune is o's figures with a device's where it has none. The gap is rounded to a power
// of two, so that measuring again seldom changes what is read.
func (o *Options) tune(c *blockio.Calibration) store.ReadTuning {
	gap := int64(1) << (bits.Len64(uint64(max(1, c.GapBytes()*2/3)))) // to the nearest on a scale of factors
	request := blocks.AlignUp(int64(c.Options.SplitBytes))
	request = max(blocks.ChunkBytes, request-request%blocks.ChunkBytes)
	return o.tuneFrom(min(max(gap, gapBytesLeast), gapBytesMost), request, c.Options.Depth)
}

func (o *Options) tuneFrom(gap, request int64, depth int) store.ReadTuning {
	t := store.ReadTuning{GapBytes: gap, RequestBytes: request, Depth: depth, Why: "defaults"}
	if o.GapBytes != 0 {
		t.GapBytes = max(o.GapBytes, -1)
	}
	if o.RequestBytes != 0 {
		t.RequestBytes = o.RequestBytes
	}
	if o.Depth != 0 {
		t.Depth = o.Depth
	}
	if t.Depth == 0 {
		t.Depth = blockio.DefaultDepth
	}
	return t
}

// readTuning is what was applied.
func (o *Options) readTuning() store.ReadTuning {
	return store.ReadTuning{GapBytes: o.GapBytes, RequestBytes: o.RequestBytes, Depth: o.Depth, Why: o.tuning}
}

// apply puts the figures where the planner finds them.
func (o *Options) apply(t store.ReadTuning) {
	o.GapBytes, o.RequestBytes, o.Depth, o.tuning = t.GapBytes, t.RequestBytes, t.Depth, t.Why
}

// EngineOf is the engine that reads a store which is not on the operating system's file system, or one that injects faults;
// nil where any of package blockio does.
func EngineOf(s *store.Store) blockio.Engine { return vfsengine.For(s.Files().FS()) }
