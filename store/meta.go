package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

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

func newEnv(dir string, fsys vfs.FS, timeout time.Duration) env {
	if fsys == nil {
		fsys = vfs.Default
	}
	if timeout == 0 {
		timeout = lockTimeoutDefault
	}
	return env{dir: dir, fs: fsys, timeout: timeout}
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

// exists reports whether path names something, as far as can be told.
func (e env) exists(path string) bool {
	_, err := e.fs.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
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
	fence *fence
	write bool
}

// openMeta opens Pebble. Reading needs an existing store and shares the lock;
// writing creates what is missing and excludes everybody.
func openMeta(ctx context.Context, e env, write bool) (*meta, error) {
	lk, err := e.lock(ctx, lockMeta, write, e.timeout)
	if err != nil {
		return nil, err
	}
	m := &meta{env: e, lk: lk, fence: newFence(), write: write}
	opts := &pebble.Options{
		FS:                 metaFS{errorfs.Wrap(e.fs, m.fence), m.fence},
		ReadOnly:           !write,
		ErrorIfNotExists:   !write,
		FormatMajorVersion: pebbleFormat,
		Logger:             m.fence,
		EventListener:      &pebble.EventListener{BackgroundError: m.fence.park},
		DisableTableStats:  true,
		// A compaction that starts while Open is failing panics in Pebble; see compact.
		DisableAutomaticCompactions: true,
	}
	err = m.do(func() (err error) {
		m.db, err = pebble.Open(e.path(metaName), opts)
		return err
	})
	if err != nil {
		if errors.Is(err, pebble.ErrDBDoesNotExist) {
			err = fmt.Errorf("%s: %w", e.dir, ErrNoVersion)
		} else {
			err = m.wrap("open", err)
		}
		return nil, errors.Join(err, lk.Close())
	}
	if write {
		if err := m.compact(ctx); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// compactTables is how many overlapping tables are merged; every open for writing may
// add one, and Pebble stops writes at 12.
const compactTables = 6

// compact merges the tables that opens and commits leave behind. Dictionaries are
// left out: they are large, and ingested where they belong.
func (m *meta) compact(ctx context.Context) error {
	err := m.do(func() error {
		if m.db.Metrics().Levels[0].TablesCount < compactTables {
			return nil
		}
		after := prefixEnd([]byte(prefixDictionary))
		return errors.Join(m.db.Compact(ctx, []byte{0}, []byte(prefixDictionary), false),
			m.db.Compact(ctx, after, []byte{0xff}, false))
	})
	if err != nil {
		return m.wrap("compact", err)
	}
	return nil
}

// pebbleFormat is the Pebble format that stores are written in. Part of the format.
const pebbleFormat = pebble.FormatValueSeparation

// Close closes Pebble and releases the lock.
func (m *meta) Close() error {
	var err error
	if m.fence.err() == nil {
		if err = m.do(m.db.Close); err != nil {
			err = m.wrap("close", err)
		}
	}
	return errors.Join(err, m.lk.Close())
}

// do runs a call of Pebble that may never return, because it or background
// work that it waits for is parked: then it is left behind and the failure
// returned, and whatever the call sets must not be looked at. Read-only
// instances write nothing once they are open, so their calls return.
func (m *meta) do(call func() error) error {
	if !m.write && m.db != nil {
		return errors.Join(call(), m.fence.err())
	}
	returned := make(chan error, 1)
	go func() { returned <- call() }()
	select {
	case err := <-returned:
		if failure := m.fence.err(); failure != nil {
			return failure
		}
		return err
	case <-m.fence.down:
		return m.fence.err()
	}
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
func (m *meta) get(key []byte) (_ []byte, ok bool, err error) {
	var value []byte
	err = m.do(func() error {
		v, c, err := m.db.Get(key)
		if err != nil {
			return err
		}
		value = append([]byte{}, v...)
		return c.Close()
	})
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
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

// entry is a key and its value.
type entry struct{ key, value []byte }

// scan returns the entries whose keys have a prefix, ascending. It is for the few
// prefixes of which all is wanted; dictionaries are not among them.
func (m *meta) scan(prefix string) ([]entry, error) {
	var all []entry
	err := m.iterate(prefix, func(it *pebble.Iterator) error {
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			all = append(all, entry{append([]byte{}, it.Key()...), append([]byte{}, v...)})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// iterate calls fn, once, with an iterator over the keys that have a prefix.
func (m *meta) iterate(prefix string, fn func(*pebble.Iterator) error) error {
	err := m.do(func() error {
		it, err := m.db.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: prefixEnd([]byte(prefix))})
		if err != nil {
			return err
		}
		return errors.Join(fn(it), it.Close())
	})
	if err != nil {
		return m.wrap("read", err)
	}
	return nil
}

// apply commits a batch durably. After an error the batch may or may not have
// been committed, wholly; the next open tells.
func (m *meta) apply(b *pebble.Batch) error {
	if err := m.do(func() error { return b.Commit(pebble.Sync) }); err != nil {
		return m.wrap("commit", err)
	}
	return nil
}

// flush moves the log's contents into tables, in which every block has a
// checksum: damage at a log's end looks like its end.
func (m *meta) flush() error {
	if err := m.do(m.db.Flush); err != nil {
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
	entries, err := m.scan(prefixManifest)
	if err != nil {
		return nil, err
	}
	var all []*Manifest
	for _, e := range entries {
		v, err := keyNumber(e.key, len(prefixManifest))
		if err != nil {
			return nil, m.corrupt("manifest key", "%v", err)
		}
		man, err := m.manifest(v)
		if err != nil {
			return nil, err
		}
		all = append(all, man)
	}
	return all, nil
}
