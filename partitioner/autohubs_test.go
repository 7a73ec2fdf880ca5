package partitioner

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/partitioner/graph"
	"github.com/gstore/gstore/partitioner/graphtest"
)

// skewed is a graph whose destinations are drawn by u³, so that few nodes have most edges; every
// fifth node is a training node.
func skewed(t testing.TB, n, degree int, seed uint64) (*graph.CSR, []uint16) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	src, dst := make([]uint32, n*degree/2), make([]uint32, n*degree/2)
	for i := range src {
		u := r.Float64()
		src[i], dst[i] = uint32(r.IntN(n)), uint32(float64(n)*u*u*u)*17%uint32(n)
	}
	g, err := graph.BuildCSR(uint64(n), func(yield func(src, dst []uint32) error) error { return yield(src, dst) }, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	classes := make([]uint16, n)
	for v := 0; v < n; v += 5 {
		classes[v] = 1
	}
	return g, classes
}

// TestAutoHubs: hubs are chosen where degrees are skewed and left out where they are alike, by the
// shares that a quality report of the same assignments has, and whatever the graph's access.
func TestAutoHubs(t *testing.T) {
	const n, k = 4096, 64
	ctx := context.Background()
	alike, alikeClasses := graphtest.BlockModel(t, n, k, 16, .7, 3)
	few, fewClasses := skewed(t, n, 16, 3)
	for i, c := range []struct {
		name    string
		g       graph.Graph
		classes []uint16
		method  Method
		hops    int
		want    bool
	}{
		{"alike", alike, alikeClasses, MethodFennel, 2, false},
		{"alike, 3 hops", alike, alikeClasses, MethodFennel, 3, false},
		{"alike, streamed", streamOnly{alike}, alikeClasses, MethodFennel, 2, false},
		{"skewed", few, fewClasses, MethodFennel, 2, true},
		{"skewed, 3 hops", few, fewClasses, MethodFennel, 3, true},
		{"skewed, streamed", streamOnly{few}, fewClasses, MethodFennel, 2, true},
		{"skewed, random", few, fewClasses, MethodRandom, 2, true},
	} {
		if i%race.Every(3) != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			a, err := Partition(ctx, c.g, Options{Method: c.method, Partitions: k, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			got, choice, err := AutoHubs(ctx, c.g, a, HubOptions{Classes: c.classes, Hops: c.hops})
			if err != nil {
				t.Fatal(err)
			}
			if choice.Hubs > 0 != c.want || len(got.Pinned()) > 0 != c.want || choice.Candidates != n/k {
				t.Errorf("chose %v, pinned %v, expected hubs: %v of %d candidates", choice, got.Pinned(), c.want, n/k)
			}
			with, err := SelectHubs(ctx, c.g, a, HubOptions{Count: n / k, Classes: c.classes, Hops: c.hops})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []struct {
				a        Assigner
				resident int
				share    float64
			}{{a, k / 8, choice.Without}, {with, k/8 - 1, choice.With}} {
				q, err := Measure(ctx, c.g, m.a, QualityOptions{Classes: c.classes, Resident: m.resident, Hops: c.hops})
				if err != nil {
					t.Fatal(err)
				}
				if want := q.ResidentShare[len(q.ResidentShare)-1]; len(q.ResidentShare) != choice.Hops || math.Abs(m.share-want) > 1e-12 {
					t.Errorf("%d resident: share %v of %d hops, the quality report has %v", m.resident, m.share, choice.Hops, q.ResidentShare)
				}
			}
			if c.want && !slices.Equal(with.Part(), Materialize(got).Part()) {
				t.Error("hubs are others than those of SelectHubs")
			}
			if why := choice.String(); strings.HasPrefix(why, "no hubs") == c.want || !strings.Contains(why, "% of training nodes") {
				t.Errorf("reason: %s", why)
			}
		})
	}
}

// TestHubsPay: neither a tie nor a little more counts, and the line says so.
func TestHubsPay(t *testing.T) {
	for _, c := range []struct { // the shares of docs/design.md, and others
		without, with float64
		pays, tie     bool
	}{
		{.477, .477, false, true}, {.552, .544, false, false}, {.486, .494, false, true},
		{.298, .309, false, true}, {.285, .319, false, true}, {.683, .721, false, true},
		{.520, .629, true, false}, {.522, .638, true, false}, {.118, .467, true, false}, {.026, .075, true, false},
		{0, 0, false, true}, {0, .1, true, false}, {1, 1, false, true},
	} {
		choice := HubChoice{Candidates: 7, With: c.with, Without: c.without, Hops: 2, Resident: 8, Partitions: 64, Training: 1}
		if choice.pays() != c.pays {
			t.Errorf("from %v to %v pays: %v", c.without, c.with, !c.pays)
		}
		if choice.pays() {
			choice.Hubs = 7
		}
		if said := strings.Contains(choice.String(), "too little"); said != c.tie {
			t.Errorf("from %v to %v: %v", c.without, c.with, choice)
		}
	}
}

// TestAutoHubsSmall: a store of few partitions, where all are in memory anyway, gets none.
func TestAutoHubsSmall(t *testing.T) {
	g, classes := skewed(t, 256, 8, 1)
	for k := 1; k <= 2; k++ {
		a, err := NewRange(256, k)
		if err != nil {
			t.Fatal(err)
		}
		got, choice, err := AutoHubs(context.Background(), g, a, HubOptions{Classes: classes})
		if err != nil || choice.Hubs > 0 || len(got.Pinned()) > 0 || choice.Without != 1 {
			t.Errorf("%d partitions: %v, %v", k, choice, err)
		}
		if why := choice.String(); !strings.Contains(why, "are in memory at once") {
			t.Errorf("%d partitions: %s", k, why)
		}
	}
	single, err := graph.NewCSR([]uint64{0, 0}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewRange(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, choice, err := AutoHubs(context.Background(), single, a, HubOptions{}); err != nil || choice.Hubs > 0 {
		t.Errorf("one node: %v, %v", choice, err)
	}
}

// TestAutoHubsWithoutTraining: nothing to be near to, no hubs.
func TestAutoHubsWithoutTraining(t *testing.T) {
	g, classes := skewed(t, 256, 8, 1)
	clear(classes)
	a, err := NewRange(256, 16)
	if err != nil {
		t.Fatal(err)
	}
	got, choice, err := AutoHubs(context.Background(), g, a, HubOptions{Classes: classes})
	if err != nil || choice.Hubs > 0 || len(got.Pinned()) > 0 || !strings.Contains(choice.String(), "no training node") {
		t.Errorf("%v, %v", choice, err)
	}
}
