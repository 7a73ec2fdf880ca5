// Package export writes a version of a store to files that other programs
// read: NumPy arrays, tab-separated text, Parquet.
//
//	r, err := export.Run(ctx, s, "cora", export.Options{Format: export.Numpy})
//
// Everything is streamed: edges bucket by bucket, in the store's order; nodes
// partition by partition or, where external ids are 0 … nodes−1, in their
// order, a tile that fits memory at a time. So a graph larger than memory
// is exported inside Options.MemoryBytes. Files appear in a folder beside the
// target that gets its name when all of them are there and synced.
//
// # Which ids
//
// Text and Parquet hold external ids. NumPy arrays hold positions: those of the node
// arrays' rows. Where external ids are dense these are the positions;
// elsewhere rows are in the store's order, and node_ids.npy or node_ids.txt
// (entities.txt of a knowledge graph) names them.
//
// What is written can be ingested again: the same graph, features, labels
// and splits. meta.json, beside the data, says how.
//
// Columns that are no part of the store (embedding tables, a model's
// predictions) are exported beside its own: Options.Extra.
package export
