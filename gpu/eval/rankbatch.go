package eval

import (
	"slices"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/store"
)

// question is (known end, relation row): all candidates are scored once for all its answers.
type question struct {
	end      uint32 // internal id
	relation uint32 // of nn.LinkBatch: r, or r + relations where the head is asked for
}

// answer is one side of an edge of the list.
type answer struct {
	question int32
	node     uint32
	standing
}

// rankBatch is some of a list's questions with all their vectors.
type rankBatch struct {
	list    []question
	number  map[question]int32
	answers []answer
	first   []int // first[i]:first[i+1] are question i's answers, once they are sorted

	vectors *blockio.Slab // [len(list) + len(answers) × dim]: queries, then answers
	queries gpu.Tensor
	truths  gpu.Tensor
}

func newRankBatch() *rankBatch { return &rankBatch{number: make(map[question]int32)} }

// ask returns the number of a question; equal ones are asked once.
func (b *rankBatch) ask(k question) int32 {
	i, ok := b.number[k]
	if !ok {
		i = int32(len(b.list))
		b.number[k], b.list = i, append(b.list, k)
	}
	return i
}

// answer adds an answer to a question.
func (b *rankBatch) answer(k question, node uint32) {
	b.answers = append(b.answers, answer{question: b.ask(k), node: node})
}

// nextBatch reads the questions of the next edges of a list.
func (v *Ranker) nextBatch(edges *store.EdgeReader) *rankBatch {
	b := newRankBatch()
	for len(b.answers) < v.batchSize && edges.Next() {
		e := edges.Edge()
		if v.o.Relation != nil && e.Relation != *v.o.Relation {
			continue
		}
		v.both(e, b.answer)
	}
	slices.SortStableFunc(b.answers, func(x, y answer) int { return int(x.question - y.question) })
	b.first = make([]int, len(b.list)+1)
	for _, a := range b.answers {
		b.first[a.question+1]++
	}
	for i := range b.list {
		b.first[i+1] += b.first[i]
	}
	return b
}

// both calls f with the two questions that an edge answers.
func (v *Ranker) both(e store.Edge, f func(k question, node uint32)) {
	f(question{uint32(e.Src), uint32(e.Relation)}, uint32(e.Dst))
	f(question{uint32(e.Dst), uint32(e.Relation) + v.relations}, uint32(e.Src))
}
