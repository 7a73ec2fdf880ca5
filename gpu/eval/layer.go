package eval

import (
	"context"
	"slices"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// evaluation is one Run.
type evaluation struct {
	*Evaluator
	queue *gpu.Queue
	layer int
	// chunkRows is how many nodes a layer finishes at a time.
	chunkRows int
	work      *stage // of the layer
	memory    bool   // hidden states lie in memory
	sink      Sink   // to fill in this layer, or nil
	splits    []uint8
	metrics   []Metrics
	scale     *nn.NumberScale  // of a model of numbers
	numbers   []numberSums     // of each split, likewise
	sets      *store.LabelSets // of a model of several labels a node
	saidOf    []*LabelCounts   // of each split, likewise
	on        *resident        // nil: states lie in the host's memory or in files, in and out
	inDim     int              // columns of the states below the layer
	in, out   *spill.Table     // hidden states below and above the layer; in is nil below the first
	jumps     bool
	strip     []float32 // rows of some columns
	// The states of in and out once more, by columns, where the layer above is computed by them; nil: they are not there.
	inColumns, outColumns *columnTable
	below                 []*spill.Table // of all layers, where the model jumps; in is one of them
	scores                []*scores      // of each split; nil if not asked for
	chunk                 chunkValues
	targets               [2][]byte // labels and split of a partition, as they are read
	labels                []byte    // of its nodes that are computed
	split                 []byte
	picked                []byte // both, of some nodes
	masked                []int32
	host                  []float32  // a chunk's outputs
	sums                  gpu.Memory // of the tile, or of the one before; nil: none yet
	next                  Tile       // the piece whose input is asked for next, the zero one if that is not known
	ahead                 ahead
}

func (r *evaluation) close() {
	_, _ = r.wait(Tile{}) // what failed is the error that ended the run
	_ = r.dropAhead()
	for _, s := range r.below {
		r.drop(s)
	}
	if !r.jumps && r.in != r.embeddings {
		r.drop(r.in)
	}
	for _, s := range r.scores {
		s.close()
	}
	r.drop(r.out)
	for _, x := range []*columnTable{r.inColumns, r.outColumns} {
		if x != nil {
			r.drop(x.Table)
		}
	}
	_ = r.freeSums() // a failure only leaks it
}

// tile computes a layer's outputs of destination tile i.
func (r *evaluation) tile(ctx context.Context, layer nn.Streamer, i int, model *nn.Model, last bool) error {
	q, to := r.queue, r.work.tiles[i]
	if last && r.sink != nil && len(r.splits) == 0 {
		for from := range r.work.runs { // in the order of a validation: sums are the same to the bit
			if err := r.accumulate(ctx, nil, from, i, gpu.Tensor{}, nil); err != nil {
				return err
			}
		}
		return nil
	}
	acc, degrees, err := r.accumulators(layer, to)
	if err != nil {
		return err
	}
	if prep, ok := layer.(nn.Preparer); ok {
		if err := r.eachPiece(to, func(t Tile, at int) error {
			return r.prepare(ctx, prep, t, acc.View(at, 0, t.Nodes, acc.Cols))
		}); err != nil {
			return err
		}
	}
	if layer.AccumulatorDim() > 0 {
		for from := range r.work.runs {
			if err := r.accumulate(ctx, layer, from, i, acc, degrees); err != nil {
				return err
			}
		}
	}
	deg, err := q.Device().Map(blocks.Bytes(degrees))
	if err != nil {
		return err
	}
	defer func() { _ = deg.Free() }() // before the slab: what is page-locked is not unmapped
	budget.Mark(ctx, "evaluation")
	return r.eachPiece(to, func(t Tile, at int) error {
		sums := acc
		if acc.Cols > 0 {
			sums = acc.View(at, 0, t.Nodes, acc.Cols)
		}
		return r.finish(ctx, layer, t, sums, gpu.VectorOf(deg, int64(at)*4, t.Nodes, blocks.Float32), model, last)
	})
}

// finish computes a layer's outputs of a piece of a tile from the sums acc and the degrees deg of its nodes.
func (r *evaluation) finish(ctx context.Context, layer nn.Streamer, t Tile, acc, deg gpu.Tensor, model *nn.Model, last bool) error {
	input, release, err := r.selves(ctx, t)
	if err != nil {
		return err
	}
	defer release()
	q, nodes := r.queue, r.work.into
	for p := t.Lo; p < t.Hi; p++ {
		base, n := int(nodes.first[p]-t.Base), nodes.in(p)
		if last && n > 0 {
			if err := r.readTargets(ctx, p); err != nil {
				return err
			}
		}
		for lo := 0; lo < n; lo += r.chunkRows {
			rows := min(r.chunkRows, n-lo)
			var sum gpu.Tensor
			if acc.Cols > 0 {
				sum = acc.View(base+lo, 0, rows, acc.Cols)
			}
			pass := &nn.Pass{Queue: q, Arena: r.arena}
			out := layer.Finish(pass, input.Rows(base+lo, rows), sum, deg.View(0, base+lo, 1, rows))
			if last {
				err = r.score(ctx, model, out, out, lo, nodes.first[p]+uint64(lo))
			} else {
				err = r.store(ctx, out, nodes.first[p]+uint64(lo))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// readTargets reads labels and split of a partition's nodes, of those that the layer computes.
func (r *evaluation) readTargets(ctx context.Context, p int) (err error) {
	if r.o.Unlabelled {
		return nil
	}
	for k, name := range []string{r.label, r.Evaluator.split} {
		if r.targets[k], err = r.src.ReadColumn(ctx, name, store.PartitionID(p), r.targets[k]); err != nil {
			return err
		}
		stored, err := r.src.ColumnBytes(name, store.PartitionID(p))
		if err != nil {
			return err
		}
		r.Evaluator.read += stored
	}
	if r.labels, r.split = r.targets[0], r.targets[1]; !r.work.into.all() {
		n := r.work.into.in(int(p))
		r.picked = slices.Grow(r.picked[:0], 5*n)[:5*n]
		r.labels, r.split = r.work.into.pick(r.picked[:4*n], r.labels, p, 4), r.work.into.pick(r.picked[4*n:], r.split, p, 1)
	}
	return nil
}

// score counts a chunk of logits, whose first row is node lo of the partition read last and
// has number first, and keeps what was asked for; states are what jumping combined.
func (r *evaluation) score(ctx context.Context, model *nn.Model, logits, states gpu.Tensor, lo int, first uint64) error {
	if err := r.keep(ctx, logits, states, lo, first); err != nil {
		return err
	}
	switch {
	case r.scale != nil:
		return r.scoreNumbers(ctx, logits, lo)
	case model.Config().MultiLabel:
		return r.scoreSets(ctx, logits, lo)
	}
	q := r.queue
	for i, split := range r.splits {
		labels := asInt32(r.labels)[lo : lo+logits.Rows]
		r.masked = r.masked[:0]
		n := int64(0)
		for k, l := range labels {
			if r.split[lo+k] != split {
				l = -1
			}
			if l >= 0 {
				n++
			}
			r.masked = append(r.masked, l)
		}
		if n == 0 {
			continue
		}
		q.SoftmaxCrossEntropy(logits, r.arena.Int32s(q, r.masked), gpu.Tensor{}, model.Stat())
		var stat [2]float64
		q.Download(blocks.Bytes(stat[:]), model.Stat())
		if err := q.Sync(ctx); err != nil {
			return err
		}
		m := &r.metrics[i]
		m.Nodes += n
		m.Loss += stat[0]
		m.Correct += int64(stat[1])
	}
	return r.settle(ctx)
}

// settle waits for what was issued, and frees its tensors.
func (r *evaluation) settle(ctx context.Context) error {
	if err := r.queue.Sync(ctx); err != nil {
		return err
	}
	return r.arena.Reset()
}

// store writes a chunk of hidden states, whose first row is that of number first.
func (r *evaluation) store(ctx context.Context, out gpu.Tensor, first uint64) error {
	if r.on != nil {
		r.queue.Copy(r.on.of(r.layer+1, out.Cols).View(int(first), 0, out.Rows, out.Cols), out)
		return r.settle(ctx)
	}
	if n := out.Len(); cap(r.host) < n {
		r.host = make([]float32, n)
	}
	r.host = r.host[:out.Len()]
	r.queue.Download(blocks.Bytes(r.host), out)
	if err := r.queue.Sync(ctx); err != nil {
		return err
	}
	if err := r.out.Write(blocks.Bytes(r.host), first); err != nil {
		return err
	}
	if r.outColumns != nil {
		if err := r.outColumns.write(r.host, first, &r.strip); err != nil {
			return err
		}
	}
	return r.arena.Reset()
}

func asFloat32(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
