package parquet

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"
)

// TestDeltaSizes: what strings and numbers decode to is known before, whatever their lengths; fewer values than they have, and
// a cut anywhere but in the last strings, are refused.
func TestDeltaSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 21))
	for _, n := range []int{1, 2, 31, 32, 33, 129, 1000} {
		for _, longest := range []int{0, 1, 9, 300} {
			var text []byte
			offsets := []uint32{0}
			for range n {
				text = append(text, strings.Repeat("ab", longest)[:r.IntN(longest+1)]...)
				text = append(text, byte(r.Uint32()))
				offsets = append(offsets, uint32(len(text)))
			}
			b, err := new(delta.ByteArrayEncoding).EncodeByteArray(nil, text, offsets)
			if err != nil {
				t.Fatal(err)
			}
			p := deltaPage{encoding: format.DeltaByteArray, packed: int64(len(b)), values: n}
			if got, err := p.check(bytes.NewReader(b)); err != nil || got != int64(len(text)) {
				t.Errorf("%d strings of %d bytes: %d, %v", n, len(text), got, err)
			}
			p.values--
			if _, err := p.check(bytes.NewReader(b)); err == nil {
				t.Errorf("%d strings in a page of %d values were accepted", n, p.values)
			}
			for cut := range min(len(b), 40) {
				p := deltaPage{encoding: format.DeltaByteArray, packed: int64(cut), values: n}
				_, err := p.check(bytes.NewReader(b[:cut]))
				if _, _, known := new(delta.ByteArrayEncoding).DecodeByteArray(nil, b[:cut], nil); cut > 0 && err != nil && known == nil {
					t.Errorf("%d bytes of %d strings decode, and are refused: %v", cut, n, err)
				}
			}
			numbers := make([]int64, n)
			for i := range numbers {
				numbers[i] = r.Int64()
			}
			if b, err = new(delta.BinaryPackedEncoding).EncodeInt64(nil, numbers); err != nil {
				t.Fatal(err)
			}
			for _, values := range []int{n, n - 1} {
				p := deltaPage{encoding: format.DeltaBinaryPacked, packed: int64(len(b)), values: values}
				if _, err := p.check(bytes.NewReader(b)); (err == nil) != (values == n) {
					t.Errorf("%d numbers in a page of %d values: %v", n, values, err)
				}
			}
		}
	}
}
