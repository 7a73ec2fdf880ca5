package stats

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// Numbers is what labels that are numbers are like.
type Numbers struct {
	Nodes     uint64  `json:"nodes"` // that have one
	Min       float64 `json:"min"`
	Mean      float64 `json:"mean"`
	Max       float64 `json:"max"`
	Deviation float64 `json:"deviation"` // the root of the mean squared distance from the mean
}

// add counts x: Welford (1962), Note on a method for calculating corrected sums of squares and products. Deviation is the sum of
// squares until end.
func (n *Numbers) add(x float64) {
	if n.Nodes++; n.Nodes == 1 {
		n.Min, n.Max = x, x
	}
	n.Min, n.Max = min(n.Min, x), max(n.Max, x)
	d := x - n.Mean
	n.Mean += d / float64(n.Nodes)
	n.Deviation += d * (x - n.Mean)
}

func (n *Numbers) end() {
	if n.Nodes > 0 {
		n.Deviation = math.Sqrt(n.Deviation / float64(n.Nodes))
	}
}

// NumbersOf reads the store's labels, which are numbers, and a split column ("" = the first), 5 bytes a node. It returns what all labels
// are like, and those of each value of the split, which is nil where there is no split.
func NumbersOf(ctx context.Context, s *store.Store, split string) (all Numbers, parts []Numbers, err error) {
	m := s.Manifest()
	c := m.Labels()
	if c == nil || !c.Numbers || c.Elem != blocks.Int32 || c.Dim != 1 {
		return all, nil, fmt.Errorf("%w: a column of labels that are numbers", store.ErrNotFound)
	}
	by, err := m.SplitColumn(split)
	if err != nil && split != "" {
		return all, nil, err
	}
	if err == nil {
		parts = make([]Numbers, len(store.SplitNames()))
	}
	var labels, splits []byte
	for p := range m.Partitions {
		if labels, err = s.ReadColumn(ctx, c.Name, store.PartitionID(p), labels); err != nil {
			return all, nil, err
		}
		if parts != nil {
			if splits, err = s.ReadColumn(ctx, by.Name, store.PartitionID(p), splits); err != nil {
				return all, nil, err
			}
		}
		codes, err := blocks.View[int32](labels)
		if err != nil {
			return all, nil, err
		}
		for i, code := range codes {
			if code < 0 {
				continue
			}
			x := float64(blocks.CodedNumber(code))
			all.add(x)
			if parts != nil && int(splits[i]) < len(parts) {
				parts[splits[i]].add(x)
			}
		}
	}
	all.end()
	for k := range parts {
		parts[k].end()
	}
	return all, parts, nil
}
