package blocks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Fuzz targets reach the decoders behind the checksums, since a fuzzer seldom
// guesses those. Their corpus under testdata/fuzz is written by TestFuzzCorpus
// with -rewrite.

// onlyCorrupt fails on an error of a decoder that is not a typed one.
func onlyCorrupt(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormatVersion) {
		t.Fatalf("error of no type: %v", err)
	}
}

func FuzzHeader(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		full := make([]byte, HeaderBytes)
		copy(full, b)
		binary.LittleEndian.PutUint32(full[hdrChecksum:], Checksum(full[:hdrChecksum]))
		h, err := decodeHeader(full)
		onlyCorrupt(t, err)
		if err == nil && !bytes.Equal(h.encode(), full) {
			t.Fatalf("%+v encodes to other bytes", h)
		}
	})
}

// footerOf is the header that FuzzFooter decodes a footer for.
func footerOf(kind byte) *Header {
	switch kind % 3 {
	case 0:
		return &Header{Kind: Topology, FileID: 1, Partitions: 3}
	case 1:
		return &Header{Kind: NodeColumn, FileID: 1, Elem: Float32, Dim: 3, Partitions: 3}
	default:
		return &Header{Kind: ExternalIDs, FileID: 1, Elem: Uint8, Partitions: 3}
	}
}

func FuzzFooter(f *testing.F) {
	f.Fuzz(func(t *testing.T, kind byte, offset int64, b []byte) {
		if offset < HeaderBytes || offset%Alignment != 0 || offset > math.MaxInt64/2 {
			return // what decodeTrailer lets through
		}
		foot, err := decodeFooter(b, footerOf(kind), 7, offset)
		onlyCorrupt(t, err)
		if err == nil && !bytes.Equal(foot.encode(), b) {
			t.Fatal("it encodes to other bytes")
		}
	})
}

func FuzzTrailer(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		if size < HeaderBytes || len(b) != trailerBytes {
			return
		}
		b = bytes.Clone(b)
		binary.LittleEndian.PutUint32(b[trlChecksum:], Checksum(b[:trlChecksum]))
		tr, err := decodeTrailer(b, size)
		onlyCorrupt(t, err)
		if err == nil && (tr.length < 0 || tr.offset < HeaderBytes || tr.offset+tr.length+trailerBytes != size) {
			t.Fatalf("%+v in a file of %d bytes", tr, size)
		}
	})
}

func FuzzStripe(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte, partitions uint8) {
		b = append(alignedBytes(len(b))[:0], b...)
		stripe, err := OpenStripe(b, uint32(partitions))
		onlyCorrupt(t, err)
		if err != nil {
			return
		}
		total := uint64(0)
		for i := range stripe.Partitions() {
			k, err := stripe.Bucket(i)
			onlyCorrupt(t, err)
			if err != nil || k.Check() != nil {
				continue
			}
			// What Check passes can be walked and keeps its promises.
			n := 0
			for d, s := range k.All() {
				if d >= k.DstNodes || s >= k.SrcNodes {
					t.Fatalf("edge %d → %d beyond %d and %d nodes", s, d, k.SrcNodes, k.DstNodes)
				}
				n++
			}
			if n != k.Edges {
				t.Fatalf("%d edges walked of %d", n, k.Edges)
			}
			total += uint64(n)
		}
		if total > stripe.Edges() {
			t.Fatalf("%d edges in buckets, %d in the stripe", total, stripe.Edges())
		}
		if stripe.verify() != nil {
			return
		}
		// What verify passes is what the encoder writes.
		sizes := make([]uint32, stripe.Partitions())
		for i := range sizes {
			sizes[i] = stripe.SrcNodes(i)
		}
		j := bytesIndex(sizes, stripe.DstNodes())
		if j < 0 {
			return
		}
		var out bytes.Buffer
		enc := NewStripeEncoder(&out, sizes)
		err = enc.Begin(PartitionID(j))
		for i := range sizes {
			k, _ := stripe.Bucket(i)
			var keys []uint64
			for d, s := range k.All() {
				keys = append(keys, EdgeKey(d, s))
			}
			err = errors.Join(err, enc.Bucket(PartitionID(i), keys))
		}
		_, endErr := enc.End()
		if err := errors.Join(err, endErr); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), b) {
			t.Fatalf("stripe %x encodes again to %x", b, out.Bytes())
		}
	})
}

func bytesIndex(sizes []uint32, n uint32) int {
	for j, s := range sizes {
		if s == n {
			return j
		}
	}
	return -1
}

func FuzzStrings(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte, n uint64) {
		s, err := OpenStrings(b, n)
		onlyCorrupt(t, err)
		if err != nil {
			return
		}
		var text []byte
		for i := range s.Len() {
			text = append(text, s.At(i)...)
		}
		if !bytes.Equal(text, b[8*(n+1):]) {
			t.Fatal("the strings are not the text")
		}
	})
}

// FuzzColumn views id arrays and edge lists, whose elements are their bytes.
func FuzzColumn(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte, skip uint8) {
		whole := append(alignedBytes(len(b))[:0], b...)
		part := whole[min(int(skip), len(whole)):]
		if ids, err := View[uint64](part); err == nil && !bytes.Equal(Bytes(ids), part) {
			t.Fatal("uint64 view differs")
		}
		if ids, err := View[uint32](part); err == nil && !bytes.Equal(Bytes(ids), part) {
			t.Fatal("uint32 view differs")
		}
	})
}

// corpus is the committed seed corpus: target → entry → arguments.
func corpus(t *testing.T) map[string]map[string][]any {
	topology := &Header{Kind: Topology, FileID: 1, Partitions: 3}
	column := &Header{Kind: NodeColumn, FileID: 2, Elem: BFloat16, Dim: 8, Partitions: 2, Name: "x"}
	future := topology.encode()
	future[hdrVersion] = 9
	foot := func(h *Header, extents []Extent) ([]byte, int64) {
		fo := footer{fileID: 1, headerCRC: 7, extents: extents}
		end := int64(HeaderBytes)
		for i := range extents {
			extents[i].Offset = end
			end = extents[i].End()
			for range chunkCount(extents[i].Length) {
				fo.sums = append(fo.sums, 1234)
			}
		}
		return fo.encode(), end
	}
	topoFoot, topoEnd := foot(footerOf(0), []Extent{{ID: 0, Length: 96}, {ID: 2, Length: 200_000, Rows: 50_000}})
	colFoot, colEnd := foot(footerOf(1), []Extent{{ID: 0, Length: 120, Rows: 10}, {ID: 1}})
	textFoot, textEnd := foot(footerOf(2), []Extent{{ID: 0, Length: 8}, {ID: 1, Length: 100, Rows: 3}})
	huge := bytes.Clone(colFoot)
	binary.LittleEndian.PutUint64(huge[ftrExtents:], 1<<60)
	stripe := func(sizes []uint32, j PartitionID, keys ...[]uint64) []byte {
		var out bytes.Buffer
		enc := NewStripeEncoder(&out, sizes)
		err := enc.Begin(j)
		for i, k := range keys {
			err = errors.Join(err, enc.Bucket(PartitionID(i), k))
		}
		_, endErr := enc.End()
		if err := errors.Join(err, endErr); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	narrow := stripe([]uint32{5, 3}, 0, []uint64{EdgeKey(0, 1), EdgeKey(0, 4), EdgeKey(3, 0)}, []uint64{EdgeKey(4, 2), EdgeKey(4, 2)})
	wide := stripe([]uint32{70_000, 3}, 0, []uint64{EdgeKey(1, 69_999), EdgeKey(69_999, 0)}, nil)
	noStart := bytes.Clone(narrow)
	noStart[0] = 0
	beyond := bytes.Clone(narrow)
	beyond[16] = 99
	tail := (&trailer{offset: 8192, length: 40, fileID: 1, crc: 5}).encode()
	text := append(StringOffsets([]int{5, 0, 7}), "libc6python3"...)
	return map[string]map[string][]any{
		"FuzzHeader": {"topology": {topology.encode()[:64]}, "column": {column.encode()[:64]}, "version": {future[:64]}, "empty": {[]byte{}}},
		"FuzzFooter": {"topology": {byte(0), topoEnd, topoFoot}, "column": {byte(1), colEnd, colFoot}, "text": {byte(2), textEnd, textFoot},
			"huge": {byte(1), colEnd, huge}, "short": {byte(1), colEnd, colFoot[:20]}},
		"FuzzTrailer": {"good": {tail, int64(8192 + 40 + 64)}, "elsewhere": {tail, int64(9000)}},
		"FuzzStripe": {"narrow": {narrow, uint8(2)}, "wide": {wide, uint8(2)}, "empty": {stripe([]uint32{0}, 0), uint8(1)},
			"no_start": {noStart, uint8(2)}, "src_beyond": {beyond, uint8(2)}, "other_count": {narrow, uint8(3)}},
		"FuzzStrings": {"three": {text, uint64(3)}, "none": {StringOffsets(nil), uint64(0)}, "many": {text, uint64(1 << 61)}},
		"FuzzColumn":  {"ids": {[]byte("0123456789abcdef"), uint8(0)}, "unaligned": {[]byte("0123456789abcdef"), uint8(3)}},
	}
}

// TestFuzzCorpus keeps the committed corpus equal to corpus().
func TestFuzzCorpus(t *testing.T) {
	write := flag.Lookup("rewrite").Value.String() == "true"
	for target, entries := range corpus(t) {
		for name, args := range entries {
			var text strings.Builder
			text.WriteString("go test fuzz v1\n")
			for _, a := range args {
				if b, ok := a.([]byte); ok {
					fmt.Fprintf(&text, "[]byte(%q)\n", b)
				} else {
					fmt.Fprintf(&text, "%T(%d)\n", a, a)
				}
			}
			path := filepath.Join("testdata", "fuzz", target, name)
			if write {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != text.String() {
				t.Errorf("%s is not what corpus says; run with -rewrite", path)
			}
		}
	}
}
