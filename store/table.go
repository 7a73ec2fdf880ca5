package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
)

// TableOptions say what an embedding table is. Dim and Name are required.
type TableOptions struct {
	Name string // unique in the store: letters, digits, '-' and '_'
	Dim  int    // float32 elements a row
	// States is the number of optimiser planes beside the embeddings, each of
	// the same shape: 0 for SGD, 1 for Adagrad, 2 for Adam. They begin as zeros.
	States int
	// Seed and Bound set the first embeddings: uniform in [−Bound, Bound), a
	// function of (Seed, internal id, element) alone; Bound 0 = 1/Dim.
	Seed  uint64
	Bound float32
	// LockTimeout is how long to wait for readers that are opening the store; 0 = 30 s.
	LockTimeout time.Duration
	// Engine moves partitions; nil = through the store's file system, one
	// transfer at a time (tests, other file systems).
	Engine blockio.Engine
}

// Table is a store's embedding table, open for training: one row of Planes
// vectors a node, read and written a partition at a time.
//
// Each partition has two slots on disk. A checkpoint names one of them; writes
// go to the other until the next checkpoint names that. So whatever happens
// between two checkpoints, the last one is whole. Invariants, per partition:
// slot current holds the newest rows, whose checksums are sums; current equals
// the checkpoint's slot exactly if nothing was written since.
//
// Different partitions may be read and written at the same time, one
// partition by one goroutine at a time. A table has one opener, in all
// processes.
type Table struct {
	env
	record tableRecord
	layout *blocks.EmbeddingLayout
	io     tableIO
	lk     *rangeLock

	mu         sync.Mutex
	checkpoint Checkpoint
	current    []tableSlot
	writing    int // Write calls under way
	failed     error
	closed     bool
}

// tableSlot is where a partition's newest rows lie and their checksums, by plane.
type tableSlot struct {
	Slot int      `json:"slot"`
	Sums []uint32 `json:"sums"`
}

// tableRecord is what Pebble knows of a table besides its checkpoints.
type tableRecord struct {
	Name    string    `json:"name"`
	File    string    `json:"file"`
	Version uint64    `json:"version"` // of the store: its partitions are the table's
	Dim     int       `json:"dim"`
	States  int       `json:"states"`
	Seed    uint64    `json:"seed"`
	Bound   float32   `json:"bound"`
	Created time.Time `json:"created"`
	Ready   bool      `json:"ready"` // the file is complete: checkpoint 1 exists
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

// CreateTable makes an embedding table for the snapshot's nodes and opens it.
// The file is written front to back, in bounded memory. It fails with
// ErrExists if there is a table of that name.
func (s *Store) CreateTable(ctx context.Context, o TableOptions) (_ *Table, err error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if !validTableName(o.Name) || o.Dim < 1 || o.States < 0 || o.Bound < 0 {
		return nil, fmt.Errorf("%w: table %q of dim %d with %d state planes and bound %g", ErrInvalid, o.Name, o.Dim, o.States, o.Bound)
	}
	if o.Bound == 0 {
		o.Bound = 1 / float32(o.Dim)
	}
	t, err := lockTable(ctx, s.env, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = t.lk.Close()
		}
	}()
	t.record = tableRecord{Name: o.Name, File: "table-" + o.Name + fileSuffix, Version: s.manifest.Version,
		Dim: o.Dim, States: o.States, Seed: o.Seed, Bound: o.Bound, Created: time.Now().UTC()}
	// The record comes first: a sweep spares the file it names.
	if err := t.update(ctx, func(m *meta) ([]entry, error) {
		var old tableRecord
		if ok, err := m.getJSON(tableKey(o.Name), "table "+o.Name, &old); err != nil {
			return nil, err
		} else if ok && old.Ready {
			return nil, fmt.Errorf("%w: table %q", ErrExists, o.Name)
		}
		return t.recordEntry()
	}); err != nil {
		return nil, err
	}
	sums, err := t.createFile(s.manifest)
	if err != nil {
		return nil, err
	}
	if err := t.openIO(o.Engine); err != nil {
		return nil, err
	}
	t.record.Ready = true
	for _, row := range sums {
		t.current = append(t.current, tableSlot{Slot: 0, Sums: row})
	}
	if err := t.commit(ctx, nil); err != nil {
		return nil, errors.Join(err, t.io.close())
	}
	return t, nil
}

func (t *Table) createFile(m *Manifest) (sums [][]uint32, err error) {
	nodes := make([]uint64, len(m.Partitions))
	first := make([]uint64, len(m.Partitions))
	for p, info := range m.Partitions {
		nodes[p], first[p] = info.Nodes, uint64(info.First)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.record.File))
	header := blocks.Header{Kind: blocks.Embedding, FileID: h.Sum64(), Elem: blocks.Float32, Dim: uint32(t.record.Dim), Name: t.record.Name}
	if t.layout, err = blocks.NewEmbeddingLayout(header, 1+t.record.States, nodes); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	sums, err = blocks.CreateEmbedding(t.fs, t.dataPath(t.record.File), t.layout, func(p PartitionID, plane int, row uint64, b []byte) error {
		if plane > 0 {
			clear(b)
			return nil
		}
		x, err := blocks.View[float32](b)
		initRows(x, t.record.Seed, t.record.Bound, (first[p]+row)*uint64(t.record.Dim))
		return err
	})
	if err != nil {
		return nil, err
	}
	return sums, t.syncDir(t.path(dataName))
}

// OpenTable opens a table at its last checkpoint, for training on. The
// snapshot must be of the version that the table was made for. It fails with
// ErrNotFound or, if another process has the table open, ErrLocked.
// Only Name, Engine and LockTimeout of o are looked at.
func (s *Store) OpenTable(ctx context.Context, o TableOptions) (_ *Table, err error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	t, err := lockTable(ctx, s.env, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = t.lk.Close()
		}
	}()
	if err := t.load(ctx, o.Name); err != nil {
		return nil, err
	}
	if t.record.Version != s.manifest.Version {
		return nil, fmt.Errorf("%w: table %q belongs to version %d of the store, this is version %d", ErrInvalid, o.Name, t.record.Version, s.manifest.Version)
	}
	if t.layout, err = blocks.OpenEmbedding(t.fs, t.dataPath(t.record.File)); err != nil {
		return nil, err
	}
	l := t.layout
	fits := l.Planes == 1+t.record.States && int(l.Header.Dim) == t.record.Dim && len(l.Nodes) == len(s.manifest.Partitions)
	for p := range l.Nodes {
		fits = fits && l.Nodes[p] == s.manifest.Partitions[p].Nodes
	}
	if !fits {
		return nil, &blocks.CorruptError{Path: t.dataPath(t.record.File), Extent: "directory", Offset: -1, Reason: "its shape is not what the table's record says"}
	}
	return t, t.openIO(o.Engine)
}

// load reads record and last checkpoint.
func (t *Table) load(ctx context.Context, name string) (err error) {
	m, err := openMeta(ctx, t.env, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	ok, err := m.getJSON(tableKey(name), "table "+name, &t.record)
	if err != nil {
		return err
	}
	if !ok || !t.record.Ready {
		return fmt.Errorf("%w: table %q in %s", ErrNotFound, name, t.dir)
	}
	entries, err := m.scan(string(checkpointPrefix(name)))
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return m.corrupt("table "+name, "it has no checkpoint")
	}
	if err := json.Unmarshal(entries[len(entries)-1].value, &t.checkpoint); err != nil {
		return m.corrupt("checkpoint of table "+name, "%v", err)
	}
	for p, s := range t.checkpoint.Slots {
		if s.Slot < 0 || s.Slot >= blocks.EmbeddingSlots || len(s.Sums) != 1+t.record.States {
			return m.corrupt("checkpoint of table "+name, "partition %d is slot %d with %d checksums", p, s.Slot, len(s.Sums))
		}
	}
	t.current = slices.Clone(t.checkpoint.Slots)
	return nil
}

// lockTable takes the table's place. Its lock is a byte of the store's lock
// file far behind the others, chosen by the name.
func lockTable(ctx context.Context, e env, o TableOptions) (*Table, error) {
	if o.LockTimeout != 0 {
		e.timeout = o.LockTimeout
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(o.Name))
	lk, err := e.lock(ctx, int64(1<<32+h.Sum64()>>2), true, 0)
	if err != nil {
		return nil, fmt.Errorf("table %q is open elsewhere: %w", o.Name, err)
	}
	return &Table{env: e, lk: lk}, nil
}

func validTableName(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// Planes is the number of vectors a node has: the embedding and its optimiser state.
func (t *Table) Planes() int { return t.layout.Planes }

// Dim is the number of elements of each.
func (t *Table) Dim() int { return t.record.Dim }

// Partitions is the number of partitions.
func (t *Table) Partitions() int { return len(t.layout.Nodes) }

// Nodes is the number of rows of partition p.
func (t *Table) Nodes(p PartitionID) uint64 { return t.layout.Nodes[p] }

// PlaneBytes is the size of a buffer for one plane of partition p: its rows,
// padded to blockio.Alignment.
func (t *Table) PlaneBytes(p PartitionID) int64 { return t.layout.PlaneBytes(p) }

// Read fills planes[i] with plane i of partition p and checks it. Each buffer
// has PlaneBytes(p) bytes, is aligned to blockio.Alignment in memory, and
// stays the caller's; fewer buffers than planes read fewer planes. Rows
// written last are what is read.
func (t *Table) Read(ctx context.Context, p PartitionID, planes ...[]byte) error {
	s, err := t.begin(p, planes, 1)
	if err != nil {
		return err
	}
	if err := t.io.move(ctx, blockio.Read, t.requests(p, s.Slot, planes)); err != nil {
		return err
	}
	for i, b := range planes {
		if err := t.verifyPlane(p, i, s, b); err != nil {
			return err
		}
	}
	return nil
}

// readPlane is Read for one plane.
func (t *Table) readPlane(ctx context.Context, p PartitionID, plane int, b []byte) error {
	s, err := t.begin(p, [][]byte{b}, 1)
	if err != nil || len(b) == 0 {
		return err
	}
	if err := t.io.move(ctx, blockio.Read, []tableRange{{t.layout.Offset(p, plane, s.Slot), b}}); err != nil {
		return err
	}
	return t.verifyPlane(p, plane, s, b)
}

func (t *Table) verifyPlane(p PartitionID, plane int, s tableSlot, b []byte) error {
	if sum := blocks.Checksum(b[:t.layout.PayloadBytes(p)]); sum != s.Sums[plane] {
		return &blocks.CorruptError{Path: t.dataPath(t.record.File), Extent: t.layout.ExtentName(p, plane, s.Slot),
			Offset: t.layout.Offset(p, plane, s.Slot), Reason: fmt.Sprintf("checksum %08x, expected %08x", sum, s.Sums[plane])}
	}
	return nil
}

// Write stores all planes of partition p in the slot that no checkpoint
// names. The buffers are as in Read; they must not change until it returns.
// Rows are durable only after the next Checkpoint. After an error, rows of
// that partition written since the last checkpoint may be lost: the table refuses
// further checkpoints, and training resumes from the last one.
func (t *Table) Write(ctx context.Context, p PartitionID, planes ...[]byte) (err error) {
	if len(planes) != t.layout.Planes {
		return fmt.Errorf("%w: %d planes written, table %q has %d", ErrInvalid, len(planes), t.record.Name, t.layout.Planes)
	}
	if _, err := t.begin(p, planes, t.layout.Planes); err != nil {
		return err
	}
	t.mu.Lock()
	if t.failed != nil {
		defer t.mu.Unlock()
		return t.failed
	}
	next := tableSlot{Slot: 1 - t.checkpoint.Slots[p].Slot, Sums: make([]uint32, len(planes))}
	t.writing++
	t.mu.Unlock()
	for i, b := range planes {
		payload := t.layout.PayloadBytes(p)
		next.Sums[i] = blocks.Checksum(b[:payload])
		clear(b[payload:])
	}
	err = t.io.move(ctx, blockio.Write, t.requests(p, next.Slot, planes))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writing--
	if err != nil {
		// The slot holds a mix; only the checkpoint's slot is whole.
		t.failed = fmt.Errorf("table %q lost partition %d: %w", t.record.Name, p, err)
		return err
	}
	t.current[p] = next
	return nil
}

// begin checks arguments and returns where partition p's newest rows are.
func (t *Table) begin(p PartitionID, planes [][]byte, least int) (tableSlot, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return tableSlot{}, ErrClosed
	}
	if int(p) >= len(t.current) {
		return tableSlot{}, fmt.Errorf("%w: partition %d of table %q", ErrNotFound, p, t.record.Name)
	}
	if len(planes) < least || len(planes) > t.layout.Planes {
		return tableSlot{}, fmt.Errorf("%w: %d buffers for %d planes", ErrInvalid, len(planes), t.layout.Planes)
	}
	for _, b := range planes {
		if int64(len(b)) != t.layout.PlaneBytes(p) {
			return tableSlot{}, fmt.Errorf("%w: buffer of %d bytes for partition %d, expected %d", ErrInvalid, len(b), p, t.layout.PlaneBytes(p))
		}
	}
	return t.current[p], nil
}

func (t *Table) requests(p PartitionID, slot int, planes [][]byte) []tableRange {
	var r []tableRange
	for i, b := range planes {
		if len(b) > 0 {
			r = append(r, tableRange{t.layout.Offset(p, i, slot), b})
		}
	}
	return r
}

// Close closes the table. Rows written since the last checkpoint are
// forgotten.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	t.closed = true
	return errors.Join(t.io.close(), t.lk.Close())
}
