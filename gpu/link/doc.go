// Package link trains link prediction: embeddings of all nodes, projections of their features, vectors of relations and, if asked
// for, an encoder, on the edges of a store or of one of its relations, in memory or out of core.
//
// # Model
//
// [Train] runs a number of epochs. An epoch follows its plan: each step's edges are trained while the store reads the next
// step's partitions and writes the embeddings of the last. A mini-batch is some edges and negatives; both ends of an edge are
// asked for. After an epoch the edges of list valid are ranked exactly ([eval.Ranker]), after the last those of test.
//
// With Config.Features a node's input is its embedding and a projection of its features, or, with Config.NoEmbeddings, the latter
// alone: such a model is inductive, as GraphSAGE is (Hamilton and others, NeurIPS 2017), and ranks nodes that it has not seen.
//
// Embeddings and their optimiser's state are a table of the store. A checkpoint of the table holds the parameters and the
// place in the run too: what [Load] reads and a run with Config.Resume goes on from, to the bit.
//
// # Absent neighbours
//
// With Config.Absent "shadow" an encoder out of core samples from the whole graph, which is in memory (topology.go). A neighbour that is
// not resident has the embedding that it had when it last was, from a copy of all rows in 4 bits a number (shadow.go), and gets no
// gradient. Otherwise such neighbours are left out.
//
// # Determinism
//
// Every random choice is keyed by (seed, epoch, step, pass, batch): the same store and configuration give bit-identical
// losses for any number of threads and any I/O engine.
//
// # Memory
//
// Config.MemoryBytes bounds what a run holds. [OpenMemory] says who holds what, as an account of store/budget (memory.go).
package link
