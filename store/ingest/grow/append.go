// Package grow adds to a store: nodes and edges ([Append]), or columns of its nodes ([AppendColumns]), as its next version.
// What is written is in proportion to what is touched. It takes the phases of an ingest ([ingest.Job]) for new nodes and
// for new edges; tests stand beside ingest's, whose graphs they share.
package grow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/scratch"
	"github.com/gstore/gstore/store/ingest/source"
)

// Options say how a store grows. The zero value takes every default.
type Options struct {
	// MemoryBytes bounds peak resident memory of the process; 0 as in Options.
	MemoryBytes int64
	// Threads is the number of goroutines that compute; 0 = GOMAXPROCS.
	Threads int
	// KeepVersions is how many versions stay readable, the new one included; 0 = 2. A
	// version that shares most of its files costs what was rewritten since.
	KeepVersions int
	// Missing is the rule for elements of features without a value, as in Options. The mean is that of the appended rows, or of
	// a standardised column the one that the store keeps.
	Missing ingest.Missing
	// Normalize standardises the features that [AppendColumns] adds.
	Normalize bool
	// NewShare is the largest share of the nodes named by an input without rows of nodes that the store may not have: where more are new,
	// ids may be written in another way than the store's, and [ErrNewNodes] says so. 0 = any; ten are
	// never too many.
	NewShare float64
	// Change says what the source's edges are to those that the store has.
	Change Change
	// DryRun does all but the commit: the store stays as it is, and the report says what its next version would be.
	DryRun bool
	// FS is where the store is; nil = the real file system.
	FS vfs.FS
	// Progress is as in Options.
	Progress func(ingest.Progress)
	// Note is kept in the version's manifest.
	Note string
}

// FewNew is the Options.NewShare of those whom nobody asked for more.
const FewNew = .5

// ErrNewNodes is in the errors of appends to which more nodes are new than Options.NewShare allows.
var ErrNewNodes = errors.New("too many are new")

// Report is what an append did.
type Report struct {
	Manifest         *store.Manifest
	NewNodes         uint64
	NewPartitions    int
	EdgesRead        uint64
	EdgesAdded       uint64 // edges that the store did not have
	Duplicates       uint64 // edges dropped: in the input twice, or in the store
	SelfLoops        uint64 // dropped
	EdgesGone        uint64 // stored edges that were deleted, or replaced
	EdgesDangling    uint64 // edges to nodes that neither the store nor the source has, where these are left out
	EdgesMissing     uint64 // edges of the source that were to be deleted, and that the store does not have
	StripesRewritten int    // of partitions that were there
	BytesWritten     int64  // the new version's own files
	BytesSpilled     int64
	// Dropped names derived columns that the new version does not have: they were computed
	// from the graph as it was.
	Dropped []string
	// NewRelations are those that the store did not have.
	NewRelations []string
	// Filled are columns that the input has no rows of for new nodes, and what these have instead.
	Filled       []FilledColumn
	Relabelled   *Relabelled // of [Relabel]
	PeakRSSBytes int64
}

// FilledColumn is a column of nodes in which new ones have what stands for nothing.
type FilledColumn struct {
	Column string `json:"column"`
	With   string `json:"with"` // "0", "no class", "no split", or of types the type's name
}

// Append adds the nodes and edges of src to the store in dir, as its next
// version: nodes that the store does not have become new partitions at its
// end, and of the others only the topology stripes into whose partition an edge
// leads are written again, merged, with their edge columns. So what is written is in proportion to
// what is touched, and nothing that reads a store needs to know of appends.
//
// Rules that the store was ingested by hold: undirected, duplicates, self
// loops. The source's ids are the store's external ids. Its edge columns are the
// store's, in any order; its node columns, each one of the store's, hold rows of
// new nodes only: row k is of external id nodes+k in a store of dense ids, unless rows are keyed
// by id. What the source says nothing about is zero, class −1, in no split.
//
// Until Append returns nil the store's newest version is the one before, whole, and
// files of a failed append are swept by the next writer. An error of the commit itself
// leaves one of both.
func Append(ctx context.Context, dir string, src source.Source, o Options) (*Report, error) {
	a, err := openAppend(dir, src, o)
	if err != nil {
		return nil, err
	}
	err = a.run(ctx)
	return a.close(err)
}

// appender is one append.
type appender struct {
	o    Options
	src  source.Source
	desc *source.Description
	w    *store.Writer
	base *store.Store
	m    *store.Manifest // the next version
	rep  Report

	relation int         // of all edges, where the source says none and the store has some; else −1
	edges    *ingest.Job // of edges: source ids are ranks in its dictionary
	// internal holds the internal id of every rank; fresh, by rank, the number
	// among new nodes of those that the store does not have.
	internal []uint64
	mem      []byte
	newNodes uint64
	assigner partitioner.Assigner // of new nodes to new partitions, by consecutive numbers
	sizes    []uint32             // of new partitions
	rows     *roaring64.Bitmap    // ranks that the source has rows of; nil: what edges name is a node
	idTypes  []string             // that external ids begin with, in the schema's order; nil = ids do not say their types
	newTypes []uint64             // new nodes of each of the store's types, one type's behind another's; nil = not known

	untyped     uint64 // new nodes whose ids say no type where they have to, of which some are named
	untypedSome []string
}

func openAppend(dir string, src source.Source, o Options) (*appender, error) {
	d := ingest.Options{MemoryBytes: o.MemoryBytes, Threads: o.Threads, Missing: o.Missing, FS: o.FS, Progress: o.Progress}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if o.KeepVersions < 0 {
		return nil, fmt.Errorf("%w: %d versions kept", source.ErrOptions, o.KeepVersions)
	}
	if !(o.NewShare >= 0 && o.NewShare <= 1) {
		return nil, fmt.Errorf("%w: a share of new nodes of %v, expected 0 to 1", source.ErrOptions, o.NewShare)
	}
	if o.KeepVersions == 0 {
		o.KeepVersions = 2
	}
	d = d.WithDefaults()
	w, err := store.OpenWriter(dir, store.WriterOptions{FS: o.FS, KeepVersions: o.KeepVersions})
	if err != nil {
		return nil, err
	}
	if w.Base() == nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, store.ErrNoVersion), w.Close())
	}
	s, err := store.Open(dir, store.Options{FS: o.FS, Version: w.Base().Version})
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	m := w.Base().Clone()
	m.Note = o.Note
	if src != nil && o.Missing != ingest.MissingError {
		if src, err = source.WithMasks(src, func(name string) bool { _, err := m.Column(name + source.MaskSuffix); return err == nil }); err != nil {
			return nil, errors.Join(err, s.Close(), w.Close())
		}
	}
	a := &appender{o: o, src: src, w: w, base: s, m: m, relation: -1}
	if src != nil {
		a.desc = src.Describe()
	}
	a.edges = &ingest.Job{Options: d, Source: src, Desc: a.desc, Writer: w, Manifest: &store.Manifest{}, State: &ingest.State{}}
	return a, nil
}

// Close ends an append that ended with err.
func (a *appender) close(err error) (*Report, error) {
	r := a.edges
	if r.Places != nil {
		r.Places.Close()
	}
	if r.Dictionary != nil {
		r.Dictionary.Close()
	}
	scratch.Free(a.mem)
	err = errors.Join(err, a.base.Close())
	if err != nil {
		return nil, errors.Join(err, a.w.Abort())
	}
	a.rep.PeakRSSBytes = usage.PeakRSSBytes()
	if a.o.DryRun {
		return &a.rep, a.w.Abort()
	}
	return &a.rep, a.w.Close()
}

func (a *appender) run(ctx context.Context) error {
	if err := a.adopt(); err != nil {
		return err
	}
	if err := a.resolve(ctx); err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	if a.newNodes == 0 {
		if err := a.refuseRows(ctx); err != nil {
			return err
		}
	}
	if err := a.growPartitions(ctx); err != nil {
		return err
	}
	if err := a.addEdges(ctx); err != nil {
		return fmt.Errorf("edges: %w", err)
	}
	if a.o.Change == Delete && a.rep.EdgesGone == 0 {
		return source.Inputf(a.desc.Input, "the store has none of its %d edges", a.rep.EdgesMissing)
	}
	if a.newNodes > 0 {
		if err := a.addNodes(ctx); err != nil {
			return err
		}
		if err := a.addIDs(ctx); err != nil {
			return fmt.Errorf("ids: %w", err)
		}
	}
	a.dropDerived()
	return a.commit(ctx)
}

// adopt checks that the source's columns and ids are the store's, and takes over the store's rules.
func (a *appender) adopt() error {
	r, d, m := a.edges, a.desc, a.m
	switch {
	case d.Named:
		return source.Inputf(d.Input, "ids with names apart: append takes edges that name their nodes, such as a TSV")
	case (m.IDs.Kind == store.IDsStrings) != (d.IDs == store.IDsStrings):
		return source.Inputf(d.Input, "ids are %s, the store's are %s (see --ids)", d.IDs, m.IDs.Kind)
	case d.ClassNames != nil && m.LabelSets() == nil && !slices.Equal(d.ClassNames, m.Schema.ClassNames):
		return source.Inputf(d.Input, "classes %.200q, the store's are %.200q", d.ClassNames, m.Schema.ClassNames)
	case len(d.EdgeLists) > 0:
		return source.Inputf(d.Input, "edge lists %v: append adds to the graph only", d.EdgeLists)
	case a.o.Change == Delete && len(d.NodeColumns)+len(d.Splits) > 0:
		return source.Inputf(d.Input, "rows of nodes beside edges to delete: leave them out")
	}
	desc := *d
	desc.EdgeColumns, desc.HasRelation, desc.Dangling = nil, false, "" // edges that dangle are known by then
	for i := range m.Columns {
		c := &m.Columns[i]
		switch {
		case c.Role == store.RoleRelation:
			desc.HasRelation = true
		case c.Role.OnEdges():
			desc.EdgeColumns = append(desc.EdgeColumns, source.ColumnSpec{Name: c.Name, Role: c.Role, Elem: c.Elem, Dim: c.Dim})
		}
	}
	switch {
	case desc.HasRelation && !d.HasRelation:
		if a.relation = a.relationOf(d.Input); a.relation < 0 {
			return source.Inputf(d.Input, "its edges say no relation, and the store's have some: a column relation (or rel, predicate, …) has each edge's name of one, or the file is called by it (%s)",
				relationFile(&m.Schema.Relations[0]))
		}
	case d.HasRelation && !desc.HasRelation:
		return source.Inputf(d.Input, "its edges have relations, and the store's are all of one kind: leave that column out")
	}
	if err := a.adoptColumns(&desc); err != nil {
		return err
	}
	for _, c := range d.NodeColumns {
		if !c.Keyed && m.IDs.Kind != store.IDsDense {
			return source.Inputf(d.Input, "rows of column %s do not name their nodes, and the store's ids are %s; Parquet rows do", c.Name, m.IDs.Kind)
		}
		if old, err := m.Column(c.Name); err != nil || old.Role != c.Role {
			return source.Inputf(d.Input, "the store has no %s column %s", c.Role, c.Name)
		}
	}
	for _, s := range d.Splits {
		if c, err := m.Column(s); err != nil || c.Role != store.RoleSplit {
			return source.Inputf(d.Input, "the store has no split %s", s)
		}
	}
	r.Desc = &desc
	r.Options.Undirected = m.Schema.Undirected
	r.Options.Dedup = ingest.DedupOf(m)
	r.Options.SelfLoops = ingest.SelfLoopsKeep
	if rule := ingest.SelfLoops(m.Ingest["self_loops"]); rule != "" {
		r.Options.SelfLoops = rule
	}
	return nil
}

// adoptColumns checks that the source's edge columns are those of desc, which are the store's.
func (a *appender) adoptColumns(desc *source.Description) error {
	d := a.desc
	if a.o.Change == Delete {
		return nil // ends and relations alone say which edges go
	}
	for _, c := range d.EdgeColumns {
		if !slices.ContainsFunc(desc.EdgeColumns, func(x source.ColumnSpec) bool { return x.Name == c.Name && x.Elem == c.Elem && x.Dim == c.Dim }) {
			return source.Inputf(d.Input, "edge column %s (%d × %v) is not one of the store's", c.Name, c.Dim, c.Elem)
		}
	}
	for _, c := range desc.EdgeColumns {
		if !slices.ContainsFunc(d.EdgeColumns, func(x source.ColumnSpec) bool { return x.Name == c.Name }) {
			return source.Inputf(d.Input, "its edges have no %s, and the store's have: a column of that name says each edge's", c.Name)
		}
	}
	return nil
}

// growPartitions gives new nodes partitions of the size that the store's have, and
// plans where edges lie.
func (a *appender) growPartitions(ctx context.Context) error {
	m := a.m
	largest := uint64(1)
	for p, info := range m.Partitions {
		if !slices.Contains(m.Pinned, store.PartitionID(p)) {
			largest = max(largest, info.Nodes)
		}
	}
	count := (a.newNodes + largest - 1) / largest
	if total := uint64(len(m.Partitions)) + count; total > ingest.PartitionsMax {
		return fmt.Errorf("%w: %d partitions, at most %d are possible; gstore partition moves the store to fewer", source.ErrOptions, total, ingest.PartitionsMax)
	}
	var sizes []uint32
	for _, info := range m.Partitions {
		sizes = append(sizes, uint32(info.Nodes))
	}
	if count > 0 {
		var err error
		if a.assigner, err = partitioner.NewRange(a.newNodes, int(count)); err != nil {
			return err
		}
		if a.sizes, err = edges.PartitionSizes(ctx, a.assigner); err != nil {
			return err
		}
	}
	if err := a.findTypes(ctx); err != nil {
		return err
	}
	first := uint64(0)
	for _, n := range a.sizes {
		m.Partitions = append(m.Partitions, store.PartitionInfo{First: store.NodeID(m.Nodes), Nodes: uint64(n), Types: a.typesWithin(first, uint64(n))})
		m.Nodes, first = m.Nodes+uint64(n), first+uint64(n)
	}
	sizes = append(sizes, a.sizes...)
	if a.newTypes == nil {
		m.Schema.NodeTypes[len(m.Schema.NodeTypes)-1].Count += a.newNodes
	}
	for t, n := range a.newTypes {
		m.Schema.NodeTypes[t].Count += n
	}
	a.rep.NewNodes, a.rep.NewPartitions = a.newNodes, int(count)
	if err := a.addRelations(); err != nil {
		return err
	}
	return a.place(ctx, sizes)
}

// Rules are the store's, for edges of the source.
func (a *appender) rules() edges.Rules {
	drop := a.o.Change != Delete && (a.edges.Options.Dedup == ingest.DedupRelation || a.edges.Options.Dedup == ingest.DedupPair)
	rules := edges.Rules{Undirected: a.edges.Options.Undirected, Drop: drop,
		Pairs: a.edges.Options.Dedup == ingest.DedupPair, KeepLoops: a.edges.Options.SelfLoops == ingest.SelfLoopsKeep, Columns: a.edges.Desc.EdgeColumns}
	if a.edges.Desc.HasRelation {
		rules.Relations = len(a.m.Schema.Relations)
		rules.Wide = a.m.ColumnsOf(store.RoleRelation)[0].Elem == blocks.Uint16
	}
	return rules
}

// place plans keys and memory, and turns ranks into places.
func (a *appender) place(ctx context.Context, sizes []uint32) error {
	r, rules := a.edges, a.rules()
	l, err := edges.NewLayout(sizes, rules.PayloadBits(), 1<<30)
	if err != nil {
		return err
	}
	n := uint64(len(a.internal))
	held := edges.PlaceBytes(n, l.PlaceBits()) + 8*int64(n)
	if err := r.Divide(ctx, held); err != nil {
		return err
	}
	_, shardsMax := edges.PlanChunks(r.Budget.Edges*3/8, r.Options.Threads, min(len(sizes), 256))
	if l, err = edges.NewLayout(sizes, rules.PayloadBits(), shardsMax); err != nil {
		return err
	}
	r.Layout = l
	if r.Places, err = edges.AllocPlaces(n, l); err != nil {
		return err
	}
	for rank, id := range a.internal {
		if store.NodeID(id) == store.NoNode { // see [taken.there]
			continue
		}
		p, err := a.m.Partition(store.NodeID(id))
		if err != nil {
			return err
		}
		r.Places.Set(uint64(rank), uint64(p)<<l.LocalBits|(id-l.First[p]))
	}
	return nil
}
