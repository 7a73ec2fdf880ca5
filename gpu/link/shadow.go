package link

import (
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// shadow is a copy of all rows of a table in 4 bits a number: a row's numbers are whole multiples, −7 to 7, of its scale, a
// seventh of its largest magnitude. With normal numbers an error's variance is a hundredth of theirs.
type shadow struct {
	dim    int
	scales []float32 // [nodes]
	codes  []byte    // [nodes × ⌈dim/2⌉]: two numbers a byte, the first in the low half, each with 8 added
	slab   *blockio.Slab
}

// shadowBytes is what a shadow takes.
func shadowBytes(nodes uint64, dim int) int64 {
	return blocks.AlignUp(int64(nodes) * int64(4+(dim+1)/2))
}

func newShadow(nodes uint64, dim int) (*shadow, error) {
	slab, err := blockio.AllocSlab(shadowBytes(nodes, dim), blockio.SlabOptions{Lazy: true})
	if err != nil {
		return nil, err
	}
	s := &shadow{dim: dim, slab: slab}
	if s.scales, err = blocks.View[float32](slab.Bytes()[:4*nodes]); err != nil {
		return nil, err
	}
	s.codes = slab.Bytes()[4*nodes:][:int(nodes)*((dim+1)/2)]
	return s, nil
}

// set copies rows [n×dim] of the nodes from first on.
func (s *shadow) set(first store.NodeID, rows []float32) {
	width := (s.dim + 1) / 2
	for v := int(first); len(rows) > 0; v, rows = v+1, rows[s.dim:] {
		row, codes := rows[:s.dim], s.codes[v*width:][:width]
		most := float32(0)
		for _, x := range row {
			most = max(most, x, -x)
		}
		s.scales[v] = most / 7
		if most == 0 {
			clear(codes)
			continue
		}
		by := 7 / float64(most)
		for i := range codes {
			code := 8 + int(math.RoundToEven(float64(row[2*i])*by))
			if 2*i+1 < s.dim {
				code |= (8 + int(math.RoundToEven(float64(row[2*i+1])*by))) << 4
			}
			codes[i] = byte(code)
		}
	}
}

// row writes node v's numbers to x [dim].
func (s *shadow) row(v uint32, x []float32) {
	width, scale := (s.dim+1)/2, s.scales[v]
	codes := s.codes[int(v)*width:][:width]
	for i, c := range codes[:s.dim/2] {
		x[2*i] = float32(int(c&15)-8) * scale
		x[2*i+1] = float32(int(c>>4)-8) * scale
	}
	if s.dim%2 == 1 {
		x[s.dim-1] = float32(int(codes[width-1]&15)-8) * scale
	}
}

func (s *shadow) close() error { return s.slab.Free() }
