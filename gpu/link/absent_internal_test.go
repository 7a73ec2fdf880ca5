package link

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
)

// knowledgeStore ingests a graph of 90 nodes and so many relations.
func knowledgeStore(t *testing.T, relations, partitions int) *store.Store {
	t.Helper()
	dir, r := t.TempDir(), keyed.New(7).Rand(0)
	for i, name := range []string{"train", "valid", "test"} {
		var b strings.Builder
		for range []int{700, 9, 9}[i] {
			fmt.Fprintf(&b, "n%d\tr%d\tn%d\n", r.Below(90), r.Below(uint64(relations)), r.Below(1+r.Below(90)))
		}
		if err := os.WriteFile(filepath.Join(dir, name+".tsv"), []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	src, err := formats.Open(dir, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	out := filepath.Join(t.TempDir(), "kg.gstore")
	if _, err := ingest.Run(t.Context(), out, src, ingest.Options{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(out, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// triple is an edge by internal ids: the row that lists it, its neighbour, the relation.
type triple struct {
	row, neighbour uint32
	relation       uint16
}

// triples lists an adjacency, each row's as they lie.
func triples(a *buffer.Adjacency, rows []uint32, node func(row uint32) uint32) (all []triple) {
	for _, row := range rows {
		span := a.Span(row)
		for k := span.Begin; k < span.End; k++ {
			x := triple{row: node(row), neighbour: node(a.Indices[k])}
			if a.Relations != nil {
				x.relation = a.Relations[k]
			}
			all = append(all, x)
		}
	}
	return all
}

// TestTopology compares the whole graph with what the partition buffer makes of it in memory.
func TestTopology(t *testing.T) {
	for _, relations := range []int{1, 3, 300} { // the last are of two bytes
		st := knowledgeStore(t, relations, 4)
		m := st.Manifest()
		x, err := openTopology(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		defer x.close()
		it, err := buffer.Open(t.Context(), st, buffer.Options{Both: true, Relations: relations > 1})
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		step := buffer.Step{}
		for p := range m.Partitions {
			step.Resident = append(step.Resident, store.PartitionID(p))
		}
		if err := it.Start(buffer.Plan{Policy: "memory", Steps: []buffer.Step{step}}); err != nil {
			t.Fatal(err)
		}
		if !it.Next() {
			t.Fatal(it.Err())
		}
		mb := it.MacroBatch()
		node, rows, nodes := map[uint32]uint32{}, []uint32{}, []uint32{}
		for _, p := range mb.Partitions {
			for k := range p.Nodes {
				node[p.Base+k] = uint32(p.First) + k
				rows, nodes = append(rows, p.Base+k), append(nodes, uint32(p.First)+k)
			}
		}
		for name, both := range map[string][2]*buffer.Adjacency{"in": {&x.in, mb.In}, "out": {&x.out, mb.Out}} {
			got := triples(both[0], nodes, func(v uint32) uint32 { return v })
			order := func(a, b triple) int {
				return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.neighbour, b.neighbour), cmp.Compare(a.relation, b.relation))
			}
			if !slices.IsSortedFunc(got, func(a, b triple) int { return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.neighbour, b.neighbour)) }) {
				t.Errorf("%d relations, %s: neighbours are not in order of internal ids", relations, name)
			}
			want := triples(both[1], rows, func(row uint32) uint32 { return node[row] })
			slices.SortFunc(got, order)
			slices.SortFunc(want, order)
			if len(got) != int(m.Edges) || !slices.Equal(got, want) {
				t.Errorf("%d relations, %s: %d edges, expected the %d of the buffer, of %d", relations, name, len(got), len(want), m.Edges)
			}
		}
		if x.read == 0 || int64(len(x.slab.Bytes())) < topologyBytes(m) {
			t.Errorf("%d bytes read, %d held, %d expected", x.read, len(x.slab.Bytes()), topologyBytes(m))
		}
	}
}

// TestShadow: a row comes back within half a step of its scale, whatever its neighbours hold, and zeros as zeros.
func TestShadow(t *testing.T) {
	r := keyed.New(1).Rand(0)
	for _, dim := range []int{1, 2, 7, 100} {
		s, err := newShadow(5, dim)
		if err != nil {
			t.Fatal(err)
		}
		rows, back := make([]float32, 3*dim), make([]float32, dim)
		for i := range rows {
			rows[i] = float32(r.Normal()) * []float32{1e-3, 0, 50}[i/dim]
		}
		s.set(1, rows)
		for v := range 3 {
			row, most := rows[v*dim:][:dim], float32(0)
			for _, x := range row {
				most = max(most, float32(math.Abs(float64(x))))
			}
			s.row(uint32(1+v), back)
			for i, x := range row {
				if d := math.Abs(float64(x - back[i])); d > float64(most)/14*1.0001 {
					t.Errorf("dim %d, row %d: %v came back as %v, off by more than a fourteenth of %v", dim, v, x, back[i], most)
				}
			}
		}
		again := make([]float32, dim)
		s.row(1, back)
		s.set(1, back) // what was rounded is not rounded again
		if s.row(1, again); !slices.Equal(again, back) {
			t.Errorf("dim %d: %v, copied again: %v", dim, back, again)
		}
		nan := []float32{float32(math.NaN()), float32(math.Inf(1))}
		s.set(4, append(nan, rows...)[:dim]) // a run that diverges ends with an error of its own
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDivide: inputs are put in their places with the edges that lead to them: seeds first, resident ones by rows of the
// macro-batch, absent ones last; and come back as the table's rows and the shadow's.
func TestDivide(t *testing.T) {
	st := knowledgeStore(t, 2, 3)
	m := st.Manifest()
	c := Config{Encoder: "sage", Dim: 4, BatchSize: 8, Negatives: 2, Chunks: 1, Fanouts: []int{5}}
	x, err := openAbsent(t.Context(), st, &c)
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	if _, err := x.fill(t.Context(), m, &c, nil); err != nil {
		t.Fatal(err)
	}
	slot := func(p store.PartitionID, base uint32) buffer.ResidentPartition {
		return buffer.ResidentPartition{ID: p, Base: base, Nodes: uint32(m.Partitions[p].Nodes), First: m.Partitions[p].First}
	}
	x.enter(&buffer.MacroBatch{Rows: 200, Partitions: []buffer.ResidentPartition{slot(0, 0), slot(1, 100)}})
	mb := &buffer.MacroBatch{Rows: 200, Partitions: []buffer.ResidentPartition{slot(0, 50), slot(2, 128)}}
	x.enter(mb) // partition 1 has left
	table := make([]float32, 200*c.Dim)
	for i := range table {
		table[i] = float32(i)
	}
	sampler, err := mini.New(mini.Config{Fanouts: c.Fanouts})
	if err != nil {
		t.Fatal(err)
	}
	var b mini.Batch
	seeds := []uint32{x.nodes[50], x.nodes[130], x.nodes[51]}
	if err := sampler.Sample(mini.Key{}, mini.Graph{In: &x.topology.in, Out: &x.topology.out, Relations: 2}, seeds, &b); err != nil {
		t.Fatal(err)
	}
	before, input := slices.Clone(b.Blocks[0].Indices), slices.Clone(b.Input)
	e := &batchExtra{}
	x.divide(&b, e)
	if !slices.Equal(b.Input[:len(seeds)], seeds) || len(e.absent) == 0 || len(e.resident)+len(e.absent) != len(input) {
		t.Fatalf("%d resident and %d absent inputs of %d, seeds %v are %v", len(e.resident), len(e.absent), len(input), seeds, b.Input[:len(seeds)])
	}
	for k, i := range b.Blocks[0].Indices {
		if b.Input[i] != input[before[k]] {
			t.Errorf("edge %d leads to node %d, expected %d", k, b.Input[i], input[before[k]])
		}
	}
	for i, row := range e.resident {
		if x.nodes[row] != b.Input[i] {
			t.Errorf("input %d, node %d: row %d is node %d's", i, b.Input[i], row, x.nodes[row])
		}
	}
	for i, v := range e.absent {
		if p, err := m.Partition(store.NodeID(v)); err != nil || p != 1 || b.Input[len(e.resident)+i] != v {
			t.Errorf("absent node %d of partition %d lies at %d as %d", v, p, i, b.Input[len(e.resident)+i])
		}
	}
	leaves(t, x, &c, mb, table, e)
}

// leaves checks the values of a batch's input, and that rows are in the shadow once their step is done.
func leaves(t *testing.T, x *absent, c *Config, mb *buffer.MacroBatch, table []float32, e *batchExtra) {
	t.Helper()
	q, a := hostQueue(t)
	value := a.Matrix(q, 200, c.Dim)
	q.Upload(value, floatBytes(table))
	in := x.input(q, a, value, a.Uint32s(q, e.resident), e.absent).Tables[0]
	got := make([]float32, in.Len())
	q.Download(floatBytes(got), in)
	if err := q.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, row := []float32{}, make([]float32, c.Dim)
	for _, r := range e.resident {
		want = append(want, table[int(r)*c.Dim:][:c.Dim]...)
	}
	for _, v := range e.absent {
		x.shadow.row(v, row)
		want = append(want, row...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("input rows %v, expected %v", got, want)
	}
	mb.Planes = [][]float32{table}
	x.leave(mb)
	for _, r := range e.resident {
		x.shadow.row(x.nodes[r], row)
		for j, v := range row {
			if w := table[int(r)*c.Dim+j]; math.Abs(float64(v-w)) > float64(w)/10 {
				t.Errorf("row %d left with %v, its shadow is %v", r, w, v)
			}
		}
	}
}

func hostQueue(t *testing.T) (*gpu.Queue, *gpu.Arena) {
	t.Helper()
	dev := host.New(host.Options{Threads: 1})
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	a := gpu.NewArena(dev)
	t.Cleanup(func() {
		for _, err := range []error{a.Close(), q.Close(), dev.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return q, a
}
