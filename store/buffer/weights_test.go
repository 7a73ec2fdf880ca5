package buffer_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/store/buffer"
)

// TestSumWeights: afterwards weights are what they count as, which samplers do not ask again.
func TestSumWeights(t *testing.T) {
	inf := float32(math.Inf(1))
	weights := []float32{1, -1, 0, float32(math.NaN()), inf, -inf, .5, 3}
	a := buffer.Adjacency{Weights: slices.Clone(weights), Spans: []buffer.Span{{Begin: 0, End: 3}, {Begin: 3, End: 8}}, Sums: make([]float64, 1)}
	a.SumWeights(0, len(a.Spans))
	for k, w := range weights {
		if got := float64(a.Weights[k]); got != buffer.Weight(w) {
			t.Errorf("a weight of %v became %v, expected %v", w, got, buffer.Weight(w))
		}
	}
}

// TestRowWeight: sums of rows' weights, of every length and beginning, are those of their edges, of which what is negative counts as 0.
func TestRowWeight(t *testing.T) {
	a := buffer.Adjacency{}
	for n := range int64(70) {
		begin := int64(len(a.Weights))
		for k := range n {
			a.Weights = append(a.Weights, float32(k%5)-1)
		}
		a.Spans = append(a.Spans, buffer.Span{Begin: begin, End: begin + n})
	}
	a.Sums = make([]float64, len(a.Weights)/buffer.SumEdges+1)
	a.SumWeights(0, len(a.Spans))
	for r, s := range a.Spans {
		want := 0.
		for _, w := range a.Weights[s.Begin:s.End] {
			want += max(0, float64(w))
		}
		if got := a.RowWeight(uint32(r)); math.Abs(got-want) > 1e-9 {
			t.Errorf("row %d, %d edges from %d on: %v, expected %v", r, s.End-s.Begin, s.Begin, got, want)
		}
	}
}
