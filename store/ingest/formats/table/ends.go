package table

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// typeOf is the type that a column is called by, TYPE, TYPE_id or TypeId; "" = by none.
func typeOf(column string, types []string) string {
	for _, t := range types {
		if slices.ContainsFunc(TypedIDs(t), func(n string) bool { return strings.EqualFold(strings.TrimSpace(column), n) }) || slices.Equal(Words(column), append(Words(t), "id")) {
			return t
		}
	}
	return ""
}

// IsOf reports whether a column is called by a type.
func IsOf(column, kind string) bool { return typeOf(column, []string{kind}) != "" }

// typedEnds are the columns that are called by types: those of tables, or if they are not two, any TYPE_id too. Where types of ends are
// known and differ, the source's stands first.
func typedEnds(names []string, o *Options) (known []int) {
	types := o.types
	if len(o.ends) == 2 && o.ends[0] != o.ends[1] {
		for _, end := range o.ends {
			for k, n := range names {
				if typeOf(n, []string{end}) != "" && !slices.Contains(known, k) { // a( and a are both called a_id
					known = append(known, k)
					break
				}
			}
		}
		return known
	}
	if types == nil {
		return nil
	}
	var any []int
	for k, n := range names {
		if typeOf(n, types) != "" {
			known = append(known, k)
		}
		if EndType(n, types) != "" {
			any = append(any, k)
		}
	}
	if len(known) != 2 {
		return any
	}
	return known
}

// EndType is the type that a column of ends is called by: one of types, or else the TYPE of a column TYPE_id; "" = by none.
func EndType(column string, types []string) string {
	if t := typeOf(column, types); t != "" {
		return t
	}
	column = strings.TrimSpace(column)
	if slices.ContainsFunc(endNames, func(p [2]string) bool { return strings.EqualFold(column, p[0]) || strings.EqualFold(column, p[1]) }) {
		return ""
	}
	stem, ok := strings.CutSuffix(strings.ToLower(column), "_id")
	if !ok || strings.HasPrefix(stem, ":") { // :START_ID of Neo4j's import
		return ""
	}
	return stem
}

// TypedIDs are names of columns with ids of a type.
func TypedIDs(t string) []string {
	if t == "" {
		return nil
	}
	return []string{t + "_id", t + "id", t}
}

// EndTypes says which types the ends of edges are of: as their columns are called, else those that were found by other means, if any, or
// else the first and the last of two types at most.
func EndTypes(where string, ends, found [2]string, types []string) (srcType, dstType string, err error) {
	srcType, dstType = cmp.Or(EndType(ends[0], types), found[0]), cmp.Or(EndType(ends[1], types), found[1])
	if (srcType == "" || dstType == "") && len(types) > 2 {
		return "", "", ingest.Inputf(where, "the types of %q and %q are unknown: call the columns TYPE_id of two of %q", ends[0], ends[1], types)
	}
	first, last := types[0], types[len(types)-1]
	switch {
	case srcType == "" && dstType == first: // of the other one
		srcType = last
	case srcType == "":
		srcType = first
	}
	switch {
	case dstType == "" && srcType == last:
		dstType = first
	case dstType == "":
		dstType = last
	}
	return srcType, dstType, nil
}

// CalledByTypes reports whether a column of ends is called by a type: one of types, or any TYPE_id, which may be a type that none has.
// Without types none is.
func CalledByTypes(ends [2]string, types []string) bool {
	return types != nil && (EndType(ends[0], types) != "" || EndType(ends[1], types) != "")
}

// TellEnds adds to what columns became the types of edges' ends.
func TellEnds(uses []ingest.ColumnUse, src, dst string) {
	for k := range uses {
		switch uses[k].As {
		case "source":
			uses[k].As += " of type " + src
		case "destination":
			uses[k].As += " of type " + dst
		}
	}
}

// TypedEdges makes the ids of edges those of two types.
func TypedEdges(edges parts.Edges, src, dst string) parts.Edges {
	return func(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
		rooms := make([][2]ingest.IDs, max(1, env.Threads))
		return edges(ctx, env, func(worker int, b *ingest.EdgeBatch) error {
			typed := *b
			typed.Src = *WithType(src, &b.Src, &rooms[worker][0])
			typed.Dst = *WithType(dst, &b.Dst, &rooms[worker][1])
			return emit(worker, &typed)
		})
	}
}

// WithType is ids of a type in room: TYPE:ID each. Integers that were written with a fraction of 0 are integers.
func WithType(kind string, ids, room *ingest.IDs) *ingest.IDs {
	if kind == "" {
		return ids
	}
	room.Reset()
	var b []byte
	for i := range ids.Len() {
		id := ids.At(i)
		b = append(append(b[:0], kind...), ':')
		x, ok := uint64(0), false
		if bytes.IndexByte(id, '.') >= 0 {
			x, ok = ParseID(id)
		}
		if ok {
			b = strconv.AppendUint(b, x, 10)
		} else {
			b = append(b, id...)
		}
		room.Append(b)
	}
	return room
}
