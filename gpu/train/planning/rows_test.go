package planning

import (
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/rows"
)

// TestRowsEstimateCountsAllLayers: with a precomputed hop the first layer draws nothing and still multiplies the rows of all nodes that
// the others draw, which is most of a mini-batch's work.
func TestRowsEstimateCountsAllLayers(t *testing.T) {
	m := &store.Manifest{Nodes: 1_000_000, Edges: 20_000_000}
	seconds := func(hop bool) float64 {
		c := config.Config{PrecomputedHop: hop, Threads: 1}
		if err := c.Normalize(); err != nil {
			t.Fatal(err)
		}
		y := &Memory{M: m, Cfg: c, trained: []uint64{100_000}, Shape: config.Shape{In: 128}}
		e := y.estimateRows(&rows.Sizes{RowBytes: 512, Slots: 16_000})
		return e.trainSeconds
	}
	if with, without := seconds(true), seconds(false); with < .2*without || with > without {
		t.Errorf("an epoch is estimated to train for %.2f s with a precomputed hop, %.2f without", with, without)
	}
}
