package partitioner

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/partitioner/graph"
)

func TestPermutationIsBijective(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 5, 16, 17, 1000, 65537} {
		for seed := range uint64(3) {
			p := graph.NewPermutation(n, seed)
			seen := make([]bool, n)
			for x := range n {
				y := p.At(x)
				if y >= n || seen[y] {
					t.Fatalf("n %d seed %d: image %d of %d is out of range or taken", n, seed, y, x)
				}
				seen[y] = true
			}
		}
	}
}

func TestRandomLooksRandom(t *testing.T) {
	// Consecutive ids, and ids of the same residue, must spread over partitions like fair dice:
	// chi-square over 64 cells has mean 63 and sd 11.2; 130 is six sd away.
	const n, k = 1 << 16, 64
	for _, stride := range []int{1, 2, 3, 64, 256} {
		a, err := NewRandom(n, k, 7)
		if err != nil {
			t.Fatal(err)
		}
		part := Materialize(a).Part()
		var count [k]float64
		draws := 0
		for v := 0; v < n && draws < 4096; v += stride {
			count[part[v]]++
			draws++
		}
		chi, want := 0.0, float64(draws)/k
		for _, c := range count {
			chi += (c - want) * (c - want) / want
		}
		if chi > 130 {
			t.Errorf("stride %d: chi-square %.0f", stride, chi)
		}
	}
}

func TestStructureFreeAssigners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 5000).Draw(t, "nodes")
		k := rapid.IntRange(1, int(min(n, 300))).Draw(t, "partitions")
		seed := rapid.Uint64().Draw(t, "seed")
		random, err := NewRandom(n, k, seed)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := NewRandom(n, k, seed)
		rng, err := NewRange(n, k)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []Assigner{random, rng} {
			var sum uint64
			for p, s := range Sizes(a) {
				if s != n/uint64(k) && s != n/uint64(k)+1 {
					t.Fatalf("%T: partition %d has %d of %d nodes, %d partitions", a, p, s, n, k)
				}
				if known := a.(Sized).Size(blocks.PartitionID(p)); known != s {
					t.Fatalf("%T: partition %d has %d nodes, Size says %d", a, p, s, known)
				}
				sum += s
			}
			if sum != n {
				t.Fatalf("%T: %d nodes assigned of %d", a, sum, n)
			}
		}
		x, y := Materialize(random).Part(), Materialize(again).Part()
		r := Materialize(rng).Part()
		for v := range x {
			if x[v] != y[v] {
				t.Fatalf("same seed, node %d in %d and %d", v, x[v], y[v])
			}
			if v > 0 && r[v] < r[v-1] {
				t.Fatalf("range falls at node %d", v)
			}
		}
		// Any window of Assign agrees with the whole.
		first := rapid.Uint64Range(0, n-1).Draw(t, "first")
		window := make([]blocks.PartitionID, rapid.Uint64Range(0, n-first).Draw(t, "len"))
		random.Assign(first, window)
		for i, p := range window {
			if p != x[first+uint64(i)] {
				t.Fatalf("Assign(%d) differs at %d", first, i)
			}
		}
	})
}

func TestRejects(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
	}{
		{"no partitions", second(NewRandom(10, 0, 1))},
		{"more partitions than nodes", second(NewRange(3, 4))},
		{"too many nodes", second(NewRandom(1<<33, 4, 1))},
		{"too many partitions", second(NewRange(1<<30, 1<<21))},
		{"value out of range", second(NewAssignment([]blocks.PartitionID{0, 2}, 2))},
		{"pinned not last", second(NewAssignment([]blocks.PartitionID{0, 1}, 2, 0))},
		{"falling indptr", second(graph.NewCSR([]uint64{0, 2, 1, 2}, []uint32{0, 0}))},
		{"neighbour out of range", second(graph.NewCSR([]uint64{0, 1}, []uint32{1}))},
	} {
		if !errors.Is(c.err, ErrOption) {
			t.Errorf("%s: %v", c.name, c.err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func BenchmarkRandom(b *testing.B) {
	a, err := NewRandom(100_000_000, 1024, 1)
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]blocks.PartitionID, 1<<16)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		a.Assign(uint64(i%1000)<<16, dst)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(dst)), "ns/node")
}
