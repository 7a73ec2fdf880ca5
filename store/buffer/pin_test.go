package buffer

import (
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestBufferIsPinnedOnce: all that a macro-batch's columns lie in is pinned when the buffer opens, and given back when it
// closes; a pin that fails is the error of Open.
func TestBufferIsPinnedOnce(t *testing.T) {
	g := newToyGraph(rand.New(rand.NewPCG(9, 10)), []int{50, 60, 70, 80}, 2000, 1, true)
	s := writeToy(t, g)
	var pinned []byte
	pins, unpins := 0, 0
	o := Options{EngineName: "pread", Capacity: 2, Features: []string{"x"}, Labels: true, Pin: func(b []byte) (func() error, error) {
		pins++
		pinned = b
		return func() error { unpins++; return nil }, nil
	}}
	it, err := newBuffer(t.Context(), s.m, s, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := it.Start(hanoiPlan(4, 2)); err != nil {
		t.Fatal(err)
	}
	steps := 0
	for ; it.Next(); steps++ {
		x := it.MacroBatch().Features[0].Data
		at, lo := uintptr(unsafe.Pointer(&x[0])), uintptr(unsafe.Pointer(&pinned[0]))
		if at < lo || at+uintptr(len(x)) > lo+uintptr(len(pinned)) {
			t.Fatalf("step %d: features lie outside what is pinned", steps)
		}
	}
	if err := it.Err(); err != nil || steps == 0 {
		t.Fatal(steps, err)
	}
	if err := it.Close(); err != nil || pins != 1 || unpins != 1 {
		t.Errorf("%d pins, %d unpins, %v", pins, unpins, err)
	}
	why := errors.New("no memory to pin")
	o.Pin = func([]byte) (func() error, error) { return nil, why }
	if _, err := newBuffer(t.Context(), s.m, s, o); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}
