package native

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/buffer"
)

// TestRowsAreHandedOut: a batch's rows of every type of features are those that point reads hand out, bit by bit.
func TestRowsAreHandedOut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const count, dim = 50, 19
	for _, elem := range []blocks.ElemType{blocks.Float32, blocks.Float16, blocks.BFloat16, blocks.Int8, blocks.Uint8, blocks.Int64} {
		for _, scaled := range []bool{false, true} {
			f := buffer.Column{Name: "x", Type: elem, Dim: dim, Stride: dim*elem.Size() + 5, Data: make([]byte, count*(dim*elem.Size()+5))}
			for i := range f.Data {
				f.Data[i] = byte(r.Uint32()) &^ 0x40 // no exponent of infinities and NaN
			}
			if scaled {
				if elem != blocks.Int8 {
					continue
				}
				for range dim {
					f.Scale = append(f.Scale, r.Float32())
				}
			}
			width := dim * int(elementBytes(dtype(elem)))
			p := &packed{nodeRows: []uint32{49, 0, 7, 7, 31}}
			got, want := make([]byte, len(p.nodeRows)*width+64)[:len(p.nodeRows)*width], make([]byte, width)
			if err := p.rows(&f, got); err != nil {
				t.Fatal(err)
			}
			for i, row := range p.nodeRows {
				if err := handOut(elem, f.Scale, want, f.Data[int(row)*f.Stride:][:dim*elem.Size()]); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got[i*width:][:width], want) {
					t.Errorf("%v, scaled %t: row %d is %v, expected %v", elem, scaled, row, got[i*width:][:width], want)
				}
			}
		}
	}
}
