package history

import (
	"encoding/binary"
	"math"

	"github.com/gstore/gstore/blocks"
)

// Row decodes the row in a slot of the window.
func (h *Layer) Row(slot int, to []float32) {
	b := h.Window.slab.Bytes()[slot*h.RowBytes():]
	for j := range to {
		switch h.Elem {
		case blocks.Float16:
			to[j] = blocks.Float16Value(binary.LittleEndian.Uint16(b[2*j:]))
		case blocks.BFloat16:
			to[j] = blocks.BFloat16Value(binary.LittleEndian.Uint16(b[2*j:]))
		default:
			to[j] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*j:]))
		}
	}
}
