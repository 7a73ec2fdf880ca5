package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
		gap = fmt.Sprintf("gaps up to %s are read through", blocks.SizeText(t.GapBytes))
	}
	return fmt.Sprintf("%s, requests of %s, %d in flight (%s)", gap, blocks.SizeText(t.RequestBytes), t.Depth, t.Why)
}

// CalibrationOptions bound [Files.Calibration]. The zero value means the defaults.
type CalibrationOptions struct {
	Duration time.Duration // of a measurement, about; default 300 ms
	Refresh  bool          // measure even if figures are kept
	NoWait   bool          // never measure: kept figures or none
}

// calibrationAge is how long figures are kept: disks are replaced and fill up.
const calibrationAge = 30 * 24 * time.Hour

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
func (f *Files) Calibration(ctx context.Context, engine string, o CalibrationOptions) (blockio.Calibration, time.Time, error) {
	s, none := f.s, time.Time{}
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
	device, err := blockio.DeviceID(s.env.Dir)
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
		if _, err := os.Stat(s.env.DataPath(largest.Name)); errors.Is(err, fs.ErrNotExist) && s.env.OnDisk() {
			return r.Calibration, none, nil // it is read from elsewhere
		}
		if r.Calibration, err = blockio.Calibrate(ctx, engine, s.env.DataPath(largest.Name), blockio.CalibrateOptions{Duration: o.Duration}); err != nil {
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
