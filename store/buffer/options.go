package buffer

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// VerifyMode says when the checksums of what is read are compared.
type VerifyMode uint8

// Verify modes.
const (
	VerifyFirst  VerifyMode = iota // the first time that a chunk is read by an iterator: the default
	VerifyAlways                   // every time
	VerifyNever                    // not at all; topology may then be read in pieces of 4 KiB instead of 64
)

// Options say what macro-batches hold and how much memory they may take.
type Options struct {
	// Engine does the reading; it stays the caller's. nil makes one of
	// EngineName ("auto", "io_uring", "pread", "mmap"; "" = "auto") that Close
	// closes, and registers the buffer with it.
	Engine     blockio.Engine
	EngineName string
	// Buffered reads through the page cache instead of with O_DIRECT.
	Buffered bool

	// Capacity is the most partitions resident in one step, pinned ones not
	// counted: the plan's. 0 means all of them for the whole run (plan "memory").
	Capacity int
	// Pinned partitions belong to every step; ascending.
	Pinned []store.PartitionID
	// Swap is the most partitions that one step has and the step before has not, which
	// is what reading ahead takes room for; 0 = Capacity.
	Swap int
	// MemoryBytes bounds everything that the iterator allocates, in bytes; what the
	// smallest buffer does not need is spent on reading ahead. 0 means what double
	// buffering takes.
	MemoryBytes int64
	// AheadMax bounds how many steps are read ahead; default 4.
	AheadMax int

	Features []string // feature columns, by name; nil = none
	// Runs holds of a feature of one node type, where the store has it by runs ([store.ColumnInfo].Runs), the rows of that type
	// alone: see [Column].Runs. Otherwise nodes of other types have rows of zeros.
	Runs   bool
	Labels bool   // the store's label column
	Split  string // whose nodes are seeds: "train" (default), "valid" or "test"
	// SplitColumn is the split column that Split is looked up in; "" = the store's first.
	SplitColumn string
	// Seeds, if not nil, are the seeds instead of a split's nodes.
	Seeds *Seeds
	// Table's rows are resident with their partitions and written back when these leave: see
	// [MacroBatch].Planes. It stays the caller's and must stay open until Close; meanwhile
	// only Read is for others, at a moment after [Buffer.Flush].
	Table *table.Table
	// TableDim and TablePlanes are those of Table. A [Forecaster] needs no table, only them.
	TableDim, TablePlanes int
	// TableRows is how many rows Table has of each partition, where it is of some nodes only ([table.Some]); nil: one for each node.
	TableRows []uint64
	Both      bool // build Out as well as In
	Relations bool // carry the relation of each edge
	// Weights carries the weight of each edge, from the store's first column of [store.RoleWeight].
	Weights bool
	// Times carries the time of each edge, from the column that [store.Manifest.TimeColumn] finds, and puts each row's edges in
	// order of it. Every step then makes its adjacency from the disk: nothing of the last one's is kept.
	Times bool
	// EdgeFeatures carries these columns of edges, of any type and dimension, side by side in this order as float32s: see
	// [Adjacency].Features and [EdgeFeature].
	EdgeFeatures []string

	Keys   bool // number nodes: see [MacroBatch].Keys
	Verify VerifyMode
	// Threads assemble and verify; default GOMAXPROCS. Results do not depend on it.
	Threads int
	// GapBytes is how many unwanted bytes are read rather than starting another
	// request. 0 means what the time of a request is worth on the store's device
	// ([Tuning]), or 64 KiB where that is not measured. Negative: none.
	GapBytes int64
	// RequestBytes is the largest request, a multiple of 64 KiB. 0 means what suits
	// the device, or 1 MiB.
	RequestBytes int64
	// Depth is how many requests are in flight, of an engine that the iterator makes. 0
	// means what suits the device, or blockio's default.
	Depth int

	// Pin page-locks the buffer's memory, once for the iterator's life, for a device that reads it
	// in place; Close undoes it. nil: not.
	Pin func(b []byte) (unpin func() error, err error)

	tuning string // where the figures come from
}

const (
	defaultAheadMax     = 4
	defaultGapBytes     = 64 << 10
	defaultRequestBytes = 1 << 20
)

func (o Options) withDefaults() Options {
	if o.AheadMax == 0 {
		o.AheadMax = defaultAheadMax
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.GapBytes == 0 {
		o.GapBytes = defaultGapBytes
	}
	o.GapBytes = max(o.GapBytes, 0)
	if o.RequestBytes == 0 {
		o.RequestBytes = defaultRequestBytes
	}
	if o.tuning == "" {
		o.tuning = "given or defaults"
	}
	if o.Table != nil {
		o.TableDim, o.TablePlanes = o.Table.Dim(), o.Table.Planes()
		if o.TableRows = nil; o.Table.Some() {
			for p := range o.Table.Partitions() {
				o.TableRows = append(o.TableRows, o.Table.Nodes(store.PartitionID(p)))
			}
		}
	}
	if o.Split == "" {
		o.Split = "train"
	}
	return o
}

// Validate reports what makes the options unusable for a store with manifest m.
func (o Options) Validate(m *store.Manifest) error {
	switch {
	case o.Capacity < 0 || o.Swap < 0 || o.AheadMax < 0 || o.Threads < 0 || o.MemoryBytes < 0 || o.TableDim < 0 || o.TablePlanes < 0:
		return fmt.Errorf("%w: macro-batch options: negative capacity, swap, steps ahead, threads, memory or table", store.ErrInvalid)
	case o.RequestBytes < 0 || o.RequestBytes%blocks.ChunkBytes != 0 || o.RequestBytes > 1<<30:
		return fmt.Errorf("%w: requests of %d bytes, expected a multiple of %d up to 1 GiB", store.ErrInvalid, o.RequestBytes, blocks.ChunkBytes)
	case o.Depth < 0:
		return fmt.Errorf("%w: %d requests in flight", store.ErrInvalid, o.Depth)
	case o.Table != nil && o.Table.Partitions() != len(m.Partitions):
		return fmt.Errorf("%w: a table of %d partitions for a version of %d", store.ErrInvalid, o.Table.Partitions(), len(m.Partitions))
	case o.TableRows != nil && len(o.TableRows) != len(m.Partitions):
		return fmt.Errorf("%w: rows of a table in %d partitions for a version of %d", store.ErrInvalid, len(o.TableRows), len(m.Partitions))
	case o.Verify > VerifyNever:
		return fmt.Errorf("%w: verify mode %d", store.ErrInvalid, o.Verify)
	case o.Split != "" && store.SplitValue(o.Split) == store.SplitNone:
		return fmt.Errorf("%w: split %q (known: train, valid, test)", store.ErrInvalid, o.Split)
	}
	if o.Seeds != nil && uint64(o.Seeds.most()) >= m.Nodes {
		return fmt.Errorf("%w: node %d is a seed of a version of %d nodes", store.ErrInvalid, o.Seeds.most(), m.Nodes)
	}
	for i, p := range o.Pinned {
		if int(p) >= len(m.Partitions) || i > 0 && o.Pinned[i-1] >= p {
			return fmt.Errorf("%w: pinned partitions %v, expected ascending ids below %d", store.ErrInvalid, o.Pinned, len(m.Partitions))
		}
	}
	for _, name := range o.Features {
		c, err := m.Column(name)
		if err != nil {
			return err
		}
		if c.Role.OnEdges() {
			return fmt.Errorf("%w: column %q lies on edges, expected a feature of nodes", store.ErrInvalid, name)
		}
	}
	if o.Relations {
		if _, err := m.RelationColumn(); err != nil {
			return err
		}
	}
	_, err := EdgeFeatures(m, o.EdgeFeatures)
	return err
}

// EdgeFeatures returns the columns of edges of the names, each named once, which their features can come from: any but relations.
func EdgeFeatures(m *store.Manifest, names []string) (columns []*store.ColumnInfo, err error) {
	for i, name := range names {
		c, err := edgeFeature(m, name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("%w: feature %s of edges is named twice", store.ErrInvalid, name)
		}
		columns = append(columns, c)
	}
	return columns, nil
}

func edgeFeature(m *store.Manifest, name string) (*store.ColumnInfo, error) {
	var known []string
	for i := range m.Columns {
		c := &m.Columns[i]
		if !c.Role.OnEdges() || c.Role == store.RoleRelation {
			continue
		}
		if c.Name == name {
			return c, nil
		}
		known = append(known, c.Name)
	}
	if c, err := m.Column(name); err == nil {
		return nil, fmt.Errorf("%w: column %q of role %s as a feature of edges (those of the store can be %q)", store.ErrInvalid, name, c.Role, known)
	}
	return nil, fmt.Errorf("%w: column %q of edges (the store has %q that can be features of edges)", store.ErrNotFound, name, known)
}

// granule returns what topology reads are rounded to.
func (o *Options) granule() int64 {
	if o.Verify == VerifyNever {
		return blocks.Alignment
	}
	return blocks.ChunkBytes
}

// BudgetError is the [store.ErrBudget] of a partition buffer.
type BudgetError struct {
	NeedBytes  int64 // the smallest budget that would do
	HaveBytes  int64
	Partitions int // resident at once, pinned ones included
}

// Error names both sizes.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("%v: %d partitions at a time of this store need %s (%d bytes), the budget is %s; give at least that or hold fewer partitions",
		store.ErrBudget, e.Partitions, blocks.SizeText(e.NeedBytes), e.NeedBytes, blocks.SizeText(e.HaveBytes))
}

// Is reports whether target is [store.ErrBudget].
func (e *BudgetError) Is(target error) bool { return target == store.ErrBudget }
