package generate

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
)

// Source offers a graph to package ingest, so that it becomes a store without
// files in between. options is everything the graph depends on: a resumed
// ingest refuses to go on with others. Of o the shares of the splits matter.
// The store is, to the byte, the one that the written files would give.
func Source(g Graph, options any, o WriteOptions) (ingest.Source, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	s := &source{g: g, o: o}
	if err := s.describe(g.Info(), struct {
		Options            any
		Train, Valid, Test float64
	}{options, o.Train, o.Valid, o.Test}); err != nil {
		return nil, err
	}
	i := g.Info()
	if i.Dim > 0 {
		s.desc.NodeColumns = append(s.desc.NodeColumns, ingest.ColumnSpec{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: i.Dim, Rows: int64(i.Nodes)})
	}
	if i.Classes > 0 {
		s.desc.Task = store.TaskNode
		s.desc.NodeColumns = append(s.desc.NodeColumns, ingest.ColumnSpec{Name: "label", Role: store.RoleLabel, Elem: blocks.Int64, Dim: 1, Rows: int64(i.Nodes)})
		s.desc.Splits = []string{"split"}
	}
	return s, nil
}

// SourceKG is [Source] for a knowledge graph.
func SourceKG(g *KG, options any) (ingest.Source, error) {
	s := &source{kg: g}
	if err := s.describe(g.Info(), options); err != nil {
		return nil, err
	}
	s.desc.Task, s.desc.HasRelation = store.TaskLink, true
	for r := range g.info.Relations {
		s.desc.Relations = append(s.desc.Relations, strconv.Itoa(r))
	}
	s.desc.EdgeLists = []string{"valid", "test"}
	return s, nil
}

// source is one of g and kg.
type source struct {
	g    Graph
	kg   *KG
	o    WriteOptions
	desc ingest.Description
}

func (s *source) describe(i Info, options any) error {
	text, err := json.Marshal(options)
	if err != nil {
		return err
	}
	s.desc = ingest.Description{Format: "generated", Input: i.Kind + " " + string(text), IDs: store.IDsDense,
		Nodes: int64(i.Nodes), Edges: int64(i.Edges), NodeTypes: []ingest.NodeType{{Name: "node", Count: int64(i.Nodes)}}}
	return nil
}

func (s *source) Describe() *ingest.Description { return &s.desc }
func (s *source) Close() error                  { return nil }

// sourceChunk is how many items are handed over at a time.
const sourceChunk = 1 << 15

func (s *source) at(unit string, first uint64) ingest.Position {
	return ingest.Position{File: s.desc.Input, Unit: unit, Index: first}
}

// Edges implements ingest.Source: every thread takes chunks.
func (s *source) Edges(ctx context.Context, env ingest.Env, emit func(int, *ingest.EdgeBatch) error) error {
	edges := uint64(s.desc.Edges)
	var next atomic.Uint64
	group, ctx := errgroup.WithContext(ctx)
	for worker := range max(1, env.Threads) {
		group.Go(func() error {
			var b ingest.EdgeBatch
			var triples []Triple
			for {
				first := (next.Add(1) - 1) * sourceChunk
				if first >= edges {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				n := int(min(sourceChunk, edges-first))
				b.At = s.at("edge", first)
				if s.kg != nil {
					triples = s.triples(&b, triples, first, n)
				} else {
					b.Src.Ints, b.Dst.Ints = grow(b.Src.Ints, n), grow(b.Dst.Ints, n)
					s.g.Edges(first, b.Src.Ints, b.Dst.Ints)
				}
				if err := emit(worker, &b); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// triples fills b with n triples from first on, using t's memory.
func (s *source) triples(b *ingest.EdgeBatch, t []Triple, first uint64, n int) []Triple {
	t = grow(t, n)
	s.kg.Triples(first, t)
	b.Src.Ints, b.Dst.Ints, b.Relations = grow(b.Src.Ints, n), grow(b.Dst.Ints, n), grow(b.Relations, n)
	for i, x := range t {
		b.Src.Ints[i], b.Relations[i], b.Dst.Ints[i] = x.Head, uint32(x.Relation), x.Tail
	}
	return t
}

// Rows implements ingest.Source.
func (s *source) Rows(ctx context.Context, _ ingest.Env, c int, emit func([]byte, ingest.Position) error) error {
	column, nodes := &s.desc.NodeColumns[c], uint64(s.desc.Nodes)
	rows := uint64(max(1, chunkBytes/column.RowBytes()))
	var floats []float32
	var labels []int64
	for first := uint64(0); first < nodes; first += rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := int(min(rows, nodes-first))
		var b []byte
		if column.Role == store.RoleFeature {
			floats = grow(floats, n*column.Dim)
			s.g.Features(first, floats)
			b = blocks.Bytes(floats)
		} else {
			labels = grow(labels, n)
			s.g.Labels(first, labels)
			b = blocks.Bytes(labels)
		}
		if err := emit(b, s.at("node", first)); err != nil {
			return err
		}
	}
	return nil
}

// Split implements ingest.Source.
func (s *source) Split(ctx context.Context, _ ingest.Env, _ int, part uint8, emit func(*ingest.IDs, ingest.Position) error) error {
	if part < store.SplitTrain || part > store.SplitTest {
		return nil
	}
	from, to := s.o.part(int(part-store.SplitTrain), uint64(s.desc.Nodes))
	var ids ingest.IDs
	for ; from < to; from += uint64(ids.Len()) {
		if err := ctx.Err(); err != nil {
			return err
		}
		ids.Ints = grow(ids.Ints, int(min(sourceChunk, to-from)))
		for i := range ids.Ints {
			ids.Ints[i] = s.g.Split(from + uint64(i))
		}
		if err := emit(&ids, s.at("entry", from)); err != nil {
			return err
		}
	}
	return nil
}

// part returns the entries of the deal that are part k of train, valid and test.
func (o *WriteOptions) part(k int, nodes uint64) (from, to uint64) {
	sum := 0.
	for i, share := range []float64{o.Train, o.Valid, o.Test} {
		from = to
		sum += share
		to = min(nodes, uint64(math.Round(float64(nodes)*sum)))
		if i == k {
			break
		}
	}
	return from, to
}

// EdgeList implements ingest.Source.
func (s *source) EdgeList(ctx context.Context, _ ingest.Env, l int, emit func(*ingest.EdgeBatch) error) error {
	train, valid, test := s.kg.Parts()
	from, to := train, train+valid
	if l == 1 {
		from, to = to, to+test
	}
	var b ingest.EdgeBatch
	var t []Triple
	for n := 0; from < to; from += uint64(n) {
		if err := ctx.Err(); err != nil {
			return err
		}
		n = int(min(sourceChunk, to-from))
		b.At = s.at("triple", from)
		t = s.triples(&b, t, from, n)
		if err := emit(&b); err != nil {
			return err
		}
	}
	return nil
}

// Names implements ingest.Source; generated nodes have none.
func (s *source) Names(context.Context, ingest.Env, func(*ingest.IDs, ingest.Position) error) error {
	return nil
}
