package nn

import (
	"context"
	"errors"

	"github.com/gstore/gstore/gpu"
)

// LabelSets are sets of labels on a device, for [Targets]; nil are none.
type LabelSets struct {
	arena *gpu.Arena
	words gpu.Tensor
}

// OpenLabelSets brings sets to q's device, by their words ([gpu.Queue.MultiLabelLoss]); nil stay nil.
func OpenLabelSets(ctx context.Context, q *gpu.Queue, words []int32) (*LabelSets, error) {
	if words == nil {
		return nil, nil
	}
	s := &LabelSets{arena: gpu.NewArena(q.Device())}
	s.words = s.arena.Int32s(q, words)
	if err := q.Sync(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Tensor is [Targets].Sets.
func (s *LabelSets) Tensor() gpu.Tensor {
	if s == nil {
		return gpu.Tensor{}
	}
	return s.words
}

// Close frees the device's memory.
func (s *LabelSets) Close() error {
	if s == nil {
		return nil
	}
	return s.arena.Close()
}
