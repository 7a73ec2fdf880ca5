package data

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/tools/cli/command"
)

// partitionerAuto, the default of --partitioner, is what suits the input: see recipe.
const partitionerAuto = "auto"

const (
	// recipePartitions is how many partitions a graph gets that will be trained out of core: a step of many small ones
	// holds a mixture of classes, which one of few large ones does not (docs/findings.md, "What a step holds").
	recipePartitions = 512
	// recipeNodes is the fewest nodes of such a partition.
	recipeNodes = 32
	// nodeMemoryBytes and edgeMemoryBytes are what a node beside its columns, and an edge, take in training's memory.
	nodeMemoryBytes = 24
	edgeMemoryBytes = 8
	// recipeSpare is what --mem must hold beside what FENNEL takes.
	recipeSpare = 96 << 20
)

// recipe decides what the user left open of a graph with classes that training will not have in memory: more than --mem,
// or without it than the machine has. FENNEL keeps neighbours together, hubs are pinned where they pay, and the
// first hop is computed. Other graphs are assigned at random. It says what it chose, and why.
func (o *ingestOptions) recipe(e *command.Env, d *ingest.Description, in *ingest.Options) {
	if o.partitioner != partitionerAuto {
		return
	}
	in.Partitioner = partitioner.MethodRandom
	limit := in.MemoryBytes
	if limit == 0 {
		limit = 2 * ingest.DefaultMemoryBytes()
	}
	bytes, nodes := memoryBytes(d, in)
	labelled := slices.ContainsFunc(d.NodeColumns, func(c ingest.ColumnSpec) bool { return c.Role == store.RoleLabel })
	if bytes <= limit || !labelled || len(d.Splits) == 0 || d.Task == store.TaskLink {
		return
	}
	p := int(min(recipePartitions, max(8, nodes/recipeNodes)))
	need := partitioner.Options{Method: partitioner.MethodFennel, Partitions: p}.Need(uint64(nodes))
	if have := cmp.Or(in.MemoryBytes, ingest.DefaultMemoryBytes()); 2*need.Stream+recipeSpare > have {
		o.tell(e, "partitions are random: keeping neighbours together (--partitioner fennel) takes more than --mem; training out of core will lose accuracy")
		return
	}
	in.Partitioner = partitioner.MethodFennel
	if in.Partitions == 0 {
		in.Partitions = max(p, int(bytes>>26))
	}
	what := "--partitioner fennel"
	if !o.given("hubs") {
		in.HubsAuto = true
		what += " --hubs auto"
	}
	if !o.given("precompute-hops") {
		if o.hops = 1; o.checkHop(d, in) != nil {
			o.hops = 0
		} else {
			what += " --precompute-hops 1"
		}
	}
	o.tell(e, fmt.Sprintf("training will not have all of this graph in memory, %s, within %s: %s", command.FormatSize(bytes), command.FormatSize(limit), what))
}

// tell says what was chosen, and why.
func (o *ingestOptions) tell(e *command.Env, why string) {
	e.Event("recipe", map[string]any{"why": why})
	if !e.JSON && !e.Quiet {
		fmt.Fprintln(e.Stdout, why)
	}
}

// memoryBytes is what the input takes in training's memory, and its nodes, as far as both are known before it is read.
func memoryBytes(d *ingest.Description, in *ingest.Options) (bytes, nodes int64) {
	nodes = d.Nodes
	row := int64(nodeMemoryBytes)
	for _, c := range d.NodeColumns {
		nodes = max(nodes, c.Rows)
		size := int64(c.RowBytes())
		if c.Role == store.RoleFeature {
			size = int64(c.Dim * in.FeatureElemOf(c).Size())
		}
		row += size
	}
	edges := max(0, d.Edges)
	if in.Undirected {
		edges *= 2
	}
	return max(0, nodes)*row + edges*edgeMemoryBytes, max(0, nodes)
}
