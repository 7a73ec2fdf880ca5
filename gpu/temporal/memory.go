package temporal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/meter"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// Holders of a run's memory, beside the program.
const (
	holdsGraph   = "graph"
	holdsEvents  = "edges in order of time"
	holdsModel   = "model"
	holdsBatch   = "mini-batches"
	holdsSampled = "sampled batches"
	holdsEval    = "evaluation"
	holdsCopy    = "copy of the model"
)

// use is what a graph is opened for.
type use struct {
	train bool  // a run, which evaluates as well
	saved int64 // bytes of the model's file, of one that was trained before
}

// forecast says who holds what of a run of cfg, which is normalized, or of one that uses its model, in its account: whatever the budget is,
// since the whole graph is in memory. Tensors are counted by running the model on a [meter.Device] with batches of the largest size.
func forecast(ctx context.Context, st *store.Store, info gpu.Info, cfg *Config, o buffer.Options, u use) (a budget.Account, err error) {
	m := st.Manifest()
	f, err := buffer.OpenForecaster(ctx, st, o)
	if err != nil {
		return a, err
	}
	graph, err := f.LeastBytes(0)
	if err = errors.Join(err, f.Close()); err != nil {
		return a, err
	}
	s := sizes{cfg: cfg, rows: int(m.Nodes), edges: int(m.Edges), candidates: candidatesMost(m)}
	held, err := s.measure(ctx, m, info, o.Features, u.train)
	if err != nil {
		return a, err
	}
	a.TotalBytes = cfg.MemoryBytes
	a.Hold(budget.Program, budget.ProgramBytes, false)
	a.Hold(holdsGraph, graph, false)
	a.HoldHeap(holdsEvents, s.eventBytes())
	if !info.OwnMemory() {
		a.Hold(holdsModel, held.model, false)
		a.Hold(holdsBatch, held.tensors, false)
	}
	a.HoldHeap(holdsSampled, held.sampled)
	a.HoldHeap(holdsEval, held.eval)
	copies := u.saved + held.values // the file, and all values as they are restored
	if u.train {
		copies = 2 * held.values // the result
		if cfg.CheckpointFile != "" {
			copies = max(copies, held.state)
		}
	}
	a.HoldHeap(holdsCopy, copies)
	return a, nil
}

// candidatesMost bounds the nodes that edges may lead to: those of the types that relations name at their end, if they name them, and all
// where each node was given an edge to itself.
func candidatesMost(m *store.Manifest) int {
	if m.Ingest["self_loops"] == "add" {
		return int(m.Nodes)
	}
	ends := map[string]bool{}
	for _, r := range m.Schema.Relations {
		parts := strings.Split(r.Name, ":")
		if len(parts) != 3 {
			return int(m.Nodes)
		}
		ends[parts[2]] = true
	}
	n := uint64(0)
	for _, t := range m.Schema.NodeTypes {
		if ends[t.Name] {
			n += t.Count
		}
	}
	if n == 0 {
		n = m.Nodes
	}
	return int(n)
}

// sizes are those of a graph, as far as its manifest knows them.
type sizes struct {
	cfg                     *Config
	rows, edges, candidates int // candidates: at most
}

// eventBytes are those of [data] on the heap, and of the edges that are ranked.
func (s *sizes) eventBytes() int64 {
	const event, place, candidate = 16, 4, 12 // a list of candidates grows by copies
	ranked := 2 * min(s.cfg.EvalEdges, s.edges)
	return event*int64(s.edges+ranked) + 8*int64(ranked) + place*int64(s.rows) + candidate*int64(s.candidates)
}

// held is what the parts of a run take, in bytes.
type held struct {
	model, tensors int64 // of the device
	values, state  int64 // of the model, on the host: once, and as a checkpoint has it
	sampled, eval  int64 // of the heap
}

// measure runs the model on a meter.
func (s *sizes) measure(ctx context.Context, m *store.Manifest, info gpu.Info, features []string, train bool) (h held, err error) {
	dev := meter.New(info)
	mb := &buffer.MacroBatch{Rows: 1} // vectors may be many: they are counted, not made
	for _, name := range features {
		c, err := m.Column(name)
		if err != nil {
			return h, err
		}
		mb.Features = append(mb.Features, buffer.Column{Name: c.Name, Type: c.Elem, Dim: c.Dim, Stride: c.RowBytes(), Scale: c.Scale, Data: make([]byte, c.RowBytes())})
	}
	model, err := newModel(ctx, dev, s.cfg, &data{mb: mb})
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, model.close()) }()
	model.arena.Bound(math.MaxInt64 / 2) // one chunk: tensors are counted, not chunks
	const ranges, moments = 5, 2         // of parameters, see nn.Params; of vectors beside them
	vectors := 4 * int64(s.rows-1) * int64(s.cfg.Dim)
	h.model = dev.Bytes() + (ranges+moments)*vectors
	h.values = model.params.Bytes()/ranges + vectors
	h.state = (ranges-1)*h.values + moments*(vectors+4*int64(s.cfg.Dim))
	if train {
		b := s.batch(min(s.cfg.BatchSize, s.edges), s.cfg.Negatives, model.ages.columns(), false)
		if _, err := model.step(ctx, b); err != nil {
			return h, fmt.Errorf("what a mini-batch takes: %w", err)
		}
		threads := int64(max(1, s.cfg.Threads-1))
		h.sampled = (threads+loaderAhead)*s.batchBytes(b) + threads*s.samplerBytes(b)
	}
	// The fewest queries of all candidates, and the most of as many as then fit in a batch.
	for _, c := range []int{s.candidates, max(1, min(s.candidates, scoresMax/s.cfg.BatchSize))} {
		n := evalBatch(s.cfg, c)
		b := s.batch(n, c, model.ages.columns(), true)
		x := b.Extra.(*extra)
		numbers := x.numbers
		x.numbers = nil // an evaluation asks query by query
		if s.cfg.NoRecency {
			numbers = nil
		}
		if _, err := model.score(ctx, b, numbers, nil); err != nil {
			return h, fmt.Errorf("what an evaluation takes: %w", err)
		}
		x.numbers = numbers
		h.eval = max(h.eval, s.batchBytes(b)+s.samplerBytes(b)+5*int64(n)*int64(c)+24*int64(c))
	}
	h.tensors = model.arena.Peak()
	return h, nil
}

// batch is one of n queries with so many wrong answers and the most edges and rows.
func (s *sizes) batch(n, wrong, columns int, all bool) *mini.Batch {
	fanout := 2 * s.cfg.Fanouts[0] // of edges to a node, and of those from it
	edges := n * fanout
	block := mini.Block{NumDst: n, Indptr: make([]int32, n+1), Indices: make([]int32, edges), Times: make([]int64, edges)}
	for d := range n {
		block.Indptr[d+1] = int32((d + 1) * fanout)
	}
	answers := n
	if all { // they are among the candidates
		answers = 0
	}
	rows := min(s.rows, wrong+answers+n+edges)
	x := &extra{rows: make([]uint32, rows), vectors: min(rows, s.candidates), self: make([]uint32, n), sources: make([]int32, edges), answers: make([]uint32, n),
		wrong: make([]uint32, wrong), draws: make([]uint32, wrong), all: make([]uint32, edges), ages: make([]float32, edges*columns)}
	if !s.cfg.NoRecency {
		scores := wrong
		if !all {
			scores++
		}
		x.numbers = make([]float32, n*scores*recencyDim)
	}
	if !all {
		x.mask = make([]uint32, n*wrong)
	}
	return &mini.Batch{Seeds: make([]uint32, n), Times: make([]int64, n+edges), Input: make([]uint32, n+edges), Blocks: []mini.Block{block}, Extra: x}
}

// batchBytes is what a batch takes of the heap: lists are a quarter longer than was asked for, and each batch knows the last meetings of
// all rows (recency).
func (s *sizes) batchBytes(b *mini.Batch) int64 {
	x, k := b.Extra.(*extra), &b.Blocks[0]
	lists := 4*int64(len(b.Seeds)+len(b.Input)+len(k.Indptr)+len(k.Indices)+len(x.rows)+len(x.self)+len(x.sources)+len(x.answers)+len(x.wrong)+
		len(x.draws)+len(x.all)+len(x.ages)+len(x.numbers)+len(x.mask)) + 8*int64(len(b.Times)+len(k.Times))
	const recencyRow = 4 + 8 + 4 + 4 + 4 + 4 + 4 // its lists by row, what was met and what is met now
	return lists + lists/4 + recencyRow*int64(s.rows) + 8*mini.TableSlots(len(x.rows))
}

// samplerBytes is what a sampler of such batches takes: its table, and spans and places of its edges.
func (s *sizes) samplerBytes(b *mini.Batch) int64 {
	return 8*mini.TableSlots(len(b.Input)) + 32*int64(len(b.Input))
}

// loaderAhead is how many batches more than it has threads a loader holds (mini.LoaderOptions).
const loaderAhead = 2
