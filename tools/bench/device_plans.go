package bench

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/sampler/macro"
)

// sampler is a device plan that draws mini-batches of its own.
type sampler struct {
	recorded
	plan, name string
	cfg        config.Config
}

// recordSamplers samples the epochs of LBS and PBS, as training with them does. A plan that the run cannot be joined with is
// left out.
func (d *device) recordSamplers(ctx context.Context) (all []sampler, err error) {
	for _, plan := range []string{macro.DeviceLBS, macro.DevicePBS} {
		s := sampler{plan: plan, cfg: d.cfg}
		s.cfg.DevicePlan = plan
		if err := s.cfg.Normalize(); err != nil {
			d.o.Log(err.Error())
			continue
		}
		s.cfg.FillFeatures(d.s.Manifest()) // and the size of a group
		if plan == macro.DevicePBS {       // reads the exact hop where the store has one
			s.cfg.Absent = d.o.Train.Absent
			if err := s.cfg.Normalize(); err != nil {
				return nil, err
			}
			if _, err := planning.Complete(&s.cfg, ctx, d.s, gpu.Info{InPlace: true}); err != nil {
				return nil, err
			}
		}
		what := "batches"
		if plan == macro.DevicePBS {
			what = "partitions"
		}
		s.name = fmt.Sprintf("%s, %d %s", plan, s.cfg.DeviceMacro, what)
		d.o.Log("sampling as " + s.name)
		if s.recorded, err = d.record(ctx, &s.cfg, nil); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// plans counts what is no cache: mirrored steps, and the samplers.
func (d *device) plans(places int, g DeviceGraph) (rows []DeviceRow, err error) {
	if best, _, err := d.choose(&d.cfg, &d.recorded, places, g, macro.DeviceMirror); err != nil {
		return nil, err
	} else if best.Plan == macro.DeviceMirror {
		var sent, untaken uint64
		d.rec.CountTouched()
		for _, s := range d.rec.Steps {
			if s.First >= d.cut {
				sent, untaken = sent+s.Sent, untaken+s.Untaken
			}
		}
		rows = append(rows, DeviceRow{Policy: macro.DeviceMirror, FeatureBytes: int64(sent) * d.rowBytes, StructureBytes: d.blocks()},
			DeviceRow{Policy: "mirror, ahead of time", FeatureBytes: int64(untaken) * d.rowBytes, StructureBytes: d.blocks()})
		if drawn := (macro.DeviceCost{Plan: macro.DeviceMirror, Drawn: true}); d.draws {
			rows = append(rows, DeviceRow{Policy: drawn.Name(), FeatureBytes: int64(sent) * d.rowBytes, StructureBytes: d.rec.DrawnBytes(d.cut)})
		}
	}
	for i := range d.samplers {
		s := &d.samplers[i]
		_, o, err := d.choose(&s.cfg, &s.recorded, places, g, s.plan)
		if err != nil {
			return nil, err
		}
		p, err := cache.New(o)
		if err != nil {
			return nil, err
		}
		r, err := d.replay(s.name, p, &s.recorded, 0)
		if err != nil {
			return nil, err
		}
		r.Sampler = true
		rows = append(rows, r)
	}
	return rows, nil
}
