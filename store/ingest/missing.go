package ingest

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest/source"
)

// Missing says what becomes of elements of features that have no value: NaN, nulls, empty fields of text.
type Missing string

// Rules for missing values.
const (
	MissingError Missing = "error" // they are refused
	MissingZero  Missing = "zero"
	// MissingMean takes the mean of those of the column that are there; nodes without a row have it too.
	MissingMean Missing = "mean"
)

// missing is the rule for elements of a column that have no value. A mean that stands for them is 0 where the column is standardised,
// and so says nothing; a vector that lacks elements is a mistake until somebody says otherwise.
func (o *Options) missing(spec *source.ColumnSpec) Missing {
	switch {
	case o.Missing != "":
		return o.Missing
	case spec.Measured && o.Standardises(spec):
		return MissingMean
	}
	return MissingError
}

// fillMissing decides what missing elements of feature column c become. The mean takes a pass over the column.
func (r *Job) fillMissing(ctx context.Context, c int, k *Converter) error {
	if k.rule == MissingError || !source.Floats(k.spec.Elem) {
		return nil
	}
	dim, size := k.spec.Dim, k.spec.Elem.Size()
	if k.fill = make([]float64, dim); k.rule == MissingZero || k.spec.Mask {
		return nil
	}
	if k.standard != nil { // the store's column has a mean
		k.fill = k.standard.Mean
		return nil
	}
	r.Phase("means of "+k.spec.Name, "rows", int64(r.Layout.Nodes))
	count := make([]int64, dim)
	err := r.eachRow(ctx, c, func(rows []byte, _ source.Position) error {
		for i := 0; i*size < len(rows); i++ {
			if x := k.spec.Elem.Float64(rows[i*size:]); !math.IsNaN(x) {
				k.fill[i%dim] += x
				count[i%dim]++
			}
		}
		r.Tick(int64(len(rows) / k.spec.RowBytes()))
		return ctx.Err()
	})
	for d := range k.fill {
		k.fill[d] /= math.Max(1, float64(count[d]))
	}
	return err
}

// missingNode makes the row of a node that the column says nothing about: means, and of a mask ones.
func (k *Converter) missingNode() error {
	if k.fill == nil {
		return nil
	}
	var row []byte
	for range k.spec.Dim {
		x := math.NaN()
		if k.spec.Mask {
			x = 1
		}
		switch k.spec.Elem {
		case blocks.Float64:
			row = binary.LittleEndian.AppendUint64(row, math.Float64bits(x))
		case blocks.Float32:
			row = binary.LittleEndian.AppendUint32(row, math.Float32bits(float32(x)))
		case blocks.Float16:
			row = binary.LittleEndian.AppendUint16(row, blocks.Float16Bits(float32(x)))
		default:
			row = binary.LittleEndian.AppendUint16(row, blocks.BFloat16Bits(float32(x)))
		}
	}
	var err error
	k.missing, err = k.Convert(nil, row, source.Position{File: k.spec.Name, Unit: "row"})
	k.filled = 0
	return err
}
