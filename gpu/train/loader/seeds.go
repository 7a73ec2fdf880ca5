package loader

import (
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// seedCounts are the seeds of each partition.
func (l *Loader) seedCounts(ctx context.Context) ([]uint64, error) {
	if l.cfg.Nodes != nil {
		return l.cfg.Nodes.Count(l.store.Manifest()), nil
	}
	return l.store.SplitNodes(ctx, l.cfg.Split, l.seeds)
}

// StartLists is Start of an epoch whose batches the caller names: the distinct seeds of batch i are
// nodes[ends[i-1]:ends[i]], in this order. Both stay unchanged until the next start. Seeds must be in memory at once: in plan memory
// all are, and other plans are refused.
func (l *Loader) StartLists(epoch int, from progress.Place, nodes []store.NodeID, ends []int64) error {
	if l.cfg.Plan != macro.Memory || l.ranks != nil {
		return fmt.Errorf("train: loader: %w: batches of given nodes in plan %s on %v ranks: expected plan %s on one, in which any nodes are in memory together",
			store.ErrInvalid, l.cfg.Plan, l.ranks != nil, macro.Memory)
	}
	last := int64(0)
	for i, end := range ends {
		if end <= last || end > int64(len(nodes)) {
			return fmt.Errorf("train: loader: %w: batch %d ends at %d of %d nodes, begins at %d: expected one seed or more", store.ErrInvalid, i, end, len(nodes), last)
		}
		last = end
	}
	if at := slices.IndexFunc(nodes, func(v store.NodeID) bool { return uint64(v) >= l.nodes }); at >= 0 {
		return fmt.Errorf("train: loader: %w: node %d of %d", store.ErrNotFound, nodes[at], l.nodes)
	}
	l.leave()
	l.lists = &lists{nodes: nodes, ends: ends}
	return l.start(epoch, from)
}

// lists are the seeds of an epoch's batches.
type lists struct {
	nodes []store.NodeID
	ends  []int64
}

// source is what a pass over a step's seeds takes batches from.
func (l *Loader) source(s *mini.Shuffled, finish func(*buffer.MacroBatch, *mini.Batch) error) mini.SeedSource {
	switch {
	case l.lists != nil:
		return &listed{lists: l.lists, mb: l.batches.Mb, finish: finish}
	case finish != nil:
		return &finished{Shuffled: s, mb: l.batches.Mb, finish: finish}
	}
	return s
}

// finished is a pass over seeds whose batches go through Options.Finish.
type finished struct {
	*mini.Shuffled
	mb     *buffer.MacroBatch
	finish func(mb *buffer.MacroBatch, b *mini.Batch) error
}

// Finish implements [mini.Finisher].
func (f *finished) Finish(b *mini.Batch) error { return f.finish(f.mb, b) }

// listed is a pass over batches whose seeds the caller named.
type listed struct {
	*lists
	mb     *buffer.MacroBatch
	finish func(mb *buffer.MacroBatch, b *mini.Batch) error // nil: nothing
}

// Batches implements [mini.SeedSource].
func (x *listed) Batches() int { return len(x.ends) }

// Seeds implements [mini.SeedSource].
func (x *listed) Seeds(i int, dst []uint32, _ *mini.Batch) ([]uint32, error) {
	begin := int64(0)
	if i > 0 {
		begin = x.ends[i-1]
	}
	dst = dst[:0]
	for _, v := range x.nodes[begin:x.ends[i]] {
		p, found := slices.BinarySearchFunc(x.mb.Partitions, v, func(p buffer.ResidentPartition, v store.NodeID) int {
			switch {
			case v < p.First:
				return 1
			case uint64(v-p.First) >= uint64(p.Nodes):
				return -1
			}
			return 0
		})
		if !found {
			return nil, fmt.Errorf("train: loader: %w: node %d is not in memory", store.ErrInvalid, v)
		}
		dst = append(dst, x.mb.Partitions[p].Base+uint32(v-x.mb.Partitions[p].First))
	}
	return dst, nil
}

// Finish implements [mini.Finisher].
func (x *listed) Finish(b *mini.Batch) error {
	if x.finish == nil {
		return nil
	}
	return x.finish(x.mb, b)
}
