package numpy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
)

// pickleMax bounds a file that is a pickle, in bytes: it is read whole.
const pickleMax = 1 << 28

// OpenPickle reads a file that is a pickle, as data: see [Object].
func OpenPickle(fs vfs.FS, path string) (_ any, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(io.LimitReader(f, pickleMax+1))
	if err != nil {
		return nil, fmt.Errorf("read input: %w", err)
	}
	if len(b) > pickleMax {
		return nil, ingest.Inputf(path, "more than %d bytes of a pickle", pickleMax)
	}
	v, err := unpickle(b)
	if err != nil {
		return nil, ingest.Inputf(path, "%v", err)
	}
	return v, nil
}

// Inline is an array whose elements are in a pickle, row by row.
type Inline struct {
	Elem  blocks.ElemType
	Shape []int64
	Bytes []byte
}

// inlineTypes are the types of elements by numpy's codes.
var inlineTypes = map[string]blocks.ElemType{"f4": blocks.Float32, "f8": blocks.Float64, "i4": blocks.Int32, "i8": blocks.Int64, "i1": blocks.Int8, "u1": blocks.Uint8, "b1": blocks.Uint8}

// ArrayIn is the array of numpy that a value of a pickle is; nil if it is none of elements that are known.
func ArrayIn(v any) *Inline {
	o, _ := v.(*Object)
	if o == nil || !strings.HasSuffix(o.Class, "core.multiarray _reconstruct") { // state: version, shape, dtype, order, bytes
		return nil
	}
	state, _ := o.State.([]any)
	if len(state) != 5 || state[3] == true {
		return nil
	}
	dtype, _ := state[2].(*Object)
	if dtype == nil || dtype.Class != "numpy dtype" || len(dtype.Args) == 0 {
		return nil
	}
	code, _ := dtype.Args[0].(string)
	a := &Inline{Elem: inlineTypes[code], Bytes: bytesOf(state[4])}
	order, _ := dtype.State.([]any)
	if a.Elem == blocks.Invalid || len(order) < 2 || order[1] != "<" && order[1] != "|" {
		return nil
	}
	var ok bool
	n := int64(1)
	if a.Shape, ok = integers(state[1]); !ok {
		return nil
	}
	for _, d := range a.Shape {
		if d < 0 || d > 0 && n > pickleMax/d {
			return nil
		}
		n *= d
	}
	if n*int64(a.Elem.Size()) != int64(len(a.Bytes)) {
		return nil
	}
	return a
}

// Integers are the elements of an array of integers, cut off of one of fractions.
func (a *Inline) Integers() []int64 {
	size := a.Elem.Size()
	out := make([]int64, len(a.Bytes)/size)
	for i := range out {
		if a.Elem == blocks.Int64 {
			out[i] = int64(binary.LittleEndian.Uint64(a.Bytes[8*i:]))
		} else {
			out[i] = int64(a.Elem.Float64(a.Bytes[size*i:]))
		}
	}
	return out
}

// Floats are the elements.
func (a *Inline) Floats() []float32 {
	size := a.Elem.Size()
	out := make([]float32, len(a.Bytes)/size)
	for i := range out {
		out[i] = float32(a.Elem.Float64(a.Bytes[size*i:]))
	}
	return out
}

// SparseRows is a matrix of scipy, in the form of compressed rows, that a pickle holds.
type SparseRows struct {
	Rows, Cols int64
	begins     []int64
	columns    []int64
	values     []float32
}

// SparseIn is the matrix of compressed rows that a value of a pickle is; nil if it is none.
func SparseIn(v any) *SparseRows {
	o, _ := v.(*Object)
	if o == nil || !strings.HasPrefix(o.Class, "scipy.sparse") || !strings.HasSuffix(o.Class, " csr_matrix") {
		return nil
	}
	state, _ := o.State.(*Dict)
	if state == nil {
		return nil
	}
	shape, ok := integers(state.Get("_shape"))
	begins, columns, values := ArrayIn(state.Get("indptr")), ArrayIn(state.Get("indices")), ArrayIn(state.Get("data"))
	if !ok || len(shape) != 2 || begins == nil || columns == nil || values == nil {
		return nil
	}
	m := &SparseRows{Rows: shape[0], Cols: shape[1], begins: begins.Integers(), columns: columns.Integers(), values: values.Floats()}
	n := int64(len(m.columns))
	if m.Rows < 0 || int64(len(m.begins)) != m.Rows+1 || m.begins[0] != 0 || m.begins[m.Rows] != n || int64(len(m.values)) != n {
		return nil
	}
	for r := range m.Rows {
		if m.begins[r] > m.begins[r+1] {
			return nil
		}
	}
	for _, c := range m.columns {
		if c < 0 || c >= m.Cols {
			return nil
		}
	}
	return m
}

// Add adds a row to dst, of Cols elements.
func (m *SparseRows) Add(row int64, dst []float32) {
	for i := m.begins[row]; i < m.begins[row+1]; i++ {
		dst[m.columns[i]] += m.values[i]
	}
}

// bytesOf are bytes as pickles have them: by themselves, as text of Python 2, or in old protocols, as text of Latin-1.
func bytesOf(v any) []byte {
	switch v := v.(type) {
	case []byte:
		return v
	case string:
		return []byte(v)
	case *Object:
		if text, ok := first(v.Args).(string); ok && v.Class == "_codecs encode" {
			b := make([]byte, 0, len(text))
			for _, r := range text {
				b = append(b, byte(r))
			}
			return b
		}
	}
	return nil
}

func first(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}
