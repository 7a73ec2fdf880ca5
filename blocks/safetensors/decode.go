package safetensors

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
)

// Stored is a tensor that was read.
type Stored struct {
	Name  string
	DType string // the format's name of it
	Shape []int64
	Data  []byte // row-major, little-endian; a part of what it was read from
}

// sizes are the bytes of an element of each of the format's types, those included that gstore has no columns of.
var sizes = map[string]int64{"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1,
	"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1}

// Decode returns the tensors of a file in the order of their bytes. path names it in errors, which are [*blocks.CorruptError].
func Decode(path string, file []byte) ([]Stored, error) {
	bad := func(extent string, at int64, format string, args ...any) ([]Stored, error) {
		return nil, &blocks.CorruptError{Path: path, Extent: extent, Offset: at, Reason: fmt.Sprintf(format, args...)}
	}
	if len(file) < 8 {
		return bad("header", 0, "the file has %d bytes, expected 8 or more: it is no safetensors file", len(file))
	}
	n := binary.LittleEndian.Uint64(file)
	if n > min(headerMax, uint64(len(file)-8)) {
		return bad("header", 0, "its length is %d bytes in a file of %d: it is no safetensors file, or was cut off", n, len(file))
	}
	entries := map[string]json.RawMessage{}
	if err := json.Unmarshal(file[8:8+n], &entries); err != nil {
		return bad("header", 8, "%v", err)
	}
	data := file[8+n:]
	type placed struct {
		Stored
		at int64
	}
	var found []placed
	for name, text := range entries {
		if name == metadataKey {
			continue
		}
		var e entry
		if err := json.Unmarshal(text, &e); err != nil {
			return bad("tensor "+name, 8, "%v", err)
		}
		size, ok := sizes[e.DType]
		if !ok {
			return bad("tensor "+name, 8, "type %q is none of the format's", e.DType)
		}
		from, to := e.Offsets[0], e.Offsets[1]
		if want := volume(size, e.Shape); from < 0 || to < from || to > int64(len(data)) || want != to-from {
			return bad("tensor "+name, 8, "%v of %s lies at bytes %d to %d of %d", e.Shape, e.DType, from, to, len(data))
		}
		found = append(found, placed{Stored{name, e.DType, e.Shape, data[from:to]}, from})
	}
	// Empty tensors lie before others that begin where they do.
	slices.SortFunc(found, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(len(a.Data), len(b.Data)))
	})
	tensors, end := make([]Stored, 0, len(found)), int64(0)
	for _, f := range found {
		if f.at != end {
			return bad("tensor "+f.Name, 8, "it begins at byte %d, expected %d, where the one before it ends", f.at, end)
		}
		end += int64(len(f.Data))
		tensors = append(tensors, f.Stored)
	}
	if end != int64(len(data)) {
		return bad("tensors", 8, "they end at byte %d, the data at %d", end, len(data))
	}
	return tensors, nil
}
