//go:build cuda

package cuda

import (
	"fmt"

	"gorgonia.org/cu"

	"github.com/gstore/gstore/gpu"
)

// staging is page-locked host memory by way of which a stream copies.
type staging struct {
	dev    *Device
	chunks [][]byte
	chunk  int // that is being filled
	used   int // of it
	back   []delivery
}

// delivery is a download that has to be copied to where it was wanted.
type delivery struct{ to, from []byte }

const (
	stagingMin   = 1 << 20 // bytes of the first chunk, each further one is twice as large
	stagingMax   = 16 << 20
	stagingCount = 6
	stagingAlign = gpu.ArenaAlign
)

// take returns up to n bytes, nil if a wait is due before there are any.
func (p *staging) take(n int) ([]byte, error) {
	for {
		if p.chunk < len(p.chunks) {
			if c := p.chunks[p.chunk]; p.used < len(c) {
				n = min(n, len(c)-p.used)
				b := c[p.used : p.used+n : p.used+n]
				p.used += align(n)
				return b, nil
			}
			p.chunk, p.used = p.chunk+1, 0
			continue
		}
		if len(p.chunks) == stagingCount {
			return nil, nil
		}
		size := min(stagingMin<<len(p.chunks), stagingMax)
		c, err := p.dev.ctx.AllocHost(size)
		if err != nil {
			return nil, &MemoryError{Device: p.dev.name, Pinned: true, AskedBytes: int64(size), FreeBytes: -1, Err: err}
		}
		p.chunks = append(p.chunks, c)
	}
}

// align rounds up to where the next array begins, in staging memory and in an arena.
func align(n int) int { return (n + stagingAlign - 1) &^ (stagingAlign - 1) }

// grow returns b, which take returned last, with n more bytes from its aligned end on, nil if the chunk has not so many.
func (p *staging) grow(b []byte, n int) []byte {
	c := p.chunks[p.chunk]
	first := p.used - align(len(b)) // where b is
	if first < 0 || &c[first] != &b[0] || p.used+n > len(c) {
		return nil
	}
	end := p.used + n
	p.used += align(n)
	return c[first:end:end]
}

// settle, after a wait, delivers downloads if the wait succeeded.
func (p *staging) settle(deliver bool) {
	for _, d := range p.back {
		if deliver {
			copy(d.to, d.from)
		}
	}
	clear(p.back)
	p.back, p.chunk, p.used = p.back[:0], 0, 0
}

func (p *staging) free() error {
	var first error
	for _, c := range p.chunks {
		if err := p.dev.ctx.FreeHost(c); err != nil && first == nil {
			first = fmt.Errorf("%s: free pinned memory: %w", p.dev.name, err)
		}
	}
	p.chunks = nil
	return first
}

// scratch is device memory for the insides of operations. It grows.
type scratch struct {
	dev *Device
	now *memory
}

const scratchAlign = 256

func (p *scratch) total(sizes []int64) (n int64) {
	for _, size := range sizes {
		n += scratchAligned(size)
	}
	return n
}

func scratchAligned(size int64) int64 { return (max(size, 1) + scratchAlign - 1) &^ (scratchAlign - 1) }

// grows reports whether take would allocate.
func (p *scratch) grows(sizes []int64) bool { return p.now == nil || p.now.bytes < p.total(sizes) }

// take returns addresses of memory of the given sizes, and what it grew out of: operations that were issued may use it.
func (p *scratch) take(sizes []int64) (at []cu.DevicePtr, old *memory, err error) {
	at = make([]cu.DevicePtr, len(sizes))
	total := p.total(sizes)
	from := int64(0)
	for i, n := range sizes {
		at[i] = cu.DevicePtr(from)
		from += scratchAligned(n)
	}
	if p.grows(sizes) {
		size := total
		if p.now != nil {
			size = max(total, 2*p.now.bytes)
		}
		m, err := p.dev.alloc(size)
		if err != nil {
			return at, nil, err
		}
		old, p.now = p.now, m
	}
	for i := range at {
		at[i] += p.now.at
	}
	return at, old, nil
}

func (p *scratch) free() error {
	if p.now == nil {
		return nil
	}
	err := p.now.Free()
	p.now = nil
	return err
}
