package ingest

import (
	"context"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

func (r *run) rules() edgeRules {
	rules := edgeRules{undirected: r.o.Undirected, dedup: r.o.Dedup, selfLoops: r.o.SelfLoops, columns: r.desc.EdgeColumns}
	if r.desc.HasRelation {
		rules.relations = len(r.relationNames())
	}
	return rules
}

// newEdgeScatter makes what sorts edges into shards, within memory bytes; the shards are the caller's to close.
func (r *run) newEdgeScatter(rules edgeRules, memory int64) (*edgeScatter, error) {
	payload := rules.payloadBytes()
	if r.layout.inlineBits > 0 {
		payload = 0
	}
	chunk, _ := planChunks(memory, r.o.Threads, r.layout.shards())
	sh, err := newShards(r.w.FS(), r.w.FS().PathJoin(r.w.TempDir(), "edges.spill"), shardPlan{
		Shards: r.layout.shards(), ChunkBytes: chunk, Payload: payload, Writers: r.o.Threads, MemoryBytes: memory})
	if err != nil {
		return nil, err
	}
	return &edgeScatter{rules: rules, layout: r.layout, places: r.places, shards: sh, done: r.tick, work: make([]scatterScratch, r.o.Threads)}, nil
}

// edges scatters, sorts and writes the topology and the edge columns.
func (r *run) edges(ctx context.Context) (err error) {
	rules := r.rules()
	s, err := r.newEdgeScatter(rules, r.budget.edges*3/4)
	if err != nil {
		return err
	}
	sh := s.shards
	defer func() { _ = sh.Close() }()
	r.phase("read edges", "edges", r.desc.Edges)
	err = r.denseEdges(ctx, func(worker int, b *EdgeBatch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return s.add(worker, b)
	})
	if err == nil && rules.selfLoops == SelfLoopsAdd {
		err = s.addLoops(ctx)
	}
	if err != nil {
		return err
	}
	sh.finish()
	f, names, err := r.createEdgeFiles(rules)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			for _, w := range f.all() {
				_ = w.Abort() // nothing, for those that are closed
			}
		}
	}()
	r.phase("sort edges", "edges", s.read.Load()-s.loops.Load())
	counts, err := s.write(ctx, f, max(r.budget.edges-sh.residentBytes(), edgesMin/4), r.o.Threads, r.tick)
	if err != nil {
		return r.bucketBudget(err)
	}
	for i, w := range f.all() {
		info, err := w.Close()
		if err != nil {
			return err
		}
		r.m.Files = append(r.m.Files, store.Ref(names[i], info))
	}
	r.m.Topology, r.m.Edges = names[:1], counts.stored
	for p := range r.m.Partitions {
		r.m.Partitions[p].Edges = counts.rows[p]
	}
	for k := range r.m.Schema.Relations {
		r.m.Schema.Relations[k].Count = counts.relations[k]
	}
	r.state.EdgesRead, r.state.Duplicates, r.state.SelfLoops = uint64(s.read.Load()), counts.duplicates, uint64(s.loops.Load())
	r.state.BytesSpilled += sh.spilled.Load()
	return nil
}

// createEdgeFiles makes the topology's and the edge columns' files, in the
// order of edgeFiles.all, and lists the columns in the manifest.
func (r *run) createEdgeFiles(rules edgeRules) (f *edgeFiles, names []string, err error) {
	f = &edgeFiles{}
	var made []*blocks.Writer
	create := func(base string, h blocks.Header) (*blocks.Writer, error) {
		h.Partitions = uint32(r.layout.partitions())
		name, w, err := r.w.CreateFile(base, h)
		if err != nil {
			for _, w := range made {
				_ = w.Abort()
			}
			return nil, err
		}
		names, made = append(names, name), append(made, w)
		return w, nil
	}
	column := func(spec ColumnSpec) (*blocks.Writer, error) {
		w, err := create(fileBase(spec.Name), blocks.Header{Kind: blocks.EdgeColumn, Elem: spec.Elem, Dim: uint32(spec.Dim), Name: spec.Name})
		if err != nil {
			return nil, err
		}
		r.m.Columns = append(r.m.Columns, store.ColumnInfo{Name: spec.Name, Role: spec.Role, Elem: spec.Elem, Dim: spec.Dim, Files: []string{names[len(names)-1]}})
		return w, nil
	}
	if f.topology, err = create("topology", blocks.Header{Kind: blocks.Topology}); err != nil {
		return nil, nil, err
	}
	if n := rules.relationBytes(); n > 0 {
		elem := blocks.Uint8
		if n == 2 {
			elem = blocks.Uint16
		}
		if f.relation, err = column(ColumnSpec{Name: "relation", Role: store.RoleRelation, Elem: elem, Dim: 1}); err != nil {
			return nil, nil, err
		}
	}
	for _, spec := range rules.columns {
		w, err := column(spec)
		if err != nil {
			return nil, nil, err
		}
		f.columns = append(f.columns, w)
	}
	return f, names, nil
}
