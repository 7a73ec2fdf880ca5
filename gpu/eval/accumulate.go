package eval

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
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
}

// Sink takes the edges and states that an evaluation streams, valid during the call.
type Sink interface {
	// Takes reports whether Add is wanted for a layer of [nn.Model.Layers].
	Takes(layer int) bool
	Add(ctx context.Context, q *gpu.Queue, a *gpu.Arena, x Addition) error
}

// accumulators returns zeroed sums and degrees of a destination tile, in the memory of the last one's where they fit: a
// kernel takes longer to clear new pages than to fill old ones.
func (r *evaluation) accumulators(layer nn.Streamer, to Tile) (acc gpu.Tensor, degrees []float32, err error) {
	if r.degrees == nil {
		most := 0
		for _, t := range r.tiles {
			most = max(most, t.Nodes)
		}
		if r.degrees, err = blockio.AllocSlab(int64(most)*4, blockio.SlabOptions{}); err != nil {
			return gpu.Tensor{}, nil, err
		}
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
	pieces := r.pieces(to)
	for k, t := range pieces {
		r.expect(pieces, k+1)
		if err := fn(t, int(t.Base-to.Base)); err != nil {
			return err
		}
	}
	return nil
}

// eachChunk lets fn issue what is to be computed of the states below the layer of a piece's nodes, of n nodes from number lo on at a time.
func (r *evaluation) eachChunk(ctx context.Context, t Tile, fn func(p *nn.Pass, self nn.Input, lo, n int)) error {
	input, release, err := r.input(ctx, t)
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
	c := r.kept
	if c.slab == nil {
		var err error
		if c, err = r.edges.build(ctx, r.tiles[from], r.tiles[to]); err != nil {
			return err
		}
		if err := r.weigh(c, from, to); err != nil {
			c.free()
			return err
		}
		if len(r.tiles) == 1 {
			r.kept = c
		} else {
			defer c.free()
		}
	}
	if err := r.addDegrees(c, to, degrees); err != nil {
		return err
	}
	if len(c.indices) == 0 && r.sink == nil { // nothing that states would be read for
		return nil
	}
	pieces := r.pieces(r.tiles[from])
	if len(pieces) == 1 {
		return r.accumulatePiece(ctx, layer, c, pieces[0], to, acc, from == 0, from == len(r.tiles)-1)
	}
	if err := spill.Grow(&r.begins, 4*int64(r.tiles[to].Nodes)); err != nil {
		return err
	}
	begins := asInt32(r.begins.Bytes())[:r.tiles[to].Nodes]
	copy(begins, c.indptr)
	for k, t := range pieces {
		part, err := c.within(&r.part, begins, int(t.Base-r.tiles[from].Base), t.Nodes)
		if err != nil {
			return err
		}
		if len(part.indices) == 0 && r.sink == nil { // as above
			continue
		}
		next := k + 1
		if r.sink == nil && r.aheads {
			next = c.nextPiece(pieces, next, r.tiles[from].Base, begins)
		}
		r.expect(pieces, next)
		if err := r.accumulatePiece(ctx, layer, part, t, to, acc, from == 0 && k == 0, from == len(r.tiles)-1 && k == len(pieces)-1); err != nil {
			return err
		}
	}
	return nil
}

// pieces cuts a tile into what is in memory of it at once as sources.
func (e *Evaluator) pieces(t Tile) []Tile {
	if e.pieceNodes == 0 {
		return []Tile{t}
	}
	return tilesWithin(e.src.Manifest().Partitions, t.Lo, t.Hi, e.pieceNodes)
}

// accumulatePiece is accumulate for a piece of a tile of sources, and the edges from it; first and last of all that tile to has.
func (r *evaluation) accumulatePiece(ctx context.Context, layer nn.Streamer, c csr, from Tile, to int, acc gpu.Tensor, first, last bool) error {
	input, release, err := r.input(ctx, from)
	if err != nil {
		return err
	}
	defer release()
	q := r.queue
	var degrees [2][]int32
	if r.counts != nil && r.edges.weight == nil {
		for i, t := range []Tile{from, r.tiles[to]} {
			b, err := r.countsOf(i, t)
			if err != nil {
				return err
			}
			degrees[i] = asInt32(b)
		}
	}
	if r.sink != nil {
		x := Addition{Layer: r.layer, From: from, To: r.tiles[to], Indptr: c.indptr, Indices: c.indices, Relations: c.relations, In: input, First: first, Last: last, SrcDegrees: degrees[0], DstDegrees: degrees[1]}
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
		return r.accumulateGroups(ctx, layer, c, from.Nodes, to, input, acc)
	}
	g := gpu.Graph{NumDst: r.tiles[to].Nodes, NumSrc: from.Nodes, Indptr: r.arena.Int32s(q, c.indptr), Indices: r.arena.Int32s(q, c.indices)}
	if c.hasWeights {
		g.Weights = nn.WeightColumn(r.arena.Float32s(q, c.weights))
	} else if d, ok := layer.(nn.DegreeReader); ok && d.ReadsDegrees() {
		g.SrcDegrees, g.DstDegrees = r.arena.Int32s(q, degrees[0]), r.arena.Int32s(q, degrees[1])
	}
	if c.columns > 0 {
		g.EdgeFeatures = nn.FeatureRows(r.arena.Float32s(q, c.features), c.columns)
	}
	layer.Accumulate(&nn.Pass{Queue: q, Arena: r.arena}, &g, input, acc)
	if err := q.Sync(ctx); err != nil {
		return err
	}
	return r.arena.Reset()
}

// Degrees fills to with the incoming edges of nodes from internal id first on, of a model that reads degrees.
func (e *Evaluator) Degrees(ctx context.Context, first uint64, to []int32) error {
	r := &evaluation{Evaluator: e}
	if err := r.countEdges(ctx); err != nil {
		return fmt.Errorf("evaluation: degrees: %w", err)
	}
	return e.counts.Read(blocks.Bytes(to), first)
}

// countsOf returns the counts of tile t's nodes, in the memory of ends[i] where they lie in a file.
func (r *evaluation) countsOf(i int, t Tile) ([]byte, error) {
	return r.counts.Rows(&r.ends[i], t.Base, t.Nodes)
}

// weigh makes what edges of a tile weigh what the model multiplies their messages by.
func (r *evaluation) weigh(c csr, from, to int) error {
	if !r.o.Model.SymmetricWeights() {
		return nil
	}
	var sums [2][]float32
	for i, t := range []int{from, to} {
		b, err := r.countsOf(i, r.tiles[t])
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
		b, err := r.countsOf(1, r.tiles[to])
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

// input returns the states of the nodes of a tile, or a piece of one, below the layer, valid until release. Those of the piece
// that is expected next are read meanwhile.
func (r *evaluation) input(ctx context.Context, of Tile) (in nn.Input, release func(), err error) {
	next := r.next
	r.next = Tile{}
	if in, release, err = r.rowsOf(ctx, of); err == nil && next.Nodes > 0 {
		r.readAhead(ctx, next)
	}
	return in, release, err
}

func (r *evaluation) rowsOf(ctx context.Context, of Tile) (in nn.Input, release func(), err error) {
	var mems []gpu.Memory
	release = func() {
		for _, m := range mems {
			_ = m.Free()
		}
	}
	add := func(b []byte, cols int, elem blocks.ElemType, scales []float32) error {
		t := gpu.Tensor{Rows: of.Nodes, Cols: cols, Stride: cols, Elem: elem}
		var err error
		if t.Mem, err = r.dev.Map(b); err == nil {
			mems = append(mems, t.Mem)
		}
		if err == nil && scales != nil {
			if t.Scale, err = r.dev.Map(blocks.Bytes(scales)); err == nil {
				mems = append(mems, t.Scale)
			}
		}
		if err != nil {
			release()
			return err
		}
		in.Tables = append(in.Tables, t)
		return nil
	}
	if r.in == nil {
		if err := r.loadFeatures(ctx, of); err != nil {
			return in, nil, err
		}
		for k, c := range r.columns {
			if err := add(r.features[k].Bytes(), c.Dim, nn.TableElem(c.Elem), c.Scale); err != nil {
				return in, nil, err
			}
		}
		if in.Vectors, err = r.loadVectors(ctx, of); err == nil && len(in.Vectors.At) > 0 {
			if in.Vectors.Table.Mem, err = r.dev.Map(r.vectors.Bytes()); err == nil {
				mems = append(mems, in.Vectors.Table.Mem)
			}
		}
		if err != nil {
			release()
			return in, nil, err
		}
		return in, release, nil
	}
	b := r.in.InPlace(of.Base, of.Nodes)
	if b == nil {
		if err := r.dropFeatures(); err != nil {
			return in, nil, err
		}
		there, err := r.wait(of)
		if there {
			r.state, r.ahead.slabs[0] = r.ahead.slabs[0], r.state
		} else if err == nil {
			err = readStates(r.in, of, &r.state)
		}
		if err != nil {
			return in, nil, err
		}
		b = r.state.Bytes()[:int64(of.Nodes)*r.in.RowBytes]
	}
	dim := int(r.in.RowBytes / 4)
	return in, release, add(b, dim, blocks.Float32, nil)
}

// dropFeatures gives the tile's features up: states that are read from a file take their room, which is counted once.
func (r *evaluation) dropFeatures() (err error) {
	for k := range r.features {
		err = errors.Join(err, r.features[k].Free())
	}
	if r.features != nil {
		err = errors.Join(err, r.dropAhead())
	}
	r.features, r.loaded = nil, Tile{}
	return errors.Join(err, r.dropVectors())
}

// loadFeatures makes features hold a tile's rows.
func (r *evaluation) loadFeatures(ctx context.Context, t Tile) error {
	there, err := r.wait(t)
	if err != nil {
		return err
	}
	if r.loaded == t {
		return nil
	}
	r.loaded = Tile{}
	if r.features == nil {
		if err := errors.Join(r.state.Free(), r.dropAhead()); err != nil {
			return err
		}
		r.state = nil
		r.features = make([]*blockio.Slab, len(r.columns))
	}
	if there {
		r.features, r.ahead.slabs = r.ahead.slabs, r.features
		r.loaded = t
		return nil
	}
	read, err := r.readFeatures(ctx, t, r.features)
	r.Evaluator.read += read
	if err != nil {
		return err
	}
	r.loaded = t
	return nil
}
