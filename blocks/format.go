package blocks

import (
	"fmt"
	"unsafe"
)

// Constants of format version 1. Part of the format; never change them.
const (
	// FormatVersion is the version that this build writes.
	FormatVersion = 1
	// Alignment is what every extent's and the footer's offset is a multiple
	// of, in bytes, so that extents can be read with O_DIRECT and mapped.
	Alignment = 4096
	// ChunkBytes is how much of an extent one checksum covers. Chunks start at
	// the extent's first byte; an extent's last chunk may be shorter.
	ChunkBytes = 64 << 10
	// HeaderBytes is the length of a file's header.
	HeaderBytes = 4096
	// NameBytesMax is the length of the longest column name, in bytes.
	NameBytesMax = 255
	// Extension is the suffix of block files.
	Extension = ".gsb"

	headerMagic  = "GSTORE\x1a\n" // 0x1a ends a text listing; "\n" shows newline translation
	trailerMagic = "\nGSTEND\n"

	trailerBytes     = 64
	extentEntryBytes = 32
	footerFixedBytes = 32
)

// Kind says what a block file holds. The numbers are part of the format;
// never renumber.
type Kind uint16

// Kinds of block files.
const (
	KindInvalid Kind = 0
	// Topology: one extent per dst partition, holding its stripe: the edge buckets into it
	// ([Stripe]). Extent rows are edges.
	Topology Kind = 1
	// EdgeColumn: one extent per dst partition, row-major elements in the stripe's
	// edge order (relation, weight, timestamp, …). Extent rows are edges.
	EdgeColumn Kind = 2
	// NodeColumn: one extent per partition, row-major [nodes][dim] (features,
	// labels, splits). Extent rows are nodes.
	NodeColumn Kind = 3
	// ExternalIDs: one extent per partition, the external id of each node:
	// integers (Uint64 or Int64, dim 1) or strings (Uint8, dim 0: [Strings]).
	ExternalIDs Kind = 4
	// IDMap: dense external id → internal id as Uint32 or Uint64; extent k
	// holds external ids k*ExtentRows … The largest value of the type means
	// that the id is absent.
	IDMap Kind = 5
	// EdgeList: edges in a given order, one extent per list part; rows of dim
	// Uint64: src, dst (dim 2) or src, relation, dst (dim 3).
	EdgeList Kind = 6
	// Embedding: learned rows and optimiser state, two slots a partition,
	// written in place ([EmbeddingLayout]).
	Embedding Kind = 7
)

var kindNames = [...]string{
	KindInvalid: "invalid", Topology: "topology", EdgeColumn: "edge column", NodeColumn: "node column",
	ExternalIDs: "external ids", IDMap: "id map", EdgeList: "edge list",
	Embedding: "embedding",
}

// String returns the kind as messages name it, such as "node column".
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return fmt.Sprintf("kind(%d)", uint16(k))
	}
	return kindNames[k]
}

// AlignUp returns the smallest multiple of [Alignment] that is ≥ n ≥ 0.
func AlignUp(n int64) int64 { return (n + Alignment - 1) &^ (Alignment - 1) }

// chunkCount returns the number of checksums of an extent of length bytes.
func chunkCount(length int64) int64 { return (length + ChunkBytes - 1) / ChunkBytes }

// littleEndian reports whether this host can view the format's arrays in place.
func littleEndian() bool {
	x := uint16(1)
	return *(*byte)(unsafe.Pointer(&x)) == 1
}
