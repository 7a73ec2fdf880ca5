package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/vectors"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/rows"
)

// historyElem is what the history's rows are stored as: by default float16 where all features take 16 bits or fewer, else float32.
func (c *Config) historyElem(m *store.Manifest) (blocks.ElemType, error) {
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
// partition buffer and what [Memory.BesideBytes] counts; 0: no bound. c.Features must be filled in.
func (c *Config) MacroOptions(m *store.Manifest) buffer.Options {
	o := buffer.Options{EngineName: c.IOEngine, Pinned: m.Pinned, Features: c.read(), Runs: true, Labels: true, EdgeFeatures: c.EdgeFeatures, Split: "train", SplitColumn: c.Split, Threads: c.Threads}
	if c.relational() {
		o.Relations, o.Both = true, !m.Schema.Undirected
	}
	if c.vectorsOf != nil {
		o.TableDim, o.TablePlanes, o.TableRows = c.Hidden, vectors.Planes, c.vectorsOf.Rows
	}
	o.Weights, o.Keys = c.EdgeWeights || c.Sampler == mini.Weighted, c.Sampler == mini.Labor || c.DevicePlan == macro.DeviceLBS
	if c.MemoryBytes > 0 {
		left := budget.Share(c.MemoryBytes, budget.ProgramBytes, 1)
		o.MemoryBytes = max(left-left/budget.EvalShare-left/budget.BatchShare, 1)
	}
	return o
}

// resident is how many partitions are in memory at once, pinned ones included, once the plan is chosen.
func (c *Config) resident(m *store.Manifest) int {
	return min(len(m.Partitions), c.Buffer+len(m.Pinned))
}

// HistoryCost forecasts the history of a run on a store whose partitions have so many training nodes (nil: as the manifest says),
// at most resident of them in memory at once, pinned ones included, in so many steps an epoch. c's defaults and c.Features must be filled in.
func (c *Config) HistoryCost(m *store.Manifest, trained []uint64, resident, steps int) (HistoryCost, error) {
	return c.historyCost(m, trained, resident, steps, nil)
}

// historyCost is HistoryCost that goes by how many relations nodes have, if w is not nil.
func (c *Config) historyCost(m *store.Manifest, trained []uint64, resident, steps int, w *draws) (HistoryCost, error) {
	d := *c
	s, err := nodeShape(m, &d)
	if err != nil && c.relational() { // others' rows depend on no shape
		return HistoryCost{}, fmt.Errorf("train: history: %w", err)
	}
	of, err := c.histories(m, s)
	if err != nil {
		return HistoryCost{}, fmt.Errorf("train: history: %w", err)
	}
	parts := slices.Clone(m.Partitions)
	for p := range trained {
		parts[p].Train = trained[p]
	}
	most := c.storedEdges(m) // no node has more relations than edges
	relations := func(nodes int64, unread bool) int64 { return most }
	if w != nil {
		relations = func(nodes int64, unread bool) int64 {
			if unread {
				return w.unread.most(nodes)
			}
			return w.relations.most(nodes)
		}
	}
	return costHistory(parts, m.Pinned, relations, of, resident, steps), nil
}

// histories says which histories a run on a store keeps: of a model of means the last layer's, where the first hop may be
// precomputed; of one that tells relations apart, which has no such hop, all layers'. c's plan need not be chosen for what they cost.
func (c *Config) histories(m *store.Manifest, s shape) ([]historyOptions, error) {
	elem, err := c.historyElem(m)
	if err != nil {
		return nil, err
	}
	o := historyOptions{split: c.Split, elem: elem, resident: c.resident(m)}
	if !c.relational() {
		o.layer, o.dim = c.Layers-1, c.Hidden
		o.undivided, o.symmetric = c.hopKind().Sum != "", c.Model == "gcn"
		o.attention = c.Model == "gat"
		return []historyOptions{o}, nil
	}
	model := c.model(s)
	o.relations = model.Relations
	if len(model.Categories) > 0 {
		o.input = 1
	}
	var of []historyOptions
	for l := range c.Layers {
		o.layer, o.dim, o.every, o.without = l, c.Hidden, l < c.Layers-1, nil
		if l == 0 {
			o.without = c.hopRelations(m)
		}
		if l == 0 && o.input == 0 {
			o.dim = s.in
		}
		of = append(of, o)
	}
	return of, nil
}

// openBatches is a partition buffer, or a [rows.Reader].
type openBatches interface {
	macroBatches
	MemoryBytes() int64
	Close() error
}

// openMacroBatches opens what a choice reads with, and its plan, which it fills in in cfg.
func openMacroBatches(ctx context.Context, st *store.Store, cfg *Config, choice *macro.Choice, o buffer.Options) (openBatches, macro.Policy, error) {
	m := st.Manifest()
	loose := len(m.Partitions) - len(m.Pinned)
	cfg.Plan, cfg.Buffer = choice.Policy, choice.Capacity
	if choice.Policy == macro.Memory || choice.Policy == macro.Rows {
		cfg.Buffer = loose
	}
	policy, err := macro.New(choice.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("train: plan %s with %d of %d partitions: %w", cfg.Plan, cfg.Buffer, loose, err)
	}
	var it openBatches
	if choice.Policy == macro.Rows {
		it, err = rows.Open(ctx, st, cfg.rowsOptions(m, o, choice.Rows))
	} else {
		it, err = buffer.Open(ctx, st, o)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("train: plan %s with %d of %d partitions in memory: %w", cfg.Plan, cfg.Buffer, loose, err)
	}
	return it, policy, nil
}
