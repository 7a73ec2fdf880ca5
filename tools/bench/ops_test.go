package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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

// Operations of all models run on valid operands, and a product is measured beside what answers for OpenBLAS.
func TestRunOpsModels(t *testing.T) {
	ops, err := RunOps(t.Context(), OpsOptions{Threads: []int{2}, Repeats: 1, TableMiB: 16, Filter: "heads"})
	if err != nil || len(ops) != 6 {
		t.Fatalf("%d operations of attention, error %v", len(ops), err)
	}
	fake := filepath.Join(t.TempDir(), "blas")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\nwhile read line; do echo '{\"gflops\": 1e-3}'; done\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	o := OpsOptions{Threads: []int{1}, Repeats: 1, TableMiB: 16, Filter: "dX=dY·Wᵀ 10000×", OpenBLAS: []string{"sh", fake}}
	ops, err = RunOps(t.Context(), o)
	if err != nil || len(ops) != 1 || ops[0].BLAS != 1e-3 || !(ops[0].OfBLAS > 1) {
		t.Errorf("%+v, error %v", ops, err)
	}
	o.OpenBLAS = []string{"sh", "-c", "exit 0"}
	if _, err := RunOps(t.Context(), o); err == nil {
		t.Error("an OpenBLAS that does not answer is no error")
	}
}
