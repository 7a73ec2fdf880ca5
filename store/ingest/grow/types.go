package grow

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/source"
)

// findTypes finds out how many new nodes are of each of the store's types, if the source says it: by its ids, or else by columns or
// splits of a single type. Where it does not, the schema counts them to the last type.
func (a *appender) findTypes(ctx context.Context) error {
	types := a.m.Schema.NodeTypes
	if a.desc.TypesByPrefix && len(types) > 1 {
		return a.typesOfIDs(ctx)
	}
	kind := -1
	names := slices.Clone(a.desc.Splits)
	for _, c := range a.desc.NodeColumns {
		names = append(names, c.Name)
	}
	for _, name := range names {
		c, err := a.m.Column(name)
		if err != nil {
			return err
		}
		if len(c.Files) == 0 {
			return source.Inputf(a.desc.Input, "column %s follows from nodes' types, expected columns of one type", name)
		}
		t := slices.IndexFunc(types, func(t store.NodeType) bool { return t.Name == c.NodeType })
		if t < 0 || t == kind {
			continue
		}
		if kind >= 0 { // of two types
			return nil
		}
		kind = t
	}
	if kind >= 0 {
		a.newTypes = make([]uint64, len(types))
		a.newTypes[kind] = a.newNodes
	}
	return nil
}

// typesOfIDs is findTypes where ids begin with types. New nodes are numbered by ascending id, and so type by type. In a store whose types
// have another order, as files from elsewhere may say, they are known only where they are of one.
func (a *appender) typesOfIDs(ctx context.Context) error {
	old := a.base.Manifest().Nodes
	counts, err := ingest.CountTypes(ctx, a.edges.Dictionary, a.desc, func(rank uint64) bool { return a.internal[rank] >= old })
	if err != nil {
		return err
	}
	found, last, ordered := make([]uint64, len(a.m.Schema.NodeTypes)), -1, true
	for k, n := range counts {
		t := slices.IndexFunc(a.m.Schema.NodeTypes, func(t store.NodeType) bool { return t.Name == a.desc.NodeTypes[k].Name })
		if t < 0 {
			return source.Inputf(a.desc.Input, "node type %q, expected one of the store's: append adds no type", a.desc.NodeTypes[k].Name)
		}
		if found[t] = uint64(n); n > 0 {
			ordered, last = ordered && t > last, t
		}
	}
	if ordered {
		a.newTypes = found
	}
	return nil
}

// typesWithin are the types of the new nodes first ≤ k < first+n, as partitions have them; nil if they are not known.
func (a *appender) typesWithin(first, n uint64) (types []uint32) {
	begin := uint64(0)
	for _, count := range a.newTypes {
		lo, hi := max(begin, first), min(begin+count, first+n)
		types = append(types, uint32(max(hi, lo)-lo))
		begin += count
	}
	return types
}

// mayBe reports whether there may be a new node of a type; "" = of any.
func (a *appender) mayBe(nodeType string) bool {
	t := slices.IndexFunc(a.m.Schema.NodeTypes, func(t store.NodeType) bool { return t.Name == nodeType })
	return t < 0 || a.newTypes == nil || a.newTypes[t] > 0
}

// namedTypes names the types of the new nodes.
func (a *appender) namedTypes() string {
	var names []string
	for t, n := range a.newTypes {
		if n > 0 {
			names = append(names, a.m.Schema.NodeTypes[t].Name)
		}
	}
	if names == nil {
		return "no type"
	}
	return strings.Join(names, ", ")
}

// typeRows streams the new nodes' rows of [store.TypeColumn].
func (a *appender) typeRows(ctx context.Context, emit func(first uint64, rows []byte) error) error {
	begin := uint64(0)
	for t, n := range a.newTypes {
		if err := ingest.FillRows(ctx, begin, n, binary.LittleEndian.AppendUint32(nil, uint32(t+1)), emit); err != nil {
			return err
		}
		begin += n
	}
	return nil
}
