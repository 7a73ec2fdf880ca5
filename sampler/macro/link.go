package macro

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// logicalAtOnce is how many logical partitions comet keeps in the buffer by default, where MariusGNN (section 6) keeps
// two. Two never train much but the edges between them: every answer lies in the other one, while half of the negatives
// do not. With four, an epoch reads a sixth less and reading ahead takes half the room (docs/design.md, "sampler").
const logicalAtOnce = 4

// logical returns the number of logical partitions and how many of them fit in
// the buffer, at least atLeast, by default atOnce if the buffer has room for so many partitions. Their sizes differ by
// at most one partition.
func (p *policy) logical(atLeast, atOnce int) (groups, room int, err error) {
	n := len(p.loose)
	if groups = p.Logical; groups == 0 {
		if p.Capacity < atLeast {
			return 0, 0, fmt.Errorf("%w: room for %d partitions holds no %d logical ones: give room for %d or more", ErrPlan, p.Capacity, atLeast, atLeast)
		}
		size := max(1, p.Capacity/atOnce)
		groups = (n + size - 1) / size
	}
	if groups < 1 || groups > n {
		return 0, 0, fmt.Errorf("%w: %d logical partitions of %d partitions, expected at most as many", ErrPlan, groups, n)
	}
	room = min(groups, p.Capacity/((n+groups-1)/groups))
	if room < atLeast {
		return 0, 0, fmt.Errorf("%w: with %d logical partitions only %d fit in the buffer of %d, want %d; use at least %d logical ones",
			ErrPlan, groups, room, p.Capacity, atLeast, (n+p.Capacity/atLeast-1)/(p.Capacity/atLeast))
	}
	return groups, room, nil
}

// comet is MariusGNN's policy for link prediction (section 5.1): partitions are
// grouped at random into logical ones; logical ones are swapped one at a time,
// greedily, until every pair has met; and every edge bucket is trained in a
// random one of the steps where both its partitions are resident.
func comet(p *policy, r *keyed.Rand) []buffer.Step {
	groups, room, err := p.logical(2, logicalAtOnce)
	if err != nil {
		return nil // New has checked
	}
	order := p.shuffled(r)
	groupOf := make([]int, p.Partitions)
	members := make([][]store.PartitionID, groups)
	for g := range members {
		members[g] = order[g*len(order)/groups : (g+1)*len(order)/groups]
		for _, part := range members[g] {
			groupOf[part] = g
		}
	}
	sets := bestCover(groups, room, p.Order, r)
	steps := make([]buffer.Step, len(sets))
	met := make([][]int32, groups*groups) // steps in which two groups are resident, at [smaller*groups+larger]
	for s, set := range sets {
		for _, g := range set {
			steps[s].Resident = append(steps[s].Resident, members[g]...)
			for _, h := range set {
				if g <= h {
					met[g*groups+h] = append(met[g*groups+h], int32(s))
				}
			}
		}
		slices.Sort(steps[s].Resident)
	}
	assign := func(r *keyed.Rand, f func(step int32, b buffer.BucketID)) {
		for _, i := range p.loose {
			for _, j := range p.loose {
				if p.stored(i, j) {
					g, h := groupOf[i], groupOf[j]
					w := met[min(g, h)*groups+max(g, h)]
					f(w[r.Below(uint64(len(w)))], buffer.BucketID{Src: i, Dst: j})
				}
			}
		}
	}
	// The same draws twice: first to count, so that p² buckets are allocated once.
	count, twin := make([]int, len(steps)), *r
	assign(&twin, func(step int32, _ buffer.BucketID) { count[step]++ })
	buckets := p.buckets()
	for i, n := range count {
		steps[i].Buckets, buckets = buckets[:0:n], buckets[n:]
	}
	assign(r, func(step int32, b buffer.BucketID) { steps[step].Buckets = append(steps[step].Buckets, b) })
	return steps
}

// coverTries and coverWork bound how many covers bestCover compares: at most so
// many, and together about so many (pair, step) visits, a fraction of a second.
const (
	coverTries = 32
	coverWork  = 1 << 25
)

// bestCover returns, for the Random order, the one cover that the greedy finds;
// for Balanced the best of several, every other one with random ties, by the
// square of the number of sets (each is a read) times one plus the share by
// which the most trained element is ahead of the least: bytes weigh twice.
func bestCover(n, room int, o Order, r *keyed.Rand) [][]int {
	best, spread := cover(n, room, o, r)
	if o == Random {
		return best
	}
	score := func(sets [][]int, spread int) int { return len(sets) * len(sets) * (n - 1 + spread) }
	least := score(best, spread)
	for k := range min(coverTries, coverWork/(len(best)*n*room+1)) {
		tie := Balanced
		if k%2 == 0 {
			tie = Random
		}
		sets, spread := cover(n, room, tie, r)
		if v := score(sets, spread); v < least {
			best, least = sets, v
		}
	}
	return best
}

// PlanBytes is about what a plan of link prediction takes on the Go heap, most of it the list of its buckets:
// 8 bytes each.
func PlanBytes(partitions int) int64 { return 8 * int64(partitions) * int64(partitions) }

// buckets returns room for all buckets of the store.
func (p *policy) buckets() []buffer.BucketID {
	n := p.Partitions
	if p.Undirected {
		return make([]buffer.BucketID, n*(n+1)/2)
	}
	return make([]buffer.BucketID, n*n)
}

// cover returns sets of room out of n elements, neighbours differing in one
// element, such that every pair is in at least one set. Each swap covers as
// many new pairs as any swap could. spread is the largest difference, after any
// set, between the numbers of others that two elements have met.
func cover(n, room int, o Order, r *keyed.Rand) (sets [][]int, spread int) {
	words := (n + 63) / 64
	open := make([][]uint64, n) // pairs not covered yet
	left := make([]int, n)      // how many of them an element has
	for i := range open {
		open[i] = make([]uint64, words)
		for j := range n {
			if j != i {
				open[i][j/64] |= 1 << (j % 64)
			}
		}
		left[i] = n - 1
	}
	isOpen := func(i, j int) bool { return open[i][j/64]>>(j%64)&1 != 0 }
	in := make([]uint64, words)
	set := make([]int, n)
	for i := range set {
		set[i] = i
	}
	keyed.Shuffle(r, set)
	set = set[:room]
	todo := n * (n - 1) / 2
	meet := func(i, j int) {
		if isOpen(i, j) {
			open[i][j/64] &^= 1 << (j % 64)
			open[j][i/64] &^= 1 << (i % 64)
			left[i]--
			left[j]--
			todo--
		}
	}
	for i, a := range set {
		in[a/64] |= 1 << (a % 64)
		for _, b := range set[:i] {
			meet(a, b)
		}
	}
	sets = [][]int{slices.Clone(set)}
	spread = slices.Max(left) - slices.Min(left)
	var best [][2]int // swaps {position in set, element to admit}
	for todo > 0 {
		gain := -1
		best = best[:0]
		for a := range n {
			if in[a/64]>>(a%64)&1 != 0 {
				continue
			}
			u := 0
			for w := range in {
				u += bits.OnesCount64(open[a][w] & in[w])
			}
			if u < gain {
				continue
			}
			for at, e := range set {
				g := u
				if isOpen(a, e) {
					g--
				}
				if g > gain {
					gain, best = g, best[:0]
				}
				if g == gain {
					best = append(best, [2]int{at, a})
				}
			}
		}
		swap := choose(best, set, left, gain, o, r)
		out, a := set[swap[0]], swap[1]
		in[out/64] &^= 1 << (out % 64)
		in[a/64] |= 1 << (a % 64)
		set[swap[0]] = a
		for _, b := range set {
			if b != a {
				meet(a, b)
			}
		}
		sets = append(sets, slices.Clone(set))
		spread = max(spread, slices.Max(left)-slices.Min(left))
	}
	return sets, spread
}

// choose picks one of the swaps that gain equally many pairs. left[i] is the
// number of pairs that i has still to meet: few left means trained much.
func choose(best [][2]int, set, left []int, gain int, o Order, r *keyed.Rand) [2]int {
	score := func(s [2]int) int {
		admit, evict := left[s[1]], left[set[s[0]]]
		switch {
		case gain == 0: // no swap covers anything: make room for the one with most to do
			return len(left)*admit - evict
		case o == Balanced:
			return admit - evict
		}
		return 0
	}
	top, n := best[0], uint64(0)
	topScore := score(top)
	for _, s := range best {
		switch v := score(s); {
		case v > topScore:
			top, topScore, n = s, v, 1
		case v == topScore:
			if n++; r.Below(n) == 0 { // reservoir: each of the n best equally likely
				top = s
			}
		}
	}
	return top
}

// beta is Marius' Buffer-aware Edge Traversal Algorithm (Mohoney et al., OSDI
// 2021, section 4.1), MariusGNN's baseline: all but one place of the buffer
// stay while the last takes every other partition in turn; then those that have
// met all are replaced. A bucket is trained as soon as both partitions are in
// memory, so that a step's examples share the partition that came last.
// Partitions' roles are drawn anew each epoch.
func beta(p *policy, r *keyed.Rand) []buffer.Step {
	order := p.shuffled(r)
	c := p.Capacity
	resident, disk := order[:c:c], order[c:]
	var steps []buffer.Step
	done := make([]uint64, (p.Partitions*p.Partitions+63)/64) // a bit a bucket
	left := p.buckets()
	emit := func() {
		s := buffer.Step{Resident: p.with(resident)}
		n := 0
		for _, i := range s.Resident {
			for _, j := range s.Resident {
				at := int(i)*p.Partitions + int(j)
				if bit := uint64(1) << (at % 64); p.stored(i, j) && done[at/64]&bit == 0 {
					done[at/64] |= bit
					left[n] = buffer.BucketID{Src: i, Dst: j}
					n++
				}
			}
		}
		s.Buckets, left = left[:n:n], left[n:]
		steps = append(steps, s)
	}
	emit()
	for len(disk) > 0 {
		for i := range disk {
			resident[c-1], disk[i] = disk[i], resident[c-1]
			emit()
		}
		n := min(c-1, len(disk))
		// The partition that left the last place first lies in disk[0]; it has
		// met the fixed ones, as all in disk have, but not the others there.
		for i := range n {
			resident[i] = disk[i]
			emit()
		}
		disk = disk[n:]
	}
	return steps
}
