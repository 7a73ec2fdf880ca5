package mini

import (
	"fmt"
	"math"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store/buffer"
)

// All as a fanout takes every neighbour.
const All = -1

// Config says how a [Sampler] draws.
type Config struct {
	// Fanouts are the neighbours drawn per node and hop, listed outward from
	// the seeds; [All] takes every one. Its length is the number of blocks;
	// without any a batch's input is its seeds.
	Fanouts []int
	// OutFanouts are the same for [Graph.Out]; nil means the same as Fanouts.
	OutFanouts []int
	// RelationFanouts, if not nil, are the neighbours drawn per node and hop of the edges of each relation, in each
	// direction: [hop][relation], [All] for every one. Relations past the end take Fanouts of the hop; a hop whose list is nil draws by
	// these of all relations together. For [Uniform] alone, and without OutFanouts.
	RelationFanouts [][]int
	// Without names relations whose edges are not drawn, of hops that have RelationFanouts: [hop][relation], inverse ones
	// behind [Graph].Relations. Those past the end are drawn.
	Without [][]bool
	// Sampler is one of [Samplers] or [TimedSamplers]; "" means Uniform.
	Sampler string
	// Seed keys every draw.
	Seed uint64
	// Together is how many consecutive batches of a pass are drawn together, as parts of one large batch (large-batch
	// sampling, thesis section 5.2.1): in all of them a node has the same neighbours in a hop, so that they reach fewer
	// nodes. 0 and 1: each batch is drawn for itself. For [Uniform] alone.
	Together int
	// Prune bounds the part of a long list that is drawn from; the zero value does not. For [Uniform] and [Dense], and without
	// RelationFanouts.
	Prune Prune
	// Weights fills in [Block.Weights]: the macro-batch's edges must have weights. What is drawn does not depend on it. Not for
	// samplers of moments, nor for [Pinsage].
	Weights bool
	// Places fills in [Block.Places]. Not for samplers of moments, nor for [Pinsage].
	Places bool
	// Walks are those of [Pinsage].
	Walks Walks
}

// Validate reports what is wrong with c, naming the field.
func (c *Config) Validate() error {
	for i, f := range c.Fanouts {
		if f < All || f == 0 {
			return fmt.Errorf("option Fanouts[%d] is %d: want a positive number, or -1 for all neighbours", i, f)
		}
	}
	if _, err := newDrawer(c.Sampler); err != nil {
		return err
	}
	if c.Together < 0 || c.Together > 1 && c.Sampler != "" && c.Sampler != Uniform {
		return fmt.Errorf("option Together is %d with sampler %s: want 0 or more, and more than 1 with %s alone", c.Together, c.Sampler, Uniform)
	}
	if err := c.checkPrune(); err != nil {
		return err
	}
	if (c.Weights || c.Places) && (c.timed() || c.Sampler == Pinsage) {
		return fmt.Errorf("option Weights or Places with sampler %s: its neighbours come without edges that have weights or places", c.Sampler)
	}
	if err := c.Walks.Validate(); err != nil {
		return err
	}
	if c.RelationFanouts != nil || c.Without != nil {
		return c.checkRelations()
	}
	if c.OutFanouts == nil {
		return nil
	}
	if len(c.OutFanouts) != len(c.Fanouts) {
		return fmt.Errorf("OutFanouts has %d entries, Fanouts %d: want one a layer in both", len(c.OutFanouts), len(c.Fanouts))
	}
	for i, f := range c.OutFanouts {
		if f < All { // 0 is a choice: no outgoing neighbours at that hop
			return fmt.Errorf("OutFanouts[%d] is %d: want 0 or more, or -1 for all neighbours", i, f)
		}
	}
	return nil
}

func (c *Config) checkRelations() error {
	switch {
	case c.Sampler != "" && c.Sampler != Uniform:
		return fmt.Errorf("option RelationFanouts with sampler %s: relations have fanouts of their own with %s alone", c.Sampler, Uniform)
	case c.OutFanouts != nil:
		return fmt.Errorf("option RelationFanouts with OutFanouts: a relation has one fanout in both directions")
	case c.Without != nil && len(c.Without) != len(c.RelationFanouts):
		return fmt.Errorf("option Without has %d entries, RelationFanouts %d: want one a layer in both", len(c.Without), len(c.RelationFanouts))
	case len(c.RelationFanouts) != len(c.Fanouts):
		return fmt.Errorf("RelationFanouts has %d entries, Fanouts %d: want one a layer in both", len(c.RelationFanouts), len(c.Fanouts))
	}
	for i := range c.Without {
		if c.Without[i] != nil && c.RelationFanouts[i] == nil {
			return fmt.Errorf("option Without[%d] without RelationFanouts[%d]: relations are told apart where they have fanouts", i, i)
		}
	}
	for i, of := range c.RelationFanouts {
		for r, f := range of {
			if f < All || f == 0 {
				return fmt.Errorf("option RelationFanouts[%d][%d] is %d: want a positive number, or -1 for all neighbours", i, r, f)
			}
		}
	}
	return nil
}

// Graph is what neighbours are drawn from. With both directions a node's
// sampled edges are those of In followed by those of Out.
type Graph struct {
	In  *buffer.Adjacency
	Out *buffer.Adjacency // nil: incoming neighbours only
	// Relations is the number of relations: an edge of Out has its relation
	// plus Relations in [Block.Relations], the id of the inverse relation.
	Relations int
	// Keys name the rows' nodes, see [buffer.MacroBatch.Keys]: what Labor draws by, and batches that are drawn together; nil
	// names them by their rows for these.
	Keys []uint32
}

// Key names a mini-batch within a run. Each field keys the draws.
type Key struct{ Epoch, Step, Pass, Batch int }

// in returns the key's place below the run's.
func (k Key) in(run keyed.Key) keyed.Key {
	return k.pass(run).With(uint64(k.Batch))
}

// Number is one draw of the mini-batch below the run's.
func (k Key) Number(run keyed.Key) uint64 { return k.pass(run).At(uint64(k.Batch)) }

func (k Key) pass(run keyed.Key) keyed.Key {
	return run.With(uint64(k.Epoch)).With(uint64(k.Step)).With(uint64(k.Pass))
}

// Stage sizes. A chunk's scratch (spans, positions, neighbours) should stay in
// the second-level cache while its misses are many enough to overlap.
const (
	chunkNodes = 512
	chunkEdges = 8192
)

// Sampler draws mini-batches by neighbour sampling without replacement, as in
// GraphSAGE, every hop for all nodes reached so far. How it draws is [Config.Sampler]'s. Its working memory is
// reused, so that once batches stop growing it allocates nothing. It is for
// one goroutine; make one each.
type Sampler struct {
	cfg   Config
	run   keyed.Key
	table Table
	in    []buffer.Span // of the chunk's destinations
	out   []buffer.Span
	pos   []int64 // picked edge positions; of Graph.Out: their complement
	large []int64 // pickLarge's
	// drawer draws in the place of uniform picks; nil: these.
	drawer    drawer
	relations byRelation // for Config.RelationFanouts
	walks     *walks     // Pinsage's
	graph     Graph      // what drawer draws from, while it does
	lists     []list     // of a chunk, that drawer draws from
	fanIn     int        // of the hop
	searches  []search   // cut's
	left      []int32    // of them, halve's
	cutPause  int        // chunks to come that are not interpolated
	// past and pastOut are spans of the inputs' edges before their moments, which in and out are chunks of where seeds have moments.
	past, pastOut []buffer.Span
	named         []uint32 // names'
	// thresholdIn and thresholdOut are the hop's, by [Prune]; listed and pruned are the batch's.
	thresholdIn, thresholdOut int64
	listed, pruned            int64
}

// New returns a sampler, or an error naming the field of cfg that is wrong.
func New(cfg Config) (*Sampler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("mini.Config: %w", err)
	}
	s := &Sampler{
		cfg: cfg,
		run: keyed.New(cfg.Seed),
		in:  make([]buffer.Span, chunkNodes),
		out: make([]buffer.Span, chunkNodes),
	}
	if cfg.timed() {
		s.searches = make([]search, chunkNodes)
	}
	if cfg.Sampler == Pinsage {
		s.walks = &walks{Walks: cfg.Walks}
		s.walks.Normalize()
	}
	var err error
	s.drawer, err = newDrawer(cfg.Sampler)
	return s, err
}

// Place is what keys the draws of hop h, outward from the seeds, of the batch named key: node i of the batch draws by Place.Rand(i), batches
// that are drawn together apart. It is for who draws the same blocks elsewhere.
func (c *Config) Place(key Key, h int) keyed.Key {
	return key.in(keyed.New(c.Seed)).With(uint64(h))
}

// Layers returns the number of blocks of a batch.
func (s *Sampler) Layers() int { return len(s.cfg.Fanouts) }

// Sample draws the batch named key for distinct seeds (rows of g) into b,
// replacing what was there and reusing its memory. The result is a function of
// the sampler's Config, key, the graph's neighbour lists and the seeds.
//
// It fails with [ErrSeeds] if a seed is no row of g or is listed twice, and
// with [ErrTooLarge] if a block would have 2³¹ edges. b is then undefined.
func (s *Sampler) Sample(key Key, g Graph, seeds []uint32, b *Batch) error {
	if s.cfg.timed() {
		return fmt.Errorf("mini: sampler %s needs a time for each seed", s.cfg.Sampler)
	}
	if s.drawer != nil {
		s.graph = g
		if err := s.drawer.check(&s.graph); err != nil {
			return fmt.Errorf("mini: %w", err)
		}
	}
	if s.walks != nil {
		if err := s.walks.check(&g); err != nil {
			return err
		}
	}
	if s.cfg.RelationFanouts != nil {
		if err := s.relations.check(&g); err != nil {
			return err
		}
	}
	if s.cfg.Weights {
		if err := g.checkWeights(); err != nil {
			return fmt.Errorf("mini: %w", err)
		}
	}
	if err := checkRows(&g, seeds); err != nil {
		return err
	}
	layers := len(s.cfg.Fanouts)
	b.reset(key, layers)
	b.Seeds = append(b.Seeds, seeds...)
	s.table.Reset()
	s.listed, s.pruned = 0, 0
	if layers == 0 {
		b.Input = append(b.Input, seeds...)
		return nil
	}
	scratch := &b.Blocks[0].Indices // for the seeds' numbers
	*scratch = resize(*scratch, len(seeds))
	var err error
	if b.Input, err = s.table.mapSeeds(b.Input, seeds, *scratch); err != nil {
		return err
	}
	if s.cfg.Together > 1 { // draws are the large batch's
		key.Batch /= s.cfg.Together
	}
	place := key.in(s.run)
	if s.cfg.Sampler == Dense {
		err = s.dense(place, g, b)
	} else {
		err = s.hops(place, g, b)
	}
	if s.cfg.Prune != (Prune{}) {
		b.Listed, b.Pruned = s.listed, s.pruned
	}
	return err
}

// hops draws hop by hop, a block each.
func (s *Sampler) hops(place keyed.Key, g Graph, b *Batch) error {
	last := len(b.Blocks) - 1
	for h := range b.Blocks {
		var err error
		if s.walks != nil {
			err = s.hopWalks(place.With(uint64(h)), h, &g, b, &b.Blocks[last-h])
		} else {
			err = s.hop(place.With(uint64(h)), h, 0, g, b, &b.Blocks[last-h])
		}
		if err != nil {
			return fmt.Errorf("hop %d: %w", h, err)
		}
	}
	return nil
}

// checkRows refuses seeds that are no rows of g.
func checkRows(g *Graph, seeds []uint32) error {
	rows := uint32(min(g.In.Rows(), math.MaxUint32))
	if g.Out != nil {
		rows = min(rows, uint32(g.Out.Rows()))
	}
	for i, r := range seeds {
		if r >= rows {
			return fmt.Errorf("%w: seed %d is row %d, but the macro-batch has %d rows", ErrSeeds, i, r, rows)
		}
	}
	return nil
}

// fanouts are those of hop h, 0 for a direction that there is not.
func (s *Sampler) fanouts(g *Graph, h int) (in, out int) {
	in = s.cfg.Fanouts[h]
	if g.Out != nil {
		out = in
		if s.cfg.OutFanouts != nil {
			out = s.cfg.OutFanouts[h]
		}
	}
	return in, out
}

// chunkStep is how many nodes are a chunk.
func chunkStep(fanIn, fanOut int) int {
	if fanIn == All || fanOut == All {
		return chunkNodes
	}
	return max(1, min(chunkNodes, chunkEdges/(fanIn+fanOut)))
}

// hop draws the neighbours of every node in b.Input, from number first on, into blk, which has those of the nodes before, and
// appends the nodes met for the first time to b.Input.
func (s *Sampler) hop(place keyed.Key, h, first int, g Graph, b *Batch, blk *Block) error {
	n := len(b.Input)
	if first == 0 {
		blk.reset(n, g.In.Relations != nil)
	}
	fanIn, fanOut := s.fanouts(&g, h)
	byRelation := s.cfg.RelationFanouts != nil && s.cfg.RelationFanouts[h] != nil
	s.thresholdIn, s.thresholdOut = s.cfg.Prune.Threshold(fanIn), s.cfg.Prune.Threshold(fanOut)
	step := chunkStep(fanIn, fanOut)
	for lo := first; lo < n; lo += step {
		hi := min(lo+step, n)
		s.load(g, b.Input[lo:hi])
		var edges int
		var err error
		if byRelation {
			edges, err = s.picksByRelation(place, h, lo, s.names(&g, b.Input[lo:hi]), hi-lo, &g, blk)
		} else {
			edges, err = s.count(blk, fanIn, fanOut, hi-lo)
		}
		if err != nil {
			return err
		}
		from := len(blk.Indices)
		blk.Indices = extend(blk.Indices, edges)
		if blk.Relations != nil {
			blk.Relations = extend(blk.Relations, edges)
		}
		if s.cfg.Weights {
			blk.Weights = extend(blk.Weights, edges)
		}
		if s.cfg.Places {
			blk.Places = extend(blk.Places, edges)
		}
		switch {
		case byRelation:
			s.gather(g, blk, from)
		case fanIn == All && fanOut == 0:
			s.copyAll(g.In, blk, from, hi-lo)
		case s.drawer != nil:
			s.picksBy(place, lo, hi, fanIn, fanOut, edges)
			s.gather(g, blk, from)
		default:
			s.picks(place, lo, s.names(&g, b.Input[lo:hi]), hi-lo, fanIn, fanOut, edges)
			s.gather(g, blk, from)
		}
		local := blk.Indices[from:]
		b.Input = s.table.Map(b.Input, asRows(local), local)
	}
	blk.NumDst, blk.NumSrc = n, len(b.Input)
	return nil
}

// load is stage one: the spans of the chunk's nodes.
func (s *Sampler) load(g Graph, nodes []uint32) {
	spansOf(g.In, nodes, s.in)
	if g.Out != nil {
		spansOf(g.Out, nodes, s.out)
	}
}

func spansOf(a *buffer.Adjacency, nodes []uint32, to []buffer.Span) {
	to = to[:len(nodes)]
	if a.Spans == nil {
		for i, v := range nodes {
			to[i] = a.Span(v)
		}
		return
	}
	spans := a.Spans
	for i, v := range nodes {
		to[i] = spans[v]
	}
}

// count extends Indptr and Degrees by the chunk's n nodes and returns how many
// edges they get.
func (s *Sampler) count(blk *Block, fanIn, fanOut, n int) (int, error) {
	first := int64(blk.Indptr[len(blk.Indptr)-1])
	end := first
	for i := range n {
		d := s.in[i].End - s.in[i].Begin
		end += taken(d, fanIn)
		if fanOut != 0 {
			o := s.out[i].End - s.out[i].Begin
			end += taken(o, fanOut)
			d += o
		}
		if end > math.MaxInt32 {
			return 0, fmt.Errorf("%w: over %d edges in one block; use smaller batches or fanouts", ErrTooLarge, math.MaxInt32)
		}
		blk.Indptr = append(blk.Indptr, int32(end))
		blk.Degrees = append(blk.Degrees, int32(min(d, math.MaxInt32)))
		s.listed += d
	}
	return int(end - first), nil
}

// taken returns how many of degree neighbours a fanout takes.
func taken(degree int64, fanout int) int64 {
	if fanout == All {
		return degree
	}
	return min(degree, int64(fanout))
}

// names key the draws of nodes that batches draw together; nil: each node's place in the batch does.
func (s *Sampler) names(g *Graph, nodes []uint32) []uint32 {
	if s.cfg.Together <= 1 {
		return nil
	}
	if g.Keys == nil {
		return nodes
	}
	s.named = resize(s.named, len(nodes))
	for i, v := range nodes {
		s.named[i] = g.Keys[v]
	}
	return s.named
}

// picks is stage two: the positions of the edges of n frontier nodes from number lo on, whose draws are keyed by their names or, nil, numbers.
func (s *Sampler) picks(place keyed.Key, lo int, names []uint32, n, fanIn, fanOut, edges int) {
	s.pos = resize(s.pos, edges)
	pos := s.pos
	for i := range n {
		at := uint64(lo + i)
		if names != nil {
			at = uint64(names[i])
		}
		r := place.Rand(at)
		pos = s.pickSpan(&r, s.in[i], fanIn, s.thresholdIn, pos)
		if fanOut != 0 {
			of := pos
			pos = s.pickSpan(&r, s.out[i], fanOut, s.thresholdOut, pos)
			for j := range of[:len(of)-len(pos)] {
				of[j] = ^of[j]
			}
		}
	}
}

// pickSpan writes the positions taken from one span and returns the rest of pos.
func (s *Sampler) pickSpan(r *keyed.Rand, span buffer.Span, fanout int, threshold int64, pos []int64) []int64 {
	d := span.End - span.Begin
	if fanout == All || d <= int64(fanout) {
		for j := range pos[:d] {
			pos[j] = span.Begin + int64(j)
		}
		return pos[d:]
	}
	if d > threshold {
		s.pruned += d - threshold
		pickPruned(r, span, threshold, pos[:fanout], &s.large)
	} else {
		pick(r, span.Begin, d, pos[:fanout], &s.large)
	}
	return pos[fanout:]
}
