//go:build cuda

package cuda

import (
	"os"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/cuda/driver"
	"github.com/gstore/gstore/gpu/gputest"
)

// Tests run on whatever driver there is: a GPU's, or the emulated one that build.sh makes and
// GSTORE_LIBCUDA names. Where GSTORE_LIBCUDA is not set and there is no driver they are skipped.

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens the first device.
func open(t testing.TB, o Options) *Device {
	t.Helper()
	d, err := Open(o)
	if err != nil {
		if os.Getenv(driver.Env) == "" && driver.Load() != nil {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	return d.(*Device)
}

// emulated skips a test on a GPU, and sets how the emulator of the devices opened next behaves.
func emulated(t testing.TB, settings ...string) {
	t.Helper()
	d := open(t, Options{})
	defer d.Close()
	if !strings.Contains(d.detail, "emulator") {
		t.Skip("needs the emulated driver")
	}
	for i := 0; i < len(settings); i += 2 {
		t.Setenv(settings[i], settings[i+1])
	}
}

func TestConformance(t *testing.T) {
	must(t, open(t, Options{}).Close())
	gputest.Run(t, func() gpu.Device { return open(t, Options{}) })
}
