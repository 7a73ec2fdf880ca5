package train

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestComplete: a run takes, unasked, the hop that the store has, and out of core a history; where the store has none, the
// model cannot or the user does not want them, it does without.
func TestComplete(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Edges: 2000, Partitions: 6, Relations: 2}))
	run := func(c config.Config) (config.Config, string) {
		t.Helper()
		c.Hidden, c.BatchSize, c.Epochs, c.Threads = 8, 50, 1, 1
		var why []string
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{Plan: func(w []string) { why = w }})
		if err != nil {
			t.Fatal(err)
		}
		return cp.Config, strings.Join(why, "\n")
	}
	hanoi := config.Config{Plan: "hanoi", Buffer: 2}
	if c, _ := run(hanoi); c.PrecomputedHop || !c.History {
		t.Errorf("without a hop in the store: hop %v, history %v", c.PrecomputedHop, c.History)
	}
	if _, err := precompute.Hop(t.Context(), dir, hostDevice(t), precompute.Options{}); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*config.Config)) config.Config { c := hanoi; change(&c); return c }
	for name, c := range map[string]struct {
		config.Config
		hop, history bool
	}{
		"out of core":          {hanoi, true, true},
		"in memory":            {config.Config{}, true, false},
		"in memory, ignored":   {config.Config{Absent: config.AbsentIgnore}, false, false},
		"in memory, gat":       {config.Config{Model: "gat"}, false, false},
		"rows":                 {config.Config{Plan: macro.Rows}, true, false},
		"ignored":              {with(func(c *config.Config) { c.Absent = config.AbsentIgnore }), false, false},
		"history asked for":    {with(func(c *config.Config) { c.History = true }), true, true},
		"gat, few neighbours":  {with(func(c *config.Config) { c.Model = "gat" }), false, false},
		"gat, few, asked for":  {with(func(c *config.Config) { c.Model, c.History = "gat", true }), false, true},
		"gat, more neighbours": {with(func(c *config.Config) { c.Model, c.Buffer = "gat", 4 }), false, true},
		"gat, one layer":       {with(func(c *config.Config) { c.Model, c.Layers = "gat", 1 }), false, false},
		"relations":            {with(func(c *config.Config) { c.Model = "rsage" }), false, true},
		"maximum":              {with(func(c *config.Config) { c.Aggregator = "max" }), false, false},
		"one layer":            {with(func(c *config.Config) { c.Layers = 1 }), false, false},
		"capacity by the plan": {config.Config{Plan: "auto", Buffer: 3}, true, true},
		"groups of a device":   {config.Config{DevicePlan: macro.DevicePBS, History: true}, true, true},
		"groups, ignored":      {config.Config{DevicePlan: macro.DevicePBS, History: true, Absent: config.AbsentIgnore}, false, true},
	} {
		got, why := run(c.Config)
		if got.PrecomputedHop != c.hop || got.History != c.history {
			t.Errorf("%s: hop %v, history %v; expected %v and %v", name, got.PrecomputedHop, got.History, c.hop, c.history)
		}
		if strings.Contains(why, ".hop1") != c.hop || strings.Contains(why, "an epoch old") != (c.history && !c.Config.History) {
			t.Errorf("%s: the reasons are %q", name, why)
		}
		if strings.Contains(why, "--history keeps it") != (name == "gat, few neighbours") {
			t.Errorf("%s: the reasons are %q, of a history that could be kept", name, why)
		}
	}
}

// TestCompleteMakesRoom: where mini-batches of a hop less leave room for all neighbours a run reads the hop, and keeps no history of
// neighbours that are not absent any more.
func TestCompleteMakesRoom(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 3000, Edges: 60000, Partitions: 12, Dim: 64}))
	hop(t, dir)
	st := storetest.Open(t, dir, store.Options{})
	info := hostDevice(t).Info()
	tried := map[string]bool{}
	for mem := int64(70); mem < 200 && !(tried[macro.Memory] && tried[macro.Rows]); mem += 2 {
		c := config.Config{Plan: "auto", BatchSize: 300, MemoryBytes: mem << 20, Threads: 1}
		if err := c.Normalize(); err != nil {
			t.Fatal(err)
		}
		c.FillFeatures(st.Manifest())
		with := c
		with.PrecomputedHop, with.Features = true, []string{"x", "x.hop1"}
		before, err := planning.Policy(&c, t.Context(), st, info, new(planning.Counted))
		after, err2 := planning.Policy(&with, t.Context(), st, info, new(planning.Counted))
		if err := errors.Join(err, err2); errors.Is(err, store.ErrBudget) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if before != macro.Hanoi || after == macro.Hanoi {
			continue
		}
		tried[after] = true
		if _, err := planning.Complete(&c, t.Context(), st, info); err != nil {
			t.Fatal(err)
		}
		if !c.PrecomputedHop || c.History {
			t.Errorf("%d MiB: hop %v, history %v, where plan %s fits with the hop", mem, c.PrecomputedHop, c.History, after)
		}
	}
	if len(tried) == 0 {
		t.Error("no budget was found that the hop makes a difference to")
	}
}

// TestHistoryLeavesRoom: a history that would take the place of most partitions of a step is not kept unasked.
func TestHistoryLeavesRoom(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 6000, Edges: 40000, Partitions: 24, Dim: 256}))
	hop(t, dir)
	st := storetest.Open(t, dir, store.Options{})
	info, crowded, kept := hostDevice(t).Info(), 0, 0
	for mem := int64(79); mem < 130; mem++ {
		c := config.Config{Plan: macro.Hanoi, MemoryBytes: mem << 20, BatchSize: 1000, Threads: 1} // else plan rows is taken where it fits
		if err := c.Normalize(); err != nil {
			t.Fatal(err)
		}
		c.FillFeatures(st.Manifest())
		with := c
		with.PrecomputedHop, with.Features = true, []string{"x", "x.hop1"}
		without, err := planning.Choose(&with, t.Context(), st, info, new(planning.Counted))
		if errors.Is(err, store.ErrBudget) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		with.History = true
		had, err := planning.Choose(&with, t.Context(), st, info, new(planning.Counted))
		if errors.Is(err, store.ErrBudget) || without.Policy != macro.Hanoi {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		crowds := 2*had.Capacity < without.Capacity
		if crowds {
			crowded++
		} else {
			kept++
		}
		if _, err := planning.Complete(&c, t.Context(), st, info); err != nil || c.History == crowds {
			t.Errorf("%d MiB: history %v where %d of %d partitions have room beside it, error %v", mem, c.History, had.Capacity, without.Capacity, err)
		}
	}
	if crowded == 0 || kept == 0 {
		t.Errorf("a history crowds in %d budgets and not in %d: expected both", crowded, kept)
	}
}

// TestCompleteKeepsNeighbours: where partitions would lose presentPoints or more, and smaller batches leave room for all neighbours, a run has
// those, unless their size, a plan or a history was asked for, or partitions lose little. It can be resumed as any other.
func TestCompleteKeepsNeighbours(t *testing.T) {
	o := storetest.Options{Nodes: 6000, Edges: 40000, Partitions: 24, Dim: 256}
	dir, kept := storetest.Create(t, storetest.Random(o)), storetest.Create(t, withinPartitions(storetest.Random(o)))
	hop(t, dir)
	hop(t, kept)
	info := hostDevice(t).Info()
	complete := func(dir string, c config.Config) (config.Config, string) {
		t.Helper()
		st := storetest.Open(t, dir, store.Options{})
		c.Threads = 1
		if err := c.Normalize(); err != nil {
			t.Fatal(err)
		}
		c.FillFeatures(st.Manifest())
		why, err := planning.Complete(&c, t.Context(), st, info)
		if err != nil {
			t.Fatal(err)
		}
		return c, strings.Join(why, "\n")
	}
	mem := int64(90 << 20)
	sizes := map[int]bool{}
	for !sizes[250] { // from the smallest on, then with room for a history too
		c, why := complete(dir, config.Config{MemoryBytes: mem})
		if sizes[c.BatchSize] = true; c.BatchSize < 1000 && (c.BatchSize != 1000/c.Accumulate || !c.PrecomputedHop || c.History || !strings.Contains(why, "leave room for all") || strings.Contains(why, "an epoch old")) {
			t.Errorf("%d MiB: batches of %d, %d a step, hop %v, history %v: %s", mem>>20, c.BatchSize, c.Accumulate, c.PrecomputedHop, c.History, why)
		}
		if mem += 1 << 20; mem > 200<<20 {
			t.Fatalf("batches of %v within budgets up to this: expected 250 among them: %s", sizes, why)
		}
	}
	if !sizes[62] && !sizes[125] {
		t.Errorf("batches of %v: expected smaller ones within small budgets", sizes)
	}
	c, _ := complete(dir, config.Config{MemoryBytes: mem})
	numbers, several := storetest.Random(o), storetest.Random(o)
	numbers.Numbers, numbers.Classes = true, 0
	several.Sets = bytes.Repeat([]byte{1, 2, 3, 4, 5}, several.Classes)[:several.Classes] // of at most 8 labels
	for name, g := range map[string]*storetest.Graph{"numbers": numbers, "several labels": several} {
		dir := storetest.Create(t, g)
		hop(t, dir)
		if c, why := complete(dir, config.Config{MemoryBytes: mem}); c.BatchSize >= 1000 || c.History || !strings.Contains(why, "partitions would have") {
			t.Errorf("%s: batches of %d, history %v: %s", name, c.BatchSize, c.History, why)
		}
	}
	for name, x := range map[string]struct {
		dir string
		config.Config
	}{
		"size asked for":    {dir, config.Config{BatchSize: 1000}},
		"plan asked for":    {dir, config.Config{Plan: macro.Hanoi}},
		"history asked for": {dir, config.Config{History: true}},
		"nothing absent":    {kept, config.Config{}},
	} {
		x.MemoryBytes = mem
		if c, why := complete(x.dir, x.Config); c.BatchSize != 1000 || c.Accumulate != 1 || !c.History {
			t.Errorf("%s: batches of %d, history %v: %s", name, c.BatchSize, c.History, why)
		}
	}
	run := func(c config.Config) *Checkpoint {
		t.Helper()
		c.MemoryBytes, c.Threads = mem, 1
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		return cp
	}
	file := t.TempDir() + "/last"
	if begun := run(config.Config{Epochs: 1, CheckpointFile: file}).Config; begun.BatchSize != c.BatchSize || begun.Plan == macro.Hanoi {
		t.Errorf("trained by plan %s with batches of %d", begun.Plan, begun.BatchSize)
	}
	if on, through := outcome(run(config.Config{Epochs: 2, CheckpointFile: file, Resume: true})), outcome(run(config.Config{Epochs: 2})); on != through {
		t.Errorf("resumed %s, in one go %s", on, through)
	}
}

// withinPartitions has each edge of g begin in the partition where it ends.
func withinPartitions(g *storetest.Graph) *storetest.Graph {
	first := []uint64{0}
	for _, n := range g.Sizes {
		first = append(first, first[len(first)-1]+uint64(n))
	}
	for i, e := range g.Edges { // in the order of their partitions
		p := sort.Search(len(g.Sizes), func(p int) bool { return first[p+1] > e[1] })
		g.Edges[i][0] = first[p] + e[0]%uint64(g.Sizes[p])
	}
	slices.SortFunc(g.Edges, func(a, b [2]uint64) int { return cmp.Or(cmp.Compare(a[1], b[1]), cmp.Compare(a[0], b[0])) })
	return g
}
