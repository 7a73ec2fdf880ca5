package tables

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// nodeFields are the names with a meaning of their own in tables of nodes.
var nodeFields = []string{"id", "label", "split", "train_mask", "valid_mask", "test_mask"}

// What else the columns of tables of nodes are called. typeNames are of text that is a feature unasked.
var (
	labelNames = []string{"label", "y", "class", "labels", "node_label", "target"}
	typeNames  = []string{"node_type", "ntype", ":label", "~label"}
	maskNames  = map[string]string{"val_mask": "valid_mask"}
)

// nodeTable is a table of nodes and what its columns mean.
type nodeTable struct {
	table.Table
	id       int
	label    []int    // none, one, or of several labels a node one each
	classes  []string // of a label that is text; nil = it is class ids
	splits   []int    // columns of parts' names; one by the masks if there are none
	masks    [4]int   // by part; −1 = there is none
	features []nodeFeature
	uses     []string // of the columns
	kind     string   // type of the nodes; "" = the one there is
	note     string   // told of the table; "" = nothing
	unnamed  bool     // its first line names no columns
	grows    bool     // its rows are added to a store
}

// nodeFeature is a feature that one list column or some number columns make, or one column of text or of dates.
type nodeFeature struct {
	name   string
	elem   blocks.ElemType
	from   []int
	dim    int
	values []string // of text: element k is 1 where the text is values[k], else 0
	days   bool     // dates become days since 1970
	vector bool     // its elements are of one scale: a list, or columns NAME.0, NAME.1, …
}

// openNodeTable works out what a table's columns mean: by o.NodeColumns, one for each
// column in order, or else by name. Columns that no name of their own gives a meaning are
// features: lists each one, columns NAME.0, NAME.1, … together, other numbers
// together "x"; text and dates only if asked for. Text that is a label, or asked for, is read here, for its values.
func openNodeTable(ctx context.Context, t table.Table, kind string, o *table.Options) (*nodeTable, error) {
	n := &nodeTable{Table: t, kind: kind, id: -1, masks: [4]int{-1, -1, -1, -1}, grows: o.Like != nil}
	o = n.liked(o)
	cols := t.Columns()
	names := make([]string, len(cols)) // meaning of each column: one of nodeFields, "" = a feature, "-" = none
	n.uses = make([]string, len(cols))
	var err error
	if o.NodeColumns != nil {
		err = n.byFields(o.NodeColumns, names)
	} else {
		if o.Label == nil && o.OrLabel != nil && n.has(o.OrLabel) {
			with := *o
			with.Label, o = o.OrLabel, &with
		}
		if n.byName(names, o); !o.LabelsOnly {
			err = n.featuresByName(ctx, names, o)
		}
	}
	if err != nil {
		return nil, err
	}
	for k, meaning := range names {
		switch meaning {
		case "id":
			n.id = k
		case "label":
			n.label = append(n.label, k)
		case "split":
			n.splits = append(n.splits, k)
		case "train_mask":
			n.masks[store.SplitTrain] = k
		case "valid_mask":
			n.masks[store.SplitValid] = k
		case "test_mask":
			n.masks[store.SplitTest] = k
		default:
			continue
		}
		n.uses[k] = meaning
		if cols[k].Strange != "" {
			return nil, ingest.Inputf(t.Where(), "column %q, the %s, is %s, expected numbers or strings", cols[k].Name, meaning, cols[k].Strange)
		}
		if cols[k].Dim != 1 && !(meaning == "label" && cols[k].List && slices.Index(names, "label") == k) {
			return nil, ingest.Inputf(t.Where(), "column %q has %d elements a row, expected 1", cols[k].Name, cols[k].Dim)
		}
	}
	if n.id < 0 {
		return nil, n.withoutIDs()
	}
	for k := range n.features {
		n.features[k].name = n.featureName(n.features[k].name)
	}
	n.tellFeatures()
	return n, n.readClasses(ctx, o)
}

// withoutIDs refuses a table none of whose columns is called as ids are.
func (n *nodeTable) withoutIDs() error {
	names := table.ColumnNames(n.Columns())
	numbers := 0
	for _, name := range names {
		if table.IsNumber([]byte(name)) {
			numbers++
		}
	}
	if 2*numbers > len(names) { // a row
		columns := n.likelyColumns()
		return &unnamedError{ingest.Inputf(n.Where(), "the first line, %s, names no columns: --node-columns says what they are, in order, such as %s", table.Listed(names), columns), strings.Split(columns, ",")}
	}
	return ingest.Inputf(n.Where(), "no column of ids (%s) among %s; --node-columns names the columns in order, such as %s", strings.Join(table.IdNames, ", "), table.Listed(names), n.likelyColumns())
}

// likelyColumns is what --node-columns might say: an id first, then numbers, of which many are one feature, and a text at the end as the label.
func (n *nodeTable) likelyColumns() string {
	cols := n.Columns()
	out := []string{"id"}
	for k := 1; k < len(cols); {
		run := k
		for run < len(cols) && !cols[run].Text && !cols[run].List {
			run++
		}
		switch named := !table.IsNumber([]byte(cols[k].Name)) && !strings.ContainsAny(cols[k].Name, ",:*"); {
		case run-k > 1:
			out = append(out, fmt.Sprintf("x*%d", run-k))
			k = run
			continue
		case cols[k].Text && k == len(cols)-1 && !cols[k].Date:
			out = append(out, "label")
		case cols[k].Text:
			out = append(out, "-")
		case named:
			out = append(out, cols[k].Name)
		default:
			out = append(out, fmt.Sprintf("f%d", k+1))
		}
		k++
	}
	return strings.Join(out, ",")
}

// tellFeatures notes which feature each column became.
func (n *nodeTable) tellFeatures() {
	for _, f := range n.features {
		for i, k := range f.from {
			switch {
			case f.values != nil:
				n.uses[k] = fmt.Sprintf("feature %s: which of %s", f.name, table.Listed(f.values))
			case f.dim == 1:
				n.uses[k] = "feature " + f.name
			case strings.TrimPrefix(f.name, n.kind+".") == "x" && f.dim == len(f.from) && f.dim <= 16:
				n.uses[k] = fmt.Sprintf("feature %s[%d] of %d", f.name, i, f.dim)
			default:
				n.uses[k] = fmt.Sprintf("feature %s [%d]", f.name, f.dim)
			}
			if f.days {
				n.uses[k] += ", in days since 1970"
			}
		}
	}
}

// distinct reads a column of text for its values, in order; what is missing is none of them.
func distinct(ctx context.Context, t table.Table, column, most int) ([]string, error) {
	seen := map[string]bool{}
	want := []table.Want{{At: column}}
	t.Use(want)
	err := t.Read(ctx, ingest.Env{Threads: 1, MemoryBytes: 32 << 20}, want, func(b *table.Batch) error {
		for i := range b.Rows {
			if v := b.Text[0].At(i); !table.MissingText(v) && !seen[string(v)] {
				if seen[string(v)] = true; len(seen) > most {
					return ingest.Inputf(b.At.Of(i), "column %q has more than %d values", t.Columns()[column].Name, most)
				}
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(seen)), err
}

// valuesMax bounds the values of text that is a feature: each is a dimension.
const valuesMax = 1024

// featuresByName makes features of the columns that names says nothing of.
func (n *nodeTable) featuresByName(ctx context.Context, names []string, o *table.Options) error {
	cols := n.Columns()
	var plain []int
	for k := range names {
		c := cols[k]
		if names[k] != "" {
			continue
		}
		if c.Boolean { // 1 and 0
			c.Text = false
		}
		isType := c.Text && slices.Contains(typeNames, strings.ToLower(c.Name))
		if c.Text && !c.Date && !slices.Contains(o.Skip, c.Name) && (isType || slices.Contains(o.Use, c.Name)) {
			values, err := n.valuesOf(o, n.featureName(c.Name))
			if err == nil && values == nil {
				values, err = distinct(ctx, n, k, valuesMax)
			}
			if err != nil {
				return err
			}
			if len(values) > 0 {
				n.features = append(n.features, nodeFeature{name: c.Name, elem: blocks.Float32, from: []int{k}, dim: len(values), values: values})
				names[k] = "-"
				continue
			}
		}
		why, err := table.LeftOut(n, c, o, "--node-columns")
		switch {
		case err != nil:
			return err
		case why != "":
			names[k], n.uses[k] = "-", why
		case o.Like == nil && o.Label == nil && n.secondLabel(names, k) && !slices.Contains(o.Use, c.Name):
			return ingest.Inputf(n.Where(), "column %q is a second column of labels, beside %q: leave it out with --skip %s, or make it a feature with --use %s",
				c.Name, cols[slices.Index(names, "label")].Name, c.Name, c.Name)
		case c.Date:
			n.features = append(n.features, nodeFeature{name: c.Name, elem: blocks.Float64, from: []int{k}, dim: 1, days: true})
		case c.List:
			n.features = append(n.features, nodeFeature{name: c.Name, elem: table.NumberElem(c.Elem), from: []int{k}, dim: c.Dim, vector: true})
		default:
			base, m := n.numberedFrom(names, k)
			if m <= 1 {
				plain = append(plain, k)
				continue
			}
			f := nodeFeature{name: base, elem: table.NumberElem(c.Elem), dim: m, vector: true}
			for i := range m {
				f.from, names[k+i] = append(f.from, k+i), "-"
			}
			n.features = append(n.features, f)
		}
	}
	if len(plain) == 0 {
		return nil
	}
	n.inOrder(o, n.featureName("x"), plain)
	f := nodeFeature{name: "x", elem: table.NumberElem(cols[plain[0]].Elem), from: plain, dim: len(plain)}
	for _, k := range plain {
		if table.NumberElem(cols[k].Elem) != f.elem {
			f.elem = blocks.Float32
		}
	}
	n.features = append(n.features, f)
	return nil
}

// numberedFrom is the feature that columns NAME.0, NAME.1, … of one type make together, from
// column k on, and how many they are.
func (n *nodeTable) numberedFrom(names []string, k int) (string, int) {
	cols := n.Columns()
	var run []string
	for i := k; i < len(cols) && names[i] == "" && !cols[i].Text && !cols[i].List && cols[i].Elem == cols[k].Elem; i++ {
		run = append(run, cols[i].Name)
	}
	return table.Numbered(run)
}

// byFields takes the columns for what specs say, in order.
func (n *nodeTable) byFields(specs []string, names []string) error {
	fields, _, width, err := table.ParseFields(specs, nodeFields)
	if err != nil {
		return err
	}
	cols := n.Columns()
	if width != table.AnyWidth && width != len(cols) {
		return ingest.Inputf(n.Where(), "%d columns, %q; --node-columns says what %d are (- skips one, -* at the end all that follow)", len(cols), table.ColumnNames(cols), width)
	}
	for k := range names {
		names[k], n.uses[k] = "-", "left out, as told"
	}
	for _, f := range fields {
		if f.At+f.Dim > len(cols) {
			return ingest.Inputf(n.Where(), "%d columns, %q, expected %d (--node-columns)", len(cols), table.ColumnNames(cols), f.At+f.Dim)
		}
		if slices.Contains(nodeFields, f.Name) {
			for k := range f.Dim {
				names[f.At+k] = f.Name
			}
			continue
		}
		if f.Dim == 1 && isSplit(f.Name) && isSplit(cols[f.At].Name) {
			names[f.At] = "split"
			continue
		}
		feature := nodeFeature{name: f.Name, elem: f.Elem}
		for k := range f.Dim {
			c := cols[f.At+k]
			if c.Strange != "" {
				return ingest.Inputf(n.Where(), "column %q is %s, which is no feature; --node-columns skips what is called -", c.Name, c.Strange)
			}
			if c.Text && !c.Mixed {
				return ingest.Inputf(n.Where(), "column %q holds text (%.40q), which is no feature; --node-columns skips what is called -", c.Name, c.Example)
			}
			feature.from, feature.dim = append(feature.from, f.At+k), feature.dim+c.Dim
			feature.vector = feature.vector || c.List
		}
		if feature.dim != len(feature.from) && len(feature.from) > 1 {
			return ingest.Inputf(n.Where(), "feature %s is made of %d columns, some of them lists, expected one list or plain numbers", f.Name, len(feature.from))
		}
		n.features = append(n.features, feature)
	}
	return nil
}

// isSplit reports whether a column of parts' names may be called so.
func isSplit(name string) bool {
	name = strings.ToLower(name)
	return name == "split" || strings.HasPrefix(name, "split_")
}

// byName gives columns the meanings of nodeFields that their names have.
func (n *nodeTable) byName(names []string, o *table.Options) {
	cols := n.Columns()
	find := func(as string, known []string) {
		for _, want := range known {
			for k, c := range cols {
				called := strings.EqualFold(c.Name, want) || strings.EqualFold(table.Untyped(c.Name), want)
				if names[k] == "" && called && !slices.Contains(o.Skip, c.Name) && (as != "label" || o.Label != nil || !slices.Contains(o.Use, c.Name)) {
					names[k] = as
					return
				}
			}
		}
	}
	if o.ID != "" {
		find("id", []string{o.ID})
	}
	if k := slices.IndexFunc(cols, func(c table.Column) bool { return strings.HasSuffix(c.Name, ":ID") }); !slices.Contains(names, "id") && k >= 0 && !slices.Contains(o.Skip, cols[k].Name) {
		names[k] = "id" // Neo4j's, whatever stands before it
	}
	if !slices.Contains(names, "id") {
		find("id", append(table.TypedIDs(n.kind), table.IdNames...))
	}
	if k := slices.IndexFunc(cols, func(c table.Column) bool { return !slices.Contains(o.Skip, c.Name) }); k >= 0 && n.kind == "" && !slices.Contains(names, "id") && table.IsID(cols[k].Name) {
		names[k] = "id" // a key stands first; that of a type is called by it
	}
	if o.Label == nil {
		find("label", labelNames)
		n.labelsNumbered(names, o)
		n.labelByWord(names, o)
	}
	for _, l := range o.Label {
		find("label", []string{l})
	}
	for _, f := range nodeFields[3:] {
		find(f, []string{f})
	}
	for k, c := range cols { // "split", "split_public", …: as the numpy folder has them
		if names[k] == "" && !slices.Contains(o.Skip, c.Name) && (strings.EqualFold(c.Name, "split") || c.Text && isSplit(c.Name)) {
			names[k] = "split"
		}
	}
	for alias, f := range maskNames {
		find(f, []string{alias})
	}
}
