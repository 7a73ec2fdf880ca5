package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/internal/meta"
)

// dictionaryTableBytes is where a dictionary is cut into tables: big enough
// that a billion entries are some dozens, small enough to sync in a second.
const dictionaryTableBytes = 512 << 20

// DictionaryWriter writes the dictionary from external to internal ids of the
// next version: sorted tables that Commit hands to Pebble whole, so that
// entries are written once and never pass through its log. It is for one
// goroutine.
type DictionaryWriter struct {
	w       *Writer
	sst     *sstable.Writer
	part    string // path of the open table
	tables  int
	last    []byte
	key     []byte
	Entries uint64 // added so far
}

// NewDictionary starts the dictionary of the next version, replacing one that
// was started before. A manifest names it by Version in IDs.Dictionaries. It stays
// in the scratch directory until committed: a resumed writer that opened with KeepUnnamed need
// not write it again.
func (w *Writer) NewDictionary() (*DictionaryWriter, error) {
	if w.closed {
		return nil, ErrClosed
	}
	prefix := dictionaryPrefix(w.Version())
	err := w.removeFiles(w.env.Path(meta.TempName), func(name string) bool { return strings.HasPrefix(name, prefix) })
	return &DictionaryWriter{w: w}, err
}

func dictionaryPrefix(gen uint64) string { return fmt.Sprintf("dictionary-%06d-", gen) }

// AddString adds a string id; AddInt an integer one. Ids come in strictly
// ascending order of bytes or of numbers.
func (d *DictionaryWriter) AddString(external []byte, id NodeID) error { return d.add(external, id) }

// AddInt adds an integer id; see AddString.
func (d *DictionaryWriter) AddInt(external uint64, id NodeID) error {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], external)
	return d.add(b[:], id)
}

func (d *DictionaryWriter) add(external []byte, id NodeID) error {
	if d.Entries > 0 && bytes.Compare(external, d.last) <= 0 {
		return fmt.Errorf("%w: dictionary entry %q after %q, expected strictly ascending", ErrInvalid, external, d.last)
	}
	if d.sst != nil && d.sst.Raw().EstimatedSize() >= dictionaryTableBytes {
		if err := d.finish(); err != nil {
			return err
		}
	}
	if d.sst == nil {
		if err := d.start(); err != nil {
			return err
		}
	}
	d.last = append(d.last[:0], external...)
	d.key = meta.DictionaryKey(d.key[:0], d.w.Version(), external)
	var v [8]byte
	binary.BigEndian.PutUint64(v[:], uint64(id))
	if err := d.sst.Set(d.key, v[:]); err != nil {
		return fmt.Errorf("write dictionary: %w", err)
	}
	d.Entries++
	return nil
}

func (d *DictionaryWriter) start() error {
	d.part = d.w.env.Path(meta.TempName, fmt.Sprintf("%s%04d.part", dictionaryPrefix(d.w.Version()), d.tables))
	f, err := d.w.env.FS.Create(d.part, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("write dictionary: %w", err)
	}
	o := &pebble.Options{FormatMajorVersion: meta.PebbleFormat}
	o.EnsureDefaults()
	d.sst = sstable.NewWriter(objstorageprovider.NewFileWritable(f), o.MakeWriterOptions(0, meta.PebbleFormat.MaxTableFormat()))
	return nil
}

// finish closes the open table (which syncs it) and gives it its final name.
func (d *DictionaryWriter) finish() error {
	err := d.sst.Close()
	d.sst = nil
	if err == nil {
		d.tables++
		err = d.w.env.FS.Rename(d.part, strings.TrimSuffix(d.part, ".part")+".sst")
	}
	if err != nil {
		return fmt.Errorf("write dictionary: %w", err)
	}
	return nil
}

// Close completes the dictionary.
func (d *DictionaryWriter) Close() error {
	if d.sst != nil {
		if err := d.finish(); err != nil {
			return err
		}
	}
	return d.w.env.SyncDir(d.w.env.Path(meta.TempName))
}

// ingestDictionary hands the next version's tables to Pebble. Without the commit that
// follows they are a generation that no version names, which the next sweep deletes.
func (w *Writer) ingestDictionary(ctx context.Context, m *meta.DB, man *Manifest) error {
	if !slices.Contains(man.IDs.Dictionaries, man.Version) {
		return nil
	}
	names, err := w.env.FS.List(w.env.Path(meta.TempName))
	if err != nil {
		return fmt.Errorf("commit dictionary: %w", err)
	}
	slices.Sort(names)
	var links []string
	for _, n := range names {
		if !strings.HasPrefix(n, dictionaryPrefix(man.Version)) || !strings.HasSuffix(n, ".sst") {
			continue
		}
		// Pebble takes the file away; a link keeps ours for another attempt.
		path := w.env.Path(meta.TempName, n)
		link := strings.TrimSuffix(path, ".sst") + ".link"
		if err := w.env.FS.RemoveAll(link); err != nil {
			return fmt.Errorf("commit dictionary: %w", err)
		}
		if err := w.env.FS.Link(path, link); err != nil {
			return fmt.Errorf("commit dictionary: %w", err)
		}
		links = append(links, link)
	}
	// What an earlier attempt ingested would show through.
	b := m.Pebble.NewBatch()
	if err := b.DeleteRange(meta.NumberKey(meta.PrefixDictionary, man.Version), meta.NumberKey(meta.PrefixDictionary, man.Version+1), nil); err != nil {
		return m.Wrap("commit dictionary in", err)
	}
	if err := m.Apply(b); err != nil {
		return err
	}
	if len(links) == 0 {
		return nil
	}
	if err := m.Do(func() error { return m.Pebble.Ingest(ctx, links) }); err != nil {
		return m.Wrap("commit dictionary in", err)
	}
	return nil
}

// parseID parses an integer external id.
func parseID(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: external id %q is not an integer (the store's ids are)", ErrInvalid, s)
	}
	return n, nil
}
