package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/replay"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/sampling"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
)

// Values of [Config].SampleOn.
const (
	sampleAuto   = "auto"
	sampleHost   = "host"
	sampleDevice = "device"
)

// undrawn says why a device that info describes does not draw the mini-batches of a run of c on a store, which the host draws by cfg; "" if it can.
func (c *Config) undrawn(info gpu.Info, m *store.Manifest, cfg *mini.Config) string {
	switch {
	case c.SampleOn == sampleHost:
		return "nobody asks for that"
	case !info.Samples:
		return "it draws none"
	case c.History:
		return "a history reads which nodes were reached"
	case c.relational():
		return "relations of edges are the host's"
	case (c.Model == "gcn" || c.Model == "gin") && c.capacity(m) > 0:
		return fmt.Sprintf("out of core the host has the degrees that %s reads, which count neighbours outside memory", c.Model)
	case c.stages():
		return fmt.Sprintf("device plan %s is a sampler of the host's", c.DevicePlan)
	}
	return sampling.Unfit(cfg)
}

// drawing is the device's sampler of a run of plan mirror without spare slots; or why there is none.
func (c *Config) drawing(info gpu.Info, m *store.Manifest, s shape) (_ *sampling.Options, why string, err error) {
	cfg, err := c.sampler(len(c.sampled()), s.draws, s.degree)
	if err != nil {
		return nil, "", err
	}
	if why := c.undrawn(info, m, &cfg); why != "" {
		return nil, why, nil
	}
	_, edges := largestStep(m, c.capacity(m))
	o := &sampling.Options{Config: cfg, Rows: int(c.MirrorRows(m)), Entries: edges, Batch: c.BatchSize, Buffer: bufferRowsMost(m)}
	_, err = o.Bytes()
	if errors.Is(err, mini.ErrTooLarge) {
		return nil, err.Error(), nil
	}
	return o, "", err
}

// Undrawn says why a GPU would not draw the mini-batches of a run of c on a store, whose defaults are filled in; "" if it can.
func (c *Config) Undrawn(m *store.Manifest) (why string, err error) {
	cfg := *c
	s, err := nodeShape(m, &cfg)
	if err != nil {
		return "", err
	}
	_, why, err = cfg.drawing(gpu.Info{Samples: true}, m, s)
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

// drawnRoom is how many rows of rowBytes there is room for in so many bytes beside a sampler on the device.
func drawnRoom(room, rowBytes int64, o *sampling.Options) (rows int64, err error) {
	held, err := o.Bytes()
	return max(0, room-held/rowcache.Share) / rowBytes, err
}

// draw has the device draw the mini-batch in hand and those that come, as far as it has room.
func (t *trainer) draw() error {
	if t.draws == nil {
		return nil
	}
	l := t.batches.loader
	for t.draws.Room() > 0 {
		b := l.Batch()
		if n := t.draws.Waiting(); n > 0 {
			b = l.Ahead(n)
		}
		if b == nil { // the pass ends
			break
		}
		if err := t.draws.Draw(b.Key, t.rows.mirror.places(b.Seeds)); err != nil {
			return err
		}
	}
	return nil
}

// takeDrawn waits for the mini-batch in hand, where the device draws; else it is nil.
func (t *trainer) takeDrawn(ctx context.Context) (*sampling.Batch, error) {
	if t.draws == nil {
		return nil, nil
	}
	return t.draws.Next(context.WithoutCancel(ctx))
}

// admitDrawn is deviceRows.admit of a mini-batch that the device drew, whose input lies in the slots of plan mirror. Its room is given up.
func (t *trainer) admitDrawn(tables []rowcache.Table, b *sampling.Batch, shape *replay.Shape) (in nn.Input) {
	q, n := t.queue, b.Nodes[0]
	t.rows.mirror.stats.Hits += uint64(n)
	if shape != nil {
		n = shape.Nodes[0]
	}
	in.Tables, in.Index = t.rows.Scaled(tables), t.pipe.Arena().Vector(q, n, blocks.Uint32)
	q.PadNumbers(b.Input(), in.Index, 0, true)
	t.draws.Free(q)
	return in
}

// drawOnHost has the host draw from the next step on.
func (t *trainer) drawOnHost(s shape) (err error) {
	if t.draws == nil {
		return nil
	}
	err = errors.Join(t.draws.Close(), t.batches.loader.Close())
	t.draws = nil
	if err == nil {
		t.batches, err = newBatches(t.cfg, t.model.Hops(), s.draws, s.degree, max(1, t.cfg.Threads-1), 0)
	}
	return err
}
