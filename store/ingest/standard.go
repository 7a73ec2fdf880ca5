package ingest

import (
	"context"
	"math"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/source"
)

// standardise decides how the values of feature column c are brought to mean 0 and deviation 1, where the options or the
// source say so. It takes a pass over the column, in 24 bytes a dimension. All rows count, of whatever split: features of
// nodes that are not trained on are seen in training too, as neighbours. Masks and values of text stay 0 and 1.
func (r *Job) standardise(ctx context.Context, c int, k *Converter) error {
	if k.spec.Standard != nil {
		k.standard = k.spec.Standard
		return k.standard.Validate(k.spec.Dim)
	}
	if !r.Options.Normalize || k.spec.Mask || k.spec.Indicator {
		return nil
	}
	r.Phase("means and deviations of "+k.spec.Name, "rows", int64(r.Layout.Nodes))
	dim, size := k.spec.Dim, k.spec.Elem.Size()
	// Sums of differences from the first row, whose squares lose less than those of the values.
	first, sum, squares, rows := []float64(nil), make([]float64, dim), make([]float64, dim), 0
	err := r.eachRow(ctx, c, func(b []byte, at source.Position) error {
		for i := 0; i*size < len(b); i++ {
			x, err := k.value(b[i*size:], i, at)
			if err != nil {
				return err
			}
			if len(first) < dim {
				first = append(first, x)
			}
			d := x - first[i%dim]
			sum[i%dim] += d
			squares[i%dim] += d * d
		}
		rows += len(b) / k.spec.RowBytes()
		r.Tick(int64(len(b) / k.spec.RowBytes()))
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	s := &store.Standard{Mean: make([]float64, dim), Deviation: make([]float64, dim)}
	for d := range dim {
		s.Deviation[d] = 1 // of a constant, or of no rows
		if rows == 0 {
			continue
		}
		mean := sum[d] / float64(rows)
		s.Mean[d] = first[d] + mean
		if v := math.Sqrt(squares[d]/float64(rows) - mean*mean); v > 0 && !math.IsInf(v, 0) {
			s.Deviation[d] = v
		}
		if math.IsInf(s.Mean[d], 0) || math.IsNaN(s.Mean[d]) {
			return source.Inputf(r.Desc.Input, "the mean of %s is beyond the largest number; ingest without --normalize", k.spec.Name)
		}
	}
	k.standard = s
	return nil
}
