package eval

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/sampler/keyed"
)

// TestWithin: the pieces of a tile's edges, cut by several goroutines, are those of each destination in their order, with what they carry.
func TestWithin(t *testing.T) {
	const nodes, sources, columns = 3*withinShare + 17, 900, 2
	r := keyed.New(3).Rand(0)
	whole := csr{indptr: []int32{0}, carried: carried{hasRelations: true, hasWeights: true, columns: columns}}
	for range nodes {
		var own []int32
		for range r.Below(6) {
			own = append(own, int32(r.Below(sources)))
		}
		slices.Sort(own)
		for _, s := range own {
			whole.indices, whole.relations = append(whole.indices, s), append(whole.relations, uint16(r.Below(9)))
			whole.weights = append(whole.weights, float32(len(whole.indices)))
			whole.features = append(whole.features, float32(s), float32(len(whole.indices)))
		}
		whole.indptr = append(whole.indptr, int32(len(whole.indices)))
	}
	begins := slices.Clone(whole.indptr[:nodes])
	var slab *blockio.Slab
	defer func() { _ = slab.Free() }()
	for first := 0; first < sources; first += 250 {
		n := min(250, sources-first)
		p, err := whole.within(&slab, begins, first, n)
		if err != nil {
			t.Fatal(err)
		}
		at := int32(0)
		for d := range nodes {
			if p.indptr[d] != at {
				t.Fatalf("piece from %d: the edges of destination %d begin at %d, expected %d", first, d, p.indptr[d], at)
			}
			for e := whole.indptr[d]; e < whole.indptr[d+1]; e++ {
				if s := whole.indices[e]; s < int32(first) || s >= int32(first+n) {
					continue
				}
				if p.indices[at] != whole.indices[e]-int32(first) || p.relations[at] != whole.relations[e] || p.weights[at] != whole.weights[e] ||
					!slices.Equal(p.features[at*columns:(at+1)*columns], whole.features[e*columns:(e+1)*columns]) {
					t.Fatalf("piece from %d: edge %d of destination %d is another", first, at, d)
				}
				at++
			}
		}
		if int(at) != len(p.indices) || int(p.indptr[nodes]) != len(p.indices) {
			t.Fatalf("piece from %d: %d edges, %d listed, expected %d", first, p.indptr[nodes], len(p.indices), at)
		}
	}
	if !slices.Equal(begins, whole.indptr[1:]) {
		t.Error("after the last piece some edges are left")
	}
}
