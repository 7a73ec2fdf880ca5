package ingest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/storetest"
)

// TestEdgesTaken deletes edges and replaces them, for each kind of ids and rule, and compares with the lines that a graph without them has.
func TestEdgesTaken(t *testing.T) {
	for _, c := range []struct {
		name string
		ids  store.IDKind
		o    ingest.Options
	}{
		{"dense", store.IDsDense, ingest.Options{Partitions: 4}},
		{"integers", store.IDsIntegers, ingest.Options{Partitions: 1}},
		{"strings", store.IDsStrings, ingest.Options{Partitions: 7}},
		{"undirected", store.IDsStrings, ingest.Options{Undirected: true, SelfLoops: ingest.SelfLoopsDrop, Partitions: 3}},
		{"no duplicates", store.IDsDense, ingest.Options{Dedup: ingest.DedupRelation, Partitions: 40}},
		{"one a pair", store.IDsIntegers, ingest.Options{Dedup: ingest.DedupPair, Undirected: true, Partitions: 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := func(k int) string { return fmt.Sprint(k) }
			if c.ids == store.IDsIntegers {
				name = func(k int) string { return fmt.Sprint(7 + 1_000_003*(k*7919%1000)) }
			} else if c.ids == store.IDsStrings {
				name = func(k int) string { return fmt.Sprintf("n%d é", k*7919%1000) }
			}
			c.o.MemoryBytes = 256 << 20
			ctx, dir := context.Background(), filepath.Join(t.TempDir(), "s")
			text := textEdges(1, 0, 60, 2000, name) // with parallel edges and loops
			if _, err := ingest.Run(ctx, dir, openText(t, text, c.ids), c.o); err != nil {
				t.Fatal(err)
			}
			before := storetest.Lines(t, openStore(t, dir, 1), nil)

			// Some of the rows, with another weight and the ends the other way where that is the same edge.
			var rows []string
			keys := map[string]bool{} // what lines of their edges begin with
			for i, row := range strings.Split(strings.TrimSpace(body(text)), "\n") {
				f := strings.Split(row, "\t")
				a, z := f[0], f[1]
				if c.o.Undirected && a > z {
					a, z = z, a
				}
				key := fmt.Sprintf("edge %s %s relation=%s ", a, z, f[2])
				stored := slices.ContainsFunc(before, func(l string) bool { return strings.HasPrefix(l, key) })
				if i%3 > 0 || keys[key] || !stored {
					continue
				}
				keys[key] = true
				if c.o.Undirected && i%2 > 0 {
					f[0], f[1] = f[1], f[0]
				}
				rows = append(rows, strings.Join([]string{f[0], f[1], f[2], "9"}, "\t"))
			}
			var left, changed []string
			for _, l := range before {
				end := strings.LastIndex(l, "weight=")
				if end < 0 || !keys[l[:end]] {
					left = append(left, l)
				}
			}
			changed = slices.Clone(left)
			for key := range keys {
				changed = append(changed, key+"weight=9")
			}
			slices.Sort(changed)
			gone := uint64(len(before) - len(left))

			header, unknown := "src\tdst\trelation\tweight\n", ""
			if c.ids != store.IDsDense {
				unknown = name(999) + "\t" + name(1) + "\tr0\t1\n"
			}
			unknown += name(1) + "\t" + name(2) + "\tnone\t1\n"
			r, err := grow.Append(ctx, dir, openText(t, header+strings.Join(rows, "\n")+"\n", c.ids), grow.Options{MemoryBytes: 256 << 20, KeepVersions: 5, Change: grow.Update})
			if err != nil {
				t.Fatal(err)
			}
			if r.EdgesGone != gone || r.EdgesAdded != 0 {
				t.Errorf("%d edges replaced and %d added, expected %d and 0", r.EdgesGone, r.EdgesAdded, gone)
			}
			whole(t, dir, 0)
			if got := storetest.Lines(t, openStore(t, dir, 0), nil); !slices.Equal(got, changed) {
				t.Fatalf("updated: %s", difference(got, changed))
			}
			r, err = grow.Append(ctx, dir, openText(t, header+strings.Join(rows, "\n")+"\n"+unknown, c.ids), grow.Options{MemoryBytes: 256 << 20, KeepVersions: 5, Change: grow.Delete})
			if err != nil {
				t.Fatal(err)
			}
			if want := uint64(strings.Count(unknown, "\n")); r.EdgesGone != uint64(len(keys)) || r.EdgesMissing != want || r.NewNodes != 0 || len(r.NewRelations) != 0 || r.EdgesRead != uint64(len(rows))+want {
				t.Errorf("%+v, expected %d edges deleted of %d and %d missing", r, len(keys), len(rows), want)
			}
			whole(t, dir, 0)
			s := openStore(t, dir, 0)
			if got := storetest.Lines(t, s, nil); !slices.Equal(got, left) {
				t.Fatalf("deleted: %s", difference(got, left))
			}
			m := s.Manifest()
			for k, rel := range m.Schema.Relations {
				n := uint64(0)
				for _, l := range left {
					if strings.Contains(l, " relation="+rel.Name+" ") {
						n++
					}
				}
				if rel.Count != n {
					t.Errorf("relation %d has %d edges, expected %d", k, rel.Count, n)
				}
			}
			// Deleted again, none is there; nothing is changed.
			if _, err = grow.Append(ctx, dir, openText(t, header+strings.Join(rows, "\n")+"\n", c.ids), grow.Options{Change: grow.Delete}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("none of its %d edges", len(rows))) {
				t.Errorf("deleted again: %v", err)
			}
			// Each version reads as it did.
			if now := storetest.Lines(t, openStore(t, dir, 1), nil); !slices.Equal(now, before) {
				t.Fatalf("version 1 changed: %s", difference(now, before))
			}
		})
	}
}
