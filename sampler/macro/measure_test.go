package macro

import (
	"reflect"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

func uniform(p int, write bool) Sizes {
	z := Sizes{Node: make([]int64, p), Bucket: func(_, _ int) int64 { return 10 }, Write: write}
	for i := range z.Node {
		z.Node[i] = 100
	}
	return z
}

// A plan worked by hand: three partitions, two at a time.
func TestCostAndBiasByHand(t *testing.T) {
	plan := buffer.Plan{Policy: Beta, Capacity: 2, Steps: []buffer.Step{
		{Resident: []store.PartitionID{0, 1}, Buckets: buckets(0, 0, 0, 1, 1, 0, 1, 1)},
		{Resident: []store.PartitionID{0, 2}, Buckets: buckets(0, 2, 2, 0, 2, 2)},
		{Resident: []store.PartitionID{1, 2}, Buckets: buckets(1, 2, 2, 1)},
	}}
	c := Cost(plan, 3, uniform(3, true))
	// Loads 2 + 1 + 1. Buckets read: 4, then (0,2) (2,0) (2,2), then (1,1) (1,2) (2,1).
	want := Costs{Steps: 3, Loads: 4, Swaps: 2, SwapsBound: 2, NodeBytes: 400, EdgeBytes: 100, WriteBytes: 400, Peak: 240, Examples: []int{4, 3, 2}, Bias: 4. / 6}
	// Tallies of 6: after step 0: 4, 4, 0; step 1: 6, 4, 4; at the end all 6.
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	if b := BiasOf(plan, 3, func(b buffer.BucketID) float64 {
		if b.Src == 2 || b.Dst == 2 {
			return 0
		}
		return 1
	}); b != 0 {
		t.Errorf("bias without partition 2's edges is %v, want 0: the others are trained in step 0", b)
	}
	undirected := buffer.Plan{Steps: []buffer.Step{
		{Buckets: buckets(0, 0, 0, 1)}, {Buckets: buckets(1, 1)},
	}}
	if b := Bias(undirected, 2); b != .5 {
		t.Errorf("bias of an undirected plan is %v, want .5", b)
	}
}

// buckets makes (src, dst) pairs.
func buckets(ends ...store.PartitionID) []buffer.BucketID {
	var s []buffer.BucketID
	for i := 0; i < len(ends); i += 2 {
		s = append(s, buffer.BucketID{Src: ends[i], Dst: ends[i+1]})
	}
	return s
}

// Marius' bound holds for every plan, and BETA comes near it as its paper says.
func TestSwapsAndBias(t *testing.T) {
	tests := []struct{ p, c int }{{8, 4}, {16, 4}, {32, 8}, {64, 16}, {64, 8}}
	for _, tt := range tests {
		costs := map[string]Costs{}
		for name, cfg := range map[string]Config{
			"beta":  {Policy: Beta},
			"paper": {Policy: Comet, Order: Random, Logical: 2 * tt.p / tt.c}, "balanced": {Policy: Comet, Logical: 2 * tt.p / tt.c},
			"default": {Policy: Comet},
		} {
			cfg.Partitions, cfg.Capacity = tt.p, tt.c
			policy, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			sum := Costs{}
			const epochs = 10
			for e := range epochs {
				c := Cost(policy.Epoch(e), tt.p, uniform(tt.p, false))
				if c.Swaps < c.SwapsBound {
					t.Errorf("%s p=%d c=%d: %d swaps, below the bound %d", name, tt.p, tt.c, c.Swaps, c.SwapsBound)
				}
				sum.Swaps += c.Swaps
				sum.Bias += c.Bias / epochs
			}
			costs[name] = sum
		}
		t.Logf("p=%d c=%d: swaps in ten epochs and bias: beta %d %.3f, comet as published %d %.3f, balanced %d %.3f, with four logical partitions %d %.3f", tt.p, tt.c,
			costs["beta"].Swaps, costs["beta"].Bias, costs["paper"].Swaps, costs["paper"].Bias, costs["balanced"].Swaps, costs["balanced"].Bias,
			costs["default"].Swaps, costs["default"].Bias)
		if float64(costs["beta"].Swaps) > 1.25*float64(10*SwapsBound(tt.p, tt.c)) {
			t.Errorf("p=%d c=%d: beta swaps %d in ten epochs, bound %d", tt.p, tt.c, costs["beta"].Swaps, 10*SwapsBound(tt.p, tt.c))
		}
		if costs["paper"].Bias >= costs["beta"].Bias || costs["balanced"].Bias > costs["paper"].Bias {
			t.Errorf("p=%d c=%d: bias of balanced, published and beta is not in this order", tt.p, tt.c)
		}
		if tt.p/tt.c >= 4 && costs["balanced"].Bias > .65*costs["paper"].Bias {
			t.Errorf("p=%d c=%d: balance gains too little", tt.p, tt.c)
		}
		if tt.p/tt.c >= 4 && (100*costs["default"].Swaps > 85*costs["paper"].Swaps || costs["default"].Bias > costs["paper"].Bias) {
			t.Errorf("p=%d c=%d: four logical partitions read as much as two as published, or are more biased", tt.p, tt.c)
		}
		if 100*costs["balanced"].Swaps > 105*costs["paper"].Swaps {
			t.Errorf("p=%d c=%d: balanced comet swaps %d, as published %d", tt.p, tt.c, costs["balanced"].Swaps, costs["paper"].Swaps)
		}
	}
}
