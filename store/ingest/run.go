package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
)

// run is one ingest.
type run struct {
	o      Options
	src    Source
	desc   *Description
	w      *store.Writer
	m      *store.Manifest // grows phase by phase; saved after each
	rep    Report
	state  *state
	budget budget
	layout *layout
	places *places
	// typeEnds are, by node type, the ends of its source ids, which count type by type; nil = there is one type, or they do not.
	typeEnds []uint64
	dict     *dictionary // nil where source ids are dense
	// kept is the store that is repartitioned and assigner its new assignment; nil otherwise.
	kept     *storeSource
	assigner partitioner.Assigner
	// firstPart is the partition that the layout's first one is in the store, and like the
	// columns that node columns continue: both of an append's new nodes, else 0 and nil.
	firstPart int
	like      map[string]*store.ColumnInfo
	// relationIndex numbers relations by name.
	relationIndex map[string]uint32

	phaseName, unit string
	total           int64
	ticks           atomic.Int64
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
func Run(ctx context.Context, dir string, src Source, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := src.Describe().checkNames(); err != nil {
		return nil, err
	}
	o.Undirected = o.Undirected || src.Describe().Undirected
	o = o.withDefaults()
	if o.MissingMask {
		var err error
		if src, err = withMasks(src, func(string) bool { return true }); err != nil {
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
	r := &run{o: o, src: src, desc: src.Describe(), w: w}
	err = r.run(ctx)
	if r.places != nil {
		r.places.Close()
	}
	if r.dict != nil {
		r.dict.Close()
	}
	if err == nil {
		return &r.rep, w.Close()
	}
	// What a resumed ingest found finished is not the fault of today's options.
	if len(r.rep.Resumed) == 0 && Refused(err) {
		return nil, errors.Join(err, w.Abort())
	}
	return nil, errors.Join(err, w.Close())
}

// Refused reports whether err says that input, options or budget will not do, rather than
// that the ingest was interrupted.
func Refused(err error) bool {
	return errors.Is(err, ErrInput) || errors.Is(err, ErrOptions) || errors.Is(err, store.ErrBudget) || errors.Is(err, partitioner.ErrOption) ||
		errors.Is(err, partitioner.ErrFile) || errors.Is(err, partitioner.ErrBudget)
}

func (r *run) run(ctx context.Context) error {
	if err := r.loadState(); err != nil {
		return err
	}
	if err := r.step(ctx, "nodes", r.resolveNodes); err != nil {
		return err
	}
	if r.desc.IDs != store.IDsDense && r.dict == nil { // resumed: the dictionary is not kept
		if err := r.collectIDs(ctx); err != nil {
			return err
		}
	}
	if err := r.countPrefixes(ctx); err != nil {
		return err
	}
	if err := r.plan(ctx); err != nil {
		return err
	}
	if err := r.step(ctx, "edges", r.edges); err != nil {
		return err
	}
	for c := range r.desc.NodeColumns {
		if err := r.step(ctx, "column "+r.desc.NodeColumns[c].Name, func(ctx context.Context) error { return r.column(ctx, c) }); err != nil {
			return err
		}
	}
	for s := range r.desc.Splits {
		if err := r.step(ctx, "split "+r.desc.Splits[s], func(ctx context.Context) error { return r.split(ctx, s) }); err != nil {
			return err
		}
	}
	for l := range r.desc.EdgeLists {
		if err := r.step(ctx, "edge list "+r.desc.EdgeLists[l], func(ctx context.Context) error { return r.edgeList(ctx, l) }); err != nil {
			return err
		}
	}
	if err := r.step(ctx, "ids", r.ids); err != nil {
		return err
	}
	r.phase("commit", "files", -1)
	m := r.state.Manifest
	if r.kept != nil {
		r.kept.keep(m)
	}
	if err := r.w.Commit(ctx, m); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	r.rep.Manifest, r.rep.Nodes, r.rep.BytesStored, r.rep.PeakRSSBytes = m, m.Nodes, m.Bytes(), usage.PeakRSSBytes()
	r.rep.EdgesStored = m.Edges
	r.rep.EdgesRead, r.rep.Duplicates, r.rep.SelfLoops = r.state.EdgesRead, r.state.Duplicates, r.state.SelfLoops
	r.rep.BytesSpilled = r.state.BytesSpilled
	return nil
}

func (r *run) srcEnv() Env {
	return Env{Threads: r.o.Threads, MemoryBytes: r.budget.source, ScratchDir: r.w.TempDir(), FS: r.w.FS()}
}

// phase names what follows for progress.
func (r *run) phase(name, unit string, total int64) {
	r.phaseName, r.unit, r.total = name, unit, total
	r.ticks.Store(0)
	r.tick(0)
}

// tick reports n more units done; it may be called concurrently.
func (r *run) tick(n int64) {
	done := r.ticks.Add(n)
	if r.o.Progress != nil {
		r.o.Progress(Progress{Phase: r.phaseName, Unit: r.unit, Done: done, Total: r.total})
	}
}

// resolveNodes finds the number of nodes, and the relations if edges carry their names.
func (r *run) resolveNodes(ctx context.Context) error {
	if r.desc.IDs != store.IDsDense {
		if r.o.Nodes > 0 {
			return fmt.Errorf("%w: %d nodes are given for an input whose ids are %s, expected ids from 0 on; of edge lists --ids dense takes them",
				ErrOptions, r.o.Nodes, r.desc.IDs)
		}
		return r.collectIDs(ctx)
	}
	n := r.desc.Nodes
	if r.o.Nodes > 0 {
		if n >= 0 && n != r.o.Nodes {
			return fmt.Errorf("%w: %d nodes are given, the input has %d", ErrOptions, r.o.Nodes, n)
		}
		n = r.o.Nodes
	}
	if n < 0 || r.desc.HasRelation && len(r.desc.Relations) == 0 {
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
	r.state.Nodes = uint64(n)
	return nil
}

// surveyEdges reads all edges, with dense ids, for their relations' names, and returns one
// more than the largest id.
func (r *run) surveyEdges(ctx context.Context) (nodes int64, err error) {
	r.phase("count nodes", "edges", r.desc.Edges)
	largest := make([]maxID, r.o.Threads)
	var relations relationSet
	add := func(worker int, b *EdgeBatch) error {
		if err := largest[worker].add(b); err != nil {
			return err
		}
		if err := relations.add(b); err != nil {
			return err
		}
		r.tick(int64(b.Len()))
		return ctx.Err()
	}
	if err := r.src.Edges(ctx, r.srcEnv(), add); err != nil {
		return 0, err
	}
	for l := range r.desc.EdgeLists {
		if err := r.src.EdgeList(ctx, r.srcEnv(), l, func(b *EdgeBatch) error { return add(0, b) }); err != nil {
			return 0, err
		}
	}
	r.state.Relations = relations.sorted()
	most := &largest[0]
	edges := uint64(0)
	for k := range largest {
		if edges += largest[k].edges; largest[k].nodes > most.nodes {
			most = &largest[k]
		}
	}
	// One stray id would make a store of billions of nodes that no edge knows.
	if most.nodes > sparseNodesMin && most.nodes/sparseRatio > edges {
		return 0, Inputf(fmt.Sprintf("%s: %s %d", most.file, most.unit, most.index), "node %d in a graph of %d edges, expected ids without large gaps "+
			"(a column of features or labels says how many nodes there are; of edge lists --ids integers takes any ids)", most.nodes-1, edges)
	}
	return int64(most.nodes), nil
}

// countKeyed is one more than the largest dense id of n−1 and the tables of nodes.
func (r *run) countKeyed(ctx context.Context, n int64) (int64, error) {
	k := r.keyed()
	if k == nil {
		return n, nil
	}
	err := k.NodeIDs(ctx, r.srcEnv(), func(ids *IDs, at Position) error {
		for i, id := range ids.Ints {
			if int64(id) < 0 {
				return Inputf(at.Of(i), "node %d is negative", int64(id))
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

// add takes the edges of a batch.
func (m *maxID) add(b *EdgeBatch) error {
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
			return Inputf(b.At.Of(i), "node %d is negative", min(int64(s), int64(d)))
		}
		if most := max(s, d); most >= m.nodes {
			if most >= nodesMax {
				return Inputf(b.At.Of(i), "node %d, expected less than %d", most, int64(nodesMax))
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

// partitions chooses the number of partitions: 16-bit local ids, and extents of
// 64 MiB at most, if that takes no more than 65536.
func (r *run) partitions(nodes uint64) int {
	if r.o.Partitions > 0 {
		return r.o.Partitions
	}
	row := int64(8)
	for _, c := range r.desc.NodeColumns {
		row += int64(c.RowBytes())
	}
	bytes := int64(nodes)*row + 4*max(0, r.desc.Edges)
	p := max((nodes+math.MaxUint16)/(math.MaxUint16+1), uint64(bytes>>26))
	if nodes >= 1<<14 {
		p = max(p, 8) // enough for a plan to choose from
	}
	return int(min(max(p, 1), PartitionsMax, max(nodes, 1)))
}

// plan computes the assignment and where every node lies: pure functions of
// state, source and options, so a resumed ingest repeats them.
func (r *run) plan(ctx context.Context) error {
	r.phase("assign", "nodes", -1)
	nodes := r.state.Nodes
	if nodes == 0 {
		return Inputf(r.desc.Input, "the graph has no nodes")
	}
	if r.desc.HasRelation && len(r.relationNames()) > RelationsMax {
		return Inputf(r.desc.Input, "%d relations, at most %d are possible", len(r.relationNames()), RelationsMax)
	}
	p := r.partitions(nodes)
	r.relationIndex = map[string]uint32{}
	for k, name := range r.relationNames() {
		r.relationIndex[name] = uint32(k)
	}
	a, err := r.assign(ctx, p)
	if err != nil {
		return err
	}
	if p = a.Partitions(); p > PartitionsMax { // one more with hubs; as many as a file names
		return fmt.Errorf("%w: %d partitions, at most %d are possible", ErrOptions, p, PartitionsMax)
	}
	sizes, err := partitionSizes(ctx, a)
	if err != nil {
		return err
	}
	rules := r.rules()
	l, err := newLayout(sizes, rules.payloadBits(), 1<<30)
	if err != nil {
		return err
	}
	if err := r.divide(ctx, placeBytes(nodes, l.placeBits())); err != nil {
		return err
	}
	_, shardsMax := planChunks(r.budget.edges*3/4, r.o.Threads, min(p, 256))
	if l, err = newLayout(sizes, rules.payloadBits(), shardsMax); err != nil {
		return err
	}
	r.layout = l
	if err := r.checkBuckets(); err != nil {
		return err
	}
	if r.places, err = newPlaces(ctx, a, l); err != nil {
		return err
	}
	r.m.Nodes = nodes
	r.m.Pinned = a.Pinned()
	a, r.assigner = nil, nil // an array of 4 bytes a node on the heap, maybe: the budget counts places only
	debug.FreeOSMemory()
	if err := r.orderTypes(ctx); err != nil {
		return err
	}
	types := r.countTypes()
	r.m.Partitions = r.m.Partitions[:0]
	for p, n := range sizes {
		info := store.PartitionInfo{First: store.NodeID(l.first[p]), Nodes: uint64(n), Types: types[p]}
		if p < len(r.state.Partitions) {
			info = r.state.Partitions[p]
		}
		r.m.Partitions = append(r.m.Partitions, info)
	}
	r.describe(nodes, p)
	return nil
}

// describe fills the manifest's schema.
func (r *run) describe(nodes uint64, partitions int) {
	s := &r.m.Schema
	s.NodeTypes = nil
	for _, t := range r.desc.NodeTypes {
		n := uint64(max(t.Count, 0))
		if len(r.desc.NodeTypes) == 1 {
			n = nodes
		}
		s.NodeTypes = append(s.NodeTypes, store.NodeType{Name: t.Name, Count: n})
	}
	s.Undirected, s.Task = r.o.Undirected, r.desc.Task
	if len(s.Relations) == 0 {
		for _, name := range r.relationNames() {
			s.Relations = append(s.Relations, store.Relation{Name: name})
		}
	}
	r.m.Note = r.o.Note
	method := string(r.o.Partitioner)
	if method == "" {
		method = string(partitioner.MethodRandom)
	}
	hubs := strconv.FormatFloat(r.o.Hubs, 'g', -1, 64)
	if r.kept != nil && nodes > 0 { // hubs are the assignment's
		pinned := uint64(0)
		for _, p := range r.m.Pinned {
			pinned += r.m.Partitions[p].Nodes
		}
		hubs = strconv.FormatFloat(float64(pinned)/float64(nodes), 'g', 6, 64)
	}
	if r.o.HubBytes > 0 {
		hubs = strconv.FormatInt(r.o.HubBytes, 10) + " bytes"
	}
	if r.o.HubsTrain {
		hubs = "train"
	}
	r.m.Ingest = map[string]string{
		"input": r.desc.Input, "format": r.desc.Format, "partitioner": method,
		"partitions": strconv.Itoa(partitions), "seed": strconv.FormatUint(r.o.Seed, 10),
		"hubs": hubs, "self_loops": string(r.o.SelfLoops), "dedup": string(r.o.Dedup),
	}
	if len(r.desc.Uses) > 0 {
		r.m.Ingest["columns"] = usesText(r.desc.Uses)
	}
	if len(r.desc.Notes) > 0 {
		r.m.Ingest["notes"] = strings.Join(r.desc.Notes, "\n")
	}
	if r.rep.Hubs != nil {
		r.m.Ingest["hubs"], r.m.Ingest["hubs_why"] = "auto", r.rep.Hubs.String()
	}
}

// note keeps a line with the version, for people.
func (r *run) note(format string, args ...any) {
	if r.m.Ingest == nil {
		return
	}
	old := r.m.Ingest["notes"]
	if old != "" {
		old += "\n"
	}
	r.m.Ingest["notes"] = old + fmt.Sprintf(format, args...)
}

// usesText lists what columns became: a line each file, and each column.
func usesText(uses []ColumnUse) string {
	var b strings.Builder
	for i, u := range uses {
		if i == 0 || u.File != uses[i-1].File {
			fmt.Fprintf(&b, "%s:\n", u.File)
		}
		fmt.Fprintf(&b, "  %s → %s\n", u.Column, u.As)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
