package formats

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
)

// array is a .npy file: a header, then elements row-major. See NEP 1, "A Simple
// File Format for NumPy Arrays".
type array struct {
	fs     vfs.FS
	path   string
	elem   blocks.ElemType
	shape  []int64 // at most 2 dimensions, their product × element size < 2⁶³
	offset int64   // of the first element, in the unpacked file

	// archive is the file that holds the array, where path is only its name in
	// messages: a member of an .npz.
	archive string
	// inflate, if not nil, opens a deflated member of the archive, which can be
	// read front to back only.
	inflate func() (io.ReadCloser, error)
}

// file is where the array is.
func (a *array) file() string {
	if a.archive != "" {
		return a.archive
	}
	return a.path
}

// packed reports whether the elements can only be read front to back.
func (a *array) packed() bool { return a.inflate != nil || packed(a.file()) }

// open opens the array for reading from its first element.
func (a *array) open() (io.ReadCloser, error) {
	if !a.packed() {
		f, err := openAt(a)
		if err != nil {
			return nil, err
		}
		r := bufio.NewReaderSize(io.NewSectionReader(f, a.offset, a.bytes()), 64<<10)
		return &unpacked{Reader: r, done: func() error { return nil }, file: f, path: a.path}, nil
	}
	var f io.ReadCloser
	var err error
	if a.inflate != nil {
		f, err = a.inflate()
	} else {
		f, err = open(a.fs, a.path)
	}
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, f, a.offset); err != nil {
		return nil, errors.Join(ingest.Inputf(a.path, "truncated in the header: %v", err), f.Close())
	}
	return f, nil
}

const npyHeaderMax = 1 << 20 // bytes; numpy itself refuses larger than 10000

// openArray reads the header of a .npy file, which may be packed, and compares a
// plain one's size with its shape.
func openArray(fs vfs.FS, path string) (_ *array, err error) {
	f, err := open(fs, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a, err := readNPYHeader(f)
	if err != nil {
		return nil, ingest.Inputf(path, "%v", err)
	}
	a.fs, a.path = fs, path
	if !packed(path) {
		info, err := fs.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		if want := a.offset + a.bytes(); info.Size() != want {
			return nil, ingest.Inputf(path, "%d bytes, expected %d for %v of shape %v (is the file truncated?)", info.Size(), want, a.elem, a.shape)
		}
	}
	return a, nil
}

// readNPYHeader decodes the header at the front of r.
func readNPYHeader(r io.Reader) (*array, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("not a .npy file: %w", err)
	}
	if string(head[:6]) != "\x93NUMPY" {
		return nil, fmt.Errorf("not a .npy file: it begins with %q", head[:6])
	}
	var length int64
	var size [4]byte
	switch head[6] {
	case 1:
		if _, err := io.ReadFull(r, size[:2]); err != nil {
			return nil, fmt.Errorf("truncated in the header: %w", err)
		}
		length = int64(binary.LittleEndian.Uint16(size[:]))
	case 2, 3:
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return nil, fmt.Errorf("truncated in the header: %w", err)
		}
		length = int64(binary.LittleEndian.Uint32(size[:]))
	default:
		return nil, fmt.Errorf(".npy format version %d, expected 1 to 3", head[6])
	}
	if length > npyHeaderMax {
		return nil, fmt.Errorf("header of %d bytes, at most %d are believed", length, npyHeaderMax)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, fmt.Errorf("truncated in the header: %w", err)
	}
	a, err := parseNPYHeader(string(text))
	if err != nil {
		return nil, fmt.Errorf("header %.200q: %w", bytes.TrimSpace(text), err)
	}
	a.offset = 8 + length + 2
	if head[6] > 1 {
		a.offset += 2
	}
	return a, nil
}

// parseNPYHeader parses the Python dictionary of a header, such as
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
func parseNPYHeader(s string) (*array, error) {
	a := &array{}
	descr, err := npyField(s, "descr")
	if err != nil {
		return nil, err
	}
	if len(descr) < 2 || descr[0] != '\'' && descr[0] != '"' {
		return nil, errors.New("structured element types are not supported")
	}
	name := descr[1:]
	if end := strings.IndexAny(name, `'"`); end >= 0 {
		name = name[:end]
	}
	if a.elem, err = npyElem(name); err != nil {
		return nil, err
	}
	shape, err := npyField(s, "shape")
	if err != nil {
		return nil, err
	}
	end := strings.IndexByte(shape, ')')
	if shape[0] != '(' || end < 0 {
		return nil, errors.New("no shape in parentheses")
	}
	total := int64(a.elem.Size())
	for _, d := range strings.Split(shape[1:end], ",") {
		d = strings.TrimSpace(d)
		if d == "" {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(d, "L"), 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("dimension %q", d)
		}
		if n > 0 && total > math.MaxInt64/2/n {
			return nil, fmt.Errorf("shape (%s) has too many bytes", shape[1:end])
		}
		total *= max(n, 1)
		a.shape = append(a.shape, n)
	}
	if len(a.shape) == 0 || len(a.shape) > 2 {
		return nil, fmt.Errorf("%d dimensions, expected 1 or 2", len(a.shape))
	}
	order, err := npyField(s, "fortran_order")
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(order, "True") && len(a.shape) == 2 && a.shape[0] > 1 && a.shape[1] > 1 {
		return nil, errors.New("data in Fortran order, expected C order (numpy.ascontiguousarray converts)")
	}
	return a, nil
}

// npyField returns what follows a key of the dictionary; never empty.
func npyField(s, key string) (string, error) {
	for _, quote := range []string{"'", `"`} {
		if _, rest, ok := strings.Cut(s, quote+key+quote); ok {
			if rest, ok = strings.CutPrefix(strings.TrimSpace(rest), ":"); ok {
				if rest = strings.TrimSpace(rest); rest != "" {
					return rest, nil
				}
			}
		}
	}
	return "", fmt.Errorf("no %s", key)
}

func npyElem(descr string) (blocks.ElemType, error) {
	switch descr {
	case "<f4":
		return blocks.Float32, nil
	case "<f2":
		return blocks.Float16, nil
	case "<f8":
		return blocks.Float64, nil
	case "|i1", "<i1":
		return blocks.Int8, nil
	case "|u1", "<u1", "|b1":
		return blocks.Uint8, nil
	case "<u2":
		return blocks.Uint16, nil
	case "<i4":
		return blocks.Int32, nil
	case "<u4":
		return blocks.Uint32, nil
	case "<i8":
		return blocks.Int64, nil
	case "<u8":
		return blocks.Uint64, nil
	}
	return blocks.Invalid, fmt.Errorf("elements of type %q, expected little-endian f2 f4 f8 i1 u1 u2 i4 u4 i8 u8 or bool", descr)
}

func (a *array) rows() int64 { return a.shape[0] }

// dim is the number of elements of a row.
func (a *array) dim() int64 {
	if len(a.shape) == 1 {
		return 1
	}
	return a.shape[1]
}

func (a *array) bytes() int64 {
	n := int64(a.elem.Size())
	for _, d := range a.shape {
		n *= d
	}
	return n
}

func (a *array) integer() bool {
	switch a.elem {
	case blocks.Int32, blocks.Uint32, blocks.Int64, blocks.Uint64:
		return true
	}
	return false
}

// stream calls fn with all the elements, in steps of whole rows of at most some
// step bytes (but one row at least); first is the row the step begins with.
func (a *array) stream(ctx context.Context, step int64, fn func(first int64, b []byte) error) (err error) {
	row := a.dim() * int64(a.elem.Size())
	if row == 0 || a.rows() == 0 {
		return nil
	}
	f, err := a.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	per := min(max(1, step/row), a.rows())
	buf := make([]uint64, (per*row+7)/8) // 8-byte aligned
	bytes := blocks.Bytes(buf)
	for first := int64(0); first < a.rows(); first += per {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(per, a.rows()-first)
		b := bytes[:n*row]
		if k, err := io.ReadFull(f, b); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return ingest.Inputf(a.path, "truncated: row %d is not there, expected %d rows", first+int64(k)/row, a.rows())
			}
			return err
		}
		if err := fn(first, b); err != nil {
			return err
		}
	}
	if a.packed() {
		if n, err := f.Read(bytes[:1]); n > 0 {
			return ingest.Inputf(a.path, "bytes after %d rows", a.rows())
		} else if err != nil && err != io.EOF {
			return err
		}
	}
	return nil
}

// plain makes an array that can be read at any place: itself, or a copy
// unpacked into the scratch directory.
func (a *array) plain(ctx context.Context, env ingest.Env) (_ *array, err error) {
	if !a.packed() {
		return a, nil
	}
	if env.ScratchDir == "" {
		return nil, fmt.Errorf("%s: needs a scratch directory to unpack", a.path)
	}
	out := *a
	out.fs, out.offset, out.archive, out.inflate = env.FS, 0, "", nil
	out.path = env.FS.PathJoin(env.ScratchDir, "unpacked-"+strings.NewReplacer("/", "_", ": ", "-").Replace(a.path))
	f, err := env.FS.Create(out.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", a.path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = a.stream(ctx, readBytes, func(_ int64, b []byte) error {
		_, err := f.Write(b)
		return err
	})
	return &out, err
}

// widen appends integer elements to dst as 64 bits; negative ones keep their sign.
func widen(dst []uint64, elem blocks.ElemType, b []byte) []uint64 {
	le := binary.LittleEndian
	switch elem {
	case blocks.Int64, blocks.Uint64:
		for ; len(b) >= 8; b = b[8:] {
			dst = append(dst, le.Uint64(b))
		}
	case blocks.Int32:
		for ; len(b) >= 4; b = b[4:] {
			dst = append(dst, uint64(int64(int32(le.Uint32(b)))))
		}
	case blocks.Uint32:
		for ; len(b) >= 4; b = b[4:] {
			dst = append(dst, uint64(le.Uint32(b)))
		}
	case blocks.Uint8:
		for _, x := range b {
			dst = append(dst, uint64(x))
		}
	case blocks.Uint16:
		for ; len(b) >= 2; b = b[2:] {
			dst = append(dst, uint64(le.Uint16(b)))
		}
	case blocks.Int8:
		for _, x := range b {
			dst = append(dst, uint64(int64(int8(x))))
		}
	}
	return dst
}
