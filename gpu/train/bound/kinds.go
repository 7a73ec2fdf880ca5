package bound

import (
	"github.com/gstore/gstore/store"
)

// kind are what each node of a node type adds to a mini-batch at most, by the types of what is drawn.
type kind struct {
	nodes, trained int64     // of the type
	from           [][]tally // by hop that is sampled, and type: edges drawn of a node that come from nodes of the type
}

// relationEnds are the node types that a store's relations join; nil where a relation's are not known.
type relationEnds struct {
	src, dst []int
	// inverse: relations behind the store's are its edges against their direction; else edges have none, and are of both ends.
	inverse bool
}

// endsOf are those of a store for a model that tells so many relations apart; nil where types tell nothing: there is one, or a relation's
// are not known.
func endsOf(m *store.Manifest, relations int) *relationEnds {
	stored := len(m.Schema.Relations)
	e := &relationEnds{inverse: relations > stored}
	for r := range stored {
		src, dst, ok := m.Schema.Ends(store.RelationID(r))
		if !ok {
			return nil
		}
		e.src, e.dst = append(e.src, src), append(e.dst, dst)
	}
	if len(m.Schema.NodeTypes) < 2 || stored == 0 {
		return nil
	}
	for i := range m.Partitions {
		if m.Partitions[i].Types == nil {
			return nil
		}
	}
	return e
}

// other is the type of the nodes that a node of a type draws by a relation of the model.
func (e *relationEnds) other(own, relation int) int {
	stored := len(e.src)
	switch {
	case relation >= stored:
		return e.dst[relation-stored]
	case !e.inverse && own == e.src[relation]:
		return e.dst[relation]
	}
	return e.src[relation]
}

// openKinds begins counting by types of nodes.
func (d *counter) openKinds(m *store.Manifest, ends *relationEnds) {
	if d.ends = ends; ends == nil {
		return
	}
	types := m.Schema.NodeTypes
	for _, t := range types {
		k := kind{nodes: int64(t.Count)}
		for range d.fanouts {
			from := make([]tally, len(types))
			for i := range from {
				from[i] = tally{}
			}
			k.from = append(k.from, from)
		}
		d.kinds = append(d.kinds, k)
	}
	for p := range d.seeds {
		d.seeds[p].kinds = make([]Spread, len(types))
	}
	d.counts = make([]int64, len(types))
}

// addKind counts a node of a type with so many edges of each relation, as add does. seeds is its partition's if it is a training node, or
// nil.
func (d *counter) addKind(sizes []int32, own int, seeds *Seeds) {
	k := &d.kinds[own]
	if seeds != nil {
		k.trained++
	}
	for h, fanout := range d.fanouts {
		drawn := d.counts
		clear(drawn)
		for first := 0; first < len(sizes); first += d.stored { // a direction
			for kind := range drawn {
				n := int64(0)
				for i, size := range sizes[first : first+d.stored] {
					r := first + i
					if size == 0 || d.ends.other(own, r) != kind {
						continue
					}
					switch own := d.of.Fanouts != nil && d.of.Fanouts[h] != nil; {
					case !own:
						n += int64(size)
					case d.of.Draws(h, r):
						drawn[kind] += atMost(int64(size), d.of.Fanouts[h][i])
					}
				}
				drawn[kind] += atMost(n, fanout)
			}
		}
		for kind, n := range drawn {
			if n > 0 {
				k.from[h][kind][n]++
			}
			if h == 0 && seeds != nil {
				seeds.kinds[kind].add(n)
			}
		}
	}
}

// KindsOf is how many of n seeds can be of each type, nil where types were not counted.
func (d *Sampled) KindsOf(n int64) (have []int64) {
	if d == nil || d.kinds == nil {
		return nil
	}
	for i := range d.kinds {
		k := &d.kinds[i]
		if most := min(n, k.nodes); d.seeds == nil {
			have = append(have, most)
		} else {
			have = append(have, min(most, k.trained))
		}
	}
	return have
}

// Reach is how many nodes of each type there can be once a hop is drawn of so many of each, n at most together, with so many nodes in
// memory, and how many edges are drawn.
func (d *Sampled) Reach(have []int64, hop int, n, rows int64) (next []int64, edges int64) {
	next = make([]int64, len(have))
	for kind := range have {
		e := int64(0)
		for own := range have {
			e += d.kinds[own].from[hop][kind].Most(min(n, have[own]))
		}
		if hop == 0 {
			e = d.SeedsMost(n, rows, e, func(s *Seeds) *Spread { return &s.kinds[kind] })
		}
		next[kind] = min(d.kinds[kind].nodes, have[kind]+e)
		edges += e
	}
	return next, edges
}

// Together adds up nodes of all types.
func Together(have []int64) (n int64) {
	for _, x := range have {
		n += x
	}
	return n
}
