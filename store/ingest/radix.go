package ingest

// radixBits is the width of a digit. 2^11 counters of 4 bytes and the heads of
// 2^11 output streams stay in the second-level cache; six digits of 11 bits cost less than
// eight of 8 on the 40–60 bit keys of real graphs.
const radixBits = 11

// radixSort sorts keys, of which only the low width bits are used, with scratch
// of the same length: a least-significant-digit radix sort, stable. The result
// is in one of the two slices, which is returned.
func radixSort(keys, scratch []uint64, width uint) []uint64 {
	const buckets = 1 << radixBits
	digits := int(width+radixBits-1) / radixBits
	if len(keys) < 64 {
		insertionSort(keys)
		return keys
	}
	counts := make([][buckets]uint32, digits)
	for _, k := range keys {
		for d := range counts {
			counts[d][k&(buckets-1)]++
			k >>= radixBits
		}
	}
	scratch = scratch[:len(keys)]
	for d := range counts {
		c := &counts[d]
		shift := uint(d) * radixBits
		if c[keys[0]>>shift&(buckets-1)] == uint32(len(keys)) {
			continue // all keys share this digit
		}
		sum := uint32(0)
		for i, n := range c {
			c[i] = sum
			sum += n
		}
		for _, k := range keys {
			at := &c[k>>shift&(buckets-1)]
			scratch[*at] = k
			*at++
		}
		keys, scratch = scratch, keys
	}
	return keys
}

func insertionSort(keys []uint64) {
	for i := 1; i < len(keys); i++ {
		k := keys[i]
		j := i
		for ; j > 0 && keys[j-1] > k; j-- {
			keys[j] = keys[j-1]
		}
		keys[j] = k
	}
}

// radixSortIndexed is radixSort of keys together with a value each.
func radixSortIndexed(keys, keyScratch []uint64, vals, valScratch []uint32, width uint) ([]uint64, []uint32) {
	const buckets = 1 << radixBits
	digits := int(width+radixBits-1) / radixBits
	if len(keys) == 0 {
		return keys, vals
	}
	counts := make([][buckets]uint32, digits)
	for _, k := range keys {
		for d := range counts {
			counts[d][k&(buckets-1)]++
			k >>= radixBits
		}
	}
	keyScratch, valScratch = keyScratch[:len(keys)], valScratch[:len(keys)]
	for d := range counts {
		c := &counts[d]
		shift := uint(d) * radixBits
		if c[keys[0]>>shift&(buckets-1)] == uint32(len(keys)) {
			continue
		}
		sum := uint32(0)
		for i, n := range c {
			c[i] = sum
			sum += n
		}
		for i, k := range keys {
			at := &c[k>>shift&(buckets-1)]
			keyScratch[*at], valScratch[*at] = k, vals[i]
			*at++
		}
		keys, keyScratch = keyScratch, keys
		vals, valScratch = valScratch, vals
	}
	return keys, vals
}
