// Package blocks owns every byte gstore keeps on disk outside Pebble.
//
// A block file (extension .gsb) is written once, front to back, and never
// changed afterwards (embedding slots apart): a 4 KiB header, extents that
// each start on a 4 KiB boundary, and a footer that lists the extents and the
// checksum of every chunk of their bytes. Checksums live apart from the
// payload so that an extent can be read straight into an aligned buffer with
// O_DIRECT, mapped, or copied to a device without touching its bytes.
//
// FORMAT.md draws each structure; the golden files under testdata annotate
// every byte of a small file of each kind, so the page cannot drift.
//
// Bytes from disk are never trusted: lengths are checked before anything is
// allocated, checksums before anything is decoded, and every violation is a
// [*CorruptError] naming file and extent. No function of this package panics
// on data.
package blocks
