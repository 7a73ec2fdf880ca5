package generate

import (
	"math"
	"math/bits"

	"github.com/gstore/gstore/sampler/keyed"
)

// SBMOptions describe a degree-corrected stochastic block model: nodes lie in
// communities of equal size, each of one class; an edge stays in its source's
// community with probability Homophily and goes anywhere otherwise. A node's own features
// say little of its class (Signal), those of its neighbours together much: a
// GNN has to beat a classifier that looks at the node alone.
type SBMOptions struct {
	Nodes, Edges uint64
	Classes      int // 0 means 16
	// Communities, a multiple of Classes or rounded up to one; 0 means Classes, or as many as
	// give communities of about 1000 nodes.
	Communities uint64
	Homophily   float64 // 0 means .7
	// Skew makes destinations unequal: the node at quantile u of its community
	// receives edges in proportion to u^(1/Skew−1). 1 is uniform; 0 means 2.
	Skew   float64
	Dim    int     // float32 features a node; 0 means 64
	Signal float64 // distance of a class from the origin in standard deviations; 0 means 1.5
	Seed   uint64
}

type sbm struct {
	info        Info
	communities uint64
	homophily   float64
	skew        float64
	edges       keyed.Key
	ids         keyed.Permutation
	split       keyed.Permutation
	features    features
}

// NewSBM returns the graph of o.
func NewSBM(o SBMOptions) (Graph, error) {
	def := func(p *float64, v float64) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.Homophily, .7)
	def(&o.Skew, 2)
	def(&o.Signal, 1.5)
	if o.Classes == 0 {
		o.Classes = int(min(16, o.Nodes))
	}
	if o.Dim == 0 {
		o.Dim = 64
	}
	k := uint64(max(1, o.Classes))
	if o.Communities == 0 {
		o.Communities = max(k, o.Nodes/1000)
	}
	o.Communities = (o.Communities + k - 1) / k * k
	switch {
	case !(o.Homophily >= 0 && o.Homophily <= 1):
		return nil, badf("homophily %g: want a probability", o.Homophily)
	case !(o.Skew >= 1 && o.Skew <= 10):
		return nil, badf("skew %g: want 1 (uniform) to 10", o.Skew)
	case o.Communities > max(o.Nodes, k):
		return nil, badf("%d communities of %d nodes", o.Communities, o.Nodes)
	}
	if err := common(o.Nodes, o.Edges, o.Dim, o.Classes); err != nil {
		return nil, err
	}
	root := keyed.New(o.Seed)
	return &sbm{
		info:        Info{Kind: "sbm", Nodes: o.Nodes, Edges: o.Edges, Relations: 1, Dim: o.Dim, Classes: o.Classes, Seed: o.Seed},
		communities: o.Communities,
		homophily:   o.Homophily,
		skew:        o.Skew,
		edges:       root.With(keyEdges),
		ids:         keyed.NewPermutation(root.With(keyIDs), o.Nodes),
		split:       keyed.NewPermutation(root.With(keySplit), o.Nodes),
		features:    newFeatures(root, o.Dim, o.Classes, o.Signal),
	}, nil
}

func (g *sbm) Info() Info { return g.info }

// community returns the community of place p and the places it spans: places
// are node ids before scrambling, communities consecutive ranges of them.
func (g *sbm) community(p uint64) (c, from, to uint64) {
	hi, lo := bits.Mul64(p, g.communities)
	c, _ = bits.Div64(hi, lo, g.info.Nodes)
	if g.start(c+1) <= p {
		c++
	}
	return c, g.start(c), g.start(c + 1)
}

// start is the first place of community c.
func (g *sbm) start(c uint64) uint64 {
	hi, lo := bits.Mul64(c, g.info.Nodes)
	q, _ := bits.Div64(hi, lo, g.communities)
	return q
}

func (g *sbm) Edges(first uint64, src, dst []uint64) {
	for i := range src {
		r := g.edges.Rand(first + uint64(i))
		s := r.Below(g.info.Nodes)
		d := s
		for try := 0; d == s && try < 8; try++ { // no loops, unless a community is a single node
			in := s
			if r.Float64() >= g.homophily {
				in = r.Below(g.info.Nodes)
			}
			_, from, to := g.community(in)
			u := r.Float64()
			switch g.skew {
			case 1:
			case 2:
				u *= u
			default:
				u = math.Pow(u, g.skew)
			}
			d = from + uint64(u*float64(to-from))
		}
		src[i], dst[i] = g.ids.At(s), g.ids.At(d)
	}
}

// class spreads classes over communities in turn.
func (g *sbm) class(v uint64) int64 {
	c, _, _ := g.community(g.ids.Inverse(v))
	return int64(c % uint64(g.info.Classes))
}

func (g *sbm) Labels(first uint64, labels []int64) {
	for i := range labels {
		labels[i] = g.class(first + uint64(i))
	}
}

func (g *sbm) Features(first uint64, rows []float32) {
	for v := first; len(rows) > 0; v++ {
		g.features.row(v, g.class(v), rows[:g.info.Dim])
		rows = rows[g.info.Dim:]
	}
}

func (g *sbm) Split(i uint64) uint64 { return g.split.At(i) }
