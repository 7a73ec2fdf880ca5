package keyed

import "math/bits"

// rounds of the Feistel network. Four already give a pseudo-random
// permutation of large domains (Luby and Rackoff); six serve small ones.
const rounds = 6

// Permutation is a keyed permutation of 0 … n−1 that needs no memory: any
// position can be asked for, in any order, by any thread. It is an unbalanced
// Feistel network over the smallest power of two ≥ n; what falls outside
// 0 … n−1 is sent through again, less than twice on average. The zero
// Permutation is the empty one.
type Permutation struct {
	n           uint64
	left, right uint // bits of the halves, left ≥ right
	keys        [rounds]uint64
}

// NewPermutation returns k's permutation of 0 … n−1.
func NewPermutation(k Key, n uint64) Permutation {
	p := Permutation{n: n}
	b := uint(1)
	if n > 2 {
		b = uint(bits.Len64(n - 1))
	}
	p.right = b / 2
	p.left = b - p.right
	for i := range p.keys {
		p.keys[i] = k.With(c2).At(uint64(i)) | 1
	}
	return p
}

// Len returns n.
func (p *Permutation) Len() uint64 { return p.n }

// round is round i's function: a multiplication whose upper half depends on all of x.
func (p *Permutation) round(i int, x uint64) uint64 {
	return mix(x+p.keys[i], p.keys[i]^c0)
}

// At returns where position i goes, 0 ≤ i < n.
func (p *Permutation) At(i uint64) uint64 {
	lm, rm := uint64(1)<<p.left-1, uint64(1)<<p.right-1
	x := i
	for {
		l, r := x>>p.right, x&rm
		for j := 0; j < rounds; j += 2 {
			l ^= p.round(j, r) & lm
			r ^= p.round(j+1, l) & rm
		}
		x = l<<p.right | r
		if x < p.n {
			return x
		}
	}
}

// Inverse returns the position that goes to x: Inverse(At(i)) = i.
func (p *Permutation) Inverse(x uint64) uint64 {
	lm, rm := uint64(1)<<p.left-1, uint64(1)<<p.right-1
	for {
		l, r := x>>p.right, x&rm
		for j := rounds - 2; j >= 0; j -= 2 {
			r ^= p.round(j+1, l) & rm
			l ^= p.round(j, r) & lm
		}
		x = l<<p.right | r
		if x < p.n {
			return x
		}
	}
}
