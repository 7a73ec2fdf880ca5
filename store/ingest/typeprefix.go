package ingest

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/dictionary"
	"github.com/gstore/gstore/store/ingest/source"
)

// PrefixOf is what the source ids of a node type begin with, where types follow from ids (Description.TypesByPrefix).
func PrefixOf(nodeType string) string { return nodeType + ":" }

// countPrefixes counts the nodes of each type by their ids, whose order is that of dense ids, and has the source number them. It does
// nothing where types do not follow from ids.
func (r *Job) countPrefixes(ctx context.Context) error {
	if !r.Desc.TypesByPrefix || len(r.Desc.NodeTypes) < 2 {
		return nil
	}
	if _, ok := r.Source.(source.KeyedSource); !ok || r.Dictionary == nil || !r.Dictionary.Strings {
		return fmt.Errorf("ingest: types by the prefix of ids that are %s, expected a KeyedSource with strings", r.Desc.IDs)
	}
	counts, err := countTypes(ctx, r.Dictionary, r.Desc)
	if err != nil {
		return err
	}
	r.numberBy(withNumbers(r.Source, counts))
	return nil
}

// numberNodes has the source number nodes of one type that have labels and no features, if it does not.
func (r *Job) numberNodes() {
	if len(r.Desc.NodeTypes) != 1 || r.Kept != nil || r.State.Nodes == 0 || slices.ContainsFunc(r.Desc.NodeColumns, func(c source.ColumnSpec) bool { return c.Name == store.TypeColumn }) {
		return
	}
	if s := withNumbers(r.Source, []int64{int64(r.State.Nodes)}); len(s.number) > 0 {
		r.numberBy(s)
	}
}

// numberBy makes s, which wraps the source, the source.
func (r *Job) numberBy(s *numbered) {
	r.Source, r.Desc = source.KeyedAs(s, s.Source), &s.desc
}

// countTypes counts the ids of each of d's types.
func countTypes(ctx context.Context, ids *dictionary.Dictionary, d *source.Description) ([]int64, error) {
	counts := make([]int64, len(d.NodeTypes))
	var prefixes [][]byte
	for _, t := range d.NodeTypes {
		prefixes = append(prefixes, []byte(PrefixOf(t.Name)))
	}
	t := 0
	err := ids.Each(ctx, func(_ uint64, id []byte) error {
		for t < len(prefixes) && !bytes.HasPrefix(id, prefixes[t]) {
			t++
		}
		if t == len(prefixes) {
			return source.Inputf(d.Input, "node %.80q is of none of the types %.200q, in their order", id, prefixes)
		}
		counts[t]++
		return nil
	})
	return counts, err
}

// numbered is a source whose types have been counted, with the columns that number its nodes behind its own.
type numbered struct {
	source.Source
	desc   source.Description
	number []source.NumberColumn
}

// withNumbers is src, of types with as many nodes as counts says, one type's behind another's.
func withNumbers(src source.Source, counts []int64) *numbered {
	s := &numbered{Source: src, desc: *src.Describe()}
	s.desc.NodeTypes, s.desc.NodeColumns, s.desc.Notes = slices.Clone(s.desc.NodeTypes), slices.Clone(s.desc.NodeColumns), slices.Clone(s.desc.Notes)
	for t, n := range counts {
		s.desc.NodeTypes[t].Count = n
	}
	s.number = source.NumberColumns(&s.desc)
	for _, c := range s.number {
		if s.desc.NodeColumns = append(s.desc.NodeColumns, c.Spec); c.Note != "" {
			s.desc.Notes = append(s.desc.Notes, c.Note)
		}
	}
	return s
}

// Describe implements [Source].
func (s *numbered) Describe() *source.Description { return &s.desc }

// Rows implements [Source].
func (s *numbered) Rows(ctx context.Context, env source.Env, c int, emit func([]byte, source.Position) error) error {
	if own := c - (len(s.desc.NodeColumns) - len(s.number)); own >= 0 {
		return s.number[own].Rows(ctx, emit)
	}
	return s.Source.Rows(ctx, env, c, emit)
}
