// Package vfsengine reads and writes a store through its file system, one request after the other: for stores that
// are not on the operating system's, and for tables opened without an engine.
package vfsengine

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks/blockio"
)

// Engine is the [blockio.Engine] of a store that is not on the operating
// system's file system, or that is read and written through one that injects
// faults: requests one after the other, through a vfs.FS.
type Engine struct {
	fs vfs.FS

	mu    sync.Mutex
	stats blockio.Stats
}

// New makes an engine over fsys.
func New(fsys vfs.FS) *Engine { return &Engine{fs: fsys} }

// For makes an engine over fsys; nil where that is the operating system's,
// possibly wrapped, which blockio's own engines serve.
func For(fsys vfs.FS) blockio.Engine {
	if vfs.Root(fsys) == vfs.Default {
		return nil
	}
	return New(fsys)
}

type fsFile struct {
	vfs.File
	path string
	size int64
}

func (f *fsFile) Path() string { return f.path }
func (f *fsFile) Direct() bool { return false }
func (f *fsFile) Size() int64  { return f.size }

// Name implements blockio.Engine.
func (e *Engine) Name() string { return "vfs" }

// Open implements blockio.Engine.
func (e *Engine) Open(path string, o blockio.OpenOptions) (blockio.File, error) {
	open := func() (vfs.File, error) { return e.fs.Open(path) }
	if o.Write {
		open = func() (vfs.File, error) { return e.fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified) }
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	stat, err := f.Stat()
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "stat", Path: path, Err: err}, f.Close())
	}
	return &fsFile{f, path, stat.Size()}, nil
}

// Register implements blockio.Engine: there is nothing to register with.
func (e *Engine) Register(...[]byte) error { return nil }

// Do implements blockio.Engine.
func (e *Engine) Do(ctx context.Context, batch []blockio.Request, done func(i int)) error {
	for i := range batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := &batch[i]
		f := r.File.(*fsFile)
		var err error
		switch r.Op {
		case blockio.Read:
			var n int
			if n, err = f.ReadAt(r.Buf, r.Offset); n == len(r.Buf) {
				err = nil
			} else if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
		case blockio.Write:
			_, err = f.WriteAt(r.Buf, r.Offset)
		default:
			err = f.Sync()
		}
		if err != nil {
			return &blockio.Error{Op: r.Op, Path: f.path, Offset: r.Offset, Length: len(r.Buf), Err: err}
		}
		e.count(r)
		if done != nil {
			done(i)
		}
	}
	return nil
}

func (e *Engine) count(r *blockio.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.Requests++
	e.stats.Transfers++
	e.stats.InFlightMax = 1
	switch r.Op {
	case blockio.Read:
		e.stats.BytesRead += uint64(len(r.Buf))
	case blockio.Write:
		e.stats.BytesWritten += uint64(len(r.Buf))
	}
}

// Stats implements blockio.Engine.
func (e *Engine) Stats() blockio.Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// Close implements blockio.Engine.
func (e *Engine) Close() error { return nil }
