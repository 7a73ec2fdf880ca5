package feed

import (
	"slices"

	"github.com/gstore/gstore/store/buffer"
)

// alone keeps of a macro-batch's edges those between the partitions that its step's mini-batches reach. Its memory is
// reused from step to step; see package planning, aloneBytes.
type alone struct {
	in    buffer.Adjacency
	inner []bool // by row
}

// within is in, or what is left of it where the step does not reach all partitions. Edges keep their order.
func (a *alone) within(mb *buffer.MacroBatch, in *buffer.Adjacency) *buffer.Adjacency {
	if mb.Step.Reach == nil {
		return in
	}
	a.inner = Resized(a.inner, in.Rows())
	a.in.Spans = Resized(a.in.Spans, in.Rows())
	a.in.Indices = a.in.Indices[:0]
	var reached []buffer.ResidentPartition
	for _, p := range mb.Partitions {
		if slices.Contains(mb.Step.Reach, p.ID) {
			reached = append(reached, p)
			for r := p.Base; r < p.Base+p.Nodes; r++ {
				a.inner[r] = true
			}
		}
	}
	for _, p := range reached {
		for r := p.Base; r < p.Base+p.Nodes; r++ {
			s := in.Span(r)
			begin := int64(len(a.in.Indices))
			for _, u := range in.Indices[s.Begin:s.End] {
				if a.inner[u] {
					a.in.Indices = append(a.in.Indices, u)
				}
			}
			a.in.Spans[r] = buffer.Span{Begin: begin, End: int64(len(a.in.Indices))}
		}
	}
	return &a.in
}

// Resized is x with n zero elements.
func Resized[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	x = x[:n]
	clear(x)
	return x
}
