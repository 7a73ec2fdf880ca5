package training

import (
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/tools/cli/command"
)

// unaskedNode bounds the memory of node classification by what the machine has, where c asks for neither a bound nor a plan, and reports it.
func unaskedNode(e *command.Env, m *store.Manifest, c *config.Config) bool {
	d := *c // with defaults
	d.Resume = false
	d.Fit(m)
	if d.Normalize() != nil || !unplanned(d.Plan, d.Buffer) {
		return false
	}
	vectors := int64(0)
	if len(d.OwnVectors(m)) > 0 {
		vectors = budget.LearnedBytes(d.Hidden)
	}
	return e.Unasked(m, vectors, &c.MemoryBytes)
}

// unaskedLink is unaskedNode of link prediction.
func unaskedLink(e *command.Env, m *store.Manifest, c *link.Config) bool {
	d := *c
	if d.Resume {
		d.Given = nil // what a given option needs may be what the run began with
	}
	return d.Normalize() == nil && unplanned(d.Plan, d.Buffer) && e.Unasked(m, budget.LearnedBytes(d.Dim), &c.MemoryBytes)
}

// unplanned reports whether a run may choose its plan, which a bound on memory decides.
func unplanned(plan string, buffer int) bool { return plan == "auto" && buffer == 0 }
