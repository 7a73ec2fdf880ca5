// Package host is the reference device and the default: tensors in ordinary
// memory off the Go heap, operations by package kernels on a pool of threads.
//
// Operations run in order on the goroutine that issues them, before the call
// returns; Sync only reports. Results have the same bits for any number of
// threads.
package host

import (
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host/kernels"
)

// Options configures a [Device]. The zero value is the default.
type Options struct {
	Threads int         // threads that compute at once; 0: GOMAXPROCS
	ISA     kernels.ISA // instruction set; 0: the best available
	BF16    bool        // dense products of operands rounded to bfloat16; the processor must have [kernels.HasBF16]
	// Observe, if not nil, is told the name and time of every operation, on the goroutine
	// that issues it: for benchmarks. An Aggregate with Index is "gather-aggregate".
	Observe func(op string, took time.Duration)
}

// Device implements [gpu.Device] on the processor.
type Device struct {
	pool    *kernels.Pool
	observe func(op string, took time.Duration)

	mu     sync.Mutex
	live   map[*memory]struct{} // allocated and not freed
	bytes  int64
	peak   int64
	closed bool
}

var _ gpu.Device = (*Device)(nil)

// New makes a host device.
func New(o Options) *Device {
	return &Device{
		pool:    kernels.NewPool(kernels.Options{Threads: o.Threads, ISA: o.ISA, BF16: o.BF16}),
		observe: o.Observe,
		live:    make(map[*memory]struct{}),
	}
}

// Info describes the device.
func (d *Device) Info() gpu.Info {
	detail := fmt.Sprintf("%v, %d threads", d.pool.ISA(), d.pool.Threads())
	if d.pool.BF16() {
		detail += ", bf16 products"
	}
	return gpu.Info{Name: "host", Detail: detail, InPlace: true, Sparse: !d.pool.BF16()}
}

// Pool returns the threads on which the device computes.
func (d *Device) Pool() *kernels.Pool { return d.pool }

// AllocatedBytes returns the bytes allocated now and at most so far.
func (d *Device) AllocatedBytes() (now, peak int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bytes, d.peak
}

// NewStream makes a stream that executes on the caller's goroutine.
func (d *Device) NewStream() (gpu.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, gpu.ErrClosed
	}
	return &stream{pool: d.pool, observe: d.observe}, nil
}

// Close frees all memory that is still allocated.
func (d *Device) Close() error {
	d.mu.Lock()
	d.closed = true
	left := make([]*memory, 0, len(d.live))
	for m := range d.live {
		left = append(left, m)
	}
	d.mu.Unlock()
	var first error
	for _, m := range left {
		if err := m.Free(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// memory is a range of host bytes: allocated by the device, or borrowed (dev nil).
type memory struct {
	b   []byte
	dev *Device
}

// Bytes returns the size.
func (m *memory) Bytes() int64 { return int64(len(m.b)) }

// Free unmaps allocated memory and forgets borrowed memory.
func (m *memory) Free() error {
	b := m.b
	m.b = nil
	if m.dev == nil || b == nil {
		return nil
	}
	m.dev.mu.Lock()
	delete(m.dev.live, m)
	m.dev.bytes -= int64(len(b))
	m.dev.mu.Unlock()
	return unmap(b)
}

// Alloc maps zeroed memory, aligned to a page.
func (d *Device) Alloc(bytes int64) (gpu.Memory, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("host: allocate %d bytes: %w", bytes, gpu.ErrMemory)
	}
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return nil, gpu.ErrClosed
	}
	b, err := mapAnonymous(max(bytes, 1))
	if err != nil {
		return nil, fmt.Errorf("host: allocate %d bytes: %w: %w", bytes, gpu.ErrMemory, err)
	}
	m := &memory{b: b, dev: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live[m] = struct{}{}
	d.bytes += int64(len(b))
	d.peak = max(d.peak, d.bytes)
	return m, nil
}

// Map borrows b.
func (d *Device) Map(b []byte) (gpu.Memory, error) { return &memory{b: b}, nil }

// slice views a tensor's memory from its first to its last element.
func slice[T any](t gpu.Tensor) []T {
	if t.Len() == 0 {
		return nil
	}
	m := t.Mem.(*memory)
	if int64(len(m.b)) < t.Offset+t.Bytes() {
		panic(fmt.Sprintf("host: %v lies in memory that was freed", t))
	}
	n := t.Bytes() / int64(t.Elem.Size())
	return unsafe.Slice((*T)(unsafe.Pointer(&m.b[t.Offset])), n)
}
