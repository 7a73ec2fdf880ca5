package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sort"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
)

// RankerOptions configures a [Ranker].
type RankerOptions struct {
	Model       nn.LinkConfig // what will be evaluated: it decides what a node takes
	MemoryBytes int64         // bound of what the evaluator allocates; 0: none
	Threads     int           // that count ranks; 0: all processors
	// Against is what answers are ranked against: AgainstGiven, the negatives that the store has of a list ([store.NegativesSuffix],
	// [store.SharedNegativesSuffix]);
	// AgainstAll or "" (default), Candidates; AgainstAuto, given ones of lists that have some, unless there are Candidates.
	Against string
	// Candidates is how many nodes, drawn from Seed, an answer is ranked against; 0: all.
	Candidates int
	Seed       uint64
	// Top is how many answers a question of a [Finder] gets; 0: none are asked.
	Top int
	// Relation, if not nil, is the one whose edges of a list are ranked; others are left out.
	Relation *store.RelationID
	// Types, if not nil, are those of answers: an answer is ranked against, and found among, nodes of these alone.
	Types *AnswerTypes
	// Detail asks for [RankMetrics].Detail of lists that are ranked among all nodes or a sample.
	Detail bool
}

// A block of scores takes 1/evalScoreShare of the memory, a batch of questions with their vectors 1/evalBatchShare of what
// is left, a tile of candidates the rest.
const (
	evalScoreShare = 4
	evalBatchShare = 4
)

// Ranker ranks the answers of edge lists exactly, in memory or streamed over a store
// of embeddings larger than memory.
//
// An encoder's states are computed with all neighbours by streaming edge buckets, layer by layer as
// [Evaluator] does, into memory or a temporary file. Then batches of
// questions meet tiles of candidates: a batch's known ends and answers are gathered, every tile's
// states are read once for it, and for each answer the candidates that score higher or the same are counted. The edges
// that filter are read with the tile, from the store: memory holds one tile's states, and those of its edges
// that answer a question of the batch.
//
// Given the same states, ranks do not depend on tiles, batches or threads: a score depends on
// its query and candidate alone. An encoder's states are those of an [Evaluator]: gat's and rgcn's, and with
// them a rank in many thousands, may differ in the last bit between budgets.
//
// A Ranker is for one goroutine.
type Ranker struct {
	st     *store.Store
	o      RankerOptions
	e      *Evaluator  // of the encoder; its tiles are the ranks' too
	filter edgeBuilder // with relations, both ways
	// relations of the store: the question (?, r, tail) has relation r + relations.
	relations uint32
	counts    []relationCounts // by relation; nil until a detail is asked for
	sample    []uint32         // candidates, ascending; nil: all nodes
	batchSize int              // answers

	scoreBytes int64         // of a block of scores
	scores     *blockio.Slab // that block; nil until used
	tile       *blockio.Slab // states of a tile that do not lie in memory
	some       *blockio.Slab // of the sampled ones among them
	types      *blockio.Slab // of a tile's nodes
	read       int64
}

// NewRanker plans evaluations of models like o.Model. A budget too small for the smallest
// tiles is [store.ErrBudget].
func NewRanker(st *store.Store, dev gpu.Device, o RankerOptions) (*Ranker, error) {
	m := st.Manifest()
	relations := max(1, len(m.Schema.Relations))
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if m.Nodes > 1<<32-1 {
		return nil, fmt.Errorf("evaluation of %d nodes, at most 2^32−1 are numbered with 32 bits", m.Nodes)
	}
	if err := CheckAgainst(cmp.Or(o.Against, AgainstAll), o.Candidates); err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	v := &Ranker{st: st, o: o, relations: uint32(relations), batchSize: 1 << 17, scoreBytes: scoreBytes}
	v.e = &Evaluator{src: st, dev: dev, o: Options{Model: o.Model.Layer()}, arena: gpu.NewArena(dev),
		edges: edgeBuilder{src: st, parts: m.Partitions, inverse: uint16(relations)}}
	v.filter = v.e.edges
	if o.Types != nil {
		v.e.nodeBytes = 4
	}
	if len(m.ColumnsOf(store.RoleRelation)) > 0 {
		if err := v.filter.readRelations(m); err != nil {
			return nil, err
		}
	}
	if o.MemoryBytes > 0 {
		var batch int64
		v.scoreBytes, batch, v.e.o.MemoryBytes = divideRanker(max(1, o.MemoryBytes-v.sharedBytes()))
		v.batchSize = int(min(int64(v.batchSize), batch/v.answerBytes()))
		if least := v.answersLeast(); v.batchSize < least {
			return nil, fmt.Errorf("evaluation within %d bytes: %w: scores take %d, %d answers %d", o.MemoryBytes, store.ErrBudget, v.scoreBytes, least, int64(least)*v.answerBytes())
		}
	}
	if err := v.e.plan(o.Model.Dim); err != nil {
		return nil, err
	}
	if o.Candidates > 0 && uint64(o.Candidates) < m.Nodes {
		v.sample = SampleCandidates(m.Nodes, o.Candidates, o.Seed)
	}
	return v, nil
}

// divideRanker divides what a ranker may hold among a block of scores, a batch of questions and a tile of candidates.
func divideRanker(bytes int64) (scores, batch, tile int64) {
	scores = min(scoreBytes, max(scoreBytesMin, bytes/evalScoreShare&^(blockio.Alignment-1)))
	batch = (bytes - scores) / evalBatchShare
	return scores, batch, bytes - scores - batch
}

// LeastBytes is the smallest [RankerOptions].MemoryBytes with which a ranker like this one works, to 4 KiB.
func (v *Ranker) LeastBytes() int64 {
	const unit, most = 4 << 10, 1 << 34
	least := v.answersLeast()
	shared := (v.sharedBytes() + unit - 1) / unit * unit
	return shared + unit*int64(1+sort.Search(most, func(n int) bool {
		_, batch, tile := divideRanker(unit * int64(n+1))
		return batch >= int64(least)*v.answerBytes() && tile >= v.e.LeastBytes()
	}))
}

// SampleCandidates returns n < nodes different nodes, uniformly drawn, ascending: whom answers are
// ranked against where [RankerOptions].Candidates is n.
func SampleCandidates(nodes uint64, n int, seed uint64) []uint32 {
	p := keyed.NewPermutation(keyed.New(seed).With(placeCandidates), nodes)
	some := make([]uint32, n)
	for i := range some {
		some[i] = uint32(p.At(uint64(i)))
	}
	slices.Sort(some)
	return some
}

// answerBytes is what an answer takes in a batch: vectors of itself and of its question, and records.
func (v *Ranker) answerBytes() int64 {
	if v.o.Top > 0 {
		return 4*int64(v.o.Model.Dim) + 200 + 24*int64(v.o.Top) // of a question, with its answers twice: as found and as returned
	}
	return 8*int64(v.o.Model.Dim) + 160
}

// BytesRead returns the bytes read from the store and from embeddings so far.
func (v *Ranker) BytesRead() int64 { return v.read + v.e.BytesRead() + v.filter.bytes }

// Tiles returns into how many pieces the nodes are cut.
func (v *Ranker) Tiles() int { return len(v.e.tiles) }

// Embeddings returns partition p's embeddings as float32 rows in the order of its nodes. They are valid until the next call.
type Embeddings func(ctx context.Context, p store.PartitionID) ([]byte, error)

// Run ranks the edges of lists by model and embeddings.
func (v *Ranker) Run(ctx context.Context, q *gpu.Queue, model *nn.LinkModel, embeddings Embeddings, lists ...string) ([]RankMetrics, error) {
	x, free, err := v.states(ctx, q, model, embeddings)
	if err != nil {
		return nil, err
	}
	defer free()
	var all []RankMetrics
	for _, name := range lists {
		m, err := v.rank(ctx, q, model, x, name)
		if err != nil {
			return nil, fmt.Errorf("evaluation: rank edge list %s: %w", name, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// states returns what scores are computed from, until free is called: the embeddings, or an encoder's states of all nodes.
func (v *Ranker) states(ctx context.Context, q *gpu.Queue, model *nn.LinkModel, embeddings Embeddings) (x *spill.Table, free func(), err error) {
	x = spill.View(4*int64(v.o.Model.Dim), func(b []byte, first uint64) error { return v.fill(ctx, embeddings, b, first) })
	r := v.e.begin(q)
	r.in = x
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if len(v.o.Model.Features) > 0 { // inputs that are computed are computed once
		if err := v.keep(r, x); err != nil {
			return nil, nil, err
		}
	}
	if model.ReadsDegrees() {
		if err := r.countEdges(ctx); err != nil {
			return nil, nil, fmt.Errorf("evaluation: degrees: %w", err)
		}
	}
	for l, layer := range model.Streamers() {
		if r.out, err = spill.New(v.st.Manifest().Nodes, x.RowBytes, v.e.memory, v.st.ScratchDir()); err != nil {
			return nil, nil, err
		}
		for i := range v.e.tiles {
			if err := r.tile(ctx, layer, i, nil, false); err != nil {
				return nil, nil, fmt.Errorf("evaluation: encode all nodes, layer %d: %w", l, err)
			}
		}
		r.in.Close()
		r.in, r.out = r.out, nil
	}
	if err := r.freeSums(); err != nil {
		return nil, nil, fmt.Errorf("evaluation: %w", err)
	}
	return r.in, r.close, nil
}

// keep makes r's input a table of x's rows.
func (v *Ranker) keep(r *evaluation, x *spill.Table) (err error) {
	if r.out, err = spill.New(v.st.Manifest().Nodes, x.RowBytes, v.e.memory, v.st.ScratchDir()); err != nil {
		return err
	}
	for _, t := range v.e.tiles {
		rows, err := x.Rows(&v.tile, t.Base, t.Nodes)
		if err == nil {
			err = r.out.Write(rows, t.Base)
		}
		if err != nil {
			return err
		}
	}
	r.in, r.out = r.out, nil
	err = v.tile.Free() // its room is the evaluator's
	v.tile = nil
	return err
}

// fill reads the embeddings of nodes from first on, whole partitions.
func (v *Ranker) fill(ctx context.Context, embeddings Embeddings, b []byte, first uint64) error {
	row := 4 * v.o.Model.Dim
	for i, p := range v.st.Manifest().Partitions {
		at := int64(uint64(p.First)-first) * int64(row)
		if uint64(p.First) < first || at >= int64(len(b)) || p.Nodes == 0 {
			continue
		}
		rows, err := embeddings(ctx, store.PartitionID(i))
		if err != nil {
			return err
		}
		if len(rows) != int(p.Nodes)*row {
			return fmt.Errorf("evaluation: embeddings of partition %d are %d bytes, expected %d", i, len(rows), int(p.Nodes)*row)
		}
		copy(b[at:], rows)
		v.read += int64(len(rows))
	}
	return nil
}

// Close frees the evaluator's memory.
func (v *Ranker) Close() error {
	err := v.e.Close()
	for _, s := range []*blockio.Slab{v.scores, v.tile, v.some, v.types} {
		err = errors.Join(err, s.Free())
	}
	v.scores, v.tile, v.some, v.types = nil, nil, nil, nil
	return err
}
