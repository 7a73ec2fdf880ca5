package config

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/vectors"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// Capacity is Buffer as the batch meter takes it: 0 is all.
func (c *Config) Capacity(m *store.Manifest) int {
	if c.Plan == macro.Memory || c.Buffer >= len(m.Partitions)-len(m.Pinned) {
		return 0
	}
	return c.Buffer
}

// HistoryElem is what the history's rows are stored as: by default float16 where all features take 16 bits or fewer, else float32.
func (c *Config) HistoryElem(m *store.Manifest) (blocks.ElemType, error) {
	if c.HistoryDtype != "" {
		return blocks.ParseElemType(c.HistoryDtype)
	}
	if len(c.Features) == 0 {
		return blocks.Invalid, fmt.Errorf("%w: no feature columns", store.ErrNotFound)
	}
	for _, name := range c.Features {
		column, err := m.Column(name)
		if err != nil {
			return blocks.Invalid, err
		}
		if column.Elem.Size() > 2 {
			return blocks.Float32, nil
		}
	}
	return blocks.Float16, nil
}

// MacroOptions are those of a run on a store, before its plan is chosen. MemoryBytes is what the run's budget leaves the
// partition buffer and what planning.Memory.BesideBytes counts; 0: no bound. c.Features must be filled in.
func (c *Config) MacroOptions(m *store.Manifest) buffer.Options {
	o := buffer.Options{EngineName: c.IOEngine, Pinned: m.Pinned, Features: c.read(), Runs: true, Labels: true, EdgeFeatures: c.EdgeFeatures, Split: "train", SplitColumn: c.Split, Seeds: c.Nodes, Threads: c.Threads}
	if c.Sparse != nil { // features are held apart
		o.Features = nil
	}
	if c.Relational() {
		o.Relations, o.Both = true, c.Directions(m) == 2
	}
	if c.VectorsOf != nil {
		o.TableDim, o.TablePlanes, o.TableRows = c.Hidden, vectors.Planes, c.VectorsOf.Rows
	}
	o.Weights, o.Keys = c.EdgeWeights || c.Sampler == mini.Weighted, c.Sampler == mini.Labor || c.DevicePlan == macro.DeviceLBS
	if c.MemoryBytes > 0 {
		left := budget.Share(c.MemoryBytes, budget.ProgramBytes, 1)
		o.MemoryBytes = max(left-left/budget.EvalShare-left/budget.BatchShare, 1)
	}
	return o
}

// Resident is how many partitions are in memory at once, pinned ones included, once the plan is chosen.
func (c *Config) Resident(m *store.Manifest) int {
	return min(len(m.Partitions), c.Buffer+len(m.Pinned))
}
