package training

import (
	"encoding/csv"
	"fmt"
	"math"
	"strconv"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/tools/cli/command"
)

// classScore is how well a model says one class or label.
type classScore struct {
	Split     string  `json:"split"`
	Class     string  `json:"class"`
	Nodes     int64   `json:"nodes"` // that have it
	Said      int64   `json:"said"`  // of which it is said
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F1        float64 `json:"f1"`
}

// scoreOf is of a class that so many nodes have, of which it is said, and both.
func scoreOf(split, class string, nodes, said, right int64) classScore {
	share := func(n, of int64) float64 { return float64(n) / math.Max(1, float64(of)) }
	return classScore{split, class, nodes, said, share(right, said), share(right, nodes), share(2*right, nodes+said)}
}

// classScores are those of all classes or labels of a split, without those that no node has and of which none is said; as scikit-learn's
// precision_recall_fscore_support with zero_division=0.
func classScores(split string, names []string, m *eval.Metrics) (list []classScore) {
	add := func(class int, nodes, said, right int64) {
		if nodes+said > 0 {
			list = append(list, scoreOf(split, className(names, class), nodes, said, right))
		}
	}
	switch {
	case m.Labels != nil:
		c := m.Labels.Counts
		for j := range c.Right {
			add(j, c.Right[j]+c.Missed[j], c.Right[j]+c.Wrong[j], c.Right[j])
		}
	case m.Confusion != nil:
		c := m.Confusion
		for k := range c.Classes {
			var nodes, said int64
			for j := range c.Classes {
				nodes += c.At(k, j)
				said += c.At(j, k)
			}
			add(k, nodes, said, c.At(k, k))
		}
	}
	return list
}

// tellClasses prints the scores of every class of each split.
func (o *evalOptions) tellClasses(e *command.Env, names []string, metrics []eval.Metrics) {
	for i, split := range o.splits {
		list := classScores(split, names, &metrics[i])
		if e.JSON {
			for _, c := range list {
				e.Event("class", command.Fields(c))
			}
			continue
		}
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(e.Stdout, "\n%s, by class:\n%10s  %10s  %11s  %8s  %6s  %s\n", split, "nodes", "predicted", "precision %", "recall %", "F1 %", "class")
		for _, c := range list {
			fmt.Fprintf(e.Stdout, "%10d  %10d  %11.2f  %8.2f  %6.2f  %s\n", c.Nodes, c.Said, 100*c.Precision, 100*c.Recall, 100*c.F1, c.Class)
		}
	}
}

// calibrationError is a split's as a cell of a table.
func calibrationError(m *eval.Metrics) string {
	if m.Calibration == nil || math.IsNaN(m.Calibration.Error()) {
		return "-"
	}
	return fmt.Sprintf("%.2f", 100*m.Calibration.Error())
}

// writeCalibration writes how sure the model is beside how often it is right.
func (o *evalOptions) writeCalibration(e *command.Env, metrics []eval.Metrics) (err error) {
	to := e.Stdout
	if o.calibration != "-" {
		f, err := command.NewFile(o.calibration)
		if err != nil {
			return fmt.Errorf("--calibration: %w", err)
		}
		defer func() { err = f.Finish(err) }()
		to = f
	}
	w := csv.NewWriter(to)
	events := o.calibration == "-" && e.JSON
	if !events {
		_ = w.Write([]string{"split", "from", "to", "predictions", "probability", "right"}) // kept by the writer: see Error
	}
	for i, m := range metrics {
		c := m.Calibration
		if c == nil {
			continue
		}
		for k, n := range c.Count {
			if n == 0 {
				continue
			}
			sure, right := c.Bin(k)
			from, upTo := float64(k)/eval.CalibrationBins, float64(k+1)/eval.CalibrationBins
			if events {
				e.Event("calibration", map[string]any{"split": o.splits[i], "from": from, "to": upTo, "predictions": n, "probability": sure, "right": right})
				continue
			}
			number := func(x float64) string { return strconv.FormatFloat(x, 'f', 4, 64) }
			_ = w.Write([]string{o.splits[i], number(from), number(upTo), strconv.FormatInt(n, 10), number(sure), number(right)})
		}
	}
	w.Flush()
	return w.Error()
}
