package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestCalibrationIsKept measures once and finds the figures again: in the same
// Store, in another one, not where the record is damaged, of another device or old.
func TestCalibrationIsKept(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 70_000, Partitions: 4, Dim: 64}))
	cache := filepath.Join(t.TempDir(), "made", "when needed")
	open := func() *store.Store { return storetest.Open(t, dir, store.Options{CacheDir: cache}) }
	quick := store.CalibrationOptions{Duration: 20 * time.Millisecond}
	measure := func(s *store.Store, o store.CalibrationOptions) (blockio.Calibration, time.Time) {
		t.Helper()
		c, at, err := s.Files().Calibration(ctx, "pread", o)
		if err != nil {
			t.Fatal(err)
		}
		return c, at
	}
	s := open()
	if c, _ := measure(s, store.CalibrationOptions{NoWait: true}); c.Measured {
		t.Fatalf("%+v before anything was measured", c)
	}
	c, at := measure(s, quick)
	if !c.Measured || c.Engine != "pread" || c.Validate() != nil {
		t.Fatalf("%+v", c)
	}
	names, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("kept: %v, %v", names, err)
	}
	good, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []*store.Store{s, open()} {
		if again, then := measure(other, quick); again != c || !then.Equal(at) {
			t.Fatalf("%+v of %v, first %+v of %v", again, then, c, at)
		}
	}
	if _, then := measure(open(), store.CalibrationOptions{Duration: quick.Duration, Refresh: true}); !then.After(at) {
		t.Fatal("Refresh did not measure")
	}
	for name, change := range map[string]func(string) string{
		"damaged":        func(s string) string { return s[:len(s)/2] },
		"another engine": func(s string) string { return strings.Replace(s, `"pread"`, `"mmap"`, 1) },
		"another format": func(s string) string { return strings.Replace(s, `"Format": 1`, `"Format": 9`, 1) },
		"no device":      func(s string) string { return strings.Replace(s, `"BytesPerSecond": `, `"BytesPerSecond": -`, 1) },
		"old":            func(s string) string { return strings.Replace(s, at.Format("2006-01-02T"), "1999-01-02T", 1) },
	} {
		bad := change(string(good))
		if bad == string(good) {
			t.Fatalf("%s: nothing changed in %s", name, good)
		}
		if err := os.WriteFile(names[0], []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, _ := measure(open(), store.CalibrationOptions{NoWait: true}); c.Measured {
			t.Errorf("%s: taken for good: %+v", name, c)
		}
	}
	if c, _ := measure(storetest.Open(t, dir, store.Options{CacheDir: names[0]}), quick); !c.Measured {
		t.Error("a cache directory that cannot be made stops the measurement")
	}
}
