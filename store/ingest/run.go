package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/dictionary"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/source"
)

// Job is one ingest, or a part of one: what its phases know of each other. Run takes all of them; packages grow and
// repartition fill it in for those that they need, and nobody else does.
type Job struct {
	Options  Options
	Source   source.Source
	Desc     *source.Description
	Writer   *store.Writer
	Manifest *store.Manifest // grows phase by phase; saved after each
	Report   Report
	State    *State
	Budget   Budget
	Layout   *edges.Layout
	Places   *edges.Places
	// typeEnds are, by node type, the ends of its source ids, which count type by type; nil = there is one type, or they do not.
	typeEnds   []uint64
	Dictionary *dictionary.Dictionary // nil where source ids are dense
	// Kept is the store that is repartitioned and Assigner its new assignment; nil otherwise.
	Kept     Kept
	Assigner partitioner.Assigner
	// FirstPart is the partition that the layout's first one is in the store, and like the
	// columns that node columns continue: both of an append's new nodes, else 0 and nil.
	FirstPart int
	whole     bool // all phases are taken, of a source that is no store
	Like      map[string]*store.ColumnInfo
	// LabelNames are the labels of the store that an append's nodes have any of.
	LabelNames LabelNames
	// RelationIndex numbers relations by name.
	RelationIndex map[string]uint32

	labels          *labelling            // what labels are; nil: they were not looked at
	rowless         map[string]bool       // node types of which it was told how many nodes have no row
	counts          *bucketCounts         // nil where it was not worth a pass over the edges
	most            int64                 // edgesMost, once it is known
	training        *partitioner.Training // with HubsTrain, once they are read
	phaseName, unit string
	total           int64
	ticks           atomic.Int64
}

// Kept is the store that is repartitioned, as far as it is more than a source.
type Kept interface {
	Need() int64 // the memory that reading it takes
	Typed() bool // whether the type of every node is known
	// Keep restores in m what the store says and rows do not.
	Keep(m *store.Manifest)
	// WriteIDs writes integer external ids.
	WriteIDs(ctx context.Context, r *Job) error
}

// Run ingests src into a store in directory dir, which must not hold one, and
// commits version 1. Until it returns nil there is nothing that opens.
//
// When the input is bad (ErrInput), the options are (ErrOptions) or the budget
// is too small (store.ErrBudget), dir is left as if Run had not been called, but
// for finished phases that a resumed ingest found there.
// After any other failure (a full disk, cancellation, a crash) dir
// holds an unfinished ingest: Open refuses it with store.ErrNoVersion,
// Run with Options.Resume continues it, Run without starts afresh. Only an error
// of the commit itself (it says so) leaves open whether the store is there: then it
// is whole, and Run again fails with store.ErrExists.
func Run(ctx context.Context, dir string, src source.Source, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := src.Describe().CheckNames(); err != nil {
		return nil, err
	}
	o.Undirected = o.Undirected || src.Describe().Undirected
	o = o.WithDefaults()
	if o.MissingMask {
		var err error
		if src, err = source.WithMasks(src, func(string) bool { return true }); err != nil {
			return nil, err
		}
	}
	if o.SplitRandom != nil {
		var err error
		if src, err = withRandomSplit(src, o.SplitRandom); err != nil {
			return nil, err
		}
	}
	w, err := store.Create(dir, store.WriterOptions{FS: o.FS, KeepUnnamed: o.Resume})
	if err != nil {
		return nil, err
	}
	r := &Job{Options: o, Source: src, Desc: src.Describe(), Writer: w}
	err = r.Run(ctx)
	if r.Places != nil {
		r.Places.Close()
	}
	if r.Dictionary != nil {
		r.Dictionary.Close()
	}
	if err == nil {
		return &r.Report, w.Close()
	}
	// What a resumed ingest found finished is not the fault of today's options.
	if len(r.Report.Resumed) == 0 && Refused(err) {
		return nil, errors.Join(err, w.Abort())
	}
	return nil, errors.Join(err, w.Close())
}

// Refused reports whether err says that input, options or budget will not do, rather than
// that the ingest was interrupted.
func Refused(err error) bool {
	return errors.Is(err, source.ErrInput) || errors.Is(err, source.ErrOptions) || errors.Is(err, store.ErrBudget) || errors.Is(err, partitioner.ErrOption) ||
		errors.Is(err, partitioner.ErrFile) || errors.Is(err, partitioner.ErrBudget)
}

// Run takes every phase that is left, and commits.
func (r *Job) Run(ctx context.Context) error {
	r.whole = r.Kept == nil
	if err := r.loadState(); err != nil {
		return err
	}
	if err := r.step(ctx, "nodes", r.resolveNodes); err != nil {
		return err
	}
	if r.Desc.IDs != store.IDsDense && r.Dictionary == nil { // resumed: the dictionary is not kept
		if err := r.CollectIDs(ctx); err != nil {
			return err
		}
	}
	if err := r.countPrefixes(ctx); err != nil {
		return err
	}
	r.numberNodes()
	if err := r.plan(ctx); err != nil {
		return err
	}
	if err := r.step(ctx, "edges", r.edges); err != nil {
		return err
	}
	for c := range r.Desc.NodeColumns {
		if err := r.step(ctx, "column "+r.Desc.NodeColumns[c].Name, func(ctx context.Context) error { return r.Column(ctx, c) }); err != nil {
			return err
		}
	}
	for s := range r.Desc.Splits {
		if err := r.step(ctx, "split "+r.Desc.Splits[s], func(ctx context.Context) error { return r.split(ctx, s) }); err != nil {
			return err
		}
	}
	for l := range r.Desc.EdgeLists {
		if err := r.step(ctx, "edge list "+r.Desc.EdgeLists[l], func(ctx context.Context) error { return r.edgeList(ctx, l) }); err != nil {
			return err
		}
	}
	if err := r.step(ctx, "ids", r.ids); err != nil {
		return err
	}
	r.Phase("commit", "files", -1)
	for _, relation := range slices.Sorted(maps.Keys(r.State.Dangling)) {
		r.note("%d edges of %s name no row: they are left out (--dangling %s)", r.State.Dangling[relation], relation, r.Desc.Dangling)
	}
	m := r.State.Manifest
	if r.Kept != nil {
		r.Kept.Keep(m)
	}
	if err := r.Writer.Commit(ctx, m); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	r.Report.Manifest, r.Report.Nodes, r.Report.BytesStored, r.Report.PeakRSSBytes = m, m.Nodes, m.Bytes(), usage.PeakRSSBytes()
	r.Report.EdgesStored = m.Edges
	r.Report.NotText, r.Report.NotTextSuch = r.State.NotText, string(r.State.NotTextSuch)
	r.Report.EdgesRead, r.Report.Duplicates, r.Report.SelfLoops = r.State.EdgesRead, r.State.Duplicates, r.State.SelfLoops
	r.Report.BytesSpilled = r.State.BytesSpilled
	return nil
}

// Env is what the source may use.
func (r *Job) Env() source.Env {
	return source.Env{Threads: r.Options.Threads, MemoryBytes: r.Budget.source, ScratchDir: r.Writer.TempDir(), FS: r.Writer.FS()}
}

// Phase names what follows for progress.
func (r *Job) Phase(name, unit string, total int64) {
	r.phaseName, r.unit, r.total = name, unit, total
	r.ticks.Store(0)
	r.Tick(0)
}

// Tick reports n more units done; it may be called concurrently.
func (r *Job) Tick(n int64) {
	done := r.ticks.Add(n)
	if r.Options.Progress != nil {
		r.Options.Progress(Progress{Phase: r.phaseName, Unit: r.unit, Done: done, Total: r.total})
	}
}

// resolveNodes finds the number of nodes, and the relations if edges carry their names.
func (r *Job) resolveNodes(ctx context.Context) error {
	if r.Desc.IDs != store.IDsDense {
		if r.Options.Nodes > 0 {
			return fmt.Errorf("%w: %d nodes are given for an input whose ids are %s, expected ids from 0 on; of edge lists --ids dense takes them",
				source.ErrOptions, r.Options.Nodes, r.Desc.IDs)
		}
		return r.CollectIDs(ctx)
	}
	n := r.Desc.Nodes
	if r.Options.Nodes > 0 {
		if n >= 0 && n != r.Options.Nodes {
			return fmt.Errorf("%w: %d nodes are given, the input has %d", source.ErrOptions, r.Options.Nodes, n)
		}
		n = r.Options.Nodes
	}
	if n < 0 || r.Desc.HasRelation && len(r.Desc.Relations) == 0 {
		largest, err := r.surveyEdges(ctx)
		if err != nil {
			return err
		}
		if n < 0 {
			if n, err = r.countKeyed(ctx, largest); err != nil {
				return err
			}
		}
	}
	r.State.Nodes = uint64(n)
	return nil
}

// surveyEdges reads all edges, with dense ids, for their relations' names, and returns one
// more than the largest id.
func (r *Job) surveyEdges(ctx context.Context) (nodes int64, err error) {
	r.Phase("count nodes", "edges", r.Desc.Edges)
	largest := make([]maxID, r.Options.Threads)
	var relations edges.RelationSet
	add := func(worker int, b *source.EdgeBatch) error {
		if err := largest[worker].add(b); err != nil {
			return err
		}
		if err := relations.Add(b); err != nil {
			return err
		}
		r.Tick(int64(b.Len()))
		return ctx.Err()
	}
	if err := r.Source.Edges(ctx, r.Env(), add); err != nil {
		return 0, err
	}
	for l := range r.Desc.EdgeLists {
		if err := r.Source.EdgeList(ctx, r.Env(), l, func(b *source.EdgeBatch) error { return add(0, b) }); err != nil {
			return 0, err
		}
	}
	r.State.Relations = relations.Sorted()
	most := &largest[0]
	edges := uint64(0)
	for k := range largest {
		if edges += largest[k].edges; largest[k].nodes > most.nodes {
			most = &largest[k]
		}
	}
	if r.Desc.Edges < 0 && len(r.Desc.EdgeLists) == 0 {
		r.State.Counted = int64(edges)
	}
	// One stray id would make a store of billions of nodes that no edge knows.
	if most.nodes > sparseNodesMin && most.nodes/sparseRatio > edges {
		return 0, source.Inputf(fmt.Sprintf("%s: %s %d", most.file, most.unit, most.index), "node %d in a graph of %d edges, expected ids without large gaps "+
			"(a column of features or labels says how many nodes there are; of edge lists --ids integers takes any ids)", most.nodes-1, edges)
	}
	return int64(most.nodes), nil
}

// countKeyed is one more than the largest dense id of n−1 and the tables of nodes.
func (r *Job) countKeyed(ctx context.Context, n int64) (int64, error) {
	k := r.keyed()
	if k == nil {
		return n, nil
	}
	err := k.NodeIDs(ctx, r.Env(), func(ids *source.IDs, at source.Position) error {
		for i, id := range ids.Ints {
			if int64(id) < 0 {
				return source.Inputf(at.Of(i), "node %d is negative", int64(id))
			}
			n = max(n, int64(id)+1)
		}
		return ctx.Err()
	})
	return n, err
}

// maxID is what a worker saw of dense ids: one more than the largest, and where that stands.
type maxID struct {
	nodes, edges uint64
	file, unit   string
	index        uint64
	_            [64]byte // of different workers in different cache lines
}

// Add takes the edges of a batch.
func (m *maxID) add(b *source.EdgeBatch) error {
	m.edges += uint64(b.Len())
	// Negative ids are the largest of all. Two maxima, which do not wait for each other.
	src, dst := uint64(0), uint64(0)
	for i, s := range b.Src.Ints {
		src, dst = max(src, s), max(dst, b.Dst.Ints[i])
	}
	if max(src, dst) < m.nodes {
		return nil
	}
	// Some edge has a new largest id: where it stands.
	for i, s := range b.Src.Ints {
		d := b.Dst.Ints[i]
		if int64(s|d) < 0 {
			return source.Inputf(b.At.Of(i), "node %d is negative", min(int64(s), int64(d)))
		}
		if most := max(s, d); most >= m.nodes {
			if most >= nodesMax {
				return source.Inputf(b.At.Of(i), "node %d, expected less than %d", most, int64(nodesMax))
			}
			m.nodes, m.file, m.unit, m.index = most+1, b.At.File, b.At.Unit, b.At.Number(i)
		}
	}
	return nil
}

const (
	nodesMax = 1 << 48 // of a store: 16 bits of partition and 32 of local id
	// More than sparseNodesMin dense ids of which an edge in sparseRatio knows at most two are no
	// dense ids.
	sparseNodesMin = 1 << 24
	sparseRatio    = 64
)

// Partitions chooses the number of partitions: 16-bit local ids, and extents of
// 64 MiB at most, if that takes no more than 65536.
func (r *Job) partitions(nodes uint64) int {
	if r.Options.Partitions > 0 {
		return r.Options.Partitions
	}
	row := int64(8)
	for _, c := range r.Desc.NodeColumns {
		row += int64(c.RowBytes())
	}
	bytes := int64(nodes)*row + 4*max(0, r.Desc.Edges)
	p := max((nodes+math.MaxUint16)/(math.MaxUint16+1), uint64(bytes>>26))
	if nodes >= 1<<14 {
		p = max(p, 8) // enough for a plan to choose from
	}
	return int(min(max(p, 1), PartitionsMax, max(nodes, 1)))
}

// plan computes the assignment and where every node lies: pure functions of
// state, source and options, so a resumed ingest repeats them.
func (r *Job) plan(ctx context.Context) error {
	r.Phase("assign", "nodes", -1)
	nodes := r.State.Nodes
	if nodes == 0 {
		return source.Inputf(r.Desc.Input, "the graph has no nodes")
	}
	if r.Desc.HasRelation && len(r.relationNames()) > source.RelationsMax {
		return source.Inputf(r.Desc.Input, "%d relations, at most %d are possible", len(r.relationNames()), source.RelationsMax)
	}
	r.RelationIndex = map[string]uint32{}
	for k, name := range r.relationNames() {
		r.RelationIndex[name] = uint32(k)
	}
	settle, err := r.decide(ctx)
	if err != nil {
		return err
	}
	if err := r.pinTraining(ctx); err != nil {
		return err
	}
	p := r.partitions(nodes)
	if r.whole {
		if err := r.checkBudget(ctx, r.placeBytesOf(nodes)); err != nil {
			return err
		}
		settle()
		r.heap(HeapBytes(r.Options))
	}
	a, err := r.assign(ctx, p)
	if err != nil {
		return err
	}
	if p = a.Partitions(); p > PartitionsMax { // one more with hubs; as many as a file names
		return fmt.Errorf("%w: %d partitions, at most %d are possible", source.ErrOptions, p, PartitionsMax)
	}
	sizes, err := edges.PartitionSizes(ctx, a)
	if err != nil {
		return err
	}
	rules := r.rules()
	l, err := edges.NewLayout(sizes, rules.PayloadBits(), 1<<30)
	if err != nil {
		return err
	}
	if err := r.Divide(ctx, edges.PlaceBytes(nodes, l.PlaceBits())); err != nil {
		return err
	}
	_, shardsMax := edges.PlanChunks(r.Budget.Edges*3/4, r.Options.Threads, min(p, 256))
	if l, err = edges.NewLayout(sizes, rules.PayloadBits(), shardsMax); err != nil {
		return err
	}
	r.Layout = l
	if err := r.checkBuckets(); err != nil {
		return err
	}
	if r.Places, err = edges.NewPlaces(ctx, a, l); err != nil {
		return err
	}
	r.Manifest.Nodes = nodes
	r.Manifest.Pinned = a.Pinned()
	if err := r.checkUneven(ctx); err != nil {
		return err
	}
	a, r.Assigner, r.training = nil, nil, nil // an array of 4 bytes a node on the heap, maybe: the budget counts places only
	r.heap(heapBytes)
	if err := r.orderTypes(ctx); err != nil {
		return err
	}
	types := r.countTypes()
	r.Manifest.Partitions = r.Manifest.Partitions[:0]
	for p, n := range sizes {
		info := store.PartitionInfo{First: store.NodeID(l.First[p]), Nodes: uint64(n), Types: types[p]}
		if p < len(r.State.Partitions) {
			info = r.State.Partitions[p]
		}
		r.Manifest.Partitions = append(r.Manifest.Partitions, info)
	}
	r.describe(nodes, p)
	return nil
}

// describe fills the manifest's schema.
func (r *Job) describe(nodes uint64, partitions int) {
	s := &r.Manifest.Schema
	s.NodeTypes = nil
	for _, t := range r.Desc.NodeTypes {
		n := uint64(max(t.Count, 0))
		if len(r.Desc.NodeTypes) == 1 {
			n = nodes
		}
		s.NodeTypes = append(s.NodeTypes, store.NodeType{Name: t.Name, Count: n})
	}
	s.Undirected, s.Task = r.Options.Undirected, r.Desc.Task
	if len(s.Relations) == 0 {
		for _, name := range r.relationNames() {
			s.Relations = append(s.Relations, store.Relation{Name: name})
		}
	}
	r.Manifest.Note = r.Options.Note
	method := string(r.Options.Partitioner)
	if method == "" {
		method = string(partitioner.MethodRandom)
	}
	hubs := strconv.FormatFloat(r.Options.Hubs, 'g', -1, 64)
	if r.Kept != nil && nodes > 0 { // hubs are the assignment's
		pinned := uint64(0)
		for _, p := range r.Manifest.Pinned {
			pinned += r.Manifest.Partitions[p].Nodes
		}
		hubs = strconv.FormatFloat(float64(pinned)/float64(nodes), 'g', 6, 64)
	}
	if r.Options.HubBytes > 0 {
		hubs = strconv.FormatInt(r.Options.HubBytes, 10) + " bytes"
	}
	if r.Options.HubsTrain {
		hubs = "train"
	}
	r.Manifest.Ingest = map[string]string{
		"input": r.Desc.Input, "format": r.Desc.Format, "partitioner": method,
		"partitions": strconv.Itoa(partitions), "seed": strconv.FormatUint(r.Options.Seed, 10),
		"hubs": hubs, "self_loops": string(r.Options.SelfLoops), "dedup": string(r.Options.Dedup),
	}
	if r.Options.Later != nil {
		r.Manifest.Ingest[dueFact] = r.Options.Later.Name
	}
	if r.Desc.Schema != "" {
		r.Manifest.Ingest["schema"] = r.Desc.Schema
	}
	if len(r.Desc.Uses) > 0 {
		r.Manifest.Ingest["columns"] = usesText(r.Desc.Uses)
	}
	if len(r.Desc.Notes) > 0 {
		r.Manifest.Ingest["notes"] = strings.Join(r.Desc.Notes, "\n")
	}
	if r.Report.Hubs != nil {
		r.Manifest.Ingest["hubs"], r.Manifest.Ingest["hubs_why"] = "auto", r.Report.Hubs.String()
	}
}

// note keeps a line with the version, for people.
func (r *Job) note(format string, args ...any) {
	if r.Manifest.Ingest == nil {
		return
	}
	old := r.Manifest.Ingest["notes"]
	if old != "" {
		old += "\n"
	}
	r.Manifest.Ingest["notes"] = old + fmt.Sprintf(format, args...)
}

// usesText lists what columns became: a line each file, and each column.
func usesText(uses []source.ColumnUse) string {
	var b strings.Builder
	for i, u := range uses {
		if i == 0 || u.File != uses[i-1].File {
			fmt.Fprintf(&b, "%s:\n", u.File)
		}
		fmt.Fprintf(&b, "  %s → %s\n", u.Column, u.As)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
