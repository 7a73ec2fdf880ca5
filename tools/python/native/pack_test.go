package native

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
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

// TestIDs: nodes are found in partitions of any size, in any order, with gaps between them, empty ones among them.
func TestIDs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	p := &packed{}
	for _, sizes := range [][]uint32{{1}, {0, 3, 0, 5}, {10_000, 1, 0, 1, 70_000, 2, 4095, 4097}} {
		var mb buffer.MacroBatch
		base, first := uint32(0), store.NodeID(1<<33)
		var want []int64
		p.nodeRows = p.nodeRows[:0]
		for k, n := range sizes {
			mb.Partitions = append(mb.Partitions, buffer.ResidentPartition{ID: store.PartitionID(k), Base: base, Nodes: n, First: first})
			for i := range n {
				p.nodeRows, want = append(p.nodeRows, base+i), append(want, int64(first)+int64(i))
			}
			base, first = base+n+r.Uint32N(50), first+store.NodeID(n)+7
		}
		r.Shuffle(len(mb.Partitions), func(i, j int) { mb.Partitions[i], mb.Partitions[j] = mb.Partitions[j], mb.Partitions[i] })
		got := make([]int64, len(want))
		if p.ids(&mb, got); !slices.Equal(got, want) {
			t.Errorf("partitions of %v nodes: %d ids differ from those expected", sizes, len(got))
		}
	}
}
