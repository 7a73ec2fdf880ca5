package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Source is what an exact evaluation reads; [*store.Store] implements it.
type Source interface {
	Manifest() *store.Manifest
	ReadColumn(ctx context.Context, name string, p store.PartitionID, dst []byte) ([]byte, error)
	ColumnBytes(name string, p store.PartitionID) (int64, error) // that ReadColumn reads
	ReadStripe(ctx context.Context, p store.PartitionID, dst []byte) (blocks.Stripe, []byte, error)
	ScratchDir() string // for states that do not fit
}

// Options configures an [Evaluator].
type Options struct {
	// Unlabelled: no metrics are computed, on a store that may have no labels and split.
	Unlabelled bool
	Features   []string // the model's input columns, in its order
	// EdgeFeatures are the columns of edges that the model's attention reads, in its order: [nn.Config].EdgeDim together.
	EdgeFeatures []string
	Split        string // split column; "": the store's first
	// MemoryBytes bounds what the evaluator allocates. 0: no bound, but tiles take no more than the store's rows and edges in
	// memory, or 512 MiB, those of relations and edges' features, which round once a tile, no more than 4 GiB; and all nodes' states
	// lie in memory up to 4 GiB, in a file beyond.
	MemoryBytes int64
	// Model is what will be evaluated: it decides what a node takes.
	Model nn.Config
	// Vectors are what a model of [nn.Config].Vectors learned of nodes, else nil.
	Vectors *Vectors
	// Relation is one more than the relation whose edges alone [Evaluator.Hop] counts, inverse ones behind the store's; 0: all edges.
	Relation int

	Confusion   bool // count labels against predictions
	Ranking     bool // count the margins of a model of two classes; of others nothing
	Calibration bool // compare probabilities with how often they are right; not of numbers
	AUC         bool // compute Metrics.AUC and AveragePrecision: 4 bytes a node of the splits and class, in a file if need be, and [AUCBytes] beside MemoryBytes
	Predictions bool // keep each node's class and its probability: 8 bytes a node, in a file if need be
	Embeddings  bool // keep each node's state below the last product, likewise
	// Probabilities keeps each node's probability of every class, or its number: 4 bytes a node and class, likewise.
	Probabilities bool
	// Nodes, if not nil, are those that Predictions and Probabilities are read of, ascending and each once. Where few others have a part in
	// them, only these are computed.
	Nodes []store.NodeID
}

// Metrics is how well a model does on one split.
type Metrics struct {
	Nodes    int64   `json:"nodes"`
	Correct  int64   `json:"correct"`
	Loss     float64 `json:"loss"`     // mean cross-entropy, of several labels their mean; of numbers mean Huber loss of standardised distances
	Accuracy float64 `json:"accuracy"` // Correct/Nodes; 0 without nodes

	Numbers   *NumberMetrics `json:"-"` // of a model of numbers, whose accuracy is 0; nil without nodes
	Labels    *LabelMetrics  `json:"-"` // of a model of several labels a node, likewise
	Confusion *Confusion     `json:"-"` // nil if not asked for, and of numbers and several labels
	Ranking   *Ranking       `json:"-"` // nil if not asked for, and of other than two classes
	// Calibration is nil if not asked for, and of numbers.
	Calibration *Calibration `json:"-"`
	// AUC is the area under the ROC curve, see Options; NaN if not asked for or not
	// defined. Two classes: of the second. More, and of several labels a node: the mean over them, each against the rest.
	AUC float64 `json:"-"`
	// AveragePrecision is the mean precision over recall, by the same rules.
	AveragePrecision float64 `json:"-"`
}

// A layer finishes as many nodes at a time as take about chunkBytes of
// tensors, or a chunkShare-th of a small budget, at least chunkLeast, but no fewer than chunkRowsMin, so that products stay efficient.
const (
	chunkBytes   = 16 << 20
	chunkLeast   = 1 << 20
	chunkShare   = 8
	chunkRowsMin = 256
	groupBytes   = 64 // of an edge that is a group of its own, beside its message
)

// unboundedBytes is what tiles may take where nobody bounds them, whatever the store's size.
const unboundedBytes = 512 << 20

// unboundedStates is what all nodes' states may take in memory where nobody bounds them, and a tile that rounds.
const unboundedStates = 4 << 30

// Evaluator computes a model's outputs with all neighbours, layer by layer
// over the whole graph (layer-wise inference; Hamilton et al., 2017, Algorithm
// 1 with every node in the batch), streamed over a store.
//
// The nodes are cut into tiles of consecutive partitions. For each
// destination tile the messages from each source tile are added up in turn,
// a piece of it at a time where whole ones would make more tiles, so that
// memory holds a tile's sums, a piece's states and the edges between two
// tiles: the work is exact, and for k tiles all states are read k + 1 times.
// With one tile, edges are kept for the next evaluation, and so are features
// in one piece.
//
// An Evaluator is for one goroutine.
type Evaluator struct {
	src     Source
	dev     gpu.Device
	o       Options
	columns []*store.ColumnInfo
	// typeColumn says the nodes' types, of a model that reads them, else "".
	typeColumn string
	label      string
	split      string
	tiles      []Tile
	edges      edgeBuilder
	arena      *gpu.Arena
	memory     bool  // hidden states lie in memory
	least      int64 // bytes, with the smallest tiles
	// nodeBytes are what its caller takes of a tile's node.
	nodeBytes int64
	// pieceNodes is how many nodes of a tile are in memory at once as sources, or one partition; 0: all.
	pieceNodes uint64
	// aheads: there is room for another piece, which is read while one is computed with.
	aheads bool
	// What stays on the device, nil if nothing does, and how much of its own memory that may take.
	on          *resident
	deviceBytes int64
	sparse      SparseRows // the one feature, where it is multiplied by what is not 0; nil: it is read
	// Where each destination's edges from the next piece begin, and the edges from one.
	begins, part *blockio.Slab
	// chunkRows is how many nodes a layer finishes at a time.
	chunkRows int
	maxDim    int  // of states between layers
	confusion bool // labels are counted against predictions
	// pieceEdges is how many edges' messages by relation are computed at a time: at most twice chunkBytes of them.
	pieceEdges int64

	// What the last run kept of every node, by internal id, or of Options.Nodes alone, by their places; nil if not asked for.
	classes, probability, probabilities, embeddings *spill.Table
	keptOf                                          []store.NodeID // nil: all

	all   *nodeSet
	asked *closure // of the last run that computed some nodes alone, without a sink
	// What a node's features, an edge, and the tensors of a layer that finishes take; what tiles may take; and how many sources a small piece
	// has.
	featureBytes, edgeBytes, chunkBytes, bound int64
	fewBytes                                   int64  // what some nodes alone take at least, of Options.Nodes
	smallPiece, largest                        uint64 // nodes; of the largest partition

	inEdges []int64 // into each partition, once they were counted
	// columnsAnyhow computes layers by columns wherever that is possible, for tests.
	columnsAnyhow bool

	kept    csr           // the edges, if there is one tile
	grouper nn.Grouper    // of a piece of a tile's edges
	sizes   *blockio.Slab // int32 edges of each relation of each node of tile sized, of nodes sizedOf
	sized   Tile          // the zero one: of none
	sizedOf *nodeSet
	// ofRelation is where a tile's edges of one relation lie: where they begin for each node, and their sources.
	ofRelation *blockio.Slab
	perGroup   []float32       // of a piece: what its groups are divided by
	counts     *spill.Table    // of every node, once a model has asked: int32 incoming edges, or float32 sums of their weights
	vectors    *blockio.Slab   // of a tile's nodes that have one
	vectorsOf  Tile            // whose they are, the zero one for none
	rows, at   []uint32        // [nn.Vectors] of them
	features   []*blockio.Slab // a tile's rows of each feature column
	loaded     Tile            // what is in features, the zero one for none
	loadedOf   *nodeSet        // of which nodes
	own        []*blockio.Slab // rows of destinations among those of sources
	counted    *blockio.Slab   // a partition's counts, of which some are wanted
	state      *blockio.Slab   // a tile's rows of hidden states that lie in a file
	types      *blockio.Slab   // a tile's types of nodes, of a model that reads them
	typesOf    Tile            // whose they are, the zero one for none
	typesIn    *nodeSet        // of which nodes
	made       *gpu.Arena      // of what a layer made of a piece's states
	degrees    *blockio.Slab
	ends       [2]*blockio.Slab // counts of a tile's nodes that lie in a file: as sources, as destinations
	read       int64
	spilled    Spilled
	computed   int64 // rows of all layers
}

// New plans evaluations of models like o.Model and of at most maxDim columns between
// layers. A budget too small for the smallest tiles is [store.ErrBudget].
func New(src Source, dev gpu.Device, o Options, maxDim int) (*Evaluator, error) {
	m := src.Manifest()
	if o.Model.Numbers != nil || o.Model.MultiLabel { // which has no classes
		o.Confusion, o.Predictions = false, false
		o.AUC = o.AUC && o.Model.MultiLabel
		o.Calibration = o.Calibration && o.Model.MultiLabel
	}
	e := &Evaluator{src: src, dev: dev, o: o, arena: gpu.NewArena(dev), made: gpu.NewArena(dev), maxDim: maxDim, confusion: o.Confusion,
		edges: edgeBuilder{src: src, undirected: m.Schema.Undirected, parts: m.Partitions}}
	e.grouper = nn.Grouper{ByRelation: o.Model.Kind().ByRelation, Single: true}
	if k := o.Model.NodeTypes; k > 0 {
		first := len(o.Features) - len(o.Model.Categories)
		if first < 0 || k > len(o.Model.Categories) {
			return nil, fmt.Errorf("evaluation: %w: features %q, of which %d are categories and number %d says nodes' types",
				store.ErrInvalid, o.Features, len(o.Model.Categories), k)
		}
		e.typeColumn = o.Features[first+k-1]
	}
	if o.Relation > 0 {
		if err := e.edges.readRelations(m); err != nil {
			return nil, err
		}
		if e.edges.only = o.Relation; o.Relation <= e.edges.relations { // nothing is read against its direction
			e.edges.inverse = 0
		}
	}
	if o.Model.Relations > 0 {
		if err := e.readRelations(m); err != nil {
			return nil, err
		}
	}
	if o.Model.EdgeWeights {
		weights := m.ColumnsOf(store.RoleWeight)
		if len(weights) == 0 {
			return nil, fmt.Errorf("evaluation: the model weighs neighbours by their edges: %w: a column of role %s", store.ErrNotFound, store.RoleWeight)
		}
		if e.edges.weight = weights[0]; e.edges.weight.Dim != 1 || e.edges.weight.Elem != blocks.Float32 {
			return nil, fmt.Errorf("evaluation: column %s holds %d %v an edge, expected one float32", weights[0].Name, weights[0].Dim, weights[0].Elem)
		}
	}
	edgeFeatures, err := buffer.EdgeFeatures(m, o.EdgeFeatures)
	if err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	e.edges.features, e.edges.rows = edgeFeatures, make([][]byte, len(edgeFeatures))
	if n := e.edges.featureColumns(); n != o.Model.EdgeDim {
		return nil, fmt.Errorf("evaluation: %w: features %q of edges have %d columns, the model reads %d", store.ErrInvalid, o.EdgeFeatures, n, o.Model.EdgeDim)
	}
	for i, name := range o.Features {
		c, err := m.Column(name)
		if err != nil {
			return nil, err
		}
		if i >= o.Model.FirstHop(len(o.Features)) {
			if err := KindOf(&o.Model).Check(c); err != nil {
				return nil, fmt.Errorf("evaluation: %w", err)
			}
		}
		e.columns = append(e.columns, c)
	}
	if len(e.columns) == 0 {
		return nil, fmt.Errorf("evaluation: %w: no feature columns", store.ErrNotFound)
	}
	if err := o.checkVectors(m); err != nil {
		return nil, err
	}
	if o.Unlabelled {
		return e, e.plan(maxDim)
	}
	labels := m.Labels()
	if labels == nil {
		return nil, fmt.Errorf("evaluation: %w: a column of role %s", store.ErrNotFound, store.RoleLabel)
	}
	split, err := m.SplitColumn(o.Split)
	if err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	e.label, e.split = labels.Name, split.Name
	return e, e.plan(maxDim)
}

// plan chooses how much is computed at a time: what fits the budget with the largest of the sizes up to chunkBytes that are a small part
// of it. No bit depends on it.
func (e *Evaluator) plan(maxDim int) error {
	err := e.planBy(maxDim, chunkLeast)
	least := e.least
	for size := int64(chunkBytes); size > chunkLeast; size /= 2 {
		if (chunkShare*size <= e.o.MemoryBytes || e.o.MemoryBytes == 0) && e.planBy(maxDim, size) == nil {
			e.least = least
			return nil
		}
	}
	if err == nil {
		err = e.planBy(maxDim, chunkLeast)
	}
	return err
}

// planBy chooses the fewest tiles whose states, sums and edges fit the budget, where size bytes of tensors are computed at a time.
func (e *Evaluator) planBy(maxDim int, size int64) error {
	m := e.src.Manifest()
	var featureBytes, accDim int64
	for _, c := range e.columns {
		featureBytes += int64(c.RowBytes())
		accDim = max(accDim, int64(c.Dim))
	}
	accumulated, transformed := e.o.Model.StreamDims()
	products := e.o.Model.StreamsProducts()
	if products { // of columns of any width
		accDim = 0
	}
	accDim = max(accDim, int64(maxDim), int64(accumulated))
	stateBytes := 4 * int64(maxDim)
	directions, edgeBytes := int64(1), int64(4)
	if m.Schema.Undirected || e.edges.inverse > 0 {
		directions = 2
	}
	if e.edges.relation != nil {
		edgeBytes += 2
	}
	if e.edges.weight != nil { // and as they are read
		edgeBytes += 8
	}
	for _, c := range e.edges.features { // and as they are read
		edgeBytes += int64(4*c.Dim + c.RowBytes())
	}
	edgeBytes += 4 * int64(e.o.Model.StreamEdgeDim())
	if e.o.Model.Kind().EachRelation { // of one relation once more
		edgeBytes += 4
	}
	layers := 2 // whose states are there at once
	if e.o.Model.Jumps() {
		layers = max(layers, e.o.Model.Layers)
	}
	row := 4 * (3*accDim + 2*int64(maxDim)) // a node's tensors in a layer that finishes
	if e.o.Model.Jumps() {
		row = max(row, 4*int64(2*layers+1)*int64(maxDim))
	}
	if e.o.Confusion || e.o.AUC || e.o.Predictions || e.o.Probabilities || e.o.Embeddings || e.o.Model.MultiLabel { // logits and states on the host
		row += 4 * int64(1+layers) * int64(maxDim)
	} else if e.ranks() {
		row += 2 * 4
	}
	message := 2 * 4 * accDim        // of an edge: what it carries, and its bases
	if e.o.Model.Kind().ByRelation { // what it carries twice, and what it sends
		message = 3 * 4 * accDim
	}
	e.chunkRows, e.pieceEdges = int(max(size/row, chunkRowsMin)), max(2*size/(message+groupBytes), chunkRowsMin)
	var largest uint64
	for _, p := range m.Partitions {
		largest = max(largest, p.Nodes)
	}
	// Where the device has memory of its own the tensors lie there: what is counted stands for their page-locked copies.
	chunk := min(int64(e.chunkRows), int64(largest)) * row
	if e.edges.relation != nil {
		chunk = max(chunk, 2*size) // groups of a piece's edges, and their means
	}
	if products {
		chunk += e.o.Model.ProductBytes()
	}
	sourceBytes := max(featureBytes, stateBytes) + 4*int64(transformed)
	if e.typeColumn != "" {
		sourceBytes += 4
	}
	small := max(largest, uint64(size/max(sourceBytes, 1)))
	e.featureBytes, e.edgeBytes, e.chunkBytes, e.smallPiece, e.largest = featureBytes, edgeBytes, chunk, small, largest
	e.all = allNodes(m.Partitions)
	need := func(k int, piece uint64) int64 {
		var most int64
		for _, t := range tilesOf(m.Partitions, k) {
			var edges int64
			for _, p := range m.Partitions[t.Lo:t.Hi] {
				edges += int64(p.Edges)
			}
			vectors := e.o.vectorBytes(t, piece)
			// Sums, degrees, counters, edges (indices) and the stripe being read.
			own := int64(t.Nodes)*(4*accDim+4*int64(e.o.Model.Relations)+20+e.nodeBytes) + edges*directions*edgeBytes
			// Input states and what layers make of them; of a piece, its edges once more.
			if piece == 0 || k == 1 && uint64(t.Nodes) <= piece {
				own += int64(t.Nodes) * sourceBytes
			} else {
				own += int64(min(piece, m.Nodes))*sourceBytes + 8*int64(t.Nodes) + edges*directions*edgeBytes
			}
			most = max(most, own+vectors)
		}
		return most + chunk
	}
	states := int64(m.Nodes) * (int64(layers)*stateBytes + 4)
	if e.o.Predictions {
		states += 8 * int64(m.Nodes)
	}
	if e.o.Probabilities {
		states += 4 * int64(e.o.Model.Out) * int64(m.Nodes)
	}
	if e.o.Embeddings {
		wide := int64(1)
		if e.o.Model.Jumping == nn.JumpCat {
			wide = int64(layers)
		}
		states += wide * stateBytes * int64(m.Nodes)
	}
	if e.o.AUC {
		states += int64(m.Nodes) * 4 * int64(1+e.o.Model.Out)
	}
	bound := e.o.MemoryBytes
	switch {
	case bound > 0:
	case e.cheapTiles() || e.o.Model.Kind().EachRelation: // what a node accumulates of every relation is large
		bound = max(int64(m.Nodes)*featureBytes+int64(m.Edges)*directions*edgeBytes, unboundedBytes)
	default: // one tile, which rounds once, where it is no larger than states may be
		bound = unboundedStates
	}
	e.bound = bound
	k, pieces := 1, []uint64{0}
	if len(e.columns) > 0 { // a ranker has its tiles' states in memory
		pieces = append(pieces, small)
	}
	e.pieceNodes = 0
	fits := func(k int) bool {
		for _, n := range pieces {
			if need(k, n) <= bound {
				e.pieceNodes = n
				return true
			}
		}
		return false
	}
	for ; !fits(k); k = moreTiles(k) {
		if k >= len(m.Partitions) {
			if e.o.MemoryBytes == 0 {
				break
			}
			return fmt.Errorf("evaluation: exact evaluation within %d bytes: %w: it takes %d with one of %d partitions at a time", e.o.MemoryBytes, store.ErrBudget, need(k, 0), len(m.Partitions))
		}
	}
	e.least = math.MaxInt64
	for n := 1; ; n = moreTiles(n) {
		for _, piece := range pieces {
			e.least = min(e.least, need(n, piece))
		}
		if n >= len(m.Partitions) {
			break
		}
	}
	few := e.leastFew(accDim, sourceBytes)
	if e.o.Nodes != nil { // all are computed where some alone have no room
		e.fewBytes, few = few, 0
	}
	if few > e.least { // some nodes alone take no more memory than all do, or the run is refused
		if e.least = few; e.o.MemoryBytes > 0 && e.o.MemoryBytes < few {
			return fmt.Errorf("evaluation: exact evaluation within %d bytes: %w: it takes %d with one of %d partitions at a time", e.o.MemoryBytes, store.ErrBudget, few, len(m.Partitions))
		}
	}
	e.tiles = tilesOf(m.Partitions, k)
	if e.memory = states <= unboundedStates; e.o.MemoryBytes > 0 {
		e.memory = need(k, e.pieceNodes)+states <= e.o.MemoryBytes
	}
	ahead := func(piece uint64) bool { // whether there is room for the next piece beside one
		used := need(k, piece) + int64(min(piece, m.Nodes))*max(featureBytes, stateBytes)
		if e.memory {
			used += states
		}
		return used <= bound
	}
	if e.aheads = e.pieceNodes > 0 && (e.o.MemoryBytes == 0 || ahead(e.pieceNodes)); e.aheads {
		e.pieceNodes = larger(e.pieceNodes, m.Nodes, ahead)
	}
	return nil
}

// piecesEnough is how many pieces of the sources are few enough: each looks at every destination of a tile once.
const piecesEnough = 32

// larger doubles the size n of pieces of so many sources until there are few enough, as long as the next one fits.
func larger(n, sources uint64, fits func(n uint64) bool) uint64 {
	for n < sources/piecesEnough && fits(2*n) {
		n *= 2
	}
	return n
}

// moreTiles is the next number of tiles to try after k: each one reads all states once more, so that none is skipped but among many.
func moreTiles(k int) int { return k + 1 + k/16 }

// cheapTiles says that several tiles cost little and change no bit, so that how many there are need not be asked for. Each tile's edges are
// counted by relation, in one more pass, and means of edges' features in attention round once a tile.
func (e *Evaluator) cheapTiles() bool { return e.o.Model.EdgeDim == 0 && e.edges.relation == nil }

// Rebound plans the runs that follow within another [Options].MemoryBytes. What earlier ones kept is given up.
func (e *Evaluator) Rebound(bytes int64) error {
	err := e.Close()
	e.o.MemoryBytes, e.loaded, e.sized, e.sizedOf = bytes, Tile{}, Tile{}, nil
	return errors.Join(err, e.plan(e.maxDim))
}

// LeastBytes is the smallest [Options].MemoryBytes with which an evaluator like this one works.
func (e *Evaluator) LeastBytes() int64 { return e.least }

// Tiles returns into how many pieces the graph is cut.
func (e *Evaluator) Tiles() int { return len(e.tiles) }

// BytesRead returns the bytes read from the store so far.
func (e *Evaluator) BytesRead() int64 { return e.read + e.edges.bytes }

// Spilled is what an evaluator read and wrote of states that lie in temporary files, in bytes.
type Spilled struct{ Read, Written int64 }

// Spilled returns what was read and written of states in temporary files so far.
func (e *Evaluator) Spilled() Spilled { return e.spilled }

// Computed returns how many rows of layers' outputs were computed so far: with all nodes asked, as many as there are nodes, for each layer.
func (e *Evaluator) Computed() int64 { return e.computed }

// Close frees the evaluator's memory.
func (e *Evaluator) Close() error {
	e.kept.free()
	e.asked.free()
	e.asked = nil
	for _, s := range []**spill.Table{&e.counts, &e.classes, &e.probability, &e.probabilities, &e.embeddings} {
		(*s).Close()
		*s = nil
	}
	err := errors.Join(e.arena.Close(), e.dropVectors(), e.on.free())
	e.on = nil
	if e.made != nil { // a ranker's evaluator has no layers
		err = errors.Join(err, e.made.Close())
	}
	for _, s := range slices.Concat(e.features, e.own, []*blockio.Slab{e.state, e.types, e.degrees, e.ends[0], e.ends[1], e.sizes,
		e.ofRelation, e.begins, e.part, e.counted}) {
		err = errors.Join(err, s.Free())
	}
	e.types, e.typesOf, e.typesIn = nil, Tile{}, nil
	e.features, e.state, e.degrees, e.ends, e.sizes, e.ofRelation = nil, nil, nil, [2]*blockio.Slab{}, nil, nil
	e.begins, e.part, e.counted, e.own, e.loaded, e.loadedOf = nil, nil, nil, nil, Tile{}, nil
	return err
}
