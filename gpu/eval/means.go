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

// HopKind is what a first layer makes of a feature of neighbours, without parameters: the zero value is sage's mean.
type HopKind struct {
	Sum         string // "gcn" or "gin": the layer's sum, of the node itself too; else ""
	EdgeWeights bool   // neighbours count by their edges' weights
}

// KindOf is what a model reads.
func KindOf(c *nn.Config) HopKind {
	k := HopKind{EdgeWeights: c.EdgeWeights}
	if kind := c.Kind(); kind.Hop == nn.HopSum {
		k.Sum = kind.Name
	}
	return k
}

// byWeights ends [HopKind.Derived] of what edges weigh.
const byWeights = ", by edge weights"

// Derived is [store.ColumnInfo].Derived of such a column of a feature.
func (k HopKind) Derived(feature string) string {
	derived := "mean of " + feature + " over neighbours"
	if k.Sum != "" {
		derived = k.Sum + sums + feature + " over neighbours and itself"
	}
	if k.EdgeWeights {
		derived += byWeights
	}
	return derived
}

// sums is how Derived of a model's sums begins.
const sums = "'s sum of "

// sumOf reports whether a column may hold k.Sum: a relation can have given the mean by it the same name.
func (k HopKind) sumOf(c *store.ColumnInfo) bool {
	return k.Sum == "" || c.Derived == "" || strings.HasPrefix(c.Derived, k.Sum+sums)
}

// Holds reports whether a column of [Evaluator.Hop], named as one of kind k, is of that kind.
func (k HopKind) Holds(c *store.ColumnInfo) bool {
	return strings.HasSuffix(c.Derived, byWeights) == k.EdgeWeights && k.sumOf(c)
}

// Check refuses a column that k does not hold.
func (k HopKind) Check(c *store.ColumnInfo) error {
	if !k.sumOf(c) {
		return fmt.Errorf("feature %s is the %s, expected %s%sfeatures", c.Name, c.Derived, k.Sum, sums)
	}
	flag := map[bool]string{true: "gstore precompute --edge-weights", false: "gstore precompute"}
	if !k.Holds(c) {
		return fmt.Errorf("feature %s is of %s, and a model with edge weights %v needs %s", c.Name, flag[!k.EdgeWeights], k.EdgeWeights, flag[k.EdgeWeights])
	}
	return nil
}

// DerivedRelationMean is [store.ColumnInfo].Derived of the mean of a feature over the neighbours by one relation, along its edges or
// against them.
func DerivedRelationMean(feature, relation string, inverse bool) string {
	derived := HopKind{}.Derived(feature) + " by " + relation
	if inverse {
		derived += ", against its direction"
	}
	return derived
}

// Hop computes of the first feature column, for every node, what [Options].Model's first layer makes of neighbours: sage's mean, 0 for
// nodes without any, gcn's or gin's sum; by the edges of [Options].Relation alone if it names one. It is exact, in float32. It calls fn
// with each partition's rows, in their order, and how many edges each node has, or what they weigh; they are valid during the call.
func (e *Evaluator) Hop(ctx context.Context, q *gpu.Queue, fn func(p store.PartitionID, rows gpu.Tensor, degrees []float32) error) error {
	r := e.begin(q)
	defer r.close()
	dim := e.columns[0].Dim
	params := nn.NewParams(e.dev) // the layer's own weights are not used
	var layer nn.Streamer = &meanLayer{*nn.NewSAGE(params, 0, dim, dim, nn.Activation{}, 0)}
	if kind := KindOf(&e.o.Model); kind.Sum != "" {
		layer = nn.NewSums(params, nn.KindNamed(kind.Sum).Weights == nn.WeightsSymmetric, dim)
		if err := r.countEdges(ctx); err != nil {
			return fmt.Errorf("evaluation: degrees: %w", err)
		}
	}
	for i := range e.tiles {
		if err := r.hop(ctx, layer, i, fn); err != nil {
			return err
		}
	}
	return nil
}

// hop is Hop for tile i.
func (r *evaluation) hop(ctx context.Context, layer nn.Streamer, i int, fn func(p store.PartitionID, rows gpu.Tensor, degrees []float32) error) error {
	t, parts := r.work.tiles[i], r.src.Manifest().Partitions
	acc, degrees, err := r.accumulators(layer, t)
	if err != nil {
		return err
	}
	for from := range r.work.runs {
		if err := r.accumulate(ctx, layer, from, i, acc, degrees); err != nil {
			return err
		}
	}
	deg, err := r.dev.Map(blocks.Bytes(degrees))
	if err != nil {
		return err
	}
	defer func() { _ = deg.Free() }() // before the slab: what is page-locked is not unmapped
	if sums, ok := layer.(*nn.Sums); ok {
		err = r.addSelves(ctx, sums, t, acc, deg)
	} else {
		r.queue.DivideRows(acc, gpu.VectorOf(deg, 0, len(degrees), blocks.Float32))
		err = r.queue.Sync(ctx)
	}
	if err != nil {
		return err
	}
	for p := t.Lo; p < t.Hi; p++ {
		base, n := int(uint64(parts[p].First)-t.Base), int(parts[p].Nodes)
		if err := fn(store.PartitionID(p), acc.View(base, 0, n, acc.Cols), degrees[base:base+n]); err != nil {
			return err
		}
	}
	return nil
}

// addSelves completes the sums of tile to's nodes, in place, a chunk at a time.
func (r *evaluation) addSelves(ctx context.Context, layer *nn.Sums, to Tile, acc gpu.Tensor, deg gpu.Memory) error {
	return r.eachPiece(to, func(t Tile, at int) error {
		return r.eachChunk(ctx, t, func(p *nn.Pass, self nn.Input, lo, n int) {
			sums := acc.View(at+lo, 0, n, acc.Cols)
			r.queue.Copy(sums, layer.Finish(p, nn.Dense(self.Tables[0]), sums, gpu.VectorOf(deg, int64(at+lo)*4, n, blocks.Float32)))
		})
	})
}
