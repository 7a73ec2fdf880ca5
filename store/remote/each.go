package remote

import (
	"cmp"
	"context"

	"github.com/gstore/gstore/blocks/panics"
)

// limit bounds how much is done at a time.
type limit chan struct{}

// each calls do with 0 … n−1, as many at a time as the limit allows.
func (l limit) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	tasks, inner := panics.WithContext(ctx)
	for i := range n {
		select {
		case l <- struct{}{}:
			tasks.Go(func() error {
				defer func() { <-l }()
				return do(inner, i)
			})
			continue
		case <-inner.Done():
		}
		break
	}
	return cmp.Or(tasks.Wait(), ctx.Err())
}
