package keyed

import "math/bits"

const (
	// feistelRounds: four already give a pseudo-random permutation of a large
	// domain (Luby and Rackoff 1988); two more for halves of a few bits.
	feistelRounds = 6
	// Below feistelMin the halves of a Feistel network are too narrow to look
	// random (at n = 10 its images are off by 34 standard deviations), and a
	// swap-or-not network (Hoang, Morris and Rogaway 2012) takes its place.
	feistelMin = 1 << 13
	swapRounds = 96
)

// Permutation is a keyed permutation of 0 … n−1 that needs no memory: any
// position can be asked for, in any order, by any thread. Large ones (n ≥ 8192)
// are an unbalanced Feistel network over the smallest power of two ≥ n; what
// falls outside 0 … n−1 is sent through again, less than twice on average: some
// 15 ns a position. Small ones are a swap-or-not network, some 200 ns. The zero
// Permutation is the empty one.
type Permutation struct {
	n           uint64
	key         Key
	left, right uint // bits of the halves, left ≥ right
	keys        [feistelRounds]uint64
}

// NewPermutation returns k's permutation of 0 … n−1.
func NewPermutation(k Key, n uint64) Permutation {
	p := Permutation{n: n, key: k.With(c2)}
	b := uint(bits.Len64(n))
	if n&(n-1) == 0 && n > 0 {
		b--
	}
	p.right = b / 2
	p.left = b - p.right
	for i := range p.keys {
		p.keys[i] = p.key.At(uint64(i)) | 1
	}
	return p
}

// Len returns n.
func (p *Permutation) Len() uint64 { return p.n }

// At returns where position i goes, 0 ≤ i < n.
func (p *Permutation) At(i uint64) uint64 {
	if p.n < feistelMin {
		for r := range uint64(swapRounds) {
			i = p.swap(r, i)
		}
		return i
	}
	lm, rm := uint64(1)<<p.left-1, uint64(1)<<p.right-1
	for {
		l, r := i>>p.right, i&rm
		for j := 0; j < feistelRounds; j += 2 {
			l ^= p.round(j, r) & lm
			r ^= p.round(j+1, l) & rm
		}
		i = l<<p.right | r
		if i < p.n {
			return i
		}
	}
}

// Inverse returns the position that goes to x: Inverse(At(i)) = i.
func (p *Permutation) Inverse(x uint64) uint64 {
	if p.n < feistelMin {
		for r := range uint64(swapRounds) {
			x = p.swap(swapRounds-1-r, x)
		}
		return x
	}
	lm, rm := uint64(1)<<p.left-1, uint64(1)<<p.right-1
	for {
		l, r := x>>p.right, x&rm
		for j := feistelRounds - 2; j >= 0; j -= 2 {
			r ^= p.round(j+1, l) & rm
			l ^= p.round(j, r) & lm
		}
		x = l<<p.right | r
		if x < p.n {
			return x
		}
	}
}

// round is the function of Feistel round i.
func (p *Permutation) round(i int, x uint64) uint64 {
	return mix(x+p.keys[i], p.keys[i]^c0)
}

// swap is one round of the swap-or-not network, its own inverse: every pair
// {x, k−x mod n} changes places or not by the toss of a keyed coin.
func (p *Permutation) swap(round, x uint64) uint64 {
	partner, _ := bits.Mul64(p.key.At(2*round), p.n)
	if partner >= x {
		partner -= x
	} else {
		partner += p.n - x
	}
	if p.key.At(2*round+1+max(x, partner)*(2*swapRounds))>>63 != 0 {
		return partner
	}
	return x
}
