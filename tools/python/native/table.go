package native

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// Blobs of an embedding table's checkpoint.
const (
	blobOptimizer = "optimizer" // optimizerState as JSON
	blobUser      = "user"      // the caller's bytes
)

// optimizerState is what a checkpoint holds of the optimiser beside its planes.
type optimizerState struct {
	Optimizer string  `json:"optimizer"`
	LR        float64 `json:"lr"`
	Steps     int     `json:"steps"`
}

// tableRequest is what a table is made or opened by.
type tableRequest struct {
	Name        string `json:"name"`
	Create      bool   `json:"create"`
	MemoryBytes int64  `json:"memory_bytes"` // of the rows in memory; 0: all of them
	Threads     int    `json:"threads"`
	IOEngine    string `json:"io_engine"`
	// Of a table that is made:
	Dim       int     `json:"dim"`
	Optimizer string  `json:"optimizer"`
	LR        float64 `json:"lr"`
	Seed      uint64  `json:"seed"`
	Scale     float64 `json:"scale"` // standard deviation of the first embeddings
	Keep      int     `json:"keep"`
	Replace   bool    `json:"replace"`
	// Of one that is opened: a kept checkpoint's number, 0 = the last.
	Checkpoint uint64 `json:"checkpoint"`
}

// embeddings is a table's handle: rows are read and stepped by node, in any order, through a [partitionCache], or in the
// memory of a loader that holds them ([heldRows]).
type embeddings struct {
	mu       *sync.Mutex // one call at a time, those of the loader that holds the rows included
	manifest *store.Manifest
	table    *table.Table
	engine   blockio.Engine
	device   gpu.Device
	queue    *gpu.Queue
	arena    *gpu.Arena
	cache    *partitionCache
	frames   int       // of cache, as long as no loader holds the rows
	held     *heldRows // nil: none does
	state    optimizerState
	opened   []func() error // what end closes
	failed   error          // a step was left half done: the rows are of no step
	closed   bool
}

// openTable makes a table of embeddings, or opens one at a checkpoint; the reply's array is the caller's bytes in it.
func openTable(ctx context.Context, c *call) (err error) {
	s, err := c.store()
	if err != nil {
		return err
	}
	q := tableRequest{IOEngine: "auto"}
	if err := c.decode(&q); err != nil {
		return err
	}
	if q.Threads == 0 {
		q.Threads = runtime.GOMAXPROCS(0)
	}
	if q.Threads < 0 || q.MemoryBytes < 0 {
		return fmt.Errorf("%w: table %q with %d threads and %d bytes of memory: expected 0 or more", store.ErrInvalid, q.Name, q.Threads, q.MemoryBytes)
	}
	e := &embeddings{mu: new(sync.Mutex), manifest: s.Manifest()}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.end())
		}
	}()
	if e.engine, _, err = blockio.New(q.IOEngine, blockio.Options{}); err != nil {
		return err
	}
	e.opened = append(e.opened, e.engine.Close)
	if q.Create {
		err = e.create(ctx, s, &q)
	} else {
		err = e.open(ctx, s, &q)
	}
	if err != nil {
		return err
	}
	e.opened = append(e.opened, e.table.Close)
	bytes := frameBytes(e.manifest, e.table.Dim(), e.table.Planes())
	most, err := framesIn(e.manifest, q.Name, bytes, q.MemoryBytes)
	if err != nil {
		return err
	}
	e.device = host.New(host.Options{Threads: q.Threads})
	e.opened = append(e.opened, e.device.Close)
	if e.queue, err = gpu.NewQueue(e.device); err != nil {
		return err
	}
	e.arena = gpu.NewArena(e.device)
	e.cache, e.frames = newPartitionCache(e.table, e.device, bytes, most), most
	e.opened = append(e.opened, e.queue.Close, e.arena.Close, func() error { return e.cache.free() })
	user, err := e.table.Blob(ctx, blobUser)
	if err == nil {
		err = c.alloc(int64(len(user)))
	}
	if err == nil {
		copy(c.reply.Arrays[0], user)
		err = c.answer(map[string]any{"dim": e.table.Dim(), "nodes": e.manifest.Nodes, "optimizer": e.state.Optimizer, "lr": e.state.LR, "steps": e.state.Steps,
			"checkpoint": e.table.LastCheckpoint().Number, "partitions_in_memory": most, "bytes_in_memory": int64(most) * bytes})
	}
	if err != nil {
		return err
	}
	c.reply.Handle = all.add(e)
	return nil
}

// create makes the table. What can be found wrong is found first: it may replace another one.
func (e *embeddings) create(ctx context.Context, s *store.Store, q *tableRequest) error {
	cfg := link.Config{Dim: q.Dim, Optimizer: q.Optimizer, LR: q.LR, KeepCheckpoints: q.Keep, Table: q.Name, IOEngine: q.IOEngine}
	if err := cfg.Normalize(); err != nil { // what training's tables may be
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	if !(q.Scale >= 0 && q.Scale <= math.MaxFloat32) {
		return fmt.Errorf("%w: first embeddings of standard deviation %v: expected 0 or more", store.ErrInvalid, q.Scale)
	}
	if _, err := framesIn(e.manifest, q.Name, frameBytes(e.manifest, cfg.Dim, cfg.TablePlanes()), q.MemoryBytes); err != nil {
		return err
	}
	e.state = optimizerState{Optimizer: cfg.Optimizer, LR: cfg.LR}
	blobs, err := e.blobs(nil)
	if err != nil {
		return err
	}
	e.table, err = table.Create(ctx, s, table.Options{Name: cfg.Table, Dim: cfg.Dim, States: cfg.TablePlanes() - 1, Keep: cfg.KeepCheckpoints, Replace: q.Replace,
		Engine: e.engine, Blobs: blobs, Init: link.InitRows(q.Seed, cfg.Dim, q.Scale)})
	return err
}

// open opens the table at a checkpoint.
func (e *embeddings) open(ctx context.Context, s *store.Store, q *tableRequest) (err error) {
	if e.table, err = table.Open(ctx, s, table.Options{Name: q.Name, Checkpoint: q.Checkpoint, Engine: e.engine}); err != nil {
		return err
	}
	b, err := e.table.Blob(ctx, blobOptimizer)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: table %q is of another program, such as gstore train, and says nothing of an optimiser's steps: choose another name", store.ErrInvalid, q.Name)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &e.state); err != nil {
		return &blocks.CorruptError{Path: e.table.Path(), Extent: "checkpoint, optimizer", Offset: -1, Reason: err.Error()}
	}
	cfg := link.Config{Optimizer: e.state.Optimizer}
	if want := cfg.TablePlanes(); e.table.Planes() != want {
		return &blocks.CorruptError{Path: e.table.Path(), Extent: "checkpoint, optimizer", Offset: -1, Reason: fmt.Sprintf("%s needs %d planes, the table has %d", e.state.Optimizer, want, e.table.Planes())}
	}
	return nil
}

// blobs is what a checkpoint holds beside the rows.
func (e *embeddings) blobs(user []byte) ([]table.Blob, error) {
	state, err := json.Marshal(e.state)
	if err != nil {
		return nil, fmt.Errorf("%w: table: %w", store.ErrInvalid, err)
	}
	return []table.Blob{{Name: blobOptimizer, Data: state}, {Name: blobUser, Data: user}}, nil
}

// close ends the table: what was stepped since the last checkpoint is forgotten.
func (e *embeddings) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	if e.held != nil {
		e.held.by.cancel()
		return errors.Join(e.held.by.end(), e.end())
	}
	return e.end()
}

// free has nothing left to do: no memory of the table's is ever handed out.
func (e *embeddings) free() {}

// end closes what was opened, the last first.
func (e *embeddings) end() (err error) {
	for _, done := range slices.Backward(e.opened) {
		err = errors.Join(err, done())
	}
	e.opened = nil
	return err
}

// embeddings returns the call's table, locked; done unlocks it.
func (c *call) embeddings() (_ *embeddings, done func(), err error) {
	e, err := objectOf[*embeddings](c, "an embedding table")
	if err != nil {
		return nil, nil, err
	}
	e.mu.Lock()
	if err = e.failed; e.closed {
		err = fmt.Errorf("%w: embedding table", store.ErrClosed)
	}
	if err != nil {
		e.mu.Unlock()
		return nil, nil, err
	}
	return e, e.mu.Unlock, nil
}

// span is a range of ascending nodes that lie in one partition.
type span struct {
	part   store.PartitionID
	lo, hi int
}

// spans cuts n ascending nodes by partition, those in memory first: a frame is then used before it is given away.
func (e *embeddings) spans(n int, node func(i int) store.NodeID) (found []span, err error) {
	for lo := 0; lo < n; {
		p, err := e.manifest.Partition(node(lo))
		if err != nil {
			return nil, err
		}
		end := e.manifest.Partitions[p].First + store.NodeID(e.manifest.Partitions[p].Nodes)
		hi := lo + 1
		for hi < n && node(hi) < end {
			hi++
		}
		found, lo = append(found, span{p, lo, hi}), hi
	}
	absent := func(s span) int {
		if e.resident(s.part) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(found, func(a, b span) int { return cmp.Compare(absent(a), absent(b)) })
	return found, nil
}

// embeddingRows fills in the embeddings of nodes: arrays are the nodes, uint64, and float32 [nodes × dim].
func embeddingRows(ctx context.Context, c *call) error {
	e, done, err := c.embeddings()
	if err != nil {
		return err
	}
	defer done()
	nodes, err := blocks.View[store.NodeID](c.arrays[0])
	if err != nil {
		return err
	}
	width := 4 * e.table.Dim()
	if err := wantBytes("embeddings", c.arrays[1], int64(len(nodes))*int64(width)); err != nil {
		return err
	}
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(nodes[a], nodes[b]) })
	spans, err := e.spans(len(order), func(i int) store.NodeID { return nodes[order[i]] })
	if err != nil {
		return err
	}
	if err := e.reads(ctx, spans); err != nil {
		return err
	}
	for _, s := range spans {
		f, err := e.hold(ctx, s.part)
		if err != nil {
			return err
		}
		first := e.manifest.Partitions[s.part].First
		for _, i := range order[s.lo:s.hi] {
			copy(c.arrays[1][i*width:][:width], f.planes[0][int(nodes[i]-first)*width:])
		}
	}
	return nil
}

// stepEmbeddings takes an optimiser step: arrays are nodes, uint64, and their gradients, float32 [nodes × dim], those of a
// node that is there several times summed in their order. A step begun is finished, whatever becomes of ctx.
func stepEmbeddings(ctx context.Context, c *call) error {
	var q struct {
		LR float64 `json:"lr"`
	}
	e, done, err := c.embeddings()
	if err != nil {
		return err
	}
	defer done()
	if err := c.decode(&q); err != nil {
		return err
	}
	if !(q.LR > 0 && q.LR <= math.MaxFloat32) {
		return fmt.Errorf("%w: learning rate %v: expected more than 0, finite as float32", store.ErrInvalid, q.LR)
	}
	nodes, err := blocks.View[store.NodeID](c.arrays[0])
	if err != nil {
		return err
	}
	dim := e.table.Dim()
	if err := wantBytes("gradients", c.arrays[1], int64(len(nodes))*int64(dim)*4); err != nil {
		return err
	}
	grads, err := blocks.View[float32](c.arrays[1])
	if err != nil {
		return err
	}
	for i, v := range grads {
		if v-v != 0 { // NaN − NaN and ∞ − ∞ are NaN
			return fmt.Errorf("%w: the gradient of node %d is %v: nothing was stepped", store.ErrInvalid, nodes[i/dim], v)
		}
	}
	unique := slices.Clone(nodes)
	slices.Sort(unique)
	unique = slices.Compact(unique)
	spans, err := e.spans(len(unique), func(i int) store.NodeID { return unique[i] })
	if err == nil {
		err = e.steppable(spans)
	}
	if err != nil || len(unique) == 0 {
		return err
	}
	e.state.LR = q.LR
	e.state.Steps++
	if err := e.step(context.WithoutCancel(ctx), nodes, c.arrays[1], unique, spans); err != nil {
		e.failed = fmt.Errorf("table: a step was left half done: open it again, at its last checkpoint: %w", err)
		return e.failed
	}
	return c.answer(map[string]any{"steps": e.state.Steps})
}

// step sums the gradients by node, and steps the rows a partition at a time.
func (e *embeddings) step(ctx context.Context, nodes []store.NodeID, grads []byte, unique []store.NodeID, spans []span) (err error) {
	q, a, dim := e.queue, e.arena, e.table.Dim()
	of := make([]uint32, len(nodes)) // a gradient's place in unique
	for i, v := range nodes {
		k, _ := slices.BinarySearch(unique, v)
		of[i] = uint32(k)
	}
	from, err := e.device.Map(grads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Free(), a.Reset()) }()
	sum := a.Matrix(q, len(unique), dim)
	q.Fill(sum, 0)
	q.ScatterAddRows(sum, a.Uint32s(q, of), gpu.MatrixOf(from, 0, len(nodes), dim))
	if err := q.Sync(ctx); err != nil {
		return err
	}
	rows := make([]uint32, len(unique)) // within their partitions
	step := link.RowStep{Optimizer: e.state.Optimizer, LR: float32(e.state.LR), Step: e.state.Steps}
	for _, s := range spans {
		f, err := e.hold(ctx, s.part)
		if err != nil {
			return err
		}
		for i := s.lo; i < s.hi; i++ {
			rows[i] = uint32(unique[i] - e.manifest.Partitions[s.part].First)
		}
		planes, free, err := e.cache.tensors(f)
		if err != nil {
			return err
		}
		f.dirty = true
		step.Rows(q, planes[0], a.Uint32s(q, rows[s.lo:s.hi]), sum.View(s.lo, 0, s.hi-s.lo, dim), planes[1:]...)
		if err := errors.Join(q.Sync(ctx), free()); err != nil {
			return err
		}
	}
	return nil
}

// checkpointEmbeddings makes the rows as they are, the optimiser's state and the caller's bytes, the array, the state that the
// table is opened at, all or nothing. One that is begun is finished.
func checkpointEmbeddings(ctx context.Context, c *call) error {
	e, done, err := c.embeddings()
	if err != nil {
		return err
	}
	defer done()
	ctx = context.WithoutCancel(ctx)
	blobs, err := e.blobs(c.arrays[0])
	if err != nil {
		return err
	}
	if err := e.commit(ctx, blobs); err != nil {
		return err
	}
	return c.answer(map[string]any{"checkpoint": e.table.LastCheckpoint().Number, "moved": e.cache.stats})
}
