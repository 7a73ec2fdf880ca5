// Package nn holds the layers, models, losses and optimisers of graph neural
// networks, written once over a [gpu.Queue] with explicit backward passes.
//
// # Model
//
// A [Model] is a stack of [Layer]s. Layer l of a mini-batch turns the states of
// block l's sources into those of its destinations; the last block's
// destinations are the seeds. Each layer keeps what its backward pass needs in
// the arena of the mini-batch, so that a layer serves one mini-batch at a
// time: Forward, then Backward, then the arena is reset.
//
// All parameters of a model lie in one [Params]: one optimiser step, one copy
// to keep the best model, one download to save it.
//
// Layers that can be evaluated exactly on graphs larger than memory also
// implement [Streamer]: the messages of a destination arrive in pieces, edge
// bucket by edge bucket, and are finished once all are in.
//
// A new layer implements [Layer], and [Streamer] to be evaluated; its name stands in [Models] or [Encoders], and it is made in
// model.go. Operations that it lacks are added to package gpu and to each device, with a case in gpu/gputest.
//
// # Errors
//
// Layers report through their queue ([gpu.Queue.Sync]): a shape that does not
// fit is found before anything runs.
//
// A Model and its Params belong to one goroutine at a time.
//
// Works cited, "the thesis" among them, are listed in docs/bibliography.md.
package nn
