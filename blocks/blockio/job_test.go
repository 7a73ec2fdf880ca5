package blockio

import (
	"errors"
	"io"
	"testing"
)

// TestTornBlock: wherever the kernel ends a direct transfer, what follows begins with the whole block that it tore; a
// buffered one goes on to the byte. A transfer that makes no block of progress ends the request.
func TestTornBlock(t *testing.T) {
	const length, begin = 3 * Alignment, 5 * Alignment
	for _, op := range []Op{Read, Write} {
		for n := range length + 1 {
			for _, direct := range []bool{true, false} {
				p := piece{file: &file{direct: direct}, op: op, buf: make([]byte, length), offset: begin}
				moved := n
				if direct {
					moved = n / Alignment * Alignment
				}
				more, err := p.advance(n)
				if moved == 0 {
					want := io.ErrUnexpectedEOF
					if op == Write {
						want = io.ErrShortWrite
					}
					if !errors.Is(err, want) || more {
						t.Fatalf("direct %v, %v of %d bytes: %v, %v, expected %v", direct, op, n, more, err, want)
					}
					continue
				}
				if err != nil || more != (moved < length) || len(p.buf) != length-moved || p.offset != int64(begin+moved) {
					t.Fatalf("direct %v, %v of %d bytes: more %v at %d of %d bytes, %v", direct, op, n, more, p.offset-begin, len(p.buf), err)
				}
			}
		}
	}
}
