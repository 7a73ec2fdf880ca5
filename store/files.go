package store

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store/internal/vfsengine"
)

// Files are a version's data files and where in them everything lies: for code that reads them in bulk, through an
// engine, like the partition buffer. Its methods may be called from any number of goroutines. It lives as long as its
// [Store].
type Files struct{ s *Store }

// Files hands out the version's data files.
func (s *Store) Files() *Files { return &Files{s} }

// File returns an open data file by the name the manifest gives it.
func (f *Files) File(name string) (*blocks.File, error) {
	if err := f.s.check(); err != nil {
		return nil, err
	}
	file, ok := f.s.files[name]
	if !ok {
		return nil, fmt.Errorf("%w: version %d has no data file %q", ErrNotFound, f.s.manifest.Version, name)
	}
	return file, nil
}

// Topology returns where the stripe of dst partition p lies.
func (f *Files) Topology(p PartitionID) (*blocks.File, blocks.Extent, error) {
	return f.s.extent("topology", f.s.topology, p)
}

// Column returns where partition p's part of a column lies: the rows of its
// nodes, those that are stored (see [Files.NodeRows]; the file is nil if there is none) and as what ([ColumnInfo.Coded]), or, for a column of edges, of the edges of stripe p.
func (f *Files) Column(name string, p PartitionID) (*blocks.File, blocks.Extent, error) {
	m, ok := f.s.columns[name]
	if !ok { // it follows from types, or is none
		_, err := f.s.manifest.Column(name)
		return nil, blocks.Extent{}, errors.Join(err, f.s.check())
	}
	return f.s.extent("column "+name, m, p)
}

// External returns where the external ids of partition p lie.
func (f *Files) External(p PartitionID) (*blocks.File, blocks.Extent, error) {
	return f.s.extent("external ids", f.s.external, p)
}

// IDMap returns where the internal ids of dense external ids k·ExtentRows … lie; ok is false
// behind the last.
func (f *Files) IDMap(k uint64) (_ *blocks.File, _ blocks.Extent, ok bool, err error) {
	if err := f.s.check(); err != nil {
		return nil, blocks.Extent{}, false, err
	}
	l, ok := f.s.idMap[k]
	return l.file, l.extent, ok, nil
}

// Open opens a data file of the snapshot through an I/O engine. It is the
// same file even where a later version has swept its name. The caller closes
// it, before the engine.
func (f *Files) Open(engine blockio.Engine, name string, o blockio.OpenOptions) (blockio.File, error) {
	file, err := f.File(name)
	if err != nil {
		return nil, err
	}
	if _, ok := engine.(*vfsengine.Engine); !ok && !f.s.env.OnDisk() {
		return nil, fmt.Errorf("%w: %s is not on the operating system's file system", blockio.ErrUnsupported, f.s.env.Dir)
	}
	bf, err := engine.Open(file.Path(), o)
	if err != nil && !f.s.env.Exists(file.Path()) {
		if fd, ok := file.Descriptor(); ok {
			return engine.Open(fmt.Sprintf("/proc/self/fd/%d", fd), o)
		}
	}
	return bf, err
}

// FS is the file system the store was opened on.
func (f *Files) FS() vfs.FS { return f.s.env.FS }

// Reads is what [Options.Reads] was.
func (f *Files) Reads() ReadTuning { return f.s.reads }
