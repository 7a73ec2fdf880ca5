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
	l := byTime{a: a, first: s.Begin, n: int(s.End - s.Begin)}
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

// byTime is a row's edges; it implements [sort.Interface].
type byTime struct {
	a     *Adjacency
	first int64
	n     int
}

func (l byTime) Len() int { return l.n }

func (l byTime) Less(i, j int) bool { return l.a.Times[l.first+int64(i)] < l.a.Times[l.first+int64(j)] }

func (l byTime) Swap(i, j int) {
	a, x, y := l.a, l.first+int64(i), l.first+int64(j)
	a.Indices[x], a.Indices[y] = a.Indices[y], a.Indices[x]
	a.Times[x], a.Times[y] = a.Times[y], a.Times[x]
	if a.Relations != nil {
		a.Relations[x], a.Relations[y] = a.Relations[y], a.Relations[x]
	}
	if a.Weights != nil {
		a.Weights[x], a.Weights[y] = a.Weights[y], a.Weights[x]
	}
}
