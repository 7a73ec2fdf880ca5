package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
)

// draws are what each node of a graph of relations adds to a mini-batch at most, counted from its edges. A block of n nodes takes no more
// than the n nodes that add most, and n seeds drawn at random little more than their mean: on debhet, a quarter and an eighth of what
// fanouts and relations alone allow.
type draws struct {
	edges  []tally // by hop that is sampled, outward: edges drawn of a node
	groups []tally // by hop: relations among these, a direction's own
	// relations are those that a node has edges of, drawn or not.
	relations tally
	unread    tally       // of these, those that are not read from precomputed hops: the first layer's
	kinds     []kindDraws // by node type; nil where it was not told apart
	nodes     int64       // of the store
	seeds     []seedDraws // by partition, of its training nodes; nil: seeds may be any nodes, in any order
}

// seedDraws are what seeds add in the first hop.
type seedDraws struct {
	edges, groups, relations spread
	kinds                    []spread // edges by the type of what is drawn
}

// anySeeds says that seeds are not drawn at random from the training nodes.
func (d *draws) anySeeds() {
	if d != nil {
		d.seeds = nil
	}
}

// seedsMost is the most of a number that n seeds of a step with so many nodes in memory have together; beyond is the n nodes' that have most.
func (d *draws) seedsMost(n, rows, beyond int64, of func(*seedDraws) *spread) int64 {
	if d.seeds == nil {
		return beyond
	}
	parts := make([]spread, len(d.seeds))
	for p := range parts {
		parts[p] = *of(&d.seeds[p])
	}
	if rows >= d.nodes { // all partitions are in memory: seeds are drawn from all together
		parts = []spread{united(parts)}
	}
	return min(beyond, drawnMost(n, parts))
}

// spread is the number, sum, sum of squares and largest of numbers ≥ 0.
type spread struct{ n, sum, squares, most float64 }

func (s *spread) add(x int64) {
	v := float64(x)
	s.n, s.sum, s.squares, s.most = s.n+1, s.sum+v, s.squares+v*v, max(s.most, v)
}

func united(parts []spread) (all spread) {
	for _, s := range parts {
		all = spread{all.n + s.n, all.sum + s.sum, all.squares + s.squares, max(all.most, s.most)}
	}
	return all
}

// seedsBeyond is −ln of how likely n random seeds add more than [drawnMost] says: less than once in 10^17 batches.
const seedsBeyond = 40

// drawnMost bounds the sum of n numbers that are drawn at random, without replacement, from those of any of the parts together, but for
// a chance of exp(−seedsBeyond): Bernstein's inequality (Hoeffding, "Probability inequalities for sums of bounded random variables", 1963,
// section 6: it holds without replacement too).
func drawnMost(n int64, parts []spread) int64 {
	var high, variance, most float64
	low := math.Inf(1)
	for _, s := range parts {
		if s.n == 0 {
			continue
		}
		mean := s.sum / s.n
		low, high, most = min(low, mean), max(high, mean), max(most, s.most)
		variance = max(variance, s.squares/s.n-mean*mean)
	}
	if most == 0 {
		return 0
	}
	// Of parts together: the mean is one of theirs at most, the variance theirs and that of their means.
	variance += (high - low) * (high - low) / 4
	x := most * seedsBeyond / 3
	return int64(math.Ceil(float64(n)*high + x + math.Sqrt(x*x+2*float64(n)*variance*seedsBeyond)))
}

// tally is how many nodes have a number, by this number.
type tally map[int64]int64

// most is the largest sum of the numbers of n nodes.
func (t tally) most(n int64) (sum int64) {
	numbers := slices.Sorted(maps.Keys(t))
	for _, x := range slices.Backward(numbers) {
		k := min(n, t[x])
		sum, n = sum+k*x, n-k
	}
	return sum
}

// drawCounter counts a model's draws.
type drawCounter struct {
	draws
	stored  int           // relations of the store; further ones of the model are inverse: edges read against their direction, by the same fanouts
	fanouts []int         // of each hop
	of      relationDraws // where relations have their own
	ends    *relationEnds // nil: types of nodes are not told apart
	counts  []int64       // scratch, by type
}

// add counts a node with so many edges of each relation. seeds is its partition's if it is a training node, or nil.
func (d *drawCounter) add(sizes []int32, seeds *seedDraws) {
	have := func(sizes []int32) (edges, relations int64) {
		for _, n := range sizes {
			edges, relations = edges+int64(n), relations+int64(min(n, 1))
		}
		return edges, relations
	}
	_, all := have(sizes)
	d.relations[all]++
	unread := int64(0)
	for r, n := range sizes {
		if d.of.draws(len(d.fanouts)-1, r) {
			unread += int64(min(n, 1))
		}
	}
	d.unread[unread]++
	for h, fanout := range d.fanouts {
		var drawn, groups int64
		first := 0
		for direction := range slices.Chunk(sizes, d.stored) {
			edges, relations := have(direction)
			if d.of.fanouts == nil || d.of.fanouts[h] == nil {
				edges, relations = atMost(edges, fanout), atMost(relations, fanout)
			} else {
				edges, relations = 0, 0
				for r, n := range direction {
					if d.of.draws(h, first+r) {
						edges, relations = edges+atMost(int64(n), d.of.fanouts[h][r]), relations+int64(min(n, 1))
					}
				}
			}
			drawn, groups, first = drawn+edges, groups+relations, first+d.stored
		}
		d.edges[h][drawn]++
		d.groups[h][groups]++
		if h == 0 && seeds != nil {
			seeds.edges.add(drawn)
			seeds.groups.add(groups)
			seeds.relations.add(all)
		}
	}
}

// atMost is what a fanout leaves of n.
func atMost(n int64, fanout int) int64 {
	if fanout == mini.All {
		return n
	}
	return min(n, int64(fanout))
}

// counted keeps what countDraws found: all configurations that a run tries have the same, as it depends on sampler, relations and
// split alone, as long as they sample as many hops and read as many relations from precomputed ones.
type counted struct {
	draws    map[[2]int]*draws // by these two numbers
	readings int               // of the graph
}

// of is y's, counted if it was not.
func (c *counted) of(ctx context.Context, y *Memory) (_ *draws, err error) {
	key := [2]int{len(y.cfg.sampled()), len(y.cfg.Hops)}
	if d := c.draws[key]; d != nil {
		return d, nil
	}
	if c.draws == nil {
		c.draws = map[[2]int]*draws{}
	}
	c.readings++
	c.draws[key], err = y.countDraws(ctx)
	return c.draws[key], err
}

// countDraws counts what the store's nodes add to mini-batches of a model of relations, within evaluation's part of the budget.
func (y *Memory) countDraws(ctx context.Context) (_ *draws, err error) {
	e, err := y.evaluator(y.store, nil, y.evalBytes(y.cfg.MemoryBytes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return countDraws(ctx, y.store, e, &y.cfg, y.shape, y.batch.model.Config().Relations)
}

// countDraws counts for a model that tells so many relations apart; e evaluates such a one on src. The graph is read once.
func countDraws(ctx context.Context, src eval.Source, e *eval.Evaluator, c *Config, s shape, relations int) (*draws, error) {
	m := src.Manifest()
	column, err := m.SplitColumn(c.Split)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	d := &drawCounter{draws: draws{relations: tally{}, unread: tally{}, nodes: int64(m.Nodes), seeds: make([]seedDraws, len(m.Partitions))},
		stored: s.relations, fanouts: c.sampled(), of: s.draws}
	for range d.fanouts {
		d.edges, d.groups = append(d.edges, tally{}), append(d.groups, tally{})
	}
	d.openKinds(m, endsOf(m, relations))
	var split []byte
	var failed error
	err = e.RelationSizes(ctx, func(t eval.Tile, sizes []int32) {
		for p := t.Lo; p < t.Hi && failed == nil; p++ {
			if split, failed = src.ReadColumn(ctx, column.Name, store.PartitionID(p), split); failed != nil {
				return
			}
			for i, part := range split {
				seeds := &d.seeds[p]
				if part != store.SplitTrain {
					seeds = nil
				}
				of := sizes[(int(uint64(m.Partitions[p].First)-t.Base)+i)*relations:][:relations]
				d.add(of, seeds)
				if d.ends != nil {
					own, _ := m.TypeOf(store.PartitionID(p), uint64(i))
					d.addKind(of, own, seeds)
				}
			}
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("train: what nodes add to a mini-batch: %w", err)
	}
	return &d.draws, nil
}
