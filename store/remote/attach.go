package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store/internal/meta"
)

// attachName is the file that a store has whose data files lie at an address: a line of JSON, and the snapshot.
const attachName = "REMOTE"

// cacheName is the folder of such a store in which it keeps what it has read.
const cacheName = "cache"

// attachment is a store's [attachName].
type attachment struct {
	Format     int    `json:"format"`
	Address    string `json:"address"`
	CacheBytes int64  `json:"cache_bytes"` // at most; 0 = no bound
}

func init() {
	meta.FileSystem = func(dir string) vfs.FS {
		if _, err := os.Lstat(filepath.Join(dir, attachName)); err != nil {
			return vfs.Default
		}
		return attachedFS{vfs.Default}
	}
	blockio.SetElsewhere(func(path string) (blockio.Elsewhere, error) { return openFar(path) })
}

// attached is a store whose data files are read from an address when they are needed.
type attached struct {
	bucket  Bucket
	files   map[string]*File   // of the data folder, by name
	streams map[string]*stream // of each, by SHA-256
	cache   *cache
}

// known are the stores that this process has met, by folder; a changed file makes a new entry.
var known struct {
	mu sync.Mutex
	of map[string]knownStore
}

type knownStore struct {
	info os.FileInfo
	a    *attached
}

// attachedIn returns what the store in dir reads from elsewhere, nil if it is all here.
func attachedIn(dir string) (*attached, error) {
	path := filepath.Join(dir, attachName)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	if k, ok := known.of[dir]; ok && os.SameFile(k.info, info) && k.info.ModTime().Equal(info.ModTime()) {
		return k.a, nil
	}
	a, err := readAttached(dir, path)
	if err != nil {
		return nil, err
	}
	if known.of == nil {
		known.of = map[string]knownStore{}
	}
	known.of[dir] = knownStore{info, a}
	return a, nil
}

func readAttached(dir, path string) (*attached, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	line, rest, _ := bytes.Cut(body, []byte{'\n'})
	var h attachment
	if err := json.Unmarshal(line, &h); err != nil || h.Format < 1 {
		return nil, &blocks.CorruptError{Path: path, Extent: "file", Offset: -1, Reason: fmt.Sprintf("it begins with %.40q", line)}
	}
	if h.Format > formatNumber {
		return nil, fmt.Errorf("%s: %w: format %d, this build reads %d", path, blocks.ErrFormatVersion, h.Format, formatNumber)
	}
	s, err := decode(path, rest)
	if err != nil {
		return nil, err
	}
	b, err := Open(h.Address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a := &attached{bucket: b, files: map[string]*File{}, streams: map[string]*stream{}, cache: newCache(filepath.Join(dir, cacheName), h.CacheBytes)}
	for i := range s.Files {
		if f := &s.Files[i]; f.far() {
			a.files[filepath.Base(f.Path)], a.streams[f.SHA256] = f, &stream{}
		}
	}
	return a, nil
}

// far reports whether a store that is attached leaves a file where it is: data that never change.
func (f *File) far() bool { return f.Footer != nil && filepath.Dir(f.Path) == meta.DataName }

// attach makes a folder one of a store whose data files lie at an address.
func attach(dir, address string, cacheBytes int64, s *Snapshot) error {
	line, err := json.Marshal(attachment{formatNumber, address, cacheBytes})
	if err != nil {
		return err
	}
	body, err := s.encode()
	if err != nil {
		return err
	}
	w, err := os.Create(filepath.Join(dir, attachName))
	if err != nil {
		return err
	}
	_, err = w.Write(append(append(line, '\n'), body...))
	return errors.Join(err, w.Sync(), w.Close())
}

// openFar opens a data file that is not on disk; fs.ErrNotExist of what no attached store has.
func openFar(path string) (*farFile, error) {
	none := &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	folder := filepath.Dir(path)
	if filepath.Base(folder) != meta.DataName {
		return nil, none
	}
	a, err := attachedIn(filepath.Dir(folder))
	if err != nil {
		return nil, err
	}
	if a == nil || a.files[filepath.Base(path)] == nil {
		return nil, none
	}
	return &farFile{a: a, f: a.files[filepath.Base(path)], name: filepath.Base(path)}, nil
}

// attachedFS is the operating system's file system, in which the data files of attached stores are there to be read.
type attachedFS struct{ vfs.FS }

// Unwrap implements [vfs.FS].
func (a attachedFS) Unwrap() vfs.FS { return a.FS }

// Open implements [vfs.FS].
func (a attachedFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := a.FS.Open(name, o...)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	far, ferr := openFar(name)
	if ferr != nil {
		return nil, instead(err, ferr)
	}
	return far, nil
}

// Stat implements [vfs.FS].
func (a attachedFS) Stat(name string) (vfs.FileInfo, error) {
	info, err := a.FS.Stat(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	far, ferr := openFar(name)
	if ferr != nil {
		return nil, instead(err, ferr)
	}
	return far.Stat()
}

// Remove implements [vfs.FS]: what is not on disk needs no removal.
func (a attachedFS) Remove(name string) error {
	err := a.FS.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		if _, ferr := openFar(name); ferr == nil {
			return nil
		}
	}
	return err
}

// instead is err where a file is nowhere, else what kept it from being looked for.
func instead(err, far error) error {
	if errors.Is(far, fs.ErrNotExist) {
		return err
	}
	return far
}

// farFile is a data file at an address, open for reading.
type farFile struct {
	a    *attached
	f    *File
	name string

	mu sync.Mutex
	at int64 // of Read
}

var errReadOnly = errors.New("remote: files at an address are only read")

// ReadAt implements [io.ReaderAt].
func (f *farFile) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 || at >= f.f.Size {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), f.f.Size-at))
	f.readAhead(at, int64(n))
	if err := f.a.cache.read(f.a.bucket, f.f, b[:n], at); err != nil {
		return 0, err
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Read implements [io.Reader].
func (f *farFile) Read(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.ReadAt(b, f.at)
	if f.at += int64(n); n > 0 {
		err = nil
	}
	return n, err
}

// Size implements [blockio.Elsewhere].
func (f *farFile) Size() int64 { return f.f.Size }

// Fetch implements [blockio.Elsewhere].
func (f *farFile) Fetch(offset, length int64) error {
	return f.a.cache.ahead(f.a.bucket, f.f, offset, min(length, f.f.Size-offset))
}

// AheadBytes implements [blockio.Elsewhere].
func (f *farFile) AheadBytes() int64 {
	return f.a.cache.aheadBytes()
}

// Close implements [io.Closer]: what was read is kept when it returns.
func (f *farFile) Close() error {
	f.a.cache.settle(f.f)
	return nil
}

// Write implements [vfs.File].
func (f *farFile) Write([]byte) (int, error) { return 0, errReadOnly }

// WriteAt implements [vfs.File].
func (f *farFile) WriteAt([]byte, int64) (int, error) { return 0, errReadOnly }

// Preallocate implements [vfs.File].
func (f *farFile) Preallocate(int64, int64) error { return errReadOnly }

// Stat implements [vfs.File].
func (f *farFile) Stat() (vfs.FileInfo, error) { return farInfo{f}, nil }

// Sync implements [vfs.File].
func (f *farFile) Sync() error { return nil }

// SyncTo implements [vfs.File].
func (f *farFile) SyncTo(int64) (bool, error) { return true, nil }

// SyncData implements [vfs.File].
func (f *farFile) SyncData() error { return nil }

// Prefetch implements [vfs.File].
func (f *farFile) Prefetch(int64, int64) error { return nil }

// Fd implements [vfs.File].
func (f *farFile) Fd() uintptr { return vfs.InvalidFd }

// farInfo describes a far file.
type farInfo struct{ f *farFile }

// Name implements [os.FileInfo].
func (i farInfo) Name() string { return i.f.name }

// Size implements [os.FileInfo].
func (i farInfo) Size() int64 { return i.f.f.Size }

// Mode implements [os.FileInfo].
func (i farInfo) Mode() fs.FileMode { return 0o444 }

// ModTime implements [os.FileInfo].
func (i farInfo) ModTime() time.Time { return time.Time{} }

// IsDir implements [os.FileInfo].
func (i farInfo) IsDir() bool { return false }

// Sys implements [os.FileInfo].
func (i farInfo) Sys() any { return nil }

// DeviceID implements [vfs.FileInfo].
func (i farInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
