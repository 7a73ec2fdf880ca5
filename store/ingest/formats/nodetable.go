package formats

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// nodeFields are the names with a meaning of their own in tables of nodes.
var nodeFields = []string{"id", "label", "split", "train_mask", "valid_mask", "test_mask"}

// What else the columns of tables of nodes are called. typeNames are of text that is a feature unasked.
var (
	idNames    = []string{"id", "node", "node_id", "nid", "name"}
	labelNames = []string{"label", "y", "class", "labels", "node_label"}
	typeNames  = []string{"node_type", "ntype"}
	maskNames  = map[string]string{"val_mask": "valid_mask"}
)

// nodeTable is a table of nodes and what its columns mean.
type nodeTable struct {
	table
	id       int
	label    int      // −1 = there is none
	classes  []string // of a label that is text; nil = it is class ids
	splits   []int    // columns of parts' names; one by the masks if there are none
	masks    [4]int   // by part; −1 = there is none
	features []nodeFeature
	uses     []string // of the columns
	kind     string   // type of the nodes; "" = the one there is
}

// nodeFeature is a feature that one list column or some number columns make, or one column of text or of dates.
type nodeFeature struct {
	name   string
	elem   blocks.ElemType
	from   []int
	dim    int
	values []string // of text: element k is 1 where the text is values[k], else 0
	days   bool     // dates become days since 1970
}

// openNodeTable works out what a table's columns mean: by o.NodeColumns, one for each
// column in order, or else by name. Columns that no name of their own gives a meaning are
// features: lists each one, columns NAME.0, NAME.1, … together, other numbers
// together "x"; text and dates only if asked for. Text that is a label, or asked for, is read here, for its values.
func openNodeTable(ctx context.Context, t table, o *TextOptions) (*nodeTable, error) {
	o = o.liked()
	n := &nodeTable{table: t, kind: o.kind, id: -1, label: -1, masks: [4]int{-1, -1, -1, -1}}
	cols := t.columns()
	names := make([]string, len(cols)) // meaning of each column: one of nodeFields, "" = a feature, "-" = none
	n.uses = make([]string, len(cols))
	var err error
	if o.NodeColumns != nil {
		err = n.byFields(o.NodeColumns, names)
	} else {
		n.byName(names, o)
		err = n.featuresByName(ctx, names, o)
	}
	if err != nil {
		return nil, err
	}
	for k, meaning := range names {
		switch meaning {
		case "id":
			n.id = k
		case "label":
			n.label = k
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
		if cols[k].strange != "" {
			return nil, ingest.Inputf(t.where(), "column %q, the %s, is %s, expected numbers or strings", cols[k].name, meaning, cols[k].strange)
		}
		if cols[k].dim != 1 {
			return nil, ingest.Inputf(t.where(), "column %q has %d elements a row, expected 1", cols[k].name, cols[k].dim)
		}
	}
	if n.id < 0 {
		return nil, ingest.Inputf(t.where(), "no column of ids (%s) among %q; --node-columns names the columns in order", strings.Join(idNames, ", "), columnNames(cols))
	}
	for k := range n.features {
		n.features[k].name = o.featureName(n.features[k].name)
	}
	n.tellFeatures()
	if n.label >= 0 && cols[n.label].text {
		switch {
		case o.Like == nil:
			if n.classes, err = distinct(ctx, t, n.label, ingest.ClassesMax); err != nil {
				return nil, err
			}
		case o.Like.Schema.ClassNames == nil:
			return nil, ingest.Inputf(t.where(), "labels in column %q are text, those of the store are numbers without names", cols[n.label].name)
		default:
			n.classes = o.Like.Schema.ClassNames
		}
		n.uses[n.label] = "label: classes " + listed(n.classes)
	}
	return n, nil
}

// tellFeatures notes which feature each column became.
func (n *nodeTable) tellFeatures() {
	for _, f := range n.features {
		for i, k := range f.from {
			switch {
			case f.values != nil:
				n.uses[k] = fmt.Sprintf("feature %s: which of %s", f.name, listed(f.values))
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

// listed shows the first of some values.
func listed(values []string) string {
	const most = 8
	if len(values) <= most {
		return fmt.Sprintf("%q", values)
	}
	return fmt.Sprintf("%q and %d more", values[:most], len(values)-most)
}

// distinct reads a column of text for its values, in order; what is missing is none of them.
func distinct(ctx context.Context, t table, column, most int) ([]string, error) {
	seen := map[string]bool{}
	want := []wantColumn{{at: column}}
	t.use(want)
	err := t.read(ctx, ingest.Env{Threads: 1, MemoryBytes: 32 << 20}, want, func(b *tableBatch) error {
		for i := range b.rows {
			if v := b.text[0].At(i); !missingText(v) && !seen[string(v)] {
				if seen[string(v)] = true; len(seen) > most {
					return ingest.Inputf(b.at.Of(i), "column %q has more than %d values", t.columns()[column].name, most)
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
func (n *nodeTable) featuresByName(ctx context.Context, names []string, o *TextOptions) error {
	cols := n.columns()
	var plain []int
	for k := range names {
		c := cols[k]
		if names[k] != "" {
			continue
		}
		if c.boolean { // 1 and 0
			c.text = false
		}
		isType := c.text && slices.Contains(typeNames, strings.ToLower(c.name))
		if c.text && !c.date && !slices.Contains(o.Skip, c.name) && (isType || slices.Contains(o.Use, c.name)) {
			values, err := o.valuesOf(n, o.featureName(c.name))
			if err == nil && values == nil {
				values, err = distinct(ctx, n, k, valuesMax)
			}
			if err != nil {
				return err
			}
			if len(values) > 0 {
				n.features = append(n.features, nodeFeature{name: c.name, elem: blocks.Float32, from: []int{k}, dim: len(values), values: values})
				names[k] = "-"
				continue
			}
		}
		why, err := leftOut(n, c, o, "--node-columns")
		switch {
		case err != nil:
			return err
		case why != "":
			names[k], n.uses[k] = "-", why
		case c.date:
			n.features = append(n.features, nodeFeature{name: c.name, elem: blocks.Float64, from: []int{k}, dim: 1, days: true})
		case c.list:
			n.features = append(n.features, nodeFeature{name: c.name, elem: numberElem(c.elem), from: []int{k}, dim: c.dim})
		default:
			base, m := n.numberedFrom(names, k)
			if m <= 1 {
				plain = append(plain, k)
				continue
			}
			f := nodeFeature{name: base, elem: numberElem(c.elem), dim: m}
			for i := range m {
				f.from, names[k+i] = append(f.from, k+i), "-"
			}
			n.features = append(n.features, f)
		}
	}
	if len(plain) == 0 {
		return nil
	}
	o.inOrder(cols, o.featureName("x"), plain)
	f := nodeFeature{name: "x", elem: numberElem(cols[plain[0]].elem), from: plain, dim: len(plain)}
	for _, k := range plain {
		if numberElem(cols[k].elem) != f.elem {
			f.elem = blocks.Float32
		}
	}
	n.features = append(n.features, f)
	return nil
}

// numberedFrom is the feature that columns NAME.0, NAME.1, … of one type make together, from
// column k on, and how many they are.
func (n *nodeTable) numberedFrom(names []string, k int) (string, int) {
	cols := n.columns()
	var run []string
	for i := k; i < len(cols) && names[i] == "" && !cols[i].text && !cols[i].list && cols[i].elem == cols[k].elem; i++ {
		run = append(run, cols[i].name)
	}
	return numbered(run)
}

// numberElem is the type in which a column's numbers are read: one that has room for a missing one, NaN.
func numberElem(e blocks.ElemType) blocks.ElemType {
	switch e {
	case blocks.Invalid:
		return blocks.Float32
	case blocks.Float16, blocks.Float32:
		return e
	}
	return blocks.Float64
}

// byFields takes the columns for what specs say, in order.
func (n *nodeTable) byFields(specs []string, names []string) error {
	fields, _, width, err := parseFields(specs, nodeFields)
	if err != nil {
		return err
	}
	cols := n.columns()
	if width != anyWidth && width != len(cols) {
		return ingest.Inputf(n.where(), "%d columns, %q; --node-columns says what %d are (- skips one, -* at the end all that follow)", len(cols), columnNames(cols), width)
	}
	for k := range names {
		names[k], n.uses[k] = "-", "left out, as told"
	}
	for _, f := range fields {
		if f.at+f.dim > len(cols) {
			return ingest.Inputf(n.where(), "%d columns, %q, expected %d (--node-columns)", len(cols), columnNames(cols), f.at+f.dim)
		}
		if slices.Contains(nodeFields, f.name) {
			names[f.at] = f.name
			continue
		}
		if f.dim == 1 && isSplit(f.name) && isSplit(cols[f.at].name) {
			names[f.at] = "split"
			continue
		}
		feature := nodeFeature{name: f.name, elem: f.elem}
		for k := range f.dim {
			c := cols[f.at+k]
			if c.strange != "" {
				return ingest.Inputf(n.where(), "column %q is %s, which is no feature; --node-columns skips what is called -", c.name, c.strange)
			}
			if c.text && !c.mixed {
				return ingest.Inputf(n.where(), "column %q holds text (%.40q), which is no feature; --node-columns skips what is called -", c.name, c.example)
			}
			feature.from, feature.dim = append(feature.from, f.at+k), feature.dim+c.dim
		}
		if feature.dim != len(feature.from) && len(feature.from) > 1 {
			return ingest.Inputf(n.where(), "feature %s is made of %d columns, some of them lists, expected one list or plain numbers", f.name, len(feature.from))
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
func (n *nodeTable) byName(names []string, o *TextOptions) {
	cols := n.columns()
	find := func(as string, known []string) {
		for _, want := range known {
			for k, c := range cols {
				if names[k] == "" && strings.EqualFold(c.name, want) && !slices.Contains(o.Skip, c.name) {
					names[k] = as
					return
				}
			}
		}
	}
	find("id", append(typedIDs(o.kind), idNames...))
	find("label", labelNames)
	for _, f := range nodeFields[3:] {
		find(f, []string{f})
	}
	for k, c := range cols { // "split", "split_public", …: as the numpy folder has them
		if names[k] == "" && !slices.Contains(o.Skip, c.name) && (strings.EqualFold(c.name, "split") || c.text && isSplit(c.name)) {
			names[k] = "split"
		}
	}
	for alias, f := range maskNames {
		find(f, []string{alias})
	}
}
