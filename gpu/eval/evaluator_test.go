package eval

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// untrained makes a model of cfg with its first weights, on a host device of so many threads; both are closed after the test.
func untrained(t *testing.T, threads int, cfg nn.Config) (gpu.Device, *gpu.Queue, *nn.Model) {
	t.Helper()
	dev := host.New(host.Options{Threads: threads})
	t.Cleanup(func() { _ = dev.Close() })
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	m, err := nn.New(t.Context(), q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return dev, q, m
}

// reference computes a split's metrics, and all nodes' logits, with the model's Forward over
// one block a layer that holds the whole graph.
func reference(t *testing.T, g *evaltest.Graph, q *gpu.Queue, m *nn.Model, split uint8) (Metrics, []float32) {
	t.Helper()
	a := gpu.NewArena(q.Device())
	defer func() { _ = a.Close() }()
	n := len(g.Labels)
	indptr, indices, relations, weights, sums := []int32{0}, []int32{}, []uint16{}, []float32{}, []float64{}
	for v := range n {
		sum := 0.
		for k := g.In.Spans[v].Begin; k < g.In.Spans[v].End; k++ {
			indices, relations = append(indices, int32(g.In.Indices[k])), append(relations, g.In.Relations[k])
			weights = append(weights, max(0, g.In.Weights[k]))
			sum += float64(max(0, g.In.Weights[k]))
		}
		sums = append(sums, sum)
		if m.Config().Relations > evaltest.Relations {
			for k := g.Out.Spans[v].Begin; k < g.Out.Spans[v].End; k++ {
				indices, relations = append(indices, int32(g.Out.Indices[k])), append(relations, g.Out.Relations[k]+evaltest.Relations)
			}
		}
		indptr = append(indptr, int32(len(indices)))
	}
	config := m.Config()
	readers, places := make([]nn.EdgeReader, len(m.Layers())), make([]int64, len(indices)) // edges of In are where they are in it
	for e := range places {
		places[e] = int64(e)
	}
	groupers, weighers := config.Groupers(len(m.Layers())), config.EdgeWeighers(len(m.Layers()))
	var degrees []int32
	for v := range n {
		degrees = append(degrees, indptr[v+1]-indptr[v])
	}
	var graphs []gpu.Graph
	for l := range m.Layers() {
		deg := a.Int32s(q, degrees)
		graphs = append(graphs, gpu.Graph{NumDst: n, NumSrc: n, Indptr: a.Int32s(q, indptr), Indices: a.Int32s(q, indices), SrcDegrees: deg, DstDegrees: deg})
		if config.EdgeWeights {
			weighers[l].Weigh(q, a, &graphs[l], nn.WeighedEdges{Indptr: indptr, Indices: indices, Weights: weights, Degrees: degrees, Sums: sums})
		}
		if config.EdgeDim > 0 {
			readers[l].Read(q, a, &graphs[l], nn.FeaturedEdges{Indptr: indptr, Places: places, Rows: g.In.Features, Dim: config.EdgeDim})
		}
		if m.Config().Relations > 0 {
			groupers[l].Group(q, a, &graphs[l], indptr, indices, relations)
		}
	}
	mem, err := q.Device().Map(g.Features)
	if err != nil {
		t.Fatal(err)
	}
	logits := m.Forward(&nn.Pass{Queue: q, Arena: a}, graphs, nn.Dense(gpu.MatrixOf(mem, 0, n, g.Dim)))
	labels := make([]int32, n)
	var out Metrics
	for v := range labels {
		labels[v] = -1
		if g.Split[v] == split && g.Labels[v] >= 0 {
			labels[v] = g.Labels[v]
			out.Nodes++
		}
	}
	q.SoftmaxCrossEntropy(logits, a.Int32s(q, labels), gpu.Tensor{}, m.Stat())
	all := make([]float32, logits.Len())
	q.Download(blocks.Bytes(all), logits)
	var stat [2]float64
	q.Download(unsafe.Slice((*byte)(unsafe.Pointer(&stat)), 16), m.Stat())
	if err := q.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	out.Loss, out.Correct = stat[0]/float64(out.Nodes), int64(stat[1])
	out.Accuracy = float64(out.Correct) / float64(out.Nodes)
	return out, all
}

// TestEvaluatorExact: evaluation streamed in any number of tiles, with hidden
// states in memory or in a file, equals one pass over the whole graph.
func TestEvaluatorExact(t *testing.T) {
	models := map[string]nn.Config{
		"sage, edge weights": {Model: "sage", EdgeWeights: true}, "gcn, edge weights": {Model: "gcn", EdgeWeights: true},
		"gat, features of edges": {Model: "gat", EdgeDim: 2},
		"sage max":               {Model: "sage", Aggregator: "max"}, "sage, batch norm, cat": {Model: "sage", Norm: "batch", Jumping: "cat"},
		"rgcn, residual, max": {Model: "rgcn", Bases: 2, Residual: true, Jumping: "max"}, "gat, layer norm, residual, cat": {Model: "gat", Norm: "layer", Residual: true, Jumping: "cat"},
	}
	for _, m := range nn.Models(nil) {
		models[m] = nn.Config{Model: m}
	}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(models)) {
		model := models[name]
		for _, undirected := range []bool{true, false} {
			for _, layers := range []int{1, 2, 3} {
				for _, c := range []struct {
					parts, tiles int
					inMemory     bool
					pieces       uint64 // nodes
				}{{1, 1, true, 0}, {7, 1, true, 0}, {7, 4, true, 0}, {7, 7, false, 0}, {40, 16, false, 0}, {7, 2, false, 1}} {
					if name != "sage" && (layers == 3 || c.parts == 40 && !undirected) {
						continue
					}
					if n++; n%race.Sample(3, 7) != 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s/undirected=%v/layers=%d/parts=%d/tiles=%d", name, undirected, layers, c.parts, c.tiles), func(t *testing.T) {
						g := evaltest.Random(t, 1500, c.parts, undirected)
						model := model
						model.Layers, model.In, model.Hidden, model.Out, model.Seed = layers, g.Dim, 12, g.M.Schema.Classes, 2
						if model.Kind().Relations {
							model.Relations = evaltest.Relations
							if !undirected {
								model.Relations *= 2
							}
						}
						evaluateExactly(t, g, model, c.tiles, c.pieces, c.inMemory)
					})
				}
			}
		}
	}
}

// TestTilesWithoutEdges: tiles without edges, or without nodes, and a graph without any edge change nothing: whether edges have relations,
// weights or features is a matter of the graph, not of a tile.
func TestTilesWithoutEdges(t *testing.T) {
	models := map[string]nn.Config{
		"sage, edge weights": {Model: "sage", EdgeWeights: true}, "gcn, edge weights": {Model: "gcn", EdgeWeights: true},
		"gat, features of edges": {Model: "gat", EdgeDim: 2}, "sage max": {Model: "sage", Aggregator: "max"},
	}
	for _, m := range nn.Models(nil) {
		models[m] = nn.Config{Model: m}
	}
	for name, model := range models {
		for _, edges := range []int{0, 1, 40} {
			for _, undirected := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/edges=%d/undirected=%v", name, edges, undirected), func(t *testing.T) {
					g := evaltest.Sparse(t, []uint32{0, 60, 1, 0, 40, 23, 0}, edges, undirected)
					model := model
					model.Layers, model.In, model.Hidden, model.Out, model.Seed = 2, g.Dim, 12, g.M.Schema.Classes, 2
					if model.Kind().Relations {
						model.Relations = evaltest.Relations
						if !undirected {
							model.Relations *= 2
						}
					}
					for _, c := range []struct {
						tiles  int
						pieces uint64 // nodes
					}{{1, 0}, {2, 0}, {len(g.M.Partitions), 0}, {1, 1}, {2, 1}} {
						evaluateExactly(t, g, model, c.tiles, c.pieces, c.tiles < 2)
					}
				})
			}
		}
	}
}

func evaluateExactly(t *testing.T, g *evaltest.Graph, cfg nn.Config, tiles int, pieces uint64, inMemory bool) {
	dev := host.New(host.Options{Threads: 2})
	defer func() { _ = dev.Close() }()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	m, err := nn.New(t.Context(), q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var edge []string
	if cfg.EdgeDim > 0 {
		edge = []string{"edge"}
	}
	e, err := New(g, dev, Options{Features: []string{"x"}, EdgeFeatures: edge, Model: cfg, Confusion: true, AUC: true, Predictions: true, Embeddings: true}, cfg.Hidden)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	e.tiles, e.memory, e.pieceEdges, e.chunkRows = tilesOf(g.M.Partitions, tiles), inMemory, 50, 300 // less than a hub's edges, than a partition
	e.pieceNodes = pieces
	for range 2 { // the second time from what was kept
		got, err := e.Run(t.Context(), q, m, "valid", "test")
		if err != nil {
			t.Fatal(err)
		}
		for i, split := range []uint8{store.SplitValid, store.SplitTest} {
			want, logits := reference(t, g, q, m, split)
			if i == 0 {
				checkNodes(t, e, g, m, logits)
			}
			if n := got[i].Confusion.Correct(); n != got[i].Correct || !(got[i].AUC > 0 && got[i].AUC < 1) {
				t.Errorf("split %d: %d correct nodes in the confusion matrix, %d counted; area %v", split, n, got[i].Correct, got[i].AUC)
			}
			if got[i].Nodes != want.Nodes || math.Abs(got[i].Loss-want.Loss) > 1e-5*(1+want.Loss) || got[i].Correct < want.Correct-1 || got[i].Correct > want.Correct+1 {
				t.Errorf("split %d: got %+v, want %+v", split, got[i], want)
			}
		}
	}
}

// checkNodes compares what an evaluation kept of every node with the logits of all: the class
// where it is not close, its probability, and the embedding, whose product they are.
func checkNodes(t *testing.T, e *Evaluator, g *evaltest.Graph, m *nn.Model, logits []float32) {
	t.Helper()
	classes, probabilities := e.Predictions()
	embeddings, n := e.Embeddings(), 5
	width := m.Config().Hidden
	switch {
	case m.Jumps():
		width = m.JumpDim()
	case len(m.Layers()) == 1:
		width = n
	}
	if embeddings.Dim != width {
		t.Fatalf("embeddings of %d columns, expected %d", embeddings.Dim, width)
	}
	for p, part := range g.M.Partitions {
		for first := uint64(0); first < part.Nodes; first += 7 {
			c, pr, em := make([]byte, 4), make([]byte, 4), make([]byte, 4*width)
			for v, b := range map[*NodeValues][]byte{classes: c, probabilities: pr, embeddings: em} {
				if err := v.Read(t.Context(), store.PartitionID(p), first, b); err != nil {
					t.Fatal(err)
				}
			}
			at := (int(part.First) + int(first)) * n
			row := logits[at : at+n]
			class, want := predict(row)
			if got := asInt32(c)[0]; got != class && row[class]-row[got] > 1e-4 {
				t.Errorf("node %d: class %d, expected %d of %v", at/n, got, class, row)
			}
			if got := asFloat32(pr)[0]; math.Abs(float64(got-want)) > 1e-4 {
				t.Errorf("node %d: probability %v, expected %v", at/n, got, want)
			}
			if len(m.Layers()) == 1 && !m.Jumps() {
				for j, v := range asFloat32(em) {
					if math.Abs(float64(v-row[j])) > 1e-4*(1+math.Abs(float64(row[j]))) {
						t.Errorf("node %d: embedding %v, expected the logits %v", at/n, asFloat32(em), row)
						break
					}
				}
			}
		}
	}
}

// TestEvaluatorBudget: less memory means more tiles, and too little is refused.
func TestEvaluatorBudget(t *testing.T) {
	g := evaltest.Random(t, 3000, 16, true)
	dev := host.New(host.Options{Threads: 1})
	defer func() { _ = dev.Close() }()
	tiles := 0
	for _, mem := range []int64{0, 3 << 20, 2500 << 10} {
		e, err := New(g, dev, Options{Features: []string{"x"}, MemoryBytes: mem}, 10)
		if err != nil {
			t.Fatalf("%d bytes: %v", mem, err)
		}
		if e.Tiles() < tiles {
			t.Errorf("%d bytes: %d tiles, with more memory %d", mem, e.Tiles(), tiles)
		}
		tiles = e.Tiles()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := New(g, dev, Options{Features: []string{"x"}, MemoryBytes: 1000}, 10); !errors.Is(err, store.ErrBudget) {
		t.Errorf("1000 bytes: error %v, expected ErrBudget", err)
	}
}

// TestSortSources: what edges carry moves with them.
func TestSortSources(t *testing.T) {
	c := csr{indptr: []int32{0, 1, 5}, indices: []int32{9, 7, 3, 5, 3}, relations: []uint16{9, 7, 30, 5, 31}, weights: []float32{9, 7, 30, 5, 31},
		features: []float32{9, -9, 7, -7, 30, -30, 5, -5, 31, -31}, carried: carried{hasRelations: true, hasWeights: true, columns: 2}}
	c.sortSources()
	if !slices.Equal(c.indices, []int32{9, 3, 3, 5, 7}) || !slices.Equal(c.relations, []uint16{9, 30, 31, 5, 7}) || !slices.Equal(c.weights, []float32{9, 30, 31, 5, 7}) ||
		!slices.Equal(c.features, []float32{9, -9, 30, -30, 31, -31, 5, -5, 7, -7}) {
		t.Errorf("edges from %v carry %v, %v, %v", c.indices, c.relations, c.weights, c.features)
	}
}
