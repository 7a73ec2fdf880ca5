// Package parts puts an ingest.Source together: a [Source] is a description and a stream for each thing that it
// describes. A stream is a function, so that a reader of arrays, of lines or of Parquet, and what changes ids on the way,
// are parts that any layout of files can use.
package parts

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// What the parts of a composed source are made of: each streams the same data
// whenever it is called, as ingest.Source demands of the method it serves.
type (
	Edges func(ctx context.Context, env ingest.Env, emit func(worker int, b *ingest.EdgeBatch) error) error
	List  func(ctx context.Context, env ingest.Env, emit func(b *ingest.EdgeBatch) error) error
	Rows  func(ctx context.Context, env ingest.Env, emit func(rows []byte, at ingest.Position) error) error
	Keyed func(ctx context.Context, env ingest.Env, emit func(ids *ingest.IDs, rows []byte, at ingest.Position) error) error
	IDs   func(ctx context.Context, env ingest.Env, emit func(ids *ingest.IDs, at ingest.Position) error) error
)

// Split are the id streams of a split by part, store.SplitTrain and on; nil = empty.
type Split map[uint8]IDs

// Source is a source put together from streams that stand in different
// files and forms. Its slices parallel those of Desc.
type Source struct {
	Desc         ingest.Description
	EdgeStreams  []Edges // one after another
	RowStreams   []Rows
	SplitStreams []Split
	ListStreams  []List
	NameStream   IDs
	IDStreams    []IDs   // of tables of nodes
	KeyedStreams []Keyed // by column; nil for those that are not keyed
}

// New makes an empty source of one type of nodes with dense ids.
func New(format, input string) *Source {
	return &Source{Desc: ingest.Description{Format: format, Input: input, IDs: store.IDsDense, Nodes: -1, Edges: -1,
		NodeTypes: []ingest.NodeType{{Name: "node", Count: -1}}}}
}

// Describe implements ingest.Source.
func (s *Source) Describe() *ingest.Description { return &s.Desc }

// Close implements ingest.Source. Streams open and close their files themselves.
func (s *Source) Close() error { return nil }

// Edges implements ingest.Source.
func (s *Source) Edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	for _, f := range s.EdgeStreams {
		if err := f(ctx, env, emit); err != nil {
			return err
		}
	}
	return nil
}

// Rows implements ingest.Source.
func (s *Source) Rows(ctx context.Context, env ingest.Env, c int, emit func([]byte, ingest.Position) error) error {
	return s.RowStreams[c](ctx, env, emit)
}

// Split implements ingest.Source.
func (s *Source) Split(ctx context.Context, env ingest.Env, k int, part uint8, emit func(*ingest.IDs, ingest.Position) error) error {
	if f := s.SplitStreams[k][part]; f != nil {
		return f(ctx, env, emit)
	}
	return nil
}

// EdgeList implements ingest.Source.
func (s *Source) EdgeList(ctx context.Context, env ingest.Env, l int, emit func(*ingest.EdgeBatch) error) error {
	return s.ListStreams[l](ctx, env, emit)
}

// Names implements ingest.Source.
func (s *Source) Names(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
	if s.NameStream == nil {
		return ErrNone
	}
	return s.NameStream(ctx, env, emit)
}

// NodeIDs implements ingest.KeyedSource.
func (s *Source) NodeIDs(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
	for _, f := range s.IDStreams {
		if err := f(ctx, env, emit); err != nil {
			return err
		}
	}
	return nil
}

// KeyedRows implements ingest.KeyedSource.
func (s *Source) KeyedRows(ctx context.Context, env ingest.Env, c int, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
	return s.KeyedStreams[c](ctx, env, emit)
}

// AddFiles notes input files, each once.
func (s *Source) AddFiles(paths ...string) {
	for _, path := range paths {
		if !slices.Contains(s.Desc.Files, path) {
			s.Desc.Files = append(s.Desc.Files, path)
		}
	}
}

// AddColumn adds a node column.
func (s *Source) AddColumn(spec ingest.ColumnSpec, rows Rows) {
	s.Desc.NodeColumns = append(s.Desc.NodeColumns, spec)
	s.RowStreams = append(s.RowStreams, rows)
	if spec.Role == store.RoleLabel {
		s.Desc.Task = store.TaskNode
	}
}

// AddSplit adds a split.
func (s *Source) AddSplit(name string, split Split) {
	s.SplitStreams, s.Desc.Splits = append(s.SplitStreams, split), append(s.Desc.Splits, name)
}

// Listed streams ids that are in memory, of a file.
func Listed(ids []uint64, file string) IDs {
	return func(_ context.Context, _ ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		if len(ids) == 0 {
			return nil
		}
		return emit(&ingest.IDs{Ints: slices.Clone(ids)}, ingest.Position{File: file})
	}
}

// AddWeights says that edges have a weight and no other column.
func (s *Source) AddWeights() {
	s.Desc.EdgeColumns = []ingest.ColumnSpec{{Name: "weight", Role: store.RoleWeight, Elem: blocks.Float32, Dim: 1}}
}

// ErrNone is returned where a source is asked for what it did not describe.
var ErrNone = errors.New("formats: the source has none")

// Other names of an edge's columns in tables.
var (
	RelationNames = []string{"relation", "rel", "edge_type", "predicate", "type", "relation_id", "r", "metaedge", "relationship", ":type", "~label"}
	WeightNames   = []string{"weight", "w", "edge_weight"}
	TimeNames     = []string{"timestamp", "time", "ts"}
)

// Widen appends integer elements to dst as 64 bits; negative ones keep their sign.
func Widen(dst []uint64, elem blocks.ElemType, b []byte) []uint64 {
	le := binary.LittleEndian
	switch elem {
	case blocks.Int64, blocks.Uint64:
		n := len(b) / 8
		dst = slices.Grow(dst, n)
		copy(blocks.Bytes(dst[len(dst):len(dst)+n]), b) // as it is: hosts are little-endian
		dst = dst[:len(dst)+n]
	case blocks.Int32:
		for ; len(b) >= 4; b = b[4:] {
			dst = append(dst, uint64(int64(int32(le.Uint32(b)))))
		}
	case blocks.Uint32:
		for ; len(b) >= 4; b = b[4:] {
			dst = append(dst, uint64(le.Uint32(b)))
		}
	case blocks.Uint8:
		for _, x := range b {
			dst = append(dst, uint64(x))
		}
	case blocks.Uint16:
		for ; len(b) >= 2; b = b[2:] {
			dst = append(dst, uint64(le.Uint16(b)))
		}
	case blocks.Int8:
		for _, x := range b {
			dst = append(dst, uint64(int64(int8(x))))
		}
	}
	return dst
}
