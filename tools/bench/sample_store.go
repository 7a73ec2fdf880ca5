package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu/host/kernels"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/loader"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// SampleRound is what a round of [SampleStore] measured.
type SampleRound struct {
	Batches      int     `json:"batches"`
	SampledEdges int64   `json:"sampled_edges"`
	Inputs       int64   `json:"inputs"`    // different nodes of each batch, together
	RowBytes     int64   `json:"row_bytes"` // of their gathered features; 0 without o.Rows
	Seconds      float64 `json:"seconds"`
	CPUSeconds   float64 `json:"cpu_seconds"`
}

// SampleStore measures uniform sampling as training does it, on the given threads and ahead of who takes the batches: those
// of the store's training nodes, all of the graph in memory. With o.Rows each batch's rows of all features are gathered next to
// each other on these threads, as the Python package's loader does, otherwise there are no features. It reports o.Rounds rounds
// of o.Batches batches, after one to warm up, and goes through as many epochs as they take.
func SampleStore(ctx context.Context, s *store.Store, threads int, o SampleOptions, report func(SampleRound)) (err error) {
	cfg := config.Config{Fanouts: o.Fanouts, BatchSize: o.BatchSize, Plan: "memory", Threads: threads, Seed: o.Seed}
	lo := loader.Options{Structure: !o.Rows}
	if o.Rows {
		lo.Finish = gatherRows
	}
	l, err := loader.Open(ctx, s, cfg, lo)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	epoch, started := 0, false
	next := func() error {
		for range 2 { // the rest of an epoch may be empty, a whole one is not
			if !started {
				if err := l.Start(epoch, progress.Place{}); err != nil {
					return err
				}
				epoch, started = epoch+1, true
			}
			if l.Next() {
				return nil
			}
			if err := l.Err(); err != nil {
				return err
			}
			started = false
		}
		return errors.New("bench: the store has no training nodes to sample for")
	}
	for round := range o.Rounds + 1 {
		r, start, cpu := SampleRound{Batches: o.Batches}, time.Now(), usage.CPUSeconds()
		for range o.Batches {
			if err := next(); err != nil {
				return err
			}
			r.SampledEdges += int64(l.Batch().SampledEdges())
			r.Inputs += int64(len(l.Batch().Input))
			r.RowBytes += rowBytes(l.Batch())
		}
		r.Seconds, r.CPUSeconds = time.Since(start).Seconds(), usage.CPUSeconds()-cpu
		if round > 0 {
			report(r)
		}
	}
	return nil
}

// gatherRows is a [train.LoaderOptions].Finish: it keeps a batch's rows of all features in its Extra, a []float32 a column.
func gatherRows(mb *buffer.MacroBatch, b *mini.Batch) error {
	rows, _ := b.Extra.([][]float32)
	rows = slices.Grow(rows[:0], len(mb.Features))[:len(mb.Features)]
	for i := range mb.Features {
		f := &mb.Features[i]
		n := len(b.Input) * f.Dim
		if cap(rows[i]) < n { // batches differ a little: half more is enough for all
			rows[i] = make([]float32, n+n/2)
		}
		rows[i] = rows[i][:n]
		table := kernels.Rows{Data: f.Data, Count: f.Rows(), Dim: f.Dim, Stride: f.Stride, Type: f.Type, Scales: f.Scale}
		input := b.Input
		if f.Runs != nil {
			input = f.Runs.Places(nil, input)
		}
		kernels.GatherRows(nil, kernels.Dense(rows[i], len(b.Input), f.Dim), table, input)
	}
	b.Extra = rows
	return nil
}

// rowBytes is the size of what [gatherRows] made of a batch.
func rowBytes(b *mini.Batch) (n int64) {
	rows, _ := b.Extra.([][]float32)
	for _, r := range rows {
		n += 4 * int64(len(r))
	}
	return n
}
