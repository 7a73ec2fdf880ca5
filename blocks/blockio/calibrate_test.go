package blockio_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
)

func TestCalibrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 20<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	o := blockio.CalibrateOptions{Duration: 100 * time.Millisecond}
	for _, name := range engines {
		c, err := blockio.Calibrate(context.Background(), name, path, o)
		if errors.Is(err, blockio.ErrUnsupported) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Log(c.String())
		if c.Engine != name || !c.Measured || c.Latency <= 0 || c.RequestCost <= 0 || c.BytesPerSecond <= 0 || c.GapBytes() < 0 || c.Options.Validate() != nil || c.Options.Depth == 0 {
			t.Errorf("%+v", c)
		}
	}
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	c, err := blockio.Calibrate(context.Background(), "auto", path, o)
	if err != nil || c.Measured || c.Options.Depth == 0 || c.Options.SplitBytes == 0 {
		t.Errorf("a small file: %+v, %v", c, err)
	}
	if _, err := blockio.Calibrate(context.Background(), "auto", path+"x", o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := os.Truncate(path, 20<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := blockio.Calibrate(ctx, "auto", path, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
