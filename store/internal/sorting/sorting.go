// Package sorting has the sorts that bulk data goes through: keys by their digits, and lists that are runs already.
package sorting

import "math/bits"

// Radix sorts keys by their bits from … from+width−1, with scratch of at least the same length: a radix sort from the least
// significant digit, stable. The result is in one of the two slices, which is returned.
//
// Digits have 11 bits: as many counters of 4 bytes, and the heads of as many output streams, stay in the second-level cache;
// six such digits cost less than eight of 8 bits on the 40–60 bit keys of real graphs. Lists shorter than their counters
// have digits of 8 bits.
func Radix(keys, scratch []uint64, from, width uint) []uint64 {
	switch {
	case len(keys) < insertionMax:
		insertion(keys, from, width)
		return keys
	case len(keys) < 1<<12:
		var counts [8][1 << 8]uint32
		return radix(counts[:(width+7)/8], keys, scratch, from, width)
	}
	return radix(make([][1 << 11]uint32, (width+10)/11), keys, scratch, from, width)
}

// insertionMax is from how many keys on digits are cheaper.
const insertionMax = 48

func insertion(keys []uint64, from, width uint) {
	mask := uint64(1)<<width - 1 // all ones for 64
	for i := 1; i < len(keys); i++ {
		k := keys[i]
		j := i
		for ; j > 0 && keys[j-1]>>from&mask > k>>from&mask; j-- {
			keys[j] = keys[j-1]
		}
		keys[j] = k
	}
}

// radix sorts by as many digits as there are counts.
func radix[C [1 << 8]uint32 | [1 << 11]uint32](counts []C, keys, scratch []uint64, from, width uint) []uint64 {
	var c C
	digit, all := uint(bits.TrailingZeros(uint(len(c)))), uint64(1)<<width-1
	for _, k := range keys {
		k = k >> from & all
		for d := range counts {
			counts[d][k&uint64(len(c)-1)]++
			k >>= digit
		}
	}
	scratch = scratch[:len(keys)]
	for d := range counts {
		c := &counts[d]
		shift, mask := from+uint(d)*digit, all>>(uint(d)*digit)&uint64(len(*c)-1)
		if (*c)[keys[0]>>shift&mask] == uint32(len(keys)) {
			continue // all keys share this digit
		}
		sum := uint32(0)
		for i := range len(*c) {
			n := (*c)[i]
			(*c)[i] = sum
			sum += n
		}
		for _, k := range keys {
			at := &(*c)[k>>shift&mask&uint64(len(*c)-1)]
			scratch[*at] = k
			*at++
		}
		keys, scratch = scratch, keys
	}
	return keys
}

// Runs sorts list, with scratch of at least the same length, by merging the runs that it consists of: natural merge sort,
// stable. n elements in r ascending runs take about n·⌈log₂ r⌉ calls of less.
func Runs(list, scratch []uint32, less func(a, b uint32) bool) {
	ends := make([]int, 0, 16) // of the runs
	for i := 1; i < len(list); i++ {
		if less(list[i], list[i-1]) {
			ends = append(ends, i)
		}
	}
	ends = append(ends, len(list))
	from, to := list, scratch[:len(list)]
	for len(ends) > 1 {
		at, k := 0, 0
		for i := 0; i < len(ends); i += 2 {
			mid, end := ends[i], ends[min(i+1, len(ends)-1)]
			merge(to[at:end], from[at:mid], from[mid:end], less)
			ends[k], at = end, end
			k++
		}
		ends = ends[:k]
		from, to = to, from
	}
	if len(list) > 0 && &from[0] != &list[0] {
		copy(list, from)
	}
}

func merge(to, a, b []uint32, less func(a, b uint32) bool) {
	for len(a) > 0 && len(b) > 0 {
		if less(b[0], a[0]) {
			to[0], b = b[0], b[1:]
		} else {
			to[0], a = a[0], a[1:]
		}
		to = to[1:]
	}
	copy(to[copy(to, a):], b)
}
