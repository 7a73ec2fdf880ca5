package sorting

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// Keys are compared with the standard library's stable sort by the bits that count.
func TestRadix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, insertionMax - 1, insertionMax, 300, 1<<12 - 1, 1 << 12, 20000} {
		for _, b := range []struct{ from, width uint }{{0, 64}, {0, 1}, {0, 23}, {32, 21}, {32, 32}, {5, 9}, {60, 4}} {
			keys := make([]uint64, n)
			for i := range keys {
				keys[i] = rng.Uint64()
				if i%3 == 0 {
					keys[i] &= 0xff000000ff // few values: equal keys, digits that all share
				}
			}
			by := func(k uint64) uint64 { return k >> b.from << (64 - b.width) }
			want := slices.Clone(keys)
			slices.SortStableFunc(want, func(x, y uint64) int { return cmp.Compare(by(x), by(y)) })
			ids := make([]uint32, n)
			for i := range ids {
				ids[i] = uint32(i)
			}
			byID := slices.Clone(ids)
			slices.SortStableFunc(byID, func(x, y uint32) int { return cmp.Compare(by(keys[x]), by(keys[y])) })
			with, got := RadixWith(slices.Clone(keys), make([]uint64, n), ids, make([]uint32, n), b.from, b.width)
			if !slices.Equal(with, want) || !slices.Equal(got, byID) {
				t.Fatalf("%d keys with values by bits %d … %d are not in order", n, b.from, b.from+b.width-1)
			}
			if got := Radix(keys, make([]uint64, n+3), b.from, b.width); !slices.Equal(got, want) {
				t.Fatalf("%d keys by bits %d … %d are not in order", n, b.from, b.from+b.width-1)
			}
		}
	}
}

func TestRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, runs := range []int{0, 1, 2, 3, 8, 13, 1000} {
		var list []uint32
		for range runs {
			run := make([]uint32, rng.IntN(40))
			for i := range run {
				run[i] = rng.Uint32N(5000)
			}
			slices.SortFunc(run, func(a, b uint32) int { return cmp.Compare(a>>4, b>>4) })
			list = append(list, run...)
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, func(a, b uint32) int { return cmp.Compare(a>>4, b>>4) })
		calls := 0
		Runs(list, make([]uint32, len(list)), func(a, b uint32) bool { calls++; return a>>4 < b>>4 })
		if !slices.Equal(list, want) {
			t.Fatalf("%d runs are not in order", runs)
		}
		if runs <= 1 && calls > len(list) {
			t.Fatalf("%d calls for %d elements in order", calls, len(list))
		}
	}
}
