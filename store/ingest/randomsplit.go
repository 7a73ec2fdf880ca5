package ingest

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/source"
)

// RandomSplit divides an input that has no split: the nodes that have labels, or else the edges. Where a node
// or an edge goes depends on its id, its ends and relation, and the seed only: not on order, partitions
// or threads. Shares are kept in expectation. Edges equal in ends, in either direction, and relation go together, so
// that none is tested whose reverse was trained on.
type RandomSplit struct {
	Train, Valid, Test float64 // shares; their sum is 1
	Seed               uint64
	Unasked            bool // nobody asked for it, which is noted
}

// UnaskedSplit is how an input is divided that has something to learn and does not say of what: of nodes with labels .6 train, .2 are for
// validation and .2 for test; of triples .9, .05 and .05. It is nil for other inputs, and where they say it.
func UnaskedSplit(d *source.Description) *RandomSplit {
	if len(d.Splits)+len(d.EdgeLists) > 0 {
		return nil
	}
	labelled := slices.ContainsFunc(d.NodeColumns, func(c source.ColumnSpec) bool { return c.Role == store.RoleLabel })
	switch {
	case d.Task == store.TaskLink && !labelled:
		return &RandomSplit{Train: .9, Valid: .05, Test: .05, Unasked: true}
	case d.Task == store.TaskNode && labelled:
		return &RandomSplit{Train: .6, Valid: .2, Test: .2, Unasked: true}
	}
	return nil
}

// ParseRandomSplit reads "60/20/20" or "60/20/20:SEED": percentages.
func ParseRandomSplit(s string) (*RandomSplit, error) {
	bad := func() (*RandomSplit, error) {
		return nil, fmt.Errorf("%w: random split %q, expected percentages TRAIN/VALID/TEST that add up to 100, as 60/20/20 or 60/20/20:SEED", source.ErrOptions, s)
	}
	shares, seed, seeded := strings.Cut(s, ":")
	r := &RandomSplit{}
	if seeded {
		var err error
		if r.Seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
			return bad()
		}
	}
	parts := strings.Split(shares, "/")
	if len(parts) != 3 {
		return bad()
	}
	for k, to := range []*float64{&r.Train, &r.Valid, &r.Test} {
		x, err := strconv.ParseFloat(parts[k], 64)
		if err != nil || !(x >= 0 && x <= 100) {
			return bad()
		}
		*to = x / 100
	}
	if r.Train == 0 || math.Abs(r.Train+r.Valid+r.Test-1) > 1e-9 {
		return bad()
	}
	return r, nil
}

// part is where something goes whose identity is hashed to h.
func (r *RandomSplit) part(h uint64) uint8 {
	// splitmix64, so that near identities and seeds are independent.
	x := h + (r.Seed+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	switch u := float64((x^x>>31)>>11) / (1 << 53); {
	case u < r.Train:
		return store.SplitTrain
	case u < r.Train+r.Valid:
		return store.SplitValid
	}
	return store.SplitTest
}

// randomSplitName is what the split of nodes is called.
const randomSplitName = "split"

// withRandomSplit is src with a split of its nodes or edges.
func withRandomSplit(src source.Source, r *RandomSplit) (source.Source, error) {
	d := src.Describe()
	switch {
	case len(d.Splits) > 0:
		return nil, fmt.Errorf("%w: a random split of an input that has one already (%q)", source.ErrOptions, d.Splits)
	case len(d.EdgeLists) > 0:
		return nil, fmt.Errorf("%w: a random split of an input that has edges apart already (%q)", source.ErrOptions, d.EdgeLists)
	}
	s := &randomlySplit{Source: src, desc: *d, split: r}
	if d.Task == store.TaskNode {
		s.desc.Splits = []string{randomSplitName}
	} else {
		s.desc.Task, s.desc.Edges, s.ofEdges = store.TaskLink, -1, true
		for part, share := range map[uint8]float64{store.SplitValid: r.Valid, store.SplitTest: r.Test} {
			if share > 0 {
				s.parts = append(s.parts, part)
			}
		}
		if len(s.parts) == 2 {
			s.parts = []uint8{store.SplitValid, store.SplitTest}
		}
		for _, part := range s.parts {
			s.desc.EdgeLists = append(s.desc.EdgeLists, store.SplitNames()[part])
		}
		if r.Unasked {
			s.desc.Notes = append(slices.Clip(s.desc.Notes), "the input does not say which edges to predict: 5 % are kept to validate and 5 % to test, at random, and are no edges of the graph (--split-random divides them otherwise; none keeps all in the graph)")
		}
	}
	return source.KeyedAs(s, src), nil
}

// randomlySplit is a source with a random split. That of nodes is made by the run, which knows dense ids.
type randomlySplit struct {
	source.Source
	desc    source.Description
	split   *RandomSplit
	ofEdges bool
	parts   []uint8 // of desc.EdgeLists
}

// Describe implements [Source].
func (s *randomlySplit) Describe() *source.Description { return &s.desc }

// Edges implements [Source].
func (s *randomlySplit) Edges(ctx context.Context, env source.Env, emit func(int, *source.EdgeBatch) error) error {
	if !s.ofEdges {
		return s.Source.Edges(ctx, env, emit)
	}
	rooms := make([]source.EdgeBatch, env.Threads)
	return s.Source.Edges(ctx, env, func(worker int, b *source.EdgeBatch) error {
		return s.filter(b, &rooms[worker], store.SplitTrain, func(out *source.EdgeBatch) error { return emit(worker, out) })
	})
}

// EdgeList implements [Source].
func (s *randomlySplit) EdgeList(ctx context.Context, env source.Env, l int, emit func(*source.EdgeBatch) error) error {
	if !s.ofEdges {
		return s.Source.EdgeList(ctx, env, l, emit)
	}
	env.Threads = 1 // in order
	var room source.EdgeBatch
	return s.Source.Edges(ctx, env, func(_ int, b *source.EdgeBatch) error { return s.filter(b, &room, s.parts[l], emit) })
}

// filter hands the edges of b that are in part to emit, in room.
func (s *randomlySplit) filter(b, room *source.EdgeBatch, part uint8, emit func(*source.EdgeBatch) error) error {
	room.Src.Reset()
	room.Dst.Reset()
	room.RelationNames.Reset()
	room.Relations = room.Relations[:0]
	if len(room.Columns) != len(b.Columns) {
		room.Columns = make([][]byte, len(b.Columns))
	}
	for c := range room.Columns {
		room.Columns[c] = room.Columns[c][:0]
	}
	lines := room.At.Lines[:0]
	take := func(to, from *source.IDs, i int) {
		if from.Ends != nil {
			to.Append(from.At(i))
		} else {
			to.Ints = append(to.Ints, from.Ints[i])
		}
	}
	for i := range b.Len() {
		if s.split.part(edgeHash(b, i)) != part {
			continue
		}
		take(&room.Src, &b.Src, i)
		take(&room.Dst, &b.Dst, i)
		if b.Relations != nil {
			room.Relations = append(room.Relations, b.Relations[i])
		}
		if b.RelationNames.Len() > 0 {
			room.RelationNames.Append(b.RelationNames.At(i))
		}
		for c := range b.Columns {
			n := s.desc.EdgeColumns[c].RowBytes()
			room.Columns[c] = append(room.Columns[c], b.Columns[c][i*n:(i+1)*n]...)
		}
		lines = append(lines, b.At.Number(i))
	}
	room.At = source.Position{File: b.At.File, Unit: b.At.Unit, Lines: lines}
	if len(lines) == 0 {
		return nil
	}
	return emit(room)
}

// edgeHash identifies edge i: its ends, in no order, and its relation.
func edgeHash(b *source.EdgeBatch, i int) uint64 {
	end := func(ids *source.IDs) uint64 {
		h := fnv.New64a()
		if ids.Ends != nil {
			_, _ = h.Write(ids.At(i)) // a hash does not fail
		} else {
			_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, ids.Ints[i]))
		}
		return h.Sum64()
	}
	x := end(&b.Src) + end(&b.Dst)
	switch {
	case b.RelationNames.Len() > 0:
		x = x*31 + end(&b.RelationNames)
	case b.Relations != nil:
		x = x*31 + uint64(b.Relations[i])
	}
	return x
}
