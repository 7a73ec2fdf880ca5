package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
)

// ReadTuning is what the planner and the engine of an iterator go by. It
// decides how bytes are read, never which batches are trained: budgets and
// capacities are computed without it.
type ReadTuning struct {
	GapBytes     int64  // unwanted bytes that are read rather than starting another request
	RequestBytes int64  // the largest request
	Depth        int    // requests in flight, of an engine that the iterator makes
	Why          string // where the figures come from
}

// String is one line for people.
func (t ReadTuning) String() string {
	gap := "gaps are not read"
	if t.GapBytes >= 0 {
		gap = fmt.Sprintf("gaps up to %s are read through", sizeText(t.GapBytes))
	}
	return fmt.Sprintf("%s, requests of %s, %d in flight (%s)", gap, sizeText(t.RequestBytes), t.Depth, t.Why)
}

// CalibrationOptions bound [Store.Calibration]. The zero value means the defaults.
type CalibrationOptions struct {
	Duration time.Duration // of a measurement, about; default 300 ms
	Refresh  bool          // measure even if figures are kept
	NoWait   bool          // never measure: kept figures or none
}

const (
	// tuneBytesMin is the smallest store whose device is measured unasked: below,
	// a measurement takes as long as reading everything.
	tuneBytesMin = 1 << 30
	// calibrationAge is how long figures are kept: disks are replaced and fill up.
	calibrationAge = 30 * 24 * time.Hour

	gapBytesLeast = 4 << 10
	gapBytesMost  = 1 << 20
)

// calibrationRecord is a file of [Options.CacheDir].
type calibrationRecord struct {
	Format      int // calibrationFormat
	Device      string
	MeasuredAt  time.Time
	Calibration blockio.Calibration
}

// calibrationFormat is raised when figures are measured or meant differently.
const calibrationFormat = 1

// Calibration returns what the store's device can do through an engine ("" =
// "auto") and when that was measured: figures kept in [Options.CacheDir] or by
// this Store, or those of a measurement that it makes now, by direct reads of its
// largest file. Measured is false where that is too small to measure with, or where nothing is kept
// and o.NoWait.
func (s *Store) Calibration(ctx context.Context, engine string, o CalibrationOptions) (blockio.Calibration, time.Time, error) {
	none := time.Time{}
	probe, _, err := blockio.New(engine, blockio.Options{})
	if err != nil {
		return blockio.Calibration{}, none, err
	}
	engine = probe.Name() // what "auto" is
	if err := probe.Close(); err != nil {
		return blockio.Calibration{}, none, err
	}
	s.calibrating.Lock()
	defer s.calibrating.Unlock()
	if c, ok := s.calibrations[engine]; ok && !o.Refresh {
		return c.Calibration, c.MeasuredAt, nil
	}
	device, err := blockio.DeviceID(s.dir)
	if err != nil {
		return blockio.Calibration{}, none, err
	}
	path := ""
	if s.cacheDir != "" {
		path = filepath.Join(s.cacheDir, fmt.Sprintf("device-%s-%s.json", device, engine))
	}
	r, kept := loadCalibration(path, device, engine)
	if !kept || o.Refresh {
		r = calibrationRecord{Format: calibrationFormat, Device: device, MeasuredAt: time.Now().UTC(), Calibration: blockio.Calibration{Engine: engine}}
		if o.NoWait || len(s.manifest.Files) == 0 {
			return r.Calibration, none, nil
		}
		largest := slices.MaxFunc(s.manifest.Files, func(a, b FileRef) int { return cmp.Compare(a.Size, b.Size) })
		if r.Calibration, err = blockio.Calibrate(ctx, engine, s.dataPath(largest.Name), blockio.CalibrateOptions{Duration: o.Duration}); err != nil {
			return blockio.Calibration{}, none, err
		}
		if r.Calibration.Measured && path != "" {
			_ = r.save(path) // where nothing can be kept, the next process measures again
		}
	}
	s.calibrations[engine] = r
	return r.Calibration, r.MeasuredAt, nil
}

// loadCalibration reads a record that is fit to be used.
func loadCalibration(path, device, engine string) (r calibrationRecord, ok bool) {
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &r) != nil {
		return r, false
	}
	age := time.Since(r.MeasuredAt)
	return r, r.Format == calibrationFormat && r.Device == device && r.Calibration.Engine == engine &&
		r.Calibration.Measured && r.Calibration.Validate() == nil && age >= 0 && age < calibrationAge
}

// save replaces the record's file as a whole: others may read it meanwhile.
func (r *calibrationRecord) save(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".calibration-*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Tuning returns how iterators with options o read the store: o's own figures,
// else the device's, which are measured first if need be, else the defaults.
func (s *Store) Tuning(ctx context.Context, o MacroOptions) (ReadTuning, error) {
	return s.tuning(ctx, o, CalibrationOptions{})
}

// TuningKnown is Tuning that measures nothing.
func (s *Store) TuningKnown(ctx context.Context, o MacroOptions) (ReadTuning, error) {
	return s.tuning(ctx, o, CalibrationOptions{NoWait: true})
}

func (s *Store) tuning(ctx context.Context, o MacroOptions, co CalibrationOptions) (ReadTuning, error) {
	for _, f := range []struct{ own, given *int64 }{{&o.GapBytes, &s.reads.GapBytes}, {&o.RequestBytes, &s.reads.RequestBytes}} {
		if *f.own == 0 {
			*f.own = *f.given
		}
	}
	if o.Depth == 0 {
		o.Depth = s.reads.Depth
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
	case s.manifest.Bytes() < tuneBytesMin:
		t.Why = fmt.Sprintf("defaults: a store under %s is not worth a measurement", sizeText(tuneBytesMin))
		return t, nil
	}
	c, at, err := s.Calibration(ctx, engine, co)
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
func (o *MacroOptions) defaultTuning() ReadTuning {
	return o.tuneFrom(defaultGapBytes, defaultRequestBytes, 0)
}

// tune is o's figures with a device's where it has none. The gap is rounded to a power
// of two, so that measuring again seldom changes what is read.
func (o *MacroOptions) tune(c *blockio.Calibration) ReadTuning {
	gap := int64(1) << (bits.Len64(uint64(max(1, c.GapBytes()*2/3)))) // to the nearest on a scale of factors
	request := blocks.AlignUp(int64(c.Options.SplitBytes))
	request = max(blocks.ChunkBytes, request-request%blocks.ChunkBytes)
	return o.tuneFrom(min(max(gap, gapBytesLeast), gapBytesMost), request, c.Options.Depth)
}

func (o *MacroOptions) tuneFrom(gap, request int64, depth int) ReadTuning {
	t := ReadTuning{GapBytes: gap, RequestBytes: request, Depth: depth, Why: "defaults"}
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
func (o *MacroOptions) readTuning() ReadTuning {
	return ReadTuning{GapBytes: o.GapBytes, RequestBytes: o.RequestBytes, Depth: o.Depth, Why: o.tuning}
}

// apply puts the figures where the planner finds them.
func (t *ReadTuning) apply(o *MacroOptions) {
	o.GapBytes, o.RequestBytes, o.Depth, o.tuning = t.GapBytes, t.RequestBytes, t.Depth, t.Why
}
