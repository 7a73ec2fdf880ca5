package store

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
)

// NodeRows says which of a partition's rows the extent of a node column holds. A column of one node type may have the rows of that
// type alone ([ColumnInfo.Runs]), which follow each other in every partition ([PartitionInfo.Types]); the rows of the other types
// are the same for all: 0, and of labels −1.
type NodeRows struct {
	First, Rows uint64 // the extent holds rows First ≤ row < First+Rows of the partition
	Nodes       uint64 // of the partition: its rows, stored or not

	rowBytes int
	blank    byte     // every byte of a row that is not stored
	types    []uint32 // of a column that follows from types: rows of each
}

// NodeRows says which of partition p's rows of node column c are stored.
func (m *Manifest) NodeRows(c *ColumnInfo, p PartitionID) NodeRows {
	part := &m.Partitions[p]
	r := NodeRows{Rows: part.Nodes, Nodes: part.Nodes, rowBytes: c.RowBytes()}
	if c.Role == RoleLabel {
		r.blank = 0xff // of −1
	}
	switch {
	case c.followsTypes():
		r.Rows, r.types = 0, part.Types
	case c.Runs && part.Types != nil:
		r.First, r.Rows = part.typeRows(m.Schema.nodeType(c.NodeType))
	}
	return r
}

// followsTypes reports whether a column has no file: of every node the number of its type, 0 where that is not known.
func (c *ColumnInfo) followsTypes() bool { return c.Runs && c.Name == TypeColumn && c.NodeType == "" }

// TypeOf is the number of the node type of a row of partition p; false where that is not known.
func (m *Manifest) TypeOf(p PartitionID, row uint64) (t int, ok bool) {
	for t, n := range m.Partitions[p].Types {
		if row < uint64(n) {
			return t, true
		}
		row -= uint64(n)
	}
	return 0, false
}

// typeRows returns where the rows of a node type lie among the partition's.
func (p *PartitionInfo) typeRows(t int) (first, rows uint64) {
	for _, n := range p.Types[:t] {
		first += uint64(n)
	}
	return first, uint64(p.Types[t])
}

// nodeType is the number of the node type of that name, −1 if there is none.
func (s *Schema) nodeType(name string) int {
	return slices.IndexFunc(s.NodeTypes, func(t NodeType) bool { return t.Name == name })
}

// Stored reports whether the extent holds a row of the partition.
func (r *NodeRows) Stored(row uint64) bool { return row-r.First < r.Rows }

// Whole reports whether the extent holds all of the partition's rows.
func (r *NodeRows) Whole() bool { return r.Rows == r.Nodes }

// Fill writes the rows that are not stored into dst, which holds rows of the partition from row first on. Those that are stored
// stay as they are.
func (r *NodeRows) Fill(dst []byte, first uint64) {
	at := func(row uint64) int { return int(min(max(row, first)-first, uint64(len(dst)/r.rowBytes))) * r.rowBytes }
	for _, b := range [][]byte{dst[:at(r.First)], dst[at(r.First+r.Rows):]} {
		if r.blank == 0 {
			clear(b)
			continue
		}
		for i := range b {
			b[i] = r.blank
		}
	}
	begin := uint64(0)
	for t, n := range r.types {
		for b := dst[at(begin):at(begin+uint64(n))]; len(b) > 0; b = b[r.rowBytes:] {
			binary.LittleEndian.PutUint32(b, uint32(t+1))
		}
		begin += uint64(n)
	}
}

// Overlap returns which of the rows from first to end, behind the last, are stored, as rows of the extent.
func (r *NodeRows) Overlap(first, end uint64) (lo, hi uint64) {
	lo = min(max(first, r.First)-r.First, r.Rows)
	return lo, max(lo, min(max(end, r.First)-r.First, r.Rows))
}

// needsRuns reports whether a column's extents hold the rows of one type alone, or codes: what builds that read format 1 alone would misread.
func (m *Manifest) needsRuns() bool {
	return slices.ContainsFunc(m.Columns, func(c ColumnInfo) bool { return c.Runs || c.Values != nil })
}

// validateTypes checks what the manifest says of the types of nodes in partitions and of columns of one type.
func (m *Manifest) validateTypes() error {
	types, known := m.Schema.NodeTypes, true
	counts := make([]uint64, len(types))
	for j, p := range m.Partitions {
		if p.Types == nil {
			known = false
			continue
		}
		total := uint64(0)
		if len(p.Types) == len(types) {
			for t, n := range p.Types {
				total += uint64(n)
				counts[t] += uint64(n)
			}
		}
		if len(p.Types) != len(types) || total != p.Nodes {
			return fmt.Errorf("%w: partition %d has %d nodes by type %v, expected %d of %d types", ErrInvalid, j, total, p.Types, p.Nodes, len(types))
		}
	}
	for t, n := range counts {
		if n > types[t].Count || known && n != types[t].Count {
			return fmt.Errorf("%w: partitions have %d nodes of type %s, the schema says %d", ErrInvalid, n, types[t].Name, types[t].Count)
		}
	}
	for i := range m.Columns {
		c := &m.Columns[i]
		if c.followsTypes() && (c.Role != RoleNode || c.Elem != blocks.Uint32 || c.Dim != 1 || len(c.Files) > 0) {
			return fmt.Errorf("%w: column %q of role %s is %d × %v in files %v, expected role %s, 1 × %v, of no file", ErrInvalid, c.Name, c.Role, c.Dim, c.Elem, c.Files, RoleNode, blocks.Uint32)
		}
		if c.Runs && !c.followsTypes() && (c.Role.OnEdges() || m.Schema.nodeType(c.NodeType) < 0) {
			return fmt.Errorf("%w: column %q of role %s has rows of node type %q alone, which the schema lacks", ErrInvalid, c.Name, c.Role, c.NodeType)
		}
	}
	return nil
}

// NodeRows returns where partition p's part of a node column lies, and which of its rows. A column that follows from the types of
// nodes lies in no file: then it is nil, and no row is stored.
func (f *Files) NodeRows(name string, p PartitionID) (*blocks.File, blocks.Extent, NodeRows, error) {
	file, e, err := f.Column(name, p)
	if err != nil {
		return nil, blocks.Extent{}, NodeRows{}, err
	}
	c, err := f.s.manifest.Column(name)
	if err == nil && c.Role.OnEdges() {
		err = fmt.Errorf("%w: column %q lies on edges, expected one of nodes", ErrInvalid, name)
	}
	if err != nil {
		return nil, blocks.Extent{}, NodeRows{}, err
	}
	return file, e, f.s.manifest.NodeRows(c, p), nil
}
