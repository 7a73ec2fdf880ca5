package gputest

import (
	"errors"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
)

// randomGraph has isolated destinations, one of very high degree and edges to one source.
func (b *bench) randomGraph(dst, src int) (gpu.Graph, []int32, []int32) {
	indptr, indices := []int32{0}, []int32{}
	for d := range dst {
		n := int(b.r.Below(6))
		switch {
		case src == 0 || d%4 == 1:
			n = 0
		case d == 2:
			n = 1500
		}
		for range n {
			indices = append(indices, int32(b.r.Below(uint64(src))))
		}
		indptr = append(indptr, int32(len(indices)))
	}
	return gpu.Graph{NumDst: dst, NumSrc: src, Indptr: b.a.Int32s(b.q, indptr), Indices: b.a.Int32s(b.q, indices)}, indptr, indices
}

func aggregate(b *bench) {
	for _, s := range [][3]int{{1, 1, 1}, {9, 20, 7}, {40, 60, 129}, {5, 0, 8}, {0, 4, 8}, {6, 6, 64}} {
		dst, src, dim := s[0], s[1], s[2]
		for _, reduce := range []gpu.Reduce{gpu.Sum, gpu.Mean} {
			g, indptr, indices := b.randomGraph(dst, src)
			table, x := b.matrix(src+3, dim, 2)
			index := make([]uint32, src)
			for i := range index {
				index[i] = uint32(b.r.Below(uint64(src + 3)))
			}
			out, _ := b.matrix(dst, dim, 1)
			want, back := make([]float64, dst*dim), make([]float64, src*dim)
			grad, gv := b.matrix(dst, dim, 3)
			for d := range dst {
				w := 1.0
				if n := indptr[d+1] - indptr[d]; reduce == gpu.Mean && n > 0 {
					w /= float64(n)
				}
				for _, u := range indices[indptr[d]:indptr[d+1]] {
					for j := range dim {
						want[d*dim+j] += w * float64(x[int(index[u])*dim+j])
						back[int(u)*dim+j] += w * float64(gv[d*dim+j])
					}
				}
			}
			what := fmt.Sprintf("%v of %d from %d, %d columns", reduce, dst, src, dim)
			b.q.Aggregate(gpu.AggregateOptions{Reduce: reduce, Index: b.a.Uint32s(b.q, index)}, g, table, out)
			b.near(what, b.read(out), want, 1e-3)
			dSrc, start := b.matrix(src, dim, 1)
			for i := range back {
				back[i] += float64(start[i])
			}
			b.q.Transpose(b.a, &g)
			b.q.AggregateBackward(reduce, g, grad, dSrc)
			b.near(what+", backward", b.read(dSrc), back, 1e-3)
		}
	}
}

// pieces checks that edges which come in several calls give the bits of one: with weights, and from a scaled table.
func pieces(b *bench) {
	const dst, src, dim, calls = 40, 60, 129, 3
	g, indptr, indices := b.randomGraph(dst, src)
	plain, _ := b.matrix(src, dim, 2)
	raw, factors := b.a.Vector(b.q, src*dim, blocks.Int8), b.a.Vector(b.q, dim, blocks.Float32)
	ints, scales := make([]int8, src*dim), make([]float32, dim)
	for i := range ints {
		ints[i] = int8(b.r.Below(256))
	}
	for j := range scales {
		scales[j] = float32(b.r.Normal())
	}
	b.q.Upload(raw, bytesOf(ints))
	b.q.Upload(factors, bytesOf(scales))
	scaled := gpu.Tensor{Mem: raw.Mem, Offset: raw.Offset, Rows: src, Cols: dim, Stride: dim, Elem: blocks.Int8, Scale: factors.Mem, ScaleOffset: factors.Offset}
	weights, wv := b.matrix(len(indices), 1, 0)
	start, _ := b.matrix(dst, dim, 0)
	whole, cut := b.a.Matrix(b.q, dst, dim), b.a.Matrix(b.q, dst, dim)
	for _, table := range []gpu.Tensor{plain, scaled} {
		for _, weighted := range []bool{false, true} {
			b.q.Copy(whole, start)
			b.q.Copy(cut, start)
			o := gpu.AggregateOptions{Accumulate: true}
			if weighted {
				o.Weights = weights
			}
			b.q.Aggregate(o, g, table, whole)
			for k := range calls {
				ends, from, w := []int32{0}, []int32(nil), []float32(nil)
				for d := range dst {
					lo, n := int(indptr[d]), int(indptr[d+1]-indptr[d])
					from = append(from, indices[lo+n*k/calls:lo+n*(k+1)/calls]...)
					w = append(w, wv[lo+n*k/calls:lo+n*(k+1)/calls]...)
					ends = append(ends, int32(len(from)))
				}
				o := gpu.AggregateOptions{Accumulate: true}
				if weighted {
					o.Weights = b.a.Matrix(b.q, len(w), 1)
					b.q.Upload(o.Weights, bytesOf(w))
				}
				b.q.Aggregate(o, gpu.Graph{NumDst: dst, NumSrc: src, Indptr: b.a.Int32s(b.q, ends), Indices: b.a.Int32s(b.q, from)}, table, cut)
			}
			got, want := b.read(cut), b.read(whole)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					b.Fatalf("%v, weighted %v: value %d is %v in %d calls, %v in one", table.Elem, weighted, i, got[i], calls, want[i])
				}
			}
		}
	}
}

func gather(b *bench) {
	bits := []uint16{0x3c00, 0xc000, 0x3555, 0x7c00, 0x0001, 0x8000}
	raw := b.a.Vector(b.q, len(bits), blocks.Float16)
	b.q.Upload(raw, bytesOf(bits))
	table := raw
	table.Rows, table.Cols, table.Stride = 3, 2, 2
	out, _ := b.matrix(4, 2, 1)
	b.q.Gather(out, table, b.a.Uint32s(b.q, []uint32{2, 0, 1, 0}))
	got := b.read(out)
	for i, w := range []float32{0x1p-24, 0, 1, -2, 0.33325195, float32(math.Inf(1)), 1, -2} {
		if got[i] != w {
			b.Errorf("float16 value %d is %v, expected %v", i, got[i], w)
		}
	}
	b.q.Gather(out, table, b.a.Uint32s(b.q, []uint32{2, 0, 3, 0}))
	if err := b.q.Sync(b.Context()); err == nil {
		b.Error("an index outside the table is no error")
	}
}

// copyRows copies rows of every type, width and alignment between tables with gaps: bits stay, other rows too; bad indices and
// types are refused.
func copyRows(b *bench) {
	for _, elem := range []blocks.ElemType{blocks.Float32, blocks.Float16, blocks.BFloat16, blocks.Int8} {
		for _, cols := range []int{1, 3, 4, 33, 64, 129} {
			const rows = 9
			size := elem.Size()
			make1 := func(gap, first int) (gpu.Tensor, []byte) {
				x := make([]byte, (first+rows*(cols+gap))*size)
				for i := range x {
					x[i] = byte(b.r.Below(256))
				}
				v := b.a.Vector(b.q, len(x)/size, elem)
				b.q.Upload(v, x)
				t := v
				t.Offset += int64(first * size)
				t.Rows, t.Cols, t.Stride = rows, cols, cols+gap
				return t, x
			}
			dst, want := make1(4, 0)
			src, from := make1(1, 2)
			whole := dst
			whole.Rows, whole.Cols, whole.Stride = 1, rows*(cols+4), rows*(cols+4)
			to, rowsOf := []uint32{8, 0, 3}, []uint32{1, 1, 7}
			b.q.CopyRows(dst, b.a.Uint32s(b.q, to), src, b.a.Uint32s(b.q, rowsOf))
			for i := range to {
				copy(want[int(to[i])*(cols+4)*size:][:cols*size], from[(2+int(rowsOf[i])*(cols+1))*size:])
			}
			got := make([]byte, len(want))
			b.q.Download(got, whole)
			if err := b.q.Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
			if string(got) != string(want) {
				b.Errorf("%d columns of %v: other bytes than expected", cols, elem)
			}
		}
	}
	x, _ := b.matrix(4, 3, 0)
	y, _ := b.matrix(5, 3, 0)
	for _, at := range [][2]uint32{{4, 0}, {0, 5}} {
		b.q.CopyRows(x, b.a.Uint32s(b.q, []uint32{0, at[0]}), y, b.a.Uint32s(b.q, []uint32{0, at[1]}))
		if err := b.q.Sync(b.Context()); err == nil {
			b.Errorf("row %d of 5 to row %d of 4 is no error", at[1], at[0])
		}
	}
	z, _ := b.matrix(4, 2, 0)
	b.q.CopyRows(z, b.a.Uint32s(b.q, []uint32{0}), y, b.a.Uint32s(b.q, []uint32{0}))
	if err := b.q.Sync(b.Context()); !errors.Is(err, gpu.ErrShape) {
		b.Errorf("rows of other widths: %v", err)
	}
}
