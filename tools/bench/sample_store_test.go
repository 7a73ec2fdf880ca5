package bench

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// TestSampleStore: rounds go on through epochs, each of other batches, and what is sampled is the same on any number of threads.
func TestSampleStore(t *testing.T) {
	s := smallStore(t)
	const rounds, batches = 4, 15 // of 20 batches an epoch
	measure := func(threads int) (edges []int64) {
		err := SampleStore(t.Context(), s, threads, SampleOptions{Fanouts: []int{4, 3}, BatchSize: 100, Rounds: rounds, Batches: batches, Seed: 1}, func(r SampleRound) {
			// A seed has at most 4 edges, and it and each of its 4 neighbours 3 more.
			if r.Batches != batches || r.Inputs <= 100*batches || r.SampledEdges > 100*batches*(4+5*3) || r.Seconds <= 0 {
				t.Errorf("%d threads: %+v", threads, r)
			}
			edges = append(edges, r.SampledEdges)
		})
		if err != nil {
			t.Fatal(err)
		}
		return edges
	}
	one := measure(1)
	if len(one) != rounds || len(slices.Compact(slices.Sorted(slices.Values(one)))) == 1 {
		t.Errorf("%d rounds of %v edges, expected %d that differ", len(one), one, rounds)
	}
	if three := measure(3); !slices.Equal(one, three) {
		t.Errorf("one thread sampled %v edges, three %v", one, three)
	}
}

// TestSampleStoreRows: with Rows every input's row of the features is gathered, of the batches that are sampled without.
func TestSampleStoreRows(t *testing.T) {
	s := smallStore(t)
	column, err := s.Manifest().Column("x")
	if err != nil {
		t.Fatal(err)
	}
	measure := func(rows bool) (out []SampleRound) {
		o := SampleOptions{Fanouts: []int{4, 3}, BatchSize: 100, Rounds: 2, Batches: 15, Seed: 1, Rows: rows}
		if err := SampleStore(t.Context(), s, 2, o, func(r SampleRound) { out = append(out, r) }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	bare := measure(false)
	for i, r := range measure(true) {
		if r.Inputs != bare[i].Inputs || bare[i].RowBytes != 0 || r.RowBytes != r.Inputs*4*int64(column.Dim) {
			t.Errorf("round %d: %d bytes of %d inputs' %d features; without: %+v", i, r.RowBytes, r.Inputs, column.Dim, bare[i])
		}
	}
	mb, b := buffer.MacroBatch{Features: []buffer.Column{{Type: blocks.Int8, Dim: 2, Stride: 3, Data: []byte{1, 2, 0, 3, 4, 0, 5, 255}, Scale: []float32{1, 10}}}}, mini.Batch{Input: []uint32{2, 0, 2}}
	for range 2 { // the second time in the memory of the first
		if err := gatherRows(&mb, &b); err != nil || !slices.Equal(b.Extra.([][]float32)[0], []float32{5, -10, 1, 20, 5, -10}) {
			t.Errorf("gathered %v, %v", b.Extra, err)
		}
	}
}
