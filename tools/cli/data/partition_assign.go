package data

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/partitioner/graph"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storegraph"
	"github.com/gstore/gstore/tools/cli/command"
)

// computeAssignment returns the store's own partitions for a report, else new ones, and what was
// decided of --hubs auto.
func computeAssignment(ctx context.Context, e *command.Env, s *store.Store, g graph.Graph, po partitioner.Options, o *partitionOptions) (partitioner.Assigner, *partitioner.HubChoice, error) {
	if o.report {
		a, err := storegraph.Current(s)
		return a, nil, err
	}
	a, err := partitionGraph(ctx, e, g, po)
	if err == nil && !po.Method.NeedsGraph() && s.Manifest().IDs.Kind == store.IDsDense {
		a, err = storegraph.ByExternal(ctx, s, a) // as ingest assigns them
	}
	if err != nil || po.HubFraction == 0 && !o.hubs.auto || po.Method == partitioner.MethodHDR {
		return a, nil, err
	}
	ho := partitioner.HubOptions{Hops: o.hubHops, Classes: po.Classes, MemoryBytes: po.MemoryBytes}
	if o.hubs.auto {
		a, choice, err := partitioner.AutoHubs(ctx, g, a, ho)
		return a, &choice, err
	}
	if ho.Count, err = o.hubCount(s.Manifest()); err != nil {
		return nil, nil, err
	}
	a, err = partitioner.SelectHubs(ctx, g, a, ho)
	return a, nil, err
}

// partitionGraph is partitioner.Partition with a bar, and an event a pass.
func partitionGraph(ctx context.Context, e *command.Env, g graph.Graph, po partitioner.Options) (partitioner.Assigner, error) {
	bar := e.Progress(-1, "partition (nodes, pass after pass)")
	passes := passReport{e: e, last: time.Now()}
	po.Reading = func(nodes int) { _ = bar.Add(nodes) }
	po.Progress = func(p partitioner.Pass) {
		bar.Describe(passes.tell(p))
	}
	a, err := partitioner.Partition(ctx, g, po)
	_ = bar.Finish()
	return a, err
}

// pinTraining pins the training nodes of the split and has po place the others, by the graph without
// training nodes, which is freed again.
func pinTraining(ctx context.Context, e *command.Env, s *store.Store, po partitioner.Options, o *partitionOptions, need partitioner.Need, budget storegraph.Budget) (_ partitioner.Assigner, err error) {
	m := s.Manifest()
	external := !po.Method.NeedsGraph() && m.IDs.Kind == store.IDsDense // as ingest assigns them
	t, err := storegraph.Training(ctx, s, o.split, external)
	if errors.Is(err, store.ErrNotFound) {
		return nil, command.Usagef("--hubs train: %v", err)
	} else if err != nil {
		return nil, err
	}
	var g graph.Graph
	po.Nodes = t.Rest()
	if _, file := po.Method.File(); file {
		po.Nodes = m.Nodes
	}
	if po.Method.NeedsGraph() {
		var rest storegraph.Graph
		if rest, err = storegraph.OpenRest(ctx, s, s.ScratchDir(), budget, t); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, rest.Close()) }()
		if g = rest; o.mem > 0 {
			po.MemoryBytes = left(g, need, budget)
		}
	}
	a, err := partitionGraph(ctx, e, g, po)
	if err != nil {
		return nil, err
	}
	if a, err = partitioner.PinTraining(a, t); err != nil || !external {
		return a, err
	}
	return storegraph.ByExternal(ctx, s, a)
}

// writeAssignment writes a, which is by internal id, a line a node in order of
// dense external ids. An existing file is replaced only when all is written.
func writeAssignment(ctx context.Context, s *store.Store, a partitioner.Assigner, path string) (err error) {
	m := s.Manifest()
	byExternal := make([]blocks.PartitionID, m.Nodes)
	part := partitioner.Materialize(a).Part()
	var buf []byte
	for p, info := range m.Partitions {
		ids, b, err := s.ReadExternal(ctx, store.PartitionID(p), buf)
		if err != nil {
			return err
		}
		buf = b
		for i, x := range ids.Ints {
			if x >= m.Nodes {
				return fmt.Errorf("partition %d: external id %d of %d nodes", p, x, m.Nodes)
			}
			byExternal[x] = part[uint64(info.First)+uint64(i)]
		}
	}
	f, err := command.NewFile(path)
	if err != nil {
		return fmt.Errorf("write --output: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<18)
	var line []byte
	for _, p := range byExternal {
		line = append(strconv.AppendUint(line[:0], uint64(p), 10), '\n')
		if _, err = w.Write(line); err != nil {
			break
		}
	}
	if err == nil {
		err = w.Flush()
	}
	if err = f.Finish(err); err != nil {
		return fmt.Errorf("write --output: %w", err)
	}
	return nil
}
