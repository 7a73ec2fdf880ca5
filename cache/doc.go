// Package cache decides what need not be moved again between a macro-batch in
// host memory and the device that trains on it.
//
// Consecutive mini-batches of one macro-batch share many input rows.
// [Tracker] knows which rows a device's feature slab still holds and where, and
// splits each new batch into rows to reuse and rows to send. [Reorder] orders a
// window of sampled batches so that neighbours share more. [Hotness] counts
// visits over presampled epochs and names the rows worth keeping for good.
//
// All state is bookkeeping: the package never touches features, a device or a
// disk, and knows rows only as positions in a macro-batch (buffer.Adjacency).
// Values are not safe for concurrent use; a training loop owns one of each.
//
// Works cited, "the thesis" among them, are listed in docs/bibliography.md.
package cache
