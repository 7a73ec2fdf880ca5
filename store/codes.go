package store

import (
	"encoding/binary"
	"math"

	"github.com/gstore/gstore/blocks"
)

// Coded reports whether file f of the column holds numbers of [ColumnInfo.Values], a byte a row, instead of the values.
func (c *ColumnInfo) Coded(f *blocks.File) bool {
	h := f.Header()
	return c.holdsCodes(&h)
}

func (c *ColumnInfo) holdsCodes(h *blocks.Header) bool {
	return c.Values != nil && h.Elem == blocks.Uint8 && h.Dim == 1
}

// decode replaces the codes at the end of dst by the values of all of its rows: dst has room for them. Each value is written behind or
// at its code, never before one that is still to be read.
func (c *ColumnInfo) decode(f *blocks.File, e blocks.Extent, dst, codes []byte) error {
	for k, code := range codes {
		if int(code) >= len(c.Values) {
			return mismatch(f, headerOf(f).ExtentName(e.ID), "code %d in a column of %d values", code, len(c.Values))
		}
		binary.LittleEndian.PutUint32(dst[4*k:], math.Float32bits(c.Values[code]))
	}
	return nil
}
