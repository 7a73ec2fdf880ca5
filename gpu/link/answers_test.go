package link

import (
	"slices"
	"testing"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/sampler/negative"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// answersMacroBatch has 6 partitions of 20 nodes, of which the last lies in the first rows, random edges between them, and
// trains buckets such that partitions have few answers each, and others than their neighbours.
func answersMacroBatch(trained func(src, dst int) bool) *buffer.MacroBatch {
	const parts, size, edges = 6, 20, 3000
	mb := &buffer.MacroBatch{Rows: parts * size, In: &buffer.Adjacency{Spans: make([]buffer.Span, parts*size)}}
	for i := range parts {
		mb.Partitions = append(mb.Partitions, buffer.ResidentPartition{ID: store.PartitionID(i), Base: uint32((i + 1) % parts * size), Nodes: size})
		for j := range parts {
			if trained(i, j) {
				mb.Step.Buckets = append(mb.Step.Buckets, buffer.BucketID{Src: store.PartitionID(i), Dst: store.PartitionID(j)})
			}
		}
	}
	r := keyed.New(4).Rand(0)
	lists := make([][]uint32, mb.Rows)
	for range edges {
		dst := r.Below(uint64(mb.Rows))
		lists[dst] = append(lists[dst], uint32(r.Below(uint64(mb.Rows))))
	}
	for row, sources := range lists { // by partition, as a macro-batch has them
		slices.SortFunc(sources, func(a, b uint32) int { return partitionOf(mb, a) - partitionOf(mb, b) })
		begin := int64(len(mb.In.Indices))
		mb.In.Indices = append(mb.In.Indices, sources...)
		mb.In.Spans[row] = buffer.Span{Begin: begin, End: int64(len(mb.In.Indices))}
	}
	mb.In.Relations = make([]uint16, len(mb.In.Indices))
	return mb
}

func partitionOf(mb *buffer.MacroBatch, row uint32) int {
	return slices.IndexFunc(mb.Partitions, func(p buffer.ResidentPartition) bool { return row-p.Base < p.Nodes })
}

// TestNegativesWhereAnswersLie: a question's wrong answers are of partitions in which the step's right ones may lie, of all of them
// evenly, or by turns of those and of all in memory; where chunks are fewer than sets of such partitions, of those of the
// chunk's questions. Edges are asked for once a side, and what callers see names the same ones.
func TestNegativesWhereAnswersLie(t *testing.T) {
	for _, c := range []struct {
		name    string
		chunks  int
		from    string
		trained func(src, dst int) bool
		exact   bool
		narrow  bool // some questions' answers lie in a part of memory
	}{
		{"a set a chunk", 8, FromAnswers, func(src, dst int) bool { return (src+dst)%3 == 0 || src == 5 }, true, true},
		{"sets share chunks", 3, FromAnswers, func(src, dst int) bool { return (2*src+dst)%5 < 2 }, false, true},
		{"mixed", 8, FromMixed, func(src, dst int) bool { return (src+dst)%3 == 0 || src == 5 }, true, true},
		{"all buckets", 4, FromAnswers, func(int, int) bool { return true }, true, false},
		{"from everywhere", 4, FromResident, func(src, dst int) bool { return src == 0 || dst == 0 }, false, false},
	} {
		const count, size = 60, 400
		mb := answersMacroBatch(c.trained)
		ns, err := negative.New(negative.Config{Count: count, Chunks: c.chunks, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		pool, err := negative.NewPool(mb)
		if err != nil {
			t.Fatal(err)
		}
		x := newExamples(mb, -1, nil, placesMax)
		s := &source{x: x, order: keyed.NewPermutation(keyed.New(3), x.n), size: size, relations: 1, negatives: ns, perChunk: count, answers: newAnswers(x, [2]*negative.Pool{pool, pool}, c.chunks, c.from)}
		elsewhere := 0
		var b mini.Batch
		for i := range s.Batches() {
			seeds, err := s.Seeds(i, nil, &b)
			if err != nil {
				t.Fatal(err)
			}
			e := s.view(&b)
			n, masked := len(e.Heads), map[int64]bool{}
			for _, m := range e.Mask {
				masked[m] = true
			}
			for k := range n {
				src, dst, _ := x.edge(s.order.At(uint64(i*size + k)))
				if seeds[e.Heads[k]] != src || seeds[e.Tails[k]] != dst {
					t.Fatalf("%s: edge %d is (%d, %d), expected (%d, %d)", c.name, k, seeds[e.Heads[k]], seeds[e.Tails[k]], src, dst)
				}
			}
			for side, known := range [][]uint32{e.Heads, e.Tails} {
				if sorted := slices.Sorted(slices.Values(e.Order[side])); len(sorted) != n || len(e.Ends[side]) != c.chunks || sorted[0] != 0 || len(slices.Compact(sorted)) != n {
					t.Fatalf("%s: %d edges in order %v in chunks that end at %v", c.name, n, e.Order[side], e.Ends[side])
				}
				may := func(asked, answer int) bool {
					if side == int(negative.Head) {
						asked, answer = answer, asked
					}
					return c.trained(asked, answer)
				}
				wanted := [][]uint32{e.Tails, e.Heads}[side]
				begin := 0
				for chunk, end := range e.Ends[side] {
					wrong := e.Negatives[side][chunk*count:][:count]
					for at := begin; at < end; at++ {
						k := e.Order[side][at]
						asked := partitionOf(mb, seeds[known[k]])
						for j, w := range wrong {
							if is := w == wanted[k]; masked[int64((side*n+at)*count+j)] != is {
								t.Fatalf("%s: side %d, edge %d, wrong answer %d: masked %v", c.name, side, k, j, !is)
							}
							lies := partitionOf(mb, seeds[w])
							if may(asked, lies) {
								continue
							}
							if elsewhere++; c.from == FromMixed && j%2 == 1 {
								continue // from all that is in memory
							}
							some := slices.ContainsFunc(e.Order[side][begin:end], func(k uint32) bool { return may(partitionOf(mb, seeds[known[k]]), lies) })
							if c.exact || c.from != FromResident && !some {
								t.Fatalf("%s: side %d: a question of partition %d has a wrong answer of partition %d", c.name, side, asked, lies)
							}
						}
					}
					begin = end
				}
			}
		}
		if c.from != FromAnswers && elsewhere == 0 {
			t.Errorf("%s: all wrong answers are where answers lie", c.name)
		}
		if different := len(s.answers.sides[0].sets); c.narrow != (different > 1) || c.narrow && c.exact != (different <= c.chunks) {
			t.Errorf("%s: %d sets of partitions in %d chunks", c.name, different, c.chunks)
		}
	}
}
