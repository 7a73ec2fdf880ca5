package train

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/rows"
)

// feeder samples a run's mini-batches ahead of training, epoch after epoch, and hands their input rows to a [rows.Reader]. Draws
// are keyed by place, so that the trainer samples the same batches again when it comes to them: what is kept of one that is known ahead
// is 12 bytes a row.
type feeder struct {
	cfg     *Config
	reader  *rows.Reader
	batches *batches
	// relations of the store, and whether edges are drawn against their direction too
	relations int
	inverse   bool
	share     func(epoch int) (mini.Share, error) // of an epoch's batches: the rank's; nil: all are
	first     int                                 // epoch of the run's beginning
	limit     int                                 // epochs
	until     int                                 // a forecast's epochs: once they are decided sampling ends; 0: a run's
	cancel    context.CancelFunc
	running   sync.WaitGroup
}

func newFeeder(c *Config, m *store.Manifest, r *rows.Reader) (*feeder, error) {
	relations, err := c.relationDraws(m)
	if err != nil {
		return nil, err
	}
	b, err := newBatches(c, len(c.sampled()), relations, c.meanDegree(m), max(1, c.Threads/2), 0)
	return &feeder{cfg: c, reader: r, batches: b, limit: EpochsMax, relations: len(m.Schema.Relations), inverse: c.directions(m) == 2}, err
}

// start begins sampling ahead from a mini-batch of an epoch on, if it was not begun.
func (f *feeder) start(mb *buffer.MacroBatch, epoch, batch int) error {
	if f.cancel != nil {
		return nil
	}
	if len(mb.Seeds) == 0 {
		return fmt.Errorf("train: epoch %d: %w: no training nodes", epoch+1, store.ErrNotFound)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	graph := *mb // the trainer's gets the next epoch's step while batches of epochs ahead are sampled
	f.running.Go(func() {
		if err := f.sample(ctx, &graph, epoch, batch, f.limit); err != nil {
			f.reader.Fail(err)
		}
	})
	return nil
}

// sample pushes batches until limit epochs are over or the reader stops.
func (f *feeder) sample(ctx context.Context, mb *buffer.MacroBatch, epoch, batch, limit int) error {
	defer f.batches.leave()
	for e := epoch; e < limit; e++ {
		if f.share != nil {
			var err error
			if f.batches.share, err = f.share(e); err != nil {
				return err
			}
		}
		f.batches.enter(ctx, e, mb, neighbours(mb, f.relations, f.inverse), &passes{}, progress.Place{Batch: batch})
		batch = 0
		for f.batches.next() {
			if !f.reader.Push(e-f.first, f.cfg.inputs(f.batches.loader.Batch())) || f.until > 0 && f.reader.Decided() >= f.until {
				return nil
			}
		}
		if err := f.batches.loader.Err(); err != nil {
			return err
		}
	}
	f.reader.End()
	return nil
}

// take waits for the rows of a batch and returns where they lie.
func (f *feeder) take(input []uint32, sum *progress.Counts) ([]uint32, error) {
	start := time.Now()
	slots, err := f.reader.Take(input)
	sum.Profile.Wait += time.Since(start)
	return slots, err
}

// feedRows has a loader of plan rows read the rows of its batches.
func (l *Loader) feedRows(m *store.Manifest, reader *rows.Reader, policy macro.Policy) (err error) {
	if l.feed, err = newFeeder(&l.cfg, m, reader); err != nil {
		return err
	}
	l.feed.limit, l.feed.batches.sequential = math.MaxInt, l.batches.sequential
	if l.ranks != nil {
		l.feed.share = func(epoch int) (mini.Share, error) {
			d, err := l.ranks.Deal(policy.Epoch(epoch))
			if err != nil {
				return mini.Share{}, err
			}
			return shareOf(d, 0), nil
		}
	}
	return nil
}

// take waits for the rows of the batch in hand, in plan rows.
func (l *Loader) take() (err error) {
	if l.feed == nil {
		return nil
	}
	l.slots, err = l.feed.reader.Take(l.cfg.inputs(l.Batch()))
	l.ahead = turn{l.epoch, l.Place()}
	return err
}

// done gives the rows of the batch in hand up.
func (l *Loader) done() {
	if l.slots != nil {
		l.feed.reader.Done()
		l.slots = nil
	}
}

// rows returns how many input rows the mini-batches of an epoch have, and how many of them were read.
func (f *feeder) rows(epoch int) (used, read int64) {
	if f == nil {
		return 0, 0
	}
	return f.reader.Used(epoch - f.first), int64(f.reader.Forecast(epoch - f.first).Loads)
}

// stop ends sampling ahead and the reader.
func (f *feeder) stop() {
	f.reader.Stop()
	if f.cancel != nil {
		f.cancel()
	}
	f.running.Wait()
}

// restart makes an epoch, counted from 0, the first one: start begins sampling ahead anew, from any mini-batch of it on.
func (f *feeder) restart(epoch int) error {
	f.stop()
	f.first, f.cancel = epoch, nil
	return f.reader.Restart()
}

// close stops sampling; the reader must be closed after it.
func (f *feeder) close() error {
	f.stop()
	return f.batches.loader.Close()
}
