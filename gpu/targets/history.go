package targets

import (
	"math"
	"slices"

	"github.com/gstore/gstore/sampler/asof"
	"github.com/gstore/gstore/store"
)

// pair is an item that a seed has to do with.
type pair struct {
	seed, item uint32
	count      float64
	decayed    [len(decays)]float64 // count by age
	latest     int64
	dated      bool
}

// What is looked at of what an entity has to do with: rows by each way to items, and different items.
const (
	walkedMost = 1024
	pairsMost  = 128 // of a seed
)

// pairs lists the items that a batch's seeds have to do with, the latest first: those at the end of the shortest ways of references, which are
// followed through all rows that are known, where the tree has the latest few.
func (x *items) pairs(b *batch) (list []pair) {
	for i, row := range b.Seeds {
		moment, first := b.Times[i], len(list)
		places := map[uint32]int{}
		for _, way := range x.ways {
			x.walk(way, row, moment, walkedMost, func(item uint32, at int64) {
				k, ok := places[item]
				if !ok {
					if len(list)-first == pairsMost {
						return
					}
					k = len(list)
					places[item] = k
					list = append(list, pair{seed: uint32(i), item: item})
				}
				list[k].add(at, moment)
			})
		}
	}
	return list
}

// add counts an item once more, which the seed had to do with at a time; [asof.Always]: nobody knows when.
func (p *pair) add(at, moment int64) {
	if p.count++; at == asof.Always {
		return
	}
	if !p.dated || at > p.latest {
		p.latest, p.dated = at, true
	}
	days := max(float64(moment)-float64(at), 0) / 86400
	for i, d := range decays {
		p.decayed[i] += math.Exp(-days / d)
	}
}

// step is a relation that is followed, from what it leads to back, or forwards.
type step struct {
	relation int
	back     bool
}

// had are the items that a row has to do with at a moment, all of them.
func (x *items) had(row uint32, moment int64) map[uint32]bool {
	items := map[uint32]bool{}
	for _, way := range x.ways {
		x.walk(way, row, moment, math.MaxInt, func(item uint32, _ int64) { items[item] = true })
	}
	return items
}

// walk follows a way from a row, through the latest rows, at most so many at a time, and visits the items at its end, each as often as it is there,
// with the time of the latest row on the way.
func (x *items) walk(way []step, row uint32, moment int64, most int, visit func(item uint32, at int64)) {
	type place struct {
		row uint32
		at  int64
	}
	g, now := x.d.graph, []place{{row, asof.Always}}
	for k, s := range way {
		var next []place
		for _, p := range now {
			rows := g.Referred(p.row, s.relation, moment)
			if s.back {
				rows = g.Known(p.row, s.relation, moment)
			}
			for _, row := range slices.Backward(rows) {
				if len(next) == most {
					break
				}
				at := p.at
				if k < len(way)-1 && x.d.timed[x.d.types[row]] {
					at = max(at, g.Time(row))
				}
				next = append(next, place{row, at})
			}
		}
		now = next
	}
	for _, p := range now {
		if item, ok := x.of(p.row); ok {
			visit(item, p.at)
		}
	}
}

// appendTo appends the columns of a pair whose seed has a moment.
func (p *pair) appendTo(out []float32, moment int64) []float32 {
	out = append(out, float32(math.Log1p(p.count)))
	for _, x := range p.decayed {
		out = append(out, float32(math.Log1p(x)))
	}
	if !p.dated {
		return append(out, make([]float32, ageColumns)...)
	}
	return appendAge(out, float64(moment)-float64(p.latest))
}

// waysMost bounds the ways that are looked at.
const waysMost = 16

// ways are the shortest ways of references from rows of a table to those of another, forwards or back, of a step at least; none: no references lead
// there.
func ways(m *store.Manifest, from, to string) (found [][]step) {
	type way struct {
		at    string
		steps []step
	}
	seen := map[string]int{from: 0}
	for open := []way{{at: from}}; len(open) > 0; open = open[1:] {
		w := open[0]
		if len(found) == waysMost || len(found) > 0 && len(w.steps) >= len(found[0]) {
			break
		}
		for r := range m.Schema.Relations {
			src, dst, ok := m.Schema.Ends(store.RelationID(r))
			if !ok {
				continue
			}
			a, b := m.Schema.NodeTypes[src].Name, m.Schema.NodeTypes[dst].Name
			for _, s := range []struct {
				from, to string
				back     bool
			}{{a, b, false}, {b, a, true}} {
				if s.from != w.at {
					continue
				}
				steps := append(slices.Clone(w.steps), step{r, s.back})
				if s.to == to {
					found = append(found, steps)
				}
				if before, known := seen[s.to]; !known || before == len(steps) {
					seen[s.to] = len(steps)
					open = append(open, way{s.to, steps})
				}
			}
		}
	}
	return found
}

// distance is how long these ways are.
func distance(m *store.Manifest, from, to string) int {
	if w := ways(m, from, to); len(w) > 0 {
		return len(w[0])
	}
	return 0
}
