package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/store"
)

// Compute is what training some steps of an epoch took with nothing being read or written meanwhile.
type Compute struct {
	Seconds float64 // of the steps
	Queries int64   // that they trained
	Steps   int
}

// MeasureCompute goes on from the last checkpoint of a run and trains every stride-th step of its next
// epoch, each once it is wholly in memory and with no step after it to be read. It is for benchmarks:
// what was trained is dropped, the checkpoint stays.
func MeasureCompute(ctx context.Context, st *store.Store, dev gpu.Device, cfg Config, stride int) (c Compute, err error) {
	s := &session{cfg: &cfg, st: st}
	var model []byte
	if s.table, s.from, model, err = resumeTable(ctx, st, &cfg); err != nil {
		return c, err
	}
	if s.table == nil {
		return c, fmt.Errorf("train: %w: table %s", store.ErrNotFound, cfg.Table)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.prepare(ctx, dev, false); err != nil {
		return c, err
	}
	if err := s.open(ctx, dev, model); err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, s.closeRun()) }()
	// The next epoch's plan; its number only decides draws and the learning rate, which is that of an epoch of the run.
	plan, epoch := s.plan.Policy.Epoch(s.from.Epoch), min(s.from.Epoch, cfg.Epochs-1)
	for k := 0; k < len(plan.Steps); k += max(1, stride) {
		upto := plan
		upto.Steps = plan.Steps[:k+1]
		if err := s.it.StartAt(upto, k); err != nil {
			return c, err
		}
		if !s.it.Next() {
			return c, s.it.Err()
		}
		if err := s.embed(s.it.MacroBatch()); err != nil {
			return c, err
		}
		start := time.Now()
		var sum progress.Counts
		b, err := s.t.enter(ctx, epoch, s.it.MacroBatch(), s.e, progress.Place{}, 0)
		if err == nil {
			err = run.Step(ctx, b, &sum, func(progress.Place) error { return nil })
		}
		if err != nil {
			return c, err
		}
		c.Seconds += time.Since(start).Seconds()
		c.Queries += sum.Examples
		c.Steps++
	}
	return c, nil
}
