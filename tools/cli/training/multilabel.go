package training

import (
	"fmt"
	"math"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/tools/cli/command"
)

// percentOf writes a share that may be missing.
func percentOf(x *float64) string {
	if x == nil {
		return "-"
	}
	return command.FormatPercent(*x)
}

// f1Text says how well a model says the labels of nodes of test and valid, of which each may have several.
func f1Text(x *train.F1) string {
	return fmt.Sprintf("test micro F1 %s, macro F1 %s, all labels right %s; valid micro F1 %s, macro F1 %s, all labels right %s",
		percentOf(x.TestMicro), percentOf(x.TestMacro), percentOf(x.TestExact), percentOf(x.ValidMicro), percentOf(x.ValidMacro), percentOf(x.ValidExact))
}

// printLabels is the table of gstore eval for a model of several labels a node.
func printLabels(e *command.Env, splits []string, ms []eval.Metrics) {
	fmt.Fprintf(e.Stdout, "%-6s  %10s  %8s  %10s  %10s  %11s  %8s  %8s  %6s\n", "split", "nodes", "loss", "micro F1 %", "macro F1 %", "all right %", "ROC AUC", "avg prec", "ECE %")
	area := func(x float64) string {
		if math.IsNaN(x) {
			return "-"
		}
		return fmt.Sprintf("%.4f", x)
	}
	for i, s := range splits {
		m := ms[i]
		l := m.Labels
		if l == nil {
			fmt.Fprintf(e.Stdout, "%-6s  %10d  %8s  %10s  %10s  %11s  %8s  %8s  %6s\n", s, 0, "-", "-", "-", "-", "-", "-", "-")
			continue
		}
		fmt.Fprintf(e.Stdout, "%-6s  %10d  %8.4f  %10.2f  %10.2f  %11.2f  %8s  %8s  %6s\n", s, m.Nodes, m.Loss, 100*l.MicroF1, 100*l.MacroF1, 100*l.Exact, area(m.AUC), area(m.AveragePrecision),
			calibrationError(&m))
	}
}

// labelsHeader and labelsLine are the table of epochs of a model of several labels a node.
func labelsHeader(e *command.Env) {
	e.TellBeside("%5s  %8s  %14s   %13s  %14s  %8s  %10s", "epoch", "loss", "valid micro F1", "test micro F1", "valid macro F1", "seconds", "read")
}

func labelsLine(e *command.Env, r train.Epoch) {
	cell := func(x *float64) string {
		if x == nil {
			return ""
		}
		return fmt.Sprintf("%.2f", 100**x)
	}
	mark := " "
	if r.Best {
		mark = "*"
	}
	fmt.Fprintf(e.Told(), "%5d  %8.4f  %s  %13s  %14s  %8.3f  %10s\n", r.Epoch, r.Loss, e.Best(fmt.Sprintf("%14s%s", cell(r.ValidMicro), mark), r.Best), cell(r.TestMicro), cell(r.ValidMacro), r.Seconds, command.FormatSize(r.BytesRead))
}

// unbeatenLabels is [unbeaten] for several labels a node.
func unbeatenLabels(s *train.Summary, names []string) string {
	b, own := s.Baselines, s.TestMicro
	if b.Split == "valid" {
		own = s.ValidMicro
	}
	switch {
	case own == nil || b.ConstantF1 == nil:
		return ""
	case *own <= *b.ConstantF1:
		return fmt.Sprintf("the model's micro F1 of %s is no better than what answering %s for every node comes to (%s)", percentOf(own), classNames(names, b.Constant), percentOf(b.ConstantF1))
	case b.FeaturesF1 != nil && *own <= *b.FeaturesF1:
		return fmt.Sprintf("the model's micro F1 of %s is no better than what the same model learns without edges (%s): the graph adds nothing here; are its edges the right ones, in the right direction?",
			percentOf(own), percentOf(b.FeaturesF1))
	}
	return ""
}

// classNames lists labels by their names, the first few.
func classNames(names []string, labels []int) string {
	const few = 3
	text := ""
	for i, l := range labels {
		if i == few {
			return fmt.Sprintf("%s and %d more", text, len(labels)-few)
		}
		if i > 0 {
			text += ", "
		}
		text += className(names, l)
	}
	if text == "" {
		return "no label"
	}
	return text
}
