package macro

import (
	"fmt"
	"maps"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Deal is a rank's part of an epoch, of processes that train one model together. Steps are dealt in runs, since a step shares
// partitions with the one before it: each partition is read by one rank, but for pinned ones and those that a step is filled up
// with. Where there are fewer steps than ranks, each rank goes through all of them and has its share of their batches.
//
// All ranks do the same number of batches. Who has fewer seeds has smaller ones; the seeds of all ranks are those of the epoch.
type Deal struct {
	Plan  buffer.Plan
	Steps []int // the plan's, as the whole epoch numbers them
	Parts []int // batches that the seeds of each are cut into
	First int   // of these, the rank's: First, First + Every, …
	Every int
}

// Ranks say whose part of an epoch is wanted.
type Ranks struct {
	Rank, World int      // this process, from 0, and how many there are
	Nodes       []uint64 // seeds, by partition
	// Edges are those of a bucket, where not nodes but a step's buckets are its seeds; nil: nodes are.
	Edges     func(buffer.BucketID) uint64
	BatchSize int
}

// Validate says that a rank is none of its world.
func (r *Ranks) Validate() error {
	if r.Rank < 0 || r.Rank >= r.World {
		return fmt.Errorf("rank %d of %d: %w", r.Rank, r.World, store.ErrInvalid)
	}
	return nil
}

// Deal returns the rank's part of an epoch whose plan is all; an error is [ErrPlan].
func (r *Ranks) Deal(all buffer.Plan) (*Deal, error) {
	seeds := make([]int, len(all.Steps))
	for i := range all.Steps {
		for _, p := range all.Steps[i].Train {
			if r.Edges == nil {
				seeds[i] += int(r.Nodes[p])
			}
		}
		for _, b := range all.Steps[i].Buckets {
			if r.Edges != nil {
				seeds[i] += int(r.Edges(b))
			}
		}
	}
	d := &Deal{Plan: all, Every: 1}
	if len(seeds) < r.World {
		d.First, d.Every = r.Rank, r.World
		for i, n := range seeds {
			parts := (n + r.BatchSize*r.World - 1) / (r.BatchSize * r.World) * r.World
			if n < parts {
				return nil, fmt.Errorf("%w: step %d has %d seeds for %d ranks: hold fewer partitions at a time, or use fewer ranks", ErrPlan, i, n, r.World)
			}
			d.Steps, d.Parts = append(d.Steps, i), append(d.Parts, parts)
		}
		return d, nil
	}
	bound := func(rank int) int { return rank * len(seeds) / r.World }
	most := 0 // batches of a rank
	for k := range r.World {
		n, total := 0, 0
		for _, s := range seeds[bound(k):bound(k+1)] {
			n, total = n+(s+r.BatchSize-1)/r.BatchSize, total+s
		}
		most = max(most, n)
	}
	for k := range r.World {
		total := 0
		for _, s := range seeds[bound(k):bound(k+1)] {
			total += s
		}
		if total < most {
			return nil, fmt.Errorf("%w: rank %d has %d seeds for %d batches: use larger batches, or fewer ranks", ErrPlan, k, total, most)
		}
	}
	lo, hi := bound(r.Rank), bound(r.Rank+1)
	d.Plan.Steps = all.Steps[lo:hi:hi]
	left := most
	for i := lo; i < hi; i++ {
		d.Steps, d.Parts = append(d.Steps, i), append(d.Parts, (seeds[i]+r.BatchSize-1)/r.BatchSize)
		left -= d.Parts[i-lo]
	}
	for ; left > 0; left-- { // another batch for the step whose batches are largest
		best := 0
		for i := range d.Parts {
			if seeds[lo+i]*max(1, d.Parts[best]) > seeds[lo+best]*max(1, d.Parts[i]) {
				best = i
			}
		}
		d.Parts[best]++
	}
	return d, nil
}

// At is where a step of the whole epoch, or the first one after it, is in the rank's plan, and whether it is that very one.
func (d *Deal) At(step int) (int, bool) {
	for i, s := range d.Steps {
		if s >= step {
			return i, s == step
		}
	}
	return len(d.Steps), false
}

// Dealer deals epochs to a rank as their plans are made, and keeps the deals of those that are under way.
type Dealer struct {
	Ranks
	deals map[int]dealt // by epoch
}

// dealt is the rank's part of an epoch, or why there is none.
type dealt struct {
	deal *Deal
	err  error
}

// Plan is the rank's part of an epoch whose plan is all. What cannot be dealt has no steps; Of tells why.
func (d *Dealer) Plan(epoch int, all buffer.Plan) buffer.Plan {
	deal, err := d.Deal(all)
	if err != nil {
		deal, err = &Deal{}, fmt.Errorf("train: epoch %d, rank %d of %d: %w", epoch+1, d.Rank, d.World, err)
	}
	if d.deals == nil {
		d.deals = map[int]dealt{}
	}
	d.deals[epoch] = dealt{deal, err}
	return deal.Plan
}

// Of returns the deal of an epoch that was planned, and forgets those of epochs before.
func (d *Dealer) Of(epoch int) (*Deal, error) {
	maps.DeleteFunc(d.deals, func(e int, _ dealt) bool { return e < epoch })
	return d.deals[epoch].deal, d.deals[epoch].err
}
