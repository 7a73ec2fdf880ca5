package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/spill"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Layer holds, for every destination of a layer, what its neighbours that will not
// be in memory when it is trained contribute to the layer's mean
// (docs/lab/findings.md, "Historical aggregates"): the sum of their states below that
// layer over the destination's degree, of a layer of sums not divided, computed exactly with the model as it was at the start of the epoch.
//
// The destinations of a last layer are training nodes. An epoch trains each partition in one step of its plan, so that the step's
// resident partitions are known beforehand and one row a training node is enough: dim
// elements of elem, and the float32 by which the mean over resident neighbours is divided.
// Those of a layer below are all nodes of a step's partitions: pinned ones have rows for each step.
// Of a layer that tells relations apart each relation of such a node is a destination.
// The rows lie in a temporary file, by partition, step and destination; memory holds those of the step that is trained.
type Layer struct {
	Options
	dev   gpu.Device
	parts []store.PartitionInfo

	begins   []int           // by partition: position of its first destination; one more than there are partitions
	training *bits           // whether a node is a training node; nil: all nodes are destinations
	groups   *relationGroups // what destinations nodes are; nil: one each
	Known    *bits           // whether a node has a state; nil: all have
	Rows     *spill.Table    // a row a destination
	sums     *spill.Table    // while tiles are added up: a sum a row, see sumColumns; nil until there are two
	dir      string          // for the files
	Window   window

	// Of the plan.
	steps    [][]int  // by partition: the steps that its rows are of
	first    [][]int  // by partition and step: its first row
	resident [][]bool // by step and partition

	spent           time.Duration // filling it for this epoch
	indptr, indices []int32       // of the edges that are added up
	counts          []int         // of a node: degrees of its destinations, and how many of these are missing
	place           []int         // by relation: which of a node's destinations it is
	marks           []int32       // of a node's edges: the destination, −1 where the source is resident
	dstDegrees      []int32       // of the destinations whose edges are added up, where symmetric
	nodes, slots    []uint32      // of a batch
	Divisors        []float32     // of a batch until its Sync; degrees of a piece
}

// Options configures a history. Zero values: the first layer, the first split column, float32, steps of any size.
type Options struct {
	Layer     int // whose destinations' rows they are, not counting an input layer
	Input     int // input layers
	Split     string
	Dim       int             // columns of the hidden states
	Relations int             // that the layer tells apart, inverse ones counted; 0: it does not
	undivided bool            // the layer adds states up: rows are not divided by degrees
	Attention bool            // the layer attends: a row is the mean of the states of absent neighbours, and behind it their number
	symmetric bool            // each state counts 1/√((deg v + 1)(deg u + 1)), as in gcn
	every     bool            // all nodes of a step are destinations, not its training nodes alone
	without   []bool          // by relation: those whose edges do not count; nil: all do
	Elem      blocks.ElemType // of rows
	Resident  int             // partitions in memory at once, pinned ones included; 0: all
}

// New counts the destinations and makes room for their rows: for those of a step, in memory. groups are of a layer that tells relations apart.
func New(ctx context.Context, src eval.Source, dev gpu.Device, groups *relationGroups, o Options) (_ *Layer, err error) {
	m := src.Manifest()
	if o.Elem == blocks.Invalid {
		o.Elem = blocks.Float32
	}
	h := &Layer{Options: o, dev: dev, parts: m.Partitions, groups: groups, begins: []int{0}, steps: make([][]int, len(m.Partitions)), first: make([][]int, len(m.Partitions)),
		counts: make([]int, 2*max(1, o.Relations)), place: make([]int, o.Relations), dir: src.ScratchDir()}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if !o.every {
		if err := h.findTraining(ctx, src); err != nil {
			return nil, err
		}
	}
	for p, info := range m.Partitions {
		n := h.begins[p]
		for i := range int(info.Nodes) {
			n += h.size(p, i)
		}
		h.begins = append(h.begins, n)
	}
	if h.Len() == 0 && groups == nil {
		return nil, fmt.Errorf("train: history: %w: training nodes in split column %s", store.ErrNotFound, o.Split)
	}
	h.Window.rows = h.windowRows(o.Resident)
	if err := h.Window.open(dev, max(h.Window.rows*h.RowBytes(), h.sumColumns()*4*max(1, o.Relations))); err != nil {
		return nil, err
	}
	h.Rows, err = spill.New(uint64(h.Len()), int64(h.RowBytes()), false, h.dir)
	return h, err
}

// findTraining finds the training nodes of the split.
func (h *Layer) findTraining(ctx context.Context, src eval.Source) error {
	m := src.Manifest()
	column, err := m.SplitColumn(h.Split)
	if err != nil {
		return fmt.Errorf("train: history: %w", err)
	}
	h.Split = column.Name
	if h.training, err = NewBits(m.Nodes); err != nil {
		return err
	}
	var split []byte
	for p, info := range m.Partitions {
		if split, err = src.ReadColumn(ctx, column.Name, store.PartitionID(p), split); err != nil {
			return err
		}
		for i, s := range split {
			if s == store.SplitTrain {
				h.training.Set(uint64(info.First) + uint64(i))
			}
		}
	}
	return nil
}

// bits has one a node, by internal id.
type bits struct{ *blockio.Slab }

func NewBits(nodes uint64) (*bits, error) {
	s, err := blockio.AllocSlab((int64(nodes)+7)/8, blockio.SlabOptions{})
	return &bits{s}, err
}

func (b *bits) Set(v uint64)      { b.Bytes()[v/8] |= 1 << (v % 8) }
func (b *bits) Has(v uint64) bool { return b.Bytes()[v/8]>>(v%8)&1 > 0 }

// close frees b, which may be nil.
func (b *bits) close() error {
	if b == nil || b.Slab == nil {
		return nil
	}
	return b.Free()
}

// relationGroups are the relations of which each node has edges, ascending.
type relationGroups struct {
	bases     []int    // by partition: where its nodes' begin
	starts    []uint32 // by internal id, and one more a partition: where the node's begin, counted from its partition's
	relations []uint16
}

// newRelationGroups reads the graph once for each of e's tiles.
func newRelationGroups(ctx context.Context, e *eval.Evaluator, parts []store.PartitionInfo, relations int) (*relationGroups, error) {
	g := &relationGroups{}
	err := e.RelationSizes(ctx, func(t eval.Tile, sizes []int32) {
		for p := t.Lo; p < t.Hi; p++ {
			base := len(g.relations)
			g.bases = append(g.bases, base)
			for i := range int(parts[p].Nodes) {
				g.starts = append(g.starts, uint32(len(g.relations)-base))
				for r, n := range sizes[(int(uint64(parts[p].First)-t.Base)+i)*relations:][:relations] {
					if n > 0 {
						g.relations = append(g.relations, uint16(r))
					}
				}
			}
			g.starts = append(g.starts, uint32(len(g.relations)-base))
		}
	})
	return g, err
}

// less returns those that remain without some relations; g itself where none are named.
func (g *relationGroups) less(parts []store.PartitionInfo, without []bool) *relationGroups {
	if g == nil || without == nil {
		return g
	}
	l := &relationGroups{}
	for p := range parts {
		base := len(l.relations)
		l.bases = append(l.bases, base)
		for i := range int(parts[p].Nodes) {
			l.starts = append(l.starts, uint32(len(l.relations)-base))
			for _, r := range g.of(p, &parts[p], i) {
				if !without[r] {
					l.relations = append(l.relations, r)
				}
			}
		}
		l.starts = append(l.starts, uint32(len(l.relations)-base))
	}
	return l
}

// memory is what they take.
func (g *relationGroups) memory() int64 { return int64(4*len(g.starts) + 2*len(g.relations)) }

// of returns those of node i of a partition.
func (g *relationGroups) of(p int, info *store.PartitionInfo, i int) []uint16 {
	at := int(info.First) + p + i
	return g.relations[g.bases[p]+int(g.starts[at]) : g.bases[p]+int(g.starts[at+1])]
}

// size returns how many destinations node i of a partition is.
func (h *Layer) size(p, i int) int {
	switch {
	case h.training != nil && !h.training.Has(uint64(h.parts[p].First)+uint64(i)):
		return 0
	case h.groups != nil:
		return len(h.groups.of(p, &h.parts[p], i))
	}
	return 1
}

// Len returns the number of destinations.
func (h *Layer) Len() int { return h.begins[len(h.begins)-1] }

// in returns how many destinations a partition has.
func (h *Layer) in(p int) int { return h.begins[p+1] - h.begins[p] }

// RowBytes is what a destination's row takes.
func (o *Options) RowBytes() int { return o.Dim*o.Elem.Size() + 4 }

// sumColumns is the float32 of a row that is being added up: the sum, the degree and how many
// neighbours will not be in memory.
func (o *Options) sumColumns() int { return o.Dim + 2 }

// memory is what is in memory for the whole run: the window's rows and where their nodes are, and a few
// numbers a partition. Groups of relations are counted apart: layers share them.
func (h *Layer) memory() int64 { return h.bytes(h.Window.rows, h.parts, len(h.resident)) }

// bytes is what is in memory of a history with a window of rows, for a plan of steps, without groups of relations.
func (o *Options) bytes(rows int, parts []store.PartitionInfo, steps int) int64 {
	nodes := uint64(0)
	for _, p := range parts {
		nodes += p.Nodes
	}
	if o.every {
		nodes = 0 // no bits
	}
	row := o.RowBytes() + 4
	if o.Relations > 0 {
		row += 4 + 2
	}
	return int64(rows)*int64(row) + int64(nodes+7)/8 + int64(len(parts))*int64(16+steps)
}

func (h *Layer) Close() error {
	err := errors.Join(h.Window.close(), h.training.close(), h.Known.close())
	h.Rows.Close()
	h.sums.Close()
	h.Rows, h.sums, h.training, h.Known = nil, nil, nil, nil
	return err
}

// Begin prepares filling the history for an epoch with the given plan.
func (h *Layer) Begin(plan buffer.Plan) error {
	h.spent = 0
	for p := range h.steps {
		h.steps[p] = h.steps[p][:0]
	}
	h.resident = h.resident[:0]
	for s := range plan.Steps {
		step := &plan.Steps[s]
		of := h.destinations(step)
		if n := h.count(of); n > h.Window.rows {
			return fmt.Errorf("train: history: %w: step %d has %d rows, memory was set aside for %d: give more memory or fewer resident partitions", store.ErrBudget, s, n, h.Window.rows)
		}
		in := make([]bool, len(h.parts))
		for _, p := range step.Reached() {
			in[p] = true
		}
		h.resident = append(h.resident, in)
		for _, p := range of {
			if len(h.steps[p]) > 0 && !h.every {
				return fmt.Errorf("train: history: plan %s trains partition %d in steps %d and %d, expected one step an epoch", plan.Policy, p, h.steps[p][0], s)
			}
			h.steps[p] = append(h.steps[p], s)
		}
	}
	next := 0
	for p, steps := range h.steps {
		h.first[p] = h.first[p][:0]
		for range max(1, len(steps)) { // training nodes of a partition that the plan leaves out keep their place
			h.first[p] = append(h.first[p], next)
			next += h.in(p)
		}
	}
	return nil
}

// destinations are the partitions of which a step reads rows.
func (h *Layer) destinations(s *buffer.Step) []store.PartitionID {
	if h.every {
		return s.Reached()
	}
	return s.Train
}

// Find sets h.nodes to the places in the window of nodes, which are rows of the macro-batch.
func (h *Layer) Find(rows []uint32) error {
	h.nodes = h.nodes[:0]
	for _, row := range rows {
		node, ok := h.Window.Node(row)
		if !ok {
			return fmt.Errorf("train: history: the node in row %d has none in the step", row)
		}
		h.nodes = append(h.nodes, uint32(node))
	}
	return nil
}

// More lists the relations of node d of those found last that have neighbours out of memory; it is valid until it is called again.
func (h *Layer) More(d int) []uint16 {
	w, missing := &h.Window, h.Window.missing[:0]
	for k := w.begin[h.nodes[d]]; k < w.begin[h.nodes[d]+1]; k++ {
		if h.Divisor(int(k)) > 0 {
			missing = append(missing, w.relations[k])
		}
	}
	w.missing = missing
	return missing
}

// Of returns what completes the means of nodes that were found last, or of groups of their edges: relations of destinations among them.
func (h *Layer) Of(q *gpu.Queue, a *gpu.Arena, relations, dst []int32) *nn.History {
	h.slots, h.Divisors = h.slots[:0], h.Divisors[:0]
	if h.groups == nil {
		h.slots = append(h.slots, h.nodes...)
	}
	w := &h.Window
	for k, r := range relations {
		begin, end := w.begin[h.nodes[dst[k]]], w.begin[h.nodes[dst[k]]+1]
		at, ok := slices.BinarySearch(w.relations[begin:end], uint16(r))
		if !ok {
			q.Fail(fmt.Errorf("train: history: a node has edges of relation %d in the step, but no row", r))
			return nil
		}
		h.slots = append(h.slots, begin+uint32(at))
	}
	for _, slot := range h.slots {
		h.Divisors = append(h.Divisors, h.Divisor(int(slot)))
	}
	rest, divisors := a.Matrix(q, len(h.slots), h.Dim), a.Float32s(q, h.Divisors)
	q.Gather(rest, w.table(w.rows, h.Dim, h.RowBytes(), h.Elem), a.Uint32s(q, h.slots))
	return &nn.History{Layer: h.Layer, Divisors: divisors, Rest: rest}
}
