package blocks_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
)

// encodeStripe encodes the stripe of partition j from keys per src partition.
func encodeStripe(t testing.TB, sizes []uint32, j blocks.PartitionID, keys [][]uint64) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := blocks.NewStripeEncoder(&buf, sizes)
	if err := enc.Begin(j); err != nil {
		t.Fatal(err)
	}
	total := 0
	for i, k := range keys {
		total += len(k)
		if len(k) == 0 && i%2 == 0 { // empty buckets may be left out or not
			continue
		}
		if err := enc.Bucket(blocks.PartitionID(i), k); err != nil {
			t.Fatal(err)
		}
	}
	edges, err := enc.End()
	if err != nil {
		t.Fatal(err)
	}
	if edges != uint64(total) {
		t.Fatalf("End says %d edges, wrote %d", edges, total)
	}
	return aligned(buf.Bytes())
}

// aligned copies b to an address that views accept.
func aligned(b []byte) []byte {
	words := make([]uint64, (len(b)+7)/8)
	out := blocks.Bytes(words)[:len(b)]
	copy(out, b)
	return out
}

// randomKeys draws n edges between partitions of given sizes, sorted, with
// duplicates where the space is small.
func randomKeys(r *rand.Rand, n int, dstNodes, srcNodes uint32) []uint64 {
	keys := make([]uint64, n)
	for k := range keys {
		keys[k] = blocks.EdgeKey(r.Uint32N(dstNodes), r.Uint32N(srcNodes))
	}
	slices.Sort(keys)
	return keys
}

func TestStripeRoundTrip(t *testing.T) {
	narrow, wide := uint32(blocks.NarrowNodesMax), uint32(blocks.NarrowNodesMax+1)
	for _, sizes := range [][]uint32{{1}, {3, 1, 7}, {narrow, wide, 5, 0}, {wide, narrow, 100000}} {
		for j := range sizes {
			if sizes[j] == 0 {
				continue
			}
			for _, n := range []int{0, 1, 63, 64, 65, 1000, 70_000} {
				t.Run(fmt.Sprintf("%v into %d, %d edges", sizes, j, n), func(t *testing.T) {
					r := rand.New(rand.NewPCG(uint64(n), uint64(j)))
					keys := make([][]uint64, len(sizes))
					for i, s := range sizes {
						if s > 0 && r.IntN(4) > 0 {
							keys[i] = randomKeys(r, n, sizes[j], s)
						}
					}
					stripe, err := blocks.OpenStripe(encodeStripe(t, sizes, blocks.PartitionID(j), keys), uint32(len(sizes)))
					if err != nil {
						t.Fatal(err)
					}
					if err := stripe.Check(); err != nil {
						t.Fatal(err)
					}
					first := uint64(0)
					for i := range sizes {
						if stripe.FirstEdge(i) != first || stripe.SrcNodes(i) != sizes[i] || stripe.DstNodes() != sizes[j] {
							t.Fatalf("bucket %d: first edge %d, %d → %d nodes; expected %d, %d → %d", i,
								stripe.FirstEdge(i), stripe.SrcNodes(i), stripe.DstNodes(), first, sizes[i], sizes[j])
						}
						b, err := stripe.Bucket(i)
						if err != nil {
							t.Fatal(err)
						}
						var got []uint64
						for d, s := range b.All() {
							got = append(got, blocks.EdgeKey(d, s))
						}
						if !slices.Equal(got, keys[i]) {
							t.Fatalf("bucket %d: %d edges came back other than the %d written", i, len(got), len(keys[i]))
						}
						first += uint64(len(keys[i]))
					}
					if stripe.Edges() != first {
						t.Fatalf("stripe has %d edges, expected %d", stripe.Edges(), first)
					}
				})
			}
		}
	}
}

func TestStripeEncoderRefuses(t *testing.T) {
	sizes := []uint32{4, 4}
	key := blocks.EdgeKey
	for _, c := range []struct {
		name string
		do   func(e *blocks.StripeEncoder) error
		is   error
	}{
		{"unsorted dst", func(e *blocks.StripeEncoder) error { return e.Bucket(0, []uint64{key(1, 0), key(0, 0)}) }, blocks.ErrUnsorted},
		{"unsorted src", func(e *blocks.StripeEncoder) error { return e.Bucket(0, []uint64{key(1, 2), key(1, 1)}) }, blocks.ErrUnsorted},
		{"dst beyond", func(e *blocks.StripeEncoder) error { return e.Bucket(0, []uint64{key(4, 0)}) }, nil},
		{"src beyond", func(e *blocks.StripeEncoder) error { return e.Bucket(0, []uint64{key(0, 4), key(1, 0)}) }, nil},
		{"bucket beyond", func(e *blocks.StripeEncoder) error { return e.Bucket(2, nil) }, blocks.ErrUnsorted},
		{"buckets descending", func(e *blocks.StripeEncoder) error {
			return errors.Join(e.Bucket(1, nil), e.Bucket(0, nil))
		}, blocks.ErrUnsorted},
		{"begun twice", func(e *blocks.StripeEncoder) error { return e.Begin(1) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			enc := blocks.NewStripeEncoder(&bytes.Buffer{}, sizes)
			if err := enc.Begin(0); err != nil {
				t.Fatal(err)
			}
			err := c.do(enc)
			if err == nil || (c.is != nil && !errors.Is(err, c.is)) {
				t.Fatalf("got %v, expected an error that is %v", err, c.is)
			}
			if _, err := enc.End(); c.name != "begun twice" && err == nil {
				t.Fatal("End succeeded after a failed bucket")
			}
		})
	}
}

// TestStripeBeyond: there is no stripe behind the last partition's.
func TestStripeBeyond(t *testing.T) {
	for j, there := range []bool{true, true, false} {
		if err := blocks.NewStripeEncoder(&bytes.Buffer{}, []uint32{4, 4}).Begin(blocks.PartitionID(j)); (err == nil) != there {
			t.Errorf("stripe %d of 2: %v", j, err)
		}
	}
}

// countEdges is the loop assembly runs over a bucket: the benchmark's floor.
func assembleLike(b *blocks.Bucket, next []int64, out []uint32) {
	run := -1
	for w, word := range b.Starts {
		lo := w * 64
		src := b.Src16[lo:min(lo+64, b.Edges)]
		for k, s := range src {
			run += int(word >> k & 1)
			d := b.Dst16[run]
			at := next[d]
			next[d] = at + 1
			out[at] = uint32(s)
		}
	}
}

// The bound of src ids at the width's limit: 65,536 nodes take every id of 16 bits, 65,535 not the last.
func TestBucketChecksTheLargestNarrowID(t *testing.T) {
	for nodes, whole := range map[uint32]bool{blocks.NarrowNodesMax: true, blocks.NarrowNodesMax - 1: false} {
		k := blocks.Bucket{Edges: 1, Runs: 1, SrcNodes: nodes, DstNodes: 1, Starts: []uint64{1}, Dst16: []uint16{0}, Src16: []uint16{blocks.NarrowNodesMax - 1}}
		if err := k.Check(); (err == nil) != whole {
			t.Errorf("src %d of %d nodes: %v", k.Src16[0], nodes, err)
		}
	}
}

func BenchmarkStripe(b *testing.B) {
	const nodes, edges = 60_000, 1 << 20
	r := rand.New(rand.NewPCG(1, 2))
	keys := randomKeys(r, edges, nodes, nodes)
	sizes := []uint32{nodes}
	payload := encodeStripe(b, sizes, 0, [][]uint64{keys})
	perEdge := func(b *testing.B) {
		b.ReportMetric(float64(b.N)*edges/b.Elapsed().Seconds()/1e6, "Medges/s")
	}
	b.Run("encode", func(b *testing.B) {
		var buf bytes.Buffer
		enc := blocks.NewStripeEncoder(&buf, sizes)
		for b.Loop() {
			buf.Reset()
			_ = enc.Begin(0)
			if err := enc.Bucket(0, keys); err != nil {
				b.Fatal(err)
			}
			if _, err := enc.End(); err != nil {
				b.Fatal(err)
			}
		}
		perEdge(b)
	})
	stripe, err := blocks.OpenStripe(payload, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if err := stripe.Check(); err != nil {
				b.Fatal(err)
			}
		}
		perEdge(b)
	})
	b.Run("all", func(b *testing.B) {
		var sum uint64
		for b.Loop() {
			k, _ := stripe.Bucket(0)
			for d, s := range k.All() {
				sum += uint64(d ^ s)
			}
		}
		perEdge(b)
	})
	b.Run("assemble", func(b *testing.B) {
		k, _ := stripe.Bucket(0)
		start := make([]int64, nodes+1)
		for d := range k.All() {
			start[d+1]++
		}
		for d := range nodes {
			start[d+1] += start[d]
		}
		next, out := make([]int64, nodes+1), make([]uint32, edges)
		for b.Loop() {
			copy(next, start)
			assembleLike(&k, next, out)
		}
		perEdge(b)
	})
}
