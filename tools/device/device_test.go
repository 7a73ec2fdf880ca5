package device

import (
	"errors"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/cuda"
	"github.com/gstore/gstore/gpu/host/kernels"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]int{"cuda": 0, "cuda:0": 0, "cuda:12": 12} {
		if n, err := parse(name); n != want || err != nil {
			t.Errorf("%s is %d, %v", name, n, err)
		}
	}
	for _, name := range []string{"gpu", "cuda:", "cuda:-1", "cuda:x", "cudax", "cuda0", "hosts"} {
		if _, err := Open(Options{Name: name}); !errors.Is(err, ErrOption) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestHost(t *testing.T) {
	d, err := Open(Options{Name: "host", Threads: 1})
	if err != nil || d.Info().Name != "host" {
		t.Fatal(d, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(Options{Name: "host", MatMul: "tf32"}); !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), "--matmul") {
		t.Errorf("tf32 products on the host: %v", err)
	}
	d, err = Open(Options{Name: "host", MatMul: "bf16"})
	if !kernels.HasBF16() {
		if !errors.Is(err, ErrOption) || !strings.Contains(err.Error(), "AMX") {
			t.Errorf("bf16 products on a processor without: %v", err)
		}
	} else if err != nil || !strings.Contains(d.Info().Detail, "bf16") {
		t.Errorf("bf16 products on the host: %v, %v", d, err)
	}
	if _, err := Open(Options{MatMul: "fp8"}); !errors.Is(err, ErrOption) {
		t.Errorf("fp8 products: error %v", err)
	}
}

// TestGPU: a build without CUDA says so.
func TestGPU(t *testing.T) {
	if _, err := cuda.Devices(); !errors.Is(err, cuda.ErrNotBuilt) {
		t.Skip("this build has CUDA")
	}
	if _, err := Open(Options{Name: "cuda"}); !errors.Is(err, cuda.ErrNotBuilt) || !errors.Is(err, ErrOption) {
		t.Errorf("error %v", err)
	}
}
