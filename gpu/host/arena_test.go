package host

import (
	"errors"
	"testing"

	"github.com/gstore/gstore/gpu"
)

// TestArenaBound: an arena never holds more than its bound, hands out all of
// it, and refuses the tensor beyond it by a named error.
func TestArenaBound(t *testing.T) {
	dev := New(Options{Threads: 1})
	defer func() { _ = dev.Close() }()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	const most = 5 << 20
	a := gpu.NewArena(dev)
	defer func() { _ = a.Close() }()
	a.Bound(most)
	for round := range 3 {
		for i := range most >> 18 {
			a.Matrix(q, 1<<8, 1<<8)
			if now, _ := dev.AllocatedBytes(); now > most || a.Bytes() > most {
				t.Fatalf("round %d: %d bytes held, %d by the arena, after %d tensors: the bound is %d", round, now, a.Bytes(), i+1, most)
			}
		}
		if err := q.Err(); err != nil {
			t.Fatalf("round %d: %v, but the tensors fit", round, err)
		}
		a.Matrix(q, 1, 1)
		err := q.Sync(t.Context())
		var bound *gpu.BoundError
		if !errors.As(err, &bound) || !errors.Is(err, gpu.ErrMemory) || *bound != (gpu.BoundError{AskedBytes: 64, UsedBytes: most, BoundBytes: most}) {
			t.Fatalf("round %d: %v, expected a bound error", round, err)
		}
		if err := a.Reset(); err != nil {
			t.Fatal(err)
		}
	}
	if _, peak := dev.AllocatedBytes(); peak > most {
		t.Errorf("%d bytes held at once, the bound is %d", peak, most)
	}
}
