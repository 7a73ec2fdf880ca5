package numpy

import (
	"context"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// AddMatrix adds the edges row → column of a scipy matrix whose arrays' keys begin with prefix: compressed (csr, csc), or of coordinates (coo).
// Values other than 1 become weights.
func AddMatrix(s *parts.Source, a *Archive, prefix string) error {
	if a.Has(prefix+"row", prefix+"col") {
		return addCoordinates(s, a, prefix)
	}
	m, transposed, err := a.csr(prefix)
	if err != nil {
		return err
	}
	if m.rows != m.cols {
		return ingest.Inputf(m.path, "shape (%d, %d), expected a square matrix of nodes", m.rows, m.cols)
	}
	uniform, err := uniform(m.data)
	if err != nil {
		return err
	}
	if !uniform {
		s.AddWeights()
	}
	s.Desc.Nodes, s.Desc.Edges = m.rows, m.nnz
	s.EdgeStreams = append(s.EdgeStreams, m.edges(transposed, !uniform))
	return nil
}

// addCoordinates adds the edges of a matrix of coordinates: row i of each of its arrays is an edge.
func addCoordinates(s *parts.Source, a *Archive, prefix string) error {
	var row, col *Array
	var err error
	for key, to := range map[string]**Array{"row": &row, "col": &col} {
		if *to, err = a.Array(prefix + key); err != nil {
			return err
		}
		if x := *to; len(x.Shape) != 1 || !x.Integer() {
			return ingest.Inputf(x.Path, "%v of shape %v, expected a list of integers", x.Elem, x.Shape)
		}
	}
	rows, cols, err := a.shape(prefix)
	if err != nil {
		return err
	}
	data, err := a.First(prefix + "data")
	switch {
	case err != nil:
		return err
	case rows != cols:
		return ingest.Inputf(a.Path+": "+prefix+"*", "shape (%d, %d), expected a square matrix of nodes", rows, cols)
	case col.Rows() != row.Rows():
		return ingest.Inputf(col.Path, "shape %v, expected %v like %s", col.Shape, row.Shape, row.Path)
	case data != nil && (len(data.Shape) != 1 || data.Rows() != row.Rows()):
		return ingest.Inputf(data.Path, "shape %v, expected %v like %s", data.Shape, row.Shape, row.Path)
	}
	if data != nil {
		same, err := uniform(data)
		if err != nil {
			return err
		}
		if same {
			data = nil
		} else {
			s.AddWeights()
		}
	}
	s.Desc.Nodes, s.Desc.Edges = rows, row.Rows()
	s.EdgeStreams = append(s.EdgeStreams, func(ctx context.Context, _ ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
		return coordinates(ctx, row, col, data, uint64(rows), func(b *ingest.EdgeBatch) error { return emit(0, b) })
	})
	return nil
}

// coordinates streams edges between n nodes; data, if not nil, has their weights.
func coordinates(ctx context.Context, row, col, data *Array, n uint64, emit func(*ingest.EdgeBatch) error) error {
	arrays := []*Array{row, col}
	if data != nil {
		arrays = append(arrays, data)
	}
	var in []*Numbers
	for _, a := range arrays {
		x, err := OpenNumbers(a)
		if err != nil {
			return err
		}
		defer func() { _ = x.Close() }()
		in = append(in, x)
	}
	b := &ingest.EdgeBatch{At: ingest.Position{File: row.Path, Unit: "element"}}
	var weights []float32
	ends := [2]*[]uint64{&b.Src.Ints, &b.Dst.Ints}
	for i := range row.Rows() {
		for k, to := range ends {
			x, err := in[k].Integer()
			if err != nil {
				return err
			}
			if x >= n {
				return ingest.Inputf(arrays[k].Path, "element %d: %d, expected 0 ≤ x < %d (the number of nodes)", i, int64(x), n)
			}
			*to = append(*to, x)
		}
		if data != nil {
			w, err := in[2].float()
			if err != nil {
				return err
			}
			weights = append(weights, w)
		}
		if len(b.Src.Ints) < csrPieceMax && i+1 < row.Rows() {
			continue
		}
		if data != nil {
			b.Columns = [][]byte{blocks.Bytes(weights)}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := emit(b); err != nil {
			return err
		}
		b.At.Index, b.Src.Ints, b.Dst.Ints, weights = uint64(i)+1, b.Src.Ints[:0], b.Dst.Ints[:0], weights[:0]
	}
	return nil
}

// shape reads the shape of the matrix whose keys begin with prefix.
func (a *Archive) shape(prefix string) (rows, cols int64, err error) {
	shape, err := a.Array(prefix + "shape")
	if err != nil {
		return 0, 0, err
	}
	dims, err := shape.small(2)
	if err != nil {
		return 0, 0, err
	}
	if len(dims) != 2 || int64(dims[0]) < 0 || int64(dims[1]) < 0 {
		return 0, 0, ingest.Inputf(shape.Path, "a shape of %v, expected 2 dimensions ≥ 0", dims)
	}
	return int64(dims[0]), int64(dims[1]), nil
}

// uniform reports whether all values are 1, so that they say nothing.
func uniform(data *Array) (bool, error) {
	in, err := OpenNumbers(data)
	if err != nil {
		return false, err
	}
	defer func() { _ = in.Close() }()
	for range data.Rows() {
		x, err := in.float()
		if err != nil || x != 1 {
			return false, err
		}
	}
	return true, nil
}
