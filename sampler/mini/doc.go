// Package mini samples mini-batches from a macro-batch: stage two of
// multistage sampling.
//
// [Sampler] draws one batch at a time on the caller's goroutine; [Loader]
// runs several samplers ahead of a trainer and yields their batches in order.
// Both draw neighbours, hop by hop outward from the seeds, by one of the [Samplers]
// or, for seeds at moments, the [TimedSamplers]. They number
// the nodes they meet in the order of first appearance, so that the destinations
// of every block are a prefix of its sources (DGL's convention).
//
//	s, err := mini.New(mini.Config{Fanouts: []int{15, 10, 5}, Seed: 1})
//	…
//	var b mini.Batch
//	err = s.Sample(mini.Key{Epoch: 3, Batch: 7}, mini.Graph{In: macroBatch.In}, seeds, &b)
//
// Every draw is keyed by (seed, epoch, step, pass, batch, hop, position in the
// frontier): batches do not depend on the number of threads, on the order in
// which they are drawn, or on what lies in which slot of the partition buffer.
//
// Speed comes from staging (docs/lab/limits.md, "Neighbour sampling"). For a chunk of
// destinations all spans are loaded, then all picks made, then all neighbours
// gathered, then all relabelled: within a stage the loads do not depend on
// each other, so the processor overlaps their cache misses.
package mini
