package macro

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// drawConfig draws any valid configuration.
func drawConfig(t *rapid.T) Config {
	c := Config{
		Policy:     rapid.SampledFrom(Names()).Draw(t, "policy"),
		Partitions: rapid.IntRange(1, 40).Draw(t, "partitions"),
		Seed:       rapid.Uint64().Draw(t, "seed"),
		Undirected: rapid.Bool().Draw(t, "undirected"),
	}
	link := c.Policy == Comet || c.Policy == Beta
	if !link && c.Policy != Memory || c.Policy == Memory && rapid.Bool().Draw(t, "node") {
		for i := range rapid.IntRange(0, min(3, c.Partitions)).Draw(t, "pinned") {
			c.Pinned = append(c.Pinned, store.PartitionID(c.Partitions-1-i))
		}
	} else if c.Policy == Memory {
		c.Link = true
	}
	if c.Policy != Memory && c.Policy != Rows {
		least := 1
		if link {
			least = 2
		}
		c.Capacity = rapid.IntRange(least, 45).Draw(t, "capacity")
	}
	if c.Policy == Hanoi {
		c.Reuse = rapid.IntRange(ReuseAuto, ReuseMax).Draw(t, "reuse")
	}
	if c.Policy == Memory && !c.Link {
		c.Group = rapid.IntRange(0, 45).Draw(t, "group")
	}
	if c.Link {
		c.Group = rapid.SampledFrom([]int{0, 2, 5, 8, 45}).Draw(t, "group of edges")
	}
	if c.Policy == TrainNodes {
		c.TrainOutside = rapid.Bool().Draw(t, "training nodes outside")
	}
	if c.Policy == Comet {
		c.Order = rapid.SampledFrom([]Order{Balanced, Random}).Draw(t, "order")
	}
	return c
}

// What every plan must satisfy: capacity kept, pinned resident, each training partition or
// bucket exactly once, examples resident, ascending lists, a pure function.
func TestPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		p, err := New(cfg)
		if err != nil {
			t.Fatalf("New(%+v): %v", cfg, err)
		}
		epoch := rapid.IntRange(0, 50).Draw(t, "epoch")
		plan := p.Epoch(epoch)
		if again := p.Epoch(epoch); !reflect.DeepEqual(plan, again) {
			t.Fatal("the same epoch planned twice differs")
		}
		q, _ := New(cfg)
		q.Epoch(epoch + 1)
		if again := q.Epoch(epoch); !reflect.DeepEqual(plan, again) {
			t.Fatal("the plan depends on what was planned before")
		}
		checkPlan(t, cfg, plan)
	})
}

func checkPlan(t *rapid.T, cfg Config, plan buffer.Plan) {
	pinned := slices.Clone(cfg.Pinned)
	slices.Sort(pinned)
	capacity := cfg.Capacity
	if capacity == 0 {
		capacity = cfg.Partitions
	}
	trained := make([]int, cfg.Partitions)
	met := map[buffer.BucketID]int{}
	ever := map[store.PartitionID]bool{}
	for k, s := range plan.Steps {
		if !slices.IsSorted(s.Resident) || len(slices.Compact(slices.Clone(s.Resident))) != len(s.Resident) {
			t.Fatalf("step %d: resident %v is not ascending", k, s.Resident)
		}
		if len(s.Resident)-len(pinned) > capacity {
			t.Fatalf("step %d: %d resident beside %d pinned, capacity %d", k, len(s.Resident)-len(pinned), len(pinned), capacity)
		}
		in := func(p store.PartitionID) bool { _, ok := slices.BinarySearch(s.Resident, p); return ok }
		for _, p := range pinned {
			if !in(p) {
				t.Fatalf("step %d: pinned partition %d is not resident in %v", k, p, s.Resident)
			}
		}
		for _, p := range s.Resident {
			ever[p] = true
		}
		if !slices.IsSorted(s.Train) {
			t.Fatalf("step %d: trained %v is not ascending", k, s.Train)
		}
		for _, p := range s.Train {
			trained[p]++
			if !in(p) {
				t.Fatalf("step %d trains partition %d, resident are %v", k, p, s.Resident)
			}
		}
		for _, b := range s.Buckets {
			met[b]++
			if !in(b.Src) || !in(b.Dst) {
				t.Fatalf("step %d trains bucket %v, resident are %v", k, b, s.Resident)
			}
		}
	}
	if cfg.Policy == Comet || cfg.Policy == Beta || cfg.Link {
		want := cfg.Partitions * cfg.Partitions
		if cfg.Undirected {
			want = cfg.Partitions * (cfg.Partitions + 1) / 2
		}
		if len(met) != want {
			t.Fatalf("%d buckets trained, want %d", len(met), want)
		}
		for b, n := range met {
			if n != 1 || cfg.Undirected && b.Src > b.Dst {
				t.Fatalf("bucket %v trained %d times", b, n)
			}
		}
		return
	}
	for p, n := range trained {
		_, isPinned := slices.BinarySearch(pinned, store.PartitionID(p))
		want := 1
		if cfg.Policy == TrainNodes && len(pinned) > 0 && !cfg.TrainOutside && !isPinned {
			want = 0 // only the pinned ones hold training nodes
		}
		if n != want {
			t.Fatalf("partition %d trained %d times, want %d", p, n, want)
		}
	}
	if cfg.Policy != TrainNodes && len(ever) != cfg.Partitions {
		t.Fatalf("%d of %d partitions were ever resident", len(ever), cfg.Partitions)
	}
}

func TestEpochsAndSeedsDiffer(t *testing.T) {
	for _, name := range []string{Hanoi, TrainNodes, Comet, Beta} {
		cfg := Config{Policy: name, Partitions: 32, Capacity: 8}
		if name == TrainNodes {
			cfg.Pinned = []store.PartitionID{0, 1}
		}
		p, _ := New(cfg)
		cfg.Seed = 1
		q, _ := New(cfg)
		if reflect.DeepEqual(p.Epoch(0), p.Epoch(1)) || reflect.DeepEqual(p.Epoch(0), q.Epoch(0)) {
			t.Errorf("%s: epochs 0 and 1, or seeds 0 and 1, have the same plan", name)
		}
	}
}

// TestGroupsOfEdges: plan memory in groups trains what comet trains, step by step, with everything in memory.
func TestGroupsOfEdges(t *testing.T) {
	memory, err := New(Config{Policy: Memory, Partitions: 16, Link: true, Group: 4, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	comet, err := New(Config{Policy: Comet, Partitions: 16, Capacity: 4, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	got, want := memory.Epoch(1), comet.Epoch(1)
	if len(got.Steps) != len(want.Steps) || len(want.Steps) < 2 {
		t.Fatalf("%d steps, comet has %d", len(got.Steps), len(want.Steps))
	}
	for i, s := range got.Steps {
		if len(s.Resident) != 16 || !slices.Equal(s.Buckets, want.Steps[i].Buckets) {
			t.Errorf("step %d: %d partitions in memory, expected 16, trains %v, expected %v", i, len(s.Resident), s.Buckets, want.Steps[i].Buckets)
		}
	}
	if _, err := New(Config{Policy: Memory, Partitions: 16, Link: true, Group: 1}); !errors.Is(err, ErrPlan) {
		t.Errorf("groups of one partition: %v", err)
	}
}

// Swap is the most partitions that come into memory at once, and some step needs so many: what reading ahead has room for.
func TestSwap(t *testing.T) {
	for _, cfg := range []Config{
		{Policy: Comet, Partitions: 16, Capacity: 4},
		{Policy: Comet, Partitions: 16, Capacity: 8},
		{Policy: Comet, Partitions: 11, Capacity: 8}, // logical partitions of one and of two
		{Policy: Comet, Partitions: 37, Capacity: 14},
		{Policy: Comet, Partitions: 16, Capacity: 4, Logical: 8},
		{Policy: Beta, Partitions: 11, Capacity: 8},
	} {
		p, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		most := 0
		for epoch := range 5 {
			plan := p.Epoch(epoch)
			for k := 1; k < len(plan.Steps); k++ {
				come := 0
				for _, p := range plan.Steps[k].Resident {
					if _, was := slices.BinarySearch(plan.Steps[k-1].Resident, p); !was {
						come++
					}
				}
				most = max(most, come)
			}
		}
		if most != cfg.Swap() {
			t.Errorf("%+v: %d partitions come into memory at once, Swap says %d", cfg, most, cfg.Swap())
		}
	}
}

// COMET trains a bucket in any of the steps where both its partitions are resident, each as likely, whatever
// the steps of others: the way back (j,i) too. BETA trains it in the first.
func TestBucketsAreDeferred(t *testing.T) {
	const epochs = 40
	for name, want := range map[string]float64{Comet: .5, Beta: 0} {
		p, _ := New(Config{Policy: name, Partitions: 24, Capacity: 8})
		place, choices, together, pairs := 0., 0., 0., 0.
		for epoch := range epochs {
			plan := p.Epoch(epoch)
			steps := map[buffer.BucketID][]int{} // where both are resident
			at := map[buffer.BucketID]int{}
			for k, s := range plan.Steps {
				for _, i := range s.Resident {
					for _, j := range s.Resident {
						b := buffer.BucketID{Src: i, Dst: j}
						steps[b] = append(steps[b], k)
					}
				}
				for _, b := range s.Buckets {
					at[b] = k
				}
			}
			for b, k := range at {
				n := len(steps[b])
				if n == 1 {
					continue
				}
				place += float64(slices.Index(steps[b], k)) / float64(n-1)
				choices++
				if b.Src < b.Dst {
					pairs += 1 / float64(n)
					if at[buffer.BucketID{Src: b.Dst, Dst: b.Src}] == k {
						together++
					}
				}
			}
		}
		if got := place / choices; math.Abs(got-want) > .01 {
			t.Errorf("%s: buckets are trained %.3f of the way through the steps that could, expected %v", name, got, want)
		}
		if name == Comet && math.Abs(together-pairs) > 6*math.Sqrt(pairs) {
			t.Errorf("%s: both ways between two partitions in one step %v times, expected about %.0f", name, together, pairs)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		cfg  Config
		want string
	}{
		{Config{Policy: Hanoi}, "0 partitions"},
		{Config{Policy: "mst", Partitions: 4}, `policy "mst" is unknown (known: [memory rows hanoi trainnodes comet beta])`},
		{Config{Policy: Memory, Partitions: 4, Capacity: 3}, "needs room for all 4 partitions, there is room for 3"},
		{Config{Policy: Hanoi, Partitions: 4, Pinned: []store.PartitionID{4}}, "pinned partition 4 of 4"},
		{Config{Policy: Hanoi, Partitions: 4, Pinned: []store.PartitionID{1, 1}}, "pinned twice"},
		{Config{Policy: Hanoi, Partitions: 4, Reuse: 5}, "reuse 5, want 0 to 4 or auto"},
		{Config{Policy: Comet, Partitions: 4, Reuse: 1}, "reuse is hanoi's"},
		{Config{Policy: Comet, Partitions: 4, Capacity: 1}, "needs two partitions in memory"},
		{Config{Policy: Comet, Partitions: 32, Capacity: 8, Logical: 4}, "use at least 8 logical ones"},
		{Config{Policy: Hanoi, Partitions: 4, Link: true}, "is for node tasks"},
		{Config{Policy: Beta, Partitions: 4, Pinned: []store.PartitionID{1}}, "pins no partitions"},
		{Config{Policy: Hanoi, Partitions: 4, Capacity: -1}, "capacity -1"},
	}
	for _, tt := range tests {
		_, err := New(tt.cfg)
		if !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New(%+v): %v, want an error about %q", tt.cfg, err, tt.want)
		}
	}
}

func ExampleNew() {
	p, _ := New(Config{Policy: Hanoi, Partitions: 5, Capacity: 2, Pinned: []store.PartitionID{4}, Seed: 1})
	for _, s := range p.Epoch(0).Steps {
		fmt.Println("resident", s.Resident, "train", s.Train)
	}
	// Output:
	// resident [0 2 4] train [0 2]
	// resident [1 3 4] train [1 3 4]
}

// TestPlanBytes: a plan of link prediction takes what is said of it, and while it is made and its list of steps grows little more: with
// the race detector twice as much.
func TestPlanBytes(t *testing.T) {
	const p = 512
	for _, c := range []Config{{Policy: Comet, Capacity: 64}, {Policy: Beta, Capacity: 64}, {Policy: Memory}} {
		c.Partitions, c.Link = p, true
		policy, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		plan := policy.Epoch(1)
		runtime.ReadMemStats(&after)
		buckets := 0
		for _, s := range plan.Steps {
			buckets += len(s.Buckets)
		}
		if took := int64(after.TotalAlloc - before.TotalAlloc); buckets != p*p || took < 8*p*p || took > 5*PlanBytes(p)/2 {
			t.Errorf("%s: %d buckets, %d bytes allocated; expected %d and about %d", c.Policy, buckets, took, p*p, PlanBytes(p))
		}
	}
}
