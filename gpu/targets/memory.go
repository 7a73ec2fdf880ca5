package targets

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/meter"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
)

// Holders of a run's memory, beside the program.
const (
	holdsGraph   = "graph"
	holdsTimes   = "times and types of rows"
	holdsTable   = "training table"
	holdsModel   = "model"
	holdsItems   = "items"
	holdsBatch   = "mini-batches"
	holdsSampled = "sampled batch"
	holdsCopy    = "copy of the model"
)

// use is what a graph is opened for.
type use struct {
	entity   string // type of the seeds
	examples int    // of all parts
	saved    int64  // bytes of the model's file, of one that was trained before
	train    bool
	kind     kind
	listed   int // elements of lists of targets
	past     int // earlier targets of the model's file
}

// keyBytes is what a row of a training table takes with its key, and exampleBytes as an example.
const (
	keyBytes     = 16 + 32 + 8 + 8 + 8
	exampleBytes = 24
	wordBytes    = 64 // of a target that is a word, or of each of a list
)

// forecast says who holds what of a run of cfg, which is normalized. Tensors are counted by running the model on a [meter.Device] with a batch
// of the largest size: of rows all of whose relations have as many neighbours as are sampled, or as the graph has at most, which most
// says ([stats.MostIn]).
func forecast(ctx context.Context, st *store.Store, info gpu.Info, cfg *Config, o buffer.Options, u use, most []int) (a budget.Account, err error) {
	m := st.Manifest()
	f, err := buffer.OpenForecaster(ctx, st, o)
	if err != nil {
		return a, err
	}
	graph, err := f.LeastBytes(0)
	if err = errors.Join(err, f.Close()); err != nil {
		return a, err
	}
	largest := uint64(0) // partition, whose times are read at once
	for _, p := range m.Partitions {
		largest = max(largest, p.Nodes)
	}
	a.TotalBytes = cfg.MemoryBytes
	a.Hold(budget.Program, budget.ProgramBytes, false)
	a.Hold(holdsGraph, graph, false)
	a.HoldHeap(holdsTimes, 10*int64(m.Nodes)+8*int64(largest))
	a.HoldHeap(holdsTable, (keyBytes+exampleBytes)*int64(u.examples)+wordBytes*int64(u.listed)+u.kind.pastBytes(max(u.past, u.examples), u.train))
	if u.kind.recommending() { // vectors, popularity and keys of items, and where they are
		a.HoldHeap(holdsItems, int64(u.kind.items)*int64(4*cfg.Hidden+5*4+8+16+64))
	}
	dev := meter.New(info)
	d := describe(m, cfg, u.entity)
	if u.kind.past > 0 {
		d.past = &past{width: u.kind.past}
	}
	if u.kind.vectors > 0 {
		d.items = &items{d: d, kind: u.kind.itemType}
	}
	d.mb = &buffer.MacroBatch{Rows: 1}
	for _, name := range o.Features {
		c, err := m.Column(name)
		if err != nil {
			return a, err
		}
		d.mb.Features = append(d.mb.Features, buffer.Column{Name: c.Name, Type: c.Elem, Dim: c.Dim, Stride: c.RowBytes(), Scale: c.Scale, Data: make([]byte, c.RowBytes())})
	}
	model, err := newModel(ctx, dev, cfg, d, u.kind, 4*len(m.Schema.Relations))
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, model.close()) }()
	values := (model.params.Bytes() + model.gnn.Params().Bytes()) / 5
	copies := u.saved + values
	if u.train {
		copies = 5 * values // a checkpoint's state, and the model's file
		if cfg.averages() {
			copies += values
		}
		if err := model.openAverage(); err != nil {
			return a, err
		}
	}
	held := dev.Bytes()
	model.arena.Bound(math.MaxInt64 / 2) // one chunk: tensors are counted, not chunks
	b, err := d.largest(m, cfg, u.entity, most)
	if err != nil {
		return a, err
	}
	var x *items
	if u.kind.recommending() {
		x = d.largestChoice(b, &u.kind, cfg.BatchSize)
	}
	switch {
	case u.train:
		_, err = model.step(ctx, b)
	case u.kind.recommending():
		b.choice.items = nil
		_, err = model.bestOf(ctx, x, b, make([]float32, len(x.rows)*cfg.Hidden), make([]float32, len(x.rows)), shares)
	default:
		_, err = model.predict(ctx, b)
	}
	if err != nil {
		return a, fmt.Errorf("what a mini-batch takes: %w", err)
	}
	if !info.OwnMemory() {
		a.Hold(holdsModel, held, false)
		a.Hold(holdsBatch, model.arena.Peak(), false)
	}
	a.HoldHeap(holdsSampled, d.batchBytes(b))
	a.HoldHeap(holdsCopy, copies)
	return a, nil
}

// rowsMost bounds the rows of a batch.
const rowsMost = 1 << 24

// largest makes a batch whose rows have, by each relation of their table, as many neighbours as are sampled, or as any row has, most. A row refers
// to one other by a relation at most.
func (d *data) largest(m *store.Manifest, cfg *Config, entity string, most []int) (*batch, error) {
	type way struct{ relation, to, most int }
	ways := make([][]way, len(d.names)) // by type
	n := len(m.Schema.Relations)
	for r := range n {
		src, dst, ok := m.Schema.Ends(store.RelationID(r))
		if !ok {
			return nil, fmt.Errorf("%w: relation %q does not say which tables it is between", store.ErrInvalid, m.Schema.Relations[r].Name)
		}
		ways[dst] = append(ways[dst], way{r, src, most[r]})
		ways[src] = append(ways[src], way{n + r, dst, 1})
	}
	kind := 0
	for t, name := range d.names {
		if name == entity {
			kind = t
		}
	}
	b := &batch{}
	types := make([]int, cfg.BatchSize)
	for i := range types {
		types[i] = kind
	}
	b.Seeds = make([]uint32, cfg.BatchSize)
	hops := len(cfg.Fanouts)
	b.Blocks = make([]mini.Block, hops)
	for h, fanout := range cfg.Fanouts {
		k := &b.Blocks[hops-1-h]
		k.NumDst, k.Indptr = len(types), []int32{0}
		for _, t := range types[:k.NumDst] {
			for _, w := range ways[t] {
				for i := range min(fanout, w.most) {
					at := int32(len(types))
					types = append(types, w.to)
					k.Indices, k.Relations = append(k.Indices, at), append(k.Relations, uint16(w.relation))
					if i < *cfg.Recent && w.relation < n {
						k.Indices, k.Relations = append(k.Indices, at), append(k.Relations, uint16(w.relation+2*n))
					}
				}
			}
			k.Indptr = append(k.Indptr, int32(len(k.Indices)))
			if len(types) > rowsMost {
				return nil, fmt.Errorf("%w: a mini-batch of %d seeds may have more than %d rows: use a smaller --batch-size or --fanouts", store.ErrInvalid, cfg.BatchSize, rowsMost)
			}
		}
		k.NumSrc = len(types)
	}
	b.Input, b.Times = make([]uint32, len(types)), make([]int64, len(types))
	d.emptyParts(b)
	for i, t := range types {
		p := &b.parts[t]
		p.at = append(p.at, uint32(i))
		for k := range p.places {
			p.places[k] = append(p.places[k], 0)
		}
		for k := range p.categories {
			p.categories[k] = append(p.categories[k], 0)
		}
		p.moving = append(p.moving, make([]float32, d.movingColumns(t))...)
	}
	for range cfg.BatchSize {
		b.season, b.truth.targets, b.truth.lists = appendSeason(b.season, 0), append(b.truth.targets, 0), append(b.truth.lists, nil)
		b.season = append(d.past.appendNone(b.season), make([]float32, d.throughColumns())...)
	}
	return b, nil
}

// largestChoice makes a batch one of the most items, pairs and moments.
func (d *data) largestChoice(b *batch, k *kind, seeds int) *items {
	c := &b.choice
	x := &items{d: d, kind: k.itemType, rows: make([]uint32, min(k.items, candidatesMost))}
	c.items, c.pairs = counting(len(x.rows)), make([]pair, seeds*min(k.items, pairsMost))
	c.history = make([]float32, historyColumns*len(c.pairs))
	c.places, c.moments = make([]int, seeds), make([]int64, min(seeds, gridMost))
	c.popular = make([]float32, len(c.moments)*len(c.items)*popularColumns*max(k.popular, 1))
	x.readItems(b)
	return x
}

// batchBytes is what a batch takes of the heap: its lists, which are up to twice as long as was asked for, and what groups its edges.
func (d *data) batchBytes(b *batch) int64 {
	n := 12*int64(len(b.Input)) + 4*int64(len(b.season)+len(b.truth.targets))
	c := &b.choice
	n += 4*int64(len(c.history)+len(c.popular)+4*len(c.items)+len(c.items)*len(b.Seeds)*2) + 160*int64(len(c.pairs))
	for _, k := range b.Blocks {
		n += 4*int64(len(k.Indptr)) + (6+40)*int64(len(k.Indices))
	}
	for _, p := range b.parts {
		n += 4 * int64(len(p.at)*(1+len(p.places)+len(p.categories))+len(p.moving))
	}
	return 2 * n
}
