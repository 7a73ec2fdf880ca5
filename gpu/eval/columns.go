package eval

import (
	"context"
	"errors"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
)

// A layer that sums its messages column by column can be computed with some columns of all sources in memory, instead of all columns of
// some destinations: with a fifth of the states in memory, in six slices of the columns. Sources are read once, not once a tile, and what is
// read once a slice is the edges, which are a tenth of the states where nodes have 15 neighbours and 128 columns. States that such a layer
// reads are written by slices too; its sums go through a file. A message is added as before: bits are the same.

// columnTable is a table's columns, width at a time: the rows of slice k, of width float32 each, lie at k·nodes. The last one has columns to
// spare.
type columnTable struct {
	*spill.Table
	nodes      uint64
	dim, width int
}

// newColumns makes slices in a file, of so many nodes and columns.
func (e *Evaluator) newColumns(nodes uint64, dim, width int) (*columnTable, error) {
	t, err := spill.New(nodes*uint64((dim-1)/width+1), 4*int64(width), false, e.src.ScratchDir())
	return &columnTable{Table: t, nodes: nodes, dim: dim, width: width}, err
}

// number is how many there are.
func (s *columnTable) number() int { return (s.dim-1)/s.width + 1 }

// columns is how many columns slice k has.
func (s *columnTable) columns(k int) int { return min(s.width, s.dim-k*s.width) }

// write stores rows of all columns, from row first on; buf is for what is written at a time.
func (s *columnTable) write(rows []float32, first uint64, buf *[]float32) error {
	n := len(rows) / s.dim
	if cap(*buf) < n*s.width {
		*buf = make([]float32, n*s.width)
	}
	for k := range s.number() {
		b := (*buf)[:n*s.width]
		for i := range n {
			copy(b[i*s.width:(i+1)*s.width], rows[i*s.dim+k*s.width:i*s.dim+k*s.width+s.columns(k)])
		}
		if err := s.Write(blocks.Bytes(b), uint64(k)*s.nodes+first); err != nil {
			return err
		}
	}
	return nil
}

// rows reads n rows of all columns, from row first on.
func (s *columnTable) rows(rows []float32, first uint64, buf *[]float32) error {
	n := len(rows) / s.dim
	if cap(*buf) < n*s.width {
		*buf = make([]float32, n*s.width)
	}
	for k := range s.number() {
		b := (*buf)[:n*s.width]
		if err := s.Read(blocks.Bytes(b), uint64(k)*s.nodes+first); err != nil {
			return err
		}
		for i := range n {
			copy(rows[i*s.dim+k*s.width:i*s.dim+k*s.width+s.columns(k)], b[i*s.width:(i+1)*s.width])
		}
	}
	return nil
}

// edgeFile is a layer's edges in a file, by partition of their destinations: where each destination's begin, their sources and weights.
type edgeFile struct {
	*spill.Table          // of words
	begins       []uint64 // by partition, one more than there are
	edges        []int
	weights      bool
}

// byColumns plans a stage of several tiles by columns, where that moves fewer bytes.
func (e *Evaluator) byColumns(s *stage, layer nn.Streamer, c *stageCost, bound int64, first bool) {
	dim := int64(layer.AccumulatorDim())
	if len(s.tiles) < 2 || c.resident || !nn.SumsColumns(layer) || dim != int64(layer.InDim()) ||
		e.edges.featureColumns() > 0 || e.edges.relation != nil || e.o.Model.SymmetricWeights() || e.o.Vectors != nil {
		return
	}
	for _, x := range e.columns {
		if first && x.Scale != nil {
			return // a scaled element is rounded where it is added
		}
	}
	sources, nodes := int64(s.of.len()), int64(s.into.len())
	var edges, most int64 // of all, and of the largest partition's
	for _, n := range c.edges {
		edges, most = edges+n, max(most, n)
	}
	words := int64(1)
	if e.edges.weight != nil {
		words = 2
	}
	own := int64(e.largest)*4 + most*4*words // a partition's edges, beside its sums
	fixed := c.chunk + 12*nodes + 4*sources + own
	width := (bound - fixed) / (4 * (sources + int64(e.largest)))
	piece := int64(max(e.smallPiece, e.largest))
	if width = min(width, dim); width < 1 || fixed+piece*(c.source+8*dim) > bound {
		return
	}
	number := (dim-1)/width + 1
	width = (dim-1)/number + 1
	row, sums := c.source, 4*dim*nodes
	tiled := int64(len(s.tiles))*row*sources + row*sources
	sliced := row*sources + 8*dim*sources + 2*sums + (number+1)*4*(words*edges+nodes)
	if first {
		sliced += row * sources
	}
	if sliced >= tiled && !e.columnsAnyhow {
		return
	}
	// The edges of a tile are in memory once, while they are written to the file.
	tiles := s.tiles
	for k := 1; ; k = moreTiles(k) {
		s.tiles = s.into.tilesOf(k)
		build := stage{of: &nodeSet{parts: s.of.parts, first: make([]uint64, len(s.of.first))}, into: s.into, tiles: s.tiles}
		if bytes := build.need(&stageCost{node: c.node - 4*dim, edge: c.edge, chunk: c.chunk + 12*nodes, edges: c.edges}, 0); bytes <= bound {
			break
		}
		if k >= len(s.of.parts) {
			s.tiles = tiles
			return
		}
	}
	s.runs = []Tile{s.of.tile(0, len(s.of.parts))}
	s.width, s.pieceNodes, s.aheads, s.kept = int(width), uint64(piece), false, nil
}

// sliced computes a layer by columns.
func (r *evaluation) sliced(ctx context.Context, layer nn.Streamer, model *nn.Model, last bool) (err error) {
	s, dim := r.work, layer.AccumulatorDim()
	if err := errors.Join(r.freeSums(), r.dropRows(true)); err != nil {
		return err
	}
	r.computed += int64(s.into.len())
	if err := spill.Grow(&r.degrees, 4*int64(max(s.into.len(), 1))); err != nil {
		return err
	}
	degrees := asFloat32(r.degrees.Bytes())[:s.into.len()]
	clear(degrees)
	edges, err := r.writeEdges(ctx, degrees)
	if err != nil {
		return err
	}
	defer func() { r.drop(edges.Table) }()
	sources := r.inColumns
	if r.inColumns = nil; sources == nil {
		if sources, err = r.transpose(ctx, dim); err != nil {
			return err
		}
	}
	sums, err := r.newColumns(s.into.len(), dim, s.width)
	defer func() { r.drop(sums.Table) }()
	if err == nil {
		err = r.sumColumns(ctx, layer, sources, edges, sums)
	}
	r.drop(sources.Table)
	if err != nil {
		return err
	}
	deg, err := r.dev.Map(blocks.Bytes(degrees))
	if err != nil {
		return err
	}
	defer func() { _ = deg.Free() }() // before the slab: what is page-locked is not unmapped
	var slab *blockio.Slab
	defer func() { err = errors.Join(err, slab.Free()) }()
	return r.eachPiece(s.into.tile(0, len(s.into.parts)), func(t Tile, at int) error {
		if t.Nodes == 0 {
			return nil
		}
		if err := spill.Grow(&slab, 4*int64(t.Nodes)*int64(dim)); err != nil {
			return err
		}
		if err := sums.rows(asFloat32(slab.Bytes())[:t.Nodes*dim], t.Base, &r.strip); err != nil {
			return err
		}
		mem, err := r.dev.Map(slab.Bytes())
		if err != nil {
			return err
		}
		defer func() { _ = mem.Free() }()
		return r.finish(ctx, layer, t, gpu.MatrixOf(mem, 0, t.Nodes, dim), gpu.VectorOf(deg, int64(at)*4, t.Nodes, blocks.Float32), model, last)
	})
}

// writeEdges writes the edges of the stage to a file, and counts them to degrees of all destinations.
func (r *evaluation) writeEdges(ctx context.Context, degrees []float32) (f *edgeFile, err error) {
	s := r.work
	f = &edgeFile{begins: []uint64{0}, weights: r.edges.weight != nil}
	if f.Table, err = spill.New(0, 4, false, r.src.ScratchDir()); err != nil {
		return f, err
	}
	for i, t := range s.tiles {
		c, done, err := r.edgesOf(ctx, 0, i)
		if err != nil {
			return f, err
		}
		err = r.addDegrees(c, i, degrees[t.Base:t.Base+uint64(t.Nodes)])
		for p := t.Lo; p < t.Hi && err == nil; p++ {
			err = f.add(c, int(s.into.first[p]-t.Base), s.into.in(p))
		}
		done()
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

// add writes the edges of n destinations of c from the one at position lo on.
func (f *edgeFile) add(c csr, lo, n int) error {
	at, begin, end := f.begins[len(f.begins)-1], c.indptr[lo], c.indptr[lo+n]
	indptr := make([]int32, n+1) // of a partition
	for i := range indptr {
		indptr[i] = c.indptr[lo+i] - begin
	}
	parts := [][]byte{blocks.Bytes(indptr), blocks.Bytes(c.indices[begin:end])}
	if f.weights {
		parts = append(parts, blocks.Bytes(c.weights[begin:end]))
	}
	for _, b := range parts {
		if len(b) == 0 {
			continue
		}
		if err := f.Write(b, at); err != nil {
			return err
		}
		at += uint64(len(b) / 4)
	}
	f.begins, f.edges = append(f.begins, at), append(f.edges, int(end-begin))
	return nil
}

// of reads the edges of a partition's n destinations, which are in *slab until it is used again.
func (f *edgeFile) of(slab **blockio.Slab, p, n int) (c csr, err error) {
	words := int(f.begins[p+1] - f.begins[p])
	if err := spill.Grow(slab, 4*int64(words)); err != nil {
		return csr{}, err
	}
	if err := f.Read((*slab).Bytes()[:4*words], f.begins[p]); err != nil {
		return csr{}, err
	}
	all, edges := asInt32((*slab).Bytes())[:words], f.edges[p]
	c = csr{indptr: all[:n+1], indices: all[n+1 : n+1+edges]}
	if f.weights {
		c.hasWeights, c.weights = true, asFloat32((*slab).Bytes()[4*(n+1+edges):4*words])
	}
	return c, nil
}

// dropRows gives up what pieces of states take, and of features.
func (r *evaluation) dropRows(features bool) error {
	_, err := r.wait(Tile{})
	if features {
		err = errors.Join(err, r.dropFeatures())
	}
	err = errors.Join(err, r.state.Free(), r.dropAhead())
	for _, s := range r.own {
		err = errors.Join(err, s.Free())
	}
	r.state, r.own = nil, nil
	return err
}

// transpose writes the sources' states by slices.
func (r *evaluation) transpose(ctx context.Context, dim int) (*columnTable, error) {
	s := r.work
	to, err := r.newColumns(s.of.len(), dim, s.width)
	if err != nil {
		return nil, err
	}
	pieces := s.of.within(0, len(s.of.parts), s.pieceNodes)
	for k, t := range pieces {
		r.expect(pieces, k+1)
		tables, err := r.load(ctx, t)
		for lo := 0; lo < t.Nodes && err == nil; lo += r.chunkRows {
			n := min(r.chunkRows, t.Nodes-lo)
			if cap(r.host) < n*dim {
				r.host = make([]float32, n*dim)
			}
			rows := r.host[:n*dim]
			at := 0
			for _, x := range tables {
				size := x.cols * x.elem.Size()
				for i := range n {
					x.elem.Widen(rows[i*dim+at:i*dim+at+x.cols], x.bytes[(lo+i)*size:(lo+i+1)*size], nil)
				}
				at += x.cols
			}
			err = to.write(rows, t.Base+uint64(lo), &r.strip)
		}
		if err != nil {
			r.drop(to.Table)
			return nil, err
		}
	}
	return to, nil
}

// sumColumns adds up the messages of every slice of columns, with that of all sources in memory.
func (r *evaluation) sumColumns(ctx context.Context, layer nn.Streamer, sources *columnTable, edges *edgeFile, sums *columnTable) (err error) {
	s, q := r.work, r.queue
	if err := r.dropRows(true); err != nil { // their room is the slice's
		return err
	}
	var columns, part, own *blockio.Slab
	defer func() {
		for _, x := range []*blockio.Slab{columns, part, own} {
			err = errors.Join(err, x.Free())
		}
	}()
	degrees, free, err := r.mappedCounts(layer)
	if err != nil {
		return err
	}
	defer free()
	n := int(sources.nodes)
	if err := spill.Grow(&columns, max(int64(n)*sources.RowBytes, 4)); err != nil {
		return err
	}
	mem, err := r.dev.Map(columns.Bytes())
	if err != nil {
		return err
	}
	defer func() { _ = mem.Free() }()
	for k := range sources.number() {
		if err := sources.Read(columns.Bytes()[:int64(n)*sources.RowBytes], uint64(k)*sources.nodes); err != nil {
			return err
		}
		in := nn.Dense(gpu.MatrixOf(mem, 0, n, sources.width).View(0, 0, n, sources.columns(k)))
		for p := range s.into.parts {
			nodes := s.into.in(p)
			if nodes == 0 {
				continue
			}
			c, err := edges.of(&part, p, nodes)
			if err == nil {
				err = spill.Grow(&own, int64(nodes)*sums.RowBytes)
			}
			if err != nil {
				return err
			}
			to := own.Bytes()[:int64(nodes)*sums.RowBytes]
			clear(to)
			if len(c.indices) > 0 {
				if err := r.sumPart(ctx, layer, c, in, to, p, degrees, sums.columns(k), sums.width); err != nil {
					return err
				}
			}
			if err := sums.Write(to, uint64(k)*sums.nodes+s.into.first[p]); err != nil {
				return err
			}
		}
	}
	return q.Sync(ctx)
}

// sumPart adds the messages of a partition's edges, of some columns, to its sums in host memory.
func (r *evaluation) sumPart(ctx context.Context, layer nn.Streamer, c csr, in nn.Input, to []byte, p int, degrees [2]gpu.Memory, columns, width int) error {
	q, s := r.queue, r.work
	n := len(c.indptr) - 1
	mem, err := r.dev.Map(to)
	if err != nil {
		return err
	}
	defer func() { _ = mem.Free() }()
	g := gpu.Graph{NumDst: n, NumSrc: in.Tables[0].Rows, Indptr: r.arena.Int32s(q, c.indptr), Indices: r.arena.Int32s(q, c.indices)}
	if c.hasWeights {
		g.Weights = nn.WeightColumn(r.arena.Float32s(q, c.weights))
	} else if degrees[0] != nil {
		g.SrcDegrees, g.DstDegrees = gpu.VectorOf(degrees[0], 0, g.NumSrc, blocks.Int32), gpu.VectorOf(degrees[1], int64(s.into.first[p])*4, n, blocks.Int32)
	}
	layer.Accumulate(&nn.Pass{Queue: q, Arena: r.arena}, &g, in, gpu.MatrixOf(mem, 0, n, width).View(0, 0, n, columns))
	if err := q.Sync(ctx); err != nil {
		return err
	}
	return r.arena.Reset()
}

// mappedCounts returns the edges of all sources and of all destinations, of a layer that reads them, until free.
func (r *evaluation) mappedCounts(layer nn.Streamer) (mems [2]gpu.Memory, free func(), err error) {
	free = func() {
		for _, m := range mems {
			if m != nil {
				_ = m.Free()
			}
		}
	}
	if d, ok := layer.(nn.DegreeReader); !ok || !d.ReadsDegrees() || r.edges.weight != nil {
		return mems, free, nil
	}
	for i, set := range []*nodeSet{r.work.of, r.work.into} {
		b, err := r.countsOf(i, set.tile(0, len(set.parts)))
		if err == nil && len(b) > 0 {
			mems[i], err = r.dev.Map(b)
		}
		if err != nil {
			free()
			return mems, nil, err
		}
	}
	return mems, free, nil
}
