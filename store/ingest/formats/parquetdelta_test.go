package formats

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gstore/gstore/store/ingest"
)

// TestParquetDelta: delta encoded columns are read like plain ones, of either version of pages, packed or not.
func TestParquetDelta(t *testing.T) {
	type plain struct {
		Source int64   `parquet:"source"`
		Target int64   `parquet:"target"`
		N      int32   `parquet:"n,optional"`
		L      []int32 `parquet:"l,list"`
	}
	type encoded struct {
		Source int64   `parquet:"source,delta"`
		Target int64   `parquet:"target,delta"`
		N      int32   `parquet:"n,optional,delta"`
		L      []int32 `parquet:"l,list" parquet-element:",delta"`
	}
	type named struct {
		Source string `parquet:"source,delta"`
		Target string `parquet:"target,optional,delta"`
	}
	var plains []plain
	var rows []encoded
	var names []named
	for i := range 3000 {
		p := plain{int64(i), int64(i * i % 3000), int32(1 + i%7), []int32{int32(i), 2}}
		plains, rows = append(plains, p), append(rows, encoded(p))
		names = append(names, named{fmt.Sprintf("node-%05d", i), fmt.Sprintf("node-%05d", i*i%3000)})
	}
	open := func(b []byte) string {
		t.Helper()
		got, err := contents(t, memFS(t, map[string][]byte{"e.parquet": b}), "e.parquet")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := open(deltaFile(t, plains))
	for _, version := range []int{1, 2} {
		for _, codec := range []parquet.WriterOption{parquet.Compression(&parquet.Uncompressed), parquet.Compression(&parquet.Snappy), parquet.Compression(&parquet.Zstd), parquet.Compression(&parquet.Gzip)} {
			if got := open(deltaFile(t, rows, parquet.DataPageVersion(version), codec)); got != want {
				t.Errorf("version %d: other contents than plain", version)
			}
			if err := openDrain(t, memFS(t, map[string][]byte{"e.parquet": deltaFile(t, names, parquet.DataPageVersion(version), codec)}), "e.parquet", Options{}); err != nil {
				t.Errorf("version %d, names: %v", version, err)
			}
		}
	}
}

func deltaFile[T any](t *testing.T, rows []T, o ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, o...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestParquetDeltaBombs: a page of a few bytes whose strings repeat a long one, or that promises more numbers than it has, is
// refused before it is decoded.
func TestParquetDeltaBombs(t *testing.T) {
	const n, long = 60_000, 1 << 20
	type row struct {
		Source string `parquet:"source,delta"`
		Target string `parquet:"target"`
	}
	lengths := func(first int32, rest int32) []byte {
		x := make([]int32, n)
		for i := range x {
			x[i] = rest
		}
		x[0] = first
		b, err := new(delta.BinaryPackedEncoding).EncodeInt32(nil, x)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	repeated := append(append(lengths(0, long), lengths(long, 0)...), bytes.Repeat([]byte("a"), long)...) // 60 GB
	var many []byte
	for _, u := range []uint64{128, 4, 1<<31 - 1} {
		many = binary.AppendUvarint(many, u)
	}
	for _, c := range []struct {
		name, want string
		encoding   format.Encoding
		page       []byte
	}{
		{"strings that repeat", "strings of 62913511424 bytes or more", format.DeltaByteArray, repeated},
		{"2^31-1 beginnings", "2147483647 delta encoded values in a page of 60000", format.DeltaByteArray, append(many, 0)},
		{"2^31-1 strings", "2147483647 delta encoded values in a page of 60000", format.DeltaLengthByteArray, append(many, 0)},
	} {
		f, err := parquet.OpenFile(bytes.NewReader(deltaFile(t, []row{{"a", "b"}})), int64(len(deltaFile(t, []row{{"a", "b"}}))))
		if err != nil {
			t.Fatal(err)
		}
		// The file again, with the page in the place of its first column's.
		var protocol thrift.CompactProtocol
		header, err := thrift.Marshal(&protocol, &format.PageHeader{Type: format.DataPage, UncompressedPageSize: int32(len(c.page)), CompressedPageSize: int32(len(c.page)),
			DataPageHeader: thrift.New(format.DataPageHeader{NumValues: n, Encoding: c.encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})})
		if err != nil {
			t.Fatal(err)
		}
		b := append(append([]byte("PAR1"), header...), c.page...)
		meta := *f.Metadata()
		meta.RowGroups[0].NumRows, meta.NumRows = n, n
		m := &meta.RowGroups[0].Columns[0].MetaData
		m.DataPageOffset, m.DictionaryPageOffset, m.NumValues, m.Codec = 4, 0, n, format.Uncompressed
		m.TotalCompressedSize, m.TotalUncompressedSize = int64(len(b)-4), int64(len(b)-4)
		meta.RowGroups[0].Columns[0].OffsetIndexOffset, meta.RowGroups[0].Columns[0].ColumnIndexOffset = 0, 0
		footer, err := thrift.Marshal(&protocol, &meta)
		if err != nil {
			t.Fatal(err)
		}
		b = binary.LittleEndian.AppendUint32(append(b, footer...), uint32(len(footer)))
		before := allocated()
		err = openDrain(t, memFS(t, map[string][]byte{"e.parquet": append(b, "PAR1"...)}), "e.parquet", Options{})
		if !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.want)
		}
		if got := allocated() - before; got > parquetAllocMax {
			t.Errorf("%s: %d bytes allocated for a file of %d", c.name, got, len(b))
		}
	}
}
