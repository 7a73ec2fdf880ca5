// Package vectors keeps the learned vectors of nodes without features in a store's table instead of a model's parameters, so that they
// may be more than memory holds.
//
// # Model
//
// A node type without features has a column that numbers its nodes ([store.Category]); each learns a vector. In memory the vectors of
// a type are one parameter, which an optimiser steps whole. Here they are a table of some nodes ([table.Some]): a row for each node of
// such types, with the optimiser's moments, in its partition. Rows come with their partition into the partition buffer
// ([buffer.MacroBatch].Planes), are trained there and written back; a mini-batch steps the rows that it reads and no others.
//
//	of, err := vectors.Count(ctx, st, []string{"author"})       // whose they are
//	t, err := vectors.Create(ctx, st, of, vectors.Options{Name: "vectors", Dim: 64})
//	err = resident.Enter(dev, mb)                  // a step
//	in.Vectors = resident.Of(batch.Input)          // what the model reads of a mini-batch
//	resident.Step(…, model.VectorGradient(), sums) // what it learns
//
// First values are drawn by the type's name and the node's number in it, so that they do not depend on partitions.
//
// # Concurrency
//
// An [Of] may be shared once it is counted. A [Resident] is for one goroutine.
package vectors
