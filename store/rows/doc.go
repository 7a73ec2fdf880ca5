// Package rows serves training whose graph fits in memory while its features do not: the topology of the whole store is
// resident, features stay on disk, and only rows that mini-batches use are read, through a cache.
//
// # Model
//
// [Open] reads the topology into a compact adjacency (load.go), whose neighbours have the order of plan "memory": samples,
// and so losses, are those of a run in memory to the bit. Mini-batches are sampled ahead of training by the caller, who hands each one's
// input rows to Push; the trainer takes them in the same order:
//
//	r, err := rows.Open(ctx, s, rows.Options{Options: buffer.Options{Features: []string{"x"}, MemoryBytes: 1 << 30}, BatchRows: n})
//	defer r.Close()
//	go func() { for each batch, sampled ahead { r.Push(epoch, input) }; r.End() }()
//	for each batch {
//		slots, err := r.Take(input) // input[i] lies in row slots[i] of r.Features()
//		…
//		r.Done()
//	}
//
// What is kept is decided (window.go) when a batch leaves the window of those sampled ahead, before anything is read,
// by the batches alone. So bytes are known before they are read, and a [Options].Forecast computes them without reading.
//
// # Reading
//
// Missing rows of a batch are sorted by their place, and neighbours whose gap is cheaper to read than another request are read
// as one (read.go). Checksums are of chunks of 64 KiB: the first row that is wanted of a chunk brings the whole chunk, which is
// checked; later ones bring pages of 4 KiB.
//
// # Memory
//
// Everything lies in slabs outside the Go heap within Options.MemoryBytes (sizes.go): the graph, and beside it first what loading
// takes, then the cache, a window of row numbers and the area that reads go to.
//
// # Concurrency
//
// Push and End are for one goroutine, Take and Done for another; a third one, of the Reader, reads. Close ends all; after Stop, Restart
// begins with other batches.
package rows
