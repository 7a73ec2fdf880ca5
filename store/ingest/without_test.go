package ingest_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/ingesttest"
	"github.com/gstore/gstore/store/ingest/repartition"
	"github.com/gstore/gstore/store/ingest/source"
	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/store/verify"
)

// place is where an edge stands in its list.
var place = regexp.MustCompile(` [0-9]{6}:`)

func oneWord(id string) string { return strings.ReplaceAll(id, " ", "_") }

// linesWithout are a version's lines but those of some nodes and their edges, without what was computed from the graph.
func linesWithout(t *testing.T, s *store.Store, gone map[string]bool) []string {
	t.Helper()
	var out []string
	derived := regexp.MustCompile(" derived( [-0-9.e+]+)*")
	for _, line := range storetest.Lines(t, s, oneWord) {
		line = derived.ReplaceAllString(place.ReplaceAllString(line, ""), "")
		words := strings.Fields(line)
		ends := words[1:2] // of a node
		if words[0] == "edge" {
			ends = words[1:3]
		} else if words[0] != "node" {
			ends = []string{words[1], words[3]}
		}
		if !slices.ContainsFunc(ends, func(id string) bool { return gone[id] }) {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

// without takes nodes by internal ids out of a store and returns its next version, which is what the others are.
func without(t *testing.T, dir string, nodes ...store.NodeID) *store.Store {
	t.Helper()
	s := openStore(t, dir, 0)
	gone, set := map[string]bool{}, roaring64.New()
	ids := map[store.NodeID]string{}
	for p, info := range s.Manifest().Partitions {
		x, _, err := s.ReadExternal(t.Context(), store.PartitionID(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Len() {
			ids[info.First+store.NodeID(i)] = string(x.Append(nil, i))
		}
	}
	for _, v := range nodes {
		gone[oneWord(ids[v])] = true
		set.Add(uint64(v))
	}
	want := linesWithout(t, s, gone)
	if _, err := repartition.Without(t.Context(), s, set, 0, ingest.Options{}); err != nil {
		t.Fatal(err)
	}
	after := openStore(t, dir, 0)
	if m := after.Manifest(); m.Nodes != s.Manifest().Nodes-uint64(len(nodes)) || len(m.Partitions) != len(s.Manifest().Partitions) {
		t.Fatalf("%d nodes in %d partitions", m.Nodes, len(m.Partitions))
	}
	if got := linesWithout(t, after, nil); !slices.Equal(got, want) {
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				t.Fatalf("%d and %d lines; first difference:\n%s\n%s", len(got), len(want), got[i], want[i])
			}
		}
		t.Fatalf("%d lines, expected %d", len(got), len(want))
	}
	for id, name := range ids {
		got, err := after.Lookup(t.Context(), name)
		if gone[oneWord(name)] && !errors.Is(err, store.ErrNotFound) || !gone[oneWord(name)] && (err != nil || uint64(got) >= after.Manifest().Nodes) {
			t.Fatalf("node %s, which was %d, went %v: %d, %v", name, id, gone[oneWord(name)], got, err)
		}
	}
	if r, err := verify.Store(t.Context(), dir, verify.Options{}); err != nil || len(r.Damage) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	return after
}

// TestWithout: nodes that are taken out leave nothing behind in the next version, whatever the ids, and the others are as they were.
func TestWithout(t *testing.T) {
	for k, kind := range []store.IDKind{store.IDsDense, store.IDsIntegers, store.IDsStrings} {
		for i, undirected := range []bool{false, true} {
			if (k+i)%race.Every(2) != 0 {
				continue
			}
			t.Run(fmt.Sprint(kind, undirected), func(t *testing.T) {
				dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 300, Relations: 3, IDs: kind, Undirected: undirected}))
				markDerived(t, dir)
				m := openStore(t, dir, 0).Manifest()
				whole := m.Partitions[1]
				nodes := []store.NodeID{0, 7, 8, store.NodeID(m.Nodes - 1)}
				for v := whole.First; v < whole.First+store.NodeID(whole.Nodes); v++ { // a partition becomes empty
					if !slices.Contains(nodes, v) {
						nodes = append(nodes, v)
					}
				}
				s := without(t, dir, nodes...)
				if s.Manifest().Partitions[1].Nodes != 0 || slices.ContainsFunc(s.Manifest().Columns, func(c store.ColumnInfo) bool { return c.Derived != "" }) {
					t.Errorf("partitions %+v, columns %+v", s.Manifest().Partitions, s.Manifest().Columns)
				}
				without(t, dir, 3) // and again
			})
		}
	}
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 50}))
	s := openStore(t, dir, 0)
	all := roaring64.New()
	all.AddRange(0, 50)
	for name, gone := range map[string]*roaring64.Bitmap{"none": roaring64.New(), "beyond": roaring64.BitmapOf(50), "all": all} {
		if _, err := repartition.Without(t.Context(), s, gone, 0, ingest.Options{}); !errors.Is(err, source.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWithoutTypes: nodes of several types go, and those that learn vectors keep their numbers.
func TestWithoutTypes(t *testing.T) {
	graph, _ := storetest.Typed(t)
	dir := ingesttest.Store(t, graph, ingest.Options{Partitions: 4})
	m := openStore(t, dir, 0).Manifest()
	authors, ok := m.Category("author" + store.NodeSuffix)
	if !ok {
		t.Fatal("authors have no numbers")
	}
	var nodes []store.NodeID
	gone := map[int]uint64{}
	for _, v := range []store.NodeID{0, 100, 101, 200, 300, 400} {
		p, err := m.Partition(v)
		if err != nil {
			t.Fatal(err)
		}
		kind, known := m.TypeOf(p, uint64(v-m.Partitions[p].First))
		if !known {
			t.Fatalf("node %d has no type", v)
		}
		nodes = append(nodes, v)
		gone[kind]++
	}
	s := without(t, dir, nodes...)
	for k, kind := range s.Manifest().Schema.NodeTypes {
		if want := m.Schema.NodeTypes[k].Count - gone[k]; kind.Count != want {
			t.Errorf("%d nodes of type %s, expected %d", kind.Count, kind.Name, want)
		}
	}
	if len(gone) < 2 {
		t.Fatalf("all that went were of one type: %v", gone)
	}
	left, _ := s.Manifest().Category("author" + store.NodeSuffix)
	if left.Nodes != authors.Nodes {
		t.Errorf("authors have numbers up to %d, expected %d as before", left.Nodes, authors.Nodes)
	}
}
