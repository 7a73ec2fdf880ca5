// Package store is gstore's embedded API: stores on disk, their versions, schema, columns and ids.
//
// Packages beside it take a [Store] and go on from there: store/buffer holds partitions in memory and makes
// macro-batches, store/table keeps learned embeddings, store/ingest and store/export bring data in and out,
// store/verify finds damage, store/stats and store/storegraph look at the graph as a whole.
//
// # Model
//
// A store is a directory. Its data are immutable block files (package blocks);
// what they mean is a [Manifest], one per version, kept as JSON in Pebble
// beside the id dictionary and the history. A [Writer] writes new files and then commits a manifest
// that names them, together with any files of the version before that are still good:
//
//	w, err := store.OpenWriter(dir, store.WriterOptions{})
//	next := w.Base().Clone()
//	…                               // write files, add them to next
//	err = w.Commit(ctx, next)       // all of it, durably, or nothing
//
// Commit syncs files, then directories, then one Pebble batch; a crash or an I/O
// error at any moment leaves the old version or the new one. Files that no kept version names
// are removed after a commit and when a writer opens.
//
// Nodes have dense internal ids, consecutive within a partition. External ids,
// whatever the user's data had, map to them and back with [Store.LookupInts],
// [Store.LookupStrings] and [Store.ReadExternal].
//
// # Concurrency
//
// [Open] returns a snapshot: descriptors of one version's files, and no lock. Any number of
// readers and one writer work at once, in any number of processes; a second writer gets
// [ErrLocked]. Readers and the writer exclude each other only while one of
// them has Pebble open, for some milliseconds ([Options.LockTimeout] bounds the
// wait). A [Store] may be used from any number of goroutines, a Writer from
// one.
//
// # Errors
//
// Bytes from disk are never trusted: damage is a [*blocks.CorruptError] that
// names file and extent, and nothing panics on it. Sentinels are in errors.go.
package store
