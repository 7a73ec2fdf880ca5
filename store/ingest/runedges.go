package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

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
	if err := r.codeWeights(ctx); err != nil {
		return err
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

// codeWeights replaces the file of a column of weights that has at most 256 different ones by one of their numbers, a byte an edge. Where there
// is one type of nodes weights stay, so that builds that know format 1 alone read the store.
func (r *run) codeWeights(ctx context.Context) error {
	if r.typeEnds == nil {
		return nil
	}
	for i := range r.m.Columns {
		c := &r.m.Columns[i]
		if c.Role != store.RoleWeight || c.Elem != blocks.Float32 || c.Dim != 1 {
			continue
		}
		if err := r.codeColumn(ctx, c); err != nil {
			return fmt.Errorf("codes of %s: %w", c.Name, err)
		}
	}
	return nil
}

// errManyValues says that a column has more values than codes.
var errManyValues = errors.New("ingest: more values than codes")

func (r *run) codeColumn(ctx context.Context, c *store.ColumnInfo) (err error) {
	old := c.Files[0]
	f, err := blocks.Open(r.w.FS(), r.w.DataPath(old))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	code, bits := map[uint32]byte{}, []uint32(nil)
	err = eachWeight(ctx, f, nil, func(weights []uint32) error {
		for _, w := range weights {
			if _, ok := code[w]; !ok {
				if x := math.Float32frombits(w); len(code) == 1<<8 || math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
					return errManyValues
				}
				code[w], bits = 0, append(bits, w)
			}
		}
		return nil
	})
	if errors.Is(err, errManyValues) || err == nil && len(bits) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	slices.Sort(bits) // so that the same weights have the same codes, in whatever order they came
	values := make([]float32, len(bits))
	for k, w := range bits {
		values[k], code[w] = math.Float32frombits(w), byte(k)
	}
	name, w, err := r.w.CreateFile("codes-"+fileBase(c.Name), blocks.Header{Kind: blocks.EdgeColumn, Elem: blocks.Uint8, Dim: 1, Name: c.Name, Partitions: f.Header().Partitions})
	if err != nil {
		return err
	}
	var codes []byte
	err = eachWeight(ctx, f, w, func(weights []uint32) error {
		codes = codes[:0]
		for _, w := range weights {
			codes = append(codes, code[w])
		}
		_, err := w.Write(codes)
		return err
	})
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	info, err := w.Close()
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	c.Files, c.Values = []string{name}, values
	for i := range r.m.Files {
		if r.m.Files[i].Name == old {
			r.m.Files[i] = store.Ref(name, info)
		}
	}
	return r.w.FS().Remove(r.w.DataPath(old))
}

// eachWeight calls fn with the bits of a file's weights, some at a time, between the begin and end of each extent in w, if it is given.
func eachWeight(ctx context.Context, f *blocks.File, w *blocks.Writer, fn func(weights []uint32) error) error {
	const piece = 4 << 20
	buf := make([]byte, blocks.RangeBytes(piece))
	for _, e := range f.Extents() {
		if w != nil {
			if err := w.Begin(e.ID); err != nil {
				return err
			}
		}
		for at := int64(0); at < e.Length; at += piece {
			b, err := f.ReadRangeInto(e, at, min(at+piece, e.Length), buf)
			if err != nil {
				return err
			}
			weights, err := blocks.View[uint32](b)
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				err = fn(weights)
			}
			if err != nil {
				return err
			}
		}
		if w != nil {
			if err := w.End(e.Rows); err != nil {
				return err
			}
		}
	}
	return nil
}
