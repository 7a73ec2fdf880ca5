// Package safetensors writes and reads the safetensors format, in which programs exchange the tensors of models
// (https://github.com/huggingface/safetensors, "Format"):
//
//	length  8 bytes, little-endian
//	header  length bytes of JSON, padded with spaces to a multiple of 8:
//	        {"__metadata__":{"key":"text"},"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},…}
//	data    the tensors' elements, row-major, little-endian, end to end in ascending order of their offsets
//
// The header holds names and shapes alone, so that tensors are streamed.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/gstore/gstore/blocks"
)

// Tensor is a tensor of a file.
type Tensor struct {
	Name  string
	Elem  blocks.ElemType
	Shape []int64 // each ≥ 0
	// Write writes all elements, row-major and little-endian.
	Write func(w io.Writer) error
}

// headerMax is the longest header that readers take, in bytes.
const headerMax = 100_000_000

// metadataKey holds the file's own description, not a tensor.
const metadataKey = "__metadata__"

// DType is the format's name of an element type; "" for none.
func DType(t blocks.ElemType) string {
	return map[blocks.ElemType]string{blocks.Float64: "F64", blocks.Float32: "F32", blocks.Float16: "F16", blocks.BFloat16: "BF16",
		blocks.Int64: "I64", blocks.Int32: "I32", blocks.Int8: "I8", blocks.Uint64: "U64", blocks.Uint32: "U32", blocks.Uint16: "U16", blocks.Uint8: "U8"}[t]
}

// entry describes a tensor in the header.
type entry struct {
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// bytes is the length of a tensor's elements, -1 if it has no shape.
func (t *Tensor) bytes() int64 { return volume(int64(t.Elem.Size()), t.Shape) }

// volume is the bytes of shape, of elements of size bytes; -1 of what is none or too large.
func volume(size int64, shape []int64) int64 {
	for _, d := range shape {
		if d < 0 || d > 0 && size > (1<<62)/d {
			return -1
		}
		size *= d
	}
	return size
}

// header encodes the first two parts of a file.
func header(metadata map[string]string, tensors []Tensor) ([]byte, error) {
	b := bytes.NewBuffer(append(make([]byte, 8), '{'))
	add := func(name string, v any) error {
		if b.Len() > 9 {
			b.WriteByte(',')
		}
		for i, x := range []any{name, v} {
			j, err := json.Marshal(x)
			if err != nil {
				return fmt.Errorf("safetensors: %w", err)
			}
			b.Write(j)
			if i == 0 {
				b.WriteByte(':')
			}
		}
		return nil
	}
	seen := map[string]bool{metadataKey: true}
	if len(metadata) > 0 {
		if err := add(metadataKey, metadata); err != nil {
			return nil, err
		}
	}
	at := int64(0)
	for i := range tensors {
		t := &tensors[i]
		n := t.bytes()
		switch {
		case DType(t.Elem) == "" || n < 0 || at > 1<<62-n:
			return nil, fmt.Errorf("safetensors: tensor %q is %v of %v", t.Name, t.Shape, t.Elem)
		case seen[t.Name]:
			return nil, fmt.Errorf("safetensors: two tensors are called %q", t.Name)
		}
		seen[t.Name] = true
		shape := t.Shape
		if shape == nil {
			shape = []int64{} // of a number
		}
		if err := add(t.Name, entry{DType(t.Elem), shape, [2]int64{at, at + n}}); err != nil {
			return nil, err
		}
		at += n
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len()-8 > headerMax {
		return nil, fmt.Errorf("safetensors: a header of %d bytes, readers take at most %d", b.Len()-8, headerMax)
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(b.Len()-8))
	return b.Bytes(), nil
}

// Write writes a file of tensors to w; metadata is for readers, "format" of it often names a framework.
func Write(w io.Writer, metadata map[string]string, tensors []Tensor) error {
	head, err := header(metadata, tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	for i := range tensors {
		t := &tensors[i]
		c := counter{w: w}
		if err := t.Write(&c); err != nil {
			return fmt.Errorf("safetensors: tensor %s: %w", t.Name, err)
		}
		if c.n != t.bytes() {
			return fmt.Errorf("safetensors: tensor %s wrote %d bytes, expected %d", t.Name, c.n, t.bytes())
		}
	}
	return nil
}

// counter counts what goes through it.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
