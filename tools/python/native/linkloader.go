package native

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// linkRequest is what a loader of links is made by. Field by field it is a [link.Config].
type linkRequest struct {
	Fanouts          []int   `json:"fanouts"`
	BatchSize        int     `json:"batch_size"`
	Negatives        int     `json:"negatives"`
	Chunks           int     `json:"chunks"`
	DegreeShare      float64 `json:"degree_share"`
	NegativesFrom    string  `json:"negatives_from"`
	RemoveBatchEdges *bool   `json:"remove_batch_edges"`
	KeepBatchEdges   float64 `json:"keep_batch_edges"`
	Plan             string  `json:"plan"`
	Buffer           int     `json:"buffer"`
	Logical          int     `json:"logical"`
	MemoryBytes      int64   `json:"memory_bytes"`
	Seed             uint64  `json:"seed"`
	Threads          int     `json:"threads"`
	IOEngine         string  `json:"io_engine"`
	Rank             int     `json:"rank"`
	World            int     `json:"world"`
	Table            int64   `json:"table"` // handle of the table whose rows the loader holds; 0: none
}

// openLinkLoader makes a loader of batches of a store's edges; the reply says how it was configured.
func openLinkLoader(ctx context.Context, c *call) error {
	var q linkRequest
	s, err := c.asked(&q)
	if err != nil {
		return err
	}
	if len(q.Fanouts) > 1 { // packLinks hands out one block
		return fmt.Errorf("%w: fanouts %v: expected one hop, the neighbours of an edge's ends and its wrong answers", store.ErrInvalid, q.Fanouts)
	}
	if q.Threads == 0 {
		q.Threads = runtime.GOMAXPROCS(0)
	}
	cfg := link.Config{Fanouts: q.Fanouts, BatchSize: q.BatchSize, Negatives: q.Negatives, Chunks: q.Chunks, DegreeShare: q.DegreeShare, NegativesFrom: q.NegativesFrom, RemoveBatchEdges: q.RemoveBatchEdges, KeepBatchEdges: q.KeepBatchEdges,
		Plan: q.Plan, Buffer: q.Buffer, Logical: q.Logical, MemoryBytes: q.MemoryBytes, Seed: q.Seed, Threads: q.Threads, IOEngine: q.IOEngine}
	bound(s.Manifest(), cfg.Plan, cfg.Buffer, &cfg.MemoryBytes)
	if len(q.Fanouts) > 0 {
		cfg.Encoder = "sage"
	}
	dev := host.New(host.Options{Threads: q.Threads})
	relations := len(s.Manifest().Schema.Relations) > 1
	o := &loader{mu: new(sync.Mutex), room: &room{}, packed: func(b *mini.Batch) (*packed, error) { return link.EdgesOf(b).Extra.(*packed), nil }}
	options := link.LoaderOptions{Rank: q.Rank, World: q.World, Info: dev.Info(), Finish: func(mb *buffer.MacroBatch, b *mini.Batch, e *link.Edges) error {
		return packLinks(o.room, relations, mb, b, e)
	}}
	if err := dev.Close(); err != nil {
		return err
	}
	var e *embeddings
	if q.Table != 0 {
		all.mu.Lock()
		of := call{object: all.objects[q.Table]}
		all.mu.Unlock()
		var done func()
		if e, done, err = of.embeddings(); err != nil {
			return err
		}
		defer done()
		if v := s.Manifest().Version; v != e.manifest.Version {
			return fmt.Errorf("%w: a table of version %d of a store, the loader is of version %d", store.ErrInvalid, e.manifest.Version, v)
		}
		if err := e.lend(ctx); err != nil {
			return err
		}
		cfg.Dim, cfg.Optimizer, o.mu, options.Table = e.table.Dim(), e.state.Optimizer, e.mu, e.table
	}
	life, cancel := context.WithCancel(context.Background()) // the loader outlives this call
	l, err := link.OpenLoader(life, s, cfg, options)
	if err != nil {
		cancel()
		if e != nil {
			err = errors.Join(err, e.renew(e.frames))
		}
		return err
	}
	o.l, o.cancel, o.room.bound = l, cancel, l.BesideBytes()
	if e != nil {
		e.heldBy(o, l)
	}
	used := l.Config()
	c.reply.Handle = all.add(o)
	return c.answer(map[string]any{"plan": used.Plan, "buffer": used.Buffer, "logical": used.Logical, "fanouts": used.Fanouts, "batch_size": used.BatchSize,
		"negatives": used.Negatives, "chunks": used.Chunks, "negatives_from": used.NegativesFrom, "remove_batch_edges": *used.RemoveBatchEdges, "keep_batch_edges": used.KeepBatchEdges, "seed": used.Seed, "why": l.Why(), "room_bytes": o.room.bound})
}

// packLinks is [link.LoaderOptions].Finish: it copies what a batch of edges is of into memory outside the Go heap. Blocks of
// a store of several relations have an edge_type, also one of no edges.
func packLinks(r *room, relations bool, mb *buffer.MacroBatch, b *mini.Batch, e *link.Edges) error {
	n, each := len(e.Heads), len(e.Negatives[0])
	p := packedIn(&e.Extra, n)
	p.everything(b)
	p.locate(b.Input)
	p.chunks = append(append(p.chunks, e.Ends[0]...), e.Ends[1]...)
	chunks := len(e.Ends[0])
	p.want("n_id", "int64", len(p.local))
	for _, name := range []string{"head", "tail", "relation"} {
		p.want(name, "int64", n)
	}
	p.want("negatives", "int64", 2, chunks, each/chunks)
	p.want("mask", "int64", len(e.Mask))
	p.want("order", "int64", 2, n)
	relations = relations && len(b.Blocks) > 0
	if len(b.Blocks) > 0 {
		p.want("edge_index", "int64", 2, len(b.Blocks[0].Indices))
	}
	if relations {
		p.want("edge_type", "int64", len(b.Blocks[0].Indices))
	}
	if err := p.place(r); err != nil {
		return err
	}
	p.ids(mb, ints(p.data[0]))
	widen(ints(p.data[1]), e.Heads)
	widen(ints(p.data[2]), e.Tails)
	widen(ints(p.data[3]), e.Relations)
	negatives := ints(p.data[4])
	widen(negatives[:each], e.Negatives[0])
	widen(negatives[each:], e.Negatives[1])
	copy(ints(p.data[5]), e.Mask)
	order := ints(p.data[6])
	widen(order[:n], e.Order[0])
	widen(order[n:], e.Order[1])
	if len(b.Blocks) > 0 {
		pairsOf(&b.Blocks[0], ints(p.data[7]))
	}
	if relations {
		widen(ints(p.data[8]), b.Blocks[0].Relations)
	}
	return nil
}

// widen copies numbers to int64.
func widen[T uint16 | uint32](to []int64, from []T) {
	for i, v := range from {
		to[i] = int64(v)
	}
}
