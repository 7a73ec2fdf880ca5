package planning

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/meter"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train/bound"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
)

// batchMeter finds what the largest mini-batch that a run can meet takes of the device, by running the model on a
// [meter.Device] with that batch's sizes.
type batchMeter struct {
	cfg   *config.Config
	shape config.Shape
	Dev   *meter.Device
	queue *gpu.Queue
	arena *gpu.Arena
	Model *nn.Model // with one vector of each category but the nodes' types
	// vectorBytes are the parameters of the others
	vectorBytes int64
	tables      []gpu.Tensor // feature columns, of no rows yet
	runs        []string     // node types whose columns have an index of their own
	Known       map[int]int64
	// histories that complete its layers
	histories []history.Options
	Sampled   *bound.Sampled // what nodes of a graph of relations add at most; nil: as fanouts and relations allow
	indexed   int64          // bytes of a batch's numbers that the device reads in the host's memory, so far
	most      int64          // bytes of these, of the largest batch that was asked for
}

// NewBatchMeter measures for a device that info describes.
func NewBatchMeter(ctx context.Context, info gpu.Info, m *store.Manifest, cfg *config.Config, s config.Shape) (_ *batchMeter, err error) {
	b := &batchMeter{cfg: cfg, shape: s, Dev: meter.New(info), Known: map[int]int64{}}
	b.arena = gpu.NewArena(b.Dev)
	b.arena.Bound(math.MaxInt64 / 2) // one chunk: tensors are counted, not chunks
	if b.queue, err = gpu.NewQueue(b.Dev); err != nil {
		return nil, err
	}
	// Vectors of categories may be many: they are counted, not made. What a mini-batch takes does not depend on how many there are.
	model := cfg.ModelConfig(s)
	b.vectorBytes = model.ParamBytes()
	types := 0 // but those by which matrices of types are chosen
	if k := model.NodeTypes; k > 0 {
		types = model.Categories[k-1]
	}
	model.Categories = slices.Repeat([]int{1}, len(model.Categories))
	if types > 0 {
		model.Categories[model.NodeTypes-1] = types
	}
	b.vectorBytes -= model.ParamBytes()
	model.RelationHops = slices.Clone(model.RelationHops)
	for i := range model.RelationHops {
		model.RelationHops[i].Vector = 0
	}
	if b.Model, err = nn.New(ctx, b.queue, model); err != nil {
		return nil, err
	}
	if cfg.Accumulate > 1 {
		if err := b.Model.Params().OpenSums(); err != nil {
			return nil, err
		}
	}
	if cfg.History {
		if b.histories, err = history.OptionsOf(cfg, m, s); err != nil {
			return nil, err
		}
	}
	columns, err := cfg.Columns(m)
	if err != nil {
		return nil, err
	}
	if cfg.Sparse != nil {
		columns = nil
	}
	for _, c := range columns {
		t := gpu.Tensor{Cols: c.Dim, Stride: c.Dim, Elem: nn.TableElem(c.Elem)}
		if c.Scale != nil {
			t.Scale = meter.Elsewhere(4 * int64(c.Dim))
		}
		b.tables = append(b.tables, t)
		if c.Runs && c.NodeType != "" && !slices.Contains(b.runs, c.NodeType) {
			b.runs = append(b.runs, c.NodeType)
		}
	}
	return b, nil
}

func (b *batchMeter) Close() error {
	return errors.Join(b.Model.Close(), b.arena.Close(), b.queue.Close())
}

// Worst returns the bytes of a mini-batch's tensors with capacity partitions resident (0 = all) beside the pinned ones:
// no batch of such a run takes more.
func (b *batchMeter) Worst(ctx context.Context, m *store.Manifest, capacity int) (int64, error) {
	if n, ok := b.Known[capacity]; ok {
		return n, nil
	}
	rows, edges := LargestStep(m, capacity)
	if !m.Schema.Undirected && b.Model.Config().Relations > b.shape.Relations { // read against their direction too
		edges *= 2
	}
	n, err := b.bytes(ctx, rows, edges)
	if err != nil {
		return 0, fmt.Errorf("train: what a mini-batch takes: %w", err)
	}
	b.Known[capacity] = n
	return n, nil
}

// LargestStep is the most rows, and edges between them, of any capacity partitions (0 = all) beside the pinned ones.
func LargestStep(m *store.Manifest, capacity int) (rows, edges int64) {
	pinned := make([]bool, len(m.Partitions))
	for _, p := range m.Pinned {
		pinned[p] = true
	}
	var nodes, into []int
	for p, info := range m.Partitions {
		e := int64(info.Edges)
		if m.Schema.Undirected { // each is read from both ends
			e *= 2
		}
		if pinned[p] {
			rows, edges = rows+int64(info.Nodes), edges+e
			continue
		}
		nodes, into = append(nodes, int(info.Nodes)), append(into, int(e))
	}
	return rows + int64(history.Fullest(nodes, capacity)), edges + int64(history.Fullest(into, capacity))
}

// bytes returns the most that a batch takes of at most so many rows and edges in memory.
func (b *batchMeter) bytes(ctx context.Context, rows, edges int64) (int64, error) {
	// Layers take their tensors one after the other and none is given back, so that the worst orders of products are
	// each layer's own.
	orders := make([]nn.Choice, len(b.Model.Layers()))
	for l := range orders {
		orders[l] = nn.Choice{Layer: l, First: nn.AggregateFirst.String()}
		if l == 0 && b.cfg.Sparse != nil { // there is no other
			orders[l].First = nn.MultiplyFirst.String()
		}
	}
	base, err := b.once(ctx, rows, edges, orders)
	if err != nil {
		return 0, err
	}
	most := base
	for l := range orders {
		if orders[l].First == nn.MultiplyFirst.String() {
			continue
		}
		orders[l].First = nn.MultiplyFirst.String()
		n, err := b.once(ctx, rows, edges, orders)
		if err != nil {
			return 0, err
		}
		most += max(0, n-base)
		orders[l].First = nn.AggregateFirst.String()
	}
	return most + b.Dev.Bytes() + b.vectorBytes - b.arena.Bytes(), nil
}

// once runs a batch with the largest blocks.
func (b *batchMeter) once(ctx context.Context, rows, edges int64, orders []nn.Choice) (int64, error) {
	q, a := b.queue, b.arena
	if err := b.Model.RestoreOrders(orders); err != nil {
		return 0, err
	}
	b.indexed = 0
	graphs, seeds, inputs := b.Graphs(rows, edges)
	in := nn.Input{Index: b.index(inputs, blocks.Uint32)}
	if !b.Dev.Info().InPlace { // rows that the device lacks and their places: ondevice.Rows.admit
		b.index(inputs, blocks.Uint32)
		b.index(inputs, blocks.Uint32)
	}
	for range b.runs { // of tables in place, or of what they send
		b.index(inputs, blocks.Uint32)
	}
	for _, t := range b.tables {
		t.Rows = int(rows)
		t.Mem = meter.Elsewhere(t.Bytes())
		in.Tables = append(in.Tables, t)
	}
	if s := b.cfg.Sparse; s != nil {
		b.index(inputs, blocks.Uint32) // which nodes they are
		of := func(n int64, elem blocks.ElemType) gpu.Tensor {
			return gpu.VectorOf(meter.Elsewhere(4*n), 0, int(n), elem)
		}
		in = nn.Input{Sparse: gpu.Sparse{Cols: s.Cols, Index: in.Index, Indptr: of(int64(s.Rows)+1, blocks.Int32), Columns: of(s.Elements, blocks.Int32), Values: of(s.Elements, blocks.Float32)}}
	}
	p, model := &nn.Pass{Queue: q, Arena: a, Train: true}, b.Model.Config()
	for _, o := range b.histories {
		g := &graphs[o.Input+o.Layer]
		n := g.NumDst
		if o.Relations > 0 {
			n = g.Groups.Relations.Cols
		}
		b.index(n, blocks.Uint32) // the rows' slots
		h := &nn.History{Layer: o.Layer, Divisors: b.index(n, blocks.Float32), Rest: a.Matrix(q, n, o.Dim)}
		if o.Attention { // an edge more into each
			h.Graph = gpu.Graph{NumDst: n, NumSrc: g.NumSrc + n, Indptr: b.index(n+1, blocks.Int32), Indices: b.index(g.Edges()+n, blocks.Int32)}
			h.Logs = a.Matrix(q, g.Edges()+2*n, model.AttentionHeads())
		}
		p.Histories = append(p.Histories, h)
	}
	if b.shape.Vectors {
		n := b.vectorsMost(inputs)
		in.Vectors = nn.Vectors{Table: gpu.MatrixOf(meter.Elsewhere(4*int64(n)*int64(b.cfg.Hidden)), 0, n, b.cfg.Hidden), Rows: make([]uint32, n), At: make([]uint32, n)}
		a.Vector(q, b.cfg.Hidden, blocks.Float32) // the sums of what they are after the step
	}
	if model.NodeTypes > 0 {
		in.Types = make([]uint32, inputs)
		b.indexed += model.TypedBytes(graphs)
	}
	targets := nn.Targets{Labels: b.index(seeds, blocks.Int32), Shift: b.index(b.shape.Classes, blocks.Float32)}
	if s := b.shape.Sets; s != nil { // they are there once, whatever the mini-batch
		n := s.WordsBytes()
		targets.Sets = gpu.VectorOf(meter.Elsewhere(n), 0, int(n/4), blocks.Int32)
	}
	if b.cfg.ClassWeights == config.WeightsAuto {
		targets.Divisors = b.index(seeds, blocks.Float32)
	}
	b.Model.Gradients(p, graphs, in, targets)
	if err := q.Sync(ctx); err != nil {
		return 0, err
	}
	b.most = max(b.most, b.indexed)
	used := a.Used()
	return used, a.Reset()
}

// vectorsMost is the most of so many inputs that have a vector in the table.
func (b *batchMeter) vectorsMost(inputs int) int {
	of := b.cfg.VectorsOf
	return int(min(of.Nodes(0, len(of.Rows)), uint64(inputs)))
}

// seeds is the most seeds of a batch with so many rows in memory, and by node type; nil where types are not told apart. There are no
// more of them than of all types together: a hop's sources, which are bounded by types, are never fewer than its nodes.
func (b *batchMeter) seeds(rows int64) (n int64, kinds []int64) {
	n = min(int64(b.cfg.BatchSize), rows)
	if kinds = b.Sampled.KindsOf(n); kinds != nil {
		n = min(n, bound.Together(kinds))
	}
	return n, kinds
}

// level is the largest block of a hop.
type level struct {
	n, edges, sources int64   // nodes that draw, edges, and nodes together with those that are drawn
	kinds             []int64 // sources by node type, each type's most; nil where types are not told apart
}

// levels are the largest blocks of a batch, the seeds' first: every node has all the neighbours that may be drawn, and all are different, as
// long as there are so many in memory.
func (b *batchMeter) levels(rows, edges int64) (levels []level) {
	directions := int64(1)
	if b.Model.Config().Relations > b.shape.Relations {
		directions = 2
	}
	edges = b.cfg.DrawnFrom(edges)
	n, have := b.seeds(rows)
	nested := b.cfg.Sampler == mini.Dense // a block has the edges of the one before it, and those of the nodes that it met first
	met, drawn := int64(0), int64(0)
	for h, fanout := range b.cfg.FanoutsMost(b.shape.Sampling) {
		e := edges
		if fanout >= 0 {
			e = min(edges, drawn+(n-met)*int64(fanout)*directions)
		}
		if b.Sampled != nil {
			most := b.Sampled.Edges[h].Most(n - met)
			if h == 0 {
				most = b.Sampled.SeedsMost(n, rows, most, func(s *bound.Seeds) *bound.Spread { return &s.Edges })
			}
			e = min(e, drawn+most)
		}
		if have != nil {
			var more int64
			have, more = b.Sampled.Reach(have, h, n, rows)
			e = min(e, drawn+more)
		}
		if nested {
			met, drawn = n, e
		}
		sources := min(rows, n+e)
		if have != nil {
			sources = min(sources, bound.Together(have))
		}
		levels = append(levels, level{n, e, sources, have})
		n = sources
	}
	return levels
}

// inputs is the most input rows of a batch of a run that has the whole graph in memory, and by node type; nil where types are not told apart.
func (b *batchMeter) inputs(m *store.Manifest) (rows int, kinds []int) {
	levels := b.levels(int64(m.Nodes), b.cfg.StoredEdges(m))
	n, have := b.seeds(int64(m.Nodes))
	if k := len(levels); k > 0 {
		n, have = levels[k-1].sources, levels[k-1].kinds
	}
	for _, x := range have {
		kinds = append(kinds, int(min(x, n)))
	}
	return int(n), kinds
}

// Graphs returns the blocks of levels, input first.
func (b *batchMeter) Graphs(rows, edges int64) (gs []gpu.Graph, seeds, inputs int) {
	relations := b.Model.Config().Relations
	n, _ := b.seeds(rows)
	seeds = int(n)
	nested := b.cfg.Sampler == mini.Dense
	for h, k := range b.levels(rows, edges) {
		e, sources := k.edges, k.sources
		g := gpu.Graph{NumDst: int(n), NumSrc: int(sources), Indptr: b.index(int(n)+1, blocks.Int32), Indices: b.index(int(e), blocks.Int32)}
		if b.Model.ReadsDegrees() {
			g.SrcDegrees, g.DstDegrees = b.index(int(sources), blocks.Int32), b.index(int(n), blocks.Int32)
		}
		if c := b.Model.Config(); c.EdgeWeights {
			weights := int(e)
			if c.SymmetricWeights() { // those of self loops too
				weights += int(n)
			}
			g.Weights = nn.WeightColumn(b.index(weights, blocks.Float32))
		}
		if dim := b.Model.Config().EdgeDim; dim > 0 { // those of self loops too; on the host in memory of their own
			g.EdgeFeatures = b.arena.Matrix(b.queue, int(e+n), dim)
		}
		if relations > 0 {
			groups := int(b.groups(h, rows, n, e, nested))
			g.Groups = &gpu.EdgeGroups{Indptr: b.index(groups+1, blocks.Int32), Relations: b.index(groups, blocks.Int32), Dst: b.index(groups, blocks.Int32),
				DstIndptr: b.index(int(n)+1, blocks.Int32), Places: b.index(groups+1, blocks.Int32)}
			if c := b.Model.Config(); c.Kind().ByRelation {
				g.Groups.Bounds, g.Groups.Order = []int{0, groups}, b.index(groups, blocks.Uint32)
				g.Groups.OrderDst, g.Groups.Ranks = b.index(groups, blocks.Uint32), b.index(groups, blocks.Int32)
				if c.Kind().EachRelation {
					g.Groups.Pairs, g.Groups.DstPairs = b.index(int(e), blocks.Int32), b.index(groups, blocks.Uint32)
				}
			}
		}
		gs, n = append([]gpu.Graph{g}, gs...), sources
	}
	for len(gs) < len(b.Model.Layers()) { // that read a node alone
		gs = append([]gpu.Graph{{NumDst: int(n), NumSrc: int(n)}}, gs...)
	}
	return gs, seeds, int(n)
}

// groups is the most groups of edges, which are relations of n nodes, each node's own, or edges, of which a block of hop h has e edges, with so many rows in memory.
func (b *batchMeter) groups(h int, rows, n, e int64, nested bool) int64 {
	model := b.Model.Config()
	if model.Kind().EachEdge {
		return e
	}
	most := n * int64(model.Relations)
	if len(b.histories) == 0 { // else a node has those of its neighbours out of memory too
		most = min(most, e)
	}
	if b.Sampled == nil {
		return most
	}
	// of a nested block some nodes' edges are those of the hops before.
	of, seeds := b.Sampled.Groups[h], func(s *bound.Seeds) *bound.Spread { return &s.Groups }
	if len(b.histories) > 0 || nested {
		of, seeds = b.Sampled.Relations, func(s *bound.Seeds) *bound.Spread { return &s.Relations }
		if h == len(b.Sampled.Edges)-1 { // which precomputed hops are not of
			of = b.Sampled.Unread
		}
	}
	held := of.Most(n)
	if h == 0 {
		held = b.Sampled.SeedsMost(n, rows, held, seeds)
	}
	return min(most, held)
}

// index is n host numbers as [gpu.Arena.Int32s] gives them to the device.
func (b *batchMeter) index(n int, elem blocks.ElemType) gpu.Tensor {
	if n == 0 {
		return gpu.Tensor{}
	}
	if !b.Dev.Info().InPlace {
		return b.arena.Vector(b.queue, n, elem)
	}
	b.indexed += 4 * int64(n)
	return gpu.VectorOf(meter.Elsewhere(4*int64(n)), 0, n, elem)
}
