package ingest

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/source"
)

// Normalize says which features are brought to mean 0 and deviation 1.
type Normalize string

// Rules for the scale of features. Columns of a table are in units of their own, years beside euros beside days since 1970: a layer
// that begins with weights of one size sees the largest alone. Vectors, in arrays or in lists, have one scale already, and what made
// them knows it.
const (
	// NormalizeTables is the default: columns of numbers and dates of tables are ([source.ColumnSpec].Measured), vectors are not.
	// Columns of zeros and ones are too, since a tag that few have tells more than one that half have, unless they are a bag of words
	// ([bagColumns]).
	NormalizeTables Normalize = "tables"
	NormalizeAll    Normalize = "all"  // every feature but indicators of text and masks
	NormalizeNone   Normalize = "none" // none; missing values are refused unless Options.Missing says otherwise
)

func (n Normalize) validate() error {
	switch n {
	case "", NormalizeTables, NormalizeAll, NormalizeNone:
		return nil
	}
	return fmt.Errorf("%w: %q as the features to standardise (known: tables, all, none)", source.ErrOptions, string(n))
}

// Standardises reports whether a feature column is brought to mean 0 and deviation 1.
func (o *Options) Standardises(spec *source.ColumnSpec) bool {
	switch {
	case spec.Mask || spec.Indicator:
		return false
	case o.Normalize == NormalizeNone:
		return false
	}
	return spec.Measured || o.Normalize == NormalizeAll
}

// standardise decides how the values of feature column c are brought to mean 0 and deviation 1, where the options or the
// source say so. It takes a pass over the column, in 32 bytes a dimension. All rows count, of whatever split: features of
// nodes that are not trained on are seen in training too, as neighbours. What is missing does not count, if the mean is to stand there.
func (r *Job) standardise(ctx context.Context, c int, k *Converter) error {
	if k.spec.Standard != nil {
		k.standard = k.spec.Standard
		return k.standard.Validate(k.spec.Dim)
	}
	if !r.Options.Standardises(&k.spec) {
		return nil
	}
	r.Phase("means and deviations of "+k.spec.Name, "rows", int64(r.Layout.Nodes))
	m := newMoments(k.spec.Dim)
	size, skips := k.spec.Elem.Size(), k.rule == MissingMean
	err := r.eachRow(ctx, c, func(b []byte, at source.Position) error {
		for i := 0; i*size < len(b); i++ {
			if skips && math.IsNaN(k.spec.Elem.Float64(b[i*size:])) {
				continue
			}
			x, err := k.given(b[i*size:], i, at)
			if err != nil {
				return err
			}
			m.add(i%k.spec.Dim, x)
		}
		r.Tick(int64(len(b) / k.spec.RowBytes()))
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	if k.bag = r.Options.Normalize != NormalizeAll && m.bag(); k.bag {
		return nil // what is missing stays 0
	}
	k.standard, err = m.standard()
	if err != nil {
		return source.Inputf(r.Desc.Input, "%s: %v; ingest with --normalize=none", k.spec.Name, err)
	}
	if skips {
		k.fill = k.standard.Mean
	}
	return nil
}

// moments are the sums that means and deviations of a column's dimensions are made of: of differences from the first value, whose
// squares lose less than those of the values.
type moments struct {
	rows                []int64
	first, sum, squares []float64
	ones, others        int64 // values that are 1, and that are neither 0 nor 1
}

// Which words a text has is one vector, as many as 512 columns of zeros and ones of which at most a tenth are ones: standardised, it has no
// zeros left, and is learned from less well (docs/lab/findings.md, "Bags of words").
const (
	bagColumns = 512
	bagShare   = 10
)

// bag reports whether the columns are a bag of words.
func (m *moments) bag() bool {
	values := int64(0)
	for _, n := range m.rows {
		values += n
	}
	return len(m.rows) >= bagColumns && m.others == 0 && bagShare*m.ones <= values
}

func newMoments(dim int) *moments {
	return &moments{rows: make([]int64, dim), first: make([]float64, dim), sum: make([]float64, dim), squares: make([]float64, dim)}
}

func (m *moments) add(d int, x float64) {
	if m.rows[d] == 0 {
		m.first[d] = x
	}
	m.rows[d]++
	if x == 1 {
		m.ones++
	} else if x != 0 {
		m.others++
	}
	x -= m.first[d]
	m.sum[d] += x
	m.squares[d] += x * x
}

// standard is how dimensions are brought to mean 0 and deviation 1.
func (m *moments) standard() (*store.Standard, error) {
	dim := len(m.rows)
	s := &store.Standard{Mean: make([]float64, dim), Deviation: make([]float64, dim)}
	for d, rows := range m.rows {
		s.Deviation[d] = 1 // of a constant, or of no rows
		if rows == 0 {
			continue
		}
		mean := m.sum[d] / float64(rows)
		s.Mean[d] = m.first[d] + mean
		if math.IsInf(s.Mean[d], 0) || math.IsNaN(s.Mean[d]) {
			return nil, fmt.Errorf("the mean is beyond the largest number")
		}
		if v := math.Sqrt(m.squares[d]/float64(rows) - mean*mean); v > 0 && !math.IsInf(v, 0) {
			s.Deviation[d] = v
		}
	}
	return s, nil
}
