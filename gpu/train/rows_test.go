package train

import (
	"errors"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// TestRowsAreMemorys: plan rows has the losses of plan memory to the bit, for any model, ids, threads and budget, and reads what it
// planned.
func TestRowsAreMemorys(t *testing.T) {
	graphs := map[store.IDKind]string{}
	for _, kind := range []store.IDKind{store.IDsDense, store.IDsStrings} {
		graphs[kind] = storetest.Create(t, storetest.Random(storetest.Options{Nodes: 4000, Edges: 20000, Partitions: 8, Dim: 512, IDs: kind}))
	}
	hop(t, graphs[store.IDsStrings])
	typed := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 4000, Edges: 20000, Partitions: 8, Dim: 512, Relations: 3}))
	for name, c := range map[string]Config{
		"sage":            {},
		"sage, 3 layers":  {Fanouts: []int{4, 3, 2}, Threads: 3},
		"gcn":             {Model: "gcn"}, // reads degrees
		"gat":             {Model: "gat", Heads: 2, IOEngine: "pread"},
		"precomputed hop": {PrecomputedHop: true, Features: []string{"x", "x.hop1"}},
		"rsage":           {Model: "rsage"}, // edges both ways, with their relations
		"of relations":    {Model: "rsage", Fanouts: []int{1, 1}, RelationFanouts: "r1=1,2", Threads: 2},
		"rgcn, packed":    {Model: "rgcn", RowReads: RowsPacked, Threads: 2},
		"few training":    {BatchSize: 1000, Epochs: 2},
		"packed":          {RowReads: RowsPacked, Threads: 2},
		"packed hop":      {RowReads: RowsPacked, PrecomputedHop: true, Features: []string{"x", "x.hop1"}},
	} {
		t.Run(name, func(t *testing.T) {
			kind := store.IDsDense
			if c.PrecomputedHop {
				kind = store.IDsStrings
			}
			dir := graphs[kind]
			if c.relational() {
				dir = typed
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
			losses := func(c Config) (out []Epoch, cp *Checkpoint) {
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
				c.RowReads = RowsCached
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
				if all := int64(4000 * 512 * 4 * len(cp.Config.Features)); memory > 0 && c.BatchSize < 1000 && cp.Summary.FeatureResidentBytes >= all {
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
func leastRows(t *testing.T, dir string, c Config) int64 {
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
