package gputest

import (
	"sync"
	"unsafe"

	"github.com/gstore/gstore/gpu"
)

// Ahead is a device that says that it runs operations after they were issued, so that training issues the next mini-batch before it looks
// at the results of the last one.
type Ahead struct{ gpu.Device }

// Info describes the device as one that is Async.
func (d Ahead) Info() gpu.Info {
	info := d.Device.Info()
	info.Async = true
	return info
}

// Counting is a device whose memory is not the host's, made of one whose memory is: results are that one's to the bit,
// and what would cross the bus is counted.
type Counting struct {
	gpu.Device
	MemoryBytes int64 // what Info says may be allocated

	mu    sync.Mutex
	away  map[gpu.Memory][]byte // mapped host memory
	moved int64
	back  int64
}

// NewCounting wraps a device; closing it closes that one.
func NewCounting(dev gpu.Device, memoryBytes int64) *Counting {
	return &Counting{Device: dev, MemoryBytes: memoryBytes, away: map[gpu.Memory][]byte{}}
}

// Info describes the device as one of its own memory.
func (d *Counting) Info() gpu.Info {
	info := d.Device.Info()
	info.InPlace, info.MemoryBytes = false, d.MemoryBytes
	return info
}

// RowBytes is what operations read of mapped tables: of a gather and a copy the rows, of an aggregation a row an edge, of an
// upload its bytes.
func (d *Counting) RowBytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.moved
}

// BackBytes is what copies of rows wrote to mapped tables.
func (d *Counting) BackBytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.back
}

// Map notes that the memory is the host's.
func (d *Counting) Map(b []byte) (gpu.Memory, error) {
	m, err := d.Device.Map(b)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away[m] = b
	return m, err
}

// NewStream makes a stream that counts.
func (d *Counting) NewStream() (gpu.Stream, error) {
	s, err := d.Device.NewStream()
	return &counting{Stream: s, d: d}, err
}

type counting struct {
	gpu.Stream
	d *Counting
}

// read counts rows of a table.
func (s *counting) read(table gpu.Tensor, rows int) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.away[table.Mem] != nil {
		s.d.moved += int64(rows) * int64(table.Cols*table.Elem.Size())
	}
}

// Upload counts what is of mapped memory: rows that cross in long copies.
func (s *counting) Upload(dst gpu.Tensor, src []byte) {
	s.d.mu.Lock()
	for _, b := range s.d.away {
		if len(src) > 0 && inside(src, b) {
			s.d.moved += int64(len(src))
			break
		}
	}
	s.d.mu.Unlock()
	s.Stream.Upload(dst, src)
}

// inside reports whether part, not empty, is memory of whole.
func inside(part, whole []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return at < uintptr(len(whole))
}

func (s *counting) CopyRows(dst, to, src, from gpu.Tensor) {
	s.read(src, from.Cols)
	s.d.mu.Lock()
	if s.d.away[dst.Mem] != nil {
		s.d.back += int64(to.Cols) * int64(dst.Cols*dst.Elem.Size())
	}
	s.d.mu.Unlock()
	s.Stream.CopyRows(dst, to, src, from)
}

func (s *counting) Gather(dst, table, index gpu.Tensor) {
	s.read(table, index.Cols)
	s.Stream.Gather(dst, table, index)
}

func (s *counting) Aggregate(o gpu.AggregateOptions, g gpu.Graph, table, dst gpu.Tensor) {
	s.read(table, g.Edges())
	s.Stream.Aggregate(o, g, table, dst)
}

func (s *counting) SegmentMax(o gpu.MaxOptions, g gpu.Graph, table, out, arg gpu.Tensor) {
	s.read(table, g.Edges())
	s.Stream.SegmentMax(o, g, table, out, arg)
}
