package temporal

import (
	"fmt"
	"unsafe"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
)

// extra is what a batch holds beyond its seeds. Rows of the batch are its distinct nodes: candidates first, which have vectors.
type extra struct {
	recency *recency
	table   mini.Table
	rows    []uint32 // of the macro-batch
	vectors int      // of rows that are candidates
	self    []uint32 // row of the batch: of each query …
	sources []int32  // … of each sampled edge's other end
	answers []uint32 // … of each query's answer
	wrong   []uint32 // … of each wrong answer, which all queries share
	ages    []float32
	numbers []float32 // [queries × (1+wrong) × recencyDim]
	mask    []uint32  // scores of wrong answers that are right
	answer  []uint32  // rows of the macro-batch while the batch is made
	draws   []uint32
	all     []uint32
	edges   int // that were held to the rule
}

// source makes the batches of some events, in an order of their own or as they come. It implements [mini.TimedSource].
type source struct {
	d        *data
	events   []event
	order    *keyed.Permutation // nil: as they come
	size     int
	key      keyed.Key
	wrong    int         // shared wrong answers; 0: every candidate, in their order, and no answers
	byDegree int         // of wrong: ends of random training edges, the others are uniform
	ages     *ageEncoder // nil: batches hold no encoded ages
	number   bool
}

func (s *source) at(i, k int) event {
	k += i * s.size
	if s.order != nil {
		k = int(s.order.At(uint64(k)))
	}
	return s.events[k]
}

// Batches implements [mini.SeedSource].
func (s *source) Batches() int { return (len(s.events) + s.size - 1) / s.size }

func (s *source) len(i int) int { return min(s.size, len(s.events)-i*s.size) }

// Seeds implements [mini.SeedSource]: the nodes whose edges are asked for, which may be listed more than once.
func (s *source) Seeds(i int, dst []uint32, b *mini.Batch) ([]uint32, error) {
	x, ok := b.Extra.(*extra)
	if !ok {
		x = &extra{recency: newRecency(s.d)}
		b.Extra = x
	}
	dst, x.answer = dst[:0], x.answer[:0]
	for k := range s.len(i) {
		e := s.at(i, k)
		dst, x.answer = append(dst, e.src), append(x.answer, e.dst)
	}
	x.draws = x.draws[:0]
	if s.wrong == 0 {
		x.draws = append(x.draws, s.d.candidates...)
		return dst, nil
	}
	r := s.key.Rand(uint64(i))
	for k := range s.wrong {
		if k < s.byDegree {
			x.draws = append(x.draws, s.d.events[r.Below(uint64(s.d.train))].dst)
		} else {
			x.draws = append(x.draws, s.d.candidates[r.Below(uint64(len(s.d.candidates)))])
		}
	}
	return dst, nil
}

// Times implements [mini.TimedSource].
func (s *source) Times(i int, dst []int64, _ *mini.Batch) ([]int64, error) {
	dst = dst[:0]
	for k := range s.len(i) {
		dst = append(dst, s.at(i, k).time)
	}
	return dst, nil
}

// Finish implements [mini.Finisher]. It holds every sampled edge to the rule and finds what the model reads.
func (s *source) Finish(b *mini.Batch) error {
	x, k := b.Extra.(*extra), &b.Blocks[0]
	n := k.NumDst
	columns := s.ages.columns()
	x.ages = resize(x.ages, len(k.Indices)*columns)
	for d := range n {
		for e := k.Indptr[d]; e < k.Indptr[d+1]; e++ {
			if k.Times[e] >= b.Times[d] {
				return fmt.Errorf("an edge of time %d was sampled for a prediction at %d: expected one strictly before", k.Times[e], b.Times[d])
			}
			if columns > 0 {
				s.ages.encode(ageAt(b.Times[d], k.Times[e]), x.ages[int(e)*columns:][:columns], nil)
			}
		}
	}
	x.edges = len(k.Indices)
	// Candidates come first among the batch's rows, those of wrong answers before all; in an evaluation these are all there are.
	x.table.Reset()
	x.rows = x.rows[:0]
	local := func(rows []uint32, to []uint32) []uint32 {
		to = resize(to, len(rows))
		x.rows = x.table.Map(x.rows, rows, int32s(to))
		return to
	}
	x.wrong = local(x.draws, x.wrong)
	x.answers = local(x.answer, x.answers)
	x.all = x.all[:0]
	for _, row := range b.Input {
		if s.d.place[row] >= 0 {
			x.all = append(x.all, row)
		}
	}
	x.self = local(x.all, x.self)
	x.vectors = len(x.rows)
	x.self = local(b.Input[:n], x.self)
	x.all = local(b.Input[n:], x.all)
	x.sources = resize(x.sources, len(x.all))
	for i, row := range x.all {
		x.sources[i] = int32(row)
	}
	s.recall(b, x)
	return nil
}

// recall finds what the queries' nodes met before, and which wrong answers are right.
func (s *source) recall(b *mini.Batch, x *extra) {
	x.mask = x.mask[:0]
	if s.wrong == 0 { // an evaluation asks query by query
		return
	}
	n, width := len(x.answer), 1+len(x.draws)
	if s.number {
		x.numbers = resize(x.numbers, n*width*recencyDim)
	}
	for q := range n {
		x.recency.enter(b.Seeds[q], b.Times[q])
		row := x.numbers[min(len(x.numbers), q*width*recencyDim):]
		if s.number {
			x.recency.numbers(x.answer[q], row)
		}
		for k, v := range x.draws {
			if x.recency.answers(v) {
				x.mask = append(x.mask, uint32(q*width+1+k))
			}
			if s.number {
				x.recency.numbers(v, row[(1+k)*recencyDim:])
			}
		}
	}
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

func int32s(x []uint32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}
