package explain

import (
	"context"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
)

// path follows what the model says from begin to says in as many steps as its shares need: take adds a step's, which is so much of the path,
// at a point of it; total is their sum since clear.
func (r *runner) path(ctx context.Context, x *Explanation, begin float64, point func(at float32) (float32, float32), clear func(), take func(p point, part float32) error, total func() (float64, error)) (gap float64, err error) {
	for steps := stepsLeast; ; steps *= 2 {
		clear()
		// Steps are shorter near the begin, where layers that divide by a deviation change most.
		along := func(k int) float64 { return math.Pow(float64(k)/float64(steps), 3) }
		for k := range steps {
			scale, gate := point(float32((along(k) + along(k+1)) / 2))
			p, _, err := r.at(ctx, scale, gate, true)
			if err != nil {
				return 0, err
			}
			if err := take(p, float32(along(k+1)-along(k))); err != nil {
				return 0, err
			}
		}
		sum, err := total()
		if err != nil {
			return 0, err
		}
		x.Steps = max(x.Steps, steps)
		change := x.Says - begin
		if gap = change - sum; math.Abs(gap) <= gapShare*math.Abs(change)+gapLeast || steps >= stepsMost {
			return gap, nil
		}
	}
}

// features shares out what the features of all nodes move.
func (r *runner) features(ctx context.Context, x *Explanation) (err error) {
	if x.Silent, err = r.says(ctx, 0, 1, x); err != nil {
		return err
	}
	q, byNode := r.Queue, make([]float32, r.first.Rows)
	x.FeatureGap, err = r.path(ctx, x, x.Silent, func(at float32) (float32, float32) { return at, 1 },
		func() { q.Fill(r.sum, 0) },
		func(p point, part float32) error {
			q.Axpy(part, p.d, r.sum)
			return q.Sync(ctx)
		},
		func() (total float64, err error) {
			q.RowDot(r.first, r.sum, r.byNode)
			q.Download(blocks.Bytes(byNode), r.byNode)
			if err := q.Sync(ctx); err != nil {
				return 0, err
			}
			for _, v := range byNode {
				total += float64(v)
			}
			return total, nil
		})
	if err != nil {
		return err
	}
	for _, v := range byNode {
		x.ByNode = append(x.ByNode, float64(v))
	}
	return r.byFeature(ctx, x)
}

// shares is [nn.Model.FirstShares] of the sum of gradients.
func (r *runner) shares() (features gpu.Tensor, categories []gpu.Tensor) {
	return r.Net.FirstShares(&nn.Pass{Queue: r.Queue, Arena: r.arena}, r.first.Rows, r.sum)
}

// byFeature shares the gradients of first states out among the features that they are made of.
func (r *runner) byFeature(ctx context.Context, x *Explanation) error {
	if err := r.arena.Reset(); err != nil {
		return err
	}
	q, n := r.Queue, r.first.Rows
	beside, categories := r.shares()
	products := make([]float32, beside.Len())
	if len(products) > 0 {
		q.Download(blocks.Bytes(products), beside)
	}
	named := make([][]float32, len(categories))
	for k, c := range categories {
		named[k] = make([]float32, n)
		q.Download(blocks.Bytes(named[k]), c)
	}
	if err := q.Sync(ctx); err != nil {
		return err
	}
	at, left := 0, append([]float64(nil), x.ByNode...)
	first := len(r.Columns) - len(r.Config.Categories)
	for k, c := range r.Columns {
		if k >= first {
			f := Feature{Column: c.Name, Element: -1}
			for i, v := range named[k-first] {
				f.add(i, float64(v))
				left[i] -= float64(v)
			}
			x.Features = append(x.Features, f)
			continue
		}
		row := make([]float32, c.Dim)
		fs := make([]Feature, c.Dim)
		for i := range n {
			c.Elem.Widen(row, r.around.Rows[k][i*c.RowBytes():], c.Scale)
			for j, v := range row {
				if i == 0 {
					fs[j] = Feature{Column: c.Name, Element: j, Value: float64(v)}
				}
				share := float64(v) * float64(products[i*r.Config.In+at+j])
				fs[j].add(i, share)
				left[i] -= share
			}
		}
		x.Features = append(x.Features, fs...)
		at += c.Dim
	}
	if len(r.around.Vectors.At) > 0 { // what is left over is theirs
		f := Feature{Column: VectorsColumn, Element: -1}
		for _, i := range r.around.Vectors.At {
			f.add(int(i), left[i])
		}
		x.Features = append(x.Features, f)
	}
	return nil
}

// VectorsColumn is the [Feature].Column of learned vectors that lie in a table.
const VectorsColumn = "learned vectors"

// add adds the share of node i of a neighbourhood.
func (f *Feature) add(i int, share float64) {
	if i == 0 {
		f.Own += share
		return
	}
	f.Others += share
}

// edges shares out what comes along the edges.
func (r *runner) edges(ctx context.Context, x *Explanation) (err error) {
	if x.Alone, err = r.says(ctx, 1, 0, x); err != nil {
		return err
	}
	a, q := r.around, r.Queue
	shares := make([]float64, len(a.Dst))
	var step []float32
	x.EdgeGap, err = r.path(ctx, x, x.Alone, func(at float32) (float32, float32) { return 1, at },
		func() { clear(shares) },
		func(p point, part float32) error {
			for _, g := range p.gates {
				if g.IsZero() {
					continue
				}
				step = append(step[:0], make([]float32, g.Rows)...)
				q.Download(blocks.Bytes(step), g)
				if err := q.Sync(ctx); err != nil {
					return err
				}
				for e, v := range step { // a layer's edges are the first ones
					shares[e] += float64(part) * float64(v)
				}
			}
			return nil
		},
		func() (total float64, err error) {
			for _, v := range shares {
				total += v
			}
			return total, nil
		})
	for e, v := range shares {
		relation := -1
		if a.Relations != nil {
			relation = int(a.Relations[e])
		}
		x.Edges = append(x.Edges, Edge{Src: int(a.Src[e]), Dst: int(a.Dst[e]), Relation: relation, Share: v})
	}
	return err
}
