package remote

import (
	"fmt"
	"sync"
	"testing"
)

// TestHeldChunksLeaveBuffers: chunks that nobody reads give their buffers back, those used last stay, and one that was not right does not.
func TestHeldChunksLeaveBuffers(t *testing.T) {
	free := func() int { return len(buffers) }
	before := free()
	read := func(path string, right bool) {
		h := hold(path, true)
		defer let(h)
		h.once.Do(func() {
			if b := h.take(); right {
				h.whole = b[:1]
			}
		})
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() { read(fmt.Sprint("chunk ", i%10), true) })
	}
	wg.Wait()
	read("wrong", false)
	if hold("wrong", false) != nil {
		t.Error("a chunk that was not right is held")
	}
	if got := before - free(); got > mostIdle {
		t.Errorf("%d buffers of idle chunks, expected %d at most", got, mostIdle)
	}
	read("last", true)
	h := hold("last", false)
	if h == nil || h.whole == nil {
		t.Fatal("the chunk that was read last is not held")
	}
	let(h)
	holds.Lock()
	defer holds.Unlock()
	for _, x := range holds.chunks {
		release(x.buffer)
	}
	holds.chunks = nil
	if free() != before {
		t.Errorf("%d buffers are free, %d were", free(), before)
	}
}
