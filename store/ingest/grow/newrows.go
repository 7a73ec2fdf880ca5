package grow

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/source"
)

// NewRows reads the rows of features that a source has of n nodes which a store does not have, in the form of the store's columns: what
// [Append] would write of them, by column, of those that the source has. Nodes are called 0 … n−1 there, or TYPE:0 …. A source of rows that no store's column has
// is [ingest.ErrInput].
func NewRows(ctx context.Context, m *store.Manifest, src source.Source, n int, env source.Env) (map[string][]byte,
	error) {
	src, err := source.WithMasks(src, func(name string) bool {
		_,
			err := m.Column(name + source.MaskSuffix)
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	keyed, ok := src.(source.KeyedSource)
	desc := src.Describe()
	job := &ingest.Job{Source: src, Desc: desc, Manifest: &store.Manifest{}, State: &ingest.State{},
		Like: map[string]*store.ColumnInfo{}}
	columns := map[string][]byte{}
	for c, spec := range desc.NodeColumns {
		if spec.Role != store.RoleFeature {
			continue
		}
		old, err := m.Column(spec.Name)
		if err != nil || old.Role != store.RoleFeature || old.Derived != "" {
			return nil, source.Inputf(desc.Input, "the store has no feature column %s", spec.Name)
		}
		like, at := partOf(old, spec.Elements)
		job.Like[spec.Name] = like
		conv, err := job.Converter(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", spec.Name, err)
		}
		rows := columns[spec.Name]
		if rows == nil {
			rows = bytes.Repeat(ingest.MissingRow(old), n)
			columns[spec.Name] = rows
		}
		size, part, element := old.RowBytes(), like.RowBytes(), old.Elem.Size()
		var out []byte
		take := func(row int, i int) {
			for k, to := range at {
				copy(rows[row*size+to*element:][:element], out[i*part+k*element:])
			}
		}
		convert := func(ids *source.IDs, b []byte, at source.Position) error {
			var err error
			if out, err = conv.Convert(out[:0], b, at); err != nil {
				return err
			}
			for i := range len(out) / part {
				row := i
				if ids != nil {
					if row, err = numbered(ids, i, n); err != nil {
						return err
					}
				}
				take(row, i)
			}
			return nil
		}
		if ok && spec.Keyed {
			err = keyed.KeyedRows(ctx, env, c, convert)
		} else {
			err = src.Rows(ctx, env, c, func(b []byte, at source.Position) error { return convert(nil, b, at) })
		}
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", spec.Name, err)
		}
	}
	return columns, nil
}

// numbered is which of n nodes an id names: a number, or one behind a type.
func numbered(ids *source.IDs, i, n int) (int, error) {
	k, err := 0, error(nil)
	if ids.Ends == nil {
		k = int(ids.Ints[i])
	} else {
		text := ids.At(i)
		k, err = strconv.Atoi(string(text[bytes.LastIndexByte(text, ':')+1:]))
	}
	if err != nil || k < 0 || k >= n {
		return 0, source.Inputf("node", "it has no number from 0 to %d", n-1)
	}
	return k, nil
}

// SliceRows is [NewRows] of float64 rows of one column.
func SliceRows(ctx context.Context, m *store.Manifest, column string, rows []float64, env source.Env) ([]byte, error) {
	c, err := m.Column(column)
	if err != nil {
		return nil, err
	}
	src, err := source.FromSlices(&source.Slices{Input: column, Nodes: uint64(len(rows) / c.Dim),
		NodeColumns: []source.SliceColumn{{Name: column, Role: store.RoleFeature, Elem: blocks.Float64, Dim: c.Dim,
			Data: blocks.Bytes(rows)}}})
	if err != nil {
		return nil, err
	}
	all, err := NewRows(ctx, m, src, len(rows)/c.Dim, env)
	return all[column], err
}
