package ondevice

import (
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
)

// undrawn says why a device that info describes does not draw the mini-batches of a run of c on a store, which the host draws by cfg; "" if it can.
func undrawn(c *config.Config, info gpu.Info, m *store.Manifest, cfg *mini.Config) string {
	switch {
	case c.SampleOn == config.SampleHost:
		return "nobody asks for that"
	case !info.Samples:
		return "it draws none"
	case c.History:
		return "a history reads which nodes were reached"
	case c.Relational():
		return "relations of edges are the host's"
	case c.Kind().Sums && c.Capacity(m) > 0:
		return fmt.Sprintf("out of core the host has the degrees that %s reads, which count neighbours outside memory", c.Model)
	case c.Stages():
		return fmt.Sprintf("device plan %s is a sampler of the host's", c.DevicePlan)
	}
	return sampling.Unfit(cfg)
}

// drawing is the device's sampler of a run of plan mirror without spare slots; or why there is none.
func drawing(c *config.Config, info gpu.Info, m *store.Manifest, s config.Shape) (_ *sampling.Options, why string, err error) {
	cfg, err := c.SamplerConfig(len(c.Sampled()), s.Sampling, s.Degree)
	if err != nil {
		return nil, "", err
	}
	if why := undrawn(c, info, m, &cfg); why != "" {
		return nil, why, nil
	}
	_, edges := planning.LargestStep(m, c.Capacity(m))
	o := &sampling.Options{Config: cfg, Rows: int(MirrorRows(c, m)), Entries: edges, Batch: c.BatchSize, Buffer: bufferRowsMost(m)}
	_, err = o.Bytes()
	if errors.Is(err, mini.ErrTooLarge) {
		return nil, err.Error(), nil
	}
	return o, "", err
}

// Undrawn says why a GPU would not draw the mini-batches of a run of c on a store, whose defaults are filled in; "" if it can.
func Undrawn(c *config.Config, m *store.Manifest) (why string, err error) {
	cfg := *c
	s, err := config.ShapeOf(m, &cfg)
	if err != nil {
		return "", err
	}
	_, why, err = drawing(&cfg, gpu.Info{Samples: true}, m, s)
	return why, err
}

// bufferRowsMost is more rows than any partition buffer has: a slot for each partition, of the largest one's size and whole pages.
func bufferRowsMost(m *store.Manifest) int {
	most := 0
	for _, p := range m.Partitions {
		most = max(most, int(p.Nodes))
	}
	return len(m.Partitions) * (most + blocks.Alignment)
}

// drawnRoom is how many rows of RowBytes there is room for in so many bytes beside a sampler on the device.
func drawnRoom(room, rowBytes int64, o *sampling.Options) (rows int64, err error) {
	held, err := o.Bytes()
	return max(0, room-held/rowcache.Share) / rowBytes, err
}
