package blocks

import (
	"fmt"
	"hash/crc32"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// TestChecksumIsCRC32C compares with the library at every length around the turns of the folding loop, at every
// alignment, and continued from what came before.
func TestChecksumIsCRC32C(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<16+64)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	var lengths []int
	for n := range 5 * foldBytes {
		lengths = append(lengths, n)
	}
	for range 64 {
		lengths = append(lengths, r.IntN(1<<16))
	}
	for _, n := range lengths {
		part := b[n%64:][:n]
		want := crc32.Checksum(part, crc32.MakeTable(crc32.Castagnoli))
		if got := Checksum(part); got != want {
			t.Fatalf("%d bytes: %08x, want %08x", n, got, want)
		}
		cut := r.IntN(n + 1)
		if got := ChecksumUpdate(Checksum(part[:cut]), part[cut:]); got != want {
			t.Fatalf("%d bytes in two parts, cut at %d: %08x, want %08x", n, cut, got, want)
		}
		if n > 0 {
			part[r.IntN(n)] ^= 1 << r.IntN(8)
			if got := Checksum(part); got == want {
				t.Fatalf("%d bytes: one flipped bit leaves %08x", n, got)
			}
		}
	}
}

// TestFoldConstants computes what checksum_amd64.s multiplies by.
func TestFoldConstants(t *testing.T) {
	power := func(n int) uint64 { // x^n modulo the polynomial, as the processor wants it
		const polynomial = 0x11edc6f41
		r := uint64(1)
		for range n {
			if r <<= 1; r>>32 != 0 {
				r ^= polynomial
			}
		}
		return uint64(bits.Reverse32(uint32(r))) << 1
	}
	for _, c := range []struct {
		distance    int // bits
		first, last uint64
	}{{8 * foldBytes, 0xdcb17aa4, 0xb9e02b86}, {512, 0x740eef02, 0x9e4addf8}} {
		if f, l := power(c.distance+32), power(c.distance-32); f != c.first || l != c.last {
			t.Errorf("distance %d: %#x, %#x, the assembly has %#x, %#x", c.distance, f, l, c.first, c.last)
		}
	}
}

func FuzzChecksum(f *testing.F) {
	f.Add(uint32(0), []byte("123456789"))
	f.Add(uint32(7), make([]byte, 1025))
	f.Fuzz(func(t *testing.T, sum uint32, b []byte) {
		if got, want := ChecksumUpdate(sum, b), crc32.Update(sum, castagnoli, b); got != want {
			t.Errorf("%d bytes after %08x: %08x, want %08x", len(b), sum, got, want)
		}
	})
}

// BenchmarkChecksum sums bytes that are in the processor's cache and bytes that are not, beside the library.
func BenchmarkChecksum(b *testing.B) {
	table := crc32.MakeTable(crc32.Castagnoli)
	buf := make([]byte, 256<<20)
	for i := range buf {
		buf[i] = byte(i)
	}
	for _, n := range []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
		for _, f := range []struct {
			name string
			sum  func([]byte) uint32
		}{
			{"blocks", Checksum},
			{"library", func(x []byte) uint32 { return crc32.Checksum(x, table) }},
		} {
			for _, cold := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/%dKiB/cold=%v", f.name, n>>10, cold), func(b *testing.B) {
					b.SetBytes(int64(n))
					at := 0
					for b.Loop() {
						f.sum(buf[at : at+n])
						if cold {
							at = (at + n) % (len(buf) - n)
						}
					}
				})
			}
		}
	}
}
