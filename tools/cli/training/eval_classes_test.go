package training_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestByClass: what eval tells of each class is what the confusion matrix says, and the reliability table has every prediction once, those
// that are right as the matrix has them, and an error as the summary's.
func TestByClass(t *testing.T) {
	race.SkipArithmetic(t)
	dir := filepath.Join(t.TempDir(), "cora.gstore")
	clitest.MustRun(t, "demo", "--dir", dir, "--epochs", "4", "--quiet")
	type counts struct{ nodes, said, right float64 }
	classes, parts := map[string]map[string]*counts{}, map[string]*counts{}
	of := func(split, class string) *counts {
		if classes[split] == nil {
			classes[split], parts[split] = map[string]*counts{}, &counts{}
		}
		if classes[split][class] == nil {
			classes[split][class] = &counts{}
		}
		return classes[split][class]
	}
	off := map[string]float64{}
	told := 0
	for _, e := range clitest.Events(t, "eval", dir, "--by-class", "--confusion", "-", "--calibration", "-") {
		split, _ := e["split"].(string)
		number := func(key string) float64 { x, _ := e[key].(float64); return x }
		switch e["event"] {
		case "confusion":
			n := number("nodes")
			of(split, e["label"].(string)).nodes += n
			of(split, e["predicted"].(string)).said += n
			if e["label"] == e["predicted"] {
				of(split, e["label"].(string)).right += n
			}
		case "calibration":
			n := number("predictions")
			parts[split].said += n
			parts[split].right += n * number("right")
			off[split] += n * math.Abs(number("probability")-number("right"))
			if p := number("probability"); p < number("from")-1e-6 || p > number("to")+1e-6 {
				t.Errorf("a mean probability outside of its part: %v", e)
			}
		case "class":
			told++
			c := of(split, e["class"].(string))
			if number("nodes") != c.nodes || number("said") != c.said || math.Abs(number("precision")*math.Max(1, c.said)-c.right) > 1e-9 ||
				math.Abs(number("recall")*math.Max(1, c.nodes)-c.right) > 1e-9 || math.Abs(number("f1")*(c.nodes+c.said)-2*c.right) > 1e-9 {
				t.Errorf("told is %v, the confusion matrix says %+v", e, *c)
			}
		case "summary":
			for split, p := range parts {
				all := counts{}
				for _, c := range classes[split] {
					all.nodes += c.nodes
					all.right += c.right
				}
				if p.said != all.nodes || math.Abs(p.right-all.right) > 1e-6 {
					t.Errorf("%s: the reliability table has %+v, the confusion matrix %+v", split, *p, all)
				}
				if got := number(split + "_calibration_error"); math.Abs(got-off[split]/p.said) > 1e-6 || got <= 0 {
					t.Errorf("%s: calibration error %v, its table says %v", split, got, off[split]/p.said)
				}
			}
		}
	}
	if told < 3*7 {
		t.Errorf("%d classes told of three splits, expected 7 of each", told)
	}
	_, out, _ := clitest.Run(t, "eval", dir, "--by-class", "--splits", "test")
	if !strings.Contains(out, "ECE %") || !strings.Contains(out, "\ntest, by class:\n") || !strings.Contains(out, "  Theory\n") {
		t.Errorf("told is\n%s", out)
	}
	if code, _, stderr := clitest.Run(t, "eval", dir, "--calibration", t.TempDir()); code != cli.ExitUsage || !strings.Contains(stderr, "it is a folder") {
		t.Errorf("a folder for the table: exit code %d, %s", code, stderr)
	}
}
