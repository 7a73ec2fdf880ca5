package bound

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
)

// Sampled are what each node of a graph of relations adds to a mini-batch at most, counted from its edges. A block of n nodes takes no more
// than the n nodes that add most, and n seeds drawn at random little more than their mean: on debhet, a quarter and an eighth of what
// fanouts and relations alone allow.
type Sampled struct {
	Edges  []tally // by hop that is sampled, outward: edges drawn of a node
	Groups []tally // by hop: relations among these, a direction's own
	// Relations are those that a node has edges of, drawn or not.
	Relations tally
	Unread    tally   // of these, those that are not read from precomputed hops: the first layer's
	kinds     []kind  // by node type; nil where it was not told apart
	nodes     int64   // of the store
	seeds     []Seeds // by partition, of its training nodes; nil: seeds may be any nodes, in any order
}

// Seeds are what seeds add in the first hop.
type Seeds struct {
	Edges, Groups, Relations Spread
	kinds                    []Spread // edges by the type of what is drawn
}

// AnySeeds says that seeds are not drawn at random from the training nodes.
func (d *Sampled) AnySeeds() {
	if d != nil {
		d.seeds = nil
	}
}

// SeedsMost is the most of a number that n seeds of a step with so many nodes in memory have together; beyond is the n nodes' that have most.
func (d *Sampled) SeedsMost(n, rows, beyond int64, of func(*Seeds) *Spread) int64 {
	if d.seeds == nil {
		return beyond
	}
	parts := make([]Spread, len(d.seeds))
	for p := range parts {
		parts[p] = *of(&d.seeds[p])
	}
	if rows >= d.nodes { // all partitions are in memory: seeds are drawn from all together
		parts = []Spread{united(parts)}
	}
	return min(beyond, mostDrawn(n, parts))
}

// Spread is the number, sum, sum of squares and largest of numbers ≥ 0.
type Spread struct{ n, sum, squares, most float64 }

func (s *Spread) add(x int64) {
	v := float64(x)
	s.n, s.sum, s.squares, s.most = s.n+1, s.sum+v, s.squares+v*v, max(s.most, v)
}

func united(parts []Spread) (all Spread) {
	for _, s := range parts {
		all = Spread{all.n + s.n, all.sum + s.sum, all.squares + s.squares, max(all.most, s.most)}
	}
	return all
}

// seedsBeyond is −ln of how likely n random seeds add more than [mostDrawn] says: less than once in 10^17 batches.
const seedsBeyond = 40

// mostDrawn bounds the sum of n numbers that are drawn at random, without replacement, from those of any of the parts together, but for
// a chance of exp(−seedsBeyond): Bernstein's inequality (Hoeffding, "Probability inequalities for sums of bounded random variables", 1963,
// section 6: it holds without replacement too).
func mostDrawn(n int64, parts []Spread) int64 {
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

// Most is the largest sum of the numbers of n nodes.
func (t tally) Most(n int64) (sum int64) {
	numbers := slices.Sorted(maps.Keys(t))
	for _, x := range slices.Backward(numbers) {
		k := min(n, t[x])
		sum, n = sum+k*x, n-k
	}
	return sum
}

// counter counts a model's draws.
type counter struct {
	Sampled
	stored  int                     // relations of the store; further ones of the model are inverse: edges read against their direction, by the same fanouts
	fanouts []int                   // of each hop
	of      config.RelationSampling // where relations have their own
	ends    *relationEnds           // nil: types of nodes are not told apart
	counts  []int64                 // scratch, by type
}

// add counts a node with so many edges of each relation. seeds is its partition's if it is a training node, or nil.
func (d *counter) add(sizes []int32, seeds *Seeds) {
	have := func(sizes []int32) (edges, relations int64) {
		for _, n := range sizes {
			edges, relations = edges+int64(n), relations+int64(min(n, 1))
		}
		return edges, relations
	}
	_, all := have(sizes)
	d.Relations[all]++
	unread := int64(0)
	for r, n := range sizes {
		if d.of.Draws(len(d.fanouts)-1, r) {
			unread += int64(min(n, 1))
		}
	}
	d.Unread[unread]++
	for h, fanout := range d.fanouts {
		var drawn, groups int64
		first := 0
		for direction := range slices.Chunk(sizes, d.stored) {
			edges, relations := have(direction)
			if d.of.Fanouts == nil || d.of.Fanouts[h] == nil {
				edges, relations = atMost(edges, fanout), atMost(relations, fanout)
			} else {
				edges, relations = 0, 0
				for r, n := range direction {
					if d.of.Draws(h, first+r) {
						edges, relations = edges+atMost(int64(n), d.of.Fanouts[h][r]), relations+int64(min(n, 1))
					}
				}
			}
			drawn, groups, first = drawn+edges, groups+relations, first+d.stored
		}
		d.Edges[h][drawn]++
		d.Groups[h][groups]++
		if h == 0 && seeds != nil {
			seeds.Edges.add(drawn)
			seeds.Groups.add(groups)
			seeds.Relations.add(all)
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

// Count counts for a model that tells so many relations apart; e evaluates such a one on src. The graph is read once.
func Count(ctx context.Context, src eval.Source, e *eval.Evaluator, c *config.Config, s config.Shape, relations int) (*Sampled, error) {
	m := src.Manifest()
	column, err := m.SplitColumn(c.Split)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	d := &counter{Sampled: Sampled{Relations: tally{}, Unread: tally{}, nodes: int64(m.Nodes), seeds: make([]Seeds, len(m.Partitions))},
		stored: s.Relations, fanouts: c.Sampled(), of: s.Sampling}
	for range d.fanouts {
		d.Edges, d.Groups = append(d.Edges, tally{}), append(d.Groups, tally{})
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
	return &d.Sampled, nil
}
