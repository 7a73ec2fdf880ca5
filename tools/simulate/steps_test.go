package simulate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/export"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/ingest/repartition"
	"github.com/gstore/gstore/tools/zoo"
)

const memoryBytes = 256 << 20

// steps are what may happen to a store, and how often.
var steps = []step{
	{"append", 5, (*world).append},
	{"append a column", 3, (*world).appendColumn},
	{"take edges", 4, (*world).take},
	{"relabel", 3, (*world).relabel},
	{"update rows", 3, (*world).updateRows},
	{"repartition", 4, (*world).repartition},
	{"remove nodes", 2, (*world).remove},
	{"precompute", 3, (*world).precompute},
	{"open a reader", 3, (*world).openReader},
	{"read", 2, (*world).readAgain},
	{"close a reader", 1, (*world).closeReader},
	{"crash", 1, (*world).crash},
	{"damage", 4, (*world).damage},
	{"export", 2, (*world).export},
	{"train", 4, (*world).train},
	{"roll back", 2, (*world).rollback},
	{"prune", 2, (*world).prune},
}

// pick returns one of its arguments.
func pick[T any](w *world, of ...T) T { return of[w.rng.IntN(len(of))] }

// name is the external id of the k-th node.
func name(kind store.IDKind, k int) string {
	switch kind {
	case store.IDsStrings:
		return fmt.Sprintf("n%d é", k*7919%1009)
	case store.IDsIntegers:
		return strconv.FormatUint(uint64(k*7919%1009)*18_000_000_000_003+5, 10)
	}
	return strconv.Itoa(k)
}

// newNodes makes n nodes that g does not have.
func (w *world) newNodes(g *graph, n int) (names []string, nodes []*node) {
	nodes = []*node{}
	for k := range n {
		v := &node{label: int32(w.rng.IntN(4)) - 1, split: uint8(w.rng.IntN(4))}
		for d := range v.x {
			v.x[d] = float32(w.rng.IntN(33)-16) / 4
		}
		if g.typed {
			w.newKind(g, v, k, n)
		}
		names, nodes = append(names, name(g.ids, g.made+k)), append(nodes, v)
	}
	return names, nodes
}

// newKind gives the k-th of n new nodes its type, and leaves it what nodes of that type have.
func (w *world) newKind(g *graph, v *node, k, n int) {
	appended := len(g.names) > 0
	if v.kind = k * len(kinds) / n; appended { // nodes of one type
		v.kind = len(g.names) % len(kinds)
	} else if v.kind == 2 {
		v.number = uint32(k - (2*n+2)/3 + 1)
	}
	if !v.has("x") {
		v.x, v.label, v.split = [dim]float32{}, -1, store.SplitNone
	}
	if v.has("y") {
		v.y = float32(w.rng.IntN(9))
	}
}

// shape draws a shape of the zoo: its number of nodes, and the ends of its edges, which may be none.
func (w *world) shape(g *graph) (nodes int, ends []zoo.Edge) {
	c := zoo.Case{"edges": pick(w, "none", "one", "loops", "parallel", "hub", "path", "isolated")}
	if c["nodes"] = pick(w, "1", "2", "3", "5", "16", "37", "64", "97"); g.typed {
		c["nodes"] = pick(w, "3", "5", "16", "37", "64", "97") // each type has one
	}
	shape := zoo.Shape(c)
	return len(shape.Nodes), append([]zoo.Edge{}, shape.Edges...)
}

// newEdges makes n edges between nodes of those names.
func (w *world) newEdges(g *graph, names []string, n int) (edges []edge) {
	for range n {
		e := edge{src: pick(w, names...), dst: pick(w, names...), relation: w.rng.IntN(g.relations)}
		if g.weighted {
			e.weight = float32(w.rng.IntN(8))
		}
		edges = append(edges, e)
	}
	return edges
}

// ingest begins a store, or goes on with an ingest that was interrupted, or begins that again.
func (w *world) ingest() error {
	what := "ingest"
	if w.begun != nil {
		w.options.Resume = w.rng.IntN(3) > 0
		what = fmt.Sprintf("ingest again, resume %t", w.options.Resume)
	} else {
		w.newStore()
	}
	w.counts["ingest"]++
	g := w.begun
	what = fmt.Sprintf("%s: %s ids, %d nodes, %d edges, %d relations, weights %t, types %t, undirected %t, dedup %s, loops %s, %d partitions, hubs %g",
		what, g.ids, len(g.names), len(g.edges), g.relations, g.weighted, g.typed, g.undirected, g.dedup, g.loops, w.options.Partitions, w.options.Hubs)
	return w.change(what, g, func() error {
		w.options.FS = w.disk.fs
		_, err := ingest.Run(w.ctx, w.dir, w.input, w.options)
		return err
	})
}

// newStore makes up a graph and how it is ingested.
func (w *world) newStore() {
	g := &graph{ids: pick(w, store.IDsDense, store.IDsIntegers, store.IDsStrings), relations: pick(w, 1, 1, 3), weighted: w.rng.IntN(3) == 0,
		undirected: w.rng.IntN(3) == 0, loops: pick(w, ingest.SelfLoopsKeep, ingest.SelfLoopsDrop, ingest.SelfLoopsAdd),
		dedup: pick(w, ingest.DedupNo, ingest.DedupNo, ingest.DedupRelation, ingest.DedupPair), nodes: map[string]*node{}}
	g.typed = g.ids == store.IDsDense && w.rng.IntN(2) == 0
	w.options = ingest.Options{Partitions: 1 + w.rng.IntN(5), Undirected: g.undirected, Dedup: g.dedup, SelfLoops: g.loops, MemoryBytes: memoryBytes,
		Seed: w.rng.Uint64(), Threads: 1 + w.rng.IntN(2)}
	n, ends := 6+w.rng.IntN(55), []zoo.Edge(nil)
	if w.rng.IntN(2) == 0 {
		n, ends = w.shape(g)
	}
	w.options.Partitions = min(w.options.Partitions, n)
	if w.rng.IntN(4) == 0 && n >= 16 {
		w.options.Hubs = .1
	}
	names, nodes := w.newNodes(g, n)
	nodes[0].label, nodes[0].split = 0, store.SplitTrain // hubs go by training nodes
	edges := w.newEdges(g, names, w.rng.IntN(4*len(names)))
	if ends != nil {
		edges = w.newEdges(g, names, len(ends))
	}
	for i, e := range ends {
		edges[i].src, edges[i].dst = names[e.Src], names[e.Dst]
	}
	w.input = newInput(g, names, nodes, edges, 1+w.rng.IntN(100))
	if g.relations > 1 && w.rng.IntN(2) == 0 {
		g.lists = map[string][]edge{"valid": w.newEdges(g, names, 5), "test": w.newEdges(g, names, 3)}
		for _, list := range g.lists {
			for i := range list {
				list[i].weight = 0
			}
		}
		w.input.lists, w.input.desc.EdgeLists, w.input.desc.Task = g.lists, []string{"valid", "test"}, store.TaskLink
	}
	if g.lists == nil {
		w.input.desc.Task = store.TaskNode
	}
	if g.ids == store.IDsDense {
		w.input.desc.Nodes = int64(len(names))
	}
	g.add(names, nodes, edges)
	w.begun = g
}

// append adds nodes and edges, or edges alone.
func (w *world) append() (bool, error) {
	g := w.now.clone()
	names, nodes := w.newNodes(g, w.rng.IntN(12))
	if w.rng.IntN(3) == 0 || g.typed && g.ids != store.IDsDense { // of types that inputs here say by place
		names, nodes = nil, nil
	}
	edges := w.newEdges(g, append(slices.Clone(g.names), names...), w.rng.IntN(40))
	in := newInput(g, names, nodes, edges, 1+w.rng.IntN(50))
	g.add(names, nodes, edges)
	g.hop = false
	keep := w.rng.IntN(4)
	return true, w.change(fmt.Sprintf("append %d nodes, %d edges, keep %d versions", len(names), len(edges), keep), g, func() error {
		_, err := grow.Append(w.ctx, w.dir, in, grow.Options{MemoryBytes: memoryBytes, Threads: 1, KeepVersions: keep, FS: w.disk.fs})
		return err
	})
}

// take deletes or replaces some edges, by a list that has others too.
func (w *world) take() (bool, error) {
	g, change := w.now.clone(), pick(w, grow.Delete, grow.Update)
	edges := w.newEdges(g, g.names, w.rng.IntN(8))
	for _, e := range g.edges {
		if w.rng.IntN(5) > 0 {
			continue
		}
		if g.undirected && w.rng.IntN(2) == 0 {
			e.src, e.dst = e.dst, e.src
		}
		if g.weighted {
			e.weight = float32(w.rng.IntN(8))
		}
		edges = append(edges, e)
	}
	w.rng.Shuffle(len(edges), func(i, j int) { edges[i], edges[j] = edges[j], edges[i] })
	if gone := g.take(edges, change); gone == 0 && change == grow.Delete || len(edges) == 0 {
		return false, nil // which is refused
	}
	if change == grow.Delete && g.ids != store.IDsDense {
		edges = append(edges, edge{src: name(g.ids, 1000), dst: g.names[0]})
	}
	in := newInput(g, nil, nil, edges, 1+w.rng.IntN(50))
	g.hop = false
	return true, w.change(fmt.Sprintf("%s %d edges", change, len(edges)), g, func() error {
		_, err := grow.Append(w.ctx, w.dir, in, grow.Options{MemoryBytes: memoryBytes, Threads: 1, Change: change, FS: w.disk.fs})
		return err
	})
}

// updateRows gives some nodes another x.
func (w *world) updateRows() (bool, error) {
	g := w.now.clone()
	in := newInput(g, nil, nil, nil, 1+w.rng.IntN(20))
	in.desc.Keyed = true
	in.desc.NodeColumns = []ingest.ColumnSpec{{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: dim, Rows: -1, Keyed: true}}
	for _, name := range g.names {
		n := g.nodes[name]
		if n.kind > 0 || w.rng.IntN(4) > 0 {
			continue
		}
		for d := range n.x {
			n.x[d] = float32(w.rng.IntN(33)-16) / 4
		}
		in.names, in.nodes = append(in.names, name), append(in.nodes, n)
	}
	w.rng.Shuffle(len(in.nodes), func(i, j int) {
		in.names[i], in.names[j], in.nodes[i], in.nodes[j] = in.names[j], in.names[i], in.nodes[j], in.nodes[i]
	})
	if len(in.nodes) == 0 {
		return false, nil
	}
	g.hop = false
	return true, w.change(fmt.Sprintf("update rows of %d nodes", len(in.nodes)), g, func() error {
		_, err := grow.Relabel(w.ctx, w.dir, nil, grow.RelabelOptions{Rows: in}, grow.Options{MemoryBytes: memoryBytes, Threads: 1, FS: w.disk.fs})
		return err
	})
}

// appendColumn adds a column of features or of another role, in the order of rows that the store asks for.
func (w *world) appendColumn() (bool, error) {
	if len(w.now.extra) > 3 {
		return false, nil
	}
	g := w.now.clone()
	c := column{name: fmt.Sprintf("more%d", len(g.extra)), role: pick(w, store.RoleFeature, store.RoleNode), dim: 1 + w.rng.IntN(3)}
	g.extra = append(g.extra, c)
	order := g.names
	if g.ids != store.IDsDense {
		s, err := store.Open(w.dir, w.open())
		if err != nil {
			return false, err
		}
		l := &lister{s: s, m: s.Manifest()}
		if err := errors.Join(l.ids(w.ctx), s.Close()); err != nil {
			return false, err
		}
		order = l.names
	}
	in := newInput(g, nil, nil, nil, 1+w.rng.IntN(50))
	in.desc.Keyed, in.names, in.extra = false, order, []column{c}
	in.desc.NodeColumns = []ingest.ColumnSpec{{Name: c.name, Role: c.role, Elem: blocks.Float32, Dim: c.dim, Rows: int64(len(order))}}
	for _, name := range order {
		n := g.nodes[name]
		row := make([]float32, c.dim)
		for d := range row {
			row[d] = float32(w.rng.IntN(9))
		}
		if n.more == nil {
			n.more = map[string][]float32{}
		}
		n.more[c.name] = row
		in.nodes = append(in.nodes, n)
	}
	return true, w.change("append column "+c.name, g, func() error {
		_, err := grow.AppendColumns(w.ctx, w.dir, in, blocks.Invalid, grow.Options{MemoryBytes: memoryBytes, Threads: 1, FS: w.disk.fs})
		return err
	})
}

// relabel gives some nodes labels and parts of the split, by a table of their ids.
func (w *world) relabel() (bool, error) {
	g := w.now.clone()
	in := newInput(g, nil, nil, nil, 1+w.rng.IntN(20))
	in.desc.Keyed, in.desc.Splits = true, []string{"split"}
	in.desc.NodeColumns = []ingest.ColumnSpec{{Name: "label", Role: store.RoleLabel, Elem: blocks.Float64, Dim: 1, Rows: -1, Keyed: true}}
	for _, name := range g.names {
		n := g.nodes[name]
		if n.kind > 0 || w.rng.IntN(4) > 0 {
			continue
		}
		given := &node{label: int32(w.rng.IntN(4)) - 1, split: uint8(w.rng.IntN(4))}
		in.names, in.nodes = append(in.names, name), append(in.nodes, given)
		if given.label >= 0 {
			n.label = given.label
		}
		if given.split != store.SplitNone {
			n.split = given.split
		}
	}
	if len(in.nodes) == 0 || !g.trains() {
		return false, nil
	}
	return true, w.change(fmt.Sprintf("relabel %d nodes", len(in.nodes)), g, func() error {
		_, err := grow.Relabel(w.ctx, w.dir, &tableOfLabels{in}, grow.RelabelOptions{}, grow.Options{MemoryBytes: memoryBytes, Threads: 1, FS: w.disk.fs})
		return err
	})
}

// trains reports whether the split has training nodes, which it must have unless it has none at all.
func (g *graph) trains() bool {
	parts := map[uint8]bool{}
	for _, n := range g.nodes {
		parts[n.split] = true
	}
	return parts[store.SplitTrain] || !parts[store.SplitValid] && !parts[store.SplitTest]
}

// tableOfLabels is an input whose labels are numbers of 64 bits, as tables have them.
type tableOfLabels struct{ *input }

// KeyedRows implements [ingest.KeyedSource].
func (t *tableOfLabels) KeyedRows(ctx context.Context, _ ingest.Env, c int, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
	return t.rows(ctx, c, func(ids *ingest.IDs, rows []byte, at ingest.Position) error {
		var wide []float64
		for k := 0; k < len(rows); k += 4 {
			wide = append(wide, float64(int32(binary.LittleEndian.Uint32(rows[k:]))))
		}
		return emit(ids, blocks.Bytes(wide), at)
	})
}

// repartition moves nodes at random, some of them to a pinned partition.
func (w *world) repartition() (bool, error) {
	partitions := 1 + w.rng.IntN(6)
	part := make([]blocks.PartitionID, len(w.now.names))
	for v := range part {
		part[v] = blocks.PartitionID(w.rng.IntN(partitions))
	}
	var pinned []blocks.PartitionID
	if w.rng.IntN(2) == 0 {
		pinned = []blocks.PartitionID{blocks.PartitionID(partitions)}
		for range 1 + len(part)/10 {
			part[w.rng.IntN(len(part))] = pinned[0]
		}
		partitions++
	}
	a, err := partitioner.NewAssignment(part, partitions, pinned...)
	if err != nil {
		return false, err
	}
	after := w.now.clone()
	return true, w.change(fmt.Sprintf("repartition to %d, pinned %v", partitions, pinned), after, func() error {
		s, err := store.Open(w.dir, w.open())
		if err != nil {
			return err
		}
		_, err = repartition.Run(w.ctx, s, a, ingest.Options{MemoryBytes: memoryBytes, Threads: 1, FS: w.disk.fs})
		return errors.Join(err, s.Close())
	})
}

// remove takes some nodes out, often neighbours of each other.
func (w *world) remove() (bool, error) {
	g, gone := w.now.clone(), map[string]bool{}
	first, n := w.rng.IntN(len(g.names)), 1+w.rng.IntN(1+len(g.names)/4)
	for k := range n {
		at := (first + k) % len(g.names)
		if w.rng.IntN(3) == 0 {
			at = w.rng.IntN(len(g.names))
		}
		gone[g.names[at]] = true
	}
	unknown := func(n *node) bool { return g.typed && n.nodeType() == 0 } // of which a store does not know what went
	if len(gone) == len(g.names) || slices.ContainsFunc(slices.Collect(maps.Values(g.nodes)), unknown) {
		return false, nil // which is refused
	}
	if g.remove(gone); !g.trains() {
		return false, nil
	}
	return true, w.change(fmt.Sprintf("remove %d nodes", len(gone)), g, func() error {
		s, err := store.Open(w.dir, w.open())
		if err != nil {
			return err
		}
		set := roaring64.New()
		for name := range gone {
			v, lerr := s.Lookup(w.ctx, name)
			err = errors.Join(err, lerr)
			set.Add(uint64(v))
		}
		if err == nil {
			_, err = repartition.Without(w.ctx, s, set, 0, ingest.Options{MemoryBytes: memoryBytes, Threads: 1, FS: w.disk.fs})
		}
		return errors.Join(err, s.Close())
	})
}

// precompute adds the mean of x over neighbours.
func (w *world) precompute() (bool, error) {
	if w.now.typed {
		return false, nil
	}
	after := w.now
	if !after.hop {
		after = after.clone()
		after.hop = true
	}
	return true, w.change("precompute", after, func() error {
		_, err := precompute.Hop(w.ctx, w.dir, w.dev, precompute.Options{FS: w.disk.fs})
		return err
	})
}

// openReader opens a snapshot that stays open while writers go on.
func (w *world) openReader() (bool, error) {
	if len(w.readers) > 2 {
		return false, nil
	}
	s, err := store.Open(w.dir, w.open())
	if err != nil {
		return false, err
	}
	w.readers = append(w.readers, reader{s, w.now})
	w.note("open a reader of version %d", s.Manifest().Version)
	return true, nil
}

func (w *world) readAgain() (bool, error) {
	if len(w.readers) == 0 {
		return false, nil
	}
	return true, w.reread(w.rng.IntN(len(w.readers)))
}

func (w *world) closeReader() (bool, error) {
	if len(w.readers) == 0 {
		return false, nil
	}
	i := w.rng.IntN(len(w.readers))
	err := w.readers[i].s.Close()
	w.readers = slices.Delete(w.readers, i, i+1)
	return true, err
}

// crash stops the machine between steps: what was committed stays.
func (w *world) crash() (bool, error) {
	if w.disk.mem == nil {
		return false, nil
	}
	w.disk.fault, w.disk.seed = pick(w, crash, torn), w.rng.Uint64()
	w.disk.hit = false
	w.disk.end()
	if err := w.restart(); err != nil {
		return true, err
	}
	if _, err := w.check(w.now); err != nil {
		return true, err
	}
	return true, w.keeps()
}

// export writes the store as files and ingests them again.
func (w *world) export() (bool, error) {
	if w.now.hop || len(w.now.edges) == 0 || w.now.lists != nil && w.now.weighted {
		return false, nil
	}
	format := pick(w, export.Formats()...)
	if format == export.Numpy && w.now.ids != store.IDsDense {
		format = export.Parquet // arrays name nodes by position
	}
	out, again := w.disk.fs.PathJoin(w.disk.fs.PathDir(w.dir), "out"), w.disk.fs.PathJoin(w.disk.fs.PathDir(w.dir), "again")
	// A crash may bring back what was removed before it.
	if err := errors.Join(w.disk.fs.RemoveAll(out), w.disk.fs.RemoveAll(again)); err != nil {
		return false, err
	}
	s, err := store.Open(w.dir, w.open())
	if err != nil {
		return false, err
	}
	w.note("export %s and ingest it again", format)
	_, err = export.Run(w.ctx, s, out, export.Options{Format: format, FS: w.disk.fs})
	if err = errors.Join(err, s.Close()); err != nil {
		return false, err
	}
	src, err := formats.Open(out, formats.Options{FS: w.disk.fs})
	if err != nil {
		return false, err
	}
	_, err = ingest.Run(w.ctx, again, src, ingest.Options{Partitions: min(2, len(w.now.names)), MemoryBytes: memoryBytes, Threads: 1,
		FS: w.disk.fs, SelfLoops: ingest.SelfLoopsKeep, Dedup: ingest.DedupNo})
	if err = errors.Join(err, src.Close()); err != nil {
		return false, err
	}
	if s, err = store.Open(again, w.open()); err != nil {
		return false, err
	}
	l, err := read(w.ctx, s, false)
	if err = errors.Join(err, s.Close()); err != nil {
		return false, err
	}
	want, got := w.now.lines(), l.lines
	if w.now.lists != nil { // a knowledge graph's files hold edges
		others := func(line string) bool {
			return strings.HasPrefix(line, "node ") || strings.HasPrefix(line, "list ") && len(s.Manifest().EdgeLists) == 0
		}
		want, got = slices.DeleteFunc(want, others), slices.DeleteFunc(got, others)
	}
	if err := differ(want, got); err != nil {
		return false, fmt.Errorf("after export as %s: %w", format, err)
	}
	return true, nil
}
