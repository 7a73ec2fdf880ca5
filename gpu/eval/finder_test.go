package eval_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// wantAnswers are all answers to k by the definition: all nodes, scored one by one and sorted.
func (b *rankBench) wantAnswers(k eval.Question, kind string, known map[store.Edge]bool) (all []eval.Answer) {
	dim := b.model.Config().Dim
	row := func(n store.NodeID) []float32 { return b.x[int(n)*dim : (int(n)+1)*dim] }
	norm := func(x []float32) (s float64) {
		for _, v := range x {
			s += float64(v) * float64(v)
		}
		return float64(float32(math.Sqrt(s)))
	}
	for n := range store.NodeID(b.st.Manifest().Nodes) {
		s, relation := 0., int(k.Relation)
		triple := store.Edge{Src: k.Node, Dst: n, Relation: k.Relation}
		if k.Heads {
			triple, relation = store.Edge{Src: n, Dst: k.Node, Relation: k.Relation}, relation+evalRelations
		}
		if kind == eval.Links && known[triple] || kind != eval.Links && n == k.Node {
			continue
		}
		for j := range dim {
			x := float64(row(k.Node)[j]) * float64(row(n)[j])
			if kind == eval.Links {
				x *= float64(b.r[relation*dim+j])
			}
			s += x
		}
		if kind == eval.Cosine {
			if by := float32(norm(row(k.Node))) * float32(norm(row(n))); by > 0 {
				s = float64(float32(s) / by)
			} else {
				s = 0
			}
		}
		all = append(all, eval.Answer{Node: n, Score: float32(s)})
	}
	slices.SortStableFunc(all, func(x, y eval.Answer) int {
		switch {
		case x.Score > y.Score:
			return -1
		case x.Score < y.Score:
			return 1
		}
		return 0
	})
	return all
}

// TestFinder: the best answers are those of the definition, ties included, whatever the budget.
func TestFinder(t *testing.T) {
	st, graph, lists := triples(t, 900, 6)
	b := newRankBench(t, st, nn.LinkConfig{Decoder: nn.DistMult, Encoder: "none", Dim: 6})
	known := map[store.Edge]bool{}
	for _, e := range slices.Concat(graph, lists["valid"], lists["test"]) {
		known[e] = true
	}
	var asked []eval.Question
	for i, e := range lists["test"][:40] {
		asked = append(asked, eval.Question{Node: e.Src, Relation: e.Relation}, eval.Question{Node: e.Dst, Relation: e.Relation, Heads: true})
		if i%8 == 0 {
			asked = append(asked, asked[0]) // again
		}
	}
	embeddings := func(_ context.Context, p store.PartitionID) ([]byte, error) {
		info := st.Manifest().Partitions[p]
		return blocks.Bytes(b.x[int(info.First)*6 : (int(info.First)+int(info.Nodes))*6]), nil
	}
	for _, c := range []struct {
		o     eval.FinderOptions
		known map[store.Edge]bool
	}{{eval.FinderOptions{}, nil}, {eval.FinderOptions{Unknown: true}, known}, {eval.FinderOptions{Kind: eval.Dot}, nil}, {eval.FinderOptions{Kind: eval.Cosine}, nil}} {
		kind := c.o.Kind
		if kind == "" {
			kind = eval.Links
		}
		all := make([][]eval.Answer, len(asked))
		for i, k := range asked {
			all[i] = b.wantAnswers(k, kind, c.known)
		}
		for _, top := range []int{1, 7, 2000} {
			tiles := map[int]bool{}
			for _, bytes := range []int64{0, 8 << 20, 1} { // 1: the least
				o := eval.RankerOptions{Model: b.model.Config(), Threads: 2, Top: top, MemoryBytes: bytes}
				v, err := eval.NewRanker(st, b.dev, eval.RankerOptions{Model: o.Model, Top: top})
				if err != nil {
					t.Fatal(err)
				}
				if bytes == 1 {
					o.MemoryBytes = v.LeastBytes()
				}
				if err := v.Close(); err != nil {
					t.Fatal(err)
				}
				if v, err = eval.NewRanker(st, b.dev, o); err != nil {
					t.Fatal(err)
				}
				tiles[v.Tiles()] = true
				f, err := v.Find(t.Context(), b.q, b.model, embeddings, c.o)
				if err != nil {
					t.Fatal(err)
				}
				for at := 0; at < len(asked); at += f.Batch() {
					part := asked[at:min(at+f.Batch(), len(asked))]
					got, err := f.Ask(t.Context(), part)
					if err != nil {
						t.Fatal(err)
					}
					for i, k := range part {
						if want := all[at+i][:min(top, len(all[at+i]))]; !slices.Equal(got[i], want) {
							t.Fatalf("%+v, %d answers to %+v within %d bytes: %v, expected %v", c.o, top, k, o.MemoryBytes, got[i][:min(7, len(got[i]))], want[:min(7, len(want))])
						}
					}
				}
				m := st.Manifest()
				for _, beyond := range []eval.Question{{Node: store.NodeID(m.Nodes)}, {Relation: store.RelationID(len(m.Schema.Relations))}} {
					if _, err := f.Ask(t.Context(), []eval.Question{beyond}); (err == nil) != (beyond.Node == 0 && kind != eval.Links) {
						t.Errorf("%+v: the answer to %+v: %v", c.o, beyond, err)
					}
				}
				f.Close()
				if err := v.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if top < 100 && len(tiles) < 2 { // more answers take more memory than the nodes
				t.Errorf("tiles %v, expected one and more", tiles)
			}
		}
	}
}

// TestFinderTellsErrors: vectors that cannot be read are the finder's error, before anything is asked.
func TestFinderTellsErrors(t *testing.T) {
	st, _, _ := triples(t, 100, 2)
	b := newRankBench(t, st, nn.LinkConfig{Decoder: nn.DistMult, Encoder: "sage", Layers: 1, Dim: 6})
	v, err := eval.NewRanker(st, b.dev, eval.RankerOptions{Model: b.model.Config(), Top: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}()
	gone := errors.New("the disk is gone")
	f, err := v.Find(t.Context(), b.q, b.model, func(context.Context, store.PartitionID) ([]byte, error) { return nil, gone }, eval.FinderOptions{})
	if !errors.Is(err, gone) || f != nil {
		t.Errorf("%v, expected %v", err, gone)
	}
}
