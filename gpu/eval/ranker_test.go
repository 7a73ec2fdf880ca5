package eval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
)

const evalRelations = 3

// triples makes a store of random triples, some of them in train and test, and returns it with all triples
// by internal ids: those of the graph and those of each list.
func triples(t *testing.T, nodes, partitions int) (st *store.Store, graph []store.Edge, lists map[string][]store.Edge) {
	t.Helper()
	return triplesWith(t, nodes, partitions, store.NegativesSuffix)
}

// triplesWith is triples with wrong answers for list valid in a list whose name ends with suffix.
func triplesWith(t *testing.T, nodes, partitions int, suffix string) (st *store.Store, graph []store.Edge, lists map[string][]store.Edge) {
	t.Helper()
	in, dir := t.TempDir(), filepath.Join(t.TempDir(), "kg.gstore")
	r := keyed.New(7).Rand(0)
	for name, n := range map[string]int{"train": 1500, "valid": 60, "test": 90} {
		var b strings.Builder
		for range n { // few heads, so that questions have many answers
			fmt.Fprintf(&b, "n%d\tr%d\tn%d\n", r.Below(uint64(nodes)/4), r.Below(evalRelations), r.Below(uint64(nodes)))
		}
		if err := os.WriteFile(filepath.Join(in, name+".tsv"), []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	src, err := formats.Open(in, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	src = &withNegatives{src}
	src.Describe().EdgeLists = append(src.Describe().EdgeLists, "valid"+suffix)
	if _, err := ingest.Run(t.Context(), dir, src, ingest.Options{Partitions: partitions, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
	if st, err = store.Open(dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	lists = map[string][]store.Edge{}
	for _, l := range st.Manifest().EdgeLists {
		edges, err := st.EdgeList(t.Context(), l.Name)
		if err != nil {
			t.Fatal(err)
		}
		for edges.Next() {
			lists[l.Name] = append(lists[l.Name], edges.Edge())
		}
		if err := edges.Err(); err != nil {
			t.Fatal(err)
		}
	}
	it, err := buffer.Open(t.Context(), st, buffer.Options{Relations: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = it.Close() }()
	var all []store.PartitionID
	for p := range st.Manifest().Partitions {
		all = append(all, store.PartitionID(p))
	}
	if err := it.Start(buffer.Plan{Policy: "memory", Capacity: len(all), Steps: []buffer.Step{{Resident: all}}}); err != nil {
		t.Fatal(err)
	}
	if !it.Next() {
		t.Fatal(it.Err())
	}
	mb := it.MacroBatch()
	id := func(row uint32) store.NodeID {
		for _, p := range mb.Partitions {
			if row-p.Base < p.Nodes {
				return p.First + store.NodeID(row-p.Base)
			}
		}
		t.Fatalf("row %d is in no partition", row)
		return 0
	}
	for row, s := range mb.In.Spans {
		for at := s.Begin; at < s.End; at++ {
			graph = append(graph, store.Edge{Src: id(mb.In.Indices[at]), Dst: id(uint32(row)), Relation: store.RelationID(mb.In.Relations[at])})
		}
	}
	return st, graph, lists
}

// withNegatives is a source of triples whose last edge list has wrong answers of the questions of the first: edges are not known to be right by
// standing in it.
type withNegatives struct{ ingest.Source }

func (s *withNegatives) EdgeList(ctx context.Context, env ingest.Env, l int, emit func(*ingest.EdgeBatch) error) error {
	if l < len(s.Describe().EdgeLists)-1 {
		return s.Source.EdgeList(ctx, env, l, emit)
	}
	return s.Source.EdgeList(ctx, env, 0, func(b *ingest.EdgeBatch) error {
		wrong := *b // each edge with every other's end, by turns its tail and its head
		wrong.Src, wrong.RelationNames = ingest.IDs{}, ingest.IDs{}
		wrong.Dst = ingest.IDs{}
		for i := range b.Len() {
			for j := range b.Len() {
				src, dst := i, j
				if j%2 == 1 {
					src, dst = j, i
				}
				wrong.Src.Append(b.Src.At(src))
				wrong.Dst.Append(b.Dst.At(dst))
				wrong.RelationNames.Append(b.RelationNames.At(i))
			}
		}
		return emit(&wrong)
	})
}

// rankBench is a device with a model and random embeddings of a store's nodes.
type rankBench struct {
	*testing.T
	st    *store.Store
	dev   gpu.Device
	q     *gpu.Queue
	model *nn.LinkModel
	x     []float32 // [nodes × dim]
	r     []float32 // relations [2·evalRelations × dim]
}

// newRankBench draws embeddings and relations from small whole numbers: scores of distmult
// are exact, and many are equal.
func newRankBench(t *testing.T, st *store.Store, cfg nn.LinkConfig) *rankBench {
	t.Helper()
	b := &rankBench{T: t, st: st, dev: host.New(host.Options{Threads: 2})}
	var err error
	if b.q, err = gpu.NewQueue(b.dev); err != nil {
		t.Fatal(err)
	}
	cfg.Relations = evalRelations
	if b.model, err = nn.NewLink(t.Context(), b.q, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(b.model.Close(), b.q.Close(), b.dev.Close()) })
	r := keyed.New(11).Rand(0)
	for range int(st.Manifest().Nodes) * cfg.Dim {
		b.x = append(b.x, float32(r.Below(5))-2)
	}
	if cfg.Encoder == "none" {
		for range 2 * evalRelations * cfg.Dim {
			b.r = append(b.r, float32(r.Below(5))-2)
		}
		if err := b.model.Params().Load(t.Context(), b.q, blocks.Bytes(b.r)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *rankBench) run(o eval.RankerOptions, lists ...string) ([]eval.RankMetrics, int, error) {
	b.Helper()
	o.Model = b.model.Config()
	v, err := eval.NewRanker(b.st, b.dev, o)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err := v.Close(); err != nil {
			b.Error(err)
		}
	}()
	dim := o.Model.Dim
	got, err := v.Run(b.Context(), b.q, b.model, func(_ context.Context, p store.PartitionID) ([]byte, error) {
		info := b.st.Manifest().Partitions[p]
		return blocks.Bytes(b.x[int(info.First)*dim : (int(info.First)+int(info.Nodes))*dim]), nil
	}, lists...)
	return got, v.Tiles(), err
}

// want ranks by the definition: one question after the other, a map of all known triples; both sides unless it is said
// which, 0 for tails.
func (b *rankBench) want(graph []store.Edge, lists map[string][]store.Edge, name string, among []uint64, sides ...int) eval.RankMetrics {
	dim := b.model.Config().Dim
	known := map[store.Edge]bool{}
	for _, es := range append([][]store.Edge{graph}, lists["valid"], lists["test"]) {
		for _, e := range es {
			known[e] = true
		}
	}
	m := eval.RankMetrics{Candidates: uint64(len(among))}
	if len(sides) == 0 {
		sides = []int{0, 1}
	}
	for _, e := range lists[name] {
		for _, side := range sides {
			end, answer, relation := e.Src, e.Dst, int(e.Relation)
			if side == 1 {
				end, answer, relation = e.Dst, e.Src, relation+evalRelations
			}
			score := func(n uint64) (s float64) {
				for j := range dim {
					s += float64(b.x[int(end)*dim+j]) * float64(b.r[relation*dim+j]) * float64(b.x[int(n)*dim+j])
				}
				return s
			}
			own := score(uint64(answer))
			filtered, raw := 1.0, 1.0
			for _, n := range among {
				if n == uint64(answer) {
					continue
				}
				ahead := 0.0
				switch s := score(n); {
				case s > own:
					ahead = 1
				case s == own:
					ahead = .5
				}
				raw += ahead
				triple := store.Edge{Src: e.Src, Dst: store.NodeID(n), Relation: e.Relation}
				if side == 1 {
					triple.Src, triple.Dst = store.NodeID(n), e.Dst
				}
				if !known[triple] {
					filtered += ahead
				}
			}
			m.Queries++
			for _, x := range []struct {
				rank                      float64
				mrr, hits1, hits3, hits10 *float64
			}{{filtered, &m.MRR, &m.Hits1, &m.Hits3, &m.Hits10}, {raw, &m.RawMRR, &m.RawHits1, &m.RawHits3, &m.RawHits10}} {
				*x.mrr += 1 / x.rank
				for h, at := range map[*float64]float64{x.hits1: 1, x.hits3: 3, x.hits10: 10} {
					if x.rank <= at {
						*h++
					}
				}
			}
		}
	}
	for _, x := range []*float64{&m.MRR, &m.Hits1, &m.Hits3, &m.Hits10, &m.RawMRR, &m.RawHits1, &m.RawHits3, &m.RawHits10} {
		*x /= float64(m.Queries)
	}
	return m
}

// near compares metrics up to the order of the sum of reciprocal ranks.
func near(a, b eval.RankMetrics, tol float64) bool {
	for _, d := range []float64{a.MRR - b.MRR, a.Hits1 - b.Hits1, a.Hits3 - b.Hits3, a.Hits10 - b.Hits10,
		a.RawMRR - b.RawMRR, a.RawHits1 - b.RawHits1, a.RawHits3 - b.RawHits3, a.RawHits10 - b.RawHits10} {
		if !(math.Abs(d) <= tol) {
			return false
		}
	}
	return a.Queries == b.Queries && a.Candidates == b.Candidates
}

// budgets returns budgets from none to the smallest, and the tiles that each gives.
func (b *rankBench) budgets(do func(bytes int64, tiles int)) {
	b.Helper()
	most, least := int64(16<<20), int64(1<<20)
	fits := func(n int64) bool {
		_, _, err := b.run(eval.RankerOptions{MemoryBytes: n})
		if err != nil && !errors.Is(err, store.ErrBudget) {
			b.Fatal(err)
		}
		return err == nil
	}
	for most-least > 256 {
		if mid := (most + least) / 2; fits(mid) {
			most = mid
		} else {
			least = mid
		}
	}
	for _, n := range []int64{0, most + most/256, most} {
		_, tiles, err := b.run(eval.RankerOptions{MemoryBytes: n})
		if err != nil {
			b.Fatal(err)
		}
		do(n, tiles)
	}
}

// TestRanker: ranks are those of the definition, filtered and raw, against all nodes and
// a sample, whatever the budget, batches and threads.
func TestRanker(t *testing.T) {
	const nodes = 900
	st, graph, lists := triples(t, nodes, 6)
	b := newRankBench(t, st, nn.LinkConfig{Decoder: nn.DistMult, Encoder: "none", Dim: 6})
	var all []uint64
	for n := range st.Manifest().Nodes {
		all = append(all, n)
	}
	sampled := eval.SampleCandidates(st.Manifest().Nodes, 50, 9)
	if len(sampled) != 50 || len(slices.Compact(slices.Clone(sampled))) != 50 || !slices.IsSorted(sampled) {
		t.Fatalf("a sample of 50 candidates: %v", sampled)
	}
	some := make([]uint64, 0, 50)
	for _, n := range sampled {
		some = append(some, uint64(n))
	}
	for _, c := range []struct {
		name  string
		o     eval.RankerOptions
		among []uint64
	}{
		{"all", eval.RankerOptions{Threads: 2}, all},
		{"a sample", eval.RankerOptions{Candidates: 50, Seed: 9}, some},
		{"a sample of all", eval.RankerOptions{Candidates: 1 << 20}, all},
	} {
		var first []eval.RankMetrics
		tiles := map[int]bool{}
		b.budgets(func(bytes int64, n int) {
			c.o.MemoryBytes = bytes
			got, _, err := b.run(c.o, "valid", "test")
			if err != nil {
				t.Fatalf("%s within %d bytes: %v", c.name, bytes, err)
			}
			tiles[n] = true
			if first == nil {
				first = got
				for i, list := range []string{"valid", "test"} {
					if want := b.want(graph, lists, list, c.among); !near(got[i], want, 1e-12) {
						t.Errorf("%s, %s: %+v, expected %+v", c.name, list, got[i], want)
					}
				}
			}
			for i := range got {
				if !near(got[i], first[i], 1e-12) {
					t.Errorf("%s within %d bytes, %d tiles: %+v, in memory %+v", c.name, bytes, n, got[i], first[i])
				}
			}
		})
		if len(tiles) < 2 || !tiles[6] {
			t.Errorf("%s: tiles %v, expected one and six", c.name, tiles)
		}
		if first[0].RawMRR >= first[0].MRR {
			t.Errorf("%s: raw MRR %v, filtered %v: nothing was filtered", c.name, first[0].RawMRR, first[0].MRR)
		}
	}
}

// TestRankerEncodes: with an encoder, out of core is in memory up to the order in
// which neighbours are added.
func TestRankerEncodes(t *testing.T) {
	st, _, _ := triples(t, 900, 6)
	for _, encoder := range nn.Encoders()[1:] {
		t.Run(encoder, func(t *testing.T) {
			b := newRankBench(t, st, nn.LinkConfig{Decoder: nn.ComplEx, Encoder: encoder, Dim: 8, Seed: 5})
			var first []eval.RankMetrics
			b.budgets(func(bytes int64, n int) {
				got, _, err := b.run(eval.RankerOptions{MemoryBytes: bytes}, "test")
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					if first = got; n != 1 {
						t.Errorf("%d tiles without a budget, expected 1", n)
					}
				} else if !near(got[0], first[0], 2e-3) {
					t.Errorf("%d tiles: %+v, in memory %+v", n, got[0], first[0])
				}
			})
		})
	}
}

// Candidates are different nodes, ascending, each as likely, and another seed draws others.
func TestSampleCandidates(t *testing.T) {
	const nodes, n, seeds = 40, 10, 2000
	seen := make([]int, nodes)
	for seed := range uint64(seeds) {
		some := eval.SampleCandidates(nodes, n, seed)
		if len(some) != n || !slices.IsSorted(some) || len(slices.Compact(slices.Clone(some))) != n || !slices.Equal(some, eval.SampleCandidates(nodes, n, seed)) {
			t.Fatalf("seed %d: %v, expected %d different nodes, ascending, always the same", seed, some, n)
		}
		for _, v := range some {
			seen[v]++
		}
	}
	const want = seeds * n / nodes
	for v, got := range seen {
		if math.Abs(float64(got-want)) > 6*math.Sqrt(want) {
			t.Errorf("node %d was drawn %d times, expected about %d", v, got, want)
		}
	}
}
