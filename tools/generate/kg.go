package generate

import (
	"math"
	"math/bits"

	"github.com/gstore/gstore/sampler/keyed"
)

// KGOptions describe a knowledge graph with structure to learn. Entities lie
// on rings of Ring places. Relation r carries the ring of its head to another,
// a permutation of the rings, and the place on it by a shift; the tail is one of the Window
// places from there on. So a fact is learnable from others about the same
// entities and relations, and the best possible ranking has Window equal candidates.
//
// No triple occurs twice, and valid and test are disjoint from train.
type KGOptions struct {
	Entities  uint64
	Relations int    // 0 means 64
	Triples   uint64 // for training
	// Valid and Test are their triples beyond those; 0 means a twentieth of Triples each, at most 100,000.
	Valid, Test  uint64
	Ring, Window uint64 // 0 means 64 and 4
	Seed         uint64
}

// KG is a knowledge graph. Its methods may be called concurrently.
type KG struct {
	info        Info
	valid, test uint64
	ring        uint64
	window      uint64
	rings       uint64
	ids         keyed.Permutation
	facts       keyed.Permutation // all possible facts, in random order
	relations   []relation
}

type relation struct {
	rings keyed.Permutation
	shift uint64
}

// NewKG returns the graph of o.
func NewKG(o KGOptions) (*KG, error) {
	if o.Relations == 0 {
		o.Relations = 64
	}
	if o.Ring == 0 {
		o.Ring = min(64, o.Entities)
	}
	if o.Window == 0 {
		o.Window = min(4, o.Ring)
	}
	if o.Valid == 0 {
		o.Valid = min(o.Triples/20, 100_000)
	}
	if o.Test == 0 {
		o.Test = min(o.Triples/20, 100_000)
	}
	if err := common(o.Entities, o.Triples, 0, 0); err != nil {
		return nil, err
	}
	switch {
	case o.Relations < 1 || o.Relations > math.MaxUint16:
		return nil, badf("%d relations: want 1 to 65535", o.Relations)
	case o.Window > o.Ring || o.Ring > o.Entities:
		return nil, badf("window %d, ring %d, %d entities: want window ≤ ring ≤ entities", o.Window, o.Ring, o.Entities)
	}
	hi, facts := bits.Mul64(o.Entities/o.Ring*o.Ring, uint64(o.Relations)*o.Window)
	if all := o.Triples + o.Valid + o.Test; hi == 0 && all > facts {
		return nil, badf("%d triples of %d possible ones: fewer triples, or more entities, relations or window", all, facts)
	} else if hi != 0 {
		return nil, badf("%d entities with %d relations have 2^64 facts or more", o.Entities, o.Relations)
	}
	root := keyed.New(o.Seed)
	g := &KG{
		info:  Info{Kind: "kg", Nodes: o.Entities, Edges: o.Triples, Relations: o.Relations, Seed: o.Seed},
		valid: o.Valid, test: o.Test, ring: o.Ring, window: o.Window, rings: o.Entities / o.Ring,
		ids:       keyed.NewPermutation(root.With(keyIDs), o.Entities),
		facts:     keyed.NewPermutation(root.With(keySlots), facts),
		relations: make([]relation, o.Relations),
	}
	for r := range g.relations {
		k := root.With(keyRelations).With(uint64(r))
		hi, _ := bits.Mul64(k.At(0), o.Ring)
		g.relations[r] = relation{rings: keyed.NewPermutation(k, g.rings), shift: hi}
	}
	return g, nil
}

// Info describes the graph.
func (g *KG) Info() Info { return g.info }

// Parts returns the numbers of training, validation and test triples.
func (g *KG) Parts() (train, valid, test uint64) { return g.info.Edges, g.valid, g.test }

// Triples fills in triples first …, train first, then valid, then test.
func (g *KG) Triples(first uint64, t []Triple) {
	for i := range t {
		f := g.facts.At(first + uint64(i))
		at := f % g.window
		f /= g.window
		r := f % uint64(len(g.relations))
		head := f / uint64(len(g.relations)) // < rings·ring; what is left over of the entities has no facts
		rel := &g.relations[r]
		place := (head%g.ring + rel.shift + at) % g.ring
		tail := rel.rings.At(head/g.ring)*g.ring + place
		t[i] = Triple{g.ids.At(head), r, g.ids.At(tail)}
	}
}
