package blocks

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func testLayout(t testing.TB) *EmbeddingLayout {
	t.Helper()
	l, err := NewEmbeddingLayout(Header{FileID: 9, Elem: Float32, Dim: 3, Name: "emb"}, 2, 2, []uint64{5, 0, 700})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestEmbedding writes a file and compares every byte with what the layout says.
func TestEmbedding(t *testing.T) {
	l := testLayout(t)
	path := filepath.Join(t.TempDir(), "e.gsb")
	value := func(p, plane int, row uint64, k int) byte { return byte(p*31 + plane*7 + int(row)*3 + k + 1) }
	sums, err := CreateEmbedding(vfs.Default, path, l, func(p PartitionID, plane int, first uint64, rows []byte) error {
		if len(rows) == 0 {
			t.Errorf("partition %d plane %d is to be filled with no rows", p, plane)
		}
		for i := range rows {
			rows[i] = value(int(p), plane, first+uint64(i/12), i%12)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != l.Size() || l.Size() != 8192+2*2*(4096+12288) {
		t.Fatalf("%d bytes, layout %d", len(b), l.Size())
	}
	for p, n := range l.Nodes {
		for plane := range l.Planes {
			at := l.Offset(PartitionID(p), plane, 0)
			payload := b[at : at+l.PayloadBytes(PartitionID(p))]
			if at%Alignment != 0 || uint64(len(payload)) != 12*n || Checksum(payload) != sums[p][plane] {
				t.Fatalf("partition %d plane %d at %d: %d bytes, checksum %08x, expected %08x", p, plane, at, len(payload), Checksum(payload), sums[p][plane])
			}
			for i, c := range payload {
				if want := value(p, plane, uint64(i/12), i%12); c != want {
					t.Fatalf("partition %d plane %d byte %d is %d, expected %d", p, plane, i, c, want)
				}
			}
			if l.Offset(PartitionID(p), plane, 1)-at != (l.Size()-8192)/2 {
				t.Fatalf("slot 1 of partition %d lies at %d", p, l.Offset(PartitionID(p), plane, 1))
			}
		}
	}
	got, err := OpenEmbedding(vfs.Default, path)
	if err != nil {
		t.Fatal(err)
	}
	if got.Planes != 2 || got.Header != l.Header || got.Size() != l.Size() {
		t.Errorf("opened %+v, expected %+v", got, l)
	}
	// Everything before the extents is checked.
	for at := 0; at < 8192; at += 1 + at/64 {
		c := append([]byte{}, b...)
		c[at] ^= 1
		if err := os.WriteFile(path, c, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenEmbedding(vfs.Default, path); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormatVersion) {
			t.Fatalf("byte %d flipped: %v", at, err)
		}
	}
	for _, n := range []int{0, 100, 4096, 5000, 8192, len(b) - 1} {
		if err := os.WriteFile(path, b[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenEmbedding(vfs.Default, path); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestEmbeddingRefused(t *testing.T) {
	h := Header{Elem: Float32, Dim: 3}
	for name, fn := range map[string]func() error{
		"no planes":   func() error { _, err := NewEmbeddingLayout(h, 0, 2, []uint64{1}); return err },
		"many planes": func() error { _, err := NewEmbeddingLayout(h, 9, 2, []uint64{1}); return err },
		"no dim":      func() error { _, err := NewEmbeddingLayout(Header{Elem: Float32}, 1, 2, []uint64{1}); return err },
		"nodes":       func() error { _, err := NewEmbeddingLayout(h, 1, 2, []uint64{1 << 40}); return err },
		"overflow": func() error {
			_, err := NewEmbeddingLayout(Header{Elem: Float32, Dim: 1 << 31}, 8, 2, []uint64{1<<32 - 1, 1<<32 - 1})
			return err
		},
	} {
		if fn() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for _, planes := range []int{1, embeddingPlanesMax} {
		if l, err := NewEmbeddingLayout(h, planes, EmbeddingSlotsMin, []uint64{1}); err != nil || l.Planes != planes {
			t.Errorf("%d planes: %v", planes, err)
		}
	}
}

// FuzzEmbeddingDirectory decodes any bytes as a directory.
func FuzzEmbeddingDirectory(f *testing.F) {
	l := testLayout(f)
	f.Add(l.encode()[HeaderBytes:], uint32(3))
	f.Add([]byte{}, uint32(0))
	f.Fuzz(func(t *testing.T, d []byte, partitions uint32) {
		h := Header{Kind: Embedding, Elem: Float32, Dim: 3, Partitions: partitions}
		if end := embeddingFixedBytes + 8*int(partitions%64); len(d) >= end+4 {
			h.Partitions = partitions % 64 // and make the checksum right, or nothing else is reached
			binary.LittleEndian.PutUint32(d[end:], Checksum(d[:end]))
		}
		l, err := decodeEmbeddingDirectory(h, d)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if l.Size() < HeaderBytes || l.Planes < 1 {
			t.Fatalf("layout of %d bytes, %d planes", l.Size(), l.Planes)
		}
	})
}
