package bench

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/sampler/macro"
)

// links counts a run of link prediction: rows are embeddings with their state, which batches change and which go back, and features.
func (d *device) links(ctx context.Context) (g DeviceGraph, err error) {
	c := *d.o.Link
	if err := c.Normalize(); err != nil {
		return g, err
	}
	if d.rowBytes, d.back, err = c.RowBytes(d.s.Manifest()); err != nil {
		return g, err
	}
	d.o.Log("sampling")
	if d.rec, d.cut, err = c.RecordDevice(ctx, d.s, gpu.Info{}, d.o.Epochs+1, d.o.Batches); err != nil {
		return g, err
	}
	g = d.graph()
	for _, share := range d.o.Shares {
		d.o.Log(fmt.Sprintf("room for %.3g %% of the rows", 100*share))
		if err := d.linkRoom(share, g); err != nil {
			return g, err
		}
	}
	return g, nil
}

// linkRoom counts the policies of links in one room.
func (d *device) linkRoom(share float64, g DeviceGraph) error {
	places := g.places(share)
	rows := []DeviceRow{{Policy: "naive", FeatureBytes: g.Inputs * d.rowBytes, BackBytes: g.Inputs * d.back, StructureBytes: g.Blocks}}
	known := d.known()
	costs, err := known.Costs(macro.DeviceOptions{RowBytes: d.rowBytes, BackBytes: d.back, Rows: int64(places) + g.Largest, StepRows: int64(g.Rows), BatchRows: g.Largest, Window: d.o.Window})
	if err != nil {
		return err
	}
	best, _ := macro.ChooseDevice(costs)
	o := cache.Options{Rows: d.rec.Rows, Places: places, Batch: int(g.Largest), Window: cmp.Or(d.o.Window, best.Window), Written: d.back > 0}
	for _, name := range []string{cache.NameTracker, cache.NameLookahead, "oracle"} {
		var p cache.Policy
		var err error
		if o.Policy = name; name != "oracle" {
			p, err = cache.New(o)
		} else if p, err = cache.NewOracle(&d.rec.Trace, places); err == nil && o.Written {
			p, err = cache.Written(p, o)
		}
		if err != nil {
			return err
		}
		r, err := d.replay(name, p, &d.recorded, 0)
		if err != nil {
			return err
		}
		rows = append(rows, r.knows(o))
	}
	d.tell(rows, share, best.Policy)
	return nil
}
