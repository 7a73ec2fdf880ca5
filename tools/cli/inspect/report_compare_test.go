package inspect_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli"
)

// A page of several runs has a line of each with what it came to and the settings by which they differ, the best one bold among
// those that are judged alike, and their curves beside each other; one that has not ended is shown as far as it is.
func TestReportComparesRuns(t *testing.T) {
	accuracy := func(x float64) metrics.End {
		return metrics.End{BestEpoch: 1, ValidAccuracy: metrics.Number(x), TestAccuracy: metrics.Number(x - .01)}
	}
	files := []string{
		writeRun(t, 2, map[string]any{"lr": .01, "hidden": 16, "model": "sage"}, accuracy(.8)),
		writeRun(t, 3, map[string]any{"lr": .02, "hidden": 16, "model": "sage", "residual": true}, accuracy(.9)),
		writeRun(t, 2, map[string]any{"lr": .01, "hidden": 16, "model": "sage"}, metrics.End{ValidMAE: metrics.Number(2.5), TestMAE: metrics.Number(3)}),
		writeMetrics(t, 2), // an older run
	}
	unfinished := filepath.Join(t.TempDir(), "unfinished.jsonl")
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(unfinished, b[:bytes.LastIndex(b, []byte(`{"event":"end"`))], 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "compared.html")
	var stdout, stderr bytes.Buffer
	if code := cli.Run(t.Context(), append([]string{"report", "-o", out, "--json", unfinished}, files...), nil, &stdout, &stderr); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	if !strings.Contains(stdout.String(), `"runs":5`) || !strings.Contains(stdout.String(), `"epochs":11`) {
		t.Errorf("summary: %s", &stdout)
	}
	if b, err = os.ReadFile(out); err != nil {
		t.Fatal(err)
	}
	page := string(b)
	if n := strings.Count(page, "<svg"); n != 3 { // loss, and validation twice
		t.Errorf("%d charts, expected 3", n)
	}
	if !strings.Contains(page, "<th>--hidden</th><th>--lr</th><th>--model</th><th>--residual</th><th>store</th></tr></thead>") {
		t.Error("the table does not name the settings that differ from those of an older run")
	}
	rows := regexp.MustCompile(`<tr[^>]*><th scope="row"><span.*</tr>`).FindAllString(page, -1)
	if len(rows) != 5 {
		t.Fatalf("%d lines of runs, expected 5", len(rows))
	}
	for i, want := range []string{
		`unfinished</th><td></td><td></td><td></td><td>2</td>`,
		`accuracy</th><td>80.00 %</td><td>79.00 %</td><td>1</td><td>2</td>`,
		`accuracy</th><td>90.00 %</td><td>89.00 %</td><td>1</td><td>3</td>`,
		`MAE</th><td>2.5000</td><td>3.0000</td><td></td><td>2</td>`,
		`accuracy</th><td></td><td>87.50 %</td><td>2</td><td>2</td>`,
	} {
		if !strings.Contains(rows[i], want) {
			t.Errorf("line %d is %s, expected %s in it", i, rows[i], want)
		}
		if best := strings.Contains(rows[i], `class="best"`); best != (i == 2 || i == 3) {
			t.Errorf("line %d: best is %t", i, best)
		}
	}
	if want := `<td>16</td><td>0.02</td><td>sage</td><td>true</td><td>a.gstore</td></tr>`; !strings.Contains(rows[2], want) {
		t.Errorf("settings %s, expected %s", rows[2], want)
	}
}
