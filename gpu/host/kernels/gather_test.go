package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
)

var rowTypes = []blocks.ElemType{blocks.Float32, blocks.Float16, blocks.BFloat16, blocks.Int8}

// randomRows makes a table of random bits (NaN and Inf among them if special)
// and the values that they stand for.
func randomRows(r *rand.Rand, typ blocks.ElemType, count, dim, gap int, special bool) (Rows, [][]float32) {
	stride := dim*typ.Size() + gap
	t := Rows{Data: make([]byte, count*stride), Count: count, Dim: dim, Stride: stride, Type: typ}
	scale := func(j int) float32 { return 1 }
	if typ != blocks.Float32 {
		scale = func(j int) float32 { return .125 * float32(1+j%3) }
		for j := range dim {
			t.Scales = append(t.Scales, scale(j))
		}
	}
	values := make([][]float32, count)
	for i := range count {
		for j := range dim {
			at := i*stride + j*typ.Size()
			var v float32
			switch typ {
			case blocks.Float32:
				v = float32(r.NormFloat64())
				b := math.Float32bits(v)
				t.Data[at], t.Data[at+1], t.Data[at+2], t.Data[at+3] = byte(b), byte(b>>8), byte(b>>16), byte(b>>24)
			case blocks.Float16:
				b := uint16(r.Uint32())
				if !special && b>>10&0x1f > 20 {
					b &= 0xc3ff
				}
				t.Data[at], t.Data[at+1] = byte(b), byte(b>>8)
				v = scale(j) * float16ToFloat32(b)
			case blocks.BFloat16:
				b := uint16(math.Float32bits(float32(r.NormFloat64())) >> 16)
				t.Data[at], t.Data[at+1] = byte(b), byte(b>>8)
				v = scale(j) * math.Float32frombits(uint32(b)<<16)
			case blocks.Int8:
				b := byte(r.Uint32())
				t.Data[at] = b
				v = scale(j) * float32(int8(b))
			}
			values[i] = append(values[i], v)
		}
	}
	return t, values
}

func TestGatherRows(t *testing.T) {
	for _, typ := range rowTypes {
		for _, dim := range []int{0, 1, 7, 8, 15, 16, 17, 33, 100, 128, 300} {
			for _, n := range []int{0, 1, 5, 700} {
				r := newRand(uint64(dim))
				table, values := randomRows(r, typ, 50, dim, dim%3, true)
				index := make([]uint32, n)
				for i := range index {
					index[i] = r.Uint32N(50)
				}
				dst := strided(r, n, dim, 2)
				for _, p := range pools() {
					got := clone(dst)
					GatherRows(p, got, table, index)
					checkGaps(t, got)
					for i, k := range index {
						checkBits(t, fmt.Sprintf("%s %v dim %d row %d", p.name(), typ, dim, i), got.Row(i), values[k])
					}
				}
			}
		}
	}
	table, _ := randomRows(newRand(1), blocks.Float32, 5, 4, 0, false)
	mustPanic(t, "index", func() { GatherRows(nil, Dense(make([]float32, 8), 2, 4), table, []uint32{1, 5}) })
	mustPanic(t, "shape", func() { GatherRows(nil, Dense(make([]float32, 8), 2, 4), table, []uint32{1}) })
}

func TestFloat16(t *testing.T) {
	for _, c := range []struct {
		bits uint16
		want float64
	}{
		{0, 0}, {0x8000, math.Copysign(0, -1)}, {1, 0x1p-24}, {0x3ff, 0x3ffp-24}, {0x400, 0x1p-14}, {0x3c00, 1},
		{0xc000, -2}, {0x7bff, 65504}, {0x7c00, math.Inf(1)}, {0xfc00, math.Inf(-1)}, {0x7c01, math.NaN()},
	} {
		checkBits(t, fmt.Sprintf("%04x", c.bits), []float32{float16ToFloat32(c.bits)}, []float32{float32(c.want)})
	}
}

// randomGraph makes a block of dst destinations with up to deg edges, some isolated.
func randomGraph(r *rand.Rand, dst, src, deg int) CSR {
	g := CSR{Indptr: []int32{0}}
	for range dst {
		if src > 0 && r.IntN(5) > 0 {
			for range r.IntN(deg + 1) {
				g.Indices = append(g.Indices, r.Int32N(int32(src)))
			}
		}
		g.Indptr = append(g.Indptr, int32(len(g.Indices)))
	}
	return g
}

func TestAggregate(t *testing.T) {
	race.SkipArithmetic(t)
	for _, typ := range rowTypes {
		for _, dim := range []int{0, 1, 8, 15, 17, 64, 100, 128, 256, 400, 772} {
			for _, dst := range []int{0, 1, 35} {
				r := newRand(uint64(dim + dst))
				table, values := randomRows(r, typ, 300, dim, dim%3, false)
				index := make([]uint32, 200)
				for i := range index {
					index[i] = r.Uint32N(300)
				}
				g := randomGraph(r, dst, 200, 20)
				weights := randoms(r, 2*len(g.Indices))
				before := strided(r, dst, dim, 1)
				for _, o := range []AggregateOptions{{}, {Mean: true}, {Accumulate: true}, {Weights: weights, WeightStride: 2}, {Weights: weights, Accumulate: true}} {
					for _, idx := range [][]uint32{nil, index} {
						want := make([]float64, 0, dst*dim)
						for d := range dst {
							row := make([]float64, dim)
							for e := g.Indptr[d]; e < g.Indptr[d+1]; e++ {
								s := uint32(g.Indices[e])
								if idx != nil {
									s = idx[s]
								}
								w := 1.0
								if o.Mean {
									w = 1 / float64(g.Degree(d))
								} else if o.Weights != nil {
									w = float64(weights[int(e)*max(o.WeightStride, 1)])
								}
								for j, v := range values[s] {
									row[j] += w * float64(v)
								}
							}
							if o.Accumulate {
								for j, v := range before.Row(d) {
									row[j] += float64(v)
								}
							}
							want = append(want, row...)
						}
						var first []float32
						for _, p := range pools() {
							got := clone(before)
							Aggregate(p, o, g, idx, table, got)
							what := fmt.Sprintf("%s %v dim %d mean %v accumulate %v weights %v index %v", p.name(), typ, dim, o.Mean, o.Accumulate, o.Weights != nil, idx != nil)
							checkNear(t, what, compact(got), want, 2e-4)
							checkGaps(t, got)
							if first == nil {
								first = compact(got)
							}
							checkBits(t, what, compact(got), first)
						}
					}
				}
			}
		}
	}
	table, _ := randomRows(newRand(1), blocks.Float32, 5, 4, 0, false)
	out := Dense(make([]float32, 8), 2, 4)
	mustPanic(t, "source", func() { Aggregate(nil, AggregateOptions{}, CSR{[]int32{0, 1, 2}, []int32{0, 5}}, nil, table, out) })
	mustPanic(t, "negative source", func() { Aggregate(nil, AggregateOptions{}, CSR{[]int32{0, 1, 2}, []int32{0, -1}}, nil, table, out) })
	mustPanic(t, "index", func() {
		Aggregate(nil, AggregateOptions{}, CSR{[]int32{0, 1, 2}, []int32{0, 1}}, []uint32{1, 9}, table, out)
	})
	mustPanic(t, "indptr falls", func() { Aggregate(nil, AggregateOptions{}, CSR{[]int32{0, 2, 1}, []int32{0, 1}}, nil, table, out) })
	mustPanic(t, "mean of more than these", func() {
		Aggregate(nil, AggregateOptions{Mean: true, Accumulate: true}, CSR{[]int32{0, 1, 2}, []int32{0, 1}}, nil, table, out)
	})
	mustPanic(t, "indptr end", func() { Aggregate(nil, AggregateOptions{}, CSR{[]int32{0, 2, 3}, []int32{0, 1}}, nil, table, out) })
}

// TestAggregatePieces: edges that are added up in several calls give the bits of one call.
func TestAggregatePieces(t *testing.T) {
	for _, typ := range rowTypes {
		for _, dim := range []int{1, 8, 17, 100, 400} {
			r := newRand(uint64(dim))
			table, _ := randomRows(r, typ, 300, dim, dim%3, false)
			g := randomGraph(r, 35, 300, 20)
			weights := randoms(r, len(g.Indices))
			before := strided(r, 35, dim, 1)
			for _, w := range [][]float32{nil, weights} {
				for _, p := range pools() {
					whole, pieces := clone(before), clone(before)
					Aggregate(p, AggregateOptions{Accumulate: true, Weights: w}, g, nil, table, whole)
					for k := range 3 {
						part, own := CSR{Indptr: []int32{0}}, []float32(nil)
						for d := range g.NumDst() {
							lo, deg := int(g.Indptr[d]), g.Degree(d)
							part.Indices = append(part.Indices, g.Indices[lo+deg*k/3:lo+deg*(k+1)/3]...)
							part.Indptr = append(part.Indptr, int32(len(part.Indices)))
							if w != nil {
								own = append(own, w[lo+deg*k/3:lo+deg*(k+1)/3]...)
							}
						}
						Aggregate(p, AggregateOptions{Accumulate: true, Weights: own}, part, nil, table, pieces)
					}
					checkBits(t, fmt.Sprintf("%s %v dim %d weights %v", p.name(), typ, dim, w != nil), compact(pieces), compact(whole))
				}
			}
		}
	}
}

func TestAggregateNaN(t *testing.T) {
	for _, p := range pools() {
		x := Dense(make([]float32, 3*20), 3, 20)
		x.Data[20+4] = float32(math.NaN())
		x.Data[40+5] = float32(math.Inf(-1))
		out := Dense(make([]float32, 2*20), 2, 20)
		Aggregate(p, AggregateOptions{Mean: true}, CSR{[]int32{0, 2, 4}, []int32{0, 1, 0, 2}}, nil, x.AsRows(), out)
		for i, v := range out.Data {
			switch {
			case i == 4 && v == v, i == 25 && !math.IsInf(float64(v), -1), i != 4 && i != 25 && v != 0:
				t.Fatalf("%s: element %d is %v", p.name(), i, v)
			}
		}
	}
}

func TestTransposeAndBackward(t *testing.T) {
	for _, size := range []struct{ dst, src, deg, dim int }{{0, 0, 0, 3}, {0, 5, 3, 3}, {4, 1, 3, 0}, {1, 1, 9, 17}, {90, 150, 12, 40}, {200, 30, 60, 128}} {
		r := newRand(uint64(size.dst))
		g := randomGraph(r, size.dst, size.src, size.deg)
		dOut, before := strided(r, size.dst, size.dim, 3), strided(r, size.src, size.dim, 1)
		for _, p := range pools() {
			rev := CSR{Indptr: make([]int32, size.src+1), Indices: make([]int32, len(g.Indices))}
			edges := make([]int32, len(g.Indices))
			TransposeEdges(p, g, rev, edges)
			for s := range size.src {
				last := int32(-1)
				for k := rev.Indptr[s]; k < rev.Indptr[s+1]; k++ {
					e, d := edges[k], rev.Indices[k]
					if e <= last || g.Indices[e] != int32(s) || e < g.Indptr[d] || e >= g.Indptr[d+1] {
						t.Fatalf("%s: entry %d of source %d is edge %d of destination %d, behind edge %d", p.name(), k, s, e, d, last)
					}
					last = e
				}
			}
			if int(rev.Indptr[size.src]) != len(g.Indices) {
				t.Fatalf("%d edges became %d", len(g.Indices), rev.Indptr[size.src])
			}
			for _, mean := range []bool{false, true} {
				want := make([]float64, size.src*size.dim)
				for i, v := range compact(before) {
					want[i] = float64(v)
				}
				for d := range size.dst {
					for _, s := range g.Indices[g.Indptr[d]:g.Indptr[d+1]] {
						for j, v := range dOut.Row(d) {
							if mean {
								v /= float32(g.Degree(d))
							}
							want[int(s)*size.dim+j] += float64(v)
						}
					}
				}
				got := clone(before)
				AggregateBackward(p, mean, g.Indptr, rev, dOut, got)
				checkNear(t, p.name(), compact(got), want, 1e-4)
				checkGaps(t, got)
				reference := clone(before)
				AggregateBackward(NewPool(Options{Threads: 1, ISA: ISAGeneric}), mean, g.Indptr, rev, dOut, reference)
				checkBits(t, p.name(), compact(got), compact(reference))
			}
		}
	}
	mustPanic(t, "source", func() {
		Transpose(nil, CSR{[]int32{0, 1}, []int32{3}}, CSR{make([]int32, 4), make([]int32, 1)})
	})
}
