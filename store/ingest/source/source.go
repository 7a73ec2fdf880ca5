// Package source says what a graph is before it is a store: a [Source] streams edges, rows of columns, splits and names in
// batches, and describes them beforehand. Package ingest gives all of these names too.
package source

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// Source is a graph in the form its owner has it. Package formats has one for
// every input format; programs may bring their own.
//
// Nodes are named by source ids. Where Description.IDs is dense, a source id is
// an integer 0 ≤ id < Nodes and node columns are read in its order. Elsewhere
// they are sparse integers or strings, which the ingester collects from edges
// and names.
//
// Every method may be called more than once (a partitioner reads edges several
// times, a resumed ingest skips phases) and streams the same data each time.
// Methods are called by one goroutine at a time; callbacks may be concurrent
// where said.
type Source interface {
	// Describe returns what opening the source told. It belongs to the source
	// and does not change.
	Describe() *Description
	// Edges streams all edges, in any order, in batches. It may parse with up
	// to env.Threads goroutines, each calling emit with its own worker number
	// 0 ≤ worker < env.Threads; a batch is the caller's until emit returns.
	// After emit fails, Edges stops and returns that error.
	Edges(ctx context.Context, env Env, emit func(worker int, b *EdgeBatch) error) error
	// Rows streams the rows of node column c (an index into
	// Description.NodeColumns) in ascending order: row 0 belongs to source id
	// NodeColumns[c].First. rows holds whole rows of the column's own type, is
	// 8-byte aligned and valid until emit returns. emit is not called
	// concurrently.
	Rows(ctx context.Context, env Env, c int, emit func(rows []byte, at Position) error) error
	// Split streams the source ids of one part of split s (an index into
	// Description.Splits).
	Split(ctx context.Context, env Env, s int, part uint8, emit func(ids *IDs, at Position) error) error
	// EdgeList streams edge list l (an index into Description.EdgeLists) in order.
	EdgeList(ctx context.Context, env Env, l int, emit func(b *EdgeBatch) error) error
	// Names streams the strings that name source ids 0, 1, …, in order, if
	// Description.Named; no source without them is asked.
	Names(ctx context.Context, env Env, emit func(names *IDs, at Position) error) error
	Close() error
}

// Env is what a source may use while it streams.
type Env struct {
	Threads     int    // goroutines it may parse with, ≥ 1
	MemoryBytes int64  // what its buffers together may take
	ScratchDir  string // an existing directory on FS for files that must be unpacked; "" = none may be
	FS          vfs.FS // where ScratchDir is
}

// Description is what a source knows before it is streamed.
type Description struct {
	Format string   // "numpy", "ogb", …
	Input  string   // the path or name the user gave
	Files  []string // every input file: a resumed ingest checks size and time of each

	NodeTypes []NodeType // at least one; ids of type k follow those of k−1
	// TypesByColumn says that they may not: column [store.TypeColumn] has the number of each node's type.
	TypesByColumn bool
	// TypesByPrefix says that source ids are strings TYPE:ID, as [PrefixOf] begins them. NodeTypes, in the order of their ids, need not
	// say how many nodes they have: the ingester counts them, and numbers nodes for learned vectors. The source is a [KeyedSource].
	TypesByPrefix bool
	// Nodes is the number of nodes, if known before edges are read; −1 = one
	// more than the largest id found (dense ids), or the number of distinct ids.
	Nodes int64
	IDs   store.IDKind // kind of source ids
	// Named says that dense source ids have names (Names), which become the
	// store's external ids.
	Named bool
	// NamedIntegers says that the names are integers (IDs.Ints of what Names streams).
	NamedIntegers bool
	Edges         int64 // −1 = unknown

	// Relations are the edge types' names. Edges name theirs by index in
	// EdgeBatch.Relations, if there is more than one. Empty, with a relation
	// column, means that edges carry relation names (EdgeBatch.RelationNames).
	Relations   []string
	HasRelation bool // batches carry Relations or RelationNames

	EdgeColumns []ColumnSpec // other than the relation: weight, timestamp, …
	NodeColumns []ColumnSpec // features, labels
	Splits      []string     // names of splits over nodes, the default first
	EdgeLists   []string     // "valid", "test"
	ClassNames  []string     // nil = unknown
	Labels      string       // what labels are, as ingest.Labels has it; "" = unknown
	// Keyed says that the source is a KeyedSource with tables of nodes.
	Keyed bool
	// Dangling says what becomes of edges to nodes that the tables of nodes have no row for; "" = DanglingNode.
	Dangling Dangling
	Task     string // store.TaskNode, store.TaskLink or ""

	// Undirected says that each edge stands for both directions, as an export of an undirected store says of itself.
	Undirected bool
	// Schema says what a database was taken for, in YAML; "" = the source is none. It is kept with the store, whose rows to come are read by it.
	Schema string
	// Uses says, for people, what every column of the input became; Notes what else they should know, such
	// as files that were not read. Both are kept with the store.
	Uses  []ColumnUse
	Notes []string
}

// ColumnUse is what a column of the input, or a run of them, became.
type ColumnUse struct {
	File   string
	Column string   // its name in quotes, or its place
	As     string   // "source", "feature x [3]", "left out: text"
	Names  []string // of a table's columns, each by itself
}

// CheckNames refuses names of columns and splits that a store cannot hold.
func (d *Description) CheckNames() error {
	var names []string
	for _, c := range d.EdgeColumns {
		names = append(names, c.Name)
	}
	for _, c := range d.NodeColumns {
		names = append(names, c.Name)
	}
	names = append(names, d.Splits...)
	taken := map[string]bool{}
	for _, n := range names {
		switch {
		case n == "" || !utf8.ValidString(n):
			return Inputf(d.Input, "a column is called %q, expected a name in UTF-8", n)
		case len(n) > blocks.NameBytesMax:
			return Inputf(d.Input, "a column's name has %d bytes (%.40q…), at most %d are possible", len(n), n, blocks.NameBytesMax)
		case taken[n]:
			return Inputf(d.Input, "two columns are called %q", n)
		}
		taken[n] = true
	}
	for _, n := range d.EdgeLists {
		if n == "" || len(n) > blocks.NameBytesMax {
			return Inputf(d.Input, "an edge list is called %.40q, expected a name of 1 to %d bytes", n, blocks.NameBytesMax)
		}
	}
	return nil
}

// Dangling says what becomes of edges to nodes that no table of nodes has a row for.
type Dangling string

// Rules for such edges. With all but DanglingNode the rows of tables of nodes alone are nodes, each one of its own.
const (
	DanglingNode  Dangling = "node"  // what an edge names is a node
	DanglingDrop  Dangling = "drop"  // the edge is left out, and counted
	DanglingError Dangling = "error" // it is refused
)

// NodesByRows reports whether only rows of tables of nodes are nodes.
func (d *Description) NodesByRows() bool { return d.Dangling != "" && d.Dangling != DanglingNode }

// NodeType is a kind of node; Count −1 = unknown (only where there is one type, or Description.TypesByPrefix).
type NodeType struct {
	Name  string
	Count int64
}

// ColumnSpec describes a column of a source.
type ColumnSpec struct {
	Name     string
	Role     store.Role
	Elem     blocks.ElemType
	Dim      int
	First    uint64 // node columns: source id of row 0
	Rows     int64  // node columns: number of rows; −1 = every node
	NodeType string // "" = all
	// Values are what the numbers 1, 2, … of a category stand for ([store.ColumnInfo].Categories); 0 is none.
	Values []string
	// Mask says that the elements are 1 where those of another feature are missing.
	Mask bool
	// Indicator says that the elements are 0 or 1 by what a value is; they are not standardised.
	Indicator bool
	// Measured says that each element is of a unit of its own, as columns of numbers and dates of tables are: the ingest standardises
	// them, unless its options say otherwise.
	Measured bool
	// Coded says of labels that they are codes of numbers, as a store has them.
	Coded bool
	// Standard is how the column is standardised, whatever the options say; nil = as they say.
	Standard *store.Standard
	// Elements names the elements of a row; nil = they have no names.
	Elements []string
	// Keyed says of a node column that its rows name their nodes (see
	// KeyedSource); First and Rows mean nothing then. Nodes without a row have
	// no label, features of 0.
	Keyed bool
}

// RowBytes is the size of one row.
func (c *ColumnSpec) RowBytes() int { return c.Dim * c.Elem.Size() }

// IDs is a list of source ids: integers, or strings laid end to end.
type IDs struct {
	Ints []uint64
	Text []byte
	Ends []uint32 // end of each string in Text; nil for integers
}

// Len returns the number of ids.
func (s *IDs) Len() int {
	if s.Ends != nil {
		return len(s.Ends)
	}
	return len(s.Ints)
}

// At returns string i, in place.
func (s *IDs) At(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = s.Ends[i-1]
	}
	return s.Text[from:s.Ends[i]]
}

// Append adds a string.
func (s *IDs) Append(b []byte) {
	s.Text = append(s.Text, b...)
	s.Ends = append(s.Ends, uint32(len(s.Text)))
}

// take adds id i of another list.
func (s *IDs) take(from *IDs, i int) {
	if from.Ends == nil {
		s.Ints = append(s.Ints, from.Ints[i])
		return
	}
	s.Append(from.At(i))
}

// Reset empties the list and keeps its memory.
func (s *IDs) Reset() { s.Ints, s.Text, s.Ends = s.Ints[:0], s.Text[:0], s.Ends[:0] }

// EdgeBatch is a run of edges: parallel arrays.
type EdgeBatch struct {
	Src, Dst IDs
	// Relations holds each edge's relation; nil if the source has none or names them.
	Relations []uint32
	// RelationNames holds each edge's relation's name, where Description.Relations is empty.
	RelationNames IDs
	// Columns holds the rows of each of Description.EdgeColumns.
	Columns [][]byte
	// At says where the batch stands in the input.
	At Position
}

// Len returns the number of edges.
func (b *EdgeBatch) Len() int { return b.Src.Len() }

// Without is b without the edges that drop says so of, in order: b itself where it does of none, else what room has place for. Relations have no names.
func (b *EdgeBatch) Without(room *EdgeBatch, drop func(i int) bool) *EdgeBatch {
	n, first := b.Len(), 0
	for first < n && !drop(first) {
		first++
	}
	if first == n {
		return b
	}
	room.Src.Reset()
	room.Dst.Reset()
	room.Relations, room.At = room.Relations[:0], b.At
	room.At.Lines = nil
	room.Columns = slices.Grow(room.Columns[:0], len(b.Columns))[:len(b.Columns)]
	for k := range room.Columns {
		room.Columns[k] = room.Columns[k][:0]
	}
	for i := range n {
		if i == first || i > first && drop(i) {
			continue
		}
		room.Src.take(&b.Src, i)
		room.Dst.take(&b.Dst, i)
		room.Relations = append(room.Relations, b.Relations[i])
		room.At.Lines = append(room.At.Lines, b.At.Number(i))
		for k, c := range b.Columns {
			size := len(c) / n
			room.Columns[k] = append(room.Columns[k], c[i*size:(i+1)*size]...)
		}
	}
	return room
}

// Position says where item 0 of a batch stands in the input, for messages.
type Position struct {
	File  string
	Unit  string // what Index counts: "row", "line", "edge"
	Index uint64 // of item 0, as users count it
	// Lines, if not nil, holds each item's own index instead (lines that are
	// comments or bad are no items).
	Lines []uint64
}

// Number is the index of item i, as users count it.
func (p Position) Number(i int) uint64 {
	if p.Lines != nil && i < len(p.Lines) {
		return p.Lines[i]
	}
	return p.Index + uint64(i)
}

// Of returns the position of item i as messages give it: "edge.csv line 12".
func (p Position) Of(i int) string {
	return fmt.Sprintf("%s: %s %d", p.File, p.Unit, p.Number(i))
}

// InputError says what is wrong with the input and where. errors.Is(err,
// ErrInput) holds for it.
type InputError struct {
	Where  string // file and position
	Reason string // what was found and what was expected
}

// Error names the position and the reason.
func (e *InputError) Error() string { return e.Where + ": " + e.Reason }

// Is reports whether target is [ErrInput].
func (e *InputError) Is(target error) bool { return target == ErrInput }

// Inputf makes an [InputError].
func Inputf(where, format string, args ...any) error {
	return &InputError{Where: where, Reason: fmt.Sprintf(format, args...)}
}

// RelationsMax is the most relations of a store: the column is at most 16 bits wide.
const RelationsMax = 1 << 16

// KeyedSource is a [Source] with tables of nodes: rows that name their node and
// stand in any order. Columns with ColumnSpec.Keyed are read through it.
type KeyedSource interface {
	Source
	// NodeIDs streams the source ids of all rows of all tables: nodes, though
	// they may have no edge.
	NodeIDs(ctx context.Context, env Env, emit func(ids *IDs, at Position) error) error
	// KeyedRows streams the rows of node column c, whose ColumnSpec is Keyed,
	// with the source id of each; otherwise as Source.Rows does.
	KeyedRows(ctx context.Context, env Env, c int, emit func(ids *IDs, rows []byte, at Position) error) error
}
