package eval

import (
	"math"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
)

// stage is how a layer is computed: of which nodes, from which, and in which tiles. A destination's messages are added up in the order of
// their sources' ids, so that neither the tiles nor which other nodes are computed change a bit of it.
type stage struct {
	of, into *nodeSet // sources, which are rows of the table of states below the layer, and destinations, of the one above
	tiles    []Tile   // of destinations
	runs     []Tile   // of sources: edges from one run to one tile are in memory at once
	// pieceNodes is how many sources are in memory at once, or one partition's; 0: a run's.
	pieceNodes uint64
	copies     bool                    // destinations are copied out of the sources, not picked in place
	aheads     bool                    // there is room for another piece, which is read while one is computed with
	width      int                     // columns of all sources that are in memory at once; 0: all columns of a piece
	wants      func(to, from int) bool // of a [Chooser]; nil: all neighbours are sources
	kept       *csr                    // where the edges stay for the next evaluation; nil: they do not
}

// begin is a run of the evaluator that computes all nodes, unless it is told otherwise.
func (e *Evaluator) begin(q *gpu.Queue) *evaluation {
	return &evaluation{Evaluator: e, queue: q, work: e.whole(), memory: e.memory, chunkRows: e.chunkRows}
}

// whole is the stage of all nodes. The edges of a tile are built at once where its account counts them all; those of an undirected graph
// lie with either end.
func (e *Evaluator) whole() *stage {
	s := &stage{of: e.all, into: e.all, tiles: e.tiles, runs: e.tiles, pieceNodes: e.pieceNodes, aheads: e.aheads}
	if len(e.tiles) == 1 {
		s.kept = &e.kept
	} else if e.pieceNodes > 0 && !e.edges.mirrors() && e.edges.relation == nil && !e.o.Model.SymmetricWeights() {
		s.runs = []Tile{e.all.tile(0, len(e.all.parts))}
	}
	return s
}

// stageCost is what a stage takes of memory, in bytes.
type stageCost struct {
	node, edge, source int64 // a destination, an edge, a source
	chunk              int64
	resident           bool    // sources lie in memory anyhow
	edges              []int64 // into each partition's destinations
}

// need is what a stage takes with sources in pieces of so many.
func (s *stage) need(c *stageCost, piece uint64) int64 {
	sources, largest := s.of.len(), uint64(0)
	for _, p := range s.of.parts {
		largest = max(largest, p.Nodes)
	}
	if !s.of.all() { // the last partition's columns are read as a whole before rows are picked
		sources += largest
	}
	if piece > 0 {
		sources = min(sources, max(piece, largest))
	}
	var most int64
	for _, t := range s.tiles {
		edges := int64(0)
		for p := t.Lo; p < t.Hi; p++ {
			edges += c.edges[p]
		}
		if edges > math.MaxInt32 {
			return math.MaxInt64
		}
		own := int64(t.Nodes)*c.node + edges*c.edge
		if piece > 0 { // edges of a piece once more
			own += int64(t.Nodes)*4 + edges*c.edge
		}
		if s.into != s.of && (s.copies || c.resident) {
			own += min(int64(t.Nodes), int64(sources)) * c.source
		}
		most = max(most, own)
	}
	if !c.resident {
		most += int64(sources) * c.source
	}
	return most + c.chunk
}

// cut cuts the destinations into the fewest tiles that a bound has room for, and returns what they take; false if it has none for the
// smallest. Sources are whole where that makes no more tiles.
func (e *Evaluator) cut(s *stage, c *stageCost, bound int64) (int64, bool) {
	s.runs = []Tile{s.of.tile(0, len(s.of.parts))}
	for k := 1; ; k = moreTiles(k) {
		s.tiles = s.into.tilesOf(k)
		for i, n := range []uint64{0, e.smallPiece, e.smallPiece, 1} {
			s.copies = i < 2
			if bytes := s.need(c, n); bytes <= bound {
				s.pieceNodes = n
				s.aheads = n > 0 && !c.resident && bytes+int64(max(n, e.largest))*c.source <= bound
				return bytes, true
			}
		}
		if k >= len(s.of.parts) {
			return 0, false
		}
	}
}

// edgesInto bounds the edges into each partition's nodes: those stored there, once more where they are read in both directions.
func (e *Evaluator) edgesInto() (edges []int64) {
	directions := int64(1)
	if e.edges.mirrors() {
		directions = 2
	}
	for _, p := range e.src.Manifest().Partitions {
		edges = append(edges, int64(p.Edges)*directions)
	}
	return edges
}

// stageNode is what a destination takes beside its sums: degrees, counters and where its edges are.
const stageNode = 40

// costOf is what a layer takes whose sources have rows of so many bytes.
func (e *Evaluator) costOf(layer nn.Streamer, first bool, edges []int64) *stageCost {
	c := &stageCost{edge: e.edgeBytes, chunk: e.chunkBytes, edges: edges, node: stageNode + e.nodeBytes + 4*int64(e.o.Model.Relations)}
	_, transformed := e.o.Model.StreamDims()
	if layer != nil {
		c.node += 4 * int64(layer.AccumulatorDim())
		c.source = 4*int64(layer.InDim()) + 4*int64(transformed)
	}
	if first {
		c.source = e.featureBytes + 4*int64(transformed)
	}
	if e.typeColumn != "" {
		c.source += 4
	}
	return c
}
