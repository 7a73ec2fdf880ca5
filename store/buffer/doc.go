// Package buffer is the partition buffer: the one allocation of a run, in which partitions are resident while they are
// trained, and the macro-batches that it is read into.
//
// # Model
//
// A [Plan] says, step by step, which partitions are resident; package sampler/macro makes plans. [Open] allocates the
// buffer for a capacity, and Start gives it an epoch's plan:
//
//	it, err := buffer.Open(ctx, s, buffer.Options{Capacity: 4, Features: []string{"x"}, Labels: true})
//	defer it.Close()
//	for it.Start(plan); it.Next(); {
//		train(it.MacroBatch())
//	}
//
// Before anything is read, the plan is turned into a schedule (residency.go): which partition goes into which slot, and
// after which step. What a step reads of topology is planned as byte ranges (ioplan.go), so bytes read are known
// beforehand; a [Forecaster] computes them without a buffer. Then a step passes through a pipeline of goroutines
// (pipeline.go): topology and columns are read (read.go), the rows of an embedding table that leave are written back
// (embeddings.go), and the adjacency is assembled from edge buckets without a sort (assemble.go). The sizes of all
// arrays, and so the smallest budget, are in layout.go.
//
// While a step is trained the next one is read into a second frame, if the budget has room for both: Options says
// how much, and Buffer.Ahead how far it came to (layout.go, pipeline.go).
//
// Rows of the buffer, and not ids of nodes, address everything in a [MacroBatch]: see [Adjacency]. Columns of one node type may have
// rows of their own: see [Runs] (runs.go).
//
// # Concurrency
//
// A [Buffer] is for one goroutine, but for Stats, TableStats and BytesRead. Results depend on the plan alone: not on the
// number of threads, the engine, the budget, or on what was resident before.
//
// # Errors
//
// Damage is a [*blocks.CorruptError] with file, extent and offset; a budget that is too small a [*BudgetError] with the
// smallest that would do; everything else matches the sentinels of package store.
package buffer
