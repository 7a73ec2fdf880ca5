package grow

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/source"
)

// mergedLabels are the labels of all nodes of a store as a source has them: those that tables give, and others as they were. It is the
// source of the columns that are written, whose ids are the store's internal ones.
type mergedLabels struct {
	source.Source
	l        *relabeller
	spec     source.ColumnSpec
	names    []string // of classes, or texts of sets, that rows count; the store's own sets are counted behind them
	remap    []int    // of those of the tables, by number
	kind     ingest.Labels
	nodeType string
	sets     *store.LabelSets // the store's
	numbers  bool
	parts    *rowsGiven            // of the split in hand
	number   []source.NumberColumn // behind the labels
}

// merge works out how rows of the tables and labels of the store are told as rows of one source.
func (l *relabeller) merge(old *store.ColumnInfo) (*mergedLabels, error) {
	x := l.merged
	if x == nil {
		x = &mergedLabels{spec: source.ColumnSpec{Name: "label", Role: store.RoleLabel, Elem: blocks.Float64, Dim: 1}}
	}
	x.l, x.kind = l, l.of.Labels
	x.nodeType = x.spec.NodeType
	if x.spec.Elem != blocks.Float64 {
		return nil, fmt.Errorf("%w: labels of %v, expected %v, as tables have them", store.ErrInvalid, x.spec.Elem, blocks.Float64)
	}
	x.spec = source.ColumnSpec{Name: x.spec.Name, Role: store.RoleLabel, Elem: x.spec.Elem, Dim: x.spec.Dim, Rows: int64(l.m.Nodes), Elements: x.spec.Elements}
	var given []string
	if l.desc != nil && l.label != nil {
		given = l.desc.ClassNames
	}
	x.names = given
	if old == nil {
		return x, nil
	}
	x.spec.Name, x.sets, x.numbers = old.Name, l.m.LabelSets(), old.Numbers
	known := l.m.Schema.ClassNames
	switch {
	case old.Numbers && given != nil:
		return nil, source.Inputf(l.desc.Input, "labels are text such as %.40q, those of the store are numbers", given[0])
	case old.Numbers:
		x.kind = ingest.LabelsNumbers
	case x.sets != nil && x.spec.Dim > 1:
		if x.kind = ingest.LabelsMulti; known != nil && x.spec.Elements != nil && !slices.Equal(known, x.spec.Elements) {
			return nil, source.Inputf(l.desc.Input, "labels in columns %q, the store's are %q: name them in this order", x.spec.Elements, known)
		}
	case x.sets != nil:
		x.kind = ingest.LabelsMulti
	case given != nil && known == nil && l.m.Schema.Classes > 0:
		return nil, source.Inputf(l.desc.Input, "labels are text such as %.40q, those of the store are numbers without names", given[0])
	default:
		x.kind, x.names = ingest.LabelsClasses, slices.Clone(known)
		at := make(map[string]int, len(known))
		for k, n := range known {
			at[n] = k
		}
		for _, n := range given {
			k, ok := at[n]
			if !ok {
				k = len(x.names)
				at[n], x.names = k, append(x.names, n)
			}
			x.remap = append(x.remap, k)
		}
	}
	return x, nil
}

// put writes a number to row.
func put(row []byte, v float64) { binary.LittleEndian.PutUint64(row, math.Float64bits(v)) }

// old writes to row what the store's label says.
func (x *mergedLabels) old(row []byte, label int32) {
	for j := range x.spec.Dim {
		v := math.NaN()
		switch {
		case label < 0:
		case x.numbers:
			v = float64(blocks.CodedNumber(label))
		case x.sets != nil && x.spec.Dim > 1:
			if v = 0; x.sets.Has(label, j) {
				v = 1
			}
		case x.sets != nil:
			v = float64(len(x.names) + int(label))
		default:
			v = float64(label)
		}
		put(row[8*j:], v)
	}
}

// same reports whether a row of the tables says what the store's label does.
func (x *mergedLabels) same(given []byte, label int32) bool {
	if x.sets != nil && x.spec.Dim == 1 {
		return x.l.edges.SetOfText(int(blocks.Float64.Float64(given))) == label
	}
	row := make([]byte, x.spec.RowBytes())
	x.old(row, label)
	return slices.Equal(x.given(nil, given), row)
}

// given appends a row of the tables to out, with the merged numbers of classes.
func (x *mergedLabels) given(out, row []byte) []byte {
	out = append(out, row...)
	if x.remap != nil {
		if v := blocks.Float64.Float64(row); v >= 0 && int(v) < len(x.remap) {
			put(out[len(out)-len(row):], float64(x.remap[int(v)]))
		}
	}
	return out
}

// Rows implements [source.Source].
func (x *mergedLabels) Rows(ctx context.Context, _ source.Env, c int, emit func([]byte, source.Position) error) error {
	if c > 0 {
		return x.number[c-1].Rows(ctx, emit)
	}
	const step = 1 << 14
	l, size := x.l, x.spec.RowBytes()
	old := l.base.Manifest().Labels()
	var labels, out []byte
	row := make([]byte, size)
	for p, info := range l.m.Partitions {
		if old != nil {
			var err error
			if labels, err = l.base.ReadColumn(ctx, old.Name, store.PartitionID(p), labels); err != nil {
				return err
			}
		}
		for lo := uint64(0); lo < info.Nodes; lo += step {
			out = out[:0]
			for k := lo; k < min(lo+step, info.Nodes); k++ {
				node := uint64(info.First) + k
				if given := l.label.row(node); given != nil {
					out = x.given(out, given)
					continue
				}
				was := int32(-1)
				if old != nil {
					was = int32(binary.LittleEndian.Uint32(labels[4*k:]))
				}
				x.old(row, was)
				out = append(out, row...)
			}
			if err := emit(out, source.Position{File: "labels", Unit: "node", Index: uint64(info.First) + lo}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Split implements [source.Source]: the nodes of a part, by what the tables say or, of other nodes, as it was.
func (x *mergedLabels) Split(ctx context.Context, _ source.Env, s int, part uint8, emit func(*source.IDs, source.Position) error) error {
	l := x.l
	name := l.edges.Desc.Splits[s]
	_, err := l.base.Manifest().Column(name)
	known := err == nil
	var old []byte
	var ids source.IDs
	for p, info := range l.m.Partitions {
		if known {
			if old, err = l.base.ReadColumn(ctx, name, store.PartitionID(p), old); err != nil {
				return err
			}
		}
		ids.Reset()
		for k := range info.Nodes {
			is := store.SplitNone
			if known {
				is = old[k]
			}
			if given := x.parts.row(uint64(info.First) + k); given != nil {
				is = given[0]
			}
			if is == part {
				ids.Ints = append(ids.Ints, uint64(info.First)+k)
			}
		}
		if err := emit(&ids, source.Position{File: "splits", Unit: "node", Index: uint64(info.First)}); err != nil {
			return err
		}
	}
	return nil
}

// Describe implements [source.Source].
func (x *mergedLabels) Describe() *source.Description { return x.l.edges.Desc }
