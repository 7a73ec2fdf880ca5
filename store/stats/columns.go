package stats

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// Classes counts the labels of a store, by class; where a node may have several it counts for each of them.
type Classes struct {
	Names []string `json:"names,omitempty"` // nil = classes have none
	Nodes []uint64 `json:"nodes"`
	// Splits are the nodes of each class that the store's first split has, by split value; nil = there is no split.
	Splits    [][]uint64 `json:"splits,omitempty"`
	Unlabeled uint64     `json:"unlabeled"`
	// Several says that a node may have several labels, and Labelled how many nodes have any number of them, none too.
	Several  bool   `json:"several,omitempty"`
	Labelled uint64 `json:"labelled,omitempty"`
}

// Feature says what values a feature column has, or one named element of it. Values are those given to ingest: scales and
// standardisation are undone.
type Feature struct {
	Column  string  `json:"column"`
	Element string  `json:"element,omitempty"` // "" = all of them
	Min     float64 `json:"min"`
	Mean    float64 `json:"mean"`
	Max     float64 `json:"max"`
	Count   uint64  `json:"count"` // values
}

// Columns is what a store's labels and features hold.
type Columns struct {
	Classes *Classes `json:"classes,omitempty"` // nil = there are no labels, or they are numbers
	// Numbers are labels that are numbers, all of them, and SplitNumbers those of each value of the first split; nil = there are none.
	Numbers      *Numbers  `json:"numbers,omitempty"`
	SplitNumbers []Numbers `json:"split_numbers,omitempty"`
	Features     []Feature `json:"features"`
}

// columnBytes of a column are read at a time.
const columnBytes = 4 << 20

// ColumnsOf reads the store's labels, its first split and its features once, a few MiB at a time.
func ColumnsOf(ctx context.Context, s *store.Store) (*Columns, error) {
	out := &Columns{Features: []Feature{}}
	m := s.Manifest()
	var err error
	switch labels := m.Labels(); {
	case labels == nil:
	case labels.Numbers:
		out.Numbers = &Numbers{}
		*out.Numbers, out.SplitNumbers, err = NumbersOf(ctx, s, "")
	default:
		out.Classes, err = classesOf(ctx, s, labels)
	}
	if err != nil {
		return nil, err
	}
	for _, c := range m.ColumnsOf(store.RoleFeature) {
		fs, err := featureOf(ctx, s, c)
		if err != nil {
			return nil, err
		}
		out.Features = append(out.Features, fs...)
	}
	return out, nil
}

// ClassesOf reads the labels, and the first split, of a store whose labels are classes; nil of others.
func ClassesOf(ctx context.Context, s *store.Store) (*Classes, error) {
	labels := s.Manifest().Labels()
	if labels == nil || labels.Numbers {
		return nil, nil
	}
	return classesOf(ctx, s, labels)
}

// ColumnsBytes is what ColumnsOf reads.
func ColumnsBytes(m *store.Manifest) (n int64) {
	for i := range m.Columns {
		c := &m.Columns[i]
		if c.Role == store.RoleLabel || c.Role == store.RoleSplit || c.Role == store.RoleFeature {
			for p := range m.Partitions {
				rows := m.NodeRows(c, store.PartitionID(p))
				n += int64(rows.Rows) * int64(c.RowBytes())
			}
		}
	}
	return n
}

// eachRows calls fn with the stored rows of partition p's nodes from first on, checked, some at a time; they are valid during the call.
func eachRows(ctx context.Context, s *store.Store, c *store.ColumnInfo, fn func(p store.PartitionID, first uint64, rows []byte) error) error {
	row := int64(c.RowBytes())
	step := max(1, columnBytes/row) * row
	scratch := make([]byte, blocks.RangeBytes(step))
	for p := range s.Manifest().Partitions {
		f, e, stored, err := s.Files().NodeRows(c.Name, store.PartitionID(p))
		if err != nil {
			return err
		}
		for at := int64(0); at < e.Length; at += step {
			if err := ctx.Err(); err != nil {
				return err
			}
			b, err := f.ReadRangeInto(e, at, min(at+step, e.Length), scratch)
			if err != nil {
				return err
			}
			if err := fn(store.PartitionID(p), stored.First+uint64(at/row), b); err != nil {
				return err
			}
		}
	}
	return nil
}

// classesOf counts the classes of label column c.
func classesOf(ctx context.Context, s *store.Store, c *store.ColumnInfo) (*Classes, error) {
	m := s.Manifest()
	out := &Classes{Names: m.Schema.ClassNames, Nodes: make([]uint64, m.Schema.Classes)}
	for p := range m.Partitions {
		rows := m.NodeRows(c, store.PartitionID(p))
		out.Unlabeled += rows.Nodes - rows.Rows // of types without labels
	}
	split, err := m.SplitColumn("")
	if err != nil {
		split = nil // there is none
	} else {
		for range store.SplitNames() {
			out.Splits = append(out.Splits, make([]uint64, m.Schema.Classes))
		}
	}
	if c.Elem != blocks.Int32 || c.Dim != 1 || split != nil && (split.Elem != blocks.Uint8 || split.Dim != 1) {
		return nil, fmt.Errorf("%w: labels of %d × %v, expected 1 × int32, and splits of 1 × uint8", store.ErrInvalid, c.Dim, c.Elem)
	}
	var parts []byte
	partOf := store.PartitionID(math.MaxUint32)
	sets, of := m.LabelSets(), []int(nil)
	out.Several = sets != nil
	err = eachRows(ctx, s, c, func(p store.PartitionID, first uint64, rows []byte) error {
		if split != nil && p != partOf { // a byte a node
			var err error
			if parts, err = s.ReadColumn(ctx, split.Name, p, parts); err != nil {
				return err
			}
			partOf = p
		}
		labels, err := blocks.View[int32](rows)
		if err != nil {
			return err
		}
		for i, l := range labels {
			switch {
			case l < 0:
				out.Unlabeled++
			case int(l) >= m.LabelValues():
				return fmt.Errorf("%w: node %d of partition %d has label %d of %d classes", store.ErrInvalid, first+uint64(i), p, l, m.LabelValues())
			default:
				if of = of[:0]; sets != nil {
					of = sets.Of(l, of)
					out.Labelled++
				} else {
					of = append(of, int(l))
				}
				for _, class := range of {
					out.Nodes[class]++
					if at := first + uint64(i); split != nil && at < uint64(len(parts)) && int(parts[at]) < len(out.Splits) {
						out.Splits[parts[at]][class]++
					}
				}
			}
		}
		return nil
	})
	return out, err
}

// featureOf reads a feature column: a result for each of its elements where they have names, else one.
func featureOf(ctx context.Context, s *store.Store, c *store.ColumnInfo) ([]Feature, error) {
	lines := max(1, len(c.Elements))
	out, sums := make([]Feature, lines), make([]float64, c.Dim)
	for k := range out {
		out[k] = Feature{Column: c.Name, Min: math.Inf(1), Max: math.Inf(-1)}
		if len(c.Elements) > 0 {
			out[k].Element = c.Elements[k]
		}
	}
	low, high, rows := make([]float64, c.Dim), make([]float64, c.Dim), uint64(0)
	for d := range c.Dim {
		low[d], high[d] = math.Inf(1), math.Inf(-1)
	}
	size := c.Elem.Size()
	err := eachRows(ctx, s, c, func(_ store.PartitionID, _ uint64, b []byte) error {
		d := 0
		for i := 0; i < len(b); i += size {
			x := c.Elem.Float64(b[i:])
			low[d], high[d] = min(low[d], x), max(high[d], x)
			sums[d] += x
			if d++; d == c.Dim {
				d = 0
				rows++
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if rows == 0 {
		return nil, nil
	}
	for d := range c.Dim {
		f := &out[min(d, lines-1)]
		f.Min, f.Max = min(f.Min, given(c, d, low[d])), max(f.Max, given(c, d, high[d]))
		// The mean of elements' means: they have as many values each.
		f.Mean += given(c, d, sums[d]/float64(rows)) / float64(c.Dim/lines)
		f.Count += rows
	}
	return out, nil
}

// given is the value that ingest was given for stored element d of a row of c.
func given(c *store.ColumnInfo, d int, x float64) float64 {
	if c.Scale != nil {
		x *= float64(c.Scale[d])
	}
	if c.Standard != nil {
		x = x*c.Standard.Deviation[d] + c.Standard.Mean[d]
	}
	return x
}
