package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// SampleDeviceRound is what a round of [RunSampleDevice] measured.
type SampleDeviceRound struct {
	Batches       int     `json:"batches"`
	SampledEdges  int64   `json:"sampled_edges"`
	Inputs        int64   `json:"inputs"` // different nodes of each batch, together
	Seconds       float64 `json:"seconds"`
	DeviceSeconds float64 `json:"device_seconds"` // of drawing, by the device's clock
	SentBytes     int64   `json:"sent_bytes"`     // to the device: seeds
	BlockBytes    int64   `json:"block_bytes"`    // that blocks would take there, drawn on the host
}

// SampleDeviceGraph is what the device holds.
type SampleDeviceGraph struct {
	Device    string `json:"device"`
	ListBytes int64  `json:"list_bytes"` // neighbour lists that crossed once
	HeldBytes int64  `json:"held_bytes"` // they, and room for the mini-batches that are drawn ahead
	Checked   int    `json:"checked"`    // mini-batches whose blocks are the host's, entry for entry
}

// RunSampleDevice draws uniform mini-batches on dev from [RunSample]'s graph, ahead of who takes them, in o.Rounds rounds of o.Batches after one in
// which each is compared with the host's sampler, entry for entry: a difference is an error.
func RunSampleDevice(ctx context.Context, dev gpu.Device, o SampleOptions, report func(SampleDeviceRound)) (g SampleDeviceGraph, err error) {
	if err := o.defaults(); err != nil {
		return g, err
	}
	slab, err := blockio.AllocSlab(rmatBytes(o), blockio.SlabOptions{})
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, slab.Free()) }()
	graph, err := rmatInMemory(ctx, o, slab.Bytes())
	if err != nil {
		return g, err
	}
	d := sampleDevice{o: o, graph: graph, config: mini.Config{Fanouts: o.Fanouts, Seed: o.Seed}, perm: keyed.NewPermutation(keyed.New(o.Seed).With(1), o.Nodes)}
	so := sampling.Options{Config: d.config, Rows: graph.In.Rows(), Entries: int64(len(graph.In.Indices)), Batch: min(o.BatchSize, graph.In.Rows())}
	if g.HeldBytes, err = so.Bytes(); err != nil {
		return g, err
	}
	mb := &buffer.MacroBatch{Rows: graph.In.Rows(), In: graph.In, Partitions: []buffer.ResidentPartition{{Nodes: uint32(o.Nodes)}}}
	g.Device, g.ListBytes = dev.Info().String(), sampling.ListBytes(mb, false)
	if d.sampler, err = sampling.New(dev, so); err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, d.sampler.Close()) }()
	if d.queue, err = gpu.NewQueue(dev); err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, d.queue.Close()) }()
	if err := d.sampler.Enter(mb, nil); err != nil {
		return g, err
	}
	if g.Checked, err = d.check(ctx); err != nil {
		return g, err
	}
	for round := range o.Rounds {
		r := SampleDeviceRound{Batches: o.Batches}
		start, was := time.Now(), d.sampler.Stats()
		err := d.round(ctx, 1+round, func(_ int, b *sampling.Batch) error {
			r.Inputs += int64(b.Nodes[0])
			for i, e := range b.Edges {
				r.SampledEdges += int64(e)
				r.BlockBytes += 4 * int64(e+b.Nodes[i+1]+1)
			}
			return nil
		})
		if err != nil {
			return g, err
		}
		spent := d.sampler.Stats().Sub(was)
		r.Seconds, r.DeviceSeconds, r.SentBytes = time.Since(start).Seconds(), spent.Took.Seconds(), spent.Bytes
		report(r)
	}
	return g, d.sampler.Leave(ctx)
}

// sampleDevice is a run of [RunSampleDevice].
type sampleDevice struct {
	o       SampleOptions
	config  mini.Config
	graph   mini.Graph
	perm    keyed.Permutation
	sampler *sampling.Sampler
	queue   *gpu.Queue // of who reads the batches
}

// seeds are those of a batch of a round: different nodes.
func (d *sampleDevice) seeds(round, batch int) []uint32 {
	seeds := make([]uint32, min(uint64(d.o.BatchSize), d.o.Nodes))
	for i := range seeds {
		seeds[i] = uint32(d.perm.At((uint64(round*d.o.Batches+batch)*uint64(len(seeds)) + uint64(i)) % d.o.Nodes))
	}
	return seeds
}

// round draws a round's batches, as many ahead as there is room for.
func (d *sampleDevice) round(ctx context.Context, round int, each func(batch int, b *sampling.Batch) error) error {
	drawn := 0
	for batch := range d.o.Batches {
		if err := ctx.Err(); err != nil {
			return err
		}
		for ; drawn < d.o.Batches && d.sampler.Room() > 0; drawn++ {
			if err := d.sampler.Draw(mini.Key{Epoch: round, Batch: drawn}, d.seeds(round, drawn)); err != nil {
				return err
			}
		}
		b, err := d.sampler.Next(ctx)
		if err != nil {
			return err
		}
		if err := each(batch, b); err != nil {
			return err
		}
		d.sampler.Free(d.queue)
	}
	return nil
}

// check compares a round's batches with the host's.
func (d *sampleDevice) check(ctx context.Context) (checked int, err error) {
	host, err := mini.New(d.config)
	if err != nil {
		return 0, err
	}
	var want mini.Batch
	err = d.round(ctx, 0, func(batch int, got *sampling.Batch) error {
		key := mini.Key{Batch: batch}
		if err := host.Sample(key, d.graph, d.seeds(0, batch), &want); err != nil {
			return err
		}
		checked++
		return d.compare(ctx, got, &want)
	})
	return checked, err
}

// compare says what of a batch on the device is not the host's.
func (d *sampleDevice) compare(ctx context.Context, got *sampling.Batch, want *mini.Batch) error {
	differs := func(what string) error {
		return fmt.Errorf("bench: batch %d: %s on %s are not the host's: its kernels are wrong, please report it", want.Key.Batch, what, d.queue.Device().Info().Name)
	}
	if err := sameOn(ctx, d.queue, got.Input(), want.Input); err != nil {
		return errors.Join(differs("input nodes"), err)
	}
	for i := range want.Blocks {
		k, g := &want.Blocks[i], got.Block(i)
		err := errors.Join(sameOn(ctx, d.queue, g.Indptr, k.Indptr), sameOn(ctx, d.queue, g.Indices, k.Indices), sameOn(ctx, d.queue, got.Degrees(i+1), k.Degrees))
		if err != nil || g.NumSrc != k.NumSrc {
			return errors.Join(differs(fmt.Sprintf("edges of block %d", i)), err)
		}
	}
	return nil
}

// sameOn says where numbers on a device differ from others first.
func sameOn[T int32 | uint32](ctx context.Context, q *gpu.Queue, t gpu.Tensor, want []T) error {
	got := make([]T, t.Cols)
	if len(got) > 0 {
		q.Download(blocks.Bytes(got), t)
	}
	if err := q.Sync(ctx); err != nil {
		return err
	}
	if len(got) != len(want) {
		return fmt.Errorf("there are %d, expected %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("number %d is %d, expected %d", i, got[i], want[i])
		}
	}
	return nil
}
