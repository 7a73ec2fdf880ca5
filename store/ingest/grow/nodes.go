package grow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/edges"
	"github.com/gstore/gstore/store/ingest/source"
)

// addNodes writes the node columns of the new partitions: an ingest of the new
// nodes alone, numbered from 0, into files whose extents continue the store's.
func (a *appender) addNodes(ctx context.Context) (err error) {
	n := &ingest.Job{Options: a.edges.Options, Writer: a.w, Manifest: &store.Manifest{}, State: &ingest.State{Nodes: a.newNodes}, Budget: a.edges.Budget,
		FirstPart: len(a.base.Manifest().Partitions), Like: map[string]*store.ColumnInfo{}}
	desc := *a.desc
	desc.IDs, desc.Nodes = store.IDsDense, int64(a.newNodes)
	if a.m.LabelSets() == nil {
		desc.ClassNames = a.m.Schema.ClassNames
	}
	n.LabelNames = ingest.LabelNames{Count: a.m.Schema.Classes, Names: a.m.Schema.ClassNames}
	n.Desc, n.Source = &desc, &newNodesSource{Source: a.src, a: a}
	n.Manifest.Schema.NodeTypes = a.m.Schema.NodeTypes
	for k, size := range a.sizes {
		n.Manifest.Partitions = append(n.Manifest.Partitions, store.PartitionInfo{Nodes: uint64(size), Types: a.m.Partitions[n.FirstPart+k].Types})
	}
	if n.Layout, err = edges.NewLayout(a.sizes, 0, 1); err != nil {
		return err
	}
	if n.Places, err = edges.NewPlaces(ctx, a.assigner, n.Layout); err != nil {
		return err
	}
	defer n.Places.Close()
	splits := 0
	for i := range a.m.Columns {
		c := &a.m.Columns[i]
		if c.Role.OnEdges() || c.Derived != "" || len(c.Files) == 0 {
			continue
		}
		if err := a.addColumn(ctx, n, c, &splits); err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
		made := n.Manifest.Columns[len(n.Manifest.Columns)-1]
		c.Files, c.Missing = append(c.Files, made.Files...), c.Missing+made.Missing
		if made.Sets != nil {
			c.Sets = made.Sets // those it had, and more
		}
	}
	a.m.Files = append(a.m.Files, n.Manifest.Files...)
	for k := range a.sizes {
		from, to := n.Manifest.Partitions[k], &a.m.Partitions[n.FirstPart+k]
		to.Train, to.Valid, to.Test = from.Train, from.Valid, from.Test
	}
	if a.m.Schema.ClassNames == nil {
		a.m.Schema.Classes = max(a.m.Schema.Classes, n.Manifest.Schema.Classes)
	}
	a.rep.BytesSpilled += n.State.BytesSpilled
	return nil
}

// AddColumn writes the new nodes' part of column c. Splits are counted if it is the first one.
func (a *appender) addColumn(ctx context.Context, n *ingest.Job, c *store.ColumnInfo, splits *int) error {
	n.Like[c.Name] = c
	if c.Role == store.RoleSplit {
		*splits++
		for s, name := range n.Desc.Splits {
			if name == c.Name {
				return n.SplitColumn(ctx, s, *splits == 1)
			}
		}
	}
	for k := range n.Desc.NodeColumns {
		if n.Desc.NodeColumns[k].Name == c.Name {
			return n.Column(ctx, k)
		}
	}
	spec := source.ColumnSpec{Name: c.Name, Role: c.Role, Elem: c.Elem, Dim: c.Dim}
	h := blocks.Header{Kind: blocks.NodeColumn, Elem: c.Elem, Dim: uint32(c.Dim), Name: c.Name}
	n.Phase("column "+c.Name, "rows", int64(a.newNodes))
	row, with := ingest.MissingRow(c), "0"
	typed := c.Name == store.TypeColumn && c.Role == store.RoleNode && c.Elem == blocks.Uint32 && c.Dim == 1
	switch {
	case typed:
		with = a.namedTypes()
	case c.Role == store.RoleLabel:
		with = "no class"
	case c.Role == store.RoleSplit:
		with = "no split"
	}
	numbered := a.numbers(c)
	if a.mayBe(c.NodeType) && !numbered && !(typed && len(a.newTypes) == 1) {
		a.rep.Filled = append(a.rep.Filled, FilledColumn{Column: c.Name, With: with})
	}
	of := n.EveryNode(store.ColumnInfo{Name: c.Name, Role: c.Role, Elem: c.Elem, Dim: c.Dim, NodeType: c.NodeType, Runs: c.Runs})
	ref, err := n.NodeFile(ctx, ingest.FileBase(c.Name), h, of, func(ctx context.Context, emit func(uint64, []byte) error) error {
		if typed && a.newTypes != nil {
			return a.typeRows(ctx, emit)
		}
		if numbered {
			return a.ownNumbers(ctx, c, emit)
		}
		return ingest.FillRows(ctx, 0, a.newNodes, row, emit)
	})
	if err == nil {
		if numbered {
			a.numberOn(c)
		}
		n.AddColumn(spec, &ingest.Converter{Elem: c.Elem, LabelMax: -1}, of.Column, ref)
	}
	return err
}

// newNodesSource is an append's source with the new nodes numbered from 0: their
// columns and splits.
type newNodesSource struct {
	source.Source
	a *appender
}

// Describe implements [Source]; the run has its own description.
func (s *newNodesSource) Describe() *source.Description { return s.a.desc }

// NodeIDs implements [KeyedSource].
func (s *newNodesSource) NodeIDs(context.Context, source.Env, func(*source.IDs, source.Position) error) error {
	return nil // the appender has them
}

// KeyedRows implements [KeyedSource].
func (s *newNodesSource) KeyedRows(ctx context.Context, env source.Env, c int, emit func(ids *source.IDs, rows []byte, at source.Position) error) error {
	k, ok := s.Source.(source.KeyedSource)
	if !ok {
		return fmt.Errorf("ingest: column %s is keyed, its source is no KeyedSource", s.a.desc.NodeColumns[c].Name)
	}
	var out source.IDs
	return k.KeyedRows(ctx, env, c, func(ids *source.IDs, rows []byte, at source.Position) error {
		if err := s.fresh(&out, ids, at); err != nil {
			return err
		}
		return emit(&out, rows, at)
	})
}

// Split implements [Source].
func (s *newNodesSource) Split(ctx context.Context, env source.Env, k int, part uint8, emit func(ids *source.IDs, at source.Position) error) error {
	var out source.IDs
	return s.Source.Split(ctx, env, k, part, func(ids *source.IDs, at source.Position) error {
		if err := s.fresh(&out, ids, at); err != nil {
			return err
		}
		return emit(&out, at)
	})
}

// fresh replaces source ids by numbers among the new nodes.
func (s *newNodesSource) fresh(out, ids *source.IDs, at source.Position) error {
	out.Ints = out.Ints[:0]
	old := s.a.base.Manifest().Nodes
	for i := range ids.Len() {
		var internal uint64
		if s.a.m.IDs.Kind == store.IDsDense {
			internal = max(ids.Ints[i], old) // new ids are their internal ids
			if ids.Ints[i] < old {
				internal = 0
			}
		} else {
			rank, ok := s.a.edges.Dictionary.Rank(ids, i)
			if !ok {
				return source.Inputf(at.Of(i), "node %s occurs in no edge and no row", s.a.edges.Dictionary.Show(ids, i))
			}
			internal = s.a.internal[rank]
		}
		if internal < old {
			return source.Inputf(at.Of(i), "node %s is in the store: rows of nodes that are there are changed by an append of their own (gstore append STORE --nodes TABLE --update)", s.a.edges.Dictionary.Show(ids, i))
		}
		out.Ints = append(out.Ints, internal-old)
	}
	return nil
}

// refuseRows refuses rows and splits where no node is new, as where one is: they are of nodes that are in the store.
func (a *appender) refuseRows(ctx context.Context) error {
	s, env := &newNodesSource{Source: a.src, a: a}, a.edges.Env()
	for c, spec := range a.desc.NodeColumns {
		if !spec.Keyed {
			continue // its rows are nodes, and there are none
		}
		if err := s.KeyedRows(ctx, env, c, func(*source.IDs, []byte, source.Position) error { return nil }); err != nil {
			return fmt.Errorf("column %s: %w", spec.Name, err)
		}
	}
	for k, name := range a.desc.Splits {
		for part := store.SplitTrain; part <= store.SplitTest; part++ {
			if err := s.Split(ctx, env, k, part, func(*source.IDs, source.Position) error { return nil }); err != nil {
				return fmt.Errorf("column %s: %w", name, err)
			}
		}
	}
	return nil
}

// addIDs writes the new nodes' external ids, both ways.
func (a *appender) addIDs(ctx context.Context) (err error) {
	old := a.base.Manifest().Nodes
	text := a.m.IDs.Kind == store.IDsStrings
	x, err := a.newExternalFile(text)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = x.w.Abort()
		}
	}()
	if a.m.IDs.Kind == store.IDsDense {
		for k := range a.newNodes {
			if k%lookupBatch == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := x.add(binary.LittleEndian.AppendUint64(x.id[:0], old+k)); err != nil {
				return err
			}
		}
		if err := a.keepExternalFile(x); err != nil {
			return err
		}
		return a.growMap(ctx)
	}
	d, err := a.w.NewDictionary()
	if err != nil {
		return err
	}
	// New nodes are numbered by ascending external id.
	err = a.edges.Dictionary.Each(ctx, func(rank uint64, id []byte) error {
		node := store.NodeID(a.internal[rank])
		if uint64(node) < old || node == store.NoNode {
			return nil
		}
		if text {
			return errors.Join(d.AddString(id, node), x.add(id))
		}
		n := binary.BigEndian.Uint64(id)
		return errors.Join(d.AddInt(n, node), x.add(binary.LittleEndian.AppendUint64(x.id[:0], n)))
	})
	if err != nil {
		return err
	}
	if err := d.Close(); err != nil {
		return err
	}
	a.m.IDs.Dictionaries = append(a.m.IDs.Dictionaries, a.w.Version())
	return a.keepExternalFile(x)
}

// externalFile writes external ids in the order of internal ones, an extent for each new
// partition, of which one is held in memory.
type externalFile struct {
	name    string
	w       *blocks.Writer
	text    bool
	sizes   []uint32 // of partitions to come
	part    uint64
	lengths []int
	buf     []byte
	id      []byte // scratch of callers
}

func (a *appender) newExternalFile(text bool) (*externalFile, error) {
	h := blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint64, Dim: 1, Partitions: uint32(len(a.m.Partitions))}
	if text {
		h.Elem, h.Dim = blocks.Uint8, 0
	}
	name, w, err := a.w.CreateFile("external", h)
	return &externalFile{name: name, w: w, text: text, sizes: a.sizes, part: uint64(len(a.base.Manifest().Partitions)), id: make([]byte, 0, 8)}, err
}

// Add takes the next node's id: its text, or its number as stored.
func (x *externalFile) add(id []byte) error {
	x.buf, x.lengths = append(x.buf, id...), append(x.lengths, len(id))
	if len(x.sizes) == 0 || len(x.lengths) < int(x.sizes[0]) {
		return nil
	}
	payload := [][]byte{x.buf}
	if x.text {
		payload = [][]byte{blocks.StringOffsets(x.lengths), x.buf}
	}
	if err := x.w.Append(x.part, uint64(x.sizes[0]), payload...); err != nil {
		return err
	}
	x.buf, x.lengths, x.sizes, x.part = x.buf[:0], x.lengths[:0], x.sizes[1:], x.part+1
	return nil
}

// keepExternalFile closes the file and enters it in the manifest.
func (a *appender) keepExternalFile(x *externalFile) error {
	if len(x.sizes) > 0 || len(x.lengths) > 0 {
		return fmt.Errorf("%w: external ids of %d new partitions are missing", store.ErrInvalid, len(x.sizes))
	}
	info, err := x.w.Close()
	if err != nil {
		return err
	}
	a.m.Files = append(a.m.Files, store.Ref(x.name, info))
	a.m.IDs.External = append(a.m.IDs.External, x.name)
	return nil
}

// growMap writes the id map's extents from the one that new ids begin in, whose old part is
// written again: at most 4 MiB more than the new ids take.
func (a *appender) growMap(ctx context.Context) (err error) {
	old, nodes := a.base.Manifest().Nodes, a.m.Nodes
	oldest, err := a.base.Files().File(a.m.IDs.Map)
	if err != nil {
		return err
	}
	h := blocks.Header{Kind: blocks.IDMap, Elem: blocks.Uint32, Dim: 1, ExtentRows: oldest.Header().ExtentRows, Partitions: uint32(len(a.m.Partitions))}
	if nodes >= math.MaxUint32 {
		h.Elem = blocks.Uint64
	}
	name, w, err := a.w.CreateFile("idmap", h)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.Abort()
		}
	}()
	const step = 1 << 13
	buf, external, internal := make([]byte, 0, 8*step), make([]uint64, 0, step), make([]store.NodeID, step)
	for k := old / h.ExtentRows; k*h.ExtentRows < nodes; k++ {
		if err := w.Begin(k); err != nil {
			return err
		}
		first, end := k*h.ExtentRows, min((k+1)*h.ExtentRows, nodes)
		for at := first; at < end; at += step {
			external, buf = external[:0], buf[:0]
			for x := at; x < min(at+step, end); x++ {
				external = append(external, x)
			}
			if err := a.base.LookupInts(ctx, external, internal[:len(external)]); err != nil {
				return err
			}
			for i, x := range external {
				id := uint64(internal[i])
				if x >= old {
					id = x
				}
				if h.Elem == blocks.Uint32 {
					buf = binary.LittleEndian.AppendUint32(buf, uint32(id))
				} else {
					buf = binary.LittleEndian.AppendUint64(buf, id)
				}
			}
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
		if err := w.End(end - first); err != nil {
			return err
		}
	}
	info, err := w.Close()
	if err != nil {
		return err
	}
	a.m.Files = append(a.m.Files, store.Ref(name, info))
	a.m.IDs.Maps = append(a.m.IDs.Maps, name)
	return nil
}
