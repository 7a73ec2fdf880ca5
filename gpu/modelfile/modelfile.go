// Package modelfile reads and writes the files of trained models and of unfinished runs: what a kind of training says of it as
// JSON, and numbers. It knows none of them.
//
// A file is: magic, length of the JSON (u32), the JSON, length of the numbers in bytes (u64), the numbers (float32), crc32c of all
// before (u32); little-endian. A name that is replaced leads to the old file or the new one, whole, whenever the machine stops.
package modelfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/claim"
)

// Magics: what the files begin with. Part of the format.
const (
	Node        = "gstoremodel\x001\n\x00\x00"       // a model of node classification
	NodeRun     = "gstorerun\x00\x001\n\x00\x00\x00" // an unfinished run of it
	Temporal    = "gstoremoments\x001\n"             // a model of edges at moments
	TemporalRun = "gstoremomrun\x001\n\x00"          // an unfinished run of it
	Targets     = "gstoretarget\x001\n\x00"          // a model of targets of rows
	TargetsRun  = "gstoretgtrun\x001\n\x00"          // an unfinished run of it
)

// kinds says what files that begin so hold.
var kinds = map[string]string{Node: "a model of nodes", NodeRun: "an unfinished run on nodes",
	Temporal: "a model of edges at moments (train --task temporal)", TemporalRun: "an unfinished run on edges at moments",
	Targets: "a model of targets of rows (train --targets)", TargetsRun: "an unfinished run on targets of rows"}

// ErrKind is a file that is whole, as far as it was read, but holds something else than what was expected.
var ErrKind = errors.New("another kind of file")

const (
	jsonMax  = 16 << 20
	TailSize = 4 // bytes of the checksum
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Is reports whether the file at path begins with a magic. One that cannot be read does not.
func Is(path, magic string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, len(magic))
	n, _ := f.Read(b)
	return string(b[:n]) == magic
}

// Encode returns head as JSON and params, one after the other, in the format of model files.
func Encode(magic string, head any, params ...[]byte) ([]byte, error) {
	pieces, err := encode(magic, head, params)
	if err != nil {
		return nil, err
	}
	return slices.Concat(pieces...), nil
}

// encode is Encode in pieces.
func encode(magic string, head any, params [][]byte) ([][]byte, error) {
	begin, err := encodeHead(magic, head, params)
	if err != nil {
		return nil, err
	}
	pieces := append([][]byte{begin}, params...)
	return append(pieces, tail(pieces)), nil
}

// encodeHead is what comes before params.
func encodeHead(magic string, head any, params [][]byte) ([]byte, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("train: encode model: %w", err)
	}
	n := 0
	for _, p := range params {
		n += len(p)
	}
	b := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(text)))
	return binary.LittleEndian.AppendUint64(append(b, text...), uint64(n)), nil
}

// tail is what comes behind all pieces.
func tail(pieces [][]byte) []byte {
	sum := uint32(0)
	for _, p := range pieces {
		sum = crc32.Update(sum, castagnoli, p)
	}
	return binary.LittleEndian.AppendUint32(nil, sum)
}

// Decode is the inverse of Encode: it fills head and returns the parameters, which it moves to the beginning of b: they can be many. Errors
// are [*blocks.CorruptError], or [ErrKind].
func Decode(path, magic string, b []byte, head any) ([]byte, error) {
	body := b[:max(0, len(b)-TailSize)]
	var end [TailSize]byte
	copy(end[:], b[len(body):])
	at, err := decodeHead(path, magic, b, int64(len(b)), crc32.Checksum(body, castagnoli), end, head)
	if err != nil {
		return nil, err
	}
	n := copy(b, body[at:])
	return b[:n:n], nil
}

// decodeHead checks a file of so many bytes, which has the checksum sum and end says so, fills head and returns where the parameters
// begin: all that comes before them is in begin, where the file has it.
func decodeHead(path, magic string, begin []byte, size int64, sum uint32, end [TailSize]byte, head any) (params int64, err error) {
	bad := func(at int64, format string, args ...any) (int64, error) {
		return 0, &blocks.CorruptError{Path: path, Extent: "model", Offset: at, Reason: fmt.Sprintf(format, args...)}
	}
	for other, kind := range kinds {
		if other != magic && bytes.HasPrefix(begin, []byte(other)) {
			return 0, fmt.Errorf("%w: %s holds %s, expected %s", ErrKind, path, kind, kinds[magic])
		}
	}
	body, at := size-TailSize, int64(len(magic))
	if body < at+4+8 || string(begin[:at]) != magic {
		return bad(0, "it does not begin like a model file")
	}
	if want := binary.LittleEndian.Uint32(end[:]); sum != want {
		return bad(body, "checksum is %08x, expected %08x", sum, want)
	}
	n := int64(binary.LittleEndian.Uint32(begin[at:]))
	at += 4
	if n > jsonMax || n > body-at-8 {
		return bad(at-4, "description of %d bytes in a file of %d", n, size)
	}
	if err := json.Unmarshal(begin[at:at+n], head); err != nil {
		return bad(at, "description: %v", err)
	}
	at += n
	if said := binary.LittleEndian.Uint64(begin[at:]); said != uint64(body-at-8) {
		return bad(at, "%d bytes of parameters, expected %d", said, body-at-8)
	}
	if at += 8; (body-at)%4 != 0 {
		return bad(at, "%d bytes of parameters of 4", body-at)
	}
	return at, nil
}

// Save replaces the file path by one of what [Encode] returns: a crash leaves the one or the other, a return the new one. Several
// may save to one path at once: each file is whole, and the last one stays. Params are not copied: they can be many; fs may change
// them, as files of package vfs may what they are given to write.
func Save(fs vfs.FS, path, magic string, head any, params ...[]byte) (err error) {
	pieces, err := encode(magic, head, params)
	if err != nil {
		return err
	}
	tmp, f, release, err := temporary(fs, path)
	if err != nil {
		return fmt.Errorf("train: save model: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	for _, b := range pieces {
		if err == nil {
			_, err = f.Write(b)
		}
	}
	if e := f.Sync(); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = fs.Rename(tmp, path)
	}
	if err != nil {
		_ = fs.Remove(tmp)
		return fmt.Errorf("train: save model: %w", err)
	}
	if err := syncDir(fs, fs.PathDir(path)); err != nil {
		return fmt.Errorf("train: save model: %w", err)
	}
	return nil
}

// temporary begins an empty file beside path that nobody else writes until release: path.tmp, or while somebody has claimed that,
// path.2.tmp, path.3.tmp, …. What a killed process left under such a name is replaced. File systems other than the machine's, which
// have one user, have no claims.
func temporary(fs vfs.FS, path string) (name string, f vfs.File, release func() error, err error) {
	if vfs.Root(fs) != vfs.Default {
		f, err = fs.Create(path+".tmp", vfs.WriteCategoryUnspecified)
		return path + ".tmp", f, func() error { return nil }, err
	}
	name = path + ".tmp"
	claimed, err := claim.File(name)
	for n := 2; errors.Is(err, claim.ErrHeld); n++ {
		name = fmt.Sprintf("%s.%d.tmp", path, n)
		claimed, err = claim.File(name)
	}
	if err != nil {
		return "", nil, nil, err
	}
	if err = claimed.Truncate(0); err == nil {
		f, err = fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return "", nil, nil, errors.Join(err, claimed.Close())
	}
	return name, f, claimed.Close, nil
}

// syncDir makes the names in dir durable.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Read returns what the file holds.
func Read(fs vfs.FS, path string) (b []byte, err error) {
	err = open(fs, path, func(r io.Reader, size int64) error {
		b = make([]byte, size)
		_, err := io.ReadFull(r, b)
		return err
	})
	return b, err
}

// ReadHead fills head from a file and checks it as Decode does, but holds none of its numbers.
func ReadHead(fs vfs.FS, path, magic string, head any) error {
	return open(fs, path, func(r io.Reader, size int64) error {
		begin := make([]byte, min(size, int64(len(magic)+4)))
		if _, err := io.ReadFull(r, begin); err != nil {
			return err
		}
		rest := size - int64(len(begin)) - TailSize
		var end [TailSize]byte
		if rest < 0 { // it is too short for a checksum
			_, err := decodeHead(path, magic, begin, size, 0, end, head)
			return err
		}
		if string(begin[:len(magic)]) == magic { // the description, and how many numbers there are
			text := make([]byte, min(8+min(int64(binary.LittleEndian.Uint32(begin[len(magic):])), jsonMax), rest))
			if _, err := io.ReadFull(r, text); err != nil {
				return err
			}
			begin, rest = append(begin, text...), rest-int64(len(text))
		}
		sum := crc32.New(castagnoli)
		_, _ = sum.Write(begin)
		if _, err := io.CopyN(sum, r, rest); err != nil {
			return err
		}
		if _, err := io.ReadFull(r, end[:]); err != nil {
			return err
		}
		_, err := decodeHead(path, magic, begin, size, sum.Sum32(), end, head)
		return err
	})
}

// open calls fn with the file and its size.
func open(fs vfs.FS, path string, fn func(r io.Reader, size int64) error) (err error) {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return fn(f, info.Size())
}
