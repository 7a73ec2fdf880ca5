package eval

import (
	"context"
	"errors"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
)

// jump finishes a model whose logits are a product of all layers' states: these lie in
// r.below, in memory or in files, and are read once, some nodes at a time.
func (r *evaluation) jump(ctx context.Context, model *nn.Model) (err error) {
	bufs := make([]*blockio.Slab, len(r.below))
	defer func() {
		for _, b := range bufs {
			err = errors.Join(err, b.Free())
		}
	}()
	for p, part := range r.src.Manifest().Partitions {
		if err := r.readTargets(ctx, p); err != nil {
			return err
		}
		for lo := 0; lo < int(part.Nodes); lo += r.chunkRows {
			if err := r.jumpRows(ctx, model, bufs, uint64(part.First)+uint64(lo), lo, min(r.chunkRows, int(part.Nodes)-lo)); err != nil {
				return err
			}
		}
	}
	return nil
}

// jumpRows scores n nodes from internal id first on, node lo of the partition read last.
func (r *evaluation) jumpRows(ctx context.Context, model *nn.Model, bufs []*blockio.Slab, first uint64, lo, n int) error {
	var hidden []gpu.Tensor
	for l, s := range r.below {
		b, err := s.Rows(&bufs[l], first, n)
		if err != nil {
			return err
		}
		m, err := r.dev.Map(b)
		if err != nil {
			return err
		}
		defer func() { _ = m.Free() }() // borrowed memory
		hidden = append(hidden, gpu.MatrixOf(m, 0, n, int(s.RowBytes/4)))
	}
	combined, logits := model.Jump(&nn.Pass{Queue: r.queue, Arena: r.arena}, hidden)
	return r.score(ctx, model, logits, combined, lo, first)
}
