package meta

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gstore/gstore/blocks"
)

// lockTimeoutDefault is how long Options.LockTimeout waits by default: holders of
// the metadata lock need milliseconds, a big ingest's commit a second or two.
const lockTimeoutDefault = 30 * time.Second

// Env is where a store is and how to reach it; copied freely.
type Env struct {
	Dir     string
	FS      vfs.FS
	Timeout time.Duration
}

// FileSystem, if not nil, is the file system of the store in a folder, the operating system's, possibly wrapped. Who keeps data files
// elsewhere sets it when it is initialised.
var FileSystem func(dir string) vfs.FS

func NewEnv(dir string, fsys vfs.FS, timeout time.Duration) Env {
	if fsys == nil {
		if fsys = vfs.Default; FileSystem != nil {
			fsys = FileSystem(dir)
		}
	}
	if timeout == 0 {
		timeout = lockTimeoutDefault
	}
	return Env{Dir: dir, FS: fsys, Timeout: timeout}
}

func (e Env) Path(elem ...string) string {
	return e.FS.PathJoin(append([]string{e.Dir}, elem...)...)
}

func (e Env) DataPath(name string) string { return e.Path(DataName, name) }

// OnDisk reports whether the store's file system is the operating system's, possibly
// wrapped: only there other processes exist and locks are taken.
func (e Env) OnDisk() bool { return vfs.Root(e.FS) == vfs.Default }

func (e Env) Lock(ctx context.Context, b int64, exclusive bool, timeout time.Duration) (*Lock, error) {
	if !e.OnDisk() {
		return nil, nil
	}
	return lockByte(ctx, e.Path(LockName), b, exclusive, timeout)
}

// Exists reports whether path names something, as far as can be told.
func (e Env) Exists(path string) bool {
	_, err := e.FS.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Find fails with ErrNotFound where no store is.
func (e Env) Find() error {
	if !e.Exists(e.Dir) {
		return &missing{fmt.Sprintf("there is no directory %s", e.Dir)}
	}
	if info, err := e.FS.Stat(e.Dir); err == nil && !info.IsDir() {
		return &missing{fmt.Sprintf("%s is a file, expected the folder of a store", e.Dir)}
	}
	if !e.Exists(e.Path(MetaName)) {
		if err := e.checkMarker(); err != nil {
			return err
		}
		return &missing{fmt.Sprintf("%s is not a store (it has no %s directory)", e.Dir, MetaName)}
	}
	return nil
}

// SyncDir makes a directory's entries durable.
func (e Env) SyncDir(path string) error {
	d, err := e.FS.OpenDir(path)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// gateWait is how long readers let a waiting writer go first. It is bounded for those that have the metadata open
// already and open them again: the writer waits for these.
const gateWait = time.Second

// lockMetadata takes lockMeta, as a writer through the gate that keeps new readers back: many that overlap would keep it
// out for as long as they come. All waits together take e.Timeout.
func (e Env) lockMetadata(ctx context.Context, write bool) (_ *Lock, err error) {
	wait, start := e.Timeout, time.Now()
	if !write {
		wait = min(wait, gateWait)
	}
	gate, err := e.Lock(ctx, lockGate, write, wait)
	if err != nil && !errors.Is(err, ErrLocked) {
		return nil, err
	}
	if !write {
		if err := gate.Close(); err != nil {
			return nil, err
		}
		gate = nil
	}
	lk, err := e.Lock(ctx, lockMeta, write, max(0, e.Timeout-time.Since(start)))
	if err := errors.Join(err, gate.Close()); err != nil {
		return nil, errors.Join(err, lk.Close())
	}
	return lk, nil
}

// LockMetadata keeps everybody from the metadata, as a writer does that has them open.
func (e Env) LockMetadata(ctx context.Context) (*Lock, error) { return e.lockMetadata(ctx, true) }

// DB is Pebble, open under the metadata lock. It is held briefly: to read a
// manifest, to apply one batch, or for a batch of dictionary look-ups.
type DB struct {
	Env
	Pebble *pebble.DB
	lk     *Lock
	fence  *fence
	write  bool
}

// Open opens Pebble. Reading needs an existing store and shares the lock;
// writing creates what is missing and excludes everybody.
func Open(ctx context.Context, e Env, write bool) (*DB, error) {
	lk, err := e.lockMetadata(ctx, write)
	if err != nil {
		return nil, err
	}
	sealed, version, err := e.checkSeal()
	if err == nil && write && !sealed && version > 0 {
		// Opened for writing, Pebble removes what damaged metadata do not name: they are looked at before.
		var m *DB
		if m, err = e.open(false, version); err == nil {
			err = m.Close()
		}
	}
	if err == nil && write {
		err = e.breakSeal()
	}
	if err != nil {
		return nil, errors.Join(err, lk.Close())
	}
	m, err := e.open(write, version)
	if err != nil {
		return nil, errors.Join(err, lk.Close())
	}
	m.lk = lk
	if write {
		if err := m.compact(ctx); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// OpenStore opens the metadata of the store in dir, which must be there.
func OpenStore(ctx context.Context, e Env, write bool) (*DB, error) {
	if err := e.Find(); err != nil {
		return nil, err
	}
	return Open(ctx, e, write)
}

// open opens Pebble, in which version or a later one must be committed, with the lock held.
func (e Env) open(write bool, version uint64) (*DB, error) {
	m := &DB{Env: e, fence: newFence(), write: write}
	opts := &pebble.Options{
		FS:                 metaFS{errorfs.Wrap(e.FS, m.fence), m.fence},
		ReadOnly:           !write,
		ErrorIfNotExists:   !write,
		FormatMajorVersion: PebbleFormat,
		Logger:             m.fence,
		EventListener:      &pebble.EventListener{BackgroundError: m.fence.park},
		DisableTableStats:  true,
		// A compaction that starts while Open is failing panics in Pebble; see compact.
		DisableAutomaticCompactions: true,
	}
	err := m.Do(func() (err error) {
		m.Pebble, err = pebble.Open(e.Path(MetaName), opts)
		return err
	})
	found := uint64(0)
	switch {
	case err == nil:
		if found, err = m.Current(); err != nil {
			return nil, errors.Join(err, m.Do(m.Pebble.Close))
		}
	case errors.Is(err, pebble.ErrDBDoesNotExist) && version == 0:
		return nil, fmt.Errorf("%s: %w", e.Dir, ErrNoVersion)
	case !errors.Is(err, pebble.ErrDBDoesNotExist):
		return nil, m.Wrap("open", err)
	}
	if found < version {
		lost := &blocks.CorruptError{Path: e.Path(MetaName), Extent: "metadata", Offset: -1, Reason: fmt.Sprintf("they end with version %d, but version %d was committed: their log or manifest is damaged", found, version)}
		if m.Pebble == nil {
			return nil, lost
		}
		return nil, errors.Join(lost, m.Do(m.Pebble.Close))
	}
	return m, nil
}

// compactTables is how many overlapping tables are merged; every open for writing may
// add one, and Pebble stops writes at 12.
const compactTables = 6

// compact merges the tables that opens and commits leave behind. Dictionaries are
// left out: they are large, and ingested where they belong.
func (m *DB) compact(ctx context.Context) error {
	err := m.Do(func() error {
		if m.Pebble.Metrics().Levels[0].TablesCount < compactTables {
			return nil
		}
		after := prefixEnd([]byte(PrefixDictionary))
		return errors.Join(m.Pebble.Compact(ctx, []byte{0}, []byte(PrefixDictionary), false),
			m.Pebble.Compact(ctx, after, []byte{0xff}, false))
	})
	if err != nil {
		return m.Wrap("compact", err)
	}
	return nil
}

// PebbleFormat is the Pebble format that stores are written in. Part of the format.
const PebbleFormat = pebble.FormatValueSeparation

// Close closes Pebble and releases the lock.
func (m *DB) Close() error {
	var err error
	// After a failure Pebble is not closed, as its Close waits for what is parked; the lock is released all the same. Only
	// a clean end is sealed.
	if m.fence.err() == nil {
		var version uint64
		if m.write {
			version, err = m.Current()
		}
		if cerr := m.Do(m.Pebble.Close); cerr != nil {
			err = errors.Join(err, m.Wrap("close", cerr))
		}
		if err == nil && m.write {
			err = m.seal(version)
		}
	}
	return errors.Join(err, m.lk.Close())
}

// Do runs a call of Pebble that may never return, because it or background
// work that it waits for is parked: then it is left behind and the failure
// returned, and whatever the call sets must not be looked at. Read-only
// instances write nothing once they are open, so their calls return.
func (m *DB) Do(call func() error) error {
	if !m.write && m.Pebble != nil {
		return errors.Join(guard(call), m.fence.err())
	}
	// Room for one: a call that comes back after it was left behind must not block on nobody.
	returned := make(chan error, 1)
	go func() { returned <- guard(call) }()
	select {
	case err := <-returned:
		// The call came back, but maybe with work parked behind it: the failure is the cause, its own error a consequence.
		if failure := m.fence.err(); failure != nil {
			return failure
		}
		return err
	case <-m.fence.down:
		return m.fence.err()
	}
}

// errPanic marks what Pebble panicked with over what it read.
var errPanic = errors.New("pebble panics")

// guard turns a panic of Pebble over damaged metadata into an error.
func guard(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	return call()
}

// Wrap says that a step on the metadata failed; damage becomes a CorruptError. Damage is what Pebble
// calls so, files that are not there, and, while nothing is written, whatever did not come from the disk.
func (m *DB) Wrap(step string, err error) error {
	var disk syscall.Errno
	damage := pebble.IsCorruptionError(err) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errPanic)
	if !damage && !m.write && step == "open" {
		damage = !errors.As(err, &disk) && !errors.Is(err, errorfs.ErrInjected) && !errors.Is(err, fs.ErrPermission) && m.fence.err() == nil
	}
	if damage {
		return &blocks.CorruptError{Path: m.Path(MetaName), Extent: "metadata", Offset: -1, Reason: err.Error(), Cause: err}
	}
	return fmt.Errorf("%s metadata in %s: %w", step, m.Path(MetaName), err)
}

func (m *DB) Corrupt(what, format string, args ...any) error {
	return &blocks.CorruptError{Path: m.Path(MetaName), Extent: what, Offset: -1, Reason: fmt.Sprintf(format, args...)}
}

// Get returns a copy of a key's value; ok is false if there is none.
func (m *DB) Get(key []byte) (_ []byte, ok bool, err error) {
	var value []byte
	err = m.Do(func() error {
		v, c, err := m.Pebble.Get(key)
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
		return nil, false, m.Wrap("read", err)
	}
	return value, true, nil
}

// GetJSON decodes a key's JSON value into out.
func (m *DB) GetJSON(key []byte, what string, out any) (ok bool, err error) {
	b, ok, err := m.Get(key)
	if err != nil || !ok {
		return false, err
	}
	if err := json.Unmarshal(b, out); err != nil {
		return false, m.Corrupt(what, "%v", err)
	}
	return true, nil
}

// Entry is a key and its value.
type Entry struct{ Key, Value []byte }

// Scan returns the entries whose keys have a prefix, ascending. It is for the few
// prefixes of which all is wanted; dictionaries are not among them.
func (m *DB) Scan(prefix string) ([]Entry, error) {
	var all []Entry
	err := m.Iterate(prefix, func(it *pebble.Iterator) error {
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			all = append(all, Entry{append([]byte{}, it.Key()...), append([]byte{}, v...)})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Iterate calls fn, once, with an iterator over the keys that have a prefix.
func (m *DB) Iterate(prefix string, fn func(*pebble.Iterator) error) error {
	err := m.Do(func() error {
		it, err := m.Pebble.NewIter(&pebble.IterOptions{LowerBound: []byte(prefix), UpperBound: prefixEnd([]byte(prefix))})
		if err != nil {
			return err
		}
		return errors.Join(fn(it), it.Close())
	})
	if err != nil {
		return m.Wrap("read", err)
	}
	return nil
}

// Apply commits a batch durably. After an error the batch may or may not have
// been committed, wholly; the next open tells.
func (m *DB) Apply(b *pebble.Batch) error {
	if err := m.Do(func() error { return b.Commit(pebble.Sync) }); err != nil {
		return m.Wrap("commit", err)
	}
	return nil
}

// Flush moves the log's contents into tables, in which every block has a
// checksum: damage at a log's end looks like its end.
func (m *DB) Flush() error {
	if err := m.Do(m.Pebble.Flush); err != nil {
		return m.Wrap("flush", err)
	}
	return nil
}

// CheckFormat fails unless the metadata are of a format that this build reads.
// fresh reports that nothing was written yet.
func (m *DB) CheckFormat() (fresh bool, err error) {
	b, ok, err := m.Get([]byte(KeyFormat))
	switch {
	case err != nil:
		return false, err
	case !ok:
		return true, nil
	case string(b) != Format && string(b) != FormatRuns:
		return false, fmt.Errorf("%s: %w: metadata format %q, this build reads %q and %q", m.Dir, blocks.ErrFormatVersion, b, Format, FormatRuns)
	}
	return false, nil
}

// Current returns the newest committed version, 0 if there is none.
func (m *DB) Current() (uint64, error) {
	b, ok, err := m.Get([]byte(KeyCurrent))
	if err != nil || !ok {
		return 0, err
	}
	if len(b) != 8 {
		return 0, m.Corrupt("current version", "%d bytes, expected 8", len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

// HasVersion reports whether a version is kept.
func (m *DB) HasVersion(version uint64) (bool, error) {
	_, ok, err := m.Get(NumberKey(PrefixManifest, version))
	return ok, err
}

// Verify reads every key and value, so that the checksum of every block is compared, and tells progress their bytes.
func (m *DB) Verify(ctx context.Context, progress func(bytes int64)) error {
	err := m.Do(func() (err error) {
		it, err := m.Pebble.NewIter(nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, it.Error(), it.Close()) }()
		n := int64(0)
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			if n += int64(len(it.Key()) + len(v)); n >= 1<<20 {
				if err := ctx.Err(); err != nil {
					return err
				}
				progress(n)
				n = 0
			}
		}
		progress(n)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return m.Wrap("read", err)
	}
	return err
}
