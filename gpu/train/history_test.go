package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/eval/evaltest"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/storetest"
)

// hiddenStates computes the states below the last layer of m for all nodes.
func hiddenStates(t *testing.T, g *evaltest.Graph, q *gpu.Queue, m *nn.Model) []float32 {
	t.Helper()
	a := gpu.NewArena(q.Device())
	defer func() { _ = a.Close() }()
	n := len(g.Labels)
	indptr, indices := []int32{0}, []int32{}
	for _, s := range g.In.Spans {
		for _, u := range g.In.Indices[s.Begin:s.End] {
			indices = append(indices, int32(u))
		}
		indptr = append(indptr, int32(len(indices)))
	}
	mem, err := q.Device().Map(g.Features)
	if err != nil {
		t.Fatal(err)
	}
	in := nn.Dense(gpu.MatrixOf(mem, 0, n, g.Dim))
	layers := m.Layers()
	for _, l := range layers[:len(layers)-1] {
		graph := gpu.Graph{NumDst: n, NumSrc: n, Indptr: a.Int32s(q, indptr), Indices: a.Int32s(q, indices)}
		in = nn.Dense(l.Forward(&nn.Pass{Queue: q, Arena: a}, &graph, in))
	}
	out := make([]float32, in.Tables[0].Len())
	q.Download(blocks.Bytes(out), in.Tables[0])
	if err := q.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out
}

// historyPlan trains the partitions two by two, partition 0 beside them.
func historyPlan(parts int) buffer.Plan {
	p := buffer.Plan{Policy: "test"}
	for lo := 0; lo < parts; lo += 2 {
		s := buffer.Step{Train: []store.PartitionID{store.PartitionID(lo)}}
		if lo+1 < parts {
			s.Train = append(s.Train, store.PartitionID(lo+1))
		}
		s.Resident = slices.Clone(s.Train)
		if lo > 0 {
			s.Resident = append([]store.PartitionID{0}, s.Resident...)
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

// TestHistorySums: means and divisors of neighbours outside memory equal those counted node by
// node, whatever the tiles and the type of rows, with and without a validation beside them.
func TestHistorySums(t *testing.T) {
	const hidden = 10
	for _, undirected := range []bool{true, false} {
		for _, layers := range []int{2, 3} {
			for _, c := range []struct {
				parts, tiles int
				elem         blocks.ElemType
				attention    bool
			}{{1, 1, blocks.Float32, false}, {7, 1, blocks.Float32, false}, {7, 1, blocks.Float16, false}, {7, 3, blocks.Float32, false}, {7, 3, blocks.Float32, true}, {7, 7, blocks.BFloat16, false}, {7, 7, blocks.Float16, true}} {
				t.Run(fmt.Sprintf("undirected=%v/layers=%d/parts=%d/tiles=%d/%v/attention=%v", undirected, layers, c.parts, c.tiles, c.elem, c.attention), func(t *testing.T) {
					g := evaltest.Random(t, 1200, c.parts, undirected)
					dev := host.New(host.Options{Threads: 2})
					defer func() { _ = dev.Close() }()
					q, err := gpu.NewQueue(dev)
					if err != nil {
						t.Fatal(err)
					}
					m, err := nn.New(t.Context(), q, nn.Config{Layers: layers, In: g.Dim, Hidden: hidden, Out: 5, Seed: 2})
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = m.Close() }()
					e := evaluatorOf(t, g, dev, hidden, c.tiles)
					defer func() { _ = e.Close() }()
					o := history.Options{Layer: layers - 1, Dim: hidden, Elem: c.elem, Attention: c.attention}
					if c.tiles > 1 { // room for the largest step, less than for all: additions go in pieces
						o.Resident = 2
					}
					h, err := history.New(t.Context(), g, dev, nil, o)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = h.Close() }()
					plan := historyPlan(c.parts)
					states := hiddenStates(t, g, q, m)
					for _, splits := range [][]string{nil, {"valid"}, nil} { // what a pass before left must not count
						if err := h.Begin(plan); err != nil {
							t.Fatal(err)
						}
						if _, err := e.RunInto(t.Context(), q, m, h, splits...); err != nil {
							t.Fatal(err)
						}
						checkHistory(t, g, h, plan, states)
					}
				})
			}
		}
	}
}

// evaluatorOf returns an evaluator that cuts g into so many tiles: without a budget into one, with the
// smallest budget that cuts it into no more than tiles otherwise; then hidden states lie in a file.
func evaluatorOf(t *testing.T, g *evaltest.Graph, dev gpu.Device, hidden, tiles int) *eval.Evaluator {
	t.Helper()
	open := func(memory int64) (*eval.Evaluator, error) {
		return eval.New(g, dev, eval.Options{Features: []string{"x"}, MemoryBytes: memory}, hidden)
	}
	memory := int64(0)
	if tiles > 1 {
		memory = int64(sort.Search(1<<24, func(n int) bool {
			e, err := open(int64(n + 1))
			return err == nil && e.Tiles() <= tiles
		})) + 1
	}
	e, err := open(memory)
	if err != nil {
		t.Fatal(err)
	}
	if e.Tiles() != tiles {
		t.Fatalf("%d tiles within %d bytes, expected %d", e.Tiles(), memory, tiles)
	}
	return e
}

// historyElement decodes element j of a row.
func historyElement(row []byte, j int, elem blocks.ElemType) float64 {
	switch elem {
	case blocks.Float16:
		return float64(blocks.Float16Value(binary.LittleEndian.Uint16(row[2*j:])))
	case blocks.BFloat16:
		return float64(blocks.BFloat16Value(binary.LittleEndian.Uint16(row[2*j:])))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(row[4*j:])))
}

func checkHistory(t *testing.T, g *evaltest.Graph, h *history.Layer, plan buffer.Plan, states []float32) {
	t.Helper()
	rows := make([]byte, h.Len()*h.RowBytes())
	if err := h.Rows.Read(rows, 0); err != nil {
		t.Fatal(err)
	}
	tolerance := map[blocks.ElemType]float64{blocks.Float32: 1e-4, blocks.Float16: 1e-3, blocks.BFloat16: 5e-3}[h.Elem]
	owner := func(v uint32) store.PartitionID {
		for p, info := range g.M.Partitions {
			if uint64(v) < uint64(info.First)+info.Nodes {
				return store.PartitionID(p)
			}
		}
		panic("no owner")
	}
	k, away := 0, 0
	for v, split := range g.Split {
		if split != store.SplitTrain {
			continue
		}
		var resident []store.PartitionID
		for _, s := range plan.Steps {
			if slices.Contains(s.Train, owner(uint32(v))) {
				resident = s.Resident
			}
		}
		want, missing := make([]float64, h.Dim), 0
		span := g.In.Spans[v]
		for _, u := range g.In.Indices[span.Begin:span.End] {
			if slices.Contains(resident, owner(u)) {
				continue
			}
			missing++
			for j := range want {
				want[j] += float64(states[int(u)*h.Dim+j])
			}
		}
		row, degree, divisor := rows[k*h.RowBytes():][:h.RowBytes()], float64(span.End-span.Begin), float32(1)
		if int(degree) > missing {
			divisor = float32(degree) / float32(int(degree)-missing)
		}
		by := degree
		if h.Attention { // a mean of the missing, and how many
			divisor, by = float32(missing), float64(missing)
		}
		if got := math.Float32frombits(binary.LittleEndian.Uint32(row[h.RowBytes()-4:])); got != divisor {
			t.Fatalf("training node %d: divisor %v, want %v: %d of %v neighbours are missing", v, got, divisor, missing, degree)
		}
		for j, w := range want {
			w /= max(by, 1)
			if got := historyElement(row, j, h.Elem); math.Abs(got-w) > tolerance*(1+math.Abs(w)) {
				t.Fatalf("training node %d, column %d: %v, want %v", v, j, got, w)
			}
		}
		away += missing
		k++
	}
	if k != h.Len() || len(g.M.Partitions) > 1 && away == 0 {
		t.Errorf("%d training nodes, want %d; %d neighbours outside memory", h.Len(), k, away)
	}
}

// TestHistoryAllResident: with every neighbour in memory, training with a history
// is training without, to the bit.
func TestHistoryAllResident(t *testing.T) {
	g := evaltest.Random(t, 1500, 5, true)
	for _, layers := range []int{2, 3} {
		c := config.Config{Hidden: 16, Layers: layers, Epochs: 3, BatchSize: 100, LR: .01, Seed: 3, Threads: 2}
		_, want := runMemory(t, g, c, 0)
		c.History = true
		_, got := runMemory(t, g, c, 0)
		for e := range want {
			if got[e].Loss != want[e].Loss || got[e].ValidAccuracy != want[e].ValidAccuracy {
				t.Errorf("%d layers, epoch %d: loss %v and accuracy %v with history, %v and %v without", layers, e+1, got[e].Loss, got[e].ValidAccuracy, want[e].Loss, want[e].ValidAccuracy)
			}
		}
		if got[0].HistorySeconds <= 0 {
			t.Error("the first epoch's history took no time: it was not filled")
		}
	}
}

// TestHistoryExact: a batch whose neighbours outside memory come from the
// history has the gradient-free forward result of one with all of them in memory.
func TestHistoryExact(t *testing.T) {
	dev := host.New(host.Options{Threads: 1})
	defer func() { _ = dev.Close() }()
	q, err := gpu.NewQueue(dev)
	if err != nil {
		t.Fatal(err)
	}
	m, err := nn.New(t.Context(), q, nn.Config{Layers: 1, In: 3, Hidden: 3, Out: 2, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	a := gpu.NewArena(dev)
	defer func() { _ = a.Close() }()
	states := []float32{1, 2, 3, 4, 5, 6, -7, 8, 9, 10, -11, 12} // of destination 0 and sources 1, 2, 3
	table := a.Matrix(q, 4, 3)
	q.Upload(table, blocks.Bytes(states))
	forward := func(sources int32, hs ...*nn.History) []float32 {
		indices := []int32{1, 2, 3}[:sources]
		g := gpu.Graph{NumDst: 1, NumSrc: 4, Indptr: a.Int32s(q, []int32{0, sources}), Indices: a.Int32s(q, indices)}
		out := m.Layers()[0].Forward(&nn.Pass{Queue: q, Arena: a, Train: true, Histories: hs}, &g, nn.Dense(table))
		host := make([]float32, 2)
		q.Download(blocks.Bytes(host), out)
		if err := q.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		return host
	}
	want := forward(3)
	rest := a.Matrix(q, 1, 3)
	q.Upload(rest, blocks.Bytes([]float32{10. / 3, -11. / 3, 12. / 3}))
	divisors := a.Matrix(q, 1, 1)
	q.Upload(divisors, blocks.Bytes([]float32{1.5}))
	got := forward(2, &nn.History{Divisors: divisors, Rest: rest})
	for j := range want {
		if math.Abs(float64(got[j]-want[j])) > 1e-5 {
			t.Errorf("output %d: %v, with all neighbours in memory %v", j, got[j], want[j])
		}
	}
	if other := forward(2, &nn.History{Layer: 1, Divisors: divisors, Rest: rest}); slices.Equal(other, got) {
		t.Error("another layer's history was used")
	}
}

// TestHistoryRefused: too little memory, an unknown split, and plans that train a partition twice.
func TestHistoryRefused(t *testing.T) {
	g := evaltest.Random(t, 300, 3, true)
	dev := host.New(host.Options{Threads: 1})
	defer func() { _ = dev.Close() }()
	if _, err := history.New(t.Context(), g, dev, nil, history.Options{Split: "other", Dim: 8}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown split: error %v, expected ErrNotFound", err)
	}
	h, err := history.New(t.Context(), g, dev, nil, history.Options{Split: "split", Dim: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	plan := historyPlan(3)
	plan.Steps = append(plan.Steps, plan.Steps[0])
	if err := h.Begin(plan); err == nil {
		t.Error("a plan that trains partitions twice is not refused")
	}
	narrow, err := history.New(t.Context(), g, dev, nil, history.Options{Dim: 8, Resident: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = narrow.Close() }()
	if err := narrow.Begin(historyPlan(3)); !errors.Is(err, store.ErrBudget) {
		t.Errorf("a step of more training nodes than there is room for: error %v, expected ErrBudget", err)
	}
	for _, c := range []config.Config{{Layers: 1, History: true}, {History: true, HistoryDtype: "int8"}, {HistoryDtype: "float16"}} {
		if err := c.Normalize(); err == nil {
			t.Errorf("%d layers, history %v of %q: not refused", c.Layers, c.History, c.HistoryDtype)
		}
	}
}

// TestHistoryFinish: rows keep what their type can hold; float16 ends at its largest number instead of
// becoming infinite, and rounding in place overwrites nothing that is still to be read.
func TestHistoryFinish(t *testing.T) {
	for _, c := range []struct {
		elem blocks.ElemType
		want []float64
	}{
		{blocks.Float32, []float64{1, -3, 1e6, -1e30, 5, .1, 7, 8}},
		{blocks.Float16, []float64{1, -3, blocks.MaxFloat16, -blocks.MaxFloat16, 5, .0999755859375, 7, 8}},
		{blocks.BFloat16, []float64{1, -3, 999424, -1.0002555517425873e30, 5, .10009765625, 7, 8}},
	} {
		h := &history.Layer{Options: history.Options{Dim: 4, Elem: c.elem}}
		sums := []float32{1, -3, 1e6, -1e30 /* degree, missing: */, 4, 1, 5, .1, 7, 8, 3, 3}
		rows := h.Finish(sums)
		if len(rows) != 2*h.RowBytes() {
			t.Fatalf("%v: %d bytes, expected %d", c.elem, len(rows), 2*h.RowBytes())
		}
		for i, divisor := range []float32{4. / 3, 1} {
			row := rows[i*h.RowBytes():][:h.RowBytes()]
			for j := range 4 {
				if got, want := historyElement(row, j, c.elem), c.want[4*i+j]; math.Abs(got-want) > 1e-6*math.Abs(want) {
					t.Errorf("%v: row %d, element %d: %v, expected %v", c.elem, i, j, got, want)
				}
			}
			if got := math.Float32frombits(binary.LittleEndian.Uint32(row[h.RowBytes()-4:])); got != divisor {
				t.Errorf("%v: row %d: divisor %v, expected %v", c.elem, i, got, divisor)
			}
		}
	}
}

// TestHistoryOfIsolatedNodes: training nodes without an edge have no relation, and train all the same.
func TestHistoryOfIsolatedNodes(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 200, Edges: 60, Partitions: 4, Relations: 3}))
	for _, model := range []string{"rsage", "sage"} {
		st, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		dev := hostDevice(t)
		cfg := config.Config{Model: model, Layers: 2, Hidden: 8, Epochs: 2, Split: "split", History: true, Plan: "hanoi", Buffer: 2, Threads: 1}
		if _, err := Node(t.Context(), st, dev, cfg, Hooks{}); err != nil {
			t.Errorf("%s: %v", model, err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}
