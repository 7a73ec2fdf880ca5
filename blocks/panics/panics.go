// Package panics turns panics, which are defects of ours, into errors: what calls gstore from another language must get an
// error and not lose its process.
//
// # Model
//
// A panic ends the process unless it is recovered in its own goroutine. So each goroutine that works for a call either has
// an error to hand over, and runs by [Call], or is one of several that share the call's work, and runs in a [Group], whose
// Wait panics again in the goroutine that made the call. Where a call comes from outside, [Recover] makes an error of it:
//
//	func Start(…) (err error) {
//		defer panics.Recover(&err)
//		…
//	}
//
// Faults that Go does not let anyone recover (a concurrent write to a map, no memory) still end the process.
package panics

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"golang.org/x/sync/errgroup"
)

// ErrInternal marks an error that was a panic: a defect of gstore, not of what it was given.
var ErrInternal = errors.New("internal error")

// Error is a panic as an error. errors.Is(err, [ErrInternal]) holds for it.
type Error struct {
	Value any    // what the panic was called with
	Stack []byte // of the goroutine that panicked, as [debug.Stack] gives it
}

// Error says what the panic was, and where.
func (e *Error) Error() string {
	return fmt.Sprintf("internal error: %v: this is a defect of gstore, please report it together with this stack:\n%s", e.Value, e.Stack)
}

// Is reports whether target is [ErrInternal].
func (e *Error) Is(target error) bool { return target == ErrInternal }

// Unwrap returns the panic's value where that is an error, else nil.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Of returns the error of what recover returned, which must not be nil. A panic that a [Group] passed on keeps its stack.
func Of(value any) *Error {
	if e, ok := value.(*Error); ok {
		return e
	}
	return &Error{Value: value, Stack: debug.Stack()}
}

// Recover is deferred: a panic of the function that defers it becomes *err.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = Of(p)
	}
}

// Call returns what f returns, or its panic as an error.
func Call(f func() error) (err error) {
	defer Recover(&err)
	return f()
}

// Group is goroutines that share the work of the one that waits for them: a [sync.WaitGroup] whose Wait panics if one of
// them did. The zero value is ready for use. Work must be handed out such that the others come to an end without the one
// that panicked: not by a channel without room, whose sender would wait for ever.
type Group struct {
	running sync.WaitGroup
	mu      sync.Mutex
	first   *Error
}

// Go calls f in a goroutine of its own.
func (g *Group) Go(f func()) { g.running.Go(func() { g.Run(f) }) }

// Run calls f in the caller's goroutine: its share of the work, whose panic must not go past the others, who use the same memory.
func (g *Group) Run(f func()) {
	err := Call(func() error { f(); return nil })
	if err == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		g.first = Of(err)
	}
}

// Wait returns when all goroutines have, and panics with an [*Error] if one of them, or what [Group.Run] called, panicked.
func (g *Group) Wait() {
	g.running.Wait()
	if first := g.first; first != nil {
		g.first = nil
		panic(first)
	}
}

// Tasks is an [errgroup.Group] whose functions' panics are errors.
type Tasks struct{ group *errgroup.Group }

// WithContext returns Tasks and a context that ends with the first one that fails, or when Wait returns.
func WithContext(ctx context.Context) (*Tasks, context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	return &Tasks{group}, ctx
}

// Go calls f in a goroutine of its own.
func (t *Tasks) Go(f func() error) { t.group.Go(func() error { return Call(f) }) }

// Wait returns the first error when all have returned.
func (t *Tasks) Wait() error { return t.group.Wait() }
