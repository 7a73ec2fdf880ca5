// Package keyed draws random numbers that depend on a key and a position and
// on nothing else: not on the number of threads, on the order of calls or on
// how much was drawn before. It is what makes plans, samples, negatives and
// generated graphs reproducible for a seed.
//
// A [Key] names a place in a computation, such as (seed, epoch, step, batch,
// hop); [Key.At] reads one number of the place's table, [Key.Rand] a stream of
// them, and [Permutation] is a keyed shuffle that needs no memory. All are
// values and safe for concurrent use, a [Rand] by one goroutine at a time.
//
//	k := keyed.New(seed).With(epoch).With(step)
//	r := k.Rand(uint64(node))
//	i := r.Below(degree)
//
// The numbers are part of what "the same seed gives the same run" means:
// changing a constant here changes every run.
package keyed

import (
	"math"
	"math/bits"
)

// Odd constants with balanced bits; c0 and c1 are wyrand's.
const (
	c0 = 0xa0761d6478bd642f
	c1 = 0xe7037ed1a0b428db
	c2 = 0x8ebc6af09c88c6e3
)

// mix folds the 128-bit product of its arguments.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// finish is a bijection that spreads every input bit over all output bits
// (Stafford's variant 13 of the murmur3 finaliser).
func finish(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Key names a place in a computation. The zero Key is a valid one.
type Key uint64

// New returns the root key of a seed.
func New(seed uint64) Key { return Key(finish(seed ^ c2)) }

// With returns the key of place x below k. Keys of different places are
// unrelated; k.With(x).With(y) and k.With(y).With(x) differ.
func (k Key) With(x uint64) Key { return Key(finish(uint64(k)*c1 + finish(x+c0))) }

// At returns the i-th number of k's table, uniform over 64 bits.
func (k Key) At(i uint64) uint64 {
	s := uint64(k) + i*c0
	return mix(s, s^c1)
}

// Rand returns the stream of place i below k. It costs one multiplication, so
// that a stream a node is affordable.
func (k Key) Rand(i uint64) Rand { return Rand{mix(uint64(k)^c2, uint64(k)+(i+1)*c1) + i} }

// Rand is a stream of random numbers (wyrand: a counter and a mixing of it).
type Rand struct{ s uint64 }

// Uint64 returns the next number, uniform over 64 bits.
func (r *Rand) Uint64() uint64 {
	r.s += c0
	return mix(r.s, r.s^c1)
}

// Below returns a number in [0, n), n > 0. The bias against uniform is below n/2⁶⁴.
func (r *Rand) Below(n uint64) uint64 {
	hi, _ := bits.Mul64(r.Uint64(), n)
	return hi
}

// Float64 returns a number in [0, 1) of 53 random bits.
func (r *Rand) Float64() float64 { return float64(r.Uint64()>>11) * 0x1p-53 }

// Normal returns a standard normal number (Box–Muller, one of the pair).
func (r *Rand) Normal() float64 {
	u := 1 - r.Float64() // (0, 1]
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*r.Float64())
}

// Shuffle puts s in a uniformly random order (Fisher–Yates).
func Shuffle[T any](r *Rand, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		j := r.Below(uint64(i) + 1)
		s[i], s[j] = s[j], s[i]
	}
}
