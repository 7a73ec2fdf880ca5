package numpy

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zip"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
)

// torchMax bounds what of an archive of PyTorch's is read into memory: its pickle, and lists of ids.
const torchMax = 1 << 30

// Torch is a file that torch.save of PyTorch 1.6 or later wrote: a zip archive of a pickle, and of the elements of its tensors, which
// stay in the file. The pickle is read as data: nothing that it would call is called.
type Torch struct {
	archive *Archive
	root    string // the folder of the archive's members
	Top     any    // what the pickle holds: see [Object]
}

// OpenTorch reads the pickle of a file.
func OpenTorch(fs vfs.FS, path string) (*Torch, error) {
	if zipped, err := isZip(fs, path); err != nil {
		return nil, err
	} else if !zipped {
		return nil, ingest.Inputf(path, "no archive that torch.save of PyTorch 1.6 or later wrote: torch.save(torch.load(path), path) there makes one of an older file")
	}
	a, err := OpenArchive(fs, path)
	if err != nil {
		return nil, err
	}
	t := &Torch{archive: a}
	found := false
	for key := range a.Keys {
		if root, name, ok := strings.Cut(key, "/"); ok && name == "data.pkl" {
			t.root, found = root, true
		}
	}
	if !found {
		return nil, ingest.Inputf(path, "no data.pkl in it, expected what torch.save wrote")
	}
	b, err := t.member("data.pkl")
	if err != nil {
		return nil, err
	}
	if t.Top, err = unpickle(b); err != nil {
		return nil, ingest.Inputf(path, "%v", err)
	}
	return t, nil
}

// isZip reports whether a file begins as an archive does.
func isZip(fs vfs.FS, path string) (_ bool, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return false, fmt.Errorf("open input: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	magic := make([]byte, 4)
	if _, err := f.ReadAt(magic, 0); err != nil && err != io.EOF {
		return false, fmt.Errorf("read input: %w", err)
	}
	return string(magic) == "PK\x03\x04", nil
}

// member reads a member whole.
func (t *Torch) member(name string) (b []byte, err error) {
	key := t.root + "/" + name
	where := t.archive.Path + ": " + name
	err = t.archive.member(key, func(m *zip.File) error {
		if m.UncompressedSize64 > torchMax {
			return ingest.Inputf(where, "%d bytes, expected at most %d", m.UncompressedSize64, torchMax)
		}
		r, err := m.Open()
		if err != nil {
			return ingest.Inputf(where, "%v", err)
		}
		b, err = io.ReadAll(io.LimitReader(r, torchMax))
		if err = errors.Join(err, r.Close()); err != nil {
			return ingest.Inputf(where, "%v", err)
		}
		return nil
	})
	return b, err
}

// storages are the types of PyTorch's tensors that are read, by the class of their elements.
var storages = map[global]blocks.ElemType{
	"torch FloatStorage": blocks.Float32, "torch DoubleStorage": blocks.Float64, "torch HalfStorage": blocks.Float16, "torch BFloat16Storage": blocks.BFloat16,
	"torch LongStorage": blocks.Int64, "torch IntStorage": blocks.Int32, "torch CharStorage": blocks.Int8, "torch ByteStorage": blocks.Uint8, "torch BoolStorage": blocks.Uint8,
}

// IsTensor reports whether v is a tensor, or a parameter.
func IsTensor(v any) bool {
	o, ok := v.(*Object)
	return ok && (o.Class == "torch._utils _rebuild_tensor_v2" || o.Class == "torch._utils _rebuild_parameter")
}

// size is a tensor's, which has so many dimensions.
func size(v any, dimensions int) []int64 {
	o, _ := v.(*Object)
	if !IsTensor(v) || len(o.Args) < 4 {
		return nil
	}
	if n, ok := integers(o.Args[2]); ok && len(n) == dimensions {
		return n
	}
	return nil
}

// Length is how many elements a tensor of one dimension has; false for anything else.
func Length(v any) (n int64, ok bool) {
	if s := size(v, 1); s != nil {
		return s[0], true
	}
	return 0, false
}

// Width is the second dimension of a tensor of two; false for anything else.
func Width(v any) (n int64, ok bool) {
	if s := size(v, 2); s != nil {
		return s[1], true
	}
	return 0, false
}

// Tensor is the array of a tensor, whose elements are read from the file. A tensor of no dimension is an array of one element; dimensions
// beyond the second are one with it. One of which rows do not stand one after another, nor columns, is an error.
func (t *Torch) Tensor(name string, v any) (*Array, error) {
	where := t.archive.Path + ": " + name
	o, _ := v.(*Object)
	if IsTensor(v) && o.Class == "torch._utils _rebuild_parameter" {
		o, _ = first(o.Args).(*Object)
	}
	if o == nil || !IsTensor(o) || len(o.Args) < 4 {
		return nil, ingest.Inputf(where, "no tensor")
	}
	storage, _ := o.Args[0].(persistent)
	begin, _ := o.Args[1].(int64)
	size, sized := integers(o.Args[2])
	stride, strided := integers(o.Args[3])
	if len(storage) < 3 || !sized || !strided || len(size) != len(stride) {
		return nil, ingest.Inputf(where, "no tensor that is known")
	}
	kind, _ := storage[1].(global)
	key, _ := storage[2].(string)
	a := &Array{FS: t.archive.fs, Path: where, archive: t.archive.Path}
	if a.Elem = storages[kind]; a.Elem == blocks.Invalid {
		return nil, ingest.Inputf(where, "elements of type %s, expected float32, float64, float16, bfloat16, int64, int32, int8, uint8 or bool", kind)
	}
	elements := int64(1)
	for _, n := range size {
		if n < 0 || n > 0 && elements > (1<<61)/n {
			return nil, ingest.Inputf(where, "shape %v", size)
		}
		elements *= n
	}
	switch rows := lengthOf(size); {
	case elements == 0 || inRows(size, stride):
	case len(size) == 2 && stride[0] == 1 && stride[1] == rows:
		a.Columns = true
	default:
		return nil, ingest.Inputf(where, "shape %v with strides %v, expected neighbouring elements: .contiguous() makes it so", size, stride)
	}
	a.Shape = []int64{lengthOf(size)}
	if len(size) > 1 {
		dim := int64(1)
		for _, n := range size[1:] {
			dim *= n
		}
		a.Shape = append(a.Shape, dim)
	}
	return a, t.place(a, "data/"+key, begin)
}

// place says where in the archive an array begins, so many elements into a member.
func (t *Torch) place(a *Array, name string, begin int64) error {
	key, bytes := t.root+"/"+name, a.bytes()
	return t.archive.member(key, func(m *zip.File) error {
		has := m.UncompressedSize64
		if begin < 0 || begin > 1<<58 || has > 1<<62 || uint64(begin)*uint64(a.Elem.Size())+uint64(bytes) > has {
			return ingest.Inputf(a.Path, "%d bytes from element %d of %d bytes", bytes, begin, has)
		}
		if whole := uint64(bytes) == has; whole {
			a.member = func() (io.ReadCloser, error) { return t.archive.openMember(key) }
			a.deflated = m.Method != zip.Store
		} else if m.Method != zip.Store {
			return ingest.Inputf(a.Path, "a part of a tensor in an archive that is compressed, expected what torch.save wrote")
		}
		at, err := m.DataOffset()
		if err != nil {
			return ingest.Inputf(a.Path, "%v", err)
		}
		a.offset = at + begin*int64(a.Elem.Size())
		return nil
	})
}

// integers are those of a tuple.
func integers(v any) (out []int64, ok bool) {
	list, ok := v.([]any)
	for _, x := range list {
		n, is := x.(int64)
		out, ok = append(out, n), ok && is
	}
	return out, ok
}

// lengthOf is the length of the first dimension; 1 of a tensor without.
func lengthOf(size []int64) int64 {
	if len(size) == 0 {
		return 1
	}
	return size[0]
}

// inRows reports whether a tensor's elements stand row by row.
func inRows(size, stride []int64) bool {
	step := int64(1)
	for k := len(size) - 1; k >= 0; k-- {
		if size[k] != 1 && stride[k] != step {
			return false
		}
		step *= size[k]
	}
	return true
}

// Saved is an entry of a dictionary that torch.save wrote: an integer, or a list of them.
type Saved struct {
	Number int64
	List   []int64 // nil of a number
}

// OpenSaved reads a dictionary of integers and of int64 arrays or tensors that torch.save wrote.
func OpenSaved(fs vfs.FS, path string) (map[string]Saved, error) {
	t, err := OpenTorch(fs, path)
	if err != nil {
		return nil, err
	}
	dict, ok := t.Top.(*Dict)
	if !ok {
		return nil, ingest.Inputf(path, "it holds a %T, expected a dictionary", t.Top)
	}
	all := map[string]Saved{}
	for i, k := range dict.Keys {
		key, ok := k.(string)
		if !ok {
			return nil, ingest.Inputf(path, "key %v, expected text", k)
		}
		if all[key], err = t.saved(key, dict.Values[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// saved makes an entry of what the pickle has.
func (t *Torch) saved(name string, v any) (s Saved, err error) {
	wrong := ingest.Inputf(t.archive.Path, "%q: expected an integer, or an array or tensor of int64 of one dimension", name)
	if n, ok := v.(int64); ok {
		return Saved{Number: n}, nil
	}
	if IsTensor(v) {
		a, err := t.Tensor(name, v)
		if err != nil {
			return s, err
		}
		if a.Elem != blocks.Int64 || len(a.Shape) != 1 {
			return s, wrong
		}
		ids, err := a.small(torchMax / 8)
		s.List = make([]int64, len(ids))
		for i, id := range ids {
			s.List[i] = int64(id)
		}
		return s, err
	}
	x := ArrayIn(v)
	if x == nil || x.Elem != blocks.Int64 || len(x.Shape) != 1 {
		return s, wrong
	}
	return Saved{List: x.Integers()}, nil
}
