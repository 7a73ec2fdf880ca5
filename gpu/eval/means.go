package eval

import (
	"context"
	"fmt"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// meanLayer passes the exact neighbourhood mean of its input through.
type meanLayer struct{ nn.SAGE }

// byWeights ends [DerivedMean] of a weighted mean.
const byWeights = ", by edge weights"

// DerivedMean is [store.ColumnInfo].Derived of the mean of a feature over neighbours, weighted by edges or not.
func DerivedMean(feature string, weighted bool) string {
	derived := "mean of " + feature + " over neighbours"
	if weighted {
		derived += byWeights
	}
	return derived
}

// WeightedMean reports whether a column of [Evaluator.Means] is weighted by edges.
func WeightedMean(c *store.ColumnInfo) bool { return strings.HasSuffix(c.Derived, byWeights) }

// CheckMean refuses a column of [Evaluator.Means] that is not of the kind that a model reads.
func CheckMean(c *store.ColumnInfo, weighted bool) error {
	flag := map[bool]string{true: "gstore precompute --edge-weights", false: "gstore precompute"}
	if WeightedMean(c) != weighted {
		return fmt.Errorf("feature %s is of %s, and a model with edge weights %v needs %s", c.Name, flag[!weighted], weighted, flag[weighted])
	}
	return nil
}

// Means computes the exact mean of the first feature column over every node's neighbours, weighted by edges if
// [Options].Model has EdgeWeights, 0 for nodes without any, in float32, and calls fn with each partition's rows, in their order; they are valid during the call.
func (e *Evaluator) Means(ctx context.Context, q *gpu.Queue, fn func(p store.PartitionID, rows gpu.Tensor) error) error {
	r := &evaluation{Evaluator: e, queue: q}
	defer func() { _ = r.freeSums() }() // a failure only leaks them
	dim := e.columns[0].Dim
	params := nn.NewParams(e.dev) // the layer's own weights are not used
	layer := &meanLayer{*nn.NewSAGE(params, 0, dim, dim, nn.Activation{}, 0)}
	for i := range e.tiles {
		if err := r.means(ctx, layer, i, fn); err != nil {
			return err
		}
	}
	return nil
}

// means is Means for tile i.
func (r *evaluation) means(ctx context.Context, layer nn.Streamer, i int, fn func(p store.PartitionID, rows gpu.Tensor) error) error {
	t, parts := r.tiles[i], r.src.Manifest().Partitions
	acc, degrees, err := r.accumulators(layer, t)
	if err != nil {
		return err
	}
	for from := range r.tiles {
		if err := r.accumulate(ctx, layer, from, i, acc, degrees); err != nil {
			return err
		}
	}
	deg, err := r.dev.Map(blocks.Bytes(degrees))
	if err != nil {
		return err
	}
	r.queue.DivideRows(acc, gpu.VectorOf(deg, 0, len(degrees), blocks.Float32))
	for p := t.Lo; p < t.Hi; p++ {
		if err := fn(store.PartitionID(p), acc.View(int(uint64(parts[p].First)-t.Base), 0, int(parts[p].Nodes), acc.Cols)); err != nil {
			return err
		}
	}
	return nil
}
