package eval

import (
	"context"
	"fmt"
	"slices"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// closure is what a run computes where few nodes are asked: of the last layer those that are asked, and of each layer below only nodes
// whose states the one above reads, which are its own nodes and their neighbours (the L-hop in-neighbourhood, found from above). What a
// [Chooser] reads is in it too.
//
// Which nodes they are depends on the graph, the splits and the chooser alone, not on memory, and so do results.
type closure struct {
	sets   []*nodeSet // that are to be freed
	into   []*nodeSet // by layer: whose states it makes, the last one's are asked
	reads  []*nodeSet // by layer: whose states below it are read
	edges  [][]int64  // by layer and partition: edges into its nodes
	chosen []*chosen  // by layer: what a sink reads there; nil: nothing
	splits []uint8    // for which it was found
	stages []*stage
	memory bool
	rows   bool  // the first layer's features stay, beside what the others take
	kept   []csr // by layer
}

// chosen is what a [Chooser] reads of a layer's states.
type chosen struct {
	into  *nodeSet
	edges []int64
	wants func(to, from int) bool
	at    *stage
}

// free gives the closure up; it may be nil.
func (c *closure) free() {
	if c == nil {
		return
	}
	for i := range c.kept {
		c.kept[i].free()
	}
	for _, s := range c.sets {
		s.free()
	}
	*c = closure{}
}

// fewShare of the rows that layers make is what a closure may have at most: beyond, finding it saves too little.
const fewShare = .5

// fewer reports whether runs of this evaluator may compute some nodes alone. What all nodes keep, jumping and learned vectors ask for all.
func (e *Evaluator) fewer() bool {
	o := &e.o
	if len(e.columns) == 0 || o.Embeddings || o.Vectors != nil || o.Model.Jumps() || o.Model.SymmetricWeights() {
		return false
	}
	return o.Nodes != nil || !o.Predictions && !o.Probabilities && o.Model.Relations == 0 && e.edges.relation == nil
}

// leastFew is what a closure takes with the smallest tiles, however many nodes it has; 0 where there is none.
func (e *Evaluator) leastFew(accumulated, source int64) int64 {
	if !e.fewer() {
		return 0
	}
	m := e.src.Manifest()
	c := &stageCost{node: stageNode + e.nodeBytes + 4*(accumulated+int64(e.o.Model.Relations)), edge: e.edgeBytes, source: source, chunk: e.chunkBytes, edges: e.edgesInto()}
	s := &stage{of: e.all, into: &nodeSet{parts: e.all.parts, first: e.all.first}}
	s.tiles = s.into.tilesOf(len(m.Partitions))
	sets := int64(e.o.Model.Layers + 3) // of each layer's sources, of the asked nodes and a sink's
	return s.need(c, 1) + sets*setBytes(m.Nodes)
}

// few returns the closure of what a run is asked for; nil where all nodes are computed. The caller gives it back by release.
func (r *evaluation) few(ctx context.Context, model *nn.Model, sink Sink) (c *closure, release func(), err error) {
	e, none := r.Evaluator, func() {}
	if r.on != nil { // all nodes take less than finding some
		return nil, none, nil
	}
	chooser, chooses := sink.(Chooser)
	if !e.fewer() || sink != nil && !chooses || len(r.splits) == 0 && sink == nil && e.o.Nodes == nil ||
		e.o.MemoryBytes > 0 && e.fewBytes > e.o.MemoryBytes {
		return nil, none, nil
	}
	for l := range model.Layers() {
		if sink == nil || !sink.Takes(l) {
			continue
		}
		if needs, _ := chooser.Chooses(l); needs == nil {
			return nil, none, nil
		}
	}
	if sink == nil && e.asked != nil && slices.Equal(e.asked.splits, r.splits) {
		if len(e.asked.into) == 0 { // it was found to be too large
			return nil, none, nil
		}
		return e.asked, none, nil
	}
	e.asked.free()
	e.asked = nil
	if c, err = e.find(ctx, model, r.splits, chooser); err != nil {
		return nil, nil, err
	}
	if c == nil {
		if sink == nil {
			e.asked = &closure{splits: r.splits}
		}
		return nil, none, nil
	}
	if fits := e.stage(c, model); !fits {
		c.free()
		return nil, none, nil
	}
	if sink == nil {
		e.asked = c
		return c, none, nil
	}
	return c, c.free, nil
}

// find finds the closure of the nodes of splits, and of what a sink reads; nil if it is too large.
func (e *Evaluator) find(ctx context.Context, model *nn.Model, splits []uint8, sink Chooser) (_ *closure, err error) {
	layers, m := model.Layers(), e.src.Manifest()
	c := &closure{splits: splits, into: make([]*nodeSet, len(layers)), reads: make([]*nodeSet, len(layers)),
		edges: make([][]int64, len(layers)), chosen: make([]*chosen, len(layers))}
	small := false
	defer func() {
		if !small || err != nil {
			c.free()
		}
	}()
	asked, err := e.some(c)
	if err != nil {
		return nil, err
	}
	computed := len(layers)
	if len(splits) == 0 && e.o.Nodes == nil {
		computed-- // the last layer is left out
	}
	for _, v := range e.o.Nodes {
		asked.add(uint64(v))
	}
	if len(splits) > 0 {
		if err := e.askedNodes(ctx, splits, asked); err != nil {
			return nil, err
		}
	}
	asked.seal()
	into, rows := asked, uint64(0)
	for l := len(layers) - 1; l >= 0; l-- {
		c.into[l] = into
		if rows += into.len(); float64(rows) > fewShare*float64(computed)*float64(m.Nodes) {
			return nil, nil
		}
		if into, err = e.sources(ctx, c, l, layers[l], sink); err != nil {
			return nil, fmt.Errorf("nodes that layer %d reads: %w", l, err)
		}
		c.reads[l] = into
	}
	small = true
	return c, nil
}

// some is a new set of the closure.
func (e *Evaluator) some(c *closure) (*nodeSet, error) {
	m := e.src.Manifest()
	s, err := newNodeSet(m.Partitions, m.Nodes)
	if err == nil {
		c.sets = append(c.sets, s)
	}
	return s, err
}

// askedNodes adds the nodes of splits.
func (e *Evaluator) askedNodes(ctx context.Context, splits []uint8, to *nodeSet) error {
	var split []byte
	for p, info := range e.src.Manifest().Partitions {
		var err error
		if split, err = e.src.ReadColumn(ctx, e.split, store.PartitionID(p), split); err != nil {
			return err
		}
		stored, err := e.src.ColumnBytes(e.split, store.PartitionID(p))
		if err != nil {
			return err
		}
		e.read += stored
		for i, s := range split {
			if slices.Contains(splits, s) {
				to.add(uint64(info.First) + uint64(i))
			}
		}
	}
	return nil
}

// sources finds whose states below layer l are read.
func (e *Evaluator) sources(ctx context.Context, c *closure, l int, layer nn.Layer, sink Chooser) (*nodeSet, error) {
	m, into := e.src.Manifest(), c.into[l]
	c.edges[l] = make([]int64, len(m.Partitions))
	streamer, ok := layer.(nn.Streamer)
	if !ok {
		return nil, fmt.Errorf("%T cannot be evaluated from edge buckets", layer)
	}
	takes := sink != nil && sink.Takes(l)
	if streamer.AccumulatorDim() == 0 && !takes {
		return into, nil // its nodes are read alone
	}
	reads, err := e.some(c)
	if err != nil {
		return nil, err
	}
	reads.union(into)
	everything := Tile{Hi: len(m.Partitions), Nodes: int(m.Nodes)}
	mark := func(_, s uint32, _ about) { reads.add(uint64(s)) }
	if into.len() > 0 && streamer.AccumulatorDim() > 0 {
		if err := e.edges.some(ctx, everything, everything, selection{to: into, edges: c.edges[l]}, mark); err != nil {
			return nil, err
		}
	}
	if takes {
		needs, wants := sink.Chooses(l)
		x := &chosen{wants: wants, edges: make([]int64, len(m.Partitions))}
		if x.into, err = e.some(c); err != nil {
			return nil, err
		}
		for p, info := range m.Partitions {
			for v := uint64(info.First); v < uint64(info.First)+info.Nodes; v++ {
				if needs(p, v) {
					x.into.add(v)
				}
			}
		}
		x.into.seal()
		if err := e.edges.some(ctx, everything, everything, selection{to: x.into, wants: wants, edges: x.edges}, mark); err != nil {
			return nil, err
		}
		c.chosen[l] = x
	}
	reads.seal()
	return reads, nil
}

// stage plans how each layer of the closure is computed within the bound, and reports whether it has room.
func (e *Evaluator) stage(c *closure, model *nn.Model) bool {
	bound, layers := e.bound-int64(len(c.sets))*setBytes(e.src.Manifest().Nodes), model.Layers()
	var states, below, most, edges int64
	for l, layer := range layers {
		own := 4 * int64(layer.OutDim()) * int64(c.into[l].len())
		if l == len(layers)-1 {
			own = 0
		}
		states, below = max(states, below+own), own
		edges += 4 * int64(c.into[l].len())
		for _, n := range c.edges[l] {
			edges += n * e.edgeBytes
		}
	}
	if model.ReadsDegrees() {
		states += 4 * int64(e.src.Manifest().Nodes)
	}
	if e.o.Predictions {
		states += 8 * int64(len(e.o.Nodes))
	}
	if e.o.Probabilities {
		states += 4 * int64(e.o.Model.Out) * int64(len(e.o.Nodes))
	}
	// Where states lie in memory, the bound has room for them beside the stages.
	c.memory = states <= unboundedStates && (e.o.MemoryBytes == 0 || states < bound)
	for {
		c.stages, most = c.stages[:0], 0
		room := bound
		if c.memory && e.o.MemoryBytes > 0 {
			room -= states
		}
		fits, above := true, int64(0) // what layers above the first take at most
		for l, layer := range layers {
			s := &stage{of: c.reads[l], into: c.into[l]}
			cost := e.costOf(layer.(nn.Streamer), l == 0, c.edges[l])
			cost.resident = c.memory && l > 0
			bytes, ok := e.cut(s, cost, room)
			if ok {
				e.byColumns(s, layer.(nn.Streamer), cost, room, l == 0)
			}
			if x := c.chosen[l]; x != nil && ok {
				x.at = &stage{of: c.reads[l], into: x.into, wants: x.wants}
				cost.node, cost.edges = stageNode, x.edges
				var own int64
				own, ok = e.cut(x.at, cost, room)
				bytes = max(bytes, own)
			}
			fits, most = fits && ok, max(most, bytes)
			if c.stages = append(c.stages, s); l > 0 {
				above = max(above, bytes)
			}
		}
		c.rows = c.stages[0].pieceNodes == 0 && (e.o.MemoryBytes == 0 || above+int64(c.reads[0].len())*e.featureBytes <= room)
		switch {
		case fits:
			e.keepEdges(c, most+states+edges <= bound)
			return true
		case !c.memory:
			return false
		}
		c.memory = false
	}
}

// keepEdges lets the edges of layers of one tile stay for the next evaluation of the same nodes, where there is room.
func (e *Evaluator) keepEdges(c *closure, room bool) {
	if !room || !c.memory || slices.ContainsFunc(c.chosen, func(x *chosen) bool { return x != nil }) {
		return
	}
	c.kept = make([]csr, len(c.stages))
	for l, s := range c.stages {
		if len(s.tiles) == 1 {
			s.kept = &c.kept[l]
		}
	}
}
