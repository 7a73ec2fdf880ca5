package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// EmbeddingSlotsMin is the least number of copies of each partition in an Embedding
// file: one that a checkpoint names and one that is being written. Part of the format.
const EmbeddingSlotsMin = 2

// EmbeddingSlotsMax bounds what a directory may claim.
const EmbeddingSlotsMax = 64

// embeddingPlanesMax bounds what a header may claim: values and two moments,
// and some room.
const embeddingPlanesMax = 8

// fillBytes is how much of a new file is made and written at a time.
const fillBytes = 1 << 20

// embeddingFixedBytes is the directory's fixed part: u32 planes, u32 slots beyond EmbeddingSlotsMin.
const embeddingFixedBytes = 8

// EmbeddingLayout says where everything lies in an Embedding file, the one kind
// that is written in place. It has no footer: what is valid in it, and its checksums, is
// said by the checkpoint that names it (package store).
//
//	0      header, 4 KiB; element type and dim are those of one plane
//	4096   directory: u32 planes, u32 slots − 2, partitions × u64 nodes, u32 crc32c
//	…      slot 0: for each partition, for each plane, an extent [rows][dim]
//	…      slot 1: the same, and as many more as there are slots
//
// Plane 0 holds the embeddings, the others the optimiser's state (Adagrad: the
// accumulator; Adam: both moments). Every extent begins at a multiple of Alignment;
// the planes of a partition follow each other, so one read takes them all.
type EmbeddingLayout struct {
	Header Header
	Planes int
	Slots  int      // one more than the checkpoints that are kept
	Nodes  []uint64 // of each partition

	first []int64 // offset of slot 0 of each partition; last: the end of slot 0
}

// NewEmbeddingLayout checks the arguments and computes the layout. h.Partitions is set.
func NewEmbeddingLayout(h Header, planes, slots int, nodes []uint64) (*EmbeddingLayout, error) {
	h.Kind, h.Partitions = Embedding, uint32(len(nodes))
	if err := h.Validate(); err != nil {
		return nil, err
	}
	if planes < 1 || planes > embeddingPlanesMax {
		return nil, fmt.Errorf("embedding of %d planes (expected 1 to %d)", planes, embeddingPlanesMax)
	}
	if slots < EmbeddingSlotsMin || slots > EmbeddingSlotsMax {
		return nil, fmt.Errorf("embedding of %d slots (expected %d to %d)", slots, EmbeddingSlotsMin, EmbeddingSlotsMax)
	}
	l := &EmbeddingLayout{Header: h, Planes: planes, Slots: slots, Nodes: nodes}
	at := HeaderBytes + l.directoryBytes()
	for p, n := range nodes {
		l.first = append(l.first, at)
		if n > math.MaxUint32 || n > math.MaxInt64/16/uint64(h.RowBytes()*int64(planes)) {
			return nil, fmt.Errorf("partition %d has %d nodes", p, n)
		}
		at += int64(planes) * l.PlaneBytes(PartitionID(p))
		if at < 0 || at > math.MaxInt64/EmbeddingSlotsMax/2 {
			return nil, fmt.Errorf("a slot of the embedding is larger than 2^56 bytes")
		}
	}
	l.first = append(l.first, at)
	return l, nil
}

func (l *EmbeddingLayout) directoryBytes() int64 {
	return AlignUp(embeddingFixedBytes + 8*int64(len(l.Nodes)) + 4)
}

// PlaneBytes is the room of one plane of partition p, padding included: a
// multiple of Alignment.
func (l *EmbeddingLayout) PlaneBytes(p PartitionID) int64 { return AlignUp(l.PayloadBytes(p)) }

// PayloadBytes is the length of one plane of partition p.
func (l *EmbeddingLayout) PayloadBytes(p PartitionID) int64 {
	return int64(l.Nodes[p]) * l.Header.RowBytes()
}

// Offset is where a plane of partition p begins in a slot.
func (l *EmbeddingLayout) Offset(p PartitionID, plane, slot int) int64 {
	end := l.first[len(l.first)-1]
	return l.first[p] + int64(plane)*l.PlaneBytes(p) + int64(slot)*(end-l.first[0])
}

// Size is the file's length.
func (l *EmbeddingLayout) Size() int64 {
	end := l.first[len(l.first)-1]
	return end + int64(l.Slots-1)*(end-l.first[0])
}

// Rows is the number of nodes of all partitions.
func (l *EmbeddingLayout) Rows() (rows uint64) {
	for _, n := range l.Nodes {
		rows += n
	}
	return rows
}

// ExtentName is how messages name a plane of a partition.
func (l *EmbeddingLayout) ExtentName(p PartitionID, plane, slot int) string {
	return fmt.Sprintf("%s plane %d slot %d", l.Header.ExtentName(uint64(p)), plane, slot)
}

// encode returns header and directory.
func (l *EmbeddingLayout) encode() []byte {
	b := append(l.Header.encode(), make([]byte, l.directoryBytes())...)
	d := b[HeaderBytes:]
	binary.LittleEndian.PutUint32(d, uint32(l.Planes))
	binary.LittleEndian.PutUint32(d[4:], uint32(l.Slots-EmbeddingSlotsMin))
	for p, n := range l.Nodes {
		binary.LittleEndian.PutUint64(d[embeddingFixedBytes+8*p:], n)
	}
	end := embeddingFixedBytes + 8*len(l.Nodes)
	binary.LittleEndian.PutUint32(d[end:], Checksum(d[:end]))
	return b
}

// decodeEmbeddingDirectory is the inverse of encode's second half.
func decodeEmbeddingDirectory(h Header, d []byte) (*EmbeddingLayout, error) {
	fail := func(format string, args ...any) (*EmbeddingLayout, error) {
		return nil, corruptf("directory", HeaderBytes, format, args...)
	}
	end := embeddingFixedBytes + 8*int64(h.Partitions)
	if int64(len(d)) < end+4 {
		return fail("%d bytes, expected %d for %d partitions", len(d), end+4, h.Partitions)
	}
	if sum, want := Checksum(d[:end]), le32(d[end:]); sum != want {
		return fail("checksum %08x, expected %08x", sum, want)
	}
	slots := EmbeddingSlotsMin + int(min(le32(d[4:]), EmbeddingSlotsMax))
	for i, c := range d[end+4:] {
		if c != 0 {
			return fail("byte %d is %#02x, expected 0", end+4+int64(i), c)
		}
	}
	nodes := make([]uint64, h.Partitions)
	for p := range nodes {
		nodes[p] = binary.LittleEndian.Uint64(d[embeddingFixedBytes+8*p:])
	}
	l, err := NewEmbeddingLayout(h, int(le32(d)), slots, nodes)
	if err != nil {
		return fail("%v", err)
	}
	return l, nil
}

// CreateEmbedding makes an Embedding file and writes slot 0 front to back:
// fill sets the payload of each plane of each partition, in file order, some
// whole rows from row first at a time. It returns the checksums of the payloads, by partition and plane. The room of the other slots is
// reserved, so that a full disk shows here and not in training. The file is durable
// on return, its directory entry is the caller's to sync.
func CreateEmbedding(fs vfs.FS, path string, l *EmbeddingLayout, fill func(p PartitionID, plane int, first uint64, rows []byte) error) (sums [][]uint32, err error) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = fs.Remove(path)
			sums, err = nil, fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err := f.Preallocate(0, l.Size()); err != nil {
		return nil, err
	}
	if _, err := f.Write(l.encode()); err != nil {
		return nil, err
	}
	rowBytes := l.Header.RowBytes()
	buf := make([]byte, max(rowBytes, fillBytes/rowBytes*rowBytes))
	var padding [Alignment]byte
	for p, n := range l.Nodes {
		id := PartitionID(p)
		row := make([]uint32, l.Planes)
		for plane := range l.Planes {
			for first := uint64(0); first < n; first += uint64(int64(len(buf)) / rowBytes) {
				rows := buf[:min(int64(len(buf)), int64(n-first)*rowBytes)]
				if err := fill(id, plane, first, rows); err != nil {
					return nil, err
				}
				row[plane] = ChecksumUpdate(row[plane], rows)
				if _, err := f.Write(rows); err != nil {
					return nil, err
				}
			}
			clear(padding[:]) // a vfs.File may change what it is given
			if _, err := f.Write(padding[:l.PlaneBytes(id)-l.PayloadBytes(id)]); err != nil {
				return nil, err
			}
		}
		sums = append(sums, row)
	}
	// The last byte gives the file its length; before it the other slots are a hole in reserved room.
	if l.Size() > l.first[len(l.first)-1] {
		if _, err := f.WriteAt([]byte{0}, l.Size()-1); err != nil {
			return nil, err
		}
	}
	return sums, f.Sync()
}

// OpenEmbedding reads and checks the header and directory of an Embedding
// file, and its length.
func OpenEmbedding(fs vfs.FS, path string) (*EmbeddingLayout, error) {
	var l *EmbeddingLayout
	err := withEmbedding(fs, path, func(_ vfs.File, open *EmbeddingLayout) error {
		l = open
		return nil
	})
	return l, err
}

// withEmbedding opens an Embedding file for as long as fn runs.
func withEmbedding(fs vfs.FS, path string, fn func(f vfs.File, l *EmbeddingLayout) error) (err error) {
	f, err := fs.Open(path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	stat, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	l, err := readEmbedding(f, path, stat.Size())
	if err != nil {
		return err
	}
	return fn(f, l)
}

func readEmbedding(f vfs.File, path string, size int64) (*EmbeddingLayout, error) {
	h, _, err := readHeader(f, path, size)
	if err != nil {
		return nil, err
	}
	fail := func(extent string, offset int64, format string, args ...any) (*EmbeddingLayout, error) {
		return nil, locate(corruptf(extent, offset, format, args...), path, "", 0)
	}
	if h.Kind != Embedding {
		return fail("header", 0, "it is a %v file, expected %v", h.Kind, Embedding)
	}
	n := AlignUp(embeddingFixedBytes + 8*int64(h.Partitions) + 4)
	if size < HeaderBytes+n {
		return fail("directory", HeaderBytes, "the file has %d bytes, its directory ends at %d", size, HeaderBytes+n)
	}
	d := make([]byte, n)
	if err := readFull(f, path, d, HeaderBytes, "directory"); err != nil {
		return nil, err
	}
	l, err := decodeEmbeddingDirectory(h, d)
	if err != nil {
		return nil, locate(err, path, "", 0)
	}
	if size != l.Size() {
		return fail("file", 0, "%d bytes, expected %d", size, l.Size())
	}
	return l, nil
}
