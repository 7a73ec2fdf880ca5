// Package meter is a device that computes nothing and holds nothing, but counts: a model that runs on it says what
// it takes of another device, before anything is allocated there. Memory has a size and no bytes, so that only shapes may
// be asked for: what is downloaded is not set.
package meter

import (
	"sync/atomic"

	"github.com/gstore/gstore/gpu"
)

// Device implements [gpu.Device]. It is for any number of goroutines.
type Device struct {
	info  gpu.Info
	bytes atomic.Int64
}

var _ gpu.Device = (*Device)(nil)

// New makes a meter of a device that info describes.
func New(info gpu.Info) *Device { return &Device{info: info} }

// Bytes returns what is allocated now.
func (d *Device) Bytes() int64 { return d.bytes.Load() }

// Info implements [gpu.Device].
func (d *Device) Info() gpu.Info { return d.info }

// Alloc implements [gpu.Device].
func (d *Device) Alloc(bytes int64) (gpu.Memory, error) {
	d.bytes.Add(bytes)
	return &memory{d: d, bytes: bytes}, nil
}

// Map implements [gpu.Device].
func (d *Device) Map(b []byte) (gpu.Memory, error) { return Elsewhere(int64(len(b))), nil }

// Elsewhere is memory that the meter does not count.
func Elsewhere(bytes int64) gpu.Memory { return &memory{bytes: bytes} }

// NewStream implements [gpu.Device].
func (d *Device) NewStream() (gpu.Stream, error) { return stream{}, nil }

// Close implements [gpu.Device].
func (d *Device) Close() error { return nil }

// memory is a size.
type memory struct {
	d     *Device // nil: of elsewhere, or freed
	bytes int64
}

func (m *memory) Bytes() int64 { return m.bytes }

func (m *memory) Free() error {
	if m.d != nil {
		m.d.bytes.Add(-m.bytes)
		m.d = nil
	}
	return nil
}
