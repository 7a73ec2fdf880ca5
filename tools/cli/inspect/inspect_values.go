package inspect

import (
	"fmt"
	"io"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/stats"
	"github.com/gstore/gstore/tools/cli/command"
)

// printValues shows what labels and features hold, at most limit classes and elements of a column (0 = all).
func printValues(w io.Writer, m *store.Manifest, c *stats.Columns, limit int) {
	if c == nil {
		fmt.Fprintf(w, "\nvalues\tnot read (--stats yes reads %s)\n", command.FormatSize(stats.ColumnsBytes(m)))
		return
	}
	if c.Classes != nil {
		printClasses(w, c.Classes, limit)
	}
	if c.Numbers != nil {
		printNumbers(w, m, c)
	}
	if len(c.Features) == 0 {
		return
	}
	fmt.Fprintln(w, "\nfeature\tminimum\tmean\tmaximum\tmissing")
	shown := map[string]int{}
	for _, f := range c.Features {
		column, err := m.Column(f.Column)
		if err != nil {
			continue
		}
		if shown[f.Column]++; limit > 0 && shown[f.Column] > limit {
			if shown[f.Column] == limit+1 {
				fmt.Fprintf(w, "  … %d more of %s\n", len(column.Elements)-limit, f.Column)
			}
			continue
		}
		name, missing := f.Column, fmt.Sprint(column.Missing)
		if f.Element != "" {
			name += ": " + f.Element
			if shown[f.Column] > 1 {
				missing = "" // they are counted for the column
			}
		}
		fmt.Fprintf(w, "%s\t%.4g\t%.4g\t%.4g\t%s\n", name, f.Min, f.Mean, f.Max, missing)
	}
}

// printNumbers shows what labels that are numbers are like, all of them and those of each part of the first split.
func printNumbers(w io.Writer, m *store.Manifest, c *stats.Columns) {
	fmt.Fprintln(w, "\nlabel\tnodes\tminimum\tmean\tmaximum\tdeviation")
	line := func(name string, n *stats.Numbers) {
		if n.Nodes > 0 {
			fmt.Fprintf(w, "%s\t%d\t%.4g\t%.4g\t%.4g\t%.4g\n", name, n.Nodes, n.Min, n.Mean, n.Max, n.Deviation)
		}
	}
	line("all", c.Numbers)
	for k, name := range store.SplitNames() {
		if k < len(c.SplitNumbers) && k > 0 {
			line(name, &c.SplitNumbers[k])
		}
	}
	if without := m.Nodes - c.Numbers.Nodes; without > 0 {
		fmt.Fprintf(w, "without a label\t%d\n", without)
	}
}

func sum(xs []uint64) (n uint64) {
	for _, x := range xs {
		n += x
	}
	return n
}

// printClasses shows the nodes of each class, and of each class in the first split.
func printClasses(w io.Writer, c *stats.Classes, limit int) {
	if c.Several {
		fmt.Fprint(w, "\nlabel\tnodes")
	} else {
		fmt.Fprint(w, "\nclass\tnodes")
	}
	parts := store.SplitNames()[1:]
	if c.Splits != nil {
		for _, p := range parts {
			fmt.Fprintf(w, "\t%s", p)
		}
	}
	fmt.Fprintln(w)
	for k, n := range c.Nodes {
		if limit > 0 && k == limit {
			fmt.Fprintf(w, "  … %d more\n", len(c.Nodes)-k)
			break
		}
		name := fmt.Sprint(k)
		if c.Names != nil {
			name = c.Names[k]
		}
		fmt.Fprintf(w, "%s\t%d", name, n)
		if c.Splits != nil {
			for v := range parts {
				fmt.Fprintf(w, "\t%d", c.Splits[v+1][k])
			}
		}
		fmt.Fprintln(w)
	}
	if c.Several && c.Labelled > 0 {
		fmt.Fprintf(w, "labels of a node\t%.3g on average\n", float64(sum(c.Nodes))/float64(c.Labelled))
	}
	if c.Unlabeled > 0 {
		fmt.Fprintf(w, "without a label\t%d\n", c.Unlabeled)
	}
}
