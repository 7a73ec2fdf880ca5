package temporal

import (
	"context"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
)

// frequencies encode the age of an edge, in the unit of the store's times, for which seconds are assumed.
const frequencies = 16

// startFrequency is ω_i in radians a second: a geometric series from 1 down to 1e-9, whose period is 200 years.
func startFrequency(i int) float64 { return math.Pow(10, -9*float64(i)/(frequencies-1)) }

// ageEncoder turns the age of an edge, in seconds, into cos(ω·age) for each of its frequencies ω and, with sines, sin(ω·age) behind
// them: with both the layer above can learn any phase, cos(ω·age + φ).
type ageEncoder struct {
	omega []float64 // radians a second
	sines bool
}

// ageEncoder returns the encoder of c's ages, which begins with the fixed frequencies; nil: ages are not encoded.
func (c *Config) ageEncoder() *ageEncoder {
	if c.TimeEncoding == TimeNone {
		return nil
	}
	a := &ageEncoder{omega: make([]float64, frequencies), sines: c.TimeEncoding != TimeCos}
	for i := range a.omega {
		a.omega[i] = startFrequency(i)
	}
	return a
}

// fixedAges is ageEncoder where batches are encoded when they are sampled, and nil where the model does it.
func (c *Config) fixedAges() *ageEncoder {
	if c.TimeEncoding == TimeLearned {
		return nil
	}
	return c.ageEncoder()
}

// columns is how many numbers encode an age.
func (a *ageEncoder) columns() int {
	switch {
	case a == nil:
		return 0
	case a.sines:
		return 2 * len(a.omega)
	}
	return len(a.omega)
}

// ageAt is the age at a moment of an edge of before. Edges without a time have the least one: their age is the largest.
func ageAt(moment, time int64) int64 {
	if age := moment - time; age >= 0 {
		return age
	}
	return math.MaxInt64
}

// encode writes an age's columns to out, and to slopes, if it is not empty, their derivatives by ln ω.
func (a *ageEncoder) encode(age int64, out, slopes []float32) {
	n := len(a.omega)
	for i, omega := range a.omega {
		phase := float64(age) * omega
		sin, cos := math.Sincos(phase)
		out[i] = float32(cos)
		if a.sines {
			out[n+i] = float32(sin)
		}
		if len(slopes) > 0 {
			slopes[i] = float32(-phase * sin)
			if a.sines {
				slopes[n+i] = float32(phase * cos)
			}
		}
	}
}

// startLogFrequencies is the [nn.Init] of the logarithms of the frequencies.
func startLogFrequencies() func(*keyed.Rand) float32 {
	i := -1
	return func(*keyed.Rand) float32 {
		i++
		return float32(math.Log(startFrequency(i)))
	}
}

// learnedAges sets out [queries × columns] to the means over a batch's edges of their ages' columns by the frequencies that the model
// has now. If train it returns the means of their derivatives by ln ω, which are all that the gradient needs: a mean is linear. g leads
// from edges to queries. Phases are products in float64.
func (m *model) learnedAges(ctx context.Context, b *mini.Batch, g gpu.Graph, out gpu.Tensor, train bool) (slopes gpu.Tensor) {
	q, k, columns := m.q, &b.Blocks[0], m.ages.columns()
	var logs [frequencies]float32
	q.Download(blocks.Bytes(logs[:]), m.frequencies.Value)
	if err := q.Sync(context.WithoutCancel(ctx)); err != nil {
		q.Fail(err) // what the batch issues from here on is skipped
		return slopes
	}
	for i, x := range logs {
		m.ages.omega[i] = math.Exp(float64(x))
	}
	m.encoded, m.slopes = resize(m.encoded, len(k.Times)*columns), m.slopes[:0]
	if train {
		m.slopes = resize(m.slopes, len(m.encoded))
	}
	for d := range k.NumDst {
		for e := k.Indptr[d]; e < k.Indptr[d+1]; e++ {
			lo, hi := int(e)*columns, int(e+1)*columns
			m.ages.encode(ageAt(b.Times[d], k.Times[e]), m.encoded[lo:hi], m.slopes[min(lo, len(m.slopes)):min(hi, len(m.slopes))])
		}
	}
	m.meanOfEdges(g, m.encoded, out)
	if train {
		slopes = m.arena.Matrix(q, out.Rows, columns)
		m.meanOfEdges(g, m.slopes, slopes)
	}
	return slopes
}

// meanOfEdges sets out [queries × columns] to the means of rows, one an edge of g; the rows stay as they are until the batch is done.
func (m *model) meanOfEdges(g gpu.Graph, rows []float32, out gpu.Tensor) {
	t := m.arena.Matrix(m.q, g.NumSrc, out.Cols)
	if m.q.Err() == nil && len(rows) > 0 {
		m.q.Upload(t, blocks.Bytes(rows))
	}
	m.q.Aggregate(gpu.AggregateOptions{Reduce: gpu.Mean}, g, t, out)
}

// ageGradient sets the frequencies' gradient from that of the means that learnedAges made, dAges [queries × columns].
func (m *model) ageGradient(slopes, dAges gpu.Tensor) {
	q, a := m.q, m.arena
	d, sum := a.Matrix(q, dAges.Rows, dAges.Cols), a.Matrix(q, 1, dAges.Cols)
	if q.Err() != nil {
		return
	}
	q.Copy(d, dAges)
	q.Mul(d, slopes)
	q.ColumnSum(d, sum)
	// A frequency's cosine and sine have a part each.
	q.Copy(m.frequencies.Grad, sum.View(0, 0, 1, frequencies))
	q.Axpy(1, sum.View(0, frequencies, 1, frequencies), m.frequencies.Grad)
}
