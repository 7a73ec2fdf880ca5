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
	"github.com/gstore/gstore/store"
)

// assign computes the partition of every dense id; with hubs there is one
// partition more than p, the last, pinned; with training nodes as hubs there may be several. Methods that look at the graph read the source's edges
// into memory, or into a scratch file if their lists do not fit the budget.
func (r *run) assign(ctx context.Context, p int) (partitioner.Assigner, error) {
	if r.assigner != nil {
		return r.assigner, nil
	}
	o := partitioner.Options{
		Method: r.o.Partitioner, Partitions: p, Seed: r.o.Seed, Nodes: r.state.Nodes, HubFraction: r.o.Hubs,
		Order: r.o.Order, Passes: r.o.Passes, LabelShare: r.o.LabelShare,
		Progress: func(p partitioner.Pass) {
			if r.o.Passed != nil {
				r.o.Passed(p)
			}
		},
		Reading: func(nodes int) { r.tick(int64(nodes)) },
	}
	if _, file := o.Method.File(); file {
		o.Partitions = r.o.Partitions // 0: as many as the file names
	}
	if r.o.HubsTrain {
		return r.assignRest(ctx, o)
	}
	if !o.Method.NeedsGraph() && !r.o.pins() {
		return partitioner.Partition(ctx, nil, o)
	}
	if r.o.pins() && o.Partitions == PartitionsMax {
		return nil, fmt.Errorf("%w: %d partitions leave none for hubs", ErrOptions, p)
	}
	hubs := uint64(math.Round(r.o.Hubs * float64(r.state.Nodes)))
	if r.o.HubBytes > 0 {
		var err error
		if hubs, err = partitioner.HubCount(r.o.HubBytes, r.nodeBytes(), r.state.Nodes); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		o.HubFraction = float64(hubs) / float64(r.state.Nodes)
	}
	r.budget.source = sourceBytes
	classes, err := r.classes(ctx)
	if err != nil {
		return nil, err
	}
	if classes == nil && o.Method == partitioner.MethodGAP {
		return nil, fmt.Errorf("%w: partitioner gap balances labels, and the input has none; fennel needs none", ErrOptions)
	}
	o.Classes = classes
	need := o.Need(r.state.Nodes)
	influence := r.o.pins() && o.Method != partitioner.MethodHDR
	if influence {
		bytes := partitioner.HubBytes(r.state.Nodes)
		need = partitioner.Need{Array: max(need.Array, bytes), Stream: max(need.Stream, bytes)}
	}
	return r.place(ctx, o, need, nil, func(g partitioner.Graph, a partitioner.Assigner) (partitioner.Assigner, error) {
		if !influence {
			return a, nil
		}
		ho := partitioner.HubOptions{Hops: r.o.HubHops, Classes: classes}
		if r.o.HubsAuto {
			a, choice, err := partitioner.AutoHubs(ctx, g, a, ho)
			r.rep.Hubs = &choice
			return a, err
		}
		ho.Count, ho.Fraction = hubs, r.o.Hubs
		return partitioner.SelectHubs(ctx, g, a, ho)
	})
}

// assignRest pins the training nodes, and has o place the others.
func (r *run) assignRest(ctx context.Context, o partitioner.Options) (partitioner.Assigner, error) {
	r.budget.source = sourceBytes
	member, err := r.training(ctx)
	if err != nil {
		return nil, err
	}
	t, err := partitioner.NewTraining(r.state.Nodes, member)
	if err != nil {
		return nil, err
	}
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
	return r.place(ctx, o, o.Need(o.Nodes), t, func(_ partitioner.Graph, a partitioner.Assigner) (partitioner.Assigner, error) {
		return partitioner.PinTraining(a, t)
	})
}

// place partitions the source's graph, without training nodes if they are given, and pins what pin says while
// the graph is there.
func (r *run) place(ctx context.Context, o partitioner.Options, need partitioner.Need, training *partitioner.Training,
	pin func(partitioner.Graph, partitioner.Assigner) (partitioner.Assigner, error)) (partitioner.Assigner, error) {
	g, memory, err := r.graph(ctx, need, training)
	if err != nil {
		return nil, err
	}
	o.MemoryBytes, o.Threads = memory, r.o.Threads
	r.phase("partition", "nodes, pass after pass", -1)
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
	partitioner.Graph
	io.Closer
}

// graph reads the source's edges as undirected neighbour lists by dense id, beside what the partitioner needs. With
// training nodes it is the graph of the others, by their ids among each other. memory is what is left for the partitioner.
func (r *run) graph(ctx context.Context, need partitioner.Need, training *partitioner.Training) (g closableGraph, memory int64, err error) {
	nodes, counted := r.state.Nodes, r.desc.Edges
	var edges partitioner.Edges = func(yield func(src, dst []uint32) error) error {
		// Lists are built by one goroutine at a time; parsing is not. The order of edges does
		// not matter: lists are sorted, or only counted.
		var mu sync.Mutex
		scratch := make([][]uint32, r.o.Threads)
		return r.denseEdges(ctx, func(worker int, b *EdgeBatch) error {
			n := b.Len()
			ids := slices.Grow(scratch[worker][:0], 2*n)[:2*n]
			scratch[worker] = ids
			for i, s := range b.Src.Ints {
				d := b.Dst.Ints[i]
				if s >= r.state.Nodes || d >= r.state.Nodes {
					return Inputf(b.At.Of(i), "edge from node %d to node %d, expected 0 ≤ id < %d", int64(s), int64(d), r.state.Nodes)
				}
				ids[i], ids[n+i] = uint32(s), uint32(d)
			}
			mu.Lock()
			defer mu.Unlock()
			r.tick(int64(n))
			if err := ctx.Err(); err != nil {
				return err
			}
			return yield(ids[:n], ids[n:])
		})
	}
	if training != nil {
		edges, nodes = training.RestEdges(edges), training.Rest()
	}
	if counted < 0 {
		r.phase("count edges", "edges", -1)
		counted = 0
		if err := edges(func(src, _ []uint32) error { counted += int64(len(src)); return nil }); err != nil {
			return nil, 0, err
		}
	}
	r.phase("read the graph", "edges", -1)
	free := r.o.MemoryBytes - int64(runtimeBytes) - sourceBytes - r.state.DictionaryBytes - 2*int64(r.state.Nodes) // classes, or which nodes train
	if csr := partitioner.CSRBytes(nodes, uint64(counted)); csr <= free-need.Array {
		g, err := partitioner.BuildCSR(nodes, edges, true)
		return g, need.Array + (free-csr-need.Array)/2, err // the other half is for the heap's garbage
	}
	if least := need.Stream + partitioner.SpilledBytes(nodes); free < least {
		return nil, 0, fmt.Errorf("%w: partitioning %d nodes by their edges takes %d MiB, the budget is %d MiB",
			store.ErrBudget, nodes, (r.o.MemoryBytes-free+least+1<<20-1)>>20, r.o.MemoryBytes>>20)
	}
	g, err = partitioner.Spill(ctx, r.w.TempDir(), nodes, edges, nil, free-need.Stream)
	return g, need.Stream, err
}

// classes returns 1+label of every training node of the split (of all labelled
// nodes if there is none), 0 for others; nil if the input has no labels.
func (r *run) classes(ctx context.Context) ([]uint16, error) {
	column := slices.IndexFunc(r.desc.NodeColumns, func(c ColumnSpec) bool { return c.Role == store.RoleLabel })
	if column < 0 {
		return nil, nil
	}
	r.phase("read labels", "rows", int64(r.state.Nodes))
	k, err := r.converter(ctx, column)
	if err != nil {
		return nil, err
	}
	classes := make([]uint16, r.state.Nodes)
	buf := []byte(nil)
	set := func(id func(i int) uint64, rows []byte, pos Position) error {
		var err error
		if buf, err = k.convert(buf[:0], rows, pos); err != nil {
			return err
		}
		for i := range len(buf) / 4 {
			label, node := int32(binary.LittleEndian.Uint32(buf[4*i:])), id(i)
			switch {
			case node >= r.state.Nodes:
				return Inputf(pos.Of(i), "label of node %d, expected id < %d", node, r.state.Nodes)
			case label >= math.MaxUint16:
				return Inputf(pos.Of(i), "label %d, at most %d can be balanced", label, math.MaxUint16-1)
			case label >= 0:
				classes[node] = uint16(label + 1)
			}
		}
		return ctx.Err()
	}
	if r.desc.NodeColumns[column].Keyed {
		err = r.eachKeyed(ctx, column, func(ids []uint64, rows []byte, pos Position) error {
			return set(func(i int) uint64 { return ids[i] }, rows, pos)
		})
	} else {
		next := r.desc.NodeColumns[column].First
		err = r.src.Rows(ctx, r.srcEnv(), column, func(rows []byte, pos Position) error {
			first := next
			next += uint64(len(rows) / r.desc.NodeColumns[column].RowBytes())
			return set(func(i int) uint64 { return first + uint64(i) }, rows, pos)
		})
	}
	if err != nil || len(r.desc.Splits) == 0 && r.o.Split == "" {
		return classes, err
	}
	training, err := r.training(ctx)
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

// training has the bit v%64 of word v/64 set where v is a training node of the split that Options names.
func (r *run) training(ctx context.Context) ([]uint64, error) {
	split := 0
	if r.o.Split != "" {
		split = slices.Index(r.desc.Splits, r.o.Split)
	}
	if split < 0 || split >= len(r.desc.Splits) {
		return nil, fmt.Errorf("%w: training nodes of split %q are asked for, the input has splits %q", ErrOptions, r.o.Split, r.desc.Splits)
	}
	training := make([]uint64, (r.state.Nodes+63)/64)
	if r.o.SplitRandom != nil {
		err := r.randomParts(ctx, func(id uint64, part uint8) {
			if part == store.SplitTrain {
				training[id/64] |= 1 << (id % 64)
			}
		})
		return training, err
	}
	var dense []uint64
	err := r.src.Split(ctx, r.srcEnv(), split, store.SplitTrain, func(ids *IDs, pos Position) error {
		dense = ids.Ints
		if r.dict != nil {
			var err error
			if dense, err = r.dict.translate(ids, nil, pos); err != nil {
				return err
			}
		}
		for i, id := range dense {
			if id >= r.state.Nodes {
				return Inputf(pos.Of(i), "node %d of split %s, expected 0 ≤ id < %d", int64(id), r.desc.Splits[split], r.state.Nodes)
			}
			training[id/64] |= 1 << (id % 64)
		}
		return ctx.Err()
	})
	return training, err
}
