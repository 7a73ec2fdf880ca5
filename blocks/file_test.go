package blocks_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
)

func TestFileRoundTrip(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.Default} {
		t.Run(name, func(t *testing.T) {
			path := fs.PathJoin(t.TempDir(), "x.gsb")
			if name == "memory" {
				path = "x.gsb"
			}
			h := blocks.Header{Kind: blocks.NodeColumn, FileID: 7, Elem: blocks.Float32, Dim: 3, Partitions: 3, Name: "x"}
			w, err := blocks.Create(fs, path, h)
			if err != nil {
				t.Fatal(err)
			}
			rows := []int{100_000, 0, 1}
			payloads := make([][]byte, len(rows))
			for p, n := range rows {
				payloads[p] = bytes.Repeat([]byte{byte(p + 1), 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, n)
			}
			// One extent in parts, one whole, ids not in order.
			for _, p := range []int{2, 0, 1} {
				b := payloads[p]
				if err := w.Append(uint64(p), uint64(rows[p]), b[:len(b)/3], b[len(b)/3:]); err != nil {
					t.Fatal(err)
				}
			}
			info, err := w.Close()
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Abort(); err != nil {
				t.Fatal(err)
			}
			f, err := blocks.Open(fs, path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if f.Info() != info || f.Header() != h || f.Rows() != 100_001 {
				t.Fatalf("opened %+v %+v with %d rows, wrote %+v %+v", f.Info(), f.Header(), f.Rows(), info, h)
			}
			var buf []byte
			for p := range rows {
				e, ok := f.Extent(uint64(p))
				if !ok || e.Rows != uint64(rows[p]) || e.Offset%blocks.Alignment != 0 {
					t.Fatalf("extent %d: %+v, %v", p, e, ok)
				}
				if buf, err = f.ReadExtent(e, buf); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(buf, payloads[p]) {
					t.Fatalf("extent %d came back different", p)
				}
			}
			e, _ := f.Extent(0)
			part, err := f.ReadRange(e, 65_530, 131_080)
			if err != nil || !bytes.Equal(part, payloads[0][65_530:131_080]) {
				t.Fatalf("range came back different: %v", err)
			}
			if _, ok := f.Extent(3); ok {
				t.Fatal("extent 3 exists")
			}
		})
	}
}

func TestWriterRefuses(t *testing.T) {
	h := blocks.Header{Kind: blocks.NodeColumn, Elem: blocks.Int32, Dim: 1, Partitions: 1, Name: "label"}
	for _, c := range []struct {
		name string
		do   func(w *blocks.Writer) error
	}{
		{"rows that do not fit", func(w *blocks.Writer) error { return w.Append(0, 2, make([]byte, 4)) }},
		{"an id twice", func(w *blocks.Writer) error {
			return errors.Join(w.Append(0, 1, make([]byte, 4)), w.Append(0, 1, make([]byte, 4)))
		}},
		{"begin twice", func(w *blocks.Writer) error { return errors.Join(w.Begin(0), w.Begin(1)) }},
		{"end without begin", func(w *blocks.Writer) error { return w.End(0) }},
		{"write without begin", func(w *blocks.Writer) error { _, err := w.Write(nil); return err }},
		{"close within an extent", func(w *blocks.Writer) error { _ = w.Begin(0); _, err := w.Close(); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			w, err := blocks.Create(fs, "f", h)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.do(w); err == nil {
				t.Fatal("no error")
			}
			if _, err := w.Close(); err == nil {
				t.Fatal("Close succeeded after an error")
			}
			if err := w.Abort(); err != nil {
				t.Fatal(err)
			}
			if _, err := fs.Stat("f"); err == nil {
				t.Fatal("the file is still there after Abort")
			}
		})
	}
}

func TestVerifyClean(t *testing.T) {
	fs := vfs.NewMem()
	h := blocks.Header{Kind: blocks.Topology, Partitions: 2}
	w, err := blocks.Create(fs, "t", h)
	if err != nil {
		t.Fatal(err)
	}
	sizes := []uint32{10, 70_000}
	enc := blocks.NewStripeEncoder(w, sizes)
	for j := range sizes {
		if err := errors.Join(w.Begin(uint64(j)), enc.Begin(blocks.PartitionID(j)),
			enc.Bucket(0, []uint64{blocks.EdgeKey(1, 2), blocks.EdgeKey(1, 3), blocks.EdgeKey(9, 0)}),
			enc.Bucket(1, []uint64{blocks.EdgeKey(0, 69_999)})); err != nil {
			t.Fatal(err)
		}
		edges, err := enc.End()
		if err := errors.Join(err, w.End(edges)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := blocks.Open(fs, "t")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var passed int64
	if err := f.Verify(context.Background(), func(n int64) { passed += n }); err != nil {
		t.Fatal(err)
	}
	if f.Rows() != 8 || passed != 2*blocks.Alignment {
		t.Fatalf("%d edges, %d bytes", f.Rows(), passed)
	}
}
