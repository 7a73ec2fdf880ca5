// Package graphtest makes graphs for tests of partitioners.
package graphtest

import (
	"math/rand/v2"
	"testing"

	"github.com/gstore/gstore/partitioner/graph"
)

// BlockModel is a graph of n nodes in `groups` groups (node v is of group v·17 mod groups, so ids tell nothing
// to a range), each with about degree neighbours, a share `inside` of them in its group. Labels follow
// groups; every other node is a training node.
func BlockModel(t testing.TB, n, groups, degree int, inside float64, seed uint64) (*graph.CSR, []uint16) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	group := make([]int, n)
	members := make([][]uint32, groups)
	for v := range n {
		group[v] = v * 17 % groups
		members[group[v]] = append(members[group[v]], uint32(v))
	}
	src, dst := make([]uint32, n*degree/2), make([]uint32, n*degree/2)
	for i := range src {
		v := r.IntN(n)
		src[i], dst[i] = uint32(v), uint32(r.IntN(n))
		if m := members[group[v]]; r.Float64() < inside && len(m) > 0 {
			dst[i] = m[r.IntN(len(m))]
		}
	}
	g, err := graph.BuildCSR(uint64(n), func(yield func(src, dst []uint32) error) error { return yield(src, dst) }, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	classes := make([]uint16, n)
	for v := range classes {
		if v%2 == 0 {
			classes[v] = uint16(group[v] + 1)
		}
	}
	return g, classes
}
