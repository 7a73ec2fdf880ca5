package run

import (
	"context"
	"fmt"
	"time"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/mini"
)

// InMemory is what tasks whose graph lies in memory have alike: an epoch is one step, and each mini-batch is over before the next one.
// A task of configuration C, result S and epochs E embeds it, and adds to it what is left of [Task] and [Batches].
type InMemory[C, S, E any] struct {
	At     *Unfinished[C, S]
	Hooks  Hooks[C, S, E]
	Record E                                                     // of the epoch in hand
	Keep   func(ctx context.Context, at *Unfinished[C, S]) error // replaces the run's file by where the run stands

	within bool // the epoch's step was begun
	torn   bool
}

// Fresh begins an epoch whose record begins as r.
func (t *InMemory[C, S, E]) Fresh(r E) { t.Record, t.within = r, false }

// Once reports whether the epoch's one step is still to come, and counts it.
func (t *InMemory[C, S, E]) Once() bool {
	first := !t.within
	t.within = true
	return first
}

// Count trains b by step, which returns the sum of its losses, and counts it with the edges that were sampled for it.
func (t *InMemory[C, S, E]) Count(b *mini.Batch, edges int, sum *progress.Counts, step func() (float64, error)) error {
	t.torn = true
	loss, err := step()
	if err != nil {
		return fmt.Errorf("train: epoch %d, batch %d: %w", b.Key.Epoch+1, b.Key.Batch, progress.BudgetError(err))
	}
	t.torn = false
	sum.Loss += loss
	sum.Examples += int64(len(b.Seeds))
	sum.Batches++
	sum.Edges += int64(edges)
	return nil
}

// Settle implements [Batches].
func (t *InMemory[C, S, E]) Settle(context.Context) error { return nil }

// Checkpoint implements [Task].
func (t *InMemory[C, S, E]) Checkpoint(ctx context.Context, at Position) error {
	t.At.Position = at
	if err := t.Keep(ctx, t.At); err != nil {
		return fmt.Errorf("train: epoch %d: checkpoint: %w", at.Last(), err)
	}
	if t.Hooks.Checkpoint != nil {
		t.Hooks.Checkpoint(at.Epoch, at.Place.Step, at.Place.Batch)
	}
	return nil
}

// Report implements [Task].
func (t *InMemory[C, S, E]) Report(*Epoch) {
	if t.Hooks.Epoch != nil {
		t.Hooks.Epoch(t.Record)
	}
}

// Torn implements [Task].
func (t *InMemory[C, S, E]) Torn() bool { return t.torn }

// Took is the tail of a summary: what the run took, and by what.
type Took struct {
	EpochSeconds []float64 `json:"epoch_seconds"`
	TotalSeconds float64   `json:"total_seconds"`
	CPUSeconds   float64   `json:"cpu_seconds"`
	PeakRSSBytes int64     `json:"peak_rss_bytes"`
	BytesRead    int64     `json:"bytes_read"`
	Seed         uint64    `json:"seed"`
	Device       string    `json:"device"`
	IOEngine     string    `json:"io_engine"`
	Resumed      bool      `json:"resumed,omitempty"`
}

// TakenBy is the tail of a run that begins.
func TakenBy(dev gpu.Device, seed uint64) Took { return Took{Seed: seed, Device: dev.Info().String()} }

// Stopwatch measures a process's part of a run.
type Stopwatch struct {
	start time.Time
	cpu   float64
}

// Watch starts a stopwatch.
func Watch() Stopwatch { return Stopwatch{time.Now(), usage.CPUSeconds()} }

// Stop sets what the process took.
func (w Stopwatch) Stop(t *Took, read int64) {
	t.TotalSeconds, t.CPUSeconds = time.Since(w.start).Seconds(), usage.CPUSeconds()-w.cpu
	t.PeakRSSBytes, t.BytesRead = usage.PeakRSSBytes(), read
}
