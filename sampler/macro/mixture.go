package macro

import (
	"math"
	"slices"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// mixtureTries is how many exchanges with random partitions of other steps are tried for each partition.
const mixtureTries = 16

// mixture counts the training nodes of an epoch's steps by class while partitions are assigned to them. What it lowers is
// the sum over steps s and classes c of (n_sc − t_sc)² / n_c, where n_c are the training nodes of class c, n_sc those in
// step s, and t_sc the step's share of them. It is Pearson's χ² of the steps' classes, so that rare classes count as much as
// frequent ones.
type mixture struct {
	labels [][]store.ClassNodes // by partition
	weight []float64            // by class: 1/n_c
	over   [][]float64          // by step and class: n_sc − t_sc
}

// newMixture begins with steps that have no training nodes, and are to have so many of parts each. Their shares of a class are
// those of the partitions' numbers; all are the partitions that have training nodes at all.
func newMixture(labels [][]store.ClassNodes, all []store.PartitionID, sizes []int) *mixture {
	total, parts := classTotals(labels, all), 0
	for _, size := range sizes {
		parts += size
	}
	m := &mixture{labels: labels, weight: make([]float64, len(total)), over: make([][]float64, len(sizes))}
	for c, n := range total {
		m.weight[c] = 1 / max(1, n)
	}
	for s, size := range sizes {
		m.over[s] = make([]float64, len(total))
		for c, n := range total {
			m.over[s][c] = -n * float64(size) / float64(max(1, parts))
		}
	}
	return m
}

// classTotals counts the training nodes of partitions by class.
func classTotals(labels [][]store.ClassNodes, parts []store.PartitionID) (total []float64) {
	for _, p := range parts {
		for _, l := range labels[p] {
			if n := int(l.Class) + 1; n > len(total) {
				total = slices.Grow(total, n-len(total))[:n]
			}
			total[l.Class] += float64(l.Nodes)
		}
	}
	return total
}

// put adds a partition to a step, or with sign −1 takes it away.
func (m *mixture) put(p store.PartitionID, step int, sign float64) {
	for _, l := range m.labels[p] {
		m.over[step][l.Class] += sign * float64(l.Nodes)
	}
}

// cost is by how much the sum rises if a partition is put to a step.
func (m *mixture) cost(p store.PartitionID, step int) (sum float64) {
	over := m.over[step]
	for _, l := range m.labels[p] {
		n := float64(l.Nodes)
		sum += n * (n + 2*over[l.Class]) * m.weight[l.Class]
	}
	return sum
}

// mix orders partitions, given in random order, so that the first sizes[0] of them have classes mixed as all partitions', and
// so the next sizes[1], and on. Each partition goes to the step that lacks its classes most, of those with room; then random pairs change
// places where that helps. pinned[s] are in step s already. The order is random as far as the mixture leaves it.
func (p *policy) mix(r *keyed.Rand, order []store.PartitionID, sizes []int, pinned [][]store.PartitionID) []store.PartitionID {
	m := newMixture(p.Labels, p.with(p.loose), sizes)
	for s, parts := range pinned {
		for _, part := range parts {
			m.put(part, s, 1)
		}
	}
	steps, at := make([][]store.PartitionID, len(sizes)), make([]int, p.Partitions)
	for _, part := range order {
		best, least := -1, math.Inf(1)
		for s, size := range sizes {
			if len(steps[s]) == size {
				continue
			}
			if c := m.cost(part, s); c < least {
				best, least = s, c
			}
		}
		m.put(part, best, 1)
		steps[best], at[part] = append(steps[best], part), best
	}
	mixed := slices.Concat(steps...)
	place := make([]int, p.Partitions) // in mixed
	for i, part := range mixed {
		place[part] = i
	}
	for _, a := range order {
		for range mixtureTries {
			b := order[r.Below(uint64(len(order)))]
			i, j := at[a], at[b]
			if i == j {
				continue
			}
			// Without both, the sum is that of the others and what each adds to its step.
			m.put(a, i, -1)
			m.put(b, j, -1)
			if m.cost(a, j)+m.cost(b, i) < m.cost(a, i)+m.cost(b, j) {
				at[a], at[b] = j, i
				place[a], place[b] = place[b], place[a]
				mixed[place[a]], mixed[place[b]] = a, b
			}
			m.put(a, at[a], 1)
			m.put(b, at[b], 1)
		}
	}
	return mixed
}

// Divergence is how far the classes of a plan's steps are from the graph's: the mean over training nodes of the total variation
// between the classes of what is trained in their step and those of all that is trained, in [0, 1]. 0: each step is mixed as the whole.
func Divergence(plan buffer.Plan, labels [][]store.ClassNodes) float64 {
	var all []store.PartitionID
	for _, s := range plan.Steps {
		all = append(all, s.Train...)
	}
	total := classTotals(labels, all)
	nodes := sum(total)
	d := 0.
	for _, s := range plan.Steps {
		counts := classTotals(labels, s.Train)
		own := sum(counts)
		for c, n := range counts {
			d += max(0, n-own*total[c]/nodes)
		}
	}
	return d / max(1, nodes)
}

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}
