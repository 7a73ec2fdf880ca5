// Package train trains node classifiers: it connects a store's macro-batches, a plan, a
// mini-batch sampler and a model on a device, and keeps the best model by exact validation.
//
// # Model
//
// [Node] trains a node classifier for a number of epochs. An epoch follows its
// plan: while one macro-batch is trained the store reads and assembles the
// next, and while one mini-batch is trained the loader samples the next ones.
// After an epoch the validation accuracy is computed exactly ([eval.Evaluator]: all
// neighbours, layer by layer, streamed over the store); the best epoch's
// model is kept, and the test accuracy is that model's.
//
// # Determinism
//
// Every random choice is keyed by (seed, epoch, step, pass, batch): the same
// store and configuration give bit-identical losses for any number of threads
// and any I/O engine. So it is for any memory bound as long as the plan is the same: what the bound cuts into
// tiles, exact evaluation and with it a history, adds up messages in the order of the store (package eval).
//
// # Memory
//
// Config.MemoryBytes bounds what a run holds: the partition buffer, and beside
// it either training's or evaluation's work space, which are never alive at once. Package planning says
// who holds what, as an account of store/budget.
//
// # Rooms
//
// From the lowest: config (what a run is), feed (its mini-batches), bound (the most that these hold), history (absent
// neighbours), planning (what a run does and holds), loader (batches for loops of others), ondevice (what a GPU keeps), and
// this package, which trains.
package train
