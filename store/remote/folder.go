package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// folder is a bucket in a folder of the file system: a disk, or a mount.
type folder string

// Address implements [Bucket].
func (f folder) Address() string { return "file://" + filepath.ToSlash(string(f)) }

// String implements [Bucket].
func (f folder) String() string { return f.Address() }

func (f folder) path(key string) string { return filepath.Join(string(f), filepath.FromSlash(key)) }

func folderError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: %w", ErrExists, err)
	}
	return err
}

// Get implements [Bucket].
func (f folder) Get(_ context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	file, err := os.Open(f.path(key))
	if err != nil {
		return nil, folderError(err)
	}
	if length < 0 {
		length = 1<<63 - 1 - offset
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(file, offset, length), file}, nil
}

// Put implements [Bucket].
func (f folder) Put(ctx context.Context, key string, r *io.SectionReader) error {
	return f.write(ctx, key, r, os.Rename)
}

// Create implements [Bucket].
func (f folder) Create(ctx context.Context, key string, b []byte) error {
	return f.write(ctx, key, bytes.NewReader(b), func(temp, path string) error {
		return errors.Join(folderError(os.Link(temp, path)), os.Remove(temp))
	})
}

// write writes a file under another name, durably, and then gives it its own.
func (f folder) write(ctx context.Context, key string, r io.Reader, name func(temp, path string) error) (err error) {
	path := f.path(key)
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, tempPrefix+"*")
	if err != nil {
		return err
	}
	_, err = io.Copy(temp, readerOf(ctx, r))
	if err == nil {
		err = errors.Join(temp.Chmod(0o644), temp.Sync())
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = name(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return err
	}
	return syncDir(dir)
}

// tempPrefix begins the names of files that are being written; no key has such an element.
const tempPrefix = ".writing-"

// Stat implements [Bucket].
func (f folder) Stat(_ context.Context, key string) (Object, error) {
	info, err := os.Stat(f.path(key))
	if err != nil {
		return Object{}, folderError(err)
	}
	return Object{key, info.Size(), info.ModTime()}, nil
}

// List implements [Bucket].
func (f folder) List(ctx context.Context, prefix string, fn func(Object) error) error {
	return f.walk(ctx, prefix, func(o Object) error {
		if isTemp(o.Key) {
			return nil
		}
		return fn(o)
	})
}

// Abandoned implements [Bucket].
func (f folder) Abandoned(ctx context.Context, before time.Time) (n int, err error) {
	err = f.walk(ctx, "", func(o Object) error {
		if !isTemp(o.Key) || !o.Modified.Before(before) {
			return nil
		}
		n++
		return f.Delete(ctx, o.Key)
	})
	return n, err
}

func isTemp(key string) bool { return strings.HasPrefix(path.Base(key), tempPrefix) }

// walk lists all files below a prefix.
func (f folder) walk(ctx context.Context, prefix string, fn func(Object) error) error {
	err := filepath.WalkDir(f.path(prefix), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(string(f), path)
		return errors.Join(err, ctx.Err(), fn(Object{filepath.ToSlash(rel), info.Size(), info.ModTime()}))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Delete implements [Bucket].
func (f folder) Delete(_ context.Context, key string) error {
	if err := os.Remove(f.path(key)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readerOf reads r until ctx ends.
func readerOf(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(b)
	})
}

type readerFunc func([]byte) (int, error)

// Read implements [io.Reader].
func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
