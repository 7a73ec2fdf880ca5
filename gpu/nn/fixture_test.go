package nn_test

import (
	"context"
	"testing"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
)

// fixture is a model over a random sampled mini-batch.
type fixture struct {
	t      *testing.T
	dev    *host.Device
	q      *gpu.Queue
	model  *nn.Model
	keep   *gpu.Arena // tensors that live for the test
	table  gpu.Tensor
	index  gpu.Tensor
	ids    []gpu.Tensor // of table's rows, a table for each of the model's categories
	types  []uint32     // of the input nodes, where the model reads them
	labels gpu.Tensor
	edges  [][2][]int32 // indptr, indices of each block
	sizes  []int        // nodes: input … seeds
	full   [][]int32    // degrees of the nodes of each size before sampling

	weights  [][]float32 // of each block's edges
	weighers []nn.EdgeWeigher
	// features of each block's edges, EdgeDim a row, where the model has some
	features [][]float32
	readers  []nn.EdgeReader
	// degreeSums: sums of weights are degrees, as where all weigh 1
	degreeSums bool
	relations  [][]uint16 // of each block's edges, where the model has relations
	groupers   []nn.Grouper
	choices    []nn.Choice // of the last step
	histories  []*nn.History
	sparse     gpu.Sparse // the input, instead of table
}

func floats(t gpu.Tensor, q *gpu.Queue) []float32 {
	out := make([]float32, t.Len())
	if len(out) > 0 {
		q.Download(unsafe.Slice((*byte)(unsafe.Pointer(&out[0])), 4*len(out)), t)
	}
	return out
}

func upload(q *gpu.Queue, dst gpu.Tensor, x []float32) {
	q.Upload(dst, unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x)))
}

func newFixture(t *testing.T, cfg nn.Config, sizes []int, threads int) *fixture {
	t.Helper()
	f := &fixture{t: t, dev: host.New(host.Options{Threads: threads}), sizes: sizes}
	t.Cleanup(func() { _ = f.dev.Close() })
	var err error
	if f.q, err = gpu.NewQueue(f.dev); err != nil {
		t.Fatal(err)
	}
	if f.model, err = nn.New(t.Context(), f.q, cfg); err != nil {
		t.Fatal(err)
	}
	r := keyed.New(99).Rand(0)
	f.keep = gpu.NewArena(f.dev)
	rows := sizes[0] + 7
	f.table = f.keep.Matrix(f.q, rows, cfg.In)
	x := make([]float32, rows*cfg.In)
	for i := range x {
		x[i] = float32(r.Normal())
	}
	upload(f.q, f.table, x)
	var numbers [][]uint32
	for _, n := range cfg.Categories {
		ids := make([]uint32, rows)
		for i := range ids {
			ids[i] = 1 + uint32(r.Below(uint64(n-1)))
		}
		f.ids, numbers = append(f.ids, f.categories(ids)), append(numbers, ids)
	}
	index := make([]uint32, sizes[0])
	for i := range index {
		index[i] = uint32(r.Below(uint64(rows)))
		if cfg.NodeTypes > 0 {
			f.types = append(f.types, numbers[cfg.NodeTypes-1][index[i]])
		}
	}
	f.index = f.keep.Uint32s(f.q, index)
	for l := range cfg.Layers {
		indptr, indices := []int32{0}, []int32{}
		for d := range sizes[l+1] {
			n := int(r.Below(5))
			if d == 0 {
				n = 0 // a destination without neighbours
			}
			for range n {
				indices = append(indices, int32(r.Below(uint64(sizes[l]))))
			}
			indptr = append(indptr, int32(len(indices)))
		}
		f.edges = append(f.edges, [2][]int32{indptr, indices})
		var relations []uint16
		for range indices {
			relations = append(relations, uint16(r.Below(uint64(max(1, cfg.Relations)))))
		}
		f.relations = append(f.relations, relations)
	}
	w := keyed.New(98).Rand(0)
	for l := range f.edges {
		var weights []float32
		for e := range f.edges[l][1] {
			weights = append(weights, float32(w.Float64())*float32(e%4)) // some are 0
		}
		f.weights = append(f.weights, weights)
	}
	f.weighers = cfg.EdgeWeighers(cfg.Layers)
	f.readers = make([]nn.EdgeReader, cfg.Layers)
	for l := range f.edges {
		rows := make([]float32, len(f.edges[l][1])*cfg.EdgeDim)
		for i := range rows {
			rows[i] = float32(w.Normal())
		}
		f.features = append(f.features, rows)
	}
	f.groupers = cfg.Groupers(cfg.Layers)
	f.full = make([][]int32, len(sizes))
	for l := range sizes {
		for v := range sizes[l] {
			n := int32(r.Below(9))
			if l > 0 { // some of these were sampled
				at := f.edges[l-1][0][v:]
				if n = at[1] - at[0]; n > 0 {
					n += int32(r.Below(4))
				}
			}
			f.full[l] = append(f.full[l], n)
		}
		if l > 0 {
			copy(f.full[l-1], f.full[l]) // destinations are the first sources
		}
	}
	labels := make([]int32, sizes[len(sizes)-1])
	for i := range labels {
		labels[i] = int32(r.Below(uint64(cfg.Out)))
	}
	f.labels = f.keep.Int32s(f.q, labels)
	if err := f.q.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// categories is a table of one id a row.
func (f *fixture) categories(ids []uint32) gpu.Tensor {
	t := f.keep.Matrix(f.q, len(ids), 1)
	f.q.Upload(t, blocks.Bytes(ids))
	return t
}

// graphs are the mini-batch's, in a.
func (f *fixture) graphs(a *gpu.Arena) []gpu.Graph {
	var graphs []gpu.Graph
	for l, e := range f.edges {
		if l == 0 && len(f.model.Layers()) > len(f.edges) { // of the input layer
			graphs = append(graphs, gpu.Graph{NumDst: f.sizes[0], NumSrc: f.sizes[0]})
		}
		graphs = append(graphs, gpu.Graph{NumDst: f.sizes[l+1], NumSrc: f.sizes[l], Indptr: a.Int32s(f.q, e[0]), Indices: a.Int32s(f.q, e[1]),
			SrcDegrees: a.Int32s(f.q, f.full[l]), DstDegrees: a.Int32s(f.q, f.full[l+1])})
		if f.model.Config().EdgeWeights {
			f.weigh(&graphs[len(graphs)-1], a, l)
		}
		if f.model.Config().EdgeDim > 0 {
			f.readEdges(&graphs[len(graphs)-1], a, l)
		}
		if f.model.Config().Relations > 0 {
			f.groupers[l].Group(f.q, a, &graphs[len(graphs)-1], e[0], e[1], f.relations[l])
		}
	}
	return graphs
}

// step returns the mean loss; with backward it also sets the gradients.
func (f *fixture) step(backward bool) float64 {
	f.t.Helper()
	a := gpu.NewArena(f.dev)
	defer func() { _ = a.Close() }()
	graphs := f.graphs(a)
	f.choices = f.model.ChooseOrders(graphs, 4)
	p := &nn.Pass{Queue: f.q, Arena: a, Train: true, DropoutSeed: 5, Histories: f.histories}
	in := nn.Input{Tables: append([]gpu.Tensor{f.table}, f.ids...), Index: f.index, Types: f.types}
	if !f.sparse.IsZero() {
		in = nn.Input{Sparse: f.sparse}
	}
	logits := f.model.Forward(p, graphs, in)
	var grad gpu.Tensor
	if backward {
		grad = a.Matrix(f.q, logits.Rows, logits.Cols)
	}
	f.q.SoftmaxCrossEntropy(logits, f.labels, grad, f.model.Stat())
	if backward {
		f.model.Backward(p, grad)
	}
	var stat [2]float64
	f.q.Download(unsafe.Slice((*byte)(unsafe.Pointer(&stat)), 16), f.model.Stat())
	if err := f.q.Sync(context.Background()); err != nil {
		f.t.Fatal(err)
	}
	return stat[0] / float64(logits.Rows)
}

// sums are weights of all edges into the nodes of size l before sampling: more than those that were sampled.
func (f *fixture) sums(l int) (sums []float64) {
	for v, n := range f.full[l] {
		if f.degreeSums {
			sums = append(sums, float64(n))
			continue
		}
		sums = append(sums, .3*float64(n)+.1*float64(v%3))
	}
	return sums
}

// weigh gives the graph of block l its weights.
func (f *fixture) weigh(g *gpu.Graph, a *gpu.Arena, l int) {
	f.weighers[l].Weigh(f.q, a, g, nn.WeighedEdges{Indptr: f.edges[l][0], Indices: f.edges[l][1], Weights: f.weights[l], Degrees: f.full[l+1], Sums: f.sums(l)})
}

// readEdges gives the graph of block l its edges' features.
func (f *fixture) readEdges(g *gpu.Graph, a *gpu.Arena, l int) {
	places := make([]int64, len(f.edges[l][1]))
	for e := range places {
		places[e] = int64(e)
	}
	f.readers[l].Read(f.q, a, g, nn.FeaturedEdges{Indptr: f.edges[l][0], Places: places, Rows: f.features[l], Dim: f.model.Config().EdgeDim})
}

// described is what an exported model says of f's.
func (f *fixture) described() nn.Config {
	f.t.Helper()
	cfg := f.model.Config()
	saved, err := f.model.Params().Save(f.t.Context(), f.q)
	if err != nil {
		f.t.Fatal(err)
	}
	ps, err := cfg.Parameters(saved)
	if err != nil {
		f.t.Fatal(err)
	}
	got, _, err := nn.FromLayers(cfg.LayerInfos(), cfg.Jumping, ps)
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}
