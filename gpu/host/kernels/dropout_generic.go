package kernels

import "unsafe"

// maskGroup is the number of elements whose mask one call of the generator's
// 16 lanes makes.
const maskGroup = 128

// philoxRounds is the number of rounds; seven pass BigCrush (Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011, table 2).
const philoxRounds = 7

// philox is Philox4x32 of Salmon et al., section 3.3: 128 random bits from a counter and a key.
func philox(counter [4]uint32, key uint64) [4]uint32 {
	k0, k1 := uint32(key), uint32(key>>32)
	c := counter
	for range philoxRounds {
		p0, p1 := uint64(c[0])*0xD2511F53, uint64(c[2])*0xCD9E8D57
		c = [4]uint32{uint32(p1>>32) ^ c[1] ^ k0, uint32(p1), uint32(p0>>32) ^ c[3] ^ k1, uint32(p0)}
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return c
}

// maskBitsGeneric fills bits with the dropout mask (1 = kept, least
// significant bit first) of groups group, group+1, … of 128 elements. Element
// 16·q+j of group g draws half q mod 2 (low half first) of word ⌊q/2⌋ of
// philox(counter 16·g+j, key), and is kept unless that is below threshold:
// the order in which 16 lanes make them without a shuffle.
func maskBitsGeneric(bits []byte, group, key0, key1, threshold uint32) {
	key := uint64(key0) | uint64(key1)<<32
	for len(bits) >= maskGroup/8 {
		clear(bits[:maskGroup/8])
		for j := range uint32(16) {
			r := philox([4]uint32{16*group + j}, key)
			for q := range uint32(8) {
				if r[q/2]>>(16*(q%2))&0xffff >= threshold {
					bits[2*q+j/8] |= 1 << (j % 8)
				}
			}
		}
		bits = bits[maskGroup/8:]
		group++
	}
}

// asBytes views words as bytes, little-endian.
func asBytes(w []uint32) []byte {
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 4*len(w))
}
