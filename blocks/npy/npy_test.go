package npy

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
)

// What Append writes is what numpy 2.1 writes, byte for byte, and Read understands it.
func TestAppend(t *testing.T) {
	for _, c := range []struct {
		elem   blocks.ElemType
		padded bool
		shape  []uint64
		dict   string
		bytes  int
	}{
		{blocks.Float32, false, []uint64{3, 4}, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 128},
		{blocks.Int8, false, []uint64{7}, "{'descr': '|i1', 'fortran_order': False, 'shape': (7,), }", 128},
		{blocks.Uint64, true, []uint64{1 << 60}, "{'descr': '<u8', 'fortran_order': False, 'shape': (1152921504606846976,), }", 128},
	} {
		b := Append(nil, c.elem, c.padded, c.shape...)
		head := "\x93NUMPY\x01\x00" + string([]byte{byte(c.bytes - 10), 0}) + c.dict
		if want := head + strings.Repeat(" ", c.bytes-len(head)-1) + "\n"; string(b) != want && c.bytes == len(b) {
			t.Errorf("wrote %q, expected %q", b, want)
		}
		if len(b)%64 != 0 || c.padded && len(b) != HeaderBytes {
			t.Errorf("%d bytes of header", len(b))
		}
		if c.shape[0] == 1<<60 {
			continue // more bytes than are believed
		}
		h, err := Read(bytes.NewReader(b))
		if err != nil || h.Elem != c.elem || h.Bytes != int64(len(b)) || h.Columns || uint64(h.Rows()) != c.shape[0] {
			t.Errorf("read %+v, %v", h, err)
		}
	}
}

func TestRead(t *testing.T) {
	file := func(version byte, dict string) []byte {
		if version == 1 {
			return append([]byte(Magic+"\x01\x00"+string([]byte{byte(len(dict)), byte(len(dict) >> 8)})), dict...)
		}
		return append([]byte(Magic+string([]byte{version, 0, byte(len(dict)), byte(len(dict) >> 8), 0, 0})), dict...)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want Header
		fail string
	}{
		{"python 2's long numbers", file(1, `{"descr": "<i8", "fortran_order": False, "shape": (2L, 5L)}`), Header{Elem: blocks.Int64, Shape: []int64{2, 5}, Bytes: 10 + 59}, ""},
		{"version 3", file(3, "{'descr': '|b1', 'fortran_order': False, 'shape': (9,)}"), Header{Elem: blocks.Uint8, Shape: []int64{9}, Bytes: 12 + 55}, ""},
		{"Fortran order", file(2, "{'descr': '<f8', 'fortran_order': True, 'shape': (4, 3)}"), Header{Elem: blocks.Float64, Shape: []int64{4, 3}, Columns: true, Bytes: 12 + 56}, ""},
		{"Fortran order of one column", file(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (4, 1)}"), Header{Elem: blocks.Float64, Shape: []int64{4, 1}, Bytes: 10 + 56}, ""},
		{"big-endian", file(1, "{'descr': '>f8', 'fortran_order': False, 'shape': (4,)}"), Header{}, "little-endian"},
		{"structured", file(1, "{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (4,)}"), Header{}, "structured"},
		{"three dimensions", file(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 4, 4)}"), Header{}, "1 or 2 dimensions"},
		{"none", file(1, "{'descr': '<f8', 'fortran_order': False, 'shape': ()}"), Header{}, "1 or 2 dimensions"},
		{"too many bytes", file(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4611686018427387904)}"), Header{}, "too many bytes"},
		{"negative", file(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}"), Header{}, `dimension "-1"`},
		{"long header", []byte(Magic + "\x02\x00\xff\xff\xff\xff"), Header{}, "are believed"},
		{"version 4", file(4, ""), Header{}, "version 4"},
		{"no numpy file", []byte("PAR1 and more"), Header{}, "begins with"},
	} {
		h, err := Read(bytes.NewReader(c.b))
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: %+v, %v", c.name, h, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(h, c.want) {
			t.Errorf("%s: %+v, %v, expected %+v", c.name, h, err, c.want)
		}
	}
}

// No header makes Read panic, or believe in more than 2⁶² bytes.
func FuzzArrayHeader(f *testing.F) {
	f.Add(Append(nil, blocks.Int64, false, 2, 7))
	f.Add([]byte("\x93NUMPY\x01\x00\x36\x00{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}"))
	f.Add([]byte("\x93NUMPY\x03\x00\x02\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		if len(h.Shape) == 0 || len(h.Shape) > 2 || h.DataBytes() < 0 || h.DataBytes() > 1<<62 || h.Elem.Size() == 0 || h.Bytes > int64(len(b)) {
			t.Fatalf("accepted %+v", h)
		}
		if h.Columns {
			return
		}
		shape := []uint64{uint64(h.Shape[0])}
		if len(h.Shape) == 2 {
			shape = append(shape, uint64(h.Shape[1]))
		}
		again, err := Read(bytes.NewReader(Append(nil, h.Elem, true, shape...)))
		if err != nil || again.DataBytes() != h.DataBytes() || again.Dim() != h.Dim() {
			t.Fatalf("%+v was written as %+v, %v", h, again, err)
		}
	})
}
