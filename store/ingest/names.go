package ingest

import (
	"github.com/gstore/gstore/store/ingest/scratch"
	"github.com/gstore/gstore/store/ingest/source"
)

// What a source is made of, of package source: who ingests, or has a source, needs this package alone.
type (
	Source       = source.Source
	KeyedSource  = source.KeyedSource
	Env          = source.Env
	Description  = source.Description
	ColumnUse    = source.ColumnUse
	NodeType     = source.NodeType
	ColumnSpec   = source.ColumnSpec
	IDs          = source.IDs
	EdgeBatch    = source.EdgeBatch
	Position     = source.Position
	InputError   = source.InputError
	Slices       = source.Slices
	SliceColumn  = source.SliceColumn
	SliceSplit   = source.SliceSplit
	NumberColumn = source.NumberColumn
	Dangling     = source.Dangling
)

// What becomes of edges to nodes that no table has a row for.
const (
	DanglingNode  = source.DanglingNode
	DanglingDrop  = source.DanglingDrop
	DanglingError = source.DanglingError
)

// RelationsMax is the most relations of a store: the column is at most 16 bits wide.
const RelationsMax = source.RelationsMax

// Sentinels that callers match with [errors.Is]. A budget too small is store.ErrBudget.
var (
	// ErrInput marks every error about the data the user gave; it is an [*InputError].
	ErrInput = source.ErrInput
	// ErrOptions marks options that contradict each other or the source.
	ErrOptions = source.ErrOptions
	// ErrResume says that an interrupted ingest cannot be continued with these options or this input.
	ErrResume = source.ErrResume
)

// Inputf makes an [InputError] of where something stands and what is wrong with it.
func Inputf(where, format string, args ...any) error { return source.Inputf(where, format, args...) }

// FromSlices is a source of a graph that stands in memory.
func FromSlices(s *Slices) (Source, error) { return source.FromSlices(s) }

// NumberColumns are columns for learned vectors of d's nodes, whose types count on one behind another.
func NumberColumns(d *Description) []NumberColumn { return source.NumberColumns(d) }

// DefaultMemoryBytes is half of the memory that the process's cgroup allows, or half of the machine's where no cgroup
// sets a limit.
func DefaultMemoryBytes() int64 { return scratch.DefaultMemoryBytes() }
