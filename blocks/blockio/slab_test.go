package blockio

import "testing"

// TestSlabSize: a slab holds what was asked for, at a huge page's boundary, zeroed and writable to its last byte.
func TestSlabSize(t *testing.T) {
	for _, size := range []int64{1, Alignment, Alignment + 1, SlabAlignment - 1, SlabAlignment, 2*SlabAlignment + 5000} {
		for _, lazy := range []bool{false, true} {
			s, err := AllocSlab(size, SlabOptions{Lazy: lazy, Threads: 3})
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			b := s.Bytes()
			if int64(len(b)) != size || cap(b) != len(b) || addressOf(b)%SlabAlignment != 0 {
				t.Errorf("a slab of %d bytes has %d, at %#x", size, len(b), addressOf(b))
			}
			for at := range b {
				if b[at] != 0 {
					t.Fatalf("byte %d of %d is %d", at, size, b[at])
				}
				b[at] = 1
			}
			if err := s.Free(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := AllocSlab(0, SlabOptions{}); err == nil {
		t.Error("a slab of nothing")
	}
}

// TestAdviseHuge: advice about memory of any kind and size leaves what it holds.
func TestAdviseHuge(t *testing.T) {
	for _, size := range []int{0, 1, Alignment + 3, SlabAlignment, 3*SlabAlignment + 77} {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i)
		}
		AdviseHuge(b)
		for i := range b {
			if b[i] != byte(i) {
				t.Fatalf("byte %d of %d changed", i, size)
			}
		}
	}
}
