package formats

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
	pageBytesMax  = 128 << 20
	pageValuesMax = 1 << 24
	pageHeaderMax = 64 << 10
)

// checkPages walks the page headers of a column of a row group, and refuses
// sizes that are not those of a page inside the column. Only the headers are read.
func checkPages(f *parquet.File, group, leaf int) error {
	meta := f.Metadata().RowGroups[group].Columns[leaf].MetaData
	at := meta.DataPageOffset
	if d := meta.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	end := at + meta.TotalCompressedSize
	if at < 0 || meta.TotalCompressedSize < 0 || end < at || end > f.Size() {
		return fmt.Errorf("bytes %d to %d of a file of %d", at, end, f.Size())
	}
	var protocol thrift.CompactProtocol
	buf := make([]byte, 4096)
	for page := 0; at < end; page++ {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		r := bytes.NewReader(buf[:n])
		var h format.PageHeader
		if err := thrift.NewDecoder(protocol.NewReader(r)).Decode(&h); err != nil {
			if r.Len() == 0 && n == len(buf) && len(buf) < pageHeaderMax { // statistics make a header long
				buf = make([]byte, 4*len(buf))
				page--
				continue
			}
			return fmt.Errorf("header of page %d: %w", page, err)
		}
		at += int64(n-r.Len()) + int64(h.CompressedPageSize)
		values := max(h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues)
		switch {
		case h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 || at > end:
			return fmt.Errorf("page %d of %d bytes, expected one that ends before byte %d", page, h.CompressedPageSize, end)
		case h.UncompressedPageSize > pageBytesMax || h.CompressedPageSize > pageBytesMax || values > pageValuesMax:
			return fmt.Errorf("page %d of %d bytes and %d values, expected at most %d and %d", page, h.UncompressedPageSize, values, pageBytesMax, pageValuesMax)
		}
	}
	return nil
}
