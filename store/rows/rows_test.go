package rows_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/rows"
	"github.com/gstore/gstore/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes a store of a random graph.
func open(t *testing.T, o storetest.Options) (*store.Store, *storetest.Graph) {
	t.Helper()
	g := storetest.Random(o)
	return storetest.Open(t, storetest.Create(t, g), store.Options{}), g
}

// batches draws different nodes a batch, some far more often than others.
func batches(nodes, n, most int) (out [][]uint32) {
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		seen := map[uint32]bool{}
		var b []uint32
		for range 1 + r.IntN(most) {
			v := uint32(r.IntN(nodes))
			if r.IntN(3) > 0 {
				v %= uint32(nodes / 10)
			}
			if !seen[v] {
				seen[v] = true
				b = append(b, v)
			}
		}
		out = append(out, b)
	}
	return out
}

// pushAll announces the batches of an epoch, the only one, beside who reads them; what it returns is closed once all are.
func pushAll(r *rows.Reader, list [][]uint32) <-chan bool {
	pushed := make(chan bool)
	go func() {
		defer close(pushed)
		for _, b := range list {
			r.Push(0, b)
		}
		r.End()
	}()
	return pushed
}

// plan is the one that a Reader goes by.
func plan(m *store.Manifest) buffer.Plan {
	p, err := macro.New(macro.Config{Policy: macro.Rows, Partitions: len(m.Partitions)})
	if err != nil {
		panic(err)
	}
	return p.Epoch(0)
}

// TestReaderBringsRows: whatever the cache holds, whatever is checked when, and by any engine, each batch finds the rows of its
// nodes; and what is read is to the byte what a forecast says, epoch by epoch, and more where the cache is smaller.
func TestReaderBringsRows(t *testing.T) {
	s, g := open(t, storetest.Options{Nodes: 6000, Edges: 20000, Partitions: 7, Dim: 100})
	const most, epochs, each = 120, 3, 40
	list := batches(g.Nodes(), epochs*each, most)
	base := rows.Options{Options: buffer.Options{Features: []string{"x"}, Labels: true, Threads: 2, GapBytes: -1, RequestBytes: 128 << 10, Depth: 8}, BatchRows: most}
	least, err := rows.Measure(s, base)
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	for _, c := range []struct {
		name   string
		budget int64
		change func(*rows.Options)
	}{
		{"all rows", 0, nil},
		{"a quarter", least.LeastBytes + 1400*460, nil},
		{"smallest", least.LeastBytes, nil},
		{"smallest, gaps", least.LeastBytes, func(o *rows.Options) { o.GapBytes = 16 << 10 }},
		{"smallest, always checked", least.LeastBytes, func(o *rows.Options) { o.Verify = buffer.VerifyAlways }},
		{"smallest, never checked", least.LeastBytes, func(o *rows.Options) { o.Verify = buffer.VerifyNever }},
		{"pread", least.LeastBytes, func(o *rows.Options) { o.EngineName = "pread" }},
		{"mmap", least.LeastBytes, func(o *rows.Options) { o.EngineName = "mmap" }},
		{"packed", 0, func(o *rows.Options) { o.Packed, o.EpochBatches, o.EpochRows = true, each, each*most/2 }},
		{"packed, short windows", 0, func(o *rows.Options) { o.Packed, o.EpochBatches, o.EpochRows, o.EngineName = true, 7, 7*most, "pread" }},
		{"packed, smallest", 1, func(o *rows.Options) { o.Packed, o.EpochBatches, o.EpochRows = true, each, each*most/2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := base
			o.MemoryBytes = c.budget
			if c.change != nil {
				c.change(&o)
			}
			if o.MemoryBytes == 1 {
				z, _ := rows.Measure(s, o)
				o.MemoryBytes = z.LeastBytes
			}
			o.Forecast = true
			f, err := rows.Open(t.Context(), s, o)
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range list {
				if !f.Push(i/each, b) {
					t.Fatal(f.Err())
				}
			}
			f.End()
			o.Forecast = false
			r, err := rows.Open(t.Context(), s, o)
			if err != nil {
				t.Fatal(err)
			}
			if z := r.Sizes(); o.MemoryBytes > 0 && (z.MemoryBytes() > o.MemoryBytes || z.Slots >= g.Nodes()) {
				t.Errorf("%+v within %d bytes", z, o.MemoryBytes)
			}
			pushed := make(chan bool)
			go func() {
				defer close(pushed)
				for i, b := range list {
					r.Push(i/each, b)
				}
				r.End()
			}()
			x := r.Features()[0]
			total := int64(0)
			for e := range epochs {
				if err := r.StartAt(plan(s.Manifest()), 0); err != nil {
					t.Fatal(err)
				}
				if !r.Next() {
					t.Fatal(r.Err())
				}
				for _, b := range list[e*each : (e+1)*each] {
					slots, err := r.Take(b)
					if err != nil {
						t.Fatal(err)
					}
					for i, v := range b {
						want := blocks.Bytes(g.Features[int(v)*g.Dim : (int(v)+1)*g.Dim])
						if got := x.Data[int(slots[i])*x.Stride:][:x.Stride]; !bytes.Equal(got, want) {
							t.Fatalf("epoch %d: slot %d has not the row of node %d", e, slots[i], v)
						}
					}
					r.Done()
				}
				want := f.Forecast(e)
				if got := r.Stats(); got.BytesRead != want.Bytes() || got.BytesRead != r.PredictBytes(buffer.Plan{}) || got.Requests != int64(want.Requests) {
					t.Errorf("epoch %d: %d bytes by %d requests, the forecast says %d by %d, the plan %d bytes", e, got.BytesRead, got.Requests, want.Bytes(), want.Requests, r.PredictBytes(buffer.Plan{}))
				}
				total += want.ColumnBytes
			}
			<-pushed
			if err := errors.Join(r.Close(), f.Close()); err != nil {
				t.Fatal(err)
			}
			if c.name == "smallest" && total <= last || total < last && c.change == nil {
				t.Errorf("%d bytes of rows are read, with a larger cache %d", total, last)
			}
			last = total
		})
	}
}

// counted counts the bytes that an engine reads.
type counted struct {
	blockio.Engine
	read atomic.Int64
}

func (c *counted) Do(ctx context.Context, batch []blockio.Request, done func(i int)) error {
	return c.Engine.Do(ctx, batch, func(i int) {
		if batch[i].Op == blockio.Read {
			c.read.Add(int64(len(batch[i].Buf)))
		}
		if done != nil {
			done(i)
		}
	})
}

// TestWindowsOverlap: where memory has room for two windows of packed batches, the features are read for the second one while the first
// one's first batch is in hand; with the least memory there is one, and what is read is the same.
func TestWindowsOverlap(t *testing.T) {
	s, g := open(t, storetest.Options{Nodes: 4000, Edges: 9000, Partitions: 5, Dim: 64})
	const most, each, windows = 60, 12, 3
	list := batches(g.Nodes(), windows*each, most)
	features := int64(4 * g.Dim * g.Nodes())
	o := rows.Options{Options: buffer.Options{Features: []string{"x"}, Threads: 1}, BatchRows: most, Packed: true, EpochBatches: each, EpochRows: each * most}
	engine := func() *counted {
		e, _, err := blockio.New("pread", blockio.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return &counted{Engine: e}
	}
	z, err := rows.Measure(s, o)
	if err != nil || z.PackWindows != 2 || z.PackBatches != each {
		t.Fatalf("%+v, %v: expected two windows of %d batches", z, err, each)
	}
	o.MemoryBytes = z.LeastBytes
	if z, err = rows.Measure(s, o); err != nil || z.PackWindows != 1 {
		t.Fatalf("%+v, %v: expected one window within %d bytes", z, err, o.MemoryBytes)
	}
	o.MemoryBytes = 0
	e := engine()
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	o.Engine = e
	r, err := rows.Open(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	pushed := pushAll(r, list)
	for k, b := range list {
		if _, err := r.Take(b); err != nil {
			t.Fatal(err)
		}
		if k%each == 0 {
			// One sweep more than windows begun, as far as there are windows.
			want := min(int64(k/each)+2, windows) * features
			for until := time.Now().Add(time.Minute); e.read.Load() < want; time.Sleep(time.Millisecond) {
				if time.Now().After(until) {
					t.Fatalf("%d bytes were read while batch %d is in hand, expected %d at least", e.read.Load(), k, want)
				}
			}
		}
		r.Done()
	}
	<-pushed
}

// TestGraphIsPlanMemorys: neighbours, relations, weights, labels and seeds are those of a macro-batch that holds everything, in the same
// order, for ids of every kind, in one direction and both, and for even, odd and prime numbers of nodes from 1 on, with and without
// edges; several edges join many of the pairs of nodes.
func TestGraphIsPlanMemorys(t *testing.T) {
	type shape struct {
		kind                    store.IDKind
		nodes, edges, relations int
		undirected, both        bool
		weighed                 bool
	}
	cases := []shape{{kind: store.IDsDense, nodes: 900}, {kind: store.IDsIntegers, nodes: 900}, {kind: store.IDsStrings, nodes: 900},
		{kind: store.IDsDense, nodes: 60, relations: 3, both: true}, {kind: store.IDsStrings, nodes: 60, relations: 300, both: true},
		{kind: store.IDsIntegers, nodes: 60, relations: 5, undirected: true}, {kind: store.IDsIntegers, nodes: 90, both: true},
		{kind: store.IDsDense, nodes: 900, weighed: true}, {kind: store.IDsStrings, nodes: 60, relations: 3, both: true, weighed: true}, {kind: store.IDsIntegers, nodes: 60, undirected: true, weighed: true}}
	for i := range cases {
		cases[i].edges = 9000
	}
	for _, nodes := range []int{1, 2, 3, 4, 13, 61, 211} {
		for i, kind := range []store.IDKind{store.IDsDense, store.IDsIntegers, store.IDsStrings} {
			edges := nodes*5 + i // odd and even
			cases = append(cases, shape{kind: kind, nodes: nodes, edges: edges}, shape{kind: kind, nodes: nodes, edges: edges, weighed: true},
				shape{kind: kind, nodes: nodes, edges: edges, relations: 3, both: true, weighed: true},
				shape{kind: kind, nodes: nodes, edges: edges, relations: 300, undirected: true, weighed: true})
		}
	}
	for k, c := range cases {
		if k%race.Every(3) != 0 {
			continue
		}
		kind := c.kind
		g := storetest.Random(storetest.Options{Nodes: c.nodes, Edges: c.edges, Partitions: 6, IDs: kind, Relations: c.relations, Undirected: c.undirected})
		for i := range g.Edges {
			if c.weighed { // some count as 0, or as the largest number
				g.Weights = append(g.Weights, [...]float32{.25, 3, -1, float32(math.Inf(1)), 7, .5, 0}[i*i%7])
			}
		}
		s := storetest.Open(t, storetest.Create(t, g), store.Options{})
		o := buffer.Options{Features: []string{"x"}, Labels: true, Threads: 2, Relations: c.relations > 0, Both: c.both, Weights: c.weighed}
		it, err := buffer.Open(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		everything := plan(s.Manifest())
		if err := it.Start(everything); err != nil || !it.Next() {
			t.Fatal(err, it.Err())
		}
		want := it.MacroBatch()
		r, err := rows.Open(t.Context(), s, rows.Options{Options: o, BatchRows: 100})
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		got := r.MacroBatch()
		node := map[uint32]uint32{} // row of the partition buffer → node
		for _, p := range want.Partitions {
			for k := range p.Nodes {
				node[p.Base+k] = uint32(p.First) + k
			}
		}
		translate := func(list []uint32) (out []uint32) {
			for _, v := range list {
				out = append(out, node[v])
			}
			return out
		}
		if !slices.Equal(got.Seeds, translate(want.Seeds)) {
			t.Errorf("%s ids: seeds differ", kind)
		}
		for row, v := range node {
			a, b := want.In.Span(row), got.In.Span(v)
			if !slices.Equal(got.In.Indices[b.Begin:b.End], translate(want.In.Indices[a.Begin:a.End])) || got.Labels[v] != want.Labels[row] {
				t.Fatalf("%+v: node %d has other neighbours or another label", c, v)
			}
			if c.relations > 0 && !slices.Equal(got.In.Relations[b.Begin:b.End], want.In.Relations[a.Begin:a.End]) {
				t.Fatalf("%+v: node %d has edges of relations %v, expected %v", c, v, got.In.Relations[b.Begin:b.End], want.In.Relations[a.Begin:a.End])
			}
			if c.weighed && (!slices.Equal(got.In.Weights[b.Begin:b.End], want.In.Weights[a.Begin:a.End]) || got.In.RowWeight(v) != want.In.RowWeight(row)) {
				t.Fatalf("%+v: node %d has edges of weights %v, expected %v", c, v, got.In.Weights[b.Begin:b.End], want.In.Weights[a.Begin:a.End])
			}
			if !c.both {
				continue
			}
			a, b = want.Out.Span(row), got.Out.Span(v)
			if !slices.Equal(got.Out.Indices[b.Begin:b.End], translate(want.Out.Indices[a.Begin:a.End])) ||
				c.relations > 0 && !slices.Equal(got.Out.Relations[b.Begin:b.End], want.Out.Relations[a.Begin:a.End]) ||
				c.weighed && (!slices.Equal(got.Out.Weights[b.Begin:b.End], want.Out.Weights[a.Begin:a.End]) || got.Out.RowWeight(v) != want.Out.RowWeight(row)) {
				t.Fatalf("%+v: node %d has other edges against their direction", c, v)
			}
		}
		if got.In.Edges() != want.In.Edges() || got.In.Rows() != len(node) {
			t.Errorf("%s ids: %d edges of %d nodes, expected %d of %d", kind, got.In.Edges(), got.In.Rows(), want.In.Edges(), len(node))
		}
		bringsRows(t, r, g)
		if err := errors.Join(it.Close(), r.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// bringsRows checks that a Reader brings the rows of up to 100 nodes, the last ones.
func bringsRows(t *testing.T, r *rows.Reader, g *storetest.Graph) {
	t.Helper()
	var batch []uint32
	for v := max(0, g.Nodes()-100); v < g.Nodes(); v++ {
		batch = append(batch, uint32(v))
	}
	pushed := pushAll(r, [][]uint32{batch})
	slots, err := r.Take(batch)
	if err != nil {
		t.Fatal(err)
	}
	x := r.Features()[0]
	for i, v := range batch {
		if got := x.Data[int(slots[i])*x.Stride:][:x.Stride]; !bytes.Equal(got, blocks.Bytes(g.Features[int(v)*g.Dim:(int(v)+1)*g.Dim])) {
			t.Fatalf("%d nodes: slot %d has not the row of node %d", g.Nodes(), slots[i], v)
		}
	}
	r.Done()
	<-pushed
}

// TestDamagedRows: a damaged chunk is found by the first row that is read of it, named, and ends what waits.
func TestDamagedRows(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 4000, Edges: 9000, Partitions: 3, Dim: 64})
	dir := storetest.Create(t, g)
	s := storetest.Open(t, dir, store.Options{})
	f, e, err := s.Files().Column("x", 1)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "data", filepath.Base(f.Path()))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[e.Offset+100] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := rows.Open(t.Context(), s, rows.Options{Options: buffer.Options{Features: []string{"x"}}, BatchRows: 10})
	if err != nil {
		t.Fatal(err)
	}
	first := uint32(s.Manifest().Partitions[1].First)
	if !r.Push(0, []uint32{0, first + 9}) {
		t.Fatal(r.Err())
	}
	r.End()
	_, err = r.Take([]uint32{0, first + 9})
	var c *blocks.CorruptError
	if !errors.As(err, &c) || !strings.Contains(c.Extent, "1") || c.Offset != e.Offset {
		t.Errorf("%v: expected the damage of partition 1's chunk at offset %d", err, e.Offset)
	}
	if r.Push(0, []uint32{1}) {
		t.Error("a batch was taken after the damage")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestReaderRefuses what is not for it, with the smallest budget where that is what is wrong.
func TestReaderRefuses(t *testing.T) {
	s, _ := open(t, storetest.Options{Nodes: 2000, Partitions: 4})
	o := rows.Options{Options: buffer.Options{Features: []string{"x"}, MemoryBytes: 1 << 20}, BatchRows: 50}
	_, err := rows.Open(t.Context(), s, o)
	var small *buffer.BudgetError
	if !errors.As(err, &small) {
		t.Fatalf("%v, expected a budget error", err)
	}
	o.MemoryBytes = small.NeedBytes
	r, err := rows.Open(t.Context(), s, o)
	if err != nil {
		t.Fatalf("with the smallest budget that was named: %v", err)
	}
	if r.Push(0, make([]uint32, 51)) || !errors.Is(r.Err(), store.ErrInvalid) {
		t.Errorf("a batch of 51 rows of at most 50: %v", r.Err())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if o.MemoryBytes--; small.NeedBytes > 0 {
		if _, err := rows.Open(t.Context(), s, o); !errors.Is(err, store.ErrBudget) {
			t.Errorf("a byte less than the least: %v", err)
		}
	}
	o.MemoryBytes, o.Weights = 0, true
	if _, err := rows.Open(t.Context(), s, o); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("weights of a store without: %v", err)
	}
}

// TestReaderRestarts: a Reader that was stopped among its batches, read, taken and waiting, brings the rows of others once it is begun
// again, whatever the cache holds, and says to the byte what they cost beside the graph.
func TestReaderRestarts(t *testing.T) {
	s, g := open(t, storetest.Options{Nodes: 3000, Edges: 9000, Partitions: 7, Dim: 100})
	const most, each = 60, 30
	list := batches(g.Nodes(), 2*each, most)
	base := rows.Options{Options: buffer.Options{Features: []string{"x"}, Threads: 2}, BatchRows: most}
	for name, change := range map[string]func(*rows.Options){
		"all rows": func(*rows.Options) {},
		"smallest": func(o *rows.Options) { o.MemoryBytes = 1 },
		"packed":   func(o *rows.Options) { o.Packed, o.EpochBatches, o.EpochRows = true, 7, 7*most },
	} {
		t.Run(name, func(t *testing.T) {
			o := base
			if change(&o); o.MemoryBytes == 1 {
				z, _ := rows.Measure(s, o)
				o.MemoryBytes = z.LeastBytes
			}
			r, err := rows.Open(t.Context(), s, o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}()
			x := r.Features()[0]
			for round, n := range []int{0, 11, each} { // batches taken before the next round
				begin := rand.New(rand.NewPCG(3, uint64(round))).IntN(each)
				pushed := make(chan bool)
				go func() {
					defer close(pushed)
					for _, b := range list[begin : begin+each] {
						if !r.Push(0, b) {
							return
						}
					}
					r.End()
				}()
				if err := r.StartAt(plan(s.Manifest()), 0); err != nil || !r.Next() {
					t.Fatal(err, r.Err())
				}
				for k, b := range list[begin : begin+n] {
					slots, err := r.Take(b)
					if err != nil {
						t.Fatal(err)
					}
					for i, v := range b {
						if got := x.Data[int(slots[i])*x.Stride:][:x.Stride]; !bytes.Equal(got, blocks.Bytes(g.Features[int(v)*g.Dim:(int(v)+1)*g.Dim])) {
							t.Fatalf("round %d, batch %d: slot %d has not the row of node %d", round, k, slots[i], v)
						}
					}
					r.Done()
				}
				if n < each {
					r.Stop()
				}
				<-pushed
				if n == each {
					if read, want := r.Stats().BytesRead, r.PredictBytes(buffer.Plan{}); read != want {
						t.Errorf("%d bytes were read, %d decided", read, want)
					}
				} else if err := r.Restart(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
