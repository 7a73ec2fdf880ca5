package config

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/vectors"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// defaultTable is the default of Config.Table.
const defaultTable = "vectors"

// OwnVectors are the types of nodes whose nodes learn a vector each, by c.Features.
func (c *Config) OwnVectors(m *store.Manifest) (types []string) {
	for _, name := range c.Features {
		if t, ok := strings.CutSuffix(name, store.NodeSuffix); ok && c.Relational() {
			if _, ok := m.Category(name); ok {
				types = append(types, t)
			}
		}
	}
	return types
}

// Tabled is c with learned vectors in a table.
func (c *Config) Tabled(types []string) *Config {
	d := *c
	d.Vectors, d.VectorTypes, d.Table = VectorsTable, types, cmp.Or(c.Table, defaultTable)
	d.Features = slices.DeleteFunc(slices.Clone(c.Features), func(name string) bool {
		t, ok := strings.CutSuffix(name, store.NodeSuffix)
		return ok && slices.Contains(types, t)
	})
	return &d
}

// CountVectors counts the nodes of c.VectorTypes, once.
func (c *Config) CountVectors(ctx context.Context, st *store.Store) (err error) {
	if len(c.VectorTypes) > 0 && c.VectorsOf == nil {
		if c.VectorsOf, err = vectors.Count(ctx, st, c.VectorTypes); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	return nil
}

// EvalVectors are what evaluation reads of a table that is yet to be opened; nil without one.
func (c *Config) EvalVectors() *eval.Vectors {
	if c.VectorsOf == nil {
		return nil
	}
	return &eval.Vectors{Of: c.VectorsOf, ReadBytes: table.ReaderBytes(slices.Max(c.VectorsOf.Rows), c.Hidden)}
}
