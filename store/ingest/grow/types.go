package grow

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/source"
)

// findTypes finds out how many new nodes are of each of the store's types, if the source says it: by its ids, or else by columns or
// splits of a single type. Where it does not, the schema counts them to the last type.
func (a *appender) findTypes(ctx context.Context) error {
	if a.newNodes == 0 {
		return nil
	}
	types := a.m.Schema.NodeTypes
	if len(types) == 1 {
		a.newTypes = []uint64{a.newNodes}
		return nil
	}
	if (a.desc.TypesByPrefix || a.idTypes != nil) && len(types) > 1 {
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
	found, last, ordered := make([]uint64, len(a.m.Schema.NodeTypes)), -1, true
	old := a.base.Manifest().Nodes
	err := a.edges.Dictionary.Each(ctx, func(rank uint64, id []byte) error {
		if a.internal[rank] < old || store.NodeID(a.internal[rank]) == store.NoNode {
			return nil
		}
		t := a.typeOf(string(id))
		if t < 0 {
			return source.Inputf(a.desc.Input, "node %.80q is of none of the store's types: append adds no type", id)
		}
		found[t]++
		ordered, last = ordered && t >= last, t
		return nil
	})
	if err == nil && ordered {
		a.newTypes = found
	}
	return err
}

// typeOf is which of the store's types an id begins with; −1 = none.
func (a *appender) typeOf(id string) int {
	return slices.IndexFunc(a.m.Schema.NodeTypes, func(t store.NodeType) bool { return strings.HasPrefix(id, store.TypePrefix(t.Name)) })
}

// untypedNamed is how many of the nodes that say no type are named.
const untypedNamed = 3

// refuseUntyped refuses new nodes that say no type: each may be one that the store has, written in another way, and would be it twice.
func (a *appender) refuseUntyped() error {
	if a.untyped == 0 {
		return nil
	}
	t := a.idTypes
	return source.Inputf(a.desc.Input, "%d node(s) that the store does not have say no type, such as %q: write %s%s and so on, or call the columns of ends and the files of nodes by types, such as %s_id and %s (the store's types are %q)",
		a.untyped, a.untypedSome, store.TypePrefix(t[0]), a.untypedSome[0], t[0], t[len(t)-1]+".csv", t)
}

// typesWithin are the types of the new nodes first ≤ k < first+n, as partitions have them; nil if they are not known.
func (a *appender) typesWithin(first, n uint64) (types []uint32) {
	begin := uint64(0)
	if len(a.newTypes) == 1 { // which no partition says
		return nil
	}
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

// numbers reports whether a column numbers the nodes of a type, for models that learn a vector for each, and it is known which of the new
// ones are of it: these are numbered on.
func (a *appender) numbers(c *store.ColumnInfo) bool {
	k, ok := a.m.Category(c.Name)
	return ok && a.newTypes != nil && k.Column == c.NodeType+store.NodeSuffix && c.Categories == nil
}

// numberOn counts the numbers that new nodes got in such a column.
func (a *appender) numberOn(c *store.ColumnInfo) {
	if t := slices.IndexFunc(a.m.Schema.NodeTypes, func(t store.NodeType) bool { return t.Name == c.NodeType }); c.Numbered > 0 && t >= 0 {
		c.Numbered += a.newTypes[t]
	}
}

// ownNumbers streams the new nodes' rows of such a column: 0 of other types' nodes.
func (a *appender) ownNumbers(ctx context.Context, c *store.ColumnInfo, emit func(first uint64, rows []byte) error) error {
	const most = 1 << 16 // rows at a time
	begin := uint64(0)
	for t, n := range a.newTypes {
		kind := &a.m.Schema.NodeTypes[t] // which has the new ones
		if kind.Name != c.NodeType {
			if err := ingest.FillRows(ctx, begin, n, make([]byte, 4), emit); err != nil {
				return err
			}
			begin += n
			continue
		}
		given := kind.Count - n
		if c.Numbered > 0 { // some that have numbers were taken out
			given = c.Numbered
		}
		for done := uint64(0); done < n; {
			var rows []byte
			for i := range min(most, n-done) {
				rows = binary.LittleEndian.AppendUint32(rows, uint32(given+done+i+1))
			}
			if err := errors.Join(ctx.Err(), emit(begin+done, rows)); err != nil {
				return err
			}
			done += uint64(len(rows) / 4)
		}
		begin += n
	}
	return nil
}
