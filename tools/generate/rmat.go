package generate

import (
	"math"
	"math/bits"

	"github.com/gstore/gstore/sampler/keyed"
)

// RMATOptions describe a recursive-matrix graph (Chakrabarti, Zhan and
// Faloutsos 2004): skewed degrees, self-similar communities. Edges may repeat
// and may be loops, as the model has it.
type RMATOptions struct {
	Nodes, Edges uint64
	// A, B, C are the probabilities of the quadrants (low,low), (low,high) and (high,low); the
	// rest is (high,high)'s. All 0 means .57, .19, .19.
	A, B, C float64
	Dim     int // float32 features a node; 0 = none
	// Classes labels nodes by the community they lie in at the top of the
	// recursion; 0 = no labels.
	Classes int
	Signal  float64 // strength of the class in the features, in standard deviations; 0 means 1.5
	Seed    uint64
}

type rmat struct {
	info   Info
	levels int
	// Two levels a draw: 16 random bits index the cell (two source bits, two destination bits).
	cells    []uint8
	edges    keyed.Key
	ids      keyed.Permutation
	split    keyed.Permutation
	features features
}

// NewRMAT returns the graph of o.
func NewRMAT(o RMATOptions) (Graph, error) {
	if o.A == 0 && o.B == 0 && o.C == 0 {
		o.A, o.B, o.C = .57, .19, .19
	}
	d := 1 - o.A - o.B - o.C
	if min(o.A, o.B, o.C, d+1e-12) < 0 || math.IsNaN(d) {
		return nil, badf("quadrant probabilities %g, %g, %g leave %g for the fourth: none may be negative", o.A, o.B, o.C, d)
	}
	if err := common(o.Nodes, o.Edges, o.Dim, o.Classes); err != nil {
		return nil, err
	}
	if o.Signal == 0 {
		o.Signal = 1.5
	}
	root := keyed.New(o.Seed)
	g := &rmat{
		info:     Info{Kind: "rmat", Nodes: o.Nodes, Edges: o.Edges, Relations: 1, Dim: o.Dim, Classes: o.Classes, Seed: o.Seed},
		levels:   bits.Len64(o.Nodes - 1),
		cells:    cells([4]float64{o.A, o.B, o.C, d}),
		edges:    root.With(keyEdges),
		ids:      keyed.NewPermutation(root.With(keyIDs), o.Nodes),
		split:    keyed.NewPermutation(root.With(keySplit), o.Nodes),
		features: newFeatures(root, o.Dim, o.Classes, o.Signal),
	}
	return g, nil
}

// common checks what all graphs share.
func common(nodes, edges uint64, dim, classes int) error {
	switch {
	case nodes < 1 || nodes > 1<<48:
		return badf("%d nodes: want 1 to 2^48", nodes)
	case edges > 1<<56:
		return badf("%d edges: want at most 2^56", edges)
	case dim < 0 || dim > 1<<16:
		return badf("%d features: want 0 to 65536", dim)
	case classes < 0 || uint64(classes) > nodes:
		return badf("%d classes of %d nodes", classes, nodes)
	}
	return nil
}

// cells spreads the 16 outcomes of two levels over 2¹⁶ entries in proportion
// to their probabilities (rounded to 2⁻¹⁶).
func cells(q [4]float64) []uint8 {
	t := make([]uint8, 1<<16)
	at, sum := 0, 0.0
	for i := range 4 {
		for j := range 4 {
			sum += q[i] * q[j]
			end := min(len(t), int(math.Round(sum*float64(len(t)))))
			cell := uint8(i>>1<<3 | j>>1<<2 | i&1<<1 | j&1)
			for ; at < end; at++ {
				t[at] = cell
			}
		}
	}
	for ; at < len(t); at++ {
		t[at] = t[at-1]
	}
	return t
}

func (g *rmat) Info() Info { return g.info }

func (g *rmat) Edges(first uint64, src, dst []uint64) {
	odd := uint(g.levels & 1)
	for i := range src {
		r := g.edges.Rand(first + uint64(i))
		for {
			var s, d, x uint64
			for l := 0; l < g.levels; l += 2 {
				if l%8 == 0 {
					x = r.Uint64()
				}
				c := uint64(g.cells[x&0xffff])
				x >>= 16
				s, d = s<<2|c>>2, d<<2|c&3
			}
			s, d = s>>odd, d>>odd
			if s < g.info.Nodes && d < g.info.Nodes { // the matrix is a power of two wide
				src[i], dst[i] = g.ids.At(s), g.ids.At(d)
				break
			}
		}
	}
}

// class is the community of place p, before ids are scrambled: an equal share of the
// places that are nodes. (Of the whole matrix, whose width is a power of two,
// the last classes would have no node: 4 of 16 at 100 M nodes.)
func (g *rmat) class(p uint64) int64 {
	hi, lo := bits.Mul64(p, uint64(g.info.Classes))
	c, _ := bits.Div64(hi, lo, g.info.Nodes)
	return int64(c)
}

func (g *rmat) Labels(first uint64, labels []int64) {
	for i := range labels {
		labels[i] = g.class(g.ids.Inverse(first + uint64(i)))
	}
}

func (g *rmat) Features(first uint64, rows []float32) {
	for v := first; len(rows) > 0; v++ {
		c := int64(0)
		if g.info.Classes > 0 {
			c = g.class(g.ids.Inverse(v))
		}
		g.features.row(v, c, rows[:g.info.Dim])
		rows = rows[g.info.Dim:]
	}
}

func (g *rmat) Split(i uint64) uint64 { return g.split.At(i) }
