package partitioner

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/partitioner/graph"
)

// Numbers behind [AutoHubs].
const (
	autoHubShareMax = 1. / 64 // of the nodes
	autoResidentMin = 2       // partitions: with fewer there is nothing to give up for hubs
	autoOddsMin     = 1.25    // times the odds that a walk stays in memory without hubs; less has cost accuracy (docs/design.md)
)

// HubChoice is what [AutoHubs] decided, with the numbers that decided.
type HubChoice struct {
	Hubs       uint64 `json:"hubs"`       // 0: none
	Candidates uint64 `json:"candidates"` // that were tried
	Hops       int    `json:"hops"`       // of the walks
	// Of Partitions, Resident are in memory, or the candidates and that much less.
	Resident   float64 `json:"resident"`
	Partitions int     `json:"partitions"`
	// Share of training nodes' walks of Hops steps that stay in a macro-batch, see Quality.ResidentShare.
	With    float64 `json:"share_with"`
	Without float64 `json:"share_without"`
	// Training nodes with a neighbour; without any there is nothing to choose by.
	Training uint64 `json:"training_nodes"`
}

// pays reports whether hubs keep clearly more walks in memory: by odds, since what is little at half of all walks is
// all there is at a fiftieth.
func (c HubChoice) pays() bool {
	return c.With > c.Without && c.With*(1-c.Without) >= autoOddsMin*c.Without*(1-c.With)
}

// String says what was chosen, and why.
func (c HubChoice) String() string {
	switch {
	case c.Resident >= float64(c.Partitions):
		return fmt.Sprintf("no hubs: all %d partitions are in memory at once", c.Partitions)
	case c.Training == 0:
		return "no hubs: no training node has a neighbour"
	}
	shares := fmt.Sprintf("%.1f %% of training nodes' %d-hop walks stay in memory, without %.1f %%, at %.4g of %d partitions",
		100*c.With, c.Hops, 100*c.Without, c.Resident, c.Partitions)
	switch {
	case c.Hubs > 0:
		return fmt.Sprintf("%d hubs: with them %s", c.Hubs, shares)
	case c.With >= c.Without:
		return fmt.Sprintf("no hubs: with %d nodes pinned %s: too little, the odds must grow by %.0f %%", c.Candidates, shares, 100*(autoOddsMin-1))
	}
	return fmt.Sprintf("no hubs: with %d nodes pinned %s", c.Candidates, shares)
}

// AutoHubs is [SelectHubs] where that keeps clearly more of training nodes' neighbourhoods in the same
// memory (odds a quarter larger), else a: hubs take the room of other partitions'
// nodes, and training nodes among them lose the neighbours that their partition kept together. Where degrees are
// alike that costs what it gives.
//
// Candidates are o.Count or o.Fraction; by default a partition's worth, at most 1/64 of the nodes.
// Shares are those that [Measure] reports: of walks of o.Hops steps, for a graph without random access of one.
func AutoHubs(ctx context.Context, g graph.Graph, a Assigner, o HubOptions) (Assigner, HubChoice, error) {
	k := a.Partitions()
	if o.Count == 0 && o.Fraction == 0 {
		o.Count = max(1, uint64(float64(a.Nodes())*min(1/float64(k), autoHubShareMax)))
	}
	c := HubChoice{Partitions: k, Resident: min(max(float64(k)/8, autoResidentMin), float64(k)), Hops: 1}
	if _, ok := g.(graph.RandomAccess); ok {
		if c.Hops = o.Hops; c.Hops == 0 {
			c.Hops = 2
		}
	}
	if c.Resident >= float64(k) {
		c.With, c.Without = 1, 1
		return a, c, nil
	}
	var err error
	if c.Without, c.Training, err = residentShare(ctx, g, a, o.Classes, c.Resident, c.Hops); err != nil || c.Training == 0 {
		return a, c, err
	}
	with, err := SelectHubs(ctx, g, a, o)
	if err != nil {
		return nil, c, err
	}
	for _, p := range with.part {
		if int(p) == k {
			c.Candidates++
		}
	}
	less := float64(c.Candidates) / (float64(a.Nodes()) / float64(k))
	if c.With, _, err = residentShare(ctx, g, with, o.Classes, math.Max(1, c.Resident-less), c.Hops); err != nil {
		return nil, c, err
	}
	if !c.pays() {
		return a, c, nil
	}
	c.Hubs = c.Candidates
	return with, c, nil
}

// residentShare is the last of Quality.ResidentShare, for resident partitions beside the pinned ones, and the number
// of training nodes that it is of.
func residentShare(ctx context.Context, g graph.Graph, a Assigner, classes []uint16, resident float64, hops int) (float64, uint64, error) {
	m := newMeasure(a, QualityOptions{Classes: classes, Hops: hops}, resident)
	if err := m.scan(ctx, g); err != nil {
		return 0, 0, fmt.Errorf("measure hubs: %w", err)
	}
	if access, ok := g.(graph.RandomAccess); ok && hops > 1 {
		return m.walk(access, hops), m.withNeighbours, nil
	}
	return m.share(), m.withNeighbours, nil
}
