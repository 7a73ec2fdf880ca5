package recipe

import (
	"context"
	"errors"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/device"
)

// Refused is how training the store in dir by its defaults within memory bytes would be refused, [store.ErrBudget] with the smallest that
// works; nil where it would not be, or where there is nothing to train.
func Refused(ctx context.Context, dir string, memory int64) error {
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return nil // who trains will say so
	}
	info, err := device.Unasked()
	if err == nil {
		err = decide(ctx, s, info, memory)
	}
	if err = errors.Join(err, s.Close()); errors.Is(err, store.ErrBudget) {
		return err
	}
	return nil
}

// decide decides how training would run, as far as to know whether it does.
func decide(ctx context.Context, s *store.Store, info gpu.Info, memory int64) error {
	m := s.Manifest()
	switch labels := m.Labels(); {
	case m.Task() == store.TaskLink && len(m.EdgeLists) > 0:
		c := link.Config{MemoryBytes: memory}
		if err := c.Normalize(); err != nil {
			return err
		}
		d, err := link.Decide(ctx, s, info, c)
		if err != nil {
			return err
		}
		return d.Close()
	case m.Task() == store.TaskNode && labels != nil && len(m.ColumnsOf(store.RoleSplit)) > 0:
		c, err := unasked(m, memory)
		if err != nil {
			return err
		}
		d, err := planning.Decide(ctx, s, info, c)
		if err != nil {
			return err
		}
		return d.Close()
	}
	return nil
}

// unasked is how training of nodes is configured by its defaults.
func unasked(m *store.Manifest, memory int64) (config.Config, error) {
	c := config.Config{Model: config.ModelAuto, MemoryBytes: memory}
	_ = c.Fit(m) // why is for a run's people
	return c, c.Normalize()
}
