package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Bounds of a page that is believed. The decoder allocates what a page's header
// says before it reads the page, and holds one page of each column; writers make
// pages of 1 MiB or less, DuckDB of up to 100 MB.
const (
	pageBytesMax       = 128 << 20
	pageValuesMax      = 1 << 24
	pageHeaderMax      = 64 << 10
	pageHeaderItemsMax = 1 << 10 // elements of lists: there are few
	// pageValueBytes is what decoding takes for each value beside its bytes: levels, an index of a dictionary.
	pageValueBytes = 10
)

// pagesBytesMax bounds the pages that are held at once, one of each column of a row group: a
// small file may be packed well, but does not say of itself that it takes gigabytes.
func pagesBytesMax(file int64) int64 { return 64<<20 + 1<<10*min(file, 1<<40) }

// checkPages walks the page headers of a column of a row group, and refuses
// sizes that are not those of a page inside the column. Only the headers are read. It
// returns what the largest page takes, in bytes.
func checkPages(f *parquet.File, group int, leaf parquetLeaf, list bool) (most int64, err error) {
	meta := f.Metadata().RowGroups[group].Columns[leaf.index].MetaData
	at := meta.DataPageOffset
	if d := meta.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	end := at + meta.TotalCompressedSize
	if at < 0 || meta.TotalCompressedSize < 0 || end < at || end > f.Size() {
		return 0, fmt.Errorf("bytes %d to %d of a file of %d", at, end, f.Size())
	}
	var protocol thrift.CompactProtocol
	buf := make([]byte, 4096)
	for page := 0; at < end; page++ {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		w := thriftWalk{b: buf[:n], items: pageHeaderItemsMax}
		err = w.structure(0)
		if err != nil && n == len(buf) && len(buf) < pageHeaderMax { // statistics make a header long
			buf = make([]byte, 4*len(buf))
			page--
			continue
		}
		var h format.PageHeader
		r := protocol.NewReaderFromBytes(buf[:n-len(w.b)])
		if err == nil {
			err = thrift.NewDecoder(r).Decode(&h)
		}
		if err != nil {
			return 0, fmt.Errorf("header of page %d: %w", page, err)
		}
		data := at + int64(n-len(w.b))
		at = data + int64(h.CompressedPageSize)
		values := max(h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues)
		switch {
		case h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 || at > end:
			return 0, fmt.Errorf("page %d of %d bytes, expected one that ends before byte %d", page, h.CompressedPageSize, end)
		case h.UncompressedPageSize > pageBytesMax || h.CompressedPageSize > pageBytesMax || values > pageValuesMax:
			return 0, fmt.Errorf("page %d of %d bytes and %d values, expected at most %d and %d", page, h.UncompressedPageSize, values, pageBytesMax, pageValuesMax)
		}
		// Of a page of version 2 the levels are not compressed, or nothing is.
		levels, packed := int64(0), true
		if h.Type == format.DataPageV2 {
			v2 := h.DataPageHeaderV2.V
			levels, packed = int64(v2.RepetitionLevelsByteLength)+int64(v2.DefinitionLevelsByteLength), v2.IsCompressed.V || !v2.IsCompressed.Valid
			if v2.RepetitionLevelsByteLength < 0 || v2.DefinitionLevelsByteLength < 0 || levels > int64(min(h.CompressedPageSize, h.UncompressedPageSize)) {
				return 0, fmt.Errorf("page %d of %d bytes, %d of them levels", page, h.CompressedPageSize, levels)
			}
		}
		unpacks, decodes := int64(0), int64(0)
		body := bytesAt{bytes.NewReader(w.b[min(levels, int64(len(w.b))):]), f, data + levels}
		if packed && values > 0 {
			unpacks, err = checkPacked(meta.Codec, body, int64(h.CompressedPageSize)-levels, int64(h.UncompressedPageSize)-levels)
			if err != nil {
				return 0, fmt.Errorf("page %d: %w", page, err)
			}
		}
		encoding := h.DataPageHeader.V.Encoding
		if h.Type == format.DataPageV2 {
			encoding = h.DataPageHeaderV2.V.Encoding
		}
		if values > 0 && h.Type != format.DictionaryPage && isDelta(encoding) {
			d := deltaPage{encoding: encoding, packed: int64(h.CompressedPageSize) - levels, unpacked: int64(h.UncompressedPageSize) - levels, values: int(values)}
			if packed {
				d.codec = meta.Codec
			}
			if h.Type != format.DataPageV2 {
				d.repeats, d.nulls = list, leaf.level > 0
			}
			if decodes, err = d.check(body); err != nil {
				return 0, fmt.Errorf("page %d: %w", page, err)
			}
		}
		most = max(most, max(unpacks, int64(h.UncompressedPageSize))+int64(h.CompressedPageSize)+decodes+pageValueBytes*int64(max(values, 0)))
	}
	return most, nil
}
