package buffer

import (
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// Span is one node's slice of an index array: Indices[Begin:End].
// Begin and End lie side by side so that a random node costs one cache miss.
type Span struct{ Begin, End int64 }

// Adjacency is one direction of a macro-batch's induced graph, indexed by row.
//
// Rows are positions in the partition buffer, not node ids: partition slot s
// holds its nodes in rows Base(s) … Base(s)+n−1, so that a row addresses
// features, labels and adjacency alike without translation. Rows between
// slots may be unused; their spans are empty. Spans need not lie in order
// of rows and may leave gaps in Indices.
//
// The order of a node's neighbours does not depend on slots or on what was
// resident before: ascending partition, then ascending internal id (where all
// partitions are resident for the whole run, plan "memory": ascending external
// id, so that samples do not depend on the number of partitions). Parallel
// edges keep the order they have on disk.
//
// Where a graph is in memory without its features (package store/rows) the spans are compact: Spans is nil, and row r's
// begin at Bases[r>>16] + Starts[r] and end where row r+1's begin. [Adjacency.Span] reads both forms.
type Adjacency struct {
	Spans   []Span   // len = rows
	Indices []uint32 // neighbours' rows
	Starts  []uint32 // len = rows + 1; nil where there are Spans
	Bases   []int64  // one for each 65536 of Starts
	// Relations[k] is the relation of edge k, parallel to Indices; nil if
	// nobody asked.
	Relations []uint16
	// Weights[k] is what edge k weighs ([Weight]), parallel to Indices; nil if nobody asked. Sums[k/SumEdges], for k a multiple of
	// SumEdges, is the sum of the weights of edge k's row before k ([Adjacency.SumWeights]).
	Weights []float32
	Sums    []float64
	// Times[k] is when edge k was, parallel to Indices; nil if nobody asked. Where somebody did, a row's edges lie in
	// order of time, and those of one time in the order above, so that what was before a moment is a prefix of them.
	Times []int64
	// Features[k*FeatureDim:(k+1)*FeatureDim] are the features of edge k, [Options.EdgeFeatures]; nil if nobody asked.
	Features   []float32
	FeatureDim int
}

// SumEdges is from how many edges to how many a sum of weights is kept: weights of a cache line.
const SumEdges = 16

// Weight returns w as a weight counts: as 0 where it is negative or no number, as the largest float32 where it is infinite.
func Weight(w float32) float64 {
	switch b := math.Float32bits(w); {
	case b < infinity: // one comparison for what most weights are
		return float64(w)
	case b == infinity:
		return math.MaxFloat32
	}
	return 0
}

// infinity is its bits as a float32: those of what is finite and not negative are below, of NaNs and what is negative above.
const infinity = 0x7f800000

// SumWeights sets a.Sums, whose length is at least ⌈len(Indices)/SumEdges⌉, for rows lo … hi−1, and their weights to what they
// count as, which is what those who read them later go by.
func (a *Adjacency) SumWeights(lo, hi int) {
	for row := lo; row < hi; row++ {
		s, sum := a.Span(uint32(row)), 0.
		for k := s.Begin; k < s.End; k++ {
			if k%SumEdges == 0 {
				a.Sums[k/SumEdges] = sum
			}
			w := Weight(a.Weights[k])
			if sum += w; float64(a.Weights[k]) != w {
				a.Weights[k] = float32(w)
			}
		}
	}
}

// RowWeight returns the sum of the weights of a row's edges.
func (a *Adjacency) RowWeight(row uint32) (sum float64) {
	s := a.Span(row)
	k := s.Begin
	if last := (s.End - 1) / SumEdges * SumEdges; last > k { // the sum before last is of the row alone
		k, sum = last, a.Sums[last/SumEdges]
	}
	for ; k < s.End; k++ {
		sum += float64(a.Weights[k])
	}
	return sum
}

// Rows returns the number of rows.
func (a *Adjacency) Rows() int {
	if a.Spans == nil && len(a.Starts) > 0 {
		return len(a.Starts) - 1
	}
	return len(a.Spans)
}

// Span returns where a row's neighbours lie.
func (a *Adjacency) Span(row uint32) Span {
	if a.Spans == nil {
		return Span{a.Bases[row>>16] + int64(a.Starts[row]), a.Bases[(row+1)>>16] + int64(a.Starts[row+1])}
	}
	return a.Spans[row]
}

// Degree returns the number of resident neighbours of a row.
func (a *Adjacency) Degree(row uint32) int64 {
	s := a.Span(row)
	return s.End - s.Begin
}

// Edges returns the number of edges between resident nodes.
func (a *Adjacency) Edges() int64 {
	var n int64
	for r := range a.Rows() {
		n += a.Degree(uint32(r))
	}
	return n
}

// Column is one resident column (a feature, labels, a split), indexed by row
// like [Adjacency]: element (row, j) lies at byte row*Stride + j*Type.Size().
// The bytes belong to the partition buffer and are valid until the macro-batch
// is released.
type Column struct {
	Name   string
	Type   blocks.ElemType
	Dim    int // elements a row
	Stride int // bytes a row
	Data   []byte
	// Scale holds one factor a dimension where Type is Int8 (value = element ×
	// Scale[d]); nil otherwise.
	Scale []float32
	// Runs says where the rows are of a column that has those of one node type alone ([Options.Runs]): the element of a row of the
	// buffer lies in row Runs.Place(row). nil: the column has rows as the buffer has.
	Runs *Runs
}

// Rows is how many rows Data holds; what pads the last one to Stride bytes may be missing.
func (c *Column) Rows() int { return (len(c.Data) + c.Stride - c.Dim*c.Type.Size()) / c.Stride }

// ResidentPartition says where a partition of a macro-batch lies.
type ResidentPartition struct {
	ID    store.PartitionID
	Base  uint32 // its first row
	Nodes uint32
	First store.NodeID // internal id of its first node: node First+k is row Base+k
	// Table is its first row in Planes: Base, but of a table of some nodes, whose rows are in the order of the nodes that have one.
	Table uint32
}

// MacroBatch is the in-memory subgraph of one step: induced edges and columns
// of the resident partitions. It belongs to the iterator that made it and is
// valid until that iterator's Next, Start or Close is called; everything in it
// but Planes is read-only.
type MacroBatch struct {
	StepIndex  int
	Step       Step
	Partitions []ResidentPartition // ascending ID
	Rows       int                 // the buffer's rows: one more than the largest row there can be
	In         *Adjacency          // messages arrive along these: In.Indices are sources
	Out        *Adjacency          // the reverse (In itself where the graph is undirected); nil unless asked for
	Features   []Column            // in the order asked for
	// Planes are the rows of [Options.Table], float32[Rows × dim] a plane, of a table of some nodes fewer: the embeddings,
	// then their optimiser state. The resident partitions' rows are the trainer's to change. It is the
	// same memory for every macro-batch.
	Planes [][]float32
	Labels []int32 // by row, -1 = none; nil if not asked for; rows outside Partitions hold anything
	Split  []uint8 // by row, a Split value; nil if the store has none; likewise
	// Keys name the rows' nodes by numbers that do not depend on where a partition lies: internal ids modulo 2³², in plan
	// "memory" places in the order of external ids; nil if not asked for; rows outside Partitions hold anything.
	Keys []uint32
	// Seeds are the rows of the step's training nodes: by ascending partition and
	// internal id, in plan "memory" by ascending external id.
	Seeds []uint32
}
