package formats

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// field is what one field of a line, or a run of them, means.
type field struct {
	name string // "src", "dst", "relation", "weight", … or the name of a feature
	at   int    // place of the first one
	elem blocks.ElemType
	dim  int // fields that it takes; a list column's is found in the file
}

// edgeFields are the names with a meaning of their own in edge lists.
var edgeFields = []string{"src", "dst", "relation", "weight", "timestamp"}

// fieldDimMax bounds the fields that one name may stand for.
const fieldDimMax = 1 << 16

// anyWidth is what parseFields says of fields that end with "-*".
const anyWidth = -1

// parseFields parses the fields of a table in order: a name of known, "-" for a
// field that is skipped (also "-*N", and at the end "-*" for all that follow), or a numeric feature as NAME, NAME:TYPE,
// NAME*N, NAME:TYPE*N, of type float32 if none is named. It returns the number of
// fields that are looked at, and how many a row has, or anyWidth. Errors are ingest.ErrOptions.
func parseFields(specs, known []string) (fields []field, need, width int, err error) {
	bad := func(spec, format string, args ...any) error {
		return fmt.Errorf("%w: field %q: %s", ingest.ErrOptions, spec, fmt.Sprintf(format, args...))
	}
	at := 0
	seen := map[string]bool{}
	for i, spec := range specs {
		if spec == "-*" && i == len(specs)-1 {
			return fields, need, anyWidth, nil
		}
		f := field{name: spec, at: at, elem: blocks.Float32, dim: 1}
		if name, count, ok := strings.Cut(spec, "*"); ok {
			if f.dim, err = strconv.Atoi(count); err != nil || f.dim < 1 || f.dim > fieldDimMax {
				return nil, 0, 0, bad(spec, "expected NAME*N with 1 ≤ N ≤ %d", fieldDimMax)
			}
			f.name = name
		}
		at += f.dim
		name, elem, typed := strings.Cut(f.name, ":")
		if f.name = name; name == "-" {
			continue
		}
		if need = at; name == "" {
			return nil, 0, 0, bad(spec, "no name")
		}
		if seen[name] {
			return nil, 0, 0, bad(spec, "named twice")
		}
		seen[name] = true
		special := false
		for _, k := range known {
			special = special || k == name
		}
		if special && (typed || f.dim > 1) {
			return nil, 0, 0, bad(spec, "%s has neither type nor number", name)
		}
		if typed {
			f.elem, err = blocks.ParseElemType(elem)
			switch {
			case err != nil:
				return nil, 0, 0, bad(spec, "%v", err)
			case f.elem != blocks.Float32 && f.elem != blocks.Float64 && f.elem != blocks.Int32 && f.elem != blocks.Int64:
				return nil, 0, 0, bad(spec, "type %v, expected float32, float64, int32 or int64", f.elem)
			}
		}
		if name == "timestamp" {
			f.elem = blocks.Int64
		}
		fields = append(fields, f)
	}
	return fields, need, at, nil
}

// use says what the field becomes, for people.
func (f *field) use() string {
	switch f.name {
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
	if f.dim > 1 {
		return fmt.Sprintf("edge feature %s [%d]", f.name, f.dim)
	}
	return "edge feature " + f.name
}

// fieldUses says of each of n columns what fields make of it.
func fieldUses(fields []field, n int) []string {
	uses := make([]string, n)
	for k := range uses {
		uses[k] = "left out, as told"
	}
	for _, f := range fields {
		for i := f.at; i < min(f.at+f.dim, n); i++ {
			uses[i] = f.use()
		}
	}
	return uses
}

// edgeColumn is the column of an edge that the field becomes.
func (f *field) edgeColumn() ingest.ColumnSpec {
	role := store.RoleEdge
	if f.name == "weight" {
		role = store.RoleWeight
	}
	return ingest.ColumnSpec{Name: f.name, Role: role, Elem: f.elem, Dim: f.dim}
}
