package native

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// TestWalks: as many walks as asked for go along the store's edges, by internal ids; an array of another size and a budget too small are refused.
func TestWalks(t *testing.T) {
	h, s := openedStore(t)
	dst := make([]int64, 900*2*5)
	must(t, do(t, h, "walks", `{"length":5,"per_node":2,"q":0.5}`, blocks.Bytes(dst)), nil)
	for k := 0; k < len(dst); k += 5 * 97 {
		for i := k + 1; i < k+5 && dst[i] >= 0; i++ {
			n, err := s.Neighbors(t.Context(), []store.NodeID{store.NodeID(dst[i-1])}, store.NeighborOptions{Out: true})
			if err != nil || !slices.Contains(n.Nodes, store.NodeID(dst[i])) {
				t.Fatalf("walk %v: no edge to %d, %v", dst[k:k+5], dst[i], err)
			}
		}
	}
	for request, kind := range map[string]int{`{"length":6,"per_node":2}`: KindInvalid, `{"length":5,"per_node":2,"p":-1}`: KindInvalid, `{"length":5,"per_node":2,"memory_bytes":1}`: KindBudget} {
		if r := do(t, h, "walks", request, blocks.Bytes(dst)); Kind(r.Err) != kind {
			t.Errorf("%s: %v", request, r.Err)
		}
	}
}
