package planning

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/rows"
)

// rowsOptions are those of plan rows, from those of a partition buffer.
func rowsOptions(c *config.Config, m *store.Manifest, o buffer.Options, t *macro.RowsTuning) rows.Options {
	o.Capacity, o.Pinned = 0, nil
	most := rows.Options{Options: o, BatchRows: int(inputsMost(c, m)), KindRows: t.KindRows, Packed: t.Packed, EpochBatches: t.EpochBatches, EpochRows: t.EpochRows}
	if t.BatchRows > 0 {
		most.BatchRows = min(most.BatchRows, t.BatchRows)
	}
	return most
}

// inputsMost is the most input rows of a mini-batch: every neighbour that may be drawn is, and all are different.
func inputsMost(c *config.Config, m *store.Manifest) int64 {
	nodes, edges := int64(m.Nodes), c.DrawnFrom(c.StoredEdges(m))
	n := min(int64(c.BatchSize), nodes)
	relations, _ := c.RelationSampling(m) // whose error is OpenMemory's
	for _, fanout := range c.FanoutsMost(relations) {
		e := edges
		if drawn := int64(fanout) * c.Directions(m); fanout >= 0 && n <= edges/max(1, drawn) {
			e = n * drawn
		}
		n = min(nodes, n+e)
	}
	return max(n, 1)
}

// Figures by which a device is judged that is not measured, as of stores that are not worth it: gaps of 64 KiB are read through.
const (
	unmeasuredRate    = 1e9
	unmeasuredRequest = float64(64<<10) / unmeasuredRate
)

// What training takes, as by gpu/nn's choice of products: nanoseconds a floating-point operation, a row of features, and a byte of it.
const (
	nsFlop = 1 / 90.
	nsRow  = 20
	nsByte = .047
)

// rowsPatience is how many times as long as a plan over partitions plan rows may read, where that takes longer than training: it has all
// neighbours, and partitions need more epochs for less (docs/lab/findings.md, "What a step holds").
const rowsPatience = 2

// lossyPatience is rowsPatience where a plan over partitions is expected to lose presentPoints of accuracy or more, and lossyTraining how
// many times as long as training takes reading may then take: partitions need more epochs for less. Of a small graph reading takes
// lossySeconds an epoch or less, which is no matter.
const (
	lossyPatience = 4
	lossyTraining = 2
	lossySeconds  = 3
)

// unread reports whether err is the disk's: not that a budget is too small, or that the store has not what the plan needs.
func unread(err error) bool {
	return err != nil && !errors.Is(err, store.ErrBudget) && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrInvalid)
}

// held reports whether plan rows holds what mini-batches are made of.
func held(c *config.Config) bool {
	// Such samplers read lists of neighbours, and weights; labor nodes' keys.
	known := slices.Contains([]string{"", mini.Uniform, mini.Weighted, mini.Dense, mini.Pinsage}, c.Sampler)
	return known && len(c.EdgeFeatures) == 0 && len(c.VectorTypes) == 0 && c.Group == 0 && !c.Stages()
}

// RowsTuning says of plan rows what macro.Choose asks, for a run within a budget (0: none); nil where the plan is not for the run.
func (y *Memory) RowsTuning(memory int64) (*macro.RowsTuning, error) {
	c := y.Cfg
	c.MemoryBytes = memory
	if y.Bare || !held(&c) || c.History || len(c.Features) == 0 || c.Sparse != nil {
		return nil, nil
	}
	r := &macro.RowsTuning{}
	if y.batch != nil {
		var inputs int
		if inputs, r.KindRows = y.batch.inputs(y.M); y.batch.Sampled != nil {
			r.BatchRows = inputs
		}
	}
	o := rowsOptions(&c, y.M, c.MacroOptions(y.M), r)
	if memory > 0 {
		o.MemoryBytes = max(1, o.MemoryBytes-y.BesideBytes(memory)(0))
	}
	z, err := rows.Measure(y.store, o)
	if unread(err) {
		return nil, err
	}
	if z.LeastBytes == 0 || z.RowBytes == 0 {
		return nil, nil // a store without splits: what is wrong is said elsewhere
	}
	e := y.estimateRows(&z)
	r.EpochBatches, r.EpochRows = int(e.batches), int(e.batches*e.batchRows*packMargin)
	o = rowsOptions(&c, y.M, o.Options, r)
	o.Packed = true
	packed, packErr := rows.Measure(y.store, o)
	if unread(packErr) {
		return nil, packErr
	}
	seconds := e.packedSeconds(&packed)
	switch c.RowReads {
	case config.RowsPacked:
		r.Packed = true
	case config.RowsCached:
	default:
		r.Packed = packErr == nil && (err != nil || seconds < e.readSeconds) && buffer.EngineOf(y.store) == nil
	}
	if r.Packed {
		z, err = packed, packErr
		e.readSeconds = seconds
	}
	if r.LeastBytes = z.LeastBytes; err != nil { // too small; LeastBytes says what would do
		return r, nil
	}
	partitions, training := float64(rowsPatience), 1.
	least := 0.
	if c.Lossy {
		partitions, training, least = lossyPatience, lossyTraining, lossySeconds
	}
	r.Prefer = e.readSeconds <= max(training*e.trainSeconds, partitions*e.partitionSeconds, least)
	r.Why = fmt.Sprintf("rows as they are used: about %.3g s of reading an epoch, some %.0f rows a mini-batch; training takes about %.3g s, partitions are read in %.3g s",
		e.readSeconds, e.batchRows, e.trainSeconds, e.partitionSeconds)
	return r, nil
}

// RowsForecast is what a run by plan rows holds and reads.
type RowsForecast struct {
	rows.Sizes
	Epochs []buffer.EpochForecast // Loads are rows
	Used   []int64                // rows that mini-batches use, by epoch
}

// ForecastRows samples the first epochs of a run by plan rows, of at most limit epochs (0: [run.EpochsMax]), as it will, and counts what it
// will read. It reads the graph, no features. o are the run's macro-batches'.
func ForecastRows(c *config.Config, ctx context.Context, st *store.Store, o buffer.Options, t *macro.RowsTuning, epochs, limit int) (_ *RowsForecast, err error) {
	ro := rowsOptions(c, st.Manifest(), o, t)
	ro.Forecast = true
	r, err := rows.Open(ctx, st, ro)
	if err != nil {
		return nil, fmt.Errorf("train: plan rows: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	f, err := feed.NewFeeder(c, st.Manifest(), r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if limit == 0 {
		limit = run.EpochsMax
	}
	f.Until = epochs // what is known beyond decides what is kept
	if err := f.Sample(ctx, r.MacroBatch(), 0, 0, limit); err != nil {
		return nil, err
	}
	out := &RowsForecast{Sizes: r.Sizes()}
	for e := range epochs {
		t := r.Forecast(e)
		out.Epochs = append(out.Epochs, buffer.EpochForecast{Steps: []buffer.StepForecast{t}, Total: t})
		out.Used = append(out.Used, r.Used(e))
	}
	return out, ctx.Err()
}

// packMargin is how much more rows than estimated a window of an epoch has room for.
const packMargin = 1.25

// Names of [config.Config.RowReads].
const ()

// rowsEstimate is of an epoch of plan rows.
type rowsEstimate struct {
	batches          float64
	batchRows        float64 // different input rows of a mini-batch
	readSeconds      float64 // of the device
	trainSeconds     float64 // of the processors, sampling included
	partitionSeconds float64 // of the device, to read all features once
	rowSeconds       float64 // of the device, to move one row among many
}

// packedSeconds is readSeconds where rows are packed: all features are read for each window, and every row is written and read.
func (e *rowsEstimate) packedSeconds(z *rows.Sizes) float64 {
	sweeps := math.Ceil(e.batches / float64(max(1, z.PackBatches)))
	return sweeps*e.partitionSeconds + 2*e.batches*e.batchRows*e.rowSeconds
}

// estimateRows goes by the mean degree, as if neighbours were drawn alike from all nodes: skewed ones are found in the cache more
// often. gstore plan counts exactly.
func (y *Memory) estimateRows(z *rows.Sizes) (e rowsEstimate) {
	c, nodes := &y.Cfg, float64(max(1, y.M.Nodes))
	degree := float64(c.StoredEdges(y.M)) / nodes
	train := y.nodes()
	batches := math.Ceil(float64(train) / float64(c.BatchSize))
	distinct := func(drawn float64) float64 { return nodes * -math.Expm1(-drawn/nodes) }
	n := min(float64(c.BatchSize), float64(train))
	width, rowBytes := float64(y.Shape.In), float64(z.AllBytes)/nodes
	ns := 0.
	for _, fanout := range c.FanoutsMost(y.Shape.Sampling) {
		draws := degree
		if c.Sampler == mini.Pinsage {
			draws = float64(fanout)
		} else if fanout >= 0 {
			draws = min(draws, float64(fanout)*float64(c.Directions(y.M)))
		}
		edges := n * draws
		ns += edges*(nsRow+nsByte*rowBytes) + 3*n*2*2*width*float64(c.Hidden)*nsFlop // forward and backward, of a node and its mean
		n = distinct(n + edges)
	}
	if c.PrecomputedHop && !c.Relational() { // the first layer draws nothing: it multiplies rows, whose gradient nobody needs
		ns += 2 * n * 2 * width * float64(c.Hidden) * nsFlop
	}
	e.batchRows = n
	e.batches = batches
	e.trainSeconds = batches * ns * 1e-9 / float64(max(1, c.Threads))
	rate, request := unmeasuredRate, unmeasuredRequest
	if y.device.Measured {
		rate, request = y.device.BytesPerSecond, y.device.RequestCost.Seconds()
	}
	all := float64(z.AllBytes) / rate
	e.partitionSeconds, e.rowSeconds = all, rowBytes/rate
	missing := n * (1 - float64(z.Slots)/nodes)
	e.readSeconds = batches * min(all, missing*(request+rowBytes/rate))
	return e
}

// device is what is known of the store's device, without measuring it.
func knownDevice(ctx context.Context, st *store.Store, engine string) blockio.Calibration {
	c, _, err := st.Files().Calibration(ctx, engine, store.CalibrationOptions{NoWait: true})
	if err != nil {
		return blockio.Calibration{}
	}
	return c
}
