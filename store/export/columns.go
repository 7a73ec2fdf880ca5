package export

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// NodeColumn is a column of nodes to be exported: one of the store's, or any
// other that can be read by partition.
type NodeColumn struct {
	// Name becomes a column's name or part of a file's.
	Name string
	Role store.Role // "" = none of the store's: embeddings, predictions
	Elem blocks.ElemType
	Dim  int
	// Scale holds one factor a dimension for Int8 features.
	Scale []float32
	// Standard is how values were standardised, which is undone; nil = they are as they were given.
	Standard *store.Standard
	Numbers  bool // labels that are codes of numbers
	// Read fills rows with those of partition p's nodes from its first-th on.
	// It is called by one goroutine at a time, in ascending order within a partition.
	Read func(ctx context.Context, p store.PartitionID, first uint64, rows []byte) error
}

// RowBytes is the size of one row.
func (c *NodeColumn) RowBytes() int { return c.Dim * c.Elem.Size() }

// computed reports whether a column is neither data nor a feature, such as a mean by one relation: it is exported by its name alone.
func computed(c *store.ColumnInfo) bool { return c.Derived != "" && c.Role == store.RoleNode }

// columns lists the store's node columns that are asked for, then the extra ones.
func (x *exporter) columns() ([]NodeColumn, error) {
	wanted := map[store.Role]What{store.RoleFeature: Features, store.RoleNode: Features, store.RoleLabel: Labels, store.RoleSplit: Splits}
	var out []NodeColumn
	named := map[string]bool{}
	for i := range x.m.Columns {
		c := &x.m.Columns[i]
		part, ok := wanted[c.Role]
		if !ok || !slices.Contains(x.o.What, part) {
			continue
		}
		if part == Features && x.o.Columns != nil && !slices.Contains(x.o.Columns, c.Name) {
			continue
		}
		if x.o.Columns == nil && computed(c) {
			continue
		}
		named[c.Name] = true
		if sets := x.m.LabelSets(); c.Sets != nil {
			out = append(out, NodeColumn{Name: c.Name, Role: c.Role, Elem: blocks.Int8, Dim: sets.Labels(), Read: setRows(sets, x.storeRows(c))})
			continue
		}
		out = append(out, NodeColumn{Name: c.Name, Role: c.Role, Elem: c.Elem, Dim: c.Dim, Scale: c.Scale, Standard: c.Standard, Numbers: c.Numbers, Read: x.storeRows(c)})
	}
	for _, name := range x.o.Columns {
		if !named[name] {
			return nil, fmt.Errorf("%w: the store has no feature column %q among what is exported", ErrOptions, name)
		}
	}
	for _, c := range x.o.Extra {
		if named[c.Name] {
			return nil, fmt.Errorf("%w: two columns are called %q", ErrOptions, c.Name)
		}
		named[c.Name] = true
		out = append(out, c)
	}
	if slices.Contains(x.o.What, IDs) {
		out = append(out, NodeColumn{Name: "internal_id", Elem: blocks.Int64, Dim: 1, Read: func(_ context.Context, p store.PartitionID, first uint64, rows []byte) error {
			ids, err := blocks.View[uint64](rows)
			for i := range ids {
				ids[i] = uint64(x.m.Partitions[p].First) + first + uint64(i)
			}
			return err
		}})
	}
	return out, nil
}

// setRows reads labels of which a node has several: a 0 or 1 for each of them, −1 where it is not known which a node has.
func setRows(sets *store.LabelSets, read func(context.Context, store.PartitionID, uint64, []byte) error) func(context.Context, store.PartitionID, uint64, []byte) error {
	var numbers []int32
	return func(ctx context.Context, p store.PartitionID, first uint64, rows []byte) error {
		k := sets.Labels()
		numbers = slices.Grow(numbers[:0], len(rows)/k)[:len(rows)/k]
		if err := read(ctx, p, first, blocks.Bytes(numbers)); err != nil {
			return err
		}
		for i, set := range numbers {
			for j := range k {
				x := int8(-1)
				if set >= 0 {
					if x = 0; sets.Has(set, j) {
						x = 1
					}
				}
				rows[i*k+j] = byte(x)
			}
		}
		return nil
	}
}

// storeRows reads a column of the store, through checked chunks.
func (x *exporter) storeRows(c *store.ColumnInfo) func(context.Context, store.PartitionID, uint64, []byte) error {
	row := int64(c.RowBytes())
	return func(ctx context.Context, p store.PartitionID, first uint64, rows []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, e, stored, err := x.s.Files().NodeRows(c.Name, p)
		if err != nil {
			return err
		}
		stored.Fill(rows, first)
		lo, hi := stored.Overlap(first, first+uint64(int64(len(rows))/row))
		if lo == hi {
			return nil
		}
		rows = rows[int64(stored.First+lo-first)*row:][:int64(hi-lo)*row]
		const step = 4 << 20
		for at := 0; at < len(rows); at += step {
			part := rows[at:min(at+step, len(rows))]
			from := int64(lo)*row + int64(at)
			b, err := f.ReadRangeInto(e, from, from+int64(len(part)), x.scratch)
			if err != nil {
				return err
			}
			copy(part, b)
		}
		return nil
	}
}

// Table is the column of a table's embeddings, at its last checkpoint. The table stays
// the caller's, open until the export is done, and unwritten, or the export is [table.ErrOvertaken]. All of it is
// verified first: rows are then read where they are wanted.
func Table(ctx context.Context, t *table.Table, name string) (NodeColumn, error) {
	largest := int64(0)
	for p := range t.Partitions() {
		largest = max(largest, t.PlaneBytes(store.PartitionID(p)))
	}
	if largest > 0 {
		slab, err := blockio.AllocSlab(largest, blockio.SlabOptions{Lazy: true})
		if err != nil {
			return NodeColumn{}, err
		}
		defer func() { _ = slab.Free() }()
		if err := t.Verify(ctx, slab.Bytes()); err != nil {
			return NodeColumn{}, err
		}
	}
	read := func(ctx context.Context, p store.PartitionID, first uint64, rows []byte) error {
		if err := t.ReadRows(ctx, p, first, rows); err != nil {
			return err
		}
		return t.Standing(ctx)
	}
	return NodeColumn{Name: name, Elem: blocks.Float32, Dim: t.Dim(), Read: read}, nil
}

// output is the type in which a column is written: what other programs know.
// Class ids become 64-bit, scaled, standardised half and 16-bit brain floats 32-bit numbers.
func (c *NodeColumn) output(half bool) blocks.ElemType {
	switch {
	case c.Numbers:
		return blocks.Float32
	case c.Role == store.RoleLabel && c.Elem == blocks.Int32:
		return blocks.Int64
	case c.Elem == blocks.BFloat16, c.Elem == blocks.Int8 && c.Scale != nil, c.Elem == blocks.Float16 && (!half || c.Standard != nil):
		return blocks.Float32
	}
	return c.Elem
}

// converter turns a column's rows into its output type.
type converter struct {
	c   *NodeColumn
	to  blocks.ElemType
	buf []byte
}

// rows returns in, or its conversion, which is valid until the next call.
func (k *converter) rows(in []byte) []byte {
	from := k.c.Elem
	if k.to == from && k.c.Standard == nil {
		return in
	}
	n, size := len(in)/from.Size(), from.Size()
	k.buf = slices.Grow(k.buf[:0], n*k.to.Size())[:n*k.to.Size()]
	for i := range n {
		v := from.Float64(in[i*size:])
		if k.c.Numbers {
			v = float64(blocks.CodedNumber(int32(v)))
		}
		if k.to == blocks.Int64 {
			binary.LittleEndian.PutUint64(k.buf[8*i:], uint64(int64(v)))
			continue
		}
		if k.c.Scale != nil {
			v *= float64(k.c.Scale[i%k.c.Dim])
		}
		if s := k.c.Standard; s != nil {
			v = v*s.Deviation[i%k.c.Dim] + s.Mean[i%k.c.Dim]
		}
		if k.to == blocks.Float64 {
			binary.LittleEndian.PutUint64(k.buf[8*i:], math.Float64bits(v))
			continue
		}
		binary.LittleEndian.PutUint32(k.buf[4*i:], math.Float32bits(float32(v)))
	}
	return k.buf
}
