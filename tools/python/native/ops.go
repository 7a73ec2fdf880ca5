// Package native is what the Python package calls: gstore's stores, loaders and ingests behind integer handles, JSON
// requests and plain memory, so that the C ABI on top of it (package capi) is a few functions and no more.
//
// # Model
//
// [Start] begins a call of a method on an object and returns the number of an operation at once; [Wait] waits for it for a
// while, [Cancel] ends its context, and [Release] forgets it. A call is a method's name, a request in JSON, and arrays:
// memory of the caller's that is read or filled in while the operation lasts. Its [Reply] is a text in JSON, the handle of
// an object that was made, and arrays outside the Go heap.
//
// # Memory
//
// No Go pointer leaves the package. Arrays of a reply lie in slabs of the operation, until Release, or of an object, until
// [Drop]: those of a loader's batch are valid until the next one is asked for.
//
// # Panics
//
// A method that panics, or a goroutine that works for it, fails with [store.ErrInternal]: panics do not reach the caller's
// language. So does a loader whose goroutines panic.
//
// # Concurrency
//
// All functions may be called from any number of threads. A loader answers one call at a time.
package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store"
)

// ABI is raised when the C functions, the methods or what they mean change.
const ABI = 9

// Reply is what an operation came to.
type Reply struct {
	Err    error
	Handle int64    // of an object that was made; 0: none
	Text   []byte   // JSON, or nothing
	Arrays [][]byte // outside the Go heap
	slab   *blockio.Slab
}

// object is what a handle names.
type object interface {
	// close ends what the object does; its memory stays.
	close() error
	// free gives its memory back.
	free()
}

// call is one call of a method.
type call struct {
	object  object // nil for methods of none
	request []byte
	arrays  [][]byte // the caller's
	reply   *Reply
}

// decode reads the request; a field that the method does not know is an error, so that a misspelt option is none.
func (c *call) decode(to any) error {
	if len(c.request) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(c.request))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("%w: request: %w", store.ErrInvalid, err)
	}
	return nil
}

// answer sets the reply's text.
func (c *call) answer(v any) (err error) {
	c.reply.Text, err = json.Marshal(v)
	return err
}

// objectOf returns the call's object, which must be of type T; what says which that is.
func objectOf[T object](c *call, what string) (T, error) {
	o, ok := c.object.(T)
	if !ok {
		return o, fmt.Errorf("%w: the handle is of %T, expected %s", store.ErrInvalid, c.object, what)
	}
	return o, nil
}

// alloc gives the reply arrays of so many bytes each, at multiples of 64.
func (c *call) alloc(sizes ...int64) error {
	total := int64(0)
	for _, n := range sizes {
		total += pad(n)
	}
	slab, err := blockio.AllocSlab(max(total, 64), blockio.SlabOptions{Lazy: true})
	if err != nil {
		return err
	}
	c.reply.slab = slab
	b := slab.Bytes()
	for _, n := range sizes {
		c.reply.Arrays = append(c.reply.Arrays, b[:n:n])
		b = b[pad(n):]
	}
	return nil
}

func pad(n int64) int64 { return (n + 63) / 64 * 64 }

// operation is a call under way or done.
type operation struct {
	reply  Reply
	done   chan struct{}
	cancel context.CancelFunc
}

// registry holds what has a number. Numbers ascend from 1 and are never given twice, so that an old one names nothing.
type registry struct {
	mu         sync.Mutex
	last       int64
	objects    map[int64]object
	operations map[int64]*operation
}

var all = registry{objects: map[int64]object{}, operations: map[int64]*operation{}}

func (r *registry) add(o object) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.objects[r.last] = o
	return r.last
}

func (r *registry) operation(op int64) *operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.operations[op]
}

// Start begins a call of a method of the object named by handle, 0 for a method of none, and returns its operation. Request
// and arrays are in use until [Wait] says that the operation is done.
func Start(handle int64, name string, request []byte, arrays [][]byte) int64 {
	ctx, cancel := context.WithCancel(context.Background())
	op := &operation{done: make(chan struct{}), cancel: cancel}
	r := &all
	r.mu.Lock()
	r.last++
	number := r.last
	r.operations[number] = op
	o := r.objects[handle]
	r.mu.Unlock()
	c := &call{object: o, request: request, arrays: arrays, reply: &op.reply}
	m, known := methods[name]
	switch {
	case !known:
		op.reply.Err = fmt.Errorf("%w: method %q", store.ErrInvalid, name)
	case handle != 0 && o == nil:
		op.reply.Err = fmt.Errorf("%w: %s", store.ErrClosed, name)
	case len(arrays) < m.arrays:
		op.reply.Err = fmt.Errorf("%w: %s of %d arrays, expected %d", store.ErrInvalid, name, len(arrays), m.arrays)
	default:
		go func() {
			defer close(op.done)
			op.reply.Err = panics.Call(func() error { return m.run(ctx, c) })
		}()
		return number
	}
	close(op.done)
	return number
}

// Failed returns an operation that is done and came to an error: that of a function that panicked and has no reply.
func Failed(err error) int64 {
	op := &operation{reply: Reply{Err: err}, done: make(chan struct{}), cancel: func() {}}
	close(op.done)
	r := &all
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.operations[r.last] = op
	return r.last
}

// Wait waits for an operation for at most so long, and returns its reply, nil as long as it is under way.
func Wait(op int64, most time.Duration) *Reply {
	o := all.operation(op)
	if o == nil {
		return &Reply{Err: fmt.Errorf("%w: operation %d", store.ErrNotFound, op)}
	}
	select { // a timer costs more than most operations take
	case <-o.done:
		return &o.reply
	default:
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-o.done:
		return &o.reply
	case <-timer.C:
		return nil
	}
}

// Cancel ends an operation's context; it is done soon after, with an error or without.
func Cancel(op int64) {
	if o := all.operation(op); o != nil {
		o.cancel()
	}
}

// Release forgets an operation and frees the arrays of its reply. One under way is waited for.
func Release(op int64) {
	o := all.operation(op)
	if o == nil {
		return
	}
	<-o.done
	o.cancel()
	if o.reply.slab != nil {
		_ = o.reply.slab.Free()
	}
	all.mu.Lock()
	delete(all.operations, op)
	all.mu.Unlock()
}

// Drop closes an object and frees its memory. The number names nothing from then on.
func Drop(handle int64) error {
	all.mu.Lock()
	o := all.objects[handle]
	delete(all.objects, handle)
	all.mu.Unlock()
	if o == nil {
		return nil
	}
	err := o.close()
	o.free()
	return err
}

// Kinds of errors. Part of the ABI; never renumber.
const (
	KindNone = iota
	KindFailed
	KindNotFound
	KindInvalid
	KindCorrupt
	KindBudget
	KindLocked
	KindExists
	KindClosed
	KindCancelled
	KindInput
	KindVersion
	KindInternal
)

// Kind sorts an error for callers that do not know Go's.
func Kind(err error) int {
	if err == nil {
		return KindNone
	}
	for _, k := range errorKinds {
		if errors.Is(err, k.err) {
			return k.kind
		}
	}
	return KindFailed
}
