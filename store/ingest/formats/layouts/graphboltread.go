package layouts

import (
	"context"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// joinIDs streams lists one after another.
func joinIDs(lists []parts.IDs) parts.IDs {
	return func(ctx context.Context, env ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		for _, f := range lists {
			if err := f(ctx, env, emit); err != nil {
				return err
			}
		}
		return nil
	}
}

// labelSet is a list of nodes with their labels.
type labelSet struct {
	seeds, labels *numpy.Array
	first         uint64 // source id of the type's node 0
	count         int64
}

// boltLabels makes a column of all nodes from labels that stand beside lists of
// nodes in any order.
type boltLabels struct {
	nodes int64
	sets  []labelSet
}

// Rows streams the column. Memory is bounded by a window of nodes, as many as a
// quarter of the budget holds; the lists are read once for each window (of the
// 32 MiB that ingest gives its sources: for each million nodes).
func (l *boltLabels) rows(ctx context.Context, env ingest.Env, emit func([]byte, ingest.Position) error) error {
	size := min(max(env.MemoryBytes/4/8, 1<<10), l.nodes)
	window := make([]float64, size)
	for lo := int64(0); lo < l.nodes; lo += size {
		n := min(size, l.nodes-lo)
		for i := range window {
			window[i] = math.NaN() // none
		}
		for k := range l.sets {
			if err := l.sets[k].fill(ctx, uint64(lo), window[:n]); err != nil {
				return err
			}
		}
		at := ingest.Position{File: l.sets[0].labels.Path + " and other labels", Unit: "node", Index: uint64(lo)}
		if err := emit(blocks.Bytes(window[:n]), at); err != nil {
			return err
		}
	}
	return nil
}

// fill sets the labels of the nodes lo ≤ id < lo + len(window).
func (s *labelSet) fill(ctx context.Context, lo uint64, window []float64) error {
	seeds, err := numpy.OpenNumbers(s.seeds)
	if err != nil {
		return err
	}
	defer func() { _ = seeds.Close() }()
	labels, err := numpy.OpenNumbers(s.labels)
	if err != nil {
		return err
	}
	defer func() { _ = labels.Close() }()
	for k := range s.seeds.Rows() {
		if k&0xffff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		id, err := seeds.Integer()
		if err != nil {
			return err
		}
		if id >= uint64(s.count) {
			return ingest.Inputf(s.seeds.Path, "row %d: node %d, expected 0 ≤ id < %d", k, int64(id), s.count)
		}
		y, err := labels.Label()
		if err != nil {
			return err
		}
		if at := id + s.first - lo; id+s.first >= lo && at < uint64(len(window)) {
			window[at] = y
		}
	}
	return nil
}
