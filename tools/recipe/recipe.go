// Package recipe decides how a graph is laid out where its user left that open: it is what "auto" means to gstore ingest and to
// the Python package.
package recipe

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/ingest"
)

// Auto names the partitioner that is left open.
const Auto = "auto"

const (
	// partitionsMost is how many partitions a graph gets that will be trained out of core: a step of many small ones
	// holds a mixture of classes, which one of few large ones does not (docs/lab/findings.md, "What a step holds").
	partitionsMost = 512
	// partitionNodes is the fewest nodes of such a partition.
	partitionNodes = 32
	// nodeBytes and edgeBytes are what a node beside its columns, and an edge, take in training's memory.
	nodeBytes = 24
	edgeBytes = 8
	// spareBytes is what the memory must hold beside what FENNEL takes.
	spareBytes = 96 << 20
)

// A mini-batch of training's defaults (1000 seeds, fanouts 15 and 10, 128 columns between layers) has at most so many nodes after the
// first layer and before it, of which each takes so many bytes of tensors, before it those of its features too. Against what training
// says that it needs: 56.3 MiB for 56.4 on facebook-pages, 182.1 for 182.6 and 241.0 for 241.7 on block models of 1024 and 64 features.
const (
	batchNodes      = 1000 * (1 + 15)
	batchInputs     = batchNodes * (1 + 10)
	batchNodeBytes  = 1712
	batchInputBytes = 2 * 128 * 4
)

// Given says what the user decided: the recipe leaves it alone.
type Given struct{ Hubs, Hop bool }

// Choice is what a recipe decided beside the options that it set.
type Choice struct {
	Hop bool   // the first hop is to be computed
	Why string // for people; "" where there was nothing to decide
}

// Choose sets what is open of a graph with classes that training will not have in memory: more than what in.MemoryBytes leaves the
// graph beside the program, evaluation and mini-batches, or without it than the machine has. [LayOut] says how it is assigned, and the
// first hop is computed. Other graphs are assigned at random.
func Choose(d *ingest.Description, in *ingest.Options, given Given) (c Choice) {
	in.Partitioner = partitioner.MethodRandom
	bytes, nodes, batch := memoryBytes(d, in)
	limit := 2 * ingest.DefaultMemoryBytes()
	if in.MemoryBytes > 0 { // training with as much divides it
		left := budget.Share(in.MemoryBytes, budget.ProgramBytes, 1)
		limit, batch = left-left/budget.EvalShare, max(batch, left/budget.BatchShare)
	}
	labelled := slices.ContainsFunc(d.NodeColumns, func(c ingest.ColumnSpec) bool { return c.Role == store.RoleLabel })
	if bytes+batch <= limit || !labelled || len(d.Splits) == 0 || d.Task == store.TaskLink {
		return c
	}
	p := partitionsOf(nodes)
	need := partitioner.Options{Method: partitioner.MethodFennel, Partitions: p}.Need(uint64(nodes))
	if have := cmp.Or(in.MemoryBytes, ingest.DefaultMemoryBytes()); 2*need.Stream+spareBytes > have {
		c.Why = "partitions are random: keeping neighbours together (--partitioner fennel) takes more than --mem; training out of core will lose accuracy"
		return c
	}
	hubs := in.HubsAuto
	LayOut(d, in)
	what := "--partitioner fennel --hubs auto"
	if given.Hubs {
		in.HubsAuto, what = hubs, "--partitioner fennel"
	}
	if !given.Hop && CheckHop(d, in, nil) == nil {
		c.Hop = true
		what += " --precompute-hops 1"
	}
	c.Why = fmt.Sprintf("training will not have all of this graph in memory, %s and %s of mini-batches, within %s: %s", blocks.SizeText(bytes), blocks.SizeText(batch), blocks.SizeText(limit), what)
	return c
}

// LayOut sets how a graph is laid out that is learnt out of core: FENNEL keeps neighbours together, in many small partitions where in
// leaves their number open, and hubs are pinned where they pay.
func LayOut(d *ingest.Description, in *ingest.Options) {
	bytes, nodes, _ := memoryBytes(d, in)
	in.Partitioner, in.HubsAuto = partitioner.MethodFennel, true
	if in.Partitions == 0 {
		in.Partitions = max(partitionsOf(nodes), int(bytes>>26))
	}
}

// partitionsOf is how many partitions so many nodes get that are trained out of core.
func partitionsOf(nodes int64) int { return int(min(partitionsMost, max(8, nodes/partitionNodes))) }

// CheckHop refuses, before an ingest, a first hop of features that the input has not, or whose mean could not be taken after it;
// named are the features, none for all.
func CheckHop(d *ingest.Description, in *ingest.Options, named []string) error {
	features := []string{}
	for _, c := range d.NodeColumns {
		if c.Role != store.RoleFeature {
			continue
		}
		features = append(features, c.Name)
		if len(named) > 0 && !slices.Contains(named, c.Name) {
			continue
		}
		if err := nn.CheckFeature(c.Name, in.FeatureElemOf(c)); err != nil {
			return fmt.Errorf("%w: --precompute-hops 1: %w", ingest.ErrOptions, err)
		}
	}
	if len(features) == 0 {
		return fmt.Errorf("%w: --precompute-hops 1: the input's features are []", ingest.ErrOptions)
	}
	for _, name := range named {
		if !slices.Contains(features, name) {
			return fmt.Errorf("%w: --precompute-feature %s: the input's features are %q", ingest.ErrOptions, name, features)
		}
	}
	return nil
}

// memoryBytes is what the input takes in training's memory, its nodes, and what a mini-batch takes beside it, as far as they are known
// before it is read.
func memoryBytes(d *ingest.Description, in *ingest.Options) (bytes, nodes, batch int64) {
	nodes = d.Nodes
	row, features := int64(nodeBytes), int64(0)
	for _, c := range d.NodeColumns {
		nodes = max(nodes, c.Rows)
		size := int64(c.RowBytes())
		if c.Role == store.RoleFeature {
			size = int64(c.Dim * in.FeatureElemOf(c).Size())
			features += 4 * int64(c.Dim) // float32, whatever they are stored as
		}
		row += size
	}
	nodes = max(0, nodes)
	edges := max(0, d.Edges)
	if in.Undirected {
		edges *= 2
	}
	batch = min(nodes, batchNodes)*batchNodeBytes + min(nodes, batchInputs)*(batchInputBytes+features)
	return nodes*row + edges*edgeBytes, nodes, batch
}
