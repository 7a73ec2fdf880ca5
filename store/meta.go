package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
)

// lockTimeoutDefault is how long Options.LockTimeout waits by default: holders of
// the metadata lock need milliseconds, a big ingest's commit a second or two.
const lockTimeoutDefault = 30 * time.Second

// env is where a store is and how to reach it; copied freely.
type env struct {
	dir     string
	fs      vfs.FS
	timeout time.Duration
}

func newEnv(dir string, fs vfs.FS, timeout time.Duration) env {
	if fs == nil {
		fs = vfs.Default
	}
	if timeout == 0 {
		timeout = lockTimeoutDefault
	}
	return env{dir: dir, fs: fs, timeout: timeout}
}

func (e env) path(elem ...string) string {
	return e.fs.PathJoin(append([]string{e.dir}, elem...)...)
}

func (e env) dataPath(name string) string { return e.path(dataName, name) }

// onDisk reports whether the store's file system is the operating system's, possibly
// wrapped: only there other processes exist and locks are taken.
func (e env) onDisk() bool { return vfs.Root(e.fs) == vfs.Default }

func (e env) lock(ctx context.Context, b int64, exclusive bool, timeout time.Duration) (*rangeLock, error) {
	if !e.onDisk() {
		return nil, nil
	}
	return lockByte(ctx, e.path(lockName), b, exclusive, timeout)
}

// exists reports whether path names something.
func (e env) exists(path string) bool {
	_, err := e.fs.Stat(path)
	return err == nil
}

// syncDir makes a directory's entries durable.
func (e env) syncDir(path string) error {
	d, err := e.fs.OpenDir(path)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// meta is Pebble, open under the metadata lock. It is held briefly: to read a
// manifest, to apply one batch, or for a batch of dictionary look-ups.
type meta struct {
	env
	db    *pebble.DB
	lk    *rangeLock
	fatal *fatalLogger
}

// openMeta opens Pebble. Reading needs an existing store and shares the lock;
// writing creates what is missing and excludes everybody.
func openMeta(ctx context.Context, e env, write bool) (*meta, error) {
	lk, err := e.lock(ctx, lockMeta, write, e.timeout)
	if err != nil {
		return nil, err
	}
	m := &meta{env: e, lk: lk, fatal: new(fatalLogger)}
	opts := &pebble.Options{
		FS:                 unlockedFS{e.fs},
		ReadOnly:           !write,
		ErrorIfNotExists:   !write,
		FormatMajorVersion: pebbleFormat,
		Logger:             m.fatal,
		DisableTableStats:  true,
	}
	if write && !e.exists(e.path(metaName)) {
		if err := e.fs.MkdirAll(e.path(metaName), 0o777); err != nil {
			return nil, errors.Join(fmt.Errorf("create store: %w", err), lk.Close())
		}
	}
	m.db, err = pebble.Open(e.path(metaName), opts)
	if err == nil {
		err = m.fatal.err()
		if err != nil {
			m.db.Close()
		}
	}
	if err != nil {
		return nil, errors.Join(m.wrap("open", err), lk.Close())
	}
	return m, nil
}

// pebbleFormat is the Pebble format that stores are written in. Part of the format.
const pebbleFormat = pebble.FormatValueSeparation

// Close closes Pebble and releases the lock.
func (m *meta) Close() error {
	var err error
	if m.fatal.err() == nil {
		err = m.db.Close()
	} else {
		// Pebble's pipeline stands still after a failed commit; what the failed
		// instance holds is memory and descriptors, so it is left behind and the
		// log decides at the next open whether the batch was committed.
		_ = closeQuietly(m.db)
	}
	if err != nil {
		err = m.wrap("close", err)
	}
	return errors.Join(err, m.lk.Close())
}

// closeQuietly closes a database that may be beyond closing.
func closeQuietly(db io.Closer) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("pebble: %v", r)
		}
	}()
	return db.Close()
}

// wrap says that a step on the metadata failed; damage becomes a CorruptError.
func (m *meta) wrap(step string, err error) error {
	if pebble.IsCorruptionError(err) {
		return &blocks.CorruptError{Path: m.path(metaName), Extent: "metadata", Offset: -1, Reason: err.Error()}
	}
	return fmt.Errorf("%s metadata in %s: %w", step, m.path(metaName), err)
}

func (m *meta) corrupt(what, format string, args ...any) error {
	return &blocks.CorruptError{Path: m.path(metaName), Extent: what, Offset: -1, Reason: fmt.Sprintf(format, args...)}
}

// get returns a copy of a key's value; ok is false if there is none.
func (m *meta) get(key []byte) (value []byte, ok bool, err error) {
	v, c, err := m.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, m.wrap("read", err)
	}
	value = append([]byte(nil), v...)
	if err := c.Close(); err != nil {
		return nil, false, m.wrap("read", err)
	}
	return value, true, nil
}

// getJSON decodes a key's JSON value into out.
func (m *meta) getJSON(key []byte, what string, out any) (ok bool, err error) {
	b, ok, err := m.get(key)
	if err != nil || !ok {
		return false, err
	}
	if err := json.Unmarshal(b, out); err != nil {
		return false, m.corrupt(what, "%v", err)
	}
	return true, nil
}

// scan calls fn for every key with a prefix, ascending. key and value are valid
// during the call.
func (m *meta) scan(prefix []byte, fn func(key, value []byte) error) error {
	it, err := m.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return m.wrap("read", err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err == nil {
			err = fn(it.Key(), v)
		}
		if err != nil {
			_ = it.Close()
			return err
		}
	}
	if err := it.Close(); err != nil {
		return m.wrap("read", err)
	}
	return nil
}

// apply commits a batch durably. After an error the batch may or may not have
// been committed, wholly; the next open tells.
func (m *meta) apply(b *pebble.Batch) error {
	err := b.Commit(pebble.Sync)
	if err == nil {
		err = m.fatal.err()
	}
	if err != nil {
		return m.wrap("commit", err)
	}
	return nil
}

// flush moves the log's contents into tables, in which every block has a
// checksum: damage at a log's end looks like its end.
func (m *meta) flush() error {
	err := m.db.Flush()
	if err == nil {
		err = m.fatal.err()
	}
	if err != nil {
		return m.wrap("flush", err)
	}
	return nil
}

// checkFormat fails unless the metadata are of this build's format.
// fresh reports that nothing was written yet.
func (m *meta) checkFormat() (fresh bool, err error) {
	b, ok, err := m.get([]byte(keyFormat))
	switch {
	case err != nil:
		return false, err
	case !ok:
		return true, nil
	case string(b) != metaFormat:
		return false, fmt.Errorf("%s: %w: metadata format %q, this build reads %q", m.dir, ErrFormatVersion, b, metaFormat)
	}
	return false, nil
}

// current returns the newest committed version, 0 if there is none.
func (m *meta) current() (uint64, error) {
	b, ok, err := m.get([]byte(keyCurrent))
	if err != nil || !ok {
		return 0, err
	}
	if len(b) != 8 {
		return 0, m.corrupt("current version", "%d bytes, expected 8", len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

// manifest returns a version's manifest; ErrNotFound if it is not kept.
func (m *meta) manifest(version uint64) (*Manifest, error) {
	what := fmt.Sprintf("manifest %d", version)
	var man Manifest
	ok, err := m.getJSON(numberKey(prefixManifest, version), what, &man)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: version %d of %s", ErrNotFound, version, m.dir)
	}
	if man.Version != version {
		return nil, m.corrupt(what, "it says version %d", man.Version)
	}
	if err := man.Validate(); err != nil {
		return nil, m.corrupt(what, "%v", err)
	}
	return &man, nil
}

// manifests returns all versions that are kept, ascending.
func (m *meta) manifests() ([]*Manifest, error) {
	var versions []uint64
	err := m.scan([]byte(prefixManifest), func(key, _ []byte) error {
		v, err := keyNumber(key, len(prefixManifest))
		if err != nil {
			return m.corrupt("manifest key", "%v", err)
		}
		versions = append(versions, v)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []*Manifest
	for _, v := range versions {
		man, err := m.manifest(v)
		if err != nil {
			return nil, err
		}
		all = append(all, man)
	}
	return all, nil
}

// unlockedFS is a file system whose Lock does nothing: Pebble's own lock would
// refuse a second reader, and the metadata lock already excludes writers.
type unlockedFS struct{ vfs.FS }

func (unlockedFS) Lock(string) (io.Closer, error) { return nopCloser{}, nil }

// Unwrap lets vfs.Root see through.
func (f unlockedFS) Unwrap() vfs.FS { return f.FS }

type nopCloser struct{}

func (nopCloser) Close() error { return nil }

// fatalLogger is Pebble's logger. Pebble calls Fatalf where it cannot go on
// and expects the process to end; a library must not, so the first such
// message is kept, and every operation of meta fails from then on.
type fatalLogger struct {
	mu    sync.Mutex
	first error
}

func (*fatalLogger) Infof(string, ...any)  {}
func (*fatalLogger) Errorf(string, ...any) {}

func (l *fatalLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err = fmt.Errorf("pebble: %w", cause)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = err
	}
}

func (l *fatalLogger) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}
