package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/tools/generate"
)

// SampleOptions configures [RunSample]. The zero value is the default.
type SampleOptions struct {
	Samplers  []string // default: all of [mini.Samplers] and [mini.TimedSamplers]
	Fanouts   []int    // default 15,10,5
	BatchSize int      // seeds; default 1000
	Nodes     uint64   // of the R-MAT graph; default 2,000,000
	Edges     uint64   // default 30,000,000
	Rounds    int      // in each the samplers take turns; default 5
	Batches   int      // a sampler and round; default 20
	Rows      bool     // of a store, gather the batches' features too ([SampleStore])
	Seed      uint64
	// Prune, unless zero, measures uniform and dense with it too; its Degree is the graph's.
	Prune mini.Prune
}

// defaults fills in what is not given.
func (o *SampleOptions) defaults() error {
	if len(o.Fanouts) == 0 {
		o.Fanouts = []int{15, 10, 5}
	}
	o.BatchSize, o.Rounds, o.Batches = cmp.Or(o.BatchSize, 1000), cmp.Or(o.Rounds, 5), cmp.Or(o.Batches, 20)
	o.Nodes, o.Edges = cmp.Or(o.Nodes, 2_000_000), cmp.Or(o.Edges, 30_000_000)
	if o.Nodes > math.MaxUint32 {
		return fmt.Errorf("bench: %d nodes: expected fewer than 2^32", o.Nodes)
	}
	return nil
}

// SampleResult is one sampler's: medians over the rounds, on one thread.
type SampleResult struct {
	Sampler string
	// EdgesPerSecond is of CPU time of one core, OfUniform the median of its ratio to uniform's in the same round.
	EdgesPerSecond, OfUniform float64
	// BatchesPerSecond and BatchesOfUniform are the same of batches.
	BatchesPerSecond, BatchesOfUniform float64
	Edges, Inputs                      float64 // a batch: sampled edges, and different nodes whose features are read
}

// RunSample measures samplers by turns on one R-MAT graph in memory, incoming edges, with weights that are log-normal (σ = 1, so that
// the largest are tens of times the mean) and times that are uniform. Seeds are random nodes, at moments uniform too.
func RunSample(ctx context.Context, o SampleOptions) (out []SampleResult, err error) {
	if len(o.Samplers) == 0 {
		o.Samplers = slices.Concat(mini.Samplers(), mini.TimedSamplers())
	}
	if err := o.defaults(); err != nil {
		return nil, err
	}
	slab, err := blockio.AllocSlab(rmatBytes(o), blockio.SlabOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, slab.Free()) }()
	g, err := rmatInMemory(ctx, o, slab.Bytes())
	if err != nil {
		return nil, err
	}
	key := keyed.New(o.Seed).With(1)
	perm := keyed.NewPermutation(key, o.Nodes)
	var samplers []*mini.Sampler
	var names []string
	add := func(label string, c mini.Config) error {
		c.Fanouts, c.Seed = o.Fanouts, o.Seed
		s, err := mini.New(c)
		samplers, names = append(samplers, s), append(names, label)
		return err
	}
	for _, name := range o.Samplers {
		if err := add(name, mini.Config{Sampler: name}); err != nil {
			return nil, err
		}
		if o.Prune != (mini.Prune{}) && (name == mini.Uniform || name == mini.Dense) {
			o.Prune.Degree = float64(o.Edges) / float64(o.Nodes)
			if err := add(name+", pruned", mini.Config{Sampler: name, Prune: o.Prune}); err != nil {
				return nil, err
			}
		}
	}
	seeds, times := make([]uint32, o.BatchSize*o.Batches), make([]int64, o.BatchSize*o.Batches)
	out = make([]SampleResult, len(samplers))
	seconds, drawn := make([][]float64, len(samplers)), make([][]float64, len(samplers)) // a batch, by round
	into := make([]mini.Batch, len(samplers))                                            // one each, as memory settles at a sampler's sizes
	n := 0
	for round := range o.Rounds + 1 { // the first is to warm up
		for i, s := range samplers {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			for k := range seeds {
				seeds[k] = uint32(perm.At(uint64(n*len(seeds)+k) % o.Nodes))
				times[k] = moment(key, uint64(n*len(seeds)+k))
			}
			n++
			b := &into[i]
			edges, inputs, start := 0, 0, usage.CPUSeconds()
			for batch := range o.Batches {
				seeds, times := seeds[batch*o.BatchSize:][:o.BatchSize], times[batch*o.BatchSize:][:o.BatchSize]
				if slices.Contains(mini.TimedSamplers(), names[i]) {
					err = s.SampleAt(mini.Key{Epoch: n, Batch: batch}, g, seeds, times, b)
				} else {
					err = s.Sample(mini.Key{Epoch: n, Batch: batch}, g, seeds, b)
				}
				if err != nil {
					return nil, err
				}
				edges, inputs = edges+b.SampledEdges(), inputs+len(b.Input)
			}
			spent := usage.CPUSeconds() - start
			if round == 0 {
				continue
			}
			seconds[i], drawn[i] = append(seconds[i], spent/float64(o.Batches)), append(drawn[i], float64(edges)/float64(o.Batches))
			out[i].Edges, out[i].Inputs = float64(edges)/float64(o.Batches), float64(inputs)/float64(o.Batches)
		}
	}
	uniform := slices.Index(names, mini.Uniform)
	for i := range out {
		var edges, batches, edgesOf, batchesOf []float64
		for r, s := range seconds[i] {
			edges, batches = append(edges, drawn[i][r]/s), append(batches, 1/s)
			if uniform >= 0 {
				of := seconds[uniform][r] / s
				edgesOf, batchesOf = append(edgesOf, of*drawn[i][r]/drawn[uniform][r]), append(batchesOf, of)
			}
		}
		out[i].Sampler, out[i].EdgesPerSecond, out[i].BatchesPerSecond = names[i], median(edges), median(batches)
		if uniform >= 0 {
			out[i].OfUniform, out[i].BatchesOfUniform = median(edgesOf), median(batchesOf)
		}
	}
	return out, nil
}

// momentsMax bounds the times of edges and seeds.
const momentsMax = 1 << 40

func moment(key keyed.Key, i uint64) int64 { return int64(key.At(i) % momentsMax) }

// rmatBytes is the memory that [rmatInMemory] takes.
func rmatBytes(o SampleOptions) int64 {
	const span, index, weight, sum, time, key = 16, 4, 4, 8, 8, 4
	return int64(o.Nodes*(span+key)+o.Edges*(index+weight+time)+(o.Edges/buffer.SumEdges+1)*sum) + 6*blocks.Alignment
}

// carve takes n elements off the front of b, at a multiple of [blocks.Alignment].
func carve[T any](b *[]byte, n uint64) []T {
	size := n * uint64(unsafe.Sizeof(*new(T)))
	out := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData((*b)[:size]))), n)
	*b = (*b)[min(blocks.AlignUp(int64(size)), int64(len(*b))):]
	return out
}

// rmatInMemory is the graph by destination, with what every sampler reads, in mem: zeroed memory like the one that a store's
// partitions lie in, as pages of another size would be another measurement.
func rmatInMemory(ctx context.Context, o SampleOptions, mem []byte) (g mini.Graph, err error) {
	source, err := generate.NewRMAT(generate.RMATOptions{Nodes: o.Nodes, Edges: o.Edges, Seed: o.Seed})
	if err != nil {
		return g, err
	}
	a := &buffer.Adjacency{Spans: carve[buffer.Span](&mem, o.Nodes), Indices: carve[uint32](&mem, o.Edges), Weights: carve[float32](&mem, o.Edges),
		Sums: carve[float64](&mem, o.Edges/buffer.SumEdges+1), Times: carve[int64](&mem, o.Edges)}
	const piece = 1 << 16
	src, dst := make([]uint64, piece), make([]uint64, piece)
	each := func(f func(src, dst uint64)) error {
		for at := uint64(0); at < o.Edges; at += piece {
			if err := ctx.Err(); err != nil {
				return err
			}
			k := min(piece, o.Edges-at)
			source.Edges(at, src[:k], dst[:k])
			for i := range k {
				f(src[i], dst[i])
			}
		}
		return nil
	}
	// A counting sort by destination: degrees, places, then the edges.
	if err := each(func(_, d uint64) { a.Spans[d].End++ }); err != nil {
		return g, err
	}
	at := int64(0)
	for v := range a.Spans {
		n := a.Spans[v].End
		a.Spans[v] = buffer.Span{Begin: at, End: at}
		at += n
	}
	key := keyed.New(o.Seed).With(2)
	err = each(func(s, d uint64) {
		e := a.Spans[d].End
		r := key.Rand(uint64(e))
		a.Indices[e], a.Weights[e], a.Times[e] = uint32(s), float32(math.Exp(r.Normal())), moment(key, uint64(e))
		a.Spans[d].End++
	})
	if err != nil {
		return g, err
	}
	a.SumWeights(0, len(a.Spans))
	keys := carve[uint32](&mem, o.Nodes)
	for v, s := range a.Spans {
		slices.Sort(a.Times[s.Begin:s.End])
		keys[v] = uint32(v)
	}
	return mini.Graph{In: a, Keys: keys}, nil
}
