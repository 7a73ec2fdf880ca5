package buffer

import (
	"context"
	"sort"
)

// tileRows is how many rows are finished between two looks at the context.
const tileRows = 1 << 14

// shortList is up to how many edges a list is sorted by insertion.
const shortList = 24

// finishLists does what needs lists in their last place: it puts every row's edges in order of time, where there are times, and
// sums up weights, where there are those. It does not depend on the number of threads.
func (it *Buffer) finishLists(ctx context.Context, a *Adjacency) error {
	if it.src.time == nil && it.src.weight == nil {
		return nil
	}
	tiles := (len(a.Spans) + tileRows - 1) / tileRows
	return it.asm.parallel(ctx, tiles, func(_, k int) error {
		lo, hi := k*tileRows, min(len(a.Spans), (k+1)*tileRows)
		if it.src.time != nil {
			for _, s := range a.Spans[lo:hi] {
				a.orderByTime(s)
			}
		}
		if it.src.weight != nil {
			a.SumWeights(lo, hi)
		}
		return nil
	})
}

// orderByTime puts the edges of a row in order of time, those of one time in the order that they have: a stable sort in
// place, for which there is no other memory.
func (a *Adjacency) orderByTime(s Span) {
	l := edgesBy{a: a, first: s.Begin, n: int(s.End - s.Begin), less: func(x, y int64) bool { return a.Times[x] < a.Times[y] }}
	if l.n > shortList {
		if !sort.IsSorted(l) {
			sort.Stable(l)
		}
		return
	}
	for i := 1; i < l.n; i++ {
		for j := i; j > 0 && l.Less(j, j-1); j-- {
			l.Swap(j, j-1)
		}
	}
}

// edgesBy is a row's edges with an order of their places; it implements [sort.Interface].
type edgesBy struct {
	a     *Adjacency
	first int64
	n     int
	less  func(x, y int64) bool
}

func (l edgesBy) Len() int { return l.n }

func (l edgesBy) Less(i, j int) bool { return l.less(l.first+int64(i), l.first+int64(j)) }

func (l edgesBy) Swap(i, j int) {
	a, x, y := l.a, l.first+int64(i), l.first+int64(j)
	a.Indices[x], a.Indices[y] = a.Indices[y], a.Indices[x]
	if a.Times != nil {
		a.Times[x], a.Times[y] = a.Times[y], a.Times[x]
	}
	if a.Relations != nil {
		a.Relations[x], a.Relations[y] = a.Relations[y], a.Relations[x]
	}
	if a.Weights != nil {
		a.Weights[x], a.Weights[y] = a.Weights[y], a.Weights[x]
	}
	if dim := int64(a.FeatureDim); a.Features != nil {
		for j := range dim {
			a.Features[x*dim+j], a.Features[y*dim+j] = a.Features[y*dim+j], a.Features[x*dim+j]
		}
	}
}
