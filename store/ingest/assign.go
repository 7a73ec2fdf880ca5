package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/partitioner/graph"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/source"
)

// assign computes the partition of every dense id; with hubs there is one
// partition more than p, the last, pinned; with training nodes as hubs there may be several. Methods that look at the graph read the source's edges
// into memory, or into a scratch file if their lists do not fit the budget.
func (r *Job) assign(ctx context.Context, p int) (partitioner.Assigner, error) {
	if r.Assigner != nil {
		return r.Assigner, nil
	}
	o := r.partitionerOptions(p)
	if r.Options.HubsTrain {
		return r.assignRest(ctx, o)
	}
	if !o.Method.NeedsGraph() && !r.Options.pins() {
		return partitioner.Partition(ctx, nil, o)
	}
	if r.Options.pins() && o.Partitions == PartitionsMax {
		return nil, fmt.Errorf("%w: %d partitions leave none for hubs", source.ErrOptions, p)
	}
	hubs := uint64(math.Round(r.Options.Hubs * float64(r.State.Nodes)))
	if r.Options.HubBytes > 0 {
		var err error
		if hubs, err = partitioner.HubCount(r.Options.HubBytes, r.nodeBytes(), r.State.Nodes); err != nil {
			return nil, fmt.Errorf("%w: %w", source.ErrOptions, err)
		}
		o.HubFraction = float64(hubs) / float64(r.State.Nodes)
	}
	r.Budget.source = SourceBytes
	classes, err := r.classes(ctx)
	if err != nil {
		return nil, err
	}
	if classes == nil && o.Method == partitioner.MethodGAP {
		return nil, fmt.Errorf("%w: partitioner gap balances labels, and the input has none; fennel needs none", source.ErrOptions)
	}
	o.Classes = classes
	return r.place(ctx, o, r.partitionerNeed(&o, r.State.Nodes), nil, func(g graph.Graph, a partitioner.Assigner) (partitioner.Assigner, error) {
		if !r.influence() {
			return a, nil
		}
		ho := partitioner.HubOptions{Hops: r.Options.HubHops, Classes: classes}
		if r.Options.HubsAuto {
			a, choice, err := partitioner.AutoHubs(ctx, g, a, ho)
			r.Report.Hubs = &choice
			return a, err
		}
		ho.Count, ho.Fraction = hubs, r.Options.Hubs
		return partitioner.SelectHubs(ctx, g, a, ho)
	})
}

// partitionerOptions are what the ingest's options say to the partitioner.
func (r *Job) partitionerOptions(p int) partitioner.Options {
	o := partitioner.Options{
		Method: r.Options.Partitioner, Partitions: p, Seed: r.Options.Seed, Nodes: r.State.Nodes, HubFraction: r.Options.Hubs,
		Order: r.Options.Order, Passes: r.Options.Passes, LabelShare: r.Options.LabelShare,
		Progress: func(p partitioner.Pass) {
			if r.Options.Passed != nil {
				r.Options.Passed(p)
			}
		},
		Reading: func(nodes int) { r.Tick(int64(nodes)) },
	}
	if _, file := o.Method.File(); file {
		o.Partitions = r.Options.Partitions // 0: as many as the file names
	}
	return o
}

// partitionerNeed is what the partitioner o takes of nodes, or the choice of hubs after it.
func (r *Job) partitionerNeed(o *partitioner.Options, nodes uint64) partitioner.Need {
	need := o.Need(nodes)
	if r.influence() {
		bytes := partitioner.HubBytes(nodes)
		need = partitioner.Need{Array: max(need.Array, bytes), Stream: max(need.Stream, bytes)}
	}
	return need
}

// influence reports whether hubs are chosen by their influence, after nodes are assigned.
func (r *Job) influence() bool {
	return r.Options.pins() && r.Options.Partitioner != partitioner.MethodHDR
}

// assignRest pins the training nodes, and has o place the others.
func (r *Job) assignRest(ctx context.Context, o partitioner.Options) (partitioner.Assigner, error) {
	t := r.training
	if _, file := o.Method.File(); !file {
		o.Nodes = t.Rest()
	}
	if !o.Method.NeedsGraph() {
		a, err := partitioner.Partition(ctx, nil, o)
		if err != nil {
			return nil, err
		}
		return partitioner.PinTraining(a, t)
	}
	return r.place(ctx, o, o.Need(o.Nodes), t, func(_ graph.Graph, a partitioner.Assigner) (partitioner.Assigner, error) {
		return partitioner.PinTraining(a, t)
	})
}

// place partitions the source's graph, without training nodes if they are given, and pins what pin says while
// the graph is there.
func (r *Job) place(ctx context.Context, o partitioner.Options, need partitioner.Need, training *partitioner.Training,
	pin func(graph.Graph, partitioner.Assigner) (partitioner.Assigner, error)) (partitioner.Assigner, error) {
	g, memory, err := r.graph(ctx, need, training)
	if err != nil {
		return nil, err
	}
	o.MemoryBytes, o.Threads = memory, r.Options.Threads
	r.Phase("partition", "nodes, pass after pass", -1)
	a, err := partitioner.Partition(ctx, g, o)
	if err == nil {
		a, err = pin(g, a)
	}
	if err := errors.Join(err, g.Close()); err != nil {
		return nil, err
	}
	o.Classes, pin = nil, nil
	debug.FreeOSMemory() // what follows counts on the whole budget
	return a, nil
}

// closableGraph is a graph that the ingester made.
type closableGraph interface {
	graph.Graph
	io.Closer
}

// graph reads the source's edges as undirected neighbour lists by dense id, beside what the partitioner needs. With
// training nodes it is the graph of the others, by their ids among each other. memory is what is left for the partitioner.
func (r *Job) graph(ctx context.Context, need partitioner.Need, training *partitioner.Training) (g closableGraph, memory int64, err error) {
	nodes, counted := r.State.Nodes, max(r.Desc.Edges, r.State.Counted)
	var edges graph.Edges = func(yield func(src, dst []uint32) error) error {
		// Lists are built by one goroutine at a time; parsing is not. The order of edges does
		// not matter: lists are sorted, or only counted.
		var mu sync.Mutex
		scratch := make([][]uint32, r.Options.Threads)
		return r.DenseEdges(ctx, func(worker int, b *source.EdgeBatch) error {
			n := b.Len()
			ids := slices.Grow(scratch[worker][:0], 2*n)[:2*n]
			scratch[worker] = ids
			for i, s := range b.Src.Ints {
				d := b.Dst.Ints[i]
				if s >= r.State.Nodes || d >= r.State.Nodes {
					return source.Inputf(b.At.Of(i), "edge from node %d to node %d, expected 0 ≤ id < %d", int64(s), int64(d), r.State.Nodes)
				}
				ids[i], ids[n+i] = uint32(s), uint32(d)
			}
			mu.Lock()
			defer mu.Unlock()
			r.Tick(int64(n))
			if err := ctx.Err(); err != nil {
				return err
			}
			return yield(ids[:n], ids[n:])
		})
	}
	if training != nil {
		edges, nodes = training.RestEdges(edges), training.Rest()
	}
	if r.Desc.Edges < 0 && (r.State.Counted == 0 || training != nil) {
		r.Phase("count edges", "edges", -1)
		counted = 0
		if err := edges(func(src, _ []uint32) error { counted += int64(len(src)); return nil }); err != nil {
			return nil, 0, err
		}
	}
	r.Phase("read the graph", "edges", -1)
	free := r.Options.MemoryBytes - r.graphFixed()
	if csr := graph.CSRBytes(nodes, uint64(counted)); csr <= free-need.Array {
		g, err := graph.BuildCSR(nodes, edges, true)
		return g, need.Array + (free-csr-need.Array)/2, err // the other half is for the heap's garbage
	}
	if least := need.Stream + graph.SpilledBytes(nodes); free < least {
		least = max(r.graphFixed()+least, r.phasesBytes())
		return nil, 0, fmt.Errorf("%w: %d MiB to partition %d nodes by their edges; the smallest that works is %dMiB",
			store.ErrBudget, r.Options.MemoryBytes>>20, nodes, (least+1<<20-1)>>20)
	}
	g, err = graph.Spill(ctx, r.Writer.TempDir(), nodes, edges, nil, free-need.Stream)
	return g, need.Stream, err
}

// classes returns 1+label of every training node of the split (of all labelled
// nodes if there is none), 0 for others; nil if the input has no labels.
func (r *Job) classes(ctx context.Context) ([]uint16, error) {
	column := slices.IndexFunc(r.Desc.NodeColumns, func(c source.ColumnSpec) bool { return c.Role == store.RoleLabel })
	if column < 0 {
		return nil, nil
	}
	r.Phase("read labels", "rows", int64(r.State.Nodes))
	k, err := r.Converter(ctx, column)
	if err != nil {
		return nil, err
	}
	classes := make([]uint16, r.State.Nodes)
	buf := []byte(nil)
	set := func(id func(i int) uint64, rows []byte, pos source.Position) error {
		var err error
		if buf, err = k.Convert(buf[:0], rows, pos); err != nil {
			return err
		}
		for i := range len(buf) / 4 {
			label, node := int32(binary.LittleEndian.Uint32(buf[4*i:])), id(i)
			switch {
			case node >= r.State.Nodes:
				return source.Inputf(pos.Of(i), "label of node %d, expected id < %d", node, r.State.Nodes)
			case (k.labelling.numbers || k.labelling.sets != nil) && label >= 0: // as if of one class
				classes[node] = 1
			case label >= math.MaxUint16:
				return source.Inputf(pos.Of(i), "label %d, at most %d can be balanced", label, math.MaxUint16-1)
			case label >= 0:
				classes[node] = uint16(label + 1)
			}
		}
		return ctx.Err()
	}
	if r.Desc.NodeColumns[column].Keyed {
		err = r.eachKeyed(ctx, column, func(ids []uint64, rows []byte, pos source.Position) error {
			return set(func(i int) uint64 { return ids[i] }, rows, pos)
		})
	} else {
		next := r.Desc.NodeColumns[column].First
		err = r.Source.Rows(ctx, r.Env(), column, func(rows []byte, pos source.Position) error {
			first := next
			next += uint64(len(rows) / r.Desc.NodeColumns[column].RowBytes())
			return set(func(i int) uint64 { return first + uint64(i) }, rows, pos)
		})
	}
	if err != nil || len(r.Desc.Splits) == 0 && r.Options.Split == "" {
		return classes, err
	}
	training, err := r.trainingNodes(ctx)
	if err != nil {
		return nil, err
	}
	for v := range classes {
		if training[v/64]>>(v%64)&1 == 0 {
			classes[v] = 0
		}
	}
	return classes, nil
}

// pinTraining reads which nodes train, where they are to be pinned.
func (r *Job) pinTraining(ctx context.Context) error {
	if !r.Options.HubsTrain || r.Assigner != nil {
		return nil
	}
	r.Budget.source = SourceBytes
	member, err := r.trainingNodes(ctx)
	if err == nil {
		r.training, err = partitioner.NewTraining(r.State.Nodes, member)
	}
	return err
}

// trainingNodes has the bit v%64 of word v/64 set where v is a training node of the split that Options names.
func (r *Job) trainingNodes(ctx context.Context) ([]uint64, error) {
	split := 0
	if r.Options.Split != "" {
		split = slices.Index(r.Desc.Splits, r.Options.Split)
	}
	if split < 0 || split >= len(r.Desc.Splits) {
		return nil, fmt.Errorf("%w: training nodes of split %q are asked for, the input has splits %q", source.ErrOptions, r.Options.Split, r.Desc.Splits)
	}
	training := make([]uint64, (r.State.Nodes+63)/64)
	if r.Options.SplitRandom != nil {
		err := r.randomParts(ctx, func(id uint64, part uint8) {
			if part == store.SplitTrain {
				training[id/64] |= 1 << (id % 64)
			}
		})
		return training, err
	}
	var dense []uint64
	err := r.Source.Split(ctx, r.Env(), split, store.SplitTrain, func(ids *source.IDs, pos source.Position) error {
		dense = ids.Ints
		if r.Dictionary != nil {
			var err error
			if dense, err = r.Dictionary.Translate(ids, nil, pos); err != nil {
				return err
			}
		}
		for i, id := range dense {
			if id >= r.State.Nodes {
				return source.Inputf(pos.Of(i), "node %d of split %s, expected 0 ≤ id < %d", int64(id), r.Desc.Splits[split], r.State.Nodes)
			}
			training[id/64] |= 1 << (id % 64)
		}
		return ctx.Err()
	})
	return training, err
}

// randomParts divides the nodes that have a label, and tells of each its part, by dense id.
func (r *Job) randomParts(ctx context.Context, tell func(id uint64, part uint8)) error {
	for c, spec := range r.Desc.NodeColumns {
		if spec.Role != store.RoleLabel {
			continue
		}
		labels, err := r.labelsOf(ctx, c)
		if err != nil {
			return err
		}
		put := func(id uint64, row []byte) {
			if labels.labelled(&spec, row) && id < r.State.Nodes {
				tell(id, r.Options.SplitRandom.part(id))
			}
		}
		size := spec.RowBytes()
		if spec.Keyed {
			return r.eachKeyed(ctx, c, func(ids []uint64, rows []byte, _ source.Position) error {
				for i, id := range ids {
					put(id, rows[i*size:])
				}
				return ctx.Err()
			})
		}
		next := spec.First
		return r.Source.Rows(ctx, r.Env(), c, func(rows []byte, _ source.Position) error {
			for ; len(rows) > 0; rows = rows[size:] {
				put(next, rows)
				next++
			}
			return ctx.Err()
		})
	}
	return nil
}
