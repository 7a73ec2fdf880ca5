package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// Every operation runs, on one thread and two, and reports what it measured; timings are not judged.
func TestRunOps(t *testing.T) {
	results, err := RunOps(t.Context(), OpsOptions{Threads: []int{1, 2}, Repeats: 1, TableMiB: 16, Filter: "gather"})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) < 12 || len(results)%2 != 0 {
		t.Fatalf("%d results", len(results))
	}
	for i, r := range results {
		if !strings.Contains(r.Name, "gather") || r.Threads != 1+i%2 || r.Unit != "GB/s" || !(r.Rate > 0 && r.Ceiling > 0 && r.CPURate > 0 && r.Reference > 0) {
			t.Errorf("result %d: %+v", i, r)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := RunOps(ctx, OpsOptions{TableMiB: 16}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
