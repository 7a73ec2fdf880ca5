package ondevice

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
)

// TestDrawnSpare: spare slots are left out beside which mini-batches could be larger than the device counts.
func TestDrawnSpare(t *testing.T) {
	c := config.Config{Plan: macro.Hanoi, Buffer: 2}
	m := &store.Manifest{Partitions: slices.Repeat([]store.PartitionInfo{{Nodes: 100e6}}, 4)}
	o := &sampling.Options{Config: mini.Config{Fanouts: []int{10}}, Entries: 1 << 40, Batch: 1 << 30}
	if n := drawnSpare(&c, o, m, 2, 1<<60, 32); n != 0 || o.Rows != 200e6 {
		t.Errorf("%d spare slots, %d rows; expected none and those of two partitions", n, o.Rows)
	}
}
