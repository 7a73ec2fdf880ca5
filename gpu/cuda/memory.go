//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/cuda/driver"
)

// memory is a range of device memory, or of page-locked host memory.
type memory struct {
	dev    *Device
	at     cu.DevicePtr
	bytes  int64
	mapped bool // host memory
	freed  sync.Once
}

// Bytes returns the size.
func (m *memory) Bytes() int64 { return m.bytes }

// Free waits for the device and gives the memory back.
func (m *memory) Free() error {
	var err error
	m.freed.Do(func() {
		d := m.dev
		d.mu.Lock()
		delete(d.live, m)
		if !m.mapped {
			d.bytes -= m.bytes
		}
		d.mu.Unlock()
		if m.at == 0 {
			return
		}
		if m.mapped {
			err = d.pins.drop(uintptr(m.at), uintptr(m.bytes))
		} else {
			err = d.ctx.Free(m.at)
		}
		if d.broken() != nil {
			err = nil // the driver repeats what was reported
		} else if err != nil {
			err = fmt.Errorf("%s: free %d bytes: %w", d.name, m.bytes, err)
		}
	})
	return err
}

// Alloc allocates zeroed device memory. Errors are a [MemoryError] or a [LostError].
func (d *Device) Alloc(bytes int64) (gpu.Memory, error) {
	m, err := d.alloc(bytes)
	if err != nil {
		return nil, err
	}
	if err := d.clear(m); err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

// alloc allocates device memory of whatever content.
func (d *Device) alloc(bytes int64) (*memory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, gpu.ErrClosed
	}
	if d.lost != nil {
		return nil, d.lost
	}
	e := &MemoryError{Device: d.name, AskedBytes: bytes, UsedBytes: d.bytes, BoundBytes: d.bound, FreeBytes: -1}
	if bytes < 0 || bytes > d.bound-d.bytes {
		return nil, e
	}
	at, err := d.ctx.Alloc(max(bytes, 1))
	if errors.Is(err, driver.OutOfMemory) {
		e.FreeBytes, _, _ = d.ctx.Memory()
		e.Err = err
		return nil, e
	}
	if err != nil {
		d.lost = &LostError{Device: d.name, Err: err}
		return nil, d.lost
	}
	m := &memory{dev: d, at: at, bytes: bytes}
	d.live[m] = struct{}{}
	d.bytes += bytes
	return m, nil
}

// clear sets m to 0 and waits.
func (d *Device) clear(m *memory) error {
	if m.bytes == 0 {
		return nil
	}
	z := d.zero
	z.mu.Lock()
	defer z.mu.Unlock()
	err := d.ctx.Fill32(m.at, 0, m.bytes/4, z.cu)
	if tail := m.bytes % 4; err == nil && tail > 0 {
		err = d.ctx.Fill8(m.at+cu.DevicePtr(m.bytes-tail), 0, tail, z.cu)
	}
	if err == nil {
		err = d.ctx.Wait(z.event, z.cu)
	}
	if err != nil {
		return d.lose(err, []string{"clear"})
	}
	return nil
}

// Map page-locks b, which the device then reads and writes across the bus at b's own
// address. Ranges may overlap.
func (d *Device) Map(b []byte) (gpu.Memory, error) {
	if err := d.broken(); err != nil {
		return nil, err
	}
	m := &memory{dev: d, bytes: int64(len(b)), mapped: true}
	if len(b) > 0 {
		at := uintptr(unsafe.Pointer(&b[0]))
		if err := d.pins.add(at, uintptr(len(b))); err != nil {
			return nil, &MemoryError{Device: d.name, Pinned: true, AskedBytes: int64(len(b)), FreeBytes: -1, Err: err}
		}
		m.at = cu.DevicePtr(at)
	}
	d.mu.Lock()
	d.live[m] = struct{}{}
	d.mu.Unlock()
	return m, nil
}

// Pin page-locks b: Map of a part of it costs nothing until unpin.
func (d *Device) Pin(b []byte) (unpin func() error, err error) {
	m, err := d.Map(b)
	if err != nil {
		return nil, err
	}
	return m.Free, nil
}

// pins are the page-locked ranges of host memory, by whole pages: the driver locks no page twice.
type pins struct {
	ctx     driver.Context
	mu      sync.Mutex
	regions []region // ascending, disjoint
}

// region is what one call of the driver locked.
type region struct {
	lo, hi uintptr
	users  int
}

const page = 4096

func pages(at, bytes uintptr) (lo, hi uintptr) {
	return at &^ (page - 1), (at + bytes + page - 1) &^ (page - 1)
}

// add locks what is not locked of the pages of a range, and counts a user of the rest.
func (p *pins) add(at, bytes uintptr) error {
	lo, hi := pages(at, bytes)
	p.mu.Lock()
	defer p.mu.Unlock()
	i, _ := slices.BinarySearchFunc(p.regions, lo, func(r region, lo uintptr) int {
		if r.hi <= lo {
			return -1
		}
		return 1
	})
	for from := lo; from < hi; i++ {
		if i < len(p.regions) && p.regions[i].lo <= from {
			p.regions[i].users++
			from = p.regions[i].hi
			continue
		}
		to := hi
		if i < len(p.regions) {
			to = min(to, p.regions[i].lo)
		}
		if err := p.ctx.Register(from, to-from); err != nil {
			p.remove(lo, from)
			return err
		}
		p.regions = slices.Insert(p.regions, i, region{from, to, 1})
		from = to
	}
	return nil
}

// drop undoes add.
func (p *pins) drop(at, bytes uintptr) error {
	lo, hi := pages(at, bytes)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remove(lo, hi)
}

func (p *pins) remove(lo, hi uintptr) error {
	var first error
	for i := 0; i < len(p.regions); i++ {
		r := &p.regions[i]
		if r.hi <= lo || r.lo >= hi {
			continue
		}
		if r.users--; r.users > 0 {
			continue
		}
		if err := p.ctx.Unregister(r.lo); err != nil && first == nil {
			first = err
		}
		p.regions = slices.Delete(p.regions, i, i+1)
		i--
	}
	return first
}

// holds reports whether one region has all of b, so that a copy needs no staging.
func (p *pins) holds(b []byte) bool {
	at := uintptr(unsafe.Pointer(&b[0]))
	p.mu.Lock()
	defer p.mu.Unlock()
	i, _ := slices.BinarySearchFunc(p.regions, at, func(r region, at uintptr) int {
		if r.hi <= at {
			return -1
		}
		return 1
	})
	return i < len(p.regions) && p.regions[i].lo <= at && at+uintptr(len(b)) <= p.regions[i].hi
}
