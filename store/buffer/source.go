package buffer

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// fileOpener opens a version's data files: a [*store.Files], or a test's stand-in.
type fileOpener interface {
	File(name string) (*blocks.File, error)
	Open(engine blockio.Engine, name string, o blockio.OpenOptions) (blockio.File, error)
}

// sourceFile is a data file opened twice: through package blocks, for its
// footer and checksums, and through the engine, for its bytes.
type sourceFile struct {
	file *blocks.File
	io   blockio.File
	// verified has one bit a chunk that was found good, in order of extents;
	// nil unless chunks are checked once. One goroutine's alone: who reads topology reads no columns.
	verified []uint64
	chunk0   []int64 // number of the first chunk of each extent, by index
}

// extentRef is an extent and where it lies.
type extentRef struct {
	f      *sourceFile
	e      blocks.Extent
	chunk0 int64
}

// name is how messages name the extent.
func (x *extentRef) name() string {
	h := x.f.file.Header()
	return h.ExtentName(x.e.ID)
}

// corrupt makes the error for a well-checksummed extent that contradicts the manifest.
func (x *extentRef) corrupt(format string, args ...any) error {
	return &blocks.CorruptError{Path: x.f.file.Path(), Extent: x.name(), Offset: x.e.Offset, Reason: fmt.Sprintf(format, args...)}
}

// locate adds path, extent and file offset to an error of a decoder that saw only bytes.
func (x *extentRef) locate(err error) error {
	var c *blocks.CorruptError
	if !errors.As(err, &c) {
		return fmt.Errorf("%s: %s: %w", x.f.file.Path(), x.name(), err)
	}
	located := *c
	located.Path = x.f.file.Path()
	located.Extent = x.name()
	if c.Extent != "" {
		located.Extent += ", " + c.Extent
	}
	located.Offset = x.e.Offset + max(0, c.Offset)
	return &located
}

// sourceColumn is a column of which every partition's extent was found.
type sourceColumn struct {
	info    store.ColumnInfo
	stride  int
	extents []extentRef      // by partition
	rows    []store.NodeRows // of nodes: which of a partition's rows its extent holds
	bounced bool             // its rows begin at no page: they are read by way of the bounce area, see [source.bounce]
	runs    int              // number of the [source].runs that the buffer has rows of alone, −1 = it has rows of all nodes
}

// coded reports whether the extent of partition p holds codes of the column's values.
func (c *sourceColumn) coded(p int) bool {
	return c.info.Values != nil && c.info.Coded(c.extents[p].f.file)
}

// rowBytes is the size of a row in the extent of partition p.
func (c *sourceColumn) rowBytes(p int) int64 {
	if c.coded(p) {
		return 1
	}
	return int64(c.stride)
}

// source finds the extents that macro-batches are made from. It owns the
// engine's files, not those of package blocks.
type source struct {
	m        *store.Manifest
	engine   blockio.Engine
	buffered bool
	opener   fileOpener
	files    map[string]*sourceFile

	topology []extentRef // by dst partition
	dirs     []blocks.Directory
	dirSlab  *blockio.Slab
	features []sourceColumn
	runs     []typeRuns // that some of them lie as
	labels   *sourceColumn
	split    *sourceColumn
	given    []uint64 // of Options.Seeds, by partition
	relation *sourceColumn
	weight   *sourceColumn
	time     *sourceColumn
	// edgeFeatures are columns side by side, of edgeDim elements together.
	edgeFeatures []*sourceColumn
	edgeDim      int
	carried      []*sourceColumn // of relation, weight and time those that adjacencies carry, then edgeFeatures

	tableDim, tablePlanes int      // rows of an embedding table that are read with a partition
	someRows              []uint64 // how many these are; nil: one for each node
}

// newSource finds and opens what o asks for and reads the directories of
// all stripes (24 bytes a bucket), which say where each bucket lies.
func newSource(ctx context.Context, m *store.Manifest, opener fileOpener, engine blockio.Engine, o *Options) (*source, error) {
	s := &source{m: m, engine: engine, buffered: o.Buffered, opener: opener, files: map[string]*sourceFile{}, tableDim: o.TableDim, tablePlanes: o.TablePlanes, someRows: o.TableRows}
	if err := s.find(o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.readDirectories(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *source) find(o *Options) (err error) {
	if s.topology, err = s.extents("topology", s.m.Topology, o); err != nil {
		return err
	}
	for _, name := range o.Features {
		c, err := s.m.Column(name)
		if err != nil {
			return err
		}
		sc, err := s.column(c, o)
		if err != nil {
			return err
		}
		if o.Runs {
			sc.runs = s.runsOf(sc)
		}
		s.features = append(s.features, *sc)
	}
	s.bounce()
	optional := func(role store.Role, wanted bool, elems ...blocks.ElemType) (*sourceColumn, error) {
		cs := s.m.ColumnsOf(role)
		if !wanted || len(cs) == 0 {
			return nil, nil
		}
		return s.scalar(cs[0], o, elems...)
	}
	if s.labels, err = optional(store.RoleLabel, o.Labels, blocks.Int32); err != nil {
		return err
	}
	if err := s.findSplit(o); err != nil {
		return err
	}
	if o.Seeds != nil {
		s.given = o.Seeds.Count(s.m)
	}
	if o.Relations {
		c, err := s.m.RelationColumn()
		if err == nil && c != nil {
			s.relation, err = s.scalar(c, o, blocks.Uint8, blocks.Uint16)
		}
		if err != nil {
			return err
		}
	}
	if o.Weights {
		cs := s.m.ColumnsOf(store.RoleWeight)
		if len(cs) == 0 {
			return fmt.Errorf("%w: a column of role %s: the store's edges have no weights", store.ErrNotFound, store.RoleWeight)
		}
		if s.weight, err = s.scalar(cs[0], o, blocks.Float32); err != nil {
			return err
		}
	}
	if o.Times {
		c, err := s.m.TimeColumn()
		if err != nil {
			return err
		}
		if s.time, err = s.scalar(c, o, blocks.Int64); err != nil {
			return err
		}
	}
	for _, c := range []*sourceColumn{s.relation, s.weight, s.time} {
		if c != nil {
			s.carried = append(s.carried, c)
		}
	}
	features, err := EdgeFeatures(s.m, o.EdgeFeatures)
	if err != nil {
		return err
	}
	for _, info := range features {
		c, err := s.column(info, o)
		if err != nil {
			return err
		}
		s.edgeFeatures, s.edgeDim = append(s.edgeFeatures, c), s.edgeDim+info.Dim
	}
	s.carried = append(s.carried, s.edgeFeatures...)
	return nil
}

// findSplit finds the split column that o names.
func (s *source) findSplit(o *Options) error {
	c, err := s.m.SplitColumn(o.SplitColumn)
	if errors.Is(err, store.ErrNotFound) && o.SplitColumn == "" {
		return nil
	}
	if err != nil {
		return err
	}
	s.split, err = s.scalar(c, o, blocks.Uint8)
	return err
}

// scalar is column for one of one element a row.
func (s *source) scalar(c *store.ColumnInfo, o *Options, elems ...blocks.ElemType) (*sourceColumn, error) {
	sc, err := s.column(c, o)
	if err != nil {
		return nil, err
	}
	for _, e := range elems {
		if c.Elem == e && c.Dim == 1 {
			return sc, nil
		}
	}
	return nil, fmt.Errorf("%w: %s column %q is %d × %v, expected 1 × one of %v", store.ErrInvalid, c.Role, c.Name, c.Dim, c.Elem, elems)
}

// column finds a column's extents and checks that they hold what the manifest says.
func (s *source) column(c *store.ColumnInfo, o *Options) (*sourceColumn, error) {
	xs := make([]extentRef, len(s.m.Partitions))
	if len(c.Files) > 0 { // else it follows from types: nothing is read
		var err error
		if xs, err = s.extents("column "+c.Name, c.Files, o); err != nil {
			return nil, err
		}
	}
	sc := &sourceColumn{info: *c, stride: c.RowBytes(), extents: xs, runs: -1}
	for p := range xs {
		rows := s.m.Partitions[p].Edges
		if !c.Role.OnEdges() {
			sc.rows = append(sc.rows, s.m.NodeRows(c, store.PartitionID(p)))
			rows = sc.rows[p].Rows
		}
		if x := &xs[p]; x.e.Rows != rows || x.e.Length != int64(rows)*sc.rowBytes(p) {
			return nil, x.corrupt("%d rows in %d bytes, expected %d of %d bytes", x.e.Rows, x.e.Length, rows, sc.rowBytes(p))
		}
	}
	return sc, nil
}

// extents finds each partition's extent: the one in the last file that has one.
func (s *source) extents(what string, names []string, o *Options) ([]extentRef, error) {
	xs := make([]extentRef, len(s.m.Partitions))
	for _, name := range names {
		f, err := s.file(name, o)
		if err != nil {
			return nil, err
		}
		for i, e := range f.file.Extents() {
			if e.ID < uint64(len(xs)) {
				xs[e.ID] = extentRef{f: f, e: e, chunk0: f.chunk0[i]}
			}
		}
	}
	for p := range xs {
		if xs[p].f == nil {
			return nil, fmt.Errorf("%w: %s has no extent of partition %d in %v", store.ErrInvalid, what, p, names)
		}
	}
	return xs, nil
}

func (s *source) file(name string, o *Options) (*sourceFile, error) {
	if f := s.files[name]; f != nil {
		return f, nil
	}
	file, err := s.opener.File(name)
	if err != nil {
		return nil, err
	}
	io, err := s.opener.Open(s.engine, name, blockio.OpenOptions{Direct: !s.buffered})
	if err != nil {
		return nil, err
	}
	f := &sourceFile{file: file, io: io}
	s.files[name] = f
	var chunks int64
	for _, e := range file.Extents() {
		f.chunk0 = append(f.chunk0, chunks)
		chunks += (e.Length + blocks.ChunkBytes - 1) / blocks.ChunkBytes
	}
	if o.Verify == VerifyFirst {
		f.verified = make([]uint64, (chunks+63)/64)
	}
	return f, nil
}

// readDirectories reads the last bytes of every topology extent.
func (s *source) readDirectories(ctx context.Context) error {
	p := uint32(len(s.topology))
	each := blocks.DirectoryBytes(p)
	slab, err := blockio.AllocSlab(each*int64(p), blockio.SlabOptions{Threads: 1})
	if err != nil {
		return err
	}
	s.dirSlab = slab
	s.dirs = make([]blocks.Directory, p)
	for j := range s.topology {
		if err := ctx.Err(); err != nil {
			return err
		}
		x := &s.topology[j]
		h := x.f.file.Header() // a row may be older than the last partitions
		size := blocks.DirectoryBytes(h.Partitions)
		if x.e.Rows != s.m.Partitions[j].Edges || x.e.Length < size || h.Partitions > p {
			return x.corrupt("%d edges from %d partitions in %d bytes, expected %d edges and a directory of %d bytes", x.e.Rows, h.Partitions, x.e.Length, s.m.Partitions[j].Edges, size)
		}
		b, err := x.f.file.ReadRange(x.e, x.e.Length-size, x.e.Length)
		if err != nil {
			return err
		}
		own := slab.Bytes()[int64(j)*each:][:size]
		copy(own, b)
		d, err := blocks.OpenDirectory(own, h.Partitions, x.e.Length)
		if err != nil {
			return x.locate(err)
		}
		for i, part := range s.m.Partitions[:h.Partitions] {
			if uint64(d.SrcNodes(i)) != part.Nodes {
				return x.corrupt("partition %d has %d nodes in the directory, expected %d", i, d.SrcNodes(i), part.Nodes)
			}
		}
		if uint64(d.DstNodes()) != s.m.Partitions[j].Nodes || d.Edges() != x.e.Rows {
			return x.corrupt("directory of %d nodes and %d edges, expected %d and %d", d.DstNodes(), d.Edges(), s.m.Partitions[j].Nodes, x.e.Rows)
		}
		s.dirs[j] = d
	}
	return nil
}

// Close closes the engine's files and frees the directories.
func (s *source) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.io.Close())
	}
	s.files = nil
	if s.dirSlab != nil {
		errs = append(errs, s.dirSlab.Free())
	}
	return errors.Join(errs...)
}
