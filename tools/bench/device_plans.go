package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/buffer"
)

// plans counts what is no cache: mirrored steps, and the two samplers of large parts.
func (d *device) plans(ctx context.Context, places int, g DeviceGraph) (rows []DeviceRow, err error) {
	room := int64(places) + g.Largest
	var sent, untaken uint64
	fits := true
	d.rec.CountTouched()
	for _, s := range d.rec.Steps {
		fits = fits && int64(s.Rows) <= room
		if s.First >= d.cut {
			sent, untaken = sent+s.Sent, untaken+s.Untaken
		}
	}
	if fits {
		rows = append(rows, DeviceRow{Policy: macro.DeviceMirror, FeatureBytes: int64(sent) * d.rowBytes, StructureBytes: d.blocks[1]},
			DeviceRow{Policy: "mirror, ahead of time", FeatureBytes: int64(untaken) * d.rowBytes, StructureBytes: d.blocks[1]})
	}
	for k := len(d.large) - 1; k >= 0; k-- {
		large := &d.large[k]
		if int64(large.Largest()) > room {
			continue
		}
		per := 2 << k
		features := large.Inputs() * d.rowBytes * int64(g.Batches) / int64(g.Batches/per*per)
		rows = append(rows, DeviceRow{Policy: fmt.Sprintf("lbs, %d batches", per), FeatureBytes: features, StructureBytes: large.BlockBytes, Sampler: true})
		break
	}
	whole, ahead, err := d.partitions(ctx, places, room, g)
	if err != nil {
		return nil, err
	}
	if whole.FeatureBytes > 0 {
		rows = append(rows, whole, ahead)
	}
	return rows, nil
}

// partitions counts partition-based sampling (thesis, section 5.2.2): whole macro-batches, and what is left of them after
// ahead-of-time sampling. Both are of no bytes where not even one partition fits.
func (d *device) partitions(ctx context.Context, places int, room int64, g DeviceGraph) (whole, ahead DeviceRow, err error) {
	l, err := train.OpenLoader(ctx, d.s, d.cfg, train.LoaderOptions{Structure: true})
	if err != nil {
		return whole, ahead, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.Start(d.o.Epochs, progress.Place{}); err != nil {
		return whole, ahead, err
	}
	p := &parts{d: d, left: g.Batches * d.cfg.BatchSize, room: room}
	if p.sampler, err = mini.New(mini.Config{Fanouts: d.cfg.Fanouts, Seed: d.cfg.Seed}); err != nil {
		return whole, ahead, err
	}
	for step := -1; p.left > 0 && l.Next(); {
		if b := l.Batch(); b.Key.Step != step {
			step = b.Key.Step
			if err := p.step(l.MacroBatch(), float64(places)/float64(g.Rows), step); err != nil {
				return whole, ahead, err
			}
		}
	}
	if p.misfit || p.seeds == 0 {
		return whole, ahead, l.Err()
	}
	// As many seeds as the other rows have.
	scale := float64(g.Batches*d.cfg.BatchSize-max(0, p.left)) / float64(p.seeds)
	row := func(name string, b [2]int64) DeviceRow {
		return DeviceRow{Policy: name, FeatureBytes: int64(scale * float64(b[0])), StructureBytes: int64(scale * float64(b[1])), Sampler: true}
	}
	return row(fmt.Sprintf("pbs, %d partitions", p.group), p.whole), row("pbs, ahead of time", p.ahead), l.Err()
}

// parts counts macro-batches of some partitions with the nodes around them.
type parts struct {
	d       *device
	sampler *mini.Sampler
	left    int   // seeds to train yet
	room    int64 // feature rows
	misfit  bool  // a macro-batch exceeded it
	group   int   // partitions
	seeds   int
	whole   [2]int64 // bytes of rows, of structure
	ahead   [2]int64
}

const placeParts = 0x70627300 // "pbs": which partitions go together

// step counts a step's groups of partitions.
func (p *parts) step(mb *buffer.MacroBatch, share float64, step int) error {
	order := append([]buffer.ResidentPartition(nil), mb.Partitions...)
	r := keyed.New(p.d.cfg.Seed).With(placeParts).Rand(uint64(step))
	keyed.Shuffle(&r, order)
	p.group = max(1, int(share*float64(len(order))))
	for len(order) > 0 && p.left > 0 && !p.misfit {
		n := min(p.group, len(order))
		if err := p.macroBatch(mb, order[:n]); err != nil {
			return err
		}
		order = order[n:]
	}
	return nil
}

// macroBatch counts one. Inner rows come with their features, those around them with their hidden states of every layer
// but the last; neighbours of the latter are not sampled.
func (p *parts) macroBatch(mb *buffer.MacroBatch, group []buffer.ResidentPartition) error {
	const inner, halo, used = 1, 2, 4
	kind := make([]uint8, mb.Rows)
	spans := make([]buffer.Span, len(mb.In.Spans))
	for _, q := range group {
		for r := q.Base; r < q.Base+q.Nodes; r++ {
			kind[r], spans[r] = inner, mb.In.Spans[r]
		}
	}
	hidden := int64(4 * p.d.cfg.Hidden * (len(p.d.cfg.Fanouts) - 1))
	var rows [2]int64 // inner, halo
	for _, q := range group {
		rows[0] += int64(q.Nodes)
		for _, s := range spans[q.Base : q.Base+q.Nodes] {
			p.whole[1] += spanBytes + 4*(s.End-s.Begin)
			for _, u := range mb.In.Indices[s.Begin:s.End] {
				if kind[u] == 0 {
					kind[u] = halo
					rows[1]++
				}
			}
		}
	}
	bytes := rows[0]*p.d.rowBytes + rows[1]*hidden
	p.misfit = p.misfit || bytes > p.room*p.d.rowBytes
	p.whole[0] += bytes
	var seeds []uint32
	for _, s := range mb.Seeds {
		if kind[s] == inner {
			seeds = append(seeds, s)
		}
	}
	graph := mini.Graph{In: &buffer.Adjacency{Spans: spans, Indices: mb.In.Indices}}
	var b mini.Batch
	for i := 0; i < len(seeds); i += p.d.cfg.BatchSize {
		key := mini.Key{Epoch: p.d.o.Epochs, Step: mb.StepIndex, Pass: int(group[0].ID), Batch: i}
		if err := p.sampler.Sample(key, graph, seeds[i:min(len(seeds), i+p.d.cfg.BatchSize)], &b); err != nil {
			return err
		}
		p.ahead[1] += train.BlockBytes(&b)
		for _, r := range b.Input {
			if kind[r]&used != 0 {
				continue
			}
			if kind[r] == inner {
				p.ahead[0] += p.d.rowBytes
			} else {
				p.ahead[0] += hidden
			}
			kind[r] |= used
		}
	}
	p.seeds, p.left = p.seeds+len(seeds), p.left-len(seeds)
	return nil
}
