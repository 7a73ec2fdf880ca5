package blockio_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/blockio/blockiotest"
)

func TestMain(m *testing.M) {
	// The one goroutine that is meant to stay: see ErrUnsettled and TestRingLost.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/gstore/gstore/blocks/blockio.hold"))
}

func maker(name string) blockiotest.Maker {
	return func(t testing.TB, o blockio.Options) blockio.Engine {
		t.Helper()
		e, why, err := blockio.New(name, o)
		if errors.Is(err, blockio.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != name || why == "" {
			t.Fatalf("asked for %s, got %s (%q)", name, e.Name(), why)
		}
		return e
	}
}

func TestConformance(t *testing.T) {
	for _, name := range []string{"pread", "io_uring", "mmap"} {
		t.Run(name, func(t *testing.T) { blockiotest.Run(t, maker(name)) })
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		o    blockio.Options
	}{
		{"spdk", blockio.Options{}},
		{"auto", blockio.Options{Depth: -1}},
		{"auto", blockio.Options{Depth: 1 << 20}},
		{"auto", blockio.Options{SplitBytes: 1000}},
	} {
		if e, _, err := blockio.New(c.name, c.o); err == nil {
			t.Errorf("%q %+v: made %s", c.name, c.o, e.Name())
			_ = e.Close()
		}
	}
	e, why, err := blockio.New("auto", blockio.Options{})
	if err != nil || (e.Name() != "io_uring" && e.Name() != "pread") {
		t.Fatalf("auto: %v", err)
	}
	t.Logf("auto is %s", why)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func TestSlab(t *testing.T) {
	for _, size := range []int64{1, 4096, 2 << 20, 7<<20 + 5} {
		for _, lazy := range []bool{false, true} {
			s, err := blockio.AllocSlab(size, blockio.SlabOptions{Lazy: lazy, Threads: 3})
			if err != nil {
				t.Fatal(err)
			}
			b := s.Bytes()
			if int64(len(b)) != size || int64(cap(b)) != size {
				t.Fatalf("slab of %d bytes has %d, capacity %d", size, len(b), cap(b))
			}
			for i := range b {
				if b[i] != 0 {
					t.Fatalf("byte %d is not zero", i)
				}
				b[i] = 1
			}
			if err := errors.Join(s.Free(), s.Free()); err != nil {
				t.Fatal(err)
			}
			if s.Bytes() != nil {
				t.Fatal("a freed slab has bytes")
			}
		}
	}
	if _, err := blockio.AllocSlab(0, blockio.SlabOptions{}); err == nil {
		t.Fatal("a slab of 0 bytes")
	}
	if _, err := blockio.AllocSlab(1<<60, blockio.SlabOptions{}); err == nil {
		t.Fatal("a slab of 2^60 bytes")
	}
}
