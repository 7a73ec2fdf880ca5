package ingest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// Missing says what becomes of elements of features that have no value: NaN, nulls, empty fields of text.
type Missing string

// Rules for missing values.
const (
	MissingError Missing = "error" // they are refused
	MissingZero  Missing = "zero"
	// MissingMean takes the mean of those of the column that are there; nodes without a row have it too.
	MissingMean Missing = "mean"
)

// maskSuffix ends the name of the column that says which elements of a feature were missing.
const maskSuffix = "_missing"

// fillMissing decides what missing elements of feature column c become. The mean takes a pass over the column.
func (r *run) fillMissing(ctx context.Context, c int, k *converter) error {
	if r.o.Missing == "" || r.o.Missing == MissingError || !floats(k.spec.Elem) {
		return nil
	}
	dim, size := k.spec.Dim, k.spec.Elem.Size()
	if k.fill = make([]float64, dim); r.o.Missing == MissingZero || k.spec.Mask {
		return nil
	}
	if k.standard != nil { // the store's column has a mean
		k.fill = k.standard.Mean
		return nil
	}
	r.phase("means of "+k.spec.Name, "rows", int64(r.layout.nodes))
	count := make([]int64, dim)
	err := r.eachRow(ctx, c, func(rows []byte, _ Position) error {
		for i := 0; i*size < len(rows); i++ {
			if x := k.spec.Elem.Float64(rows[i*size:]); !math.IsNaN(x) {
				k.fill[i%dim] += x
				count[i%dim]++
			}
		}
		r.tick(int64(len(rows) / k.spec.RowBytes()))
		return ctx.Err()
	})
	for d := range k.fill {
		k.fill[d] /= math.Max(1, float64(count[d]))
	}
	return err
}

// floats reports whether elements of a type can be missing.
func floats(t blocks.ElemType) bool {
	return t == blocks.Float16 || t == blocks.BFloat16 || t == blocks.Float32 || t == blocks.Float64
}

// missingNode makes the row of a node that the column says nothing about: means, and of a mask ones.
func (k *converter) missingNode() error {
	if k.fill == nil {
		return nil
	}
	var row []byte
	for range k.spec.Dim {
		x := math.NaN()
		if k.spec.Mask {
			x = 1
		}
		switch k.spec.Elem {
		case blocks.Float64:
			row = binary.LittleEndian.AppendUint64(row, math.Float64bits(x))
		case blocks.Float32:
			row = binary.LittleEndian.AppendUint32(row, math.Float32bits(float32(x)))
		case blocks.Float16:
			row = binary.LittleEndian.AppendUint16(row, blocks.Float16Bits(float32(x)))
		default:
			row = binary.LittleEndian.AppendUint16(row, blocks.BFloat16Bits(float32(x)))
		}
	}
	var err error
	k.missing, err = k.convert(nil, row, Position{File: k.spec.Name, Unit: "row"})
	k.filled = 0
	return err
}

// masked is a source with a column more for each of its features: where elements are missing.
type masked struct {
	Source
	desc Description
	of   []int // column of Source that each of desc.NodeColumns is, or is the mask of
}

// maskedKeyed is masked of a KeyedSource.
type maskedKeyed struct {
	*masked
	keyed KeyedSource
}

// withMasks adds a column of zeros and ones, NAME_missing, for each feature of src that is wanted and whose elements may be missing.
func withMasks(src Source, wanted func(name string) bool) (Source, error) {
	m := &masked{Source: src, desc: *src.Describe()}
	m.desc.NodeColumns = nil
	for c, spec := range src.Describe().NodeColumns {
		m.desc.NodeColumns, m.of = append(m.desc.NodeColumns, spec), append(m.of, c)
		if spec.Role != store.RoleFeature || !floats(spec.Elem) || !wanted(spec.Name) {
			continue
		}
		for _, other := range src.Describe().NodeColumns {
			if other.Name == spec.Name+maskSuffix {
				return nil, fmt.Errorf("%w: the input has a column %s, which is what the mask of %s would be called", ErrOptions, other.Name, spec.Name)
			}
		}
		spec.Name, spec.Mask = spec.Name+maskSuffix, true
		m.desc.NodeColumns, m.of = append(m.desc.NodeColumns, spec), append(m.of, c)
	}
	if keyed, ok := src.(KeyedSource); ok {
		return &maskedKeyed{m, keyed}, nil
	}
	return m, nil
}

// Describe implements [Source].
func (m *masked) Describe() *Description { return &m.desc }

// Rows implements [Source].
func (m *masked) Rows(ctx context.Context, env Env, c int, emit func([]byte, Position) error) error {
	room := []byte(nil)
	return m.Source.Rows(ctx, env, m.of[c], func(rows []byte, at Position) error {
		if m.desc.NodeColumns[c].Mask {
			room = maskOf(room[:0], rows, m.desc.NodeColumns[c].Elem)
			rows = room
		}
		return emit(rows, at)
	})
}

// NodeIDs implements [KeyedSource].
func (m *maskedKeyed) NodeIDs(ctx context.Context, env Env, emit func(*IDs, Position) error) error {
	return m.keyed.NodeIDs(ctx, env, emit)
}

// KeyedRows implements [KeyedSource].
func (m *maskedKeyed) KeyedRows(ctx context.Context, env Env, c int, emit func(*IDs, []byte, Position) error) error {
	room := []byte(nil)
	return m.keyed.KeyedRows(ctx, env, m.of[c], func(ids *IDs, rows []byte, at Position) error {
		if m.desc.NodeColumns[c].Mask {
			room = maskOf(room[:0], rows, m.desc.NodeColumns[c].Elem)
			rows = room
		}
		return emit(ids, rows, at)
	})
}

// maskOf appends a 1 of type t for each element that is missing, else a 0.
func maskOf(out, rows []byte, t blocks.ElemType) []byte {
	one := map[blocks.ElemType][]byte{
		blocks.Float64: binary.LittleEndian.AppendUint64(nil, math.Float64bits(1)), blocks.Float32: binary.LittleEndian.AppendUint32(nil, math.Float32bits(1)),
		blocks.Float16: binary.LittleEndian.AppendUint16(nil, blocks.Float16Bits(1)), blocks.BFloat16: binary.LittleEndian.AppendUint16(nil, blocks.BFloat16Bits(1)),
	}[t]
	zero := make([]byte, len(one))
	for i := 0; i < len(rows); i += len(one) {
		if math.IsNaN(t.Float64(rows[i:])) {
			out = append(out, one...)
		} else {
			out = append(out, zero...)
		}
	}
	return out
}
