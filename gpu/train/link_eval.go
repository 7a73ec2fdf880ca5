package train

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
)

// LinkMetrics is how well a model answers (head, r, ?) and (?, r, tail) for the
// edges of a list, each against all nodes. A node that scores equal to the answer counts half.
type LinkMetrics struct {
	Queries int64   `json:"queries"` // two an edge
	MRR     float64 `json:"mrr"`     // mean of 1/rank
	Hits1   float64 `json:"hits1"`   // share of ranks ≤ 1
	Hits3   float64 `json:"hits3"`
	Hits10  float64 `json:"hits10"`
}

// scoreBlockBytes is the memory of the scores computed at once.
const scoreBlockBytes = 8 << 20

// question is (known end, relation row): all nodes are scored once for all its answers.
type question struct {
	end      uint64 // internal id
	relation uint32 // of nn.LinkBatch: r, or r + relations where the head is asked for
}

// questions are those of an edge list with what answers them.
type questions struct {
	list    []question
	answers [][]uint32 // in the list: to be ranked
	known   [][]uint32 // in any list or in the graph, ascending: left out when others are ranked
	number  map[question]int
}

// readQuestions reads the edge list name and, to filter, every edge of mb and of all edge lists.
func readQuestions(ctx context.Context, st *store.Store, mb *store.MacroBatch, name string) (*questions, error) {
	m := st.Manifest()
	relations := uint32(len(m.Schema.Relations))
	qs := &questions{number: make(map[question]int)}
	each := func(name string, f func(q question, answer uint32)) error {
		r, err := st.EdgeList(ctx, name)
		if err != nil {
			return fmt.Errorf("train: edge list %s: %w", name, err)
		}
		for r.Next() {
			e := r.Edge()
			f(question{uint64(e.Src), uint32(e.Relation)}, uint32(e.Dst))
			f(question{uint64(e.Dst), uint32(e.Relation) + relations}, uint32(e.Src))
		}
		return r.Err()
	}
	if err := each(name, func(q question, answer uint32) {
		i, ok := qs.number[q]
		if !ok {
			i = len(qs.list)
			qs.number[q] = i
			qs.list, qs.answers, qs.known = append(qs.list, q), append(qs.answers, nil), append(qs.known, nil)
		}
		qs.answers[i] = append(qs.answers[i], answer)
	}); err != nil {
		return nil, err
	}
	know := func(q question, answer uint32) {
		if i, ok := qs.number[q]; ok {
			qs.known[i] = append(qs.known[i], answer)
		}
	}
	for _, l := range m.EdgeLists {
		if err := each(l.Name, know); err != nil {
			return nil, err
		}
	}
	id := rowIDs(mb)
	for _, p := range mb.Partitions {
		for k := range p.Nodes {
			dst, span := uint64(p.First)+uint64(k), mb.In.Spans[p.Base+k]
			for at := span.Begin; at < span.End; at++ {
				var r uint32
				if mb.In.Relations != nil {
					r = uint32(mb.In.Relations[at])
				}
				src := id(mb.In.Indices[at])
				know(question{src, r}, uint32(dst))
				know(question{dst, r + relations}, uint32(src))
			}
		}
	}
	for i := range qs.known {
		slices.Sort(qs.known[i])
		qs.known[i] = slices.Compact(qs.known[i])
	}
	return qs, nil
}

// rowIDs returns the function from a macro-batch's rows to internal ids.
func rowIDs(mb *store.MacroBatch) func(row uint32) uint64 {
	return func(row uint32) uint64 {
		p := partitionOf(mb.Partitions, row)
		return uint64(p.First) + uint64(row-p.Base)
	}
}

// linkEvaluator ranks exactly, with every node in memory.
type linkEvaluator struct {
	t      *linkTrainer
	dev    gpu.Device
	states gpu.Memory // [nodes × dim] by internal id
	all    gpu.Tensor
}

func newLinkEvaluator(t *linkTrainer, nodes int) (*linkEvaluator, error) {
	dev := t.queue.Device()
	mem, err := dev.Alloc(int64(nodes) * int64(t.cfg.Dim) * 4)
	if err != nil {
		return nil, fmt.Errorf("train: states of %d nodes: %w", nodes, err)
	}
	return &linkEvaluator{t: t, dev: dev, states: mem, all: gpu.MatrixOf(mem, 0, nodes, t.cfg.Dim)}, nil
}

func (v *linkEvaluator) close() error { return v.states.Free() }

// encode computes the states of all nodes, with all their neighbours.
func (v *linkEvaluator) encode(ctx context.Context, mb *store.MacroBatch, e *embeddings) (err error) {
	q, dim := v.t.queue, v.t.cfg.Dim
	if v.t.model.Hops() == 0 {
		for _, p := range mb.Partitions {
			q.Copy(v.all.View(int(p.First), 0, int(p.Nodes), dim), e.value.View(int(p.Base), 0, int(p.Nodes), dim))
		}
		return q.Sync(ctx)
	}
	s, err := mini.New(mini.Config{Fanouts: []int{mini.All}})
	if err != nil {
		return err
	}
	const size = 1000
	var b mini.Batch
	seeds := make([]uint32, 0, size)
	for _, p := range mb.Partitions {
		for lo := 0; lo < int(p.Nodes); lo += size {
			n := min(size, int(p.Nodes)-lo)
			seeds = seeds[:0]
			for k := range n {
				seeds = append(seeds, p.Base+uint32(lo+k))
			}
			if err := s.Sample(mini.Key{}, mini.Graph{In: mb.In, Out: mb.Out}, seeds, &b); err != nil {
				return err
			}
			g := v.t.graph(mb, &b)
			x := v.t.model.Encode(&nn.Pass{Queue: q, Arena: v.t.arena}, &g, nn.Input{Tables: []gpu.Tensor{e.value}, Index: v.t.arena.Uint32s(q, b.Input)})
			q.Copy(v.all.View(int(p.First)+lo, 0, n, dim), x)
			if err := q.Sync(ctx); err != nil {
				return err
			}
			if err := v.t.arena.Reset(); err != nil {
				return err
			}
		}
	}
	return nil
}

// rank computes the filtered metrics of the states last encoded.
func (v *linkEvaluator) rank(ctx context.Context, qs *questions) (LinkMetrics, error) {
	nodes := v.all.Rows
	block := max(1, min(len(qs.list), scoreBlockBytes/4/max(nodes, 1)))
	scores := make([]float32, block*nodes)
	mem, err := v.dev.Map(floatBytes(scores))
	if err != nil {
		return LinkMetrics{}, err
	}
	defer func() { _ = mem.Free() }() // borrowed: nothing is freed
	var m LinkMetrics
	ends, relations := make([]uint32, 0, block), make([]uint32, 0, block)
	ranks := make([][]float64, block)
	for lo := 0; lo < len(qs.list); lo += block {
		n := min(block, len(qs.list)-lo)
		ends, relations = ends[:0], relations[:0]
		for _, q := range qs.list[lo : lo+n] {
			ends, relations = append(ends, uint32(q.end)), append(relations, q.relation)
		}
		if err := v.score(ctx, ends, relations, gpu.MatrixOf(mem, 0, n, nodes)); err != nil {
			return LinkMetrics{}, err
		}
		var wg sync.WaitGroup
		for w := range v.t.cfg.Threads {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := w; i < n; i += v.t.cfg.Threads {
					ranks[i] = ranks[i][:0]
					for _, answer := range qs.answers[lo+i] {
						ranks[i] = append(ranks[i], rankOf(scores[i*nodes:(i+1)*nodes], answer, qs.known[lo+i]))
					}
				}
			}()
		}
		wg.Wait()
		for _, of := range ranks[:n] {
			for _, r := range of {
				m.add(r)
			}
		}
	}
	return m.mean(), nil
}

// score sets out to the scores of questions with all nodes.
func (v *linkEvaluator) score(ctx context.Context, ends, relations []uint32, out gpu.Tensor) error {
	q, a := v.t.queue, v.t.arena
	known := a.Matrix(q, len(ends), v.all.Cols)
	if q.Err() == nil {
		q.Gather(known, v.all, a.Uint32s(q, ends))
		p := &nn.Pass{Queue: q, Arena: a}
		query := v.t.model.Query(p, known, a.Uint32s(q, relations))
		if q.Err() == nil {
			v.t.model.Score(p, query, v.all, out)
		}
	}
	if err := q.Sync(ctx); err != nil {
		return err
	}
	return a.Reset()
}

// rankOf returns 1 + the nodes that score higher than answer + half of those
// that score the same, the other known answers left out. What is not a number counts as higher.
func rankOf(scores []float32, answer uint32, known []uint32) float64 {
	s := scores[answer]
	var above, equal int
	for _, v := range scores {
		if v > s || v != v {
			above++
		}
		if v == s {
			equal++
		}
	}
	if s != s {
		return float64(len(scores))
	}
	for _, k := range known {
		switch v := scores[k]; {
		case k == answer:
		case v == s:
			equal--
		case v > s || v != v:
			above--
		}
	}
	return 1 + float64(above) + float64(equal-1)/2
}

// add counts one rank: the fields are sums until mean.
func (m *LinkMetrics) add(rank float64) {
	m.Queries++
	m.MRR += 1 / rank
	for _, h := range []struct {
		at  float64
		sum *float64
	}{{1, &m.Hits1}, {3, &m.Hits3}, {10, &m.Hits10}} {
		if rank <= h.at {
			*h.sum++
		}
	}
}

func (m LinkMetrics) mean() LinkMetrics {
	n := float64(max(m.Queries, 1))
	return LinkMetrics{m.Queries, m.MRR / n, m.Hits1 / n, m.Hits3 / n, m.Hits10 / n}
}
