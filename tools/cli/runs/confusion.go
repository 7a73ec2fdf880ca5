package runs

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/webpage"
)

// matrixClasses is how many classes a matrix is drawn of; of more, the mistakes made most often are listed.
const matrixClasses = 30

// mistakesListed is how many are.
const mistakesListed = 30

// confusionTable is a split's confusion matrix.
type confusionTable struct {
	Split    string
	Classes  []string
	Rows     []confusionRow
	Mistakes []mistake // instead of Rows, of many classes
}

type confusionRow struct {
	Label string
	Cells []confusionCell
	Nodes int64
}

// deepest is how much of a cell's color is there where it is all of the row: letters of both themes can be read on it.
const deepest = .6

// confusionCell is a share of a label's nodes, with the color that stands for it.
type confusionCell struct {
	Nodes int64
	Link  string // to those; "": there is none
	Title string
	Style template.CSS
}

type mistake struct {
	Label, Predicted string
	Link             string
	Nodes            int64
	Share            string // of the label's
}

//go:embed confusion.html
var confusionText string

var confusionTemplate = webpage.New("confusion", confusionText)

// Confusion is the part of a page that shows which labels are taken for which classes, with links to the nodes of each, "" for none.
func Confusion(lines []metrics.ConfusionRow, link func(label, class string) string) (h template.HTML) {
	for _, t := range confusionTables(lines, link) {
		h += body(confusionTemplate(), t)
	}
	return h
}

func noLink(string, string) string { return "" }

// confusionTables makes a table of each split's lines.
func confusionTables(lines []metrics.ConfusionRow, link func(label, class string) string) (tables []*confusionTable) {
	for _, l := range lines {
		if len(tables) == 0 || tables[len(tables)-1].Split != l.Split {
			tables = append(tables, &confusionTable{Split: l.Split})
		}
		t := tables[len(tables)-1]
		t.Classes = append(t.Classes, l.Label)
	}
	for _, t := range tables {
		for _, l := range lines {
			if l.Split == t.Split {
				t.add(l, link)
			}
		}
		slices.SortStableFunc(t.Mistakes, func(a, b mistake) int { return int(b.Nodes - a.Nodes) })
		t.Mistakes = t.Mistakes[:min(len(t.Mistakes), mistakesListed)]
	}
	return tables
}

// add adds a label's line.
func (t *confusionTable) add(l metrics.ConfusionRow, link func(label, class string) string) {
	row := confusionRow{Label: l.Label}
	for _, n := range l.Predicted {
		row.Nodes += n
	}
	percent := func(n int64) float64 { return 100 * float64(n) / math.Max(1, float64(row.Nodes)) }
	for _, class := range t.Classes {
		n := l.Predicted[class]
		if len(t.Classes) > matrixClasses {
			if n > 0 && class != l.Label {
				t.Mistakes = append(t.Mistakes, mistake{l.Label, class, link(l.Label, class), n, fmt.Sprintf("%.1f", percent(n))})
			}
			continue
		}
		base := "199,124,0" // a mistake
		if class == l.Label {
			base = "0,132,95"
		}
		cell := confusionCell{Nodes: n, Title: fmt.Sprintf("%s predicted as %s: %.1f %%", l.Label, class, percent(n)),
			Style: template.CSS(fmt.Sprintf("background:rgba(%s,%.2f)", base, deepest*percent(n)/100))} //nolint:gosec // numbers
		if n > 0 {
			cell.Link = link(l.Label, class)
		}
		row.Cells = append(row.Cells, cell)
	}
	if len(t.Classes) <= matrixClasses {
		t.Rows = append(t.Rows, row)
	}
}
