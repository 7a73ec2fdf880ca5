package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/rows"
)

// Node trains a node classifier on a store by dev and returns its checkpoint: the
// best epoch's parameters with the configuration in full and the summary. ctx
// ends the run early, with its error. Store and device stay the caller's.
func Node(ctx context.Context, st *store.Store, dev gpu.Device, cfg Config, hooks Hooks) (_ *Checkpoint, err error) {
	m := st.Manifest()
	from, state, err := resumeNode(st.Files().FS(), &cfg, m)
	if err != nil {
		return nil, err
	}
	every, err := progress.ParseInterval(cfg.CheckpointEvery)
	if err != nil {
		return nil, err
	}
	if _, err := nodeShape(m, &cfg); err != nil {
		return nil, err
	}
	var once counted
	completed, err := cfg.complete(ctx, st, dev.Info(), &once)
	if err != nil {
		return nil, err
	}
	dropped := cfg.inputDropout()
	cfg.InputDropout = &dropped // the configuration is kept in full
	shape, err := nodeShape(m, &cfg)
	if err != nil {
		return nil, err
	}
	cpu := usage.CPUSeconds()
	planned, eval, err := planRun(ctx, st, dev, cfg, &once)
	if err != nil {
		return nil, err
	}
	choice := &planned.choice
	defer func() { err = errors.Join(err, eval.Close()) }()
	rowsPlan, err := planRows(ctx, st, dev, cfg, choice)
	if err != nil {
		return nil, err
	}
	cfg.Mixture = planned.mixture
	planned.options.Pin = gpu.Pin(dev)
	var v *vectorTable
	if v, from, state, err = openVectors(ctx, st, &cfg, from, state); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	bounds := ctx
	if v != nil {
		planned.options.Table, planned.vectors.Read = v.t, v.rows.Read
		bounds = context.WithoutCancel(ctx) // its rows are written to the table when ctx has ended, too: see interrupted
	}
	it, policy, err := openMacroBatches(bounds, st, &cfg, choice, planned.options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	if b, ok := it.(*buffer.Buffer); ok && v != nil {
		v.it = b
	}
	var h histories
	var cost HistoryCost
	held := int64(0) // by it
	if cfg.History {
		of, err := cfg.histories(m, shape)
		if err != nil {
			return nil, err
		}
		if h, err = newHistories(ctx, st, dev, eval, of); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, h.close()) }()
		if cost, err = cfg.historyCost(m, nil, cfg.resident(m), len(policy.Epoch(0).Steps), planned.draws); err != nil {
			return nil, err
		}
		held = cost.budgetBytes()
	}
	t, err := newTrainer(ctx, dev, &cfg, shape, &rowsPlan)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if memory := cfg.MemoryBytes; memory > 0 && !dev.Info().OwnMemory() { // what neither the program nor the evaluator, the partition buffer and the history take
		t.pipe.Bound(budget.Beside(memory, planned.account.Of(holdsEval)+planned.account.Of(holdsDevice)+planned.account.Of(holdsDegrees)+planned.account.Of(holdsCopy)+it.MemoryBytes()+held))
	}
	if hooks.Start != nil {
		hooks.Start(cfg)
	}
	if hooks.Outlook != nil && planned.outlook != nil {
		hooks.Outlook(*planned.outlook)
	}
	if hooks.Plan != nil {
		why := append(choice.Why, completed...)
		if unused := cfg.UnusedWeights(m); unused != "" {
			why = append(why, unused)
		}
		if h != nil {
			why = append(why, cost.String())
		}
		if drop := cfg.pruneWhy(cfg.meanDegree(m)); drop != "" {
			why = append(why, drop)
		}
		if cfg.MemoryBytes > 0 {
			why = append(why, "memory: "+planned.account.String())
		}
		why = append(why, rowsPlan.Why...)
		if t.queue.Records() {
			model := t.model.Config()
			why = append(why, cfg.recordWhy(&model))
		}
		hooks.Plan(why)
	}
	t.history = h
	if t.model.ReadsDegrees() {
		t.degreesOf, t.partitions = eval.Degrees, len(m.Partitions)
	}
	if v != nil {
		t.vectors = v.resident
	}
	if reader, ok := it.(*rows.Reader); ok {
		if t.feed, err = newFeeder(&cfg, st.Manifest(), reader); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, t.feed.close()) }()
	}
	var upcoming func() []buffer.ResidentPartition
	if b, ok := it.(*buffer.Buffer); ok { // plan rows is never mirrored
		upcoming = b.Upcoming
	}
	if t.rows, err = newDeviceRows(dev, m, &cfg, rowsPlan, upcoming); err != nil {
		return nil, err
	}
	if cfg.LabelShift == ShiftAuto {
		t.shift = newLabelShift(planned.labels, planned.nodes, shape.classes)
	}
	s := &session{cfg: &cfg, hooks: hooks, version: m.Version, fs: st.Files().FS(), plan: planner{make: policy.Epoch}, it: it, eval: eval, t: t, shape: shape, vectors: v, passes: passes{replay: cfg.ReusePasses, ready: it.NextReady},
		from: from, clock: progress.NewClock(every), cpu: cpu}
	if a := &planned.account; cfg.MemoryBytes > 0 && !dev.Info().OwnMemory() { // sums of larger tiles might not fit such a device
		s.free = it.Close
		s.spare = cfg.MemoryBytes - budget.ProgramBytes - a.Of(holdsHistory) - a.Of(holdsDevice)
	}
	if err := cfg.probe.load(ctx, t); err != nil {
		return nil, err
	}
	if err := s.run(ctx, state); err != nil {
		return nil, err
	}
	s.sum.Seed, s.sum.Device, s.sum.IOEngine = cfg.Seed, dev.Info().String(), it.Stats().Engine
	if v != nil { // else no table was written, whatever cfg.Table names
		s.sum.Table = cfg.Table
	}
	params, err := t.model.Params().Save(ctx, t.queue)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{Version: m.Version, Config: cfg, Model: t.model.Config(), Summary: s.sum, ClassNames: m.Schema.ClassNames, VectorTable: v.ref(), Params: params}, nil
}

// planRows chooses what dev keeps of feature rows in a run whose plan is chosen.
func planRows(ctx context.Context, st *store.Store, dev gpu.Device, cfg Config, choice *macro.Choice) (DevicePlan, error) {
	cfg.Plan, cfg.Buffer = choice.Policy, choice.Capacity
	p, err := cfg.PlanDevice(ctx, st, dev.Info(), 0)
	if err != nil {
		return p, fmt.Errorf("train: plan for %s: %w", dev.Info().Name, err)
	}
	return p, nil
}

// planRun plans a run and its evaluator. What the budget is too small for is found here, before anything is made.
func planRun(ctx context.Context, st *store.Store, dev gpu.Device, cfg Config, once *counted) (p plan, e *eval.Evaluator, err error) {
	y, err := openMemory(ctx, st, dev.Info(), cfg, once)
	if err != nil {
		return p, nil, err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	if p, err = y.planned(cfg.MemoryBytes); err != nil {
		return p, nil, err
	}
	if y.shape, err = nodeShape(y.m, &y.cfg); err != nil {
		return p, nil, err
	}
	if err = y.mix(ctx, &p); err != nil {
		return p, nil, err
	}
	e, err = y.evaluator(st, dev, p.account.Of(holdsEval))
	p.vectors = y.vectors
	return p, e, err
}

// FillFeatures fills in c.Features, if there are none, with those of the store that are computed from no other, in the
// store's order, and for models of relations its categories of nodes behind them; where c reads a precomputed hop, their means follow in the same order.
// And it fills in the size of plan pbs' groups.
func (c *Config) FillFeatures(m *store.Manifest) {
	c.group(m)
	if len(c.Features) == 0 {
		for _, f := range m.ColumnsOf(store.RoleFeature) {
			if !precompute.IsHop(f) {
				c.Features = append(c.Features, f.Name)
			}
		}
		if c.relational() && (c.Jumping == "" || c.Jumping == nn.JumpLast) {
			for _, k := range m.Categories() {
				c.Features = append(c.Features, k.Column)
			}
		}
	}
	switch {
	case c.PrecomputedHop && c.relational():
		c.fillHops(m)
	case c.PrecomputedHop:
		c.Features = c.withHops(c.Features)
	}
}

// hopKind is what a precomputed hop of c's model holds.
func (c *Config) hopKind() eval.HopKind {
	return eval.KindOf(&nn.Config{Model: c.Model, EdgeWeights: c.EdgeWeights})
}

// precomputeCommand makes what a precomputed hop of c's model reads.
func (c *Config) precomputeCommand() string {
	command := "gstore precompute"
	if sum := c.hopKind().Sum; sum != "" {
		command += " --model " + sum
	}
	if c.EdgeWeights {
		command += " --edge-weights"
	}
	return command
}

// split returns the feature columns that c.Features is of, in their order, and behind them those that were computed from these, one
// each: none without a precomputed hop. Of models that read sums alone the former are no part of c.Features.
func (c *Config) split() (own, hops []string) {
	m := nn.Config{Model: c.Model, PrecomputedHop: c.PrecomputedHop && !c.relational()}
	at := m.FirstHop(len(c.Features))
	if own, hops = c.Features[:at:at], c.Features[at:]; at > 0 {
		return own, hops
	}
	for _, name := range hops {
		feature, _ := precompute.Feature(name, c.hopKind())
		own = append(own, feature)
	}
	return own, hops
}

// OwnFeatures are the feature columns that a run read, or whose hop it read.
func (c *Config) OwnFeatures() []string {
	own, _ := c.split()
	return own
}

// featureNames are the names of the store's feature columns.
func featureNames(m *store.Manifest) (names []string) {
	for _, c := range m.ColumnsOf(store.RoleFeature) {
		names = append(names, c.Name)
	}
	return names
}

// withHops is features, less those that are the mean of another, followed by the mean of each; of models that read sums alone, these.
func (c *Config) withHops(features []string) []string {
	var own, hops []string
	kind := c.hopKind()
	for _, name := range features {
		x, ok := precompute.Feature(name, kind)
		if ok && slices.Contains(features, x) {
			continue
		}
		if ok && kind.Sum != "" { // they are named already
			name = x
		}
		own, hops = append(own, name), append(hops, precompute.Column(name, kind))
	}
	if kind.Sum != "" {
		return hops
	}
	return append(own, hops...)
}

// nodeShape checks that the store fits the task, fills in cfg.Features and returns what the
// model's shape depends on.
func nodeShape(m *store.Manifest, cfg *Config) (s shape, err error) {
	if m.Schema.Task != store.TaskNode || m.Schema.Classes < 1 {
		return s, fmt.Errorf("train: the store's task is %q with %d classes, expected %q: ingest labels and a split", m.Schema.Task, m.Schema.Classes, store.TaskNode)
	}
	if cfg.relational() && len(m.ColumnsOf(store.RoleRelation)) == 0 {
		return s, fmt.Errorf("train: %w: model %s needs a column of role %s, and edges here are of one kind: model sage, gcn or gat learns from them", store.ErrNotFound, cfg.Model, store.RoleRelation)
	}
	if cfg.EdgeWeights && len(m.ColumnsOf(store.RoleWeight)) == 0 {
		return s, fmt.Errorf("train: %w: edge weights need a column of role %s: ingest edges with weights", store.ErrNotFound, store.RoleWeight)
	}
	cfg.FillFeatures(m)
	if len(cfg.Features) == 0 {
		return s, fmt.Errorf("train: %w: the store has no feature columns: gstore append --features adds one", store.ErrNotFound)
	}
	own, hops := cfg.split()
	first := len(cfg.Features) - len(hops)
	for i, name := range cfg.Features {
		c, err := m.Column(name)
		if err != nil && i >= first {
			return s, fmt.Errorf("train: %w: make it with %s --feature %s", err, cfg.precomputeCommand(), own[i-first])
		}
		if err != nil {
			return s, fmt.Errorf("train: %w: feature %q (the store's features are %q)", store.ErrNotFound, name, featureNames(m))
		}
		if k, ok := m.Category(name); ok && cfg.relational() {
			s.categories = append(s.categories, int(k.Nodes)+1)
			continue
		}
		if len(s.categories) > 0 {
			return s, fmt.Errorf("train: feature %s behind categories of nodes: name it before them", name)
		}
		if c.Role != store.RoleFeature {
			return s, fmt.Errorf("train: column %s is a %s, no feature (the store's features are %q)", name, c.Role, featureNames(m))
		}
		if slices.Contains(cfg.Features[:i], name) {
			return s, fmt.Errorf("train: feature %s is named twice", name)
		}
		if err := nn.CheckFeature(c.Name, c.Elem); err != nil {
			return s, err
		}
		if i < len(own) {
			s.in += c.Dim
		}
		if i < first {
			continue
		}
		if x, err := m.Column(own[i-first]); err == nil && c.Dim != x.Dim {
			return s, fmt.Errorf("train: feature %s has %d columns, %s has %d", c.Name, c.Dim, x.Name, x.Dim)
		} else if err := cfg.hopKind().Check(c); err != nil {
			return s, fmt.Errorf("train: %w", err)
		}
	}
	columns, err := buffer.EdgeFeatures(m, cfg.EdgeFeatures)
	if err != nil {
		return s, fmt.Errorf("train: features of edges: %w", err)
	}
	for _, c := range columns {
		s.edgeDim += c.Dim
	}
	if s.vectors = len(cfg.VectorTypes) > 0; s.vectors && len(s.categories) == 0 {
		return s, fmt.Errorf("train: %w: learned vectors of types %q in a table need feature %s", store.ErrNotFound, cfg.VectorTypes, store.TypeColumn)
	}
	if s.hops, err = cfg.relationHops(m); err != nil {
		return s, err
	}
	if s.draws, err = cfg.relationDraws(m); err != nil {
		return s, err
	}
	s.degree = cfg.meanDegree(m)
	s.classes, s.relations, s.inverse = m.Schema.Classes, len(m.Schema.Relations), !m.Schema.Undirected
	return s, nil
}
