package serve

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// carrier bounds what is carried at a time. A request that has room of one waits for another's at most, in one order: for its body, then for its
// answer.
type carrier struct {
	room  *semaphore.Weighted
	bytes int64
}

func newCarrier(bytes int64) *carrier { return &carrier{semaphore.NewWeighted(bytes), bytes} }

// carry waits until there is room for so many bytes; done gives it back. What is larger than all of it waits for all of it.
func (c *carrier) carry(ctx context.Context, bytes int64) (done func(), err error) {
	n := min(bytes, c.bytes)
	if err := c.room.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() { c.room.Release(n) }, nil
}
