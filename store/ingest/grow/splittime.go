package grow

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/source"
)

// TimeSplit divides the labelled nodes by a number that they have, such as a year: the smallest train, the largest are tested. Nodes of one
// number are in one part, so that shares are kept as nearly as that allows, with some nodes that train and some that are tested.
type TimeSplit struct {
	Column             string  // of a node column, or of an element of one, as tables called it
	Train, Valid, Test float64 // shares; their sum is 1
}

// ParseTimeSplit reads "year" or "year:70/10/20": a column and percentages, 60/20/20 by default.
func ParseTimeSplit(s string) (*TimeSplit, error) {
	column, shares, given := strings.Cut(s, ":")
	if !given {
		shares = "60/20/20"
	}
	r, err := ingest.ParseRandomSplit(shares)
	if err != nil || strings.Contains(shares, ":") || column == "" || r.Train == 1 {
		return nil, fmt.Errorf("%w: split by time %q, expected a column and percentages of TRAIN/VALID/TEST that add up to 100, as year or year:70/10/20", source.ErrOptions, s)
	}
	return &TimeSplit{Column: column, Train: r.Train, Valid: r.Valid, Test: r.Test}, nil
}

// timed is a number of nodes.
type timed struct {
	column  *store.ColumnInfo
	element int
}

// find finds the column.
func (t *TimeSplit) find(m *store.Manifest) (timed, error) {
	var found []timed
	var names []string
	for i := range m.Columns {
		c := &m.Columns[i]
		if c.Role != store.RoleFeature && c.Role != store.RoleNode || c.Derived != "" || c.Name == store.TypeColumn || strings.HasSuffix(c.Name, source.MaskSuffix) {
			continue
		}
		elements := c.Elements
		if elements == nil && c.Dim == 1 {
			elements = []string{strings.TrimPrefix(c.Name, c.NodeType+".")}
		}
		for k, e := range elements {
			names = append(names, e)
			if t.Column == e || t.Column == c.NodeType+"."+e || t.Column == c.Name && c.Dim == 1 {
				found = append(found, timed{c, k})
			}
		}
	}
	switch {
	case len(found) == 0:
		return timed{}, fmt.Errorf("%w: the store's nodes have no column %q of one number; there are %q", source.ErrOptions, t.Column, names)
	case len(found) > 1:
		return timed{}, fmt.Errorf("%w: nodes of several types have a column %q: say TYPE.%s, such as %s.%s", source.ErrOptions, t.Column, t.Column, found[0].column.NodeType, t.Column)
	}
	return found[0], nil
}

// number decodes an element of a stored row, as it was before it was standardised.
func (t timed) number(row []byte) float64 {
	x := t.column.Elem.Float64(row[t.element*t.column.Elem.Size():])
	if t.column.Scale != nil {
		x *= float64(t.column.Scale[t.element])
	}
	if s := t.column.Standard; s != nil {
		x = x*s.Deviation[t.element] + s.Mean[t.element]
	}
	return x
}

// byTime makes the parts of all nodes that are labelled, or were in a part.
func (l *relabeller) byTime(ctx context.Context, split string) (*rowsGiven, error) {
	of := l.of.Time
	t, err := of.find(l.m)
	if err != nil {
		return nil, err
	}
	labelled, parted, err := l.labelled(ctx, split)
	if err != nil {
		return nil, err
	}
	times, err := l.times(ctx, t, labelled)
	if err != nil {
		return nil, err
	}
	sorted := slices.Sorted(slices.Values(times))
	if len(sorted) == 0 || sorted[0] == sorted[len(sorted)-1] {
		return nil, source.Inputf(l.w.Dir(), "all %d labelled nodes have one number in %s: none comes later", len(sorted), of.Column)
	}
	// The first number of each part but the first.
	valid := max(sorted[share(of.Train, len(sorted))], next(sorted, sorted[0]))
	test := max(sorted[share(of.Train+of.Valid, len(sorted))], valid)
	g, counts := &rowsGiven{size: 1}, [store.SplitTest + 1]int{}
	for i, node := range labelled {
		part := store.SplitTest
		switch x := times[i]; {
		case x < valid:
			part = store.SplitTrain
		case x < test:
			part = store.SplitValid
		}
		counts[part]++
		g.ids, g.rows = append(g.ids, uint64(node)), append(g.rows, part)
	}
	for _, node := range parted {
		g.ids, g.rows = append(g.ids, uint64(node)), append(g.rows, store.SplitNone)
	}
	l.note = strings.TrimLeft(l.note+"\n", "\n") + fmt.Sprintf("by %s %d nodes below %.6g train, %d below %.6g validate, %d from there on are tested", of.Column,
		counts[store.SplitTrain], valid, counts[store.SplitValid], test, counts[store.SplitTest])
	return g, g.sort(l.w.Dir())
}

// share is the place among n of the first that is not in a share of them, at most the last one's.
func share(x float64, n int) int { return min(int(math.Ceil(x*float64(n)-1e-9)), n-1) }

// next is the first of sorted numbers above x.
func next(sorted []float64, x float64) float64 {
	k, _ := slices.BinarySearchFunc(sorted, x, func(a, b float64) int {
		if a <= b {
			return -1
		}
		return 1
	})
	return sorted[k]
}

// labelled are the nodes with a label, and those without one that are in a part of the split.
func (l *relabeller) labelled(ctx context.Context, split string) (labelled, parted []store.NodeID, err error) {
	old := l.base.Manifest().Labels()
	_, none := l.base.Manifest().Column(split)
	var labels, parts []byte
	for p, info := range l.m.Partitions {
		if old != nil {
			if labels, err = l.base.ReadColumn(ctx, old.Name, store.PartitionID(p), labels); err != nil {
				return nil, nil, err
			}
		}
		if none == nil {
			if parts, err = l.base.ReadColumn(ctx, split, store.PartitionID(p), parts); err != nil {
				return nil, nil, err
			}
		}
		for k := range info.Nodes {
			node := info.First + store.NodeID(k)
			switch {
			case l.label.row(uint64(node)) != nil, old != nil && int32(binary.LittleEndian.Uint32(labels[4*k:])) != -1:
				labelled = append(labelled, node)
			case none == nil && parts[k] != store.SplitNone:
				parted = append(parted, node)
			}
		}
	}
	return labelled, parted, nil
}

// times reads the numbers of nodes.
func (l *relabeller) times(ctx context.Context, t timed, nodes []store.NodeID) (times []float64, err error) {
	size := t.column.RowBytes()
	var buf []byte
	for some := range slices.Chunk(nodes, max(rowsBytes/size, 1)) {
		if buf, err = l.base.Features(ctx, t.column.Name, some, buf); err != nil {
			return nil, err
		}
		for k, node := range some {
			x := t.number(buf[k*size : (k+1)*size])
			if math.IsNaN(x) {
				return nil, fmt.Errorf("%w: node %d has no number in %s", blocks.ErrCorrupt, node, t.column.Name)
			}
			times = append(times, x)
		}
	}
	return times, nil
}
