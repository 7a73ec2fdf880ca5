//go:build linux

package kernels

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what the process has used so far: on a shared machine a truer
// clock than the wall's.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Benchmarks of the inner loops; "gstore-lab bench ops" is the suite for people.

func BenchmarkGemm(b *testing.B) {
	for _, s := range []struct{ m, n, k int }{{100000, 256, 128}, {10000, 256, 256}, {10000, 47, 256}, {8000, 100, 200}, {200, 500, 100}} {
		for isa := ISAAVX2; isa <= Detect(); isa++ {
			for _, threads := range []int{1, 2} {
				for _, variant := range []string{"NN", "NT", "TN"} {
					b.Run(fmt.Sprintf("%s/%dx%dx%d/%v/%d", variant, s.m, s.n, s.k, isa, threads), func(b *testing.B) {
						r := newRand(1)
						p := NewPool(Options{Threads: threads, ISA: isa})
						x, w, y := Dense(randoms(r, s.m*s.k), s.m, s.k), Dense(randoms(r, s.k*s.n), s.k, s.n), Dense(randoms(r, s.m*s.n), s.m, s.n)
						run := func() { Gemm(p, GemmOptions{}, x, w, y) }
						switch variant {
						case "NT": // dX = dY·Wᵀ
							run = func() { Gemm(p, GemmOptions{TransB: true}, y, w, x) }
						case "TN": // dW = Xᵀ·dY
							run = func() { Gemm(p, GemmOptions{TransA: true}, x, y, w) }
						}
						run()
						start := cpuTime()
						for b.Loop() {
							run()
						}
						b.ReportMetric(2*float64(s.m)*float64(s.n)*float64(s.k)*float64(b.N)/(cpuTime()-start).Seconds()/1e9, "GFLOP/cpu-s")
					})
				}
			}
		}
	}
}

func BenchmarkAggregate(b *testing.B) {
	const nodes, dst, deg = 1_000_000, 20000, 15
	for _, dim := range []int{100, 128, 256} {
		for isa := ISAGeneric; isa <= Detect(); isa++ {
			for _, threads := range []int{1, 2} {
				for _, typ := range rowTypes[:2] {
					b.Run(fmt.Sprintf("%d/%v/%v/%d", dim, typ, isa, threads), func(b *testing.B) {
						r := newRand(1)
						p := NewPool(Options{Threads: threads, ISA: isa})
						table := Rows{Data: make([]byte, nodes*dim*typ.Size()), Count: nodes, Dim: dim, Stride: dim * typ.Size(), Type: typ}
						for i := range table.Data {
							table.Data[i] = 1
						}
						g := CSR{Indptr: []int32{0}}
						for range dst {
							for range deg {
								g.Indices = append(g.Indices, r.Int32N(nodes))
							}
							g.Indptr = append(g.Indptr, int32(len(g.Indices)))
						}
						out := Dense(make([]float32, dst*dim), dst, dim)
						start := cpuTime()
						for b.Loop() {
							Aggregate(p, AggregateOptions{Mean: true}, g, nil, table, out)
						}
						b.ReportMetric(float64(len(g.Indices)*table.Stride+4*dst*dim)*float64(b.N)/(cpuTime()-start).Seconds()/1e9, "GB/cpu-s")
					})
				}
			}
		}
	}
}

// BenchmarkAggregateBackward compares the backward pass along the transposed
// graph, transposition included, with one that adds to sources by destination, which needs
// none: the choice of docs/design/gpu.md, "gpu/host".
func BenchmarkAggregateBackward(b *testing.B) {
	for _, s := range []struct{ dst, src, deg int }{{1000, 11000, 15}, {11000, 40000, 10}, {2700, 2700, 60}} {
		for _, dim := range []int{128, 256} {
			r, p := newRand(1), NewPool(Options{Threads: 1})
			g := CSR{Indptr: []int32{0}}
			for range s.dst {
				for range s.deg {
					g.Indices = append(g.Indices, r.Int32N(int32(s.src)))
				}
				g.Indptr = append(g.Indptr, int32(len(g.Indices)))
			}
			t := CSR{Indptr: make([]int32, s.src+1), Indices: make([]int32, len(g.Indices))}
			from, to := Dense(make([]float32, s.dst*dim), s.dst, dim), Dense(make([]float32, s.src*dim), s.src, dim)
			shape := fmt.Sprintf("%d←%d×%d", s.src, s.dst, s.deg)
			b.Run(fmt.Sprintf("%s/%d/transposed", shape, dim), func(b *testing.B) {
				for b.Loop() {
					clear(to.Data)
					Transpose(p, g, t)
					AggregateBackward(p, true, g.Indptr, t, from, to)
				}
			})
			b.Run(fmt.Sprintf("%s/%d/scattered", shape, dim), func(b *testing.B) {
				for b.Loop() {
					clear(to.Data)
					for d := range s.dst {
						for e := g.Indptr[d]; e < g.Indptr[d+1]; e++ {
							p.kernels().axpy(to.Row(int(g.Indices[e])), from.Row(d), 1/float32(s.deg))
						}
					}
				}
			})
		}
	}
}
