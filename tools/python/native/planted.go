//go:build planted

package native

import (
	"context"
	"fmt"
	"sync"
)

// Builds with tag planted are for the test of panics at the C boundary: method "planted" panics, or leaves behind what does.
func init() { methods["planted"] = method{0, plant} }

type trap struct{}

func (trap) Error() string { panic("planted: while the reply was copied") }
func (trap) close() error  { panic("planted: while an object was dropped") }
func (trap) free()         {}

func plant(_ context.Context, c *call) error {
	var q struct {
		Where string `json:"where"`
	}
	if err := c.decode(&q); err != nil {
		return err
	}
	switch q.Where {
	case "method":
		panic("planted: in a method")
	case "wait":
		return trap{}
	case "drop":
		c.reply.Handle = all.add(trap{})
	case "cancel", "release":
		var once sync.Once // cancelled, and released, which cancels too
		skip := q.Where == "release"
		op := all.of(c)
		op.cancel = func() {
			if skip {
				skip = false
				return
			}
			once.Do(func() { panic("planted: in " + q.Where) })
		}
	default:
		return fmt.Errorf("planted: where %q", q.Where)
	}
	return nil
}

// of returns the operation that a call is of.
func (r *registry) of(c *call) *operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, op := range r.operations {
		if &op.reply == c.reply {
			return op
		}
	}
	return nil
}
