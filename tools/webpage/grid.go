package webpage

import (
	"fmt"
	"html/template"
	"math"
)

// Grid is a chart of cells: rows from above, columns from the left.
type Grid struct {
	Title    string
	Note     string
	X, Y     string // what columns and rows are
	Columns  int
	Rows     int
	Square   bool // as high as it is wide
	Cells    []Cell
	Legend   []Key
	RowNames func(row int) string // nil: numbers
	ColNames func(column int) string
	// First are the numbers of the first row and column, where they are named by numbers.
	First int
	Says  string // what it shows, for those who do not see it
}

// Cell is a cell that is filled: Class is a class of the style, "heat1" to "heat8", or one of [Grid]'s kinds. Wide is how
// many columns it spans, 0 is 1.
type Cell struct {
	Row, Column int
	Wide        int
	Class       string
	Title       string
}

// Key is an entry of a legend.
type Key struct{ Class, Name string }

// heats is how many shades of a heat map there are.
const heats = 8

// Heat is the class of a value, by the root of its share of the most, so that small ones are seen; "" of none.
func Heat(v, most float64) string {
	if v <= 0 || most <= 0 {
		return ""
	}
	return fmt.Sprintf("heat%d", max(1, min(heats, int(math.Ceil(heats*math.Sqrt(v/most))))))
}

// HTML draws the grid.
func (g Grid) HTML() template.HTML {
	d := struct {
		Grid
		XS, YS []Tick
	}{Grid: g, XS: g.ticks(g.Columns, g.ColNames), YS: g.ticks(g.Rows, g.RowNames)}
	for i := range d.YS {
		d.YS[i].At = 100 - d.YS[i].At
	}
	return execute("grid", d)
}

// namedMost is up to how many rows or columns are named each.
const namedMost = 12

// ticks name rows or columns, some where there are many.
func (g *Grid) ticks(n int, names func(int) string) (list []Tick) {
	if names == nil {
		names = func(i int) string { return fmt.Sprint(i + g.First) }
	}
	step := 1
	if n > namedMost {
		step = max(1, int(nice(float64(n), about)))
	}
	for i := range n {
		if (i+g.First)%step == 0 || step == 1 {
			list = append(list, Tick{100 * (float64(i) + .5) / float64(n), names(i)})
		}
	}
	return list
}
