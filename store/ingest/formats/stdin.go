package formats

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/postgres"
)

// spoolSuffixes are the endings a spooled stream may get, which tell its form.
var spoolSuffixes = []string{".txt", ".txt.gz", ".txt.zst", ".npz", ".parquet", ".raw"}

// Spool copies a stream, which can be read once, to a file beginning with
// base, which an ingest can read as often as it must, and returns its path: the
// suffix says what the first bytes show (text, packed or not, .npz, Parquet),
// or that format is one of raw binary pairs.
//
// The file has its name only once it is whole and synced. With resume one that
// an interrupted ingest left is taken, and r is not read; without, it is
// overwritten. The caller removes it, by [RemoveSpool], when it is no longer of use.
func Spool(ctx context.Context, fs vfs.FS, base string, r io.Reader, format string, resume bool) (path string, err error) {
	if fs == nil {
		fs = vfs.Default
	}
	if resume {
		for _, suffix := range spoolSuffixes {
			if files.IsFile(fs, base+suffix) {
				return base + suffix, nil
			}
		}
	}
	if err := RemoveSpool(fs, base); err != nil {
		return "", err
	}
	in := bufio.NewReaderSize(newCtxReader(ctx, r), files.ReadBytes)
	head, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if len(head) == 0 {
		return "", ingest.Inputf("standard input", "empty, expected a graph")
	}
	path = base + spoolSuffix(head, format)
	part := base + ".part"
	if err := fs.MkdirAll(fs.PathDir(base), 0o777); err != nil {
		return "", fmt.Errorf("spool standard input: %w", err)
	}
	f, err := fs.Create(part, vfs.WriteCategoryUnspecified)
	if err != nil {
		return "", fmt.Errorf("spool standard input: %w", err)
	}
	defer func() {
		if err != nil {
			path, err = "", errors.Join(err, fs.RemoveAll(part))
		}
	}()
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{in}, make([]byte, files.ReadBytes))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fs.Rename(part, path)
	}
	if err == nil {
		err = files.SyncDir(fs, fs.PathDir(path))
	}
	if err != nil {
		return "", fmt.Errorf("spool standard input to %s: %w", path, err)
	}
	return path, nil
}

// databaseSuffix ends the name of the folder that a database is spooled to.
const databaseSuffix = ".tables"

// IsAddress reports whether an input is the address of a database, which [SpoolDatabase] copies: postgres://USER@HOST/NAME.
func IsAddress(input string) bool { return postgres.Is(input) }

// PublicAddress is an address without what is secret in it.
func PublicAddress(input string) string { return postgres.Public(input) }

// SpoolDatabase is [Spool] of the tables of a database, as they are at one moment, to a folder that is one of format database.
func SpoolDatabase(ctx context.Context, fs vfs.FS, base, address string, resume bool) (path string, err error) {
	if fs == nil {
		fs = vfs.Default
	}
	path = base + databaseSuffix
	if !resume {
		if err := RemoveSpool(fs, base); err != nil {
			return "", err
		}
	}
	if err := database.Spool(ctx, fs, address, path); err != nil {
		return "", errors.Join(err, fs.RemoveAll(path))
	}
	return path, nil
}

// Beside copies the database at an address beside a store, and says in o what it is called. It returns where the input is then, which is input itself
// where that is no address; done removes the copy.
func (o *Options) Beside(ctx context.Context, store, input string) (path string, done func() error, err error) {
	if !IsAddress(input) {
		return input, func() error { return nil }, nil
	}
	base := StreamBase(store)
	o.Input = PublicAddress(input)
	path, err = SpoolDatabase(ctx, o.FS, base, input, false)
	return path, func() error { return RemoveSpool(o.FS, base) }, err
}

// StreamBase is what the files beside a store begin with that a stream or a database is copied to.
func StreamBase(store string) string { return filepath.Clean(store) + ".stdin" }

// spoolSuffix tells a stream's form by its first bytes.
func spoolSuffix(head []byte, format string) string {
	switch {
	case format == "binary" || format == "binary64":
		return ".raw"
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return ".txt.gz"
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return ".txt.zst"
	case string(head) == "PK\x03\x04":
		return ".npz"
	case string(head) == "PAR1":
		return ".parquet"
	}
	return ".txt"
}

// RemoveSpool removes what [Spool] may have made; what is not there is no error.
func RemoveSpool(fs vfs.FS, base string) error {
	if fs == nil {
		fs = vfs.Default
	}
	for _, suffix := range append([]string{".part", databaseSuffix}, spoolSuffixes...) {
		if err := fs.RemoveAll(base + suffix); err != nil {
			return fmt.Errorf("remove the spooled input: %w", err)
		}
	}
	return nil
}

// ctxReader stops when its context ends, even while a read waits: then the goroutine that
// reads is left behind until its stream gives something or ends.
type ctxReader struct {
	ctx  context.Context
	r    io.Reader
	buf  []byte
	have []byte        // of buf, not handed out yet
	done chan readDone // of the read under way
}

type readDone struct {
	n   int
	err error
}

func newCtxReader(ctx context.Context, r io.Reader) *ctxReader {
	return &ctxReader{ctx: ctx, r: r, buf: make([]byte, files.ReadBytes), done: make(chan readDone, 1)}
}

// Read implements io.Reader.
func (r *ctxReader) Read(b []byte) (int, error) {
	if len(r.have) == 0 {
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		go func() {
			var d readDone
			d.err = panics.Call(func() (err error) {
				d.n, err = r.r.Read(r.buf)
				return err
			})
			r.done <- d
		}()
		select {
		case d := <-r.done:
			if r.have = r.buf[:d.n]; d.err != nil {
				n := copy(b, r.have)
				if r.have = r.have[n:]; len(r.have) > 0 {
					r.r = failed{d.err}
					return n, nil
				}
				return n, d.err
			}
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
	n := copy(b, r.have)
	r.have = r.have[n:]
	return n, nil
}

// failed is a stream that has ended.
type failed struct{ err error }

// Read implements io.Reader.
func (f failed) Read([]byte) (int, error) { return 0, f.err }

// IsStream reports whether path is a pipe or a device, such as /dev/fd/63 of a shell's <(…): something
// that can be read once only, by [Spool].
func IsStream(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket|os.ModeCharDevice) != 0
}

// Stream is a pipe or device, opened when it is first read: a resumed ingest does not wait for its writer.
type Stream struct {
	Path string
	f    *os.File
}

// Read implements io.Reader.
func (s *Stream) Read(b []byte) (int, error) {
	if s.f == nil {
		f, err := os.Open(s.Path)
		if err != nil {
			return 0, fmt.Errorf("open input: %w", err)
		}
		s.f = f
	}
	return s.f.Read(b)
}
