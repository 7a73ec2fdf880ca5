//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/cuda/driver"
)

// stream issues operations to a CUDA stream. Its first error keeps what follows from being issued.
//
// Kernels of one stream run one after another, so that all operations share one scratch.
type stream struct {
	dev   *Device
	cu    cu.Stream
	event driver.Event
	mu    sync.Mutex // of the device's own stream only; others belong to one goroutine

	err    error
	recent []string // the last operations issued since the last Sync
	closed bool

	status  cu.DevicePtr // what kernels found wrong: kernels/gs.h, Status
	now     *segment     // of the operations since the last mark; nil: there are none, or not yet
	dirty   bool         // there are some
	spare   []*segment
	flying  []*mark // that were not waited for, oldest first
	scratch scratch
	batch   upload // staged and not issued yet

	recording bool // what is issued is captured
	programs  map[*program]struct{}
	kept      []*memory // scratch that programs may use
}

// upload is a copy to the device.
type upload struct {
	mem  gpu.Memory
	to   cu.DevicePtr
	from []byte
}

const (
	statusBytes = 16
	recentOps   = 8
)

func openStream(d *Device) (*stream, error) {
	s := &stream{dev: d, programs: make(map[*program]struct{})}
	s.scratch.dev = d
	err := d.ctx.Do(func() (err error) {
		s.cu, err = cu.MakeStream(cu.NonBlocking)
		return err
	})
	if err != nil {
		return nil, d.lose(err, nil)
	}
	if s.event, err = d.ctx.NewEvent(); err != nil {
		d.ctx.DestroyStream(s.cu)
		return nil, d.lose(err, nil)
	}
	if s.now, err = newSegment(d); err == nil {
		if s.status, err = d.ctx.Alloc(statusBytes); err != nil {
			err = &MemoryError{Device: d.name, AskedBytes: statusBytes, BoundBytes: d.bound, FreeBytes: -1, Err: err}
		} else if err = d.ctx.Fill32(s.status, 0, statusBytes/4, s.cu); err != nil {
			err = d.lose(err, nil)
		}
	}
	if err != nil {
		s.free()
		return nil, err
	}
	return s, nil
}

// free gives back what a stream holds.
func (s *stream) free() error {
	d := s.dev
	var first error
	keep := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	for _, m := range s.flying {
		s.spare = append(s.spare, m.of)
	}
	for _, g := range append(s.spare, s.now) {
		keep(g.free())
	}
	s.spare, s.flying, s.now = nil, nil, nil
	for p := range s.programs {
		keep(s.forget(p))
	}
	keep(s.scratch.free())
	if s.status != 0 {
		keep(d.ctx.Free(s.status))
	}
	keep(d.ctx.DestroyEvent(s.event))
	keep(d.ctx.DestroyStream(s.cu))
	if d.broken() != nil {
		return nil // the driver repeats what was reported
	}
	return first
}

// Close waits for the stream and frees it.
func (s *stream) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.dev.mu.Lock()
	delete(s.dev.streams, s)
	s.dev.mu.Unlock()
	var err error
	if s.dev.broken() == nil {
		if waited := s.dev.ctx.Wait(s.event, s.cu); waited != nil {
			err = s.dev.lose(waited, s.recent)
		}
	}
	if freed := s.free(); err == nil {
		err = freed
	}
	return err
}

// Sync waits for everything issued, also where ctx is cancelled meanwhile: host memory that was given
// may be reused afterwards.
func (s *stream) Sync(ctx context.Context) error {
	m := s.mark()
	s.settle(m)
	err := s.err
	if err == nil {
		err = s.dev.broken()
	}
	var index *IndexError
	if errors.As(err, &index) && s.dev.broken() == nil { // the kernels' note is read: they may note the next one
		if failed := s.dev.ctx.Fill32(s.status, 0, statusBytes/4, s.cu); failed != nil {
			err = s.dev.lose(failed, nil)
		}
	}
	s.err, s.recent = nil, s.recent[:0]
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// wait waits for everything issued, hands out what was downloaded since the last mark and makes its staging free again.
func (s *stream) wait() {
	if s.dev.broken() == nil {
		if err := s.dev.ctx.Wait(s.event, s.cu); err != nil {
			s.fail(s.dev.lose(err, s.recent))
		}
	}
	if err := s.now.settle(s.err == nil); err != nil {
		s.fail(err)
	}
}

func (s *stream) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// begin reports whether operation op is to be issued, and notes it. What was staged is issued before.
func (s *stream) begin(op operation) bool {
	s.flush()
	return s.admit(op)
}

func (s *stream) admit(op operation) bool {
	if s.err != nil {
		return false
	}
	if lost := s.dev.broken(); lost != nil {
		s.fail(lost)
		return false
	}
	if !s.dirty && !s.start() {
		return false
	}
	if len(s.recent) == recentOps {
		s.recent = append(s.recent[:0], s.recent[1:]...)
	}
	s.recent = append(s.recent, op.String())
	return true
}

// issued records a failure of a call of the driver. Of a capture it ends nothing but that.
func (s *stream) issued(err error) {
	if s.recording {
		if err != nil {
			s.fail(fmt.Errorf("%s: %v %w: %w", s.dev.name, s.recent[len(s.recent)-1:], gpu.ErrNotRecorded, err))
		}
		return
	}
	if err == nil && s.dev.blocking {
		err = s.dev.ctx.Wait(s.event, s.cu)
	}
	if err != nil {
		s.fail(s.dev.lose(err, s.recent))
	}
}

// launch issues one kernel.
func (s *stream) launch(kernel string, shape driver.Shape, a *driver.Args) {
	if s.err != nil {
		return
	}
	f, err := s.dev.function(kernel, shape.Shared)
	if err != nil {
		s.fail(err)
		return
	}
	s.issued(s.dev.ctx.Launch(f, shape, s.cu, a))
}

const threads = 256 // of a block, where a kernel does not say otherwise

// over is the shape of a kernel that has n threads' worth of work and goes round as often as it takes.
// It decides nothing about results: every output has one owner.
func (s *stream) over(n int) driver.Shape {
	return driver.Shape{Grid: [3]int{min(max((n+threads-1)/threads, 1), 16*s.dev.sms)}, Threads: threads}
}

// lanesOf returns how many threads share a row of dim elements, width at a time: a power of 2 ≤ 32.
func lanesOf(dim, width int) int {
	lanes := 1
	for lanes < 32 && lanes*width < dim {
		lanes *= 2
	}
	return lanes
}

// rows launches a kernel whose groups of lanes take rows of dim elements: its last parameters are n, dim and lanes.
func (s *stream) rows(kernel string, n, dim int, a *driver.Args) {
	lanes := lanesOf(dim, 1)
	s.launch(kernel, s.over(n*lanes), a.I32(n).I32(dim).I32(lanes))
}

// flat launches a kernel over the elements of tensors without gaps: its last parameter is n.
func (s *stream) flat(kernel string, n int, a *driver.Args) {
	s.launch(kernel, s.over(n), a.I64(n))
}

// at returns the device's address of t's first element; none: 0.
func at(t gpu.Tensor) cu.DevicePtr {
	if t.Mem == nil {
		return 0
	}
	return t.Mem.(*memory).at + cu.DevicePtr(t.Offset)
}

// matrix packs address and stride.
func matrix(a *driver.Args, t gpu.Tensor) *driver.Args { return a.Ptr(at(t)).I64(t.Stride) }

// Upload copies by way of pinned memory, unless src lies in some.
func (s *stream) Upload(dst gpu.Tensor, src []byte) {
	if !s.unrecorded("upload") || !s.begin(opUpload) {
		return
	}
	to := at(dst)
	if s.dev.pins.holds(src) {
		s.issued(s.dev.ctx.Upload(to, unsafe.Pointer(&src[0]), int64(len(src)), s.cu))
		return
	}
	s.upload(to, src)
}

// upload copies by way of staging memory.
func (s *stream) upload(to cu.DevicePtr, src []byte) {
	for len(src) > 0 && s.err == nil {
		b := s.stage(len(src))
		if b == nil {
			return
		}
		n := copy(b, src)
		s.issued(s.dev.ctx.Upload(to, unsafe.Pointer(&b[0]), int64(n), s.cu))
		src, to = src[n:], to+cu.DevicePtr(n)
	}
}

// Stage collects small arrays that follow one another on the device, as those of an arena do, and in staging memory: one
// copy takes all of a batch to the device, before the first operation that may read them.
func (s *stream) Stage(dst gpu.Tensor, src []byte) {
	if !s.unrecorded("upload") || !s.admit(opUpload) {
		return
	}
	to := at(dst)
	if u := &s.batch; u.mem == dst.Mem && to == u.to+cu.DevicePtr(align(len(u.from))) {
		if b := s.now.staging.grow(u.from, len(src)); b != nil {
			copy(b[align(len(u.from)):], src)
			u.from = b
			return
		}
	}
	s.flush()
	if b, err := s.now.staging.take(len(src)); err == nil && len(b) == len(src) {
		copy(b, src)
		s.batch = upload{dst.Mem, to, b}
		return
	}
	s.upload(to, src) // in pieces, perhaps after a wait
}

// flush issues what was staged.
func (s *stream) flush() {
	u := s.batch
	s.batch = upload{}
	if u.from != nil && s.err == nil {
		s.issued(s.dev.ctx.Upload(u.to, unsafe.Pointer(&u.from[0]), int64(len(u.from)), s.cu))
	}
}

// Download is the way back; dst holds it after Sync.
func (s *stream) Download(dst []byte, src gpu.Tensor) {
	if !s.unrecorded("download") || !s.begin(opDownload) {
		return
	}
	from := at(src)
	if s.dev.pins.holds(dst) {
		s.issued(s.dev.ctx.Download(unsafe.Pointer(&dst[0]), from, int64(len(dst)), s.cu))
		return
	}
	for len(dst) > 0 && s.err == nil {
		b := s.stage(len(dst))
		if b == nil {
			return
		}
		s.issued(s.dev.ctx.Download(unsafe.Pointer(&b[0]), from, int64(len(b)), s.cu))
		s.now.staging.back = append(s.now.staging.back, delivery{to: dst[:len(b)], from: b})
		dst, from = dst[len(b):], from+cu.DevicePtr(len(b))
	}
}

// stage returns up to n bytes of pinned memory that stay untouched until the next wait.
func (s *stream) stage(n int) []byte {
	b, err := s.now.staging.take(n)
	if err == nil && b == nil { // all of it is in use
		s.wait()
		if s.err != nil {
			return nil
		}
		b, err = s.now.staging.take(n)
	}
	if err != nil {
		s.fail(err)
		return nil
	}
	return b
}

// temporary returns device memory of the given sizes for the operation that is issued now.
func (s *stream) temporary(sizes ...int64) []cu.DevicePtr {
	if s.err != nil {
		return make([]cu.DevicePtr, len(sizes))
	}
	if s.scratch.grows(sizes) && !s.unrecorded("an operation whose scratch memory grows") {
		return make([]cu.DevicePtr, len(sizes))
	}
	at, old, err := s.scratch.take(sizes)
	if err != nil {
		s.fail(err)
	}
	if old != nil && len(s.programs) > 0 {
		s.kept = append(s.kept, old)
	} else if old != nil {
		s.now.old = append(s.now.old, old)
	}
	return at
}

// typed names the kernel for a table's elements, such as "gather_bf16", and "_4" if rows of dim elements
// are read, and written to dst, four at a time.
func (s *stream) typed(kernel string, table, dst gpu.Tensor, fours bool) (string, int) {
	elem, ok := map[blocks.ElemType]string{blocks.Float32: "_f32", blocks.Float16: "_f16", blocks.BFloat16: "_bf16", blocks.Int8: "_i8"}[table.Elem]
	if !ok {
		s.fail(fmt.Errorf("%s: %s: elements of type %v", s.dev.name, kernel, table.Elem))
	}
	if fours && table.Cols%4 == 0 && aligned(table) && aligned(dst) {
		return kernel + elem + "_4", 4
	}
	return kernel + elem, 1
}

// aligned reports whether four elements from any column that 4 divides lie aligned to their size.
func aligned(t gpu.Tensor) bool {
	return uint64(at(t))%uint64(4*t.Elem.Size()) == 0 && t.Stride%4 == 0
}

// scale returns the address of a table's columns' scales; 0: none.
func scale(t gpu.Tensor) cu.DevicePtr {
	if t.Scale == nil {
		return 0
	}
	return t.Scale.(*memory).at + cu.DevicePtr(t.ScaleOffset)
}
