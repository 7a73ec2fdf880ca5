package numpy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// Matrix is a compressed sparse matrix as scipy keeps it: row r has the columns
// indices[indptr[r]:indptr[r+1]] with the values at the same places of data.
type Matrix struct {
	path       string // for messages: archive and prefix
	rows, cols int64
	nnz        int64
	indptr     *Array // [rows + 1]
	indices    *Array // [nnz]
	data       *Array // [nnz]
}

// csr opens the matrix whose arrays' keys begin with prefix; transposed says that
// scipy's "format" is csc.
func (a *Archive) csr(prefix string) (m *Matrix, transposed bool, err error) {
	m = &Matrix{path: a.Path + ": " + prefix + "*"}
	for key, to := range map[string]**Array{"indptr": &m.indptr, "indices": &m.indices, "data": &m.data} {
		if *to, err = a.Array(prefix + key); err != nil {
			return nil, false, err
		}
	}
	if m.rows, m.cols, err = a.shape(prefix); err != nil {
		return nil, false, err
	}
	if a.Has(prefix + "format") {
		format, err := a.text(prefix + "format")
		if err != nil {
			return nil, false, err
		}
		if transposed = format == "csc"; format != "csr" && !transposed {
			return nil, false, ingest.Inputf(m.path, "scipy format %q, expected csr or csc (.tocsr() converts)", format)
		}
	}
	if transposed {
		m.rows, m.cols = m.cols, m.rows
	}
	m.nnz = m.indices.Rows()
	switch {
	case len(m.indptr.Shape) != 1 || !m.indptr.Integer() || m.indptr.Rows()-1 != m.rows:
		return nil, false, ingest.Inputf(m.indptr.Path, "%v of shape %v, expected integers of shape [%d]", m.indptr.Elem, m.indptr.Shape, m.rows+1)
	case len(m.indices.Shape) != 1 || !m.indices.Integer():
		return nil, false, ingest.Inputf(m.indices.Path, "%v of shape %v, expected a list of integers", m.indices.Elem, m.indices.Shape)
	case len(m.data.Shape) != 1 || m.data.Rows() != m.nnz:
		return nil, false, ingest.Inputf(m.data.Path, "shape %v, expected [%d] like the indices", m.data.Shape, m.nnz)
	}
	return m, transposed, nil
}

// csrPieceMax is the most entries that walk hands over at once.
const csrPieceMax = 1 << 15

// piece is a run of entries, which may span many rows.
type piece struct {
	row, col []uint64
	value    []float32
}

// walk streams all entries, row by row, in pieces. rowEnd, if not nil, is called
// after each row, which pieces then do not cross.
func (m *Matrix) walk(ctx context.Context, piece *piece, emit func(first int64) error, rowEnd func(row int64) error) error {
	ptr, err := OpenNumbers(m.indptr)
	if err != nil {
		return err
	}
	defer func() { _ = ptr.Close() }()
	indices, err := OpenNumbers(m.indices)
	if err != nil {
		return err
	}
	defer func() { _ = indices.Close() }()
	data, err := OpenNumbers(m.data)
	if err != nil {
		return err
	}
	defer func() { _ = data.Close() }()
	flush := func(first int64) error {
		if len(piece.row) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err := emit(first)
		piece.row, piece.col, piece.value = piece.row[:0], piece.col[:0], piece.value[:0]
		return err
	}
	begin, err := ptr.Integer()
	if err != nil {
		return err
	}
	if begin != 0 {
		return ingest.Inputf(m.indptr.Path, "row 0: %d, expected 0", int64(begin))
	}
	piece.row, piece.col, piece.value = piece.row[:0], piece.col[:0], piece.value[:0]
	for r := range m.rows {
		end, err := ptr.Integer()
		if err != nil {
			return err
		}
		if end < begin || end > uint64(m.nnz) {
			return ingest.Inputf(m.indptr.Path, "row %d: %d, expected %d ≤ x ≤ %d", r+1, int64(end), begin, m.nnz)
		}
		for ; begin < end; begin++ {
			col, err := indices.Integer()
			if err != nil {
				return err
			}
			if col >= uint64(m.cols) {
				return ingest.Inputf(m.indices.Path, "row %d: column %d, expected 0 ≤ column < %d", begin, int64(col), m.cols)
			}
			value, err := data.float()
			if err != nil {
				return err
			}
			piece.row, piece.col, piece.value = append(piece.row, uint64(r)), append(piece.col, col), append(piece.value, value)
			if len(piece.row) == csrPieceMax {
				if err := flush(int64(begin) + 1 - csrPieceMax); err != nil {
					return err
				}
			}
		}
		if rowEnd != nil {
			if err := flush(int64(begin) - int64(len(piece.row))); err != nil {
				return err
			}
			if err := rowEnd(r); err != nil {
				return err
			}
		}
	}
	if begin != uint64(m.nnz) {
		return ingest.Inputf(m.indptr.Path, "row %d: %d, expected %d (the number of indices)", m.rows, begin, m.nnz)
	}
	return flush(int64(begin) - int64(len(piece.row)))
}

// Stream streams the entries as edges row → column, or column → row if
// transposed, with the values as weights if weighted.
func (m *Matrix) edges(transposed, weighted bool) parts.Edges {
	return func(ctx context.Context, _ ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
		var p piece
		b := &ingest.EdgeBatch{At: ingest.Position{File: m.indices.Path, Unit: "row"}}
		if weighted {
			b.Columns = [][]byte{nil}
		}
		return m.walk(ctx, &p, func(first int64) error {
			b.Src.Ints, b.Dst.Ints, b.At.Index = p.row, p.col, uint64(first)
			if transposed {
				b.Src.Ints, b.Dst.Ints = p.col, p.row
			}
			if weighted {
				b.Columns[0] = blocks.Bytes(p.value)
			}
			return emit(0, b)
		}, nil)
	}
}

// denseRowBytesMax bounds a row of a sparse matrix once it is dense.
const denseRowBytesMax = 1 << 20

// dense streams the rows as float32 with all the zeros.
func (m *Matrix) dense() (parts.Rows, error) {
	if m.cols == 0 || m.cols > denseRowBytesMax/4 {
		return nil, ingest.Inputf(m.path, "%d columns, expected 1 to %d (features are stored dense)", m.cols, denseRowBytesMax/4)
	}
	per := max(1, files.ReadBytes/(4*m.cols)) // rows at once
	return func(ctx context.Context, _ ingest.Env, emit func([]byte, ingest.Position) error) error {
		var p piece
		out := make([]float32, per*m.cols)
		done := int64(0)
		send := func(rows int64) error {
			at := ingest.Position{File: m.path, Unit: "row", Index: uint64(done)}
			err := emit(blocks.Bytes(out[:(rows-done)*m.cols]), at)
			clear(out)
			done = rows
			return err
		}
		err := m.walk(ctx, &p, func(int64) error {
			for i, r := range p.row { // an entry that stands twice is summed, as scipy does
				out[(int64(r)-done)*m.cols+int64(p.col[i])] += p.value[i]
			}
			return nil
		}, func(r int64) error {
			if r+1-done < per {
				return nil
			}
			return send(r + 1)
		})
		if err != nil || done == m.rows {
			return err
		}
		return send(m.rows)
	}, nil
}

// Numbers reads an array's elements one after another.
type Numbers struct {
	a    *Array
	f    io.ReadCloser
	buf  []byte
	have []byte // not handed out yet
	next int64  // index of the first of have
	left int64  // bytes not read yet
}

func OpenNumbers(a *Array) (*Numbers, error) {
	f, err := a.open()
	if err != nil {
		return nil, err
	}
	return &Numbers{a: a, f: f, buf: make([]byte, 64<<10), left: a.bytes()}, nil
}

// Close closes the file.
func (n *Numbers) Close() error { return n.f.Close() }

// element returns the next element's bytes.
func (n *Numbers) element() ([]byte, error) {
	size := n.a.Elem.Size()
	if len(n.have) == 0 {
		want := min(int64(len(n.buf)), n.left)
		if want == 0 {
			return nil, ingest.Inputf(n.a.Path, "row %d is not there, expected %d rows", n.next, n.a.Rows())
		}
		if _, err := io.ReadFull(n.f, n.buf[:want]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, ingest.Inputf(n.a.Path, "truncated after row %d, expected %d rows", n.next, n.a.Rows())
			}
			return nil, err
		}
		n.have, n.left = n.buf[:want], n.left-want
		if n.left == 0 {
			if err := n.a.end(n.f); err != nil {
				return nil, err
			}
		}
	}
	b := n.have[:size]
	n.have = n.have[size:]
	n.next++
	return b, nil
}

// Integer returns the next element; negative ones keep their sign.
func (n *Numbers) Integer() (uint64, error) {
	b, err := n.element()
	if err != nil {
		return 0, err
	}
	if n.a.Elem == blocks.Int32 {
		return uint64(int64(int32(binary.LittleEndian.Uint32(b)))), nil
	}
	if n.a.Elem.Size() == 8 {
		return binary.LittleEndian.Uint64(b), nil
	}
	var one [1]uint64
	return parts.Widen(one[:0], n.a.Elem, b)[0], nil
}

// float returns the next element, which may be of any type.
func (n *Numbers) float() (float32, error) {
	b, err := n.element()
	if err != nil {
		return 0, err
	}
	switch n.a.Elem {
	case blocks.Float32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b)), nil
	case blocks.Float64:
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))), nil
	case blocks.Float16:
		return 0, ingest.Inputf(n.a.Path, "values of type float16, expected float32, float64 or integers")
	case blocks.Uint64:
		return float32(binary.LittleEndian.Uint64(b)), nil
	}
	var one [1]uint64
	return float32(int64(parts.Widen(one[:0], n.a.Elem, b)[0])), nil
}

// Label returns the next element as a label: NaN for none.
func (n *Numbers) Label() (float64, error) {
	switch n.a.Elem {
	case blocks.Float32, blocks.Float64, blocks.Float16:
		b, err := n.element()
		if err != nil {
			return 0, err
		}
		return n.a.Elem.Float64(b), nil
	}
	x, err := n.Integer()
	return float64(int64(x)), err
}
