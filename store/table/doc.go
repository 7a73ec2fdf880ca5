// Package table keeps learned embeddings: tables of one row a node beside a store's partitions, with the optimiser's
// state, and the checkpoints that training goes on from.
//
// # Model
//
// A table has Planes arrays of Dim float32 a node (the format's: package blocks, embedding.go): the embeddings, then the
// optimiser's state. It is read and written a
// partition at a time, and belongs to one version of the store, whose partitions are its own. A table of some nodes
// ([Options].Some) has rows of those alone, such as of nodes without features; its maker knows which they are.
//
//	t, err := table.Create(ctx, s, table.Options{Name: "nodes", Dim: 100, States: 1})
//	err = t.Read(ctx, p, planes...)            // aligned buffers of t.PlaneBytes(p)
//	err = t.Write(ctx, p, planes...)           // into a slot that no checkpoint names
//	err = t.Checkpoint(ctx, table.Blob{Name: "model", Data: parameters})
//
// Each partition has one slot on disk more than checkpoints are kept, so a crash at any moment leaves the kept
// checkpoints whole. Of a table that keeps several, [Table.Spare] names those that newer ones do not take the place of: the
// best epoch's beside the last. The rows lie in one block file (FORMAT.md of package blocks); which slots a checkpoint means, their
// checksums and its blobs are committed in one batch of the store's metadata.
//
// # Concurrency
//
// A table has one opener, in all processes, or any number of readers (Options.ReadOnly). Different partitions may be
// read and written at the same time, one partition by one goroutine at a time. Package store/buffer moves rows between
// a table and the partition buffer.
package table
