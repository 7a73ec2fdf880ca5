package train

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/storetest"
)

// TestRowsOfKinds: no mini-batch of a run by plan rows has more rows of a type of nodes than was counted, which is less than there are, and
// losses in the least memory are plan memory's to the bit, by each sampler and with hops of relations.
func TestRowsOfKinds(t *testing.T) {
	dir := storeOfTypes(t, true)
	st := storetest.Open(t, dir, store.Options{})
	for name, c := range map[string]config.Config{
		"vectors": {Model: "rsage", Fanouts: []int{2, 1}}, "rgat": {Model: "rgat", Heads: 2, Fanouts: []int{2, 2}}, "hgt": {Model: "hgt", Heads: 2, Fanouts: []int{2, 2}},
		"hops": {Model: "rsage", PrecomputedHop: true, Fanouts: []int{2, 2}}, "dense": {Model: "rgcn", Sampler: mini.Dense, Fanouts: []int{2, 1}},
		"own fanouts": {Model: "rsage", Fanouts: []int{1, 1}, RelationFanouts: "cites=2,1"}, "summed": {Model: "rsage", Fanouts: []int{2, 2}, Accumulate: 2},
	} {
		c.Hidden, c.BatchSize, c.Epochs, c.Seed, c.Threads = 8, 10, 2, 7, 1
		want, _, _ := lossesRead(t, dir, c)
		c.Plan, c.RowReads, c.MemoryBytes = macro.Rows, config.RowsCached, 1<<30
		d := c
		if err := d.Normalize(); err != nil {
			t.Fatal(err)
		}
		d.FillFeatures(st.Manifest())
		y, err := planning.OpenMemory(t.Context(), st, hostDevice(t).Info(), d)
		if err != nil {
			t.Fatal(err)
		}
		tuning, err := y.RowsTuning(1 << 30)
		if err != nil || tuning.BatchRows == 0 || len(tuning.KindRows) != len(st.Manifest().Schema.NodeTypes) {
			t.Fatalf("%s: %+v, %v", name, tuning, err)
		}
		fewer := 0
		for k, n := range tuning.KindRows {
			if nodes := int(st.Manifest().Schema.NodeTypes[k].Count); n < nodes {
				fewer++
			}
		}
		o := d.MacroOptions(st.Manifest())
		o.MemoryBytes = tuning.LeastBytes
		f, err := planning.ForecastRows(&d, t.Context(), st, o, tuning, 2, 2)
		if err != nil || fewer == 0 || f.KindSlots == nil {
			t.Errorf("%s: %v; batches of %v rows of each type, slots %+v", name, err, tuning.KindRows, f)
		}
		if err := y.Close(); err != nil {
			t.Fatal(err)
		}
		c.MemoryBytes = 1 << 20
		_, err = trainNode(t.Context(), t, dir, c, Hooks{})
		c.MemoryBytes = named(t, err)
		if got, _, _ := lossesRead(t, dir, c); !slices.Equal(got, want) {
			t.Errorf("%s: losses and accuracies %v, in memory %v", name, got, want)
		}
	}
}

// fewOf is a store of 20 users, who have no label, and 20 items, the first of which train: items have features or not.
func fewOf(t *testing.T, train int, features bool) string {
	t.Helper()
	var items, users, has strings.Builder
	users.WriteString("id\n")
	has.WriteString("src,dst\n")
	items.WriteString("id,label,split")
	if features {
		items.WriteString(",x")
	}
	for i := range 20 {
		part := []string{"valid", "test"}[i%2]
		if i < train {
			part = "train"
		}
		fmt.Fprintf(&items, "\n%d,%d,%s", i, i%2, part)
		if features {
			fmt.Fprintf(&items, ",%.1f", float64(i)/4)
		}
		fmt.Fprintf(&users, "%d\n", i)
		fmt.Fprintf(&has, "%d,%d\n%d,%d\n", i, i, i, (i+2)%20)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"nodes/item": items.String(), "nodes/user": users.String(), "edges/user-has-item": has.String()} {
		path := filepath.Join(dir, name+".csv")
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return ingesttest.Store(t, dir, ingest.Options{Partitions: 2, Seed: 1})
}

// TestFewTrain: where fewer nodes train than a batch has seeds, the largest batch has these alone, and the run fits in the least memory
// that it names.
func TestFewTrain(t *testing.T) {
	for _, train := range []int{1, 3} {
		dir := fewOf(t, train, true)
		for _, c := range []config.Config{{Model: "rgat", Heads: 2}, {Model: "hgt", Heads: 2}, {Model: "rgcn", Layers: 1}, {Model: "rsage"}, {Model: "rgcn", Sampler: mini.Dense}} {
			c.Hidden, c.BatchSize, c.Epochs, c.Seed, c.Threads, c.MemoryBytes = 8, 16, 1, 7, 1, 1<<20
			_, err := trainNode(t.Context(), t, dir, c, Hooks{})
			c.MemoryBytes = named(t, err)
			if _, err := trainNode(t.Context(), t, dir, c, Hooks{}); err != nil {
				t.Errorf("%s, %d nodes train, %d bytes: %v", c.Model, train, c.MemoryBytes, err)
			}
		}
	}
}
