// Package ingest turns a graph, in whatever form a [Source] reads it, into a
// store, within a memory budget.
//
// The way of the data: source ids become dense ids (as they are, or by rank
// in a dictionary); the partitioner assigns dense ids; every node gets
// its place, 4 bytes each, the one array that grows with the graph. Edges become
// 64-bit keys that order like the format (dst partition, src partition, dst,
// src), are distributed over shards of the key space (in memory while it lasts,
// then in one spill file), and shard after shard is radix-sorted and written.
// Node columns need no sort: rows arrive by ascending id, and go to their
// partitions' extents through one buffer each, so every byte is
// written once.
//
// Files depend on input, options and seed only: not on threads, memory,
// interruptions or time.
//
// Phases are methods of [Job]; packages grow and repartition take those that they need. Below lie source (what a graph is
// before it is a store), dictionary (ids to numbers), edges (sorting and writing them) and scratch.
//
// Each finished phase is recorded, so that an interrupted ingest resumes; the
// store opens only after the last step, one commit.
package ingest
