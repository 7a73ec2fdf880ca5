package formats

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
)

// endNames are what the columns of an edge's ends are called, in pairs. The first pair that a table has counts.
var endNames = [][2]string{
	{"src", "dst"}, {"source", "target"}, {"source", "destination"}, {"from", "to"}, {"head", "tail"}, {"src_id", "dst_id"},
	{"source_id", "target_id"}, {"from_id", "to_id"}, {"head_id", "tail_id"}, {"fromnodeid", "tonodeid"}, {"u", "v"}, {"subject", "object"}, {"h", "t"},
}

// Other names of an edge's columns in tables.
var (
	relNames    = []string{"relation", "rel", "edge_type", "predicate", "type", "relation_id", "r"}
	weightNames = []string{"weight", "w", "edge_weight"}
	timeNames   = []string{"timestamp", "time", "ts"}
)

// edgeMeanings says what the columns of a table of edges mean by their names, in any case: one of
// edgeFields, or "" where a name says nothing. Where nodes have types, columns called by two of them come first. Where the
// table's name says the relation, no column does. ok is false if the ends have no columns.
func edgeMeanings(names []string, o *TextOptions) (meaning []string, ok bool) {
	meaning = make([]string, len(names))
	find := func(known ...string) int {
		for _, want := range known {
			k := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(strings.TrimSpace(n), want) })
			if k >= 0 && meaning[k] == "" {
				return k
			}
		}
		return -1
	}
	src, dst := -1, -1
	if typed := typedEnds(names, o); len(typed) == 2 {
		src, dst = typed[0], typed[1]
	}
	for _, pair := range endNames {
		if src >= 0 && dst >= 0 {
			break
		}
		if src, dst = find(pair[0]), find(pair[1]); src >= 0 && dst >= 0 {
			break
		}
	}
	for _, pair := range endNames { // of no pair: the first of each
		if src < 0 {
			src = find(pair[0])
		}
		if dst < 0 {
			dst = find(pair[1])
		}
	}
	if src < 0 || dst < 0 {
		return meaning, false
	}
	meaning[src], meaning[dst] = "src", "dst"
	for name, known := range map[string][]string{"relation": relNames, "weight": weightNames, "timestamp": timeNames} {
		if k := find(known...); k >= 0 && (name != "relation" || o.ends == nil) {
			meaning[k] = name
		}
	}
	return meaning, true
}

// knownEnds lists the names of ends, for messages.
func knownEnds() string {
	var pairs []string
	for _, p := range endNames[:6] {
		pairs = append(pairs, p[0]+" and "+p[1])
	}
	return strings.Join(pairs, ", ") + ", …"
}

// edgesByName says what the columns of a table of edges become by their names: fields, and what is to be told of
// each column. Those that are no field of an edge are features: numbers (NAME.0, NAME.1, … of a text together) and lists
// of numbers. Text, dates, columns without values and those without a name are left out. ok is
// false if the ends have no columns.
func edgesByName(t columnsOf, o *TextOptions) (fields []field, uses []string, ok bool, err error) {
	cols := t.columns()
	meaning, ok := edgeMeanings(columnNames(cols), o)
	if !ok {
		return nil, nil, false, nil
	}
	uses = make([]string, len(cols))
	for k := 0; k < len(cols); k++ {
		c := cols[k]
		if meaning[k] != "" && c.strange != "" {
			return nil, nil, false, ingest.Inputf(t.where(), "column %q, the %s, is %s, expected numbers or strings", c.name, meaning[k], c.strange)
		}
		f := field{name: meaning[k], at: k, elem: numberElem(c.elem), dim: c.dim}
		switch f.name {
		case "weight":
			f.elem = blocks.Float32
		case "timestamp":
			f.elem = blocks.Int64
		case "":
			if why, err := leftOut(t, c, o, "--columns"); err != nil {
				return nil, nil, false, err
			} else if why != "" {
				uses[k] = why
				continue
			}
			f.name = c.name
			if base, n := numbered(columnNames(cols[k:])); n > 1 && c.elem == blocks.Invalid {
				same := !slices.ContainsFunc(meaning[k:k+n], func(m string) bool { return m != "" })
				if f.name, f.dim = base, n; !same {
					return nil, nil, false, ingest.Inputf(t.where(), "columns %s.0 to %s.%d are one feature, and one of them means something else", base, base, n-1)
				}
			}
		}
		for i := range max(1, f.dim/max(1, c.dim)) {
			uses[k+i] = f.use()
		}
		if c.elem == blocks.Invalid {
			k += f.dim - 1
		}
		fields = append(fields, f)
	}
	return fields, uses, true, nil
}

// columnNames lists the names of columns.
func columnNames(cols []tableColumn) []string {
	names := make([]string, len(cols))
	for k, c := range cols {
		names[k] = c.name
	}
	return names
}

// leftOut says why a column that has no meaning by its name is no feature, "" if it is one. Numbers
// and text in one column are refused: one of them is a mistake.
func leftOut(t columnsOf, c tableColumn, o *TextOptions, flag string) (why string, err error) {
	asked := slices.Contains(o.Use, c.name)
	switch {
	case slices.Contains(o.Skip, c.name):
		return "left out, as told", nil
	case c.strange != "" && asked:
		return "", ingest.Inputf(t.where(), "column %q is %s, which is no feature", c.name, c.strange)
	case c.strange != "":
		return "left out: " + c.strange, nil
	case c.name == "" || c.name == "Unnamed: 0" || strings.HasPrefix(c.name, "__index_level_"):
		return "left out: the row numbers of a pandas table", nil
	case c.date && !asked:
		return fmt.Sprintf("left out: dates are no feature unless asked for (--use %s)", c.name), nil
	case c.empty && !asked:
		return "left out: no values", nil
	case c.mixed:
		return "", ingest.Inputf(t.where(), "column %q holds numbers and text (%.40q); leave it out with --skip %s, or name the columns in order with %s", c.name, c.example, c.name, flag)
	case c.text && !c.date && asked:
		return "", ingest.Inputf(t.where(), "column %q holds text (%.40q), which is no feature", c.name, c.example)
	case c.text && !c.date && c.example == "":
		return "left out: text", nil
	case c.text && !c.date:
		return fmt.Sprintf("left out: text (%.40q)", c.example), nil
	}
	return "", nil
}

// numbered returns the name that NAME.0, NAME.1, … at the front of names share, and how many they are.
func numbered(names []string) (base string, n int) {
	if len(names) == 0 {
		return "", 0
	}
	base, ok := strings.CutSuffix(names[0], ".0")
	if !ok || base == "" {
		return names[0], 1
	}
	for n < len(names) && names[n] == base+"."+strconv.Itoa(n) {
		n++
	}
	return base, n
}

// uses lists what became of a table's columns; columns of one run that became one thing are one entry.
func columnUses(path string, names, uses []string) (out []ingest.ColumnUse) {
	for k := 0; k < len(names); {
		n := k + 1
		for n < len(names) && uses[n] == uses[k] {
			n++
		}
		column := strconv.Quote(names[k])
		if n > k+1 {
			column = fmt.Sprintf("%q … %q (%d columns)", names[k], names[n-1], n-k)
		}
		out = append(out, ingest.ColumnUse{File: path, Column: column, As: uses[k]})
		k = n
	}
	return out
}
