package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/rows"
)

// Feeder samples a run's mini-batches ahead of training, epoch after epoch, and hands their input rows to a [rows.Reader]. Draws
// are keyed by place, so that the trainer samples the same batches again when it comes to them: what is kept of one that is known ahead
// is 12 bytes a row.
type Feeder struct {
	cfg     *config.Config
	Reader  *rows.Reader
	Batches *Batches
	// relations of the store, and whether edges are drawn against their direction too
	relations int
	inverse   bool
	Share     func(epoch int) (mini.Share, error) // of an epoch's batches: the rank's; nil: all are
	First     int                                 // epoch of the run's beginning
	Limit     int                                 // epochs
	Until     int                                 // a forecast's epochs: once they are decided sampling ends; 0: a run's
	Cancel    context.CancelFunc
	running   panics.Group
}

func NewFeeder(c *config.Config, m *store.Manifest, r *rows.Reader) (*Feeder, error) {
	relations, err := c.RelationSampling(m)
	if err != nil {
		return nil, err
	}
	b, err := NewBatches(c, len(c.Sampled()), relations, c.MeanDegree(m), max(1, c.Threads/2), 0)
	return &Feeder{cfg: c, Reader: r, Batches: b, Limit: run.EpochsMax, relations: len(m.Schema.Relations), inverse: c.Directions(m) == 2}, err
}

// Start begins sampling ahead from a mini-batch of an epoch on, if it was not begun.
func (f *Feeder) Start(mb *buffer.MacroBatch, epoch, batch int) error {
	if f.Cancel != nil {
		return nil
	}
	if len(mb.Seeds) == 0 {
		return fmt.Errorf("train: epoch %d: %w: no training nodes", epoch+1, store.ErrNotFound)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.Cancel = cancel
	graph := *mb // the trainer's gets the next epoch's step while batches of epochs ahead are sampled
	f.running.Go(func() {
		if err := panics.Call(func() error { return f.Sample(ctx, &graph, epoch, batch, f.Limit) }); err != nil {
			f.Reader.Fail(err)
		}
	})
	return nil
}

// Sample pushes batches until limit epochs are over or the reader stops.
func (f *Feeder) Sample(ctx context.Context, mb *buffer.MacroBatch, epoch, batch, limit int) error {
	defer f.Batches.Leave()
	for e := epoch; e < limit; e++ {
		if f.Share != nil {
			var err error
			if f.Batches.Share, err = f.Share(e); err != nil {
				return err
			}
		}
		f.Batches.Enter(ctx, e, mb, Neighbours(mb, f.relations, f.inverse), &Passes{}, progress.Place{Batch: batch})
		batch = 0
		for f.Batches.Next() {
			if !f.Reader.Push(e-f.First, f.cfg.Inputs(f.Batches.Loader.Batch())) || f.Until > 0 && f.Reader.Decided() >= f.Until {
				return nil
			}
		}
		if err := f.Batches.Loader.Err(); err != nil {
			return err
		}
	}
	f.Reader.End()
	return nil
}

// Take waits for the rows of a batch and returns where they lie.
func (f *Feeder) Take(input []uint32, sum *progress.Counts) ([]uint32, error) {
	start := time.Now()
	slots, err := f.Reader.Take(input)
	sum.Profile.Wait += time.Since(start)
	return slots, err
}

// Rows returns how many input rows the mini-batches of an epoch have, and how many of them were read.
func (f *Feeder) Rows(epoch int) (used, read int64) {
	if f == nil {
		return 0, 0
	}
	return f.Reader.Used(epoch - f.First), int64(f.Reader.Forecast(epoch - f.First).Loads)
}

// stop ends sampling ahead and the reader.
func (f *Feeder) stop() {
	f.Reader.Stop()
	if f.Cancel != nil {
		f.Cancel()
	}
	f.running.Wait()
}

// Restart makes an epoch, counted from 0, the first one: start begins sampling ahead anew, from any mini-batch of it on.
func (f *Feeder) Restart(epoch int) error {
	f.stop()
	f.First, f.Cancel = epoch, nil
	return f.Reader.Restart()
}

// Close stops sampling; the reader must be closed after it.
func (f *Feeder) Close() error {
	f.stop()
	return f.Batches.Loader.Close()
}
