// Package adjacency answers which edges a node has, one node at a time, of a graph that need not fit in memory.
//
// A store keeps edges in buckets for long sequential reads, so that the edges of one node lie in as many places as there are
// partitions ([store.Store.Neighbors] reads all of these). Who asks for few nodes again and again, such as a server, opens
// [Lists] instead: every node's edges side by side, made by a pass over the store, in memory where they fit and else in an
// unnamed file, of which a node's edges are one read.
//
//	l, err := adjacency.Open(ctx, st, adjacency.Options{MemoryBytes: 1 << 30, Dir: st.ScratchDir()})
//	edges, err = l.Edges(edges[:0], node)
//
// Lists are a snapshot of the store's version and may be used from any number of goroutines.
package adjacency
