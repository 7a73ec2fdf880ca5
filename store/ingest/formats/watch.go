package formats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// watchedFS remembers the first operation on the input that failed for another
// reason than that there is no such file. A disk that fails must not pass
// for an input that lacks a file (features would be left out in silence) or for a
// malformed one (an ingest that could be resumed would be swept as bad input).
type watchedFS struct {
	vfs.FS
	mu    sync.Mutex
	first error
	cause error // of first, as the file system says it
}

func (w *watchedFS) saw(what, path string, err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		w.first, w.cause = fmt.Errorf("%s %s: %w", what, path, err), err
	}
	return err
}

// verdict is err, or the failure of the disk that err is the consequence of.
func (w *watchedFS) verdict(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.first == nil || err != nil && errors.Is(err, w.first):
		return err
	case err == nil || errors.Is(err, ingest.ErrInput):
		return fmt.Errorf("input: %w", w.first)
	case errors.Is(err, w.cause): // the same, told by who met it
		return err
	}
	return fmt.Errorf("input: %w; then: %w", w.first, err)
}

// Stat implements [vfs.FS].
func (w *watchedFS) Stat(path string) (vfs.FileInfo, error) {
	info, err := w.FS.Stat(path)
	return info, w.saw("look for", path, err)
}

// List implements [vfs.FS].
func (w *watchedFS) List(path string) ([]string, error) {
	names, err := w.FS.List(path)
	return names, w.saw("list", path, err)
}

// Open implements [vfs.FS].
func (w *watchedFS) Open(path string, o ...vfs.OpenOption) (vfs.File, error) {
	// A pipe would wait for its writer, and give its bytes once; an ingest reads its input more than once.
	if info, err := w.FS.Stat(path); err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket|os.ModeCharDevice) != 0 {
		return nil, ingest.Inputf(path, "a pipe or device, which can be read once only: give it as the INPUT itself, or as standard input (INPUT -)")
	}
	f, err := w.FS.Open(path, o...)
	if err != nil {
		return nil, w.saw("open", path, err)
	}
	return &watchedFile{File: f, fs: w, path: path}, nil
}

type watchedFile struct {
	vfs.File
	fs   *watchedFS
	path string
}

// Read implements [vfs.File].
func (f *watchedFile) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	return n, f.fs.saw("read", f.path, err)
}

// ReadAt implements [vfs.File].
func (f *watchedFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	return n, f.fs.saw("read", f.path, err)
}

// watchedSource is a source whose files are on a watched file system.
type watchedSource struct {
	ingest.Source
	fs *watchedFS
}

// Edges implements [ingest.Source].
func (s *watchedSource) Edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	return s.fs.verdict(s.Source.Edges(ctx, env, emit))
}

// Rows implements [ingest.Source].
func (s *watchedSource) Rows(ctx context.Context, env ingest.Env, c int, emit func([]byte, ingest.Position) error) error {
	return s.fs.verdict(s.Source.Rows(ctx, env, c, emit))
}

// Split implements [ingest.Source].
func (s *watchedSource) Split(ctx context.Context, env ingest.Env, k int, part uint8, emit func(*ingest.IDs, ingest.Position) error) error {
	return s.fs.verdict(s.Source.Split(ctx, env, k, part, emit))
}

// EdgeList implements [ingest.Source].
func (s *watchedSource) EdgeList(ctx context.Context, env ingest.Env, l int, emit func(*ingest.EdgeBatch) error) error {
	return s.fs.verdict(s.Source.EdgeList(ctx, env, l, emit))
}

// NodeIDs implements [ingest.KeyedSource].
func (s *watchedSource) NodeIDs(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
	k, ok := s.Source.(ingest.KeyedSource)
	if !ok {
		return parts.ErrNone
	}
	return s.fs.verdict(k.NodeIDs(ctx, env, emit))
}

// KeyedRows implements [ingest.KeyedSource].
func (s *watchedSource) KeyedRows(ctx context.Context, env ingest.Env, c int, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
	k, ok := s.Source.(ingest.KeyedSource)
	if !ok {
		return parts.ErrNone
	}
	return s.fs.verdict(k.KeyedRows(ctx, env, c, emit))
}

// Names implements [ingest.Source].
func (s *watchedSource) Names(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
	return s.fs.verdict(s.Source.Names(ctx, env, emit))
}
