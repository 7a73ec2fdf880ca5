package train

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestRowsAreMemorys: plan rows has the losses of plan memory to the bit, for any model, ids, threads and budget, on an odd number of
// nodes, and reads what it planned.
func TestRowsAreMemorys(t *testing.T) {
	graphs := map[store.IDKind]string{}
	for _, kind := range []store.IDKind{store.IDsDense, store.IDsStrings} {
		graphs[kind] = storetest.Create(t, storetest.Random(storetest.Options{Nodes: 4001, Edges: 20000, Partitions: 8, Dim: 512, IDs: kind}))
	}
	hop(t, graphs[store.IDsStrings])
	typed := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 4001, Edges: 20000, Partitions: 8, Dim: 512, Relations: 3}))
	g := storetest.Random(storetest.Options{Nodes: 4001, Edges: 20000, Partitions: 8, Dim: 512, IDs: store.IDsIntegers})
	for i := range g.Edges {
		g.Weights = append(g.Weights, float32(math.Exp(float64(i*i%7)-3)))
	}
	weighed := storetest.Create(t, g)
	runs := map[string]config.Config{
		"weighed":         {EdgeWeights: true, Threads: 2},
		"weighed gcn":     {Model: "gcn", EdgeWeights: true}, // reads sums of weights
		"drawn by weight": {Sampler: mini.Weighted, Fanouts: []int{3, 2}},
		"weighed, packed": {EdgeWeights: true, RowReads: config.RowsPacked},
		"sage":            {},
		"sage, 3 layers":  {Fanouts: []int{4, 3, 2}, Threads: 3},
		"gcn":             {Model: "gcn"}, // reads degrees
		"gat":             {Model: "gat", Heads: 2, IOEngine: "pread"},
		"precomputed hop": {PrecomputedHop: true, Features: []string{"x", "x.hop1"}},
		"rsage":           {Model: "rsage"}, // edges both ways, with their relations
		"of relations":    {Model: "rsage", Fanouts: []int{1, 1}, RelationFanouts: "r1=1,2", Threads: 2},
		"rgcn, packed":    {Model: "rgcn", RowReads: config.RowsPacked, Threads: 2},
		"few training":    {BatchSize: 1000, Epochs: 2},
		"packed":          {RowReads: config.RowsPacked, Threads: 2},
		"packed hop":      {RowReads: config.RowsPacked, PrecomputedHop: true, Features: []string{"x", "x.hop1"}},
	}
	for k, name := range slices.Sorted(maps.Keys(runs)) {
		if k%race.Sample(2, 5) != 0 {
			continue
		}
		c := runs[name]
		t.Run(name, func(t *testing.T) {
			kind := store.IDsDense
			if c.PrecomputedHop {
				kind = store.IDsStrings
			}
			dir := graphs[kind]
			if c.Relational() {
				dir = typed
			}
			if c.EdgeWeights || c.Sampler == mini.Weighted {
				dir = weighed
			}
			set := func(to *int, v int) {
				if *to == 0 {
					*to = v
				}
			}
			set(&c.Hidden, 8)
			set(&c.BatchSize, 25)
			set(&c.Epochs, 3)
			set(&c.Threads, 1)
			if c.Fanouts == nil {
				c.Fanouts = []int{3, 3}
			}
			c.Seed, c.Split = 5, "split"
			losses := func(c config.Config) (out []Epoch, cp *Checkpoint) {
				cp, err := trainNode(t.Context(), t, dir, c, Hooks{Epoch: func(e Epoch) { out = append(out, e) }})
				if err != nil {
					t.Fatal(err)
				}
				return out, cp
			}
			reads := c.RowReads
			c.Plan, c.RowReads = macro.Memory, ""
			want, _ := losses(c)
			c.Plan, c.RowReads = macro.Rows, reads
			if reads == "" {
				c.RowReads = config.RowsCached
			}
			for _, memory := range []int64{0, leastRows(t, dir, c)} {
				c.MemoryBytes = memory
				got, cp := losses(c)
				for e := range want {
					if g, w := got[e], want[e]; g.Loss != w.Loss || g.ValidAccuracy != w.ValidAccuracy || g.SampledEdges != w.SampledEdges || g.Batches != w.Batches {
						t.Errorf("memory %d, epoch %d: loss %v, valid %v, %d edges in %d batches; in memory %v, %v, %d, %d", memory, e+1, g.Loss, g.ValidAccuracy, g.SampledEdges, g.Batches, w.Loss, w.ValidAccuracy, w.SampledEdges, w.Batches)
					}
					if got[e].BytesRead != got[e].PlannedBytes || e == 0 && got[e].BytesRead <= 0 {
						t.Errorf("memory %d, epoch %d: %d bytes read, %d planned", memory, e+1, got[e].BytesRead, got[e].PlannedBytes)
					}
				}
				if all := int64(4001 * 512 * 4 * len(cp.Config.Features)); memory > 0 && c.BatchSize < 1000 && cp.Summary.FeatureResidentBytes >= all {
					t.Errorf("%d bytes of features are held within %d bytes: all of them", all, memory)
				}
				if cp.Config.Plan != macro.Rows || cp.Summary.Plan != macro.Rows {
					t.Errorf("the checkpoint says plan %q, the summary %q", cp.Config.Plan, cp.Summary.Plan)
				}
			}
		})
	}
}

// hop adds the column x.hop1 to a store.
func hop(t *testing.T, dir string) {
	t.Helper()
	if _, err := precompute.Hop(t.Context(), dir, hostDevice(t), precompute.Options{}); err != nil {
		t.Fatal(err)
	}
}

// leastRows is the smallest budget of a run by plan rows, in which its cache does not hold all rows.
func leastRows(t *testing.T, dir string, c config.Config) int64 {
	t.Helper()
	c.MemoryBytes = 1 << 20
	_, err := trainNode(t.Context(), t, dir, c, Hooks{})
	if !errors.Is(err, store.ErrBudget) {
		t.Fatalf("%v, expected that a budget of 1 MiB is refused", err)
	}
	_, text, _ := strings.Cut(err.Error(), "the smallest that works is ")
	text, _, _ = strings.Cut(text, "MiB")
	n := int64(0)
	for _, d := range text {
		n = 10*n + int64(d-'0')
	}
	return n << 20
}

// TestEvaluatedOnce: a bounded run ends with one evaluation, its last validation, which holds what training held: it reads what an
// evaluation within the whole budget does, but for what the two programs hold beside it, less than a validation before, and finds the same.
func TestEvaluatedOnce(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 4000, Edges: 20000, Partitions: 32, Dim: 512}))
	c := config.Config{Plan: macro.Rows, RowReads: config.RowsPacked, Hidden: 8, BatchSize: 25, Fanouts: []int{3, 3}, Epochs: 1, Seed: 5, Split: "split", Threads: 1}
	c.MemoryBytes = leastRows(t, dir, c)
	run := func(c config.Config) *Checkpoint {
		counted := map[string]float64{}
		cp, err := trainNode(t.Context(), t, dir, c, Hooks{Confusion: func(split string, m *eval.Confusion) {
			n := int64(0)
			for _, x := range m.Counts {
				n += x
			}
			counted[split] = float64(m.Correct()) / float64(n)
		}})
		if err != nil {
			t.Fatal(err)
		}
		if s := &cp.Summary; counted["valid"] != s.ValidAccuracy || counted["test"] != s.TestAccuracy {
			t.Errorf("accuracies %v and %v, by the confusion matrices %v", s.ValidAccuracy, s.TestAccuracy, counted)
		}
		return cp
	}
	one := run(c)
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	e, err := one.Evaluate(t.Context(), st, hostDevice(t), EvaluateOptions{MemoryBytes: c.MemoryBytes, Splits: validated})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	s := &one.Summary
	if ratio := float64(s.EvalBytesRead) / float64(e.BytesRead()); ratio < .95 || ratio > 1.05 || s.ValidAccuracy != e.Metrics[0].Accuracy || s.TestAccuracy != e.Metrics[1].Accuracy {
		t.Errorf("the run's evaluation reads %d bytes and finds %v and %v, one within the budget %d bytes, %+v", s.EvalBytesRead, s.ValidAccuracy, s.TestAccuracy, e.BytesRead(), e.Metrics)
	}
	c.Epochs = 2
	if two := run(c).Summary.EvalBytesRead; two < 3*s.EvalBytesRead {
		t.Errorf("validations of two epochs read %d bytes, the last %d: expected more than twice that before it", two, s.EvalBytesRead)
	}
}
