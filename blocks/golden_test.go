package blocks_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files in testdata")

// small is one small file of a kind: what the golden files show, the corruption
// tests damage and the fuzz corpora start from.
type small struct {
	name   string
	header blocks.Header
	write  func(w *blocks.Writer) error
}

func le[T any](values ...T) []byte {
	var b bytes.Buffer
	for _, v := range values {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err) // a test's own mistake
		}
	}
	return b.Bytes()
}

// smallSizes are the partitions of the small topology: narrow, wide, empty.
var smallSizes = []uint32{5, blocks.NarrowNodesMax + 1, 0}

func writeSmallTopology(w *blocks.Writer) error {
	k := blocks.EdgeKey
	stripes := [][][]uint64{
		{{k(0, 1), k(0, 4), k(3, 0)}, {k(4, 65536)}, nil},
		{{k(2, 0), k(65536, 2), k(65536, 3)}, {k(7, 9), k(7, 9)}, nil},
		{nil, nil, nil},
	}
	enc := blocks.NewStripeEncoder(w, smallSizes)
	for j, stripe := range stripes {
		if err := errors.Join(w.Begin(uint64(j)), enc.Begin(blocks.PartitionID(j))); err != nil {
			return err
		}
		for i, keys := range stripe {
			if err := enc.Bucket(blocks.PartitionID(i), keys); err != nil {
				return err
			}
		}
		edges, err := enc.End()
		if err := errors.Join(err, w.End(edges)); err != nil {
			return err
		}
	}
	return nil
}

func smallFiles() []small {
	appends := func(rows []uint64, payload ...[]byte) func(w *blocks.Writer) error {
		return func(w *blocks.Writer) error {
			for i := range rows {
				if err := w.Append(uint64(i), rows[i], payload[i]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return []small{
		{"topology", blocks.Header{Kind: blocks.Topology, FileID: 1, Partitions: 3}, writeSmallTopology},
		{"edge_column", blocks.Header{Kind: blocks.EdgeColumn, FileID: 2, Elem: blocks.Uint16, Dim: 1, Partitions: 3, Name: "relation"},
			appends([]uint64{4, 5, 0}, le[uint16](0, 1, 0, 2), le[uint16](1, 1, 0, 2, 2), nil)},
		{"node_column", blocks.Header{Kind: blocks.NodeColumn, FileID: 3, Elem: blocks.Float32, Dim: 3, Partitions: 2, Name: "x"},
			appends([]uint64{2, 1}, le[float32](1, -0.5, 0, 2, 3.25, 1e9), le[float32](0, 0, 7))},
		{"node_column_half", blocks.Header{Kind: blocks.NodeColumn, FileID: 4, Elem: blocks.Float16, Dim: 2, Partitions: 1, Name: "x"},
			appends([]uint64{2}, le[uint16](0x3c00, 0xc000, 0x0001, 0x7c00))},
		{"external_ids", blocks.Header{Kind: blocks.ExternalIDs, FileID: 5, Elem: blocks.Int64, Dim: 1, Partitions: 2},
			appends([]uint64{2, 1}, le[int64](10, -3), le[int64](1<<40))},
		{"external_ids_text", blocks.Header{Kind: blocks.ExternalIDs, FileID: 6, Elem: blocks.Uint8, Partitions: 2},
			appends([]uint64{3, 0}, append(blocks.StringOffsets([]int{5, 0, 7}), "libc6python3"...), blocks.StringOffsets(nil))},
		{"id_map", blocks.Header{Kind: blocks.IDMap, FileID: 7, Elem: blocks.Uint32, Dim: 1, Partitions: 2, ExtentRows: 2},
			appends([]uint64{2, 1}, le[uint32](2, 0xffffffff), le[uint32](0))},
		{"edge_list", blocks.Header{Kind: blocks.EdgeList, FileID: 8, Elem: blocks.Uint64, Dim: 3, Partitions: 2, Name: "valid"},
			appends([]uint64{2}, le[uint64](1, 0, 2, 2, 5, 0))},
		{"edge_list_pairs", blocks.Header{Kind: blocks.EdgeList, FileID: 9, Elem: blocks.Uint64, Dim: 2, Partitions: 1, Name: "test"},
			appends([]uint64{1}, le[uint64](3, 4))},
		{"no_extents", blocks.Header{Kind: blocks.NodeColumn, FileID: 10, Elem: blocks.Int32, Dim: 1, Name: "label"}, appends(nil)},
	}
}

// create writes a small file into fs and returns its bytes.
func (s small) create(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	w, err := blocks.Create(fs, path, s.header)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.write(w); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return readAll(t, fs, path)
}

func readAll(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, stat.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGolden compares the annotated bytes of every small file with testdata,
// where a change of the format shows as a change of a reviewed text. It also
// checks that the annotation accounts for every byte.
func TestGolden(t *testing.T) {
	for _, s := range smallFiles() {
		t.Run(s.name, func(t *testing.T) {
			fs := vfs.NewMem()
			raw := s.create(t, fs, "f")
			f, err := blocks.Open(fs, "f")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Verify(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := f.Describe(&got, blocks.DescribeOptions{}); err != nil {
				t.Fatal(err)
			}
			checkEveryByte(t, got.String(), raw)
			golden(t, s.name, got.Bytes())
		})
	}
}

// golden compares a description with its file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what this build writes; if the format was meant to change, bump its version and run with -rewrite\n%s", path, got)
	}
}

// TestGoldenEmbedding is TestGolden for the kind that is written in place.
func TestGoldenEmbedding(t *testing.T) {
	fs := vfs.NewMem()
	l, err := blocks.NewEmbeddingLayout(blocks.Header{FileID: 11, Elem: blocks.Float32, Dim: 2, Name: "entity"}, 2, 3, []uint64{2, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = blocks.CreateEmbedding(fs, "f", l, func(p blocks.PartitionID, plane int, first uint64, rows []byte) error {
		v, err := blocks.View[float32](rows)
		for i := range v {
			v[i] = float32(100*int(p)+10*plane+2*int(first)+i) / 8
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	raw := readAll(t, fs, "f")
	var got bytes.Buffer
	if err := blocks.DescribeEmbedding(fs, "f", &got, blocks.DescribeOptions{}); err != nil {
		t.Fatal(err)
	}
	checkEveryByte(t, got.String(), raw)
	golden(t, "embedding", got.Bytes())

	got.Reset()
	if err := blocks.DescribeEmbedding(fs, "f", &got, blocks.DescribeOptions{Elements: 1}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 more: rows", "17 more extents", "2 more: partitions"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("no %q in\n%s", want, got.String())
		}
	}
	if err := blocks.DescribeEmbedding(fs, "missing", &got, blocks.DescribeOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// checkEveryByte checks that a description's lines follow each other without a
// gap, show the file's bytes, and reach its end.
func checkEveryByte(t *testing.T, text string, raw []byte) {
	t.Helper()
	at := 0
	for line := range strings.Lines(text) {
		offset, err := strconv.ParseUint(strings.SplitN(line, " ", 2)[0], 16, 64)
		if err != nil || len(line) < 10 || line[8:10] != "  " {
			continue // a title
		}
		if int(offset) != at {
			t.Fatalf("line %q follows byte %d", line, at)
		}
		column := line[10:]
		if state, rest, ok := strings.Cut(column, " × "); ok && state == "00" {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil || !bytes.Equal(raw[at:at+n], make([]byte, n)) {
				t.Fatalf("line %q: not zeros", line)
			}
			at += n
			continue
		}
		for _, word := range strings.Fields(column[:min(len(column), 23)]) {
			c, err := strconv.ParseUint(word, 16, 8)
			if err != nil || raw[at] != byte(c) {
				t.Fatalf("line %q: byte %d of the file is %02x", line, at, raw[at])
			}
			at++
		}
	}
	if at != len(raw) {
		t.Fatalf("%d of %d bytes are described", at, len(raw))
	}
}

func TestDescribeLimit(t *testing.T) {
	fs := vfs.NewMem()
	w, err := blocks.Create(fs, "f", blocks.Header{Kind: blocks.NodeColumn, Elem: blocks.Int64, Dim: 1, Partitions: 9, Name: "big"})
	if err != nil {
		t.Fatal(err)
	}
	for p := range 9 {
		if err := w.Append(uint64(p), 100_000, make([]byte, 800_000)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := blocks.Open(fs, "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out bytes.Buffer
	if err := f.Describe(&out, blocks.DescribeOptions{Elements: 4}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"99996 more: rows", "5 more extents", "checksums", fmt.Sprintf("%d bytes", f.Info().Size)} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if n := strings.Count(out.String(), "\n"); n > 100 {
		t.Errorf("%d lines", n)
	}
}

// TestDescribeWholeWords: the run starts of 64 edges are one word, those of 65 two; nothing of the file is said to be damaged.
func TestDescribeWholeWords(t *testing.T) {
	for edges, words := range map[int]int{63: 1, 64: 1, 65: 2, 128: 2} {
		var stripe bytes.Buffer
		enc := blocks.NewStripeEncoder(&stripe, []uint32{1000})
		var keys []uint64
		for i := range edges {
			keys = append(keys, blocks.EdgeKey(uint32(i), 7))
		}
		if err := errors.Join(enc.Begin(0), enc.Bucket(0, keys)); err != nil {
			t.Fatal(err)
		}
		if _, err := enc.End(); err != nil {
			t.Fatal(err)
		}
		fs := vfs.NewMem()
		w, err := blocks.Create(fs, "f", blocks.Header{Kind: blocks.Topology, Partitions: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Append(0, uint64(edges), stripe.Bytes()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := blocks.Open(fs, "f")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := errors.Join(f.Describe(&out, blocks.DescribeOptions{}), f.Close()); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "run starts of edges"); n != words {
			t.Errorf("%d edges: %d words of run starts, expected %d", edges, n, words)
		}
		if last := fmt.Sprintf("run starts of edges %d–%d", 64*(words-1), edges-1); !strings.Contains(out.String(), last) || words > 1 && !strings.Contains(out.String(), "edges 0–63") {
			t.Errorf("%d edges: no %q in\n%s", edges, last, out.String())
		}
	}
}
