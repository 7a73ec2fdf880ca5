// Package sorting has the sorts that bulk data goes through: keys by their digits, and lists that are runs already.
package sorting

// Radix sorts keys by their bits from … from+width−1, with scratch of at least the same length: a radix sort from the least
// significant digit, stable. The result is in one of the two slices, which is returned.
//
// Digits have at most 11 bits, and all of a sort about as many: so many counters of 4 bytes, and the heads of as many
// output streams, stay in the second-level cache; four such digits cost less than five of 8 bits on the 30–44 bit keys of
// real graphs. Lists shorter than their counters have digits of 8 bits.
func Radix(keys, scratch []uint64, from, width uint) []uint64 {
	if len(keys) < insertionMax {
		insertion(keys, from, width)
		return keys
	}
	keys, _ = radix(keys, scratch, nil, nil, from, width)
	return keys
}

// RadixWith is [Radix] of keys together with a value each.
func RadixWith(keys, scratch []uint64, vals, valScratch []uint32, from, width uint) ([]uint64, []uint32) {
	if len(keys) == 0 {
		return keys, vals
	}
	return radix(keys, scratch, vals, valScratch, from, width)
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

// counters are of one digit: how many keys have it, then where the next of them goes.
type counters [1 << 11]uint32

// radix sorts one key or more, with their values where vals is not nil, by as few digits as cover the width.
func radix(keys, scratch []uint64, vals, valScratch []uint32, from, width uint) ([]uint64, []uint32) {
	most := uint(11)
	if len(keys) < 1<<12 {
		most = 8
	}
	digits := max(1, (width+most-1)/most)
	digit := (width + digits - 1) / digits
	scratch = scratch[:len(keys)]
	var counts [2]counters
	for d := range digits {
		shift := from + d*digit
		mask := uint64(1)<<min(digit, width-d*digit) - 1
		// Two digits are counted in one pass: the order of keys does not change how many there are of each.
		c := &counts[d&1]
		if d&1 == 0 {
			clear(counts[0][:1<<digit])
			clear(counts[1][:1<<digit])
			next := uint64(0) // there may be no second one
			if d+1 < digits {
				next = uint64(1)<<min(digit, width-(d+1)*digit) - 1
			}
			count(&counts, keys, shift, mask, next, digit)
		}
		if c[keys[0]>>shift&mask] == uint32(len(keys)) {
			continue // all keys share this digit
		}
		sum := uint32(0)
		for i, n := range c[:mask+1] {
			c[i] = sum
			sum += n
		}
		if vals == nil {
			scatter(c, keys, scratch, shift, mask)
		} else {
			scatterWith(c, keys, scratch, vals, valScratch, shift, mask)
			vals, valScratch = valScratch[:len(keys)], vals
		}
		keys, scratch = scratch, keys
	}
	return keys, vals
}

// count adds how many keys have each value of two digits, digit bits apart. It and those below are not inlined: among radix's variables
// their loops would spill registers.
//
//go:noinline
func count(c *[2]counters, keys []uint64, shift uint, mask, next uint64, digit uint) {
	for _, k := range keys {
		k >>= shift & 63
		c[0][k&mask&(1<<11-1)]++
		c[1][k>>(digit&63)&next&(1<<11-1)]++
	}
}

// scatter moves every key to its digit's place.
//
//go:noinline
func scatter(c *counters, keys, to []uint64, shift uint, mask uint64) {
	for _, k := range keys {
		at := &c[k>>(shift&63)&mask&(1<<11-1)]
		n := *at
		*at = n + 1
		to[n] = k
	}
}

// scatterWith is scatter of keys and values.
//
//go:noinline
func scatterWith(c *counters, keys, to []uint64, vals, valsTo []uint32, shift uint, mask uint64) {
	for i, k := range keys {
		at := &c[k>>(shift&63)&mask&(1<<11-1)]
		n := *at
		*at = n + 1
		to[n], valsTo[n] = k, vals[i]
	}
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
