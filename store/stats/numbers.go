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

// Spread is the mean of numbers and their squared distances from it, in one pass (Welford, 1962).
type Spread struct {
	N, Mean, Squares float64
}

// Add counts x.
func (s *Spread) Add(x float64) {
	s.N++
	d := x - s.Mean
	s.Mean += d / s.N
	s.Squares += d * (x - s.Mean)
}

// counted are numbers that are looked at.
type counted struct {
	Spread
	min, max float64
}

func (c *counted) add(x float64) {
	if c.N == 0 {
		c.min, c.max = x, x
	}
	c.min, c.max = min(c.min, x), max(c.max, x)
	c.Add(x)
}

func (c *counted) numbers() Numbers {
	n := Numbers{Nodes: uint64(c.N), Min: c.min, Mean: c.Mean, Max: c.max}
	if c.N > 0 {
		n.Deviation = math.Sqrt(c.Squares / c.N)
	}
	return n
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
	var seen counted
	var of []counted // by value of the split
	if err == nil {
		of = make([]counted, len(store.SplitNames()))
	}
	var labels, splits []byte
	for p := range m.Partitions {
		if labels, err = s.ReadColumn(ctx, c.Name, store.PartitionID(p), labels); err != nil {
			return all, nil, err
		}
		if of != nil {
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
			seen.add(x)
			if of != nil && int(splits[i]) < len(of) {
				of[splits[i]].add(x)
			}
		}
	}
	for k := range of {
		parts = append(parts, of[k].numbers())
	}
	return seen.numbers(), parts, nil
}
