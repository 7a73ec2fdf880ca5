package mini

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// The graph of docs/lab/limits.md, "Neighbour sampling": R-MAT (.57, .19, .19, .05),
// 2,000,000 nodes, 30,000,000 directed edges, ids scrambled, incoming lists.
const (
	rmatNodes = 2_000_000
	rmatEdges = 30_000_000
)

var rmat = sync.OnceValue(func() *buffer.Adjacency {
	const levels = 21
	edge := func(e uint64, perm *keyed.Permutation) (src, dst uint32) {
		r := keyed.New(1).Rand(e)
		for {
			var s, d uint64
			for range levels {
				x := r.Uint64() >> 32
				const a, b, c = 2448131359, 3264175145, 4080218931 // .57, .76, .95 of 2³²
				s, d = s<<1, d<<1
				switch {
				case x < a:
				case x < b:
					d |= 1
				case x < c:
					s |= 1
				default:
					s, d = s|1, d|1
				}
			}
			if s < rmatNodes && d < rmatNodes {
				return uint32(perm.At(s)), uint32(perm.At(d))
			}
		}
	}
	perm := keyed.NewPermutation(keyed.New(2), rmatNodes)
	src, dst := make([]uint32, rmatEdges), make([]uint32, rmatEdges)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for e := w * rmatEdges / 8; e < (w+1)*rmatEdges/8; e++ {
				src[e], dst[e] = edge(uint64(e), &perm)
			}
		})
	}
	wg.Wait()
	a := &buffer.Adjacency{Spans: make([]buffer.Span, rmatNodes), Indices: make([]uint32, rmatEdges)}
	for _, d := range dst {
		a.Spans[d].End++
	}
	var at int64
	for i := range a.Spans {
		n := a.Spans[i].End
		a.Spans[i] = buffer.Span{Begin: at, End: at}
		at += n
	}
	for e, d := range dst {
		a.Indices[a.Spans[d].End] = src[e]
		a.Spans[d].End++
	}
	return a
})

// BenchmarkSample is the figure of docs/benchmarks.md, million sampled edges a second on one core:
//
//	go test ./sampler/mini -run '^$' -bench Sample -benchtime 3s
func BenchmarkSample(b *testing.B) {
	g := Graph{In: rmat(), Keys: make([]uint32, rmatNodes)}
	names := keyed.NewPermutation(keyed.New(4), rmatNodes) // as in plan memory: ids that the input had
	for v := range g.Keys {
		g.Keys[v] = uint32(names.At(uint64(v)))
	}
	for _, bench := range []struct {
		name, sampler string
		fanouts       []int
	}{
		{"15,10,5", Uniform, []int{15, 10, 5}}, {"15,10", Uniform, []int{15, 10}}, {"all", Uniform, []int{All}},
		{"labor 15,10,5", Labor, []int{15, 10, 5}}, {"labor 15,10", Labor, []int{15, 10}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s, err := New(Config{Sampler: bench.sampler, Fanouts: bench.fanouts})
			if err != nil {
				b.Fatal(err)
			}
			perm := keyed.NewPermutation(keyed.New(3), rmatNodes)
			seeds := make([]uint32, 1000)
			var batch Batch
			edges, n := 0, 0
			one := func() {
				for j := range seeds {
					seeds[j] = uint32(perm.At(uint64(n*len(seeds)+j) % rmatNodes))
				}
				if err := s.Sample(Key{Batch: n}, g, seeds, &batch); err != nil {
					b.Fatal(err)
				}
				n++
			}
			for range 20 {
				one()
			}
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				one()
				edges += batch.SampledEdges()
			}
			b.ReportMetric(float64(edges)/(processorTime(b)-before).Seconds()/1e6, "Medges/CPU-s")
			b.ReportMetric(float64(edges)/b.Elapsed().Seconds()/1e6, "Medges/s")
			b.ReportMetric(float64(edges)/float64(b.N), "edges/op")
			b.ReportMetric(float64(len(batch.Input)), "inputs")
		})
	}
}

// processorTime is what the process used, which a neighbour's load disturbs less than the clock.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
