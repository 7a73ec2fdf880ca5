package cache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// cpuNow is the processor time that the process has used, in nanoseconds: wall time on a shared machine is others' too.
func cpuNow() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// skewed makes batches of distinct rows, of which some come much more often than others, as sampled neighbours do.
func skewed(rows, size, count int) [][]uint32 {
	rng := rand.New(rand.NewPCG(3, 4))
	place := rng.Perm(rows) // hubs lie anywhere
	seen := make([]int, rows)
	batches := make([][]uint32, count)
	for i := range batches {
		for len(batches[i]) < size {
			u := rng.Float64()
			r := place[int(u*u*u*float64(rows))]
			if seen[r] != i+1 {
				seen[r] = i + 1
				batches[i] = append(batches[i], uint32(r))
			}
		}
	}
	return batches
}

// BenchmarkPolicies measures bookkeeping, in nanoseconds a row, by the rows of a macro-batch.
func BenchmarkPolicies(b *testing.B) {
	for _, rows := range []int{64 << 10, 1 << 20} {
		batches := skewed(rows, rows/10, 32)
		b.Run(fmt.Sprintf("a random write a row, to compare with/rows=%d", rows), func(b *testing.B) {
			x := make([]uint32, rows)
			n, began := 0, cpuNow()
			for b.Loop() {
				for i, batch := range batches {
					for _, r := range batch {
						x[r] += uint32(i)
					}
				}
				n += len(batches) * rows / 10
			}
			b.ReportMetric((cpuNow()-began)/float64(n), "cpu-ns/row")
		})
		for _, o := range []Options{{Policy: NameTracker}, {Policy: NameLookahead, Window: 16}} {
			o.Rows, o.Places = rows, rows/4
			b.Run(fmt.Sprintf("%s/rows=%d", o.Policy, rows), func(b *testing.B) {
				p := must(New(o))
				defer p.Close() //nolint:errcheck // memory only
				t := Trace{Rows: rows, Batches: batches}
				must(t.Replay(p, nil))
				n, began := 0, cpuNow()
				for b.Loop() {
					must(t.Replay(p, nil))
					n += len(batches) * rows / 10
				}
				b.ReportMetric((cpuNow()-began)/float64(n), "cpu-ns/row")
				b.ReportMetric(100*p.Stats().HitRate(), "%hits")
			})
		}
	}
}

func BenchmarkReorder(b *testing.B) {
	for _, rows := range []int{64 << 10, 1 << 20} {
		batches := skewed(rows, rows/10, ReorderMax)
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			o := must(NewReorder(rows))
			defer o.Close() //nolint:errcheck // memory only
			must(o.Order(batches))
			n, began := 0, cpuNow()
			for b.Loop() {
				must(o.Order(batches))
				n += len(batches) * rows / 10
			}
			b.ReportMetric((cpuNow()-began)/float64(n), "cpu-ns/row")
		})
	}
}
