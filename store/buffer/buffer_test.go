package buffer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
)

// Any sequence of plans over any graph yields, step by step, the induced
// subgraph, and reads exactly what was predicted.
func TestMacroBatchesAreInducedSubgraphs(t *testing.T) {
	defer goleak.VerifyNone(t)
	parent := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		p := rapid.IntRange(1, 7).Draw(t, "partitions")
		sizes := make([]int, p)
		for i := range sizes {
			sizes[i] = rng.IntN(40)
		}
		relations := rapid.SampledFrom([]int{1, 3, 300}).Draw(t, "relations")
		g := newToyGraph(rng, sizes, rng.IntN(600), relations, rapid.Bool().Draw(t, "undirected"))
		g.sparseIDs = rapid.Bool().Draw(t, "sparse ids")
		s, err := g.write(parent)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		o := Options{
			EngineName: rapid.SampledFrom([]string{"pread", "auto"}).Draw(t, "engine"),
			Capacity:   rapid.IntRange(0, p).Draw(t, "capacity"),
			AheadMax:   rapid.IntRange(1, 3).Draw(t, "ahead"),
			Features:   []string{"x"}, Labels: true,
			Both:         rapid.Bool().Draw(t, "both"),
			Relations:    rapid.Bool().Draw(t, "carry relations"),
			Weights:      rapid.Bool().Draw(t, "carry weights"),
			Times:        rapid.Bool().Draw(t, "carry times"),
			Keys:         rapid.Bool().Draw(t, "number nodes"),
			Verify:       VerifyMode(rapid.IntRange(0, 2).Draw(t, "verify")),
			Threads:      rapid.IntRange(1, 3).Draw(t, "threads"),
			GapBytes:     rapid.SampledFrom([]int64{-1, 0, 1 << 20}).Draw(t, "gap"),
			RequestBytes: rapid.SampledFrom([]int64{0, 64 << 10, 4 << 20}).Draw(t, "request"),
		}
		if rapid.Bool().Draw(t, "carry features") {
			o.EdgeFeatures = []string{"both", "weight", "time"}
		}
		if o.Capacity > 0 {
			for q := range p - o.Capacity {
				if rng.IntN(3) == 0 {
					o.Pinned = append(o.Pinned, store.PartitionID(q))
				}
			}
			o.MemoryBytes = smallestBudget(t, s, o) + rapid.SampledFrom([]int64{0, 300 << 10, 4 << 20}).Draw(t, "spare")
		}
		plan := func() Plan { return randomPlan(rng, p, &o) }
		it, err := newBuffer(context.Background(), s.m, s, o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := it.Close(); err != nil {
				t.Error(err)
			}
		}()
		next := plan()
		exact := true
		for epoch := range 3 {
			current := next
			next = plan()
			predicted := it.PredictBytes(current)
			if err := it.Start(current); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 {
				if err := it.Announce(next); err != nil {
					t.Fatal(err)
				}
			}
			steps := 0
			abandon := rng.IntN(4) == 0
			for it.Next() {
				if err := g.check(it.MacroBatch(), &o); err != nil {
					t.Fatalf("epoch %d step %d: %v", epoch, it.MacroBatch().StepIndex, err)
				}
				if steps++; abandon && steps == 2 {
					break
				}
			}
			if err := it.Err(); err != nil {
				t.Fatal(err)
			}
			if abandon = abandon && steps < len(current.Steps); abandon {
				exact = false // what was read ahead in vain depends on timing
				continue
			}
			if steps != len(current.Steps) {
				t.Fatalf("%d steps of %d", steps, len(current.Steps))
			}
			st := it.Stats()
			if exact && st.BytesRead != predicted {
				t.Fatalf("epoch %d read %d bytes, predicted %d", epoch, st.BytesRead, predicted)
			}
			if epoch == 0 {
				f, err := newForecaster(context.Background(), s.m, s, nil, o)
				if err != nil {
					t.Fatal(err)
				}
				memory, epochs, err := f.Epochs(o.Capacity, o.Swap, o.MemoryBytes, current)
				if err := errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
				if c := epochs[0].Total; c.Bytes() != st.BytesRead || int64(c.Requests) != st.Requests || c.NeededBytes > c.TopologyBytes || memory != it.MemoryBytes() {
					t.Fatalf("forecast %+v in %d bytes, measured %d bytes in %d requests in %d", c, memory, st.BytesRead, st.Requests, it.MemoryBytes())
				}
			}
			exact = true
		}
	})
}

// smallestBudget asks for too little and reads the smallest budget off the layout.
func smallestBudget(t *rapid.T, s *toyStore, o Options) int64 {
	o.MemoryBytes = 1
	_, err := newBuffer(context.Background(), s.m, s, o)
	var short *BudgetError
	if !errors.Is(err, store.ErrBudget) || !errors.As(err, &short) {
		t.Fatalf("a budget of 1 byte: %v", err)
	}
	o.MemoryBytes = short.NeedBytes - 1
	if _, err := newBuffer(context.Background(), s.m, s, o); !errors.Is(err, store.ErrBudget) {
		t.Fatalf("one byte less than the smallest budget: %v", err)
	}
	return short.NeedBytes
}

// randomPlan draws steps within the options' capacity.
func randomPlan(rng *rand.Rand, partitions int, o *Options) Plan {
	plan := Plan{Policy: "random", Capacity: o.Capacity, Pinned: o.Pinned}
	for range 1 + rng.IntN(5) {
		var st Step
		free := o.Capacity
		for _, q := range rng.Perm(partitions) {
			pinned := slices.Contains(o.Pinned, store.PartitionID(q))
			if o.Capacity == 0 || pinned || free > 0 && rng.IntN(4) > 0 {
				st.Resident = append(st.Resident, store.PartitionID(q))
				if !pinned {
					free--
				}
			}
		}
		slices.Sort(st.Resident)
		for _, q := range st.Resident {
			if rng.IntN(4) > 0 {
				st.Train = append(st.Train, q)
			}
		}
		plan.Steps = append(plan.Steps, st)
	}
	return plan
}

func hanoiPlan(partitions, capacity int) Plan {
	plan := Plan{Policy: "hanoi", Capacity: capacity}
	for p := 0; p < partitions; p += capacity {
		var st Step
		for q := p; q < min(partitions, p+capacity); q++ {
			st.Resident = append(st.Resident, store.PartitionID(q))
		}
		st.Train = st.Resident
		plan.Steps = append(plan.Steps, st)
	}
	return plan
}

// In plan "memory" neighbours and seeds, named by external id, do not depend
// on how nodes were divided into partitions.
func TestMemoryPlanDoesNotDependOnPartitions(t *testing.T) {
	const n = 200
	rng := rand.New(rand.NewPCG(1, 2))
	type edge struct{ src, dst uint64 }
	var edges []edge
	for range 900 {
		edges = append(edges, edge{uint64(rng.IntN(n)), uint64(rng.IntN(n))})
	}
	slices.SortFunc(edges, func(a, b edge) int { return int(a.src*n+a.dst) - int(b.src*n+b.dst) })
	edges = slices.Compact(edges)
	var want string
	for _, parts := range []int{1, 3, 8} {
		sizes := make([]int, parts)
		for v := range n {
			sizes[v%parts]++
		}
		g := newToyGraph(rng, sizes, 0, 1, false)
		internal := make([]uint64, n)
		for v, id := range g.external {
			internal[id] = uint64(v)
			g.split[v] = uint8(id % 4)
		}
		for _, e := range edges {
			g.edges = append(g.edges, toyEdge{src: internal[e.src], dst: internal[e.dst]})
		}
		s := writeToy(t, g)
		it, err := newBuffer(t.Context(), s.m, s, Options{Features: []string{"x"}, Labels: true, Both: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := it.Start(hanoiPlan(parts, parts)); err != nil || !it.Next() {
			t.Fatal(err, it.Err())
		}
		b := it.MacroBatch()
		name := map[uint32]uint64{}
		row := make([]uint32, n)
		for _, p := range b.Partitions {
			for k := range p.Nodes {
				id := g.external[uint64(p.First)+uint64(k)]
				name[p.Base+k], row[id] = id, p.Base+k
			}
		}
		var got strings.Builder
		for _, a := range []*Adjacency{b.In, b.Out} {
			for id := range row {
				fmt.Fprint(&got, "\n", id, ":")
				for e := a.Spans[row[id]].Begin; e < a.Spans[row[id]].End; e++ {
					fmt.Fprint(&got, " ", name[a.Indices[e]])
				}
			}
		}
		for _, r := range b.Seeds {
			fmt.Fprint(&got, " ", name[r])
		}
		if want == "" {
			want = got.String()
		}
		if got.String() != want {
			t.Errorf("%d partitions give another macro-batch than one", parts)
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMacroBatchesRefuse(t *testing.T) {
	g := newToyGraph(rand.New(rand.NewPCG(3, 4)), []int{5, 6, 7, 8}, 60, 1, false)
	s := writeToy(t, g)
	for _, c := range []struct {
		name string
		o    Options
		want error
		text string
	}{
		{"unknown feature", Options{Features: []string{"y"}}, store.ErrNotFound, `"y"`},
		{"unknown feature of edges", Options{EdgeFeatures: []string{"y"}}, store.ErrNotFound, `["weight" "time" "both"]`},
		{"nodes' features of edges", Options{EdgeFeatures: []string{"x"}}, store.ErrInvalid, "role feature"},
		{"negative capacity", Options{Capacity: -1}, store.ErrInvalid, "negative"},
		{"negative swap", Options{Swap: -1}, store.ErrInvalid, "negative"},
		{"negative steps ahead", Options{AheadMax: -1}, store.ErrInvalid, "negative"},
		{"negative threads", Options{Threads: -1}, store.ErrInvalid, "negative"},
		{"negative memory", Options{MemoryBytes: -1}, store.ErrInvalid, "negative"},
		{"negative table", Options{TableDim: -1}, store.ErrInvalid, "negative"},
		{"negative planes of a table", Options{TablePlanes: -1}, store.ErrInvalid, "negative"},
		{"pinned beyond the store", Options{Capacity: 1, Pinned: []store.PartitionID{4}}, store.ErrInvalid, "pinned"},
		{"unknown split", Options{Split: "dev"}, store.ErrInvalid, `"dev"`},
		{"budget", Options{Capacity: 2, MemoryBytes: 1000}, store.ErrBudget, "give at least"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newBuffer(t.Context(), s.m, s, c.o)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, expected %v with %q", err, c.want, c.text)
			}
		})
	}
	it, err := newBuffer(t.Context(), s.m, s, Options{Capacity: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for _, c := range []struct {
		name string
		step Step
	}{
		{"beyond the capacity", Step{Resident: []store.PartitionID{0, 1, 2}}},
		{"not ascending", Step{Resident: []store.PartitionID{1, 0}}},
		{"unknown partition", Step{Resident: []store.PartitionID{9}}},
		{"training elsewhere", Step{Resident: []store.PartitionID{0}, Train: []store.PartitionID{1}}},
		{"bucket elsewhere", Step{Resident: []store.PartitionID{0}, Buckets: []BucketID{{0, 1}}}},
	} {
		plan := Plan{Steps: []Step{c.step}}
		if err := it.Start(plan); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", c.name, err)
		}
		if n := it.PredictBytes(plan); n != -1 {
			t.Errorf("%s: predicted %d bytes", c.name, n)
		}
	}
	if err := it.Start(hanoiPlan(4, 2)); err != nil || !it.Next() {
		t.Errorf("after refused plans: %v, %v", err, it.Err())
	}
}

// Damage is noticed while reading and names file and offset; everything is
// given back afterwards.
func TestMacroBatchesFindDamage(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, name := range []string{"topology.gsb", "x.gsb", "label.gsb"} {
		g := newToyGraph(rand.New(rand.NewPCG(5, 6)), []int{50, 60, 70, 80}, 2000, 1, true)
		s := writeToy(t, g)
		f, err := s.File(name)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := f.Extent(3)
		path := filepath.Join(s.dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		good := b[e.Offset]
		for _, ahead := range []int{1, 2} {
			it, err := newBuffer(t.Context(), s.m, s, Options{Capacity: 1, Features: []string{"x"}, Labels: true, AheadMax: ahead, MemoryBytes: 64 << 20})
			if err != nil {
				t.Fatal(err)
			}
			b[e.Offset] ^= 4
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := it.Start(hanoiPlan(4, 1)); err != nil {
				t.Fatal(err)
			}
			steps := 0
			for it.Next() {
				steps++
			}
			err = it.Err()
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprint(e.Offset)) {
				t.Errorf("%s: %v", name, err)
			}
			if steps > 3 {
				t.Errorf("%s: %d steps before the damage was noticed", name, steps)
			}
			if err := it.Start(hanoiPlan(4, 1)); err == nil {
				t.Error("started after an error")
			}
			if err := it.Close(); err != nil {
				t.Error(err)
			}
			b[e.Offset] = good
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestMacroBatchesCancel(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := newToyGraph(rand.New(rand.NewPCG(7, 8)), []int{50, 60, 70, 80}, 2000, 1, true)
	s := writeToy(t, g)
	ctx, cancel := context.WithCancel(context.Background())
	it, err := newBuffer(ctx, s.m, s, Options{Capacity: 1, Features: []string{"x"}, Labels: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := it.Start(hanoiPlan(4, 1)); err != nil {
		t.Fatal(err)
	}
	if !it.Next() {
		t.Fatal(it.Err())
	}
	cancel()
	for n := 0; it.Next(); n++ {
		if n > 3 {
			t.Fatal("goes on after its context ended")
		}
	}
	if err := it.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("Err is %v", err)
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
	if err := it.Start(hanoiPlan(4, 1)); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
}

// TestManyPartitionsMakeNoListOfBuckets: a step of all of many partitions reads a bucket for each pair, of which a list
// would take 7.5 MB of 160 partitions, and twice that until it is collected. No account knows of it.
func TestManyPartitionsMakeNoListOfBuckets(t *testing.T) {
	const parts = 160
	sizes := make([]int, parts)
	for p := range sizes {
		sizes[p] = 3
	}
	s := writeToy(t, newToyGraph(rand.New(rand.NewPCG(11, 12)), sizes, 2_000, 1, false))
	it, err := newBuffer(t.Context(), s.m, s, Options{Features: []string{"x"}, Labels: true})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	made := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := made()
	if err := it.Start(hanoiPlan(parts, parts)); err != nil || !it.Next() {
		t.Fatal(err, it.Err())
	}
	if more := made() - before; more > 3<<20 {
		t.Errorf("a step of %d partitions allocates %.1f MiB", parts, float64(more)/(1<<20))
	}
	runtime.KeepAlive(it)
}

// Descriptors and mappings are given back, whatever the iterator was doing.
func TestMacroBatchesLeaveNothing(t *testing.T) {
	g := newToyGraph(rand.New(rand.NewPCG(9, 10)), []int{50, 60, 70, 80}, 2000, 1, true)
	s := writeToy(t, g)
	use := func(steps int) {
		engine, _, err := blockio.New("pread", blockio.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		it, err := newBuffer(t.Context(), s.m, s, Options{Engine: engine, Capacity: 1, Features: []string{"x"}, Labels: true})
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		if err := it.Start(hanoiPlan(4, 1)); err != nil {
			t.Fatal(err)
		}
		for range steps {
			it.Next()
		}
	}
	use(4)
	fds, maps := openDescriptors(t), slabMappings(t)
	for steps := range 6 {
		use(steps)
	}
	if n := openDescriptors(t); n > fds {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
	if n := slabMappings(t); n > maps {
		t.Errorf("%d mappings of slabs, %d before", n, maps)
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(es)
}

// slabMappings counts mappings that asked for huge pages ("hg"), which the Go heap does not.
func slabMappings(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "VmFlags:") && strings.Contains(line, " hg") {
			n++
		}
	}
	return n
}

// BenchmarkPlanIdentity is what Start spends on finding out whether the plan is the one that was announced. The plan is
// a link task's of 4096 partitions: 16 M buckets.
func BenchmarkPlanIdentity(b *testing.B) {
	const p = 4096
	plan := Plan{Policy: "beta", Capacity: 2, Steps: make([]Step, p)}
	for i := range plan.Steps {
		plan.Steps[i].Buckets = make([]BucketID, p)
	}
	again := plan
	for b.Loop() {
		if !plan.is(&again) {
			b.Fatal("a copy of a plan is another plan")
		}
	}
}
