package gpu

import (
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
)

// BlockSampler is a [Stream] that draws the blocks of mini-batches from neighbour lists that lie on its device: those of package mini's uniform
// sampler, entry for entry. [Info].Samples says which devices have one; elsewhere the host samples. Operations are documented at Queue's
// methods of the same name.
type BlockSampler interface {
	SampleBlocks(l Lists, s Sampled)
	PadBlock(from, to Graph)
	PadNumbers(x, out Tensor, added int32, repeat bool)
}

// FanoutMax is the most neighbours of a node that a [BlockSampler] draws, beside all of them: one thread looks through those that it drew.
const FanoutMax = 128

// Lists are the neighbour lists of a macro-batch, as the host has them (buffer.Adjacency): those of row r are Indices[Spans[2r]:Spans[2r+1]].
type Lists struct {
	Spans   Tensor // Uint64[1×2·rows]
	Indices Tensor // Uint32: rows
	// Shifts tell where rows in Indices, which are the host's, lie on the device: r is row r + Shifts[r>>Shift], modulo 2³². None: they lie
	// as on the host. Uint32.
	Shifts Tensor
	Shift  int
	First  Tensor // Uint32[1×rows], scratch: 0 before a mini-batch and behind it
}

// Sampled is a mini-batch whose blocks are drawn on a device: room for the largest there can be.
type Sampled struct {
	Seeds   int
	Input   Tensor // Uint32: the seeds' rows, distinct; behind them come the rows that were reached, in the order in which they were
	Degrees Tensor // Int32, as long: how many neighbours each of Input has
	Hops    []SampledHop
	// Sizes are how large it became, Int32[1×2·hops+1]: Sizes[2h] nodes were reached before hop h, the seeds first; Sizes[2h+1] edges hop h has.
	Sizes Tensor
}

// SampledHop is what one hop, counted outward from the seeds, draws with.
type SampledHop struct {
	Fanout int    // neighbours of a node, at most [FanoutMax], or −1 for all
	Key    uint64 // of its draws, see package keyed
	Graph         // Indptr and Indices have room for NumDst nodes and so many edges; NumSrc is the most nodes that are reached behind it
}

// sampler is q's stream, if it draws blocks, else nil.
func (q *Queue) sampler() BlockSampler {
	s, _ := q.stream.(BlockSampler)
	return s
}

// SampleBlocks draws the blocks of s from l. What s has no room for is not looked for: the caller knows how large mini-batches can be.
func (q *Queue) SampleBlocks(l Lists, s Sampled) {
	const op = "sample blocks"
	rows, nodes := l.First.Cols, s.Seeds
	checks := []error{q.canSample(op), vector(op, "spans", l.Spans, blocks.Uint64, 2*rows), vector(op, "indices", l.Indices, blocks.Uint32, l.Indices.Cols),
		vector(op, "first", l.First, blocks.Uint32, rows), vector(op, "shifts", l.Shifts, blocks.Uint32, l.Shifts.Cols),
		vector(op, "sizes", s.Sizes, blocks.Int32, 2*len(s.Hops)+1),
		vector(op, "input", s.Input, blocks.Uint32, s.Input.Cols), vector(op, "degrees", s.Degrees, blocks.Int32, s.Input.Cols)}
	if len(s.Hops) == 0 || s.Seeds < 1 || s.Seeds > rows {
		checks = append(checks, shapef(op, "%d hops from %d seeds of %d rows", len(s.Hops), s.Seeds, rows))
	}
	for i, h := range s.Hops {
		checks = append(checks, h.check(op))
		if h.Fanout == 0 || h.Fanout < -1 || h.Fanout > FanoutMax || h.NumDst < nodes || h.NumSrc < h.NumDst || h.NumSrc > s.Input.Cols || int64(h.NumDst)+int64(h.Edges()) >= math.MaxUint32 {
			checks = append(checks, shapef(op, "hop %d: fanout %d, room for %d nodes and %d edges, for %d behind it", i, h.Fanout, h.NumDst, h.Edges(), h.NumSrc))
		}
		nodes = h.NumDst
	}
	if q.ok(checks...) {
		q.sampler().SampleBlocks(l, s)
	}
}

// PadBlock copies a block to one of more destinations, edges and sources, or of equally many, as package replay pads: what is added is a
// graph of its own. to.NumSrc counts the added sources too, which begin behind from's.
func (q *Queue) PadBlock(from, to Graph) {
	const op = "pad block"
	checks := []error{q.canSample(op), from.check(op), to.check(op), disjoint(op, to.Indptr, from.Indptr), disjoint(op, to.Indices, from.Indices)}
	if more := to.Edges() - from.Edges(); to.NumDst < from.NumDst || more < 0 || more > 0 && (to.NumDst == from.NumDst || to.NumSrc <= from.NumSrc) {
		checks = append(checks, shapef(op, "%d destinations, %d edges from %d sources do not become %d, %d, %d", from.NumDst, from.Edges(), from.NumSrc, to.NumDst, to.Edges(), to.NumSrc))
	}
	if q.ok(checks...) {
		q.sampler().PadBlock(from, to)
	}
}

// PadNumbers copies x, Int32[1×n] or Uint32, to the beginning of out, and sets what is behind it to added or, with repeat, to x's first.
func (q *Queue) PadNumbers(x, out Tensor, added int32, repeat bool) {
	const op = "pad numbers"
	elem, least := blocks.Int32, 0
	if x.Elem == blocks.Uint32 {
		elem = blocks.Uint32
	}
	if repeat {
		least = 1
	}
	if q.ok(q.canSample(op), vector(op, "x", x, elem, max(least, min(x.Cols, out.Cols))), vector(op, "out", out, elem, out.Cols), disjoint(op, out, x)) && out.Len() > 0 {
		q.sampler().PadNumbers(x, out, added, repeat)
	}
}

func (q *Queue) canSample(op string) error {
	if q.sampler() != nil {
		return nil
	}
	return fmt.Errorf("gpu: %s: %s draws no mini-batches: the host does", op, q.dev.Info().Name)
}
