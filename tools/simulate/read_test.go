package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// lister turns a snapshot into the lines of [graph.lines].
type lister struct {
	s     *store.Store
	m     *store.Manifest
	held  bool
	names []string // by internal id
	lines []string
	hop   map[string][]float32 // rows of x.hop1; nil = no such column
}

// read reads all of a snapshot. held says that versions may have been committed since it was opened: its dictionary
// may be gone with its version.
func read(ctx context.Context, s *store.Store, held bool) (*lister, error) {
	l := &lister{s: s, m: s.Manifest(), held: held}
	if err := l.ids(ctx); err != nil {
		return nil, err
	}
	for p := range l.m.Partitions {
		if err := l.nodes(ctx, store.PartitionID(p)); err != nil {
			return nil, err
		}
		if err := l.edges(ctx, store.PartitionID(p)); err != nil {
			return nil, err
		}
	}
	for _, info := range l.m.EdgeLists {
		r, err := s.EdgeList(ctx, info.Name)
		if err != nil {
			return nil, err
		}
		k := 0
		for ; r.Next(); k++ {
			e := r.Edge()
			l.lines = append(l.lines, listLine(info.Name, k, l.names[e.Src], int(e.Relation), l.names[e.Dst]))
		}
		if r.Err() != nil {
			return nil, r.Err()
		}
		if uint64(k) != info.Rows {
			return nil, fmt.Errorf("edge list %s has %d edges, the manifest says %d", info.Name, k, info.Rows)
		}
	}
	slices.Sort(l.lines)
	return l, nil
}

// ids reads the names of nodes and looks all of them up.
func (l *lister) ids(ctx context.Context) error {
	var ints []uint64
	for p := range l.m.Partitions {
		x, _, err := l.s.ReadExternal(ctx, store.PartitionID(p), nil)
		if err != nil {
			return err
		}
		ints = append(ints, x.Ints...)
		for i := range x.Len() {
			l.names = append(l.names, string(x.Append(nil, i)))
		}
	}
	if uint64(len(l.names)) != l.m.Nodes {
		return fmt.Errorf("%d external ids, the manifest says %d nodes", len(l.names), l.m.Nodes)
	}
	found := make([]store.NodeID, len(l.names)+1)
	var err error
	if l.m.IDs.Kind == store.IDsStrings {
		err = l.s.LookupStrings(ctx, append(slices.Clone(l.names), "no such node"), found)
	} else {
		err = l.s.LookupInts(ctx, append(ints, math.MaxUint64-1), found)
	}
	if l.held && errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for id, name := range l.names {
		if found[id] != store.NodeID(id) {
			return fmt.Errorf("node %d is called %q, which is looked up as %d", id, name, found[id])
		}
	}
	if found[len(l.names)] != store.NoNode {
		return fmt.Errorf("a name of no node is looked up as %d", found[len(l.names)])
	}
	return nil
}

func (l *lister) nodes(ctx context.Context, p store.PartitionID) error {
	info := l.m.Partitions[p]
	names := l.names[info.First : uint64(info.First)+info.Nodes]
	lines := make([][]byte, info.Nodes)
	for i, name := range names {
		lines[i] = append([]byte("node "), name...)
	}
	splits := [4]uint64{}
	columns := slices.Clone(l.m.Columns)
	slices.SortFunc(columns, func(a, b store.ColumnInfo) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range columns {
		if c.Role.OnEdges() {
			continue
		}
		b, err := l.s.ReadColumn(ctx, c.Name, p, nil)
		if err != nil {
			return err
		}
		for i := range lines {
			row := make([]float32, c.Dim)
			for d := range row {
				row[d] = float32(c.Elem.Float64(b[i*c.RowBytes()+d*c.Elem.Size():]))
			}
			if c.Role == store.RoleSplit {
				splits[int(row[0])&3]++
			}
			if c.Derived == "" {
				lines[i] = appendRow(lines[i], c.Name, row...)
				continue
			}
			if l.hop == nil {
				l.hop = map[string][]float32{}
			}
			l.hop[names[i]] = row
		}
	}
	if got := [3]uint64{info.Train, info.Valid, info.Test}; got != [3]uint64(splits[1:]) {
		return fmt.Errorf("partition %d has %v nodes of the splits, the manifest says %v", p, splits[1:], got)
	}
	for _, line := range lines {
		l.lines = append(l.lines, string(line))
	}
	return nil
}

func (l *lister) edges(ctx context.Context, p store.PartitionID) error {
	info := l.m.Partitions[p]
	stripe, _, err := l.s.ReadStripe(ctx, p, nil)
	if err != nil {
		return err
	}
	extra := make([]string, stripe.Edges())
	if info.Edges != uint64(len(extra)) {
		return fmt.Errorf("stripe %d has %d edges, the manifest says %d", p, len(extra), info.Edges)
	}
	for _, role := range []store.Role{store.RoleRelation, store.RoleWeight} {
		for _, c := range l.m.ColumnsOf(role) {
			b, err := l.s.ReadColumn(ctx, c.Name, p, nil)
			if err != nil {
				return err
			}
			for k := range extra {
				v := c.Elem.Float64(b[k*c.RowBytes():])
				if role == store.RoleRelation {
					extra[k] += " " + l.m.Schema.Relations[int(v)].Name
				} else {
					extra[k] += " " + strconv.FormatFloat(v, 'g', -1, 64)
				}
			}
		}
	}
	k := 0
	for i, from := range l.m.Partitions {
		var b blocks.Bucket
		if b, err = stripe.Bucket(i); err != nil {
			return err
		}
		for d, u := range b.All() {
			src, dst := l.names[uint64(from.First)+uint64(u)], l.names[uint64(info.First)+uint64(d)]
			if l.m.Schema.Undirected && src > dst {
				src, dst = dst, src
			}
			l.lines = append(l.lines, "edge "+src+" "+dst+extra[k])
			k++
		}
	}
	return nil
}

// same says how what was read differs from the model.
func (l *lister) same(g *graph) error {
	if err := differ(g.lines(), l.lines); err != nil {
		return err
	}
	if (l.hop != nil) != g.hop {
		return fmt.Errorf("a precomputed hop: %t, expected %t", l.hop != nil, g.hop)
	}
	if !g.hop {
		return nil
	}
	want := g.means()
	for name, row := range l.hop {
		for d, v := range row {
			if math.Abs(float64(v-want[name][d])) > 1e-5 {
				return fmt.Errorf("x.hop1 of %s is %v, expected %v", name, row, want[name])
			}
		}
	}
	return nil
}

// differ names the first line in which sorted lists differ.
func differ(want, got []string) error {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got), i < len(want) && want[i] < got[i]:
			return fmt.Errorf("missing (of %d lines, %d expected): %s", len(got), len(want), want[i])
		case i >= len(want), want[i] > got[i]:
			return fmt.Errorf("unexpected (of %d lines, %d expected): %s", len(got), len(want), got[i])
		}
	}
	return nil
}

// check compares the newest version on the disk with the model and reports its number; nil stands for none.
func (w *world) check(allowed ...*graph) (*graph, error) {
	s, err := store.Open(w.dir, w.open())
	if errors.Is(err, store.ErrNotFound) && slices.Contains(allowed, nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	l, err := read(w.ctx, s, false)
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, fmt.Errorf("version %d: %w", s.Manifest().Version, err)
	}
	version := s.Manifest().Version
	for i, g := range allowed {
		// Before and after a step come in this order.
		if at := w.version + uint64(i); g == nil || version != at && len(allowed) > 1 {
			continue
		}
		if err := l.same(g); err != nil {
			return nil, fmt.Errorf("version %d: %w", version, err)
		}
		w.version = version
		return g, nil
	}
	return nil, fmt.Errorf("the store is at version %d, it was at %d", version, w.version)
}
