package eval

import (
	"context"
	"errors"
	"slices"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
)

// A device with memory of its own reads the host's across a bus that is a hundredth as fast, and only where it is page-locked, which costs
// more than the copy. So what an evaluation reads again and again stays on the device, where there is room: features are sent once in the
// evaluator's life, states between layers never leave it, and edges are built and sent once. The host then holds a tile's edges while they
// are built and one partition's features, whatever the number of nodes. Messages are added in the same order: no bit changes.

// resident is what stays on the device. Tensors are of all nodes, by internal id.
type resident struct {
	features []gpu.Tensor // of each column
	there    []bool       // by partition: its features are sent
	states   [2]gpu.Tensor
	tiles    []Tile         // of destinations: what the host has room for the edges of
	keeps    bool           // edges stay
	edges    []*residentCSR // by tile; nil: not there yet
	rows     int            // how many nodes a layer finishes at a time
	held     []gpu.Memory
}

// residentCSR is a tile's edges from all nodes.
type residentCSR struct {
	indptr, indices gpu.Tensor
	degrees         []float32 // of destinations
}

// residentChunk is about how many bytes of tensors a layer finishes at a time from resident states.
const residentChunk = 256 << 20

// KeepOnDevice lets the runs that follow keep features, states and edges in so much of the device's own memory. Where that, or the host's
// bound, has no room for all nodes' features and states, or the device has no memory of its own, nothing is kept, as without this call.
func (e *Evaluator) KeepOnDevice(bytes int64) { e.deviceBytes = bytes }

// openResident returns what is on the device, nil if nothing can be.
func (e *Evaluator) openResident() (*resident, error) {
	if e.on != nil || e.deviceBytes <= 0 || !e.dev.Info().OwnMemory() || !e.resides() {
		return e.on, nil
	}
	plan := e.planResident()
	if plan == nil {
		e.deviceBytes = 0
		return nil, nil
	}
	err := plan.alloc(e)
	if err == nil {
		e.on = plan
		return plan, nil
	}
	err = errors.Join(err, plan.free())
	if errors.Is(err, gpu.ErrMemory) { // what others have of the device
		e.deviceBytes, err = 0, nil
	}
	return nil, err
}

// resides reports whether states may stay on the device: they are not asked for, nor are several layers' at once.
func (e *Evaluator) resides() bool {
	return len(e.columns) > 0 && !e.o.Embeddings && e.o.Vectors == nil && !e.o.Model.Jumps()
}

// planResident plans what the device and the host have room for, nil if that is not enough.
func (e *Evaluator) planResident() *resident {
	m := e.src.Manifest()
	nodes := int64(m.Nodes)
	accumulated, transformed := e.o.Model.StreamDims()
	sums := int64(max(accumulated, e.maxDim))
	for _, c := range e.columns {
		if !e.o.Model.StreamsProducts() {
			sums = max(sums, int64(c.Dim))
		}
	}
	row := 4 * (3*sums + 2*int64(e.maxDim))
	x := &resident{rows: int(max(residentChunk/row, chunkRowsMin)), there: make([]bool, len(m.Partitions))}
	edges, all := e.edgesInto(), int64(0)
	for _, n := range edges {
		all += n
	}
	// Beside a tile of the host's: one partition's features, types and degrees of all nodes.
	cost := &stageCost{node: stageNode + e.nodeBytes + 4*int64(e.o.Model.Relations), edge: e.edgeBytes, edges: edges, resident: true,
		chunk: e.chunkBytes + int64(e.largest)*e.featureBytes + 8*nodes}
	onDevice := &stageCost{node: 4 * (sums + 1), edge: e.edgeBytes, edges: edges, resident: true,
		chunk: nodes*(e.featureBytes+2*4*int64(e.maxDim)+4*int64(transformed)) + 2*min(residentChunk, nodes*row)}
	bound := e.bound
	if e.o.MemoryBytes == 0 {
		bound = max(bound, unboundedStates)
	}
	for k := 1; ; k = moreTiles(k) {
		if x.tiles = tilesOf(m.Partitions, k); !e.cheapTiles() { // which round once a tile
			x.tiles = e.tiles
		}
		s := &stage{of: e.all, into: e.all, tiles: x.tiles}
		left := e.deviceBytes - s.need(onDevice, 0)
		if left >= 0 && s.need(cost, 0) <= bound {
			x.keeps = e.cheapTiles() && e.edges.weight == nil && left >= 4*(all+nodes+int64(k))
			x.edges = make([]*residentCSR, len(x.tiles))
			return x
		}
		if k >= len(m.Partitions) || !e.cheapTiles() {
			return nil
		}
	}
}

// alloc allocates features and states.
func (x *resident) alloc(e *Evaluator) error {
	nodes := int(e.src.Manifest().Nodes)
	for _, c := range e.columns {
		elem := nn.TableElem(c.Elem)
		mem, err := x.take(e.dev, int64(nodes)*int64(c.RowBytes()))
		if err != nil {
			return err
		}
		t := gpu.Tensor{Mem: mem, Rows: nodes, Cols: c.Dim, Stride: c.Dim, Elem: elem}
		if c.Scale != nil {
			if t.Scale, err = e.dev.Map(blocks.Bytes(c.Scale)); err != nil {
				return err
			}
			x.held = append(x.held, t.Scale)
		}
		x.features = append(x.features, t)
	}
	for i := range x.states {
		mem, err := x.take(e.dev, int64(nodes)*4*int64(e.maxDim))
		if err != nil {
			return err
		}
		x.states[i] = gpu.MatrixOf(mem, 0, nodes, e.maxDim)
	}
	return nil
}

// leaveDevice gives up what is on the device, for good.
func (e *Evaluator) leaveDevice() error {
	err := errors.Join(e.on.free(), e.arena.Reset(), e.made.Reset())
	e.on, e.deviceBytes = nil, 0
	return err
}

// take allocates memory that stays until free.
func (x *resident) take(dev gpu.Device, bytes int64) (gpu.Memory, error) {
	mem, err := dev.Alloc(max(bytes, 1))
	if err == nil {
		x.held = append(x.held, mem)
	}
	return mem, err
}

// free gives everything back; x may be nil.
func (x *resident) free() (err error) {
	if x == nil {
		return nil
	}
	for _, m := range x.held {
		err = errors.Join(err, m.Free())
	}
	x.held = nil
	return err
}

// of is the states of all nodes below layer l, of so many columns, and above it those of layer l+1.
func (x *resident) of(l, columns int) gpu.Tensor {
	t := x.states[l%2]
	return gpu.MatrixOf(t.Mem, 0, t.Rows, columns)
}

// reside has the run keep what it reads on the device, if that has room.
func (r *evaluation) reside() (err error) {
	if r.on, err = r.openResident(); err != nil || r.on == nil {
		return err
	}
	s := *r.work
	s.tiles, s.runs, s.pieceNodes, s.aheads = r.on.tiles, []Tile{r.all.tile(0, len(r.all.parts))}, 0, false
	if s.kept = nil; len(s.tiles) == 1 && !r.on.keeps {
		s.kept = &r.kept
	}
	r.work, r.chunkRows = &s, r.on.rows
	return nil
}

// residentInput is the states of a run of nodes below the layer, which are on the device.
func (r *evaluation) residentInput(ctx context.Context, of Tile) (in nn.Input, err error) {
	if in.Types, err = r.loadTypes(ctx, r.work.of, of); err != nil {
		return in, err
	}
	if r.layer > 0 {
		in.Tables = []gpu.Tensor{r.on.of(r.layer, r.inDim).View(int(of.Base), 0, of.Nodes, r.inDim)}
		return in, nil
	}
	if err := r.sendFeatures(ctx, of); err != nil {
		return in, err
	}
	for _, t := range r.on.features {
		v := t.View(int(of.Base), 0, of.Nodes, t.Cols)
		v.Scale = t.Scale
		in.Tables = append(in.Tables, v)
	}
	return in, nil
}

// sendFeatures sends what is not there yet of a run's features, a partition at a time.
func (r *evaluation) sendFeatures(ctx context.Context, of Tile) error {
	sent := false
	for p := of.Lo; p < of.Hi; p++ {
		t := r.all.tile(p, p+1)
		if r.on.there[p] || t.Nodes == 0 {
			continue
		}
		if err := r.loadFeatures(ctx, t); err != nil {
			return err
		}
		for k, table := range r.on.features {
			size := t.Nodes * r.columns[k].RowBytes()
			to := gpu.VectorOf(table.Mem, int64(t.Base)*int64(r.columns[k].RowBytes()), t.Nodes*table.Cols, table.Elem)
			r.queue.Upload(to, r.features[k].Bytes()[:size])
		}
		if err := r.queue.Sync(ctx); err != nil {
			return err
		}
		r.on.there[p], sent = true, true
	}
	if sent {
		return r.dropFeatures()
	}
	return nil
}

// keepEdges sends a tile's edges to the device, to stay there.
func (r *evaluation) keepEdges(ctx context.Context, c csr, to int, degrees []float32) error {
	x := &residentCSR{degrees: slices.Clone(degrees)}
	send := func(list []int32) (t gpu.Tensor, err error) {
		if len(list) == 0 {
			return t, nil
		}
		mem, err := r.on.take(r.dev, 4*int64(len(list)))
		if err == nil {
			t = gpu.VectorOf(mem, 0, len(list), blocks.Int32)
			r.queue.Upload(t, blocks.Bytes(list))
		}
		return t, err
	}
	var err error
	if x.indptr, err = send(c.indptr); err != nil {
		return err
	}
	if x.indices, err = send(c.indices); err != nil {
		return err
	}
	if err := r.queue.Sync(ctx); err != nil {
		return err
	}
	r.on.edges[to] = x
	return nil
}

// residentEdges are a tile's edges, if they are on the device.
func (r *evaluation) residentEdges(to int) *residentCSR {
	if r.on == nil {
		return nil
	}
	return r.on.edges[to]
}

// accumulateResident adds the messages to a tile from all nodes, along edges that are on the device.
func (r *evaluation) accumulateResident(ctx context.Context, layer nn.Streamer, to int, acc gpu.Tensor, degrees []float32) error {
	x := r.on.edges[to]
	copy(degrees, x.degrees)
	if x.indices.IsZero() {
		return nil
	}
	all := r.work.runs[0]
	input, release, err := r.input(ctx, all)
	if err != nil {
		return err
	}
	defer release()
	ends, err := r.endDegrees(all, to)
	if err != nil {
		return err
	}
	g := gpu.Graph{NumDst: r.work.tiles[to].Nodes, NumSrc: all.Nodes, Indptr: x.indptr, Indices: x.indices}
	return r.add(ctx, layer, &g, ends, input, acc)
}
