package sorting

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkRadix sorts keys of 40 bits, as ingest has them.
func BenchmarkRadix(b *testing.B) {
	for _, n := range []int{3000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			keys, work, scratch := make([]uint64, n), make([]uint64, n), make([]uint64, n)
			for i := range keys {
				keys[i] = rng.Uint64() >> 24
			}
			for b.Loop() {
				copy(work, keys)
				Radix(work, scratch, 0, 40)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
		})
	}
}
