package tables

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// readClasses finds the values of labels that are text.
func (n *nodeTable) readClasses(ctx context.Context, o *table.Options) (err error) {
	cols := n.Columns()
	unknown := ""
	text := slices.IndexFunc(n.label, func(k int) bool { return cols[k].Text && !(cols[k].Boolean && len(n.label) > 1) })
	switch {
	case text < 0:
		return nil
	case len(n.label) > 1:
		return ingest.Inputf(n.Where(), "labels in column %q of %d are text, expected 0 and 1", cols[n.label[text]].Name, len(n.label))
	case o.Like == nil || o.Like.LabelSets() != nil:
		if n.classes, err = distinct(ctx, n.Table, n.label[0], ingest.ClassesMax); err != nil {
			return err
		}
		n.classes, unknown = withoutUnknown(n.classes)
	case o.Like.Schema.ClassNames == nil:
		return ingest.Inputf(n.Where(), "labels in column %q are text, those of the store are numbers without names", cols[n.label[0]].Name)
	default:
		n.classes = o.Like.Schema.ClassNames
	}
	n.uses[n.label[0]] = "label: classes " + table.Listed(n.classes)
	if several := ingest.LabelsIn(n.classes); several != nil {
		n.uses[n.label[0]] = "label: any of " + table.Listed(several)
	}
	if unknown != "" {
		n.uses[n.label[0]] += fmt.Sprintf("; %q is none", unknown)
	}
	return nil
}

// unknownLabels are what tables write for a label that nobody knows, in place of nothing.
var unknownLabels = []string{"unknown", "unlabeled", "unlabelled", "undefined", "?"}

// isUnknown reports whether a label says that it is none.
func isUnknown(label string) bool { return slices.Contains(unknownLabels, strings.ToLower(label)) }

// withoutUnknown is classes without the one that says of nodes that they have none, if two or more are left.
func withoutUnknown(classes []string) (known []string, unknown string) {
	k := slices.IndexFunc(classes, isUnknown)
	if k < 0 || len(classes) < 3 || slices.ContainsFunc(classes[k+1:], isUnknown) {
		return classes, ""
	}
	return slices.Delete(slices.Clone(classes), k, k+1), classes[k]
}

// labelSpec describes the column of labels: a number a node, or 0 and 1 for each of several labels, which are called by their columns
// unless these are numbered.
func (n *nodeTable) labelSpec() ingest.ColumnSpec {
	cols := n.Columns()
	spec := ingest.ColumnSpec{Name: "label", Role: store.RoleLabel, Elem: blocks.Float64, Dim: max(len(n.label), cols[n.label[0]].Dim)}
	if spec.Dim == 1 {
		spec.Elements = n.labelName()
		return spec
	}
	if called := n.elements(&nodeFeature{from: n.label, dim: spec.Dim}); called != nil {
		if _, m := table.Numbered(called); m < len(called) {
			spec.Elements = called
		}
	}
	return spec
}

// labelName is the name of the column of labels where it is none of labelNames, for appends; else nil.
func (n *nodeTable) labelName() []string {
	name := n.Columns()[n.label[0]].Name
	if slices.ContainsFunc(labelNames, func(l string) bool { return strings.EqualFold(l, name) }) {
		return nil
	}
	return []string{name}
}

// labelsNumbered takes columns label.0, label.1, … for labels, where no column is called as labels are. A vector may well be called y or class.
func (n *nodeTable) labelsNumbered(names []string, o *table.Options) {
	for k, c := range n.Columns() {
		if slices.Contains(names, "label") {
			return
		}
		known := slices.ContainsFunc([]string{"label", "labels", "node_label"}, func(l string) bool { return strings.EqualFold(c.Name, l+".0") })
		if !known || names[k] != "" || slices.Contains(o.Skip, strings.TrimSuffix(c.Name, ".0")) {
			continue
		}
		if _, m := n.numberedFrom(names, k); m > 1 {
			for i := range m {
				names[k+i] = "label"
			}
		}
	}
}

// labelWords end the names of columns of labels, such as ml_target.
var labelWords = []string{"label", "class", "target"}

// labelByWord takes the only column whose name of several words ends as a label's for labels, where no column is called as labels are.
func (n *nodeTable) labelByWord(names []string, o *table.Options) {
	at := -1
	for k, c := range n.Columns() {
		w := table.Words(c.Name)
		if names[k] != "" || len(w) < 2 || !slices.Contains(labelWords, w[len(w)-1]) || slices.Contains(o.Skip, c.Name) || slices.Contains(o.Use, c.Name) {
			continue
		}
		if at >= 0 {
			return
		}
		at = k
	}
	if at >= 0 && !slices.Contains(names, "label") {
		names[at] = "label"
	}
}

// secondLabel reports whether column k is called as labels are, in a table that has a column of labels.
func (n *nodeTable) secondLabel(names []string, k int) bool {
	known := slices.ContainsFunc(labelNames, func(l string) bool { return strings.EqualFold(l, n.Columns()[k].Name) })
	return known && slices.Contains(names, "label")
}

// Texts of a few values, in the first rows of a table, are likely classes.
const (
	likelyRows    = 1000
	likelyClasses = 100 // at most, and no more than a quarter of the rows
)

// noteLikelyLabel says how to learn the first text of tables without labels that has few values: nothing would be learned of their nodes.
func noteLikelyLabel(s *parts.Source, tables []*nodeTable) error {
	for _, n := range tables {
		var want []table.Want
		for k, c := range n.Columns() {
			if !n.grows && c.Text && !c.Date && !c.Mixed && c.Strange == "" && strings.HasPrefix(n.uses[k], "left out: text") {
				want = append(want, table.Want{At: k})
			}
		}
		if len(want) == 0 {
			continue
		}
		rows := 0
		values := make([]map[string]bool, len(want))
		for i := range values {
			values[i] = map[string]bool{}
		}
		err := table.ReadSome(context.Background(), n, want, func(b *table.Batch) error {
			for r := range b.Rows {
				for i := range want {
					if v := b.Text[i].At(r); !table.MissingText(v) {
						values[i][string(v)] = true
					}
				}
				if rows++; rows == likelyRows {
					return table.ErrEnough
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, w := range want {
			if m := len(values[i]); m >= 2 && m <= likelyClasses && 4*m <= rows {
				name := n.Columns()[w.At].Name
				if n.kind != "" {
					name = n.kind + "." + name
				}
				s.Desc.Notes = append(s.Desc.Notes, fmt.Sprintf("no column is called as labels are (%s), so that nothing is learned of nodes: --label %s takes the %d values of that one", strings.Join(labelNames, ", "), name, m))
				return nil
			}
		}
	}
	return nil
}
