// Package evaltest has graphs in memory that stand in for a store in tests of evaluation and training.
package evaltest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Graph is a data set in memory that stands in for a store: partitions
// of consecutive ids, and one macro-batch that holds everything.
type Graph struct {
	M        store.Manifest
	Dim      int
	Features []byte
	Labels   []int32
	Split    []uint8
	In, Out  buffer.Adjacency // Out only where edges have relations and directions
	stripes  [][]byte         // encoded
	types    [][]byte         // relations of their edges
	weights  [][]byte         // of these, float32
	rows     [][]byte         // of these, two float32s: features
	started  bool
	Pending  bool // what NextReady denies
	Reuse    bool // passes are left open
}

func (g *Graph) Manifest() *store.Manifest { return &g.M }

func (g *Graph) ScratchDir() string { return os.TempDir() }

func (g *Graph) ReadColumn(_ context.Context, name string, p store.PartitionID, _ []byte) ([]byte, error) {
	info := g.M.Partitions[p]
	lo, hi := int(info.First), int(info.First)+int(info.Nodes)
	switch name {
	case "x":
		return g.Features[lo*g.Dim*4 : hi*g.Dim*4], nil
	case "label":
		var b []byte
		for _, l := range g.Labels[lo:hi] {
			b = binary.LittleEndian.AppendUint32(b, uint32(l))
		}
		return b, nil
	case "split":
		return g.Split[lo:hi], nil
	case "relation":
		return g.types[p], nil
	case "weight":
		return g.weights[p], nil
	case "edge":
		return g.rows[p], nil
	}
	return nil, fmt.Errorf("no column %s", name)
}

func (g *Graph) ColumnBytes(name string, p store.PartitionID) (int64, error) {
	b, err := g.ReadColumn(context.Background(), name, p, nil)
	return int64(len(b)), err
}

func (g *Graph) ReadStripe(_ context.Context, p store.PartitionID, _ []byte) (blocks.Stripe, []byte, error) {
	stripe, err := blocks.OpenStripe(g.stripes[p], uint32(len(g.M.Partitions)))
	return stripe, g.stripes[p], err
}

// Plan is one step that holds everything.
func (g *Graph) Plan(int) buffer.Plan {
	var all []store.PartitionID
	for p := range g.M.Partitions {
		all = append(all, store.PartitionID(p))
	}
	step := buffer.Step{Resident: all, Train: all}
	if g.Reuse {
		step.Passes, step.WhilePending = 1+macro.ReuseMax, true
	}
	return buffer.Plan{Policy: "memory", Steps: []buffer.Step{step}}
}

func (g *Graph) StartAt(buffer.Plan, int) error { g.started = true; return nil }
func (g *Graph) Next() bool                     { s := g.started; g.started = false; return s }
func (g *Graph) NextReady() bool                { return !g.Pending }
func (g *Graph) Err() error                     { return nil }
func (g *Graph) Announce(buffer.Plan) error     { return nil }
func (g *Graph) PredictBytes(buffer.Plan) int64 { return 0 }
func (g *Graph) Stats() (s buffer.Stats)        { return s }
func (g *Graph) MacroBatch() *buffer.MacroBatch {
	mb := &buffer.MacroBatch{Step: g.Plan(0).Steps[0], Rows: len(g.Labels), In: &g.In, Labels: g.Labels,
		Features: []buffer.Column{{Name: "x", Type: blocks.Float32, Dim: g.Dim, Stride: g.Dim * 4, Data: g.Features}}}
	if len(g.Out.Spans) > 0 {
		mb.Out = &g.Out
	}
	for p, info := range g.M.Partitions {
		mb.Partitions = append(mb.Partitions, buffer.ResidentPartition{ID: store.PartitionID(p), Base: uint32(info.First), Nodes: uint32(info.Nodes), First: info.First})
	}
	for v, s := range g.Split {
		if s == store.SplitTrain {
			mb.Seeds = append(mb.Seeds, uint32(v))
		}
	}
	return mb
}

// Relations is how many relations edges of a Graph have.
const Relations = 3

// relationOf is the relation of the stored edge from s to d.
func relationOf(s, d uint32) uint16 { return uint16((s*7 + d*d) % 5 % Relations) }

// weightOf is the weight of the stored edge from s to d: some are 0, some negative, which counts as 0.
func weightOf(s, d uint32) float32 { return float32((s*3+d*d)%7)/2 - .5 }

// featuresOf are the features of the stored edge from s to d.
func featuresOf(s, d uint32) []float32 {
	return []float32{float32((s*5+d)%11)/4 - 1, float32((s+d*d)%13)/6 - 1}
}

// build makes adjacency, stripes and manifest from edges [2·E] and the partitions' numbers of nodes; dim, features,
// labels and split are set.
func (g *Graph) build(t testing.TB, edges []int64, sizes []uint32, classes int, undirected bool) {
	t.Helper()
	e, n, parts := len(edges)/2, len(g.Labels), len(sizes)
	pairs := make([][2]uint32, 0, e)
	for i := range e {
		a, b := uint32(edges[i]), uint32(edges[e+i])
		if undirected {
			a, b = min(a, b), max(a, b)
		}
		pairs = append(pairs, [2]uint32{a, b})
	}
	slices.SortFunc(pairs, func(a, b [2]uint32) int { // by dst partition comes with dst
		if a[1] != b[1] {
			return int(a[1]) - int(b[1])
		}
		return int(a[0]) - int(b[0])
	})
	pairs = slices.Compact(pairs)
	neighbours, reverse := make([][]uint32, n), make([][]uint32, n)
	for _, p := range pairs {
		neighbours[p[1]] = append(neighbours[p[1]], p[0])
		if undirected && p[0] != p[1] {
			neighbours[p[0]] = append(neighbours[p[0]], p[1])
		}
		reverse[p[0]] = append(reverse[p[0]], p[1])
	}
	adjacency := func(lists [][]uint32, ends func(v, u uint32) (s, d uint32)) (a buffer.Adjacency) {
		a.FeatureDim = 2
		for v, list := range lists {
			slices.Sort(list)
			at := int64(len(a.Indices))
			a.Indices = append(a.Indices, list...)
			for _, u := range list {
				s, d := ends(uint32(v), u)
				a.Relations, a.Weights, a.Features = append(a.Relations, relationOf(s, d)), append(a.Weights, weightOf(s, d)), append(a.Features, featuresOf(s, d)...)
			}
			a.Spans = append(a.Spans, buffer.Span{Begin: at, End: int64(len(a.Indices))})
		}
		a.Sums = make([]float64, (len(a.Indices)+buffer.SumEdges-1)/buffer.SumEdges)
		a.SumWeights(0, n)
		return a
	}
	g.In = adjacency(neighbours, func(v, u uint32) (s, d uint32) {
		if undirected {
			v, u = max(v, u), min(v, u)
		}
		return u, v
	})
	if !undirected {
		g.Out = adjacency(reverse, func(v, u uint32) (s, d uint32) { return v, u })
	}
	var owners []int // by node
	for p, size := range sizes {
		g.M.Partitions = append(g.M.Partitions, store.PartitionInfo{First: store.NodeID(len(owners)), Nodes: uint64(size)})
		owners = append(owners, slices.Repeat([]int{p}, int(size))...)
	}
	buckets := make([][][]uint64, parts)
	for p := range buckets {
		buckets[p] = make([][]uint64, parts)
	}
	for _, p := range pairs {
		i, j := owners[p[0]], owners[p[1]]
		s, d := p[0]-uint32(g.M.Partitions[i].First), p[1]-uint32(g.M.Partitions[j].First)
		buckets[j][i] = append(buckets[j][i], uint64(d)<<32|uint64(s))
		g.M.Partitions[j].Edges++
	}
	for j := range parts {
		var b bytes.Buffer
		enc := blocks.NewStripeEncoder(&b, sizes)
		if err := enc.Begin(store.PartitionID(j)); err != nil {
			t.Fatal(err)
		}
		var types, weights, rows []byte
		for i := range parts {
			slices.Sort(buckets[j][i])
			for _, e := range buckets[j][i] {
				s, d := uint32(e)+uint32(g.M.Partitions[i].First), uint32(e>>32)+uint32(g.M.Partitions[j].First)
				types = append(types, byte(relationOf(s, d)))
				weights = binary.LittleEndian.AppendUint32(weights, math.Float32bits(weightOf(s, d)))
				rows = append(rows, blocks.Bytes(featuresOf(s, d))...)
			}
			if err := enc.Bucket(store.PartitionID(i), buckets[j][i]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := enc.End(); err != nil {
			t.Fatal(err)
		}
		g.stripes, g.types, g.weights, g.rows = append(g.stripes, b.Bytes()), append(g.types, types), append(g.weights, weights), append(g.rows, rows)
	}
	g.M.Nodes, g.M.Edges = uint64(n), uint64(len(pairs))
	relations := make([]store.Relation, Relations)
	for i := range relations {
		relations[i].Name = fmt.Sprintf("r%d", i)
	}
	g.M.Schema = store.Schema{Relations: relations, Undirected: undirected, Task: store.TaskNode, Classes: classes}
	g.M.Columns = []store.ColumnInfo{
		{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: g.Dim},
		{Name: "label", Role: store.RoleLabel, Elem: blocks.Int32, Dim: 1},
		{Name: "relation", Role: store.RoleRelation, Elem: blocks.Uint8, Dim: 1},
		{Name: "weight", Role: store.RoleWeight, Elem: blocks.Float32, Dim: 1},
		{Name: "edge", Role: store.RoleEdge, Elem: blocks.Float32, Dim: 2},
		{Name: "split", Role: store.RoleSplit, Elem: blocks.Uint8, Dim: 1},
	}
}

// Random makes a small graph with skewed degrees, self loops and isolated
// nodes, whose labels follow the features of the neighbourhood.
func Random(t testing.TB, n, parts int, undirected bool) *Graph {
	t.Helper()
	g, r := nodes(n)
	e := 6 * n
	edges := make([]int64, 2*e)
	for i := range e {
		u, v := int64(r.Below(uint64(n))), int64(r.Below(uint64(1+i%n)))
		if i%3 > 0 { // mostly equal labels
			for k := 0; k < 20 && g.Labels[u] != g.Labels[v]; k++ {
				v = int64(r.Below(uint64(n)))
			}
		}
		edges[i], edges[e+i] = u-u%7/6, v // some nodes are never a source
	}
	sizes := make([]uint32, parts)
	for v := range n {
		sizes[v*parts/n]++
	}
	g.build(t, edges, sizes, classes, undirected)
	return g
}

// Sparse makes a graph of which most partitions have no edge to each other, or none at all: of the sizes given, some of which may be 0,
// with so many edges between the first and the last node and among those of the partition that has node n/2.
func Sparse(t testing.TB, sizes []uint32, edges int, undirected bool) *Graph {
	t.Helper()
	n := 0
	for _, size := range sizes {
		n += int(size)
	}
	g, r := nodes(n)
	var src, dst []int64
	for i := range edges {
		switch {
		case i == 0:
			src, dst = append(src, 0), append(dst, int64(n-1))
		default:
			src, dst = append(src, int64(n/2)), append(dst, int64(n/2)+int64(r.Below(uint64(max(1, n/8)))))
		}
	}
	g.build(t, append(src, dst...), sizes, classes, undirected)
	return g
}

const dim, classes = 12, 5

// nodes makes a graph of n nodes without edges or partitions, and returns what the rest is drawn by.
func nodes(n int) (*Graph, *keyed.Rand) {
	r := keyed.New(4).Rand(1)
	g := &Graph{Dim: dim}
	for v := range n {
		class := int32(r.Below(classes))
		for j := range dim {
			x := r.Normal()
			if j == int(class) {
				x += 1.5
			}
			g.Features = binary.LittleEndian.AppendUint32(g.Features, math.Float32bits(float32(x)))
		}
		if v%17 == 0 {
			class = -1
		}
		g.Labels = append(g.Labels, class)
		g.Split = append(g.Split, uint8(v%4))
	}
	return g, &r
}
