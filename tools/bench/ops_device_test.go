package bench

import (
	"testing"

	"github.com/gstore/gstore/gpu/host"
)

// TestDeviceOps: every operation of the list runs on a device, and each has a name of its own.
func TestDeviceOps(t *testing.T) {
	dev := host.New(host.Options{Threads: 1})
	defer dev.Close()
	seen := map[string]bool{}
	err := RunDeviceOps(t.Context(), dev, DeviceOpsOptions{TableMiB: 1, Repeats: 1}, func(r DeviceOpResult) {
		if r.Seconds <= 0 || r.Bytes <= 0 || r.Rate <= 0 || r.Copy <= 0 || r.Share <= 0 || seen[r.Name] {
			t.Errorf("%+v, seen before: %v", r, seen[r.Name])
		}
		seen[r.Name] = true
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) < 30 {
		t.Errorf("%d operations", len(seen))
	}
	n := len(seen)
	if err := RunDeviceOps(t.Context(), dev, DeviceOpsOptions{TableMiB: 1, Repeats: 1, Filter: "adam"}, func(r DeviceOpResult) { n++ }); err != nil || n != len(seen)+1 {
		t.Errorf("one operation asked for: %d, %v", n-len(seen), err)
	}
	if now, _ := dev.AllocatedBytes(); now != 0 {
		t.Errorf("%d bytes are left on the device", now)
	}
}
