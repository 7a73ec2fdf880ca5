// Package gpu is the training front end: the devices that hold tensors and
// run operations on them. Layers (gpu/nn) and training loops (gpu/train, gpu/link) are
// written once over it; a store, a plan and a sampler never know which device
// consumes what they deliver.
//
// # Model
//
// A [Device] owns memory and makes [Stream]s; a stream executes a short list
// of operations (gather, fused gather-aggregate, dense products, activations,
// losses, optimiser steps) in the order in which they were issued. [Queue] is
// what callers use: it checks the shapes of every operation once for all
// devices and passes only sound ones on, so that a device implements no checks.
//
// A [Tensor] is a view: memory, offset, shape, stride and element type. It
// owns nothing; it lives as long as its [Memory], or until the [Arena] that
// made it is reset.
//
// # Asynchrony
//
// Operations return before they are done and report nothing. The first
// error is kept, everything issued after it is skipped, and [Queue.Sync]
// waits and returns it. A [Mark] can be waited for while what was issued after it runs; [Pipeline] trains mini-batches by
// them. Host memory given to Upload or Download must stay untouched until Sync, or a mark after it, was waited for; what
// [Arena.Int32s] reads, until Reset, on an Async device until the call returns. The host device executes in order on the caller's goroutine, on all cores of its pool; a CUDA device
// (gpu/cuda) puts the operations on a stream and waits for it in Sync.
//
// A [Recorder] takes operations down and runs them again by one call; package replay does so with training steps.
//
// # Concurrency
//
// A Device is safe for concurrent use, a Queue or Arena belongs to one
// goroutine at a time.
//
//	dev := host.New(host.Options{})
//	q, err := gpu.NewQueue(dev)
//	a := gpu.NewArena(dev)
//	c := a.Matrix(q, 100, 32)
//	q.Gemm(gpu.GemmOptions{Bias: bias, ReLU: true}, x, w, c)
//	err = q.Sync(ctx)
package gpu
