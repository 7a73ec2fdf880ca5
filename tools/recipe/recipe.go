// Package recipe decides how a graph is laid out where its user left that open: it is what "auto" means to gstore ingest and to
// the Python package.
package recipe

import (
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/gpu/train/sparse"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/tools/device"
)

// Auto names the partitioner that is left open.
const Auto = "auto"

const (
	// partitionsMost is how many partitions a graph gets that will be trained out of core: a step of many small ones
	// holds a mixture of classes, which one of few large ones does not (docs/lab/findings.md, "What a step holds").
	partitionsMost = 512
	// partitionNodes is the fewest nodes of such a partition.
	partitionNodes = 32
	// linkPartitions is how many partitions a graph of links of fewer than linkNodes nodes gets within a budget; larger
	// ones get more unasked. FB15k-237 trains within 132 MiB of 16, 139 of 8 and 212 of one.
	linkPartitions = 16
	linkNodes      = 1 << 14
	// nodeBytes and edgeBytes are what a node beside its columns, and an edge, take in training's memory.
	nodeBytes = 24
	edgeBytes = 8
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
type Given struct{ Hubs, Hop, Memory bool }

// Choice is what a recipe decided beside the options that it set.
type Choice struct {
	Hop bool   // the first hop is to be computed
	Why string // for people; "" where there was nothing to decide
}

// Decide returns what [ingest.Options].Decide is where the partitioner is left open: it chooses as [Choose] says, and tells the choice
// that is taken.
func Decide(given Given, tell func(Choice)) func(context.Context, *ingest.Prospect, *ingest.Options) (func(), error) {
	return func(ctx context.Context, p *ingest.Prospect, in *ingest.Options) (func(), error) {
		c, err := Choose(ctx, p, in, given)
		return func() { tell(c) }, err
	}
}

// Choose sets what is open of a graph with classes that training will not have in memory: more than what in.MemoryBytes leaves the
// graph beside the program, evaluation and mini-batches, or, where that is not given, than what training takes unasked leaves. [LayOut] says how it is assigned, and the
// first hop is computed, both as far as an ingest within in.MemoryBytes can. Other graphs are assigned at random.
func Choose(ctx context.Context, p *ingest.Prospect, in *ingest.Options, given Given) (c Choice, err error) {
	in.Partitioner = partitioner.MethodRandom
	d := p.Describe()
	labelled := slices.ContainsFunc(d.NodeColumns, func(c ingest.ColumnSpec) bool { return c.Role == store.RoleLabel })
	if d.Task == store.TaskLink && (given.Memory || unaskedBound(p, in)) {
		divideLinks(p, in)
	}
	if !labelled || len(d.Splits) == 0 || d.Task == store.TaskLink {
		return c, nil
	}
	bytes, batch, err := memoryBytes(ctx, p, in)
	if err != nil {
		return c, err
	}
	memory := in.MemoryBytes
	if !given.Memory {
		memory = budget.UnaskedBytes()
	}
	if !given.Memory && fitsManyTimes*(bytes+batch) <= memory {
		return c, nil
	}
	// Training divides what it has.
	left := budget.Share(memory, budget.ProgramBytes, 1)
	limit, batch := left-left/budget.EvalShare, max(batch, left/budget.BatchShare)
	if beside, ok := besideBytes(ctx, p, in, memory, nil); ok { // as training's own account has it
		limit, batch = left, max(batch, beside-budget.ProgramBytes)
	}
	if bytes+batch <= limit {
		return c, nil
	}
	of, err := sparseFeature(ctx, p, in)
	if err != nil {
		return c, err
	}
	if of != nil { // which that account has the features in
		graph := bytes - of.DenseBytes()
		own := given
		own.Hop = true // nothing is absent
		l := layouts(p, in, bytes, own)[0]
		if beside, ok := besideBytes(ctx, p, &l.options, memory, of); ok && graph+beside-budget.ProgramBytes <= left && p.LeastBytes(l.options) <= in.MemoryBytes {
			*in = l.options
			c.Why = fmt.Sprintf("training will have in memory what is not 0 of the features, %s of %s: %s", blocks.SizeText(of.Bytes()), blocks.SizeText(of.DenseBytes()), l.what)
			return c, nil
		}
	}
	what, chosen := "", *in
	for _, l := range layouts(p, in, bytes, given) {
		if what, chosen, c.Hop = l.what, l.options, l.hop; p.LeastBytes(chosen) <= in.MemoryBytes {
			break
		}
	}
	*in = chosen
	c.Why = fmt.Sprintf("training will not have all of this graph in memory, %s and %s of mini-batches, within %s: %s", blocks.SizeText(bytes), blocks.SizeText(batch), blocks.SizeText(limit), what)
	if in.Partitioner == partitioner.MethodRandom {
		c.Why += "; keeping neighbours together (--partitioner fennel) takes more than --mem"
	}
	return c, nil
}

// unaskedBound reports whether training of links is bounded by what the machine has.
func unaskedBound(p *ingest.Prospect, in *ingest.Options) bool {
	bytes, _ := budget.Unasked(p.Manifest(*in), budget.LearnedBytes(learnedDim))
	return bytes > 0
}

// learnedDim is about how many numbers a node's learned vector has.
const learnedDim = 256

// divideLinks gives a small graph of links that is made within a budget, or on a small machine, as many partitions as training can choose
// from: of one alone it would have to hold everything, and rank against all of it at once.
func divideLinks(p *ingest.Prospect, in *ingest.Options) {
	parts := int(min(linkPartitions, p.Nodes()/partitionNodes))
	if in.Partitions > 0 || p.Nodes() >= linkNodes || parts < 2 {
		return
	}
	divided := *in
	if divided.Partitions = parts; p.LeastBytes(divided) <= in.MemoryBytes {
		*in = divided
	}
}

// fitsManyTimes: a graph that training has in so small a part of its memory needs no account.
const fitsManyTimes = 4

// besideBytes is what training by its defaults within memory holds beside the graph where it has all of it, by
// the account that training asks too, of a feature that is mostly 0 by its other elements; not ok where the input does not say enough of the store.
func besideBytes(ctx context.Context, p *ingest.Prospect, in *ingest.Options, memory int64, of *sparse.Counts) (n int64, ok bool) {
	m := p.Manifest(*in)
	m.Schema.Task = store.TaskNode
	m.Schema.Classes = max(m.Schema.Classes, 1) // what is not known yet: states have more columns
	c, err := unasked(m, memory)
	if err != nil {
		return 0, false
	}
	info, err := device.Unasked()
	if err != nil {
		return 0, false
	}
	if c.FillFeatures(m); of != nil {
		if !info.Sparse || c.SparseColumn(m) == nil {
			return 0, false
		}
		c.MostlyZero, c.Sparse = true, of
	}
	a, err := planning.OpenAhead(ctx, info, m, c)
	if err != nil { // training will say what does not fit the task
		return 0, false
	}
	return a.BesideBytes(memory), true
}

// layout is one way to lay out a graph that is learnt out of core.
type layout struct {
	options ingest.Options
	hop     bool
	what    string
}

// layouts are the ways to lay out a graph of so many bytes that is learnt out of core, the best first, the one that takes least last.
func layouts(p *ingest.Prospect, in *ingest.Options, bytes int64, given Given) (ls []layout) {
	hop := !given.Hop && CheckHop(p.Describe(), in, nil) == nil
	fennel, random := layout{options: *in, what: "--partitioner fennel --hubs auto"}, layout{options: *in, what: "--partitioner random"}
	layOut(p.Nodes(), bytes, &fennel.options)
	random.options.Partitions = fennel.options.Partitions
	if given.Hubs { // which the user sizes, whatever the partitioner
		fennel.options.HubsAuto, fennel.what = in.HubsAuto, "--partitioner fennel"
	}
	for _, l := range []layout{fennel, random} {
		if hop {
			with := l
			with.hop, with.what = true, l.what+" --precompute-hops 1"
			with.options.Later = Hop(precompute.Options{MemoryBytes: in.MemoryBytes})
			ls = append(ls, with)
		}
		ls = append(ls, l)
	}
	return ls
}

// HopLater names the first hop as what follows an ingest.
const HopLater = "hop"

// Hop is what [ingest.Options].Later is where the first hop is computed by o after the ingest.
func Hop(o precompute.Options) *ingest.Later {
	return &ingest.Later{Name: HopLater, LeastBytes: func(m *store.Manifest) int64 {
		least, err := precompute.LeastBytes(m, nil, o)
		if err != nil {
			return 0 // which the hop will say of the store itself
		}
		return least
	}}
}

// LayOut sets how a graph is laid out that is learnt out of core: FENNEL keeps neighbours together, in many small partitions where in
// leaves their number open, and hubs are pinned where they pay.
func LayOut(ctx context.Context, p *ingest.Prospect, in *ingest.Options) error {
	bytes, _, err := memoryBytes(ctx, p, in)
	layOut(p.Nodes(), bytes, in)
	return err
}

func layOut(nodes uint64, bytes int64, in *ingest.Options) {
	in.Partitioner, in.HubsAuto = partitioner.MethodFennel, true
	if in.Partitions == 0 {
		in.Partitions = max(partitionsOf(nodes), int(bytes>>26))
	}
}

// partitionsOf is how many partitions so many nodes get that are trained out of core.
func partitionsOf(nodes uint64) int { return int(min(partitionsMost, max(8, nodes/partitionNodes))) }

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

// memoryBytes is what the input takes in training's memory, and what a mini-batch takes beside it.
func memoryBytes(ctx context.Context, p *ingest.Prospect, in *ingest.Options) (bytes, batch int64, err error) {
	edges, err := p.Edges(ctx)
	if err != nil {
		return 0, 0, err
	}
	if in.Undirected {
		edges *= 2
	}
	bytes, batch = rowBytes(p, in)
	return bytes + edges*edgeBytes, batch, nil
}

// rowBytes is what the input's nodes take in training's memory, and what a mini-batch takes beside it.
func rowBytes(p *ingest.Prospect, in *ingest.Options) (bytes, batch int64) {
	nodes := int64(p.Nodes())
	row, features := int64(nodeBytes), int64(0)
	for _, c := range p.Describe().NodeColumns {
		size := int64(c.RowBytes())
		if c.Role == store.RoleFeature {
			size = int64(c.Dim * in.FeatureElemOf(c).Size())
			features += 4 * int64(c.Dim) // float32, whatever they are stored as
		}
		row += size
	}
	return nodes * row, min(nodes, batchNodes)*batchNodeBytes + min(nodes, batchInputs)*(batchInputBytes+features)
}
