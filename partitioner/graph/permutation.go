package graph

import "math/bits"

// Permutation is a keyed bijection on 0 … n−1 that needs no memory: a Feistel
// network on the smallest power of two ≥ n, walked until it lands below n
// (cycle walking: at most two applications expected). The two halves
// may differ by one bit; rounds alternate between them, so the network is a
// bijection for every width.
type Permutation struct {
	n        uint64
	low      uint // bits of the low half
	lowMask  uint64
	highMask uint64
	keys     [permutationRounds]uint64
}

// Even, so that both halves are mixed equally often. Six rounds pass a
// chi-square test on (id mod m, partition) for every m tried; four do too.
const permutationRounds = 6

// NewPermutation is the permutation of 0 … n−1 that a seed stands for.
func NewPermutation(n, seed uint64) Permutation {
	width := uint(0)
	if n > 1 {
		width = uint(bits.Len64(n - 1))
	}
	p := Permutation{n: n, low: width / 2}
	p.lowMask = 1<<p.low - 1
	p.highMask = 1<<(width-p.low) - 1
	state := seed
	for i := range p.keys {
		state += 0x9e3779b97f4a7c15
		p.keys[i] = Mix(state)
	}
	return p
}

// Mix is the finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection on 64 bits.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// At returns the image of x < n.
func (p *Permutation) At(x uint64) uint64 {
	for {
		l, h := x&p.lowMask, x>>p.low
		for i := 0; i < permutationRounds; i += 2 {
			h ^= Mix(l+p.keys[i]) & p.highMask
			l ^= Mix(h+p.keys[i+1]) & p.lowMask
		}
		if x = h<<p.low | l; x < p.n {
			return x
		}
	}
}
