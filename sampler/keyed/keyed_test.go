package keyed

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/gstore/gstore/blocks/race"
)

// chiSquare returns the statistic of counts against equal expectation, in
// standard deviations of its distribution.
func chiSquare(counts []int, total int) float64 {
	want := float64(total) / float64(len(counts))
	x := 0.0
	for _, c := range counts {
		x += (float64(c) - want) * (float64(c) - want) / want
	}
	df := float64(len(counts) - 1)
	return (x - df) / math.Sqrt(2*df)
}

func TestPermutationIsABijection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 12_000).Draw(t, "n")
		p := NewPermutation(New(rapid.Uint64().Draw(t, "seed")), n)
		seen := make([]bool, n)
		for i := range n {
			x := p.At(i)
			if x >= n || seen[x] {
				t.Fatalf("n=%d: position %d goes to %d, out of range or taken", n, i, x)
			}
			seen[x] = true
			if back := p.Inverse(x); back != i {
				t.Fatalf("n=%d: Inverse(At(%d)) = %d", n, i, back)
			}
		}
	})
}

func TestPermutationOfLargeDomain(t *testing.T) {
	p := NewPermutation(New(3), 1<<40+12345)
	for i := range uint64(1000) {
		i *= 1 << 30
		if x := p.At(i); x >= p.Len() || p.Inverse(x) != i {
			t.Fatalf("Inverse(At(%d)) = %d, At = %d", i, p.Inverse(x), x)
		}
	}
}

// Over many keys every position goes everywhere equally often, and pairs of
// neighbours to all ordered pairs.
func TestPermutationIsUniform(t *testing.T) {
	race.SkipArithmetic(t)
	const n, keys = 10, 90_000
	var where [n * n]int
	var pairs [n * n]int
	for seed := range uint64(keys) {
		p := NewPermutation(New(seed), n)
		for i := range uint64(n) {
			where[i*n+p.At(i)]++
		}
		pairs[p.At(4)*n+p.At(5)]++
	}
	if z := chiSquare(where[:], keys*n); math.Abs(z) > 6 {
		t.Errorf("position × image: chi-square is %.1f standard deviations off", z)
	}
	var off []int
	for i, c := range pairs {
		if i/n != i%n {
			off = append(off, c)
		} else if c != 0 {
			t.Fatalf("two positions share image %d", i%n)
		}
	}
	if z := chiSquare(off, keys); math.Abs(z) > 6 {
		t.Errorf("pairs of images: chi-square is %.1f standard deviations off", z)
	}
}

func TestStreamsAreUniformAndUnrelated(t *testing.T) {
	const cells, draws = 64, 200_000
	tests := map[string]func(i uint64) (a, b uint64){
		"neighbouring places":    func(i uint64) (uint64, uint64) { return draw(New(1).Rand(i)), draw(New(1).Rand(i + 1)) },
		"neighbouring keys":      func(i uint64) (uint64, uint64) { return draw(New(1).With(i).Rand(0)), draw(New(1).With(i + 1).Rand(0)) },
		"neighbouring seeds":     func(i uint64) (uint64, uint64) { return draw(New(i).Rand(0)), draw(New(i + 1).Rand(0)) },
		"first and second draw":  func(i uint64) (uint64, uint64) { r := New(1).Rand(i); return r.Uint64(), r.Uint64() },
		"table":                  func(i uint64) (uint64, uint64) { return New(1).At(i), New(1).At(i + 1) },
		"swapped parts of a key": func(i uint64) (uint64, uint64) { return New(1).With(i).With(7).At(0), New(1).With(7).With(i).At(0) },
	}
	for name, f := range tests {
		for _, shift := range []uint{0, 29, 58} { // low, middle and high bits
			var single [cells]int
			joint := make([]int, cells*cells)
			for i := range uint64(draws) {
				a, b := f(i)
				a, b = a>>shift%cells, b>>shift%cells
				single[a]++
				joint[a*cells+b]++
			}
			if z := chiSquare(single[:], draws); math.Abs(z) > 6 {
				t.Errorf("%s, bits from %d: chi-square is %.1f standard deviations off", name, shift, z)
			}
			if z := chiSquare(joint, draws); math.Abs(z) > 6 {
				t.Errorf("%s, pairs, bits from %d: chi-square is %.1f standard deviations off", name, shift, z)
			}
		}
	}
}

func draw(r Rand) uint64 { return r.Uint64() }

func TestNormalMoments(t *testing.T) {
	r := New(5).Rand(0)
	const n = 200_000
	var m1, m2, m4 float64
	for range n {
		x := r.Normal()
		m1 += x / n
		m2 += x * x / n
		m4 += x * x * x * x / n
	}
	if math.Abs(m1) > .01 || math.Abs(m2-1) > .02 || math.Abs(m4-3) > .15 {
		t.Errorf("moments 1, 2, 4 of a standard normal are %.3f, %.3f, %.3f", m1, m2, m4)
	}
}

func TestShuffleIsUniform(t *testing.T) {
	counts := make([]int, 24)
	for seed := range uint64(48_000) {
		r := New(seed).Rand(0)
		s := []int{0, 1, 2, 3}
		Shuffle(&r, s)
		counts[s[0]*6+order(s[1:])]++
	}
	if z := chiSquare(counts, 48_000); math.Abs(z) > 6 {
		t.Errorf("orders of four: chi-square is %.1f standard deviations off", z)
	}
}

// order numbers the six orders of three different numbers.
func order(s []int) int {
	less := func(a, b int) int {
		if s[a] < s[b] {
			return 1
		}
		return 0
	}
	code := less(0, 1)*4 + less(0, 2)*2 + less(1, 2)
	return [8]int{0: 0, 1: 1, 3: 2, 4: 3, 6: 4, 7: 5}[code]
}

func BenchmarkPermutation(b *testing.B) {
	p := NewPermutation(New(1), 2_000_000)
	var sum uint64
	for i := 0; b.Loop(); i++ {
		sum += p.At(uint64(i) % 2_000_000)
	}
	_ = sum
}
