package panics_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/panics"
)

func planted(list []int) { list[7]++ }

// TestCall: a panic is an error that says where it came from, and what was panicked with can be looked for in it.
func TestCall(t *testing.T) {
	if err := panics.Call(func() error { return io.EOF }); err != io.EOF {
		t.Errorf("an error became %v", err)
	}
	err := panics.Call(func() error { planted(nil); return nil })
	if !errors.Is(err, panics.ErrInternal) || !strings.Contains(err.Error(), "index out of range [7]") || !strings.Contains(err.Error(), "planted") {
		t.Errorf("a panic became %v", err)
	}
	if err := panics.Call(func() error { panic(io.EOF) }); !errors.Is(err, io.EOF) || !errors.Is(err, panics.ErrInternal) {
		t.Errorf("a panic with io.EOF became %v", err)
	}
}

// TestGroup: a panic in one goroutine of several reaches the one that waits, with the stack of the first and after all have ended.
func TestGroup(t *testing.T) {
	var g panics.Group
	done := make([]bool, 8)
	err := panics.Call(func() error {
		for i := range done {
			g.Go(func() {
				if i == 3 {
					planted(nil)
				}
				done[i] = true
			})
		}
		g.Wait()
		return nil
	})
	if !errors.Is(err, panics.ErrInternal) || !strings.Contains(err.Error(), "planted") {
		t.Errorf("the group's panic became %v", err)
	}
	for i, d := range done {
		if d != (i != 3) {
			t.Errorf("goroutine %d done: %v", i, d)
		}
	}
	g.Wait() // and a group that is used again has forgotten it
}
