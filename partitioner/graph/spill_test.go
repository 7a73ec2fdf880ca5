package graph

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A spilled graph has the lists of an array, whatever the memory for building and reading it.
func TestSpilledEqualsCSR(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(rt, "nodes")
		node := rapid.Uint32Range(0, uint32(n-1))
		m := rapid.IntRange(0, 200).Draw(rt, "edges")
		src := rapid.SliceOfN(node, m, m).Draw(rt, "src")
		dst := rapid.SliceOfN(node, m, m).Draw(rt, "dst")
		edges := func(yield func(src, dst []uint32) error) error {
			for i := 0; i < m; i += 7 {
				if err := yield(src[i:min(i+7, m)], dst[i:min(i+7, m)]); err != nil {
					return err
				}
			}
			return nil
		}
		want, err := BuildCSR(uint64(n), edges, false)
		if err != nil {
			rt.Fatal(err)
		}
		defer want.Close() //nolint:errcheck // test
		g := &Spilled{buffer: rapid.IntRange(1, 50).Draw(rt, "buffer"), ranges: int64(rapid.IntRange(1, 2000).Draw(rt, "ranges"))}
		g.degree = g.mem.Uint32s(n)
		defer g.Close() //nolint:errcheck // test
		// Only edges of the nodes asked for and of those in groups with them: none but those that are needed may be.
		group, readings := uint32(rapid.IntRange(1, n).Draw(rt, "group")), map[uint32]int{}
		var near EdgesOf = func(first, last uint32) (Edges, uint32) {
			through := min(last/group*group+group, uint32(n)) - 1
			asked := func(u uint32) bool { return u >= first && u <= through }
			return func(yield func(src, dst []uint32) error) error {
				for k := first / group; k <= last/group; k++ {
					readings[k]++
				}
				for i, u := range src {
					if asked(u) || asked(dst[i]) {
						if err := yield(src[i:i+1], dst[i:i+1]); err != nil {
							return err
						}
					}
				}
				return nil
			}, through
		}
		if rapid.Bool().Draw(rt, "all") {
			near = nil
		}
		memory := int64(rapid.IntRange(1, 2000).Draw(rt, "memory"))
		if err := g.build(context.Background(), dir, edges, near, memory); err != nil {
			rt.Fatal(err)
		}
		for k, times := range readings {
			if times > 1 && memory >= 4*int64(g.entries+uint64(n)) {
				rt.Fatalf("edges of nodes %d … are read %d times for lists that fit together", k*group, times)
			}
		}
		if g.Nodes() != want.Nodes() || g.Entries() != want.Entries() {
			rt.Fatalf("%d nodes, %d entries", g.Nodes(), g.Entries())
		}
		for range 2 {
			next := uint32(0)
			err := EachNode(context.Background(), g, func(v uint32, neighbours []uint32) {
				if v != next || !slices.Equal(neighbours, want.Neighbours(v)) {
					rt.Fatalf("node %d (expected %d): %v, expected %v", v, next, neighbours, want.Neighbours(v))
				}
				next++
			})
			if err != nil || int(next) != n {
				rt.Fatalf("%d of %d nodes: %v", next, n, err)
			}
		}
	})
}

func TestSpillErrors(t *testing.T) {
	ctx := context.Background()
	edge := func(u, v uint32) Edges {
		return func(yield func(src, dst []uint32) error) error { return yield([]uint32{u}, []uint32{v}) }
	}
	if _, err := Spill(ctx, t.TempDir(), 10, edge(0, 1), nil, 1000); !errors.Is(err, ErrBudget) {
		t.Errorf("small budget: %v", err)
	}
	if _, err := Spill(ctx, t.TempDir(), 10, edge(0, 10), nil, 1<<30); !errors.Is(err, ErrOption) {
		t.Errorf("node out of range: %v", err)
	}
	if _, err := Spill(ctx, t.TempDir()+"/none", 10, edge(0, 1), nil, 1<<30); err == nil {
		t.Error("no directory: no error")
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Spill(cancelled, t.TempDir(), 10, edge(0, 1), nil, 1<<30); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	g, err := Spill(ctx, t.TempDir(), 10, edge(0, 1), nil, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close() //nolint:errcheck // test
	if err := g.file.Truncate(4); err != nil {
		t.Fatal(err)
	}
	if err := EachNode(ctx, g, func(uint32, []uint32) {}); err == nil {
		t.Error("a file cut short: no error")
	}
}
