package host_test

import (
	"fmt"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/gputest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/host/kernels"
)

func TestConformance(t *testing.T) {
	for _, isa := range []kernels.ISA{kernels.ISAGeneric, kernels.ISAAVX2, kernels.ISAAVX512} {
		t.Run(fmt.Sprint(isa), func(t *testing.T) {
			gputest.Run(t, func() gpu.Device { return host.New(host.Options{Threads: 3, ISA: isa}) })
		})
	}
}

// TestFree: memory is counted while it is held, and a closed device gives none.
func TestFree(t *testing.T) {
	d := host.New(host.Options{})
	m, err := d.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if now, _ := d.AllocatedBytes(); now != 1<<20 {
		t.Errorf("%d bytes held, expected 1 MiB", now)
	}
	for range 2 {
		if err := m.Free(); err != nil {
			t.Error(err)
		}
	}
	if now, peak := d.AllocatedBytes(); now != 0 || peak != 1<<20 {
		t.Errorf("%d bytes held, %d at most, expected 0 and 1 MiB", now, peak)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.Alloc(1); err == nil {
		t.Error("a closed device allocates")
	}
}
