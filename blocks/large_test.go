package blocks

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// largeStripe is the directory of a stripe of two buckets of 2³¹+64 and 2³¹ edges, and
// the stripe's length. The buckets themselves are 11 GiB of anything.
func largeStripe(t *testing.T) (dir []byte, length int64) {
	t.Helper()
	const nodes = 100_000 // 32-bit ids
	edges := []uint64{1<<31 + 64, 1 << 31}
	var e StripeEncoder
	offset, first := uint64(0), uint64(0)
	for _, n := range edges {
		e.entry(offset, first, nodes, nodes)
		offset += uint64(BucketBytes(n, nodes, nodes, nodes))
		first += n
	}
	e.entry(offset, first, uint32(len(edges)), nodes)
	return e.dir, int64(offset) + DirectoryBytes(2)
}

// TestMoreThan31Bits: counts, first edges and ranges of a stripe with more than 2³² edges.
func TestMoreThan31Bits(t *testing.T) {
	b, length := largeStripe(t)
	d, err := OpenDirectory(b, 2, length)
	if err != nil {
		t.Fatal(err)
	}
	if d.Edges() != 1<<32+64 || d.BucketEdges(0) != 1<<31+64 || d.FirstEdge(1) != 1<<31+64 || d.FirstEdge(2) != 1<<32+64 {
		t.Errorf("%d edges, %d in bucket 0, bucket 1 begins at %d", d.Edges(), d.BucketEdges(0), d.FirstEdge(1))
	}
	from, to := d.Range(1, 2)
	if want := BucketBytes(1<<31+64, 100_000, 100_000, 100_000); from != want || to != length-DirectoryBytes(2) || from < 1<<33 {
		t.Errorf("bucket 1 lies at %d to %d, expected %d to %d", from, to, want, length-DirectoryBytes(2))
	}
	// A count cut to 32 bits contradicts the stripe's length.
	le32 := bytes.Clone(b)
	clear(le32[len(le32)-directoryEntryBytes+12 : len(le32)-directoryEntryBytes+16])
	if _, err := OpenDirectory(le32, 2, length); err == nil {
		t.Error("a directory with its last count cut to 32 bits")
	}
}

// TestSparseLargeFile opens a topology file of two such rows: 22 GiB, all but
// some pages of it a hole, whose extents and chunks lie far beyond 4 GiB.
func TestSparseLargeFile(t *testing.T) {
	dir, length := largeStripe(t)
	path := filepath.Join(t.TempDir(), "large.gsb")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	h := Header{Kind: Topology, Partitions: 2, FileID: 9}
	head := h.encode()
	foot := footer{fileID: h.FileID, headerCRC: le32(head[hdrChecksum:])}
	zero := Checksum(make([]byte, ChunkBytes))
	at := int64(HeaderBytes)
	put := func(b []byte, offset int64) {
		if _, err := out.WriteAt(b, offset); err != nil {
			t.Fatal(err)
		}
	}
	put(head, 0)
	for p := range 2 {
		e := Extent{ID: uint64(p), Offset: at, Length: length, Rows: 1<<32 + 64, chunk: int64(len(foot.sums))}
		last := length / ChunkBytes * ChunkBytes // the directory lies in the last chunk
		if length-last < DirectoryBytes(2) {
			t.Fatal("the directory spans two chunks")
		}
		for range last / ChunkBytes {
			foot.sums = append(foot.sums, zero)
		}
		tail := append(make([]byte, length-last-DirectoryBytes(2)), dir...)
		foot.sums = append(foot.sums, Checksum(tail))
		put(tail, at+last)
		foot.extents = append(foot.extents, e)
		at = e.End()
	}
	body := foot.encode()
	tr := trailer{offset: at, fileID: h.FileID, length: int64(len(body)), crc: Checksum(body)}
	put(append(body, tr.encode()...), at)

	f, err := Open(vfs.Default, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Rows() != 2*(1<<32+64) || f.Info().Size < 20<<30 {
		t.Errorf("%d edges in %d bytes", f.Rows(), f.Info().Size)
	}
	e, ok := f.Extent(1)
	if !ok || e.Offset < 10<<30 {
		t.Fatalf("extent 1: %+v", e)
	}
	b, err := f.ReadRange(e, e.Length-DirectoryBytes(2), e.Length)
	if err != nil || !bytes.Equal(b, dir) {
		t.Fatalf("directory of extent 1: %v", err)
	}
	if b, err = f.ReadRange(e, 9<<30, 9<<30+100); err != nil || len(b) != 100 {
		t.Fatalf("a range at 9 GiB: %v", err)
	}
	put([]byte{1}, e.Offset+9<<30+50)
	if _, err := f.ReadRange(e, 9<<30, 9<<30+100); err == nil {
		t.Error("a damaged chunk at 9 GiB was not found")
	}
}
