// Package storetest makes small stores for tests, beside a plain copy of what
// is in them. It is not for production: everything is held in memory.
package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// Graph is the plain copy: what a store's readers must agree with. Ids are internal
// unless said.
type Graph struct {
	Sizes     []uint32    // nodes of each partition
	Edges     [][2]uint64 // src, dst; sorted by (dst partition, src partition, dst, src)
	Relations []uint16    // by edge, in the order of Edges; nil = one relation
	Weights   []float32   // likewise; nil = none
	Times     []int64     // likewise, a column called time; nil = none
	EdgeRows  []float32   // likewise [EdgeDim], a column called rows; nil = none
	EdgeDim   int
	Features  []float32 // [nodes][Dim]
	Dim       int
	Labels    []int32
	Split     []uint8
	External  []string // by internal id
	IDs       store.IDKind
	Valid     [][3]uint64 // src, relation, dst
	Classes   int
	Numbers   bool   // labels are codes of numbers, and Classes is 0
	Sets      []byte // labels are numbers of these sets of Classes labels ([store.LabelSets]); nil: they are classes
	// Undirected edges are stored once, src ≤ dst.
	Undirected bool
}

// Options say what Random makes. The zero value is a graph of 200 nodes in 4 partitions.
type Options struct {
	Seed       uint64
	Nodes      int          // 0 = 200
	Edges      int          // 0 = 5 a node
	Partitions int          // 0 = 4
	Dim        int          // feature dimension; 0 = 8
	Relations  int          // 0 = 1
	IDs        store.IDKind // "" = dense
	Undirected bool         // each edge for both directions, src ≤ dst
}

// Random makes a random graph with features, labels, a split and edge list
// "valid". Partition sizes differ, and the last one is empty if there are more than 3.
func Random(o Options) *Graph {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Nodes, 200)
	def(&o.Edges, 5*o.Nodes)
	def(&o.Partitions, 4)
	def(&o.Dim, 8)
	def(&o.Relations, 1)
	if o.IDs == "" {
		o.IDs = store.IDsDense
	}
	r := rand.New(rand.NewPCG(o.Seed, 1))
	g := &Graph{Dim: o.Dim, IDs: o.IDs, Classes: 4, Sizes: make([]uint32, o.Partitions), Undirected: o.Undirected}
	used := o.Partitions
	if used > 3 {
		used--
	}
	for i := range o.Nodes {
		g.Sizes[min(r.IntN(used), i%used)]++
	}
	first := g.Firsts()
	for range o.Edges {
		e := [2]uint64{uint64(r.IntN(o.Nodes)), uint64(r.IntN(o.Nodes))}
		if o.Undirected {
			e = [2]uint64{min(e[0], e[1]), max(e[0], e[1])}
		}
		g.Edges = append(g.Edges, e)
	}
	slices.SortFunc(g.Edges, func(a, b [2]uint64) int {
		if c := part(first, a[1]) - part(first, b[1]); c != 0 {
			return c
		}
		if c := part(first, a[0]) - part(first, b[0]); c != 0 {
			return c
		}
		if a[1] != b[1] {
			return int(a[1]) - int(b[1])
		}
		return int(a[0]) - int(b[0])
	})
	if o.Relations > 1 {
		for range g.Edges {
			g.Relations = append(g.Relations, uint16(r.IntN(o.Relations)))
		}
	}
	for range 20 {
		g.Valid = append(g.Valid, [3]uint64{uint64(r.IntN(o.Nodes)), uint64(r.IntN(o.Relations)), uint64(r.IntN(o.Nodes))})
	}
	perm := r.Perm(o.Nodes)
	for v := range o.Nodes {
		for range o.Dim {
			g.Features = append(g.Features, r.Float32())
		}
		g.Labels = append(g.Labels, int32(r.IntN(g.Classes+1))-1)
		g.Split = append(g.Split, uint8(r.IntN(4)))
		switch o.IDs {
		case store.IDsStrings:
			g.External = append(g.External, fmt.Sprintf("node/%03d é", perm[v]))
		case store.IDsIntegers:
			g.External = append(g.External, fmt.Sprint(uint64(perm[v])*1_000_003+7))
		default:
			g.External = append(g.External, fmt.Sprint(perm[v]))
		}
	}
	return g
}

// Firsts returns the first node of every partition, and the number of nodes last.
func (g *Graph) Firsts() []uint64 {
	first := []uint64{0}
	for _, n := range g.Sizes {
		first = append(first, first[len(first)-1]+uint64(n))
	}
	return first
}

// Nodes returns the number of nodes.
func (g *Graph) Nodes() int { return len(g.External) }

func part(first []uint64, v uint64) int {
	for p := len(first) - 2; ; p-- {
		if first[p] <= v {
			return p
		}
	}
}

// Create makes a store of g in a temporary directory and returns the directory.
func Create(tb testing.TB, g *Graph) string {
	tb.Helper()
	dir := tb.TempDir() + "/store"
	w, err := store.Create(dir, store.WriterOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	m, err := g.Write(w)
	if err == nil {
		err = w.Commit(context.Background(), m)
	}
	if err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Write writes g's files as the writer's next version and returns the manifest
// to commit.
func (g *Graph) Write(w *store.Writer) (*store.Manifest, error) {
	first := g.Firsts()
	relations := 1
	for _, r := range g.Relations {
		relations = max(relations, int(r)+1)
	}
	for _, v := range g.Valid {
		relations = max(relations, int(v[1])+1)
	}
	m := &store.Manifest{
		Schema: store.Schema{
			NodeTypes: []store.NodeType{{Name: "node", Count: uint64(g.Nodes())}},
			Relations: make([]store.Relation, relations),
			Task:      store.TaskNode, Classes: g.Classes, Undirected: g.Undirected,
		},
		Nodes: uint64(g.Nodes()), Edges: uint64(len(g.Edges)),
	}
	for i := range m.Schema.Relations {
		m.Schema.Relations[i].Name = fmt.Sprintf("r%d", i)
	}
	for p, n := range g.Sizes {
		info := store.PartitionInfo{First: store.NodeID(first[p]), Nodes: uint64(n)}
		for v := first[p]; v < first[p+1]; v++ {
			switch g.Split[v] {
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
	b := &build{w: w, m: m, g: g, first: first}
	b.topology()
	b.nodeColumn("x", store.RoleFeature, blocks.Float32, g.Dim, blocks.Bytes(g.Features))
	b.nodeColumn("label", store.RoleLabel, blocks.Int32, 1, blocks.Bytes(g.Labels))
	m.Labels().Numbers, m.Labels().Sets = g.Numbers, g.Sets
	b.nodeColumn("split", store.RoleSplit, blocks.Uint8, 1, g.Split)
	b.external()
	b.edgeList()
	return m, b.err
}

// build keeps the first error.
type build struct {
	w     *store.Writer
	m     *store.Manifest
	g     *Graph
	first []uint64
	err   error
}

func (b *build) file(base string, h blocks.Header, fill func(w *blocks.Writer) error) string {
	if b.err != nil {
		return ""
	}
	h.Partitions = uint32(len(b.g.Sizes))
	name, bw, err := b.w.CreateFile(base, h)
	if err != nil {
		b.err = err
		return ""
	}
	defer bw.Abort()
	if b.err = fill(bw); b.err != nil {
		return ""
	}
	info, err := bw.Close()
	b.err = err
	b.m.Files = append(b.m.Files, store.Ref(name, info))
	return name
}

// stripe returns the edges of stripe j, and the position of the first in g.Edges.
func (b *build) stripe(j int) (edges [][2]uint64, from int) {
	lo := slices.IndexFunc(b.g.Edges, func(e [2]uint64) bool { return part(b.first, e[1]) == j })
	if lo < 0 {
		return nil, 0
	}
	hi := lo
	for hi < len(b.g.Edges) && part(b.first, b.g.Edges[hi][1]) == j {
		hi++
	}
	return b.g.Edges[lo:hi], lo
}

func (b *build) topology() {
	name := b.file("topology", blocks.Header{Kind: blocks.Topology}, func(w *blocks.Writer) error {
		enc := blocks.NewStripeEncoder(w, b.g.Sizes)
		for j := range b.g.Sizes {
			edges, _ := b.stripe(j)
			if err := w.Begin(uint64(j)); err != nil {
				return err
			}
			if err := enc.Begin(store.PartitionID(j)); err != nil {
				return err
			}
			for i := range b.g.Sizes {
				var keys []uint64
				for _, e := range edges {
					if part(b.first, e[0]) == i {
						keys = append(keys, blocks.EdgeKey(uint32(e[1]-b.first[j]), uint32(e[0]-b.first[i])))
					}
				}
				if len(keys) > 0 {
					if err := enc.Bucket(store.PartitionID(i), keys); err != nil {
						return err
					}
				}
			}
			n, err := enc.End()
			if err != nil {
				return err
			}
			b.m.Partitions[j].Edges = n
			if err := w.End(n); err != nil {
				return err
			}
		}
		return nil
	})
	b.m.Topology = []string{name}
	b.edgeColumn("relation", store.RoleRelation, blocks.Uint16, 1, b.g.Relations != nil, blocks.Bytes(b.g.Relations))
	b.edgeColumn("weight", store.RoleWeight, blocks.Float32, 1, b.g.Weights != nil, blocks.Bytes(b.g.Weights))
	b.edgeColumn("time", store.RoleEdge, blocks.Int64, 1, b.g.Times != nil, blocks.Bytes(b.g.Times))
	b.edgeColumn("rows", store.RoleEdge, blocks.Float32, b.g.EdgeDim, b.g.EdgeRows != nil, blocks.Bytes(b.g.EdgeRows))
}

// edgeColumn writes a column of dim elements an edge, if the graph has it: one without edges has no data for it.
func (b *build) edgeColumn(name string, role store.Role, elem blocks.ElemType, dim int, has bool, data []byte) {
	if !has {
		return
	}
	file := b.file(name, blocks.Header{Kind: blocks.EdgeColumn, Elem: elem, Dim: uint32(dim), Name: name}, func(w *blocks.Writer) error {
		for j := range b.g.Sizes {
			edges, lo := b.stripe(j)
			size := dim * elem.Size()
			if err := w.Append(uint64(j), uint64(len(edges)), data[lo*size:(lo+len(edges))*size]); err != nil {
				return err
			}
		}
		return nil
	})
	b.m.Columns = append(b.m.Columns, store.ColumnInfo{Name: name, Role: role, Elem: elem, Dim: dim, Files: []string{file}})
}

func (b *build) nodeColumn(name string, role store.Role, elem blocks.ElemType, dim int, data []byte) {
	row := uint64(dim * elem.Size())
	file := b.file(name, blocks.Header{Kind: blocks.NodeColumn, Elem: elem, Dim: uint32(dim), Name: name}, func(w *blocks.Writer) error {
		for p := range b.g.Sizes {
			if err := w.Append(uint64(p), uint64(b.g.Sizes[p]), data[b.first[p]*row:b.first[p+1]*row]); err != nil {
				return err
			}
		}
		return nil
	})
	b.m.Columns = append(b.m.Columns, store.ColumnInfo{Name: name, Role: role, Elem: elem, Dim: dim, Files: []string{file}})
}

func (b *build) external() {
	g := b.g
	h := blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint64, Dim: 1}
	if g.IDs == store.IDsStrings {
		h.Elem, h.Dim = blocks.Uint8, 0
	}
	name := b.file("external", h, func(w *blocks.Writer) error {
		for p := range g.Sizes {
			var lengths []int
			var text, ints []byte
			for v := b.first[p]; v < b.first[p+1]; v++ {
				lengths = append(lengths, len(g.External[v]))
				text = append(text, g.External[v]...)
				ints = binary.LittleEndian.AppendUint64(ints, g.integer(v))
			}
			payload := [][]byte{ints}
			if g.IDs == store.IDsStrings {
				payload = [][]byte{blocks.StringOffsets(lengths), text}
			}
			if err := w.Append(uint64(p), uint64(g.Sizes[p]), payload...); err != nil {
				return err
			}
		}
		return nil
	})
	b.m.IDs = store.IDInfo{Kind: g.IDs, External: []string{name}}
	if g.IDs != store.IDsDense {
		b.dictionary()
		return
	}
	b.m.IDs.Map = b.file("idmap", blocks.Header{Kind: blocks.IDMap, Elem: blocks.Uint32, Dim: 1, ExtentRows: 64}, func(w *blocks.Writer) error {
		ids := make([]uint32, g.Nodes())
		for v := range ids {
			ids[g.integer(uint64(v))] = uint32(v)
		}
		for k := 0; k*64 < len(ids); k++ {
			rows := ids[k*64 : min(len(ids), k*64+64)]
			if err := w.Append(uint64(k), uint64(len(rows)), blocks.Bytes(rows)); err != nil {
				return err
			}
		}
		return nil
	})
}

// integer is node v's external id as a number; 0 for strings.
func (g *Graph) integer(v uint64) (n uint64) {
	if g.IDs != store.IDsStrings {
		_, _ = fmt.Sscan(g.External[v], &n)
	}
	return n
}

func (b *build) dictionary() {
	if b.err != nil {
		return
	}
	d, err := b.w.NewDictionary()
	if err != nil {
		b.err = err
		return
	}
	order := make([]uint64, b.g.Nodes())
	for i := range order {
		order[i] = uint64(i)
	}
	slices.SortFunc(order, func(x, y uint64) int {
		if b.g.IDs == store.IDsStrings {
			return slices.Compare([]byte(b.g.External[x]), []byte(b.g.External[y]))
		}
		if b.g.integer(x) < b.g.integer(y) {
			return -1
		}
		return 1
	})
	for _, v := range order {
		if b.err == nil && b.g.IDs == store.IDsStrings {
			b.err = d.AddString([]byte(b.g.External[v]), store.NodeID(v))
		} else if b.err == nil {
			b.err = d.AddInt(b.g.integer(v), store.NodeID(v))
		}
	}
	if b.err == nil {
		b.err = d.Close()
	}
	b.m.IDs.Dictionaries = []uint64{b.w.Version()}
}

func (b *build) edgeList() {
	if len(b.g.Valid) == 0 {
		return
	}
	name := b.file("valid", blocks.Header{Kind: blocks.EdgeList, Elem: blocks.Uint64, Dim: 3, Name: "valid"}, func(w *blocks.Writer) error {
		half := len(b.g.Valid) / 2
		for k, part := range [][][3]uint64{b.g.Valid[:half], b.g.Valid[half:]} {
			var flat []uint64
			for _, t := range part {
				flat = append(flat, t[:]...)
			}
			if err := w.Append(uint64(k), uint64(len(part)), blocks.Bytes(flat)); err != nil {
				return err
			}
		}
		return nil
	})
	b.m.EdgeLists = []store.EdgeListInfo{{Name: "valid", Rows: uint64(len(b.g.Valid)), File: name}}
}

// Open opens a store until the test ends.
func Open(t *testing.T, dir string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}
