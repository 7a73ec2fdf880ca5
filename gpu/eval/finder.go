package eval

import (
	"context"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
)

// Question asks a model of link prediction which nodes complete an edge: (Node, Relation, ?), or with Heads (?, Relation, Node).
// Asked which nodes are similar to it, Node alone counts.
type Question struct {
	Node     store.NodeID
	Relation store.RelationID
	Heads    bool
}

// Answer is a node and its score: a decoder's, or how similar it is.
type Answer struct {
	Node  store.NodeID
	Score float32
}

// Kinds of answers.
const (
	Links  = "links"  // nodes that complete the edge, by the decoder
	Dot    = "dot"    // nodes whose vectors have the largest products with the node's; itself is left out
	Cosine = "cosine" // the same, of vectors of length 1; a vector of zeros is similar to none: 0
)

// FinderOptions says what a [Finder] finds.
type FinderOptions struct {
	Kind    string // "" = Links
	Unknown bool   // of Links: leave out what the graph or an edge list says already
	Top     int    // how many answers, at most RankerOptions.Top; 0: as many
}

// check finds options that no finder has.
func (o *FinderOptions) check(most int) error {
	if o.Kind == "" {
		o.Kind = Links
	}
	if o.Top == 0 {
		o.Top = most
	}
	if o.Top < 1 || o.Top > most || o.Kind != Links && (o.Kind != Dot && o.Kind != Cosine || o.Unknown) {
		return fmt.Errorf("eval: %d answers of kind %q, unknown ones %v: expected 1 to %d of %s, %s or %s", o.Top, o.Kind, o.Unknown, most, Links, Dot, Cosine)
	}
	return nil
}

// Finder finds the best of all nodes as answers to questions, exactly, in memory or streamed over embeddings larger than it. Of
// equal scores the smaller node comes first; a score that is no number is none. It is for one goroutine.
type Finder struct {
	v     *Ranker
	q     *gpu.Queue
	model *nn.LinkModel
	o     FinderOptions
	x     *spill.Table // vectors of all nodes
	free  func()
	norms []float32 // of a tile's vectors
}

// Find opens a finder of [RankerOptions].Top answers; an encoder's states of all nodes are computed once. Close it before v.
func (v *Ranker) Find(ctx context.Context, q *gpu.Queue, model *nn.LinkModel, embeddings Embeddings, o FinderOptions) (*Finder, error) {
	if err := o.check(v.o.Top); err != nil {
		return nil, err
	}
	f := &Finder{v: v, q: q, model: model, o: o}
	var err error
	if f.x, f.free, err = v.states(ctx, q, model, embeddings); err != nil {
		return nil, err
	}
	return f, nil
}

// As is the finder by other options, over the same states, which stay f's: it is not used after f is closed, nor beside it.
func (f *Finder) As(o FinderOptions) (*Finder, error) {
	if err := o.check(f.v.o.Top); err != nil {
		return nil, err
	}
	as := *f
	as.o, as.free = o, func() {}
	return &as, nil
}

// Close frees the finder's memory.
func (f *Finder) Close() {
	f.free()
	f.free = func() {}
}

// Dim is how many numbers the vector of a node has.
func (f *Finder) Dim() int { return int(f.x.RowBytes / 4) }

// Vectors are those of nodes, [nodes × Dim]: an encoder's states, or embeddings as they are, of which rows reads those of a partition's nodes
// from one on.
func (f *Finder) Vectors(ctx context.Context, nodes []store.NodeID, rows func(ctx context.Context, p store.PartitionID, first uint64, to []byte) error) ([]float32, error) {
	m, dim := f.v.st.Manifest(), f.Dim()
	vectors := make([]float32, len(nodes)*dim)
	for i, v := range nodes {
		p, err := m.Partition(v)
		if err != nil {
			return nil, err
		}
		to := blocks.Bytes(vectors[i*dim : (i+1)*dim])
		if f.x.Kept() {
			err = f.x.Read(to, uint64(v))
		} else {
			err = rows(ctx, p, uint64(v-m.Partitions[p].First), to)
		}
		if err != nil {
			return nil, fmt.Errorf("eval: vector of node %d: %w", v, err)
		}
	}
	return vectors, nil
}

// finderBatch bounds a batch of questions where no budget does.
const finderBatch = 4096

// Batch is how many questions are best asked at a time: each batch reads all vectors once.
func (f *Finder) Batch() int { return min(f.v.batchSize, finderBatch) }

// Ask returns the best answers to each question, the best first: all there are, if they are fewer.
func (f *Finder) Ask(ctx context.Context, questions []Question) ([][]Answer, error) {
	v := f.v
	if len(questions) == 0 {
		return nil, nil
	}
	b, of := newRankBatch(), make([]int32, len(questions))
	for i, k := range questions {
		n := question{uint32(k.Node), uint32(k.Relation)}
		switch {
		case uint64(k.Node) >= v.st.Manifest().Nodes || f.o.Kind == Links && uint32(k.Relation) >= v.relations:
			return nil, fmt.Errorf("eval: question %+v: the store has %d nodes and %d relations", k, v.st.Manifest().Nodes, v.relations)
		case f.o.Kind != Links:
			n.relation = 0
		case k.Heads:
			n.relation += v.relations
		}
		of[i] = b.ask(n)
	}
	best := make([]best, len(b.list))
	for i := range best {
		best[i].most = f.o.Top
	}
	m := meeting{known: f.o.Unknown, typed: f.o.Kind == Links, other: notAnswered, ask: v.query, score: f.model.Score, see: func(i int, scores []float32, c int, among candidates, known []uint64) {
		best[i].see(scores, c, among, knownOf(known, i, c, len(scores)))
	}}
	if f.o.Kind != Links {
		f.similar(b, best, &m)
	}
	if err := v.meetAll(ctx, f.q, f.model, f.x, b, m); err != nil {
		return nil, err
	}
	sorted := make([][]Answer, len(best))
	for i := range best {
		sorted[i] = best[i].sorted()
	}
	answers := make([][]Answer, len(questions))
	for i, at := range of {
		answers[i] = sorted[at]
	}
	return answers, nil
}

// similar makes m one of vectors as they are.
func (f *Finder) similar(b *rankBatch, best []best, m *meeting) {
	dot, err := nn.NewDecoder(nn.Dot, f.v.o.Model.Dim)
	if err != nil {
		panic(err) // the model's own dimensions
	}
	var own []float32 // norms of the questions' nodes
	m.score = dot.Scores
	m.ask = func(context.Context, *gpu.Queue, *nn.LinkModel, *rankBatch) error {
		own = appendNorms(nil, asFloat32(b.vectors.Bytes()[:int64(len(b.list))*f.x.RowBytes]), f.v.o.Model.Dim)
		return nil
	}
	m.tile = func(rows []byte) {
		if f.o.Kind == Cosine {
			f.norms = appendNorms(f.norms[:0], asFloat32(rows), f.v.o.Model.Dim)
		}
	}
	m.see = func(i int, scores []float32, c int, among candidates, _ []uint64) {
		if f.o.Kind == Cosine {
			for k := range scores {
				if by := own[i] * f.norms[c+k]; by > 0 {
					scores[k] /= by
				} else {
					scores[k] = 0
				}
			}
		}
		var self []uint64
		if at := among.position(b.list[i].end); at >= 0 {
			self = append(self, uint64(at))
		}
		best[i].see(scores, c, among, self)
	}
}

// appendNorms appends the lengths of rows of dim numbers.
func appendNorms(to, rows []float32, dim int) []float32 {
	for ; len(rows) >= dim; rows = rows[dim:] {
		sum := 0.
		for _, x := range rows[:dim] {
			sum += float64(x) * float64(x)
		}
		to = append(to, float32(math.Sqrt(sum)))
	}
	return to
}

// best is the best answers to a question so far: a heap, the worst one at its root.
type best struct {
	most int
	heap []Answer
}

// after reports whether a comes after b in the order of answers.
func (a Answer) after(b Answer) bool {
	return a.Score < b.Score || a.Score == b.Score && a.Node > b.Node
}

// see takes the scores of candidates from position c on, but for those at the positions left out, ascending, whose upper
// halves are ignored.
func (b *best) see(scores []float32, c int, among candidates, out []uint64) {
	for k, s := range scores {
		for len(out) > 0 && int(uint32(out[0])) < c+k {
			out = out[1:]
		}
		if len(out) > 0 && int(uint32(out[0])) == c+k || s != s {
			continue
		}
		if len(b.heap) == b.most && !(s >= b.heap[0].Score) {
			continue
		}
		a := Answer{Node: among.node(c + k), Score: s}
		switch {
		case len(b.heap) < b.most:
			b.heap = append(b.heap, a)
			b.up(len(b.heap) - 1)
		case b.heap[0].after(a):
			b.heap[0] = a
			b.down(0, len(b.heap))
		}
	}
}

func (b *best) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !b.heap[i].after(b.heap[p]) {
			return
		}
		b.heap[i], b.heap[p] = b.heap[p], b.heap[i]
		i = p
	}
}

func (b *best) down(i, n int) {
	for {
		worst := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if b.heap[c].after(b.heap[worst]) {
				worst = c
			}
		}
		if worst == i {
			return
		}
		b.heap[i], b.heap[worst] = b.heap[worst], b.heap[i]
		i = worst
	}
}

// sorted returns the answers, the best first; b is of no further use.
func (b *best) sorted() []Answer {
	for n := len(b.heap) - 1; n > 0; n-- {
		b.heap[0], b.heap[n] = b.heap[n], b.heap[0]
		b.down(0, n)
	}
	return b.heap
}
