package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/repartition"
	"github.com/gstore/gstore/store/ingest/source"
	"github.com/gstore/gstore/store/storetest"
)

// content is everything a version holds, by external ids: independent of partitions.
func content(t *testing.T, s *store.Store) []string {
	t.Helper()
	ctx := context.Background()
	m := s.Manifest()
	name := make([]string, m.Nodes)
	var all []string
	for p, info := range m.Partitions {
		ids, _, err := s.ReadExternal(ctx, store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ids.Len() {
			name[uint64(info.First)+uint64(i)] = string(ids.Append(nil, i))
		}
	}
	for id, x := range name {
		if got, err := s.Lookup(ctx, x); err != nil || got != store.NodeID(id) {
			t.Fatalf("Lookup(%q) = %d, %v; expected %d", x, got, err, id)
		}
	}
	for p, info := range m.Partitions {
		stripe, _, err := s.ReadStripe(ctx, store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		columns := map[string][]byte{}
		for _, c := range m.Columns {
			if columns[c.Name], err = s.ReadColumn(ctx, c.Name, store.PartitionID(p), nil); err != nil {
				t.Fatal(err)
			}
		}
		cell := func(i int, edges bool) string {
			var b bytes.Buffer
			for _, c := range m.Columns {
				if c.Role.OnEdges() == edges {
					value := columns[c.Name][i*c.RowBytes() : (i+1)*c.RowBytes()]
					if c.Role == store.RoleRelation { // one byte is as good as two
						value = bytes.TrimRight(value, "\x00")
					}
					fmt.Fprintf(&b, " %s/%s=%x", c.Name, c.Role, value)
				}
			}
			return b.String()
		}
		for i := range int(info.Nodes) {
			all = append(all, "node "+name[uint64(info.First)+uint64(i)]+cell(i, false))
		}
		e := 0
		for q, from := range m.Partitions {
			bucket, err := stripe.Bucket(q)
			if err != nil {
				t.Fatal(err)
			}
			for d, u := range bucket.All() {
				all = append(all, "edge "+name[uint64(from.First)+uint64(u)]+" "+name[uint64(info.First)+uint64(d)]+cell(e, true))
				e++
			}
		}
	}
	for _, l := range m.EdgeLists {
		r, err := s.EdgeList(ctx, l.Name)
		if err != nil {
			t.Fatal(err)
		}
		for r.Next() {
			e := r.Edge()
			all = append(all, fmt.Sprint("list ", l.Name, name[e.Src], e.Relation, name[e.Dst]))
		}
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
	}
	slices.Sort(all)
	return all
}

func TestRepartitionKeepsEverything(t *testing.T) {
	for _, kind := range []store.IDKind{store.IDsDense, store.IDsIntegers, store.IDsStrings} {
		t.Run(string(kind), func(t *testing.T) {
			dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Relations: 3, IDs: kind}))
			markDerived(t, dir)
			before, err := store.Open(dir, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer before.Close() //nolint:errcheck // test
			want := content(t, before)
			part := partitioner.Materialize(must(partitioner.NewRandom(300, 6, 1))).Part()
			for v := range part {
				if v%50 == 0 {
					part[v] = 6
				}
			}
			a, err := partitioner.NewAssignment(part, 7, 6)
			if err != nil {
				t.Fatal(err)
			}
			rep, err := repartition.Run(context.Background(), before, a, ingest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			after, err := store.Open(dir, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer after.Close() //nolint:errcheck // test
			m := after.Manifest()
			if m.Version != 3 || rep.Manifest.Version != 3 || len(m.Partitions) != 7 || m.Partitions[6].Nodes != 6 || !slices.Equal(m.Pinned, []store.PartitionID{6}) {
				t.Errorf("version %d, %d partitions, pinned %v", m.Version, len(m.Partitions), m.Pinned)
			}
			if got := content(t, after); !slices.Equal(got, want) {
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Fatalf("%d and %d items; first difference:\n%s\n%s", len(got), len(want), got[i], want[i])
					}
				}
				t.Fatalf("%d items, expected %d", len(got), len(want))
			}
			if old := before.Manifest(); m.Schema.Classes != old.Schema.Classes || !reflect.DeepEqual(infos(m), infos(old)) {
				t.Errorf("%d classes, columns %+v, expected %d, %+v", m.Schema.Classes, infos(m), old.Schema.Classes, infos(old))
			}
			if _, err := repartition.Run(context.Background(), before, a, ingest.Options{}); !errors.Is(err, source.ErrOptions) {
				t.Errorf("an old version: %v", err)
			}
		})
	}
}

// infos is what a version says of its columns, but for where they lie and in how many bytes relations do.
func infos(m *store.Manifest) []store.ColumnInfo {
	all := slices.Clone(m.Columns)
	for i := range all {
		if all[i].Files = nil; all[i].Role == store.RoleRelation {
			all[i].Elem = blocks.Invalid
		}
	}
	return all
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// TestAssignmentIsFreed: once nodes have their places, nothing holds the partitioner's array, 4 bytes a node that
// the budget of what follows does not count.
func TestAssignmentIsFreed(t *testing.T) {
	const nodes = 8 << 20
	dir := filepath.Join(t.TempDir(), "s")
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC() // the heap of other tests as well
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, after := live(), int64(0)
	src := openText(t, fmt.Sprintf("0\t%d\n", nodes-1), store.IDsDense)
	_, err := ingest.Run(context.Background(), dir, src, ingest.Options{Partitioner: "hdr", Partitions: 8, Progress: func(p ingest.Progress) {
		if p.Phase == "read edges" && after == 0 {
			after = live()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if after == 0 || after-before > 2*nodes {
		t.Errorf("%d bytes more on the heap when edges are read, the assignment takes %d", after-before, 4*nodes)
	}
}
