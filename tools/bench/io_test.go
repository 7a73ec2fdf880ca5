package bench

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/blockio"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.v); got != c.want {
			t.Errorf("median of %v is %v, expected %v", c.v, got, c.want)
		}
	}
}

func TestParseFio(t *testing.T) {
	const good = `note: something
{"jobs":[{"error":0,"usr_cpu":1.0,"sys_cpu":3.0,"job_runtime":2000,"read":{"io_bytes":1000,"runtime":500}}]}`
	seconds, cpu, err := parseFio([]byte(good), 1000)
	if err != nil || seconds != 0.5 || cpu != 0.08 {
		t.Errorf("%v s, %v CPU s, %v", seconds, cpu, err)
	}
	if seconds, _, err := parseFio([]byte(strings.Replace(strings.Replace(good, "io_bytes\":1000", "io_bytes\":0", 1), "}]}", `,"write":{"io_bytes":1000,"runtime":250}}]}`, 1)), 1000); err != nil || seconds != 0.25 {
		t.Errorf("written: %v s, %v", seconds, err)
	}
	for _, bad := range []string{"", "{", `{"jobs":[]}`, `{"jobs":[{"error":5,"read":{"io_bytes":1000,"runtime":5}}]}`,
		`{"jobs":[{"read":{"io_bytes":10,"runtime":5}}]}`} {
		if _, _, err := parseFio([]byte(bad), 1000); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// TestRunIO runs the whole comparison on a small file; figures are not looked
// at, only that each reader has one a round and nothing is left behind.
func TestRunIO(t *testing.T) {
	dir := t.TempDir()
	results, err := RunIO(context.Background(), IOOptions{Dir: dir, FileBytes: 128 << 20, Repeats: 2, Engines: []string{"pread", "io_uring"}, Log: t.Logf})
	if errors.Is(err, blockio.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(results) < 2 {
		t.Fatalf("%d results", len(results))
	}
	tests := map[string]int{}
	for _, r := range results {
		tests[r.Test]++
		if b, _ := r.Median(); len(r.BytesPerSecond) != 2 || len(r.CPUSecondsPerGB) != 2 || b <= 0 {
			t.Errorf("%+v", r)
		}
	}
	if tests[newFile] != tests["sequential"]+1 || tests["write"] != tests["sequential"] || tests["random64K"] != tests["sequential"] { // package blocks only makes files
		t.Errorf("readers of each test: %v", tests)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := RunIO(context.Background(), IOOptions{FileBytes: 1}); err == nil {
		t.Error("a file of one byte")
	}
}
