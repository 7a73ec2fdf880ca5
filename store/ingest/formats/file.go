package formats

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/gstore/gstore/store/ingest"
)

// readBytes is how much of a file is read at once.
const readBytes = 1 << 20

// packed reports whether path is compressed, by its name.
func packed(path string) bool {
	return strings.HasSuffix(path, ".gz") || strings.HasSuffix(path, ".zst")
}

// plainName is path without the suffix of its compression.
func plainName(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst")
}

// open opens a file for reading front to back, unpacked.
func open(fs vfs.FS, path string) (io.ReadCloser, error) {
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
	b := bufio.NewReaderSize(f, readBytes)
	switch {
	case strings.HasSuffix(path, ".gz"):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		return &unpacked{Reader: z, damage: true, done: z.Close, file: f, path: path}, nil
	case strings.HasSuffix(path, ".zst"):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, err
		}
		return &unpacked{Reader: z, damage: true, done: func() error { z.Close(); return nil }, file: f, path: path}, nil
	}
	return &unpacked{Reader: b, done: func() error { return nil }, file: f, path: path}, nil
}

// unpacked is a file whose bytes are read as they are, or decompressed.
type unpacked struct {
	io.Reader
	damage bool // what Reader fails with is damage, for the disk's failures watchedFS tells apart
	done   func() error
	file   io.Closer
	path   string
	read   int64
}

// Read names the file and the position of damage.
func (u *unpacked) Read(b []byte) (int, error) {
	n, err := u.Reader.Read(b)
	u.read += int64(n)
	if err != nil && err != io.EOF {
		if u.damage {
			return n, ingest.Inputf(u.path, "damaged after %d unpacked bytes: %v", u.read, err)
		}
		return n, fmt.Errorf("read %s: %w", u.path, err)
	}
	return n, err
}

// Close closes the file too.
func (u *unpacked) Close() error { return errors.Join(u.done(), u.file.Close()) }

// find returns the first of the names that exists in dir, with or without .gz
// or .zst; "" if none does.
func find(fs vfs.FS, dir string, names ...string) string {
	for _, n := range names {
		for _, suffix := range []string{"", ".gz", ".zst"} {
			path := fs.PathJoin(dir, n+suffix)
			if info, err := fs.Stat(path); err == nil && !info.IsDir() {
				return path
			}
		}
	}
	return ""
}

// lines reads a small text file: class names and the like.
func lines(fs vfs.FS, path string) (ls []string, err error) {
	const most = 64 << 20
	f, err := open(fs, path)
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
