package train

import (
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/vectors"
)

// each takes a step of the optimiser with each mini-batch.
type each struct {
	params *nn.Params
	adam   *gpu.AdamOptions
}

func (u *each) begin(x *minibatch) { x.adam = u.params.Step(*u.adam) }

func (u *each) step(x *minibatch) { u.params.Adam(x.pass.Queue, x.adam) }

// accumulated takes one step with several mini-batches, by the mean of their gradients over all labels.
type accumulated struct {
	each
	summed float64 // what the labels of the mini-batches weigh whose gradients are summed up
}

func (u *accumulated) begin(x *minibatch) {
	x.adam = *u.adam
	if x.last {
		u.each.begin(x)
	}
	if x.first {
		u.summed = 0
	}
	u.summed += x.weight
}

func (u *accumulated) step(x *minibatch) {
	q := x.pass.Queue
	if !x.first || !x.last {
		u.params.AddGrads(q, float32(x.weight), x.first)
		if !x.last {
			return
		}
		total := float32(u.summed)
		if total == 0 { // no node had a label: all gradients are 0
			total = 1
		}
		u.params.MeanGrads(q, total)
	}
	u.each.step(x)
}

// stepVectors steps the learned vectors of a mini-batch's input, rows of a table, behind the parameters.
type stepVectors struct {
	updater
	t       *trainer
	vectors *vectors.Resident
}

func (u *stepVectors) step(x *minibatch) {
	u.updater.step(x)
	q, a, dim := x.pass.Queue, x.pass.Arena, u.t.cfg.Hidden
	sums, columns := a.Vector(q, dim, blocks.Float32), make([]float32, dim)
	u.vectors.Step(q, a, x.adam, x.in.Vectors, u.t.model.VectorGradient(), sums)
	q.Download(blocks.Bytes(columns), sums)
	x.checks = append(x.checks, func() error {
		if slices.ContainsFunc(columns, func(v float32) bool { return v-v != 0 }) { // NaN − NaN and ∞ − ∞ are NaN
			return u.t.diverged("learned vectors are no finite numbers after the step")
		}
		return nil
	})
}
