package gpu

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gstore/gstore/blocks"
)

// ArenaAlign is the alignment of every tensor of an arena, in bytes.
const ArenaAlign = 64

// arenaChunkMin is the smallest piece of device memory an arena asks for.
const arenaChunkMin = 1 << 20

// Arena hands out the tensors of one mini-batch and takes them back all at
// once. Memory is kept for the next batch and grows until it fits the largest one,
// or until it meets the arena's bound.
type Arena struct {
	dev    Device
	most   int64        // bytes; 0: no bound
	chunks []arenaChunk // the last one is being filled
	mapped []Memory     // Stage'd host memory
	fixed  bool         // a new chunk is an error
	peak   int64        // most bytes that were handed out before a Reset
}

type arenaChunk struct {
	mem  Memory
	used int64
}

// NewArena makes an empty arena.
func NewArena(dev Device) *Arena { return &Arena{dev: dev} }

// Bound limits the device memory that the arena holds to most bytes, 0 to none:
// a tensor beyond it is a [BoundError] of the queue that asked for it. What
// Int32s and Uint32s read in place does not count. The arena must be empty.
func (a *Arena) Bound(most int64) { a.most = most }

// Bytes returns the device memory that the arena holds.
func (a *Arena) Bytes() int64 {
	var n int64
	for _, c := range a.chunks {
		n += c.mem.Bytes()
	}
	return n
}

// Matrix returns a float32 [rows×cols] tensor of unspecified content, valid
// until Reset. Errors go to q.
func (a *Arena) Matrix(q *Queue, rows, cols int) Tensor {
	m, at := a.take(q, int64(rows)*int64(cols)*4)
	return MatrixOf(m, at, rows, cols)
}

// Vector returns n elements of unspecified content, valid until Reset.
func (a *Arena) Vector(q *Queue, n int, elem blocks.ElemType) Tensor {
	m, at := a.take(q, int64(n)*int64(elem.Size()))
	return VectorOf(m, at, n, elem)
}

// Int32s makes host data readable by the device until Reset, in place where the device allows it; x must stay untouched until
// then, on an Async device until the call returns.
func (a *Arena) Int32s(q *Queue, x []int32) Tensor {
	return stage(a, q, x, blocks.Int32)
}

// Float32s is Int32s for numbers.
func (a *Arena) Float32s(q *Queue, x []float32) Tensor {
	return stage(a, q, x, blocks.Float32)
}

// Uint32s is Int32s for unsigned data.
func (a *Arena) Uint32s(q *Queue, x []uint32) Tensor {
	return stage(a, q, x, blocks.Uint32)
}

func stage[T int32 | uint32 | float32](a *Arena, q *Queue, x []T, elem blocks.ElemType) Tensor {
	if len(x) == 0 {
		return Tensor{}
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*elem.Size())
	if !a.dev.Info().InPlace {
		t := a.Vector(q, len(x), elem)
		q.stage(t, b)
		return t
	}
	m, err := a.dev.Map(b)
	if err != nil {
		q.Fail(err)
		return Tensor{}
	}
	a.mapped = append(a.mapped, m)
	return VectorOf(m, 0, len(x), elem)
}

// take returns bytes of the last chunk, or of a new one, and where they start.
func (a *Arena) take(q *Queue, bytes int64) (Memory, int64) {
	if q.Err() != nil || bytes == 0 {
		return nil, 0
	}
	bytes = (bytes + ArenaAlign - 1) &^ (ArenaAlign - 1)
	if n := len(a.chunks); n == 0 || a.chunks[n-1].used+bytes > a.chunks[n-1].mem.Bytes() {
		if a.fixed {
			q.Fail(fmt.Errorf("gpu: an arena that grows %w", ErrNotRecorded))
			return nil, 0
		}
		size := max(bytes, a.Bytes()/2, arenaChunkMin)
		if a.most > 0 {
			// One chunk, so that no tail of another is lost; the host gives pages as they are touched.
			if size = a.most; n > 0 || bytes > size {
				q.Fail(&BoundError{AskedBytes: bytes, UsedBytes: a.Used(), BoundBytes: a.most})
				return nil, 0
			}
		}
		m, err := a.dev.Alloc(size)
		if err != nil {
			q.Fail(err)
			return nil, 0
		}
		a.chunks = append(a.chunks, arenaChunk{mem: m})
	}
	c := &a.chunks[len(a.chunks)-1]
	at := c.used
	c.used += bytes
	return c.mem, at
}

// fix keeps the arena from growing until free, and returns what free needs.
func (a *Arena) fix() (used int64) {
	a.fixed = true
	if n := len(a.chunks); n > 0 {
		used = a.chunks[n-1].used
	}
	return used
}

// free undoes fix, and takes back what was handed out since unless it is to be kept.
func (a *Arena) free(used int64, keep bool) {
	a.fixed = false
	if n := len(a.chunks); n > 0 && !keep {
		a.chunks[n-1].used = used
	}
}

// Used returns the bytes of the tensors handed out since Reset.
func (a *Arena) Used() int64 {
	var n int64
	for _, c := range a.chunks {
		n += c.used
	}
	return n
}

// Peak returns the most bytes of tensors that were handed out at a time before the last Reset.
func (a *Arena) Peak() int64 { return a.peak }

// Reset makes all tensors of the arena invalid and their memory free for the
// next ones of the same queue: its stream uses them in the order of issue. Another one must have been waited for. Several chunks are
// replaced by one that holds as much, so that an arena settles.
func (a *Arena) Reset() error {
	var first error
	a.peak = max(a.peak, a.Used())
	for _, m := range a.mapped {
		first = errors.Join(first, m.Free())
	}
	clear(a.mapped)
	a.mapped = a.mapped[:0]
	if len(a.chunks) > 1 {
		total := a.Bytes()
		for _, c := range a.chunks {
			first = errors.Join(first, c.mem.Free())
		}
		a.chunks = a.chunks[:0]
		m, err := a.dev.Alloc(total)
		if err != nil {
			return errors.Join(first, err)
		}
		a.chunks = append(a.chunks, arenaChunk{mem: m})
	}
	if len(a.chunks) == 1 {
		a.chunks[0].used = 0
	}
	return first
}

// Close frees the arena's memory.
func (a *Arena) Close() error {
	var first error
	for _, m := range a.mapped {
		first = errors.Join(first, m.Free())
	}
	for _, c := range a.chunks {
		first = errors.Join(first, c.mem.Free())
	}
	a.mapped, a.chunks = nil, nil
	return first
}
