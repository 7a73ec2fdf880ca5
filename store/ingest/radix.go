package ingest

// radixBits is the width of a digit, the most that one of [sorting.Radix] has.
const radixBits = 11

// radixSortIndexed is [sorting.Radix] of keys, by their low width bits, together with a value each.
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
