//go:build cuda

package driver

/*
#cgo LDFLAGS: -ldl
#cgo noescape gs_launch
#cgo nocallback gs_launch
#include <stdlib.h>
#include "calls.h"
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"gorgonia.org/cu"
)

// Env names the environment variable with the path of the driver to open in place of [Library].
const Env = "GSTORE_LIBCUDA"

// Library is the driver's name, found as the dynamic loader finds libraries.
const Library = "libcuda.so.1"

// Load opens the driver once and starts it.
var Load = sync.OnceValue(func() error {
	path := os.Getenv(Env)
	if path == "" {
		path = Library
	}
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	if why := C.gs_cuda_load(p); why != nil {
		return fmt.Errorf("cuda: open the driver: %s", C.GoString(why))
	}
	if r := C.cuInit(0); r != 0 { // cu has no cuInit: it calls it in its init, before there is a driver
		return fmt.Errorf("cuda: start the driver %s: %w", path, check(r))
	}
	return nil
})

// Error is a result of the driver other than success.
type Error int

// Results that callers tell apart.
const (
	OutOfMemory       = Error(C.CUDA_ERROR_OUT_OF_MEMORY)
	AlreadyRegistered = Error(C.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
	NotPermitted      = Error(C.CUDA_ERROR_NOT_PERMITTED)
	StubLibrary       = Error(34)
)

// Error is the driver's name of it.
func (e Error) Error() string {
	var s *C.char
	if C.cuGetErrorName(C.CUresult(e), &s) == 0 && s != nil {
		return C.GoString(s)
	}
	return fmt.Sprintf("CUDA error %d", int(e))
}

func check(r C.CUresult) error {
	if r != 0 {
		return Error(r)
	}
	return nil
}

// Context is a device's primary context.
type Context struct {
	c      C.CUcontext
	device int
}

// Retain makes the primary context of device, or shares it with whoever has it. It is to be released.
func Retain(device int) (Context, error) {
	c := Context{device: device}
	err := check(C.gs_retain(C.int(device), &c.c))
	return c, err
}

// Release gives the context back; the last release frees what is left in it.
func (c Context) Release() error { return check(C.gs_release(C.int(c.device))) }

// EnablePeer lets kernels of c read and write memory of peer's device.
func (c Context) EnablePeer(peer Context) error { return check(C.gs_enable_peer(c.c, peer.c)) }

// Do runs calls of package cu with the context current.
func (c Context) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cu.SetCurrentContext(*(*cu.CUContext)(unsafe.Pointer(&c.c))); err != nil {
		return err
	}
	return f()
}

func stream(s cu.Stream) C.CUstream { return *(*C.CUstream)(unsafe.Pointer(&s)) }

// Alloc allocates device memory; it has whatever content.
func (c Context) Alloc(bytes int64) (cu.DevicePtr, error) {
	var p C.CUdeviceptr
	err := check(C.gs_alloc(c.c, &p, C.size_t(bytes)))
	return cu.DevicePtr(p), err
}

// Free frees what Alloc returned, once everything issued is done.
func (c Context) Free(p cu.DevicePtr) error { return check(C.gs_free(c.c, C.CUdeviceptr(p))) }

// Memory returns the bytes of the device that are free, and all.
func (c Context) Memory() (free, total int64, err error) {
	var f, t C.size_t
	err = check(C.gs_memory(c.c, &f, &t))
	return int64(f), int64(t), err
}

// AllocHost returns page-locked host memory, which devices read and write in place.
func (c Context) AllocHost(bytes int) ([]byte, error) {
	var p unsafe.Pointer
	if err := check(C.gs_host_alloc(c.c, &p, C.size_t(bytes))); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

// FreeHost frees what AllocHost returned.
func (c Context) FreeHost(b []byte) error {
	return check(C.gs_host_free(c.c, unsafe.Pointer(&b[0])))
}

// Register page-locks bytes from address p on. Two registrations share no page.
func (c Context) Register(p, bytes uintptr) error {
	return check(C.gs_host_register(c.c, C.uintptr_t(p), C.size_t(bytes)))
}

// Unregister undoes Register.
func (c Context) Unregister(p uintptr) error {
	return check(C.gs_host_unregister(c.c, C.uintptr_t(p)))
}

// DestroyStream waits for s and frees it, also in a context that a fault has ended.
func (c Context) DestroyStream(s cu.Stream) error {
	return check(C.gs_stream_destroy(c.c, stream(s)))
}

// Event is a mark in a stream.
type Event struct{ e C.CUevent }

// NewEvent makes an event whose wait does not spin, and which has a time.
func (c Context) NewEvent() (Event, error) {
	var e cu.Event
	err := c.Do(func() (err error) {
		e, err = cu.MakeEvent(cu.BlockingSyncEvent)
		return err
	})
	return Event{*(*C.CUevent)(unsafe.Pointer(&e))}, err
}

// DestroyEvent frees e.
func (c Context) DestroyEvent(e Event) error { return check(C.gs_event_destroy(c.c, e.e)) }

// Upload, Download and Copy issue a copy of n bytes. Host memory must be page-locked.
func (c Context) Upload(to cu.DevicePtr, from unsafe.Pointer, n int64, s cu.Stream) error {
	return check(C.gs_upload(c.c, C.CUdeviceptr(to), from, C.size_t(n), stream(s)))
}

// Download is documented at Upload.
func (c Context) Download(to unsafe.Pointer, from cu.DevicePtr, n int64, s cu.Stream) error {
	return check(C.gs_download(c.c, to, C.CUdeviceptr(from), C.size_t(n), stream(s)))
}

// Copy is documented at Upload.
func (c Context) Copy(to, from cu.DevicePtr, n int64, s cu.Stream) error {
	return check(C.gs_copy(c.c, C.CUdeviceptr(to), C.CUdeviceptr(from), C.size_t(n), stream(s)))
}

// Fill32 issues the setting of n words to v.
func (c Context) Fill32(to cu.DevicePtr, v uint32, n int64, s cu.Stream) error {
	return check(C.gs_fill32(c.c, C.CUdeviceptr(to), C.uint32_t(v), C.size_t(n), stream(s)))
}

// Fill8 issues the setting of n bytes to v.
func (c Context) Fill8(to cu.DevicePtr, v byte, n int64, s cu.Stream) error {
	return check(C.gs_fill8(c.c, C.CUdeviceptr(to), C.uint8_t(v), C.size_t(n), stream(s)))
}

// Wait waits for everything issued to s so far, using e.
func (c Context) Wait(e Event, s cu.Stream) error {
	return check(C.gs_record_wait(c.c, e.e, stream(s)))
}

// Record sets e to the place after everything issued to s so far.
func (c Context) Record(e Event, s cu.Stream) error {
	return check(C.gs_record(c.c, e.e, stream(s)))
}

// Follow lets what is issued to s from here on run once the stream in which e was recorded has passed its last place.
func (c Context) Follow(s cu.Stream, e Event) error {
	return check(C.gs_stream_wait(c.c, stream(s), e.e))
}

// WaitEvent waits until the stream has passed e.
func (c Context) WaitEvent(e Event) error { return check(C.gs_event_wait(c.c, e.e)) }

// Passed reports, without waiting, whether the stream has passed e; true also where a wait would fail.
func (c Context) Passed(e Event) bool { return C.gs_event_query(c.c, e.e) != C.CUDA_ERROR_NOT_READY }

// Elapsed is the device's time between two events that have been passed.
func (c Context) Elapsed(from, to Event) (time.Duration, error) {
	var ms C.float
	err := check(C.gs_elapsed(c.c, &ms, from.e, to.e))
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

// Graph is what a capture took down, ready to run.
type Graph struct{ x C.CUgraphExec }

// BeginCapture takes down what is issued to s from here on; it does not run.
func (c Context) BeginCapture(s cu.Stream) error {
	return check(C.gs_capture_begin(c.c, stream(s)))
}

// EndCapture ends a capture, also one that failed.
func (c Context) EndCapture(s cu.Stream) (Graph, error) {
	var g Graph
	err := check(C.gs_capture_end(c.c, stream(s), &g.x))
	return g, err
}

// LaunchGraph issues all of g.
func (c Context) LaunchGraph(g Graph, s cu.Stream) error {
	return check(C.gs_graph_launch(c.c, g.x, stream(s)))
}

// DestroyGraph frees g, which does not run.
func (c Context) DestroyGraph(g Graph) error { return check(C.gs_graph_destroy(c.c, g.x)) }

// Function is a kernel of a loaded module.
type Function struct{ f C.CUfunction }

// FunctionOf takes over a kernel of cu.
func FunctionOf(f cu.Function) Function { return Function{*(*C.CUfunction)(unsafe.Pointer(&f))} }

// MaxShared raises the dynamic shared memory that f may have.
func (c Context) MaxShared(f Function, bytes int) error {
	return check(C.gs_max_shared(c.c, f.f, C.int(bytes)))
}

// Shape is the shape of a launch; a Grid of 0 is 1. Threads are of one dimension.
type Shape struct {
	Grid            [3]int
	Threads, Shared int // a block; Shared in bytes
}

// Launch issues one kernel.
func (c Context) Launch(f Function, d Shape, s cu.Stream, a *Args) error {
	return check(C.gs_launch(c.c, f.f, C.uint(max(d.Grid[0], 1)), C.uint(max(d.Grid[1], 1)), C.uint(max(d.Grid[2], 1)), C.uint(d.Threads),
		C.uint(d.Shared), stream(s), unsafe.Pointer(&a.b[0]), C.size_t(a.n)))
}

// Args packs parameters as a kernel has them in memory.
type Args struct {
	b [256]byte
	n int
}

func put[T any](a *Args, v T) {
	size := int(unsafe.Sizeof(v))
	a.n = (a.n + size - 1) / size * size
	*(*T)(unsafe.Pointer(&a.b[a.n])) = v
	a.n += size
}

// Ptr appends an address; I32, I64, U32 and F32 append numbers.
func (a *Args) Ptr(p cu.DevicePtr) *Args { put(a, uint64(p)); return a }

// I32 appends an int32.
func (a *Args) I32(v int) *Args { put(a, int32(v)); return a }

// I64 appends an int64.
func (a *Args) I64(v int) *Args { put(a, int64(v)); return a }

// U32 appends a uint32.
func (a *Args) U32(v uint32) *Args { put(a, v); return a }

// F32 appends a float32.
func (a *Args) F32(v float32) *Args { put(a, v); return a }
