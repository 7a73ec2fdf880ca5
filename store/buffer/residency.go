package buffer

import (
	"fmt"
	"slices"
	"sort"

	"github.com/gstore/gstore/store"
)

// residency is what the partition buffer will hold when everything scheduled
// so far has happened. It changes by plans alone, never by the timing of reads,
// so that what an epoch reads can be predicted to the byte.
type residency struct {
	slots []slotState
	where []int32             // partition → slot, −1 = none
	prev  []store.PartitionID // resident set of the last step
	first bool                // there is no last step
	seq   int64               // number of the next step, over all epochs
	frame int                 // adjacency of the last step
}

// slotState is one slot of the buffer.
type slotState struct {
	part    int32 // −1 = empty
	lastUse int64 // last step whose resident set has it; −1 = none
}

func newResidency(l *layout, partitions int) *residency {
	r := &residency{first: true, slots: make([]slotState, len(l.slots)), where: make([]int32, partitions)}
	for s := range r.slots {
		r.slots[s] = slotState{-1, -1}
	}
	for p := range r.where {
		r.where[p] = -1
	}
	return r
}

func (r *residency) clone() *residency {
	c := *r
	c.slots = slices.Clone(r.slots)
	c.where = slices.Clone(r.where)
	return &c
}

// scheduled is a step with everything decided: which partition is read into
// which slot, and when it may be.
type scheduled struct {
	seq      int64
	epoch    int
	index    int
	step     Step
	resident []ResidentPartition
	slot     []int // of each resident partition
	kept     []bool
	loads    []slotLoad
	frame    int
	same     bool // the resident set is the last step's: its adjacency serves on
}

// slotLoad reads a partition into a slot once all steps up to number after are released.
type slotLoad struct {
	part  store.PartitionID
	slot  int
	after int64
}

// schedule decides an epoch's steps from number first on and moves r past them. Evicted are
// partitions that no step within the read-ahead uses, of these the one needed
// again last (Belady), of those that the plan does not need again the one unused longest.
func (r *residency) schedule(l *layout, src *source, o *Options, epoch int, plan *Plan, first int) ([]*scheduled, error) {
	uses := make([][]int, len(r.where))
	for k := range plan.Steps {
		if err := checkStep(l, src, o, &plan.Steps[k]); err != nil {
			return nil, fmt.Errorf("step %d of plan %q: %w", k, plan.Policy, err)
		}
		for _, p := range plan.Steps[k].Resident {
			uses[p] = append(uses[p], k)
		}
	}
	nextUse := func(p int32, k int) int {
		i := sort.SearchInts(uses[p], k+1)
		if i == len(uses[p]) {
			return len(plan.Steps)
		}
		return uses[p][i]
	}
	steps := make([]*scheduled, 0, len(plan.Steps)-first)
	for k := first; k < len(plan.Steps); k++ {
		step := &plan.Steps[k]
		s := &scheduled{seq: r.seq, epoch: epoch, index: k, step: *step}
		var missing []store.PartitionID
		for _, p := range step.Resident {
			if r.where[p] >= 0 {
				r.slots[r.where[p]].lastUse = r.seq
			} else {
				missing = append(missing, p)
			}
		}
		if err := r.place(l, s, missing, func(p int32) int { return nextUse(p, k) }); err != nil {
			return nil, fmt.Errorf("step %d of plan %q: %w", k, plan.Policy, err)
		}
		for _, p := range step.Resident {
			info := src.m.Partitions[p]
			slot := int(r.where[p])
			_, kept := slices.BinarySearch(r.prev, p)
			kept = kept && src.time == nil // an adjacency in order of time is not one in order of partitions
			s.resident = append(s.resident, ResidentPartition{ID: p, Base: l.slots[slot].base, Nodes: uint32(info.Nodes), First: info.First, Table: l.slots[slot].table})
			s.slot = append(s.slot, slot)
			s.kept = append(s.kept, kept)
		}
		s.same = !r.first && slices.Equal(r.prev, step.Resident)
		if !s.same && !r.first {
			r.frame = (r.frame + 1) % l.frames
		}
		s.frame = r.frame
		r.prev, r.first = step.Resident, false
		r.seq++
		steps = append(steps, s)
	}
	return steps, nil
}

// place finds a slot for each missing partition of step s.
func (r *residency) place(l *layout, s *scheduled, missing []store.PartitionID, nextUse func(int32) int) error {
	var pool []store.PartitionID
	for _, p := range missing {
		if i, ok := slices.BinarySearch(l.fixed, p); ok {
			r.put(s, p, i)
		} else {
			pool = append(pool, p)
		}
	}
	// Slots that the steps in hand use come last: waiting for them costs overlap.
	var victims []int
	for i := len(l.fixed); i < len(r.slots); i++ {
		if r.slots[i].lastUse < r.seq {
			victims = append(victims, i)
		}
	}
	if len(victims) < len(pool) {
		return fmt.Errorf("%w: %d partitions to load and %d slots to load them into", store.ErrInvalid, len(pool), len(victims))
	}
	busy := func(i int) int64 { return max(0, r.slots[i].lastUse-(r.seq-1-int64(l.ahead))) }
	slices.SortStableFunc(victims, func(a, b int) int {
		x, y := &r.slots[a], &r.slots[b]
		if d := busy(a) - busy(b); d != 0 {
			return int(d)
		}
		if (x.part < 0) != (y.part < 0) {
			if x.part < 0 {
				return -1
			}
			return 1
		}
		if x.part >= 0 {
			if d := nextUse(y.part) - nextUse(x.part); d != 0 {
				return d
			}
		}
		return int(x.lastUse - y.lastUse)
	})
	for k, p := range pool {
		r.put(s, p, victims[k])
	}
	slices.SortStableFunc(s.loads, func(a, b slotLoad) int { return int(a.after - b.after) })
	return nil
}

func (r *residency) put(s *scheduled, p store.PartitionID, slot int) {
	old := &r.slots[slot]
	if old.part >= 0 {
		r.where[old.part] = -1
	}
	s.loads = append(s.loads, slotLoad{part: p, slot: slot, after: old.lastUse})
	*old = slotState{part: int32(p), lastUse: r.seq}
	r.where[p] = int32(slot)
}

// checkStep refuses a step that the buffer cannot hold.
func checkStep(l *layout, src *source, o *Options, s *Step) error {
	n := len(src.m.Partitions)
	for i, p := range s.Resident {
		if int(p) >= n || i > 0 && s.Resident[i-1] >= p {
			return fmt.Errorf("%w: resident partitions %v, expected ascending ids below %d", store.ErrInvalid, s.Resident, n)
		}
	}
	has := func(p store.PartitionID) bool { _, ok := slices.BinarySearch(s.Resident, p); return ok }
	for _, p := range l.fixed {
		if !has(p) {
			return fmt.Errorf("%w: pinned partition %d is not resident", store.ErrInvalid, p)
		}
	}
	if c := len(s.Resident) - len(l.fixed); c > o.Capacity {
		return fmt.Errorf("%w: %d partitions beside the %d pinned, capacity is %d", store.ErrInvalid, c, len(l.fixed), o.Capacity)
	}
	for i, p := range s.Train {
		if !has(p) || i > 0 && s.Train[i-1] >= p {
			return fmt.Errorf("%w: training partitions %v, expected ascending ids of resident ones %v", store.ErrInvalid, s.Train, s.Resident)
		}
	}
	for _, b := range s.Buckets {
		if !has(b.Src) || !has(b.Dst) {
			return fmt.Errorf("%w: bucket (%d, %d) has an end that is not resident", store.ErrInvalid, b.Src, b.Dst)
		}
	}
	return nil
}
