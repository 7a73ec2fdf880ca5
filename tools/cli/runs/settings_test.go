package runs

import (
	"encoding/json"
	"slices"
	"testing"
)

// What differs is told as flags would give it: at its zero too where another run has another value; what a configuration leaves
// out is at its zero, and one run differs by nothing.
func TestDifferences(t *testing.T) {
	var runs []Settings
	for _, c := range []string{
		`{"model":"sage","lr":0.005,"seed":0,"fanouts":[15,10],"mem_bytes":0,"residual":false,"order":"auto","features":["x"]}`,
		`{"model":"gcn","lr":0.02,"seed":0,"fanouts":[5,5],"mem_bytes":209715200,"residual":true,"order":"auto","features":["x"]}`,
		`{"model":"sage","lr":0.005,"seed":1,"fanouts":[15,10],"features":["x"],"order":"aggregate"}`,
		`null`,
	} {
		runs = append(runs, SettingsOf(json.RawMessage(c)))
	}
	got := Differences(runs[:3], "model")
	want := []string{
		"fanouts 15,10, lr 0.005, order auto, residual false, seed 0",
		"fanouts 5,5, lr 0.02, mem 200 MiB, order auto, residual true, seed 0",
		"fanouts 15,10, lr 0.005, order aggregate, seed 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	if got := Differences(runs[:1]); !slices.Equal(got, []string{""}) {
		t.Errorf("one run: %q", got)
	}
	if got := Differences(runs[2:]); got[1] != "" || got[0] == "" {
		t.Errorf("beside a command without a configuration: %q", got)
	}
}
