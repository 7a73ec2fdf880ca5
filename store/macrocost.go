package store

import (
	"context"
	"errors"

	"github.com/gstore/gstore/blocks/blockio"
)

// PlanCost is what an epoch reads, known before it runs.
type PlanCost struct {
	BytesRead   int64
	WantedBytes int64 // without what rounding and reading through gaps add
	Requests    int64
	Steps       []StepCost
	MemoryBytes int64 // of the buffer
	Ahead       int   // steps read ahead
}

// StepCost is a step's part of a [PlanCost].
type StepCost struct {
	BytesRead, WantedBytes, Requests int64
	Loaded                           int // partitions read
}

// Amplification is bytes read over bytes wanted; 1 for an epoch that reads nothing.
func (c *PlanCost) Amplification() float64 {
	if c.WantedBytes == 0 {
		return 1
	}
	return float64(c.BytesRead) / float64(c.WantedBytes)
}

// PlanCosts computes what consecutive epochs of an iterator with options o
// would read, the first one into an empty buffer, without making the buffer.
// Only directories are read.
func (s *Store) PlanCosts(ctx context.Context, o MacroOptions, plans ...Plan) ([]PlanCost, error) {
	return planCosts(ctx, s.Manifest(), s, o, plans)
}

func planCosts(ctx context.Context, m *Manifest, opener fileOpener, o MacroOptions, plans []Plan) (_ []PlanCost, err error) {
	if err := o.Validate(m); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	engine, _, err := blockio.New("pread", blockio.Options{Depth: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	src, err := newMacroSource(ctx, m, opener, engine, &o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	l, err := newLayout(src, &o)
	if err != nil {
		return nil, err
	}
	r := newResidency(l, len(m.Partitions))
	var costs []PlanCost
	for e := range plans {
		steps, err := r.schedule(l, src, &o, e, &plans[e])
		if err != nil {
			return nil, err
		}
		c := PlanCost{MemoryBytes: l.total, Ahead: l.ahead}
		for _, s := range steps {
			sc := stepCost(src, &o, s)
			c.BytesRead += sc.BytesRead
			c.WantedBytes += sc.WantedBytes
			c.Requests += sc.Requests
			c.Steps = append(c.Steps, sc)
		}
		costs = append(costs, c)
	}
	return costs, nil
}

// stepCost counts a step's requests as transfers lists them.
func stepCost(src *macroSource, o *MacroOptions, s *scheduled) StepCost {
	c := StepCost{Loaded: len(s.loads)}
	requests := func(n int64) int64 { return (n + readBytesMax - 1) / readBytesMax }
	t := planTopology(src, o, s)
	c.BytesRead, c.WantedBytes = t.bytes, t.wanted
	for _, es := range [][]stagedExtent{t.rows, t.relations} {
		for i := range es {
			for _, sp := range es[i].spans {
				c.Requests += requests(sp.to - sp.from)
			}
		}
	}
	for _, l := range s.loads {
		c.BytesRead += columnBytes(src, l.part)
		for _, x := range src.columnExtents(l.part) {
			c.WantedBytes += x.e.Length
			c.Requests += requests(x.e.Length)
		}
	}
	return c
}

// columnExtents lists the extents that make a partition resident.
func (s *macroSource) columnExtents(p PartitionID) []*extentRef {
	var xs []*extentRef
	for i := range s.features {
		xs = append(xs, &s.features[i].extents[p])
	}
	for _, c := range []*sourceColumn{s.labels, s.split} {
		if c != nil {
			xs = append(xs, &c.extents[p])
		}
	}
	return xs
}
