// Package cuda is the device on NVIDIA GPUs: [gpu.Device] by the CUDA driver.
//
// It is built with the tag cuda (and cgo, see docs/gpu.md); without it [Open] and
// [Devices] return [ErrNotBuilt] and nothing is linked. The driver is opened at
// run time, so that one binary serves machines with and without a GPU.
//
// # Model
//
// Operations are launches of the kernels of package kernels on one CUDA stream a
// [gpu.Stream]; Sync waits for an event. Memory of [Device.Alloc] lies on the
// device; Map page-locks host memory and lets the device read it across the bus.
// Uploads and downloads go by way of page-locked staging memory.
//
// Every sum has an order that depends on shapes only, and no floating-point atomics: the
// same seed gives the same bits on devices of one architecture. Kernels leave out
// indices outside their table and note the first: Sync returns it as an [IndexError].
//
// # Concurrency
//
// As in package gpu. Any goroutine may use a Device.
package cuda
