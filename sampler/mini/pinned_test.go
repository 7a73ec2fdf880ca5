package mini

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// weightedGraph has rows of a few to thousands of edges, whose weights are of every kind: mostly small, some large, some none.
func weightedGraph() Graph {
	const n = 300
	g := Graph{In: adjacency(n, skewed(5, n, 30_000), 0), Keys: numbers(n)}
	r, a := keyed.New(6).Rand(0), g.In
	for range a.Indices {
		w := float32(r.Below(1000))
		switch {
		case w < 100:
			w = 0
		case w > 990:
			w *= 1000
		}
		a.Weights = append(a.Weights, w)
	}
	a.Sums = make([]float64, (len(a.Indices)+buffer.SumEdges-1)/buffer.SumEdges)
	a.SumWeights(0, n)
	return g
}

// TestDrawsStay: a seed draws the same edges in every version of gstore, so that a run that is gone on with, or told of by its seed,
// is the same run. Where a sum changes, every user's results do: that is a change to decide on and to tell.
func TestDrawsStay(t *testing.T) {
	g := weightedGraph()
	want := map[string]uint64{Uniform: 0xe3c0f556522f178, Weighted: 0x882941930fdd82fe, Labor: 0x19b492218b0614e2, Dense: 0xe3c0f556522f178, Pinsage: 0xfe71a208e65c860a}
	for _, name := range Samplers() {
		h := fnv.New64a()
		for _, fanout := range []int{1, 2, 10, 60, 128, 129, 400} {
			s, err := New(Config{Fanouts: []int{fanout}, Sampler: name, Seed: 9})
			if err != nil {
				t.Fatal(err)
			}
			var b Batch
			if err := s.Sample(Key{Epoch: 1, Batch: 2}, g, numbers(300), &b); err != nil {
				t.Fatal(err)
			}
			k := &b.Blocks[0]
			for e := range k.Indices {
				_ = binary.Write(h, binary.LittleEndian, b.Input[k.Indices[e]])
			}
			_ = binary.Write(h, binary.LittleEndian, k.Indptr)
		}
		if got := h.Sum64(); got != want[name] {
			t.Errorf("%s: draws of checksum %#x, expected %#x", name, got, want[name])
		}
	}
}

// TestWeightedBeside: what is drawn for a node does not depend on which nodes follow it in its batch, long lists or short.
func TestWeightedBeside(t *testing.T) {
	g := weightedGraph()
	for _, fanout := range []int{1, 7, 100} {
		s, err := New(Config{Fanouts: []int{fanout}, Sampler: Weighted})
		if err != nil {
			t.Fatal(err)
		}
		drawn := func(b *Batch, d int) (out []uint32) {
			k := &b.Blocks[0]
			for _, i := range k.Indices[k.Indptr[d]:k.Indptr[d+1]] {
				out = append(out, b.Input[i])
			}
			return out
		}
		var all, first Batch
		if err := s.Sample(Key{}, g, numbers(300), &all); err != nil {
			t.Fatal(err)
		}
		for n := 1; n < 300; n += 13 {
			if err := s.Sample(Key{}, g, numbers(n), &first); err != nil {
				t.Fatal(err)
			}
			for v := range n {
				if a, b := drawn(&all, v), drawn(&first, v); !slices.Equal(a, b) {
					t.Fatalf("fanout %d: node %d draws %v among 300, %v among the first %d", fanout, v, a, b, n)
				}
			}
		}
	}
}

// TestWeightedLotsOnSums: a lot that falls on the sum of the weights before an edge is that edge's, not the one's before, also where
// sums are kept, and the last edge with a weight is drawn however near to the total the lot is; one that is rounded to the total is behind the list.
func TestWeightedLotsOnSums(t *testing.T) {
	const n = 200
	g := shared(1, slices.Repeat([]float32{1}, n), nil)
	span := g.In.Spans[0]
	for _, c := range []struct {
		lot  float64
		want int64
	}{{0, 0}, {math.Nextafter(1, 0), 0}, {1, 1}, {15, 15}, {16, 16}, {math.Nextafter(64, 0), 63}, {64, 64}, {128, 128}, {math.Nextafter(n, 0), n - 1}, {n, n}} {
		d := &weighted{long: []longList{{list: &list{span: span, out: make([]int64, 1)}}}}
		d.sum(g.In)
		l := &d.long[0]
		if l.total != n {
			t.Fatalf("weights of %v in all, expected %d", l.total, n)
		}
		d.guess(g.In)
		d.attempts[0].lot = c.lot // of which the guess knows nothing
		d.search(g.In)
		if got := d.attempts[0].edge(g.In.Weights); got != c.want && (c.want < n || got < n) {
			t.Errorf("lot %v: edge %d, expected %d", c.lot, got, c.want)
		}
	}
}
