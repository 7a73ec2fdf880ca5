package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
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
