package numpy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zip"

	"github.com/gstore/gstore/store/ingest"
)

// torchMax bounds a member of an archive of PyTorch's: lists of ids fit.
const torchMax = 1 << 30

// Saved is an entry of a dictionary that torch.save wrote: an integer, or a list of them.
type Saved struct {
	Number int64
	List   []int64 // nil of a number
}

// OpenSaved reads a dictionary of integers and of int64 arrays or tensors that torch.save wrote. Its pickle is read as data: what it would
// call is compared with the few things that such a dictionary has, and nothing is called.
func OpenSaved(fs vfs.FS, path string) (_ map[string]Saved, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return nil, ingest.Inputf(path, "%v, expected an archive that torch.save of PyTorch 1.6 or later wrote", err)
	}
	member := func(name string) ([]byte, error) {
		for _, m := range z.File {
			if _, inner, _ := strings.Cut(m.Name, "/"); inner != name {
				continue
			}
			if m.UncompressedSize64 > torchMax {
				return nil, ingest.Inputf(path, "%s has %d bytes, expected at most %d", m.Name, m.UncompressedSize64, torchMax)
			}
			r, err := m.Open()
			if err != nil {
				return nil, ingest.Inputf(path, "%s: %v", m.Name, err)
			}
			b, err := io.ReadAll(io.LimitReader(r, torchMax))
			if err = errors.Join(err, r.Close()); err != nil {
				return nil, ingest.Inputf(path, "%s: %v", m.Name, err)
			}
			return b, nil
		}
		return nil, ingest.Inputf(path, "no %s in it", name)
	}
	b, err := member("data.pkl")
	if err != nil {
		return nil, err
	}
	top, err := unpickle(b)
	if err != nil {
		return nil, ingest.Inputf(path, "%v", err)
	}
	dict, ok := top.(map[string]any)
	if !ok {
		return nil, ingest.Inputf(path, "it holds a %T, expected a dictionary", top)
	}
	all := map[string]Saved{}
	for _, key := range slices.Sorted(maps.Keys(dict)) {
		s, err := savedOf(dict[key], member)
		if err != nil {
			return nil, ingest.Inputf(path, "%q: %v", key, err)
		}
		all[key] = s
	}
	return all, nil
}

var errSaved = errors.New("expected an integer, or an array or tensor of int64 of one dimension")

// savedOf makes an entry of what unpickle made of it.
func savedOf(v any, member func(string) ([]byte, error)) (s Saved, err error) {
	if n, ok := v.(int64); ok {
		return Saved{Number: n}, nil
	}
	c, ok := v.(*pickled)
	if !ok {
		return s, errSaved
	}
	var b []byte
	switch {
	case strings.HasSuffix(c.global, "core.multiarray _reconstruct"): // numpy's: version, shape, dtype, order, bytes
		state, _ := c.state.([]any)
		if len(state) != 5 || !isInt64(state[2]) {
			return s, errSaved
		}
		shape, _ := state[1].([]any)
		if b = bytesOf(state[4]); len(shape) != 1 || shape[0] != int64(len(b)/8) {
			return s, errSaved
		}
	case c.global == "torch._utils _rebuild_tensor_v2" && len(c.args) >= 4: // storage, offset, size, stride
		storage, _ := c.args[0].(persistent)
		size, _ := c.args[2].([]any)
		stride, _ := c.args[3].([]any)
		offset, _ := c.args[1].(int64)
		if len(storage) < 3 || len(size) != 1 || len(stride) != 1 || stride[0] != int64(1) {
			return s, errSaved
		}
		kind, _ := storage[1].(global)
		key, _ := storage[2].(string)
		n, _ := size[0].(int64)
		if kind != "torch LongStorage" {
			return s, errSaved
		}
		if b, err = member("data/" + key); err != nil {
			return s, err
		}
		if offset < 0 || n < 0 || offset > int64(len(b)/8) || n > int64(len(b)/8)-offset {
			return s, fmt.Errorf("%d elements from %d of %d bytes", n, offset, len(b))
		}
		b = b[8*offset:][:8*n]
	default:
		return s, errSaved
	}
	s.List = make([]int64, len(b)/8)
	for i := range s.List {
		s.List[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return s, nil
}

// isInt64 reports whether v is numpy's dtype of int64, little-endian.
func isInt64(v any) bool {
	d, ok := v.(*pickled)
	if !ok || d.global != "numpy dtype" || len(d.args) == 0 || d.args[0] != "i8" {
		return false
	}
	state, _ := d.state.([]any)
	return len(state) > 1 && state[1] == "<"
}

// bytesOf are bytes as pickles have them: by themselves, or, in old protocols, as text of Latin-1.
func bytesOf(v any) []byte {
	switch v := v.(type) {
	case []byte:
		return v
	case *pickled:
		if text, ok := first(v.args).(string); ok && v.global == "_codecs encode" {
			b := make([]byte, 0, len(text))
			for _, r := range text {
				b = append(b, byte(r))
			}
			return b
		}
	}
	return nil
}

func first(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}
