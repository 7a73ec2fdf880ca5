package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// Field is what one field of a line, or a run of them, means.
type Field struct {
	Name string // "src", "dst", "relation", "weight", … or the name of a feature
	At   int    // place of the first one
	Elem blocks.ElemType
	Dim  int // fields that it takes; a list column's is found in the file
}

// EdgeFields are the names with a meaning of their own in edge lists.
var EdgeFields = []string{"src", "dst", "relation", "weight", "timestamp"}

// fieldDimMax bounds the fields that one name may stand for.
const fieldDimMax = 1 << 16

// AnyWidth is what ParseFields says of fields that end with "-*".
const AnyWidth = -1

// ParseFields parses the fields of a table in order: a name of known, "-" for a
// field that is skipped (also "-*N", and at the end "-*" for all that follow), or a numeric feature as NAME, NAME:TYPE,
// NAME*N, NAME:TYPE*N, of type float32 if none is named. Where known has timestamp, time and ts without a
// type are it. It returns the number of fields that are looked at, and how many a row has, or AnyWidth. Errors are ingest.ErrOptions.
func ParseFields(specs, known []string) (fields []Field, need, width int, err error) {
	bad := func(spec, format string, args ...any) error {
		return fmt.Errorf("%w: field %q: %s", ingest.ErrOptions, spec, fmt.Sprintf(format, args...))
	}
	at := 0
	seen := map[string]bool{}
	for i, spec := range specs {
		if spec == "-*" && i == len(specs)-1 {
			return fields, need, AnyWidth, nil
		}
		f := Field{Name: spec, At: at, Elem: blocks.Float32, Dim: 1}
		if name, count, ok := strings.Cut(spec, "*"); ok {
			if f.Dim, err = strconv.Atoi(count); err != nil || f.Dim < 1 || f.Dim > fieldDimMax {
				return nil, 0, 0, bad(spec, "expected NAME*N with 1 ≤ N ≤ %d", fieldDimMax)
			}
			f.Name = name
		}
		at += f.Dim
		name, elem, typed := strings.Cut(f.Name, ":")
		if f.Name = name; name == "-" {
			continue
		}
		if need = at; name == "" {
			return nil, 0, 0, bad(spec, "no name")
		}
		if !typed && f.Dim == 1 && slices.Contains(known, "timestamp") && slices.Contains(parts.TimeNames, strings.ToLower(name)) {
			f.Name, name = "timestamp", "timestamp"
		}
		if seen[name] {
			return nil, 0, 0, bad(spec, "named twice")
		}
		seen[name] = true
		special := false
		for _, k := range known {
			special = special || k == name
		}
		if special && (typed || f.Dim > 1 && name != "label") {
			return nil, 0, 0, bad(spec, "%s has neither type nor number", name)
		}
		if typed {
			f.Elem, err = blocks.ParseElemType(elem)
			switch {
			case err != nil:
				return nil, 0, 0, bad(spec, "%v", err)
			case f.Elem != blocks.Float32 && f.Elem != blocks.Float64 && f.Elem != blocks.Int32 && f.Elem != blocks.Int64:
				return nil, 0, 0, bad(spec, "type %v, expected float32, float64, int32 or int64", f.Elem)
			}
		}
		if name == "timestamp" {
			f.Elem = blocks.Int64
		}
		fields = append(fields, f)
	}
	return fields, need, at, nil
}

// Use says what the field becomes, for people.
func (f *Field) use() string {
	switch f.Name {
	case "src":
		return "source"
	case "dst":
		return "destination"
	case "relation":
		return "relation"
	case "weight":
		return "weight"
	case "timestamp":
		return "timestamp"
	}
	if f.Dim > 1 {
		return fmt.Sprintf("edge feature %s [%d]", f.Name, f.Dim)
	}
	return "edge feature " + f.Name
}

// FieldUses says of each of n columns what fields make of it.
func FieldUses(fields []Field, n int) []string {
	uses := make([]string, n)
	for k := range uses {
		uses[k] = "left out, as told"
	}
	for _, f := range fields {
		for i := f.At; i < min(f.At+f.Dim, n); i++ {
			uses[i] = f.use()
		}
	}
	return uses
}

// EdgeColumn is the column of an edge that the field becomes.
func (f *Field) EdgeColumn() ingest.ColumnSpec {
	role := store.RoleEdge
	if f.Name == "weight" {
		role = store.RoleWeight
	}
	return ingest.ColumnSpec{Name: f.Name, Role: role, Elem: f.Elem, Dim: f.Dim}
}
