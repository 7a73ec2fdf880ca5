package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/source"
)

// Prospect is an ingest whose nodes are counted and whose edges are not sorted yet: what [Options].Decide goes by.
type Prospect struct{ job *Job }

// Nodes is the number of nodes.
func (p *Prospect) Nodes() uint64 { return p.job.State.Nodes }

// Edges is the number of edges in the input; where the input does not say it, they are read and counted.
func (p *Prospect) Edges(ctx context.Context) (int64, error) {
	if err := p.job.countEdges(ctx); err != nil {
		return 0, err
	}
	return p.job.edgesKnown(), nil
}

// Describe describes the input.
func (p *Prospect) Describe() *source.Description { return p.job.Desc }

// Rows streams the rows of node column c of the input, as they are there, in any order.
func (p *Prospect) Rows(ctx context.Context, c int, fn func(rows []byte) error) error {
	r := p.job
	r.Phase("look at "+r.Desc.NodeColumns[c].Name, "rows", int64(p.Nodes()))
	return r.eachRow(ctx, c, func(rows []byte, _ source.Position) error {
		r.Tick(int64(len(rows) / r.Desc.NodeColumns[c].RowBytes()))
		return fn(rows)
	})
}

// LeastBytes is the smallest budget that works for an ingest by o, which may differ from the job's options in layout, budget and Later.
func (p *Prospect) LeastBytes(o Options) (n int64) {
	p.job.with(o, func() { n = p.job.leastBytes(p.job.placeBytesOf(p.job.State.Nodes)) })
	return n
}

// Manifest is the manifest that an ingest by o would make, as far as it is known, without files. Its partitions are at least as large
// as most will be.
func (p *Prospect) Manifest(o Options) (m *store.Manifest) {
	p.job.with(o, func() { m = p.job.planned() })
	return m
}

// with calls fn while the job's options are o.
func (r *Job) with(o Options, fn func()) {
	old := r.Options
	r.Options = o
	defer func() { r.Options = old }()
	fn()
}

// decide has Options.Decide choose, within the job's budget, and keeps what it chose. settle is for when it is known to work.
func (r *Job) decide(ctx context.Context) (settle func(), err error) {
	if r.Options.Decide == nil || !r.whole {
		return func() {}, nil
	}
	o := r.Options
	settle, err = o.Decide(ctx, &Prospect{r}, &o)
	if err != nil {
		return nil, err
	}
	r.Options = o
	chosen := fmt.Sprintf("%s %d hubs=%t", o.Partitioner, o.Partitions, o.HubsAuto)
	if old := r.State.Chosen; old != "" && old != chosen {
		return nil, fmt.Errorf("%w: within %d MiB the layout would be %s, that of the interrupted ingest is %s; ingest without --resume to begin anew",
			source.ErrResume, o.MemoryBytes>>20, chosen, old)
	}
	r.State.Chosen = chosen
	return settle, nil
}

// smallest is a budget that works, where the job's own does not: of options that depend on the budget, those that are chosen with it.
func (r *Job) smallest(ctx context.Context) (int64, error) {
	const mib = 1 << 20
	least, asked := int64(0), r.Options.MemoryBytes
	for {
		o := r.Options
		o.MemoryBytes = max(least, asked)
		if r.whole && r.Options.Decide != nil {
			if _, err := o.Decide(ctx, &Prospect{r}, &o); err != nil {
				return 0, err
			}
		}
		var err error
		more := int64(0)
		r.with(o, func() { more, err = r.countedLeast(ctx) })
		if err != nil {
			return 0, err
		}
		if more = (more + mib - 1) / mib * mib; more <= least || !r.whole || r.Options.Decide == nil {
			return max(least, more), nil
		}
		least = more
	}
}

// countedLeast is leastBytes where edges are as uneven as they are, as far as that can be known before nodes are assigned by them.
func (r *Job) countedLeast(ctx context.Context) (int64, error) {
	places := r.placeBytesOf(r.State.Nodes)
	p := r.partitions(r.State.Nodes)
	if !r.whole || r.looksAtGraph() || r.Options.HubsTrain || p > countedPartitions || r.evenEnough(p, r.leastBytes(places)) {
		return r.leastBytes(places), nil
	}
	a, err := partitioner.Partition(ctx, nil, r.partitionerOptions(p))
	if err != nil {
		return 0, err
	}
	parts := make([]blocks.PartitionID, r.State.Nodes)
	a.Assign(0, parts)
	r.counts, err = r.countBuckets(ctx, a.Partitions(), func(v uint64) uint64 { return uint64(parts[v]) })
	defer func() { r.counts = nil }()
	return r.leastBytes(places), err
}

// countEdges counts the edges of an input that does not say how many it has.
func (r *Job) countEdges(ctx context.Context) error {
	if r.Desc.Edges >= 0 || r.State.Counted > 0 || r.Kept != nil {
		return nil
	}
	var n atomic.Int64
	r.Phase("count edges", "edges", -1)
	env := r.Env()
	env.MemoryBytes = SourceBytes
	err := r.Source.Edges(ctx, env, func(_ int, b *source.EdgeBatch) error {
		n.Add(int64(b.Len()))
		r.Tick(int64(b.Len()))
		return ctx.Err()
	})
	r.State.Counted = n.Load()
	return err
}

// Bytes of input that an edge takes at least: of text, and of what may be compressed.
const (
	textEdgeBytes   = 4 // "1 2\n"
	packedEdgesByte = 8 // edges a byte, instead
)

// edgesMost is how many edges the input can have.
func (r *Job) edgesMost() int64 {
	if n := r.edgesKnown(); n > 0 || r.Desc.Edges == 0 {
		return n
	}
	if r.most > 0 {
		return r.most
	}
	n := int64(0)
	for _, path := range r.Desc.Files {
		info, err := r.Options.FS.Stat(path)
		if err != nil { // who reads it will say so
			continue
		}
		if strings.HasSuffix(path, ".csv") || strings.HasSuffix(path, ".tsv") || strings.HasSuffix(path, ".txt") {
			n += info.Size() / textEdgeBytes
		} else {
			n += info.Size() * packedEdgesByte
		}
	}
	r.most = n
	return n
}

const (
	// uneven is how many times an even share of edges the largest bucket is taken to hold before it is worth a pass over the input to
	// count what buckets hold.
	uneven = 16
	// countedUnasked is the most edges of an input of which the largest bucket is taken to hold all: a pass over them is short.
	countedUnasked = 1 << 22
	// countedPartitions is the most partitions between which edges are counted, 8 bytes a pair: buckets of more are small.
	countedPartitions = 1024
)

// bucketCounts says how uneven the input's edges are.
type bucketCounts struct {
	into    []uint64 // edges that end in each partition
	largest int64    // of the edges from one partition to one
}

// evenEnough reports whether a budget is enough for p partitions though buckets hold uneven times as many edges as they would evenly.
func (r *Job) evenEnough(p int, memory int64) bool {
	if r.counts != nil {
		return true
	}
	n := max(r.edgesMost(), 1)
	r.counts = &bucketCounts{largest: n, into: slices.Repeat([]uint64{uint64(min(n, uneven*max(1, n/int64(p))))}, p)}
	if p > 1 && n > countedUnasked {
		r.counts.largest = min(n, uneven*max(1, n/int64(p)/int64(p)))
	}
	defer func() { r.counts = nil }()
	return r.leastBytes(r.placeBytesOf(r.State.Nodes)) <= memory
}

// checkUneven refuses, before edges are sorted, a budget in which the largest bucket cannot be, or in which what is done with the store
// later does not fit the partitions with most edges. It reads the input's edges once more, where the budget is so small that
// this may be.
func (r *Job) checkUneven(ctx context.Context) (err error) {
	p := len(r.Layout.Sizes)
	if !r.whole || len(r.Manifest.Topology) > 0 || p > countedPartitions || r.evenEnough(p, r.Options.MemoryBytes) {
		return nil
	}
	bits := r.Layout.LocalBits
	if r.counts, err = r.countBuckets(ctx, p, func(v uint64) uint64 { return r.Places.Of(v) >> bits }); err != nil {
		return err
	}
	if least := r.leastBytes(r.placeBytesOf(r.State.Nodes)); least > r.Options.MemoryBytes {
		return r.tooSmall(least)
	}
	return nil
}

// countBuckets counts the input's edges by the partitions, p of them, in which they end and begin, as they are sorted.
func (r *Job) countBuckets(ctx context.Context, p int, of func(node uint64) uint64) (*bucketCounts, error) {
	rules := r.rules()
	counts := make([]int64, p*p)
	var mu sync.Mutex
	r.Phase("count edges", "edges", r.Desc.Edges)
	edges := int64(0)
	err := r.DenseEdges(ctx, func(_ int, b *source.EdgeBatch) error {
		mu.Lock()
		defer mu.Unlock()
		for i, s := range b.Src.Ints {
			d := b.Dst.Ints[i]
			if s >= r.State.Nodes || d >= r.State.Nodes || s == d && !rules.KeepLoops {
				continue // refused, or dropped, where they are read to be sorted
			}
			from, to := of(s), of(d)
			if rules.Undirected {
				from, to = min(from, to), max(from, to)
			}
			counts[int(to)*p+int(from)]++
		}
		edges += int64(b.Len())
		r.Tick(int64(b.Len()))
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	if r.Options.SelfLoops == SelfLoopsAdd {
		for k, n := range r.evenSizes() {
			counts[k*p+k] += int64(n)
		}
	}
	if r.Desc.Edges < 0 {
		r.State.Counted = edges
	}
	c := &bucketCounts{into: make([]uint64, p)}
	for b, n := range counts {
		c.largest = max(c.largest, n)
		c.into[b/p] += uint64(n)
	}
	return c, nil
}
