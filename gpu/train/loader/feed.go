package loader

import (
	"math"

	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/rows"
)

// feedRows has a loader of plan rows read the rows of its batches.
func (l *Loader) feedRows(m *store.Manifest, reader *rows.Reader, policy macro.Policy) (err error) {
	if l.Feed, err = feed.NewFeeder(&l.cfg, m, reader); err != nil {
		return err
	}
	l.Feed.Limit, l.Feed.Batches.Sequential, l.Feed.Batches.Full = math.MaxInt, l.batches.Sequential, l.batches.Full
	if l.ranks != nil {
		l.Feed.Share = func(epoch int) (mini.Share, error) {
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
	if l.Feed == nil {
		return nil
	}
	l.slots, err = l.Feed.Reader.Take(l.cfg.Inputs(l.Batch()))
	l.ahead = turn{l.epoch, l.Place()}
	return err
}

// done gives the rows of the batch in hand up.
func (l *Loader) done() {
	if l.slots != nil {
		l.Feed.Reader.Done()
		l.slots = nil
	}
}
