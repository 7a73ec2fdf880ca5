package inspect

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"

	"github.com/gstore/gstore/store/buffer/metrics"
)

// resultCharts are the curves of what epochs came to; none where a run wrote no results.
func resultCharts(results []metrics.Result) (charts []reportFigure) {
	blue, orange, green := reportColors()
	of := func(scale float64, value func(r *metrics.Result) *float64) (points plotter.XYs) {
		for i := range results {
			if v := value(&results[i]); v != nil {
				points = append(points, plotter.XY{X: float64(results[i].Epoch), Y: scale * *v})
			}
		}
		return points
	}
	add := func(caption, unit string, top float64, rising bool, curves ...reportCurve) {
		curves = slices.DeleteFunc(curves, func(c reportCurve) bool { return len(c.points) == 0 })
		if len(curves) > 0 {
			charts = append(charts, reportFigure{Caption: caption, spec: reportChart{x: "epoch", y: unit, top: top, curves: curves, marks: true, rising: rising}})
		}
	}
	device := func(value func(r *metrics.Result) *float64) plotter.XYs {
		return of(1, func(r *metrics.Result) *float64 {
			if x := value(r); *x > 0 {
				return x
			}
			return nil
		})
	}
	add("GPU: at mini-batches, idle, and copying partitions beside both", "s", 0, false,
		reportCurve{"mini-batches", device(func(r *metrics.Result) *float64 { return &r.DeviceSeconds }), blue},
		reportCurve{"idle", device(func(r *metrics.Result) *float64 { return &r.DeviceIdleSeconds }), orange},
		reportCurve{"copies", device(func(r *metrics.Result) *float64 { return &r.DeviceCopySeconds }), green})
	add("Loss of training", "loss", 0, false, reportCurve{"training", of(1, func(r *metrics.Result) *float64 { return r.Loss }), blue})
	add("Accuracy", "%", 100, true, reportCurve{"training", of(100, func(r *metrics.Result) *float64 { return r.TrainAccuracy }), blue},
		reportCurve{"validation", of(100, func(r *metrics.Result) *float64 { return r.ValidAccuracy }), orange},
		reportCurve{"test", of(100, func(r *metrics.Result) *float64 { return r.TestAccuracy }), green})
	add("Mean absolute error", "", 0, false, reportCurve{"training", of(1, func(r *metrics.Result) *float64 { return r.TrainMAE }), blue},
		reportCurve{"validation", of(1, func(r *metrics.Result) *float64 { return r.ValidMAE }), orange},
		reportCurve{"test", of(1, func(r *metrics.Result) *float64 { return r.TestMAE }), green})
	add("Micro-averaged F1", "%", 100, true, reportCurve{"validation", of(100, func(r *metrics.Result) *float64 { return r.ValidMicroF1 }), orange},
		reportCurve{"test", of(100, func(r *metrics.Result) *float64 { return r.TestMicroF1 }), green})
	add("Filtered ranks of validation", "MRR, hits@10", 0, true, reportCurve{"MRR", of(1, func(r *metrics.Result) *float64 { return r.ValidMRR }), blue},
		reportCurve{"hits@10", of(1, func(r *metrics.Result) *float64 { return r.ValidHits10 }), orange})
	return charts
}

// ending says what a run came to, "" if it did not end.
func ending(e *metrics.End) string {
	switch {
	case e == nil:
		return ""
	case e.TestMRR != nil && e.TestHits10 != nil:
		return fmt.Sprintf("Test MRR %.4f, hits@10 %.4f (filtered, against all nodes).", *e.TestMRR, *e.TestHits10)
	}
	for _, m := range metricsCompared() {
		switch valid, test := m.text(m.valid(e)), m.text(m.test(e)); {
		case test != "" && valid != "":
			return fmt.Sprintf("Test %s %s, validation %s, of epoch %d.", m.name, test, valid, e.BestEpoch)
		case test != "":
			return fmt.Sprintf("Test %s %s, of epoch %d.", m.name, test, e.BestEpoch)
		}
	}
	return ""
}

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

// confusionCell is a share of a label's nodes, with the color that stands for it.
type confusionCell struct {
	Nodes int64
	Title string
	Style template.CSS
}

type mistake struct {
	Label, Predicted string
	Nodes            int64
	Share            string // of the label's
}

// confusionTables makes a table of each split's lines.
func confusionTables(lines []metrics.ConfusionRow) (tables []*confusionTable) {
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
				t.add(l)
			}
		}
		slices.SortStableFunc(t.Mistakes, func(a, b mistake) int { return int(b.Nodes - a.Nodes) })
		t.Mistakes = t.Mistakes[:min(len(t.Mistakes), mistakesListed)]
	}
	return tables
}

// add adds a label's line.
func (t *confusionTable) add(l metrics.ConfusionRow) {
	row := confusionRow{Label: l.Label}
	for _, n := range l.Predicted {
		row.Nodes += n
	}
	percent := func(n int64) float64 { return 100 * float64(n) / math.Max(1, float64(row.Nodes)) }
	for _, class := range t.Classes {
		n := l.Predicted[class]
		if len(t.Classes) > matrixClasses {
			if n > 0 && class != l.Label {
				t.Mistakes = append(t.Mistakes, mistake{l.Label, class, n, fmt.Sprintf("%.1f", percent(n))})
			}
			continue
		}
		base := "230,159,0" // a mistake
		if class == l.Label {
			base = "0,158,115"
		}
		row.Cells = append(row.Cells, confusionCell{Nodes: n, Title: fmt.Sprintf("%s predicted as %s: %.1f %%", l.Label, class, percent(n)),
			Style: template.CSS(fmt.Sprintf("background:rgba(%s,%.2f)", base, percent(n)/100))}) //nolint:gosec // numbers
	}
	if len(t.Classes) <= matrixClasses {
		t.Rows = append(t.Rows, row)
	}
}
