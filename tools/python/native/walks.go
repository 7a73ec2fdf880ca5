package native

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/sampler/walk"
	"github.com/gstore/gstore/store"
)

// walks fills the first array, int64 [nodes × per_node, length], with the store's random walks, by internal ids.
func walks(ctx context.Context, c *call) (err error) {
	var q struct {
		Length      int     `json:"length"`
		PerNode     int     `json:"per_node"`
		P           float64 `json:"p"`
		Q           float64 `json:"q"`
		Seed        uint64  `json:"seed"`
		MemoryBytes int64   `json:"memory_bytes"`
		Threads     int     `json:"threads"`
	}
	s, err := c.asked(&q)
	if err != nil {
		return err
	}
	dst, err := blocks.View[int64](c.arrays[0])
	if err != nil {
		return err
	}
	w, err := walk.Open(ctx, s, walk.Options{Length: q.Length, PerNode: q.PerNode, P: q.P, Q: q.Q, Seed: q.Seed, Internal: true, MemoryBytes: q.MemoryBytes, Threads: q.Threads})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if want := w.Len() * uint64(w.Length()); uint64(len(dst)) != want {
		return fmt.Errorf("%w: room for %d numbers, expected %d walks of %d", store.ErrInvalid, len(dst), w.Len(), w.Length())
	}
	return w.Read(ctx, 0, dst)
}
