package command

import (
	"errors"
	"testing"

	"github.com/gstore/gstore/gpu/cuda"
	"github.com/gstore/gstore/tools/device"
)

// TestOpenDevice: a device that cannot be meant is the caller's mistake, a driver that cannot be opened the machine's.
func TestOpenDevice(t *testing.T) {
	for _, o := range []device.Options{{Name: "gpu"}, {Name: "cuda:-1"}, {Name: "host", MatMul: "tf32"}, {Name: "host", MatMul: "fp8"}} {
		if _, err := OpenDevice(o); !IsUsage(err) {
			t.Errorf("%+v: %v is no usage error", o, err)
		}
	}
	_, why := cuda.Devices()
	if why == nil {
		if _, err := OpenDevice(device.Options{Name: "cuda:4095"}); !IsUsage(err) {
			t.Errorf("a GPU beyond the last one: %v is no usage error", err)
		}
		return
	}
	if _, err := OpenDevice(device.Options{Name: "cuda"}); err == nil || IsUsage(err) != errors.Is(why, cuda.ErrNotBuilt) {
		t.Errorf("%v is a usage error: %v", err, IsUsage(err))
	}
}
