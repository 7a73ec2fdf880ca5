package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/gstore/gstore/blocks"
)

// ReadColumn reads partition p's part of a column, checked, into dst, which
// is grown if it is too small. The result is row-major [rows][Dim] elements
// of the column's type and belongs to the caller; rows that are not stored ([NodeRows]) are there. This is the simple path; the
// partition buffer reads in bulk through an engine.
func (s *Store) ReadColumn(ctx context.Context, name string, p PartitionID, dst []byte) ([]byte, error) {
	c, err := s.manifest.Column(name)
	if err != nil {
		return nil, err
	}
	f, e, err := s.Files().Column(name, p)
	if err != nil {
		return nil, err
	}
	if c.Values != nil && c.Coded(f) {
		n := int(e.Rows)
		if cap(dst) < 4*n {
			dst = blocks.Bytes(make([]uint32, n))
		}
		dst = dst[:4*n]
		codes, err := s.readExtent(ctx, f, e, dst[3*n:])
		if err != nil {
			return nil, err
		}
		return dst, c.decode(f, e, dst, codes)
	}
	rows := NodeRows{}
	if !c.Role.OnEdges() {
		rows = s.manifest.NodeRows(c, p)
	}
	if rows.Whole() && f != nil { // of a partition without nodes no row is stored either where there is no file
		return s.readExtent(ctx, f, e, dst)
	}
	// The stored rows are read into their place, the others written around them.
	size := int(rows.Nodes) * c.RowBytes()
	if cap(dst) < size {
		dst = blocks.Bytes(make([]uint64, (size+7)/8))
	}
	dst = dst[:size]
	at := int(rows.First) * c.RowBytes()
	if rows.Rows > 0 {
		if _, err := s.readExtent(ctx, f, e, dst[at:at+int(e.Length)]); err != nil {
			return nil, err
		}
	}
	rows.Fill(dst, 0)
	return dst, nil
}

// ColumnBytes is what [Store.ReadColumn] reads of a column: stored rows, in the form they are stored in, without checksums.
func (s *Store) ColumnBytes(name string, p PartitionID) (int64, error) {
	_, e, err := s.Files().Column(name, p)
	return e.Length, err
}

// TrainingNodes counts the training nodes of each partition by a split column ("" = the first): see [Store.SplitNodes].
func (s *Store) TrainingNodes(ctx context.Context, split string) ([]uint64, error) {
	return s.SplitNodes(ctx, split, "train")
}

// SplitNodes counts the nodes of each partition that a split column ("" = the first) has in a part, "train", "valid" or "test".
// The manifest knows those of the first column; another's is read, a byte a node.
func (s *Store) SplitNodes(ctx context.Context, split, part string) ([]uint64, error) {
	value := SplitValue(part)
	if value == SplitNone {
		return nil, fmt.Errorf("%w: part %q of a split: expected train, valid or test", ErrInvalid, part)
	}
	m := s.Manifest()
	column, err := m.SplitColumn(split)
	if err != nil {
		return nil, err
	}
	first, err := m.SplitColumn("")
	if err != nil {
		return nil, err
	}
	counts := make([]uint64, len(m.Partitions))
	var buf []byte
	for p := range counts {
		if info := &m.Partitions[p]; column.Name == first.Name {
			counts[p] = [...]uint64{SplitTrain: info.Train, SplitValid: info.Valid, SplitTest: info.Test}[value]
			continue
		}
		if buf, err = s.ReadColumn(ctx, column.Name, PartitionID(p), buf); err != nil {
			return nil, err
		}
		counts[p] = uint64(bytes.Count(buf, []byte{value}))
	}
	return counts, nil
}

// ClassNodes counts nodes of a class.
type ClassNodes struct {
	Class uint32
	Nodes uint64
}

// TrainingClasses counts the training nodes of each partition by class, ascending, and leaves out classes that a partition has
// none of, and nodes without a class. split names the split column, "" the first. Labels and split are read once, 5 bytes a node.
func (s *Store) TrainingClasses(ctx context.Context, split string) ([][]ClassNodes, error) {
	m := s.Manifest()
	column, err := m.SplitColumn(split)
	if err != nil {
		return nil, err
	}
	labels := m.Labels()
	if labels == nil || m.Schema.Classes < 1 || labels.Sets != nil {
		return nil, fmt.Errorf("%w: a label column", ErrNotFound)
	}
	counts := make([][]ClassNodes, len(m.Partitions))
	dense := make([]uint64, m.Schema.Classes)
	var splits, values []byte
	for p := range counts {
		if splits, err = s.ReadColumn(ctx, column.Name, PartitionID(p), splits); err != nil {
			return nil, err
		}
		if values, err = s.ReadColumn(ctx, labels.Name, PartitionID(p), values); err != nil {
			return nil, err
		}
		clear(dense)
		for i, of := range splits {
			// −1 is no class, and above all of them as an unsigned number.
			if c := binary.LittleEndian.Uint32(values[4*i:]); of == SplitTrain && uint64(c) < uint64(len(dense)) {
				dense[c]++
			}
		}
		for c, n := range dense {
			if n > 0 {
				counts[p] = append(counts[p], ClassNodes{Class: uint32(c), Nodes: n})
			}
		}
	}
	return counts, nil
}

// ReadStripe reads the stripe of dst partition p, checked, into dst, which
// is grown if it is too small. The stripe refers to the returned bytes, which
// belong to the caller.
func (s *Store) ReadStripe(ctx context.Context, p PartitionID, dst []byte) (blocks.Stripe, []byte, error) {
	f, e, err := s.Files().Topology(p)
	if err != nil {
		return blocks.Stripe{}, nil, err
	}
	b, err := s.readExtent(ctx, f, e, dst)
	if err != nil {
		return blocks.Stripe{}, nil, err
	}
	stripe, err := blocks.OpenStripe(b, f.Header().Partitions)
	if err == nil {
		err = stripe.Check()
	}
	return stripe, b, inExtent(f, e, err)
}

// EdgeReader iterates over an edge list in its order.
type EdgeReader struct {
	s    *Store
	ctx  context.Context
	file *blocks.File
	dim  int
	part int
	rows []uint64
	buf  []byte
	edge Edge
	err  error
}

// Edge is one edge of an edge list, by internal ids.
type Edge struct {
	Src, Dst NodeID
	Relation RelationID // 0 if the list has none
}

// EdgeList opens an edge list for reading from its first edge. It holds one
// extent in memory.
func (s *Store) EdgeList(ctx context.Context, name string) (*EdgeReader, error) {
	l, err := s.manifest.EdgeList(name)
	if err != nil {
		return nil, err
	}
	f, err := s.Files().File(l.File)
	if err != nil {
		return nil, err
	}
	return &EdgeReader{s: s, ctx: ctx, file: f, dim: int(f.Header().Dim)}, nil
}

// Next advances to the next edge; false at the end or on an error, which Err
// returns.
func (r *EdgeReader) Next() bool {
	for len(r.rows) == 0 {
		if r.err != nil || r.part >= len(r.file.Extents()) || !r.fill(r.file.Extents()[r.part]) {
			return false
		}
		r.part++
	}
	row := r.rows[:r.dim]
	r.rows = r.rows[r.dim:]
	r.edge = Edge{Src: NodeID(row[0]), Dst: NodeID(row[r.dim-1])}
	if r.dim == 3 {
		r.edge.Relation = RelationID(row[1])
	}
	n := r.s.manifest.Nodes
	if row[0] >= n || row[r.dim-1] >= n || r.dim == 3 && row[1] >= uint64(len(r.s.manifest.Schema.Relations)) {
		r.err = mismatch(r.file, "edge list", "edge %v in a store of %d nodes and %d relations", row, n, len(r.s.manifest.Schema.Relations))
		return false
	}
	return true
}

func (r *EdgeReader) fill(e blocks.Extent) bool {
	if r.buf, r.err = r.s.readExtent(r.ctx, r.file, e, r.buf); r.err != nil {
		return false
	}
	if r.dim != 2 && r.dim != 3 {
		r.err = mismatch(r.file, "header", "edges of %d numbers, expected 2 or 3", r.dim)
		return false
	}
	r.rows, r.err = blocks.View[uint64](r.buf)
	if r.err == nil && len(r.rows)%r.dim != 0 {
		r.err = mismatch(r.file, headerOf(r.file).ExtentName(e.ID), "%d numbers are no whole number of edges of %d", len(r.rows), r.dim)
	}
	return r.err == nil
}

// Edge returns the current edge.
func (r *EdgeReader) Edge() Edge { return r.edge }

// Err returns what ended the iteration early, if anything did.
func (r *EdgeReader) Err() error { return r.err }

func (s *Store) readExtent(ctx context.Context, f *blocks.File, e blocks.Extent, dst []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return f.ReadExtent(e, dst)
}

// inExtent names file and extent in errors of decoders, which only saw bytes.
func inExtent(f *blocks.File, e blocks.Extent, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", f.Path(), headerOf(f).ExtentName(e.ID), err)
}

func headerOf(f *blocks.File) *blocks.Header {
	h := f.Header()
	return &h
}
