// Package replay trains mini-batches by few recordings: a step is some hundred operations, whose launches take longer than
// they do where a device is fast (thesis, section 5.3). Mini-batches of about a size are padded to one [Shape], of
// which the device takes the step down once and runs it again by one call ([gpu.Recorder]).
//
// What is padded is a graph of its own behind the mini-batch's: nodes whose edges come from nodes that were added too, and seeds
// without a label, so that all gradients there are exactly 0. Sums over nodes are cut by [gpu.SizeClass], which padding keeps:
// a padded mini-batch gives the bits of one that is not.
//
// A [Steps] is for the goroutine of its queue.
package replay

import (
	"errors"
	"slices"

	"github.com/gstore/gstore/gpu"
)

// Sizes are those of a mini-batch: Nodes[0] rows of input, Nodes[i+1] destinations of block i, input first, the last of which are the
// seeds; Edges[i] of block i.
type Sizes struct{ Nodes, Edges []int }

// Shape is the sizes that mini-batches are padded to.
type Shape struct {
	Sizes
	program gpu.Program
	key     []gpu.Tensor // what program reads and mini-batches bring
	warm    bool         // a mini-batch was issued in these sizes: scratch and kernels are there
	failed  int
	used    int64 // when a mini-batch had it last
}

const (
	shapesMax   = 16
	attemptsMax = 3  // of recording a shape that fails
	granule     = 64 // nodes and edges of shapes are its multiples, but for the last of a class
)

// grown is what n nodes or edges are padded to, for others that are a bit more: a sixteenth, 1 at least.
func grown(n int) int { return (n + n/16 + granule) / granule * granule }

// wasteful reports whether p is too much for n.
func wasteful(n, p int) bool { return p > n+n/4+2*granule }

// newShape pads sizes, nil where a number of nodes is the last of its class.
func newShape(z Sizes) *Shape {
	s := &Shape{Sizes: Sizes{Nodes: make([]int, len(z.Nodes)), Edges: make([]int, len(z.Edges))}}
	for i, n := range z.Nodes {
		if s.Nodes[i] = min(grown(n), gpu.SizeClass(n)-1); s.Nodes[i] <= n {
			return nil
		}
	}
	for i, n := range z.Edges {
		s.Edges[i] = grown(n)
	}
	return s
}

// fits reports whether a mini-batch can have the shape: a node more everywhere, for the edges that are added, in the same class.
func (s *Shape) fits(z Sizes) bool {
	if len(z.Nodes) != len(s.Nodes) || len(z.Edges) != len(s.Edges) {
		return false
	}
	for i, n := range z.Nodes {
		if p := s.Nodes[i]; n >= p || gpu.SizeClass(n) != gpu.SizeClass(p) || wasteful(n, p) {
			return false
		}
	}
	for i, n := range z.Edges {
		if p := s.Edges[i]; n > p || wasteful(n, p) {
			return false
		}
	}
	return true
}

// size is all nodes and edges.
func (s *Shape) size() (n int) {
	for _, x := range [][]int{s.Nodes, s.Edges} {
		for _, k := range x {
			n += k
		}
	}
	return n
}

// Stats count what was run.
type Stats struct {
	Shapes   int   // that there are
	Recorded int64 // steps that were taken down, the same shape's again where what it reads moved
	Replayed int64 // mini-batches that were run by one call
	Failed   int64 // recordings that failed: the mini-batch was issued operation by operation
}

// Steps are the shapes of a run and their recordings.
type Steps struct {
	queue   *gpu.Queue
	shapes  []*Shape
	retired []gpu.Program // which may run
	clock   int64
	stats   Stats
	err     error

	indptr, indices, numbers []int32
	rows                     []uint32
}

// New makes steps for q, nil where its device does not record.
func New(q *gpu.Queue) *Steps {
	if !q.Records() {
		return nil
	}
	return &Steps{queue: q}
}

// Stats counts all so far.
func (s *Steps) Stats() Stats {
	if s == nil {
		return Stats{}
	}
	s.stats.Shapes = len(s.shapes)
	return s.stats
}

// Err is the last error of a recording, which ended nothing but that.
func (s *Steps) Err() error {
	if s == nil {
		return nil
	}
	return s.err
}

// Shape returns the least shape that a mini-batch has room in, a new one where there is none; nil: it is not to be padded.
func (s *Steps) Shape(z Sizes) *Shape {
	if s == nil {
		return nil
	}
	var best *Shape
	for _, x := range s.shapes {
		if x.fits(z) && (best == nil || x.size() < best.size()) {
			best = x
		}
	}
	if best == nil {
		if best = newShape(z); best == nil {
			return nil
		}
		s.add(best)
	}
	s.clock++
	best.used = s.clock
	return best
}

// add takes a shape, for the one that was used longest ago where there are too many.
func (s *Steps) add(x *Shape) {
	if len(s.shapes) < shapesMax {
		s.shapes = append(s.shapes, x)
		return
	}
	oldest := 0
	for i, y := range s.shapes {
		if y.used < s.shapes[oldest].used {
			oldest = i
		}
	}
	s.retire(s.shapes[oldest])
	s.shapes[oldest] = x
}

func (s *Steps) retire(x *Shape) {
	if x.program != nil {
		s.retired = append(s.retired, x.program)
		x.program, x.key = nil, nil
	}
}

// Run runs a mini-batch that was padded to x. key is every tensor that issue reads and that is not the model's; where they lie as they
// did when x was recorded, issue is not called. All other tensors of issue are a's.
func (s *Steps) Run(x *Shape, a *gpu.Arena, key []gpu.Tensor, issue func()) {
	if x.program != nil && !slices.Equal(x.key, key) {
		s.retire(x)
	}
	if x.program == nil {
		if !x.warm || x.failed >= attemptsMax {
			x.warm = true
			issue()
			return
		}
		p, err := s.queue.Record(a, issue)
		if err != nil {
			s.err = err
			s.stats.Failed++
			x.failed++
			issue()
			return
		}
		x.program, x.key = p, slices.Clone(key)
		s.stats.Recorded++
	}
	s.queue.Replay(x.program)
	s.stats.Replayed++
}

// Settle frees recordings that are not used any more. Nothing may run.
func (s *Steps) Settle() error {
	if s == nil {
		return nil
	}
	var err error
	for _, p := range s.retired {
		err = errors.Join(err, p.Close())
	}
	s.retired = s.retired[:0]
	return err
}
