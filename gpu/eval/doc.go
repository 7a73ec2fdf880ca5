// Package eval evaluates models exactly on graphs larger than memory: with all neighbours, layer by layer, streamed over a
// store.
//
// # Model
//
// The nodes are cut into tiles of consecutive partitions, as few as the memory allows: it holds the sums of one and a piece
// of another's states. An [Evaluator] computes every
// node's outputs and counts what a classifier gets right ([Metrics]); it can hand what it streams to a [Sink]. A [Ranker]
// encodes all nodes in the same way and ranks the answers of edge lists against all of them ([RankMetrics]: MRR and hits@k, rankmetrics.go).
//
// Where few nodes are asked, only those are computed that their outputs depend on (closure.go).
// Where all are, of a graph of many tiles, layers that sum column by column hold some columns of all sources (columns.go).
//
// # Determinism
//
// A node's messages are added one by one in the order of their sources, which the store fixes: results are bit-identical
// for any number of threads and any tiles, and so any budget. Models gat and rgcn are so for one tiling only: an
// online softmax rounds anew with every tile, and a relation's mean is added up within one. Neither keeps a history, so
// their parameters do not depend on it.
package eval
