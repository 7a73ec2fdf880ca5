package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
)

func of(name string, shape []int64, values []float32) Tensor {
	return Tensor{Name: name, Elem: blocks.Float32, Shape: shape, Write: func(w io.Writer) error {
		_, err := w.Write(blocks.Bytes(values))
		return err
	}}
}

// TestWrite: the bytes are what the format's page says.
func TestWrite(t *testing.T) {
	var b bytes.Buffer
	err := Write(&b, map[string]string{"format": "gstore"}, []Tensor{of("0.weight", []int64{2, 3}, []float32{0, 1, 2, 3, 4, 5}), of("none", []int64{0, 3}, nil), of("one", nil, []float32{7})})
	if err != nil {
		t.Fatal(err)
	}
	n := int(binary.LittleEndian.Uint64(b.Bytes()))
	head, data := b.Bytes()[8:8+n], b.Bytes()[8+n:]
	const want = `{"__metadata__":{"format":"gstore"},"0.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},` +
		`"none":{"dtype":"F32","shape":[0,3],"data_offsets":[24,24]},"one":{"dtype":"F32","shape":[],"data_offsets":[24,28]}}`
	if got := strings.TrimRight(string(head), " "); got != want || n%8 != 0 || !json.Valid(head) {
		t.Errorf("header of %d bytes\n%s, expected\n%s", n, got, want)
	}
	if got := blocks.Bytes([]float32{0, 1, 2, 3, 4, 5, 7}); !bytes.Equal(got, data) {
		t.Errorf("data % x, expected % x", data, got)
	}
}

// TestRefused: what no reader could read is not written.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		tensors []Tensor
		text    string
	}{
		{[]Tensor{of("a", []int64{1}, []float32{1}), of("a", []int64{1}, []float32{1})}, "two tensors"},
		{[]Tensor{of("a", []int64{2}, []float32{1})}, "wrote 4 bytes, expected 8"},
		{[]Tensor{of("a", []int64{1 << 40, 1 << 40}, nil)}, "tensor \"a\" is"},
		{[]Tensor{of("a", []int64{-1}, nil)}, "tensor \"a\" is"},
		{[]Tensor{of("__metadata__", []int64{0}, nil)}, "two tensors"},
		{[]Tensor{{Name: "a", Elem: 200}}, "tensor \"a\" is"},
	} {
		if err := Write(io.Discard, nil, c.tensors); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v: error %v, expected %q in it", c.tensors, err, c.text)
		}
	}
}

// file is a file of this header and so many bytes of data.
func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

// TestDecode: what was written is read; what is no such file is told, and where.
func TestDecode(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, map[string]string{"format": "gstore"}, []Tensor{of("w", []int64{2, 3}, []float32{0, 1, 2, 3, 4, 5}), of("none", []int64{0, 3}, nil), of("one", nil, []float32{7})}); err != nil {
		t.Fatal(err)
	}
	got, err := Decode("a.safetensors", b.Bytes())
	want := []Stored{{"w", "F32", []int64{2, 3}, blocks.Bytes([]float32{0, 1, 2, 3, 4, 5})}, {"none", "F32", []int64{0, 3}, []byte{}}, {"one", "F32", []int64{}, blocks.Bytes([]float32{7})}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, %v, expected %v", got, err, want)
	}
	for _, c := range []struct {
		file []byte
		text string
	}{
		{nil, "0 bytes, expected 8"},
		{b.Bytes()[:20], "it is no safetensors file, or was cut off"},
		{b.Bytes()[:b.Len()-1], "lies at bytes"},
		{append(b.Bytes(), 0), "they end at byte 28, the data at 29"},
		{file(`{"a":`, 0), "header"},
		{file(`{"a":{"dtype":"X8","shape":[1],"data_offsets":[0,1]}}`, 1), `tensor a at byte 8 is corrupt: type "X8" is none`},
		{file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), "tensor a at byte 8 is corrupt: [2] of F32 lies at bytes 0 to 4 of 4"},
		{file(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 0), "lies at bytes"},
		{file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), "it begins at byte 1, expected 0"},
		{file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3), "tensor b at byte 8 is corrupt: it begins at byte 1, expected 2"},
	} {
		if _, err := Decode("a.safetensors", c.file); !errors.Is(err, blocks.ErrCorrupt) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("error %v, expected %q in it", err, c.text)
		}
	}
}

// FuzzDecode: whatever the bytes, tensors are cut from them end to end, and are written as they were.
func FuzzDecode(f *testing.F) {
	f.Add(file(`{"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"I8","shape":[],"data_offsets":[8,9]}}`, 9))
	f.Add(file(`{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[0],"data_offsets":[0,0]}}`, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		tensors, err := Decode("fuzz", b)
		if err != nil {
			if !errors.Is(err, blocks.ErrCorrupt) {
				t.Fatalf("error %v", err)
			}
			return
		}
		data := b[8+binary.LittleEndian.Uint64(b):]
		for _, s := range tensors {
			if !bytes.HasPrefix(data, s.Data) || volume(sizes[s.DType], s.Shape) != int64(len(s.Data)) {
				t.Fatalf("%s is %d bytes, %v of %s", s.Name, len(s.Data), s.Shape, s.DType)
			}
			data = data[len(s.Data):]
		}
		if len(data) != 0 {
			t.Fatalf("%d bytes are no tensor's", len(data))
		}
	})
}
