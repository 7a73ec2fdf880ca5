package native

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train/config"
	nodes "github.com/gstore/gstore/gpu/train/loader"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
)

// loaderRequest is what a loader is made by. Field by field it is a [train.Config] or [train.LoaderOptions].
type loaderRequest struct {
	Fanouts         []int    `json:"fanouts"`
	RelationFanouts string   `json:"relation_fanouts"`
	BatchSize       int      `json:"batch_size"`
	Seeds           string   `json:"seeds"`
	Split           string   `json:"split"`
	Shuffle         bool     `json:"shuffle"`
	Features        []string `json:"features"`
	Sampler         string   `json:"sampler"`
	Prune           string   `json:"prune"`
	Walks           int      `json:"walks"`
	WalkLength      int      `json:"walk_length"`
	WalkRestart     *float64 `json:"walk_restart"`
	Relations       bool     `json:"relations"`
	EdgeFeatures    []string `json:"edge_features"`
	PrecomputedHop  bool     `json:"precomputed_hop"`
	Plan            string   `json:"plan"`
	Buffer          int      `json:"buffer"`
	Reuse           int      `json:"reuse"`
	MemoryBytes     int64    `json:"memory_bytes"`
	Seed            uint64   `json:"seed"`
	Threads         int      `json:"threads"`
	RowReads        string   `json:"row_reads"`
	IOEngine        string   `json:"io_engine"`
	Rank            int      `json:"rank"`
	World           int      `json:"world"`
	Layers          bool     `json:"layers"`  // hand out the blocks as they are, not the union of their edges
	Inverse         bool     `json:"inverse"` // with relations, also edges against their direction, as relations of their own
	Absent          string   `json:"absent"`  // "ignore": all neighbours are those in memory; "": all or an error
	DropLast        bool     `json:"drop_last"`
	Given           bool     `json:"given"` // the call's array is the seeds, uint64
}

// batchLoader is a [train.Loader] or a [link.Loader].
type batchLoader interface {
	Start(epoch int, from progress.Place) error
	Next() bool
	Err() error
	Batch() *mini.Batch
	Ready() *mini.Batch
	Place() progress.Place
	Close() error
}

// loader is a loader's handle. Its memory outlives it until free: batches that were handed out are looked at.
type loader struct {
	mu      *sync.Mutex // one call at a time, those of the table that it holds included
	l       batchLoader
	of      *store.Store
	packed  func(b *mini.Batch) (*packed, error) // of its batch in hand
	shift   func() []float32                     // of its macro-batches' classes; nil: none
	table   *embeddings                          // whose rows it holds; nil: none
	cancel  context.CancelFunc
	room    *room
	started bool
	closed  bool
}

// openLoader makes a loader of a store's node batches; the reply says how it was configured.
func openLoader(_ context.Context, c *call) error {
	s, err := c.store()
	if err != nil {
		return err
	}
	var q loaderRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	if q.Threads == 0 {
		q.Threads = runtime.GOMAXPROCS(0)
	}
	cfg := config.Config{Fanouts: q.Fanouts, RelationFanouts: q.RelationFanouts, BatchSize: q.BatchSize, Seed: q.Seed, Features: q.Features, Split: q.Split, Sampler: q.Sampler, PrecomputedHop: q.PrecomputedHop,
		Prune: q.Prune, Walks: q.Walks, WalkLength: q.WalkLength, WalkRestart: q.WalkRestart,
		Plan: q.Plan, Buffer: q.Buffer, Reuse: q.Reuse, MemoryBytes: q.MemoryBytes, RowReads: q.RowReads, IOEngine: q.IOEngine, Threads: q.Threads}
	bound(s.Manifest(), cfg.Plan, cfg.Buffer, &cfg.MemoryBytes)
	var given []store.NodeID
	if q.Given {
		if given, err = viewNodes(c, 0); err != nil {
			return err
		}
	}
	switch { // whose neighbours have what the batches' have
	case q.Relations && len(s.Manifest().ColumnsOf(store.RoleRelation)) == 0:
		return fmt.Errorf("%w: relations of edges are asked for, and edges here are of one kind: leave relations out", store.ErrInvalid)
	case q.Relations && len(q.EdgeFeatures) > 0:
		return fmt.Errorf("%w: edge_features %q with relations: hand out one of them", store.ErrInvalid, q.EdgeFeatures)
	case q.Relations:
		cfg.Model, cfg.Forward = "rgcn", !q.Inverse
	case len(q.EdgeFeatures) > 0:
		cfg.Model, cfg.EdgeFeatures = "gat", q.EdgeFeatures
	}
	dev := host.New(host.Options{Threads: q.Threads})
	info := dev.Info()
	if err := dev.Close(); err != nil {
		return err
	}
	// The loader outlives this call, so that its context is not the call's.
	ctx, cancel := context.WithCancel(context.Background())
	o := &loader{mu: new(sync.Mutex), of: s, cancel: cancel, room: &room{}}
	p := packer{layers: q.Layers, relations: q.Relations, edgeFeatures: len(q.EdgeFeatures) > 0, numbers: s.Manifest().NumberLabels(), sets: s.Manifest().LabelSets(), room: o.room}
	options := nodes.Options{Seeds: q.Seeds, Nodes: given, Sequential: !q.Shuffle, Full: q.DropLast, Rank: q.Rank, World: q.World, Info: info, Finish: p.finish}
	l, err := openWhole(ctx, s, cfg, options, q.Absent)
	if err != nil {
		cancel()
		return err
	}
	o.l, o.shift, o.packed = l, l.LabelShift, func(b *mini.Batch) (*packed, error) { return b.Extra.(*packed), nil }
	if l.Config().Plan == macro.Rows {
		p.columns = l.Features()
		o.packed = func(b *mini.Batch) (*packed, error) {
			return b.Extra.(*packed), b.Extra.(*packed).features(l.Features(), l.Rows())
		}
	}
	o.room.bound = l.BesideBytes()
	used := l.Config()
	c.reply.Handle = all.add(o)
	return c.answer(map[string]any{"plan": used.Plan, "buffer": used.Buffer, "features": used.Features, "seed": used.Seed, "why": l.Why(),
		"fanouts": used.Fanouts, "batch_size": used.BatchSize, "room_bytes": o.room.bound})
}

// bound gives a loader that was given neither a plan nor a bound of memory what the machine has for it, where the graph may not fit.
func bound(m *store.Manifest, plan string, buffer int, bytes *int64) {
	if plan == "auto" && buffer == 0 && *bytes == 0 {
		*bytes, _ = budget.Unasked(m, 0)
	}
}

// viewNodes is an array of the call's, which ends with it.
func viewNodes(c *call, array int) ([]store.NodeID, error) {
	if len(c.arrays) <= array {
		return nil, fmt.Errorf("%w: no array of nodes", store.ErrInvalid)
	}
	return blocks.View[store.NodeID](c.arrays[array])
}

// givenNodes copies an array of the call's to memory of the loader's, which outlives the call.
func givenNodes(c *call, array int) ([]store.NodeID, error) {
	v, err := viewNodes(c, array)
	return slices.Clone(v), err
}

// openWhole opens a loader of nodes, and sees to it that fanouts of all neighbours are all: over a part of the graph at a time they
// would be those that are in memory, which absent "ignore" asks for. Where the plan is left open it is then one of the whole graph.
func openWhole(ctx context.Context, s *store.Store, cfg config.Config, o nodes.Options, absent string) (*nodes.Loader, error) {
	if absent != "" && absent != config.AbsentIgnore {
		return nil, fmt.Errorf("%w: absent %q: expected %q, or nothing", store.ErrInvalid, absent, config.AbsentIgnore)
	}
	every := slices.Contains(cfg.Fanouts, mini.All) || strings.Contains(cfg.RelationFanouts, "-1")
	l, err := nodes.Open(ctx, s, cfg, o)
	if err != nil || !every || absent == config.AbsentIgnore {
		return l, err
	}
	m, chosen := s.Manifest(), l.Config()
	if chosen.Plan == macro.Memory || chosen.Plan == macro.Rows || chosen.Resident(m) == len(m.Partitions) {
		return l, nil
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	why := store.ErrInvalid
	if cfg.Plan == "" || cfg.Plan == "auto" {
		cfg.Plan = macro.Rows // the whole graph in memory, its features read by the batch
		if l, err = nodes.Open(ctx, s, cfg, o); err == nil {
			return l, nil
		} else if errors.Is(err, store.ErrBudget) {
			why = err // which names the smallest that works
		}
	}
	return nil, fmt.Errorf("fanouts of -1 are all neighbours, and plan %s has %d of %d partitions in memory, whose neighbours would be all that a node is given: "+
		"expected the whole graph: give more memory, or compute all nodes exactly by gstore.infer or gstore eval; absent=%q takes those in memory for all: %w",
		chosen.Plan, chosen.Resident(m), len(m.Partitions), config.AbsentIgnore, why)
}

// close stops the loader's goroutines. A call that waits ends with the loader's context.
func (o *loader) close() error {
	o.cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.end()
}

// end is close with mu held.
func (o *loader) end() error {
	if o.closed {
		return nil
	}
	o.closed = true
	err := o.l.Close()
	if o.table != nil {
		o.table.released(err)
	}
	return err
}

// free gives back what batches lie in; close comes before.
func (o *loader) free() { o.room.free() }

// startLoader begins an epoch, counted from 0, at a place in it. With arrays its batches are these seeds, uint64, cut at the
// ends, int64.
func startLoader(_ context.Context, c *call) error {
	var q struct {
		Epoch int            `json:"epoch"`
		Place progress.Place `json:"place"`
	}
	o, err := objectOf[*loader](c, "a loader")
	if err == nil {
		err = c.decode(&q)
	}
	if err != nil {
		return err
	}
	if min(q.Epoch, q.Place.Step, q.Place.Pass, q.Place.Batch) < 0 {
		return fmt.Errorf("%w: epoch %d, place %+v", store.ErrInvalid, q.Epoch, q.Place)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return store.ErrClosed
	}
	o.started = true
	if len(c.arrays) == 0 {
		return o.l.Start(q.Epoch, q.Place)
	}
	l, ok := o.l.(*nodes.Loader)
	if !ok || len(c.arrays) != 2 {
		return fmt.Errorf("%w: batches of given nodes in %d arrays of %T: expected nodes and ends, of a loader of nodes", store.ErrInvalid, len(c.arrays), o.l)
	}
	seeds, err := givenNodes(c, 0)
	if err != nil {
		return err
	}
	ends, err := blocks.View[int64](c.arrays[1])
	if err != nil {
		return err
	}
	return l.StartLists(q.Epoch, q.Place, seeds, slices.Clone(ends))
}

// arrayInfo says what an array of a batch is.
type arrayInfo struct {
	Name  string `json:"name"`
	Dtype string `json:"dtype"`
	Shape []int  `json:"shape"`
}

// batchInfo describes a batch; its arrays are the reply's.
type batchInfo struct {
	End          bool           `json:"end"` // of the epoch: nothing else is set
	Arrays       []arrayInfo    `json:"arrays"`
	BatchSize    int            `json:"batch_size"`
	Step         int            `json:"step"`
	Nodes        []int          `json:"nodes"` // by hop, the seeds first
	Edges        []int          `json:"edges"` // by hop
	SampledEdges int            `json:"sampled_edges"`
	Chunks       []int          `json:"chunks,omitempty"` // of a batch of edges: where chunks end, of tails and then of heads
	LabelShift   []float32      `json:"label_shift,omitempty"`
	Next         progress.Place `json:"next"`            // of the batch after
	Ahead        []arrayInfo    `json:"ahead,omitempty"` // of the batch after, where that is there: the last of the reply's arrays
}

// nextBatch waits for the next batch of the epoch. Asked for what is ahead, it also hands out the arrays of the batch after, if
// that is of the same step and sampled: they are valid as long as those of any batch, until the one after it is asked for.
func nextBatch(_ context.Context, c *call) error {
	var q struct {
		Ahead bool `json:"ahead"`
	}
	o, err := objectOf[*loader](c, "a loader")
	if err == nil {
		err = c.decode(&q)
	}
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || !o.started {
		return fmt.Errorf("%w: next before start, or after close", store.ErrClosed)
	}
	if !o.l.Next() {
		if err := o.l.Err(); err != nil {
			return err
		}
		return c.answer(batchInfo{End: true})
	}
	b := o.l.Batch()
	p, err := o.packed(b)
	if err != nil {
		return err
	}
	c.reply.Arrays = p.data
	info := batchInfo{Arrays: p.infos, BatchSize: p.size, Step: b.Key.Step, Nodes: p.nodes, Edges: p.edges, Chunks: p.chunks, SampledEdges: b.SampledEdges(), Next: o.l.Place()}
	if o.shift != nil {
		info.LabelShift = o.shift()
	}
	if !q.Ahead {
		return c.answer(info)
	}
	if after := o.l.Ready(); after != nil {
		next, err := o.packed(after)
		if err != nil {
			return err
		}
		info.Ahead, c.reply.Arrays = next.infos, slices.Concat(p.data, next.data)
	}
	return c.answer(info)
}

// loaderBatches answers with how many batches an epoch of nodes has, counted from 0.
func loaderBatches(ctx context.Context, c *call) error {
	var q struct {
		Epoch int `json:"epoch"`
	}
	o, err := objectOf[*loader](c, "a loader")
	if err == nil {
		err = c.decode(&q)
	}
	if err != nil {
		return err
	}
	l, ok := o.l.(*nodes.Loader)
	if !ok {
		return fmt.Errorf("%w: the batches of an epoch of %T are not known before", store.ErrInvalid, o.l)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return store.ErrClosed
	}
	n, err := l.Batches(ctx, q.Epoch)
	if err != nil {
		return err
	}
	return c.answer(map[string]int{"batches": n})
}

// loaderSlabs replies with the memory that the loader's batches lie in: whole slabs, which stay where they are.
func loaderSlabs(_ context.Context, c *call) error {
	o, err := objectOf[*loader](c, "a loader")
	if err != nil {
		return err
	}
	c.reply.Arrays = o.room.memory()
	return nil
}
