package bench

import (
	"context"
	"errors"
	"time"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
)

// SampleRound is what a round of [SampleStore] measured.
type SampleRound struct {
	Batches      int     `json:"batches"`
	SampledEdges int64   `json:"sampled_edges"`
	Inputs       int64   `json:"inputs"` // different nodes of each batch, together
	Seconds      float64 `json:"seconds"`
	CPUSeconds   float64 `json:"cpu_seconds"`
}

// SampleStore measures uniform sampling as training does it, on the given threads and ahead of who takes the batches: those
// of the store's training nodes, all of the graph in memory, no features. It reports o.Rounds rounds of o.Batches batches,
// after one to warm up, and goes through as many epochs as they take.
func SampleStore(ctx context.Context, s *store.Store, threads int, o SampleOptions, report func(SampleRound)) (err error) {
	cfg := train.Config{Fanouts: o.Fanouts, BatchSize: o.BatchSize, Plan: "memory", Threads: threads, Seed: o.Seed}
	l, err := train.OpenLoader(ctx, s, cfg, train.LoaderOptions{Structure: true})
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
		}
		r.Seconds, r.CPUSeconds = time.Since(start).Seconds(), usage.CPUSeconds()-cpu
		if round > 0 {
			report(r)
		}
	}
	return nil
}
