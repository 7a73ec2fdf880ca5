package ondevice

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/loader"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// RecordOptions say what [config.Config.RecordDevice] samples. The zero value is the whole first epoch.
type RecordOptions struct {
	Info    gpu.Info // the run's device
	Epochs  int      // from the first on; 0 = 1
	Batches int      // of each epoch, at most; 0 = all
	// Each, if not nil, is told of every batch before it is recorded, with its epoch from 0.
	Each func(epoch int, mb *buffer.MacroBatch, b *mini.Batch)
}

// Record samples a run's epochs, structure only and one pass over each step, and returns what they ask of a device.
func Record(c *config.Config, ctx context.Context, st *store.Store, o RecordOptions) (rec macro.DeviceRecord, err error) {
	at, step := -1, -1
	err = sample(c, ctx, st, o, func(epoch int, mb *buffer.MacroBatch, b *mini.Batch) {
		if epoch != at || b.Key.Step != step {
			at, step = epoch, b.Key.Step
			rec.Step(mb.Rows, mb.Partitions)
			if mb.In.Spans != nil {
				rec.Lists(sampling.ListBytes(mb, true), (len(mb.Seeds)+c.BatchSize-1)/c.BatchSize)
			}
		}
		if o.Each != nil {
			o.Each(epoch, mb, b)
		}
		rec.Batch(c.Inputs(b), besideFeatures(c, st.Manifest(), b))
		rec.Seeds = append(rec.Seeds, sampling.SeedBytes(len(b.Seeds)))
	})
	return rec, err
}

// sample samples what o says of a run, structure only.
func sample(c *config.Config, ctx context.Context, st *store.Store, o RecordOptions, each func(epoch int, mb *buffer.MacroBatch, b *mini.Batch)) (err error) {
	cfg := *c
	cfg.History, cfg.HistoryDtype, cfg.Reuse, cfg.ReusePasses = false, "", 0, nil // which add no batch to the first pass, and change none
	if cfg.Plan == macro.Memory {
		cfg.Buffer = 0
	}
	l, err := loader.Open(ctx, st, cfg, loader.Options{Structure: true, Info: o.Info})
	if err != nil {
		return fmt.Errorf("train: sample for the device's plan: %w", err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for epoch := range max(1, o.Epochs) {
		if err := l.Start(epoch, progress.Place{}); err != nil {
			return err
		}
		for n := 0; (o.Batches == 0 || n < o.Batches) && l.Next(); n++ {
			each(epoch, l.MacroBatch(), l.Batch())
		}
		if err := l.Err(); err != nil {
			return err
		}
	}
	return nil
}

// besideFeatures is what a mini-batch takes to a device beside its features: its blocks, and with a history each seed's states, where they
// are, and what they are divided by.
func besideFeatures(c *config.Config, m *store.Manifest, b *mini.Batch) (n int64) {
	n = BlockBytes(b)
	if c.History {
		elem, err := c.HistoryElem(m)
		if err != nil { // whoever makes the history says so
			elem = blocks.Float32
		}
		n += int64(len(b.Seeds)) * int64(c.Hidden*elem.Size()+4+4)
	}
	return n
}

// BlockBytes is what a mini-batch's blocks take to a device.
func BlockBytes(b *mini.Batch) (n int64) {
	for i := range b.Blocks {
		if b.Nested && i > 0 { // one copy for all layers
			break
		}
		k := &b.Blocks[i]
		n += 4 * int64(len(k.Indptr)+len(k.Indices))
	}
	return n
}

// hotNodes are the nodes that an epoch visits most, hottest first, by internal id. The zero value is none.
type hotNodes struct {
	nodes []uint32 // rows of plan memory are fewer than 2³²
	why   []string
}

// first are the hottest n.
func (h hotNodes) first(n int) hotNodes { return hotNodes{nodes: h.nodes[:n]} }

// rows are the nodes' rows where all partitions are resident.
func (h hotNodes) rows(resident []buffer.ResidentPartition) []uint32 {
	if h.nodes == nil {
		return nil
	}
	rows := make([]uint32, len(h.nodes))
	for i, v := range h.nodes {
		// The last partition that begins at v or before, as empty ones share a beginning.
		at, _ := slices.BinarySearchFunc(resident, v, func(p buffer.ResidentPartition, v uint32) int {
			if uint32(p.First) <= v {
				return -1
			}
			return 1
		})
		p := &resident[at-1]
		rows[i] = p.Base + v - uint32(p.First)
	}
	return rows
}

// presampled are the most visited nodes of an epoch of runs like c, at most so many: those that the store keeps, or, if c asks for presc,
// those that are counted and kept now. Where partitions move there are none.
func presampled(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info, most int64) (h hotNodes, err error) {
	m := st.Manifest()
	if c.Capacity(m) > 0 || c.DeviceCache != config.CacheAuto && c.DeviceCache != cache.NamePreSC || c.DevicePlan == macro.DeviceMirror {
		return h, nil
	}
	kind, err := visitsKind(c, m)
	if err != nil {
		return h, err
	}
	visits, err := st.Visits(ctx, kind)
	if ctx.Err() != nil {
		return h, ctx.Err()
	}
	if err != nil { // a run can do without them
		visits = nil
		h.why = append(h.why, fmt.Sprintf("device: how often an epoch visits each node cannot be read from the store: %v", err))
	} else if visits != nil {
		h.why = append(h.why, "device: how often an epoch visits each node is known from an earlier run")
	}
	if visits == nil && c.DeviceCache == cache.NamePreSC {
		if visits, err = countVisits(c, ctx, st, info); err != nil {
			return h, err
		}
		why := "device: an epoch was sampled to count visits, which the store keeps for later runs"
		if err := st.KeepVisits(ctx, kind, visits); err != nil {
			why = fmt.Sprintf("device: an epoch was sampled to count visits, which a later run does again: %v", err)
		}
		h.why = append(h.why, why)
	}
	if visits != nil {
		h.nodes = cache.Hottest(visits, int(min(most, int64(len(visits)))))
	}
	return h, nil
}

// visitsKind names what decides visits beside the graph and chance: sampler and seeds.
func visitsKind(c *config.Config, m *store.Manifest) (kind [16]byte, err error) {
	split, err := m.SplitColumn(c.Split)
	if err != nil {
		return kind, err
	}
	var walks *mini.Walks
	if c.Sampler == mini.Pinsage {
		w := c.WalkOptions()
		walks = &w
	}
	b, err := json.Marshal(struct {
		Sampler         string
		Fanouts         []int
		RelationFanouts string      `json:",omitempty"`
		Prune           string      `json:",omitempty"`
		Walks           *mini.Walks `json:",omitempty"`
		Batch, Together int
		Group           int
		Split           string
		BothDirections  bool
		Hops            []string `json:",omitempty"`
	}{c.Sampler, c.Sampled(), c.RelationFanouts, c.Prune, walks, c.BatchSize, c.Together(), c.Group, split.Name, c.Relational() && !m.Schema.Undirected, c.Hops})
	sum := sha256.Sum256(b)
	copy(kind[:], sum[:])
	return kind, err
}

// countVisits counts how often each node, by internal id, feeds the mini-batches of the first epoch. It takes 8 bytes a node beside
// a loader without features, less than the features that the run will have in memory.
func countVisits(c *config.Config, ctx context.Context, st *store.Store, info gpu.Info) (visits []uint32, err error) {
	var h *cache.Hotness // by row
	var resident []buffer.ResidentPartition
	var failed error
	err = sample(c, ctx, st, RecordOptions{Info: info}, func(_ int, mb *buffer.MacroBatch, b *mini.Batch) {
		if h == nil && failed == nil {
			h, failed = cache.NewHotness(mb.Rows)
			resident = slices.Clone(mb.Partitions)
		}
		if failed == nil {
			h.Observe(c.Inputs(b))
		}
	})
	if h != nil {
		defer func() { err = errors.Join(err, h.Close()) }()
	}
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	visits = make([]uint32, st.Manifest().Nodes)
	for _, p := range resident {
		copy(visits[p.First:], h.Visits()[p.Base:p.Base+p.Nodes])
	}
	return visits, nil
}
