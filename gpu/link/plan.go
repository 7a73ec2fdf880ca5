package link

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// TableDim is the numbers of a node's row of the table. Without embeddings it is one, which is not read: the table is where
// checkpoints lie.
func (c *Config) TableDim() int {
	if c.NoEmbeddings {
		return 1
	}
	return c.Dim
}

// TablePlanes is how many vectors a table has of a node: the embedding and the optimiser's state, Adagrad's sums of squares or
// Adam's two moments.
func (c *Config) TablePlanes() int {
	switch {
	case c.NoEmbeddings:
		return 1
	case c.Optimizer == adam:
		return 3
	}
	return 2
}

// readsSources reports whether edges are looked up by their source as well: encoders gather over them, and
// negatives by degree are drawn from them. Without either, their memory is the partition buffer's.
func (c *Config) readsSources() bool { return c.Encoder != "none" || c.DegreeShare > 0 }

// heapBytes of budget.ProgramBytes are the Go heap's: sampled batches, the manifest, Pebble, garbage.
const heapBytes = budget.ProgramBytes - budget.CodeBytes

// planBytes are those of the epoch that trains and of the next one.
func planBytes(partitions int) int64 { return 2 * macro.PlanBytes(partitions) }

// HeapBytes is the share of a budget that is meant for the Go heap, so that garbage does not take what the budget gives to others.
// Evaluation keeps a batch's questions there, in proportion to the budget.
func HeapBytes(memory int64, partitions int) int64 {
	return max(heapBytes, memory/32) + planBytes(partitions)
}

// programBytes is what a run's budget counts for the program: all that is neither evaluator, partition buffer nor tensors.
func programBytes(memory int64, partitions int) int64 {
	return budget.ProgramBytes - heapBytes + HeapBytes(memory, partitions)
}

// leftBytes is what a budget leaves after the program.
func leftBytes(memory int64, partitions int) int64 {
	return budget.Share(memory, programBytes(memory, partitions), 1)
}

// evalShare is evaluation's share of a budget, 0 if the run has none.
func (c *Config) evalShare(memory int64, partitions int) int64 {
	if c.EvalEvery <= 0 {
		return 0
	}
	return leftBytes(memory, partitions) / budget.EvalShare
}

// batchShare is the share of a mini-batch's tensors: with an encoder they take more in a graph of many neighbours.
func (c *Config) batchShare(memory int64, partitions int) int64 {
	model := nn.LinkConfig{Decoder: c.Model, Dim: c.Dim, N3: c.n3()}
	n := model.LossBytes(2*c.BatchSize, 2*c.Chunks, c.Negatives)
	if c.Encoder != "none" {
		n = max(n, leftBytes(memory, partitions)/budget.BatchShare)
	}
	return n
}

// MacroOptions are those of a run on a store, before its plan is chosen. MemoryBytes is what the run's budget leaves the
// partition buffer and what [Memory.BesideBytes] counts. c's defaults must be filled in.
func (c *Config) MacroOptions(m *store.Manifest) buffer.Options {
	o := buffer.Options{EngineName: c.IOEngine, Both: c.readsSources(), Relations: len(m.Schema.Relations) > 1, Threads: c.Threads,
		Features: c.Features, TableDim: c.TableDim(), TablePlanes: c.TablePlanes()}
	if types := c.typeColumn(m); types != "" {
		o.Features = append(slices.Clip(o.Features), types)
	}
	if n := len(m.Partitions); c.MemoryBytes > 0 {
		o.MemoryBytes = max(leftBytes(c.MemoryBytes, n)-c.evalShare(c.MemoryBytes, n)-c.batchShare(c.MemoryBytes, n), 1)
	}
	return o
}

// apply fills in what "auto" and an open buffer mean, and returns the policy. (MariusGNN
// section 6: everything in memory if that fits, else the largest buffer; logical partitions so many that four fit
// in it.)
func (p *plan) apply(cfg *Config, m *store.Manifest) (macro.Policy, error) {
	c := &p.choice
	cfg.Plan, cfg.Buffer, cfg.Logical = c.Policy, c.Capacity, c.Logical
	cfg.hide(m, c)
	if c.Policy == macro.Memory {
		cfg.Buffer, cfg.Absent = len(m.Partitions), AbsentIgnore
	}
	if cfg.NegativesFrom == FromAuto {
		cfg.NegativesFrom = FromResident
		if m.Edges >= manyEdges*m.Nodes {
			cfg.NegativesFrom = FromMixed
		}
	}
	if cfg.Epochs == 0 {
		examples, err := cfg.examplesOf(m)
		if err != nil {
			return nil, err
		}
		cfg.patience(examples)
	}
	if cfg.DenseRate == 0 {
		cfg.DenseRate = cfg.denseRate(m)
	}
	policy, err := macro.New(c.Config)
	if err != nil {
		return nil, fmt.Errorf("train: plan %s with %d of %d partitions: %w", cfg.Plan, cfg.Buffer, len(m.Partitions), err)
	}
	return policy, nil
}

// denseRate is the default of c.DenseRate. SAGE on WN18RR, with 2 edges a node, loses .03 by what it gains .02 by on FB15k-237.
func (c *Config) denseRate(m *store.Manifest) float64 {
	if c.Encoder != "none" && c.Optimizer == adagrad && m.Edges >= manyEdges*m.Nodes {
		return denseRate
	}
	return 1
}

// hide fills in which of a batch's edges the encoder of a run by such a plan does not see, where c leaves that open.
func (c *Config) hide(m *store.Manifest, plan *macro.Choice) {
	if c.RemoveBatchEdges != nil {
		return
	}
	keep := c.KeepBatchEdges
	switch many := m.Edges >= manyEdges*m.Nodes; {
	case keep > 0:
	case c.Encoder == "none":
		keep = 1
	case many && len(c.Features) == 0 && plan.Policy == macro.Memory:
		keep = keptEdgesMost
	case many && len(c.Features) == 0:
		keep = min(keptEdgesMost, keptEdges*float64(plan.Capacity)/float64(len(m.Partitions)))
	}
	hide := keep < 1 || c.KeepBatchEdges > 0
	c.RemoveBatchEdges = &hide
	if hide {
		c.KeepBatchEdges = keep
	}
}

// HiddenWhy says which of a batch's edges the encoder of a run of c by such a plan does not see, "" without an encoder.
func (c *Config) HiddenWhy(m *store.Manifest, plan *macro.Choice) string {
	d := *c
	d.hide(m, plan)
	switch {
	case c.Encoder == "none":
		return ""
	case !d.hidesEdges():
		return "the encoder sees a mini-batch's edges while they are asked for"
	case d.KeepBatchEdges > 0:
		return fmt.Sprintf("a mini-batch's edges are hidden from the encoder while they are asked for, but for a share of %.3g, drawn at random", d.KeepBatchEdges)
	}
	return "a mini-batch's edges are hidden from the encoder while they are asked for"
}

// nextPlan is the plan of an epoch to come, made while the one before trains: a cover of many
// partitions takes a fraction of a second.
type nextPlan struct {
	epoch  int
	making panics.Group
	plan   buffer.Plan
	bias   float64
}

// makePlan begins to make an epoch's plan.
func (s *session) makePlan(epoch int) {
	n := &nextPlan{epoch: epoch}
	policy, partitions := s.plan.Policy, len(s.st.Manifest().Partitions)
	s.next = n
	n.making.Go(func() {
		n.plan = policy.Epoch(epoch)
		n.bias = macro.Bias(n.plan, partitions)
	})
}

func (n *nextPlan) wait() *nextPlan {
	n.making.Wait()
	return n
}

// takePlan returns an epoch's plan and its bias.
func (s *session) takePlan(epoch int) (buffer.Plan, float64) {
	if s.next == nil || s.next.epoch != epoch {
		s.makePlan(epoch)
	}
	n := s.next.wait()
	s.next = nil
	return n.plan, n.bias
}
