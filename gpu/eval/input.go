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

// rows are those of one table of states below a layer, in host memory.
type rows struct {
	bytes  []byte
	cols   int
	elem   blocks.ElemType
	scales []float32
}

// input returns the states of the sources of a tile, or a piece of one, below the layer, valid until release. Those of the piece
// that is expected next are read meanwhile.
func (r *evaluation) input(ctx context.Context, of Tile) (in nn.Input, release func(), err error) {
	if r.on != nil {
		in, err = r.residentInput(ctx, of)
		return in, func() {}, err
	}
	if r.multiplies() {
		return r.sparseInput(r.work.of, of)
	}
	tables, err := r.load(ctx, of)
	if err != nil {
		return in, nil, err
	}
	return r.mapped(ctx, tables, r.work.of, of)
}

// SparseRows are the rows of a feature that is mostly 0, of all nodes by internal id.
type SparseRows interface {
	// Rows are those of an index, uint32[1×n].
	Rows(index gpu.Tensor) gpu.Sparse
}

// MultiplySparse has runs multiply the one feature by what is not 0, where the model's first layer adds up products: it is not read then, and no bit
// changes. Rows must be there until the evaluator's end.
func (e *Evaluator) MultiplySparse(rows SparseRows) {
	if e.o.Model.StreamsProducts() && e.dev.Info().Sparse && len(e.columns) == 1 {
		e.sparse = rows
	}
}

// multiplies reports whether the layer's input is that of MultiplySparse.
func (r *evaluation) multiplies() bool { return r.sparse != nil && r.in == nil && r.sink == nil }

// sparseInput is the feature of a tile of a set's nodes.
func (r *evaluation) sparseInput(set *nodeSet, of Tile) (in nn.Input, release func(), err error) {
	nodes := make([]uint32, 0, of.Nodes)
	for p := of.Lo; p < of.Hi; p++ {
		set.each(p, func(i int) { nodes = append(nodes, uint32(set.parts[p].First)+uint32(i)) })
	}
	if len(nodes) == 0 {
		return nn.Input{Sparse: r.sparse.Rows(gpu.Tensor{})}, func() {}, nil
	}
	m, err := r.dev.Map(blocks.Bytes(nodes))
	if err != nil {
		return in, nil, err
	}
	free := func() { _ = m.Free() } // borrowed: nothing can fail
	return nn.Input{Sparse: r.sparse.Rows(gpu.VectorOf(m, 0, len(nodes), blocks.Uint32))}, free, nil
}

// selves is input of the nodes of a piece of a tile of destinations, which are some of the sources.
func (r *evaluation) selves(ctx context.Context, t Tile) (in nn.Input, release func(), err error) {
	if r.multiplies() {
		return r.sparseInput(r.work.into, t)
	}
	of := r.work.of.tile(t.Lo, t.Hi)
	if r.on != nil { // where all nodes are computed
		return r.input(ctx, of)
	}
	tables, err := r.load(ctx, of)
	if err != nil {
		return in, nil, err
	}
	if of.Nodes == t.Nodes {
		return r.mapped(ctx, tables, r.work.of, of)
	}
	for len(r.own) < len(tables) {
		r.own = append(r.own, nil)
	}
	inPlace := !r.work.copies && (r.in == nil || r.in.InPlace(of.Base, of.Nodes) == nil)
	if inPlace { // what is in memory is no tile's any more
		r.loaded, r.loadedOf = Tile{}, nil
	}
	for k, table := range tables {
		row, dst := table.cols*table.elem.Size(), table.bytes
		if !inPlace {
			if err := spill.Grow(&r.own[k], int64(t.Nodes)*int64(row)); err != nil {
				return in, nil, err
			}
			dst = r.own[k].Bytes()
		}
		tables[k].bytes = r.work.pickSelves(dst, table.bytes, t, row)
	}
	return r.mapped(ctx, tables, r.work.into, t)
}

// pickSelves copies the rows of destinations out of those of sources, both of the partitions of t.
func (s *stage) pickSelves(dst, src []byte, t Tile, row int) []byte {
	at := 0
	for p := t.Lo; p < t.Hi; p++ {
		base, first := s.of.first[t.Lo], uint64(s.into.parts[p].First)
		s.into.each(p, func(i int) {
			from := int(s.of.number(first+uint64(i))-base) * row
			at += copy(dst[at:], src[from:from+row])
		})
	}
	return dst[:at]
}

// load has the rows of a tile of sources in memory, until another's are loaded.
func (r *evaluation) load(ctx context.Context, of Tile) (tables []rows, err error) {
	next := r.next
	r.next = Tile{}
	if tables, err = r.rowsOf(ctx, of); err == nil && next.Nodes > 0 {
		r.readAhead(ctx, next)
	}
	return tables, err
}

func (r *evaluation) rowsOf(ctx context.Context, of Tile) (tables []rows, err error) {
	if r.in == nil {
		if err := r.loadFeatures(ctx, of); err != nil {
			return nil, err
		}
		for k, c := range r.columns {
			tables = append(tables, rows{r.features[k].Bytes(), c.Dim, nn.TableElem(c.Elem), c.Scale})
		}
		return tables, nil
	}
	b := r.in.InPlace(of.Base, of.Nodes)
	if b == nil {
		if err := r.dropFeatures(); err != nil {
			return nil, err
		}
		there, err := r.wait(of)
		if there {
			r.state, r.ahead.slabs[0] = r.ahead.slabs[0], r.state
		} else if err == nil {
			err = readStates(r.in, of, &r.state)
		}
		if err != nil {
			return nil, err
		}
		b = r.state.Bytes()[:int64(of.Nodes)*r.in.RowBytes]
	}
	return []rows{{b, int(r.in.RowBytes / 4), blocks.Float32, nil}}, nil
}

// mapped makes tables with rows of a tile of a set's nodes a layer's input, valid until release.
func (r *evaluation) mapped(ctx context.Context, tables []rows, set *nodeSet, of Tile) (in nn.Input, release func(), err error) {
	var mems []gpu.Memory
	free := func() {
		for _, m := range mems {
			_ = m.Free()
		}
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	add := func(b []byte) (gpu.Memory, error) {
		if of.Nodes == 0 { // nothing is read of it
			return nil, nil
		}
		m, err := r.dev.Map(b)
		if err == nil {
			mems = append(mems, m)
		}
		return m, err
	}
	if in.Types, err = r.loadTypes(ctx, set, of); err != nil {
		return in, nil, err
	}
	for _, x := range tables {
		t := gpu.Tensor{Rows: of.Nodes, Cols: x.cols, Stride: x.cols, Elem: x.elem}
		if t.Mem, err = add(x.bytes); err != nil {
			return in, nil, err
		}
		if x.scales != nil {
			if t.Scale, err = add(blocks.Bytes(x.scales)); err != nil {
				return in, nil, err
			}
		}
		in.Tables = append(in.Tables, t)
	}
	if r.in != nil {
		return in, free, nil
	}
	if in.Vectors, err = r.loadVectors(ctx, of); err == nil && len(in.Vectors.At) > 0 {
		in.Vectors.Table.Mem, err = add(r.vectors.Bytes())
	}
	return in, free, err
}

// dropFeatures gives the tile's features up: states that are read from a file take their room, which is counted once.
func (r *evaluation) dropFeatures() (err error) {
	for k := range r.features {
		err = errors.Join(err, r.features[k].Free())
	}
	if r.features != nil {
		err = errors.Join(err, r.dropAhead())
	}
	r.features, r.loaded, r.loadedOf = nil, Tile{}, nil
	return errors.Join(err, r.dropVectors())
}

// loadFeatures makes features hold a tile's rows.
func (r *evaluation) loadFeatures(ctx context.Context, t Tile) error {
	there, err := r.wait(t)
	if err != nil {
		return err
	}
	if r.loaded == t && r.loadedOf == r.work.of {
		return nil
	}
	r.loaded, r.loadedOf = Tile{}, nil
	if r.features == nil {
		if err := errors.Join(r.state.Free(), r.dropAhead()); err != nil {
			return err
		}
		r.state = nil
		r.features = make([]*blockio.Slab, len(r.columns))
	}
	if there {
		r.features, r.ahead.slabs = r.ahead.slabs, r.features
	} else {
		read, err := r.readFeatures(ctx, t, r.features)
		r.Evaluator.read += read
		if err != nil {
			return err
		}
	}
	r.loaded, r.loadedOf = t, r.work.of
	return nil
}
