package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Trainers of [RunLosses], by what --trainer is given.
const (
	trainerLosses = "losses"      // under the limit, direct reads
	trainerFree   = "losses-free" // no limit, mapped files
)

// LossesResult compares an epoch under the memory limit with the same batches without it.
type LossesResult struct {
	Limited   EpochRun `json:"limited"`
	Free      EpochRun `json:"free"`
	Cgroup    bool     `json:"cgroup"`    // the limit was enforced
	Identical bool     `json:"identical"` // every loss, to the bit
}

// RunLosses trains one epoch of plan hanoi twice with the same seed, each in a process of
// its own: within o.MemoryBytes, enforced by a cgroup where one can be made,
// and with no limit, through the page cache. What a model learns must not
// depend on which: losses are compared to the bit after every macro-batch.
func RunLosses(ctx context.Context, o EpochOptions) (r LossesResult, err error) {
	o = o.withDefaults()
	if len(o.Command) == 0 {
		return r, errors.New("bench: no command to run a trainer with")
	}
	if err := prepare(ctx, &o, o.partitions()); err != nil {
		return r, err
	}
	o.Progress("within the limit")
	if r.Limited, r.Cgroup, err = o.child(ctx, trainerLosses); err != nil {
		return r, err
	}
	o.Progress("without a limit")
	if r.Free, _, err = o.child(ctx, trainerFree); err != nil {
		return r, err
	}
	r.Identical = len(r.Limited.Losses) > 0 && slices.Equal(r.Limited.Losses, r.Free.Losses)
	if !r.Identical {
		at := 0
		for at < min(len(r.Limited.Losses), len(r.Free.Losses)) && r.Limited.Losses[at] == r.Free.Losses[at] {
			at++
		}
		return r, fmt.Errorf("losses differ from macro-batch %d on (of %d and %d)", at, len(r.Limited.Losses), len(r.Free.Losses))
	}
	return r, nil
}

// String prints the result as lines for people.
func (r LossesResult) String() string {
	line := func(name string, run EpochRun) string {
		last := 0.0
		if n := len(run.Losses); n > 0 {
			last = math.Float64frombits(run.Losses[n-1])
		}
		return fmt.Sprintf("%-22s loss %.15f (%016x) after %d macro-batches, %d batches; %s, read %.2f GB, %.1f s, peak RSS %d MiB\n",
			name, last, math.Float64bits(last), len(run.Losses), run.Batches, run.Engine, float64(run.BytesRead)/1e9, run.Seconds, run.PeakRSSBytes>>20)
	}
	name := "within a cgroup"
	if !r.Cgroup {
		name = "within the budget"
	}
	return line(name, r.Limited) + line("without a limit", r.Free) + fmt.Sprintf("identical to the bit: %v\n", r.Identical)
}

// RunLossesChild trains one epoch and records the loss after every macro-batch; free reads
// mapped files into a buffer of any size.
func RunLossesChild(ctx context.Context, o ChildOptions, free bool) (run EpochRun, err error) {
	debug.SetMemoryLimit(runtimeReserve)
	s, err := store.Open(filepath.Join(o.Dir, "store"), store.Options{CacheDir: o.CacheDir})
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := s.Manifest()
	options := buffer.Options{Features: []string{"x"}, Labels: true, MemoryBytes: o.MemoryBytes - runtimeReserve, AheadMax: 1, Threads: o.Threads}
	if options.Capacity, err = buffer.MaxCapacity(ctx, s, options); err != nil {
		return run, err
	}
	if free {
		options.MemoryBytes, options.AheadMax, options.EngineName, options.Buffered = 0, 0, "mmap", true
	}
	it, err := buffer.Open(ctx, s, options)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	policy, err := macro.New(macro.Config{Policy: macro.Hanoi, Partitions: len(m.Partitions), Capacity: options.Capacity, Seed: 1})
	if err != nil {
		return run, err
	}
	dev := host.New(host.Options{Threads: o.Threads})
	defer func() { err = errors.Join(err, dev.Close()) }()
	x, err := m.Column("x")
	if err != nil {
		return run, err
	}
	t, err := train.NewTrainer(ctx, dev, trainConfig(o.Threads), x.Dim, m.Schema.Classes)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	start := time.Now()
	if err := it.Start(policy.Epoch(0)); err != nil {
		return run, err
	}
	for it.Next() {
		if err := t.MacroBatch(ctx, 0, it.MacroBatch()); err != nil {
			return run, err
		}
		run.Losses = append(run.Losses, math.Float64bits(t.Loss()))
	}
	if err := it.Err(); err != nil {
		return run, err
	}
	st := it.Stats()
	run.Trainer, run.Engine, run.Capacity, run.Steps = "losses", st.Engine, options.Capacity, len(st.Steps)
	run.Seconds, run.Batches, run.BytesRead, run.BufferBytes = time.Since(start).Seconds(), t.Batches(), st.BytesRead, st.MemoryBytes
	return run, nil
}
