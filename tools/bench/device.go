package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// DeviceOptions say what [RunDevice] counts. The zero value of a field means its default.
type DeviceOptions struct {
	Train   config.Config
	Link    *link.Config // edges are trained, of a store of links, and not Train's nodes; nil: nodes
	Shares  []float64    // of the feature rows of a step, that a device keeps beside those of one batch; default .05, .1, .25, .5
	Batches int          // of each epoch, at most; 0 = all
	Epochs  int          // presampled ones, by which caches are warm and hotness is counted; default 1. The one after is measured
	Window  int          // of policy lookahead; 0 = what training would take
	Reorder int          // window of Match-Reorder; default [cache.ReorderMax]
	Log     func(string)
}

func (o *DeviceOptions) defaults() {
	if len(o.Shares) == 0 {
		o.Shares = []float64{.05, .1, .25, .5}
	}
	for _, d := range []struct {
		n *int
		v int
	}{{&o.Epochs, 1}, {&o.Reorder, cache.ReorderMax}} {
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
	Window         int     `json:"window,omitempty"`     // of lookahead: batches that it knows
	FeatureBytes   int64   `json:"feature_bytes"`        // to the device; of links embeddings and their state too
	BackBytes      int64   `json:"back_bytes,omitempty"` // from it: rows that batches change
	StructureBytes int64   `json:"structure_bytes"`      // blocks, subgraphs or adjacency lists
	HitRate        float64 `json:"hit_rate"`             // of input rows; 0 where rows are not looked up
	Seconds        float64 `json:"cpu_seconds"`          // of bookkeeping
	OfNaive        float64 `json:"of_naive"`             // all bytes
	FeaturesOf     float64 `json:"features_of_naive"`
	Sampler        bool    `json:"sampler,omitempty"` // other mini-batches than the rest: results differ
	Chosen         bool    `json:"chosen,omitempty"`  // by what the presampled epochs moved
}

// device counts one run.
type device struct {
	o   *DeviceOptions
	cfg config.Config
	s   *store.Store
	recorded
	work     cache.Workload
	reads    []uint32  // of lists, in the measured epoch
	samplers []sampler // device plans that draw mini-batches of their own
	draws    bool      // the device can draw mini-batches
	report   func(DeviceRow)
}

// recorded is a run's presampled epochs, and the one that is measured.
type recorded struct {
	rec      macro.DeviceRecord
	cut      int   // the first batch that is measured
	rowBytes int64 // of a node's features, those that the run reads; of links of all its rows
	back     int64 // of them those that batches change
}

// known is what was presampled.
func (r *recorded) known() macro.DeviceRecord { return r.rec.Until(r.cut) }

// blocks is what the blocks of the measured epoch take.
func (r *recorded) blocks() int64 { return r.rec.BlockBytes(r.cut) }

// RunDevice counts the bytes that cross to a device in an epoch of training, policy by policy and room by room: the real
// sampler on the real epoch, of which only structure is read. report is called with each row.
func RunDevice(ctx context.Context, s *store.Store, o DeviceOptions, report func(DeviceRow)) (g DeviceGraph, err error) {
	o.defaults()
	d := &device{o: &o, cfg: o.Train, s: s, report: report}
	if o.Link != nil {
		return d.links(ctx)
	}
	d.cfg.Absent = config.AbsentIgnore
	d.cfg.FillFeatures(s.Manifest())
	if err := d.cfg.Normalize(); err != nil {
		return g, err
	}
	o.Log("sampling")
	if d.recorded, err = d.record(ctx, &d.cfg, d.count); err != nil {
		return g, err
	}
	d.work.RowBytes = d.rowBytes
	g = d.graph()
	undrawn, err := ondevice.Undrawn(&d.cfg, s.Manifest())
	if err != nil {
		return g, err
	}
	d.draws = undrawn == ""
	if d.samplers, err = d.recordSamplers(ctx); err != nil {
		return g, err
	}
	for _, share := range o.Shares {
		o.Log(fmt.Sprintf("room for %.3g %% of the rows", 100*share))
		if err := d.room(share, g); err != nil {
			return g, err
		}
	}
	return g, nil
}

// graph is what the measured epoch asks for.
func (d *device) graph() (g DeviceGraph) {
	measured := macro.DeviceRecord{Trace: cache.Trace{Rows: d.rec.Rows, Batches: d.rec.Batches[d.cut:]}}
	g = DeviceGraph{RowBytes: d.rowBytes, Batches: len(measured.Batches), Inputs: measured.Inputs(), Largest: int64(d.rec.Largest()), Blocks: d.blocks()}
	g.BatchRows = float64(g.Inputs) / float64(max(1, g.Batches))
	for _, p := range d.s.Manifest().Partitions {
		g.Nodes += uint64(p.Nodes)
	}
	for _, st := range d.rec.Steps {
		g.Rows = max(g.Rows, st.Rows)
	}
	return g
}

// record samples the presampled epochs of a run and the one that is measured. each, if not nil, is told of every batch of both, last of
// those of the latter.
func (d *device) record(ctx context.Context, cfg *config.Config, each func(last bool, mb *buffer.MacroBatch, b *mini.Batch)) (r recorded, err error) {
	for _, name := range cfg.Features {
		c, err := d.s.Manifest().Column(name)
		if err != nil {
			return r, err
		}
		r.rowBytes += int64(c.Dim * c.Elem.Size())
	}
	if r.rowBytes == 0 {
		return r, errors.New("the store has no feature columns")
	}
	n := 0
	r.rec, err = ondevice.Record(cfg, ctx, d.s, ondevice.RecordOptions{Epochs: d.o.Epochs + 1, Batches: d.o.Batches, Each: func(epoch int, mb *buffer.MacroBatch, b *mini.Batch) {
		last := epoch == d.o.Epochs
		if !last {
			r.cut = n + 1
		}
		n++
		if each != nil {
			each(last, mb, b)
		}
	}})
	return r, err
}

// count counts what a batch reads of rows and adjacency lists.
func (d *device) count(last bool, mb *buffer.MacroBatch, b *mini.Batch) {
	if d.work.Visits == nil {
		d.work = cache.Workload{Visits: make([]uint32, mb.Rows), ListBytes: make([]uint32, mb.Rows), ListReads: make([]uint32, mb.Rows)}
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

const spanBytes = 16 // where a node's list begins and ends

// places are those of a room.
func (g *DeviceGraph) places(share float64) int {
	places := int(share * float64(g.Rows))
	if uint64(places)+uint64(g.Largest) >= g.Rows { // all rows of a step have a place, those of a batch too
		places = int(g.Rows)
	}
	return places
}

// room counts all policies in one room.
func (d *device) room(share float64, g DeviceGraph) error {
	places := g.places(share)
	naive := DeviceRow{Policy: "naive", FeatureBytes: g.Inputs * d.rowBytes, StructureBytes: g.Blocks}
	var rows []DeviceRow
	add := func(r DeviceRow) { rows = append(rows, r) }
	add(naive)
	best, options, err := d.choose(&d.cfg, &d.recorded, places, g, "")
	if err != nil {
		return err
	}
	policy := cache.Options{Rows: d.rec.Rows, Places: places, Batch: int(g.Largest), Window: cmp.Or(d.o.Window, options.Window)}
	names := []string{cache.NameTracker, cache.NameLookahead}
	fixed := len(d.rec.Drops) == 0 // a row is one node: rows can be hot for the run
	if fixed {
		names = append(names, cache.NamePreSC)
		policy.Hot = cache.Hottest(d.work.Visits, places)
	}
	for _, name := range names {
		policy.Policy = name
		p, err := cache.New(policy)
		if err != nil {
			return err
		}
		r, err := d.replay(name, p, &d.recorded, 0)
		if err != nil {
			return err
		}
		add(r.knows(policy))
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
		r, err := d.replay(name+" + reorder", p, &recorded{rec: *reordered, cut: d.cut, rowBytes: d.rowBytes}, spent)
		if err != nil {
			return err
		}
		add(r.knows(policy))
	}
	if fixed {
		r, err := d.staticOptimum(policy)
		if err != nil {
			return err
		}
		add(r)
	}
	oracle, err := cache.NewOracle(&d.rec.Trace, places)
	if err != nil {
		return err
	}
	r, err := d.replay("oracle", oracle, &d.recorded, 0)
	if err != nil {
		return err
	}
	add(r)
	if fixed {
		add(d.dual("features only, lists read", int64(places)*d.rowBytes, false))
		add(d.dual("dual cache", int64(places)*d.rowBytes, true))
	}
	more, err := d.plans(places, g)
	if err != nil {
		return err
	}
	rows = append(rows, more...)
	chosen := best.Policy // mirror's is its name
	if best.Drawn {
		chosen = best.Name()
	}
	d.tell(rows, share, chosen)
	return nil
}

// knows is r with the window of its policy.
func (r DeviceRow) knows(o cache.Options) DeviceRow {
	if o.Policy == cache.NameLookahead {
		r.Window = cmp.Or(o.Window, cache.WindowDefault)
	}
	return r
}

// tell reports the rows of a room, of which the first is naive.
func (d *device) tell(rows []DeviceRow, share float64, chosen string) {
	moved := func(r *DeviceRow) float64 { return float64(r.FeatureBytes + r.BackBytes) }
	naive := &rows[0]
	for _, r := range rows {
		r.Share, r.Chosen = share, r.Policy == chosen
		r.OfNaive = (moved(&r) + float64(r.StructureBytes)) / (moved(naive) + float64(naive.StructureBytes))
		r.FeaturesOf = moved(&r) / moved(naive)
		d.report(r)
	}
}

// choose picks, as training does, what moves least of the presampled epochs of a run of cfg: of device plan only, if that is not
// "". The options are those of its policy, and empty where the plan has no room. places are of the bench's rows: a run that reads
// wider ones has fewer.
func (d *device) choose(cfg *config.Config, r *recorded, places int, g DeviceGraph, only string) (best macro.DeviceCost, o cache.Options, err error) {
	known := r.known()
	options := macro.DeviceOptions{RowBytes: r.rowBytes, Rows: int64(places)*d.rowBytes/r.rowBytes + known.BatchRows(), MirrorRows: ondevice.MirrorRows(cfg, d.s.Manifest()), StepRows: int64(g.Rows), Window: d.o.Window, Plan: only}
	if d.draws { // neighbour lists lie beside the room, as blocks do
		options.DrawnRows = options.Rows
	}
	costs, err := known.Costs(options)
	if err != nil || len(costs) == 0 {
		return best, o, err
	}
	best, _ = macro.ChooseDevice(costs)
	options.Window = best.Window
	if best.Plan != macro.DeviceMirror {
		o = options.CachePolicy(best.Policy, r.rec.Rows, known.BatchRows())
	}
	return best, o, nil
}

// replay measures a policy, which it closes, that the presampled epochs have warmed.
func (d *device) replay(name string, p cache.Policy, run *recorded, spent float64) (DeviceRow, error) {
	defer p.Close() //nolint:errcheck // memory only
	var before cache.Stats
	began := usage.CPUSeconds()
	_, err := run.rec.Replay(p, func(i int, _ *cache.Transfer) {
		if i == run.cut-1 {
			before, began = p.Stats(), usage.CPUSeconds()
		}
	})
	stats := p.Stats().Sub(before)
	return DeviceRow{Policy: name, FeatureBytes: stats.BytesMoved(run.rowBytes), BackBytes: stats.BytesReturned(run.back), StructureBytes: run.blocks(), HitRate: stats.HitRate(), Seconds: usage.CPUSeconds() - began + spent}, err
}

// reordered is the trace with each window of batches in the order of Match-Reorder, and the time of that for the measured epoch.
func (d *device) reordered() (*macro.DeviceRecord, float64, error) {
	o, err := cache.NewReorder(d.rec.Rows)
	if err != nil {
		return nil, 0, err
	}
	defer o.Close() //nolint:errcheck // memory only
	t := d.rec
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

// staticOptimum keeps the rows that the measured epoch visits most, which are there from the beginning.
func (d *device) staticOptimum(o cache.Options) (DeviceRow, error) {
	h, err := cache.NewHotness(o.Rows)
	if err != nil {
		return DeviceRow{}, err
	}
	defer h.Close() //nolint:errcheck // memory only
	for _, b := range d.rec.Batches[d.cut:] {
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
	return d.replay("static optimum", p, &d.recorded, 0)
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
