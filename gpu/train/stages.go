package train

import (
	"fmt"
	"slices"

	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// devicePlans are the values of [Config].DevicePlan, the default first.
var devicePlans = []string{cacheAuto, macro.DeviceDirect, macro.DeviceMirror, macro.DeviceLBS, macro.DevicePBS}

// togetherDefault is how many mini-batches plan lbs draws together: thesis, table 5.6, has macro-batches of 1/8 to 1/24 of
// the training nodes.
const togetherDefault = 16

// normalizeDevicePlan fills in what a device plan that is a sampler needs, and says what is wrong with it.
func (c *Config) normalizeDevicePlan() error {
	uniform := c.Sampler == "" || c.Sampler == mini.Uniform
	switch {
	case !slices.Contains(devicePlans, c.DevicePlan):
		return fmt.Errorf("train: device plan %q: expected one of %v", c.DevicePlan, devicePlans)
	case c.DeviceMacro < 0:
		return fmt.Errorf("train: device macro-batches of %d: expected 0 or more", c.DeviceMacro)
	case !c.stages():
		if c.DeviceMacro > 0 {
			return fmt.Errorf("train: device macro-batches are of plans %s and %s, this is %s", macro.DeviceLBS, macro.DevicePBS, c.DevicePlan)
		}
		return nil
	case !uniform:
		return fmt.Errorf("train: device plan %s draws neighbours itself, expected no sampler but %s, not %s", c.DevicePlan, mini.Uniform, c.Sampler)
	case c.DevicePlan == macro.DevicePBS && c.relational():
		return fmt.Errorf("train: device plan %s draws along edges of one relation and direction, which model %s is not: choose another", macro.DevicePBS, c.Model)
	case c.DevicePlan == macro.DeviceLBS:
		if c.Plan == macro.Rows {
			return fmt.Errorf("train: device plan %s draws by names of nodes, which plan %s does not keep: choose another", macro.DeviceLBS, macro.Rows)
		}
		if c.DeviceMacro == 0 {
			c.DeviceMacro = togetherDefault
		}
		return nil
	case c.Plan != "auto" && c.Plan != macro.Memory:
		return fmt.Errorf("train: device plan %s has groups of the partitions that plan %s holds, this is plan %s: plan %s has what it has of partitions that are read",
			macro.DevicePBS, macro.Memory, c.Plan, macro.Hanoi)
	}
	c.Plan, c.History = macro.Memory, true // the halo's states
	return nil
}

// stages reports whether the device plan is a sampler.
func (c *Config) stages() bool {
	return c.DevicePlan == macro.DeviceLBS || c.DevicePlan == macro.DevicePBS
}

// together is how many mini-batches are drawn together; 0: each for itself.
func (c *Config) together() int {
	if c.DevicePlan == macro.DeviceLBS {
		return c.DeviceMacro
	}
	return 0
}

// group fills in how many partitions plan pbs trains together, beside those that are pinned: by default an eighth of the others.
func (c *Config) group(m *store.Manifest) {
	if c.DevicePlan != macro.DevicePBS {
		return
	}
	if c.DeviceMacro == 0 {
		c.DeviceMacro = max(1, (len(m.Partitions)-len(m.Pinned)+7)/8)
	}
	c.Group = c.DeviceMacro
}

// Staged sets of a plan for m what a device plan decides.
func (c *Config) Staged(m *store.Manifest, p *macro.Config) {
	if c.DevicePlan == macro.DevicePBS {
		c.group(m)
		p.Policy, p.Group, p.Alone = c.Plan, c.Group, true
	}
}

// alone keeps of a macro-batch's edges those between the partitions that its step's mini-batches reach. Its memory is
// reused from step to step; see [Memory.aloneBytes].
type alone struct {
	in    buffer.Adjacency
	inner []bool // by row
}

// within is in, or what is left of it where the step does not reach all partitions. Edges keep their order.
func (a *alone) within(mb *buffer.MacroBatch, in *buffer.Adjacency) *buffer.Adjacency {
	if mb.Step.Reach == nil {
		return in
	}
	a.inner = resized(a.inner, in.Rows())
	a.in.Spans = resized(a.in.Spans, in.Rows())
	a.in.Indices = a.in.Indices[:0]
	var reached []buffer.ResidentPartition
	for _, p := range mb.Partitions {
		if slices.Contains(mb.Step.Reach, p.ID) {
			reached = append(reached, p)
			for r := p.Base; r < p.Base+p.Nodes; r++ {
				a.inner[r] = true
			}
		}
	}
	for _, p := range reached {
		for r := p.Base; r < p.Base+p.Nodes; r++ {
			s := in.Span(r)
			begin := int64(len(a.in.Indices))
			for _, u := range in.Indices[s.Begin:s.End] {
				if a.inner[u] {
					a.in.Indices = append(a.in.Indices, u)
				}
			}
			a.in.Spans[r] = buffer.Span{Begin: begin, End: int64(len(a.in.Indices))}
		}
	}
	return &a.in
}

// resized is x with n zero elements.
func resized[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	x = x[:n]
	clear(x)
	return x
}

// aloneBytes is what the edges of groups of partitions take beside those of the graph, at most: twice, as they grow.
func (y *Memory) aloneBytes() int64 {
	if y.cfg.DevicePlan != macro.DevicePBS {
		return 0
	}
	rows, edges := largestStep(y.m, 0)
	return rows*17 + 2*4*edges
}
