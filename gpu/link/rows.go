package link

import (
	"context"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// residentRows are the embeddings of a macro-batch that holds all partitions, valid as long as it is.
func residentRows(mb *buffer.MacroBatch, dim int) eval.Embeddings {
	return func(_ context.Context, id store.PartitionID) ([]byte, error) {
		for _, p := range mb.Partitions {
			if p.ID == id {
				return blocks.Bytes(mb.Planes[0][int(p.Base)*dim : int(p.Base+p.Nodes)*dim]), nil
			}
		}
		return nil, fmt.Errorf("evaluation: partition %d is not in memory: %w", id, store.ErrNotFound)
	}
}

// InitRows returns the Init of [table.Options] that training uses: normal numbers of standard deviation scale, drawn
// by seed and node alone.
func InitRows(seed uint64, dim int, scale float64) func(first store.NodeID, rows []float32) {
	key := keyed.New(seed).With(placeEmbed)
	return func(first store.NodeID, rows []float32) {
		for ; len(rows) > 0; first++ {
			r := key.Rand(uint64(first))
			for j := range dim {
				rows[j] = float32(scale * r.Normal())
			}
			rows = rows[dim:]
		}
	}
}

// RowStep is one optimiser step on rows of a table, the one that training takes.
type RowStep struct {
	Optimizer string  // "adagrad" or "adam", as [Config].Optimizer, which says how many planes that takes
	LR        float32 // learning rate
	Step      int     // of adam: 1 for the run's first step
}

func (s RowStep) adagrad() gpu.AdagradOptions {
	return gpu.AdagradOptions{LR: s.LR, Epsilon: 1e-10}
}

func (s RowStep) adam() gpu.AdamOptions {
	return gpu.AdamOptions{LR: s.LR, Beta1: .9, Beta2: .999, Epsilon: 1e-8, Step: s.Step}
}

// Rows steps the rows index, uint32 [1×n] and none twice, of value and of the optimiser's planes state, [m×dim] each,
// with gradient grad [n×dim]. Errors go to q.
func (s RowStep) Rows(q *gpu.Queue, value, index, grad gpu.Tensor, state ...gpu.Tensor) {
	if s.Optimizer == adam {
		q.AdamRows(s.adam(), value, index, grad, state[0], state[1])
		return
	}
	q.AdagradRows(s.adagrad(), value, index, grad, state[0])
}
