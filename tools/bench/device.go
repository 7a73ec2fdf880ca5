package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
)

// DeviceOptions say what [RunDevice] counts. The zero value of a field means its default.
type DeviceOptions struct {
	Train   train.Config
	Shares  []float64 // of the feature rows of a step, that a device keeps beside those of one batch; default .05, .1, .25, .5
	Batches int       // of each epoch, at most; 0 = all
	Epochs  int       // presampled ones, by which caches are warm and hotness is counted; default 1. The one after is measured
	Window  int       // of policy lookahead, default [cache.WindowDefault]
	Reorder int       // window of Match-Reorder; default [cache.ReorderMax]
	Log     func(string)
}

func (o *DeviceOptions) defaults() {
	if len(o.Shares) == 0 {
		o.Shares = []float64{.05, .1, .25, .5}
	}
	for _, d := range []struct {
		n *int
		v int
	}{{&o.Epochs, 1}, {&o.Window, cache.WindowDefault}, {&o.Reorder, cache.ReorderMax}} {
		if *d.n == 0 {
			*d.n = d.v
		}
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
}

// DeviceGraph is what the epoch that was measured asks for.
type DeviceGraph struct {
	Nodes     uint64  `json:"nodes"`
	Rows      uint64  `json:"rows"` // of the largest step
	RowBytes  int64   `json:"row_bytes"`
	Batches   int     `json:"batches"`
	Inputs    int64   `json:"input_rows"`
	Largest   int64   `json:"largest_batch_rows"`
	BatchRows float64 `json:"mean_batch_rows"`
	Blocks    int64   `json:"block_bytes"`
}

// DeviceRow is one policy in one room.
type DeviceRow struct {
	Share          float64 `json:"share"`
	Policy         string  `json:"policy"`
	FeatureBytes   int64   `json:"feature_bytes"`   // to the device
	StructureBytes int64   `json:"structure_bytes"` // blocks, subgraphs or adjacency lists
	HitRate        float64 `json:"hit_rate"`        // of input rows; 0 where rows are not looked up
	Seconds        float64 `json:"cpu_seconds"`     // of bookkeeping
	OfNaive        float64 `json:"of_naive"`        // all bytes
	FeaturesOf     float64 `json:"features_of_naive"`
	Sampler        bool    `json:"sampler,omitempty"` // other mini-batches than the rest: results differ
	Chosen         bool    `json:"chosen,omitempty"`  // by what the presampled epochs moved
}

// device counts one run.
type device struct {
	o        *DeviceOptions
	cfg      train.Config
	s        *store.Store
	rowBytes int64
	rec      macro.DeviceRecord
	cut      int      // the first batch that is measured
	blocks   [2]int64 // bytes of blocks before and from cut on
	work     cache.Workload
	reads    []uint32             // of lists, in the measured epoch
	large    []macro.DeviceRecord // by log2 of how many batches' seeds a large batch has
	report   func(DeviceRow)
}

// RunDevice counts the bytes that cross to a device in an epoch of node training, policy by policy and room by room: the real
// sampler on the real epoch, of which only structure is read. report is called with each row.
func RunDevice(ctx context.Context, s *store.Store, o DeviceOptions, report func(DeviceRow)) (g DeviceGraph, err error) {
	o.defaults()
	d := &device{o: &o, cfg: o.Train, s: s, report: report}
	d.cfg.Absent = train.AbsentIgnore
	d.cfg.FillFeatures(s.Manifest())
	if err := d.cfg.Normalize(); err != nil {
		return g, err
	}
	for _, name := range d.cfg.Features {
		c, err := s.Manifest().Column(name)
		if err != nil {
			return g, err
		}
		d.rowBytes += int64(c.Dim * c.Elem.Size())
	}
	if d.rowBytes == 0 {
		return g, errors.New("the store has no feature columns")
	}
	o.Log("sampling")
	if err := d.record(ctx, &d.rec, d.cfg, o.Batches, o.Epochs+1); err != nil {
		return g, err
	}
	measured := macro.DeviceRecord{Trace: cache.Trace{Rows: d.rec.Rows, Batches: d.rec.Batches[d.cut:]}}
	g = DeviceGraph{RowBytes: d.rowBytes, Batches: len(measured.Batches), Inputs: measured.Inputs(), Largest: int64(d.rec.Largest()), Blocks: d.blocks[1]}
	g.BatchRows = float64(g.Inputs) / float64(max(1, g.Batches))
	for _, p := range s.Manifest().Partitions {
		g.Nodes += uint64(p.Nodes)
	}
	for _, st := range d.rec.Steps {
		g.Rows = max(g.Rows, st.Rows)
	}
	if err := d.sampleLarge(ctx, g); err != nil {
		return g, err
	}
	for _, share := range o.Shares {
		o.Log(fmt.Sprintf("room for %.3g %% of the rows", 100*share))
		if err := d.room(ctx, share, g); err != nil {
			return g, err
		}
	}
	return g, nil
}

// record samples epochs into rec. Of the run's own batches it also counts what is read of adjacency lists.
func (d *device) record(ctx context.Context, rec *macro.DeviceRecord, cfg train.Config, batches, epochs int) (err error) {
	l, err := train.OpenLoader(ctx, d.s, cfg, train.LoaderOptions{Structure: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	own := rec == &d.rec
	for e := range epochs {
		last := e == epochs-1
		if own && last {
			d.cut, d.blocks[0] = len(rec.Batches), rec.BlockBytes
		}
		if err := l.Start(e, progress.Place{}); err != nil {
			return err
		}
		step, n := -1, 0
		for (batches == 0 || n < batches) && l.Next() {
			mb, b := l.MacroBatch(), l.Batch()
			if b.Key.Step != step {
				step = b.Key.Step
				rec.Step(mb.Rows, mb.Partitions)
			}
			rec.Batch(b.Input, train.BlockBytes(b))
			n++
			if !own {
				continue
			}
			if d.work.Visits == nil {
				d.work = cache.Workload{RowBytes: d.rowBytes, Visits: make([]uint32, mb.Rows), ListBytes: make([]uint32, mb.Rows), ListReads: make([]uint32, mb.Rows)}
				d.reads = make([]uint32, mb.Rows)
			}
			reads := d.work.ListReads
			if last {
				reads = d.reads
			} else {
				for _, r := range b.Input {
					d.work.Visits[r]++
				}
			}
			for i := range b.Blocks {
				k := &b.Blocks[i]
				for dst, r := range b.Input[:k.NumDst] {
					span := mb.In.Spans[r]
					d.work.ListBytes[r] = uint32(min(spanBytes+4*(span.End-span.Begin), 1<<31))
					reads[r] += uint32(spanBytes + 4*(k.Indptr[dst+1]-k.Indptr[dst]))
				}
			}
		}
		if err := l.Err(); err != nil {
			return err
		}
	}
	if own {
		d.blocks[1] = rec.BlockBytes - d.blocks[0]
	}
	return nil
}

const spanBytes = 16 // where a node's list begins and ends

// sampleLarge samples an epoch in large batches of 2, 4, 8, … mini-batches' seeds, until one exceeds every room.
func (d *device) sampleLarge(ctx context.Context, g DeviceGraph) error {
	most := int64(slices.Max(d.o.Shares)*float64(g.Rows)) + g.Largest
	for k := 2; k <= g.Batches; k *= 2 {
		d.o.Log(fmt.Sprintf("sampling in batches of %d seeds", k*d.cfg.BatchSize))
		cfg, rec := d.cfg, macro.DeviceRecord{}
		cfg.BatchSize *= k
		if err := d.record(ctx, &rec, cfg, g.Batches/k, 1); err != nil {
			return err
		}
		if int64(rec.Largest()) > most {
			break
		}
		rec.BlockBytes = rec.BlockBytes * int64(g.Batches) / int64(g.Batches/k*k)
		d.large = append(d.large, rec)
	}
	return nil
}

// room counts all policies in one room.
func (d *device) room(ctx context.Context, share float64, g DeviceGraph) error {
	places := int(share * float64(g.Rows))
	if uint64(places)+uint64(g.Largest) >= g.Rows { // all rows of a step have a place, those of a batch too
		places = int(g.Rows)
	}
	naive := DeviceRow{Policy: "naive", FeatureBytes: g.Inputs * d.rowBytes, StructureBytes: g.Blocks}
	var rows []DeviceRow
	add := func(r DeviceRow) { rows = append(rows, r) }
	add(naive)
	policy := cache.Options{Rows: d.rec.Rows, Places: places, Batch: int(g.Largest), Window: d.o.Window}
	for _, name := range []string{cache.NameTracker, cache.NameLookahead} {
		policy.Policy = name
		p, err := cache.New(policy)
		if err != nil {
			return err
		}
		r, err := d.replay(name, p, &d.rec.Trace, 0)
		if err != nil {
			return err
		}
		add(r)
	}
	reordered, spent, err := d.reordered()
	if err != nil {
		return err
	}
	for _, name := range []string{cache.NameTracker, cache.NameLookahead} {
		policy.Policy = name
		p, err := cache.New(policy)
		if err != nil {
			return err
		}
		r, err := d.replay(name+" + reorder", p, reordered, spent)
		if err != nil {
			return err
		}
		add(r)
	}
	fixed := len(d.rec.Drops) == 0 // a row is one node: rows can be hot for the run
	for _, static := range []struct {
		name    string
		batches [][]uint32
	}{{"presc", d.rec.Batches[:d.cut]}, {"static optimum", d.rec.Batches[d.cut:]}} {
		if !fixed {
			continue
		}
		r, err := d.static(static.name, static.batches, policy)
		if err != nil {
			return err
		}
		add(r)
	}
	oracle, err := cache.NewOracle(&d.rec.Trace, places)
	if err != nil {
		return err
	}
	r, err := d.replay("oracle", oracle, &d.rec.Trace, 0)
	if err != nil {
		return err
	}
	add(r)
	if fixed {
		add(d.dual("features only, lists read", int64(places)*d.rowBytes, false))
		add(d.dual("dual cache", int64(places)*d.rowBytes, true))
	}
	more, err := d.plans(ctx, places, g)
	if err != nil {
		return err
	}
	rows = append(rows, more...)
	chosen, err := d.choose(places, g)
	if err != nil {
		return err
	}
	all := float64(naive.FeatureBytes + naive.StructureBytes)
	for _, r := range rows {
		r.Share, r.Chosen = share, r.Policy == chosen
		r.OfNaive = float64(r.FeatureBytes+r.StructureBytes) / all
		r.FeaturesOf = float64(r.FeatureBytes) / float64(naive.FeatureBytes)
		d.report(r)
	}
	return nil
}

// choose picks a plan by the presampled epochs, as training does.
func (d *device) choose(places int, g DeviceGraph) (string, error) {
	steps := slices.Clone(d.rec.Steps)
	for len(steps) > 1 && steps[len(steps)-1].First >= d.cut {
		steps = steps[:len(steps)-1]
	}
	known := macro.DeviceRecord{Trace: cache.Trace{Rows: d.rec.Rows, Batches: d.rec.Batches[:d.cut]}, BlockBytes: d.blocks[0], Steps: steps}
	for _, drop := range d.rec.Drops {
		if drop.Before < d.cut {
			known.Drops = append(known.Drops, drop)
		}
	}
	costs, err := known.Costs(macro.DeviceOptions{RowBytes: d.rowBytes, Rows: int64(places) + known.BatchRows(), StepRows: int64(g.Rows), Window: d.o.Window})
	if err != nil {
		return "", err
	}
	best, _ := macro.ChooseDevice(costs)
	if best.Plan == macro.DeviceMirror {
		return macro.DeviceMirror, nil
	}
	return best.Policy, nil
}

// replay measures a policy, which it closes, that the presampled epochs have warmed.
func (d *device) replay(name string, p cache.Policy, t *cache.Trace, spent float64) (DeviceRow, error) {
	defer p.Close() //nolint:errcheck // memory only
	var before cache.Stats
	began := usage.CPUSeconds()
	_, err := t.Replay(p, func(i int, _ *cache.Transfer) {
		if i == d.cut-1 {
			before, began = p.Stats(), usage.CPUSeconds()
		}
	})
	stats := p.Stats().Sub(before)
	return DeviceRow{Policy: name, FeatureBytes: stats.BytesMoved(d.rowBytes), StructureBytes: d.blocks[1], HitRate: stats.HitRate(), Seconds: usage.CPUSeconds() - began + spent}, err
}

// reordered is the trace with each window of batches in the order of Match-Reorder, and the time of that for the measured epoch.
func (d *device) reordered() (*cache.Trace, float64, error) {
	o, err := cache.NewReorder(d.rec.Rows)
	if err != nil {
		return nil, 0, err
	}
	defer o.Close() //nolint:errcheck // memory only
	t := d.rec.Trace
	t.Batches = slices.Clone(t.Batches)
	spent := 0.0
	for k, s := range d.rec.Steps { // a window lies within a step
		end := len(t.Batches)
		if k+1 < len(d.rec.Steps) {
			end = d.rec.Steps[k+1].First
		}
		for first := s.First; first < end; first += d.o.Reorder {
			window := d.rec.Batches[first:min(end, first+d.o.Reorder)]
			began := usage.CPUSeconds()
			order, err := o.Order(window)
			if err != nil {
				return nil, 0, err
			}
			if first >= d.cut {
				spent += usage.CPUSeconds() - began
			}
			for i, j := range order {
				t.Batches[first+i] = window[j]
			}
		}
	}
	return &t, spent, nil
}

// static keeps the rows that some batches visit most, for the whole measured epoch.
func (d *device) static(name string, batches [][]uint32, o cache.Options) (DeviceRow, error) {
	h, err := cache.NewHotness(o.Rows)
	if err != nil {
		return DeviceRow{}, err
	}
	defer h.Close() //nolint:errcheck // memory only
	for _, b := range batches {
		h.Observe(b)
	}
	p, err := cache.NewTracker(o)
	if err != nil {
		return DeviceRow{}, err
	}
	var tr cache.Transfer
	if err := p.Pin(h.Hottest(o.Places), &tr); err != nil {
		return DeviceRow{}, errors.Join(err, p.Close())
	}
	return d.replay(name, p, &d.rec.Trace, 0)
}

// dual is a run that samples on the device: features and lists that it has not are read from the host.
func (d *device) dual(name string, room int64, lists bool) DeviceRow {
	w := d.work
	if !lists {
		w.ListBytes, w.ListReads = nil, nil
	}
	began := usage.CPUSeconds()
	division := cache.Divide(room, w)
	r := DeviceRow{Policy: name, Seconds: usage.CPUSeconds() - began}
	kept, listed := make([]bool, d.rec.Rows), make([]bool, d.rec.Rows)
	for _, row := range division.Features {
		kept[row] = true
	}
	for _, row := range division.Lists {
		listed[row] = true
	}
	hits, all := 0, 0
	for _, b := range d.rec.Batches[d.cut:] {
		for _, row := range b {
			if kept[row] {
				hits++
			}
		}
		all += len(b)
	}
	for row, n := range d.reads {
		if !listed[row] {
			r.StructureBytes += int64(n)
		}
	}
	r.FeatureBytes, r.HitRate = int64(all-hits)*d.rowBytes, float64(hits)/float64(max(1, all))
	return r
}
