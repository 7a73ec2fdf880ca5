package formats

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/store/ingest"
)

// allocated is how many bytes the process has allocated on its heap so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// parquetAllocMax is what reading a small hostile file may allocate: its pages, as they are believed, for both
// of the passes over them, and what reading any file takes.
const parquetAllocMax = 512 << 20

// withFooter is a file of nothing but a footer, filled with zeros.
func withFooter(footer []byte, size int) []byte {
	b := append([]byte("PAR1"), footer...)
	b = append(b, make([]byte, max(0, size-len(b)-8))...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(b)-4))
	return append(b, "PAR1"...)
}

// Lengths in Parquet's metadata are not believed before what follows was seen.
func TestParquetBounds(t *testing.T) {
	list := func(n uint64) []byte { // version 1, then a schema of n elements
		return binary.AppendUvarint([]byte{0x15, 2, 0x19, 0xfc}, n)
	}
	deep := &format.FileMetaData{Version: 1}
	for range 200_000 {
		deep.Schema = append(deep.Schema, format.SchemaElement{Name: "c", NumChildren: thrift.New[int32](1)})
	}
	nested, err := thrift.Marshal(new(thrift.CompactProtocol), deep)
	if err != nil {
		t.Fatal(err)
	}
	structs := bytes.Repeat([]byte{0x1c}, 1<<16) // a struct in a struct in …
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"a list of 2^31-1 in 81 bytes", withFooter(list(math.MaxInt32), 81), "a list of 2147483647 where 6"},
		{"a list of 2^63 in 81 bytes", withFooter(list(1<<63), 81), "a list of"},
		{"a string of 2^31-1", withFooter(binary.AppendUvarint([]byte{0x15, 2, 0x48}, math.MaxInt32), 81), "a value of 2147483647 bytes"},
		{"a map of 2^31-1", withFooter(append(binary.AppendUvarint([]byte{0x1b}, math.MaxInt32), 0x88), 81), "a list of 2147483647"},
		{"a list of 2^22 empty structures", withFooter(append(list(1<<22), make([]byte, 1<<22)...), 0), "more than 1048576 elements"},
		{"structures in structures", withFooter(structs, 0), "deeper than 32"},
		{"columns in columns", withFooter(nested, 0), "deeper than 64"},
		{"a footer longer than the file", append(binary.LittleEndian.AppendUint32([]byte("PAR1...."), 1<<31), "PAR1"...), "a footer of 2147483648 bytes"},
	} {
		before := allocated()
		err := openDrain(t, memFS(t, map[string][]byte{"e.parquet": c.b}), "e.parquet", Options{})
		if !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.want)
		}
		if got := allocated() - before; got > 64<<20+8*uint64(len(c.b)) {
			t.Errorf("%s: %d bytes allocated for a file of %d", c.name, got, len(c.b))
		}
	}
}

// Damage of small files, in the footer above all, allocates no gigabytes.
func TestParquetDamageAllocates(t *testing.T) {
	race.SkipArithmetic(t)
	files := tablesOf(t, nil)
	r := rand.New(rand.NewPCG(1, 21))
	for k := range 3000 {
		whole := files["d/edges.parquet"]
		in := func(b []byte) map[string][]byte { return map[string][]byte{"d/edges.parquet": b} }
		if k%2 == 1 {
			whole = files["d/nodes/part-0.parquet"]
			in = func(b []byte) map[string][]byte {
				return map[string][]byte{"d/edges.csv": []byte("a,b\n"), "d/nodes.parquet": b}
			}
		}
		b := bytes.Clone(whole)
		for range 1 + r.IntN(4) {
			at := 4 + r.IntN(len(b)-12)
			switch r.IntN(3) {
			case 0:
				b[at] ^= 1 << r.IntN(8)
			case 1:
				b[at] = 0xff
			default: // a long varint
				copy(b[at:len(b)-8], []byte{0xff, 0xff, 0xff, 0xff, 7})
			}
		}
		before := allocated()
		err := openDrain(t, memFS(t, in(b)), "d", Options{})
		if got := allocated() - before; got > parquetAllocMax {
			t.Errorf("damage %d: %d bytes allocated for a file of %d (%v)", k, got, len(b), err)
		}
	}
}
