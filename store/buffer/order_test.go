package buffer

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// Lists of all lengths, alone and with what edges carry, are put in order with room for keys and without, beside the standard
// library's stable sort.
func TestSortByRank(t *testing.T) {
	const rows = 500
	rng := rand.New(rand.NewPCG(1, 1))
	rank := make([]uint32, rows)
	for i, p := range rng.Perm(rows) {
		rank[i] = uint32(p)
	}
	for _, n := range []int{0, 1, 2, 7, 60, 5000} {
		for carries := range 16 {
			for _, room := range []int{0, 2 * n} {
				const begin = 3
				a := &Adjacency{Spans: []Span{{begin, begin + int64(n)}}, Indices: make([]uint32, begin+n+1)}
				if carries&1 != 0 {
					a.Relations = make([]uint16, len(a.Indices))
				}
				if carries&2 != 0 {
					a.Weights = make([]float32, len(a.Indices))
				}
				if carries&4 != 0 {
					a.Times = make([]int64, len(a.Indices))
				}
				if carries&8 != 0 {
					a.FeatureDim = 3
					a.Features = make([]float32, 3*len(a.Indices))
				}
				type edge struct {
					v, place uint32
				}
				want := make([]edge, len(a.Indices))
				for e := range a.Indices {
					v := rng.Uint32N(rows)
					if n == 2 {
						v = rows - 1 - uint32(e) // now and then in order
					}
					a.Indices[e], want[e] = v, edge{v, uint32(e)}
					if a.Relations != nil {
						a.Relations[e] = uint16(e)
					}
					if a.Weights != nil {
						a.Weights[e] = float32(e)
					}
					if a.Times != nil {
						a.Times[e] = int64(e) << 33
					}
					for j := range a.FeatureDim {
						a.Features[3*e+j] = float32(3*e + j)
					}
				}
				slices.SortStableFunc(want[begin:begin+n], func(x, y edge) int { return cmp.Compare(rank[x.v], rank[y.v]) })
				a.SortByRank(0, rank, make([]uint64, room))
				for e, w := range want {
					if a.Indices[e] != w.v || a.Relations != nil && a.Relations[e] != uint16(w.place) ||
						a.Weights != nil && a.Weights[e] != float32(w.place) || a.Times != nil && a.Times[e] != int64(w.place)<<33 ||
						a.Features != nil && !slices.Equal(a.Features[3*e:3*e+3], []float32{float32(3 * w.place), float32(3*w.place + 1), float32(3*w.place + 2)}) {
						t.Fatalf("%d edges that carry %04b, with room for %d keys: edge %d is not edge %d's", n, carries, room, e, w.place)
					}
				}
			}
		}
	}
}
