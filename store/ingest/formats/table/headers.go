package table

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// endNames are what the columns of an edge's ends are called, in pairs. The first pair that a table has counts.
var endNames = [][2]string{
	{"src", "dst"}, {"source", "target"}, {"source", "destination"}, {"from", "to"}, {"head", "tail"}, {"src_id", "dst_id"},
	{"source_id", "target_id"}, {"from_id", "to_id"}, {"head_id", "tail_id"}, {"fromnodeid", "tonodeid"}, {"u", "v"}, {"subject", "object"}, {"h", "t"}, {"u", "i"},
}

// IdNames are what a column of nodes' ids is called.
var IdNames = []string{"id", "node", "node_id", "nid", "~id", "name"}

// EdgeMeanings says what the columns of a table of edges mean by their names, in any case: one of
// EdgeFields, or "" where a name says nothing. Where nodes have types, columns called by two of them come first. Where the
// table's name says the relation, no column does. Where no columns are called as ends are, two that have one name of ids or nodes
// are they, or two whose names differ by a word for an end alone. ok is false if the ends have no columns.
func EdgeMeanings(names []string, o *Options) (meaning []string, ok bool) {
	meaning = make([]string, len(names))
	find := func(known ...string) int {
		for _, want := range known {
			k := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(Untyped(n), want) })
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
	if src < 0 || dst < 0 {
		if a, b, ok := repeatedEnds(names); ok {
			src, dst = a, b
		} else if a, b, ok := pairedEnds(names); ok {
			src, dst = a, b
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
	for name, known := range map[string][]string{"relation": parts.RelationNames, "weight": parts.WeightNames, "timestamp": parts.TimeNames} {
		if k := find(known...); k >= 0 && (name != "relation" || o.ends == nil) {
			meaning[k] = name
		}
	}
	return meaning, true
}

// Untyped is a column's name without blanks around it, and without the type that graph databases write behind it, as in weight:Double.
func Untyped(name string) string {
	name = strings.TrimSpace(name)
	if plain, kind, typed := strings.Cut(name, ":"); typed && plain != "" &&
		slices.Contains([]string{"int", "long", "float", "double", "string", "date", "datetime", "id", "boolean"}, strings.ToLower(kind)) {
		return plain
	}
	return name
}

// TwiceNamed is the first name that two columns have, in any case, and that columns of an edge's ends have; "" if there is
// none. A single letter, such as "h" of a triple's head, may as well be a node's name, and is none.
func TwiceNamed(names []string) string {
	seen := map[string]bool{}
	for _, n := range names {
		key := strings.ToLower(strings.TrimSpace(n))
		if seen[key] && len(key) > 1 && slices.ContainsFunc(endNames, func(p [2]string) bool { return p[0] == key || p[1] == key }) {
			return n
		}
		seen[key] = true
	}
	return ""
}

// KnownEnds lists the names of ends, for messages.
func KnownEnds() string {
	var pairs []string
	for _, p := range endNames[:6] {
		pairs = append(pairs, p[0]+" and "+p[1])
	}
	return strings.Join(pairs, ", ") + ", …"
}

// EdgesByName says what the columns of a table of edges become by their names: fields, and what is to be told of
// each column. Those that are no field of an edge are features: numbers (NAME.0, NAME.1, … of a text together) and lists
// of numbers. Text, dates, columns without values and those without a name are left out. ok is
// false if the ends have no columns.
func EdgesByName(t Head, o *Options) (fields []Field, uses []string, ok bool, err error) {
	cols := t.Columns()
	meaning, ok := EdgeMeanings(ColumnNames(cols), o)
	if !ok {
		return nil, nil, false, nil
	}
	if twice := TwiceNamed(ColumnNames(cols)); twice != "" {
		return nil, nil, false, ingest.Inputf(t.Where(), "two columns are called %q; --columns says what each is, in order", twice)
	}
	if k := loneDate(cols, meaning, o); k >= 0 {
		meaning[k] = "timestamp"
	}
	uses = make([]string, len(cols))
	for k := 0; k < len(cols); k++ {
		c := cols[k]
		if meaning[k] != "" && c.Strange != "" {
			return nil, nil, false, ingest.Inputf(t.Where(), "column %q, the %s, is %s, expected numbers or strings", c.Name, meaning[k], c.Strange)
		}
		f := Field{Name: meaning[k], At: k, Elem: NumberElem(c.Elem), Dim: c.Dim}
		switch f.Name {
		case "weight":
			f.Elem = blocks.Float32
		case "timestamp":
			f.Elem = blocks.Int64
		case "":
			if why, err := LeftOut(t, c, o, "--columns"); err != nil {
				return nil, nil, false, err
			} else if why != "" {
				uses[k] = why
				continue
			}
			f.Name = c.Name
			if base, n := Numbered(ColumnNames(cols[k:])); n > 1 && c.Elem == blocks.Invalid {
				same := !slices.ContainsFunc(meaning[k:k+n], func(m string) bool { return m != "" })
				if f.Name, f.Dim = base, n; !same {
					return nil, nil, false, ingest.Inputf(t.Where(), "columns %s.0 to %s.%d are one feature, and one of them means something else", base, base, n-1)
				}
			}
		}
		for i := range max(1, f.Dim/max(1, c.Dim)) {
			uses[k+i] = f.use()
		}
		if c.Elem == blocks.Invalid {
			k += f.Dim - 1
		}
		fields = append(fields, f)
	}
	return fields, uses, true, nil
}

// loneDate is the column of dates of edges that have no other, and no time: their time; −1 = there is none, or the store that they are added
// to has no times.
func loneDate(cols []Column, meaning []string, o *Options) int {
	if slices.Contains(meaning, "timestamp") {
		return -1
	}
	if o.Like != nil {
		if _, err := o.Like.TimeColumn(); err != nil {
			return -1
		}
	}
	at := -1
	for k, c := range cols {
		if !c.Date || meaning[k] != "" || slices.Contains(o.Skip, c.Name) || slices.Contains(o.Use, c.Name) {
			continue
		}
		if at >= 0 {
			return -1
		}
		at = k
	}
	return at
}

// ColumnNames lists the names of columns.
func ColumnNames(cols []Column) []string {
	names := make([]string, len(cols))
	for k, c := range cols {
		names[k] = c.Name
	}
	return names
}

// LeftOut says why a column that has no meaning by its name is no feature, "" if it is one. Numbers
// and text in one column are refused: one of them is a mistake.
func LeftOut(t Head, c Column, o *Options, flag string) (why string, err error) {
	asked := slices.Contains(o.Use, c.Name)
	switch {
	case slices.Contains(o.Skip, c.Name):
		return "left out, as told", nil
	case c.Strange != "" && asked:
		return "", ingest.Inputf(t.Where(), "column %q is %s, which is no feature", c.Name, c.Strange)
	case c.Strange != "":
		return "left out: " + c.Strange, nil
	case c.Name == "" || c.Name == "Unnamed: 0" || c.Name == "idx" || strings.HasPrefix(c.Name, "__index_level_"):
		return "left out: the numbers of rows", nil
	case c.Date && !asked:
		return fmt.Sprintf("left out: dates are no feature unless asked for (--use %s)", c.Name), nil
	case c.Empty && !asked:
		return "left out: no values", nil
	case (isKey(c) || o.ID != "" && !c.Text && slices.Contains(IdNames, strings.ToLower(c.Name))) && !asked && !o.likeEdges(c.Name):
		return fmt.Sprintf("left out: an id is no quantity (--use %s takes it)", c.Name), nil
	case c.Mixed:
		return "", ingest.Inputf(t.Where(), "column %q holds numbers and text (%.40q); leave it out with --skip %s, or name the columns in order with %s", c.Name, c.Example, c.Name, flag)
	case c.Text && !c.Date && asked:
		return "", ingest.Inputf(t.Where(), "column %q holds text (%.40q), which is no feature", c.Name, c.Example)
	case c.Text && !c.Date && c.Example == "":
		return "left out: text", nil
	case c.Text && !c.Date:
		return fmt.Sprintf("left out: text (%.40q)", c.Example), nil
	}
	return "", nil
}

// isKey reports whether numbers name rows of another table, or of a program: facebook_id.
func isKey(c Column) bool {
	w := Words(c.Name)
	return !c.Text && !c.List && len(w) > 1 && slices.Contains([]string{"id", "ids", "uid", "uuid", "guid"}, w[len(w)-1])
}

// likeEdges reports whether edges are added to a store whose edges have a column of that name.
func (o *Options) likeEdges(name string) bool {
	if o.Like == nil {
		return false
	}
	c, err := o.Like.Column(name)
	return err == nil && c.Role.OnEdges()
}

// Numbered returns the name that NAME.0, NAME.1, … at the front of names share, and how many they are.
func Numbered(names []string) (base string, n int) {
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

// ColumnUses lists what became of a table's columns; columns of one run that became one thing are one entry.
func ColumnUses(path string, names, uses []string) (out []ingest.ColumnUse) {
	for k := 0; k < len(names); {
		n := k + 1
		for n < len(names) && uses[n] == uses[k] {
			n++
		}
		column := strconv.Quote(names[k])
		if n > k+1 {
			column = fmt.Sprintf("%q … %q (%d columns)", names[k], names[n-1], n-k)
		}
		out = append(out, ingest.ColumnUse{File: path, Column: column, As: uses[k], Names: names[k:n]})
		k = n
	}
	return out
}

// NumberElem is the type in which a column's numbers are read: one that has room for a missing one, NaN.
func NumberElem(e blocks.ElemType) blocks.ElemType {
	switch e {
	case blocks.Invalid:
		return blocks.Float32
	case blocks.Float16, blocks.Float32:
		return e
	}
	return blocks.Float64
}

// Listed shows the first of some values.
func Listed(values []string) string {
	const most = 8
	if len(values) <= most {
		return fmt.Sprintf("%q", values)
	}
	return fmt.Sprintf("%q and %d more", values[:most], len(values)-most)
}
