package macro

import (
	"slices"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// hanoi pins the hubs, shuffles the other partitions and takes Capacity of
// them at a time (thesis sections 4.2 and 4.3). Every partition is trained in
// exactly one step; a pinned one in a random one. When Capacity does not divide
// their number, the steps after the first have nearly equal shares of the rest,
// and each is filled up with random partitions of the step before it, untrained: seeds
// lose no more neighbours in one step than in another, every step has about as
// much to read as to train, and nothing more is read. With Labels the steps are mixed ([policy.mix]).
func hanoi(p *policy, r *keyed.Rand) []buffer.Step {
	order := p.shuffled(r)
	b := max(1, p.Capacity)
	n := max(1, (len(order)+b-1)/b)
	steps := make([]buffer.Step, n)
	first := min(b, len(order))
	rest := len(order) - first
	ends := make([]int, n)
	for i := range ends {
		ends[i] = first + i*rest/max(1, n-1)
	}
	var hubs [][]store.PartitionID // of the steps, where they are drawn first
	if p.Labels != nil && n > 1 {
		hubs = p.home(r, n)
		order = p.mix(r, order, differences(ends), hubs)
	}
	var resident []store.PartitionID
	begin := 0
	for i := range steps {
		own := order[begin:ends[i]]
		begin = ends[i]
		keyed.Shuffle(r, resident)
		kept := resident[:min(len(resident), b-len(own))]
		resident = slices.Concat(own, kept)
		steps[i].Resident = p.with(resident)
		steps[i].Train = slices.Clone(own)
	}
	if hubs == nil {
		hubs = p.home(r, n)
	}
	for i := range steps {
		steps[i].Train = append(steps[i].Train, hubs[i]...)
		slices.Sort(steps[i].Train)
		switch {
		case p.Reuse == ReuseAuto:
			steps[i].Passes, steps[i].WhilePending = 1+ReuseMax, true
		case p.Reuse > 0:
			steps[i].Passes = 1 + p.Reuse
		}
	}
	return steps
}

// home draws the step in which each pinned partition is trained, and lists those of each of n steps.
func (p *policy) home(r *keyed.Rand, n int) [][]store.PartitionID {
	hubs := make([][]store.PartitionID, n)
	for _, hub := range p.Pinned {
		s := &hubs[r.Below(uint64(n))]
		*s = append(*s, hub)
	}
	return hubs
}

// differences are those of ascending numbers, the first from 0.
func differences(ends []int) []int {
	sizes := slices.Clone(ends)
	for i := len(ends) - 1; i > 0; i-- {
		sizes[i] -= ends[i-1]
	}
	return sizes
}

// trainNodes is MariusGNN's policy when training nodes fit (section 5.2): they
// are pinned, random other partitions fill the buffer for the whole epoch, and
// everything is trained in the one step. Only what changes between epochs is read.
func trainNodes(p *policy, r *keyed.Rand) []buffer.Step {
	return []buffer.Step{{Resident: p.with(p.shuffled(r)[:p.Capacity]), Train: slices.Clone(p.trained())}}
}

// trained lists the partitions that hold training nodes: the pinned ones, or
// all if none are or others hold some too.
func (p *policy) trained() []store.PartitionID {
	if len(p.Pinned) > 0 && !p.TrainOutside {
		return p.Pinned
	}
	return p.with(p.loose)
}

// rotate is MariusGNN's policy when training nodes do not fit (section 5.2):
// a random logical partition in memory makes room for a random one not seen yet, until
// all were in memory. Each partition is trained in a random one of the steps
// where it is resident; a pinned one in any.
func rotate(p *policy, r *keyed.Rand) []buffer.Step {
	groups, room, err := p.logical(1, 1)
	if err != nil { // Capacity ≥ 1 always has room for one group
		groups, room = len(p.loose), p.Capacity
	}
	order := p.shuffled(r)
	group := func(g int) []store.PartitionID { return order[g*len(order)/groups : (g+1)*len(order)/groups] }
	in := make([]int, room)
	for i := range in {
		in[i] = i
	}
	var steps []buffer.Step
	where := make([][]int, groups) // steps in which a group is resident
	for next := room; ; next++ {
		var resident []store.PartitionID
		for _, g := range in {
			resident = append(resident, group(g)...)
			where[g] = append(where[g], len(steps))
		}
		steps = append(steps, buffer.Step{Resident: p.with(resident)})
		if next == groups {
			break
		}
		in[r.Below(uint64(room))] = next
	}
	for g, w := range where {
		for _, part := range group(g) {
			s := &steps[w[r.Below(uint64(len(w)))]]
			s.Train = append(s.Train, part)
		}
	}
	for _, part := range p.Pinned {
		s := &steps[r.Below(uint64(len(steps)))]
		s.Train = append(s.Train, part)
	}
	for i := range steps {
		slices.Sort(steps[i].Train)
	}
	return steps
}
