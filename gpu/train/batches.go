package train

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// placeShuffle is the place of the random draws (see keyed) that shuffle seeds.
const placeShuffle = 0x73687566 // "shuf"

// macroBatches is the part of the store's iterator that training uses.
type macroBatches interface {
	StartAt(plan buffer.Plan, first int) error
	Next() bool
	// NextReady reports whether Next would return without waiting.
	NextReady() bool
	MacroBatch() *buffer.MacroBatch
	Err() error
	// Announce tells the next epoch's plan, so that its first steps are read early.
	Announce(plan buffer.Plan) error
	PredictBytes(plan buffer.Plan) int64
	Stats() buffer.Stats
}

// planner makes each epoch's plan once: the partition buffer knows the plan that was announced by its steps, which an
// equal plan made again does not share. The last one is kept.
type planner struct {
	make func(epoch int) buffer.Plan
	made bool
	at   int // the epoch of last, from 0
	last buffer.Plan
}

// epoch returns the plan of epoch e, counted from 0.
func (p *planner) epoch(e int) buffer.Plan {
	if !p.made || p.at != e {
		p.made, p.at, p.last = true, e, p.make(e)
	}
	return p.last
}

// startEpoch begins epoch e, counted from 0, at a step of its plan. announce says that another epoch is to follow.
func startEpoch(it macroBatches, plan *planner, p *passes, e, step int, announce bool) error {
	now := plan.epoch(e)
	if err := it.StartAt(now, step); err != nil {
		return fmt.Errorf("train: epoch %d: %w", e+1, err)
	}
	if announce {
		if err := it.Announce(plan.epoch(e + 1)); err != nil {
			return fmt.Errorf("train: epoch %d: %w", e+2, err)
		}
	}
	return p.begin(e, &now)
}

// batches yields the mini-batches of macro-batches as training takes them, sampled ahead: pass after pass over a step's seeds,
// each in an order of its own. It is for one goroutine.
type batches struct {
	loader     *mini.Loader
	key        keyed.Key                            // of the run
	size       int                                  // seeds a batch, at most
	even       bool                                 // batches of a step are of one size, see [Config.evenBatches]
	sequential bool                                 // seeds are in their order
	share      mini.Share                           // of a step's batches: the rank's
	source     func(*mini.Shuffled) mini.SeedSource // of a pass over its seeds; nil: these themselves

	ctx    context.Context // of the step that was entered, as all below
	epoch  int
	mb     *buffer.MacroBatch
	graph  mini.Graph
	alone  alone
	passes *passes
	pass   int
	total  int // mini-batches of the pass
}

// sampled are the fanouts that mini-batches are sampled with, outward: one for each layer that reads neighbours ([nn.Model.Hops]).
func (c *Config) sampled() []int {
	switch {
	case c.Model == "mlp":
		return nil
	case c.PrecomputedHop && !c.relational():
		return c.Fanouts[:len(c.Fanouts)-1]
	}
	return c.Fanouts
}

// relationDraws are [mini.Config].RelationFanouts and Without of hops that are sampled; nil: no hop has any.
type relationDraws struct {
	fanouts [][]int
	without [][]bool
}

// relationDraws says how relations are drawn from a store: by c.RelationFanouts, and in the last hop none of those that are read from
// precomputed hops, the others by the hop's fanout each.
func (c *Config) relationDraws(m *store.Manifest) (d relationDraws, err error) {
	if d.fanouts, err = c.relationFanouts(m); err != nil {
		return d, err
	}
	without := c.hopRelations(m)
	if without == nil {
		return d, nil
	}
	last := len(c.sampled()) - 1
	if d.fanouts == nil {
		d.fanouts = make([][]int, last+1)
		d.fanouts[last] = slices.Repeat([]int{c.Fanouts[last]}, len(m.Schema.Relations))
	}
	d.without = make([][]bool, last+1)
	d.without[last] = without
	return d, nil
}

// draws reports whether a hop draws edges of a relation, as models number them.
func (d *relationDraws) draws(hop, relation int) bool {
	return d.without == nil || d.without[hop] == nil || !d.without[hop][relation]
}

// relationFanouts reads c.RelationFanouts for a store: those of each hop that is sampled, by relation; nil without any.
func (c *Config) relationFanouts(m *store.Manifest) (of [][]int, err error) {
	if c.RelationFanouts == "" {
		return nil, nil
	}
	defer func() { err = store.Invalid(err) }()
	relations := m.Schema.Relations
	hops := len(c.sampled())
	of = make([][]int, hops)
	for h := range of {
		of[h] = slices.Repeat([]int{c.Fanouts[h]}, len(relations))
	}
	named := map[store.RelationID]bool{}
	for part := range strings.SplitSeq(c.RelationFanouts, ";") {
		at := strings.LastIndexByte(part, '=')
		if at < 0 {
			return nil, fmt.Errorf("train: relation fanouts %q: %q is no relation=fanouts", c.RelationFanouts, part)
		}
		r, err := m.Schema.RelationNamed(strings.TrimSpace(part[:at]))
		if err != nil {
			return nil, fmt.Errorf("train: relation fanouts %q: %w", c.RelationFanouts, err)
		}
		values := strings.Split(part[at+1:], ",")
		if named[r] || len(values) != c.Layers {
			return nil, fmt.Errorf("train: relation fanouts %q: %d of %s for %d layers, expected each relation once and one a layer", c.RelationFanouts, len(values), relations[r].Name, c.Layers)
		}
		named[r] = true
		for h, text := range values {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || n < mini.All || n == 0 {
				return nil, fmt.Errorf("train: relation fanouts %q: %q of %s, expected a positive number, or -1 for all neighbours", c.RelationFanouts, text, relations[r].Name)
			}
			if h < hops {
				of[h][r] = n
			}
		}
	}
	return of, nil
}

// walks are those of c.
func (c *Config) walks() mini.Walks {
	w := mini.Walks{PerNode: c.Walks, Length: c.WalkLength}
	if c.WalkRestart != nil {
		w.Continue = 1 - *c.WalkRestart
	}
	return w
}

// prune reads c.Prune for a graph of a mean degree.
func (c *Config) prune(degree float64) (p mini.Prune, err error) {
	if c.Prune == "" {
		return p, nil
	}
	if p, err = mini.ParsePrune(c.Prune); err != nil {
		return p, fmt.Errorf("train: %w", err)
	}
	p.Degree = degree
	return p, nil
}

// meanDegree is the mean number of neighbours of a node of a store, in a direction.
func (c *Config) meanDegree(m *store.Manifest) float64 {
	return float64(c.storedEdges(m)) / float64(c.directions(m)) / float64(max(1, m.Nodes))
}

// pruneWhy says what c.Prune keeps of lists, for each fanout that is sampled; "" without it.
func (c *Config) pruneWhy(degree float64) string {
	p, err := c.prune(degree)
	if c.Prune == "" || err != nil {
		return ""
	}
	var of []string
	for _, fanout := range c.sampled() {
		if n := p.Threshold(fanout); n < math.MaxInt32 {
			of = append(of, fmt.Sprintf("at most %d for %d", n, fanout))
		}
	}
	if len(of) == 0 {
		return "prune: no hop has a fanout, so that all neighbours are taken"
	}
	return fmt.Sprintf("prune: with %.1f neighbours a node on average, a node's are drawn from %s", degree, strings.Join(of, ", "))
}

// fanoutsMost are the most neighbours of a node in each hop that is sampled, in each direction.
func (c *Config) fanoutsMost(d relationDraws) []int {
	if c.Sampler == mini.Pinsage {
		w := c.walks()
		w.Normalize()
		most := slices.Clone(c.sampled())
		for h, f := range most {
			if most[h] = w.PerNode * w.Length; f != mini.All {
				most[h] = min(most[h], f)
			}
		}
		return most
	}
	if d.fanouts == nil {
		return c.sampled()
	}
	most := slices.Clone(c.sampled())
	for h, of := range d.fanouts {
		if of != nil {
			most[h] = 0
		}
		for r, f := range of {
			if inverse := r + len(of); !d.draws(h, r) && (inverse >= len(d.without[h]) || !d.draws(h, inverse)) {
				continue // in neither direction
			}
			if most[h] += f; f == mini.All {
				most[h] = mini.All
				break
			}
		}
	}
	return most
}

// inputs are the rows that feed a batch's first layer.
func (c *Config) inputs(b *mini.Batch) []uint32 {
	if len(c.sampled()) == 0 {
		return b.Seeds
	}
	return b.Input
}

// evenBatches reports whether a step's seeds make batches of one size instead of full ones and the rest: a last batch of a few nodes is
// an optimiser's step like any other, and a plan of several steps has one in each (docs/findings.md, "What a step holds").
// Groups of partitions with all neighbours, which show what hanoi's order costs, are trained as its steps are.
func (c *Config) evenBatches() bool { return c.Plan == macro.Hanoi || c.Group > 0 && !c.stages() }

// sampler is what the mini-batches of a run of c are sampled by, whose model samples so many hops of a graph of a mean degree, of relations as
// these say.
func (c *Config) sampler(hops int, relations relationDraws, degree float64) (mini.Config, error) {
	prune, err := c.prune(degree)
	return mini.Config{Fanouts: c.Fanouts[:hops], RelationFanouts: relations.fanouts, Without: relations.without, Sampler: c.Sampler, Seed: c.Seed, Together: c.together(), Prune: prune, Walks: c.walks(), Weights: c.EdgeWeights, Places: len(c.EdgeFeatures) > 0}, err
}

// newBatches makes the batches of a run of cfg, see [Config.sampler], which looks so many batches ahead.
func newBatches(cfg *Config, hops int, relations relationDraws, degree float64, threads, ahead int) (*batches, error) {
	sampler, err := cfg.sampler(hops, relations, degree)
	if err != nil {
		return nil, err
	}
	if len(sampler.Fanouts) == 0 { // the sampler draws at least one hop; trainer.blocks leaves it
		sampler.Fanouts = []int{1}
	}
	return batchesBy(cfg, sampler, threads, ahead)
}

// batchesBy makes batches that a sampler draws.
func batchesBy(cfg *Config, sampler mini.Config, threads, ahead int) (*batches, error) {
	l, err := mini.NewLoader(sampler, mini.LoaderOptions{Threads: threads, Depth: threads + 2 + ahead})
	if err != nil {
		return nil, err
	}
	return &batches{loader: l, key: keyed.New(cfg.Seed), size: cfg.BatchSize, even: cfg.evenBatches()}, nil
}

// enter begins a step of an epoch, counted from 0, from a place in it on. mb is in use until leave.
func (b *batches) enter(ctx context.Context, epoch int, mb *buffer.MacroBatch, g mini.Graph, p *passes, from progress.Place) {
	g.In = b.alone.within(mb, g.In)
	b.ctx, b.epoch, b.mb, b.graph, b.passes, b.pass = ctx, epoch, mb, g, p, from.Pass
	b.start(from.Batch)
}

// start begins a pass at one of its batches.
func (b *batches) start(batch int) {
	place := b.key.With(placeShuffle).With(uint64(b.epoch)).With(uint64(b.mb.StepIndex)).With(uint64(b.pass))
	seeds := mini.NewShuffled(place, b.mb.Seeds, b.size)
	if b.sequential {
		seeds = mini.NewSequential(b.mb.Seeds, b.size)
	}
	seeds.Share = b.share
	seeds.Even = b.even && !b.sequential
	b.total = seeds.Batches()
	source := mini.SeedSource(seeds)
	if b.source != nil {
		source = b.source(seeds)
	}
	b.loader.Start(b.ctx, mini.Key{Epoch: b.epoch, Step: b.mb.StepIndex, Pass: b.pass, Batch: seeds.From(batch)}, b.graph, source)
}

// next goes to the next mini-batch, b.loader.Batch, of the step; false where there is none, or on an error, b.loader.Err.
func (b *batches) next() bool {
	for !b.loader.Next() {
		if b.loader.Err() != nil {
			return false
		}
		if !b.passes.more(b.epoch, b.mb.StepIndex, &b.mb.Step, b.pass+1) {
			b.passes.done(&b.mb.Step, b.pass+1)
			return false
		}
		b.pass++
		b.start(0)
	}
	return true
}

// within returns of the mini-batch in hand whether it is the first and the last of those, count of them, that make a step. Each is one
// without b, of batches that come from elsewhere.
func (b *batches) within(count int) (first, last bool) {
	if b == nil || count <= 1 {
		return true, true
	}
	at := b.loader.Batch().Key.Batch
	return at%count == 0, (at+1)%count == 0 || at+1 == b.total
}

// place is that of the mini-batch after the last one.
func (b *batches) place() progress.Place {
	return progress.Place{Step: b.mb.StepIndex, Pass: b.pass, Batch: b.loader.Batch().Key.Batch + 1}
}

// leave ends a step: nothing uses its macro-batch any more.
func (b *batches) leave() { b.loader.Stop() }

// neighbours is what mini-batches of a store of so many relations are sampled from: a directed graph whose relations are
// told apart in both directions, anything else along its edges.
func neighbours(mb *buffer.MacroBatch, relations int, inverse bool) mini.Graph {
	if inverse {
		return mini.Graph{In: mb.In, Out: mb.Out, Relations: relations, Keys: mb.Keys}
	}
	return mini.Graph{In: mb.In, Keys: mb.Keys}
}
