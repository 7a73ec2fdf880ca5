// Package eval evaluates models exactly on graphs larger than memory: with all neighbours, layer by layer, streamed over a
// store.
//
// # Model
//
// The nodes are cut into tiles of consecutive partitions, as few as the memory allows. An [Evaluator] computes every
// node's outputs and counts what a classifier gets right ([Metrics]); it can hand what it streams to a [Sink]. A [Ranker]
// encodes all nodes in the same way and ranks the answers of edge lists against all of them ([RankMetrics]: MRR and hits@k, rankmetrics.go).
//
// # Determinism
//
// Messages are added in an order that the store and the tiles fix: results are bit-identical for any number of threads; with
// other tiles, and so another budget, the last bits of a sum may differ.
package eval
