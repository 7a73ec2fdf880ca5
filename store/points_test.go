package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

// pointNodes are nodes in any order, some twice.
func pointNodes(n, of int) (nodes []store.NodeID) {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	for range n {
		nodes = append(nodes, store.NodeID(r.IntN(of)))
	}
	return nodes
}

// TestFeatures: rows of given nodes, wherever they lie, in the order asked for; every gap gives the same.
func TestFeatures(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 3000, Partitions: 5, Dim: 70}) // 280 bytes a row: several chunks a partition
	dir := storetest.Create(t, g)
	for _, gap := range []int64{0, -1, 1 << 20} {
		s := storetest.Open(t, dir, store.Options{Reads: store.ReadTuning{GapBytes: gap}})
		var buf []byte
		for _, n := range []int{1, 7, 900, 0} {
			nodes := pointNodes(n, g.Nodes())
			got, err := s.Features(t.Context(), "x", nodes, buf)
			if err != nil {
				t.Fatal(err)
			}
			x, err := blocks.View[float32](got)
			if err != nil || len(x) != n*g.Dim {
				t.Fatalf("%d values of %d rows: %v", len(x), n, err)
			}
			if again, err := s.Features(t.Context(), "x", nodes, got[:0:len(got)]); err != nil || n > 0 && &again[0] != &got[0] {
				t.Errorf("gap %d, %d rows: a buffer that is just enough is not used (%v)", gap, n, err)
			}
			for i, v := range nodes {
				if !slices.Equal(x[i*g.Dim:][:g.Dim], g.Features[int(v)*g.Dim:][:g.Dim]) {
					t.Errorf("gap %d: row %d, node %d, is another's", gap, i, v)
				}
			}
			buf = got
		}
		split, err := s.Features(t.Context(), "split", []store.NodeID{2999, 0}, nil)
		if err != nil || !slices.Equal(split, []byte{g.Split[2999], g.Split[0]}) {
			t.Errorf("splits %v: %v", split, err)
		}
	}
	s := storetest.Open(t, dir, store.Options{})
	for name, fails := range map[string]func(ctx context.Context) error{
		"a node beyond": func(ctx context.Context) error {
			_, err := s.Features(ctx, "x", []store.NodeID{1, 3000}, nil)
			return err
		},
		"no column":       func(ctx context.Context) error { _, err := s.Features(ctx, "y", []store.NodeID{1}, nil); return err },
		"external beyond": func(ctx context.Context) error { return s.ExternalInts(ctx, []store.NodeID{3000}, make([]uint64, 1)) },
		"neighbours beyond": func(ctx context.Context) error {
			_, err := s.Neighbors(ctx, []store.NodeID{3000}, store.NeighborOptions{})
			return err
		},
	} {
		if err := fails(t.Context()); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: error %v, expected ErrNotFound", name, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Features(ended, "x", []store.NodeID{1}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: error %v", err)
	}
}

// TestFeaturesDamaged: damage is told, not handed out.
func TestFeaturesDamaged(t *testing.T) {
	g := storetest.Random(storetest.Options{})
	dir := storetest.Create(t, g)
	s := storetest.Open(t, dir, store.Options{})
	c, err := s.Manifest().Column("x")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "data", c.Files[0])
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[blocks.HeaderBytes] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	every := make([]store.NodeID, g.Nodes()) // more reads than are done one after another
	for i := range every {
		every[i] = store.NodeID(i)
	}
	for name, nodes := range map[string][]store.NodeID{"a damaged row": {0}, "all rows, the first damaged": every} {
		s := storetest.Open(t, dir, store.Options{Reads: store.ReadTuning{GapBytes: -1}})
		if _, err := s.Features(t.Context(), "x", nodes, nil); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: error %v, expected ErrCorrupt", name, err)
		}
	}
}

// TestExternalOf: external ids of given nodes, of every kind.
func TestExternalOf(t *testing.T) {
	for _, kind := range []store.IDKind{store.IDsDense, store.IDsIntegers, store.IDsStrings} {
		g := storetest.Random(storetest.Options{IDs: kind})
		s := storetest.Open(t, storetest.Create(t, g), store.Options{})
		nodes := pointNodes(50, g.Nodes())
		ints := make([]uint64, len(nodes))
		texts, err := s.ExternalStrings(t.Context(), nodes)
		wrong := s.ExternalInts(t.Context(), nodes, ints)
		if kind != store.IDsStrings {
			err, wrong = wrong, err
			for _, x := range ints {
				texts = append(texts, fmt.Sprint(x))
			}
		}
		if err != nil || !errors.Is(wrong, store.ErrInvalid) {
			t.Fatalf("%s: errors %v, and of the other kind %v", kind, err, wrong)
		}
		for i, v := range nodes {
			if texts[i] != g.External[v] {
				t.Errorf("%s: node %d is %q, expected %q", kind, v, texts[i], g.External[v])
			}
		}
	}
}

// TestNeighbors: both directions and undirected, with relations, in any order and twice, whatever is read at a time.
func TestNeighbors(t *testing.T) {
	for _, c := range []struct {
		name            string
		undirected, out bool
		relations       int
	}{{"in", false, false, 1}, {"out", false, true, 1}, {"in of 3 relations", false, false, 3}, {"out of 3 relations", false, true, 3}, {"undirected", true, false, 1}, {"undirected out", true, true, 1}} {
		g := storetest.Random(storetest.Options{Partitions: 6, Edges: 2000, Relations: c.relations, Undirected: c.undirected})
		s := storetest.Open(t, storetest.Create(t, g), store.Options{})
		all := make([][][2]uint64, g.Nodes()) // neighbour, relation
		for i, e := range g.Edges {
			r := uint64(0)
			if g.Relations != nil {
				r = uint64(g.Relations[i])
			}
			if c.undirected || !c.out {
				all[e[1]] = append(all[e[1]], [2]uint64{e[0], r})
			}
			if c.out && !c.undirected || c.undirected && e[0] != e[1] {
				all[e[0]] = append(all[e[0]], [2]uint64{e[1], r})
			}
		}
		for _, memory := range []int64{0, 1} {
			nodes := pointNodes(70, g.Nodes())
			got, err := s.Neighbors(t.Context(), nodes, store.NeighborOptions{Out: c.out, Relations: true, MemoryBytes: memory})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Indptr) != len(nodes)+1 || (got.Relations != nil) != (c.relations > 1) {
				t.Fatalf("%s: %d ends for %d nodes, relations %v", c.name, len(got.Indptr), len(nodes), got.Relations != nil)
			}
			for i, v := range nodes {
				var of [][2]uint64
				for k := got.Indptr[i]; k < got.Indptr[i+1]; k++ {
					r := uint64(0)
					if got.Relations != nil {
						r = uint64(got.Relations[k])
					}
					of = append(of, [2]uint64{uint64(got.Nodes[k]), r})
				}
				want := slices.Clone(all[v])
				slices.SortStableFunc(want, func(a, b [2]uint64) int { return int(a[0]) - int(b[0]) })
				if !reflect.DeepEqual(of, want) {
					t.Errorf("%s: neighbours of %d are %v, expected %v", c.name, v, of, want)
				}
			}
		}
	}
}

// TestFewStrings: ids of few nodes of large partitions, which are read one by one, are those that reading whole partitions gives.
func TestFewStrings(t *testing.T) {
	g := storetest.Random(storetest.Options{Nodes: 40_000, Edges: 10, Partitions: 2, Dim: 1, IDs: store.IDsStrings})
	s := storetest.Open(t, storetest.Create(t, g), store.Options{})
	for _, n := range []int{1, 2, 5, 2000} {
		nodes := append(pointNodes(n, g.Nodes()), store.NodeID(g.Nodes()-1), 0)
		got, err := s.ExternalStrings(t.Context(), nodes)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range nodes {
			if got[i] != g.External[v] {
				t.Errorf("node %d of %d asked is %q, expected %q", v, n, got[i], g.External[v])
			}
		}
	}
	// Damage of where a text lies, and of the text itself.
	file := filepath.Join(s.Dir(), "data", s.Manifest().IDs.External[0])
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]int{"where it lies": blocks.HeaderBytes, "the text": blocks.HeaderBytes + 8*int(s.Manifest().Partitions[0].Nodes+1)} {
		b := slices.Clone(whole)
		b[at] ^= 1
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ExternalStrings(t.Context(), []store.NodeID{0}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("damage of %s: %v", name, err)
		}
	}
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if one, err := s.External(t.Context(), 39_999); err != nil || one != g.External[39_999] {
		t.Errorf("node 39999 is %q, %v, expected %q", one, err, g.External[39_999])
	}
}

// TestLookupTexts: ids of any kind are found as people write them, and nothing else is.
func TestLookupTexts(t *testing.T) {
	for _, kind := range []store.IDKind{store.IDsDense, store.IDsIntegers, store.IDsStrings} {
		g := storetest.Random(storetest.Options{IDs: kind})
		s := storetest.Open(t, storetest.Create(t, g), store.Options{})
		names := append(slices.Clone(g.External), "nobody", "", "-1", " 1", "1 ", "+1", "0"+g.External[3], "99999999999999999999999")
		ids := make([]store.NodeID, len(names))
		if err := s.LookupTexts(t.Context(), names, ids); err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			if want := store.NodeID(i); i < len(g.External) && id != want || i >= len(g.External) && id != store.NoNode {
				t.Errorf("%s: %q is node %d", kind, names[i], id)
			}
		}
	}
}
