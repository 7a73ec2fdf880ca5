// Package partitioner decides which partition each node lies in.
//
// A partitioner is either a pure function of the node id ([NewRandom],
// [NewRange]: nothing is stored) or an algorithm that reads the graph as a
// stream of neighbour lists, once a pass ([Partition]: FENNEL, GAP, HDR). The
// stream is a [Graph]; memory is O(nodes + partitions × labels), never
// O(edges), unless the graph itself is held in memory ([CSR]).
//
// Node ids here are dense and external: 0 ≤ id < nodes, in the order of the
// input. The ids inside a store follow from the assignment, not the reverse.
//
// Everything is deterministic: the same graph, options and seed give the same
// assignment on any machine. Values of this package are not safe for
// concurrent use unless they say so; [Assigner]s are.
//
// Works cited, "the thesis" among them, are listed in docs/bibliography.md.
package partitioner
