package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
)

// Addition is the edges from one tile to another in a layer.
type Addition struct {
	Layer           int // of [nn.Model.Layers]
	From, To        Tile
	Indptr, Indices []int32  // by position in To: positions in From of the sources of its edges
	Relations       []uint16 // parallel to Indices where the model reads relations, otherwise nil
	In              nn.Input // the states of From's nodes below the layer
	// SrcDegrees and DstDegrees are of From's and To's nodes, where the model reads degrees.
	SrcDegrees, DstDegrees []int32
	First, Last            bool // of the source tiles of To
	// Unlisted is, by position in To, how many edges there are beside those listed, which a [Chooser] did not want; nil: none. They are
	// of all source tiles.
	Unlisted []int32

	of, into *nodeSet
}

// Position is where the node with an internal id, which is one of To's, is in it.
func (x *Addition) Position(node uint64) int { return int(x.into.number(node) - x.To.Base) }

// Owner returns the partition of the node at a position in From; guess is tried first.
func (x *Addition) Owner(guess int, position int32) int {
	v, first := x.From.Base+uint64(position), x.of.first
	if guess >= x.From.Lo && guess < x.From.Hi && first[guess] <= v && v < first[guess+1] {
		return guess
	}
	return x.From.Lo + sort.Search(x.From.Hi-x.From.Lo-1, func(k int) bool { return first[x.From.Lo+k+1] > v })
}

// Node is the internal id of the node at a position in From, which has every node of its partitions: that of a sink that is no [Chooser].
func (x *Addition) Node(position int32) uint64 { return x.From.Base + uint64(position) }

// Sink takes the edges and states that an evaluation streams, valid during the call.
type Sink interface {
	// Takes reports whether Add is wanted for a layer of [nn.Model.Layers].
	Takes(layer int) bool
	Add(ctx context.Context, q *gpu.Queue, a *gpu.Arena, x Addition) error
}

// Chooser is a Sink that may need the states of some nodes alone. Where it does, it is given no others.
type Chooser interface {
	Sink
	// Chooses says what Add needs in a layer that is taken: the destinations, and from which partitions it needs the states of their
	// neighbours. Both are nil where it needs all.
	Chooses(layer int) (needs func(partition int, node uint64) bool, wants func(to, from int) bool)
}

// accumulators returns zeroed sums and degrees of a destination tile, in the memory of the last one's where they fit: a
// kernel takes longer to clear new pages than to fill old ones.
func (r *evaluation) accumulators(layer nn.Streamer, to Tile) (acc gpu.Tensor, degrees []float32, err error) {
	most := 0
	for _, t := range r.work.tiles {
		most = max(most, t.Nodes)
	}
	if err := spill.Grow(&r.degrees, int64(most)*4); err != nil {
		return gpu.Tensor{}, nil, err
	}
	degrees = asFloat32(r.degrees.Bytes())[:to.Nodes]
	clear(degrees)
	dim := layer.AccumulatorDim()
	if dim == 0 {
		return gpu.Tensor{}, degrees, nil
	}
	if size := int64(to.Nodes) * int64(dim) * 4; r.sums == nil || r.sums.Bytes() < size {
		if err := r.freeSums(); err != nil {
			return gpu.Tensor{}, nil, err
		}
		if r.sums, err = r.dev.Alloc(size); err != nil {
			return gpu.Tensor{}, nil, err
		}
	}
	acc = gpu.MatrixOf(r.sums, 0, to.Nodes, dim)
	r.queue.Fill(acc, 0)
	return acc, degrees, nil
}

func (r *evaluation) freeSums() error {
	if r.sums == nil {
		return nil
	}
	m := r.sums
	r.sums = nil
	return m.Free()
}

// prepare lets a layer set accumulators of a piece of a tile from its own states.
func (r *evaluation) prepare(ctx context.Context, layer nn.Preparer, t Tile, acc gpu.Tensor) error {
	return r.eachChunk(ctx, t, func(p *nn.Pass, self nn.Input, lo, n int) {
		layer.Prepare(p, self, acc.View(lo, 0, n, acc.Cols))
	})
}

// eachPiece calls fn with the pieces of a tile and where in the tile each begins. Each asks for its input once.
func (r *evaluation) eachPiece(to Tile, fn func(t Tile, at int) error) error {
	pieces := slices.DeleteFunc(r.work.of.within(to.Lo, to.Hi, r.work.pieceNodes), func(t Tile) bool {
		return !r.work.into.all() && r.work.into.tile(t.Lo, t.Hi).Nodes == 0
	})
	for k, t := range pieces {
		r.expect(pieces, k+1)
		own := r.work.into.tile(t.Lo, t.Hi)
		if err := fn(own, int(own.Base-to.Base)); err != nil {
			return err
		}
	}
	return nil
}

// eachChunk lets fn issue what is to be computed of the states below the layer of a piece's nodes, of n nodes from number lo on at a time.
func (r *evaluation) eachChunk(ctx context.Context, t Tile, fn func(p *nn.Pass, self nn.Input, lo, n int)) error {
	input, release, err := r.selves(ctx, t)
	if err != nil {
		return err
	}
	defer release()
	for lo := 0; lo < t.Nodes; lo += r.chunkRows {
		n := min(r.chunkRows, t.Nodes-lo)
		fn(&nn.Pass{Queue: r.queue, Arena: r.arena}, input.Rows(lo, n), lo, n)
		if err := r.queue.Sync(ctx); err != nil {
			return err
		}
		if err := r.arena.Reset(); err != nil {
			return err
		}
	}
	return nil
}

// countEdges fills counts, which stay for the next evaluation: with the edges of each node, or of a model that weighs them with
// the sums of their weights, float32s.
func (r *evaluation) countEdges(ctx context.Context) error {
	if r.counts != nil {
		return nil
	}
	m := r.src.Manifest()
	counts, err := spill.New(m.Nodes, 4, r.memory, r.src.ScratchDir())
	if err != nil {
		return err
	}
	everything := Tile{Hi: len(m.Partitions), Nodes: int(m.Nodes)}
	for _, t := range r.tiles {
		if err = spill.Grow(&r.ends[0], int64(t.Nodes)*4); err == nil {
			n, sums := asInt32(r.ends[0].Bytes())[:t.Nodes], asFloat32(r.ends[0].Bytes())[:t.Nodes]
			clear(n)
			add := func(d, _ uint32, _ about) { n[d]++ }
			if r.edges.weight != nil {
				add = func(d, _ uint32, e about) { sums[d] += e.weight }
			}
			err = r.edges.each(ctx, everything, t, add)
		}
		if err == nil {
			err = counts.Write(r.ends[0].Bytes()[:4*t.Nodes], t.Base)
		}
		if err != nil {
			counts.Close()
			return err
		}
	}
	r.counts = counts
	return nil
}

// accumulate adds the messages to a tile from another, or from itself: to acc unless layer is nil, and to the sink, if
// there is one. Tiles of sources, and their pieces, come in ascending order, so that however the budget cuts them, a
// destination's messages are added up in the order of their sources.
func (r *evaluation) accumulate(ctx context.Context, layer nn.Streamer, from, to int, acc gpu.Tensor, degrees []float32) error {
	if r.sink == nil && r.residentEdges(to) != nil {
		return r.accumulateResident(ctx, layer, to, acc, degrees)
	}
	at := r.work
	c, done, err := r.edgesOf(ctx, from, to)
	if err != nil {
		return err
	}
	defer done()
	if err := r.addDegrees(c, to, degrees); err != nil {
		return err
	}
	if r.on != nil && r.on.keeps && r.on.edges[to] == nil && len(degrees) > 0 { // a sink reads them here, later runs need not
		if err := r.keepEdges(ctx, c, to, degrees); err != nil {
			return err
		}
		if r.sink == nil {
			return r.accumulateResident(ctx, layer, to, acc, degrees)
		}
	}
	if len(c.indices) == 0 && r.sink == nil { // nothing that states would be read for
		return nil
	}
	pieces := at.of.within(at.runs[from].Lo, at.runs[from].Hi, at.pieceNodes)
	if len(pieces) == 1 {
		return r.accumulatePiece(ctx, layer, c, pieces[0], to, acc, from == 0, from == len(at.runs)-1)
	}
	if err := spill.Grow(&r.begins, 4*int64(at.tiles[to].Nodes)); err != nil {
		return err
	}
	begins := asInt32(r.begins.Bytes())[:at.tiles[to].Nodes]
	copy(begins, c.indptr)
	for k, t := range pieces {
		part, err := c.within(&r.part, begins, int(t.Base-at.runs[from].Base), t.Nodes)
		if err != nil {
			return err
		}
		if len(part.indices) == 0 && r.sink == nil { // as above
			continue
		}
		next := k + 1
		if r.sink == nil && at.aheads {
			next = c.nextPiece(pieces, next, at.runs[from].Base, begins)
		}
		r.expect(pieces, next)
		if err := r.accumulatePiece(ctx, layer, part, t, to, acc, from == 0 && k == 0, from == len(at.runs)-1 && k == len(pieces)-1); err != nil {
			return err
		}
	}
	return nil
}

// edgesOf returns the edges of a run of sources to a tile, until done.
func (r *evaluation) edgesOf(ctx context.Context, from, to int) (c csr, done func(), err error) {
	at := r.work
	if at.kept != nil && at.kept.slab != nil {
		return *at.kept, func() {}, nil
	}
	if c, err = r.edges.build(ctx, between{from: at.runs[from], to: at.tiles[to], of: at.of, into: at.into, wants: at.wants}); err != nil {
		return csr{}, nil, err
	}
	if err := r.weigh(c, from, to); err != nil {
		c.free()
		return csr{}, nil, err
	}
	if at.kept != nil {
		*at.kept = c
		return c, func() {}, nil
	}
	return c, c.free, nil
}

// accumulatePiece is accumulate for a piece of a tile of sources, and the edges from it; first and last of all that tile to has.
func (r *evaluation) accumulatePiece(ctx context.Context, layer nn.Streamer, c csr, from Tile, to int, acc gpu.Tensor, first, last bool) error {
	input, release, err := r.input(ctx, from)
	if err != nil {
		return err
	}
	defer release()
	q := r.queue
	degrees, err := r.endDegrees(from, to)
	if err != nil {
		return err
	}
	if r.sink != nil {
		x := Addition{Layer: r.layer, From: from, To: r.work.tiles[to], Indptr: c.indptr, Indices: c.indices, Relations: c.relations, In: input, First: first, Last: last,
			SrcDegrees: degrees[0], DstDegrees: degrees[1], Unlisted: c.unlisted, of: r.work.of, into: r.work.into}
		if err := r.sink.Add(ctx, q, r.arena, x); err != nil {
			return err
		}
	}
	if layer == nil || len(c.indices) == 0 {
		return nil
	}
	if c.hasRelations && r.o.Model.Kind().EachRelation {
		return r.accumulateRelations(ctx, layer, c, from.Nodes, input, acc)
	}
	if c.hasRelations {
		t, ok := layer.(nn.Transformer)
		if !ok {
			return r.accumulateGroups(ctx, layer, c, from.Nodes, to, input, acc)
		}
		input = t.Transform(&nn.Pass{Queue: q, Arena: r.made}, from.Nodes, input)
		err := r.accumulateGroups(ctx, layer, c, from.Nodes, to, input, acc)
		return errors.Join(err, r.made.Reset())
	}
	g := gpu.Graph{NumDst: r.work.tiles[to].Nodes, NumSrc: from.Nodes, Indptr: r.arena.Int32s(q, c.indptr), Indices: r.arena.Int32s(q, c.indices)}
	if c.hasWeights {
		g.Weights = nn.WeightColumn(r.arena.Float32s(q, c.weights))
	}
	if c.columns > 0 {
		g.EdgeFeatures = nn.FeatureRows(r.arena.Float32s(q, c.features), c.columns)
	}
	return r.add(ctx, layer, &g, degrees, input, acc)
}

// add adds the messages along a graph's edges, with the degrees of both ends where the layer reads them.
func (r *evaluation) add(ctx context.Context, layer nn.Streamer, g *gpu.Graph, degrees [2][]int32, input nn.Input, acc gpu.Tensor) (err error) {
	q := r.queue
	if d, ok := layer.(nn.DegreeReader); ok && d.ReadsDegrees() && g.Weights.IsZero() {
		g.SrcDegrees, g.DstDegrees = r.arena.Int32s(q, degrees[0]), r.arena.Int32s(q, degrees[1])
	}
	if t, ok := layer.(nn.Transformer); ok && r.made != nil { // a ranker's layers make nothing of their sources
		input = t.Transform(&nn.Pass{Queue: q, Arena: r.made}, g.NumSrc, input)
		defer func() { err = errors.Join(err, r.made.Reset()) }()
	}
	layer.Accumulate(&nn.Pass{Queue: q, Arena: r.arena}, g, input, acc)
	if err := q.Sync(ctx); err != nil {
		return err
	}
	return r.arena.Reset()
}

// endDegrees are the degrees of a piece of sources and of tile to's nodes, of a model that reads them.
func (r *evaluation) endDegrees(from Tile, to int) (degrees [2][]int32, err error) {
	if r.counts == nil || r.edges.weight != nil {
		return degrees, nil
	}
	for i, t := range []Tile{from, r.work.tiles[to]} {
		b, err := r.countsOf(i, t)
		if err != nil {
			return degrees, err
		}
		degrees[i] = asInt32(b)
	}
	return degrees, nil
}

// Degrees fills to with the incoming edges of nodes from internal id first on, of a model that reads degrees.
func (e *Evaluator) Degrees(ctx context.Context, first uint64, to []int32) error {
	r := e.begin(nil)
	if err := r.countEdges(ctx); err != nil {
		return fmt.Errorf("evaluation: degrees: %w", err)
	}
	return e.counts.Read(blocks.Bytes(to), first)
}

// countsOf returns the counts of a tile's nodes, of sources (0) or destinations (1), in the memory of ends[i] where they lie in a file.
func (r *evaluation) countsOf(i int, t Tile) ([]byte, error) {
	set := [2]*nodeSet{r.work.of, r.work.into}[i]
	if set.all() {
		return r.counts.Rows(&r.ends[i], t.Base, t.Nodes)
	}
	if err := spill.Grow(&r.ends[i], 4*int64(t.Nodes)); err != nil {
		return nil, err
	}
	to, parts := r.ends[i].Bytes()[:4*t.Nodes], r.src.Manifest().Partitions
	for p, at := t.Lo, 0; p < t.Hi; p++ {
		b, err := r.counts.Rows(&r.counted, uint64(parts[p].First), int(parts[p].Nodes))
		if err != nil {
			return nil, err
		}
		at += len(set.pick(to[at:], b, p, 4))
	}
	return to, nil
}

// weigh makes what edges of a tile weigh what the model multiplies their messages by.
func (r *evaluation) weigh(c csr, from, to int) error {
	if !r.o.Model.SymmetricWeights() {
		return nil
	}
	var sums [2][]float32
	for i, t := range []Tile{r.work.runs[from], r.work.tiles[to]} {
		b, err := r.countsOf(i, t)
		if err != nil {
			return err
		}
		sums[i] = asFloat32(b)
	}
	nn.NormalizeWeights(c.indptr, c.indices, c.weights, sums[1], sums[0])
	return nil
}

// addDegrees adds to degrees of tile to's nodes the edges that c has of them, or what these weigh, one by one in their order: the same
// bits however the budget cuts the tiles.
func (r *evaluation) addDegrees(c csr, to int, degrees []float32) error {
	if r.o.Model.SymmetricWeights() { // c's weights are normalised
		b, err := r.countsOf(1, r.work.tiles[to])
		if err == nil {
			copy(degrees, asFloat32(b))
		}
		return err
	}
	for d := range degrees {
		if !c.hasWeights {
			degrees[d] += float32(c.indptr[d+1] - c.indptr[d])
			continue
		}
		for _, w := range c.weights[c.indptr[d]:c.indptr[d+1]] {
			degrees[d] += w
		}
	}
	return nil
}
