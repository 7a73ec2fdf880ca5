package config

import (
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
)

const sampleAuto = "auto"

const SampleHost = "host"

const SampleDevice = "device"

const recordAuto = "auto"

const RecordOff = "off"

// Unrecorded says why a run of c on a device that records does not pad and record a model's steps, "" if it does.
func (c *Config) Unrecorded(model *nn.Config) string {
	switch {
	case c.RecordSteps == RecordOff:
		return "nobody asks for recordings"
	case model.Relations > 0:
		return "groups of relations have sizes of their own"
	case model.EdgeWeights || model.EdgeDim > 0:
		return "weights and features of edges have sizes of their own"
	case model.Norm == nn.BatchNorm:
		return "batch norm counts rows"
	case model.Jumping == nn.JumpMax:
		return "the maximum of layers' states brings indices in the middle of a step"
	case c.Accumulate > 1:
		return "several mini-batches make a step"
	case c.History:
		return "a history has rows of its own"
	case c.Plan == macro.Rows:
		return "plan rows waits for each mini-batch anyway"
	}
	return ""
}

// RecordWhy says whether steps are recorded, of a device that can.
func (c *Config) RecordWhy(model *nn.Config) string {
	if why := c.Unrecorded(model); why != "" {
		return "device: steps are issued operation by operation: " + why
	}
	return "device: steps are recorded, and run again by one call, of mini-batches that are padded to a few shapes"
}

// CacheAuto is [Config].DeviceCache's default.
const CacheAuto = "auto"

// togetherDefault is how many mini-batches plan lbs draws together: thesis, table 5.6, has macro-batches of 1/8 to
// 1/24 of the training nodes.
const togetherDefault = 16

// Stages reports whether the device plan is a sampler.
func (c *Config) Stages() bool {
	return c.DevicePlan == macro.DeviceLBS || c.DevicePlan == macro.DevicePBS
}

// Together is how many mini-batches are drawn together; 0: each for itself.
func (c *Config) Together() int {
	if c.DevicePlan == macro.DeviceLBS {
		return c.DeviceMacro
	}
	return 0
}

// group fills in how many partitions plan pbs trains together, beside those that are pinned: by default an eighth of
// the others.
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
