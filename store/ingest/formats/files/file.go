// Package files opens the files of an input: packed by gzip, Zstandard or bzip2, or plain, named with the ending of what packed
// them or without, and, beside the files of an export, what gstore export says of them.
package files

import (
	"bufio"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/gstore/gstore/store/ingest"
)

// ReadBytes is how much of a file is read at once.
const ReadBytes = 1 << 20

// Packings are the endings of files' names by how they are packed; "" = they are not.
var Packings = []string{"", ".gz", ".zst", ".bz2"}

// Packed reports whether path is compressed, by its name.
func Packed(path string) bool {
	return PlainName(path) != path
}

// PlainName is path without the suffix of its compression.
func PlainName(path string) string {
	for _, suffix := range Packings[1:] {
		if plain, ok := strings.CutSuffix(path, suffix); ok {
			return plain
		}
	}
	return path
}

// Open opens a file for reading front to back, unpacked.
func Open(fs vfs.FS, path string) (io.ReadCloser, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	r, err := unpack(f, path)
	if err != nil {
		return nil, errors.Join(ingest.Inputf(path, "%v", err), f.Close())
	}
	return r, nil
}

// unpack wraps f by the compression that path's name tells; closing the result
// closes f.
func unpack(f io.ReadCloser, path string) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(f, ReadBytes)
	switch {
	case strings.HasSuffix(path, ".gz"):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		return &Unpacked{Reader: z, Damage: true, Done: z.Close, File: f, Path: path}, nil
	case strings.HasSuffix(path, ".zst"):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, err
		}
		return &Unpacked{Reader: z, Damage: true, Done: func() error { z.Close(); return nil }, File: f, Path: path}, nil
	}
	if strings.HasSuffix(path, ".bz2") {
		return &Unpacked{Reader: bzip2.NewReader(b), Damage: true, Done: func() error { return nil }, File: f, Path: path}, nil
	}
	return &Unpacked{Reader: b, Done: func() error { return nil }, File: f, Path: path}, nil
}

// Unpacked is a file whose bytes are read as they are, or decompressed.
type Unpacked struct {
	io.Reader
	Damage bool // what Reader fails with is damage, for the disk's failures watchedFS tells apart
	Done   func() error
	File   io.Closer
	Path   string
	read   int64
}

// Read names the file and the position of damage.
func (u *Unpacked) Read(b []byte) (int, error) {
	n, err := u.Reader.Read(b)
	u.read += int64(n)
	if err != nil && err != io.EOF {
		if u.Damage {
			return n, ingest.Inputf(u.Path, "damaged after %d unpacked bytes: %v", u.read, err)
		}
		return n, fmt.Errorf("read %s: %w", u.Path, err)
	}
	return n, err
}

// Close closes the file too.
func (u *Unpacked) Close() error { return errors.Join(u.Done(), u.File.Close()) }

// Find returns the first of the names that exists in dir, plain or packed; "" if none does.
func Find(fs vfs.FS, dir string, names ...string) string {
	for _, n := range names {
		for _, suffix := range Packings {
			path := fs.PathJoin(dir, n+suffix)
			if info, err := fs.Stat(path); err == nil && !info.IsDir() {
				return path
			}
		}
	}
	return ""
}

// Lines reads a small text file: class names and the like.
func Lines(fs vfs.FS, path string) (ls []string, err error) {
	const most = 64 << 20
	f, err := Open(fs, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if len(b) > most {
		return nil, ingest.Inputf(path, "more than %d bytes of names", most)
	}
	for line := range strings.Lines(string(b)) {
		ls = append(ls, strings.TrimRight(line, "\r\n"))
	}
	return ls, nil
}

// IsFile reports whether path is a file.
func IsFile(fs vfs.FS, path string) bool {
	info, err := fs.Stat(path)
	return err == nil && !info.IsDir()
}

// FindSuffix returns the only file of dir whose name has the suffix; "" if there is none, or more.
func FindSuffix(fs vfs.FS, dir, suffix string) string {
	names, err := fs.List(dir)
	if err != nil {
		return ""
	}
	found := ""
	for _, n := range names {
		if strings.HasSuffix(n, suffix) {
			if found != "" {
				return ""
			}
			found = fs.PathJoin(dir, n)
		}
	}
	return found
}

// SyncDir makes the names of a folder last.
func SyncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
