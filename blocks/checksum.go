package blocks

import "hash/crc32"

// castagnoli is the polynomial of every checksum of the format.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32C of b, the checksum used throughout the format.
func Checksum(b []byte) uint32 { return ChecksumUpdate(0, b) }

// ChecksumUpdate returns the Checksum of what sum is that of, followed by b. That of nothing is 0.
//
// hash/crc32 walks three streams of 1 KiB at a time, too short for the processor to fetch
// ahead: 8 GB/s of bytes that are not in its cache, as those of a transfer are not. Where the
// processor multiplies polynomials 512 bits at a time, long inputs are folded front to
// back instead, at 30 GB/s, the speed of memory.
func ChecksumUpdate(sum uint32, b []byte) uint32 {
	if n := len(b) &^ (foldBytes - 1); n >= foldMin {
		sum, b = foldUpdate(sum, b[:n]), b[n:]
	}
	return crc32.Update(sum, castagnoli, b)
}

// foldBytes is what one turn of the folding loop takes: four registers of 64 bytes.
const foldBytes = 256

// remainderSum returns the checksum of a message that is congruent to the 64 bytes of r,
// its initial value included.
func remainderSum(r *[64]byte) uint32 {
	return crc32.Update(^uint32(0), castagnoli, r[:]) // Update inverts: this one starts from 0
}
