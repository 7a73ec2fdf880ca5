package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/internal/meta"
	"github.com/gstore/gstore/store/internal/vfsengine"
)

// ErrOvertaken is in the errors of a reader that was opened by Options.Beside: the run has made other checkpoints meanwhile, and what this
// one names is written over.
var ErrOvertaken = errors.New("overtaken by a run")

// CheckpointsMax is how many checkpoints a table can keep.
const CheckpointsMax = blocks.EmbeddingSlotsMax - 1

// Options say what an embedding table is. Dim and Name are required.
type Options struct {
	Name string // unique in the store: letters, digits, '-' and '_'
	Dim  int    // float32 elements a row
	// States is the number of optimiser planes beside the embeddings, each of
	// the same shape: 0 for SGD, 1 for Adagrad, 2 for Adam. They begin as zeros.
	States int
	// Init sets the first embeddings of consecutive nodes from first on, Dim elements each; nil: zeros.
	// It should depend on ids alone, so that what partitions there are does not matter.
	Init func(first store.NodeID, rows []float32)
	// From, if not nil, is a table whose rows this one begins with, instead of Init.
	From *From
	// Some, if not nil, makes a table of some of the nodes, instead of Init.
	Some *Some
	// Keep is how many checkpoints are kept, 0 = 1: the file has a slot for each and one to
	// write to, each as large as all rows.
	Keep int // at most CheckpointsMax
	// Replace lets Create take the place of a table of the same name, which is gone once the options are found to
	// be sound and the disk to have room for the new file, the old one's counted.
	Replace bool
	// Blobs belong to the first checkpoint.
	Blobs []Blob
	// Checkpoint is the number of the kept checkpoint that Open goes back to; 0 = the
	// last. Later ones are dropped, unless ReadOnly.
	Checkpoint uint64
	// ReadOnly opens a table for reading: any number of readers at a time, none while it is being trained.
	ReadOnly bool
	// Beside has Open, with ReadOnly, take a table that is being trained, too. Its last checkpoint is read, which stands until the run has
	// made others; then what is read may be [ErrOvertaken].
	Beside bool
	// AnyVersion has Open, with ReadOnly, take a table of another version of the store, too: its rows are of that version's nodes.
	AnyVersion bool
	// LockTimeout is how long to wait for readers that are opening the store; 0 = 30 s.
	LockTimeout time.Duration
	// Engine moves partitions; nil = through the store's file system, one
	// transfer at a time.
	Engine blockio.Engine
}

// Some says of which nodes a table has rows, where it has not one for each: in a partition those of its nodes that have one, in their
// order. Which they are is known to its maker alone.
type Some struct {
	Rows []uint64 // by partition
	// Init sets the first embeddings of partition p's rows from row first on.
	Init func(p store.PartitionID, first uint64, rows []float32) error
}

// Table is a store's embedding table, open for training: one row of Planes
// vectors a node, or of some nodes, read and written a partition at a time.
//
// Each partition has one slot on disk more than checkpoints are kept. Each
// checkpoint names one of them; writes go to one that none names. So whatever
// happens between two checkpoints, the kept ones are whole. Invariants, per partition:
// slot current holds the newest rows, whose checksums are sums; current equals
// the last checkpoint's slot exactly if nothing was written since.
//
// Different partitions may be read and written at the same time, one
// partition by one goroutine at a time. A table has one opener, in all
// processes, or any number of readers.
type Table struct {
	env      meta.Env
	record   meta.TableRecord
	layout   *blocks.EmbeddingLayout
	lk       *meta.Lock // nil: a reader beside a run
	readOnly bool

	mu      sync.Mutex
	engine  blockio.Engine
	file    blockio.File
	kept    []Checkpoint // ascending numbers
	spared  []uint64     // those of kept that no new one takes the place of
	current []tableSlot
	writing int // Write calls under way
	failed  error
	closed  bool
}

// tableSlot is where a partition's newest rows lie and their checksums, by plane.
type tableSlot struct {
	Slot int      `json:"slot"`
	Sums []uint32 `json:"sums"`
}

// Checkpoint is a state that training can go on from.
type Checkpoint struct {
	Number  uint64      `json:"number"` // ascending from 1, which is the initial state
	Created time.Time   `json:"created"`
	Blobs   []string    `json:"blobs,omitempty"` // names, see Table.Blob
	Slots   []tableSlot `json:"slots"`           // by partition
}

// Blob is a part of a checkpoint that is not in the table: model parameters, the plan's
// position, random state, configuration.
type Blob struct {
	Name string
	Data []byte
}

// Create makes an embedding table for the snapshot's nodes and opens it.
// The file is written front to back, in bounded memory. It fails with
// ErrExists if there is a table of that name and o.Replace is not set.
func Create(ctx context.Context, s *store.Store, o Options) (_ *Table, err error) {
	o.Keep = max(o.Keep, 1)
	if !ValidName(o.Name) || o.Dim < 1 || o.States < 0 {
		return nil, fmt.Errorf("%w: table %q of dim %d with %d state planes, expected a name of letters, digits, '-' and '_', a dimension and 0 planes or more", store.ErrInvalid, o.Name, o.Dim, o.States)
	}
	t, err := lock(ctx, meta.NewEnv(s.Dir(), s.Files().FS(), o.LockTimeout), o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = t.unlock()
		}
	}()
	t.record = meta.TableRecord{Name: o.Name, File: "table-" + o.Name + meta.FileSuffix, Version: s.Manifest().Version,
		Dim: o.Dim, States: o.States, Keep: o.Keep, Created: time.Now().UTC(), Some: o.Some != nil}
	if err := t.makeLayout(s.Manifest(), o.Some); err != nil {
		return nil, err
	}
	if o.From != nil {
		if err := o.From.check(ctx, &o); err != nil {
			return nil, err
		}
	}
	// The record comes first: a sweep spares the file it names.
	if err := t.update(ctx, 0, math.MaxUint64, func(m *meta.DB) ([]meta.Entry, error) {
		var old meta.TableRecord
		if ok, err := m.GetJSON(meta.TableKey(o.Name), "table "+o.Name, &old); err != nil {
			return nil, err
		} else if ok && old.Ready && !o.Replace {
			return nil, fmt.Errorf("%w: table %q", store.ErrExists, o.Name)
		}
		if kept, err := m.HasVersion(t.record.Version); err != nil {
			return nil, err
		} else if !kept { // with the table it stays
			return nil, fmt.Errorf("table %q for a version that is no longer kept: %w: version %d of %s", o.Name, store.ErrNotFound, t.record.Version, t.env.Dir)
		}
		if err := t.checkRoom(); err != nil {
			return nil, err
		}
		return t.recordEntry()
	}); err != nil {
		return nil, err
	}
	sums, err := t.createFile(ctx, s.Manifest(), &o)
	if err != nil {
		return nil, err
	}
	if err := t.Use(o.Engine); err != nil {
		return nil, err
	}
	t.record.Ready = true
	for _, row := range sums {
		t.current = append(t.current, tableSlot{Slot: 0, Sums: row})
	}
	if err := t.commit(ctx, o.Blobs); err != nil {
		return nil, errors.Join(err, t.file.Close())
	}
	return t, nil
}

// makeLayout lays out the file of a new table.
func (t *Table) makeLayout(m *store.Manifest, some *Some) (err error) {
	nodes := make([]uint64, len(m.Partitions))
	if some != nil && len(some.Rows) != len(nodes) {
		return fmt.Errorf("%w: table %q has rows of %d partitions, the store has %d", store.ErrInvalid, t.record.Name, len(some.Rows), len(nodes))
	}
	for p, info := range m.Partitions {
		nodes[p] = info.Nodes
		if some != nil {
			if nodes[p] = some.Rows[p]; nodes[p] > info.Nodes {
				return fmt.Errorf("%w: table %q has %d rows of partition %d, which has %d nodes", store.ErrInvalid, t.record.Name, nodes[p], p, info.Nodes)
			}
		}
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.record.File))
	header := blocks.Header{Kind: blocks.Embedding, FileID: h.Sum64(), Elem: blocks.Float32, Dim: uint32(t.record.Dim), Name: t.record.Name}
	if t.layout, err = blocks.NewEmbeddingLayout(header, 1+t.record.States, t.record.Keep+1, nodes); err != nil {
		return fmt.Errorf("%w: table %q: %w", store.ErrInvalid, t.record.Name, err)
	}
	return nil
}

// checkRoom compares the new file's size with the disk's room and that of the file in its place. File
// systems that do not tell are believed to have room: making the file reserves it.
func (t *Table) checkRoom() error {
	usage, err := t.env.FS.GetDiskUsage(t.env.Path(meta.DataName))
	if err != nil {
		return nil
	}
	room := int64(usage.AvailBytes)
	if stat, err := t.env.FS.Stat(t.Path()); err == nil {
		room += stat.Size()
	}
	if size := t.layout.Size(); size > room {
		return fmt.Errorf("table %q takes %d bytes, the disk has room for %d: %w", t.record.Name, size, room, syscall.ENOSPC)
	}
	return nil
}

func (t *Table) createFile(ctx context.Context, m *store.Manifest, o *Options) (sums [][]uint32, err error) {
	fill := func(p store.PartitionID, plane int, row uint64, b []byte) error {
		if plane > 0 || o.Some == nil && o.Init == nil {
			clear(b)
			return nil
		}
		x, err := blocks.View[float32](b)
		switch {
		case err != nil:
		case o.Some != nil:
			err = o.Some.Init(p, row, x)
		default:
			o.Init(m.Partitions[p].First+store.NodeID(row), x)
		}
		return err
	}
	if o.From != nil {
		fill = newFiller(ctx, o.From, t.layout.Nodes).fill
	}
	sums, err = blocks.CreateEmbedding(t.env.FS, t.env.DataPath(t.record.File), t.layout, fill)
	if err != nil {
		return nil, err
	}
	return sums, t.env.SyncDir(t.env.Path(meta.DataName))
}

// Open opens a table at its last checkpoint or at o.Checkpoint, for training on or, with o.ReadOnly, for reading.
// The snapshot must be of the version that the table was made for, unless o.AnyVersion is set. It fails with
// ErrNotFound or, if another process has the table open, ErrLocked.
// Only Name, Checkpoint, ReadOnly, Beside, AnyVersion, Engine and LockTimeout of o are looked at.
func Open(ctx context.Context, s *store.Store, o Options) (_ *Table, err error) {
	t, err := lock(ctx, meta.NewEnv(s.Dir(), s.Files().FS(), o.LockTimeout), o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = t.unlock()
		}
	}()
	if err := t.load(ctx, o.Name); err != nil {
		return nil, err
	}
	if err := t.GoBack(ctx, o.Checkpoint); err != nil {
		return nil, err
	}
	other := t.CheckVersion(s.Manifest())
	if other != nil && !(o.AnyVersion && o.ReadOnly) {
		return nil, other
	}
	if !t.env.Exists(t.Path()) {
		return nil, &blocks.CorruptError{Path: t.Path(), Extent: "file", Offset: -1, Reason: "it is missing"}
	}
	if t.layout, err = blocks.OpenEmbedding(t.env.FS, t.env.DataPath(t.record.File)); err != nil {
		return nil, err
	}
	if other != nil {
		return t, t.Use(o.Engine)
	}
	l := t.layout
	fits := l.Planes == 1+t.record.States && l.Slots == t.record.Keep+1 && int(l.Header.Dim) == t.record.Dim && len(l.Nodes) == len(s.Manifest().Partitions)
	for p := range l.Nodes {
		nodes := s.Manifest().Partitions[p].Nodes
		fits = fits && (l.Nodes[p] == nodes || t.record.Some && l.Nodes[p] < nodes)
	}
	if !fits {
		return nil, &blocks.CorruptError{Path: t.env.DataPath(t.record.File), Extent: "directory", Offset: -1, Reason: "its shape is not what the table's record says"}
	}
	return t, t.Use(o.Engine)
}

// VersionError says that a table belongs to another version of the store than the one that is open. It is a store.ErrInvalid.
type VersionError struct {
	Table string
	Of    uint64 // the table's version, which is kept as long as the table is
	Open  uint64
}

// Error names both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%v: table %q belongs to version %d of the store, this is version %d: open that version, or train anew", store.ErrInvalid, e.Table, e.Of, e.Open)
}

// Is reports whether target is store.ErrInvalid.
func (e *VersionError) Is(target error) bool { return target == store.ErrInvalid }

// CheckVersion says which version of the store the table belongs to, if it is not m's, as a [VersionError].
func (t *Table) CheckVersion(m *store.Manifest) error {
	if t.record.Version == m.Version {
		return nil
	}
	return &VersionError{t.record.Name, t.record.Version, m.Version}
}

// load reads record and checkpoints.
func (t *Table) load(ctx context.Context, name string) (err error) {
	m, err := meta.Open(ctx, t.env, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	ok, err := m.GetJSON(meta.TableKey(name), "table "+name, &t.record)
	if err != nil {
		return err
	}
	if !ok || !t.record.Ready {
		return fmt.Errorf("%w: table %q in %s", store.ErrNotFound, name, t.env.Dir)
	}
	entries, err := m.Scan(string(meta.CheckpointPrefix(name)))
	if err != nil {
		return err
	}
	if len(entries) == 0 || len(entries) > t.record.Keep {
		return m.Corrupt("table "+name, "it has %d checkpoints, expected 1 to %d", len(entries), t.record.Keep)
	}
	for _, e := range entries {
		var c Checkpoint
		if err := json.Unmarshal(e.Value, &c); err != nil {
			return m.Corrupt("checkpoint of table "+name, "%v", err)
		}
		for p, s := range c.Slots {
			if s.Slot < 0 || s.Slot > t.record.Keep || len(s.Sums) != 1+t.record.States {
				return m.Corrupt("checkpoint of table "+name, "partition %d is slot %d with %d checksums", p, s.Slot, len(s.Sums))
			}
		}
		t.kept = append(t.kept, c)
	}
	t.current = slices.Clone(t.last().Slots)
	return nil
}

// last is the newest checkpoint; none is the zero value.
func (t *Table) last() Checkpoint {
	if len(t.kept) == 0 {
		return Checkpoint{}
	}
	return t.kept[len(t.kept)-1]
}

// writersWait is how long a writer waits for who has the table open: a reader may look into it for a moment.
const writersWait = time.Second

// lock takes the table's place.
func lock(ctx context.Context, e meta.Env, o Options) (*Table, error) {
	wait := writersWait
	if o.ReadOnly {
		wait = 0
	}
	lk, err := e.LockTable(ctx, o.Name, !o.ReadOnly, wait)
	switch {
	case errors.Is(err, store.ErrLocked) && o.ReadOnly && o.Beside:
	case errors.Is(err, store.ErrLocked):
		return nil, fmt.Errorf("%w: table %q of %s is open already, in this process or another", store.ErrLocked, o.Name, e.Dir)
	case err != nil:
		return nil, fmt.Errorf("table %q: %w", o.Name, err)
	}
	return &Table{env: e, lk: lk, readOnly: o.ReadOnly}, nil
}

// unlock gives the table's place back.
func (t *Table) unlock() error {
	if t.lk == nil {
		return nil
	}
	return t.lk.Close()
}

// overtaken is the error of what no longer is as the checkpoint says, of a reader beside a run; nil of another.
func (t *Table) overtaken() error {
	if t.lk != nil {
		return nil
	}
	return fmt.Errorf("%w: table %q has newer checkpoints than %d, which was being read: ask again", ErrOvertaken, t.record.Name, t.last().Number)
}

// Standing reports whether what was read so far was the checkpoint's: nil, or [ErrOvertaken]. [Table.Read] finds it by itself.
func (t *Table) Standing(ctx context.Context) error {
	if t.lk != nil {
		return nil
	}
	now := &Table{env: t.env}
	if err := now.load(ctx, t.record.Name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if !now.record.Created.Equal(t.record.Created) || !slices.ContainsFunc(now.kept, func(c Checkpoint) bool { return c.Number == t.last().Number }) {
		return t.overtaken()
	}
	return nil
}

// ValidName reports whether a table may have that name: at most 64 letters, digits, '-' and '_'.
func ValidName(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// Path is the table's file.
func (t *Table) Path() string { return t.env.DataPath(t.record.File) }

// Name is its name, which is unique in the store.
func (t *Table) Name() string { return t.record.Name }

// Created is when it was made: another one of the same name is of another time.
func (t *Table) Created() time.Time { return t.record.Created }

// Planes is the number of vectors a node has: the embedding and its optimiser state.
func (t *Table) Planes() int { return t.layout.Planes }

// Dim is the number of elements of each.
func (t *Table) Dim() int { return t.record.Dim }

// Partitions is the number of partitions.
func (t *Table) Partitions() int { return len(t.layout.Nodes) }

// Some reports whether the rows are of some of the nodes only ([Options].Some).
func (t *Table) Some() bool { return t.record.Some }

// Nodes is the number of rows of partition p.
func (t *Table) Nodes(p store.PartitionID) uint64 { return t.layout.Nodes[p] }

// PlaneBytes is the size of a buffer for one plane of partition p: its rows,
// padded to blockio.Alignment.
func (t *Table) PlaneBytes(p store.PartitionID) int64 { return t.layout.PlaneBytes(p) }

// PayloadBytes is what of PlaneBytes(p) rows fill.
func (t *Table) PayloadBytes(p store.PartitionID) int64 { return t.layout.PayloadBytes(p) }

// Use moves the table to another engine, nil: the store's file system. Nothing may be under way.
func (t *Table) Use(engine blockio.Engine) error {
	if engine == nil || !t.env.OnDisk() {
		engine = vfsengine.New(t.env.FS)
	}
	f, err := engine.Open(t.env.DataPath(t.record.File), blockio.OpenOptions{Direct: true, Write: !t.readOnly})
	if err != nil {
		return fmt.Errorf("open table: %w", err)
	}
	t.mu.Lock()
	old := t.file
	t.engine, t.file = engine, f
	t.mu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// Close closes the table. Rows written since the last checkpoint are
// forgotten.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return store.ErrClosed
	}
	t.closed = true
	return errors.Join(t.file.Close(), t.unlock())
}
