package source

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// MaskSuffix ends the name of the column that says which elements of a feature were missing.
const MaskSuffix = "_missing"

// Floats reports whether elements of a type can be missing.
func Floats(t blocks.ElemType) bool {
	return t == blocks.Float16 || t == blocks.BFloat16 || t == blocks.Float32 || t == blocks.Float64
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

// WithMasks adds a column of zeros and ones, NAME_missing, for each feature of src that is wanted and whose elements may be missing.
func WithMasks(src Source, wanted func(name string) bool) (Source, error) {
	m := &masked{Source: src, desc: *src.Describe()}
	m.desc.NodeColumns = nil
	for c, spec := range src.Describe().NodeColumns {
		m.desc.NodeColumns, m.of = append(m.desc.NodeColumns, spec), append(m.of, c)
		if spec.Role != store.RoleFeature || !Floats(spec.Elem) || !wanted(spec.Name) {
			continue
		}
		for _, other := range src.Describe().NodeColumns {
			if other.Name == spec.Name+MaskSuffix {
				return nil, fmt.Errorf("%w: the input has a column %s, which is what the mask of %s would be called", ErrOptions, other.Name, spec.Name)
			}
		}
		spec.Name, spec.Mask = spec.Name+MaskSuffix, true
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
