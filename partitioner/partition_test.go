package partitioner

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/partitioner/coarse"
	"github.com/gstore/gstore/partitioner/graph"
	"github.com/gstore/gstore/partitioner/graphtest"
)

// streamOnly hides a graph's random access.
type streamOnly struct{ graph.Graph }

func TestEveryMethodKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 800).Draw(rt, "nodes")
		k := rapid.IntRange(1, min(n, 40)).Draw(rt, "partitions")
		groups := rapid.IntRange(1, 12).Draw(rt, "groups")
		degree := rapid.IntRange(0, 12).Draw(rt, "degree")
		csr, classes := graphtest.BlockModel(t, n, groups, degree, 0.7, rapid.Uint64().Draw(rt, "graph"))
		o := Options{
			Method:     rapid.SampledFrom([]Method{MethodFennel, MethodGAP, MethodHDR}).Draw(rt, "method"),
			Partitions: k, Seed: rapid.Uint64().Draw(rt, "seed"), Classes: classes,
			Flat:       rapid.Bool().Draw(rt, "flat"),
			Order:      rapid.SampledFrom([]Order{"", OrderNatural, OrderRandom, OrderBFS, OrderDegree}).Draw(rt, "order"),
			LabelShare: rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(rt, "label share"),
			Slack:      rapid.SampledFrom([]float64{0, 0.001, 0.5}).Draw(rt, "slack"),
			Passes:     rapid.IntRange(0, 8).Draw(rt, "passes"),
			Threads:    rapid.IntRange(0, 3).Draw(rt, "threads"),
		}
		var g graph.Graph = csr
		if rapid.Bool().Draw(rt, "stream") {
			g, o.Order = streamOnly{csr}, ""
		}
		if rapid.Bool().Draw(rt, "initial") {
			a, _ := NewRandom(uint64(n), k, 9)
			o.Initial = Materialize(a)
		}
		a, err := Partition(context.Background(), g, o)
		if err != nil {
			rt.Fatal(err)
		}
		b, err := Partition(context.Background(), g, o)
		if err != nil {
			rt.Fatal(err)
		}
		part := Materialize(a).Part()
		if !slices.Equal(part, Materialize(b).Part()) {
			rt.Fatal("two runs differ")
		}
		pinned := uint64(0)
		if len(a.Pinned()) > 0 {
			pinned = Sizes(a)[k]
		}
		if a.Nodes() != uint64(n) || a.Partitions() != k+len(a.Pinned()) {
			rt.Fatalf("%d nodes, %d partitions", a.Nodes(), a.Partitions())
		}
		resolved, err := o.resolve(g)
		if err != nil {
			rt.Fatal(err)
		}
		limit, sum := resolved.limit(uint64(n)-pinned), uint64(0)
		for p, size := range Sizes(a) { // Sizes panics on a partition out of range
			if sum += size; p < k && size > uint64(limit) {
				rt.Fatalf("partition %d has %d nodes, the limit is %d", p, size, limit)
			}
		}
		if sum != uint64(n) {
			rt.Fatalf("%d nodes in partitions, %d in the graph", sum, n)
		}
		if o.Method == MethodGAP && resolved.LabelShare == 1 {
			random, err := NewRandom(uint64(n), k, o.Seed)
			if err != nil {
				rt.Fatal(err)
			}
			if d, r := divergence(rt, csr, a, classes), divergence(rt, csr, random, classes); d > r+LabelBound+whole(classes, k) {
				rt.Fatalf("labels diverge by %.3f, those of a random assignment by %.3f: more than %v+%.3f apart", d, r, LabelBound, whole(classes, k))
			}
		}
	})
}

func divergence(t rapid.TB, g graph.Graph, a Assigner, classes []uint16) float64 {
	q, err := Measure(context.Background(), g, a, QualityOptions{Classes: classes})
	if err != nil {
		t.Fatal(err)
	}
	return q.PartitionLabels.Mean
}

// whole is what LabelBound allows for nodes that cannot be divided.
func whole(classes []uint16, partitions int) float64 {
	count := classCounts(classes)
	training := uint64(0)
	for _, n := range count[1:] {
		training += n
	}
	return float64((len(count)-1)*partitions) / float64(max(training, 1))
}

// TestLabelBoundIsReached: communities of one label each that neighbours never leave, and a graph without an edge:
// where gap's passes alone keep labels together, the bound still holds, within the limit of sizes.
func TestLabelBoundIsReached(t *testing.T) {
	for _, c := range []struct {
		name              string
		n, groups, degree int
	}{{"cliques of a label", 2000, 10, 20}, {"no edges", 900, 10, 0}} {
		g, classes := graphtest.BlockModel(t, c.n, c.groups, c.degree, 1, 4)
		random, err := NewRandom(uint64(c.n), 10, 0)
		if err != nil {
			t.Fatal(err)
		}
		a, err := Partition(context.Background(), g, Options{Method: MethodGAP, Partitions: 10, Classes: classes})
		if err != nil {
			t.Fatal(err)
		}
		if d, r := divergence(t, g, a, classes), divergence(t, g, random, classes); d > r+LabelBound {
			t.Errorf("%s: labels diverge by %.3f, those of a random assignment by %.3f", c.name, d, r)
		}
		o := Options{Partitions: 10, Slack: DefaultSlack}
		limit := uint64(o.limit(uint64(c.n)))
		for p, size := range Sizes(a) {
			if size > limit {
				t.Errorf("%s: partition %d has %d nodes, the limit is %d", c.name, p, size, limit)
			}
		}
	}
}

func TestStreamEqualsMemory(t *testing.T) {
	g, classes := graphtest.BlockModel(t, 3000, 8, 10, 0.8, 1)
	for _, m := range []Method{MethodFennel, MethodGAP, MethodHDR} {
		o := Options{Method: m, Partitions: 16, Classes: classes, Flat: true, Order: OrderNatural}
		a, err := Partition(context.Background(), g, o)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Partition(context.Background(), streamOnly{g}, o)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(Materialize(a).Part(), Materialize(b).Part()) {
			t.Errorf("%s: a stream and an array of the same graph differ", m)
		}
	}
}

// What the methods are for, on a graph with known communities: fennel finds them (the
// expected cut of the planted partition is 0.2·(1−1/16)), gap spreads labels at
// least as well as chance, within 0.05, and still cuts less than random.
func TestQualityOnBlockModel(t *testing.T) {
	if race.Enabled {
		t.Skip("what is asked is how good partitions are; TestThreadsDoNotMatter has the threads")
	}
	g, classes := graphtest.BlockModel(t, 8000, 16, 16, 0.8, 3)
	measure := func(o Options) *Quality {
		t.Helper()
		o.Classes, o.Partitions, o.Seed = classes, 16, 5
		a, err := Partition(context.Background(), g, o)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Measure(context.Background(), g, a, QualityOptions{Classes: classes, Resident: 4})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	random := measure(Options{Method: MethodRandom})
	fennel := measure(Options{Method: MethodFennel})
	gap := measure(Options{Method: MethodGAP})
	if fennel.CutRate > 0.25 {
		t.Errorf("fennel cuts %.3f of the edges; the planted partition cuts 0.19", fennel.CutRate)
	}
	if gap.CutRate > 0.95*random.CutRate {
		t.Errorf("gap cuts %.3f, random %.3f", gap.CutRate, random.CutRate)
	}
	if d, r := gap.PartitionLabels.Mean, random.PartitionLabels.Mean; d > r+0.05 {
		t.Errorf("gap's labels diverge by %.3f, random's by %.3f", d, r)
	}
	if fennel.PartitionLabels.Mean < 0.5 {
		t.Errorf("fennel's partitions should follow labels here; divergence %.3f", fennel.PartitionLabels.Mean)
	}
	// Random: own partition 1/16, others (4−1)/15 of the rest.
	if want := 1.0/16 + 15.0/16*3/15; random.ResidentShare[0] < want-0.01 || random.ResidentShare[0] > want+0.01 {
		t.Errorf("random keeps %.3f of the neighbours, expected %.3f", random.ResidentShare[0], want)
	}
	if r := fennel.ResidentShare; len(r) != 2 || r[1] >= r[0] || r[0] < 0.8 {
		t.Errorf("fennel's resident shares %v", r)
	}
}

func TestHDRBalancesDegrees(t *testing.T) {
	// A star-heavy graph: node i of the first 40 is joined to nodes 40+i, 80+i, …
	const n, hubs = 4000, 40
	var src, dst []uint32
	for v := hubs; v < n; v++ {
		src, dst = append(src, uint32(v%hubs)), append(dst, uint32(v))
		if v%3 == 0 {
			src, dst = append(src, uint32(v)), append(dst, uint32((v*7)%n))
		}
	}
	g, err := graph.BuildCSR(n, func(yield func(src, dst []uint32) error) error { return yield(src, dst) }, true)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close() //nolint:errcheck // test
	a, err := Partition(context.Background(), g, Options{Method: MethodHDR, Partitions: 8, HubFraction: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	for v, p := range Materialize(a).Part() {
		if (v < hubs) != (p == 8) {
			t.Fatalf("node %d is in partition %d", v, p)
		}
	}
	q, err := Measure(context.Background(), g, a, QualityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if q.EntrySpread.MaxOverMean > 1.05 {
		t.Errorf("degrees: max/mean %.3f", q.EntrySpread.MaxOverMean)
	}
}

func TestInfluenceOnPath(t *testing.T) {
	// 0 – 1 – 2, training node 0. By hand, where 1 and 2 are another partition's: all that leaves 0 counts
	// from then on, (0,0,0) → (0,1/2,0) → (1/8,1/4+1/4,1/8) → (1/16+1/8,1/4+1/16+1/16+1/8,1/16+1/8), where the last
	// 1/8 of node 1 left 0 in the third hop. Where 1 is of 0's: what reaches 2, 1/2 · 1/4, and in a third
	// hop (0,1/16,1/16) of that and a quarter of the 1/2 that are in 1 and have not left.
	g, err := graph.NewCSR([]uint64{0, 1, 3, 4}, []uint32{1, 0, 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		part []blocks.PartitionID
		want [][]float32 // by hops
	}{
		{[]blocks.PartitionID{0, 1, 1}, [][]float32{{0, 0, 0}, {0, .5, 0}, {.125, .5, .125}, {.1875, .5, .1875}}},
		{[]blocks.PartitionID{0, 0, 1}, [][]float32{{0, 0, 0}, {0, 0, 0}, {0, 0, .125}, {0, .0625, .1875}}},
		{[]blocks.PartitionID{0, 0, 0}, [][]float32{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}},
	} {
		for hops, want := range c.want {
			if x := influence(t, g, []uint16{1, 0, 0}, c.part, hops); !slices.Equal(x, want) {
				t.Errorf("partitions %v, %d hops: %v, expected %v", c.part, hops, x, want)
			}
		}
	}
}

// influence is Influence in memory of its own.
func influence(t *testing.T, g graph.Graph, classes []uint16, part []blocks.PartitionID, hops int) []float32 {
	t.Helper()
	n := len(part)
	x := make([]float32, n)
	if err := Influence(context.Background(), g, classes, part, hops, x, [3][]float32{make([]float32, n), make([]float32, n), make([]float32, n)}); err != nil {
		t.Fatal(err)
	}
	return x
}

// On a block model whose degrees are alike, of which one node in ten trains and whose communities are the partitions,
// training nodes are no likelier hubs than others: counting walks that stay at home would make hubs of them alone.
func TestHubsAreNotTrainingNodes(t *testing.T) {
	const nodes, partitions = 4000, 8
	g, _ := graphtest.BlockModel(t, nodes, partitions, 12, 0.7, 1)
	classes, community := make([]uint16, nodes), make([]blocks.PartitionID, nodes)
	for v := range nodes {
		community[v] = blocks.PartitionID(v * 17 % partitions) // as BlockModel has it
		if v%10 == 0 {
			classes[v] = 1
		}
	}
	a := &Assignment{part: community, partitions: partitions}
	h, err := SelectHubs(context.Background(), g, a, HubOptions{Count: 200, Classes: classes})
	if err != nil {
		t.Fatal(err)
	}
	training := 0
	for v, p := range h.Part() {
		if p == partitions && classes[v] > 0 {
			training++
		}
	}
	if training > 40 {
		t.Errorf("%d of 200 hubs are training nodes, expected about one in ten", training)
	}
}

func TestSelectHubs(t *testing.T) {
	g, classes := graphtest.BlockModel(t, 2000, 4, 12, 0.5, 1)
	a, err := NewRange(2000, 8)
	if err != nil {
		t.Fatal(err)
	}
	h, err := SelectHubs(context.Background(), g, a, HubOptions{Fraction: 0.01, Classes: classes})
	if err != nil {
		t.Fatal(err)
	}
	before := make([]blocks.PartitionID, 2000)
	a.Assign(0, before)
	x := influence(t, g, classes, before, 2)
	lowest, highest := float32(1e9), float32(0)
	for v, p := range h.Part() {
		if p == 8 {
			lowest = min(lowest, x[v])
		} else {
			highest = max(highest, x[v])
		}
	}
	if Sizes(h)[8] != 20 || lowest < highest || !slices.Equal(h.Pinned(), h.Pinned()) || len(h.Pinned()) != 1 || h.Pinned()[0] != 8 {
		t.Errorf("hubs: %d of them, least influence %g, most of the others %g, pinned %v", Sizes(h)[8], lowest, highest, h.Pinned())
	}
	if _, err := SelectHubs(context.Background(), g, h, HubOptions{Fraction: 0.01}); !errors.Is(err, ErrOption) {
		t.Errorf("hubs of hubs: %v", err)
	}
	if _, err := SelectHubs(context.Background(), g, a, HubOptions{Fraction: 0.01, Classes: make([]uint16, 2000)}); !errors.Is(err, ErrOption) {
		t.Errorf("no training nodes: %v", err)
	}
	if _, err := SelectHubs(context.Background(), g, a, HubOptions{Fraction: 0.01, MemoryBytes: 1000}); !errors.Is(err, ErrBudget) {
		t.Errorf("small budget: %v", err)
	}
}

func TestHubCount(t *testing.T) {
	for _, c := range []struct {
		budget, nodeBytes int64
		nodes, want       uint64 // 0: refused
	}{{1000, 10, 1000, 100}, {1009, 10, 1000, 100}, {9, 10, 1000, 0}, {5000, 10, 1000, 500}, {5010, 10, 1000, 0}, {-1, 10, 1000, 0}, {3, 0, 10, 0}} {
		got, err := HubCount(c.budget, c.nodeBytes, c.nodes)
		if got != c.want || (err == nil) != (c.want > 0) || err != nil && !errors.Is(err, ErrOption) {
			t.Errorf("%d bytes of %d nodes of %d: %d, %v; expected %d", c.budget, c.nodes, c.nodeBytes, got, err, c.want)
		}
	}
}

func TestTopK(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(0, 3)), 1, 60).Draw(t, "keys")
		k := rapid.IntRange(0, len(key)).Draw(t, "k")
		order := make([]uint32, len(key))
		for i := range order {
			order[i] = uint32(i)
		}
		slices.SortStableFunc(order, func(a, b uint32) int {
			switch {
			case key[a] > key[b]:
				return -1
			case key[a] < key[b]:
				return 1
			}
			return 0
		})
		in := topK(key, uint64(k))
		for v := range key {
			if got, want := in(uint32(v)), slices.Contains(order[:k], uint32(v)); got != want {
				t.Fatalf("keys %v, k %d: node %d in: %v, expected %v", key, k, v, got, want)
			}
		}
	})
}

func TestTournament(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 40).Draw(t, "k")
		tr := coarse.NewTournament(k)
		count := make([]int32, k)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			p := rapid.IntRange(0, k-1).Draw(t, "p")
			d := rapid.Int32Range(-count[p], 4).Draw(t, "d")
			count[p] += d
			tr.Add(uint32(p), d)
			if want := uint32(slices.Index(count, slices.Min(count))); tr.Lowest() != want {
				t.Fatalf("counts %v: lowest %d, expected %d", count, tr.Lowest(), want)
			}
		}
	})
}

func TestPartitionRejects(t *testing.T) {
	g, classes := graphtest.BlockModel(t, 100, 4, 6, 0.5, 1)
	ctx := context.Background()
	for _, c := range []struct {
		name string
		g    graph.Graph
		o    Options
		want error
	}{
		{"no graph", nil, Options{Method: MethodFennel, Partitions: 4}, ErrOption},
		{"unknown method", g, Options{Method: "metis", Partitions: 4}, ErrOption},
		{"no partitions", g, Options{Method: MethodFennel}, ErrOption},
		{"no classes", g, Options{Method: MethodGAP, Partitions: 4}, ErrOption},
		{"order of a stream", streamOnly{g}, Options{Method: MethodFennel, Partitions: 4, Order: OrderBFS}, ErrOption},
		{"unknown order", g, Options{Method: MethodFennel, Partitions: 4, Order: "dfs"}, ErrOption},
		{"slack", g, Options{Method: MethodFennel, Partitions: 4, Slack: -1}, ErrOption},
		{"budget", g, Options{Method: MethodFennel, Partitions: 4, MemoryBytes: 100}, ErrBudget},
		{"budget of gap", g, Options{Method: MethodGAP, Partitions: 4, Classes: classes, MemoryBytes: 100}, ErrBudget},
		{"budget of hdr", g, Options{Method: MethodHDR, Partitions: 4, MemoryBytes: 100}, ErrBudget},
	} {
		if _, err := Partition(ctx, c.g, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for _, m := range []Method{MethodFennel, MethodGAP, MethodHDR} {
		if _, err := Partition(cancelled, g, Options{Method: m, Partitions: 4, Classes: classes}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", m, err)
		}
	}
}

// TestNeed: every method runs in exactly what Need says, with groups where the graph is an array,
// and over a stream not in a byte less.
func TestNeed(t *testing.T) {
	g, classes := graphtest.BlockModel(t, 3000, 8, 10, 0.7, 2)
	for _, m := range []Method{MethodFennel, MethodGAP, MethodHDR} {
		o := Options{Method: m, Partitions: 8, Classes: classes}
		need := o.Need(g.Nodes())
		levels := 0
		o.Progress = func(p Pass) { levels = max(levels, p.Level) }
		o.MemoryBytes = need.Array
		if _, err := Partition(context.Background(), g, o); err != nil {
			t.Errorf("%s over an array in %d bytes: %v", m, need.Array, err)
		}
		if m != MethodHDR && levels == 0 {
			t.Errorf("%s over an array in %d bytes placed single nodes only", m, need.Array)
		}
		o.MemoryBytes = need.Stream
		if _, err := Partition(context.Background(), streamOnly{g}, o); err != nil {
			t.Errorf("%s over a stream in %d bytes: %v", m, need.Stream, err)
		}
		o.MemoryBytes--
		if _, err := Partition(context.Background(), streamOnly{g}, o); !errors.Is(err, ErrBudget) {
			t.Errorf("%s over a stream in a byte less than it needs: %v", m, err)
		}
	}
}
