package partitioner

import (
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
)

// LabelBound is how far gap's labels may diverge beyond chance: with LabelShare 1, the mean
// total variation between the labels of a partition's training nodes and of all of them
// ([Quality].PartitionLabels.Mean) is at most LabelBound more than a random assignment's
// for the same seed, in a graph of any shape, but for whole nodes that cannot be divided: labels × partitions / training
// nodes is added. On debdeps it is .12 to .16 more than chance; a smaller bound costs edges kept.
const LabelBound = 0.25

// labelBound is the most that labels may diverge; infinite where nothing is said of them.
func (r *restreamer) labelBound() (float64, error) {
	if r.s.classes == nil || r.o.LabelShare != 1 {
		return math.Inf(1), nil
	}
	random, err := NewRandom(r.g.Nodes(), r.o.Partitions, r.o.Seed)
	if err != nil {
		return 0, err
	}
	return r.s.randomDivergence(random) + LabelBound, nil
}

// bounded reports whether labels diverge by no more than bound.
func (r *restreamer) bounded(bound float64) bool {
	return r.s.labelDivergence(func(l int) []uint32 { return r.s.fewest[l].Count }) <= bound
}

// leveledLabels balances labels by moving groups within partitions, of all levels, with more weight as
// long as they are not bounded.
func (r *restreamer) leveledLabels(g graph.RandomAccess, bound float64) error {
	cycle := 3 // after fennel's two
	for r.refine = labelWeight; ; r.refine *= 2 {
		if err := r.groupedLabels(g, cycle); err != nil {
			return err
		}
		if cycle++; r.refine >= labelWeightMax || r.bounded(bound) {
			return nil
		}
	}
}

// boundLabels makes the labels keep their bound: a share of neighbours can outweigh balance, and partitions
// that are full block moves that would restore it. Each round lets a partition have less of a class beyond its share,
// first whatever the partitions' sizes, then within them.
func (r *restreamer) boundLabels(access graph.RandomAccess, bound float64) (err error) {
	if r.bounded(bound) {
		return nil
	}
	var a graph.Arrays
	defer a.Free()
	visit, err := r.singles(&a, access)
	if err != nil {
		return err
	}
	limit := r.s.limit
	for _, slack := range [...]float64{.5, .25, .1, 0} {
		if r.bounded(bound) {
			break
		}
		for l := 1; l < len(r.s.most); l++ {
			r.s.most[l] = uint32(math.Ceil((1 + slack) * r.s.target[l]))
		}
		for _, r.s.limit = range [...]uint32{math.MaxUint32, limit} {
			if err := r.run(1, 0, 1, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// labelDivergence is the mean over partitions, weighted by their training nodes, of the total variation
// between their labels and all: counts has a class's nodes by partition. Class 0 is no label.
func (s *streamer) labelDivergence(counts func(l int) []uint32) float64 {
	training, all := make([]float64, s.k), 0.0
	for l := 1; l < len(s.fewest); l++ {
		for p, n := range counts(l) {
			training[p] += float64(n)
			all += float64(n)
		}
	}
	sum := 0.0
	for l := 1; l < len(s.fewest); l++ {
		ofClass := 0.0
		for _, n := range counts(l) {
			ofClass += float64(n)
		}
		for p, n := range counts(l) {
			sum += max(0, float64(n)-training[p]*ofClass/max(all, 1))
		}
	}
	return sum / max(all, 1)
}

// randomDivergence is labelDivergence of another assignment of the same nodes.
func (s *streamer) randomDivergence(a Assigner) float64 {
	counts := make([]uint32, s.k*len(s.fewest))
	var buf [4096]blocks.PartitionID
	for first := uint64(0); first < a.Nodes(); {
		b := buf[:min(uint64(len(buf)), a.Nodes()-first)]
		a.Assign(first, b)
		for i, p := range b {
			counts[s.class(uint32(first)+uint32(i))*s.k+int(p)]++
		}
		first += uint64(len(b))
	}
	return s.labelDivergence(func(l int) []uint32 { return counts[l*s.k : (l+1)*s.k] })
}
