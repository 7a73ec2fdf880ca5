package buffer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/store"
)

// TestSeeds: a set of seeds is its nodes, by partition and in order, whatever their density; and takes less than an array of them.
func TestSeeds(t *testing.T) {
	const nodes = 1 << 20
	m := &store.Manifest{Nodes: nodes}
	for first := uint64(0); first < nodes; {
		n := min(nodes-first, 1+first/3)
		m.Partitions = append(m.Partitions, store.PartitionInfo{First: store.NodeID(first), Nodes: n})
		first += n
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, share := range []float64{0, 1e-5, .01, .3, 1} {
		var of []store.NodeID
		for v := range store.NodeID(nodes) {
			if rng.Float64() < share {
				of = append(of, v)
			}
		}
		s, err := NewSeeds(of, nodes)
		if err != nil {
			t.Fatal(err)
		}
		var in []store.NodeID
		for p, n := range s.Count(m) {
			got := slices.Collect(s.In(&m.Partitions[p]))
			if uint64(len(got)) != n {
				t.Errorf("share %v: partition %d has %d seeds, counted %d", share, p, len(got), n)
			}
			in = append(in, got...)
		}
		if !slices.Equal(in, of) || !slices.Equal(slices.Collect(s.All()), of) || s.Len() != len(of) {
			t.Errorf("share %v: the set of %d nodes is another", share, len(of))
		}
		if array := int64(8 * len(of)); share >= .01 && 5*s.Bytes() > 3*array {
			t.Errorf("share %v: %d bytes, an array has %d", share, s.Bytes(), array)
		}
	}
	for _, bad := range [][]store.NodeID{{3, 3}, {4, 3}, {nodes}} {
		if _, err := NewSeeds(bad, nodes); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}
