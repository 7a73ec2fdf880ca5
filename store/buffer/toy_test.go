package buffer

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// toyEdge is an edge of a toy graph, by internal ids.
type toyEdge struct {
	src, dst uint64
	rel      uint16
	weight   float32
	time     int64
}

// toyGraph is a graph small enough to compute with by brute force.
type toyGraph struct {
	sizes      []int // nodes of each partition
	undirected bool
	relations  int
	edges      []toyEdge
	external   []uint64 // by internal id: a permutation
	dim        int
	labels     []int32
	split      []uint8
	sparseIDs  bool // external ids are not 0 … n−1
}

// newToyGraph draws a graph; undirected ones are canonical: src ≤ dst, no
// pair twice.
func newToyGraph(rng *rand.Rand, sizes []int, edges, relations int, undirected bool) *toyGraph {
	g := &toyGraph{sizes: sizes, undirected: undirected, relations: relations, dim: 3}
	n := 0
	for _, s := range sizes {
		n += s
	}
	seen := map[[2]uint64]bool{}
	for range edges {
		if n == 0 {
			break
		}
		e := toyEdge{uint64(rng.IntN(n)), uint64(rng.IntN(n)), uint16(rng.IntN(relations)), float32(rng.IntN(9)) / 8, int64(rng.IntN(20)) - 5}
		if rng.IntN(3) == 0 { // some hubs
			e.dst = uint64(rng.IntN(1 + n/8))
		}
		if undirected {
			e.src, e.dst = min(e.src, e.dst), max(e.src, e.dst)
			if seen[[2]uint64{e.src, e.dst}] {
				continue
			}
			seen[[2]uint64{e.src, e.dst}] = true
		}
		g.edges = append(g.edges, e)
	}
	for _, id := range rng.Perm(n) {
		g.external = append(g.external, uint64(id))
		g.labels = append(g.labels, int32(rng.IntN(5))-1)
		g.split = append(g.split, uint8(rng.IntN(4)))
	}
	return g
}

func (g *toyGraph) first(p int) uint64 {
	var n uint64
	for _, s := range g.sizes[:p] {
		n += uint64(s)
	}
	return n
}

func (g *toyGraph) owner(v uint64) int {
	p := 0
	for v >= g.first(p)+uint64(g.sizes[p]) {
		p++
	}
	return p
}

func (g *toyGraph) feature(v uint64, d int) float32 { return float32(v)*10 + float32(d) }

// toyStore holds a toy graph's files the way that a Store does.
type toyStore struct {
	dir   string
	m     *store.Manifest
	files map[string]*blocks.File
}

func (s *toyStore) File(name string) (*blocks.File, error) {
	if f := s.files[name]; f != nil {
		return f, nil
	}
	f, err := blocks.Open(vfs.Default, filepath.Join(s.dir, name))
	if err == nil {
		s.files[name] = f
	}
	return f, err
}

func (s *toyStore) Open(e blockio.Engine, name string, o blockio.OpenOptions) (blockio.File, error) {
	return e.Open(filepath.Join(s.dir, name), o)
}

func (s *toyStore) close() {
	for _, f := range s.files {
		_ = f.Close()
	}
	_ = os.RemoveAll(s.dir)
}

// noSync is a file system whose files need not survive a crash: hundreds of
// toy stores wait for no disk.
type noSync struct{ vfs.FS }

type noSyncFile struct{ vfs.File }

func (noSyncFile) Sync() error { return nil }

func (fs noSync) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	return noSyncFile{f}, err
}

// write makes the store's files in a new directory below parent.
func (g *toyGraph) write(parent string) (*toyStore, error) {
	dir, err := os.MkdirTemp(parent, "toy")
	if err != nil {
		return nil, err
	}
	s := &toyStore{dir: dir, files: map[string]*blocks.File{}}
	p := len(g.sizes)
	m := &store.Manifest{Nodes: uint64(len(g.labels)), Edges: uint64(len(g.edges))}
	m.Schema.Undirected = g.undirected
	m.Schema.NodeTypes = []store.NodeType{{Count: m.Nodes}}
	for range g.relations {
		m.Schema.Relations = append(m.Schema.Relations, store.Relation{})
	}
	sizes := make([]uint32, p)
	for q, n := range g.sizes {
		sizes[q] = uint32(n)
		info := store.PartitionInfo{First: store.NodeID(g.first(q)), Nodes: uint64(n)}
		for v := g.first(q); v < g.first(q)+uint64(n); v++ {
			switch g.split[v] {
			case store.SplitTrain:
				info.Train++
			case store.SplitValid:
				info.Valid++
			case store.SplitTest:
				info.Test++
			}
		}
		m.Partitions = append(m.Partitions, info)
	}
	create := func(name string, h blocks.Header, body func(w *blocks.Writer) error) error {
		h.Partitions = uint32(p)
		h.FileID = uint64(len(m.Files)) + 1
		w, err := blocks.Create(noSync{vfs.Default}, filepath.Join(dir, name), h)
		if err != nil {
			return err
		}
		if err := body(w); err != nil {
			return err
		}
		info, err := w.Close()
		m.Files = append(m.Files, store.FileRef{Name: name, Size: info.Size, FooterChecksum: info.FooterChecksum})
		return err
	}
	rows := make([][]toyEdge, p) // by dst partition, in the order of the format
	for _, e := range g.edges {
		rows[g.owner(e.dst)] = append(rows[g.owner(e.dst)], e)
	}
	for j := range rows {
		slices.SortStableFunc(rows[j], func(a, b toyEdge) int {
			return cmp.Or(cmp.Compare(g.owner(a.src), g.owner(b.src)), cmp.Compare(a.dst, b.dst), cmp.Compare(a.src, b.src))
		})
		m.Partitions[j].Edges = uint64(len(rows[j]))
	}
	err = create("topology.gsb", blocks.Header{Kind: blocks.Topology}, func(w *blocks.Writer) error {
		enc := blocks.NewStripeEncoder(w, sizes)
		for j := range rows {
			if err := w.Begin(uint64(j)); err != nil {
				return err
			}
			if err := enc.Begin(store.PartitionID(j)); err != nil {
				return err
			}
			for i := range p {
				var keys []uint64
				for _, e := range rows[j] {
					if g.owner(e.src) == i {
						keys = append(keys, blocks.EdgeKey(uint32(e.dst-g.first(j)), uint32(e.src-g.first(i))))
					}
				}
				if err := enc.Bucket(store.PartitionID(i), keys); err != nil {
					return err
				}
			}
			n, err := enc.End()
			if err != nil {
				return err
			}
			if err := w.End(n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.Topology = []string{"topology.gsb"}
	column := func(name string, role store.Role, kind blocks.Kind, elem blocks.ElemType, dim int, payload func(p int) []byte) error {
		m.Columns = append(m.Columns, store.ColumnInfo{Name: name, Role: role, Elem: elem, Dim: dim, Files: []string{name + ".gsb"}})
		return create(name+".gsb", blocks.Header{Kind: kind, Elem: elem, Dim: uint32(dim), Name: name}, func(w *blocks.Writer) error {
			for q := range p {
				n := uint64(g.sizes[q])
				if role.OnEdges() {
					n = uint64(len(rows[q]))
				}
				if err := w.Append(uint64(q), n, payload(q)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	slice := func(q int) (lo, hi uint64) { return g.first(q), g.first(q) + uint64(g.sizes[q]) }
	steps := []error{
		column("x", store.RoleFeature, blocks.NodeColumn, blocks.Float32, g.dim, func(q int) []byte {
			var b []float32
			for lo, hi := slice(q); lo < hi; lo++ {
				for d := range g.dim {
					b = append(b, g.feature(lo, d))
				}
			}
			return blocks.Bytes(b)
		}),
		column("label", store.RoleLabel, blocks.NodeColumn, blocks.Int32, 1, func(q int) []byte {
			lo, hi := slice(q)
			return blocks.Bytes(g.labels[lo:hi])
		}),
		column("split", store.RoleSplit, blocks.NodeColumn, blocks.Uint8, 1, func(q int) []byte {
			lo, hi := slice(q)
			return g.split[lo:hi]
		}),
	}
	if g.relations > 1 {
		elem := blocks.Uint8
		if g.relations > 256 {
			elem = blocks.Uint16
		}
		steps = append(steps, column("relation", store.RoleRelation, blocks.EdgeColumn, elem, 1, func(q int) []byte {
			var b []byte
			for _, e := range rows[q] {
				b = append(b, byte(e.rel))
				if elem == blocks.Uint16 {
					b = append(b, byte(e.rel>>8))
				}
			}
			return b
		}))
	}
	steps = append(steps, column("weight", store.RoleWeight, blocks.EdgeColumn, blocks.Float32, 1, func(q int) []byte {
		var b []float32
		for _, e := range rows[q] {
			b = append(b, e.weight)
		}
		return blocks.Bytes(b)
	}), column("time", store.RoleEdge, blocks.EdgeColumn, blocks.Int64, 1, func(q int) []byte {
		var b []int64
		for _, e := range rows[q] {
			b = append(b, e.time)
		}
		return blocks.Bytes(b)
	}), column("both", store.RoleEdge, blocks.EdgeColumn, blocks.Float16, 2, func(q int) []byte {
		var b []uint16
		for _, e := range rows[q] {
			b = append(b, blocks.Float16Bits(e.weight), blocks.Float16Bits(float32(e.time)))
		}
		return blocks.Bytes(b)
	}))
	m.IDs = store.IDInfo{Kind: store.IDsDense, External: []string{"external.gsb"}}
	if g.sparseIDs {
		m.IDs.Kind = store.IDsIntegers
	}
	steps = append(steps, create("external.gsb", blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint64, Dim: 1}, func(w *blocks.Writer) error {
		for q := range p {
			lo, hi := slice(q)
			ids := slices.Clone(g.external[lo:hi])
			for k := range ids {
				if g.sparseIDs {
					ids[k] = ids[k]*1000003 + 7
				}
			}
			if err := w.Append(uint64(q), hi-lo, blocks.Bytes(ids)); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, err := range steps {
		if err != nil {
			return nil, err
		}
	}
	s.m = m
	return s, nil
}

// toyNeighbour is a neighbour as the oracle sees it.
type toyNeighbour struct {
	node   uint64
	rel    uint16
	weight float32
	time   int64
}

// neighbours computes by brute force what a macro-batch must say: of every
// resident node its neighbours among resident nodes.
func (g *toyGraph) neighbours(resident []store.PartitionID, reverse, byExternal, byTime bool) map[uint64][]toyNeighbour {
	in := func(v uint64) bool { return slices.Contains(resident, store.PartitionID(g.owner(v))) }
	// In the order of the format, so that stable sorting keeps parallel edges in theirs.
	edges := slices.Clone(g.edges)
	slices.SortStableFunc(edges, func(a, b toyEdge) int { return cmp.Or(cmp.Compare(a.dst, b.dst), cmp.Compare(a.src, b.src)) })
	out := map[uint64][]toyNeighbour{}
	for _, e := range edges {
		if !in(e.src) || !in(e.dst) {
			continue
		}
		if g.undirected {
			out[e.dst] = append(out[e.dst], toyNeighbour{e.src, e.rel, e.weight, e.time})
			if e.src != e.dst {
				out[e.src] = append(out[e.src], toyNeighbour{e.dst, e.rel, e.weight, e.time})
			}
		} else if reverse {
			out[e.src] = append(out[e.src], toyNeighbour{e.dst, e.rel, e.weight, e.time})
		} else {
			out[e.dst] = append(out[e.dst], toyNeighbour{e.src, e.rel, e.weight, e.time})
		}
	}
	for v := range out {
		slices.SortStableFunc(out[v], func(a, b toyNeighbour) int {
			if byExternal {
				return cmp.Compare(g.external[a.node], g.external[b.node])
			}
			return cmp.Compare(a.node, b.node)
		})
		if byTime {
			slices.SortStableFunc(out[v], func(a, b toyNeighbour) int { return cmp.Compare(a.time, b.time) })
		}
	}
	return out
}

// check compares a macro-batch with brute force.
func (g *toyGraph) check(b *MacroBatch, o *Options) error {
	memory := o.Capacity == 0
	node := map[uint32]uint64{}
	for _, p := range b.Partitions {
		if p.First != store.NodeID(g.first(int(p.ID))) || int(p.Nodes) != g.sizes[p.ID] {
			return fmt.Errorf("partition %d: %+v", p.ID, p)
		}
		for k := range p.Nodes {
			if _, taken := node[p.Base+k]; taken {
				return fmt.Errorf("row %d is taken twice", p.Base+k)
			}
			node[p.Base+k] = uint64(p.First) + uint64(k)
		}
	}
	for dir, a := range []*Adjacency{b.In, b.Out} {
		if a == nil {
			if dir == 1 && !o.Both {
				continue
			}
			return fmt.Errorf("direction %d is missing", dir)
		}
		want := g.neighbours(b.Step.Resident, dir == 1, memory, o.Times)
		if len(a.Spans) != b.Rows {
			return fmt.Errorf("%d spans for %d rows", len(a.Spans), b.Rows)
		}
		for row := range uint32(b.Rows) {
			s := a.Spans[row]
			v, present := node[row]
			if !present {
				if s.Begin != s.End {
					return fmt.Errorf("absent row %d has neighbours", row)
				}
				continue
			}
			var got []toyNeighbour
			for e := s.Begin; e < s.End; e++ {
				u, ok := node[a.Indices[e]]
				if !ok {
					return fmt.Errorf("neighbour row %d of node %d is absent", a.Indices[e], v)
				}
				nb := toyNeighbour{node: u}
				if a.Relations != nil {
					nb.rel = a.Relations[e]
				}
				if o.Weights {
					nb.weight = a.Weights[e]
				}
				if o.Times {
					nb.time = a.Times[e]
				}
				got = append(got, nb)
			}
			expect := slices.Clone(want[v])
			for i, sum := 0, 0.; o.Weights && i < len(expect); i++ {
				if e := s.Begin + int64(i); e%SumEdges == 0 && a.Sums[e/SumEdges] != sum {
					return fmt.Errorf("edges of node %d before number %d weigh %v, expected %v", v, i, a.Sums[e/SumEdges], sum)
				}
				sum += float64(expect[i].weight)
			}
			for i, e := range expect {
				f := []float32{e.weight, float32(e.time), e.weight, float32(e.time)}
				if at := 4 * (int(s.Begin) + i); o.EdgeFeatures != nil && i < len(got) && !slices.Equal(a.Features[at:at+4], f) {
					return fmt.Errorf("direction %d: edge %d of node %d has features %v, expected %v", dir, i, v, a.Features[at:at+4], f)
				}
				if !o.Weights {
					expect[i].weight = 0
				}
				if !o.Times {
					expect[i].time = 0
				}
			}
			if a.Relations == nil {
				if o.Relations && g.relations > 1 {
					return fmt.Errorf("no relations")
				}
				for i := range expect {
					expect[i].rel = 0
				}
			}
			if !slices.Equal(got, expect) {
				return fmt.Errorf("direction %d: node %d has neighbours %v, expected %v", dir, v, got, expect)
			}
		}
	}
	return g.checkColumns(b, o, node, memory)
}

func (g *toyGraph) checkColumns(b *MacroBatch, o *Options, node map[uint32]uint64, memory bool) error {
	x, err := blocks.View[float32](b.Features[0].Data)
	if err != nil {
		return err
	}
	var seeds []uint32
	for row, v := range node {
		for d := range g.dim {
			if got := x[int(row)*g.dim+d]; got != g.feature(v, d) {
				return fmt.Errorf("feature %d of node %d is %v", d, v, got)
			}
		}
		if key := uint32(v); o.Keys && memory && b.Keys[row] != uint32(g.external[v]) || o.Keys && !memory && b.Keys[row] != key {
			return fmt.Errorf("node %d is called %d", v, b.Keys[row])
		}
		if b.Labels[row] != g.labels[v] || b.Split[row] != g.split[v] {
			return fmt.Errorf("node %d has label %d, split %d", v, b.Labels[row], b.Split[row])
		}
		if g.split[v] == store.SplitTrain && slices.Contains(b.Step.Train, store.PartitionID(g.owner(v))) {
			seeds = append(seeds, row)
		}
	}
	slices.SortFunc(seeds, func(p, q uint32) int {
		if memory {
			return cmp.Compare(g.external[node[p]], g.external[node[q]])
		}
		return cmp.Compare(node[p], node[q])
	})
	if !slices.Equal(seeds, b.Seeds) {
		return fmt.Errorf("seeds %v, expected %v", b.Seeds, seeds)
	}
	return nil
}

// writeToy is write for tests that need one store.
func writeToy(t testing.TB, g *toyGraph) *toyStore {
	t.Helper()
	s, err := g.write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}
