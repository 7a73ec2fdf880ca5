package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/source"
)

func (r *Job) rules() edges.Rules {
	rules := edges.Rules{Undirected: r.Options.Undirected, Drop: r.Options.Dedup == DedupRelation || r.Options.Dedup == DedupPair,
		Pairs: r.Options.Dedup == DedupPair, KeepLoops: r.Options.SelfLoops == SelfLoopsKeep, Columns: r.Desc.EdgeColumns}
	if r.Desc.HasRelation {
		rules.Relations = len(r.relationNames())
	}
	return rules
}

// NewScatter makes what sorts edges into shards, within memory bytes; the shards are the caller's to close.
func (r *Job) NewScatter(rules edges.Rules, memory int64) (*edges.Scatter, error) {
	payload := rules.PayloadBytes()
	if r.Layout.InlineBits > 0 {
		payload = 0
	}
	chunk, _ := edges.PlanChunks(memory, r.Options.Threads, r.Layout.Shards())
	sh, err := edges.NewShards(r.Writer.FS(), r.Writer.FS().PathJoin(r.Writer.TempDir(), "edges.spill"), edges.ShardPlan{
		Shards: r.Layout.Shards(), ChunkBytes: chunk, Payload: payload, Writers: r.Options.Threads, MemoryBytes: memory})
	if err != nil {
		return nil, err
	}
	return &edges.Scatter{Rules: rules, Layout: r.Layout, Places: r.Places, Shards: sh, Done: r.Tick, Work: make([]edges.Scratch, r.Options.Threads)}, nil
}

// Edges scatters, sorts and writes the topology and the edge columns.
func (r *Job) edges(ctx context.Context) (err error) {
	rules := r.rules()
	s, err := r.NewScatter(rules, r.Budget.Edges*3/4)
	if err != nil {
		return err
	}
	sh := s.Shards
	defer func() { _ = sh.Close() }()
	r.Phase("read edges", "edges", r.Desc.Edges)
	err = r.DenseEdges(ctx, func(worker int, b *source.EdgeBatch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return s.Add(worker, b)
	})
	if err == nil && r.Options.SelfLoops == SelfLoopsAdd {
		err = s.AddLoops(ctx)
	}
	if err != nil {
		return err
	}
	sh.Finish()
	r.heap(heapBytes) // what reading left on it is garbage, and sorting takes as much as there is
	f, names, err := r.CreateEdgeFiles(rules)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			for _, w := range f.All() {
				_ = w.Abort() // nothing, for those that are closed
			}
		}
	}()
	r.Phase("sort edges", "edges", s.Read.Load()-s.Loops.Load())
	counts, err := s.Write(ctx, f, max(r.Budget.Edges-sh.ResidentBytes(), EdgesMin/4), r.Options.Threads, r.Tick)
	if err != nil {
		return r.bucketBudget(err)
	}
	for i, w := range f.All() {
		info, err := w.Close()
		if err != nil {
			return err
		}
		r.Manifest.Files = append(r.Manifest.Files, store.Ref(names[i], info))
	}
	r.Manifest.Topology, r.Manifest.Edges = names[:1], counts.Stored
	for p := range r.Manifest.Partitions {
		r.Manifest.Partitions[p].Edges = counts.Rows[p]
	}
	for k := range r.Manifest.Schema.Relations {
		r.Manifest.Schema.Relations[k].Count = counts.Relations[k]
	}
	if least := r.phasesBytes(); r.Options.MemoryBytes < least { // what partitions hold is known now
		return r.tooSmall(least)
	}
	if err := r.codeWeights(ctx); err != nil {
		return err
	}
	r.State.EdgesRead, r.State.Duplicates, r.State.SelfLoops = uint64(s.Read.Load()), counts.Duplicates, uint64(s.Loops.Load())
	r.State.BytesSpilled += sh.Spilled.Load()
	return nil
}

// CreateEdgeFiles makes the topology's and the edge columns' files, in the
// order of Files.all, and lists the columns in the manifest.
func (r *Job) CreateEdgeFiles(rules edges.Rules) (f *edges.Files, names []string, err error) {
	f = &edges.Files{}
	var made []*blocks.Writer
	create := func(base string, h blocks.Header) (*blocks.Writer, error) {
		h.Partitions = uint32(r.Layout.Partitions())
		name, w, err := r.Writer.CreateFile(base, h)
		if err != nil {
			for _, w := range made {
				_ = w.Abort()
			}
			return nil, err
		}
		names, made = append(names, name), append(made, w)
		return w, nil
	}
	column := func(spec source.ColumnSpec) (*blocks.Writer, error) {
		w, err := create(FileBase(spec.Name), blocks.Header{Kind: blocks.EdgeColumn, Elem: spec.Elem, Dim: uint32(spec.Dim), Name: spec.Name})
		if err != nil {
			return nil, err
		}
		r.Manifest.Columns = append(r.Manifest.Columns, store.ColumnInfo{Name: spec.Name, Role: spec.Role, Elem: spec.Elem, Dim: spec.Dim, Files: []string{names[len(names)-1]}})
		return w, nil
	}
	if f.Topology, err = create("topology", blocks.Header{Kind: blocks.Topology}); err != nil {
		return nil, nil, err
	}
	if n := rules.RelationBytes(); n > 0 {
		elem := blocks.Uint8
		if n == 2 {
			elem = blocks.Uint16
		}
		if f.Relation, err = column(source.ColumnSpec{Name: "relation", Role: store.RoleRelation, Elem: elem, Dim: 1}); err != nil {
			return nil, nil, err
		}
	}
	for _, spec := range rules.Columns {
		w, err := column(spec)
		if err != nil {
			return nil, nil, err
		}
		f.Columns = append(f.Columns, w)
	}
	return f, names, nil
}

// codeWeights replaces the file of a column of weights that has at most 256 different ones by one of their numbers, a byte an edge. Where there
// is one type of nodes weights stay, so that builds that know format 1 alone read the store.
func (r *Job) codeWeights(ctx context.Context) error {
	if r.typeEnds == nil {
		return nil
	}
	for i := range r.Manifest.Columns {
		c := &r.Manifest.Columns[i]
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

func (r *Job) codeColumn(ctx context.Context, c *store.ColumnInfo) (err error) {
	old := c.Files[0]
	f, err := blocks.Open(r.Writer.FS(), r.Writer.DataPath(old))
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
	name, w, err := r.Writer.CreateFile("codes-"+FileBase(c.Name), blocks.Header{Kind: blocks.EdgeColumn, Elem: blocks.Uint8, Dim: 1, Name: c.Name, Partitions: f.Header().Partitions})
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
	for i := range r.Manifest.Files {
		if r.Manifest.Files[i].Name == old {
			r.Manifest.Files[i] = store.Ref(name, info)
		}
	}
	return r.Writer.FS().Remove(r.Writer.DataPath(old))
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

// bucketBudget fills in a budget with which the bucket is sorted, and the phases after it are taken.
func (r *Job) bucketBudget(err error) error {
	var b *edges.BucketError
	if errors.As(err, &b) {
		b.Enough = max(r.Options.MemoryBytes-r.Budget.Edges+r.sortBytes(b.Bytes), r.phasesBytes())
	}
	return err
}

// checkBuckets refuses, before edges are read, a budget in which not even a bucket of average size can be sorted.
func (r *Job) checkBuckets() error {
	if r.Desc.Edges <= 0 || r.Kept != nil || r.Options.SelfLoops == SelfLoopsDrop {
		return nil
	}
	p := int64(r.Layout.Partitions())
	average := r.Desc.Edges / p / p
	need := edges.SortNeed(average, r.payload())
	if need > r.Budget.Edges || p == 1 && r.sortBytes(need) > r.Budget.Edges {
		return r.bucketBudget(&edges.BucketError{Edges: average, Bytes: need})
	}
	return nil
}

// relationNames names the relations; one without a name if there is no column.
func (r *Job) relationNames() []string {
	if len(r.State.Relations) > 0 {
		return r.State.Relations
	}
	if len(r.Desc.Relations) > 0 {
		return r.Desc.Relations
	}
	return []string{"edge"}
}
