//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"gorgonia.org/cu"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/cuda/driver"
	"github.com/gstore/gstore/gpu/cuda/kernels"
)

// Device implements [gpu.Device] on one GPU.
type Device struct {
	name, detail string
	ctx          driver.Context
	module       cu.Module
	matmul       MatMul
	sms          int
	blocking     bool // wait after every operation: CUDA_LAUNCH_BLOCKING
	pins         pins
	zero         *stream // clears what Alloc returns

	mu        sync.Mutex
	functions map[string]driver.Function
	live      map[*memory]struct{}
	streams   map[*stream]struct{}
	bytes     int64 // allocated
	bound     int64
	lost      error
	closed    bool
}

var (
	_ gpu.Device       = (*Device)(nil)
	_ gpu.Pinner       = (*Device)(nil)
	_ gpu.Stager       = (*stream)(nil)
	_ gpu.Follower     = (*stream)(nil)
	_ gpu.Recorder     = (*stream)(nil)
	_ gpu.BlockSampler = (*stream)(nil)
)

// Devices lists the GPUs that the driver has.
func Devices() ([]DeviceInfo, error) {
	if err := driver.Load(); err != nil {
		return nil, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("cuda: count devices: %w", err)
	}
	infos := make([]DeviceInfo, n)
	for i := range infos {
		if infos[i], err = describe(i); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// describe asks the driver about device i; free memory needs a context for a moment.
func describe(i int) (DeviceInfo, error) {
	info := DeviceInfo{Ordinal: i}
	d, err := cu.GetDevice(i)
	if err != nil {
		return info, fmt.Errorf("cuda: device %d: %w", i, err)
	}
	if info.Name, err = d.Name(); err != nil {
		return info, fmt.Errorf("cuda: name of device %d: %w", i, err)
	}
	for _, a := range []struct {
		to *int
		is cu.DeviceAttribute
	}{{&info.Major, cu.ComputeCapabilityMajor}, {&info.Minor, cu.ComputeCapabilityMinor}} {
		if *a.to, err = d.Attribute(a.is); err != nil {
			return info, fmt.Errorf("cuda: capability of device %d: %w", i, err)
		}
	}
	ctx, err := driver.Retain(i)
	if err != nil {
		return info, fmt.Errorf("cuda: context of device %d: %w", i, err)
	}
	info.FreeBytes, info.MemoryBytes, err = ctx.Memory()
	if released := ctx.Release(); err == nil {
		err = released
	}
	if err != nil {
		return info, fmt.Errorf("cuda: memory of device %d: %w", i, err)
	}
	return info, nil
}

// Open opens a GPU and loads the kernels for its architecture.
func Open(o Options) (gpu.Device, error) {
	infos, err := Devices()
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 {
		return nil, errors.New("cuda: the driver has no device: use --device host")
	}
	if o.Ordinal < 0 || o.Ordinal >= len(infos) {
		return nil, fmt.Errorf("cuda: %w: %d of %d: use --device cuda:0 to cuda:%d, or host", ErrOrdinal, o.Ordinal, len(infos), len(infos)-1)
	}
	info := infos[o.Ordinal]
	gpuDevice, err := cu.GetDevice(o.Ordinal)
	if err != nil {
		return nil, err
	}
	d := &Device{
		name:      fmt.Sprintf("cuda:%d", o.Ordinal),
		matmul:    o.MatMul,
		bound:     o.MemoryBytes,
		blocking:  os.Getenv("CUDA_LAUNCH_BLOCKING") == "1",
		functions: make(map[string]driver.Function),
		live:      make(map[*memory]struct{}),
		streams:   make(map[*stream]struct{}),
	}
	d.detail = fmt.Sprintf("%s, sm_%d%d, %.1f GiB, %v products", info.Name, info.Major, info.Minor, float64(info.MemoryBytes)/(1<<30), o.MatMul)
	if d.bound <= 0 {
		d.bound = info.FreeBytes / 10 * 9
	}
	if d.sms, err = gpuDevice.Attribute(cu.MultiprocessorCount); err != nil {
		return nil, fmt.Errorf("%s: %w", d.name, err)
	}
	if same, err := gpuDevice.Attribute(canUseHostPointer); err != nil || same == 0 {
		return nil, fmt.Errorf("%s: %s cannot read host memory at the host's addresses (%v), which gstore's feature rows need", d.name, info.Name, err)
	}
	if d.ctx, err = driver.Retain(o.Ordinal); err != nil {
		return nil, fmt.Errorf("%s: context: %w", d.name, err)
	}
	d.pins.ctx = d.ctx
	if err := d.load(info); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// canUseHostPointer is CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM.
const canUseHostPointer = cu.DeviceAttribute(91)

func (d *Device) load(info DeviceInfo) error {
	image, name, err := kernels.Image(info.Major, info.Minor)
	if err != nil {
		return err
	}
	if err := d.ctx.Do(func() (err error) { d.module, err = cu.LoadData(string(image)); return err }); err != nil {
		version := cu.Version()
		return fmt.Errorf("%s: load kernels %s with driver for CUDA %d.%d: %w: gstore's cubins need driver 525 or later, its PTX 550", d.name, name, version/1000, version%1000/10, err)
	}
	s, err := d.newStream()
	d.zero = s
	return err
}

// function returns a kernel by its name.
func (d *Device) function(name string, shared int) (driver.Function, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, ok := d.functions[name]; ok {
		return f, nil
	}
	var f driver.Function
	err := d.ctx.Do(func() error {
		k, err := d.module.Function(name)
		f = driver.FunctionOf(k)
		return err
	})
	if err == nil && shared > 48<<10 {
		err = d.ctx.MaxShared(f, shared)
	}
	if err != nil {
		return f, fmt.Errorf("%s: kernel %s: %w", d.name, name, err)
	}
	d.functions[name] = f
	return f, nil
}

// Info describes the device.
func (d *Device) Info() gpu.Info {
	return gpu.Info{Name: d.name, Detail: d.detail, MemoryBytes: d.bound, Async: true, Samples: true}
}

// AllocatedBytes returns the device memory allocated now.
func (d *Device) AllocatedBytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bytes
}

// NewStream makes a CUDA stream that waits for no other.
func (d *Device) NewStream() (gpu.Stream, error) { return d.newStream() }

func (d *Device) newStream() (*stream, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, gpu.ErrClosed
	}
	d.mu.Unlock()
	s, err := openStream(d)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.streams[s] = struct{}{}
	d.mu.Unlock()
	return s, nil
}

// lose notes that the device broke down and returns how.
func (d *Device) lose(err error, ops []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost == nil {
		d.lost = &LostError{Device: d.name, Ops: ops, Err: err}
	}
	return d.lost
}

// broken returns how the device broke down, nil if it did not.
func (d *Device) broken() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

// Close waits for and frees what the device still holds. A lost device's memory goes with its context.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	streams, left := make([]*stream, 0, len(d.streams)), make([]*memory, 0, len(d.live))
	for s := range d.streams {
		streams = append(streams, s)
	}
	for m := range d.live {
		left = append(left, m)
	}
	d.mu.Unlock()
	var first error
	keep := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	for _, s := range streams {
		keep(s.Close())
	}
	for _, m := range left {
		keep(m.Free())
	}
	if d.module != (cu.Module{}) && d.broken() == nil {
		keep(d.ctx.Do(func() error { return d.module.Unload() }))
	}
	keep(d.ctx.Release())
	return first
}
