// Package walk draws node2vec's random walks (Grover and Leskovec, "node2vec: Scalable Feature Learning for Networks", KDD 2016,
// section 3.2) over a whole graph, whose edges are in memory and nothing else of it.
//
// A walk goes along edges, each of a node's as likely, but that from t by v to x an edge counts 1/P if x is t, 1 if t has an edge to x, and
// 1/Q otherwise: a small P keeps near the start, a small Q leads away. With P = Q = 1 these are DeepWalk's. Parallel edges count
// each; weights are not read, and types of nodes and relations are not told apart.
//
//	w, err := walk.Open(ctx, st, walk.Options{Length: 20, PerNode: 5, Q: .5})
//	defer w.Close()
//	dst := make([]int64, 1000*20)
//	err = w.Read(ctx, 0, dst) // the first 1000
//
// Walk k begins at the node that is the k modulo n-th of n in the order of external ids, and its draws are keyed by (seed, k): walks do
// not depend on threads, on partitions or on which others are read.
package walk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/panics"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// None stands in a walk for the nodes behind one that no edge leads away from.
const None = -1

// Options say which walks there are. The zero value is node2vec's.
type Options struct {
	Length  int     // nodes of a walk, its first included; 0: 80
	PerNode int     // walks from each node; 0: 10
	P, Q    float64 // return and in-out parameter, > 0; 0: 1
	Seed    uint64
	// Internal names nodes by gstore's own numbers, as mini-batches do, instead of by their external ids, which must be integers then.
	Internal bool
	// MemoryBytes bounds the memory of the process, in bytes; 0: no bound.
	MemoryBytes int64
	Threads     int    // 0: all processors
	IOEngine    string // "": auto
}

// Validate reports what is wrong with o.
func (o *Options) Validate() error {
	switch {
	case o.Length < 0 || o.PerNode < 0 || o.Length > lengthMax || o.PerNode > math.MaxInt32:
		return fmt.Errorf("walks of %d nodes, %d from each: expected positive numbers, and at most %d nodes", o.Length, o.PerNode, lengthMax)
	case !(o.P >= 0 && o.Q >= 0) || math.IsInf(o.P+o.Q, 0) || math.IsInf(reciprocal(o.P)+reciprocal(o.Q), 0):
		return fmt.Errorf("walks with p %v and q %v: expected positive numbers", o.P, o.Q)
	case o.MemoryBytes < 0:
		return fmt.Errorf("walks within %d bytes of memory: expected 0 or more", o.MemoryBytes)
	}
	return nil
}

// lengthMax bounds a walk, in nodes.
const lengthMax = 1 << 20

// reciprocal is 1/x, 1 for 0.
func reciprocal(x float64) float64 {
	if x == 0 {
		return 1
	}
	return 1 / x
}

// Walks are those of a store's graph. Read is safe for concurrent use.
type Walks struct {
	o       Options
	it      *buffer.Buffer
	graph   *buffer.Adjacency
	keys    []uint32 // by row: the node's place in the order of external ids; lists are in that order
	rows    []uint32 // the inverse
	names   []int64  // by row; nil: keys are names
	key     keyed.Key
	back    float64 // 1/P
	away    float64 // 1/Q
	highest float64 // of 1/P, 1 and 1/Q
	lowest  float64
	tries   int // see biased
}

// tries are made of an edge before its law is computed.
const tries = 64

// Open reads the graph's edges. st must stay open until Close. It fails with [store.ErrBudget] where they do not fit in MemoryBytes, and with
// [store.ErrInvalid] where external ids are no integers and Internal is not set.
func Open(ctx context.Context, st *store.Store, o Options) (_ *Walks, err error) {
	if err := o.Validate(); err != nil {
		return nil, store.Invalid(err)
	}
	set := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	set(&o.Length, 80)
	set(&o.PerNode, 10)
	set(&o.Threads, runtime.GOMAXPROCS(0))
	m := st.Manifest()
	if m.IDs.Kind == store.IDsStrings && !o.Internal {
		return nil, fmt.Errorf("%w: the store's ids of nodes are %s, of which an array of walks has none: ask for gstore's own numbers", store.ErrInvalid, m.IDs.Kind)
	}
	if m.Nodes > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d nodes, expected fewer than 2^31", store.ErrInvalid, m.Nodes)
	}
	bo := buffer.Options{EngineName: o.IOEngine, Both: !m.Schema.Undirected, Keys: true, Threads: o.Threads}
	if o.MemoryBytes > 0 {
		beside := int64(budget.ProgramBytes) + chunkBytes + 16*int64(m.Nodes)
		bo.MemoryBytes = max(1, o.MemoryBytes-beside)
		defer func() {
			var small *buffer.BudgetError
			if errors.As(err, &small) {
				need := small.NeedBytes + beside
				err = fmt.Errorf("%w: %s; the smallest that works is %dMiB: walks hold all edges, and a number or two of each node, in memory",
					store.ErrBudget, blocks.SizeText(o.MemoryBytes), (need+1<<20-1)>>20)
			}
		}()
	}
	w := &Walks{o: o, key: keyed.New(o.Seed).With(placeWalks), back: reciprocal(o.P), away: reciprocal(o.Q), tries: tries}
	w.highest, w.lowest = max(w.back, 1, w.away), min(w.back, 1, w.away)
	if w.it, err = buffer.Open(ctx, st, bo); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.it.Close())
		}
	}()
	parts := len(m.Partitions)
	policy, err := macro.New(macro.Config{Policy: macro.Memory, Partitions: parts, Capacity: parts})
	if err != nil {
		return nil, err
	}
	if err := w.it.Start(policy.Epoch(0)); err != nil {
		return nil, err
	}
	if !w.it.Next() {
		return nil, fmt.Errorf("read edges: %w", w.it.Err())
	}
	mb := w.it.MacroBatch()
	if w.graph, w.keys = mb.In, mb.Keys; bo.Both {
		w.graph = mb.Out
	}
	return w, w.name(ctx, st, mb)
}

// placeWalks is the place of walks' draws.
const placeWalks = 0x77616c6b // "walk"

// name sets what nodes are called.
func (w *Walks) name(ctx context.Context, st *store.Store, mb *buffer.MacroBatch) (err error) {
	w.rows = make([]uint32, st.Manifest().Nodes)
	dense := st.Manifest().IDs.Kind == store.IDsDense && !w.o.Internal
	if !dense {
		w.names = make([]int64, mb.Rows)
	}
	var buf []byte
	for _, p := range mb.Partitions {
		for r := p.Base; r < p.Base+p.Nodes; r++ {
			w.rows[w.keys[r]] = r
		}
		switch {
		case dense: // places in the order of ids 0 … n−1 are these
		case w.o.Internal:
			for r := range p.Nodes {
				w.names[p.Base+r] = int64(p.First) + int64(r)
			}
		default:
			var ids store.ExternalIDs
			if ids, buf, err = st.ReadExternal(ctx, p.ID, buf); err != nil {
				return err
			}
			for r, id := range ids.Ints {
				if id > math.MaxInt64 {
					return fmt.Errorf("%w: node id %d, of which int64 has none: ask for gstore's own numbers", store.ErrInvalid, id)
				}
				w.names[int(p.Base)+r] = int64(id)
			}
		}
	}
	return nil
}

// Close frees the graph.
func (w *Walks) Close() error { return w.it.Close() }

// Len returns how many walks there are: PerNode from every node.
func (w *Walks) Len() uint64 { return uint64(len(w.rows)) * uint64(w.o.PerNode) }

// Length returns how many nodes a walk has, [None] included.
func (w *Walks) Length() int { return w.o.Length }

// pieceWalks are drawn together, so that their cache misses overlap.
const pieceWalks = 256

// Read writes walks first, first + 1, … to dst, row-major int64 [walks][Length]: as many as fit, which there must be.
func (w *Walks) Read(ctx context.Context, first uint64, dst []int64) error {
	n := len(dst) / w.o.Length
	if uint64(n) > w.Len() || first > w.Len()-uint64(n) {
		return fmt.Errorf("%w: walks %d to %d of %d", store.ErrInvalid, first, first+uint64(n), w.Len())
	}
	pieces := (n + pieceWalks - 1) / pieceWalks
	var next atomic.Int64
	var wg panics.Group
	for range min(w.o.Threads, pieces) {
		wg.Go(func() {
			p := newPiece(w)
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= pieces {
					return
				}
				lo, hi := i*pieceWalks, min((i+1)*pieceWalks, n)
				p.draw(first+uint64(lo), dst[lo*w.o.Length:hi*w.o.Length])
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}
