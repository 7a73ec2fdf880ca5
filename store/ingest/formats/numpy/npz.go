package numpy

import (
	"bytes"
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
	"github.com/gstore/gstore/store/ingest/formats/files"
)

// Archive is a .npz file: a zip archive with a .npy file for each key. Members
// that are stored (numpy.savez) are read at their places inside the archive;
// deflated ones (numpy.savez_compressed) front to back, or from a copy in the
// scratch directory where any order is needed.
type Archive struct {
	fs   vfs.FS
	Path string
	Keys map[string]bool
	read map[string]bool // those of Keys that were asked for
}

// OpenArchive reads the directory of a .npz file.
func OpenArchive(fs vfs.FS, path string) (*Archive, error) {
	a := &Archive{fs: fs, Path: path, Keys: map[string]bool{}, read: map[string]bool{}}
	err := a.with(func(z *zip.Reader) error {
		for _, m := range z.File {
			key := strings.TrimSuffix(m.Name, ".npy")
			if a.Keys[key] {
				return ingest.Inputf(path, "array %q is there twice", key)
			}
			a.Keys[key] = true
			if err := a.checkName(m); err != nil {
				return err
			}
		}
		return nil
	})
	return a, err
}

// checkName compares the name of a member in the archive's directory with the one before its
// data: no checksum covers it, and an array whose name is damaged would pass for one that is not there.
func (a *Archive) checkName(m *zip.File) (err error) {
	end, err := m.DataOffset()
	if err != nil {
		return ingest.Inputf(a.Path+": "+m.Name, "%v", err)
	}
	f, err := a.fs.Open(a.Path)
	if err != nil {
		return fmt.Errorf("open input: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// A local header is 30 bytes, the name, and an extra field of up to 64 KiB
	// (numpy's are 0 or 20 bytes); its lengths are its last four bytes before the name.
	const fixed = 30
	b := make([]byte, min(end, int64(fixed+len(m.Name)+1<<16)))
	if _, err := f.ReadAt(b, end-int64(len(b))); err != nil { // the disk's own failures watchedFS tells apart
		return ingest.Inputf(a.Path+": "+m.Name, "its data at byte %d: %v", end, err)
	}
	for i := len(b) - fixed - len(m.Name); i >= 0; i-- {
		h := b[i:]
		if !bytes.HasPrefix(h, []byte("PK\x03\x04")) {
			continue
		}
		name, extra := int(binary.LittleEndian.Uint16(h[26:])), int(binary.LittleEndian.Uint16(h[28:]))
		if fixed+name+extra != len(h) {
			continue
		}
		if got := string(h[fixed : fixed+name]); got != m.Name {
			return ingest.Inputf(a.Path, "an array is called %q in one place and %q in another", m.Name, got)
		}
		return nil
	}
	return ingest.Inputf(a.Path+": "+m.Name, "no header before its data")
}

// with calls fn with the open archive.
func (a *Archive) with(fn func(z *zip.Reader) error) (err error) {
	z, f, err := a.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return fn(z)
}

func (a *Archive) open() (*zip.Reader, vfs.File, error) {
	f, err := a.fs.Open(a.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("open input: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open input: %w", err), f.Close())
	}
	// the section refuses the negative offsets that a damaged directory may hold
	z, err := zip.NewReader(io.NewSectionReader(f, 0, info.Size()), info.Size())
	if err != nil {
		return nil, nil, errors.Join(ingest.Inputf(a.Path, "not an .npz archive: %v", err), f.Close())
	}
	return z, f, nil
}

// Has reports whether all keys are there.
func (a *Archive) Has(keys ...string) bool {
	for _, k := range keys {
		if !a.Keys[k] {
			return false
		}
	}
	return true
}

// List names the keys for messages; at most some.
func (a *Archive) list() string {
	names := slices.Sorted(maps.Keys(a.Keys))
	if len(names) > 20 {
		names = append(names[:20:20], "…")
	}
	return strings.Join(names, ", ")
}

// unread are the keys that nobody has asked for, in order.
func (a *Archive) unread() (keys []string) {
	for k := range a.Keys {
		if !a.read[k] {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// Member finds a key's member and calls fn with it.
func (a *Archive) member(key string, fn func(m *zip.File) error) error {
	a.read[key] = true
	return a.with(func(z *zip.Reader) error {
		for _, m := range z.File {
			if strings.TrimSuffix(m.Name, ".npy") == key {
				return fn(m)
			}
		}
		return ingest.Inputf(a.Path, "no array %q (there are: %s)", key, a.list())
	})
}

// First returns the array of the first of the keys that is there; nil if none is.
func (a *Archive) First(keys ...string) (*Array, error) {
	for _, k := range keys {
		if a.Keys[k] {
			return a.Array(k)
		}
	}
	return nil, nil
}

// Array reads a key's header and compares it with the member's size.
func (a *Archive) Array(key string) (out *Array, err error) {
	where := a.Path + ": " + key
	err = a.member(key, func(m *zip.File) error {
		r, err := m.Open()
		if err != nil {
			return ingest.Inputf(where, "%v", err)
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		if out, err = readHeader(r); err != nil {
			return ingest.Inputf(where, "%v", err)
		}
		out.FS, out.Path, out.archive = a.fs, where, a.Path
		if want := uint64(out.offset + out.bytes()); m.UncompressedSize64 != want {
			return ingest.Inputf(where, "%d bytes, expected %d for %v of shape %v", m.UncompressedSize64, want, out.Elem, out.Shape)
		}
		out.member = func() (io.ReadCloser, error) { return a.openMember(key) }
		if out.deflated = m.Method != zip.Store; out.deflated {
			return nil
		}
		at, err := m.DataOffset()
		if err != nil {
			return ingest.Inputf(where, "%v", err)
		}
		if m.CompressedSize64 != m.UncompressedSize64 {
			return ingest.Inputf(where, "stored as %d bytes that are %d", m.CompressedSize64, m.UncompressedSize64)
		}
		out.offset += at
		return nil
	})
	return out, err
}

// openMember opens a member front to back; its checksum is compared at its end.
func (a *Archive) openMember(key string) (io.ReadCloser, error) {
	z, f, err := a.open()
	if err != nil {
		return nil, err
	}
	for _, m := range z.File {
		if strings.TrimSuffix(m.Name, ".npy") != key {
			continue
		}
		r, err := m.Open()
		if err != nil {
			return nil, errors.Join(ingest.Inputf(a.Path+": "+key, "%v", err), f.Close())
		}
		return &files.Unpacked{Reader: r, Damage: true, Done: r.Close, File: f, Path: a.Path + ": " + key}, nil
	}
	return nil, errors.Join(ingest.Inputf(a.Path, "no array %q any more", key), f.Close())
}

// Text reads the string that a 0-dimensional array of bytes or characters holds,
// such as scipy's "format".
func (a *Archive) text(key string) (s string, err error) {
	err = a.member(key, func(m *zip.File) error {
		if m.UncompressedSize64 > 1<<12 {
			return ingest.Inputf(a.Path+": "+key, "%d bytes, expected a short string", m.UncompressedSize64)
		}
		r, err := m.Open()
		if err != nil {
			return ingest.Inputf(a.Path+": "+key, "%v", err)
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		b, err := io.ReadAll(io.LimitReader(r, 1<<12))
		if err != nil {
			return ingest.Inputf(a.Path+": "+key, "%v", err)
		}
		if len(b) < 10 {
			return ingest.Inputf(a.Path+": "+key, "%d bytes are no array", len(b))
		}
		if i := strings.IndexByte(string(b), '\n'); i >= 0 { // the header ends with a newline
			s = strings.ReplaceAll(string(b[i+1:]), "\x00", "")
		}
		return nil
	})
	return s, err
}

// Counts are an archive's arrays of one number each.
func (a *Archive) Counts() (map[string]int64, error) {
	counts := map[string]int64{}
	for key := range a.Keys {
		x, err := a.Array(key)
		if err != nil {
			return nil, err
		}
		if counts[key], err = x.One(); err != nil {
			return nil, err
		}
	}
	return counts, nil
}
