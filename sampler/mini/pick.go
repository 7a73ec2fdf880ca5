package mini

import "github.com/gstore/gstore/sampler/keyed"

// pickScanMax bounds the fanouts for which scanning the drawn positions is
// cheaper than a table of them.
const pickScanMax = 128

// pick writes k = len(out) different positions of [begin, begin+degree) to
// out, uniform among all sets of k, 0 < k < degree: Floyd's algorithm (Bentley
// and Floyd, "A sample of brilliance", 1987), k draws whatever the degree.
//
// Whether a position was drawn before is answered by one bit of a register up
// to degree 64. Above, the bit of the position modulo 64 rules out most
// repeats, and only where it is set the drawn positions are searched.
// scratch is memory to reuse for large k.
func pick(r *keyed.Rand, begin int64, degree int64, out []int64, scratch *[]int64) {
	k := int64(len(out))
	var seen uint64
	switch {
	case degree <= 64:
		for i := range out {
			j := uint64(degree - k + int64(i))
			t := r.Below(j + 1)
			if seen>>(t&63)&1 != 0 {
				t = j // compiles to a conditional move
			}
			seen |= 1 << (t & 63)
			out[i] = begin + int64(t)
		}
	case k <= pickScanMax:
		for i := range out {
			j := degree - k + int64(i)
			t := int64(r.Below(uint64(j) + 1))
			if seen>>(t&63)&1 != 0 {
				for _, p := range out[:i] {
					if p == begin+t {
						t = j
						break
					}
				}
			}
			seen |= 1 << (t & 63)
			out[i] = begin + t
		}
	default:
		pickLarge(r, begin, degree, out, scratch)
	}
}

// pickLarge makes the same draws as pick in O(k) expected time for any k: the
// drawn offsets, plus one, lie in an open-addressing table at most half full.
func pickLarge(r *keyed.Rand, begin int64, degree int64, out []int64, scratch *[]int64) {
	table := resize(*scratch, 2*len(out))
	*scratch = table
	clear(table)
	k := int64(len(out))
	// find returns the slot of v, or the empty slot where v belongs.
	find := func(v int64) int {
		h := int(uint64(v) * 0x9E3779B97F4A7C15 >> 33 % uint64(len(table)))
		for table[h] != 0 && table[h] != v+1 {
			if h++; h == len(table) {
				h = 0
			}
		}
		return h
	}
	for i := range out {
		j := degree - k + int64(i)
		t := int64(r.Below(uint64(j) + 1))
		slot := find(t)
		if table[slot] != 0 {
			t = j // never drawn before: earlier draws are below j
			slot = find(t)
		}
		table[slot] = t + 1
		out[i] = begin + t
	}
}
